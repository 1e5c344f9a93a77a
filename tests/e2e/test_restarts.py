# rooms: target/stop
"""
A stop interrupts system calls that wait with a time limit, and the kernel resumes those by restart_syscall(2). A seccomp
filter that allows the calls need not allow that one: then a stop of ours must not be the end of the program, nor of the
call.
"""
import ctypes
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import WATCHCTL
from waiting import WAIT, ready, wait_until

RESTART_SYSCALL = "219"
TGKILL = 234
libc = ctypes.CDLL(None)
HOW = {
    "thread-local": ["-v", "tl"],
    "errno": ["-v", "errno"],
    "register": ["-v", "rounds", "-i", "1"],
    "ptrace": ["-v", "rounds", "--engine", "ptrace"],
    "step": ["step", "--from", "step_here", "--count", "0"],
}


def calls(v):
    """How often each call has returned what it should."""
    try:
        return int(v.tell("how"))
    except BrokenPipeError:
        raise AssertionError(f"it died: {v.process.wait()}") from None


def goes_on(v):
    """All calls return once more, and again."""
    now = calls(v)
    wait_until(lambda: calls(v) >= now + 2)


def session(v, how):
    command = HOW[how][:1] if how == "step" else []
    out = tempfile.TemporaryFile("w+")
    s = ready(WATCHCTL, *command, "-p", v.pid, *HOW[how][len(command):], stdout=out, stderr=out)
    s.out = out
    return s


def end(s, sig=signal.SIGINT):
    """Returns what it has said."""
    s.send_signal(sig)
    s.wait(timeout=WAIT)
    with s.out as out:
        out.seek(0)
        return out.read()


@pytest.mark.slow_when("errno-errno", "register-errno", "ptrace-errno")
@pytest.mark.parametrize("action", ["kill", "errno"])
@pytest.mark.parametrize("how", HOW)
def test_no_stop_takes_a_call_from_a_program_under_seccomp(hardware, victim, how, action):
    v = victim("restarts", action)
    s = session(v, how)
    goes_on(v)
    assert "begins again, with its whole time-out" in end(s)
    goes_on(v)
    assert v.finish() == 0


@pytest.mark.parametrize("how", HOW)
def test_nor_where_the_program_enters_seccomp_while_it_is_watched(hardware, victim, how):
    v = victim("restarts", "kill", "late")
    s = session(v, how)
    goes_on(v)  # none is on its way into restart_syscall, as it may go where there is no filter
    v.tell("sandbox")
    goes_on(v)
    end(s)
    goes_on(v)
    assert v.finish() == 0


def resumed(v):
    """How many threads sleep in a call that has been resumed; None while some do not sleep."""
    tasks = [Path(task) for task in Path(f"/proc/{v.pid}/task").iterdir()]
    numbers = [(task / "syscall").read_text().split()[0] for task in tasks]
    return None if "running" in numbers else numbers.count(RESTART_SYSCALL)


def test_nor_where_a_call_was_resumed_before_the_program_entered_seccomp(hardware, victim):
    """Its number is not in the registers any more."""
    v = victim("restarts", "kill", "late")
    for _ in range(5):
        subprocess.run([WATCHCTL, "list", "-p", str(v.pid)], capture_output=True, timeout=WAIT, check=True)
        if wait_until(lambda: resumed(v) is not None) and resumed(v):
            break
    v.tell("sandbox")
    subprocess.run([WATCHCTL, "list", "-p", str(v.pid)], capture_output=True, timeout=WAIT, check=True)
    goes_on(v)
    assert v.finish() == 0


@pytest.mark.parametrize("how", ["register", "ptrace", "step"])
def test_nor_where_the_session_is_killed(hardware, victim, how):
    v = victim("restarts", "kill")
    s = session(v, how)
    end(s, signal.SIGKILL)
    goes_on(v)
    assert v.finish() == 0


@pytest.mark.parametrize("command", [["list"], ["clear"]])
def test_nor_do_commands_that_look_at_the_registers(hardware, victim, command):
    v = victim("restarts", "kill")
    for _ in range(10):
        subprocess.run([WATCHCTL, *command, "-p", str(v.pid)], capture_output=True, timeout=WAIT, check=False)
    goes_on(v)
    assert v.finish() == 0


@pytest.mark.parametrize("how", ["ptrace", "step"])
def test_a_signal_that_the_program_ignores_ends_no_call(hardware, victim, how):
    """A traced thread is woken by it, too."""
    v = victim("restarts", "kill")
    s = session(v, how)
    for _ in range(10):
        for task in Path(f"/proc/{v.pid}/task").iterdir():
            libc.syscall(TGKILL, v.pid, int(task.name), signal.SIGWINCH)
        calls(v)
    end(s)
    goes_on(v)
    assert v.finish() == 0
