# rooms: engine code view/event
"""Packaged programs that nobody here wrote: what is told of them against what they, the kernel and gdb say."""
import json
import re
import subprocess
import threading
from pathlib import Path

import pytest

from conftest import WAIT, snapshot, wait_until

PYTHON = "/usr/bin/python3"
HEAP = "libc.so.6:main_arena.system_mem"

# Obeys a line at a time. mallinfo2() is libc's own account of what the watched variable holds.
SCRIPT = """
import ctypes, sys, threading, time
class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Mallinfo
kept = []
def grow(n):
    for _ in range(n):
        kept.append(bytearray(20000))
def nap(n):
    for _ in range(n):
        time.sleep(0.001)
def both(n):
    other = threading.Thread(target=nap, args=(n,))
    other.start()
    nap(n)
    other.join()
print("pid", __import__("os").getpid(), flush=True)
for line in sys.stdin:
    verb, n = line.split()
    if verb == "arena":
        print(libc.mallinfo2().arena, flush=True)
    else:
        {"grow": grow, "nap": nap, "both": both}[verb](int(n))
        print("ok", flush=True)
"""


class Python:
    def __init__(self):
        self.process = subprocess.Popen([PYTHON, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.pid = int(self.process.stdout.readline().split()[1])

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip()

    def arena(self):
        return int(self.tell("arena 0"))

    def heap_bytes(self):
        """What brk(2) has given to it, as the kernel tells."""
        maps = Path(f"/proc/{self.pid}/maps").read_text()
        start, end = re.search(r"^(\w+)-(\w+) .*\[heap\]$", maps, re.M).groups()
        return int(end, 16) - int(start, 16)


@pytest.fixture
def python():
    for package in ("python3-dbg", "libc6-dbg"):
        status = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], capture_output=True,
                                text=True)
        if status.stdout != "installed":
            pytest.skip(f"the Debian package {package} is not installed")
    started = Python()
    yield started
    started.process.kill()
    started.process.communicate()


def names(access):
    return [f.get("function") for f in access["stack"]]


def snapshot_but_heap(pid):
    found = snapshot(pid)
    found["maps"] = [line for line in found["maps"] if not line.endswith("[heap]")]
    return found


def in_order(wanted, found):
    rest = iter(found)
    return all(name in rest for name in wanted)


def test_who_grows_the_heap_of_python_is_told_with_every_byte_and_frame(python, watch):
    python.tell("grow 1")
    before, found = python.arena(), snapshot_but_heap(python.pid)
    w = watch("-p", python.pid, "-v", HEAP, "-w")
    python.tell("grow 300")
    w.end()
    after = python.arena()
    assert snapshot_but_heap(python.pid) == found

    assert w.of("armed")[0]["verified"] and w.balanced() and w.summary()["lost"] == 0
    steps = [(int(a["old"], 16), int(a["new"], 16)) for a in w.accesses]
    assert steps[0][0] == before and steps[-1][1] == after == python.heap_bytes()
    assert all(step[0] == last[1] for last, step in zip(steps, steps[1:])), steps
    assert sum(new - old for old, new in steps) == after - before > 5_000_000

    bytearrays = [a for a in w.accesses if "PyByteArray_Resize" in names(a)]
    assert bytearrays
    for a in bytearrays:
        assert in_order(["sysmalloc", "_int_malloc", "malloc", "PyByteArray_Resize", "bytearray___init__",
                         "_PyEval_EvalFrameDefault", "Py_RunMain", "_start"], names(a)), names(a)
        inlined = [f["function"] for f in a["stack"] if f["inlined"]]
        assert in_order(["PyMem_RawMalloc", "bytearray___init___impl"], inlined), inlined
        assert a["stack_end"] == "complete" and a["module"].endswith("/libc.so.6") and a["kind"] == "write"


def test_the_interpreters_lock_is_seen_taken_and_dropped_in_turn_by_two_threads(python, watch):
    w = watch("-p", python.pid, "-v", "_PyRuntime.ceval.gil.locked", "-w")
    python.tell("both 200")
    w.end()
    assert w.balanced() and w.summary()["lost"] == 0 and w.summary()["recorded"] >= 2 * 2 * 200
    values = [int(a["new"], 16) for a in w.accesses]
    assert all({a, b} == {0, 1} for a, b in zip(values, values[1:]))
    taken = [a for a in w.accesses if a["new"] == "0x1"]
    dropped = [a for a in w.accesses if a["new"] == "0x0"]
    assert {a["function"] for a in taken} == {"take_gil"}
    assert all("drop_gil" in names(a) for a in dropped)
    assert len({a["tid"] for a in w.accesses}) == 2


def test_a_library_variable_of_a_launched_program_is_armed_before_its_first_access(run, hardware, python, tmp_path):
    out = tmp_path / "accesses"
    script = SCRIPT.split("kept =")[0] + "print(libc.mallinfo2().arena, flush=True)\n__import__('os')._exit(0)\n"
    r = run("-v", HEAP, "-w", "--json", "--output", out, "--", PYTHON, "-c", script)
    assert r.returncode == 0, r.stderr
    objects = [json.loads(line) for line in out.read_text().splitlines()]
    accesses = [o for o in objects if o["type"] == "access"]
    assert accesses[0]["old"] == "0x0", "the first allocation of all was missed"
    assert int(accesses[-1]["new"], 16) == int(r.stdout)
    summary = [o for o in objects if o["type"] == "summary"][0]
    assert summary["counted"] == summary["recorded"] == len(accesses)


def test_sqlite_reads_its_settings_where_only_symbol_tables_tell(watch):
    sqlite = subprocess.Popen(["/usr/bin/sqlite3", ":memory:"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, bufsize=1)
    try:
        sqlite.stdin.write("select 1;\n")
        assert sqlite.stdout.readline() == "1\n"
        w = watch("-p", sqlite.pid, "-v", "libsqlite3.so.0:sqlite3Config", "-s", "4", "-r")
        sqlite.stdin.write("select hex(zeroblob(10));\n")
        assert sqlite.stdout.readline() == "00" * 10 + "\n"
        w.end()
    finally:
        sqlite.kill()
        sqlite.communicate()
    assert w.balanced() and w.summary()["lost"] == 0 and len(w.accesses) > 5
    assert {a["kind"] for a in w.accesses} == {"read"} and {a["new"] for a in w.accesses} == {"0x1"}
    assert {a["function"] for a in w.accesses} <= {"sqlite3Malloc", "sqlite3_free", "sqlite3Realloc"}
    allocating = [names(a) for a in w.accesses if a["function"] == "sqlite3Malloc"]
    assert any(in_order(["sqlite3RunParser", "sqlite3_prepare_v2", "__libc_start_call_main"], n) for n in allocating)
    assert all(a["stack_end"] == "complete" for a in w.accesses)


def gdb_stack(python, addr, line):
    """Where gdb's own watchpoint stops: the function, and (file, line) of every frame, inlined ones included."""
    def tell_once_attached():
        wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{python.pid}/status").read_text())
        python.process.stdin.write(line + "\n")

    teller = threading.Thread(target=tell_once_attached)
    teller.start()
    out = subprocess.run(["gdb", "-q", "-batch", "-p", str(python.pid), "-ex", f"watch *(unsigned long *){addr}",
                          "-ex", "continue", "-ex", "bt", "-ex", "delete", "-ex", "detach"],
                         capture_output=True, text=True, timeout=WAIT).stdout
    teller.join()
    assert "Hardware watchpoint 1" in out, out
    python.process.stdout.readline()
    function = re.search(r"^#0 +(?:0x\w+ in )?(\w+) ", out, re.M).group(1)
    places = re.findall(r"^#\d+ .* at (\S+):(\d+)$", out, re.M)
    return function, [(Path(file).name, int(number)) for file, number in places]


def test_the_stack_is_the_one_that_gdb_prints(python, watch):
    python.tell("grow 1")
    w = watch("-p", python.pid, "-v", HEAP, "-w")
    python.tell("grow 100")
    w.end()
    function, places = gdb_stack(python, w.of("armed")[0]["addr"], "grow 100")
    assert len(places) > 20
    stacks = [[(Path(f["file"]).name, f["line"]) for f in a["stack"] if "line" in f] for a in w.accesses]
    # Not the first: gdb shows the instruction after the access there, we the accessing one.
    assert places[1:] in [stack[1:] for stack in stacks], (places, stacks)
    assert function in [a["function"] for a in w.accesses]
    assert python.tell("nap 1") == "ok"


RENAMES = """
import ctypes, os, sys
libc, word = ctypes.CDLL(None), ctypes.c_long(0)
print(os.getpid(), hex(ctypes.addressof(word)), flush=True)
for line in sys.stdin:
    libc.prctl(15, line.strip().encode(), 0, 0, 0)
    word.value += 1
    print("ok", flush=True)
"""


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_thread_has_the_name_that_it_had_at_each_access(run, watch, tmp_path, engine):
    p = subprocess.Popen([PYTHON, "-c", RENAMES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    pid, addr = p.stdout.readline().split()
    names = [f"phase {i}" for i in range(5)]
    w = watch("-p", pid, "-v", addr, "-s", "8", "-w", "--engine", engine, "-o", tmp_path / "log", "--echo")
    for i, name in enumerate(names):
        p.stdin.write(name + "\n")
        assert p.stdout.readline() == "ok\n"
        wait_until(lambda: len(w.accesses) == i + 1)
    p.stdin.close()
    p.wait(WAIT)
    w.end(sig=None)
    told = [json.loads(line) for line in run("report", tmp_path / "log", "--json").stdout.splitlines()]
    assert [o["comm"] for o in told if o["type"] == "access"] == names == [a["comm"] for a in w.accesses]
