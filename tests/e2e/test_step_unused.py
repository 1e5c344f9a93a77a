# rooms: step/model code/insn view/diff
"""Results that are none: what a function without one leaves in its place is not compared; one that is ignored is."""
import json
import os
import subprocess

import pytest
from conftest import WAIT, WATCHCTL

LEFT_OVER = ["leaves_temporary", "leaves_temporary", "leaves_call"]

pytestmark = pytest.mark.parametrize("stepper", ["ptrace", "lldb", "patch"])


def record(victim, stepper, log, fault=""):
    env = dict(os.environ, FAULT=fault)
    r = subprocess.run([WATCHCTL, "step", "-q", "--stepper", stepper, "-o", str(log), "--from", "watched", "--",
                        str(victim)], env=env, capture_output=True, text=True, timeout=WAIT)
    if "no LLDB" in r.stderr:
        pytest.skip("this machine has no LLDB")
    assert r.returncode == 0, r.stderr
    return log


def lines(*args):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode in (0, 1), r.stderr
    return r.returncode, [json.loads(line) for line in r.stdout.splitlines()]


def returns(log):
    return [o for o in lines("report", "--json", "--events", log)[1] if o["type"] == "return"]


def unused(log):
    return [o["function"] for o in returns(log) if o.get("ret", {}).get("unused")]


@pytest.mark.parametrize("name", ["unused_results", "unused_results_O1", "unused_results_clang"])
def test_what_is_left_over_is_no_difference_but_an_ignored_result_is(build, tmp_path, stepper, name):
    victim = build(name)
    good = record(victim, stepper, tmp_path / "good")
    status, objects = lines("diff", "--json", good, record(victim, stepper, tmp_path / "again"))
    assert status == 0, objects
    assert unused(good) == LEFT_OVER
    status, objects = lines("diff", "--json", good, record(victim, stepper, tmp_path / "bad", "1"))
    assert status == 1
    assert ("is_ignored", "result") in [(o["function"], o["kind"]) for o in objects if o["type"] == "group"], objects


@pytest.mark.parametrize("name", ["unused_results_untyped", "unused_results_untyped_O1"])
def test_without_debug_information_functions_without_a_result_have_none(build, tmp_path, stepper, name):
    victim = build(name)
    log = record(victim, stepper, tmp_path / "log", "1")
    names = unused(log)
    assert [n for n in names if n != "watched"] == LEFT_OVER + ["no_result"]
    results = {o["function"]: o["ret"]["text"] for o in returns(log) if "ret" in o}
    assert results["has_result"] == "0x4"
    assert results["is_ignored"] == "0xffffffff"
    assert results["no_result"].startswith("(unused: 0x")
