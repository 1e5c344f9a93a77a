# rooms: calltrace
"""
Events of the program's own in the call tracer's logs: held to what the program says itself about them
(tests/victims/calltrace/own_events.c), which needs no function that was compiled for the tracer.
"""
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict

import pytest
from conftest import BUILD, ROOT, VICTIMS, WAIT, WATCHCTL
from test_calltrace_core import gdb_core

SOURCE = VICTIMS / "calltrace" / "own_events.c"
CC = BUILD / "bin" / "calltrace-cc"
PASS = BUILD / "libcalltrace-pass.so"
COUNT = 100000
CHUNK = 4096 // 2  # events: each has two slots
MIX = 0x9E3779B97F4A7C15
HANDLER = 1 << 32  # the first number of its events


def gcc(target, *options):
    subprocess.run(["gcc", "-O2", "-Wall", *map(str, options), "-o", str(target), "-lpthread"], check=True, timeout=WAIT)
    return target


@pytest.fixture(scope="session")
def victim(tmp_path_factory):
    return gcc(tmp_path_factory.mktemp("own_events") / "own_events", SOURCE, BUILD / "libcalltrace.a")


def run(program, *args, **env):
    """The victim's own account: {(tid, name): count}."""
    ran = subprocess.run([str(program), *map(str, args)], capture_output=True, text=True, timeout=WAIT, env={**os.environ, **{k: str(v) for k, v in env.items()}})
    assert (ran.returncode, ran.stderr) == (0, "")
    return account(ran.stdout)


def account(text):
    return {(int(tid), name): int(n) for tid, name, n in (line.split() for line in text.splitlines())}


def report(log, *options):
    ran = subprocess.run([WATCHCTL, "report", "--json", str(log), *(options or ["--events"])], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def numbers(events):
    """{(tid, name): the numbers of its events}: each of both payloads, which belong together."""
    found = defaultdict(list)
    last_ns = 0
    for e in events:
        if e["type"] != "probe":
            continue
        first, second = re.fullmatch(r"number (\d+), mixed (0x[0-9a-f]+)", e["text"]).groups()
        assert int(second, 16) == (~int(first) * MIX) % 2**64
        assert int(first) % 2**20 == 0 and "ip" not in e
        assert e["time_ns"] >= last_ns
        last_ns = e["time_ns"]
        found[e["tid"], e["probe"]].append(int(first) >> 20)
    return found


def lost(events):
    return sum(e["count"] for e in events if e["type"] == "lost")


def ranges(said, *names):
    return {key: list(range(n)) for key, n in said.items() if not names or key[1] in names}


@pytest.mark.parametrize("library", ["libcalltrace.a", "libcalltrace.so"])
def test_two_threads_record_all_of_their_events(tmp_path, library):
    program = gcc(tmp_path / "program", SOURCE, BUILD / library, f"-Wl,-rpath,{BUILD.resolve()}")
    said = run(program, "threads", COUNT, CALLTRACE_OUTPUT=tmp_path / "log")
    found = report(tmp_path / "log")
    assert numbers(found) == ranges(said) and len(said) == 2
    assert lost(found) == 0
    sites = [e for e in found if e["type"] == "patch_site"]
    assert {(s["probe"], s["tactic"], s["pattern"]) for s in sites} == {(n, "source", "number %lu, mixed %#lx") for n in ("first", "second")}
    assert not any("ip" in s or "addr" in s or "when" in s for s in sites)


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="there is no babeltrace2")
def test_babeltrace2_reads_the_packets(victim, tmp_path):
    said = run(victim, "threads", 20000, CALLTRACE_OUTPUT=tmp_path / "log")
    ran = subprocess.run(["babeltrace2", str(tmp_path / "log")], capture_output=True, text=True, timeout=WAIT)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = defaultdict(list)
    pattern = re.compile(r"more: .* tid = (\d+), .*nwords = 3, word = \[ \[0\] = 0x(\w+), \[1\] = 0x(\w+), \[2\] = 0x(\w+) \]")
    for tid, word, first, second in pattern.findall(ran.stdout):
        assert int(word, 16) & 0xFFFFFFFF == 3 and int(second, 16) == (~int(first, 16) * MIX) % 2**64
        found[int(tid), int(word, 16) >> 32].append(int(first, 16) >> 20)
    assert {tid: n for (tid, _), n in found.items()} == {tid: n for (tid, _), n in ranges(said).items()}
    assert len({kind for _, kind in found}) == 2


def check_interrupted(said, events):
    """All that there is is right, and in order; what is not there was counted. Returns how many are missing."""
    (tid, _), = {key for key in said if key[1] == "interrupted"}
    found, = numbers(events).values()
    own, handler = [n for n in found if n < HANDLER], [n - HANDLER for n in found if n >= HANDLER]
    assert own == sorted(set(own)) and handler == sorted(set(handler))
    assert own[-1] < said[tid, "interrupted"] and handler[-1] < said[tid, "handler"]
    missing = said[tid, "interrupted"] - len(own) + said[tid, "handler"] - len(handler)
    assert missing <= lost(events)
    return missing


def test_a_signal_handler_interrupts_the_recording(victim, tmp_path):
    said = run(victim, "signals", COUNT, CALLTRACE_OUTPUT=tmp_path / "log")
    found = report(tmp_path / "log")
    # Only a slot that was not written when its chunk ended is missing.
    assert check_interrupted(said, found) <= 10


def test_a_signal_handler_jumps_out_of_the_recording(victim, tmp_path):
    said = run(victim, "jumps", COUNT, CALLTRACE_OUTPUT=tmp_path / "log")
    (tid, _), = {key for key in said if key[1] == "jumps"}
    found, = numbers(report(tmp_path / "log")).values()
    own, handler = [n for n in found if n < HANDLER], [n - HANDLER for n in found if n >= HANDLER]
    assert own == sorted(set(own)) and handler == sorted(set(handler))
    assert said[tid, "interrupted"] - len(own) <= said[tid, "jumps"] + 10
    assert said[tid, "handler"] - len(handler) <= 10


def test_a_child_records_into_a_log_of_its_own(victim, tmp_path):
    said = run(victim, "forks", 5000, CALLTRACE_OUTPUT=tmp_path / "log.%p")
    logs = {log: numbers(report(log)) for log in tmp_path.glob("log.*")}
    assert len(logs) == 2
    for log, found in logs.items():
        pid = int(log.name.split(".")[1])
        assert found == {key: n for key, n in ranges(said).items() if key[0] == pid} and found
    assert {name for found in logs.values() for _, name in found} == {"parent", "after", "child"}


def test_recording_is_switched_off_and_on(victim, tmp_path):
    said = run(victim, "switched", 5000, CALLTRACE_OUTPUT=tmp_path / "log")
    assert numbers(report(tmp_path / "log")) == ranges(said)
    run(victim, "switched", 5000, CALLTRACE_OUTPUT=tmp_path / "later", CALLTRACE_ENABLE=0)
    assert {name for _, name in numbers(report(tmp_path / "later"))} == {"again"}


def test_a_program_may_begin_the_log_itself(victim, tmp_path):
    said = run(victim, "initializes", 100, CALLTRACE_OUTPUT=tmp_path / "log")
    assert numbers(report(tmp_path / "log")) == ranges(said)


def test_without_an_output_there_is_no_log(victim, tmp_path):
    said = run(victim, "threads", 100, CALLTRACE_OUTPUT="")
    assert len(said) == 2 and not list(tmp_path.iterdir())


def test_a_program_with_the_stub_runs(tmp_path):
    program = gcc(tmp_path / "program", SOURCE, BUILD / "libcalltrace-stub.a")
    assert len(run(program, "threads", 100, CALLTRACE_OUTPUT=tmp_path / "log")) == 2
    assert not (tmp_path / "log").exists()


def check_last(found, said):
    """The end of what was recorded, of two chunks."""
    assert found.keys() == said.keys()
    for key, n in said.items():
        assert CHUNK - 1 <= len(found[key]) <= 2 * CHUNK
        assert found[key] == list(range(n))[-len(found[key]):]


def test_a_flight_recorder_has_the_last_ones(victim, tmp_path):
    said = run(victim, "threads", COUNT, CALLTRACE_OUTPUT=tmp_path / "log", CALLTRACE_RING="128K")
    found = report(tmp_path / "log")
    check_last(numbers(found), said)
    assert lost(found) == 0


@pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb, which makes the core")
@pytest.mark.parametrize("ring, count", [("128K", 20000), ("", 1000), ("", 20000)])
def test_a_core_has_what_was_not_written(victim, tmp_path, ring, count):
    core, printed = gdb_core(victim, ["dies", str(count)], tmp_path, {**os.environ, "CALLTRACE_OUTPUT": str(tmp_path / "log"), "CALLTRACE_RING": ring})
    said, = {(key, n) for key, n in account("\n".join(line for line in printed.splitlines() if re.fullmatch(r"\d+ last \d+", line))).items()}
    found = report(core)
    assert {(e["probe"], e["tactic"]) for e in found if e["type"] == "patch_site"} == {("last", "source")}
    if ring:
        check_last(numbers(found), dict([said]))
        return
    written = numbers(report(tmp_path / "log"))
    assert written[said[0]] + numbers(found)[said[0]] == list(range(count))
    assert lost(found) == 0


MIXED = """#include "calltrace.h"
static int step;
__attribute__((noinline)) static int leaf(int i)
{
	calltrace_event(step, (uint64_t)i, 1);
	__asm__ volatile("");
	return i;
}
int main(void)
{
	step = calltrace_event_type("step", "%d of %d");
	calltrace_event(step, 10, 2);
	leaf(11);
	calltrace_event(step, 12, 2);
	return 0;
}
"""


@pytest.fixture
def mixed(tmp_path):
    if not PASS.exists():
        pytest.skip("built without LLVM 19: there is no pass")
    (tmp_path / "a.c").write_text(MIXED)
    subprocess.run([str(CC), "-O1", f"-I{ROOT}/calltrace", tmp_path / "a.c", "-o", tmp_path / "mixed"], check=True, timeout=WAIT)
    run(tmp_path / "mixed", CALLTRACE_OUTPUT=tmp_path / "log")
    return tmp_path / "log"


def test_they_stand_among_the_calls(mixed):
    told = [e.get("text", e.get("function")) for e in report(mixed) if e["type"] in ("call", "return", "probe")]
    assert told == ["main", "10 of 2", "leaf", "11 of 1", "leaf", "12 of 2", "main"]


def test_the_tables_count_them_and_no_place_is_made_up(mixed):
    ran = subprocess.run([WATCHCTL, "report", "--events", str(mixed)], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0 and "0x0" not in ran.stdout
    assert not any(line != line.rstrip() for line in ran.stdout.splitlines())
    assert re.search(r"probe  step  11 of 1$", ran.stdout, re.M)
    total, = [e for e in report(mixed, "--sites") if e["type"] == "probe_total"]
    assert {k: total[k] for k in total if k not in ("type", "pid")} == {"probe": "step", "tactic": "source", "count": 3, "recorded": 3, "threads": 1}


@pytest.mark.parametrize("form", ["chrome", "folded", "speedscope", "csv", "jsonl", "dot", "perf-script", "callgrind", "perfetto"])
def test_exports_have_them_or_leave_them_out(mixed, form):
    ran = subprocess.run([WATCHCTL, "export", str(mixed), "--to", form], capture_output=True, text=True,
                         errors="replace", timeout=WAIT)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "0x0" not in ran.stdout
    assert ("11 of 1" in ran.stdout.replace("_", " ")) == (form in ("chrome", "csv", "jsonl", "perf-script", "perfetto"))


def test_their_payloads_can_be_withheld(mixed):
    found = [e for e in report(mixed, "--no-values") if e["type"] == "probe"]
    assert [e["text"] for e in found] == ["(withheld) of (withheld)"] * 3


def test_the_page_has_them(mixed, tmp_path):
    ran = subprocess.run([WATCHCTL, "report", str(mixed), "--html", str(tmp_path / "page.html")], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0, ran.stderr
    assert "step" in (tmp_path / "page.html").read_text()
