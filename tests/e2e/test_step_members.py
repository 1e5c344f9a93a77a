# rooms: step/model code/dwarf
"""Changes of variables whose types are known are those of their members, with their types; else those of words."""
import json
import os
import re
import subprocess

import pytest
from conftest import WAIT, WATCHCTL


def record(victim, log, fault="", options=()):
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", str(log), "--from", "watched", *options, "--", str(victim)],
                       env=dict(os.environ, FAULT=fault), capture_output=True, text=True, timeout=WAIT)
    if "no LLDB" in r.stderr:
        pytest.skip("this machine has no LLDB")
    assert r.returncode == 0, r.stderr
    return log, account(r.stdout)


def account(text):
    """The victim's own account: function -> {path: value}"""
    said = {}
    for function, path, value in (line.split(maxsplit=2) for line in text.splitlines()):
        said.setdefault(function, {})[path] = value
    return said


def objects(*args):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode in (0, 1), r.stderr
    return r.returncode, [json.loads(line) for line in r.stdout.splitlines()]


def changes_of(log):
    """
    Function -> {label: value}, of functions that change anything. The compiler's numbers of static variables are left
    out, and what pointers point to.
    """
    events = [o for o in objects("report", "--json", "--events", log)[1] if o["type"] == "return"]
    return {e["function"]: {re.sub(r"\.\d+(?=\.|$)", "", c["name"]): c["value"].split("  ")[0].split(" <")[0] for c in e["changes"]}
            for e in events if e.get("changes")}


@pytest.fixture(scope="module")
def good(build, tmp_path_factory):
    return record(build("members"), tmp_path_factory.mktemp("members") / "good")


def test_all_members_that_the_program_says_it_changes_are_there_and_no_others(good):
    """Of set_padding there are none."""
    log, said = good
    assert set(said) > {"set_table", "set_bits", "set_end", "set_theirs"}, said
    changes = changes_of(log)
    assert len(changes.pop("set_many")) > 30, "which are the first ones of 500"
    assert changes == {function: of for function, of in said.items() if function != "set_many"}


def test_the_log_alone_tells_them(build, tmp_path):
    """The program may be gone when its log is read, and with it its types."""
    program = tmp_path / "members"
    program.write_bytes(open(build("members"), "rb").read())
    program.chmod(0o755)
    log, said = record(program, tmp_path / "log")
    program.unlink()
    assert changes_of(log)["set_state"] == said["set_state"]


def test_without_debug_information_words_are_told(build, tmp_path):
    log, said = record(build("members_plain"), tmp_path / "plain")
    changes = changes_of(log)
    assert changes["set_holder"] == {"holder": "{8, 21}", "holder+8": said["set_holder"]["holder.nameless"]}
    assert changes["set_line"] == said["set_line"]
    assert list(changes["set_padding"]) == ["table"], "where nothing is known of a type, nothing is known of padding"


def test_equal_runs_do_not_differ(build, good, tmp_path):
    status, told = objects("diff", "--json", good[0], record(build("members"), tmp_path / "again")[0])
    assert status == 0, told


@pytest.mark.parametrize("path, function", [("table[2].count", "set_table"), ("state.mode", "set_state"),
                                            ("second.name", "set_end"), ("many[499]", "set_many")])
def test_a_difference_is_said_by_member_with_both_values(build, good, tmp_path, path, function):
    log, said = record(build("members"), tmp_path / "bad", path)
    status, told = objects("diff", "--json", good[0], log)
    assert status == 1
    first = next(o for o in told if o["type"] == "difference")
    assert first["bad"]["function"] == function
    assert f"{function} leaves something else in {path}" in first["text"]
    for side, of in ("good", good[1]), ("bad", said):
        differs = {c["name"]: c["value"] for c in first[side]["changes"] if c.get("differs")}
        assert differs == {path: of[function][path]}
    assert objects("diff", "--json", good[0], log, "--ignore", f"{function}:changes")[0] == 0
