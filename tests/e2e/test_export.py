# rooms: view/export
"""
`watchctl export`: each format is read by a reader that knows nothing of watchctl (jq, sqlite3, Graphviz, and those in
export_readers.py), and held to what is known without the log: the account of the program that wrote it.
"""
import contextlib
import csv
import fcntl
import io
import json
import os
import pty
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import export_readers as read  # noqa: E402
import tracelog_py as log_reader  # noqa: E402
from conftest import BUILD, WAIT, WATCHCTL, peak_memory, wait_until  # noqa: E402

USAGE, NAME, LOG = 2, 5, 8
FORMATS = ["chrome", "folded", "speedscope", "csv", "jsonl", "dot", "perf-script", "callgrind", "perfetto"]
BEGIN, EPOCH = 5_000_000_000, 1_700_000_000_000_000_000


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    """logs("accesslog-gen", "-n", "5") -> a log, written once."""
    folder, made = tmp_path_factory.mktemp("logs"), {}

    def make(program, *args):
        key = (program, *args)
        if key not in made:
            made[key] = folder / str(len(made))
            subprocess.run([BUILD / "tests" / "bench" / program, *args, made[key]], check=True, timeout=WAIT)
        return made[key]

    return make


@pytest.fixture(scope="session")
def plain(logs):
    return logs("accesslog-gen", "-n", "3000", "-c", "90", "-w", "2", "-t", "5", "-f", "6")


@pytest.fixture(scope="session")
def hostile(logs):
    return logs("accesslog-gen", "-n", "600", "-c", "300", "-w", "16", "-t", "20", "-f", "30", "-x")


@pytest.fixture(scope="session")
def steps(logs):
    return logs("steplog-gen", "-n", "900", "-t", "3")


def export(log, to, *args, status=0, **kw):
    r = subprocess.run([WATCHCTL, "export", str(log), "--to", to, *map(str, args)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=WAIT, **kw)
    assert r.returncode == status, (r.returncode, r.stderr)
    return r.stderr.decode() if status else r.stdout if to == "perfetto" else r.stdout.decode()


def report(log, *args):
    r = subprocess.run([WATCHCTL, "report", str(log), "--json", *args], capture_output=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.decode().split("\n")[:-1]]


def expected_access(i, watches, threads):
    """What accesslog-gen says about access number i, in its own words."""
    watch = i // 2 % watches
    # Of the accesses before this one, half are writes: those to this watch.
    before = sum(1 for j in range(0, i, 2) if j // 2 % watches == watch)
    write = i % 2 == 0
    return {"watch": f"flag{watch}", "kind": "write" if write else "read", "tid": 4000 + i % threads,
            "time_ns": BEGIN + 1000 + i * 500, "old": before, "new": before + write}


@pytest.fixture(scope="session")
def account():
    return [expected_access(i, 2, 5) for i in range(3000)]


def stack_names(i, frames=6):
    """Innermost first."""
    way = i % 64
    inner = ["set_it"] if i % 2 == 0 else ["get_it", "look"]
    return inner + [f"f{k}_{way >> k % 6 & 1}" for k in range(1, frames)]


# Chrome

def test_chrome_has_each_access_once_with_what_is_known_of_it(plain, account):
    events, named = read.trace_events(export(plain, "chrome"))
    seen = [e for e in events if e.get("cat") == "access"]
    assert len(seen) == len(account)
    for i, (e, a) in enumerate(zip(seen, account)):
        assert e["ph"] == "i" and e["s"] == "t" and e["name"] == f"{a['kind']} {a['watch']}"
        assert (e["pid"], e["tid"]) == (4000, a["tid"])
        assert round(e["ts"] * 1000) == a["time_ns"]
        args = e["args"]
        assert (args["old"], args["new"]) == (str(a["old"]), str(a["new"]))
        cut = i % 1000 == 999
        assert args["stack"] == " < ".join(stack_names(i)) + (" < [unreadable]" if cut else "")
        assert args["source"] == ("app.c:17" if i % 2 == 0 else "inline.h:5")
    assert named["process_name"] == {(4000, 4000)}
    assert named["thread_name"] == {(4000, 4000 + k) for k in range(5)}
    captures = [e for e in events if e.get("cat") == "stack"]
    assert [int(e["args"]["value"], 16) for e in captures] == list(range(90))
    assert Counter(e["args"]["tag"] for e in captures) == {"begin": 30, "cache miss": 30, "7": 30}


def test_chrome_draws_the_value_where_it_changes(plain, account):
    events, _ = read.trace_events(export(plain, "chrome"))
    for watch in ("flag0", "flag1"):
        curve = [(round(e["ts"] * 1000), e["args"]["value"]) for e in events
                 if e["ph"] == "C" and e["name"] == watch]
        writes = [(a["time_ns"], a["new"]) for a in account if a["watch"] == watch and a["kind"] == "write"]
        assert curve == [(BEGIN + 1, 0)] + writes


def test_chrome_calls_nest_as_they_were_recorded(steps):
    events, _ = read.trace_events(export(steps, "chrome"))
    objects = report(steps)
    calls = {o["call"]: o for o in objects if o["type"] == "call"}
    returns = {o["call"]: o for o in objects if o["type"] == "return"}
    begun, stacks, checked = 0, {}, 0
    for e in events:
        if e["ph"] == "B":
            o = calls[e["args"]["call"]]
            assert (e["name"], e["tid"]) == (o["function"], o["tid"])
            assert round(e["ts"] * 1000) == o["time_ns"]
            names = [p["name"] for p in e["args"].get("parameters", [])]
            assert names == [a["name"] for a in o["args"]]
            stack = stacks.setdefault(e["tid"], [])
            assert (stack[-1] if stack else None) == o.get("parent")
            stack.append(o["call"])
            begun += 1
        elif e["ph"] == "E":
            number = stacks[e["tid"]].pop()
            if number in returns:
                assert round(e["ts"] * 1000) == returns[number]["time_ns"]
                assert e["args"].get("returned") == returns[number].get("ret", {}).get("text")
                checked += 1
    assert begun == len(calls) > 800 and checked == len(returns) > 800


@pytest.mark.parametrize("which", ["accesses", "calls"])
def test_chrome_splits_into_files_that_are_valid_each(which, logs, steps, tmp_path):
    log = steps if which == "calls" else logs("accesslog-gen", "-n", "9000", "-t", "3")
    if which == "calls":
        log = logs("steplog-gen", "-n", "12000", "-t", "3")
    whole, _ = read.trace_events(export(log, "chrome"))
    out = tmp_path / "trace.json"
    told = export(log, "chrome", "-o", out, "--split", "1")
    files = sorted(tmp_path.iterdir(), key=lambda p: int((re.findall(r"\.(\d+)\.", p.name) or ["1"])[0]))
    assert [f.name for f in files] == ["trace.json"] + [f"trace.{n}.json" for n in range(2, len(files) + 1)]
    assert len(files) > 2 and all(f.name in told for f in files)
    parts = []
    for f in files:
        assert f.stat().st_size < 1_000_000
        events, named = read.trace_events(f.read_text())
        assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "iB" and e.get("s") != "g"} <= named["thread_name"]
        assert named["process_name"]
        parts += events
    def own(events):
        return [(e["ph"], e["tid"], e["ts"], e["name"]) for e in events
                if e["ph"] in "Bi" and not e["args"].get("continued")]
    assert own(parts) == own(whole)


def test_jq_counts_what_chrome_holds(plain):
    text = export(plain, "chrome").encode()
    r = subprocess.run(["jq", "-c", '[.traceEvents[] | select(.cat == "access") | .args.kind] | group_by(.) | '
                        'map({(.[0]): length}) | add'], input=text, capture_output=True, timeout=WAIT)
    assert json.loads(r.stdout) == {"read": 1500, "write": 1500}


# Stacks

def expected_folded():
    """Of `plain`, from accesslog-gen's description."""
    counts = Counter()
    tags = ["begin", "cache_miss", "7"]
    for i in range(3000):
        cut = ["[unreadable]"] if i % 1000 == 999 else []
        counts[";".join([f"flag{i // 2 % 2}"] + cut + stack_names(i)[::-1])] += 1
    for i in range(90):
        counts[";".join([tags[i % 3]] + ["note", *stack_names(i)[1 + i % 2:]][::-1])] += 1
    return counts


def test_folded_counts_each_stack(plain):
    assert read.folded(export(plain, "folded")) == expected_folded()


def test_folded_of_one_watch_has_no_name_in_front(plain):
    want = Counter({k.split(";", 1)[1]: n for k, n in expected_folded().items() if k.startswith("flag1;")})
    assert read.folded(export(plain, "folded", "--watch", "flag1")) == want


def test_speedscope_has_the_stacks_of_each_watch_and_tag(plain):
    doc = read.speedscope(export(plain, "speedscope"))
    got = {";".join([name.replace(" ", "_"), *stack]): n for (name, stack), n in read.speedscope_stacks(doc).items()}
    assert got == expected_folded()


def test_speedscope_has_the_calls_of_each_thread(steps):
    doc = read.speedscope(export(steps, "speedscope"))
    calls = [o for o in report(steps) if o["type"] == "call"]
    first = min(o["time_ns"] for o in calls)
    names = [f["name"] for f in doc["shared"]["frames"]]
    for tid in {o["tid"] for o in calls}:
        p, = [p for p in doc["profiles"] if p["name"].endswith(f"/{tid}")]
        assert p["type"] == "evented" and p["unit"] == "nanoseconds"
        opened = [(e["at"], names[e["frame"]]) for e in p["events"] if e["type"] == "O"]
        assert opened == [(o["time_ns"] - first, o["function"]) for o in calls if o["tid"] == tid]
    assert len(doc["profiles"]) == len({o["tid"] for o in calls})


def test_folded_counts_each_recorded_call_once(steps):
    counts = read.folded(export(steps, "folded"))
    calls = {o["call"]: o for o in report(steps) if o["type"] == "call"}

    def path(o):
        return (path(calls[o["parent"]]) if "parent" in o else []) + [o["function"]]

    assert counts == Counter(";".join(path(o)) for o in calls.values())


def test_perf_script_has_each_access_with_its_stack(plain, account):
    events = read.perf_script(export(plain, "perf-script"))
    accesses = [e for e in events if e["event"] == "watchctl:access"]
    assert len(accesses) == 3000 and len(events) == 3090
    for i, (e, a) in enumerate(zip(accesses, account)):
        assert (e["comm"], e["pid"], e["tid"], e["ns"]) == (f"worker{a['tid'] - 4000}", 4000, a["tid"], a["time_ns"])
        f = e["fields"]
        assert (f["watch"], f["kind"], f["old"], f["new"]) == (a["watch"], a["kind"], str(a["old"]), str(a["new"]))
        assert [name for _, name, _ in e["stack"]] == stack_names(i) + (["[unreadable]"] if i % 1000 == 999 else [])
        assert e["stack"][0][0] == (0x400FFE if i % 2 == 0 else 0x4010FE)
    collapsed = Counter(";".join([e["fields"].get("watch") or e["fields"]["tag"]] + [n for _, n, _ in e["stack"]][::-1])
                        for e in events)
    assert collapsed == expected_folded()


# Tables

def test_csv_is_read_back_by_python_and_agrees_with_the_report(plain):
    text = export(plain, "csv")
    assert text.count("\r\n") == text.count("\n") == 3091
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    objects = [o for o in report(plain) if o["type"] in ("access", "stack")]
    assert len(rows) == len(objects) == 3090
    for row, o in zip(rows, objects):
        assert None not in row
        for name, value in row.items():
            want = o.get(name, "")
            if name == "stack":
                want = " < ".join(f["function"] for f in o["stack"])
            assert value == str(want), name


def test_csv_goes_into_sqlite(plain, tmp_path):
    (tmp_path / "t.csv").write_text(export(plain, "csv"), newline="")
    r = subprocess.run(["sqlite3", ":memory:", ".mode csv", f".import {tmp_path}/t.csv t",
                        "select type, watch, kind, count(*), max(new_text + 0) from t group by 1, 2, 3 order by 1, 2, 3"],
                       capture_output=True, text=True, timeout=WAIT)
    assert r.stderr == ""
    assert r.stdout.split() == ["access,flag0,read,750,750", "access,flag0,write,750,750", "access,flag1,read,750,750",
                                "access,flag1,write,750,750", 'stack,"","",90,0']


def test_csv_has_calls_with_arguments_and_results(steps):
    rows = list(csv.DictReader(io.StringIO(export(steps, "csv"), newline=""), strict=True))
    objects = [o for o in report(steps) if o["type"] in ("call", "return")]
    assert [r["type"] for r in rows] == [o["type"] for o in objects]
    for row, o in zip(rows, objects):
        assert (row["call"], row["function"], row["tid"]) == (str(o["call"]), o["function"], str(o["tid"]))
        if o["type"] == "return":
            assert row["ret"] == o.get("ret", {}).get("text", "")
            assert row["how"] == o["how"] and row["duration_ns"] == str(o["duration_ns"])
        for a in o.get("args", []):
            assert f"{a['name']} = {a['text']}" in row["args"]


@pytest.mark.parametrize("log", ["plain", "hostile", "steps"])
@pytest.mark.parametrize("args", [[], ["--no-stack"], ["--regs"]])
def test_jsonl_has_the_objects_of_the_report(request, log, args):
    log = request.getfixturevalue(log)
    tables = {"site", "tag", "occurrence", "function_total", "step_summary"}
    want = [o for o in report(log, *args) if o["type"] not in tables]
    assert [json.loads(line) for line in export(log, "jsonl", *args).split("\n")[:-1]] == want


# Graph

def graph(text):
    r = subprocess.run(["dot", "-Tjson"], input=text.encode(), capture_output=True, timeout=WAIT)
    assert r.returncode == 0 and r.stderr == b"", r.stderr
    return json.loads(r.stdout)


def test_dot_counts_callers_and_sites(plain):
    g = graph(export(plain, "dot"))
    label = {n["_gvid"]: n["label"] for n in g["objects"]}
    assert "write flag0\\nset_it+126\\napp.c:17\\n750" in label.values()
    edges = {(label[e["tail"]], label[e["head"]]): int(e["label"]) for e in g["edges"]}
    accesses, want = [stack_names(i) + (["[unreadable]"] if i % 1000 == 999 else []) for i in range(3000)], Counter()
    for s in accesses + [["note", *stack_names(i)[1 + i % 2:]] for i in range(90)]:
        want.update(zip(s[1:], s[:-1]))
    got = Counter({(a.split("\\n")[0], b.split("\\n")[0]): n for (a, b), n in edges.items()
                   if "flag" not in b and "tag " not in b})
    assert got == want
    assert "omitted" not in g["label"] and "3000 accesses" in g["label"] and "90 captured stacks" in g["label"]


def test_dot_keeps_the_largest_and_says_what_is_left_out(plain):
    g = graph(export(plain, "dot", "--nodes", 6))
    assert len(g["objects"]) == 6
    m = re.search(r"omitted, the smallest ones:\\n(\d+) functions\\n(\d+) sites? with (\d+)\\n(\d+) edges", g["label"])
    sites = [n for n in g["objects"] if n.get("shape") == "box"]
    assert len(sites) == 3 and sum(int(n["label"].split("\\n")[-1]) for n in sites) + int(m.group(3)) == 3090
    assert int(m.group(1)) + 3 == len({f for i in range(3000) for f in stack_names(i)}) + len({"note", "[unreadable]"})


def test_dot_of_a_step_recording_is_who_called_whom(steps):
    g = graph(export(steps, "dot"))
    label = {n["_gvid"]: n["label"].split("\\n")[0] for n in g["objects"]}
    calls = {o["call"]: o for o in report(steps) if o["type"] == "call"}
    want = Counter((calls[o["parent"]]["function"], o["function"]) for o in calls.values() if "parent" in o)
    assert {(label[e["tail"]], label[e["head"]]): int(e["label"]) for e in g["edges"]} == want


# Names that may be anything

def test_hostile_names_leave_every_format_valid(hostile):
    assert len(read.perfetto(export(hostile, "perfetto"))[0]) >= 900
    for to in FORMATS[:-1]:
        text = export(hostile, to)
        assert not re.search(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f]", text.replace("\t", "")), to
        if to not in ("perf-script", "dot"):
            assert "\t" not in text
    events, _ = read.trace_events(export(hostile, "chrome"))
    assert sum(e.get("cat") == "access" for e in events) == 600
    assert sum(read.folded(export(hostile, "folded")).values()) == 900
    assert sum(read.speedscope_stacks(read.speedscope(export(hostile, "speedscope"))).values()) == 900
    perf = read.perf_script(export(hostile, "perf-script"))
    assert len(perf) == 900
    assert {len(e["stack"]) for e in perf} == {30, 31}
    assert {e["tid"] for e in perf} == {4000 + k for k in range(20)}
    rows = list(csv.DictReader(io.StringIO(export(hostile, "csv"), newline=""), strict=True))
    assert len(rows) == 900 and not any(None in r for r in rows)
    graph(export(hostile, "dot", "--nodes", 500))
    g = graph(export(hostile, "dot", "--nodes", 500))
    assert any("back\\\\slash\\\\N &amp;" in n["label"] for n in g["objects"])


def test_csv_never_begins_a_text_with_a_formula(hostile):
    rows = list(csv.reader(io.StringIO(export(hostile, "csv"), newline=""), strict=True))
    seen = set()
    for cell in (c for row in rows for c in row):
        assert not re.match(r"[=+@\t\r]|-[^0-9.]|-.*[^0-9.eE+-]", cell), cell
        seen.add(cell[:2])
    assert "'=" in seen and "'@" in seen and "'-" in seen


# Choices

def test_a_thread_is_chosen_by_number_and_by_name(plain):
    for thread in ("4002", "worker2"):
        objects = [json.loads(line) for line in export(plain, "jsonl", "--thread", thread).split("\n")[:-1]]
        accesses = [o for o in objects if o["type"] == "access"]
        assert len(accesses) == 600 and {o["tid"] for o in accesses} == {4002}
        assert sum(o["type"] == "stack" for o in objects) == 18


@pytest.mark.parametrize("start, end", [
    ("+100us", "+200us"), (str(BEGIN + 100_000), str(BEGIN + 200_000)),
    ("2023-11-14T22:13:20.0001Z", "2023-11-14T22:13:20.0002Z"),
    ("22:13:20.0001Z", "22:13:20.0002Z"), ("2023-11-15 00:13:20.0001", "00:13:20.0002")])
def test_a_time_is_chosen_however_it_is_written(plain, start, end):
    text = export(plain, "csv", "--from", start, "--until", end, env=dict(os.environ, TZ="CAT-2"))
    times = [int(r["time_ns"]) for r in csv.DictReader(io.StringIO(text, newline="")) if r["type"] == "access"]
    assert times == [BEGIN + 1000 + i * 500 for i in range(198, 398)]


@pytest.mark.parametrize("form", ["report", "export"])
def test_a_part_of_any_log_is_reported_and_exported_alike(plain, steps, account, form):
    def objects(log, *args):
        if form == "report":
            return report(log, *args)
        return [json.loads(line) for line in export(log, "jsonl", *args).split("\n")[:-1]]

    def times(log, kind, *args):
        return [o["time_ns"] for o in objects(log, *args) if o["type"] == kind]

    assert times(plain, "access", "--from", "+100us", "--until", "+200us") \
        == [BEGIN + 1000 + i * 500 for i in range(198, 398)]
    last = list(log_reader.read_log(plain))[-1].time_ns
    assert times(plain, "access", "--last", "100us") \
        == [a["time_ns"] for a in account if a["time_ns"] >= last - 100_000]
    for thread in ("4002", "worker2"):
        accesses = [o for o in objects(plain, "--thread", thread) if o["type"] == "access"]
        assert [o["time_ns"] for o in accesses] == [a["time_ns"] for a in account if a["tid"] == 4002]
    calls = [o for o in objects(steps) if o["type"] == "call"]
    begin, middle = calls[0]["time_ns"], calls[len(calls) // 2]["time_ns"]
    got = times(steps, "call", "--from", str(middle))
    assert got == [c["time_ns"] for c in calls if c["time_ns"] >= middle] and begin < middle
    tid = calls[3]["tid"]
    assert times(steps, "call", "--thread", str(tid), "--until", str(middle)) \
        == [c["time_ns"] for c in calls if c["time_ns"] < middle and c["tid"] == tid]


def test_a_part_is_counted_in_the_tables_too(plain, account):
    part = ["--thread", "worker2", "--from", "+100us"]
    found = report(plain, "--sites", *part)
    want = [a for a in account if a["tid"] == 4002 and a["time_ns"] >= BEGIN + 100_000]
    assert sum(o["count"] for o in found if o["type"] == "site") == len(want)
    assert not [o for o in found if o["type"] == "access"]
    r = subprocess.run([WATCHCTL, "report", plain, "--folded", "--watch", "flag0", *part], capture_output=True, text=True,
                       timeout=WAIT)
    assert sum(read.folded(r.stdout).values()) == sum(a["watch"] == "flag0" for a in want)
    r = subprocess.run([WATCHCTL, "report", plain, "--json", "-n", "7", *part], capture_output=True, text=True, timeout=WAIT)
    events = [o for o in map(json.loads, r.stdout.splitlines()) if o["type"] in ("access", "stack")]
    assert len(events) == 7 and {o["tid"] for o in events} == {4002}


@pytest.mark.parametrize("args, status, words", [
    (["--thread", "nobody"], NAME, 'no thread "nobody" did anything'), (["--from", "yesterday"], USAGE, "--from"),
    (["--last", "5s", "--from", "+1s"], USAGE, "--last counts from the end"), (["--last", "x"], USAGE, "--last"),
    (["--html", "/dev/null", "--from", "+1s"], USAGE, "--html")])
def test_a_part_that_is_not_there_is_an_error_of_report(plain, args, status, words):
    r = subprocess.run([WATCHCTL, "report", plain, *args], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == status and words in r.stderr and r.stderr.count("\n") == 1, r.stderr


def test_calls_are_chosen_by_function(steps):
    events, _ = read.trace_events(export(steps, "chrome", "--function", "parse_*", "--depth", 1))
    names = {e["name"] for e in events if e["ph"] == "B"}
    assert names and all(n.startswith("parse_") for n in names)


@pytest.mark.parametrize("args, words", [
    (["--watch", "flagg"], ["watch", "flagg", "flag0, flag1"]), (["--tag", "nope"], ["begin, cache miss, 7"]),
    (["--thread", "nobody"], ["nobody"])])
def test_what_is_not_in_the_log_is_an_error_that_leaves_no_file(plain, tmp_path, args, words):
    message = export(plain, "csv", "-o", tmp_path / "x.csv", *args, status=NAME)
    assert all(w in message for w in words) and message.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("args, words", [
    ([], ["--to"]), (["--to", "xml"], ["chrome"]), (["--to", "csv", "--from", "yesterday"], ["--from", "+1.5s"]),
    (["--to", "csv", "--regs"], ["jsonl"]), (["--to", "folded", "--no-stack"], ["stacks"]),
    (["--to", "perfetto", "--split", "5"], ["--split", "one file"])])
def test_a_wrong_command_line_is_told(plain, run, args, words):
    r = run("export", plain, *args)
    assert r.returncode == USAGE and all(w in r.stderr for w in words) and r.stderr.count("\n") == 1


# Files

def test_a_file_is_private_and_is_not_replaced_without_force(plain, tmp_path):
    out = tmp_path / "x.csv"
    assert "3000 accesses, 90 captured stacks" in export(plain, "csv", "-o", out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    assert "--force" in export(plain, "folded", "-o", out, status=USAGE)
    assert out.read_bytes() == before
    assert export(plain, "folded", "-o", out, "--force", "-q") == ""
    assert out.read_text() == export(plain, "folded")
    assert os.listdir(tmp_path) == ["x.csv"]


def test_into_a_directory_it_is_named_as_the_log(plain, tmp_path):
    export(plain, "chrome", "-o", tmp_path)
    assert os.listdir(tmp_path) == [f"{plain.name}.json"]


def test_a_full_disk_leaves_nothing(plain, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    message = export(plain, "csv", "-o", tmp_path / "x.csv", status=1, preexec_fn=limit)
    assert "x.csv" in message and message.count("\n") == 1 and os.listdir(tmp_path) == []
    message = export(plain, "chrome", "-o", "/dev/full", status=1)
    assert "No space left" in message
    with open("/dev/full", "w") as full:
        r = subprocess.run([WATCHCTL, "export", str(plain), "--to", "csv"], stdout=full, stderr=subprocess.PIPE,
                           timeout=WAIT)
    assert r.returncode == 1 and b"No space left" in r.stderr


def test_a_reader_that_goes_away_ends_it_quietly(logs):
    big = logs("accesslog-gen", "-n", "100000")
    for to in ("csv", "chrome", "jsonl", "perf-script"):
        p = subprocess.Popen([WATCHCTL, "export", str(big), "--to", to], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.read(100)
        p.stdout.close()
        assert p.stderr.read() == b"" and p.wait(WAIT) == 0


def writes_below(process, folder):
    """Whether it has written to a file there, be it one without a name."""
    assert process.poll() is None
    for fd in os.scandir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(fd.path).startswith(str(folder)) and os.stat(fd.path).st_size:
                return True
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_in_the_middle_leaves_nothing(logs, tmp_path, how):
    big = logs("accesslog-gen", "-n", "300000")
    p = subprocess.Popen([WATCHCTL, "export", str(big), "--to", "jsonl", "-o", str(tmp_path / "x")],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: writes_below(p, tmp_path))
    p.send_signal(how)
    text = p.stderr.read().decode()
    assert p.wait(WAIT) == (1 if how == signal.SIGINT else -signal.SIGKILL)
    assert how == signal.SIGKILL or "interrupted" in text
    assert os.listdir(tmp_path) == []


def test_what_is_no_file_is_written_to(plain, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    p = subprocess.Popen([WATCHCTL, "export", str(plain), "--to", "folded", "-o", str(fifo)], stdout=subprocess.DEVNULL)
    assert read.folded(fifo.read_text()) == expected_folded()
    assert p.wait(WAIT) == 0 and stat.S_ISFIFO(fifo.stat().st_mode)


# Size

@pytest.mark.parametrize("to", FORMATS)
def test_memory_does_not_grow_with_the_log(logs, to):
    def peak(n):
        log = logs("accesslog-gen", "-n", str(n))
        status, kib = peak_memory(WATCHCTL, "export", log, "--to", to)
        assert status == 0
        return kib

    assert peak(100000) < peak(10000) + 4096  # KB


# A live program: the numbers are its own.

def test_a_watched_program_agrees_with_every_export(victim, watch, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    w = watch("-p", v.pid, "-v", "flag", "-rw", "-o", str(log))
    v.tell("write 25")
    v.tell("read 10")
    w.end()
    assert sum(e.get("cat") == "access" for e in read.trace_events(export(log, "chrome"))[0]) == 35
    assert sum(read.folded(export(log, "folded")).values()) == 35
    assert sum(read.speedscope_stacks(read.speedscope(export(log, "speedscope"))).values()) == 35
    rows = list(csv.DictReader(io.StringIO(export(log, "csv"), newline="")))
    assert Counter(r["kind"] for r in rows) == {"write": 25, "read": 10}
    perf = read.perf_script(export(log, "perf-script"))
    assert Counter(e["fields"]["kind"] for e in perf) == {"write": 25, "read": 10}
    graph(export(log, "dot"))


# Progress

def reads_below(process, folder):
    """Whether it has a file there open, or mapped."""
    assert process.poll() is None, "it ended before it could be held up"
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{process.pid}/maps") as maps:
        links = [os.readlink(fd.path) for fd in os.scandir(f"/proc/{process.pid}/fd")]
        return str(folder) + "/" in maps.read() + " ".join(links)


def hold_up(child):
    """As long as it takes until there is a bar, where there is one."""
    child.send_signal(signal.SIGSTOP)
    time.sleep(1.1)
    child.send_signal(signal.SIGCONT)


def on_terminal(*args, columns=80, hold=None):
    """(exit status, what standard error's terminal got). @hold: a log; it is held up for a second once it reads that."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([WATCHCTL, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=terminal, env=dict(os.environ, TERM="xterm"))
    os.close(terminal)
    if hold:
        wait_until(lambda: reads_below(child, hold))
        hold_up(child)
    text = b""
    try:
        while more := os.read(main, 4096):
            text += more
    except OSError:
        pass
    os.close(main)
    return child.wait(WAIT), text.decode()


@pytest.mark.slow
def test_a_long_export_tells_how_far_it_is(logs, tmp_path):
    big = logs("accesslog-gen", "-n", "300000")
    status, text = on_terminal("export", big, "--to", "jsonl", "-o", tmp_path / "x", hold=big)
    assert status == 0
    shares = [int(m) for m in re.findall(r"\rexporting the log +(\d+) % \[", text)]
    assert len(shares) > 1 and shares == sorted(shares) and text.endswith("\r\x1b[K")
    assert all(len(line.split("\x1b[K")[0]) < 80 for line in text.split("\r"))


@pytest.mark.slow
def test_a_short_one_and_one_without_a_terminal_are_silent(logs, tmp_path):
    short, big = logs("accesslog-gen", "-n", "50"), logs("accesslog-gen", "-n", "100000")
    assert on_terminal("export", short, "--to", "jsonl", "-o", tmp_path / "x") == (0, "")
    p = subprocess.Popen([WATCHCTL, "export", str(big), "--to", "jsonl", "-o", str(tmp_path / "y")],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: reads_below(p, big))
    hold_up(p)
    assert p.stderr.read() == b"" and p.wait(WAIT) == 0


@pytest.mark.slow
def test_a_long_diff_and_a_long_symbolize_tell_how_far_they_are(logs):
    a, b = logs("steplog-gen", "-n", "1000000", "-s", "1"), logs("steplog-gen", "-n", "1000000", "-s", "2")
    status, text = on_terminal("diff", a, b, hold=a)
    assert status == 0 and re.search(r"\r(reading the logs|comparing the calls) +\d+ % \[", text), text
    assert text.endswith("\r\x1b[K")
    status, text = on_terminal("symbolize", "--dry-run", a, hold=a)
    assert status == 0 and re.search(r"\rreading the log( again)? +\d+ % \[", text), text
    assert text.endswith("\r\x1b[K")
    assert on_terminal("diff", "-q", a, b, hold=a) == (0, "")
