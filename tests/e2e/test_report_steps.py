# rooms: view/print view/event step/model
"""watchctl report on step recordings: summary, tree, filters, JSON, mixed logs, damage. Logs by tests/bench/steplog_gen.c."""
import collections
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from waiting import WAIT  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
WATCHCTL = os.environ.get("WATCHCTL", str(BUILD / "bin" / "watchctl"))
GENERATOR = BUILD / "tests" / "bench" / "steplog-gen"


def run(*args):
    env = dict(os.environ, TZ="UTC", TERM="xterm")
    return subprocess.run([WATCHCTL, "report", *map(str, args)], capture_output=True, text=True, timeout=WAIT, env=env)


def objects(*args):
    r = run("--json", *args)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def of(kind, all_objects):
    return [o for o in all_objects if o["type"] == kind]


@pytest.fixture(scope="module")
def generate(tmp_path_factory):
    if not GENERATOR.exists():
        pytest.skip(f"{GENERATOR} is not built")
    folder = tmp_path_factory.mktemp("steps")

    def make(name, *args):
        path = folder / name
        if not path.exists():
            subprocess.run([str(GENERATOR), *map(str, args), str(path)], check=True, timeout=WAIT,
                           stdout=subprocess.DEVNULL)
        return path

    return make


@pytest.fixture(scope="module")
def steps(generate):
    return generate("log", "-n", 3000, "-t", 3)


@pytest.fixture(scope="module")
def events(steps):
    return objects(steps)


def test_every_call_ends_once_and_knows_its_parent(events):
    calls, returns = of("call", events), of("return", events)
    assert [c["call"] for c in calls] == list(range(1, len(calls) + 1)) and len(calls) >= 3000
    assert sorted(r["call"] for r in returns) == [c["call"] for c in calls]
    by_number = {c["call"]: c for c in calls}
    for c in calls:
        if "parent" in c:
            parent = by_number[c["parent"]]
            assert parent["tid"] == c["tid"] and c["depth"] == parent["depth"] + 1
        else:
            assert c["depth"] == 0 and c["first"]
    begun = {c["call"]: c["time_ns"] for c in calls}
    assert all(r["duration_ns"] == r["time_ns"] - begun[r["call"]] for r in returns)


def test_a_calls_stack_ends_with_its_parents(events):
    by_number = {c["call"]: c for c in of("call", events)}
    callbacks = 0
    for c in by_number.values():
        ips = [f["ip"] for f in c["stack"]]
        above = [f["ip"] for f in by_number[c["parent"]]["stack"]] if "parent" in c else []
        own = 2 if c.get("callback") else 1
        callbacks += own == 2
        assert len(ips) == len(above) + own and ips[own:] == above
    assert callbacks > 100


def test_values_have_their_types(events):
    compare = next(c for c in of("call", events) if c["function"] == "compare")
    assert [a["name"] for a in compare["args"]] == ["a", "b"]
    assert compare["args"][0]["type"] == "struct item *"
    assert compare["args"][0]["to"].startswith("{next = NULL, key = ")
    strlen = next(c for c in of("call", events) if c["function"] == "strlen")
    assert strlen["args"][0]["string"] == '"a text with\\n a line"'
    assert strlen["args"][0]["text"] == r'"\"a text with\\n a line\""'
    kind = next(c for c in of("call", events) if c["function"] == "parse_value")["args"][1]
    assert kind["text"] in ("NUMBER", "TEXT", "LIST") and kind["value"] == hex(("NUMBER", "TEXT", "LIST").index(kind["text"]))
    failed = next(r for r in of("return", events) if "errno" in r)
    assert (failed["function"], failed["errno"], failed["errno_number"]) == ("read", "ECONNRESET", 104)


def test_the_tables_count_what_the_events_are(events):
    calls = Counter(c["function"] for c in of("call", events))
    errors = Counter(r["function"] for r in of("return", events) if "errno" in r)
    totals = of("function_total", events)
    assert {t["function"]: t["calls"] for t in totals} == dict(calls)
    assert {t["function"]: t["errors"] for t in totals if t["errors"]} == dict(errors)
    assert [t["calls"] for t in totals] == sorted(calls.values(), reverse=True)
    summary = of("step_summary", events)[0]
    assert (summary["calls"], summary["ended"], summary["threads"]) == (sum(calls.values()), sum(calls.values()), 3)
    occurrence = of("occurrence", events)[0]
    assert (occurrence["ended"], occurrence["calls"]) == ("returned", summary["calls"])


def test_text_sums_up_and_prints_calls_when_asked(steps, events):
    r = run(steps)
    assert r.returncode == 0 and r.stderr == "" and "\033" not in r.stdout
    assert "calls recorded from serve" in r.stdout
    assert "ended after" in r.stdout and "the function in which it began has ended" in r.stdout
    assert "parse_value(" not in r.stdout and "CALLS  FUNCTION" in r.stdout
    tree = run("--calls", steps)
    # Each call begins on a line of its own.
    assert tree.stdout.count("parse_value(depth = ") == sum(c["function"] == "parse_value" for c in of("call", events))
    assert "CALLS  FUNCTION" in tree.stdout
    assert "CALLS  FUNCTION" not in run("--events", steps).stdout
    assert "parse_value(depth" not in run("--sites", "--function", "parse_value", steps).stdout


def test_a_function_is_shown_with_what_is_in_it(steps, events):
    by_number = {c["call"]: c for c in of("call", events)}

    def is_inside(c):
        while c and c["function"] != "parse_request":
            c = by_number.get(c.get("parent"))
        return c is not None

    wanted = [n for n, c in by_number.items() if is_inside(c)]
    narrowed = objects("--function", "parse_re*", steps)
    assert [c["call"] for c in of("call", narrowed)] == wanted
    assert sorted(r["call"] for r in of("return", narrowed)) == wanted
    assert of("step_summary", narrowed)[0]["calls"] == len(wanted)
    outer = objects("--function", "parse_request", "--depth", "1", steps)
    assert {c["function"] for c in of("call", outer)} == {"parse_request"}


def test_depth_thread_and_the_last_calls(steps, events):
    calls = of("call", events)
    assert [c["call"] for c in of("call", objects("--depth", 2, steps))] == [c["call"] for c in calls if c["depth"] < 2]
    tid = calls[1]["tid"]
    assert [c["call"] for c in of("call", objects("--thread", tid, steps))] == [c["call"] for c in calls if c["tid"] == tid]
    workers = of("call", objects("--thread", "worker", steps))
    assert {c["comm"] for c in workers} == {"worker"}
    last = objects("-n", 10, steps)
    assert [c["call"] for c in of("call", last)] == [c["call"] for c in calls[-10:]]
    assert {r["call"] for r in of("return", last)} == {c["call"] for c in calls[-10:]}


def test_unknown_functions_and_threads_are_an_error(steps):
    r = run("--function", "nosuch", steps)
    assert r.returncode == 5 and 'no function "nosuch" was called' in r.stderr
    r = run("--thread", "4711x", steps)
    assert r.returncode == 5 and 'no thread "4711x" made a call' in r.stderr
    r = run("--depth", "0", steps)
    assert r.returncode == 2 and "--depth" in r.stderr


def test_no_line_is_longer_than_a_terminal_needs(steps):
    if not shutil.which("script"):
        pytest.skip("script(1) is not installed")
    r = subprocess.run(["script", "-qec", f"stty cols 100; {WATCHCTL} report --color never --calls {steps}", "/dev/null"],
                       capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    lines = r.stdout.splitlines()
    # A result and an error may stick out of a deep line; parameters do not.
    assert max(len(line.split(") = ")[0]) for line in lines) <= 100
    assert "lookup(key = 0, first = 0x" in r.stdout


@pytest.mark.parametrize("change", ["value", "result", "error", "missing", "extra"])
def test_the_generator_changes_one_thing_and_says_which(generate, tmp_path, change):
    good = objects(generate("good", "-n", 2000, "-s", 1))
    r = subprocess.run([str(GENERATOR), "-n", "2000", "-s", "2", "-d", f"{change}@500", str(tmp_path / "bad")],
                       capture_output=True, text=True, timeout=WAIT, check=True)
    truth = json.loads(r.stdout)
    bad = objects(tmp_path / "bad")

    def shape(all_objects):
        return [(o["type"], o["function"], o.get("errno"), *[a["text"] for a in o.get("args", [o.get("ret", {"text": ""})])
                                                             if not a["text"].startswith("0x")])
                for o in all_objects if o["type"] in ("call", "return")]

    a, b = shape(good), shape(bad)
    first = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
    calls = [o for o in bad if o["type"] in ("call", "return")]
    if change in ("value", "extra"):
        assert calls[first]["call"] == truth["call"] and calls[first]["function"] == truth["function"]
    elif change == "missing":
        assert a[first][1] == truth["function"]
    else:
        assert calls[first]["call"] == truth["call"] and calls[first]["type"] == "return"
    if change in ("value", "result", "error"):
        assert sum(x != y for x, y in zip(a, b)) == 1 and len(a) == len(b)
    elif change == "extra":
        assert a == b[:first] + b[first + 2:]


def test_two_seeds_differ_in_nothing_but_addresses_and_times(generate):
    one, two = objects(generate("good", "-n", 2000, "-s", 1)), objects(generate("other", "-n", 2000, "-s", 7))
    pick = [[(o["function"], o.get("how")) for o in log_ if o["type"] in ("call", "return")] for log_ in (one, two)]
    assert pick[0] == pick[1]
    assert of("call", one)[0]["sp"] != of("call", two)[0]["sp"]


def test_a_cut_log_is_printed_as_far_as_it_is_whole(generate, tmp_path):
    whole = generate("good", "-n", 2000, "-s", 1)
    shutil.copytree(whole, tmp_path / "cut")
    with open(tmp_path / "cut" / "events", "r+b") as f:
        f.truncate(f.seek(0, os.SEEK_END) // 2)
    r = run("--json", tmp_path / "cut")
    assert r.returncode == 8 and "is not whole" in r.stderr
    calls = of("call", [json.loads(line) for line in r.stdout.splitlines()])
    assert 500 < len(calls) < 2000
    text = run(tmp_path / "cut")
    assert "the log does not contain its end" in text.stdout


def test_a_log_with_accesses_and_calls_has_both(tmp_path):
    """As a recorder that watches while it steps would write it; the older events keep their form."""
    store = 0x401002
    events = [log.process(1000, 77, "app", 1700000000 * 10**9), log.watch(1001, 0, "flag", 0x404010),
              log.code(1003, store, b"\x89\x07"), log.stack(1005, 0, [store, 0x401100]),
              log.access(2000, 0, 77, 0x404010, 1, 2, 0, store)]
    path = log.write_log(tmp_path / "log", [log.packet(events)])
    r = run(path)
    assert r.returncode == 0 and "write  flag" in r.stdout and "CALLS  FUNCTION" not in r.stdout
    assert run("--function", "f", path).returncode == 0


PROGRAM = r"""
#include <stdlib.h>
#include <fcntl.h>
enum kind { NUMBER, TEXT, LIST };
enum flags { READ = 1, WRITE = 2, EXEC = 8 };
struct node { struct node *next; int key; char tag[8]; unsigned low : 3, high : 5; };
struct node table[2] = { { &table[1], 7, "first", 5, 9 }, { 0, -1, "last", 1, 1 } };
__attribute__((noinline)) int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) long double mean(double a, float b, char c, _Bool d) { return (a + b + c + d) / 4; }
__attribute__((noinline)) struct node whole(struct node n, enum kind k, enum flags f) { n.key += k; return n; }
__attribute__((noinline)) __int128 wide(__int128 v) { return -v; }
__attribute__((noinline)) int work(struct node *n, const char *text)
{
	int v[] = { 2, 1 };
	qsort(v, 2, sizeof(int), compare);
	struct node copy = whole(*n, LIST, READ | EXEC);
	return open("/no/such/file", O_RDONLY) + copy.key + (int)mean(1, 2.5f, 'x', 1) + (int)wide(3) + text[0];
}
int main(void) { return work(table, "a\"b\n") == 0; }
"""


def test_a_real_recording_reads_as_its_source(tmp_path):
    recorder = Path(WATCHCTL).with_name("watchctl-step")
    if not recorder.exists():
        pytest.skip(f"{recorder} is not built")
    (tmp_path / "app.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "app", tmp_path / "app.c"], check=True, timeout=WAIT)
    r = subprocess.run([WATCHCTL, "step", "--from", "work", "-o", tmp_path / "log", "--", tmp_path / "app"],
                       capture_output=True, text=True, timeout=WAIT)
    if r.returncode == 7:
        pytest.skip(r.stderr.strip())
    assert r.returncode == 0, r.stderr
    all_objects = objects(tmp_path / "log")
    calls = {c["function"]: c for c in of("call", all_objects)}
    ends = {r["function"]: r for r in of("return", all_objects)}
    texts = {name: [a["text"] for a in c["args"]] for name, c in calls.items()}
    node = '{next = %s, key = 7, tag = "first", low = 5, high = 9}'
    first = calls["work"]["args"][0]
    there = hex(int(first["value"], 16) + 24)
    assert first["text"] == f"{first['value']} <table> -> " + node % f"{there} <table+0x18>"
    assert calls["work"]["args"][1]["string"] == 'a"b\n'
    assert texts["whole"] == [node % f"{there} <table+0x18>", "LIST", "READ|EXEC"]
    assert "key = 9" in ends["whole"]["ret"]["text"]
    assert texts["mean"] == ["1", "2.5", "'x' (120)", "true"] and ends["mean"]["ret"]["text"] == "31.125"
    assert texts["wide"] == ["3"] and ends["wide"]["ret"]["text"] == "-3"
    assert ends["open"]["errno"] == "ENOENT" and ends["open"]["ret"]["text"] == "-1"
    names = [f.get("function") for f in calls["compare"]["stack"]]
    assert names.index("work") < names.index("main") and names[0] != "work" and calls["compare"]["callback"]
    line = next(i for i, text in enumerate(PROGRAM.splitlines(), 1) if "qsort(v" in text)
    assert calls["compare"]["stack"][names.index("work")]["line"] == line


# Stacks of calls by count

def paths_of(events):
    """A line of --folded for each call, from the calls' own objects."""
    calls = {c["call"]: c for c in of("call", events)}

    def path(c):
        return (path(calls[c["parent"]]) if "parent" in c else []) + [c["function"]]

    return collections.Counter(";".join(path(c)) for c in calls.values())


def test_folded_and_tree_have_each_call_once(steps, events):
    want = paths_of(events)
    r = run("--folded", steps)
    got = {}
    for line in r.stdout.splitlines():
        stack, count = line.rsplit(" ", 1)
        assert stack.startswith("calls;")
        got[stack[len("calls;"):]] = int(count)
    assert r.returncode == 0 and got == want
    exported = subprocess.run([WATCHCTL, "export", steps, "--to", "folded"], capture_output=True, text=True, timeout=WAIT)
    assert sorted(exported.stdout.splitlines()) == sorted(f"{stack} {n}" for stack, n in want.items())
    tree = objects("--tree", steps)
    stacks = of("stack_count", tree)
    assert {s["of"] for s in stacks} == {"calls"} and not of("call", tree)
    assert collections.Counter({";".join(f["function"] for f in reversed(s["stack"])): s["count"] for s in stacks}) == want
    text = run("--tree", "--min", "0", steps).stdout
    assert f"calls: {sum(want.values())}, {len(want)} different stacks" in text and "captured" not in text
    inverted = run("--tree", "--inverted", steps)
    assert inverted.returncode == 0 and "INNERMOST FIRST" in inverted.stdout


def test_folded_counts_only_the_calls_that_are_chosen(steps, events):
    tid = of("call", events)[1]["tid"]
    r = run("--folded", "--thread", tid, steps)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in r.stdout.splitlines()) \
        == sum(c["tid"] == tid for c in of("call", events))
    r = run("--folded", "--depth", 1, steps)
    assert {line.split(";")[1].rsplit(" ", 1)[0] for line in r.stdout.splitlines()} \
        == {c["function"] for c in of("call", events) if c["depth"] == 0}
