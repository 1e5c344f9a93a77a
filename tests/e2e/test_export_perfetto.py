# rooms: view/export
"""
`watchctl export --to perfetto`: a reader of protobuf and of Perfetto's messages finds every call, access and value that
`watchctl report --json` has, at the same times.
"""
import json
import os
import pty
import subprocess
from collections import Counter, defaultdict

import export_readers as read
import pytest
from conftest import BUILD, WAIT, WATCHCTL

USAGE = 2


def watchctl(*args):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return r.stdout


def report(log, *args):
    return [json.loads(line) for line in watchctl("report", "--json", *args, log).decode().split("\n")[:-1]]


def export(log, *args):
    return read.perfetto(watchctl("export", log, "--to", "perfetto", *args))


def make(generator, path, *args):
    subprocess.run([BUILD / "tests" / "bench" / generator, *args, path], check=True, timeout=WAIT)
    return path


@pytest.fixture(scope="module", params=["steps", "calls", "gap"])
def calls(request, tmp_path_factory):
    """Of LLDB's recorder, of `watchctl trace`, and one of those that misses events."""
    args = {"steps": ["steplog-gen", "-n", "3000", "-t", "3"], "calls": ["calllog-gen", "-n", "5000", "-t", "2"],
            "gap": ["calllog-gen", "-n", "5000", "-t", "3", "-g"]}[request.param]
    return make(args[0], tmp_path_factory.mktemp("log") / "log", *args[1:])


@pytest.fixture(scope="module")
def accesses(tmp_path_factory):
    return make("accesslog-gen", tmp_path_factory.mktemp("log") / "log", "-n", "3000", "-w", "2", "-t", "5", "-c", "90")


def thread_of(event):
    return event["track"]["thread"]["pid"], event["track"]["thread"]["tid"]


def expected_slices(objects):
    """Of each thread its slices: [call, function, depth, begin, end, how it ended]."""
    threads, stacks, last = defaultdict(list), defaultdict(list), {}
    for o in objects:
        if o["type"] not in ("call", "return"):
            continue
        key = o["pid"], o["tid"]
        stack, now = stacks[key], max(o["time_ns"], last.get(key, 0))
        last[key] = now
        if o["type"] == "call":
            for s in stack[o["depth"]:]:
                s[4:] = [now, "unknown"]
            del stack[o["depth"]:]
            stack.append([o["call"], o["function"], len(stack), now])
            threads[key].append(stack[-1])
        elif o["call"] in [s[0] for s in stack]:
            while True:
                s = stack.pop()
                s[4:] = [now, o.get("how", "returned") if s[0] == o["call"] else "unknown"]
                if s[0] == o["call"]:
                    break
    for s in (s for stack in stacks.values() for s in stack):
        s[4:] = [None, "the log ends"]
    return threads


def test_slices_are_the_calls_of_the_report_nested_alike(calls):
    objects = report(calls)
    events, _, _ = export(calls)
    end = max(o["time_ns"] for o in objects if o["type"] in ("call", "return"))
    found, depth, begun = defaultdict(list), Counter(), {}
    for e in events:
        if e["type"] == "begin":
            key = thread_of(e)
            begun[id(e)] = [e["args"]["call"], e["name"], depth[key], e["ns"]]
            found[key].append(begun[id(e)])
            depth[key] += 1
        elif e["type"] == "end":
            depth[thread_of(e)] -= 1
            begun[id(e["begin"])].extend([e["ns"], e["args"].get("ended", "returned")])
    expected = expected_slices(objects)
    for slices in expected.values():
        for s in slices:
            if s[4] is None:
                s[4] = end
    assert found == expected
    assert sum(map(len, found.values())) == sum(o["type"] == "call" for o in objects) > 1000


def test_calls_have_their_parameters_and_results(tmp_path):
    log = make("steplog-gen", tmp_path / "log", "-n", "900", "-t", "3")
    objects = report(log)
    args = {o["call"]: ", ".join(f"{a['name']} = {a['text']}" for a in o["args"]) for o in objects if o["type"] == "call"}
    results = {o["call"]: o["ret"]["text"] for o in objects if o["type"] == "return" and "ret" in o}
    events, _, _ = export(log)
    begins = {e["args"]["call"]: e for e in events if e["type"] == "begin"}
    ends = {e["begin"]["args"]["call"]: e for e in events if e["type"] == "end"}
    assert {c: e["args"].get("parameters", "") for c, e in begins.items()} == args
    assert {c: e["args"]["returned"] for c, e in ends.items() if "returned" in e["args"]} == results
    assert len(results) > 100 and any(args.values())


def test_instants_are_the_accesses_and_tags_of_the_report(accesses):
    objects = report(accesses)
    events, tracks, clocks = export(accesses)
    seen = [(e["ns"], *thread_of(e), e["name"], e["args"]["watch"], e["args"]["kind"], e["args"]["old"], e["args"]["new"],
             e["args"]["old_raw"], e["args"]["new_raw"]) for e in events if e.get("category") == "access"]
    assert seen == [(o["time_ns"], o["pid"], o["tid"], f"{o['kind']} {o['watch']}", o["watch"], o["kind"], o["old_text"],
                     o["new_text"], o["old"], o["new"]) for o in objects if o["type"] == "access"]
    assert len(seen) == 3000
    assert all(e["args"]["stack"].startswith(("set_it < f1_", "get_it < look < f1_"))
               for e in events if e.get("category") == "access")
    tags = [(e["ns"], thread_of(e)[1], e["name"], e["args"]["tag"], int(e["args"]["value"], 16)) for e in events
            if e.get("category") == "stack"]
    assert [t[4] for t in tags] == list(range(90))
    assert Counter(t[3] for t in tags) == {"begin": 30, "cache miss": 30, "7": 30}
    assert all(name == f"tag {tag}" for _, _, name, tag, _ in tags)
    assert Counter(e["type"] for e in events if "stack" in e["args"]) == {"instant": 3090}
    assert not any("stack" in e["args"] for e in export(accesses, "--no-stack")[0])
    # The generator's own: the time of day of the first event.
    assert clocks == {3: 5_000_000_000, 1: 1_700_000_000_000_000_000}
    assert {t["thread"]["tid"] for t in tracks.values() if "thread" in t} == {4000 + k for k in range(5)}
    assert [t["process"]["pid"] for t in tracks.values() if "process" in t] == [4000]


def test_counters_have_the_value_where_it_changes(accesses):
    events, tracks, _ = export(accesses)
    objects = report(accesses)
    process = next(u for u, t in tracks.items() if "process" in t)
    curves = defaultdict(list)
    for e in events:
        if e["type"] == "counter":
            assert e["track"]["parent"] == process
            curves[e["track"]["name"]].append((e["ns"], e["value"]))
    for watch in ("flag0", "flag1"):
        # A write adds one; before the first, the variable is 0.
        writes = [(o["time_ns"], i + 1) for i, o in enumerate(o for o in objects if o["type"] == "access"
                                                           and o["watch"] == watch and o["kind"] == "write")]
        curve = curves.pop(watch)
        assert curve[0][1] == 0 and curve[1:] == writes and len(writes) > 500
    assert not curves


def test_probes_are_instants_with_their_text(tmp_path):
    log = make("probelog-gen", tmp_path / "log")
    events, _, _ = export(log)
    probes = [o for o in report(log) if o["type"] == "probe"]
    want = [(o["time_ns"], o["tid"], f"probe {o['probe']}", "stack" in o) for o in probes]
    seen = [(e["ns"], thread_of(e)[1], e["name"], "stack" in e["args"]) for e in events if e.get("category") == "probe"]
    assert seen == want and {stack for *_, stack in want} == {False, True}
    texts = [e["args"]["text"] for e in events if e.get("category") == "probe"]
    assert all(t == o["text"] if "text" in o else f"({int(o['value'], 16)})" in t for t, o in zip(texts, probes))


def test_withheld_values_are_not_in_the_bytes(accesses, tmp_path):
    out = watchctl("export", accesses, "--to", "perfetto", "--no-values")
    events, _, _ = read.perfetto(out)
    assert sum(e.get("category") == "access" for e in events) == 3000
    assert not any(e["type"] == "counter" or {"old_raw", "new_raw"} & set(e["args"]) for e in events)
    shown = Counter(e["args"][k] for e in events for k in ("old", "new", "value") if k in e["args"])
    assert shown == {"(withheld)": 2 * 3000 + 90}
    log = make("steplog-gen", tmp_path / "log", "-n", "900", "-t", "3")
    texts = {a["text"].encode() for o in report(log) if o["type"] == "call" for a in o["args"] if a["text"][:1] == '"'}
    plain, hidden = (watchctl("export", log, "--to", "perfetto", *args) for args in ([], ["--no-values"]))
    assert texts and all(t in plain and t not in hidden for t in texts)


def test_a_part_of_a_log_is_chosen_as_in_the_report(calls):
    tid = next(o["tid"] for o in report(calls) if o["type"] == "call")
    for choice in (["--depth", "2"], ["--thread", str(tid)]):
        want = [(o["call"], o["function"]) for o in report(calls, *choice) if o["type"] == "call"]
        assert [(e["args"]["call"], e["name"]) for e in export(calls, *choice)[0] if e["type"] == "begin"] == want


def test_into_a_directory_it_has_the_suffix_that_the_viewer_knows(accesses, tmp_path):
    assert watchctl("export", accesses, "--to", "perfetto", "-o", tmp_path) == \
        f"{tmp_path}/log.perfetto-trace: 3000 accesses, 90 captured stacks\n".encode()
    assert (tmp_path / "log.perfetto-trace").read_bytes() == watchctl("export", accesses, "--to", "perfetto")


@pytest.mark.parametrize("there", [[], ["-o", "/dev/stdout"]])
def test_it_is_not_written_to_a_terminal(accesses, there):
    main, terminal = pty.openpty()
    try:
        r = subprocess.run([WATCHCTL, "export", accesses, "--to", "perfetto", *there], stdout=terminal,
                           stderr=subprocess.PIPE, text=True, timeout=WAIT)
        os.set_blocking(main, False)
        with pytest.raises(BlockingIOError):
            os.read(main, 1)
    finally:
        os.close(terminal)
        os.close(main)
    assert r.returncode == USAGE and "terminal" in r.stderr and "-o FILE" in r.stderr and r.stderr.count("\n") == 1
