# rooms: engine/kernel engine/ring view/event
"""What the kernel does to a variable on the program's behalf: which call, read or write, from and to which value."""
import re
import subprocess
from pathlib import Path

import pytest
from waiting import WAIT

ENGINES = ["handler", "ring"]
SYSCALLS = {  # command of the victim: (variable, kind, system call, the victim's function that made it)
    "read": ("word", "write", "read", "by_read"),
    "recv": ("word", "write", "recvfrom", "by_recv"),
    "send": ("word", "read", "write", "by_send"),
    "getrandom": ("word", "write", "getrandom", "obey"),
    "clock": ("word", "write", "clock_gettime", "obey"),
    "wait": ("status", "write", "wait4", "by_wait"),
    "futex": ("futex", "read", "futex", "futex_call"),
    "futex_op 77": ("futex", "readwrite", "futex", "futex_call"),
    "uring": ("word", "write", "io_uring_enter", "by_uring"),
}


@pytest.fixture
def armed(watch):
    """A watch that sees the kernel; skips where that is not permitted."""
    def start(v, engine, *args):
        w = watch("-p", v.pid, "--engine", engine, *args)
        if not all(a["kernel"] for a in w.of("armed")):
            pytest.skip("the kernel's accesses are not to be seen here (needs CAP_PERFMON)")
        if w.of("armed")[0]["engine"] != engine or any("BPF" in n["text"] for n in w.of("note")):
            pytest.skip("BPF programs are not permitted here")
        return w

    return start


def of_kernel(w):
    return [a for a in w.accesses if a["origin"] == "kernel"]


def functions(a):
    return [f.get("function") for f in a["stack"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_into_the_variable_is_told_with_call_kind_values_and_stack(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "-w")
    values = [int(v.tell("read")) for _ in range(3)]
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0
    assert [a["origin"] for a in w.accesses] == ["kernel"] * 3
    for a, old, new in zip(w.accesses, [0, *values], values):
        assert (a["kind"], a["syscall"], int(a["old"], 16), int(a["new"], 16)) == ("write", "read", old, new)
        assert a["insn"] == "syscall" and a["kernel_function"]
        assert functions(a)[1] == "by_read" and "main" in functions(a) and a["stack_end"] == "complete"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("command", SYSCALLS)
def test_each_call_is_named_and_known_as_a_read_or_a_write(victim, armed, engine, command):
    variable, kind, call, caller = SYSCALLS[command]
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", variable, "-rw")
    answer = v.tell(command)
    w.end()
    if answer == "refused":
        pytest.skip("io_uring is not permitted here")
    assert w.balanced() and w.summary()["lost"] == 0
    found = of_kernel(w)
    assert [(a["kind"], a["syscall"]) for a in found] == [(kind, call)]
    assert caller in functions(found[0]) and "main" in functions(found[0])
    bits = 64 if variable == "word" else 32
    assert int(found[0]["new"], 16) == int(answer) % (1 << bits)
    if kind == "read":
        assert found[0]["old"] == found[0]["new"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_thread_of_io_uring_is_seen_though_it_never_runs_in_user_mode(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "-w")
    answer = v.tell("uring_async")
    w.end()
    if answer == "refused":
        pytest.skip("io_uring is not permitted here")
    [a] = w.accesses
    assert a["origin"] == "kernel" and a["kind"] == "write" and int(a["new"], 16) == int(answer)
    assert a["tid"] != v.pid and a["pid"] == v.pid and "syscall" not in a and "insn" not in a
    assert w.balanced()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_kernels_and_the_programs_accesses_come_in_order_each_with_the_last_value(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "-w")
    told = [("user", 5), ("user", 6), ("kernel", None), ("user", 7), ("kernel", None), ("kernel", None), ("user", 8)]
    values = [int(v.tell(f"set {n}") if who == "user" else v.tell("read")) for who, n in told]
    w.end()
    assert [(a["origin"], int(a["new"], 16)) for a in w.accesses] == [(who, n) for (who, _), n in zip(told, values)]
    assert [int(a["old"], 16) for a in w.accesses] == [0, *values[:-1]]
    assert w.balanced()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_signals_frame_is_written_by_no_system_call_and_read_by_sigreturn(victim, armed, engine):
    v = victim("kernel_calls")
    slot = v.tell("where")
    w = armed(v, engine, "-v", slot, "-s", "8", "-rw")
    v.tell("signal")
    v.tell("signal")
    w.end()
    assert w.balanced() and {a["origin"] for a in w.accesses} == {"kernel"}
    assert [(a["kind"], a.get("syscall")) for a in w.accesses] == [("write", None), ("read", "rt_sigreturn")] * 2
    for a in w.accesses[::2]:
        assert "insn" not in a and "raise" in functions(a) and "main" in functions(a)
    for a in w.accesses[1::2]:
        assert functions(a)[0] == "__restore_rt"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watch_of_reads_keeps_what_the_kernel_read_and_drops_what_it_wrote(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "-r")
    for command in ("read", "send", "read", "send", "send"):
        v.tell(command)
    w.end()
    assert [a["syscall"] for a in of_kernel(w)] == ["write"] * 3
    assert w.balanced() and w.summary()["filtered"] >= 2


@pytest.mark.parametrize("engine", ENGINES)
def test_filters_hold_for_the_kernel_too(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "--if", "new>old && new<100", "-v", "futex", "--caller", "by_read")
    for command in ("set 5", "read", "set 7", "set 8", "futex_op 9", "set 3"):
        v.tell(command)
    w.end()
    assert [int(a["new"], 16) for a in w.accesses] == [5, 8]  # 7 came after what the kernel had written
    assert w.balanced() and w.summary(1)["recorded"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_reading_what_is_watched_for_reads_is_not_counted_as_a_read(victim, armed, engine):
    """Values that no register holds are read from memory, by the engine, in the thread that is watched."""
    v = victim("puppet")
    w = armed(v, engine, "-v", "flag", "-rw")
    v.tell("kernel 1")  # from here on the kernel records, whichever the engine
    v.tell("inc 500")
    w.end()
    assert [a["kind"] for a in w.accesses] == ["write"] + ["readwrite"] * 500
    assert [int(a["new"], 16) for a in w.accesses] == list(range(1000, 1501))
    assert w.summary()["lost"] == 0 and w.balanced()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_of_what_the_kernel_copies_is_the_watchs_own_bytes(victim, armed, engine):
    v = victim("kernel_calls")
    w = armed(v, engine, "-v", "word", "-s", "2", "-w")
    value = int(v.tell("read"))
    w.end()
    assert {a["syscall"] for a in w.accesses} == {"read"} and {a["size"] for a in w.accesses} == {2}
    assert int(w.accesses[-1]["new"], 16) == value & 0xffff and w.balanced()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_keeps_what_was_told_of_the_kernel(victim, armed, run, tmp_path, engine):
    v = victim("kernel_calls")
    log = tmp_path / "log"
    w = armed(v, engine, "-v", "word", "-w", "-o", log, "--echo")
    v.tell("read")
    w.end()
    v.finish()
    r = run("report", log)
    assert r.returncode == 0, r.stderr
    assert re.search(r"by the kernel: read, in \w+", r.stdout), r.stdout
    out = subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert out.returncode == 0 and "in_kernel = 1" in out.stdout, out.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_left_behind(victim, armed, before_and_after, engine):
    v = victim("kernel_calls")
    with before_and_after(v.pid):
        w = armed(v, engine, "-v", "word", "-rw")
        v.tell("read")
        w.end()
    v.tell("read")
    assert v.alive() and Path(f"/proc/{v.pid}/status").exists()
