# rooms: monitor/calls patch cli/trace trace/calls probe/calls
"""`watchctl trace`: every call of running programs, against the accounts that they give of themselves, and with nothing of theirs harmed."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from as_found import code_of  # noqa: E402
from conftest import WAIT, WATCHCTL  # noqa: E402
from test_step_shapes import C_SHAPES, CPP_SHAPES, account, logged, objects, program  # noqa: E402, F401



def trace(*words, status=0):
    done = subprocess.run([WATCHCTL, "trace", *map(str, words)], capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    return done


def counts(said):
    """What the last line says of calls."""
    called, recorded, lost, off = map(int, re.search(r"(\d+) calls?: (\d+) recorded, (\d+) lost, (\d+) of", said).groups())
    assert called == recorded + lost + off
    return called, recorded, lost, off


# Calls and how they end


# Functions whose end may not be seen: they end in a jump to what is not traced, or their return cannot be patched.
UNSEEN = ["at_end", "Guard::~Guard", "quiet_call"]


def ended_so(got, want, name):
    return got == want or (got == "unknown" and name in UNSEEN)


def judge(text, seen):
    said = account(text)
    assert said
    told = logged(seen, {c.name for calls in said.values() for c in calls})
    assert set(told) == set(said)
    for tid, want in said.items():
        got = told[tid]
        assert [c.name for c in got] == [c.name for c in want]
        for w, g in zip(want, got):
            assert g.end and (w.end is None or ended_so(g.end[0], w.end[0], w.name)), (w, g)


@pytest.mark.parametrize("shape", [s for s in C_SHAPES if s != "plugin"])
def test_calls_in_c_are_as_the_program_says(program, tmp_path, shape):  # noqa: F811
    done = trace("-o", tmp_path / "log", "--", program("step_shapes"), shape)
    judge(done.stdout, objects(tmp_path / "log"))
    assert counts(done.stderr)[2:] == (0, 0)


@pytest.mark.parametrize("shape", CPP_SHAPES)
def test_calls_in_cpp_are_as_the_program_says(program, tmp_path, shape):  # noqa: F811
    done = trace("-o", tmp_path / "log", "--", program("step_shapes_cpp"), shape)
    judge(done.stdout, objects(tmp_path / "log"))


@pytest.mark.parametrize("how", ["step_shapes_O0", "step_shapes_lazy", "step_shapes_nopie"])
@pytest.mark.parametrize("shape", ["library", "callbacks", "jumps", "signals", "threads", "values"])
def test_however_it_was_built(program, tmp_path, shape, how):  # noqa: F811
    done = trace("-o", tmp_path / "log", "--", program(how), shape)
    judge(done.stdout, objects(tmp_path / "log"))


def test_a_forked_child_is_left_alone(program, tmp_path):  # noqa: F811
    trace("-o", tmp_path / "log", "--", program("step_shapes"), "forks")
    names = {o.get("function") for o in objects(tmp_path / "log") if o["type"] == "call"}
    assert "in_parent" in names and "in_child" not in names


def test_signal_handlers_and_tail_calls_are_marked(program, tmp_path):  # noqa: F811
    for shape in "tail", "signals":
        trace("-o", tmp_path / shape, "--", program("step_shapes"), shape)
    calls = [o for o in objects(tmp_path / "signals") if o["type"] == "call" and o["function"] == "on_signal"]
    assert calls and all(o["signal_handler"] for o in calls)
    calls = [o for o in objects(tmp_path / "tail") if o["type"] == "call"]
    tails = {o["function"] for o in calls if o.get("tail")}
    assert {"tail_middle", "tail_last"} <= tails and "tail_first" not in tails


# Counts


def said_by(program_output):
    return {name: int(n) for name, n in re.findall(r"^(\w+) (\d+)$", program_output, re.M)}


def told_by(log):
    return Counter(o.get("function") for o in objects(log) if o["type"] == "call")


@pytest.mark.parametrize("name", ["traced", "traced_static_pie", "traced_musl", "traced_cet"])
def test_every_call_is_recorded_as_often_as_the_program_counts_it(build, tmp_path, name):
    done = trace("--max-rate", 0, "-o", tmp_path / "log", "--function", "*_*", "--function", "[elr]*", "--not", "_*", "--", build(name), 500, 4)
    said, told = said_by(done.stdout), told_by(tmp_path / "log")
    assert said["leaf"] == 3200
    assert {n: told[n] for n in said} == said
    assert counts(done.stderr)[2:] == (0, 0)


@pytest.mark.parametrize("options, threads, calls", [(["--max-rate", 0], 1000, 50), (["--max-rate", 0, "--buffer", "64K"], 40, 5000), (["--max-rate", 500], 40, 5000)])
def test_no_call_escapes_while_threads_come_and_go_and_signals_interrupt_them(build, tmp_path, options, threads, calls):
    words = [w for f in ("counted", "handled", "outer") for w in ("--function", f)]
    done = trace(*options, *words, "-o", tmp_path / "log", "--", build("trace_churn"), threads, calls)
    said, told = said_by(done.stdout), told_by(tmp_path / "log")
    called, recorded, lost, off = counts(done.stderr)
    assert said["outer"] == threads * calls and said["counted"] == 2 * said["outer"] + 3 * said["handled"]
    assert called == sum(said.values()) and recorded == sum(told.values())
    if options == ["--max-rate", 0] and not lost:
        assert told == said
        ends = {o["how"] for o in objects(tmp_path / "log") if o["type"] == "return"}
        assert ends == {"returned"}
    assert bool(off) == ("500" in map(str, options))


def test_functions_without_names_are_told_by_their_place(build, tmp_path):
    """
    The unstripped program, made of the same source, has the names of the places. A function that is only ever jumped to cannot be told
    from a part of another one that was split off, and one that has no unwind information is not found.
    """
    done = trace("--max-rate", 0, "-o", tmp_path / "log", "--", build("traced_stripped"), 500, 1)
    calls = Counter(int(o["module_offset"], 16) for o in objects(tmp_path / "log") if o["type"] == "call")
    symbols = subprocess.run(["nm", build("traced")], capture_output=True, text=True, check=True).stdout
    at = {name: int(addr, 16) for addr, name in re.findall(r"^(\w+) [tT] (\w+)$", symbols, re.M)}
    said = said_by(done.stdout)
    called = ["leaf", "recurses", "is_even", "tail_from", "many_ends", "red_zone", "one_round"]
    assert {n: calls[at[n]] for n in called} == {n: said[n] for n in called}


def test_arguments_and_results_are_those_of_the_calls(build, tmp_path):
    trace("--args", "-o", tmp_path / "log", "--function", "tail_to", "--function", "leaf", "--", build("traced"), 50, 1)
    seen = objects(tmp_path / "log")
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    calls = [o for o in seen if o["type"] == "call" and o["function"] == "tail_to"]
    assert [int(o["args"][0]["value"], 16) & 0xffffffff for o in calls] == [2 * i for i in range(50)]
    assert [int(ends[o["call"]]["ret"]["value"], 16) & 0xffffffff for o in calls] == [2 * i + 7 for i in range(50)]


def test_a_function_that_is_too_hot_is_switched_off_and_counted(build, tmp_path):
    done = trace("--max-rate", 1000, "-o", tmp_path / "log", "--", build("traced"), 2000, 2)
    said, told = said_by(done.stdout), told_by(tmp_path / "log")
    called, recorded, lost, off = counts(done.stderr)
    assert lost == 0 and off > 0 and recorded == sum(told.values())
    assert called == sum(said.values()) + sum(n for name, n in told.items() if name not in said)
    for name, n in told.items():
        if name in said:
            assert 900 <= n <= 1100 or name == "loops", (name, n)
    notes = [o["text"] for o in objects(tmp_path / "log") if o["type"] == "note"]
    assert any(re.match(rf"leaf was called so often .*: {said['leaf'] - told['leaf']} of", n) for n in notes)


def test_what_finds_no_room_is_counted(build, tmp_path):
    done = trace("--max-rate", 0, "--buffer", "64K", "-o", tmp_path / "log", "--", build("traced"), 5000, 2)
    said = said_by(done.stdout)
    called, recorded, lost, off = counts(done.stderr)
    assert lost > 0 and off == 0 and recorded == sum(told_by(tmp_path / "log").values())
    assert called >= sum(said.values())
    assert [o["count"] for o in objects(tmp_path / "log") if o["type"] == "lost"] == [lost]


def test_it_ends_after_so_many_calls(build, tmp_path):
    trace("-n", 100, "-o", tmp_path / "log", "--", build("traced"), 1000, 2)
    assert sum(told_by(tmp_path / "log").values()) == 100


def test_callgrind_counts_the_same(build, tmp_path):
    out = tmp_path / "callgrind"
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no", "--separate-threads=no", build("traced"), "200", "1"],
                   check=True, capture_output=True, timeout=WAIT)
    counted, callee = Counter(), None
    for line in out.read_text().splitlines():
        if line.startswith("cfn="):
            callee = re.sub(r"'\d+$", "", line[4:])  # a level of recursion
        elif line.startswith("calls="):
            counted[callee] += int(line[6:].split()[0])
    trace("--max-rate", 0, "-o", tmp_path / "log", "--", build("traced"), 200, 1)
    told = told_by(tmp_path / "log")
    names = ["leaf", "recurses", "is_odd", "is_even", "tail_from", "tail_to", "many_ends", "red_zone", "one_round", "works", "main"]
    assert {n: told[n] for n in names} == {n: counted[n] for n in names}


# Other commands


def test_two_runs_do_not_differ(build, tmp_path):
    for log in "a", "b":
        trace("--max-rate", 0, "-o", tmp_path / log, "--", build("traced"), 100, 1)
    done = subprocess.run([WATCHCTL, "diff", tmp_path / "a", tmp_path / "b"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0 and "0 differences" in done.stdout, done.stdout + done.stderr


def test_the_table_by_function_adds_up_what_the_events_say(build, tmp_path):
    trace("-o", tmp_path / "log", "--", build("traced"), 300, 2)
    seen, calls, inside = objects(tmp_path / "log"), {}, Counter()
    lasted, alone = {}, Counter()
    for o in seen:
        if o["type"] == "call":
            calls[o["call"]] = o
        elif o["type"] == "return":
            c = calls[o["call"]]
            inside[c.get("parent")] += o["duration_ns"]
            if o["how"] == "returned":
                lasted.setdefault(c["function"], []).append(o["duration_ns"])
                alone[c["function"]] += o["duration_ns"] - inside[o["call"]]
    done = subprocess.run([WATCHCTL, "report", "--json", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT, check=True)
    rows = {o["function"]: o for o in map(json.loads, done.stdout.splitlines()) if o["type"] == "function_total"}
    assert set(lasted) == {f for f, o in rows.items() if o["timed"]}
    for f, ns in lasted.items():
        row, rank = rows[f], sorted(ns)[len(ns) - 1 - len(ns) // 100]
        assert (row["timed"], row["total_ns"], row["max_ns"], row["self_ns"]) == (len(ns), sum(ns), max(ns), alone[f]), f
        assert rank <= row["p99_ns"] <= max(rank * 1.07, rank + 1), (f, rank, row)


def test_chrome_gets_balanced_calls(build, tmp_path):
    trace("-o", tmp_path / "log", "--", build("traced"), 50, 2)
    subprocess.run([WATCHCTL, "export", tmp_path / "log", "--to", "chrome", "-o", tmp_path / "out.json"], check=True, timeout=WAIT)
    open_calls = Counter()
    for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"]:
        open_calls[e["tid"]] += {"B": 1, "E": -1}.get(e["ph"], 0)
        assert open_calls[e["tid"]] >= 0
    assert set(open_calls.values()) == {0}


def test_babeltrace_reads_the_log(build, tmp_path):
    trace("-o", tmp_path / "log", "--", build("traced"), 20, 1)
    shown = subprocess.run(["babeltrace2", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT)
    assert shown.returncode == 0 and len(re.findall(r"\bentry: ", shown.stdout)) == sum(told_by(tmp_path / "log").values())


# The program is not harmed


@pytest.mark.slow
def test_its_code_is_what_it_was_and_its_work_is_right(victim, tmp_path):
    v = victim("traced", 300, 3, "wait")
    before = code_of(v.pid)
    for i in range(3):
        w = subprocess.Popen([WATCHCTL, "trace", "-p", str(v.pid), "--in", "traced", "--in", "libc.so.6", "-o", tmp_path / str(i)], stderr=subprocess.PIPE, text=True)
        assert "functions traced" in next(line for line in w.stderr if "process" in line and "traced" in line)
        assert code_of(v.pid) != before
        assert v.ask("go") == "ok"
        w.send_signal(signal.SIGINT)
        said = w.communicate(timeout=WAIT)[1]
        assert w.returncode == 0, said
        assert told_by(tmp_path / str(i))["one_round"] == 900
        assert code_of(v.pid) == before
    assert v.ask("go") == "ok"


def test_killed_at_any_time_it_goes_on_and_clear_takes_all_out(victim, run, tmp_path):
    v = victim("traced", 300, 3, "wait")
    before = code_of(v.pid)
    for ms in 5, 30, 60, 100, 150, 250:
        w = subprocess.Popen([WATCHCTL, "trace", "-p", str(v.pid), "--in", "traced", "--in", "libc.so.6", "--max-rate", "0", "-q"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        time.sleep(ms / 1000)
        w.kill()
        w.wait()
        assert v.ask("go") == "ok"
    assert run("clear", "-p", v.pid).returncode == 0
    assert code_of(v.pid) == before
    assert v.ask("go") == "ok"


def test_a_library_that_comes_later_is_traced(program, tmp_path):  # noqa: F811
    """Long enough after it has come: it is looked for ten times a second."""
    source, lib, exe = tmp_path / "late.c", tmp_path / "liblate.so", tmp_path / "late"
    source.write_text('#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n'
                      'int main(int c, char **v) { int (*f)(int) = dlsym(dlopen(v[1], RTLD_NOW), "late_call"); int n = 0;\n'
                      'usleep(600000); for (int i = 0; i < 1000; i++) n += f(i); printf("%d\\n", n); return 0; }\n')
    (tmp_path / "lib.c").write_text("int late_call(int n) { return n * 2; }\n")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", lib, tmp_path / "lib.c"], check=True)
    subprocess.run(["gcc", "-O1", "-o", exe, source, "-ldl"], check=True)
    done = trace("--in", "liblate.so", "--pending", "-o", tmp_path / "log", "--", exe, lib)
    assert done.stdout == "999000\n" and told_by(tmp_path / "log") == {"late_call": 1000}


PACKAGED = {
    "python3": ["python3.11", "-I", "-c", "import json; print(json.dumps({i: i * i for i in range(300)}))"],
    "git": ["git", "--version"],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $i; done; (exit 3); echo $?"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 7}++ for 1 .. 500; print join(',', map { $h{$_} } sort keys %h), \"\\n\""],
    "gawk": ["gawk", "BEGIN { for (i = 0; i < 500; i++) s += i; print s }"],
}


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_programs_print_what_they_print_without(name, tmp_path):
    command = [subprocess.run(["which", "-a", PACKAGED[name][0]], capture_output=True, text=True).stdout.split()[-1], *PACKAGED[name][1:]]
    want = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL).stdout
    done = trace("--in", os.path.basename(os.path.realpath(command[0])), "--in", "libc.so.6", "-o", tmp_path / "log", "--", *command)
    assert done.stdout == want
    functions, refused = map(int, re.search(r"(\d+) functions traced in 2 modules, (\d+) refused", done.stderr).groups())
    assert functions >= 99 * refused, done.stderr
    counts(done.stderr)


# What is asked for wrongly


@pytest.mark.parametrize("words, status, said", [
    ([], 2, "needs a process"),
    (["-p", "1", "--", "true"], 2, "give one of them"),
    (["--buffer", "1K", "--", "true"], 2, "from 64K to 1G"),
    (["--force", "--", "true"], 2, "-o LOG"),
    (["--program-output", "x", "-p", "1"], 2, "needs a program"),
    (["stray"], 2, "takes no"),
    (["--function", "is_evem", "--", "@"], 5, "did you mean is_even"),
    (["--in", "libnothing.so", "--", "@"], 5, "--pending"),
    (["--in", "libc.so.6", "--in", "libnothing.so", "--", "@"], 5, "no module libnothing.so"),
    (["--min-size", "1M", "--", "@"], 5, "no function of the program itself"),
    (["-p", "999999999"], 3, "no process"),
])
def test_a_clear_sentence_says_what_is_wrong(build, words, status, said):
    done = trace(*[build("traced") if w == "@" else w for w in words], status=status)
    assert said in done.stderr and done.stdout == "", done.stderr


def test_a_log_is_not_replaced_without_being_told_to(build, tmp_path):
    trace("-o", tmp_path / "log", "--", build("traced"), 10, 1)
    assert "--force" in trace("-o", tmp_path / "log", "--", build("traced"), 10, 1, status=8).stderr
    trace("-o", tmp_path / "log", "--force", "--", build("traced"), 10, 1)
