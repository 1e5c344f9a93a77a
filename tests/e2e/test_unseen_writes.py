# rooms: engine view/event
"""Values that change without an access that a debug register could see: old values stay true, and the change is said."""
import ctypes
import os
import re
import signal
import subprocess

import pytest
from conftest import WATCHCTL
from repl_driver import Dialogue
from waiting import WAIT, ready, wait_until

ENGINES = ["ring", "handler", "ptrace"]
libc = ctypes.CDLL(None, use_errno=True)


class Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def by_vm(pid, addr, value):
    n = ctypes.c_int(value)
    here, there = Range(ctypes.addressof(n), 4), Range(addr, 4)
    assert libc.process_vm_writev(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 4


def by_file(pid, addr, value):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
        assert os.pwrite(mem.fileno(), value.to_bytes(4, "little"), addr) == 4


def by_gdb(pid, addr, value):
    subprocess.run(["gdb", "-q", "-batch", "-nx", "-p", str(pid), "-ex", f"set *(int *){addr} = {value}"],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=WAIT)


def addresses(v):
    return [int(a, 16) for a in v.tell("where").split()]


def changes(w, name="x"):
    return [n["text"] for n in w.of("note") if n["text"].startswith(f"{name} changed")]


def values(w):
    return [(int(a["old"], 16), int(a["new"], 16)) for a in w.accesses]


def uncertain(w):
    return [a.get("old_uncertain", False) for a in w.accesses]


@pytest.mark.slow_when("mem-handler", "mem-ptrace", "gdb-handler")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["vm", "mem", "gdb"])
def test_what_another_process_writes_is_said_with_both_values(victim, watch, how, engine):
    if how == "gdb" and engine == "ptrace":
        pytest.skip("a program has one tracer, which is watchctl's here")
    v = victim("unseen")
    x = addresses(v)[0]
    w = watch("-p", v.pid, "-v", "x", "--engine", engine)
    {"vm": by_vm, "mem": by_file, "gdb": by_gdb}[how](v.pid, x, 3)
    wait_until(lambda: changes(w))
    v.tell("store 5")
    w.end()
    text = changes(w)[0]
    assert re.search(r"changed from 1 to 3 between (\S+) and (\S+) without an access by this process", text), text
    first, last = re.search(r"between ([\d:.]+) and ([\d:.]+)", text).groups()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", first) and first < last or last < "00:01"
    assert len(changes(w)) == 1
    assert values(w) == [(3, 5)]  # the value that was seen in between
    assert w.balanced()


def test_a_change_just_before_the_end_is_said_too(victim, watch):
    """Once nothing is armed, one last value is compared."""
    v = victim("unseen")
    x = addresses(v)[0]
    for n in range(2, 8):  # whether it is the last look, or the one before, that sees it
        w = watch("-p", v.pid, "-v", "x")
        by_vm(v.pid, x, n)
        w.end()
        assert [t.split(" between")[0] for t in changes(w)] == [f"x changed from {n - 1} to {n}"], w.objects


def changes_as_it_goes(d, v, x, begin, end, last):
    found = []
    for n in range(2, 5):
        d.do(begin, "watching x" if begin == "watch x" else "enabled again")
        by_vm(v.pid, x, n)
        found += re.findall(r"x changed from (\d) to (\d) between", d.do(end.format(n - 1), last))
    return found


@pytest.mark.parametrize("begin,end,last", [("enable 1", "disable 1", "is disabled"),
                                            ("watch x", "delete {}", "accesses counted by the CPU")])
def test_a_change_just_before_its_watch_is_taken_away_is_said_too(victim, hardware, begin, end, last):
    v = victim("unseen")
    d = Dialogue()
    d.do(f"attach {v.pid}", "process")
    if begin == "enable 1":
        d.do("watch x\ndisable 1", "is disabled")
    assert changes_as_it_goes(d, v, addresses(v)[0], begin, end, last) == [(str(n - 1), str(n)) for n in range(2, 5)]
    d.finish("detach\n")


@pytest.mark.parametrize("engine", ENGINES)
def test_accesses_of_the_program_are_never_called_unseen(victim, watch, engine):
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "x", "--engine", engine)
    for n in range(400):
        v.tell(f"store {n}")
    w.end()
    assert not changes(w)
    assert [n for _, n in values(w)] == list(range(400))
    assert not any(uncertain(w))


def test_what_the_kernel_reads_into_it_is_an_access_where_that_is_seen(victim, watch, tmp_path):
    (tmp_path / "four").write_bytes((77).to_bytes(4, "little"))
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "x", "--engine", "ring")
    if not w.of("armed")[0]["kernel"]:
        pytest.skip("accesses by the kernel are not seen on this machine")
    assert v.tell(f"read {tmp_path}/four") == "1"
    wait_until(lambda: w.accesses)
    w.end()
    assert not changes(w)


def test_of_a_kernel_that_is_not_seen_the_change_says_so(victim, watch, tmp_path):
    (tmp_path / "four").write_bytes((77).to_bytes(4, "little"))
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "x", "--engine", "ptrace")
    assert v.tell(f"read {tmp_path}/four") == "1"
    wait_until(lambda: changes(w))
    w.end()
    assert "from 1 to 77" in changes(w)[0] and "kernel for this process" in changes(w)[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_exchanges_tell_the_old_value_that_another_has_written(victim, watch, engine):
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "*shared", "--engine", engine)
    found = []
    for n in range(10, 16):
        for command in (f"add {n}", f"swap {n}", f"cas {n + 100} {n}", f"cas {n} {n + 1}"):
            v.tell(f"beside {n * (7 if 'add' in command else 1)}")
            found.append(int(v.tell(command)))
    w.end()
    assert len(w.accesses) == len(found)
    assert [old for old, _ in values(w)] == found  # what the program itself found
    assert not any(uncertain(w))
    assert all(a["new"] == a["old"] for a in w.accesses[2::4])  # a cmpxchg that failed
    assert [n for _, n in values(w)[3::4]] == [n + 1 for n in range(10, 16)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_old_value_that_another_may_have_replaced_is_marked(victim, watch, engine):
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "*shared", "--engine", engine)
    v.tell("put 5")
    v.tell("beside 9")
    v.tell("put 5")
    w.end()
    assert uncertain(w) == [True, True]
    assert [n for _, n in values(w)] == [5, 5]


def test_a_marked_value_is_not_called_the_same(hardware, victim, run, tmp_path):
    """In text, in the table, from a log, in CSV, and for --changes, which keeps what it does not know."""
    v = victim("unseen")
    log = tmp_path / "shared.log"
    w = ready(WATCHCTL, "-p", str(v.pid), "-v", "*shared", "--changes", "-o", log, stdout=subprocess.DEVNULL,
              stderr=subprocess.DEVNULL)
    for _ in range(3):
        v.tell("put 5")
    w.send_signal(signal.SIGINT)
    assert w.wait(timeout=WAIT) == 0
    text = run("report", log).stdout
    assert text.count("~5 -> 5") >= 3 and "(same)" not in text  # two lines, and the table
    assert "~5" in run("export", log, "--to", "csv").stdout


@pytest.mark.slow_when("ptrace")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_kernel_clears_as_a_thread_ends_is_not_lost(victim, watch, engine):
    v = victim("unseen")
    w = watch("-p", v.pid, "-v", "word", "--engine", engine)
    for _ in range(3):
        assert v.tell("thread 77") == "0"
    w.end()
    stores = [a for a in w.accesses if a["new"] == "0x4d"]
    clears = [a for a in w.accesses if a["new"] == "0x0"]
    assert len(stores) == 3 and len(clears) >= 3
    for a in clears[1:]:  # after the thread: 77 was cleared, by then or not
        assert a["old"] == "0x0" or a.get("old_uncertain"), a


def test_where_the_page_is_mapped_besides_is_said_when_it_is_armed(victim, watch):
    v = victim("unseen")
    _, _, beside = addresses(v)
    child = victim("unseen")  # has a page of its own
    w = watch("-p", v.pid, "-v", "*shared")
    wait_until(lambda: w.of("note"))
    w.end()
    text = next(n["text"] for n in w.of("note") if "same page" in n["text"])
    assert f"{beside:#x}" in text and str(child.pid) not in text
    w = watch("-p", v.pid, "-v", "x").end()
    assert not [n for n in w.of("note") if "same page" in n["text"]]


def test_processes_that_map_the_page_are_named(victim, watch):
    v = victim("unseen")
    child = v.tell("fork")
    w = watch("-p", v.pid, "-v", "*shared")
    wait_until(lambda: w.of("note"))
    w.end()
    assert f"process {child}" in next(n["text"] for n in w.of("note") if "same page" in n["text"])


@pytest.mark.parametrize("options", [["--redact", "x"], ["--no-values"], []])
def test_values_that_are_withheld_are_not_in_the_note_of_a_change(hardware, victim, run, tmp_path, options):
    """Neither as it is recorded nor where a log is redacted later."""
    v = victim("unseen")
    log = tmp_path / "x.log"
    w = ready(WATCHCTL, "-p", str(v.pid), "-v", "x", "-o", log, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    by_vm(v.pid, addresses(v)[0], 424242)
    w.send_signal(signal.SIGINT)
    assert w.wait(timeout=WAIT) == 0
    assert (b"424242" in b"".join(f.read_bytes() for f in log.iterdir())) == (not options)
    later = run("report", log, "--redact", "x").stdout
    assert "x changed between" in later and "without an access by this process" in later and "424242" not in later
