# rooms: view/diff code/insn
"""watchctl diff: the branch at which two runs part, by its line, also in what is inlined or in another build."""
import json
import os
import shutil
import subprocess

import pytest
from conftest import ROOT, WAIT, WATCHCTL

SOURCE = (ROOT / "tests" / "victims" / "parting.c").read_text().splitlines()


def line_of(mark):
    return next(i for i, text in enumerate(SOURCE, 1) if f"at: {mark} */" in text)


@pytest.fixture(scope="module")
def victim(build):
    return build("parting")


@pytest.fixture(scope="module")
def other(build):
    return build("parting_other")


def record(victim, log, mode):
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", str(log), "--from", "watched", "--", str(victim)],
                       env=dict(os.environ, MODE=str(mode)), capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return log


@pytest.fixture(scope="module")
def good(victim, tmp_path_factory):
    return record(victim, tmp_path_factory.mktemp("parting") / "good", 0)


def reports(*args):
    r = subprocess.run([WATCHCTL, "diff", "--json", *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 1, r.stderr
    objects = [json.loads(line) for line in r.stdout.splitlines()]
    return {o["first"]: o for o in objects if o["type"] == "difference"}


def branches(report):
    """(function, line) of each branch, innermost first"""
    assert report["parts_at"]["more"] == 0
    return [[(f["function"], f["line"]) for f in frames] for frames in report["parts_at"]["branches"]]


@pytest.mark.parametrize("mode, function, mark", [(1, "plain", "plain"), (5, "early", "early"), (32, "table", "table")])
def test_the_branch_is_found(victim, good, tmp_path, mode, function, mark):
    report = reports(good, record(victim, tmp_path / "bad", mode))["control"]
    assert branches(report) == [[(function, line_of(mark))]]
    assert report["parts_at"]["run"] == "bad"


def test_code_that_lies_elsewhere_is_the_functions_own(build, tmp_path):
    victim = build("parting_O2")
    symbols = subprocess.run(["nm", victim], capture_output=True, text=True, timeout=WAIT).stdout
    assert " guarded.cold" in symbols
    report = reports(*(record(victim, tmp_path / f"log{mode}", mode) for mode in (0, 7)))["control"]
    assert branches(report) == [[("guarded", line_of("guarded"))]]


def test_a_branch_in_an_inlined_function_is_that_functions(victim, good, tmp_path):
    report = reports(good, record(victim, tmp_path / "bad", 2))["control"]
    [[innermost, outer]] = branches(report)
    assert (innermost, outer[0]) == (("is_chosen", line_of("chosen")), "inlined")


def test_another_build_has_its_own_branch(victim, other, tmp_path):
    logs = record(victim, tmp_path / "good", 2), record(other, tmp_path / "bad", 2)
    report = reports("--by-name", *logs)["control"]
    assert [[name for name, _ in frames] for frames in branches(report)] == [["is_chosen", "inlined"]]


@pytest.mark.parametrize("mode, kind, callers, inlined", [(4, "params", "left", "scaled"),
                                                          (6, "result", "result", "weighed")])
def test_inlined_functions_of_what_makes_a_value_are_named(victim, good, tmp_path, mode, kind, callers, inlined):
    report = reports(good, record(victim, tmp_path / "bad", mode))["value"]
    assert (report["kind"], report["bad"]["function"]) == (kind, callers)
    assert [i["function"] for i in report["inlined"]] == [inlined]
    assert f"int {inlined}(" in SOURCE[report["inlined"][0]["line"] - 3]


def test_the_text_says_where(victim, good, tmp_path):
    bad = record(victim, tmp_path / "bad", 1)
    r = subprocess.run([WATCHCTL, "diff", str(good), str(bad)], capture_output=True, text=True, timeout=WAIT)
    at = r.stdout.index("the runs part at this branch of the bad run's code")
    assert f"parting.c:{line_of('plain')}" in r.stdout[at:].splitlines()[1]


def test_nothing_is_said_of_a_program_that_is_gone(victim, tmp_path):
    copy = tmp_path / "parting"
    shutil.copy(victim, copy)
    logs = [record(copy, tmp_path / f"log{mode}", mode) for mode in (0, 1)]
    copy.write_bytes(copy.read_bytes()[:4000])
    assert "parts_at" not in reports(*logs)["control"]
