# rooms: monitor/slots engine/arm
"""watchctl list and clear: who holds the debug registers, and freeing what a killed watchctl left."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import ROOT, WAIT, WATCHCTL, Victim, processes, snapshot, wait_until, wait_until_it_has_run

pytestmark = pytest.mark.alone  # perf does not tell whose an event is: those of other tests may be meant

OTHER, USAGE, TARGET, PERM, NOTSUP = 1, 2, 3, 4, 7


@pytest.fixture
def slots(run, hardware):
    """
    slots(pid) -> the objects of `watchctl list --json`, by type. Others at work on this machine may have perf events,
    too, and are left out.
    """

    def call(pid, *args):
        r = run("list", "-p", pid, "--json", *args)
        assert r.returncode == 0, r.stderr
        objects = [json.loads(line) for line in r.stdout.splitlines()]
        ours = {pid for pid, _ in processes.all()}
        return ([o for o in objects if o["type"] == "slots"],
                [o for o in objects if o["type"] == "holder" and (o["holder"] != "perf" or o["owner_pid"] in ours)])

    return call


@pytest.fixture
def clear(run, hardware):
    def call(pid, *args, expect=0):
        r = run("clear", "-p", pid, *args)
        assert r.returncode == expect, (r.stdout, r.stderr)
        return r.stdout + r.stderr

    return call


def used(slots, pid):
    return {o["used"] for o in slots(pid)[0]}


def killed(watch, *args):
    w = watch(*args)
    w.end(sig=signal.SIGKILL, expect=None)
    return w


def watches_again(watch, v, *extra):
    """A new watch works, and all four registers can be had."""
    w = watch("-p", v.pid, "-v", "flag", "-w", *extra, "-v", "v_ll", "-v", "v_uint", "-v", "v_short")
    v.tell("write 7")
    v.tell("types")
    w.end()
    assert [(s["recorded"], s["lost"]) for s in w.of("summary")] == [(7, 0), (1, 0), (1, 0), (1, 0)]


def debugger_text(pid):
    """What gdb, an independent oracle, would be told by the kernel: is the process being traced?"""
    return re.search(r"TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1]


def test_a_process_with_nothing(victim, slots, run, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        table, holders = slots(v.pid)
        text = run("list", "-p", v.pid).stdout
        assert "nothing to clear" in clear(v.pid)
        clear(v.pid, "--all", "--all-registers")
    assert [o["used"] for o in table] == [0] and holders == []
    assert table[0]["tids"] == [v.pid] and table[0]["comm"] == "puppet"
    assert text == f"process {v.pid} (puppet): 0 of 4 debug registers in use\n"


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_live_session_is_named_with_its_watches_and_left_alone(victim, watch, slots, run, clear, before_and_after,
                                                                engine):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-rw", "-v", "v_ll", "--engine", engine)
        armed = {a["watch"]: a for a in w.of("armed")} or {}
        while len(armed) < 2:
            a = w.wait_for("armed")
            armed[a["watch"]] = a
        table, holders = slots(v.pid)
        text = run("list", "-p", v.pid).stdout
        refused = clear(v.pid, expect=OTHER)
        left = [json.loads(line) for line in run("clear", "-p", v.pid, "--json").stdout.splitlines()]
        v.tell("write 5")
        w.end()
    assert [o["used"] for o in table] == [2]
    assert [(h["holder"], h["owner_pid"], h["engine"], h["alive"], h["certain"]) for h in holders] == \
        [("watchctl", w.process.pid, engine, True, True)]
    if engine == "ring":
        assert "watches" not in holders[0] and "-v flag" in holders[0]["command"]
    else:
        assert [(x["addr"], x["size"], x["access"], x["name"]) for x in holders[0]["watches"]] == \
            [(armed["flag"]["addr"], 4, "rw", "flag"), (armed["v_ll"]["addr"], 8, "w", "v_ll")]
        assert f"watchctl {w.process.pid}, {engine} engine: reads and writes of flag (4 bytes at" in text
    assert f"watchctl (process {w.process.pid}) is watching" in refused and "--all" in refused
    assert [(o["type"], o["owner_pid"]) for o in left] == [("left", w.process.pid)]
    assert w.summary()["recorded"] == 5 and w.balanced()


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_all_ends_a_live_session_in_order(victim, watch, slots, clear, before_and_after, engine):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", engine)
        v.tell("write 5")
        assert f"ended watchctl {w.process.pid}" in clear(v.pid, "--all")
        w.end(sig=None)
        assert slots(v.pid)[1] == []
    v.tell("write 5")
    assert w.summary()["recorded"] == 5 and w.balanced()


def test_what_a_killed_session_left_is_taken_out(victim, watch, slots, run, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = killed(watch, "-p", v.pid, "-v", "flag", "-rw", "-v", "v_ll")
        v.tell("write 50")
        table, holders = slots(v.pid)
        text = run("list", "-p", v.pid).stdout
        cleared = clear(v.pid)
    assert [o["used"] for o in table] == [0]
    assert [(h["holder"], h["owner_pid"], h["alive"], h["watches"]) for h in holders] == \
        [("watchctl", w.process.pid, False, [])]
    assert f"watchctl {w.process.pid}, handler engine, killed" in text
    assert f"took out the handler that watchctl {w.process.pid}" in cleared
    assert slots(v.pid)[1] == [] and "nothing to clear" in clear(v.pid)
    watches_again(watch, v)


def test_a_hit_that_a_blocking_thread_still_holds_back_kills_nobody(victim, watch, clear):
    """Its SIGTRAP is pending when the handler is taken out: let through later, it would find none."""
    v = victim("puppet")
    v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 3")
    w.end(sig=signal.SIGKILL, expect=None)
    pending = int(re.search(r"SigPnd:\s*(\S+)", Path(f"/proc/{v.pid}/status").read_text())[1], 16)
    assert pending & 1 << (signal.SIGTRAP - 1)
    clear(v.pid)
    v.tell("unblock")
    v.tell("write 3")
    assert v.alive()


def test_of_two_chained_handlers_the_killed_one_is_taken_out_from_behind(victim, watch, slots, clear,
                                                                        before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        a = watch("-p", v.pid, "-v", "flag", "-w")
        b = watch("-p", v.pid, "-v", "v_ll", "-w")
        a.end(sig=signal.SIGKILL, expect=None)
        holders = {h["owner_pid"]: h["alive"] for h in slots(v.pid)[1]}
        assert holders == {a.process.pid: False, b.process.pid: True}
        said = clear(v.pid, expect=OTHER)
        assert f"watchctl {a.process.pid}" in said and f"process {b.process.pid}" in said
        assert [h["owner_pid"] for h in slots(v.pid)[1]] == [b.process.pid]
        v.tell("types")
        b.end()
    assert b.summary()["recorded"] == 1 and b.balanced()


def test_two_killed_sessions_are_both_taken_out(victim, watch, slots, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        a = watch("-p", v.pid, "-v", "flag", "-w")
        b = watch("-p", v.pid, "-v", "v_ll", "-w")
        a.end(sig=signal.SIGKILL, expect=None)
        b.end(sig=signal.SIGKILL, expect=None)
        assert {h["alive"] for h in slots(v.pid)[1]} == {False}
        assert clear(v.pid).count("took out the handler") == 2
    watches_again(watch, v)


@pytest.mark.slow_when("False")
@pytest.mark.parametrize("kill_the_heir", [False, True])
def test_a_handler_that_the_next_session_has_taken_over_is_left_to_it(victim, watch, slots, run, clear,
                                                                     before_and_after, kill_the_heir):
    """Unmapped by both, the second would unmap what the program has mapped there meanwhile."""
    v = victim("puppet")
    with before_and_after(v.pid):
        killed(watch, "-p", v.pid, "-v", "flag", "-w")
        time.sleep(1.2)  # so long it must have been silent before it counts as dead
        b = watch("-p", v.pid, "-v", "flag", "-w")
        assert {(h["owner_pid"], h["alive"]) for h in slots(v.pid)[1]} == {(b.process.pid, True)}
        assert "will remove what a killed watchctl has left" in run("list", "-p", v.pid).stdout
        assert "took out" not in clear(v.pid, expect=OTHER)
        v.tell("write 5")
        b.end(sig=signal.SIGKILL if kill_the_heir else signal.SIGINT, expect=None)
        if kill_the_heir:
            assert clear(v.pid).count("took out the handler") == 2
        else:
            assert b.summary()["recorded"] == 5
        assert slots(v.pid)[1] == []
    watches_again(watch, v)


def test_registers_that_a_killed_session_left_armed_are_cleared(victim, watch, slots, run, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-rw", "-i", "2")
        addr = w.of("armed")[0]["addr"]
        live = slots(v.pid)
        assert live[1][0]["watches"] == [{"addr": addr, "size": 4, "access": "rw", "name": "flag", "register": 2}]
        w.end(sig=signal.SIGKILL, expect=None)
        v.tell("write 50")
        table, holders = slots(v.pid)
        text = run("list", "-p", v.pid).stdout
        cleared = clear(v.pid)
        v.tell("write 50")
    assert table[0]["used"] == 1 and table[0]["sight"] == "seen"
    assert table[0]["registers"] == [{"register": 2, "addr": addr, "size": 4, "access": "rw", "name": "flag",
                                      "owner_pid": w.process.pid, "owner_alive": False}]
    assert f"DR2: reads and writes of flag (4 bytes at {addr}): left armed by watchctl {w.process.pid}" in text
    assert "cleared DR2 in 1 thread" in cleared and "took out the handler" in cleared
    table, holders = slots(v.pid)
    assert table[0].get("registers", []) == [] and holders == []
    watches_again(watch, v, "-i", "2")  # that register is ptrace's for good: see watchctl-list(1)


def test_registers_left_in_every_thread_are_cleared_in_every_thread(victim, watch, slots, clear):
    v = victim("hammer", 3)
    w = watch("-p", v.pid, "-v", "scratch", "-w", "-i", "1", "-q")
    w.end(sig=signal.SIGKILL, expect=None)
    wait_until_it_has_run(v.pid)
    table, _ = slots(v.pid)
    assert sum(o["alike"] for o in table if o.get("registers")) == 4, table
    cleared = clear(v.pid)
    assert "cleared DR1 in 4 threads" in cleared and "took out the handler" in cleared, cleared
    assert not any(o.get("registers") for o in slots(v.pid)[0])
    wait_until_it_has_run(v.pid)
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def test_a_session_begun_while_registers_are_left_armed_does_not_kill(victim, watch, clear, before_and_after):
    """Their traps must still find the handler of the session that armed them."""
    v = victim("puppet")
    with before_and_after(v.pid):
        killed(watch, "-p", v.pid, "-v", "flag", "-rw", "-i", "2")
        time.sleep(1.2)
        w = watch("-p", v.pid, "-v", "v_ll", "-w")
        v.tell("write 20")
        v.tell("types")
        w.end()
        v.tell("write 20")
        clear(v.pid)
    assert w.summary()["recorded"] == 1 and w.balanced()


class Gdb:
    def __init__(self, pid):
        self.process = subprocess.Popen(["gdb", "-q", "-nx", "-p", str(pid)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.tell("set pagination off", "set confirm off", "set debuginfod enabled off")

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def leave(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.tell("delete", "detach", "quit")
            self.process.wait(timeout=WAIT)


@pytest.fixture
def gdb(hardware):
    if not shutil.which("gdb"):
        pytest.skip("needs gdb")
    running = []

    def start(pid, variable):
        g = Gdb(pid)
        running.append(g)
        g.tell(f"watch {variable}", "continue")
        return g

    yield start
    for g in running:
        if g.process.poll() is None:
            g.process.kill()
        g.process.wait()


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_debugger_with_a_watchpoint_is_named_and_its_registers_are_not_touched(victim, gdb, slots, run, clear):
    v = victim("puppet")
    g = gdb(v.pid, "flag")
    wait_until(lambda: slots(v.pid)[0][0]["used"] == 1 and state(v.pid) == "S")
    table, holders = slots(v.pid)
    text = run("list", "-p", v.pid).stdout
    refused = clear(v.pid, "--all-registers", expect=PERM)
    clear(v.pid)
    assert used(slots, v.pid) == {1}
    v.send("write 2")
    wait_until(lambda: state(v.pid) == "t")  # gdb has seen the hit, and holds the program at it
    g.leave()
    assert v.process.stdout.readline() == "ok\n"
    assert table[0]["sight"] == "traced" and "registers" not in table[0]
    assert [(h["holder"], h["owner_pid"], h["owner_comm"], h["certain"]) for h in holders] == \
        [("debugger", g.process.pid, "gdb", False)]
    assert f"gdb (process {g.process.pid}) traces it, and may hold 1 register" in text
    assert "never cleared" in refused


def test_what_a_killed_debugger_left_armed_is_shown_and_cleared_by_number(victim, gdb, watch, slots, run, clear):
    v = victim("puppet")
    g = gdb(v.pid, "flag")
    wait_until(lambda: slots(v.pid)[0][0]["used"] == 1 and state(v.pid) == "S")
    g.process.kill()
    g.process.wait()
    wait_until(lambda: state(v.pid) == "S" and debugger_text(v.pid) == "0")
    registers = slots(v.pid)[0][0]["registers"]
    text = run("list", "-p", v.pid).stdout
    assert [(r["size"], r["access"], r["name"]) for r in registers] == [(4, "w", "flag")]
    n = registers[0]["register"]
    assert f"watchctl clear -p {v.pid} --register {n}" in text and "a process that no longer exists" in text
    assert "nothing to clear" in clear(v.pid)  # not ours: only by its number
    other = (n + 1) % 4
    assert f"DR{other}: ptrace has armed it in no thread" in clear(v.pid, "--register", other)
    assert slots(v.pid)[0][0]["registers"] == registers
    assert f"cleared DR{n} in 1 thread" in clear(v.pid, "--register", n)
    v.tell("write 20")  # armed, the first of these would have killed it
    watches_again(watch, v, "-i", n)


def test_what_the_ptrace_engine_leaves_when_all_of_it_is_killed_at_once(victim, watch, slots, clear, before_and_after):
    """Its three processes save the program from the death of any two of them: see ptrace_guard.h."""
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ptrace")
        keeper = slots(v.pid)[1][0]["keeper_pid"]
        guard = int(re.search(r"PPid:\s*(\d+)", Path(f"/proc/{keeper}/status").read_text())[1])
        w.process.send_signal(signal.SIGSTOP)
        for pid in (guard, keeper, w.process.pid):
            os.kill(pid, signal.SIGKILL)
        w.end(sig=None, expect=None)
        wait_until(lambda: debugger_text(v.pid) == "0")
        registers = slots(v.pid)[0][0]["registers"]
        assert [(r["size"], r["access"], r["name"]) for r in registers] == [(4, "w", "flag")]
        assert "nothing to clear" in clear(v.pid)
        assert f"cleared DR{registers[0]['register']} in 1 thread" in clear(v.pid, "--all-registers")
        v.tell("write 20")


def test_an_orphan_in_a_process_that_a_debugger_holds_waits(victim, watch, gdb, slots, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        killed(watch, "-p", v.pid, "-v", "flag", "-w")
        g = gdb(v.pid, "v_ll")
        wait_until(lambda: slots(v.pid)[0][0]["used"] == 1 and state(v.pid) == "S")
        refused = clear(v.pid, expect=PERM)
        g.leave()
        wait_until(lambda: state(v.pid) == "S")
        clear(v.pid)
    assert "while gdb" in refused


def test_perf_is_named_as_somebody_who_may_hold_a_register(victim, slots, run, clear, tmp_path, build):
    if not shutil.which("perf"):
        pytest.skip("needs perf")
    v = victim("puppet_nopie")
    symbols = subprocess.run(["nm", build("puppet_nopie")], capture_output=True, text=True).stdout
    addr = "0x" + re.search(r"^(\S+) . flag$", symbols, re.M)[1]
    p = subprocess.Popen(["perf", "record", "-q", "-o", str(tmp_path / "data"), "-e", f"mem:{addr}/4:w", "-p",
                          str(v.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: p.poll() is not None or used(slots, v.pid) == {1})
        if p.poll() is not None:
            pytest.skip("perf cannot record mem: events here")
        _, holders = slots(v.pid)
        text = run("list", "-p", v.pid).stdout
        assert "nothing to clear" in clear(v.pid, "--all")
        assert used(slots, v.pid) == {1}
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(timeout=WAIT)
    mine = [h for h in holders if h["owner_pid"] == p.pid]
    assert mine and (mine[0]["holder"], mine[0]["certain"]) == ("perf", False) and mine[0]["perf_events"] > 0
    assert f"perf (process {p.pid}) may hold 1 register" in text
    assert used(slots, v.pid) == {0} and not slots(v.pid)[1]


def python_target(code):
    p = subprocess.Popen(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    v = Victim.__new__(Victim)
    v.process = p
    v.pid = int(p.stdout.readline().split()[1])
    return v


def test_200_threads_alike_take_one_line(watch, slots, run):
    v = python_target("import os, threading, sys\n"
                      "for i in range(199): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                      "print('pid', os.getpid(), flush=True)\n"
                      "sys.stdin.read(); os._exit(0)\n")
    try:
        w = watch("-p", v.pid, "-v", "_PyRuntime.main_thread", "-s", 8, "-w")
        table, holders = slots(v.pid)
        each, _ = slots(v.pid, "--threads")
        text = run("list", "-p", v.pid).stdout
        lines = run("list", "-p", v.pid, "--threads").stdout.splitlines()
        w.end()
    finally:
        v.finish()
    assert [(o["threads"], o["alike"], o["used"], len(o["tids"])) for o in table] == [(200, 200, 1, 200)]
    assert len(holders) == 1 and len(each) == 200 and {o["used"] for o in each} == {1}
    assert text.splitlines()[0].endswith("200 threads: 1 of 4 debug registers in use in each")
    assert len(text.splitlines()) == 2
    assert sum(line.startswith("  thread ") for line in lines) == 200


def test_without_a_process_all_are_listed_in_which_something_is_found(victim, watch, run):
    left, lives, traced, nothing = (victim("puppet") for _ in range(4))
    killed(watch, "-p", left.pid, "-v", "flag")
    a = watch("-p", lives.pid, "-v", "flag", "--engine", "ring")
    b = watch("-p", traced.pid, "-v", "flag", "--engine", "ptrace")
    r = run("list", "--json")
    a.end()
    b.end()
    found = {(o["pid"], o.get("engine"), o.get("alive")) for o in map(json.loads, r.stdout.splitlines())
             if o["type"] == "holder" and o["holder"] == "watchctl"}
    assert r.returncode == 0
    assert found >= {(left.pid, "handler", False), (lives.pid, "ring", True), (traced.pid, "ptrace", True)}
    assert nothing.pid not in {pid for pid, _, _ in found}


FORKS = """
import os, sys
a, b = os.pipe()
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.close(b)
        os.read(a, 1)
        os._exit(7)
    print('pid', child, flush=True)
os.close(b)
print('status', os.waitpid(child, 0)[1] >> 8, flush=True)
"""


def test_a_forked_child_has_a_copy_that_is_told_as_such_and_taken_out(watch, slots, run, clear):
    v = python_target("import os; print('pid', os.getpid(), flush=True)\n" + FORKS)
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "_PyRuntime.main_thread", "-s", 8, "-w")
    v.send("fork")
    child = int(v.process.stdout.readline().split()[1])
    _, holders = slots(child)
    assert [(h["owner_pid"], h["inherited_from"], h["watches"]) for h in holders] == [(w.process.pid, v.pid, [])]
    assert f"watches process {v.pid}, from which this one was forked" in run("list", "-p", child).stdout
    clear(child, expect=OTHER)
    w.end(sig=signal.SIGKILL, expect=None)
    assert "took out the handler" in clear(child)
    assert "took out the handler" in clear(v.pid)
    assert slots(child)[1] == slots(v.pid)[1] == []
    assert snapshot(v.pid)["signals"] == before["signals"] and snapshot(v.pid)["maps"] == before["maps"]
    v.process.stdin.close()
    assert v.process.stdout.readline() == "status 7\n"
    v.process.wait(timeout=WAIT)


def test_a_handler_that_the_program_has_replaced_is_left_mapped(victim, watch, clear, slots):
    """The program may have kept the address, to put it back."""
    v = victim("puppet")
    killed(watch, "-p", v.pid, "-v", "flag", "-w")
    v.tell("handler own")
    assert "may restore watchctl's" in clear(v.pid, expect=OTHER)
    assert len(slots(v.pid)[1]) == 1
    v.tell("raise")
    assert v.tell("got") == "1"


def test_a_process_under_seccomp_keeps_the_handler(victim, watch, clear, slots):
    v = victim("sandboxed", "late")
    killed(watch, "-p", v.pid, "-v", "flag", "-w")
    v.tell("go")
    assert "seccomp" in clear(v.pid, expect=NOTSUP)
    assert [h["alive"] for h in slots(v.pid)[1]] == [False]
    v.tell("go")
    assert v.alive()


def test_a_stopped_process_is_looked_at_and_cleared_and_stays_stopped(victim, watch, slots, clear, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        killed(watch, "-p", v.pid, "-v", "flag", "-w", "-i", "0")
        os.kill(v.pid, signal.SIGSTOP)
        wait_until(lambda: state(v.pid) == "T")
        assert slots(v.pid)[0][0]["registers"][0]["register"] == 0
        clear(v.pid)
        wait_until(lambda: state(v.pid) == "T")
        os.kill(v.pid, signal.SIGCONT)
        v.tell("write 4")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_plain_user_lists_and_clears_his_own_process_and_no_other(victim, build, hardware):
    from test_bad_input import as_nobody
    mine = Path("/tmp") / f"puppet-slots-{os.getpid()}"
    ours = Path("/tmp") / f"watchctl-slots-{os.getpid()}"
    shutil.copy(build("puppet"), mine)
    shutil.copy(WATCHCTL, ours)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    p = subprocess.Popen([*nobody, str(mine)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(p.stdout.readline().split()[1])
        before = snapshot(pid)
        w = subprocess.Popen([*nobody, str(ours), "-p", str(pid), "-v", "flag", "--json"], stdout=subprocess.PIPE,
                             text=True)
        assert any('"armed"' in line for line in w.stdout)
        r = as_nobody("list", "-p", pid)
        assert f"watchctl {w.pid}, handler engine: writes to flag" in r.stdout, (r.stdout, r.stderr)
        w.kill()
        w.wait()
        r = as_nobody("clear", "-p", pid)
        assert r.returncode == 0 and "took out the handler" in r.stdout, (r.stdout, r.stderr)
        assert snapshot(pid) == before
        other = victim("puppet")
        for command in ("list", "clear"):
            r = as_nobody(command, "-p", other.pid)
            assert r.returncode == PERM and "root" in r.stderr, r.stderr
    finally:
        p.kill()
        mine.unlink()
        ours.unlink()


@pytest.mark.parametrize("args, code, words", [
    (["list", "-p", "999999999"], TARGET, "no process"),
    (["list", "-p", "2"], TARGET, "kernel thread"),
    (["list", "-p", "x"], USAGE, "number"),
    (["list", "flag"], USAGE, "options only"),
    (["list", "--thread"], USAGE, "--threads"),
    (["clear"], USAGE, "which process"),
    (["clear", "-p", "999999999"], TARGET, "no process"),
    (["clear", "-p", "1", "--register", "4"], USAGE, "from 0 to 3"),
    (["clear", "-p", "1", "flag"], USAGE, "options only"),
])
def test_bad_input(run, args, code, words):
    if args[2:] == ["2"] and os.path.exists("/proc/2/exe") and os.access("/proc/2/exe", os.R_OK):
        pytest.skip("process 2 is no kernel thread here")
    r = run(*args)
    assert r.returncode == code and words in r.stderr and not r.stdout, (r.returncode, r.stderr)


@pytest.mark.parametrize("command", ["list", "clear"])
def test_help_completion_and_manual_know_every_option(run, command):
    text = run(command, "--help").stdout
    listed = [line.split("\t")[0] for line in run("__complete", command).stdout.splitlines()]
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)
    page = (ROOT / "man" / "watchctl-list.1").read_text().replace("\\-", "-")
    assert options and set(options) <= set(listed)
    assert all(option in page for option in options), options
    assert command in [line.split("\t")[0] for line in run("__complete").stdout.splitlines()]
    assert (ROOT / "man" / f"watchctl-{command}.1").exists()


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_json_members_are_all_in_the_manual(victim, watch, run, hardware):
    page = subprocess.run(["groff", "-man", "-Tutf8", "-rLL=500n", str(ROOT / "man" / "watchctl-list.1")],
                          capture_output=True, text=True, check=True).stdout
    page = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", page)
    v = victim("puppet")
    lines = []
    w = watch("-p", v.pid, "-v", "flag", "-i", "1")
    lines += run("list", "-p", v.pid, "--json").stdout.splitlines()
    lines += run("clear", "-p", v.pid, "--json").stdout.splitlines()
    w.end(sig=signal.SIGKILL, expect=None)
    lines += run("list", "-p", v.pid, "--json").stdout.splitlines()
    lines += run("clear", "-p", v.pid, "--json", "--register", "2").stdout.splitlines()
    lines += run("clear", "-p", v.pid, "--json").stdout.splitlines()

    def names(value):
        if isinstance(value, dict):
            return set(value) | {n for x in value.values() for n in names(x)}
        return {n for x in value for n in names(x)} if isinstance(value, list) else set()

    seen = set().union(*(names(json.loads(line)) for line in lines))
    assert {"unexplained", "registers", "owner_alive", "watches", "why"} <= seen
    assert not [n for n in seen if not re.search(rf"\b{n}\b", page)], seen
