# rooms: view/diff
"""watchctl diff: the difference that tests/bench/steplog_gen.c puts into a log is the one that is named; forms, exit
status, bad input; watch logs and tag logs by a second writer."""

import html.parser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from waiting import WAIT  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
WATCHCTL = os.environ.get("WATCHCTL", str(BUILD / "bin" / "watchctl"))
GENERATOR = BUILD / "tests" / "bench" / "steplog-gen"
FLAG = 0x404010


def diff(*args, status=None):
    env = dict(os.environ, TZ="UTC", TERM="xterm")
    r = subprocess.run([WATCHCTL, "diff", *map(str, args)], capture_output=True, text=True, timeout=2 * WAIT, env=env)
    if status is not None:
        assert r.returncode == status, r.stdout + r.stderr
    return r


def objects(*args, status):
    return [json.loads(line) for line in diff("--json", *args, status=status).stdout.splitlines()]


def of(kind, lines):
    return [o for o in lines if o["type"] == kind]


@pytest.fixture(scope="module")
def generate(tmp_path_factory):
    if not GENERATOR.exists():
        pytest.skip(f"{GENERATOR} is not built")
    folder = tmp_path_factory.mktemp("steps")

    def make(name, *args):
        """The log, and the difference that the generator says it has put in."""
        r = subprocess.run([str(GENERATOR), *map(str, args), str(folder / name)], check=True, timeout=WAIT,
                           capture_output=True, text=True)
        told = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
        return folder / name, told[0] if told else None

    return make


@pytest.fixture(scope="module")
def good(generate):
    return generate("good", "-n", 20000, "-t", 3, "-p", 1, "-s", 1)[0]


def test_two_runs_of_one_program_are_the_same(good, generate):
    other, _ = generate("other", "-n", 20000, "-t", 3, "-p", 1, "-s", 2)
    r = diff(good, other, status=0)
    assert "0 differences" in r.stdout and r.stderr == ""
    assert of("summary", objects(good, other, status=0))[0]["agreed"] > 20000


@pytest.mark.parametrize("kind", ["value", "result", "error", "missing", "extra"])
@pytest.mark.parametrize("at", [1200, 7001, 15503])
def test_the_one_difference_is_named(good, generate, kind, at):
    bad, told = generate(f"{kind}-{at}", "-n", 20000, "-t", 3, "-p", 1, "-s", 3 + at, "-d", f"{kind}@{at}")
    lines = objects(good, bad, status=1)
    summary = of("summary", lines)[0]
    assert summary["values"] + summary["controls"] == 1
    first = of("difference", lines)[0]
    assert first["first"] == ("value" if kind in ("value", "result", "error") else "control")
    assert first["kind"] == {"value": "params", "result": "result", "error": "result"}.get(kind, "calls")
    side = first["good" if kind == "missing" else "bad"]
    assert side["function"] == told["function"]
    if kind != "missing":
        assert side["call"] == told["call"]
        assert len(side["stack"]) > told["depth"]
    if kind == "value":
        assert any(a.get("differs") or a.get("pointee_differs") for a in side["args"])
        assert not any(a.get("differs") for a in first["before"][-1]["args"])
    if kind == "error":
        assert side["errno"] and side["errno_differs"]
    assert len(first["before"]) == 5
    group = of("group", lines)
    assert len(group) == 1 and group[0]["count"] == 1


def test_a_call_of_the_good_run_only_is_found_in_the_good_log(good, generate, tmp_path):
    """Its number and its time are those of the good log, in each form."""
    bad, told = generate("only-good", "-n", 20000, "-t", 3, "-p", 1, "-s", 21, "-d", "missing@7001")
    first = of("difference", objects(good, bad, status=1))[0]
    call = first["good"]
    assert call["function"] == told["function"] and "bad" not in first and "time_ns" not in first
    assert first["good_time_ns"] == call["time_ns"] > 0
    place = "of the good run, %d.%06d s after its recording began" % (
        call["time_ns"] // 10**9, call["time_ns"] % 10**9 // 1000)
    out = diff(good, bad, "--html", tmp_path / "d.html", status=1).stdout
    assert f"{place}\n  call {call['call']} of the good log\n" in out
    assert f"{place}; call {call['call']} of the good log." in (tmp_path / "d.html").read_text()


def test_ignored_functions_and_parameters_are_not_compared(good, generate):
    bad, told = generate("ignored", "-n", 20000, "-t", 3, "-p", 1, "-s", 9, "-d", "value@7001")
    lines = objects(good, bad, status=1)
    names = [a["name"] for a in of("difference", lines)[0]["bad"]["args"] if a.get("differs") or a.get("pointee_differs")]
    diff(good, bad, "--ignore", told["function"], status=0)
    diff(good, bad, *[x for n in names for x in ("--ignore", f"{told['function']}:{n}")], status=0)
    diff(good, bad, "--ignore", f"{told['function']}:return", status=1)


def test_masks_are_learned_from_good_runs_and_can_be_reviewed(good, generate, tmp_path):
    noisy, _ = generate("noisy", "-n", 20000, "-t", 3, "-p", 1, "-s", 11, "-d", "result@1200")
    bad, told = generate("masked", "-n", 20000, "-t", 3, "-p", 1, "-s", 12, "-d", "extra@7001")
    masks = tmp_path / "masks"
    lines = objects(good, noisy, bad, "--save-masks", masks, status=1)
    assert of("difference", lines)[0]["bad"]["function"] == told["function"]
    learned = [o["mask"] for o in of("mask", lines) if o["learned"]]
    assert len(learned) == 1 and learned[0].endswith(":return")
    text = masks.read_text()
    assert learned[0] + " # learned: it differs" in text
    diff(good, noisy, "--masks", masks, status=0)


def test_of_several_good_runs_the_one_that_agrees_the_longest_is_compared(good, generate, tmp_path):
    other, _ = generate("other-way", "-n", 20000, "-t", 3, "-p", 1, "-s", 11, "-d", "value@1200")
    bad, told = generate("went-wrong", "-n", 20000, "-t", 3, "-p", 1, "-s", 12, "-d", "extra@7001")
    for order in ((other, good), (good, other)):
        lines = objects(*order, bad, "--save-masks", tmp_path / "masks", status=1)
        assert of("difference", lines)[0]["bad"]["function"] == told["function"]
        assert [log["path"] for log in of("log", lines)] == [str(good), str(bad)]
        why = [n["text"] for n in of("note", lines) if "longer than with the other good runs" in n["text"]]
        assert len(why) == (order[0] == other) and all(str(good) in text for text in why)


def test_what_is_one_is_said_of_one(good, generate):
    noisy, _ = generate("noisy-one", "-n", 20000, "-t", 3, "-p", 1, "-s", 11, "-d", "result@1200")
    bad, _ = generate("one", "-n", 20000, "-t", 3, "-p", 1, "-s", 12, "-d", "extra@7001")
    out = diff(good, noisy, bad, status=1).stdout
    assert "note: 1 mask was learned from" in out and "\n1 difference: 0 in values, 1 in control; " in out


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.links = [], "", []

    def handle_starttag(self, tag, attrs):
        self.links += [v for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_no_network(good, generate, tmp_path):
    bad, told = generate("page", "-n", 20000, "-t", 3, "-p", 1, "-s", 13, "-d", "value@15503")
    page = Page()
    r = diff(good, bad, "--html", tmp_path / "d.html", "-q", status=1)
    assert r.stdout == ""
    text = (tmp_path / "d.html").read_text()
    page.feed(text)
    assert page.open == [] and page.links == [] and "@import" not in text and "url(" not in text
    assert f"{told['function']} is called with another" in page.text
    assert diff(good, bad, "--html", "-", status=1).stdout == text


def test_text_names_both_runs_and_the_rows_of_the_list(good, generate):
    bad, told = generate("text", "-n", 20000, "-t", 3, "-p", 1, "-s", 14, "-d", "value@1200")
    out = diff(good, bad, status=1).stdout
    assert out.startswith(f"good  {good}: ")
    assert f"first difference of values: {told['function']} is called with another " in out
    assert "stack, the same in both" in out and "the last calls that agreed before" in out
    assert "\033" not in out
    assert "\033[" in diff(good, bad, "--color", "always", status=1).stdout


def test_a_cut_log_is_compared_as_far_as_it_goes(good, generate, tmp_path):
    other, _ = generate("cut", "-n", 20000, "-t", 3, "-p", 1, "-s", 15)
    events = other / "events"
    os.truncate(events, events.stat().st_size * 3 // 5)
    r = diff(good, other, status=3)
    assert "is not whole" in r.stdout and "0 differences" in r.stdout


def test_the_same_log_twice_and_logs_without_calls(good, generate, tmp_path):
    assert "both are the same log" in diff(good, good, status=0).stdout
    empty = log.write_log(tmp_path / "empty", [log.packet([log.process(1000, 77, "app", 10**18)])])
    r = diff(good, empty or tmp_path / "empty", status=3)
    assert "has no call, access or capture" in r.stdout


def test_errors_exit_with_2(good, tmp_path):
    assert "there is no log" in diff(good, tmp_path / "none", status=2).stderr
    assert "needs a log of a good run" in diff(good, status=2).stderr
    assert "did you mean --json" in diff("--jsn", good, good, status=2).stderr
    assert "is not a mask" in diff(good, good, "--ignore", "f:", status=2).stderr
    assert "neither log has a function" in diff(good, good, "--from", "nowhere", status=2).stderr
    assert "neither log has a thread" in diff(good, good, "--only-thread", "nobody", status=2).stderr
    assert "share from 0 to 1" in diff(good, good, "--tolerance", "2", status=2).stderr
    assert diff(good, good, "--html", tmp_path / "no" / "page", status=2).stderr
    file = tmp_path / "events"
    file.write_text("x")
    assert "is not a log" in diff(good, file, status=2).stderr


def test_damage_anywhere_is_survived(good, generate, tmp_path):
    other, _ = generate("damage", "-n", 2000, "-t", 2, "-p", 1, "-s", 16)
    data = (other / "events").read_bytes()
    for at in range(100, len(data), len(data) // 40):
        bad = tmp_path / f"d{at}"
        shutil.copytree(other, bad)
        (bad / "events").write_bytes(data[:at] + bytes(b ^ 0x5A for b in data[at : at + 8]) + data[at + 8 :])
        assert diff(other, bad, "--anyway", "--by-name").returncode in (1, 2, 3)


CRASHES = """
#include <stdlib.h>
static inline __attribute__((always_inline)) int load(const int *p) { return *(volatile const int *)p; }
__attribute__((noinline)) int work(const int *p, int n) { return load(p) + n; }
int main(void) { int k = 4; return work(getenv("CRASH") ? NULL : &k, 3) == 7 ? 0 : 1; }
"""


def test_a_crash_is_where_it_crashed(tmp_path):
    """JSON, text and page: the frame that the signal came to is the first of its stack."""
    source, program = tmp_path / "crash.c", tmp_path / "crash"
    source.write_text(CRASHES)
    subprocess.run(["gcc", "-g", "-O1", "-o", program, source], check=True, timeout=WAIT)
    logs = tmp_path / "good", tmp_path / "bad"
    for path, env in zip(logs, (os.environ, dict(os.environ, CRASH="1"))):
        r = subprocess.run([WATCHCTL, "step", "-q", "--aslr", "-o", path, "--", program], env=env, capture_output=True, text=True,
                           timeout=4 * WAIT)
        if "LLDB" in r.stderr and not path.exists():
            pytest.skip("this machine has no LLDB")
    lines = objects(*logs, status=1)
    first = next(o for o in of("difference", lines) if o["first"] == "control")
    bad = first["bad"]
    assert bad["function"] == "signal SIGSEGV" and bad["stack"][0] == bad["frame"]
    assert bad["frame"]["ip"] == bad["ip"]
    assert (bad["frame"]["function"], os.path.basename(bad["frame"]["file"]), bad["frame"]["line"]) == ("load", "crash.c", 3)
    assert [f["function"] for f in bad["stack"][:3]] == ["load", "work", "main"]
    assert "none_before" in first or first["before"]
    signals = [g for g in of("group", lines) if g["function"] == "signal SIGSEGV"]
    assert signals[0]["bad"]["frame"] == bad["frame"]
    out = diff(*logs, "--html", tmp_path / "d.html", status=1).stdout
    stack = out.split("stack of the bad run\n")[-1].split("\n")
    assert stack[0].split()[:2] == ["#0", "load"] and stack[1].split()[1].split("+")[0] == "work"
    assert "signal SIGSEGV\nload" in (tmp_path / "d.html").read_text()


# Watch logs and tag logs

STORE, CLEAR = 0x401002, 0x401012


def watch_log(path, writes):
    """@writes: (where, old, new) in turn."""
    events = [log.process(1000, 77, "app", 1700000000 * 10**9), log.watch(1001, 0, "flag", FLAG)]
    for number, where in enumerate((STORE, CLEAR)):
        events += [log.code(1003, where, b"\x89\x07"), log.stack(1005, number, [where, 0x401100])]
    for i, (where, old, new) in enumerate(writes):
        events.append(log.access(2000 + 10 * i, 0, 77, FLAG, old, new, int(where == CLEAR), where))
    if writes:
        events.append(log.summary(10**6, 0, len(writes), len(writes)))
    log.write_log(path, [log.packet(events)])
    return path


def test_watch_logs_tell_who_wrote_in_the_bad_run_only(tmp_path):
    good = watch_log(tmp_path / "good", [(STORE, i, i + 1) for i in range(9)])
    bad = watch_log(tmp_path / "bad", [(STORE, i, i + 1) for i in range(5)] + [(CLEAR, 5, 0)]
                    + [(STORE, i, i + 1) for i in range(5, 9)])
    r = diff(good, bad, status=1)
    assert "accesses to flag: 9 in the good run, 10 in the bad run" in r.stdout
    assert "an access that the good run does not have" in r.stdout and "write by 0x401010" in r.stdout
    accesses = of("accesses", objects(good, bad, status=1))[0]
    assert accesses["only_bad"] == 1 and accesses["only_good"] == 0 and "good" not in accesses
    assert accesses["places"] == [{"place": accesses["bad"]["place"], "good": 0, "bad": 1}]
    diff(good, watch_log(tmp_path / "same", [(STORE, i, i + 1) for i in range(9)]), status=0)


def test_watch_logs_tell_other_values(tmp_path):
    good = watch_log(tmp_path / "good", [(STORE, 0, 1), (STORE, 1, 2)])
    bad = watch_log(tmp_path / "bad", [(STORE, 0, 1), (STORE, 1, 7)])
    accesses = of("accesses", objects(good, bad, status=1))[0]
    assert accesses["other_values"] == 1 and accesses["only_bad"] == 0
    assert (accesses["good"]["value"], accesses["bad"]["value"]) == ("1 -> 2", "1 -> 7")


def tag_log(path, captures):
    events = [log.process(1000, 77, "app", 1700000000 * 10**9), log.thread(1001, 77, 77, "app"), log.tag(1002, 0, "miss"),
              log.stack(1003, 0, [0x401050, 0x401100]), log.stack(1004, 1, [0x401060, 0x401100])]
    events += [log.capture(2000 + 10 * i, 0, 77, stack) for i, stack in enumerate(captures)]
    log.write_log(path, [log.packet(events)])
    return path


def test_tag_logs_are_compared_by_stack(tmp_path):
    good, bad = tag_log(tmp_path / "good", [0, 0, 0]), tag_log(tmp_path / "bad", [0, 1, 0, 0])
    captures = of("captures", objects(good, bad, status=1))[0]
    assert captures["name"].startswith("miss") and captures["only_bad"] == 1
    assert captures["places"][0]["bad"] == 1 and captures["places"][0]["good"] == 0
    diff(good, tag_log(tmp_path / "same", [0, 0, 0]), status=0)


def test_logs_of_other_kinds_are_not_compared(tmp_path, good):
    watch, tag = watch_log(tmp_path / "watch", [(STORE, 0, 1)]), tag_log(tmp_path / "tag", [0])
    assert "has accesses" in diff(watch, tag, status=2).stderr
    assert "has steps" in diff(good, watch, status=2).stderr


def cut(log, calls, to):
    """A copy of a step log that ends after some packets, as a recording does whose recorder was killed."""
    shutil.copytree(log, to)
    events = to / "events"
    events.write_bytes(events.read_bytes()[:int(events.stat().st_size * calls)])
    return to


def test_a_log_that_was_cut_cannot_show_that_the_runs_are_the_same(good, tmp_path):
    bad = cut(good, 0.3, tmp_path / "cut")
    r = diff(good, bad, status=3)
    assert "cannot tell whether the runs differ: %s" % bad in r.stdout
    lines = objects(good, bad, status=3)
    assert of("summary", lines)[0]["verdict"] == "cannot_tell"
    assert str(bad) in of("doubt", lines)[0]["text"]
    assert diff("-q", good, bad, status=3).stdout == ""


def test_logs_without_events_cannot_show_that_the_runs_are_the_same(tmp_path):
    empty = [watch_log(tmp_path / name, []) for name in ("a", "b")]
    assert "has no call, access or capture" in diff(*empty, status=3).stdout


def test_a_good_log_that_was_cut_does_not_agree_with_what_it_lacks(good, generate, tmp_path):
    bad, told = generate("value-7001-cut", "-n", 20000, "-t", 3, "-p", 1, "-s", 1203, "-d", "value@7001")
    short = cut(good, 0.05, tmp_path / "short")
    for order in ((good, short), (short, good)):
        lines = objects(*order, bad, status=1)
        assert of("log", lines)[0]["path"] == str(good)
        assert of("difference", lines)[0]["bad"]["function"] == told["function"]


def test_a_difference_is_one_also_where_a_log_was_cut(good, generate, tmp_path):
    bad, _ = generate("value-1200-cut", "-n", 20000, "-t", 3, "-p", 1, "-s", 1203, "-d", "value@1200")
    lines = objects(good, cut(bad, 0.5, tmp_path / "cut"), status=1)
    assert of("summary", lines)[0]["verdict"] == "different" and of("doubt", lines)
    assert of("summary", objects(good, good, status=0))[0]["verdict"] == "same"
