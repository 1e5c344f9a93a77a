# rooms: engine/handler engine/intake engine/plan handler view/event monitor
"""What a watch tells of accesses, against what the victim says it did and what gdb says of the code."""
import contextlib
import ctypes
import os
import re
import signal
import struct
import subprocess

import pytest
from waiting import WAIT, wait_until

SYS_PERF_EVENT_OPEN = 298
PROGRAMS = ["puppet", "puppet_fp", "puppet_nopie", "puppet_static", "puppet_static_pie", "puppet_musl"]


def functions(w, kind=None):
    return [a.get("function") for a in w.accesses if kind is None or a["kind"] == kind]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_access_is_recorded_with_kind_value_and_function(victim, watch, name):
    v = victim(name)
    w = watch("-p", v.pid, "-v", "flag", "-rw")
    v.tell("write 10")
    v.tell("read 7")
    v.tell("inc 5")
    v.tell("same 3")
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 25 and w.summary()["lost"] == 0
    assert functions(w) == ["write_flag"] * 10 + ["read_flag"] * 7 + ["inc_flag"] * 5 + ["write_flag"] * 3
    kinds = [a["kind"] for a in w.accesses]
    assert kinds == ["write"] * 10 + ["read"] * 7 + ["readwrite"] * 5 + ["write"] * 3
    values = [int(a["new"], 16) for a in w.accesses]
    assert values == list(range(10)) + [9] * 7 + [10, 11, 12, 13, 14] + [5, 5, 5]
    old = [int(a["old"], 16) for a in w.accesses]
    assert old == [0] + values[:-1]
    for a in w.accesses:
        assert a["tid"] == v.pid and a["comm"].startswith("puppet") and a["origin"] == "user"
        assert "main" in [f.get("function") for f in a["stack"]], a["stack"]


def test_only_writes_are_told_by_default(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag")
    v.tell("read 50")
    v.tell("write 4")
    w.end()
    assert w.summary()["counted"] == w.summary()["recorded"] == 4


def test_a_read_watch_tells_reads_alone_and_counts_the_writes_as_filtered(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-r")
    v.tell("write 40")
    v.tell("read 8")
    v.tell("inc 3")
    w.end()
    assert [a["kind"] for a in w.accesses] == ["read"] * 8 + ["readwrite"] * 3
    assert w.balanced() and w.summary()["filtered"] == 40


def test_zero_accesses_are_zero_and_the_watch_was_proved_by_a_known_one(victim, watch):
    v = victim("puppet")
    for access in ("-w", "-rw"):
        w = watch("-p", v.pid, "-v", "untouched", access)
        v.tell("write 100")
        w.end()
        assert w.of("armed")[0]["verified"] is True
        assert w.summary()["counted"] == 0 and not w.accesses


def test_a_wider_store_that_covers_the_variable_is_a_hit(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("wide 6")
    w.end()
    assert functions(w) == ["wide_flag"] * 6
    assert [int(a["new"], 16) for a in w.accesses] == list(range(6))


def test_the_accessing_instruction_is_the_one_gdb_disassembles_there(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-rw")
    v.tell("write 1")
    v.tell("read 1")
    v.tell("inc 1")
    w.end()
    for a in w.accesses:
        out = subprocess.run(["gdb", "-q", "-batch", "-p", str(v.pid), "-ex", "set disassembly-flavor intel", "-ex",
                              f"x/2i {a['ip']}"], capture_output=True, text=True, timeout=WAIT).stdout
        lines = re.findall(r"^\s*(0x[0-9a-f]+) <(\w+)\+?(\d*)>:\s+(\w+)", out, re.M)
        assert int(lines[0][0], 16) == int(a["ip"], 16)
        assert lines[0][1] == a["function"] and int(lines[0][2] or 0) == a["offset"]
        assert a["insn"].split()[0] == lines[0][3]


@pytest.mark.parametrize("name", ["puppet", "puppet_fp"])
def test_a_write_inside_memcpy_shows_who_called_memcpy(victim, watch, name):
    v = victim(name)
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("memcpy 3")
    w.end()
    assert len(w.accesses) in (3, 6)  # glibc moves 4 bytes by two overlapping stores
    for a in w.accesses:
        names = [f.get("function") for f in a["stack"]]
        assert "copy_flag" in names[:2], names
        assert "main" in names


def test_a_kernel_write_into_the_variable_is_told_as_the_kernels(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    if not w.of("armed")[0].get("kernel"):
        pytest.skip("the kernel's accesses are not to be seen here (needs CAP_PERFMON)")
    v.tell("kernel 5")
    w.end()
    assert [a["origin"] for a in w.accesses] == ["kernel"] * 5
    assert [int(a["new"], 16) for a in w.accesses] == list(range(1000, 1005))
    assert all("kernel_writes" in [f.get("function") for f in a["stack"]] for a in w.accesses)


@contextlib.contextmanager
def uprobe(pid, address):
    """The kernel's breakpoint at @address of @pid, as perf probe and BPF set it; it is counted and changes nothing."""
    with open(f"/proc/{pid}/maps") as f:
        maps = [(*(int(x, 16) for x in [*m[0].split("-"), m[2]]), m[5]) for m in map(str.split, f) if len(m) > 5]
    [(offset, path)] = [(address - start + at, path) for start, end, at, path in maps if start <= address < end]
    with open("/sys/bus/event_source/devices/uprobe/type") as f:
        kind = int(f.read())
    name = ctypes.create_string_buffer(path.encode())
    # struct perf_event_attr: type, size, config, period, sample type, read format, flags, wakeup, bp type, config1, config2
    attr = struct.pack("=IIQQQQQIIQQ", kind, 112, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name), offset).ljust(112, b"\0")
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_PERF_EVENT_OPEN, attr, pid, -1, -1, 0)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        yield lambda: struct.unpack("=Q", os.read(fd, 8))[0]
    finally:
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/bus/event_source/devices/uprobe/type"),
                    reason="setting a uprobe needs root, and a kernel that has them")
def test_an_executed_instruction_is_shown_below_the_breakpoint_of_a_uprobe(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "write_flag", "-x")
    v.tell("write 1")
    [bare] = [a["insn"] for a in w.end().accesses]
    at = int(w.of("armed")[0]["addr"], 16)
    with uprobe(v.pid, at) as count:
        with open(f"/proc/{v.pid}/mem", "rb") as f:
            f.seek(at)
            assert f.read(1) == b"\xcc"
        w = watch("-p", v.pid, "-v", "write_flag", "-x")
        v.tell("write 2")
        assert [a["insn"] for a in w.end().accesses] == [bare] * 2
        assert count() == 2
    assert "int3" not in bare


def test_values_are_shown_by_type(victim, watch):
    expected = {
        "v_char": "'b' (98)", "v_short": "65535", "v_uint": "4000000001", "v_ll": "-6", "v_float": "2.5",
        "v_double": "10000000000", "v_bool": "true", "v_colour": "BLUE", "stats.cache.hits": "42",
        "stats.colour": "GREEN", "stats.head->next->len": "99", "stats.table[2]": "-3", "big[3]": "33",
        "puppet.c:hidden": "1",
    }
    names = list(expected)
    for i in range(0, len(names), 4):
        v = victim("puppet")
        args = [x for n in names[i:i + 4] for x in ("-v", n, "-w")]
        w = watch("-p", v.pid, *args)
        v.tell("types")
        w.end()
        got = {a["watch"]: a["new_text"] for a in w.accesses}
        for n in names[i:i + 4]:
            assert got[n] in (expected[n], "1e+10"), (n, got[n])


def test_a_bit_field_whose_neighbour_changed_is_the_same(hardware, run, tmp_path):
    (tmp_path / "bits.c").write_text("""volatile struct { unsigned mode : 3, level : 5, rest : 24; } state;
int main(void)
{
    state.level = 9;
    state.mode = 5;
    state.rest = 77;
    state.level = 10;
    return 0;
}
""")
    subprocess.run(["gcc", "-g", "-O1", "-o", tmp_path / "bits", tmp_path / "bits.c"], check=True)
    log = tmp_path / "log"
    assert run("-v", "state.level", "-o", log, "--", tmp_path / "bits").returncode == 0
    shown = run("report", log).stdout
    assert re.findall(r" (?:write|rw) +state.level +(.*?)  +main\+", shown) == ["0 -> 9", "9 (same)", "9 (same)", "9 -> 10"]
    sites = re.findall(r"^ +1  state.level .* (\d+ \(same\)|\d+ -> \d+) ", shown, re.M)
    assert sites == ["0 -> 9", "9 (same)", "9 (same)", "9 -> 10"]


def test_a_pointer_is_shown_as_symbol(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "v_pointer", "-w")
    v.tell("types")
    w.end()
    assert "first" in w.accesses[0]["new_text"]


def test_four_watches_at_once_each_with_its_own_options(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-rw", "-v", "v_colour", "-w", "-v", "stats.cache.hits", "-w", "-v", "v_ll",
              "-rw")
    v.tell("write 3")
    v.tell("types")
    w.end()
    assert w.balanced()
    assert [s["recorded"] for s in w.of("summary")] == [3, 1, 1, 1]


def test_a_raw_address_with_a_size(victim, watch):
    v = victim("puppet_nopie")
    nm = subprocess.run(["nm", v.process.args[0]], capture_output=True, text=True).stdout
    addr = int(re.search(r"^(\w+) \w flag$", nm, re.M).group(1), 16)
    w = watch("-p", v.pid, "-v", hex(addr), "-s", "4", "-w")
    v.tell("write 2")
    w.end()
    assert w.summary()["recorded"] == 2


def test_symbol_tables_suffice_without_dwarf(victim, watch):
    v = victim("puppet_stripped")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 2")
    w.end()
    assert w.of("armed")[0]["size"] == 4 and len(w.accesses) == 2


def test_go_programs_are_watched_and_unwound(victim, watch):
    v = victim("counter_go")
    w = watch("-p", v.pid, "-v", "main.counter", "-w")
    v.tell("go")
    w.end()
    assert w.summary()["recorded"] == 400 and w.balanced()
    assert {a["function"] for a in w.accesses} == {"main.bump"}


def test_count_and_time_limits(victim, watch):
    v = victim("hammer", 1, 100)
    w = watch("-p", v.pid, "-v", "counter", "-w", "-n", "25").end(sig=None)
    assert len(w.accesses) == 25 and w.balanced()
    w = watch("-p", v.pid, "-v", "counter", "-w", "-t", "0.3").end(sig=None)
    assert w.summary()["duration_ns"] > 0.25e9
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_a_log_says_what_the_live_session_said(victim, watch, run, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    w = watch("-p", v.pid, "-v", "flag", "-rw", "-o", log, "--echo")
    v.tell("write 20")
    v.tell("read 5")
    v.tell("memcpy 2")
    w.end()
    v.finish()  # the log must not need the process
    r = run("report", log, "--json")
    assert r.returncode == 0, r.stderr
    import json
    again = [json.loads(line) for line in r.stdout.splitlines()]
    assert [o for o in again if o["type"] == "access"] == w.accesses
    assert [o for o in again if o["type"] == "summary"] == w.of("summary")


def test_babeltrace2_reads_every_access(victim, watch, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    w = watch("-p", v.pid, "-v", "flag", "-w", "-o", log)
    v.tell("write 500")
    w.end()
    out = subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert out.returncode == 0, out.stderr
    assert len(re.findall(r"\b(?:access|hit): ", out.stdout)) == 500


def test_the_balance_holds_when_the_buffer_overflows(victim, watch, tmp_path):
    """Nobody reads it while watchctl stands still."""
    v = victim("hammer", 2)
    w = watch("-p", v.pid, "-v", "counter", "-w", "--buffer", "64K", "-o", tmp_path / "log")

    def counter():
        with open(f"/proc/{v.pid}/mem", "rb") as mem:
            mem.seek(int(w.of("armed")[0]["addr"], 16))
            return int.from_bytes(mem.read(8), "little")

    w.process.send_signal(signal.SIGSTOP)
    enough = counter() + 20000
    wait_until(lambda: counter() > enough)
    w.process.send_signal(signal.SIGCONT)
    w.end()
    assert w.balanced() and w.summary()["counted"] > 20000 and w.summary()["lost"] > 0
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_a_private_buffer_records_the_same(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-rw", "--private-buffer")
    v.tell("write 100")
    v.tell("read 50")
    w.end()
    assert w.summary()["recorded"] == 150 and w.balanced()


def test_registers_are_those_after_the_access(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--regs")
    v.tell("write 3")
    w.end()
    for i, a in enumerate(w.accesses):
        assert int(a["regs"]["rdi"], 16) == i  # write_flag's parameter
        assert int(a["regs"]["rip"], 16) > int(a["ip"], 16)


def test_an_explicit_register_is_set_in_every_thread(victim, watch):
    v = victim("hammer", 3, 2000)
    w = watch("-p", v.pid, "-v", "counter", "-w", "-i", "2", "-n", "100").end(sig=None)
    assert w.of("armed")[0]["slot"] == 2 and w.of("armed")[0]["threads_armed"] == 4
    assert len({a["tid"] for a in w.accesses}) == 3
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")
