"""
How long a test waits for anything: until it is so, within one limit. No test guesses how long something takes; the few
that let time pass for another reason are named in tests/sleeps.txt.
"""
import inspect
import os
import select
import subprocess
import time
from pathlib import Path

import failure_report

# Seconds. The environment's WAIT_FACTOR stretches it where all is slow: under AddressSanitizer 4, valgrind 10.
WAIT = 60 * float(os.environ.get("WAIT_FACTOR", "1"))


def wait_until(condition, *, or_say=None):
    """Looks until condition() holds, and returns what it said then; fails if it does not within WAIT, with what or_say() says."""
    end = time.monotonic() + WAIT
    while not (said := condition()):
        if time.monotonic() > end:
            failure_report.take()
            raise AssertionError(f"still not so after {WAIT:g} s: {_text(condition)}" + (f"\n{or_say()}" if or_say else ""))
        time.sleep(0.01)
    return said


def started(*command, **popen):
    """@command, a watchctl that attaches, and the pipe through which it says that all is armed."""
    ours, its = os.pipe()
    process = subprocess.Popen([*map(str, command), "--ready-fd", str(its)], pass_fds=[its], **popen)
    os.close(its)
    return process, ours


def heard(pipe):
    """The byte that comes through it; b"" is its end."""
    if not select.select([pipe], [], [], WAIT)[0]:
        failure_report.take()
        raise AssertionError(f"neither a byte nor an end within {WAIT:g} s")
    with os.fdopen(pipe, "rb", 0) as f:
        return f.read(1)


def ready(*command, **popen):
    """Starts @command, a watchctl that attaches, and returns it when all is armed. Fails if it ends before."""
    process, pipe = started(*command, **popen)
    if not heard(pipe):
        said = process.communicate(timeout=WAIT)[1]
        raise AssertionError(f"never ready: {' '.join(map(str, command))}: {said}")
    return process


def wait_until_it_has_run(pid):
    """Its threads have worked for a while: together 50 ms, or in 50 turns."""
    def work():
        shares = [Path(task, "schedstat").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
        return sum(int(ns) for ns, _, _ in shares), sum(int(turns) for _, _, turns in shares)

    ns, turns = work()
    wait_until(lambda: work()[0] > ns + 50_000_000 or work()[1] > turns + 50)


def _text(condition):
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):  # it comes from no file, or is no Python
        return repr(condition)
