# rooms: trace
"""Logs of every kind, damaged at random: a short run of `make damage-proof`."""
import os
import re
import subprocess
import sys

from conftest import BUILD, ROOT, WAIT, WATCHCTL

ROUNDS = 108  # six of each command


def test_randomly_damaged_logs_are_neither_misread_nor_passed_over_in_silence():
    r = subprocess.run([sys.executable, "-B", ROOT / "tests" / "damage" / "damage.py", BUILD, "-n", str(ROUNDS), "-s", "e2e",
                        "-j", "2"], env=dict(os.environ, WATCHCTL=str(WATCHCTL)), capture_output=True, text=True,
                       timeout=10 * WAIT)
    assert r.returncode == 0, r.stdout[-3000:] + r.stderr[-2000:]
    assert f"{ROUNDS} damaged logs: no crash, nothing misread, none silent" in r.stdout
    # Most of them must have been damaged so that it could be seen, or nothing was tried out.
    statuses = re.search(r"^kind, exit status(.*)$", r.stdout, re.M)[1].split()
    rows = [line.split()[-len(statuses):] for line in r.stdout.split("\n\n")[1].splitlines()[1:]]
    assert sum(int(row[statuses.index("8")]) for row in rows) > ROUNDS / 2, r.stdout
