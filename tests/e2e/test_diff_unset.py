# rooms: view/diff
"""watchctl diff: what a called function has yet to write is whatever the stack holds, and no difference."""
import json
import os
import subprocess

import pytest
from conftest import WAIT, WATCHCTL


@pytest.fixture(scope="module")
def victim(build):
    return build("out_params")


def record(victim, log, garbage, fault=""):
    env = dict(os.environ, GARBAGE=str(garbage), FAULT=fault)
    r = subprocess.run([WATCHCTL, "step", "-q", "--aslr", "-o", str(log), "--from", "watched", "--pointee", "512", "--",
                        str(victim)], env=env, capture_output=True, text=True, timeout=WAIT)
    if "no LLDB" in r.stderr:
        pytest.skip("this machine has no LLDB")
    assert r.returncode == 0, r.stderr
    return log


def diff(*args):
    r = subprocess.run([WATCHCTL, "diff", "--json", *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode in (0, 1), r.stderr
    return r.returncode, [json.loads(line) for line in r.stdout.splitlines()]


@pytest.fixture(scope="module")
def good(victim, tmp_path_factory):
    return record(victim, tmp_path_factory.mktemp("unset") / "good", 100)


def first(objects):
    return next(o for o in objects if o["type"] == "difference")


def shown_garbage(objects):
    return [a["value"] for a in first(objects)["bad"]["args"]]


def test_garbage_is_no_difference(victim, good, tmp_path):
    bad = record(victim, tmp_path / "bad", 200)
    status, objects = diff(good, bad)
    assert status == 0, objects
    # Or there was none.
    status, objects = diff(good, bad, "--weak")
    assert status == 1
    assert any("20" in value for value in shown_garbage(objects)), first(objects)


@pytest.mark.parametrize("fault, member", [("value", "value"), ("forgotten", "used")])
def test_what_is_written_or_not_is_the_first_difference(victim, good, tmp_path, fault, member):
    status, objects = diff(good, record(victim, tmp_path / "bad", 200, fault))
    assert status == 1
    call = first(objects)["bad"]
    assert call["function"] == "ask"
    assert [(c["name"], c["member"]) for c in call["changes"] if c.get("differs")] == [("*out", member)]
