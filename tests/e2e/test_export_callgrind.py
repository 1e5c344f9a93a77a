# rooms: view/export
"""
`watchctl export --to callgrind`: callgrind_annotate reads it, and a reader of the format; both find the times that
follow from the calls and returns of `watchctl report --json`, counted interval by interval.
"""
import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict

import export_readers as read
import pytest
from conftest import BUILD, WAIT, WATCHCTL

ROOT = ("???", "[threads]", "???")


def watchctl(*args):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return r.stdout


@pytest.fixture(scope="module", params=["steps", "calls", "gap"])
def log(request, tmp_path_factory):
    """Of LLDB's recorder, of `watchctl trace`, and one of those that misses events: with recursion, all of them."""
    path = tmp_path_factory.mktemp("log") / "log"
    args = {"steps": ["steplog-gen", "-n", "3000", "-t", "3"], "calls": ["calllog-gen", "-n", "5000", "-t", "2"],
            "gap": ["calllog-gen", "-n", "5000", "-t", "3", "-g"]}[request.param]
    subprocess.run([BUILD / "tests" / "bench" / args[0], *args[1:], path], check=True, timeout=WAIT)
    return path


class Account:
    """Own times, times in which a function is open, and pairs: of each interval between two events of a thread."""

    def __init__(self, log, *args):
        self.own, self.open, self.made, self.pairs = Counter(), Counter(), Counter(), Counter()
        self.deepest = 0
        stacks, last = defaultdict(list), {}
        for o in map(json.loads, watchctl("report", "--json", *args, log).splitlines()):
            if o["type"] not in ("call", "return"):
                continue
            stack, now = stacks[o["tid"]], max(o["time_ns"], last.get(o["tid"], 0))
            self.pass_time([f for f, _ in stack], now - last.get(o["tid"], now))
            last[o["tid"]] = now
            if o["type"] == "call":
                del stack[o["depth"]:]
                stack.append(((o.get("file", "???"), o["function"], o["module"]), o["call"]))
                self.made[(stack[-2][0] if stack[1:] else ROOT), stack[-1][0]] += 1
            elif o["call"] in [call for _, call in stack]:
                del stack[[call for _, call in stack].index(o["call"]):]

    def pass_time(self, stack, took):
        if not stack:
            return
        self.own[stack[-1]] += took
        self.deepest = max(self.deepest, *Counter(stack).values())
        path = [ROOT, *stack]
        self.open[ROOT] += took
        for f in set(stack):
            self.open[f] += took
            self.pairs[path[path.index(f) - 1], f] += took


def annotated(path, *args):
    """What callgrind_annotate prints: sums, by (file, function, object) and by pair: [calls, time]."""
    if not shutil.which("callgrind_annotate"):
        pytest.skip("callgrind_annotate is not installed (valgrind)")
    r = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", "--auto=no", *args, path],
                       capture_output=True, text=True, timeout=WAIT)
    assert (r.returncode, r.stderr) == (0, "")
    functions, pairs, here = {}, {}, None
    for line in r.stdout.split("file:function")[1].splitlines():
        m = re.fullmatch(r" *([\d,]+|\.) +(?:([*<>]) +)?(\S+?):(.+?)(?: \(([\d,]+)x\))?(?: \[(.+)\])?", line)
        if not m or m[2] == "<":
            continue
        time, key = int(m[1].replace(",", "").replace(".", "0")), (m[3], m[4], m[6])
        if m[2] == ">":
            pairs[here, key] = [int(m[5].replace(",", "")), time]
        else:
            here = key
            functions[key] = time
    total, = re.findall(r"^ *([\d,]+) +PROGRAM TOTALS$", r.stdout, re.M)
    return int(total.replace(",", "")), functions, pairs


@pytest.fixture(scope="module")
def written(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "callgrind.out"
    told = watchctl("export", log, "--to", "callgrind", "-o", path)
    calls = sum(json.loads(line)["type"] == "call" for line in watchctl("report", "--json", log).splitlines())
    assert told == f"{path}: {calls} calls\n"
    return path


def test_each_function_has_the_time_that_is_its_own(log, written):
    account = Account(log)
    total, functions, _ = annotated(written)
    assert total == sum(account.own.values()) > 0
    assert {f: n for f, n in functions.items() if n} == {f: n for f, n in account.own.items() if n}


def test_a_function_is_open_once_in_recursion_and_callers_have_their_share(log, written):
    account = Account(log)
    assert account.deepest > 1, "no recursion to look at"
    total, functions, pairs = annotated(written, "--inclusive=yes", "--tree=calling")
    assert functions[ROOT] == total
    assert {f: n for f, n in functions.items() if n} == {f: n for f, n in account.open.items() if n}
    assert max(functions.values()) == total
    # Pairs of no time are not printed.
    assert {p: t for p, t in pairs.items() if t[1]} == {p: [account.made[p], n] for p, n in account.pairs.items() if n}


def test_a_reader_of_the_format_finds_every_call(log, written):
    account = Account(log)
    own, pairs = read.callgrind(written.read_text())
    assert set(own) == {ROOT, *(to for _, to in account.made)}
    assert {p: n for p, (n, _) in pairs.items()} == account.made
    assert {p: t for p, (_, t) in pairs.items() if t} == {p: n for p, n in account.pairs.items() if n}


def test_chosen_calls_are_all_there_is(log, tmp_path):
    tid = next(o["tid"] for o in map(json.loads, watchctl("report", "--json", log).splitlines()) if o["type"] == "call")
    for choice in (["--depth", "2"], ["--thread", str(tid)]):
        account = Account(log, *choice)
        own, pairs = read.callgrind(watchctl("export", log, "--to", "callgrind", *choice))
        assert {f: n for f, n in own.items() if n} == {f: n for f, n in account.own.items() if n}
        assert {p: n for p, (n, _) in pairs.items()} == account.made


def test_a_log_without_calls_is_an_empty_profile(tmp_path):
    subprocess.run([BUILD / "tests" / "bench" / "accesslog-gen", "-n", "20", tmp_path / "log"], check=True, timeout=WAIT)
    assert read.callgrind(watchctl("export", tmp_path / "log", "--to", "callgrind")) == ({}, {})
    told = watchctl("export", tmp_path / "log", "--to", "callgrind", "-o", tmp_path / "out")
    assert told == f"{tmp_path}/out: nothing was chosen\n"


def test_the_log_may_have_any_name(tmp_path):
    log = tmp_path / "a\nevents: none\x1b[2J"
    subprocess.run([BUILD / "tests" / "bench" / "steplog-gen", "-n", "50", log], check=True, timeout=WAIT)
    text = watchctl("export", log, "--to", "callgrind")
    assert read.callgrind(text)[0]
    assert f"\ncmd: {tmp_path}/a\ufffdevents: none\ufffd[2J\n" in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
