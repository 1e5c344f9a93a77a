# rooms: monitor/calls step/model probe/calls
"""`watchctl trace --args`: parameters and results, against what `watchctl step` reads of the same calls while the program stands."""
import re
import signal
import shutil
import subprocess
import sys
import os
import time
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import ROOT, WAIT, WATCHCTL  # noqa: E402
from test_step_shapes import objects  # noqa: E402
from test_trace import counts, said_by, trace  # noqa: E402

VICTIMS = ROOT / "tests" / "victims"


def run(*words):
    """Where nothing is at a random address, so that the pointers of two runs are the same."""
    done = subprocess.run(["setarch", "-R", *map(str, words)], capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done


def calls(log):
    seen = objects(log)
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    names = {o["call"]: re.sub(r"( \[clone |\.).*", "", o["function"]) for o in seen if o["type"] == "call"}  # a copy has two spellings
    return [(names[o["call"]], o.get("args"), ends[o["call"]].get("ret"), ends[o["call"]]["how"])
            for o in seen if o["type"] == "call" and "f_" in names[o["call"]]]


def refused_ends(said):
    m = re.search(r"(\d+) places? where functions are left", said)
    return int(m.group(1)) if m else 0


@pytest.mark.parametrize("source, compiler", [
    ("plan_c.c", "gcc -g -O0"), ("plan_c.c", "gcc -g -O2"), ("plan_c.c", "clang -g -O1"),
    ("plan_cpp.cc", "g++ -g -O2"), ("plan_cpp.cc", "clang++ -g -O1"),
])
def test_values_are_those_that_step_reads(tmp_path, source, compiler):
    if not shutil.which(compiler.split()[0]):
        pytest.skip(f"no {compiler.split()[0]} here")
    exe = tmp_path / "program"
    subprocess.run([*compiler.split(), "-o", exe, VICTIMS / source, "-lm"], check=True)
    run(WATCHCTL, "step", "--no-inputs", "-q", "-o", tmp_path / "step", "--module", "program", "--", exe)
    done = run(WATCHCTL, "trace", "--args", "--pointee", 64, "-o", tmp_path / "trace", "--function", "*f_*", "--", exe)
    want, got = calls(tmp_path / "step"), calls(tmp_path / "trace")
    assert len(want) > 10 and [w[:2] for w in want] == [g[:2] for g in got]
    # Without its end, what a function returns is not known; and that is told.
    unknown = {g[0] for w, g in zip(want, got) if w[2:] != g[2:] and (g[2] or {}).get("state", "not_recorded") == "not_recorded"}
    assert [w[2:] for w in want if w[0] not in unknown] == [g[2:] for g in got if g[0] not in unknown]
    assert len(unknown) <= refused_ends(done.stderr)


def test_strings_are_read_up_to_the_bound_and_never_beyond_what_is_there(build, tmp_path):
    done = trace("--args", "--string", 8, "-o", tmp_path / "log", "--", build("traced_values"), 1)
    said = [line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith("text")]
    args = [o["args"][0] for o in objects(tmp_path / "log") if o["type"] == "call" and o["function"] == "text"]
    assert len(args) == len(said) >= 6
    for (_, want), got in zip(said, args):
        kind, _, text = want.partition(" ")
        if kind == "null":
            assert got["to_state"] == "null"
        elif kind == "unreadable":
            assert got["to_state"] == "unreadable"
        elif kind == "edge":  # the page behind it cannot be read
            assert got["string"] == text and got["to_state"] == "cut"
        else:
            assert got["string"] == text[:8] and (got.get("to_state") == "cut") == (len(text) > 8)


def test_a_result_behind_a_tail_call_and_errno_are_known(build, tmp_path):
    trace("--args", "-o", tmp_path / "log", "--", build("traced_values"), 1)
    seen = objects(tmp_path / "log")
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    results = {o["function"]: ends[o["call"]].get("ret", {}).get("text") for o in seen if o["type"] == "call"}
    assert results["tail"] == results["tail_to"] == "42" and results["narrow"] == "-2"
    trace("--args", "--in", "libc.so.6", "--function", "open", "--function", "open64", "-o", tmp_path / "libc", "--", build("traced_values"), 1)
    assert [o.get("errno") for o in objects(tmp_path / "libc") if o["type"] == "return"] == ["ENOENT"]


@pytest.mark.parametrize("options", [[], ["--buffer", "64K"]])
def test_no_value_is_mixed_up_while_threads_come_and_go_and_signals_interrupt_them(build, tmp_path, options):
    """Each call of checked(n, text, twice) has a text that is n, and twice as much: whatever is lost, what is told fits together."""
    done = trace("--args", "--max-rate", 0, *options, "-o", tmp_path / "log", "--function", "checked", "--function", "handled", "--", build("traced_values"), 4000)
    said = said_by(done.stdout)
    called, recorded, lost, off = counts(done.stderr)
    seen = objects(tmp_path / "log")
    told = Counter(o["function"] for o in seen if o["type"] == "call")
    assert called == said["checked"] + said["handled"] and recorded == sum(told.values()) and recorded > 0
    assert off == 0 and (options or lost == 0)
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    for o in seen:
        if o["type"] == "call" and o["function"] == "checked":
            n, text, twice = o["args"]
            n = int(n["text"])
            assert text["string"] == str(n) and float(twice["text"]) == 2 * n
            ret = ends[o["call"]].get("ret")
            assert ret is None or int(ret["text"]) == n + 1


def test_without_types_there_are_registers(build, tmp_path):
    exe = tmp_path / "stripped"
    subprocess.run(["strip", "-g", "-o", exe, build("traced_values")], check=True)
    trace("--args", "-o", tmp_path / "log", "--function", "checked", "--", exe, 5)
    calls_of = [o["args"] for o in objects(tmp_path / "log") if o["type"] == "call"]
    assert {a["name"] for args in calls_of for a in args} == {"rdi"}  # the others are never read
    assert {int(args[0]["value"], 16) & 0xffffffff for args in calls_of} >= {0, 1, 2, 3, 4}


def test_a_value_that_differs_is_what_diff_names(build, tmp_path):
    """Two runs that differ in one parameter, and by that in two results: from the files of calls, as `watchctl diff` and the page read them."""
    for n in (20, 21):
        trace("--args", "-o", tmp_path / f"log{n}", "--function", "tail*", "--function", "narrow", "--", build("traced_values"), 0, n)
    calls_of = [o for o in objects(tmp_path / "log21") if o["type"] == "call"]
    assert [(o["function"], o["args"][0]["text"]) for o in calls_of] == [("tail", "21"), ("tail_to", "42"), ("narrow", "-1")]
    done = subprocess.run([WATCHCTL, "diff", "--json", tmp_path / "log20", tmp_path / "log21"], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 1, done.stderr
    assert re.search(r'"tail"', done.stdout) and "21" in done.stdout
    same = subprocess.run([WATCHCTL, "diff", tmp_path / "log20", tmp_path / "log20"], capture_output=True, text=True, timeout=WAIT)
    assert same.returncode == 0, same.stdout
    subprocess.run([WATCHCTL, "report", tmp_path / "log21", "--html", tmp_path / "page.html"], check=True, timeout=WAIT, capture_output=True)
    assert "tail_to" in (tmp_path / "page.html").read_text()


# Waiting instead of losing


@pytest.mark.parametrize("options", [[], ["--args"]])
def test_with_wait_nothing_is_lost_however_small_the_buffer(build, tmp_path, options):
    done = trace("--wait", *options, "--max-rate", 0, "--buffer", "64K", "-o", tmp_path / "log", "--function", "checked", "--function", "handled", "--", build("traced_values"), 4000)
    said = said_by(done.stdout)
    called, recorded, lost, off = counts(done.stderr)
    assert (called, lost, off) == (recorded, 0, 0)
    assert Counter(o["function"] for o in objects(tmp_path / "log") if o["type"] == "call") == {n: said[n] for n in ("checked", "handled")}


@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP])
def test_nobody_waits_for_a_reader_that_is_gone_or_stands(build, tmp_path, what):
    program = subprocess.Popen([build("traced_values"), "10000000"], stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline().startswith("text")
    ready, told = os.pipe()
    tracer = subprocess.Popen([WATCHCTL, "trace", "--wait", "--max-rate", "0", "--buffer", "64K", "-o", tmp_path / "log", "--function", "checked", "-p", str(program.pid), "--ready-fd", str(told)],
                              pass_fds=[told], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(told)
    try:
        assert os.read(ready, 1)
        tracer.send_signal(what)
        out, _ = program.communicate(timeout=WAIT)
        assert program.returncode == 0 and said_by(out)["checked"] >= 4 * 10000000
    finally:
        os.close(ready)
        tracer.kill()
        tracer.wait()
        program.kill()
        program.wait()


@pytest.mark.parametrize("options", [[], ["--args"]])
def test_who_waits_is_not_in_the_way_of_the_end(build, tmp_path, options):
    program = subprocess.Popen([build("traced_values"), "1000000000"], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline().startswith("text")
        for i in range(3):
            done = trace("--wait", *options, "--max-rate", 0, "--buffer", "64K", "-n", 20000, "-o", tmp_path / f"log{i}", "--function", "checked", "-p", program.pid)
            assert counts(done.stderr)[1] == 20000
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()


def test_a_program_that_was_stopped_in_the_middle_mixes_up_no_values(build, tmp_path):
    """For longer than the reader waits for what is being written: wherever its threads stood, each value that is told is its call's own."""
    program = subprocess.Popen([build("traced_values"), "1000000000"], stdout=subprocess.PIPE, text=True)
    ready, told = os.pipe()
    try:
        assert program.stdout.readline().startswith("text")
        tracer = subprocess.Popen([WATCHCTL, "trace", "--args", "--max-rate", "0", "-n", "100000",
                                   "-o", tmp_path / "log", "--function", "checked",
                                   "-p", str(program.pid), "--ready-fd", str(told)],
                                  pass_fds=[told], stderr=subprocess.PIPE, text=True)
        os.close(told)
        assert os.read(ready, 1)
        program.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        program.send_signal(signal.SIGCONT)
        _, said = tracer.communicate(timeout=WAIT)
        assert tracer.returncode == 0, said
    finally:
        os.close(ready)
        program.kill()
        program.wait()
    for o in objects(tmp_path / "log"):
        if o["type"] == "call":
            n, text, twice = o["args"]
            assert text["string"] == n["text"] and float(twice["text"]) == 2 * int(n["text"])


def test_functions_of_a_library_that_comes_later_have_their_types(tmp_path):
    source, lib, exe = tmp_path / "late.c", tmp_path / "liblate.so", tmp_path / "late"
    source.write_text('#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n'
                      'int main(int c, char **v) { puts("here"); fflush(stdout); getchar();\n'
                      'int (*f)(int, const char *) = dlsym(dlopen(v[1], RTLD_NOW), "late_call");\n'
                      'for (int i = 0;; i++) { f(i, "text"); usleep(500); } }\n')
    (tmp_path / "lib.c").write_text('int late_call(int n, const char *s) { __asm__ volatile("nop; nop; nop; nop; nop"); return n * 2 + s[0]; }\n')
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", lib, tmp_path / "lib.c"], check=True)
    subprocess.run(["gcc", "-O1", "-o", exe, source, "-ldl"], check=True)
    program = subprocess.Popen([exe, lib], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ready, told = os.pipe()
    try:
        assert program.stdout.readline() == "here\n"
        tracer = subprocess.Popen([WATCHCTL, "trace", "--args", "--in", "liblate.so", "--pending", "-n", "50", "-o", tmp_path / "log", "-p", str(program.pid), "--ready-fd", str(told)],
                                  pass_fds=[told], stderr=subprocess.PIPE, text=True)
        os.close(told)
        assert os.read(ready, 1)
        program.stdin.write("\n")
        program.stdin.flush()
        _, said = tracer.communicate(timeout=WAIT)
        assert tracer.returncode == 0, said
    finally:
        os.close(ready)
        program.kill()
        program.wait()
    seen = objects(tmp_path / "log")
    args = [o["args"] for o in seen if o["type"] == "call"]
    first = int(args[0][0]["text"])
    assert [(int(n["text"]), s["string"]) for n, s in args] == [(first + i, "text") for i in range(50)]
    assert {o["ret"]["type"] for o in seen if o["type"] == "return" and o["how"] == "returned"} == {"int"}


def test_bounds_of_values_without_values_are_refused(build):
    done = trace("--pointee", 8, "--", build("traced_values"), 1, status=2)
    assert "--args" in done.stderr
