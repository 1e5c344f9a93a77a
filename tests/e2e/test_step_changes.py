# rooms: step/model view/diff
"""Changes that a call makes in memory are recorded when it ends, and a difference is that call's, not its readers'."""
import json
import os
import subprocess

import pytest
from conftest import WAIT, WATCHCTL


@pytest.fixture(scope="module")
def victim(build):
    return build("changes")


def record(victim, log, fault="", options=()):
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", str(log), "--from", "watched", *options, "--", str(victim)],
                       env=dict(os.environ, FAULT=fault), capture_output=True, text=True, timeout=WAIT)
    if "no LLDB" in r.stderr:
        pytest.skip("this machine has no LLDB")
    assert r.returncode == 0, r.stderr
    return log


def lines(*args):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode in (0, 1), r.stderr
    return r.returncode, [json.loads(line) for line in r.stdout.splitlines()]


@pytest.fixture(scope="module")
def good(victim, tmp_path_factory):
    return record(victim, tmp_path_factory.mktemp("changes") / "good")


def changes_of(log):
    """Function -> {label: value}"""
    events = [o for o in lines("report", "--json", "--events", log)[1] if o["type"] == "return"]
    return {e["function"]: {c["name"]: c["value"] for c in e.get("changes", [])} for e in events}


def test_changes_are_those_of_the_call_that_makes_them(good):
    changes = changes_of(good)
    assert changes["fill_table"] == {f"table[{i}]": str(2 * i) for i in range(1, 6)}
    added = changes["add_up"]
    assert added["total"] == "40"
    assert [v for k, v in added.items() if k.startswith("calls")] == ["1"]
    assert changes["outer"] == {}
    assert changes["set_pair"] == {"*p": '{first = 0, second = 7, name = "good"}'}
    assert changes["in_and_out"] == {"*n": "6"}
    assert changes["append"] == {"*text": '"abce"'}
    assert changes["give_back"] == changes["give_back_empty"] == changes["close_file"] == {}
    assert list(changes["remember"]) == ["somewhere"]


def test_the_text_of_a_return_has_them(good):
    r = subprocess.run([WATCHCTL, "report", "--events", str(good)], capture_output=True, text=True, timeout=WAIT)
    line = next(line for line in r.stdout.splitlines() if "in_and_out(" in line)
    assert "; *n = 6 [" in line


def test_good_runs_do_not_differ_though_memory_lies_elsewhere_and_files_are_new(victim, good, tmp_path):
    status, objects = lines("diff", "--json", good, record(victim, tmp_path / "again"))
    assert status == 0, objects


@pytest.mark.parametrize("fault, function, what", [
    ("table", "fill_table", "table[3]"), ("total", "add_up", "total"), ("static", "add_up", "calls"),
    ("ratio", "add_up", "ratio"), ("member", "set_pair", "*p"), ("name", "set_pair", "*p"),
    ("number", "in_and_out", "*n"), ("text", "append", "*text")])
def test_who_writes_something_else_is_the_first_difference(victim, good, tmp_path, fault, function, what):
    status, objects = lines("diff", "--json", good, record(victim, tmp_path / "bad", fault))
    assert status == 1
    first = next(o for o in objects if o["type"] == "difference")
    assert (first["bad"]["function"], first["kind"]) == (function, "result"), first
    assert [c["name"].split(".")[0] for c in first["bad"]["changes"] if c.get("differs")] == [what]
    assert f"{function} leaves something else in {what}" in first["text"]


def test_a_mask_leaves_changes_out(victim, good, tmp_path):
    bad = record(victim, tmp_path / "bad", "total")
    assert lines("diff", "--json", good, bad, "--ignore", "add_up:changes")[0] == 0
    # A second good run that is like the bad one shows that it is noise.
    masks = tmp_path / "masks"
    assert lines("diff", "--json", good, bad, bad, "--save-masks", masks)[0] == 0
    assert "add_up:changes" in masks.read_text()


def test_a_log_without_variables_is_compared_by_what_both_have(victim, good, tmp_path):
    less = record(victim, tmp_path / "less", options=["--globals", "0"])
    assert changes_of(less)["fill_table"] == {}
    assert changes_of(less)["in_and_out"] == {"*n": "6"}
    status, objects = lines("diff", "--json", good, less)
    assert status == 0, objects
    bad = record(victim, tmp_path / "bad", "number", ["--globals", "0"])
    assert lines("diff", "--json", good, bad)[0] == 1


def notes_of(log):
    return [o["text"] for o in lines("report", "--json", "--events", log)[1] if o["type"] == "note"]


def test_what_there_is_no_room_for_is_said(victim, tmp_path):
    log = record(victim, tmp_path / "small", options=["--globals", "16"])
    assert any("variables" in n and "--globals" in n for n in notes_of(log)), notes_of(log)
    assert changes_of(log)["fill_table"] == {}


def test_with_a_second_thread_nobody_is_said_to_have_written(victim, tmp_path):
    log = record(victim, tmp_path / "threads", "thread")
    assert any("more than one thread" in n for n in notes_of(log)), notes_of(log)
    assert changes_of(log)["fill_table"] == {}
    assert changes_of(log)["in_and_out"] == {"*n": "6"}


def test_a_process_that_is_spawned_is_no_thread(victim, tmp_path):
    log = record(victim, tmp_path / "spawn", "spawn")
    assert not any("more than one thread" in n for n in notes_of(log)), notes_of(log)
    assert changes_of(log)["fill_table"]["table[3]"] == "6"


def test_who_keeps_values_back_keeps_changes_back(victim, tmp_path):
    log = record(victim, tmp_path / "redacted", options=["--redact", "fill_table", "--redact", "in_and_out"])
    assert changes_of(log)["fill_table"] == {}
    assert changes_of(log)["in_and_out"] == {}
    assert changes_of(log)["append"] == {"*text": '"abce"'}
