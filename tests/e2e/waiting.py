"""
How long a test waits for anything: until it is so, within one limit. No test guesses how long something takes; the few
that let time pass for another reason are named in tests/sleeps.txt.
"""
import inspect
import os
import time

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


def _text(condition):
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):  # it comes from no file, or is no Python
        return repr(condition)
