# rooms: engine handler
"""Accesses that lead whoever records them to touch what is watched, or what has gone: the program neither stands nor dies."""
import os
import select
from pathlib import Path

import pytest
from between import Between

# No guard in the kernel, as for any plain user; who may see the kernel's accesses all the same.
WITHOUT, SEEING = [["setpriv", "--bounding-set", drop] if os.geteuid() == 0 else []
                   for drop in ("-bpf,-sys_admin,-perfmon", "-bpf,-sys_admin")]
MODES = {"handler": ([], ["--engine", "handler"]), "without the guard": (WITHOUT, ["--engine", "handler"]),
         "without it, with perf": (SEEING, ["--engine", "handler"]), "register": ([], ["-i", "2"])}
each_mode = pytest.mark.parametrize("mode", MODES)


def ask(v, line, within=20):
    """Its answer. One that does not come is a program that stands."""
    v.send(line)
    assert select.select([v.process.stdout], [], [], within)[0], f"no answer to {line!r}: the program stands still"
    answer = v.process.stdout.readline().split()
    assert answer[:1] == ["ok"], f"{line}: {answer}, {v.process.poll()}"
    return answer[1] if len(answer) == 2 else answer[1:]


def watched(watch, v, mode, name, access, *more):
    prefix, engine = MODES[mode]
    size = ["-s", "8"] if name.startswith("0x") else []
    return watch("-p", v.pid, "-v", name, *size, access, *engine, *more, prefix=prefix)


@pytest.mark.parametrize("access", ["-rw", "-r"])
@pytest.mark.parametrize("mode", ["handler", "without the guard"])
def test_a_thread_that_reads_its_own_variable_goes_on(victim, watch, mode, access):
    v = victim("resist_access")
    w = watched(watch, v, mode, "mine", access, "-q", "--buffer", "64M")
    loops = int(ask(v, "own 500"))
    w.end()
    s = w.summary()
    assert loops > 500 and w.balanced()
    # Two reads, or a read and a write, of which a new thread's first ones may come before it is armed.
    assert 0.9 * 2 * loops <= s["counted"] <= 2 * loops + 1


@pytest.mark.parametrize("how", ["unmap", "truncate", "protect"])
@each_mode
def test_the_page_of_a_variable_may_go_at_any_instant(victim, watch, mode, how):
    """While one owner is still in the handler, the other one gives the page back."""
    v = victim("resist_access")
    page = ask(v, "page " + ("file" if how == "truncate" else "private"))
    w = watched(watch, v, mode, page, "-w", "-q")
    assert int(ask(v, f"owners {how} 1000")) > 20
    w.end()
    assert v.alive() and w.summary()["recorded"] > 20 and (mode == "register" or w.balanced())


@pytest.fixture(scope="module")
def before_the_known_access(tmp_path_factory):
    """To the page of resist_access, by code of ours, not by a system call."""
    return Between(tmp_path_factory.mktemp("between"), "r->rdi == 0x100000000000").run


def drop_unless_held(v, how):
    """False: the thread that would have to do it is the one that is held."""
    obeys = sorted(Path(f"/proc/{v.pid}/task").iterdir(), key=lambda t: int(t.name))[1]
    if " t " in (obeys / "stat").read_text():
        return False
    ask(v, f"drop {how}")
    return True


@pytest.mark.parametrize("caught", ["catch", "ignore"])
@pytest.mark.parametrize("how", ["unmap", "truncate", "protect"])
@pytest.mark.parametrize("mode, access", [("handler", "-rw"), ("handler", "-w"), ("register", "-rw")])
def test_a_page_that_goes_before_our_known_access_costs_the_program_nothing(victim, watch, before_the_known_access, monkeypatch,
                                                                           mode, access, how, caught):
    v = victim("resist_access")
    page = ask(v, "page " + ("file" if how == "truncate" else "private"))
    ask(v, f"fault {caught}")
    start = lambda: watched(watch, v, mode, page, access)
    if caught == "ignore" or (how == "truncate" and access == "-w"):
        w = start()  # nothing of the kind is made: the first fault would be the end; others could see what is rewritten
    else:
        dropped = []
        while not any(dropped):
            assert len(dropped) < 20
            if dropped:
                w.end()
            w = before_the_known_access(1, lambda: dropped.append(drop_unless_held(v, how)), start, monkeypatch)
    assert not w.of("armed")[0]["verified"]
    assert ask(v, f"fault {caught}") == ["0", "same"]
    ask(v, "page " + ("file" if how == "truncate" else "private"))
    ask(v, "touch 5")
    w.end()
    assert v.alive() and w.summary()["recorded"] == 5


@each_mode
def test_a_frame_may_lie_in_memory_that_comes_and_goes(victim, watch, mode):
    v = victim("resist_access")
    w = watched(watch, v, mode, "flag", "-w", "-q")
    n = int(ask(v, "frames 1000"))
    w.end()
    assert v.alive() and n > 20
    assert mode == "register" or w.balanced() and w.summary()["counted"] == n


def places(context, info):
    """Below the stack pointer: in the signal's frame (state, registers, mask, siginfo), and in what a handler has of the stack."""
    bottom = context + 8
    return [200, 1000, context - 168, context - 296, info - 16, bottom + 8, bottom + 40, bottom + 200, bottom + 1000, bottom + 2500]


@pytest.mark.slow
@pytest.mark.parametrize("access", ["-w", "-rw"])
@each_mode
def test_where_our_own_frames_come_to_lie_only_the_programs_accesses_are_told(victim, watch, mode, access):
    v = victim("resist_access")
    ask(v, "low 8")
    _, context, info = map(int, ask(v, "trap 1"))
    for n, where in enumerate(places(context, info), 1):
        low = ask(v, f"low {where}")
        w = watched(watch, v, mode, low, access, "-v", "flag", "-w")
        assert int(ask(v, "trap 10")[0]) == 10 * n + 1
        ms = [int(ask(v, line)) for line in ("write 300", "flag 300", "write 300")]
        w.end()
        told = [a for a in w.accesses if a["watch"] == low]
        assert max(ms) < 3000, f"{where}: {ms}"
        # For its own signals the kernel writes there, too; for ours nobody does.
        assert [int(a["new"], 16) for a in told[-600:]] == [*range(1, 301), *range(1, 301)], where
        assert all(a["origin"] == "kernel" for a in told[:-600])
        assert all(a["function"] == "write_low" and not a.get("displaced") for a in told[-600:])
        assert not any("SIGTRAP" in n["text"] for n in w.of("note"))
        assert w.summary(1)["recorded"] == 300 and sum(s["lost"] for s in w.of("summary")) == 0
        assert mode == "register" or w.balanced()


@pytest.mark.skipif(os.geteuid() != 0 or [int(n) for n in os.uname().release.split(".")[:2]] < [6, 11] or
                    not os.path.exists("/sys/kernel/btf/vmlinux"), reason="no guard: it needs root, Linux 6.11 and BTF")
def test_the_guard_is_accepted_by_the_kernel(hardware, victim, run):
    """Much of what is tested here passes without it, too."""
    v = victim("resist_access")
    r = run("-p", v.pid, "-v", "flag", "-w", "--engine", "handler", "--verbose", "-t", "0.1")
    assert "guard against a replaced SIGTRAP handler: in place" in r.stderr
