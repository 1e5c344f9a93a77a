# rooms: view/print trace/tags
"""Captured stacks in `watchctl report`: on logs written by another program, and on recorded ones."""

import json
import os
import re
import struct
import subprocess
import sys
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from conftest import peak_memory  # noqa: E402
from test_report import COUNT, FLAG, LOAD, ROOT, STORE, WATCHCTL, complete, objects, preamble, run  # noqa: E402

TAG, CAPTURE, CAPTURE_VALUE = 11, 12, 257
CAPTURES = 0xFFFFFFFE  # in the place of a watch: captures

PROGRAM = r"""
__attribute__((noipa)) void capture(void) { __asm__ volatile(""); }
static inline __attribute__((always_inline)) void note(void) { capture(); __asm__ volatile(""); }
__attribute__((noipa)) void lookup(void) { note(); __asm__ volatile(""); }
__attribute__((noipa)) void work(void) { lookup(); capture(); __asm__ volatile(""); }
__attribute__((noipa)) void reload(void) { lookup(); __asm__ volatile(""); }
int main(void) { work(); reload(); return 0; }
"""


def tag(time_ns, number, name=None, value=0):
    named = name is not None
    return log.event(TAG, time_ns, struct.pack("<IBQ", number, named, value) + log.text(name if named else str(value)))


def capture(time_ns, number, tid, stack, value=None, before_ns=0):
    fields = struct.pack("<Iii", number, tid, stack) + struct.pack("<Q", before_ns)[:6]
    if value is None:
        return log.event(CAPTURE, time_ns, fields)
    return log.event(CAPTURE_VALUE, time_ns, fields + struct.pack("<Q", value))


def thread(time_ns, tid, comm):
    return log.event(log.THREAD, time_ns, struct.pack("<ii", 77, tid) + log.text(comm))


def module(time_ns, start, path):
    """Of a file that is not position independent: the bias is 0."""
    fields = struct.pack("<QQQB", start, start + 0x10000, 0, 0) + log.text(path)
    return log.event(log.MODULE, time_ns, fields + struct.pack("<BI", 0, 0))


@pytest.fixture
def sample(tmp_path):
    events = preamble() + [
        thread(1008, 77, "app"), thread(1009, 78, "worker"),
        log.stack(1010, 2, [0x401500, 0x401100]),
        log.stack(1011, 3, [0x401600, 0x401200, 0x401100]),
        tag(1012, 0, "cache-miss"), tag(1013, 1, value=42), tag(1014, 2, "reload"),
        capture(2000, 0, 77, 2, value=17),
        log.access(2010, 0, 77, FLAG, 0, 1, 0, STORE),
        capture(2020, 0, 77, 3, value=19),
        capture(2030, 0, 78, 2, value=1 << 41),
        capture(2040, 1, 77, 3),
        capture(2050, 2, 77, 3),
        # Collected late: made before the access above, and after the first capture.
        capture(2060, 0, 77, 3, value=18, before_ns=55),
        log.access(2070, 1, 78, COUNT, 9, 9, 1, LOAD),
        log.summary(4000, 0, 1, 1), log.summary(4001, 1, 1, 1), log.summary(4002, CAPTURES, 8, 6, lost=2)]
    return log.write_log(tmp_path / "log", [log.packet(events[:11]), log.packet(events[11:])])


def lines(result):
    return [line for line in result.stdout.splitlines() if re.match(r"\d\d:\d\d:", line)]


def test_one_time_line_holds_captures_and_accesses(sample):
    r = run("report", sample)
    assert r.returncode == 0 and r.stderr == ""
    assert [re.split(r"\s+", line)[1:4] for line in lines(r)] == [
        ["app/77", "tag", "cache-miss"], ["app/77", "tag", "cache-miss"], ["app/77", "write", "flag"],
        ["app/77", "tag", "cache-miss"], ["worker/78", "tag", "cache-miss"], ["app/77", "tag", "42"],
        ["app/77", "tag", "reload"], ["worker/78", "read", "count"]]
    assert [o["time_ns"] for o in map(json.loads, run("report", "--json", sample).stdout.splitlines())
            if o["type"] in ("stack", "access")] == [2000, 2005, 2010, 2020, 2030, 2040, 2050, 2070]
    assert "captures: 8 made by the program: 6 recorded, 2 lost" in r.stdout


def test_json_form_of_captures_has_the_documented_fields(sample):
    r = run("report", "--json", sample)
    stacks = objects(r, "stack")
    assert stacks[0] == {
        "type": "stack", "time_ns": 2000, "time": "2023-11-14T22:13:20.000001000Z", "pid": 77, "tid": 77, "comm": "app",
        "tag": "cache-miss", "value": "0x11", "stack_end": "complete",
        "stack": [{"ip": "0x401500", "inlined": False}, {"ip": "0x401100", "inlined": False}]}
    assert [(s["tag"], s.get("tag_number")) for s in stacks if s["tag"] != "cache-miss"] == [
        ("42", "0x2a"), ("reload", None)]
    row = objects(r, "tag")[0]
    assert row == row | {"tag": "cache-miss", "count": 4, "threads": 2, "values": 4, "min": "0x11",
                         "median_low": "0x12", "median_high": "0x12", "max": "0x20000000000", "places": 2}
    assert sum(bucket["count"] for bucket in row["histogram"]) == 4
    assert objects(r, "summary")[2] == {
        "type": "summary", "of": "captures", "counted": 8, "recorded": 6, "lost": 2, "filtered": 0,
        "duration_ns": 10**9, "complete": True}


def test_a_tag_by_name_or_number_gives_its_tree(sample):
    r = run("report", sample, "--tag", "cache-miss")
    assert r.returncode == 0 and lines(r) == []
    assert "cache-miss: 4 captures by 2 threads" in r.stdout
    assert "    4 values: 17 to 0x20000000000, median 18\n" in r.stdout
    assert ("COUNT   SHARE  STACK, OUTERMOST FIRST\n"
            "    4  100.0%  0x401100\n"
            "    2   50.0%  +-0x401200\n"
            "               | 0x401600\n"
            "    2   50.0%  +-0x401500\n") in r.stdout
    assert "flag" not in r.stdout and "reload" not in r.stdout
    for number in "42", "0x2a":
        assert "42: 1 capture by 1 thread" in run("report", sample, "--tag", number).stdout
    several = run("report", sample, "--tag", "42", "--tag=reload").stdout
    assert "42: 1 capture" in several and "reload: 1 capture" in several and "cache-miss" not in several


def test_the_form_follows_the_options(sample):
    r = run("report", sample, "--tag", "cache-miss", "--events")
    assert len(lines(r)) == 4 and "COUNT" not in r.stdout
    r = run("report", sample, "--tag", "cache-miss", "--watch", "flag", "--events")
    assert len(lines(r)) == 5
    r = run("report", sample, "--sites")
    assert lines(r) == [] and "COUNT  TAG " in r.stdout and "COUNT  WATCH" in r.stdout
    r = run("report", sample, "-n", "3")
    assert len(lines(r)) == 3 and "    4  cache-miss" in r.stdout
    r = run("report", sample, "--watch", "flag")
    assert len(lines(r)) == 1 and "tag" not in r.stdout and "captures" not in r.stdout
    r = run("report", sample, "--tree")
    assert re.findall(r"^(\S+): \d+ (?:capture|access)", r.stdout, re.M)[:5] == [
        "cache-miss", "42", "reload", "flag", "count"]


def test_json_tree_is_an_object_for_each_different_stack(sample):
    r = run("report", sample, "--json", "--tag", "cache-miss")
    assert [o["type"] for o in map(json.loads, r.stdout.splitlines())] == [
        "process", "tag", "stack_count", "stack_count", "summary"]
    assert Counter({tuple(f["ip"] for f in o["stack"]): o["count"] for o in objects(r, "stack_count")}) == {
        ("0x401500", "0x401100"): 2, ("0x401600", "0x401200", "0x401100"): 2}


def test_folded_lines_are_what_flame_graphs_are_made_of(sample):
    r = run("report", sample, "--folded", "--tag", "cache-miss")
    assert sorted(r.stdout.splitlines()) == ["[unknown];[unknown] 2", "[unknown];[unknown];[unknown] 2"]
    assert "2 captures or accesses were lost in the recording" in r.stderr
    assert run("report", sample, "--folded", "--watch", "flag").stdout == "[unknown];[unknown] 1\n"
    assert sorted({line.split(";")[0] for line in run("report", sample, "--folded").stdout.splitlines()}) == [
        "42", "cache-miss", "count", "flag", "reload"]


def test_before_tells_the_last_capture_of_the_same_thread(sample):
    r = run("report", sample, "--before", "cache-miss")
    flag, count = r.stdout[r.stdout.index("write  flag"):], r.stdout[r.stdout.index("read   count"):]
    assert flag.split("\n")[2:6] == [
        "    last cache-miss recorded in this thread, 5 ns before, value 18:", "        #0  0x401600", "        #1  0x401200",
        "        #2  0x401100"]
    assert count.split("\n")[1] == "    last cache-miss recorded in this thread, 40 ns before, value 0x20000000000:"
    r = run("report", sample, "--before", "42", "--json")
    assert ["before" in o for o in objects(r, "access")] == [False, False]
    r = run("report", sample, "--before", "cache-miss", "--json", "--watch", "flag")
    assert objects(r, "access")[0]["before"]["distance_ns"] == 5
    assert objects(r, "stack") == []


def test_an_unknown_tag_is_an_error_that_names_the_others(sample, tmp_path):
    r = run("report", sample, "--tag", "cache-mis")
    assert r.returncode == 5 and "did you mean cache-miss?" in r.stderr
    r = run("report", sample, "--tag", "77")
    assert r.returncode == 5 and 'no tag "77"; its tags are: cache-miss, 42, reload' in r.stderr
    r = run("report", sample, "--before", "xyzzy")
    assert r.returncode == 5 and 'no tag "xyzzy"' in r.stderr
    r = run("report", log.write_log(tmp_path / "none", [log.packet(preamble())]), "--tag", "x")
    assert r.returncode == 5 and "it has no captures at all" in r.stderr


def test_options_that_exclude_each_other_are_refused(sample):
    for args, words in [
            (["--folded", "--json"], "excludes --json"),
            (["--tree", "--events"], "excludes --sites and --events"),
            (["--folded", "--sites"], "excludes --sites and --events"),
            (["--before", "x", "--folded"], "which --folded leaves out"),
            (["--before", "x", "--tag", "x"], "--watch NAME"),
            (["--inverted"], "needs --tag or --tree"),
            (["--min", "101", "--tree"], "from 0 to 100"),
            (["--min", "1x", "--tree"], "from 0 to 100"),
            (["--min", "nan", "--tree"], "from 0 to 100")]:
        r = run("report", sample, *args)
        assert r.returncode == 2 and words in r.stderr and r.stdout == "", args


def test_functions_of_a_real_file_are_merged(tmp_path):
    source, program = tmp_path / "app.c", str(tmp_path / "app")
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-o", program, str(source)], check=True)
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True,
                          check=True).stdout

    def after_call(caller, callee, which=0):
        body = re.search(r"<%s>:\n(.*?)\n\n" % caller, code, re.S)[1].split("\n")
        at = [i for i, line in enumerate(body) if re.search(r"call.*<%s>" % callee, line)][which]
        return int(body[at + 1].split(":")[0], 16)

    in_lookup = after_call("lookup", "capture")
    stacks = [[in_lookup, after_call("work", "lookup"), after_call("main", "work")],
              [in_lookup, after_call("reload", "lookup"), after_call("main", "reload")],
              [after_call("work", "capture"), after_call("main", "work")]]
    events = preamble()[:1] + [module(1001, 0x400000, program), thread(1001, 77, "app"), tag(1002, 0, "miss")]
    events += [log.stack(1003, i, stack) for i, stack in enumerate(stacks)]
    events += [capture(2000 + i, 0, 77, s) for i, s in enumerate([0, 0, 0, 1, 2, 0])]
    path = log.write_log(tmp_path / "log", [log.packet(events)])
    tree = run("report", path, "--tag", "miss").stdout
    assert ("    6  100.0%  main  app\n"
            "    5   83.3%  +-work\n"
            "    4   66.7%  | +-lookup\n"
            "               | | note\n"
            "    1   16.7%  | +-(captured here)\n"
            "    1   16.7%  +-reload\n"
            "                 lookup\n"
            "                 note\n") in tree
    inverted = run("report", path, "--tag", "miss", "--inverted").stdout
    assert "    5   83.3%  note  app\n               lookup\n    4   66.7%  +-work\n" in inverted
    assert sorted(run("report", path, "--tag", "miss", "--folded").stdout.splitlines()) == [
        "main;reload;lookup;note 1", "main;work 1", "main;work;lookup;note 4"]
    assert "(1 more, each below 20 %)" in run("report", path, "--tag", "miss", "--min", "20").stdout
    first = objects(run("report", path, "--json"), "stack")[0]
    assert (first["function"], first["line"]) == ("lookup", 3)
    assert [(f["function"], f["inlined"]) for f in first["stack"]] == [
        ("note", True), ("lookup", False), ("work", False), ("main", False)]


# Prints how often each way led to lookup(). Each thread writes its own flag behind the capture, with its value.
RECORDED = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <stackwalk.h>
#define WAY __attribute__((noipa))
volatile int flag;
static int served, reloaded;
WAY void lookup(int i) { STACKWALK_TAG_VALUE("cache-miss", i); __asm__ volatile(""); }
WAY void flip(int i) { flag = i; }
WAY void serve(int i) { __atomic_add_fetch(&served, 1, 5); lookup(i); flip(i); __asm__ volatile(""); }
WAY void reload(int i) { __atomic_add_fetch(&reloaded, 1, 5); lookup(i); flip(i); __asm__ volatile(""); }
WAY void *work(void *first)
{
	for (int i = 0; i < 600; i++) {
		(i % 3 ? serve : reload)((int)(long)first + i);
		if (i % 8 == 0)
			usleep(100);
	}
	return NULL;
}
int main(void)
{
	pthread_t t[2];
	while (!stackwalk_collecting)
		usleep(1000);
	usleep(100000);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, work, (void *)(i * 1000 + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	usleep(300000);
	printf("%d %d\n", served, reloaded);
	return 0;
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    build = os.path.dirname(os.path.dirname(os.path.abspath(WATCHCTL)))
    (folder / "app.c").write_text(RECORDED)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-I", os.path.join(ROOT, "stackwalk"), "-o", folder / "app",
                    folder / "app.c", "-L", build, "-lstackwalk", "-Wl,-rpath," + build], check=True)
    r = run("--tags", "-v", "flag", "-w", "-o", str(folder / "log"), "--", str(folder / "app"))
    if "no hardware debug registers" in r.stderr:
        pytest.skip("this machine offers no debug registers")
    assert r.returncode == 0, r.stderr
    return str(folder / "log"), [int(n) for n in r.stdout.split()]


def test_a_recorded_program_is_counted_as_it_counts_itself(recorded):
    path, (served, reloaded) = recorded
    ways = Counter()
    for line in run("report", path, "--tag", "cache-miss", "--folded").stdout.splitlines():
        stack, count = line.rsplit(" ", 1)
        ways[stack.split(";")[-2]] += int(count)
        assert "work" in stack.split(";") and stack.endswith(";lookup")
    assert ways == {"serve": served, "reload": reloaded}
    row = objects(run("report", path, "--json", "--sites"), "tag")[0]
    assert row == row | {"tag": "cache-miss", "count": 1200, "threads": 2, "values": 1200, "min": "0x1",
                         "max": hex(1000 + 600), "function": "lookup"}
    summary = [s for s in objects(run("report", path, "--json", "--sites"), "summary") if s.get("of") == "captures"]
    assert summary[0]["recorded"] == 1200 and summary[0]["lost"] == 0


def test_before_each_recorded_write_is_the_capture_made_before_it(recorded):
    """Both come from different queues: every write must find the capture of its own round."""
    path, _ = recorded
    writes = objects(run("report", path, "--json", "--watch", "flag", "--before", "cache-miss"), "access")
    assert len(writes) == 1200
    wrong = [w for w in writes if w["before"].get("value") != w["new"]] if all("before" in w for w in writes) else writes
    assert wrong == []
    assert {w["before"]["stack"][1]["function"] for w in writes} == {"serve", "reload"}


def test_memory_is_bounded_by_different_stacks(tmp_path):
    def peak(n, *options):
        head = preamble()[:1] + [thread(1000, 77, "app"), tag(1001, 0, "miss")] + [log.stack(1002, i, [0x401000 + i] * 16) for i in range(64)]
        packets = [log.packet(head)]
        for first in range(0, n, 500):
            packets.append(log.packet([capture(2000 + i, 0, 77, i % 64, value=i) for i in range(first, first + 500)]))
        path = log.write_log(tmp_path / ("log%d%s" % (n, options[0])), packets)
        status, kib = peak_memory(WATCHCTL, "report", *options, path)
        assert status == 0
        return kib

    for options in ["--tag", "miss"], ["--folded"], ["--sites"]:
        assert peak(100000, *options) < peak(10000, *options) + 4096  # KiB


def test_cut_logs_print_what_is_whole(sample):
    events = os.path.join(sample, "events")
    whole = os.path.getsize(events)
    for size in range(whole - 1, whole // 2, -7):
        os.truncate(events, size)
        r = run("report", sample, "--tree")
        assert r.returncode == 8 and "is not whole" in r.stderr, size


def test_completion_knows_the_options():
    assert {"--tag", "--tree"} <= set(complete("report", "--t"))
