# rooms: cli/top monitor/calls
"""`watchctl top --calls`: its counts against the victim's own account, its times against each other, and its screen."""
import json
import os
import re
import signal
import subprocess

import pytest

from as_found import code_of
from conftest import WAIT, WATCHCTL
from test_top import Terminal
from test_trace import counts, said_by


def calls_of(v, *options, runs=1, end=None):
    """What it prints of @runs runs of the victim, from before the first; @end: what ends it, if not Ctrl-C."""
    r, w = os.pipe()
    t = subprocess.Popen([WATCHCTL, "top", "-p", str(v.pid), "--calls", "--ready-fd", str(w), *map(str, options)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, pass_fds=[w], stdin=subprocess.DEVNULL)
    os.close(w)
    with os.fdopen(r) as ready:
        assert ready.read() == "\n", t.communicate(timeout=WAIT)
    for _ in range(runs):
        assert v.ask("go") == "ok"
    if end:
        end()
    else:
        t.send_signal(signal.SIGINT)
    out, err = t.communicate(timeout=WAIT)
    assert t.returncode == 0, err
    return out, err


def account(v):
    """What the victim says of itself when it ends."""
    v.process.stdin.close()
    said = said_by(v.process.stdout.read())
    v.process.wait(timeout=WAIT)
    return said


def table(out):
    objects = [json.loads(line) for line in out.splitlines()]
    assert [o["type"] for o in objects] == ["call_function"] * (len(objects) - 1) + ["call_summary"]
    return {o["name"]: o for o in objects[:-1]}, objects[-1]


def test_counts_are_the_victims_own(victim):
    v = victim("traced", 300, 3, "wait")
    before = code_of(v.pid)
    rows, summary = table(calls_of(v, "--json", "--max-rate", 0, runs=2)[0])
    assert code_of(v.pid) == before
    said = account(v)
    assert said["leaf"] and {n: rows[n]["calls"] for n in said} == said
    assert summary["pid"] == v.pid and summary["comm"] == "traced" and summary["end"] == "the recording was stopped"
    assert summary["recorded"] == summary["called"] == sum(r["calls"] for r in rows.values())
    assert summary["lost"] == summary["switched_off"] == summary["functions_off"] == 0
    for name, r in rows.items():
        assert r["module"].endswith("/traced") and "off" not in r
        assert r["open"] == 0 and r["timed"] == r["calls"], name
        assert r["self_ns"] <= r["mean_ns"] * r["timed"] + r["timed"] and r["p99_ns"] <= r["longest_ns"], name
        assert r["mean_ns"] <= r["longest_ns"] <= r["total_ns"], name
    order = [r["total_ns"] for r in rows.values()]
    assert order == sorted(order, reverse=True)


def test_recursion_counts_once_in_the_total(victim):
    """is_odd and is_even call each other: the totals of both are at most the time of the rounds that call them."""
    rows, _ = table(calls_of(victim("traced", 300, 1, "wait"), "--json", "--max-rate", 0)[0])
    assert rows["recurses"]["calls"] > rows["one_round"]["calls"]
    for name in "recurses", "is_odd", "is_even":
        assert rows[name]["total_ns"] <= rows["one_round"]["total_ns"], name


def test_what_is_too_hot_is_marked_with_what_was_not_recorded(victim):
    v = victim("traced", 2000, 2, "wait")
    out, err = calls_of(v, "--json", "--max-rate", 1000, "--sort", "calls")
    rows, summary = table(out)
    said = account(v)
    assert rows["leaf"]["off"] and rows["leaf"]["calls"] + rows["leaf"]["not_recorded"] == said["leaf"]
    assert "off" not in rows["works"]
    assert summary["functions_off"] == sum("off" in r for r in rows.values())
    assert summary["switched_off"] == sum(r.get("not_recorded", 0) for r in rows.values())
    assert counts(err) == (summary["called"], summary["recorded"], summary["lost"], summary["switched_off"])
    order = [r["calls"] for r in rows.values()]
    assert order == sorted(order, reverse=True)


def test_only_chosen_functions_are_shown(victim):
    rows, summary = table(calls_of(victim("traced", 100, 1, "wait"), "--json", "--function", "is_*", "--function", "leaf", "--not", "is_odd")[0])
    assert set(rows) == {"is_even", "leaf"} and summary["functions"] == 2


def test_without_a_terminal_one_table_is_printed_at_the_end(victim):
    v = victim("traced", 100, 1, "wait")
    out, err = calls_of(v, "--function", "leaf", "--function", "tail_to")
    said = account(v)
    assert "one table at the end" in err
    assert re.match(rf"traced/{v.pid} after [\d.]+ s: {said['leaf'] + said['tail_to']} calls of 2 functions, 2 traced\n *CALLS +RATE +TOTAL", out)
    assert {m[1]: int(m[0]) for m in re.findall(r"^ *(\d+) .* (\w+) +traced$", out, re.M)} == {"leaf": said["leaf"], "tail_to": said["tail_to"]}


def test_it_ends_with_the_program(victim):
    v = victim("traced", 100, 1, "wait")
    out, _ = calls_of(v, "--json", "--max-rate", 0, end=lambda: v.process.stdin.close())
    rows, summary = table(out)
    said = said_by(v.process.stdout.read())
    assert {n: rows[n]["calls"] for n in said} == said and summary["end"] == "the process has ended"


def test_it_ends_after_so_many_calls_or_so_much_time(victim):
    v = victim("traced", 100, 1, "wait")
    summary = table(calls_of(v, "--json", "-n", 50, end=lambda: None)[0])[1]
    assert summary["recorded"] == 50 and summary["end"] == "the requested number of calls was reached"
    summary = table(calls_of(v, "--json", "-t", 0.1, runs=0, end=lambda: None)[0])[1]
    assert summary["recorded"] == 0 and summary["end"] == "the time limit was reached"


# The screen


@pytest.fixture
def top():
    opened = []

    def start(*args, **kw):
        opened.append(Terminal(*args, **kw))
        return opened[-1]

    yield start
    for t in opened:
        t.close()


def test_the_screen_shows_counts_and_sorts_by_what_a_key_chooses(top, victim):
    v = victim("traced", 100, 1, "wait")
    before = code_of(v.pid)
    t = top("-p", v.pid, "--calls", "--function", "leaf", "--function", "tail_to", "--function", "is_*", "--max-rate", 0, "--delay", 0.1, columns=120)
    t.sees("RECORDING")
    t.sees("no call so far")
    assert v.ask("go") == "ok"
    t.sees("TOTALv")
    t.sees(r"^ *\d+ .* leaf +traced")
    t.press("SS").sees("CALLSv")
    t.press("S").sees("FUNCTIONv")
    t.sees(r"(?s)is_even .*is_odd .*leaf .*tail_to ")
    t.press("r").sees(r"(?s)FUNCTION\^.*tail_to .*leaf .*is_odd .*is_even ")
    shown = {n: int(c.replace(",", "")) for c, n in re.findall(r"^ *([\d,]+) .* (\w+) +traced", t.text(), re.M)}
    t.press("q")
    assert t.ended() == 0 and t.as_before()
    assert code_of(v.pid) == before
    said = account(v)
    assert shown == {n: said[n] for n in ("leaf", "tail_to", "is_even", "is_odd")}


def test_the_screen_stays_when_the_program_ends(top, victim):
    v = victim("traced", 100, 1, "wait")
    t = top("-p", v.pid, "--calls", "--function", "leaf", "--delay", 0.1, columns=100)
    t.sees("RECORDING")
    assert v.ask("go") == "ok"
    v.finish()
    t.sees("ENDED: the process has ended")
    t.press("q")
    assert t.ended() == 0 and t.as_before()


def test_a_narrow_screen_keeps_calls_total_and_function(top, victim):
    v = victim("traced", 100, 1, "wait")
    t = top("-p", v.pid, "--calls", "--function", "leaf", "--delay", 0.1, columns=40, rows=10)
    t.sees("CALLS +TOTALv +(SELF +)?FUNCTION")
    t.press("q")
    assert t.ended() == 0


# Options that do not go together


@pytest.mark.parametrize("words, said", [
    (["--calls"], "--calls needs a running process"),
    (["--calls", "--", "true"], "watchctl trace -q"),
    (["--calls", "/nowhere"], "watchctl report"),
    (["--calls", "-p", "1", "-v", "x"], "-v is about accesses"),
    (["--calls", "-p", "1", "-o", "log"], "-o is about accesses"),
    (["--calls", "-p", "1", "--syntax", "att"], "--syntax is about accesses"),
    (["--calls", "-p", "1", "--json", "--delay", "1"], "prints one table, at the end"),
    (["--calls", "-p", "1", "--sort", "size"], "calls"),
    (["-p", "1", "-v", "x", "--in", "libc.so.6"], "--in goes with --calls"),
    (["-p", "1", "-v", "x", "--sort", "rate"], "--sort goes with --calls"),
])
def test_a_clear_sentence_says_what_is_wrong(words, said):
    done = subprocess.run([WATCHCTL, "top", *words], capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and said in done.stderr and done.stdout == "", done.stderr
