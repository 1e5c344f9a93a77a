# rooms: step cli/request
"""`watchctl step`: what the command line promises, on a program that says what it did."""
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import WAIT, WATCHCTL, Victim, ready


def step(log, *args, expect=0, program=None, stdin="", timeout=WAIT):
    command = [WATCHCTL, "step", *(["-o", str(log)] if log else []), *map(str, args)]
    r = subprocess.run([*command, *(["--", *map(str, program)] if program else [])], input=stdin, capture_output=True,
                       text=True, timeout=timeout)
    assert r.returncode == expect, (r.returncode, r.stderr)
    return r


def events(log, *args):
    r = subprocess.run([WATCHCTL, "report", "--json", "--events", *args, str(log)], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def of(objects, kind):
    return [o for o in objects if o["type"] == kind]


def arg(call, name):
    return next(a for a in call["args"] if a["name"] == name)


@pytest.fixture
def requests(build):
    return build("requests")


def account(stdout, name):
    return [line.split(None, 1)[1] for line in stdout.splitlines() if line.startswith(name + " ")]


def test_calls_have_the_parameters_and_results_that_the_program_says(requests, tmp_path):
    r = step(tmp_path / "log", "--from", "handle", "--count", "0", program=[requests, 4])
    seen = events(tmp_path / "log")
    calls = {c["call"]: c for c in of(seen, "call")}
    results = {x["call"]: x for x in of(seen, "return")}
    parsed = [(arg(c, "text"), arg(c, "len")["value"], int(results[n]["ret"]["text"])) for n, c in calls.items()
              if c["function"].startswith("parse_request")]
    said = account(r.stdout, "parse_request")
    assert len(parsed) == len(said) == 4
    for (text, length, result), line in zip(parsed, said):
        want = re.match(r'"(.*)" (\d+) -> (\d+)', line)
        assert text["string"] == want.group(1)
        assert int(length, 16) == int(want.group(2))
        assert result == int(want.group(3))
    looked = [(c, results[n]) for n, c in calls.items() if c["function"].startswith("look_up")]
    for (call, result), line in zip(looked, account(r.stdout, "look_up")):
        number, factor, value = re.match(r"(\d+) (\S+) -> (-?\d+)", line).groups()
        assert float(arg(call, "factor")["text"]) == float(factor)
        assert result["ret"]["text"] == value


def test_a_failed_call_of_the_system_has_its_errno(requests, tmp_path):
    r = step(tmp_path / "log", "--from", "handle", program=[requests, 1])
    seen = events(tmp_path / "log")
    opens = [c["call"] for c in of(seen, "call") if c["function"].startswith("open")]
    back = [x for x in of(seen, "return") if x["call"] in opens]
    assert len(back) == 1
    assert account(r.stdout, "open") == ["-> -1 2"]
    assert back[0]["errno"] in (2, "ENOENT")


def test_stacks_of_calls_lead_to_main(requests, tmp_path):
    step(tmp_path / "log", "--from", "handle", program=[requests, 1])
    call = next(c for c in of(events(tmp_path / "log"), "call") if c["function"].startswith("look_up"))
    names = [f.get("function", "?").split("(")[0] for f in call["stack"]]
    assert names[:2] == ["handle", "main"]


@pytest.mark.parametrize("occurrence,count,numbers", [(1, 1, [0]), (3, 1, [2]), (2, 2, [1, 2]), (4, 0, [3, 4])])
def test_occurrences_are_counted_and_chosen(requests, tmp_path, occurrence, count, numbers):
    step(tmp_path / "log", "--from", "handle", "--occurrence", occurrence, "--count", count, program=[requests, 5])
    calls = [c for c in of(events(tmp_path / "log"), "call") if c["function"].startswith("handle")]
    assert [int(arg(c, "number")["text"]) for c in calls] == numbers


def test_a_range_ends_where_its_end_is_reached(requests, tmp_path):
    step(tmp_path / "log", "--from", "parse_request", "--to", "send_reply", program=[requests, 2])
    names = [c["function"].split("(")[0] for c in of(events(tmp_path / "log"), "call")]
    assert names[0] == "parse_request" and "look_up" in names and "handle" not in names


def test_a_running_process_is_recorded_and_runs_on(requests, tmp_path):
    v = Victim(requests, 3, "wait")
    p = ready(WATCHCTL, "step", "-p", v.pid, "--from", "handle", "--count", "2", "-o", tmp_path / "log", "--verbose",
              stderr=subprocess.PIPE, text=True)
    v.send("go")
    assert p.wait(timeout=WAIT) == 0, p.stderr.read()
    rest = v.process.stdout.read()
    assert v.finish() == 0
    assert len(account(rest, "handle")) == 3
    calls = [c for c in of(events(tmp_path / "log"), "call") if c["function"].startswith("handle")]
    assert [int(arg(c, "number")["text"]) for c in calls] == [0, 1]


@pytest.mark.slow
def test_a_run_that_hangs_says_where_each_thread_stands(requests, tmp_path):
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, "step", "--from", "handle", "--count", "0", "--stuck-after", "3s", "-o", str(log), "--",
                          requests, "3", "hang", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline().split()[1])
    try:
        assert p.wait(timeout=WAIT) == 0, p.stderr.read()
        stood = of(events(log), "stood")
        assert len(stood) == 1
        names = [f.get("function", "?").split("(")[0] for f in stood[0]["stack"]]
        assert "look_up" in names and "pause" in " ".join(names)
    finally:
        os.kill(pid, 9)


@pytest.mark.slow
def test_a_run_that_hangs_says_so_of_a_thread_that_hardly_gets_the_cpu(requests, tmp_path):
    """It cannot stop before it does."""
    log = tmp_path / "log"
    p = subprocess.Popen([WATCHCTL, "step", "--from", "handle", "--count", "0", "--stuck-after", "2s", "-o", str(log), "--",
                          requests, "3", "hang", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline().split()[1])
    others = []
    try:
        for _ in range(2):
            while not p.stdout.readline().startswith("open"):
                pass
        os.sched_setaffinity(pid, {0})
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        for _ in range(4):
            others.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            os.sched_setaffinity(others[-1].pid, {0})
        assert p.wait(timeout=WAIT) == 0, p.stderr.read()
        assert len(of(events(log), "stood")) == 1
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.kill(pid, 9)


def test_only_and_depth_record_less(requests, tmp_path):
    step(tmp_path / "a", "--only", "look_*", program=[requests, 2])
    names = {c["function"].split("(")[0] for c in of(events(tmp_path / "a"), "call")}
    assert "look_up" in names and "handle" not in names and "open" in names
    step(tmp_path / "b", "--from", "handle", "--depth", 1, program=[requests, 2])
    names = {c["function"].split("(")[0] for c in of(events(tmp_path / "b"), "call")}
    assert names == {"handle"}


@pytest.mark.parametrize("stepper", ["ptrace", "patch", "lldb"])
def test_skip_leaves_functions_alone_and_records_what_they_call(requests, tmp_path, stepper):
    r = step(tmp_path / "log", "--from", "handle", "--count", "0", "--skip", "look_*", "--stepper", stepper,
             program=[requests, 2])
    calls = of(events(tmp_path / "log"), "call")
    names = [c["function"].split("(")[0] for c in calls]
    assert len(account(r.stdout, "look_up")) == 2 and "look_up" not in names
    assert names.count("open") == 2
    handles = {c["call"] for c in calls if c["function"].startswith("handle")}
    assert len(handles) == 2 and {c["parent"] for c in calls if c["function"].startswith("open")} == handles


@pytest.mark.parametrize("functions, more", [(20, None), (21, "1 more function is not shown"), (40, "20 more functions are not shown")])
def test_the_functions_with_most_calls_are_listed(tmp_path, functions, more):
    """Function i is called so often, and the most-called ones come last in the program."""
    names = [f"called_{i:02}" for i in range(functions - 1)]
    lines = [f"__attribute__((noipa)) int {n}(int x) {{ return x + {i}; }}\n" for i, n in enumerate(names)]
    calls = "".join(f"    for (int i = 0; i < {i // 2 + 2}; i++) s += {n}(i);\n" for i, n in enumerate(names))
    (tmp_path / "many.c").write_text("".join(lines) + f"int main(void)\n{{\n    int s = 0;\n{calls}    return s == 1;\n}}\n")
    subprocess.run(["gcc", "-g", "-O1", "-o", tmp_path / "many", tmp_path / "many.c"], check=True)
    text = [WATCHCTL, "step", "--from", "main", "-q", "--output", tmp_path / "out", "--", tmp_path / "many"]
    subprocess.run(text, check=True, timeout=WAIT)
    out = (tmp_path / "out").read_text()
    by_calls = sorted([(-(i // 2 + 2), n) for i, n in enumerate(names)] + [(-1, "main")])
    assert [(-int(c), n) for c, n in re.findall(r"^ *(\d+)  (called_\d+|main) ", out, re.M)] == by_calls[:20]
    assert f"of {functions} functions" in out
    assert re.findall(r"\d+ more function.* shown", out) == ([more] if more else [])
    subprocess.run([*text[:-2], "--json", *text[-2:]], check=True, timeout=WAIT)
    rows = of([json.loads(line) for line in (tmp_path / "out").read_text().splitlines()], "function_total")
    assert {r["function"] for r in rows} == {*names, "main"}


def test_movers_record_the_same(requests, tmp_path):
    told = {}
    for how in (["--stepper", "ptrace"], ["--stepper", "lldb"], ["--stepper", "ptrace", "--every-instruction"],
                ["--mover", "ptrace"]):
        log = tmp_path / "-".join(how)
        step(log, "--from", "handle", "--count", "0", *how, program=[requests, 3], timeout=2 * WAIT)
        seen = events(log, "--no-stack")
        told[" ".join(how)] = [(e["type"], e["function"], json.dumps([a.get("string") if "*" in a["type"] else a["text"] for a in e.get("args", [])]),
                                "" if "*" in e.get("ret", {}).get("type", "*") else e["ret"]["text"], e.get("how"))
                               for e in seen if e["type"] in ("call", "return")]
    first = next(iter(told.values()))
    assert len(first) > 20
    for how, calls in told.items():
        assert calls == first, how


def test_every_instruction_is_recorded_when_asked_for(requests, tmp_path):
    step(tmp_path / "log", "--from", "look_up", "--every-instruction", program=[requests, 1])
    seen = events(tmp_path / "log")
    assert len(of(seen, "step")) > 20


def test_the_range_of_a_watch_log(requests, hardware, tmp_path):
    watch, log = tmp_path / "watch", tmp_path / "log"
    r = subprocess.run([WATCHCTL, "-v", "hang_at", "-r", "-o", str(watch), "--", requests, "2"], capture_output=True,
                       text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    r = step(log, "--from-watch", watch, program=[requests, 2])
    assert "handle" in r.stderr
    calls = [c["function"].split("(")[0] for c in of(events(log), "call")]
    assert calls[0] == "handle"


def test_the_program_is_not_disturbed(requests, tmp_path):
    plain = subprocess.run([requests, "50"], capture_output=True, text=True, timeout=WAIT).stdout
    stepped = step(tmp_path / "log", program=[requests, 50]).stdout
    assert stepped.splitlines()[1:] == plain.splitlines()[1:]


# Bad input


@pytest.mark.parametrize("args,code,words", [
    ([], 2, "-p PID"),
    (["-p", "1", "--", "/bin/true"], 2, "give one of them"),
    (["-p", "0"], 2, "-p"),
    (["--stuck-after", "soon", "--", "/bin/true"], 2, "500ms"),
    (["--threads", "some", "--", "/bin/true"], 2, "all"),
    (["--stepper", "gdb", "--", "/bin/true"], 2, "lldb"),
    (["--echo", "--", "/bin/true"], 2, "-o LOG"),
    (["--from", "f", "--from-watch", "x", "--", "/bin/true"], 2, "give one"),
    (["--", "/nonexistent/program"], 2, "cannot run"),
    (["-p", "4194303"], 3, "no process"),
])
def test_wrong_usage_is_told_in_a_sentence(args, code, words):
    r = subprocess.run([WATCHCTL, "step", *args], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == code, r.stderr
    assert words in r.stderr and r.stderr.count("\n") == 1


def test_an_unknown_function_offers_near_ones_and_leaves_no_log(requests, tmp_path):
    r = step(tmp_path / "log", "--from", "look_upp", program=[requests, 1], expect=5)
    assert "look_up" in r.stderr
    assert not (tmp_path / "log").exists()


def test_a_range_that_is_never_entered_says_how_often_its_ends_were_seen(requests, tmp_path):
    r = step(tmp_path / "log", "--from", "handle", "--to", "send_reply", program=[requests, 0], expect=3)
    assert "handle was reached 0 times" in r.stderr and "send_reply 0 times" in r.stderr


def test_an_end_that_is_never_reached_is_told(requests, tmp_path):
    r = step(tmp_path / "log", "--from", "look_up", "--to", "parse_request", program=[requests, 1])
    assert "parse_request was never reached" in r.stderr


def test_a_log_that_exists_is_not_touched(requests, tmp_path):
    (tmp_path / "log").mkdir()
    step(tmp_path / "log", program=[requests, 1], expect=8)
    assert not list((tmp_path / "log").iterdir())


@pytest.mark.parametrize("given", ["0", "-1s", "502444448m", "1e30", "nan", "5 parsecs"])
def test_a_time_that_is_none_is_refused(tmp_path, given):
    r = subprocess.run([WATCHCTL, "step", "--stuck-after", given, "-o", str(tmp_path / "log"), "--", "true"], capture_output=True, text=True)
    assert r.returncode == 2 and "--stuck-after" in r.stderr, r.stderr
