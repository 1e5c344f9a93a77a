# rooms: tests/faults base
"""A system call or an allocation of ours that fails harms neither us nor the target, and is told: a part of `make faults`."""
import os
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, WAIT

LIBRARY = BUILD / "tests" / "faults" / "libfaults.so"
DRIVER = ROOT / "tests" / "faults" / "driver.py"


def driver(*args, **env):
    return subprocess.run([sys.executable, str(DRIVER), "--jobs", "1", *args], capture_output=True, text=True, timeout=10 * WAIT,
                          env=dict(os.environ, BUILD=str(BUILD), PYTHONDONTWRITEBYTECODE="1", **env))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["handler", "ring", "ptrace", "record", "report-json"])
def test_whatever_call_fails_the_target_is_unharmed_and_the_user_is_told(hardware, scenario):
    if scenario == "ring" and os.geteuid():
        pytest.skip("the ring engine needs root")
    r = driver("--scenario", scenario, "--sample", "10", "--seed", "7", "--base", "3")
    assert r.returncode == 0, r.stdout + r.stderr
    assert "10 tried" in r.stdout, r.stdout


def test_a_failure_that_is_not_told_would_be_found():
    r = driver("--self-test")
    assert r.returncode == 0, r.stdout + r.stderr
