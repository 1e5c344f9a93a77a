# rooms: tools/nightly
"""tools/nightly: parts take turns, remember what they found, and go on where the last call ended."""
import datetime
import json

import pytest

from conftest import load_tool


@pytest.fixture
def nightly():
    return load_tool("nightly")


@pytest.fixture
def parts(nightly):
    return [nightly.Part("quiet", "echo seed {seed} slice {slice}", 0, slices=3),
            nightly.Part("finds", "sh -c 'echo it broke; exit 7'", 0),
            nightly.Part("endless", "sh -c 'sleep 1000 & sleep 1000'", 0)]


def test_a_finding_is_kept_and_is_the_exit_status(nightly, parts, tmp_path):
    assert nightly.run(nightly.State(tmp_path), parts[1:2], 0.2) == 1
    first = json.loads((tmp_path / "runs.jsonl").read_text().splitlines()[0])
    assert (first["part"], first["result"], first["seed"]) == ("finds", "found", 1) and first["commit"]
    assert (tmp_path / first["kept"] / "output").read_text() == "it broke\n"


def test_a_test_that_was_flaky_is_no_finding_and_is_not_forgotten(nightly, tmp_path, capsys):
    flaky = nightly.Part("flaky", "sh -c 'echo \"flaky: test_x.py::test_x (first failure: no time)\"; echo all passed'", 0)
    assert nightly.run(nightly.State(tmp_path), [flaky], 0.2) == 0
    assert (tmp_path / "findings" / "flaky-1" / "output").read_text().startswith("flaky: ")
    capsys.readouterr()
    nightly.report(nightly.State(tmp_path), [flaky])
    said = capsys.readouterr().out
    assert "nothing found" in said and "flaky, run 1, findings/flaky-1: flaky: test_x.py::test_x (first failure: no time)" in said


def test_nothing_found_is_exit_status_0(nightly, parts, tmp_path):
    assert nightly.run(nightly.State(tmp_path), parts[:1], 0.2) == 0


def test_the_next_call_goes_on_with_the_next_seed_and_slice(nightly, parts, tmp_path):
    seen = []
    for _ in range(4):
        assert nightly.run_part(nightly.State(tmp_path), parts[0], 60) is False
        seen.append(nightly.State(tmp_path).runs[-1]["said"])
    assert seen == ["seed 1 slice 0", "seed 2 slice 1", "seed 3 slice 2", "seed 4 slice 0"]


def test_what_was_cut_short_comes_again_with_the_same_seed_and_what_it_started_has_ended(nightly, parts, tmp_path):
    state = nightly.State(tmp_path)
    (tmp_path / "part").write_text(f"timeout 1000 sleep 1001 & echo $$ > {tmp_path}/session; sleep 1002\n")  # timeout has a group of its own
    parts[2].command = f"sh {tmp_path}/part"
    assert nightly.run_part(state, parts[2], 0.3) is False
    assert not nightly.members(int((tmp_path / "session").read_text()))
    assert (state.runs[-1]["result"], state.turn(parts[2])) == ("cut short", 0)


def test_who_has_waited_longest_is_next(nightly, parts, tmp_path):
    state = nightly.State(tmp_path)
    for at, name in enumerate(("finds", "quiet", "endless")):
        state.add({"part": name, "at": at + 1, "seconds": 0, "result": "nothing found"})
    assert [state.next_of(parts, 60, set(done)).name for done in ((), ("finds",), ("finds", "quiet"))] == ["finds", "quiet", "endless"]
    assert state.next_of(parts, 60, {p.name for p in parts}) is None


def test_a_part_that_does_not_fit_waits_and_others_go_on(nightly, tmp_path):
    long, short = nightly.Part("long", "true", 500), nightly.Part("short", "true", 1)
    assert nightly.State(tmp_path).next_of([long, short], 60, set()).name == "short"


def test_the_table_is_written_where_a_document_has_room_for_it(nightly, parts, tmp_path):
    state = nightly.State(tmp_path)
    nightly.run_part(state, parts[1], 60)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{nightly.BEGIN}\nold\n{nightly.END}\nafter\n")
    nightly.write(state, parts, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith(f"{nightly.END}\nafter\n") and "old" not in text
    assert "| finds | found | 1, 1 |" in text and "| quiet | never run |" in text
    # On the next machine, whose folder is empty, what was known stays.
    nightly.write(nightly.State(tmp_path / "new"), parts, page)
    assert page.read_text() == text
    page.write_text("no room")
    with pytest.raises(SystemExit, match="no place for the table"):
        nightly.write(state, parts, page)
    assert page.read_text() == "no room"


def test_parts_that_have_not_run_for_two_weeks_are_named(nightly, parts):
    now = datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)
    rows = ["| part | last run | runs, with findings | when (UTC), commit | s |", "|---|---|---|---|---|",
            "| quiet | nothing found | 1, 0 | 2026-11-20 10:00 abc | 3 |",
            "| finds | found | 1, 1 | 2026-11-01 10:00 abc | 3 |", "| endless | never run |  |  |  |"]
    page = "\n".join(["before", nightly.BEGIN, "", *rows, "", nightly.END])
    assert nightly.ages(parts, page, now) == ["nightly: 1 of 3 parts have run within 14 days",
                                              "nightly: not for 14 days: finds (28 days ago)",
                                              "nightly: no run is on record: endless"]
    assert nightly.ages(parts[:1], page, now) == ["nightly: 1 of 1 parts have run within 14 days"]
