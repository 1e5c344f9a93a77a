# rooms: engine/ring engine/kernel engine/perf
"""The ring engine: nothing in the program, the kernel records; with a BPF program of ours, or by its own samples."""
import collections
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import WAIT, WATCHCTL, Victim, Watch, snapshot, wait_until

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
PROGRAMS = ["puppet", "puppet_fp", "puppet_nopie", "puppet_static", "puppet_musl"]


@pytest.fixture
def ring(watch):
    """ring(v, "-v", ...): armed by the ring engine, with BPF."""
    def start(v, *args, **kw):
        w = watch("-p", v.pid, "--engine", "ring", *args, **kw)
        if any("BPF" in n["text"] for n in w.of("note")):
            pytest.skip("BPF programs are not permitted here")
        return w

    return start


@pytest.fixture
def as_nobody(build, hardware, monkeypatch):
    """as_nobody(victim, *options) -> (victim, watch), both run by a user who may load no BPF."""
    if os.geteuid():
        pytest.skip("only root can start a victim as another user")
    if subprocess.run([*NOBODY, WATCHCTL, "--version"], capture_output=True).returncode:
        pytest.skip("another user cannot run it from this folder")
    started = []

    def start(name, *args):
        popen = subprocess.Popen
        path = build(name)
        with monkeypatch.context() as m:
            m.setattr(subprocess, "Popen", lambda command, *rest, **kw: popen([*NOBODY, *command], *rest, **kw))
            v = Victim(path)
            started.append(v)
            w = Watch("-p", v.pid, "--engine", "ring", *args)
            started.append(w)
        return v, w

    yield start
    for s in started:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def functions(a):
    return [f.get("function") for f in a["stack"]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_accesses_are_told_with_kind_value_registers_and_stack(victim, ring, name):
    v = victim(name)
    w = ring(v, "-v", "flag", "-rw", "--regs")
    for line in ("write 10", "read 7", "inc 5", "wide 3"):
        v.tell(line)
    if name != "puppet_musl":  # its memcpy says nothing of how to unwind it
        v.tell("memcpy 2")
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0
    plain = w.accesses[:25]
    assert [a["kind"] for a in plain] == ["write"] * 10 + ["read"] * 7 + ["readwrite"] * 5 + ["write"] * 3
    values = [*range(10), *[9] * 7, 10, 11, 12, 13, 14, 0, 1, 2]
    assert [int(a["new"], 16) for a in plain] == values
    assert [int(a["old"], 16) for a in plain] == [0, *values[:-1]]
    for i, a in enumerate(plain[:10]):
        assert a["function"] == "write_flag" and int(a["regs"]["rdi"], 16) == i
    for a in w.accesses:
        assert "main" in functions(a) and a["tid"] == v.pid
    assert all("copy_flag" in functions(a)[:2] for a in w.accesses[25:])


def test_the_program_is_not_touched(victim, ring):
    v = victim("puppet")
    before = snapshot(v.pid)
    w = ring(v, "-v", "flag", "-rw")
    v.tell("write 100")
    assert snapshot(v.pid) == before
    os.kill(w.process.pid, signal.SIGKILL)
    w.end(sig=None, expect=None)
    assert snapshot(v.pid) == before
    v.tell("write 100")
    assert v.finish() == 0


def test_the_handler_and_the_ring_give_the_same_frames(victim, watch, ring):
    """Exact stacks, unwound in the kernel: address by address those of the handler."""
    found = []
    for engine in ("handler", "ring"):
        v = victim("puppet")
        w = watch("-p", v.pid, "-v", "flag", "--engine", engine)
        for line in ("write 5", "memcpy 5", "thread 5", "inc 5", "wide 5"):
            v.tell(line)
        w.end()
        found.append([[(f.get("module"), f.get("module_offset")) for f in a["stack"]] for a in w.accesses])
    assert found[0] == found[1] and len(found[0]) > 20


def way_of(value):
    """As same_places.c says it."""
    digits = [value // 3**i % 3 for i in range(3)]
    levels = [f"low_{digits[2]}", f"mid_{digits[1]}", f"high_{digits[0]}"]
    return ["leaf", *levels, "inner", f"outer_{value // 27 % 2}"]


@pytest.mark.parametrize("frames", ["16", "6"])
@pytest.mark.parametrize("name", ["same_places", "same_places_fp"])
def test_a_stack_is_that_of_its_own_access_where_others_were_at_the_same_place(victim, ring, name, frames):
    """Walks that were made before are remembered: never one for another, whatever they have in common."""
    v = victim(name)
    w = ring(v, "-v", "route", "-w", "--frames", frames)
    v.tell("walk 200")  # by now the rules are there
    v.tell("walk 8000")
    w.end()
    # On a busy machine the ring may overflow, which is counted.
    assert w.balanced() and len(w.accesses) + w.summary()["lost"] == 8200 and len(w.accesses) >= 2000
    for a in w.accesses:
        way = way_of(int(a["new"], 16))
        found = [f for f in functions(a) if f != "walk"]  # inlined
        assert found[:len(way)] == way[:int(frames)], a["new"]
        assert a["stack_end"] == ("complete" if frames == "16" else "depth")
    assert len({a["new"] for a in w.accesses}) == 54


def test_threads_however_short_are_all_recorded(victim, ring):
    v = victim("puppet")
    w = ring(v, "-v", "flag", "-w", "--no-stack", "--buffer", "64M")  # all have room, however late they are read
    v.tell("storm 800 25")
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 20000 and w.summary()["lost"] == 0
    assert set(collections.Counter(a["tid"] for a in w.accesses).values()) == {25}
    assert len({a["tid"] for a in w.accesses}) == 800


def test_no_thread_escapes_that_is_born_while_others_are_armed(victim, ring):
    for _ in range(5):
        v = victim("puppet")
        v.send("storm 40000 10")
        w = ring(v, "-v", "flag", "-w", "--no-stack", "-t", "0.3").end(sig=None)
        assert w.balanced() and w.summary()["recorded"] > 100
        v.process.kill()


def test_an_instruction_that_hits_two_watches_is_recorded_for_both(victim, ring):
    v = victim("puppet")
    w = ring(v, "-v", "flag", "-w", "-v", "flag", "-rw")
    v.tell("wide 5")
    v.tell("read 2")
    w.end()
    assert w.balanced() and [s["recorded"] for s in w.of("summary")] == [5, 7]


def test_programs_that_use_sigtrap_themselves_are_not_disturbed(victim, ring):
    v = victim("puppet")
    v.tell("handler own")
    v.tell("block")
    w = ring(v, "-v", "flag", "-w")
    v.tell("write 50")
    v.tell("unblock")
    v.tell("write 50")
    assert v.tell("got") == "0"
    v.tell("raise")
    assert v.tell("got") == "1"
    w.end()
    assert w.summary()["recorded"] == 100 and w.balanced()


def test_a_sandbox_is_no_obstacle(victim, ring):
    v = victim("sandboxed")
    w = ring(v, "-v", "flag", "-w")
    v.tell("x")
    v.tell("x")
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == [1, 2] and w.balanced()


@pytest.mark.parametrize("options, commands, expected", [
    (["--if", "new in 3..6"], ["write 10"] * 3, [3, 4, 5, 6] * 3),
    (["--if", "new==7 && thread!=1"], ["write 10", "thread 10"], [7, 7]),
    (["--changes"], ["same 5", "write 3", "same 4"], [5, 0, 1, 2, 5]),
    (["--caller", "inc_flag"], ["write 5", "inc 2"], [5, 6]),
    (["--not-caller", "write_flag"], ["write 5", "inc 2"], [5, 6]),
    (["--caller", "run_thread"], ["write 5", "inc 2"], []),
    (["--thread", "nobody"], ["write 5"], []),
    (["--sample", "4"], ["write 16"], [0, 4, 8, 12]),
])
def test_filters_hold_where_the_hit_happens(victim, ring, options, commands, expected):
    v = victim("puppet")
    w = ring(v, "-v", "flag", "-w", *options)
    for command in commands:
        v.tell(command)
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == expected
    assert w.balanced() and w.summary()["lost"] == 0


def test_filtered_out_hits_are_counted_and_take_no_room_in_the_buffer(victim, ring):
    v = victim("hammer", 2)
    w = ring(v, "-v", "counter", "-w", "--if", "new==0", "-t", "1").end(sig=None)
    assert w.balanced() and w.summary()["lost"] == 0 and w.summary()["filtered"] > 10000


def test_what_the_buffer_cannot_hold_is_counted(victim, ring, tmp_path):
    v = victim("hammer", 2)
    w = ring(v, "-v", "counter", "-w", "-t", "1.5", "--buffer", "64K", "-o", tmp_path / "log").end(sig=None)
    assert w.balanced() and w.summary()["counted"] > 1000
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_forked_children_are_recorded_only_when_followed(victim, ring):
    v = victim("puppet")
    w = ring(v, "-v", "flag", "-w")
    assert v.tell("fork") == "0"
    w.end()
    assert w.summary()["counted"] == 0
    w = ring(v, "-v", "flag", "-w", "--fork", "follow")
    assert v.tell("fork") == "0"
    w.end()
    [a] = w.accesses
    [child] = [p for p in w.of("process") if "parent" in p]
    assert child["parent"] == v.pid and a["pid"] == child["pid"] != v.pid and int(a["new"], 16) == 1234
    assert functions(a)[:2] == ["write_flag", "do_fork"] and w.balanced()


def test_a_child_that_outlives_its_parent_is_followed_to_its_end(victim, ring):
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 15):
        pytest.skip("before Linux 6.15 the kernel does not tell when the last child has ended")
    v = victim("orphan")
    w = ring(v, "-v", "flag", "-w", "--fork", "follow")
    v.send("6")
    v.process.wait(timeout=WAIT)
    w.end(sig=None)
    assert [int(a["new"], 16) for a in w.accesses] == [1, 2, 3, 4, 5, 6] and w.balanced()


def test_exec_ends_the_watch_at_once_and_the_program_lives_on(victim, ring):
    v = victim("puppet")
    w = ring(v, "-v", "flag", "-w")
    v.tell("write 5")
    v.send("exec 600")
    w.end(sig=None, expect=None)
    assert v.alive()  # it sleeps
    assert w.process.returncode == 3 and w.summary()["recorded"] == 5


def test_a_library_that_is_loaded_later_is_armed_late_but_armed(victim, ring, run, build):
    lib = build("libplugin.so")
    v = victim("puppet")
    w = ring(v, "-v", "libplugin.so:plugin_state", "-w", "--pending", wait=False)
    wait_until(lambda: "1 of 4" in run("list", "-p", v.pid).stdout)  # the hook in the loader
    v.tell(f"dlopen {lib}")
    w.wait_for("armed")
    v.tell("plugin 5")
    w.end()
    # The constructor, plugin_start, may be over before it is armed.
    assert [a["function"] for a in w.accesses][-5:] == ["plugin_touch"] * 5
    assert {a["function"] for a in w.accesses} <= {"plugin_start", "plugin_touch"}
    assert w.balanced()
    assert any("cannot make the program wait when a library is loaded" in n["text"] for n in w.of("note"))


def test_rules_go_with_the_library_they_are_of(victim, ring, build):
    """Unloaded and loaded again, elsewhere or not: stacks stay exact."""
    lib = build("libplugin.so")
    v = victim("puppet")
    v.tell(f"dlopen {lib}")
    w = ring(v, "-v", "flag", "-w")
    for _ in range(3):
        v.tell("write 3")
        v.tell("dlclose")
        v.tell(f"dlopen {lib}")
    v.tell("write 3")
    w.end()
    assert len(w.accesses) == 12 and w.balanced()
    assert all(functions(a)[0] == "write_flag" and "main" in functions(a) for a in w.accesses)


def test_a_thread_local_variable_is_watched_in_the_threads_there_are(victim, ring):
    v = victim("mover")
    w = ring(v, "-v", "mine")
    v.tell("tls 2")
    w.end()
    assert w.of("armed")[0]["per_thread"] and any("are armed when watchctl finds them" in n["text"] for n in w.of("note"))
    assert [(a["old"], a["new"]) for a in w.accesses] == [("0x7", "0x1"), ("0x1", "0x2")] and w.balanced()


def test_without_btf_the_kernel_samples_and_says_why(victim, hardware):
    """A kernel without type information, as far as a process can tell: its file is covered."""
    if os.geteuid():
        pytest.skip("only root can cover a file")
    v = victim("puppet")
    cover = "mount --bind /dev/null /sys/kernel/btf/vmlinux && exec \"$@\""
    line = ["unshare", "--mount", "sh", "-c", cover, "sh", WATCHCTL, "-p", str(v.pid), "-v", "flag", "--engine", "ring",
            "-n", "3", "--json"]
    r = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    before = []
    try:
        for line in r.stdout:
            before.append(line)
            if '"type":"armed"' in line:
                break
        v.tell("write 3")
        after, err = r.communicate(timeout=WAIT)
        out = "".join(before) + after
    finally:
        r.kill()
        r.wait()
    assert r.returncode == 0, err
    assert "BTF" in out and out.count('"type":"access"') == 3


def test_the_register_cannot_be_chosen(victim, run):
    v = victim("puppet")
    r = run("-p", v.pid, "-v", "flag", "-i", "2", "--engine", "ring")
    assert r.returncode == 7 and "-i" in r.stderr and "--engine handler" in r.stderr


def test_without_bpf_the_kernels_samples_are_unwound_here(as_nobody):
    v, w = as_nobody("puppet", "-v", "flag", "-rw")
    for line in ("write 5", "read 3", "inc 2", "write 1", "memcpy 1", "thread 4"):
        v.tell(line)
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0
    [why] = [n["text"] for n in w.of("note") if "BPF" in n["text"] and "samples" in n["text"]]
    assert "CAP_BPF" in why and "Values" in why and "filters" in why
    assert any("accesses by the kernel are not seen" in n["text"] for n in w.of("note"))
    plain = w.accesses[:11]
    assert [a["kind"] for a in plain] == ["write"] * 5 + ["read"] * 3 + ["readwrite"] * 2 + ["write"]
    new = [a.get("new") for a in plain]
    assert [int(n, 16) for n in new[:8] + new[10:]] == [0, 1, 2, 3, 4, 4, 4, 4, 0]
    assert new[8:10] == [None, None] and plain[10].get("old") is None  # inc: in no register
    assert [int(a["old"], 16) for a in plain[:9]] == [0, 0, 1, 2, 3, 4, 4, 4, 4]
    for a in w.accesses:
        assert {"obey_all", "start_thread"} & set(functions(a)), functions(a)
    assert any(functions(a)[1:2] == ["copy_flag"] for a in w.accesses[11:])


def test_without_bpf_filters_are_evaluated_afterwards(as_nobody):
    v, w = as_nobody("puppet", "-v", "flag", "-w", "--if", "new>5", "--caller", "write_flag")
    v.tell("write 9")
    v.tell("inc 3")
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == [6, 7, 8]
    assert w.balanced() and w.summary()["filtered"] == 9


def test_without_bpf_accesses_of_several_threads_come_in_the_order_of_time(as_nobody):
    v, w = as_nobody("hammer", "-v", "counter", "-w", "-n", "300", "--frames", "4")
    w.end(sig=None)
    times = [a["time_ns"] for a in w.accesses]
    assert len(times) == 300 and times == sorted(times) and w.balanced()


def test_without_bpf_what_the_rings_cannot_hold_is_counted(as_nobody):
    v, w = as_nobody("puppet", "-v", "flag", "-w", "--buffer", "64K")
    v.tell("storm 80 200")
    w.end()
    assert w.balanced() and w.summary()["counted"] == 16000 and w.summary()["lost"] > 0


def test_containers_number_threads_differently(ring, build):
    """A target in a pid namespace of its own: the ids told are ours."""
    if os.geteuid():
        pytest.skip("only root can make a pid namespace")
    p = subprocess.Popen(["unshare", "--fork", "--pid", "--kill-child", build("puppet")], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert p.stdout.readline().strip() == "pid 1"
        children = Path(f"/proc/{p.pid}/task/{p.pid}/children")
        wait_until(lambda: children.read_text().split())
        pid = int(children.read_text().split()[0])
        v = type("V", (), {"pid": pid})
        w = ring(v, "-v", "flag", "-w")
        for line in ("write 3", "thread 2"):
            p.stdin.write(line + "\n")
            p.stdin.flush()
            p.stdout.readline()
        w.end()
        assert [a["pid"] for a in w.accesses] == [pid] * 5
        assert [a["tid"] for a in w.accesses[:3]] == [pid] * 3 and w.accesses[3]["tid"] != pid
    finally:
        p.kill()
        p.wait()
