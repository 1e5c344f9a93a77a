# rooms: trace/calls view/callpage view/event
"""Logs whose calls are in LOG/calls.N: each view against an account of the pattern of tests/bench/calllog_gen.c."""
import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict

import export_readers as read
import pytest
from conftest import BUILD, WAIT, WATCHCTL

GENERATOR = BUILD / "tests" / "bench" / "calllog-gen"
BEGIN, PID, EVENTS, THREADS, FUNCTIONS, DEPTH = 5_000_000_000, 4000, 30000, 3, 8, 20
DAMAGED = 8
NAMES = [f"app::fun{i}(int)" for i in range(FUNCTIONS)]
NAMES[1], NAMES[2] = "app::fun1", "fun2"  # of Rust, of C


def watchctl(*args, status=0):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == status, r.stderr
    return r.stdout


def objects(log, *args, status=0):
    return [json.loads(line) for line in watchctl("report", "--json", *args, log, status=status).splitlines()]


def of(kind, everything):
    return [o for o in everything if o["type"] == kind]


def pattern(thread, events, gap):
    """(time, what, function) as the program makes them; None where events begin to be missing."""
    x, depth, now, stack = thread + 1, 0, BEGIN, []
    for i in range(events):
        x = (x * 1103515245 + 12345) % 2**31
        now += 10 + (x >> 8) % 90
        c = (x >> 16) % 8
        what, function = "exit", 0
        if i and (not depth or (c < 4 and depth < DEPTH)):
            what, function = "entry", (x >> 20) % FUNCTIONS
            stack.append(function)
            depth += 1
        elif i:
            function = stack.pop()
            depth -= 1
            what = "unseen" if c == 7 else "exit"
        if gap and thread == 1 and events // 2 <= i < events // 2 + 5:
            if i == events // 2:
                yield None
            continue
        yield now, what, function


class Account:
    """Calls as a reader has to know them: (tid, begin) of each is its own."""

    def __init__(self, events=EVENTS, threads=THREADS, gap=False, untold=()):
        self.calls, self.before, self.behind_gap, self.left_out, self.last = [], 0, 0, 0, 0
        for thread in range(threads):
            self.open, self.in_gap, self.torn, self.untold = [], False, False, untold
            for e in pattern(thread, events, gap):
                self.event(PID + thread, e)
            self.end_all("never", self.last_of_thread)
            self.last = max(self.last, self.last_of_thread)

    def event(self, tid, e):
        if e is None:
            self.in_gap = self.torn = True
            return
        now, what, function = e
        self.last_of_thread = now
        if self.in_gap:
            self.end_all("unknown", now)
        self.in_gap = False
        if what == "entry":
            self.enter(tid, now, function)
        elif self.open:
            self.end("unknown" if what == "unseen" else "returned", now)
        elif self.torn:
            self.behind_gap += 1
        else:
            self.before += 1

    def enter(self, tid, now, function):
        parent = next((c for c in reversed(self.open) if c["function"] not in self.untold), None)
        c = {"tid": tid, "begin": now, "function": function, "inside": 0, "parent": parent,
             "depth": parent["depth"] + 1 if parent else 0}
        self.open.append(c)
        if function in self.untold:
            self.left_out += 1
        else:
            self.calls.append(c)

    def end(self, how, now):
        c = self.open.pop()
        c.update(how=how, end=now)
        if c["parent"] and c["function"] not in self.untold:
            c["parent"]["inside"] += now - c["begin"]

    def end_all(self, how, now):
        while self.open:
            self.end(how, now)


def stack_of(c):
    names = []
    while c := c["parent"]:
        names.append(NAMES[c["function"]])
    return names


def totals(calls):
    sums = defaultdict(lambda: {"calls": 0, "ended": Counter(), "timed": 0, "total_ns": 0, "self_ns": 0, "max_ns": 0})
    for c in calls:
        t = sums[NAMES[c["function"]]]
        t["calls"] += 1
        t["ended"][c["how"]] += 1
        if c["how"] == "returned":
            took = c["end"] - c["begin"]
            t["timed"] += 1
            t["total_ns"] += took
            t["self_ns"] += took - c["inside"]
            t["max_ns"] = max(t["max_ns"], took)
    return sums


def generate(path, *args):
    if not GENERATOR.exists():
        pytest.skip(f"{GENERATOR} is not built")
    subprocess.run([GENERATOR, *map(str, args), path], check=True, timeout=WAIT)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("calls") / "log", "-n", EVENTS, "-t", THREADS, "-g")


@pytest.fixture(scope="module")
def account():
    return Account(gap=True)


@pytest.fixture(scope="module")
def told(log):
    return objects(log)


def same_calls(told, calls):
    """Each call of @calls is told once, with its return, and no other one."""
    begun = {(o["tid"], o["time_ns"]): o for o in of("call", told)}
    ended = {o["call"]: o for o in of("return", told)}
    assert len(begun) == len(of("call", told)) == len(calls) and len(ended) == len(of("return", told)) == len(calls)
    for c in calls:
        o = begun[c["tid"], c["begin"]]
        r = ended[o["call"]]
        assert (o["function"], o["depth"]) == (NAMES[c["function"]], c["depth"])
        assert (o["file"], o["line"]) == ("app.cc", 10 * c["function"] + 10)
        assert [f["function"] for f in o["stack"]] == stack_of(c) and not any("ip" in f for f in o["stack"])
        parent = begun[c["tid"], c["parent"]["begin"]]["call"] if c["parent"] else None
        assert o.get("parent") == parent and o.get("first", False) == (parent is None)
        assert (r["how"], r["time_ns"], r["function"]) == (c["how"], c["end"], o["function"])
        assert r["duration_ns"] == c["end"] - c["begin"]
        assert r.get("derived", False) == (c["how"] == "unknown")


def test_json_has_each_call_of_every_thread(told, account):
    same_calls(told, account.calls)
    times = [o["time_ns"] for o in told if o["type"] in ("call", "return")]
    assert times == sorted(times)
    assert [o["call"] for o in of("call", told)] == list(range(1, len(account.calls) + 1))


def test_what_is_missing_is_said(told, account):
    assert account.before == THREADS and account.behind_gap
    assert [o["count"] for o in of("lost", told)] == [5]
    notes = " ".join(o["text"] for o in of("note", told))
    assert f"{account.before} exits of functions are left out: their calls began before" in notes
    assert f"{account.behind_gap} exits of functions are left out: their calls are in what is missing" in notes


def test_totals_are_those_of_the_account(told, account):
    rows = {o["function"]: o for o in of("function_total", told)}
    expected = totals(account.calls)
    assert set(rows) == set(expected) == set(NAMES)
    for name, t in expected.items():
        assert {k: rows[name][k] for k in t} == {**t, "ended": dict(t["ended"])}
    summary = of("step_summary", told)[0]
    assert (summary["calls"], summary["functions"], summary["threads"]) == (len(account.calls), FUNCTIONS, THREADS)


@pytest.mark.parametrize("args", [[], ["--calls"]])
def test_text_has_a_table_of_functions(log, account, args):
    text = watchctl("report", *args, log)
    for name, t in totals(account.calls).items():
        row = re.search(rf"^ *{t['calls']}  {re.escape(name)} +(.*) app\.cc:{10 * NAMES.index(name) + 10}$", text, re.M)
        assert row and f"unknown {t['ended']['unknown']}" in row[1]
    for column in ("CALLS", "FUNCTION", "TOTAL", "SELF", "MEAN", "P99", "LONGEST", "SOURCE"):
        assert column in text
    assert ("worker0/4000:\n" in text) == bool(args)


def test_a_thread_a_function_a_depth_and_a_time_can_be_chosen(log, account):
    mine = [c for c in account.calls if c["tid"] == PID + 2]
    same_calls(objects(log, "--thread", "worker2"), mine)
    assert len(of("call", objects(log, "--depth", 2))) == sum(c["depth"] < 2 for c in account.calls)

    def inside(c):
        return c is not None and (NAMES[c["function"]] == "fun2" or inside(c["parent"]))

    assert len(of("call", objects(log, "--function", "fun2"))) == sum(map(inside, account.calls))
    first = min(o["begin"] for o in account.calls)
    middle = (first + account.last) // 2
    late = objects(log, "--last", f"{(account.last - middle) / 1e9:.9f}s")
    assert len(of("call", late)) == sum(c["begin"] >= middle for c in account.calls)


def test_chrome_and_speedscope_nest_as_the_calls_did(log, account):
    events, named = read.trace_events(watchctl("export", "--to", "chrome", log))
    begun = {(e["tid"], round(e["ts"] * 1000)): e for e in events if e["ph"] == "B"}
    assert sum(e["ph"] == "B" for e in events) == sum(e["ph"] == "E" for e in events) == len(account.calls)
    assert all(begun[c["tid"], c["begin"]]["name"] == NAMES[c["function"]] for c in account.calls)
    assert len(named["thread_name"]) == THREADS
    profiles = json.loads(watchctl("export", "--to", "speedscope", log))["profiles"]
    assert len(profiles) == THREADS
    assert sum(e["type"] == "O" for p in profiles for e in p["events"]) == len(account.calls)


@pytest.mark.parametrize("args", [["export", "--to", "folded"], ["report", "--folded"]])
def test_folded_has_the_chains_of_open_functions(log, account, args):
    expected = Counter(";".join([*reversed(stack_of(c)), NAMES[c["function"]]]) for c in account.calls)
    lines = (line.removeprefix("calls;").rpartition(" ") for line in watchctl(*args, log).splitlines())
    assert {stack: int(n) for stack, _, n in lines} == expected


def test_the_page_has_the_calls(log, account, tmp_path):
    page = tmp_path / "page.html"
    watchctl("report", "--html", page, log)
    text = page.read_text()
    assert re.search(rf'"all_calls":{len(account.calls)}\b', text)
    for name, t in totals(account.calls).items():
        assert re.search(rf'"full":"{re.escape(name)}"[^}}]*"calls":{t["calls"]}\b', text) or name == "fun2"


@pytest.mark.parametrize("args", [[], ["--no-values"]])
def test_a_snapshot_has_them_too(log, account, tmp_path, args):
    copy = tmp_path / "copy"
    said = json.loads(watchctl("snapshot", "--json", *args, log, "-o", copy))
    assert said["calls"] == len(account.calls)
    same_calls(objects(copy), account.calls)
    assert any(copy.glob("calls.*")) == (not args)


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="no babeltrace2")
def test_babeltrace2_counts_the_same(log):
    r = subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT, check=True)
    counted = Counter(re.search(r" (\w+): \{ pid", line)[1] for line in r.stdout.splitlines() if ": { pid" in line)
    expected = Counter(e[1] for t in range(THREADS) for e in pattern(t, EVENTS, True) if e)
    assert counted == {"entry": expected["entry"], "exit": expected["exit"], "exit_unseen": expected["unseen"]}


def test_calls_of_a_function_that_the_log_does_not_tell_are_left_out(tmp_path):
    log = generate(tmp_path / "log", "-n", 3000, "-u")
    account = Account(3000, untold=(3,))
    told = objects(log, status=DAMAGED)
    same_calls(told, account.calls)
    assert any(f"{account.left_out} calls are left out" in o["text"] for o in of("note", told))
    assert [o["events"] for o in of("missing", told)] == [account.left_out]


def test_a_damaged_packet_and_a_torn_end_are_said_and_the_rest_is_read(tmp_path):
    log = generate(tmp_path / "log", "-n", 30000, "-t", 2)
    whole = len(of("call", objects(log)))
    torn, bad = log / "calls.0000000000", log / "calls.0000000001"
    torn.write_bytes(torn.read_bytes()[:-1001])
    content = bytearray(bad.read_bytes())
    content[70000] ^= 1  # in the second packet
    bad.write_bytes(content)
    told = objects(log, status=DAMAGED)
    calls, returns = of("call", told), of("return", told)
    assert whole / 2 < len(calls) < whole and {o["call"] for o in calls} == {o["call"] for o in returns}
    notes = [o["text"] for o in of("note", told)]
    assert any("calls of thread 4001 are missing here" in n for n in notes)
    assert any("bytes at the ends of their files" in n for n in notes)
    read.trace_events(watchctl("export", "--to", "chrome", log, status=DAMAGED))
