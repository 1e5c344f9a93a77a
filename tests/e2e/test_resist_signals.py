# rooms: handler engine/handler
"""Programs whose signals, stacks and timers are hard to share: they get each signal of theirs as if alone, and none of ours."""
import ctypes
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from between import Between
from conftest import WAIT, WATCHCTL, Victim, wait_until

PTRACE_DETACH, PTRACE_SETSIGINFO, PTRACE_SEIZE = 17, 0x4203, 0x4206
SYS_TGKILL, WALL, TRAP_BRKPT = 234, 0x40000000, 1

# So often a program changes its signals while we come and go; for hours: RESIST_ROUNDS=10000.
ROUNDS = int(os.environ.get("RESIST_ROUNDS", "3"))
ENGINES = {"handler": ["--engine", "handler"], "register": ["-i", "2"], "ring": ["--engine", "ring"],
           "ptrace": ["--engine", "ptrace"]}


@pytest.fixture(scope="module")
def guarded(build, hardware):
    """The guard holds signals back for which there is no room. Without it that is a limit: docs/limits.md."""
    r = subprocess.run([WATCHCTL, "--verbose", "--engine", "handler", "-v", "flag", "-w", "--", build("resist_signals")],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)
    if "handler: in place" not in r.stderr:
        pytest.skip("no guard on this machine: " + r.stderr.strip())


def watched(watch, v, engine, *args):
    return watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine], *args)


# Handlers of the program's own


@pytest.mark.parametrize("how", ["plain", "onstack"])
@pytest.mark.parametrize("stack", ["65536", "65536 autodisarm", "0"])
def test_the_programs_own_handler_runs_on_the_stack_that_it_asked_for(victim, watch, before_and_after, stack, how):
    """It needs 24 KB, checks on which stack it is and which signals are blocked, and is interrupted by another signal."""
    if stack == "0" and how == "onstack":
        pytest.skip("no alternate stack to ask for")
    v = victim("resist_signals")
    assert v.tell(f"altstack {stack}") in ("", "0")
    v.tell(f"trap {how}")
    assert v.tell("raise 2") == "2 2 0 0"
    with before_and_after(v.pid):
        w = watched(watch, v, "handler")
        assert v.tell("raise 3") == "5 5 0 0"
        v.tell("write 5")
        assert v.tell("raise 3") == "8 8 0 0"
        w.end()
    assert w.summary()["recorded"] == 5 and w.balanced()
    assert v.tell("raise 2") == "10 10 0 0"


@pytest.mark.parametrize("how", ["", "ignore", "block"])
def test_without_room_for_its_own_sigtrap_a_program_gets_the_sigsegv_that_it_had_before(victim, watch, how):
    """Its handler did not ask for the alternate stack; the one for SIGSEGV did. Ignored or blocked, it is the end."""
    ends = []
    for is_watched in False, True:
        v = victim("resist_signals")
        v.tell("altstack 65536")
        v.tell("trap small")
        w = watched(watch, v, "handler") if is_watched else None
        v.send(f"brim {how}")
        ends.append(v.process.stdout.readline().strip() or v.process.wait(timeout=WAIT))
        if w:
            w.end(sig=signal.SIGINT if v.alive() else None)
    assert ends[0] == ends[1] == ("ok 11 128" if not how else -signal.SIGSEGV)


@pytest.mark.parametrize("how, end", [("small", "EINTR"), ("restart", "restarted")])
def test_a_sigtrap_of_the_programs_own_ends_a_system_call_only_if_it_did_before(victim, watch, how, end):
    v = victim("resist_signals")
    v.tell(f"trap {how}")
    w = watched(watch, v, "handler")
    assert v.tell("interrupted 20") == end
    w.end()


@pytest.mark.parametrize("engine, kind", [("handler", "own"), ("handler", "any"), ("register", "own"), ("ring", "any"),
                                          ("ptrace", "own")])
def test_a_program_that_changes_its_signals_all_the_time_has_what_it_set_last(victim, watch, engine, kind):
    """A thread calls sigaction, signal and sigprocmask in a loop, while we attach, arm, disarm and leave."""
    v = victim("resist_signals")
    for _ in range(ROUNDS):
        v.tell(f"race {kind}")
        w = watched(watch, v, engine, "-t", "0.05", "-q")
        w.end(sig=None, expect=None)
        assert w.process.returncode in (0, 1, 7), w.stderr
        assert v.alive()
        assert v.tell("race stop") == "same 0"
        v.tell("trap small")
        got = int(v.tell("raise 1").split()[0])
        assert v.tell("raise 2").split()[0] == str(got + 2)


@pytest.fixture(scope="module")
def between(tmp_path_factory):
    """between(n, what, start): runs `start` with a watchctl that does `what` before the n-th change of SIGTRAP's action."""
    return Between(tmp_path_factory.mktemp("between"), "r->rax == 13 && r->rdi == 5 && r->rsi").run


@pytest.mark.parametrize("n, when", [(1, "before ours is set"), (2, "before its own is put back")])
def test_a_handler_that_the_program_sets_at_the_worst_moment_is_not_lost(victim, watch, between, monkeypatch, n, when):
    """Between our question what SIGTRAP does and the system call that changes it; another thread of it is stopped."""
    v = victim("resist_signals")
    v.tell("thread")

    def start():
        w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES["handler"])
        v.tell("write 5")
        if n == 1:
            assert v.tell("raise 1") == "1 0 0 0"
        return w.end(expect=0 if n == 1 else 1)

    w = between(n, lambda: v.tell("trap small"), start, monkeypatch)
    assert w.summary()["recorded"] == 5 and w.balanced()
    if n == 2:
        assert "may restore watchctl's" in w.stderr
    got = int(v.tell("raise 1").split()[0])
    assert got == (2 if n == 1 else 1)


# Namespaces

NAMESPACES = {"here": [], "first of a pid namespace": ["unshare", "-p", "-f", "--kill-child"],
              "in a pid namespace": ["unshare", "-p", "-f", "--kill-child", "sh", "-c", "exec 3<&0; \"$0\" <&3 & wait $!; echo end $?"]}


@pytest.fixture
def placed(build, hardware):
    """placed(where): resist_signals as the first process of a pid namespace, as one in it, or as any."""
    started = []

    def start(where):
        prefix = NAMESPACES[where]
        if prefix and (os.geteuid() or subprocess.run([*prefix[:3], "true"], capture_output=True).returncode):
            pytest.skip("no pid namespace may be made here")
        v = Victim(build("resist_signals"), prefix=prefix)
        started.append(v.process)
        assert v.pid < 5 or not prefix
        for _ in range(where.count("pid namespace") + ("in a" in where)):
            parent = v.process.pid if v.pid < 5 else v.pid
            v.pid = int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])
        return v

    yield start
    for p in started:
        p.kill()
        p.wait()


@pytest.mark.parametrize("how", ["int3", "int3x", "int1", "raise"])
@pytest.mark.parametrize("where", NAMESPACES)
def test_a_trap_without_a_handler_is_the_end_where_it_was_before(placed, watch, where, how):
    """What is raised by an instruction ends also the first process of a namespace; what it sends itself does not."""
    answers = []
    for is_watched in False, True:
        v = placed(where)
        w = watched(watch, v, "handler") if is_watched else None
        v.send(f"end {how}")
        answers.append(v.process.stdout.readline())
        if w and answers[1] == "ok\n":
            v.tell("write 3")
        if w:
            w.end(sig=signal.SIGINT if answers[1] == "ok\n" else None)
            assert w.summary()["recorded"] == (3 if answers[1] == "ok\n" else 0)
    survives = where.startswith("first") and how == "raise"
    assert answers[0] == answers[1] == ("ok\n" if survives else "end 133\n" if where.startswith("in a") else "")


@pytest.mark.parametrize("kind, expected", [("process", "process -1 77"), ("thread", "thread -1 77"),
                                            ("event", f"thread 6 {0x1234567}")])
@pytest.mark.parametrize("where", NAMESPACES)
def test_a_sigtrap_of_the_programs_own_that_waits_still_waits_afterwards(placed, watch, where, kind, expected):
    v = placed(where)
    v.tell(f"hold {kind}")
    w = watched(watch, v, "handler")
    v.tell("write 3")
    w.end()
    assert w.balanced() and w.summary()["counted"] == 3
    assert v.tell("held") == expected
    assert v.tell("held") == "nobody 0 0"


# An action that is asked for, and set again


@pytest.mark.parametrize("where", ["data", "heap", "stack"])
def test_the_action_that_a_program_was_told_may_be_set_again_at_any_time(victim, watch, run, where):
    """While it is watched it is told our handler's address. That does what its own action did, for as long as it is held."""
    v = victim("resist_signals")
    v.tell("trap plain")
    w = watched(watch, v, "handler")
    v.tell(f"ask {where}")
    v.tell("write 2")
    w.end(expect=1)
    assert "address of watchctl's SIGTRAP handler" in w.stderr and w.summary()["recorded"] == 2, w.stderr
    assert v.tell("raise 2") == "2 2 0 0"
    v.tell("set")
    assert v.tell("raise 3") == "5 5 0 0"
    w = watched(watch, v, "handler")
    v.tell("write 4")
    w.end(expect=None)  # 1 if the first one's was taken for an orphan's already, which could not be unmapped
    assert w.process.returncode in (0, 1) and w.summary()["recorded"] == 4 and w.balanced(), w.stderr
    assert v.tell("raise 1") == "6 6 0 0"
    v.tell("trap plain")
    v.tell("forget")
    r = run("clear", "-p", v.pid)
    assert r.returncode == 0, (r.stdout, r.stderr)
    assert "anon:watchctl" not in Path(f"/proc/{v.pid}/maps").read_text()
    assert v.tell("raise 1") == "7 7 0 0"


@pytest.mark.parametrize("end", ["detach", "quit", ""])
def test_a_session_that_must_leave_its_handler_says_so_however_it_ends(victim, hardware, end):
    v = victim("resist_signals")
    v.tell("trap plain")
    p = subprocess.Popen([WATCHCTL, "repl", "--color", "never"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, bufsize=1)
    p.stdin.write(f"attach --engine handler {v.pid}\nwatch flag -w\n")
    while "watching flag" not in p.stdout.readline():
        assert p.poll() is None
    v.tell("ask data")
    _, err = p.communicate(f"{end}\n", timeout=WAIT)
    assert p.returncode == 1 and "address of watchctl's SIGTRAP handler" in err, err


@pytest.mark.parametrize("later", [0, 1.5])
def test_an_action_of_a_killed_watchctls_may_be_set_again_after_the_next_one(victim, watch, later):
    """The next one takes over what it left, once it is known to be nobody's."""
    v = victim("resist_signals")
    v.tell("trap plain")
    w = watched(watch, v, "handler")
    v.tell("ask data")
    w.process.kill()
    w.process.wait()
    time.sleep(later)
    w = watched(watch, v, "handler")
    v.tell("write 2")
    w.end(expect=None)
    assert w.process.returncode in ((1,) if later else (0, 1)) and w.summary()["recorded"] == 2, w.stderr
    v.tell("set")
    assert v.tell("raise 3") == "3 3 0 0"


def test_the_default_action_that_a_program_was_told_ends_it_when_it_is_set_again(victim, watch):
    v = victim("resist_signals")
    w = watched(watch, v, "handler")
    v.tell("ask data")
    w.end(expect=1)
    v.tell("set")
    v.send("end raise")
    assert v.process.wait() == -signal.SIGTRAP


# Stacks


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_hit_on_a_coroutines_stack_leaves_what_is_below_it_alone(victim, watch, guarded, engine):
    """2 KB and less to go, where a signal's frame alone takes 3 KB with AVX-512: heap below, or a guard page."""
    v = victim("resist_signals")
    w = watched(watch, v, engine)
    n = 0
    for _ in ("first thread", "another thread"):
        for kind, size in ("context", 4096), ("context", 16384), ("asm", 1024), ("edge", 512), ("edge", 2048):
            v.tell("write 1")
            assert v.tell(f"coro {kind} {size} 3") == "whole", (kind, size)
            n += 4
        v.tell("thread")
    w.end()
    assert [s["recorded"] for s in w.of("summary")] == [n] and w.balanced()
    assert {a["function"] for a in w.accesses} == {"write_flag"}
    assert any("in_coroutine" in [f.get("function") for f in a["stack"]] for a in w.accesses)


def test_a_coroutines_stack_is_no_place_to_put_us_in(victim, watch, run, before_and_after):
    """Attached to while the only thread is on such a stack."""
    v = victim("resist_signals")
    v.send("coro stay 3072 5")
    assert v.process.stdout.readline() == "there\n"
    with before_and_after(v.pid):
        refused = run("-p", v.pid, "-v", "flag", "-w", "--engine", "handler", "-t", "0.1")
    if refused.returncode:  # where the main stack was used up before, and nothing is certainly free
        assert refused.returncode == 7 and "--engine ring" in refused.stderr
    w = watched(watch, v, "ring")
    v.send("go on")
    assert v.process.stdout.readline() == "ok whole\n"
    w.end()
    assert w.summary()["recorded"] == 5


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
@pytest.mark.parametrize("stack", ["2048", "4096", "65536", "8192 autodisarm", "0"])
def test_an_alternate_stack_that_is_too_small_is_not_used(victim, watch, guarded, stack, engine):
    v = victim("resist_signals")
    if v.tell(f"altstack {stack}") not in ("", "0"):
        pytest.skip("the kernel does not take an alternate stack of that size")
    w = watched(watch, v, engine)
    v.tell("write 3")
    if stack == "65536":  # in a handler of its own that has left 1 KB of it
        assert v.tell("shallow 4") == "whole"
    v.tell("write 3")
    w.end()
    assert w.summary()["recorded"] == (10 if stack == "65536" else 6) and w.balanced()


# Timers


@pytest.mark.parametrize("engine, how", [("handler", "small"), ("handler", "alone"), ("ring", "small"), ("ptrace", "alone")])
def test_profilers_and_timers_that_use_sigtrap_get_their_signals_and_none_of_ours(victim, watch, engine, how):
    """SIGPROF by setitimer, SIGTRAP by timer_create, to the process and to a thread; `flag` is written in handlers, too."""
    v = victim("resist_signals")
    v.tell(f"trap {how}")
    w = watched(watch, v, engine)
    writes, profs, traps, to_thread, foreign = map(int, v.tell("timers 500 1000").split())
    w.end()
    assert profs >= 20 and traps >= 20 and to_thread >= 20 and foreign == 0
    s = w.summary()
    assert w.balanced() and s["recorded"] > writes / 2
    # One that the CPU raises while another SIGTRAP is pending is merged into that by the kernel. perf counts it.
    assert s["counted"] == writes or (engine == "ptrace" and s["counted"] < writes)
    assert s["lost"] == 0 or engine == "handler"


def let_have(pid, tid, info):
    """A SIGTRAP whose siginfo_t is @info: as the kernel would have sent it, which only a tracer can imitate."""
    libc = ctypes.CDLL(None, use_errno=True)
    for request, data in ((PTRACE_SEIZE, None), (None, None), (PTRACE_SETSIGINFO, info), (PTRACE_DETACH, signal.SIGTRAP)):
        if request is None:
            assert libc.syscall(SYS_TGKILL, pid, tid, signal.SIGTRAP) == 0
            _, status = os.waitpid(tid, WALL)
            assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP
        else:
            assert libc.ptrace(request, tid, None, data if isinstance(data, bytes) else ctypes.c_void_p(data)) == 0, ctypes.get_errno()


def let_have_an_empty_dr6(v):
    tid, place = v.tell("").split()
    let_have(v.pid, int(tid), struct.pack("iiiiQ", signal.SIGTRAP, 0, TRAP_BRKPT, 0, int(place, 16)).ljust(128, b"\0"))


def test_a_hit_of_which_the_processor_gives_no_cause_ends_nobody_and_is_counted(victim, watch):
    """Some hypervisors lose DR6, and the kernel takes the hit for an int1, which a program without a handler does not survive."""
    v = victim("causeless", "plain")
    w = watch("-p", v.pid, "-v", "counter")
    for _ in range(3):
        let_have_an_empty_dr6(v)
    wait_until(lambda: any("without a cause" in n["text"] for n in w.of("note")))
    v.tell("")
    w.end()
    assert v.alive() and w.balanced() and [a["new"] for a in w.accesses if a["kind"] != "read"] == ["0x1", "0x2", "0x3", "0x4"]
    last = [n["text"] for n in w.of("note") if "without a cause" in n["text"]][-1]
    assert last.startswith("3 times ")


def test_an_int1_of_the_programs_own_is_its_own(victim, watch):
    v = victim("causeless", "int1")
    w = watch("-p", v.pid, "-v", "counter")
    let_have_an_empty_dr6(v)
    assert v.process.wait(WAIT) == -signal.SIGTRAP
    w.end(sig=None)


def has_taken_its_signals(pid, tid):
    """And runs."""
    status = Path(f"/proc/{pid}/task/{tid}/status").read_text()
    return re.search(r"^State:\s+R", status, re.M) and re.search(r"^SigPnd:\s+0+$", status, re.M)


@pytest.mark.parametrize("others", [[], ["-v", "standing"]], ids=["one", "two"])
def test_the_ptrace_engine_takes_it_for_a_hit_of_the_only_register_or_counts_it(victim, watch, others):
    v = victim("causeless", "plain")
    w = watch("-p", v.pid, "-v", "counter", "-w", *others, "--engine", "ptrace")
    for _ in range(3):
        tid, _ = v.tell("trap").split()
        wait_until(lambda: has_taken_its_signals(v.pid, tid))
        v.tell("")
    wait_until(lambda: len(w.of("access")) == (3 if others else 6))
    w.end()
    assert v.alive() and w.balanced()
    told = [n["text"] for n in w.of("note") if "without a cause" in n["text"]]
    assert told[-1].startswith("3 times ") if others else not told


def test_the_ptrace_engine_leaves_an_int1_of_the_programs_own_to_it(victim, watch):
    v = victim("causeless", "int1")
    w = watch("-p", v.pid, "-v", "counter", "--engine", "ptrace")
    v.send("trap")
    assert v.process.wait(WAIT) == -signal.SIGTRAP
    w.end(sig=None)
