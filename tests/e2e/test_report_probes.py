# rooms: view/print view/event trace/rows
"""What probes record, from a log to everything that reads one: report, the exports, symbolize, snapshot, babeltrace2."""

import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log_reader  # noqa: E402
from conftest import BUILD, WAIT, WATCHCTL  # noqa: E402

NAME = 5
EVENTS = 120
SOURCE = r"""
int x, y;
__attribute__((noipa)) int take(int *p)
{
	for (int i = 0; i < 10; i++)
		__atomic_fetch_add(p, i, __ATOMIC_SEQ_CST);
	x += *p; y *= 3; x ^= y; y += x * 7; x |= 99; y ^= x * x; x += y * y + 13;
	y = x * 5 + y; x = y * 11 + x;
	return x + y;
}
int main(void) { return take(&x); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program, and the address of take() in it."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "app.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", "-o", folder / "app", folder / "app.c"], check=True,
                   timeout=WAIT)
    names = subprocess.run(["nm", folder / "app"], check=True, capture_output=True, text=True, timeout=WAIT).stdout
    return folder / "app", next(line.split()[0] for line in names.splitlines() if line.endswith(" take"))


@pytest.fixture
def probes(program, tmp_path):
    path, address = program
    subprocess.run([BUILD / "tests" / "bench" / "probelog-gen", "-n", str(EVENTS), "-b", path, "-f", "0x" + address,
                    tmp_path / "log"], check=True, timeout=WAIT)
    return tmp_path / "log"


def run(*args, status=0):
    r = subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return r.stdout if status == 0 else r.stderr


def objects(*args):
    return [json.loads(line) for line in run("report", "--json", *args).splitlines()]


def of_type(found, kind):
    return [o for o in found if o["type"] == kind]


def text_of(i):
    """What probelog-gen says of event number @i, if that is a text."""
    return "cas 0x7f0000001000: %d -> %d %s" % (-1 if i % 2 else 0, i, "(unreadable)" if i % 8 == 1 else "done")


def time_of(i):
    return 1000000 + 10 * i - (25 if i % 7 == 5 else 0)


IN_ORDER = sorted(range(EVENTS), key=lambda i: (time_of(i), i))


def test_json_has_every_event_in_the_order_of_times(probes, program):
    found = of_type(objects(probes), "probe")
    assert [o["time_ns"] for o in found] == [time_of(i) for i in IN_ORDER]
    for o, i in zip(found, IN_ORDER):
        assert (o["pid"], o["tid"], o["comm"]) == (77, 78 + i % 3, "worker")
        assert o["probe"] == ["on_cas", "on_cas", "on_len", "on_slow"][i % 4]
        assert (o["function"], o["offset"], o["module"]) == ("take", i % 4 * 16, str(program[0]))
        assert os.path.basename(o["file"]) == "app.c" and o["line"] > 0
        assert int(o["ip"], 16) == 0x555555554000 + int(program[1], 16) + i % 4 * 16
        assert ("text" in o, "value" in o, "tag" in o, "stack" in o) == (i % 4 < 2, i % 4 > 1, i % 4 == 3, i % 4 == 3)
        if "text" in o:
            assert o["text"] == text_of(i)
        else:
            assert int(o["value"], 16) == i
        if "stack" in o:
            assert o["tag"] == "slow" and o["stack_end"] == "complete"
            assert [f["ip"] for f in o["stack"]][0] == o["ip"] and len(o["stack"]) == 3


def test_json_has_sites_and_totals(probes):
    found = objects(probes)
    sites = of_type(found, "patch_site")
    assert [(s["probe"], s["tactic"], s["offset"]) for s in sites] == [
        ("on_cas", "jump", 0), ("on_cas", "pun", 16), ("on_len", "trap", 32), ("on_slow", "nop", 48),
        ("on_cas", "refused", 60)]
    assert sites[4]["reason"] == "a jump leads into the middle of the instruction"
    assert {s["insn"] for s in sites} == {"lock cmpxchg dword ptr [rdi], esi"}
    totals = {(t["probe"], t["offset"]): t for t in of_type(found, "probe_total")}
    assert len(totals) == 5
    for i, name in enumerate(["on_cas", "on_cas", "on_len", "on_slow"]):
        t = totals[(name, 16 * i)]
        assert (t["function"], t["count"], t["lost"], t["recorded"]) == ("take", 2 * EVENTS + i, 0 if i else 3, EVENTS // 4)
    summary, = of_type(found, "summary")
    assert (summary["of"], summary["recorded"], summary["lost"], summary["complete"]) == ("probes", EVENTS, 3, True)
    assert summary["reached"] == sum(t["count"] for t in totals.values())


def test_text_says_it_in_lines_and_a_table(probes):
    out = run("report", probes)
    assert out.count("  probe  ") == EVENTS and "access" not in out
    assert "  probe  on_cas  cas 0x7f0000001000: 0 -> 0 done" in out
    assert "tag slow, value 0x3 (3)" in out
    table = run("report", "--sites", probes)
    assert "  probe  " not in table
    rows = [line.split()[:5] for line in table.split("COUNT")[1].splitlines()[1:5]]
    assert rows == [["243", "0", "on_slow", "take+48", rows[0][4]], ["242", "0", "on_len", "take+32", rows[1][4]],
                    ["241", "0", "on_cas", "take+16", rows[2][4]], ["240", "3", "on_cas", "take", rows[3][4]]]
    assert "probes: reached 966 times: 120 recorded, 3 lost" in table
    assert run("report", "-n", "3", "--events", probes).count("  probe  ") == 3


def test_a_part_is_chosen_by_thread_time_function_probe_and_tag(probes):
    def numbers(*args):
        return [o["time_ns"] for o in of_type(objects(probes, *args), "probe")]

    assert numbers("--thread", "79") == [time_of(i) for i in IN_ORDER if i % 3 == 1]
    assert numbers("--watch", "on_len") == [time_of(i) for i in IN_ORDER if i % 4 == 2]
    assert numbers("--tag", "slow", "--events") == [time_of(i) for i in IN_ORDER if i % 4 == 3]
    assert len(numbers("--function", "ta*")) == EVENTS
    part = objects(probes, "--thread", "79")
    assert sum(t["count"] for t in of_type(part, "probe_total")) == EVENTS // 3
    assert not any("lost" in t for t in of_type(part, "probe_total"))
    assert "no probe is in a function" in run("report", "--function", "nowhere", probes, status=NAME)
    assert "on_cas, on_len, on_slow" in run("report", "--watch", "on_what", probes, status=NAME)
    assert "no tag" in run("report", "--tag", "what", probes, status=NAME)


def test_stacks_are_counted(probes):
    assert run("report", "--tag", "slow", probes).count("30  100.0%") == 1
    assert run("export", probes, "--to", "folded").strip().endswith(" 30")


def test_values_are_withheld(probes, tmp_path):
    for args in (["--no-values"], ["--redact", "on_len"]):
        found = of_type(objects(*args, probes), "probe")
        assert len(found) == EVENTS
        for o in found:
            assert o["withheld"] == ["values"] and "value" not in o
            assert o.get("text", "cas (withheld): (withheld) -> (withheld) (withheld)") \
                == "cas (withheld): (withheld) -> (withheld) (withheld)"
    run("snapshot", "--no-values", probes, tmp_path / "copy")
    assert b"done" in (probes / "events").read_bytes()
    assert b"done" not in (tmp_path / "copy" / "events").read_bytes()
    again = objects(tmp_path / "copy")
    assert [o["time_ns"] for o in of_type(again, "probe")] == [time_of(i) for i in IN_ORDER]
    assert all(o["withheld"] for o in of_type(again, "probe"))


def test_babeltrace2_and_another_reader_see_the_same(probes):
    seen = log_reader.check_against_babeltrace(probes)
    kinds = Counter(e.name for e in seen)
    assert (kinds["probe_site"], kinds["probe"], kinds["probe_total"]) == (5, EVENTS, 4)
    events = [e for e in seen if e.name == "probe"]
    assert [e.time_ns - e["before_ns"] for e in events] == [time_of(i) for i in range(EVENTS)]
    assert [e["arg"][-1 if e["kind"] == 2 else 0] for e in events if e["kind"] > 1] == \
        [i for i in range(EVENTS) if i % 4 > 1]
    assert kinds["stack"] == 1


def test_the_exports_have_the_events(probes):
    rows = list(csv.DictReader(io.StringIO(run("export", probes, "--to", "csv"), newline=""), strict=True))
    assert [r["text"] for r in rows] == [text_of(i) if i % 4 < 2 else "" for i in IN_ORDER]
    assert [int(r["value"] or "0", 16) for r in rows] == [i if i % 4 > 1 else 0 for i in IN_ORDER]
    assert {r["type"] for r in rows} == {"probe"} and {r["function"] for r in rows} == {"take"}
    trace = json.loads(run("export", probes, "--to", "chrome"))["traceEvents"]
    instants = [e for e in trace if e["ph"] == "i"]
    assert [e["args"]["text"] for e in instants if e["name"] == "probe on_cas"] == [text_of(i) for i in IN_ORDER if i % 4 < 2]
    lines = [json.loads(line) for line in run("export", probes, "--to", "jsonl").splitlines()]
    assert len(of_type(lines, "probe")) == EVENTS and len(of_type(lines, "probe_total")) == 4
    assert run("export", probes, "--to", "perf-script").count("watchctl:probe: probe=") == EVENTS
    scope = json.loads(run("export", probes, "--to", "speedscope"))
    assert [p["name"] for p in scope["profiles"]] == ["slow"]
    assert "tag slow" in run("export", probes, "--to", "dot")


def test_the_other_readers_take_it(probes, tmp_path):
    assert "120 events of probes" in run("snapshot", probes, tmp_path / "copy")
    assert json.loads(run("snapshot", "--json", probes, tmp_path / "copy2"))["probes"] == EVENTS
    run("report", "--html", tmp_path / "page.html", probes)
    page = (tmp_path / "page.html").read_text()
    assert '{"name":"on_cas","captures":60}' in page and '{"name":"slow","captures":30}' in page
    r = subprocess.run([WATCHCTL, "diff", probes, tmp_path / "copy"], capture_output=True, text=True, timeout=WAIT)
    assert "no call, access or capture" in r.stdout + r.stderr


def test_symbolize_keeps_the_names_of_the_places(probes, program):
    run("symbolize", "--module-path", f"{program[0]}={program[0]}", probes)
    os.rename(program[0], str(program[0]) + ".gone")
    try:
        found = objects(probes)
    finally:
        os.rename(str(program[0]) + ".gone", program[0])
    assert {o.get("function") for o in of_type(found, "probe") + of_type(found, "patch_site")} == {"take"}


@pytest.mark.parametrize("cut", [1, 40, 333, 2000])
def test_a_log_that_is_cut_or_damaged_is_told_as_far_as_it_goes(probes, cut):
    whole = (probes / "events").read_bytes()
    (probes / "events").write_bytes(whole[:-cut])
    run("report", probes, status=8)
    damaged = bytearray(whole)
    damaged[len(whole) - cut] ^= 0xff
    (probes / "events").write_bytes(damaged)
    run("report", "--json", probes, status=8)
