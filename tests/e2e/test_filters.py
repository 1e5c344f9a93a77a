# rooms: engine/plan handler base
"""Filters: what passes is recorded, what does not is counted, and nothing else gets lost."""
import re
import time

import pytest
from conftest import wait_until


def values(w):
    return [int(a["new"], 16) for a in w.accesses]


def finish(w, v, *lines):
    for line in lines:
        v.tell(line)
    w.end()
    assert w.balanced()
    assert v.finish() == 0
    return w


@pytest.mark.parametrize("condition, passes", [
    ("new>=3", lambda old, new: new >= 3),
    ("new!=old && new&1", lambda old, new: new != old and new & 1),
    ("new in 2..4", lambda old, new: 2 <= new <= 4),
    ("new > old+0 || new==0", lambda old, new: new > old or new == 0),
    ("new < -1", lambda old, new: False),
    ("size==4", lambda old, new: True),
    ("size==8", lambda old, new: False),
])
def test_a_condition_lets_through_exactly_what_it_says(victim, watch, condition, passes):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--if", condition), v, "write 8", "write 8")
    written = list(range(8)) * 2
    pairs = zip([0] + written, written)
    assert values(w) == [new for old, new in pairs if passes(old, new)]
    assert w.summary()["filtered"] == 16 - len(w.accesses)
    assert w.of("armed")[0]["filter"] == condition


@pytest.mark.parametrize("engine", ["ring", "handler", "ptrace"])
@pytest.mark.parametrize("condition, passes", [
    ("$edi==5", lambda n: n == 5),
    ("$rdi in 2..4 || $edi == 7", lambda n: n in (2, 3, 4, 7)),
    ("$rdi==5 && new==6", lambda n: False),
    ("$rip > 0x1000", lambda n: True),
])
def test_registers_are_tested_where_the_hit_is(victim, watch, engine, condition, passes):
    """write_flag(i): its argument is still in rdi when flag has been written."""
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--engine", engine, "--if", condition), v, "write 8", "write 8")
    assert values(w) == [n for n in list(range(8)) * 2 if passes(n)]
    assert w.summary()["filtered"] == 16 - len(w.accesses)


def test_registers_are_the_arguments_of_an_execute_watch(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "write_flag", "-x", "--if", "$edi>=6"), v, "write 8")
    assert len(w.accesses) == 2 and w.summary()["filtered"] == 6


def test_changes_only(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--changes"), v, "same 10", "write 1", "same 10")
    assert values(w) == [5, 0, 5]
    assert w.summary()["filtered"] == 18


def test_a_condition_holds_in_all_threads_at_once(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--if", "new==7"), v, "write 1", "storm 40 20")
    assert len(w.accesses) == 40 and set(values(w)) == {7}
    assert w.summary()["counted"] == 801


@pytest.mark.parametrize("option, others, expected", [
    ("--caller", ["outer"], {"outer"}), ("--caller", ["inner"], {"inner"}), ("--not-caller", ["inner"], {"outer"}),
    ("--caller", ["outer", "inner"], {"outer", "inner"}), ("--not-caller", ["inner", "outer"], set()),
    ("--caller", ["main"], {"outer", "inner"}),
])
def test_callers_anywhere_in_the_stack(victim, watch, option, others, expected):
    v = victim("mover")
    options = [x for name in others for x in (option, name)]
    w = finish(watch("-p", v.pid, "-v", "flag", *options), v, "via outer 4", "via inner 6", "via outer 1")
    seen = [a["stack"][1]["function"] for a in w.accesses]
    assert set(seen) == expected
    assert len(seen) == sum({"outer": 5, "inner": 6}[name] for name in expected)


def test_a_thread_by_name_and_by_id(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--thread", v.pid), v, "write 3", "thread 5")
    assert len(w.accesses) == 3 and {a["tid"] for a in w.accesses} == {v.pid}
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--thread", "nobody"), v, "write 3", "thread 5")
    assert not w.accesses and w.summary()["filtered"] == 8
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--if", f'thread!={v.pid} and thread=="puppet"'), v, "write 3", "thread 5")
    assert len(w.accesses) == 5


def test_every_nth_of_those_that_pass(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--sample", 10), v, *["write 50"] * 2)
    assert len(w.accesses) == 10 and w.summary()["filtered"] == 90
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--if", "new&1", "--sample", 5), v, "write 50")
    # The first hits are decided by the controller, later than those after them: which ones differs, not how many.
    assert len(w.accesses) == 5 and all(value & 1 for value in values(w))


def test_a_rate_spreads_records_evenly(victim, watch):
    v = victim("puppet")
    begin, written = time.monotonic(), 0
    w = watch("-p", v.pid, "-v", "flag", "--rate", "20/s")

    def some_have_come():
        nonlocal written
        v.tell("write 20")
        written += 20
        return len(w.accesses) >= 6

    wait_until(some_have_come)
    w.end()
    # 50 ms or more are between two decisions, and all are made in this time; the records' own times are taken some time after them.
    assert len(w.accesses) <= 1 + (time.monotonic() - begin) / 0.05
    assert w.balanced() and w.summary()["counted"] == written and w.summary()["filtered"] > 0


def test_conditions_belong_to_their_watch(victim, watch):
    v = victim("puppet")
    w = finish(watch("-p", v.pid, "-v", "flag", "--if", "new==2", "-v", "v_colour", "--if", "new==BLUE",
                     "-v", "v_double", "--if", "new > 1e9", "-v", "v_char", "--if", "new=='z'"),
               v, "write 4", "types")
    assert sorted(a["watch"] for a in w.accesses) == ["flag", "v_colour", "v_double"]
    assert [s["filtered"] for s in w.of("summary")] == [3, 0, 0, 1]


def test_a_filter_is_kept_in_the_log(victim, watch, run, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    finish(watch("-p", v.pid, "-v", "flag", "--if", "new==2", "--caller", "main", "-o", log), v, "write 4")
    r = run("report", log)
    assert "where new==2, caller main" in r.stdout and "3 filtered" in r.stdout


@pytest.mark.parametrize("options, code, words", [
    (["--if", "new =="], 2, ["Expected a value", "\n        ^"]),
    (["--if", "neu == 1"], 2, ['Unknown name "neu"']),
    (["--if", "new == 1.5"], 2, ["Type mismatch", "int"]),
    (["--if", "new == 5000000000"], 2, ["Type mismatch", "2147483647"]),
    (["--if", "new==1", "--if", "new==2"], 2, ["twice"]),
    (["--caller", "no_such_function"], 5, ["no_such_function"]),
    (["--if", "$xmm1==1"], 2, ["Unknown register", "$rip"]),
    (["--caller", "write_flg"], 5, ["write_flag"]),
    (["--rate", "fast"], 2, ["--rate fast", "100/s"]),
    (["--sample", "0"], 2, ["--sample"]),
])
def test_a_bad_filter_is_refused_before_anything_is_touched(victim, run, before_and_after, options, code, words):
    v = victim("puppet")
    with before_and_after(v.pid):
        r = run("-p", v.pid, "-v", "flag", *options)
    assert r.returncode == code, r.stderr
    for word in words:
        assert word in r.stderr


def test_an_execute_watch_has_no_value_to_test(victim, run):
    v = victim("puppet")
    r = run("-p", v.pid, "-v", "write_flag", "-x", "--if", "new==1")
    assert r.returncode == 2 and "no value" in r.stderr
    r = run("-p", v.pid, "-v", "write_flag", "-x", "-s", "4")
    assert r.returncode == 2 and re.search("-s has no meaning", r.stderr)
