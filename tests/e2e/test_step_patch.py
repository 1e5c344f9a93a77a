# rooms: step patch monitor/calls
"""`watchctl step --stepper patch`: the same recordings as with breakpoints, made by the functions themselves."""
import re
import subprocess

import pytest
from conftest import VICTIMS, WAIT, WATCHCTL, Victim, ready
from test_step import account, arg, events, of, requests, step  # noqa: F401 (requests is a fixture)
from test_step_shapes import judge, objects, program, record, told_by  # noqa: F401

PATCH = ("--stepper", "patch")
WITHOUT_INPUTS = ("--no-inputs",)

# Not among them: cancelled threads, whose end no function shows; coroutines and handlers of exit() that end in another module's function, after
# which nothing of the program runs; a library that is loaded meanwhile.
C_SHAPES = ["tail", "recursion", "signals", "library", "callbacks", "forks", "jumps", "handler_jumps", "values"]
CPP_SHAPES = ["virtuals", "exceptions", "library"]


@pytest.mark.parametrize("shape", C_SHAPES)
def test_calls_in_c_are_as_the_program_says(program, tmp_path, shape):  # noqa: F811
    text = record(program, tmp_path / "log", "step_shapes", shape, *PATCH)
    judge(text, objects(tmp_path / "log"))


@pytest.mark.parametrize("shape", CPP_SHAPES)
def test_calls_in_cpp_are_as_the_program_says(program, tmp_path, shape):  # noqa: F811
    text = record(program, tmp_path / "log", "step_shapes_cpp", shape, *PATCH)
    judge(text, objects(tmp_path / "log"))


@pytest.mark.parametrize("how", ["step_shapes_lazy", "step_shapes_nopie"])
@pytest.mark.parametrize("shape", ["library", "callbacks", "jumps", "signals", "values"])
def test_however_it_was_built(program, tmp_path, shape, how):  # noqa: F811
    text = record(program, tmp_path / "log", how, shape, *PATCH)
    judge(text, objects(tmp_path / "log"))


@pytest.mark.parametrize("name, shape", [("step_shapes", s) for s in ("tail", "recursion", "library", "callbacks", "jumps", "values")] +
                         [("step_shapes_cpp", s) for s in CPP_SHAPES])
def test_both_steppers_tell_the_same(program, tmp_path, name, shape):  # noqa: F811
    record(program, tmp_path / "ptrace", name, shape)
    record(program, tmp_path / "patch", name, shape, *PATCH)
    assert told_by(tmp_path / "ptrace") == told_by(tmp_path / "patch")


PLANS = {"c": ("plan_c.c", "gcc"), "cpp": ("plan_cpp.cc", "g++")}


@pytest.mark.parametrize("language", PLANS)
def test_diff_sees_no_difference_between_the_logs_of_both_steppers(tmp_path, language):
    """Every way in which parameters and results are passed, by values, nested structs and what pointers point to."""
    source, compiler = PLANS[language]
    subprocess.run([compiler, "-O2", "-g", "-o", str(tmp_path / "p"), str(VICTIMS / source), "-lm"], check=True, timeout=WAIT)
    for how in "ptrace", "patch":
        step(tmp_path / how, "-q", "--stepper", how, *WITHOUT_INPUTS, program=[tmp_path / "p"])
    r = subprocess.run([WATCHCTL, "diff", str(tmp_path / "ptrace"), str(tmp_path / "patch")], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode == 0, r.stdout
    agree = re.search(r"0 differences: .* (\d+) calls agree", r.stdout)
    assert agree and int(agree.group(1)) > 400, r.stdout


# The range


@pytest.mark.parametrize("occurrence,count,numbers", [(1, 1, [0]), (3, 1, [2]), (2, 2, [1, 2]), (4, 0, [3, 4])])
def test_occurrences_are_counted_and_chosen(requests, tmp_path, occurrence, count, numbers):  # noqa: F811
    step(tmp_path / "log", *PATCH, "--from", "handle", "--occurrence", occurrence, "--count", count, program=[requests, 5])
    seen = events(tmp_path / "log")
    calls = [c for c in of(seen, "call") if c["function"].startswith("handle")]
    assert [int(arg(c, "number")["text"]) for c in calls] == numbers
    assert [r["what"] for r in of(seen, "range")] == ["begin", "returned"] * len(numbers)


def test_a_range_ends_where_its_end_is_reached(requests, tmp_path):  # noqa: F811
    step(tmp_path / "log", *PATCH, "--from", "parse_request", "--to", "send_reply", program=[requests, 2])
    names = [c["function"].split("(")[0] for c in of(events(tmp_path / "log"), "call")]
    assert names[0] == "parse_request" and "look_up" in names and "handle" not in names


def test_a_range_begins_at_a_line(requests, tmp_path):  # noqa: F811
    """No function begins there."""
    source = (VICTIMS / "requests.c").read_text().splitlines()
    line = next(i for i, text in enumerate(source, 1) if "send_reply(" in text and text.strip().endswith(";"))
    step(tmp_path / "log", *PATCH, "--from", f"requests.c:{line}", "--to", "send_reply", "--count", "0", program=[requests, 2])
    seen = events(tmp_path / "log")
    assert [r["what"] for r in of(seen, "range")] == ["begin", "reached"] * 2
    assert not [c for c in of(seen, "call") if c["function"].startswith("handle")]


def test_only_and_depth_record_less(requests, tmp_path):  # noqa: F811
    step(tmp_path / "a", *PATCH, "--only", "look_*", program=[requests, 2])
    names = {c["function"].split("(")[0] for c in of(events(tmp_path / "a"), "call")}
    assert "look_up" in names and "handle" not in names and "open" in names
    step(tmp_path / "b", *PATCH, "--from", "handle", "--depth", 1, program=[requests, 2])
    names = {c["function"].split("(")[0] for c in of(events(tmp_path / "b"), "call")}
    assert names == {"handle"}


def test_an_occurrence_is_cut_short_after_so_many_calls(requests, tmp_path):  # noqa: F811
    step(tmp_path / "log", *PATCH, "--events", 7, program=[requests, 3])
    seen = events(tmp_path / "log")
    assert len(of(seen, "call")) == 7
    assert [r["what"] for r in of(seen, "range")] == ["begin", "limit"]
    assert len(of(seen, "return")) == 7


def test_a_running_process_is_recorded_and_runs_on(requests, tmp_path):  # noqa: F811
    v = Victim(requests, 3, "wait")
    p = ready(WATCHCTL, "step", *PATCH, "-p", v.pid, "--from", "handle", "--count", "2", "-o", tmp_path / "log", "--verbose",
              stderr=subprocess.PIPE, text=True)
    v.send("go")
    assert p.wait(timeout=WAIT) == 0, p.stderr.read()
    rest = v.process.stdout.read()
    assert v.finish() == 0
    assert len(account(rest, "handle")) == 3
    calls = [c for c in of(events(tmp_path / "log"), "call") if c["function"].startswith("handle")]
    assert [int(arg(c, "number")["text"]) for c in calls] == [0, 1]


def test_an_end_that_is_never_reached_is_told(requests, tmp_path):  # noqa: F811
    r = step(tmp_path / "log", *PATCH, "--from", "look_up", "--to", "parse_request", program=[requests, 1])
    assert "parse_request was never reached" in r.stderr


def test_a_range_that_is_never_entered_says_how_often_its_ends_were_seen(requests, tmp_path):  # noqa: F811
    r = step(tmp_path / "log", *PATCH, "--from", "handle", "--to", "send_reply", program=[requests, 0], expect=3)
    assert "handle was reached 0 times" in r.stderr and "send_reply 0 times" in r.stderr


# The rest


def test_the_program_is_not_disturbed(requests, tmp_path):  # noqa: F811
    plain = subprocess.run([requests, "50"], capture_output=True, text=True, timeout=WAIT).stdout
    stepped = step(tmp_path / "log", *PATCH, program=[requests, 50]).stdout
    assert stepped.splitlines()[1:] == plain.splitlines()[1:]


def test_values_are_withheld_where_that_is_asked_for(requests, tmp_path):  # noqa: F811
    step(tmp_path / "log", *PATCH, "--no-values", program=[requests, 1])
    calls = [c for c in of(events(tmp_path / "log"), "call") if c["function"].startswith("parse_request")]
    assert calls and not any("string" in a or "value" in a for c in calls for a in c["args"])


def test_inputs_are_those_of_the_start(requests, tmp_path):  # noqa: F811
    step(tmp_path / "log", *PATCH, program=[requests, 1])
    seen = events(tmp_path / "log")
    assert of(seen, "recording")[0]["mover"] == "patch"
    assert {i["kind"] for i in of(seen, "input")} == {"directory", "arguments", "environment"}


def test_libraries_that_are_loaded_meanwhile_are_told(program, tmp_path):  # noqa: F811
    """Their functions are not recorded from the first call on."""
    record(program, tmp_path / "log", "step_shapes", "plugin", *PATCH)
    assert any("dlopen" in n["text"] for n in of(objects(tmp_path / "log"), "note"))


@pytest.mark.parametrize("args, words", [
    (["--every-instruction"], "no single instructions"),
    (["--stuck-after", "1s"], "--stuck-after goes with --stepper ptrace"),
    (["--threads", "range"], "--threads range goes with --stepper ptrace"),
])
def test_what_only_breakpoints_can_do_is_refused(args, words):
    r = subprocess.run([WATCHCTL, "step", *PATCH, *args, "--", "/bin/true"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 2, r.stderr
    assert words in r.stderr and r.stderr.count("\n") == 1


def test_an_unknown_function_offers_near_ones_and_leaves_no_log(requests, tmp_path):  # noqa: F811
    r = step(tmp_path / "log", *PATCH, "--from", "look_upp", program=[requests, 1], expect=5)
    assert "look_up" in r.stderr
    assert not (tmp_path / "log").exists()
