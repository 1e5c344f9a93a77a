# rooms: calltrace/runtime calltrace/stub
"""
libcalltrace's functions, in programs that calltrace-cc has built: logs that a program begins and ends, closed logs, the
library that does nothing.
"""
import json
import os
import subprocess
from collections import defaultdict

import pytest
from conftest import BUILD, ROOT, VICTIMS, WAIT, WATCHCTL

CC, CXX = str(BUILD / "bin" / "calltrace-cc"), str(BUILD / "bin" / "calltrace-c++")
SOURCES = VICTIMS / "calltrace"
LIBRARIES = ["", "-stub"]

needs_pass = pytest.mark.skipif(not (BUILD / "libcalltrace-pass.so").exists(), reason="built without LLVM 19: there is no pass")


def build(source, target, *options, compiler=CC):
    subprocess.run([compiler, *options, f"-I{ROOT}/calltrace", str(source), "-o", str(target), "-lpthread"], check=True, timeout=WAIT)
    return str(target)


def run(program, *args, **env):
    ran = subprocess.run([program, *args], capture_output=True, text=True, timeout=WAIT, env={**os.environ, **{k: str(v) for k, v in env.items()}})
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def events(log):
    ran = subprocess.run([WATCHCTL, "report", "--calls", str(log), "--json"], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def check_balanced(found):
    """Each call ends once, the innermost of its thread first."""
    opened = defaultdict(list)
    for e in found:
        if e["type"] == "call":
            assert e.get("parent", 0) == (opened[e["tid"]][-1] if opened[e["tid"]] else 0)
            opened[e["tid"]].append(e["call"])
        elif e["type"] == "return":
            assert opened[e["tid"]].pop() == e["call"]
    assert not any(opened.values())
    return sum(e["type"] == "call" for e in found)


@needs_pass
@pytest.mark.parametrize("ring", ["", "128K"])
def test_logs_begin_and_end_while_threads_call(tmp_path, ring):
    program = build(SOURCES / "logs.c", tmp_path / "logs", "-O2")
    # Without a ring all of the calls are written: pauses bound how many these are.
    run(program, "0" if ring else "100", CALLTRACE_OUTPUT=tmp_path / "log.%p.%n", CALLTRACE_RING=ring)
    logs = list(tmp_path.glob("log.*"))
    assert len(logs) == 201 + 20
    calls = 0
    for log in logs:
        found = events(log)
        calls += check_balanced(found)
        assert sum(e["type"] == "process" for e in found) == 1
        assert not any(e["type"] == "note" and "has not closed its log" in e["text"] for e in found)
    # At least those of the children.
    assert calls > 20 * 89


@needs_pass
def test_a_child_has_the_log_that_it_asks_for(tmp_path):
    program = build(SOURCES / "logs.c", tmp_path / "logs", "-O0")
    run(program, "100", CALLTRACE_OUTPUT=tmp_path / "log.%p.%n")
    pids = defaultdict(list)
    for log in tmp_path.glob("log.*"):
        pids[log.name.split(".")[1]].append(log)
    children = [logs[0] for logs in pids.values() if len(logs) == 1]
    assert len(children) == 20
    for log in children:
        assert log.name.endswith(".0")
        names = [e["function"] for e in events(log) if e["type"] == "call"]
        assert names.count("fib") == 177


LOGS = """#include <calltrace.h>
#include <stdio.h>
static int each(const char *path, uint64_t bytes, int64_t modified_s, void *ctx)
{
	printf("%s %d\\n", path, bytes > 0 && modified_s > 0 && ctx == 0);
	return 0;
}
int main(void)
{
	int i;
	for (i = 0; i < 3; i++)
		if (calltrace_deinitialize() || calltrace_initialize())
			return 1;
	return calltrace_logs(each, 0) || calltrace_delete_logs_older_than(1000) != 1;
}
"""


@needs_pass
def test_a_program_finds_the_logs_of_runs_before(tmp_path):
    (tmp_path / "a.cc").write_text(LOGS)
    program = build(tmp_path / "a.cc", tmp_path / "program", "-O1", compiler=CXX)
    old = tmp_path / "program-77-0"
    other = build(SOURCES / "plain.c", tmp_path / "plain", "-O2")
    run(other, CALLTRACE_OUTPUT=old)
    run(other, CALLTRACE_OUTPUT=tmp_path / "other-77-0")
    for f in old.iterdir():
        os.utime(f, (10**9, 10**9))
    found = run(program, CALLTRACE_OUTPUT=tmp_path / "%e-%p-%n").split()
    assert sorted(found[1::2]) == ["1"] * 4 and set(found[0::2]) >= {str(old)}
    assert not any("other" in path for path in found)
    assert not old.exists() and (tmp_path / "other-77-0").exists() and len(list(tmp_path.glob("program-*"))) == 4


BEGINS = """#include <calltrace.h>
__attribute__((noinline)) static void traced(void) { __asm__ volatile(""); }
int main(void)
{
	traced();
	if (%s)
		return 1;
	traced();
	return 0;
}
"""


@needs_pass
@pytest.mark.parametrize("option, call, env, expected", [
    ("enable", "calltrace_enabled() || calltrace_enable()", {}, ["traced"]),
    ("enable", "!calltrace_enabled()", {"CALLTRACE_ENABLE": "1"}, ["main", "traced", "traced"]),
    ("initialize", "calltrace_enabled() || calltrace_initialize()", {}, ["traced"]),
    ("initialize", "calltrace_enable() != -2", {}, None),
])
def test_a_program_may_be_compiled_to_begin_later(tmp_path, option, call, env, expected):
    (tmp_path / "a.c").write_text(BEGINS % call)
    program = build(tmp_path / "a.c", tmp_path / "program", "-O1", f"--calltrace-{option}-runtime=false")
    run(program, CALLTRACE_OUTPUT=tmp_path / "log", **env)
    assert (tmp_path / "log").exists() == (expected is not None)
    if expected:
        assert [e["function"] for e in events(tmp_path / "log") if e["type"] == "call"] == expected


def names(library, *options):
    shown = subprocess.run(["nm", "-g", "--defined-only", *options, library], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    return sorted({line.split()[-1] for line in shown.splitlines() if len(line.split()) == 3})


def test_the_stub_has_the_names_of_the_library():
    shared, archive = [[names(BUILD / f"libcalltrace{kind}{suffix}", *options) for kind in LIBRARIES] for suffix, options in ((".so.0", ["-D"]), (".a", []))]
    assert shared[0] == shared[1] and "calltrace_logs@@CALLTRACE_0" in shared[0]
    assert archive[0] == archive[1] and "__calltrace_at" in archive[0]


def test_the_header_declares_what_the_library_has(tmp_path):
    declared = subprocess.run(["gcc", "-E", "-P", ROOT / "calltrace/calltrace.h"], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    public = [n for n in names(BUILD / "libcalltrace.a") if not n.startswith("__")]
    assert public and all(f" {n}(" in declared for n in public)


@needs_pass
@pytest.mark.parametrize("options", [[], ["-static"]])
def test_a_program_with_the_stub_runs_and_records_nothing(tmp_path, options):
    (tmp_path / "a.c").write_text("""#include <calltrace.h>
#include <errno.h>
int main(void)
{
	if (calltrace_enabled() || calltrace_initialize() != -ENOENT || calltrace_deinitialize() != -ENOENT)
		return 1;
	calltrace_disable();
	if (calltrace_enable() != -ENOENT || calltrace_flush() != -ENOENT || calltrace_clear() != -ENOENT)
		return 2;
	return calltrace_logs(0, 0) != -ENOENT || calltrace_delete_logs_older_than(0) != -ENOENT;
}
""")
    program = build(tmp_path / "a.c", tmp_path / "program", "--calltrace-stub", *options)
    run(program, CALLTRACE_OUTPUT=tmp_path / "log")
    assert not (tmp_path / "log").exists()
    if not options:
        needed = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True, timeout=WAIT).stdout
        assert "libcalltrace-stub.so.0" in needed and "libcalltrace.so.0" not in needed


@needs_pass
def test_the_option_for_the_stub_never_reaches_clang(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    for args in (["--calltrace-stub", "--version"], ["--version", "--calltrace-stub"], ["-Wall", "-Werror", "--calltrace-stub", "-c", "a.c"]):
        ran = subprocess.run([CC, *args], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path)
        assert (ran.returncode, ran.stderr) == (0, ""), args
