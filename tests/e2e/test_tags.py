# rooms: stackwalk trace/tags
"""Captures of tagged stacks: every one accounted for, its stack the program's own, whatever becomes of either side."""
import collections
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import tracelog_py as ctf
from conftest import BUILD, WAIT, WATCHCTL, Victim, Watch, snapshot, wait_until, wait_until_it_has_run

LEASE = 5  # seconds


@pytest.fixture
def collect():
    """collect(pid, options...) -> a live watchctl --tags that has begun."""
    running = []

    def start(pid, *args, wait=True):
        w = Watch("-p", pid, "--tags", *args, wait=False)
        running.append(w)
        if wait:
            while "captures are collected" not in w.wait_for("note")["text"]:
                pass
        return w

    yield start
    for w in running:
        if w.process.poll() is None:
            w.process.kill()
            w.process.wait()


@pytest.fixture
def log_of(tmp_path, run):
    """log_of(pid, during, options...) -> the objects of a log of what happened during()."""

    def record(pid, during, *args):
        log = tmp_path / "log"
        p = subprocess.Popen([WATCHCTL, "-p", str(pid), "--tags", "-o", log, *args], stdout=subprocess.PIPE, text=True)
        for line in p.stdout:
            if "captures are collected" in line:
                break
        during()
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=WAIT)
        assert p.returncode == 0
        return report(run, log)

    return record


def report(run, log, *args):
    r = run("report", "--json", *args, log)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def captures(objects):
    return [o for o in objects if o["type"] == "stack"]


def summary(objects):
    found = [o for o in objects if o["type"] == "summary" and o.get("of") == "captures"]
    assert len(found) == 1
    return found[0]


def check_sum(objects, made):
    s = summary(objects)
    assert s["counted"] == made
    assert s["recorded"] + s["lost"] + s["filtered"] == made
    assert s["recorded"] == len(captures(objects))
    return s


def functions(capture):
    return [f.get("function") for f in capture["stack"] if not f["inlined"]]


def number(value):
    return int(value, 16)


@pytest.mark.slow
def test_every_capture_of_every_thread_is_there_once(victim, log_of):
    v = victim("tagged")
    threads, n = 6, 20000
    objects = log_of(v.pid, lambda: v.tell(f"burst {threads} {n}"), "--buffer", "64M")
    assert check_sum(objects, threads * n)["lost"] == 0
    by_tag = collections.defaultdict(list)
    tids = collections.defaultdict(set)
    for c in captures(objects):
        by_tag[c["tag"]].append(number(c["value"]))
        tids[c["tag"]].add(c["tid"])
    assert sorted(by_tag) == [str(1000 + i) for i in range(threads)]
    for tag, values in by_tag.items():
        assert values == list(range(n))
        assert len(tids[tag]) == 1
    assert len(set.union(*tids.values())) == threads


def test_stacks_are_those_of_the_program_without_frame_pointers(victim, log_of):
    v = victim("tagged")
    objects = log_of(v.pid, lambda: (v.tell("burst 1 3"), v.tell("named 2"), v.tell("deep 40")))
    in_thread = [c for c in captures(objects) if c["tag"] == "1000"]
    assert len(in_thread) == 3
    for c in in_thread:
        assert functions(c)[:4] == ["inner", "middle", "outer", "thread_main"]
    named = [c for c in captures(objects) if c["tag"] in ("cache-miss", "order")]
    assert [c["tag"] for c in named] == ["cache-miss", "order"] * 2
    assert [number(c["value"]) for c in named if c["tag"] == "order"] == [0, 1]
    assert all("value" not in c for c in named if c["tag"] == "cache-miss")
    for c in named:
        names = functions(c)
        assert names[0] == ("miss" if c["tag"] == "cache-miss" else "order")
        assert "main" in names and names[-1] == "_start"
    deep = [c for c in captures(objects) if c["tag"] == "99"]
    assert functions(deep[0])[:42] == ["inner"] + ["deep"] * 41


def test_a_stack_has_as_many_frames_as_were_asked_for(victim, collect):
    v = victim("tagged")
    w = collect(v.pid, "--frames", 3)
    v.tell("burst 1 1")
    w.wait_for("stack")
    w.end()
    c = captures(w.objects)[0]
    assert functions(c) == ["inner", "middle", "outer"]


def test_threads_that_live_for_a_moment_are_all_there(victim, log_of):
    v = victim("tagged")
    objects = log_of(v.pid, lambda: v.tell("short 500"))
    assert check_sum(objects, 500)["lost"] == 0
    assert len({c["tid"] for c in captures(objects)}) == 500
    assert {c["comm"] for c in captures(objects)} == {"tagged"}


def test_captures_and_accesses_are_one_timeline(hardware, victim, log_of):
    v = victim("tagged")
    objects = log_of(v.pid, lambda: v.tell("flag 300"), "-v", "flag")
    assert check_sum(objects, 300)["lost"] == 0
    mixed = [o for o in objects if o["type"] in ("access", "stack")]
    assert len(mixed) == 600
    assert [o["type"] for o in mixed] == ["access", "stack"] * 300
    assert [o["time_ns"] for o in mixed] == sorted(o["time_ns"] for o in mixed)
    for access, capture in zip(mixed[::2], mixed[1::2]):
        assert number(access["new"]) == number(capture["value"])


def test_they_are_printed_in_the_order_in_which_they_happened(hardware, victim, collect):
    v = victim("tagged")
    w = collect(v.pid, "-v", "flag")
    v.tell("flag 300")
    w.end()
    mixed = [o for o in w.objects if o["type"] in ("access", "stack")]
    assert [o["type"] for o in mixed] == ["access", "stack"] * 300
    assert [o["time_ns"] for o in mixed] == sorted(o["time_ns"] for o in mixed)


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_every_engine_goes_with_captures_to_the_programs_exit(hardware, victim, tmp_path, run, engine):
    if engine == "ring" and os.geteuid():
        pytest.skip("the ring engine needs root")
    v = victim("tagged")
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "--tags", "-v", "flag", "--engine", engine, "-o", log],
                         stdout=subprocess.PIPE, text=True)
    while "captures are collected" not in p.stdout.readline():
        pass
    v.send("flag 50")
    v.send("exit")
    p.communicate(timeout=WAIT)
    assert p.returncode == 0
    objects = report(run, log)
    check_sum(objects, 50)
    assert len([o for o in objects if o["type"] == "access"]) == 50
    mixed = [o["time_ns"] for o in objects if o["type"] in ("access", "stack")]
    assert mixed == sorted(mixed)
    modules = subprocess.run(["babeltrace2", "--names", "all", log], capture_output=True, text=True, timeout=WAIT)
    told = [line for line in modules.stdout.splitlines() if "name = module," in line and "libc.so.6" in line]
    assert len(told) == 1  # by whoever saw it first


def test_many_threads_at_once(victim, log_of):
    v = victim("tagged")
    objects = log_of(v.pid, lambda: v.tell("burst 300 100 2000"), "--buffer", "256K")
    assert check_sum(objects, 30000)["lost"] == 0
    assert len({c["tid"] for c in captures(objects)}) == 300


def test_signal_handlers_that_interrupt_captures_and_jump_out_of_them(victim, tmp_path, run):
    v = victim("tagged_signals", 1)
    log = tmp_path / "log"
    subprocess.run([WATCHCTL, "-p", str(v.pid), "--tags", "-o", log, "--buffer", "64M"], check=True, timeout=WAIT,
                   stdout=subprocess.DEVNULL)
    made, in_handler, jumps = map(int, v.process.stdout.readline().split()[1:])
    objects = report(run, log, "--sites")
    by_tag = {o["tag"]: o["count"] for o in objects if o["type"] == "tag"}
    s = summary(objects)
    assert s["recorded"] == by_tag["1"] + by_tag["2"]
    assert in_handler > 1000 and 0 <= in_handler - by_tag["1"]
    if "counted" not in s:  # the collector was starved: the program did not wait for it, and it says so
        assert any("their number is not known" in o["text"] for o in objects if o["type"] == "note"), objects
        return
    # A collector under the sanitizers on a busy machine may not keep up: that is told by itself.
    full = sum(o["count"] for o in objects if o["type"] == "lost" and o["why"] == "the thread's ring was full")
    told = s["lost"] if "asan" in BUILD.name else full  # there some are lost otherwise: each must be told
    assert in_handler - by_tag["1"] <= told, objects  # each was whole before the jump
    assert s["recorded"] + s["lost"] == s["counted"]
    assert made - jumps <= s["counted"] <= made and s["lost"] - full <= jumps


def test_a_full_ring_loses_captures_and_says_how_many(victim, log_of):
    v = victim("tagged")
    objects = log_of(v.pid, lambda: v.tell("burst 2 200000"), "--buffer", "64K")
    s = check_sum(objects, 400000)
    assert s["lost"] > 0
    lost = [o for o in objects if o["type"] == "lost"]
    assert sum(o["count"] for o in lost) == s["lost"]


def test_count_and_time_end_the_collection(victim, run):
    v = victim("tagged")
    v.tell("steady 1000")
    r = run("-p", v.pid, "--tags", "-n", 5, "--json")
    assert r.returncode == 0
    objects = [json.loads(line) for line in r.stdout.splitlines()]
    assert len(captures(objects)) == 5
    s = summary(objects)
    assert s["recorded"] + s["lost"] + s["filtered"] == s["counted"]
    assert run("-p", v.pid, "--tags", "-t", "0.3", "-q").returncode == 0
    v.tell("stop")
    assert v.tell("collecting") == "0"


def launched(run, *words):
    """The objects of a launched program that is collected from to its end. It waits 200 ms for that and no longer:
    where the machine gave the collector no time in these, nothing is known of the end, and the program runs again."""
    for _ in range(10):
        r = run("--tags", "--json", "--output", "/dev/stdout", *words)
        assert r.returncode == 0, r.stderr
        objects = [json.loads(line) for line in r.stdout.splitlines()]
        if "counted" in summary(objects):
            return objects
    raise AssertionError("ten times nothing was known of the program's end")


def test_launched_it_has_every_capture_to_its_end(build, run):
    for name in ("tagged", "tagged_static", "tagged_static_pie"):
        objects = launched(run, "--", build(name), "once")
        assert [number(c["value"]) for c in captures(objects)] == list(range(100)), name
        assert summary(objects)["counted"] == 100
        assert not summary(objects)["lost"]


@pytest.mark.parametrize("engine", ["handler", "ring"])
def test_launched_with_a_watch_both_are_there_from_the_first_instruction(hardware, build, run, engine):
    if engine == "ring" and os.geteuid():
        pytest.skip("the ring engine needs root")
    objects = launched(run, "-v", "relocated", "-w", "--engine", engine, "--", build("tagged"), "once")
    assert len([o for o in objects if o["type"] == "access"]) == 1  # the loader's
    assert [number(c["value"]) for c in captures(objects)] == list(range(100))
    assert [o["type"] for o in objects if o["type"] in ("access", "stack")][0] == "access"


def test_a_stripped_static_program_is_collected_from(victim, log_of):
    v = victim("tagged_static")
    objects = log_of(v.pid, lambda: v.tell("named 10"))
    assert check_sum(objects, 20)["lost"] == 0
    assert {c["tag"] for c in captures(objects)} == {"cache-miss", "order"}
    assert all(c["module"].endswith("tagged_static") for c in captures(objects))


def test_a_library_that_is_loaded_later_is_found_and_its_end_as_well(build, victim, collect):
    v = victim("tagged")
    w = collect(v.pid)
    v.tell(f"plugin {build('libtagged.so')} 1")
    wait_until(lambda: any("collected from libtagged.so" in n["text"] for n in w.of("note")))
    v.tell("again 100")
    v.tell("named 1")
    v.tell("close")
    v.tell("burst 1 10")
    w.end()
    mine = [c for c in captures(w.objects) if c["tag"] == "plugin"]
    assert len([c for c in mine if number(c["value"]) < 100]) >= 100
    assert functions(mine[-1])[:2] == ["plugin_inner", "plugin_capture"]
    assert mine[-1]["module"].endswith("libtagged.so")
    assert len([c for c in captures(w.objects) if c["tag"] == "1000"]) == 10
    s = summary(w.objects)
    assert s["recorded"] == s["counted"] == len(captures(w.objects))


PROGRAM = """
import _ctypes, ctypes, sys
for line in sys.stdin:
    word, n = line.split()
    if word == "load":
        lib = ctypes.CDLL(sys.argv[1])
    elif word == "capture":
        lib.plugin_capture(ctypes.c_ulong(int(n)))
    else:
        _ctypes.dlclose(lib._handle)
    print("ok", flush=True)
"""


def test_a_program_that_has_it_in_a_plugin_alone(build, run, tmp_path):
    """The plugin comes, gives its last captures when it is closed, and comes again."""
    p = subprocess.Popen(["/usr/bin/python3", "-c", PROGRAM, build("libtagged.so")], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, bufsize=1)

    def tell(line):
        p.stdin.write(line + "\n")
        p.stdin.flush()
        assert p.stdout.readline() == "ok\n"

    assert run("-p", p.pid, "--tags").returncode == 7
    w = Watch("-p", p.pid, "--tags", "--pending", "-o", tmp_path / "log", wait=False)
    w.wait_for("process")
    for i in range(3):
        tell("load 0")
        assert "libtagged.so" in w.wait_for("note")["text"]
        tell("capture 50")
        tell("close 0")
    p.stdin.close()
    p.wait(timeout=WAIT)
    w.end(sig=None)
    objects = report(run, tmp_path / "log")
    assert [number(c["value"]) for c in captures(objects)] == list(range(50)) * 3
    assert {functions(c)[0] for c in captures(objects)} == {"plugin_inner"}
    assert check_sum(objects, 150)["lost"] == 0
    assert len(w.of("note")) == 3, w.of("note")


def test_a_forked_child_is_not_collected_from_and_notices(victim, log_of):
    v = victim("tagged")
    answers = []
    objects = log_of(v.pid, lambda: (v.tell("burst 1 5"), answers.append(v.tell("fork 10")), v.tell("burst 1 5")))
    assert answers == ["0"]  # its flag is cleared
    check_sum(objects, 10)
    assert {c["pid"] for c in captures(objects)} == {v.pid}
    assert not [c for c in captures(objects) if c["tag"] == "8"]


def test_fork_follow_is_refused(victim, run):
    v = victim("tagged")
    r = run("-p", v.pid, "--tags", "--fork", "follow")
    assert r.returncode == 2
    assert "--fork follow does not go with --tags" in r.stderr


def test_an_exec_ends_the_collection_or_is_followed(build, victim, collect):
    v = victim("tagged")
    w = collect(v.pid)
    v.tell("named 1")
    v.send(f"exec {build('tagged')}")
    assert v.process.stdout.readline().split()[1] == str(v.pid)
    w.end(sig=None, expect=3)
    assert "executed another program" in w.stderr
    assert v.tell("collecting") == "0"

    w = collect(v.pid, "--exec", "follow")
    v.tell("burst 1 3")
    wait_until(lambda: len(captures(w.objects)) == 3)
    v.send(f"exec {build('tagged')}")
    v.process.stdout.readline()
    wait_until(lambda: v.tell("collecting") == "1")
    v.tell("burst 1 4")
    w.end()
    assert len(captures(w.objects)) == 7
    for c in captures(w.objects):
        assert functions(c)[:3] == ["inner", "middle", "outer"]


@pytest.mark.slow
def test_a_killed_watchctl_leaves_the_program_alone_and_the_next_one_collects(victim, collect):
    v = victim("tagged")
    before = snapshot(v.pid)["fds"]
    w = collect(v.pid, "--buffer", "64K", "-q")
    v.tell("steady 100")
    wait_until_it_has_run(v.pid)
    w.process.kill()
    w.process.wait()
    assert v.tell("collecting") == "1"
    wait_until(lambda: v.tell("collecting") == "0")
    assert snapshot(v.pid)["fds"] == before
    w = collect(v.pid)
    w.wait_for("stack")
    w.end()
    made = int(v.tell("stop"))
    assert made > 0
    s = summary(w.objects)
    assert s["recorded"] + s["lost"] == s["counted"] > 0
    assert v.finish() == 0


@pytest.mark.slow
def test_the_next_one_waits_for_the_lease_of_one_that_was_killed(victim, collect):
    v = victim("tagged")
    w = collect(v.pid)
    w.process.kill()
    w.process.wait()
    begin = time.monotonic()
    w = collect(v.pid)
    assert time.monotonic() - begin < LEASE + 3
    v.tell("named 1")
    w.end()
    check_sum(w.objects, 2)


def test_of_two_collectors_the_second_is_refused_by_name(victim, collect, run):
    v = victim("tagged")
    w = collect(v.pid)
    r = run("-p", v.pid, "--tags")
    assert r.returncode == 7
    assert f"process {w.process.pid}" in r.stderr
    v.tell("named 3")
    w.end()
    check_sum(w.objects, 6)


def test_of_several_that_begin_at_the_same_moment_one_collects(victim):
    v = victim("tagged")
    all_of_them = [subprocess.Popen([WATCHCTL, "-p", str(v.pid), "--tags", "-q"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for _ in range(6)]
    wait_until(lambda: sum(p.poll() is None for p in all_of_them) <= 1)
    wait_until(lambda: v.tell("collecting") == "1")
    left = [p for p in all_of_them if p.poll() is None]
    assert len(left) == 1
    assert [p.returncode for p in all_of_them if p not in left] == [7] * 5
    assert v.tell("collecting") == "1"
    left[0].send_signal(signal.SIGINT)
    assert left[0].wait(timeout=WAIT) == 0
    assert v.tell("collecting") == "0"


def test_a_program_that_dies_leaves_a_whole_log(victim, tmp_path, run):
    v = victim("tagged")
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "--tags", "-o", log], stdout=subprocess.PIPE, text=True)
    while "captures are collected" not in p.stdout.readline():
        pass
    v.tell("steady 50")
    wait_until(lambda: len(captures(report(run, log))) > 10)
    v.process.kill()
    p.communicate(timeout=WAIT)
    assert p.returncode == 0
    objects = report(run, log)
    assert len(captures(objects)) > 10
    values = [number(c["value"]) for c in captures(objects)]
    assert values == list(range(len(values)))
    s = summary(objects)
    assert "counted" not in s and s["recorded"] == len(values)  # its last moments are not known, and that is said
    assert any("is not known" in o["text"] for o in objects if o["type"] == "note")


def test_a_program_that_exits_gives_its_last_captures(victim, tmp_path, run):
    v = victim("tagged")
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "--tags", "-o", log], stdout=subprocess.PIPE, text=True)
    while "captures are collected" not in p.stdout.readline():
        pass
    v.send("burst 4 1000")
    v.send("exit")
    p.communicate(timeout=WAIT)
    assert check_sum(report(run, log), 4000)["lost"] == 0


@pytest.mark.slow
def test_a_watchctl_that_was_stopped_says_what_it_missed(victim, collect):
    v = victim("tagged")
    w = collect(v.pid, "--buffer", "64K")
    v.tell("steady 100")
    w.wait_for("stack")
    w.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: v.tell("collecting") == "0")
    w.process.send_signal(signal.SIGCONT)
    wait_until(lambda: v.tell("collecting") == "1")
    w.end()
    assert any("stopped recording" in o["text"] for o in w.of("note"))
    assert "counted" not in summary(w.objects)


def test_a_program_without_the_library_is_told_so(victim, run):
    v = victim("puppet")
    r = run("-p", v.pid, "--tags")
    assert r.returncode == 7
    assert "does not contain libstackwalk" in r.stderr and "-lstackwalk" in r.stderr
    r = run("--tags", "--", "/bin/true")
    assert r.returncode == 7
    assert "does not contain libstackwalk" in r.stderr


def test_another_users_program_is_refused(victim):
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    v = victim("tagged")
    r = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", WATCHCTL, "-p", str(v.pid), "--tags"],
                       capture_output=True, text=True, timeout=WAIT)
    if "Permission denied" in r.stderr and "watchctl:" not in r.stderr:
        pytest.skip("the program is in a place that others cannot reach")
    assert r.returncode == 4, r.stderr


def test_in_a_pid_namespace_threads_have_the_numbers_of_the_host(build, log_of, run, tmp_path):
    if os.geteuid() or subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode:
        pytest.skip("needs root and pid namespaces")
    p = subprocess.Popen(["unshare", "-p", "-f", build("tagged")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True, bufsize=1)
    v = Victim.__new__(Victim)
    v.process = p
    inner = int(p.stdout.readline().split()[1])
    v.pid = int(open(f"/proc/{p.pid}/task/{p.pid}/children").read().split()[0])
    assert inner == 1
    try:
        v.tell("steady 1000")
        tids = {int(t) for t in os.listdir(f"/proc/{v.pid}/task")}
        objects = log_of(v.pid, lambda: (v.tell("named 2"),
                                         wait_until(lambda: {c["tid"] for c in captures(report(run, tmp_path / "log"))} == tids)))
        v.tell("stop")
    finally:
        p.stdin.close()
        p.wait(timeout=WAIT)
    assert {c["pid"] for c in captures(objects)} == {v.pid}
    assert {c["tid"] for c in captures(objects)} == tids
    for c in captures(objects):
        if c["tag"] in ("cache-miss", "order"):
            assert c["tid"] == v.pid


def test_the_program_is_as_it_was(victim, collect, before_and_after):
    v = victim("tagged")
    w = collect(v.pid)
    v.tell("named 1")
    w.end()
    with before_and_after(v.pid):
        w = collect(v.pid)
        v.tell("named 100")
        w.end()
    assert v.tell("collecting") == "0"


def test_babeltrace2_reads_the_same_captures(victim, tmp_path, log_of):
    if not shutil.which("babeltrace2"):
        pytest.skip("no babeltrace2")
    v = victim("tagged")
    objects = log_of(v.pid, lambda: (v.tell("named 5"), v.tell("burst 2 50")))
    r = subprocess.run(["babeltrace2", "--names", "all", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    lines = r.stdout.splitlines()
    assert len([line for line in lines if "name = capture," in line]) == 5
    assert len([line for line in lines if "name = capture_value," in line]) == 105
    assert check_sum(objects, 110)["lost"] == 0


def test_a_record_takes_at_most_40_bytes_when_stacks_repeat(victim, tmp_path, log_of):
    v = victim("tagged")
    n = 50000
    log_of(v.pid, lambda: v.tell(f"burst 1 {n}"), "--buffer", "64M")
    size = (tmp_path / "log" / "events").stat().st_size
    assert size < 40 * n + 20000  # modules, names, packet headers


def test_a_log_written_from_the_manual_alone_is_read(tmp_path, run):
    moved = ctf.event(ctf.THREAD_PROCESS, 50, (90).to_bytes(4, "little") + (79).to_bytes(4, "little"))
    log = ctf.write_log(tmp_path / "log", [ctf.packet([
        ctf.process(1, 77, "app", 10**18), ctf.thread(2, 77, 78, "worker"), ctf.thread(2, 77, 79, "other"),
        ctf.tag(3, 0, name="cache-miss"), ctf.tag(3, 1, value=7), ctf.stack(4, 0, [0x401000, 0x402000]),
        ctf.capture(40, 0, 78, 0), ctf.capture(41, 1, 79, 0, before_ns=5, value=42), moved,
        ctf.capture(60, 0, 79, 0), ctf.summary(99, 2**32 - 2, 5, 3, lost=2)])], minor=2)
    objects = report(run, log)
    found = captures(objects)
    assert [(c["time_ns"], c["pid"], c["tid"], c["tag"], c.get("value")) for c in found] == [
        (36, 77, 79, "7", "0x2a"), (40, 77, 78, "cache-miss", None), (60, 90, 79, "cache-miss", None)]
    assert [f["ip"] for f in found[0]["stack"]] == ["0x401000", "0x402000"]
    assert found[1]["comm"] == "worker"
    assert summary(objects)["counted"] == 5 and summary(objects)["lost"] == 2
