# rooms: monitor/calls patch
"""`watchctl trace` of all functions of packaged programs and of two libraries each: the quick part of `make trace-proof`."""
import shutil
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "proof"))

import trace_oracles  # noqa: E402
import trace_programs  # noqa: E402
import traces  # noqa: E402

PROGRAMS = {p.name: p for p in trace_programs.PROGRAMS}
COUNTED = ["git", "sqlite3"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return traces.Scene(tmp_path_factory.mktemp("traces"), 1, True)


@pytest.fixture
def installed(request):
    p = PROGRAMS[request.param]
    if p.missing:
        pytest.skip(p.missing)
    return p


@pytest.mark.parametrize("installed", ["jq", "git", "sqlite3", "python3"], indirect=True)
def test_a_traced_program_does_what_it_does_without_and_no_call_is_missing(scene, installed):
    wrong, said = traces.check_launched(scene, installed, [], traces.plain(scene, installed))
    assert not wrong, said


@pytest.mark.slow_when("sqlite3")
@pytest.mark.parametrize("installed", COUNTED, indirect=True)
def test_functions_are_called_as_often_as_callgrind_counts(scene, installed):
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    wrong, said = traces.check_counts(scene, installed)
    assert not wrong, said


def test_an_account_that_does_not_add_up_is_found():
    said = "process 1: 9 functions traced in 1 module, 1 refused\n" \
           "{} calls: 3 recorded, 1 lost, 0 of 0 functions that were switched off"
    right, wrong = (trace_oracles.Session(said.format(n)) for n in (4, 5))
    assert right.share == 90 and not right.wrong()
    assert "5 calls are not" in wrong.wrong()
