# rooms: flow/explain
"""`watchctl flow explain` of packaged programs that hang on purpose: a sample of `make explain-live-proof`."""
import sys

import pytest
from conftest import ROOT, WAIT

sys.path.insert(0, str(ROOT / "tests" / "proof"))

import explain  # noqa: E402
import explain_programs  # noqa: E402

PROGRAMS = {p.name: p for p in explain_programs.PROGRAMS}


@pytest.fixture
def hung(request, tmp_path):
    p = PROGRAMS[request.param]
    if p.missing:
        pytest.skip(p.missing)
    with explain_programs.Room(tmp_path, WAIT) as room:
        yield p.make(room)


@pytest.mark.parametrize("hung", ["python-gil", "git-hook", "flock-holder", "pipeline"], indirect=True)
def test_the_culprit_is_who_the_program_hangs_for(hung):
    explained = explain.Explained(hung, WAIT)
    assert explained.right, explained.text


@pytest.mark.parametrize("hung", ["long-pipeline"], indirect=True)
def test_the_way_to_the_culprit_leads_over_the_programs_between(hung):
    lines = explain.Explained(hung, WAIT).lines
    links = [x for x in lines if x["type"] == "link"]
    assert [x["waiter"]["comm"] for x in links] == ["yes", "gzip"] and links[-1]["waits_for"]["comm"] == "cat"
    assert all(x["edge"]["strong"] for x in links)


def test_nothing_is_left_of_a_room(tmp_path):
    with explain_programs.Room(tmp_path, WAIT) as room:
        hung = PROGRAMS["git-hook"].make(room)
        pids = explain_programs.family([hung.ask])
        assert len(pids) == 3
    assert not explain_programs.family(pids)
