# rooms: handler target/inject
"""A thread's state at a hit and around our coming and going; and programs that check themselves."""
import subprocess

import pytest
from conftest import WAIT, WATCHCTL

ENGINES = {"handler": ["--engine", "handler"], "register": ["-i", "2"], "ring": ["--engine", "ring"],
           "ptrace": ["--engine", "ptrace"]}


@pytest.fixture
def program(victim):
    v = victim("resist_state")
    v.tell("ready")
    return v


@pytest.fixture(scope="module")
def guarded(build, hardware):
    r = subprocess.run([WATCHCTL, "--verbose", "--engine", "handler", "-v", "flag", "-w", "--", build("resist_state")],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)
    if "handler: in place" not in r.stderr:
        pytest.skip("no guard on this machine: " + r.stderr.strip())


def watched(watch, v, engine, *args, access="-w"):
    return watch("-p", v.pid, "-v", "flag", access, *ENGINES[engine], *args)


@pytest.mark.parametrize("access", ["-w", "-rw"])
@pytest.mark.parametrize("engine", ENGINES)
def test_all_of_a_threads_state_is_as_it_was_after_a_hit(program, watch, engine, access):
    """All registers, flags with direction and alignment check, red zone, vectors, masks, MXCSR, x87, errno, gs."""
    w = watched(watch, program, engine, access=access)
    width, what = program.tell("state 200").split()
    w.end()
    assert what == "intact"
    assert w.summary()["recorded"] == 200
    assert {(a["kind"], a["function"].split("_")[0]) for a in w.accesses} == {("write", "touch")}
    assert {a["new"] for a in w.accesses if "new" in a} == {"0x4d"}
    print("vectors of", width, "bytes")


@pytest.mark.parametrize("engine", ENGINES)
def test_all_of_a_threads_state_is_as_it_was_wherever_we_come_and_go(program, watch, engine):
    """The thread that is borrowed to place, try out and withdraw the handler is this one: there is no other."""
    program.send("state 30000")
    for _ in range(2):
        watched(watch, program, engine, "-t", "0.02", "-q").end(sig=None)
    assert program.process.stdout.readline().split()[2] == "intact"


def test_without_a_signal_a_restartable_sequence_comes_to_its_end(program, watch, guarded):
    """A signal would start it again at each of its accesses, for ever. The hits are recorded all the same."""
    w = watched(watch, program, "handler")
    assert program.tell("rseq commit 100") == "100 seldom"
    assert program.tell("rseq inner 100") == "100 seldom"
    program.tell("write 5")
    w.end()
    by_function = {}
    for a in w.accesses:
        by_function[a["function"]] = by_function.get(a["function"], 0) + 1
    assert by_function["sequence_commit"] == 100 and by_function["main"] == 5
    assert 100 <= by_function["sequence_inner"] < 200  # a few were started again by the kernel's own doing
    assert w.balanced() and w.summary()["lost"] == 0


@pytest.mark.parametrize("engine", ["register", "ring", "ptrace"])
def test_a_watch_that_would_hold_a_restartable_sequence_for_ever_is_given_up(program, watch, engine):
    w = watched(watch, program, engine)
    assert program.tell("rseq commit 20").startswith("20 ")
    assert program.tell("rseq inner 20").startswith("20 ")
    if engine == "ring":  # nothing stops or interrupts it
        w.end()
        assert w.summary()["recorded"] >= 40
        return
    w.end(sig=None, expect=7)
    assert any("restartable sequence" in n["text"] and "--engine ring" in n["text"] for n in w.of("note"))
    assert program.tell("rseq inner 100") == "100 seldom"


SEEN = {"handler": "handler-5 | r-xp: rw-s:/dev/zero (deleted)", "ring": "|", "ptrace": "|"}


@pytest.mark.parametrize("engine", SEEN)
def test_a_program_that_checks_itself_sees_what_is_documented_and_nothing_else(program, watch, engine):
    """Its own code, mappings, descriptors, threads, signal handlers, mask, alternate stack, children."""
    assert program.tell("look") == "|"
    w = watched(watch, program, engine)
    assert program.tell("look") == SEEN[engine]
    program.tell("write 20")
    assert program.tell("look") == SEEN[engine]
    w.end()
    assert program.tell("look") == "|"
