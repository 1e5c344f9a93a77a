# rooms: engine/handler engine/plan
"""Without CAP_BPF and CAP_PERFMON nothing in the kernel keeps our signals from a program that has begun to use SIGTRAP itself."""
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, wait_until

UNGUARDED = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all"] if os.geteuid() == 0 else []
HANDLER = ["-v", "flag", "-w", "--engine", "handler"]
LAUNCHED = {"fortran_main": ("store::cell", "last         100", 100), "go_main": ("main.counter", "ok 400", 400)}


def notes(w):
    return [o["text"] for o in w.of("note")]


def launch(build, name, engine, out):
    return subprocess.run([*UNGUARDED, WATCHCTL, "-v", LAUNCHED[name][0], "-w", "--engine", engine, "--json", "--output", out, "--",
                           build(name)], capture_output=True, text=True, input="go\n", timeout=WAIT)


@pytest.mark.parametrize("name", LAUNCHED)
def test_a_program_whose_runtime_takes_sigtrap_comes_to_its_end_and_is_watched(build, hardware, tmp_path, name):
    _, last, writes = LAUNCHED[name]
    r = launch(build, name, "auto", tmp_path / "out")
    objects = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert r.returncode == 0 and r.stdout.splitlines()[-1].strip() == last, (r.stdout, r.stderr)
    armed, = [o for o in objects if o["type"] == "armed"]
    assert armed["engine"] == "ring" and "runtime installs its own SIGTRAP handler" in armed["engine_why"]
    assert [o["counted"] for o in objects if o["type"] == "summary"] == [writes]


@pytest.mark.parametrize("name", LAUNCHED)
def test_the_handler_is_refused_where_the_programs_runtime_would_replace_it(build, hardware, tmp_path, name):
    r = launch(build, name, "handler", tmp_path / "out")
    assert r.returncode == 7 and "installs its own SIGTRAP handler when it starts" in r.stderr, r.stderr


@pytest.mark.slow
def test_an_event_loop_that_takes_our_signals_is_let_go(victim, watch):
    """Each signal that it takes makes another round, with another hit: it would come to no rest."""
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=UNGUARDED)
    rounds, signals = map(int, v.tell("loop 600").split())
    w.end(sig=None, expect=7)
    assert signals, "none of our signals came: nothing is tested"
    assert any("receives watchctl's signals itself" in text for text in notes(w)), notes(w)
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ring", prefix=UNGUARDED)
    rounds, signals = map(int, v.tell("loop 50").split())
    w.end()
    assert rounds <= 51 and not signals and w.summary()["counted"] == rounds


@pytest.mark.slow
def test_a_loop_that_waits_for_our_signals_is_let_go(victim, watch):
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=UNGUARDED)
    rounds, signals = map(int, v.tell("sigwait 600").split())
    w.end(sig=None, expect=7)
    assert signals and rounds < 100000, (rounds, signals)
    assert any("receives watchctl's signals itself" in text for text in notes(w)), notes(w)


def test_the_handler_is_refused_where_a_thread_waits_for_its_signal(victim, run):
    v = victim("own_signals")
    v.send("sigwait 100")
    wait_until(lambda: Path(f"/proc/{v.pid}/syscall").read_text().startswith("128 "))
    r = run("-p", v.pid, *HANDLER, "-t", "0.1")
    assert r.returncode == 7 and "waits for it (sigwait)" in r.stderr and "--engine ring" in r.stderr, r.stderr
    assert v.process.stdout.readline().split()[-1] == "0"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["sigwait", "loop"])
def test_by_default_another_engine_continues_where_a_program_begins_to_take_our_signals(victim, watch, verb):
    v = victim("own_signals")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto", prefix=UNGUARDED)
    rounds, signals = map(int, v.tell(f"{verb} 600").split())
    w.end()
    first, then = w.of("armed")
    assert first["engine"] == "handler" and then["engine"] == "ring" and "handler engine had to give up" in then["engine_why"]
    assert any("the watch continues with the ring engine: accesses in the " in text for text in notes(w)), notes(w)
    assert w.balanced() and signals < rounds < 100000
    assert len([a for a in w.accesses if a["time"] > then["time"]]) >= 400
    before = len(w.accesses)
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto", prefix=UNGUARDED)
    v.tell("write 10")
    w.end()
    assert w.summary()["recorded"] == 10 and before


@pytest.mark.slow
def test_by_default_another_engine_continues_where_a_thread_begins_to_block_our_signal(victim, watch):
    v = victim("own_signals")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto", prefix=UNGUARDED)
    v.tell("blocked 4000")
    w.end()
    assert [a["engine"] for a in w.of("armed")] == ["handler", "ring"]
    assert any("has begun to block SIGTRAP" in text for text in notes(w)), notes(w)
    assert w.balanced() and w.summary()["recorded"] > 1000


def test_a_thread_that_begins_to_block_our_signal_is_found_while_hits_of_others_arrive(victim, watch):
    v = victim("block_later")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto", prefix=UNGUARDED)
    v.tell("go")
    wait_until(lambda: any("the watch continues with the ring engine" in text for text in notes(w)))
    wait_until(lambda: len(w.of("armed")) == 2 and len({a["tid"] for a in w.accesses if a["time"] > w.of("armed")[1]["time"]}) == 3)
    w.end()
    assert any("has begun to block SIGTRAP" in text for text in notes(w)), notes(w)
    assert w.balanced(), w.summary()


def test_by_default_another_engine_continues_where_the_program_takes_sigtrap(victim, watch):
    v = victim("own_signals")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "auto", prefix=UNGUARDED)
    v.tell("write 10")
    v.send("default")
    assert v.process.stdout.readline() == "ok\n"
    wait_until(lambda: any("the watch continues" in text for text in notes(w)))
    v.tell("write 10")
    w.end(expect=None)  # 1: it may restore what it found, so the handler has to stay in its memory
    assert w.process.returncode in (0, 1) and w.summary()["recorded"] == 20 and w.balanced(), w.stderr
    assert v.alive()


def test_a_loop_that_lets_signals_in_now_and_then_keeps_its_watch(victim, watch):
    """What waits is gone a moment later, as with one that takes it; but it has come."""
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=UNGUARDED)
    v.tell("lets 2000")
    w.end()
    assert w.balanced() and w.summary()["recorded"] == 2000, w.summary()


def test_a_program_that_our_signal_had_no_room_in_is_told_as_ended_by_it(build, hardware):
    """Nothing can be known of it beforehand: a stack that the program has made, with a guard page below."""
    p = subprocess.run([*UNGUARDED, WATCHCTL, "-v", "flag", "-w", "-q", "--engine", "handler", "--", build("resist_signals")],
                       input="coro edge 512 3\n", capture_output=True, text=True, timeout=WAIT)
    assert p.returncode == 7 and "was ended by SIGSEGV just when a hit was not recorded" in p.stderr, p.stderr
    assert "--engine ring" in p.stderr


@pytest.mark.slow_when("unguarded")
@pytest.mark.parametrize("prefix", [[], UNGUARDED], ids=["guarded", "unguarded"])
def test_hits_that_do_not_come_because_sigtrap_is_blocked_are_told(victim, watch, prefix):
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=prefix)
    v.tell("blocked 3000")
    w.end()
    assert any("blocks SIGTRAP" in text and "--engine ring" in text for text in notes(w)), notes(w)
    assert w.balanced() and w.summary()["counted"] == 3000


@pytest.mark.parametrize("prefix", [[], UNGUARDED], ids=["guarded", "unguarded"])
def test_a_thread_that_blocks_signals_around_its_writes_is_not_taken_for_one_that_gets_no_further(victim, watch, prefix):
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=prefix)
    v.tell("bursts 500")
    w.end()
    s = w.summary()
    assert w.balanced() and s["counted"] == 1500 and s["recorded"] >= 500, s


def test_a_program_that_our_signal_ends_is_told_with_an_exit_status(victim, watch):
    v = victim("own_signals")
    w = watch("-p", v.pid, *HANDLER, prefix=UNGUARDED)
    v.tell("write 10")
    v.send("default")
    v.send("write 3")
    w.end(sig=None, expect=None)
    if v.process.poll() is None and w.process.returncode == 7:  # it was seen in time
        assert any("SIGTRAP handler" in text for text in notes(w)), notes(w)
        return
    assert v.process.wait(timeout=WAIT) == -signal.SIGTRAP
    assert w.process.returncode == 7 and "was ended by SIGTRAP" in w.stderr, w.stderr
