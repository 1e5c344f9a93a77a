# rooms: step view/diff
"""Two good runs of a real program do not differ, and a failed call is named: the quick part of `make proof`."""
import json
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "proof"))

import faults  # noqa: E402
import programs  # noqa: E402
import proof  # noqa: E402

QUICK_FAULTS = ["bzip2", "file", "sed", "xz", "bc"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workloads")
    programs.prepare(folder)
    return folder


def told(objects):
    return [o["text"] for o in objects if o["type"] == "difference"]


@pytest.mark.slow_when("sqlite3")
@pytest.mark.slow_when("file", "lua", "perl", "python3")
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.name)
def test_two_good_runs_do_not_differ(program, folder, tmp_path):
    for log in "one", "two":
        assert proof.record(tmp_path / log, program.argv, folder, ["--aslr", *program.step], program.env)
    status, objects = proof.diff(tmp_path / "one", tmp_path / "two")
    calls = [o["calls"] for o in objects if o["type"] == "log"]
    assert min(calls) > 10
    assert not told(objects), json.dumps(objects, indent=1)
    assert status == 0


@pytest.mark.slow
@pytest.mark.parametrize("program", programs.LEARNED, ids=lambda p: p.name)
def test_what_good_runs_do_differently_is_learned(program, folder, tmp_path):
    logs = [tmp_path / str(i) for i in range(4)]
    for log in logs:
        proof.record(log, program.argv, folder, ["--aslr", *program.step], program.env)
    status, objects = proof.diff(logs[0], logs[3])
    assert status == 1
    status, objects = proof.diff(*logs)
    assert (status, told(objects)) == (0, [])


@pytest.mark.slow
def test_a_call_that_fails_is_the_first_difference(capsys):
    chosen = [p for p in programs.PROGRAMS if p.name in QUICK_FAULTS]
    right, count = faults.prove(chosen, 40, 2)
    assert count >= 40
    assert right >= faults.WANTED * count, capsys.readouterr().out
