# rooms: tools/near tools/check-lines tools/lint-since tests/e2e/durations.py
"""The loop of the day: `make near` takes what a change is near to; only what a change adds is looked at."""
import os
import subprocess
import types

import durations
import pytest
from conftest import ROOT, load_tool


@pytest.fixture(scope="module")
def near():
    return load_tool("near")


@pytest.fixture(scope="module")
def includes():
    return load_tool("layers").check_includes(str(ROOT))[1]


def test_a_change_is_near_to_its_room_and_to_those_that_include_it(near, includes):
    files = ["watchctl/flow/blame/blame.c"]
    own, around = near.folders_near(files, includes)
    assert own == {"watchctl/flow/blame"} and "watchctl/cli/flow" in around and "watchctl/flow/kernel" not in around
    units = near.unit_programs(files, around)
    assert "flow/test_blame" in units and "cli/test_options" in units and not any(u.startswith("trace/") for u in units)
    tests = near.e2e_files(files)
    assert "tests/e2e/test_flow_explain_log.py" in tests and "tests/e2e/test_flow_explain.py" not in tests


def test_a_change_of_a_test_or_of_its_program_is_near_to_that_test(near):
    assert near.e2e_files(["tests/e2e/test_ranges.py"]) == ["tests/e2e/test_ranges.py"]
    assert "tests/e2e/test_flow_explain.py" in near.e2e_files(["tests/victims/hangs.c"])
    assert near.unit_programs(["tests/unit/trace/test_calls.c"], set()) == ["trace/test_calls"]


def test_every_file_of_tests_names_rooms_that_exist(near):
    for path in near.E2E.glob("test_*.py"):
        rooms = near.head_rooms(path)
        assert rooms, f"{path.name} has no line '# rooms: ...'"
        missing = [r for r in rooms if not (ROOT / r).exists() and not (ROOT / "watchctl" / r).exists()]
        assert not missing, f"{path.name}: {missing}"


def test_the_longest_tests_are_left_out_until_the_rest_fits(near, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(near, "load", lambda name, path: durations)
    monkeypatch.setattr(durations, "FILE", tmp_path / "durations.txt")
    names = [f"test_ranges.py::test_{i}" for i in range(5)]
    durations.write([f"{i + 1}.0\t{name}" for i, name in enumerate(names)], durations.FILE)
    assert near.shorter_than(["tests/e2e/test_ranges.py"], 3.0) == (4.0, names[3:])
    assert near.shorter_than(["tests/e2e/test_ranges.py"], 8.0) == (float("inf"), [])


def test_of_a_claim_with_parameters_the_shortest_that_fit_are_in_the_gate(monkeypatch):
    monkeypatch.setattr(durations, "SHARE", 2.0)
    names = [f"test_x.py::test_it[{i}]" for i in "abcd"]
    expected = dict(zip(names, (1.0, 0.5, 3.0)))  # of the last one nothing is known
    assert durations.beyond_share(names, expected) == [names[2]]
    assert durations.beyond_share(names[:3], dict.fromkeys(names, 1.5)) == names[1:3]
    assert durations.beyond_share(names[2:3], expected) == []


class Item:
    """As much of pytest's as durations.mark_slow() asks."""

    def __init__(self, claim, parameter, *slow_when):
        self.nodeid, self.callspec = f"{claim}[{parameter}]", types.SimpleNamespace(id=parameter)
        self.slow_when, self.slow = slow_when, False

    def iter_markers(self, name):
        return [types.SimpleNamespace(args=self.slow_when)] if self.slow_when and name == "slow_when" else []

    def get_closest_marker(self, name):
        return self.slow

    def add_marker(self, mark):
        self.slow = self.slow or mark.name == "slow"


def test_a_claim_stays_in_the_gate_beside_parameters_that_are_slow_by_hand(monkeypatch):
    monkeypatch.delenv("E2E_SHARE", raising=False)
    items = [Item("test_x.py::test_it", p, "slow") for p in ("long", "longer", "slow")]
    durations.mark_slow(items, {items[0].nodeid: 3.0, items[1].nodeid: 4.0})
    assert [i.slow for i in items] == [False, True, True]


def git(folder, *words, when=None):
    date = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when} if when else {}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    said = subprocess.run(["git", *who, *words], cwd=folder, env=os.environ | date, stdout=subprocess.PIPE, text=True,
                          check=True)
    return said.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "old.c").write_text("/* What was there before is not looked at. */\n" + "x" * 130 + "\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first", when="2026-01-01T00:00:00Z")
    return tmp_path


def lines(folder):
    return subprocess.run([ROOT / "tools" / "check-lines", "HEAD"], cwd=folder, capture_output=True, text=True)


def test_lines_that_were_there_are_not_looked_at(repository):
    r = lines(repository)
    assert r.returncode == 0 and r.stdout.startswith("lines: 0 findings"), r.stdout


@pytest.mark.parametrize("file, line, says", [
    ("old.c", "/* Who asks gets an answer. */", "a comment begins with a verb"),
    ("old.c", "\tint n; /* What there is */", "a comment begins with a verb"),
    ("new.py", '"""Nobody is left."""', "a comment begins with a verb"),
    ("new.mk", "# Whoever makes this", "a comment begins with a verb"),
    ("new.h", "y" * 121, "121 columns"),
    ("new.c", "\t" * 15 + "z", "121 columns"),
    ("new.md", "w" * 121, "121 columns"),
])
def test_a_line_that_is_added_is_named_by_file_and_line(repository, file, line, says):
    with open(repository / file, "a") as f:
        f.write(f"{line}\n")
    r = lines(repository)
    number = 3 if file == "old.c" else 1
    assert r.returncode == 1 and r.stdout.startswith(f"{file}:{number}: ") and says in r.stdout, r.stdout


@pytest.mark.parametrize("file, text", [
    ("new.c", "/* Whole lines, and whatever else. */\n"),
    ("new.md", "# What it is for\n| " + "x" * 140 + " |\n```\n" + "x" * 140 + "\n```\n"),
    ("kept.json", "x" * 140 + "\n"),
    ("kept/output.c", "x" * 140 + "\n"),
])
def test_tables_outputs_and_data_may_be_wide(repository, file, text):
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text(text)
    r = lines(repository)
    assert r.returncode == 0, r.stdout


def since(folder, **environment):
    clean = {k: v for k, v in os.environ.items() if k != "LINT_SINCE"}
    return subprocess.run([ROOT / "tools" / "lint-since"], cwd=folder, env=clean | environment, capture_output=True,
                          text=True)


def test_a_change_begins_behind_the_newest_commit_that_is_three_hours_older(repository):
    first = git(repository, "rev-parse", "HEAD")
    assert since(repository).stdout.strip() == first
    git(repository, "commit", "-q", "--allow-empty", "-m", "landed", when="2026-01-01T09:00:00Z")
    landed = git(repository, "rev-parse", "HEAD")
    for hour in ("11:30", "13:00", "15:00"):
        git(repository, "commit", "-q", "--allow-empty", "-m", hour, when=f"2026-01-01T{hour}:00Z")
    assert since(repository).stdout.strip() == git(repository, "rev-parse", "HEAD~2")
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    assert since(repository).stdout.strip() == landed
    assert since(repository, LINT_SINCE=first).stdout.strip() == first
    wrong = since(repository, LINT_SINCE="nothing")
    assert wrong.returncode == 2 and "LINT_SINCE is no commit" in wrong.stderr
