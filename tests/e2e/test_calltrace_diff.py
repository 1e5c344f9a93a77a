# rooms: calltrace view/diff
"""
watchctl diff of what calltrace-cc records: runs of one program are the same, and of others the first difference is the
call that the program names itself; where calls are missing, that no difference was found says nothing.
"""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import WAIT, WATCHCTL
from test_calltrace import CC, PLUGIN, compile, execute
from test_calltrace_values import filters

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass")

LEVELS = ["-O0", "-O2"]
SAME, DIFFERENT, CANNOT_TELL = 0, 1, 3

# Prints "first FUNCTION NUMBER" at the first call that depends on its input, and of that function how many were before.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { int value; struct node *next; };
static struct node *list;
static int calls, told;
static int wanted;

static void say(const char *function) { if (!told++) printf("first %s %d\\n", function, calls); }

__attribute__((noinline)) static void rare(int n) { say("rare"); __asm__ volatile("" : "+r"(n)); }

__attribute__((noinline)) static struct node *add(int value, const char *name)
{
	struct node *n = malloc(sizeof(*n) + strlen(name));

	n->value = value;
	n->next = list;
	return list = n;
}

__attribute__((noinline)) static int step(int n, struct node *at, int *on_stack)
{
	calls++;
	*on_stack += n;
	if (n == wanted)
		rare(n);
	return at->value + n;
}

int main(int argc, char **argv)
{
	int i, sum = 0;
	char name[16];
	(void)argc;

	wanted = atoi(getenv("WANTED"));
	for (i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		sum += step(i, add(i & 7, name), &sum);
	}
	return sum == 0;
}
"""


def diff(*logs, **env):
    ran = subprocess.run([WATCHCTL, "diff", "--json", *map(str, logs)], capture_output=True, text=True, timeout=WAIT, env={**os.environ, **env})
    assert ran.stderr == ""
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def text(*arguments):
    return subprocess.run([WATCHCTL, "diff", *map(str, arguments)], capture_output=True, text=True, timeout=WAIT).stdout


def of_type(objects, kind):
    return [o for o in objects if o["type"] == kind]


def difference(objects, of="control"):
    """The first one that is not of values alone, or the first of values."""
    kinds = {"params", "result"} if of == "values" else {"calls", "ended", "thread"}
    found = [o for o in of_type(objects, "difference") if o["kind"] in kinds]
    return found[0] if found else None


def doubts(objects):
    return " ".join(o["text"] for o in of_type(objects, "doubt"))


def build(folder, options, *more, source=PROGRAM, name="program"):
    path = folder / f"{name}.c"
    path.write_text(source)
    return compile(CC, path, folder / name, "-g", *options.split(), *more)


@pytest.mark.parametrize("capture", [None, '"all"', '["*at", "n", "return"]'])
@pytest.mark.parametrize("options", LEVELS)
def test_runs_of_one_program_are_the_same(tmp_path, options, capture):
    program = build(tmp_path, options, *([filters(tmp_path, capture)] if capture else []))
    for n in range(3):
        assert execute(program, tmp_path / f"{n}.log", WANTED="-1") == (0, "")
        status, objects = diff(tmp_path / "0.log", tmp_path / f"{n}.log")
        assert (status, doubts(objects)) == (SAME, "")
        assert of_type(objects, "summary")[0]["verdict"] == "same"
        notes = " ".join(o["text"] for o in of_type(objects, "note"))
        assert ("the logs have no values" in notes) == (not capture), notes


@pytest.mark.parametrize("options", LEVELS)
def test_the_call_of_one_run_only_is_found_where_the_program_made_it(tmp_path, options):
    program = build(tmp_path, options)
    execute(program, tmp_path / "good.log", WANTED="-1")
    _, said = execute(program, tmp_path / "bad.log", WANTED="700")
    assert said == "first rare 701\n"
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    first = difference(objects)
    assert status == DIFFERENT and len(of_type(objects, "difference")) == 1
    assert first["bad"]["function"] == "rare" and "good" not in first
    stack = first["bad"]["stack"]
    assert [f["function"] for f in stack] == ["step", "main"] and all(f["file"].endswith("program.c") and f["line"] for f in stack)
    # The number of the call is that of the report.
    shown = subprocess.run([WATCHCTL, "report", "--json", str(tmp_path / "bad.log")], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    rare = [e for e in map(json.loads, shown.splitlines()) if e["type"] == "call" and e["function"] == "rare"]
    assert [e["call"] for e in rare] == [first["bad"]["call"]]
    # And the other way round.
    status, objects = diff(tmp_path / "bad.log", tmp_path / "good.log")
    assert status == DIFFERENT and difference(objects)["good"]["function"] == "rare"


@pytest.mark.parametrize("options", LEVELS)
def test_the_first_value_that_differs_is_that_of_the_call(tmp_path, options):
    source = PROGRAM.replace("return at->value + n;", "return at->value + n + (n == wanted + 1);")
    program = build(tmp_path, options, filters(tmp_path, '"all"'), source=source)
    execute(program, tmp_path / "good.log", WANTED="-2")
    execute(program, tmp_path / "bad.log", WANTED="699")
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    first = difference(objects, "values")
    assert status == DIFFERENT and first["kind"] == "result" and first["bad"]["function"] == "step"
    assert [a["value"] for a in first["bad"]["args"] if a["name"] == "n"] == ["700"]
    assert int(first["bad"]["ret"]["value"]) == int(first["good"]["ret"]["value"]) + 1
    assert first["bad"]["ret"]["differs"] and not any(a.get("differs") for a in first["bad"]["args"])
    assert difference(objects)["bad"]["function"] == "rare"
    assert "rare" in text("--ignore", "step:return", tmp_path / "good.log", tmp_path / "bad.log")


def test_the_page_and_the_text_have_the_functions_around_the_call(tmp_path):
    program = build(tmp_path, "-O1")
    execute(program, tmp_path / "good.log", WANTED="-1")
    execute(program, tmp_path / "bad.log", WANTED="5")
    said = text("--html", tmp_path / "page.html", tmp_path / "good.log", tmp_path / "bad.log")
    assert re.search(r"#0 +rare +program\.c:\d+\n +#1 +step +program\.c:\d+\n +#2 +main +program\.c:\d+\n", said)
    assert re.search(r"<pre>rare\nstep\b[^\n]*\nmain\b", (tmp_path / "page.html").read_text())


POINTS = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define APART __attribute__((noinline))
struct node { int value; struct node *next; };
APART static void number(const int *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
APART static void text(const char *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
APART static void bytes(const void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
APART static void node(struct node *p, long as_number) { __asm__ volatile("" : : "r"(p), "r"(as_number) : "memory"); }
APART static void filled(int *p) { __asm__ volatile("" : : "r"(p) : "memory"); }
APART static char *result(char *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
int main(void)
{
	const char *wanted = getenv("WANTED");
	/* Behind the number are both halves of an address. */
	struct { void *before; int zero, n; void *behind, *last; long end; } on_stack = { &on_stack, 0, 7 + (wanted[0] == 'n'), &on_stack, &on_stack, 0 };
	char words[28] = "text";
	struct node *n = calloc(1, sizeof(*n));
	char *copy;
	n->next = n;
	if (wanted[0] == 't')
		words[2] = 'X';
	number(&on_stack.n);
	text(words);
	bytes(&on_stack);
	node(n, (long)n);
	filled((int[8]){ getpid(), getpid() });
	copy = result(strdup(wanted[0] == 'r' ? "other" : "same"));
	return !copy;
}
"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("wanted, function", [("-", None), ("number", "number"), ("text", "text"), ("result", "result")])
def test_what_pointers_point_to_is_compared_and_addresses_are_not(tmp_path, wanted, function, options):
    program = build(tmp_path, options, filters(tmp_path, '["*p:28", "p", "as_number", "*return:str", "return"]'), source=POINTS)
    execute(program, tmp_path / "good.log", WANTED="-")
    execute(program, tmp_path / "bad.log", WANTED=wanted)
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    assert [g["function"] for g in of_type(objects, "group")][:1] == ([function] if function else [])
    assert (status, doubts(objects)) == (DIFFERENT if function else SAME, "")


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int wanted;
#define APART __attribute__((noinline))
APART static void odd(long n) { __asm__ volatile("" : "+r"(n)); }
APART static void even(long n) { __asm__ volatile("" : "+r"(n)); }
APART static void other(long n) { printf("first other\\n"); __asm__ volatile("" : "+r"(n)); }
APART static void *reads(void *arg) { long i; for (i = 0; i < 20000; i++) { if (i == wanted) other(i); even(i); } return arg; }
APART static void *writes(void *arg) { long i; for (i = 0; i < 20000; i++) odd(i); return arg; }
int main(void)
{
	pthread_t a, b;
	wanted = atoi(getenv("WANTED"));
	pthread_create(&a, 0, writes, 0);
	pthread_create(&b, 0, reads, 0);
	pthread_join(a, 0);
	pthread_join(b, 0);
	return 0;
}
"""


@pytest.mark.parametrize("options", LEVELS)
def test_threads_are_compared_each_by_itself(tmp_path, options):
    program = build(tmp_path, options, source=THREADS)
    for name, wanted in (("good", "-1"), ("again", "-1"), ("bad", "15000")):
        execute(program, tmp_path / f"{name}.log", WANTED=wanted)
    assert diff(tmp_path / "good.log", tmp_path / "again.log")[0] == SAME
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    first = difference(objects)
    assert status == DIFFERENT and len(of_type(objects, "difference")) == 1
    assert first["bad"]["function"] == "other" and [f["function"] for f in first["bad"]["stack"]] == ["reads"]


KILLED = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static void rare(int n) { __asm__ volatile("" : "+r"(n)); }
__attribute__((noinline)) static void often(int n) { __asm__ volatile("" : "+r"(n)); }
int main(void)
{
	int i, wanted = atoi(getenv("WANTED"));
	for (i = 0; i < 200000; i++) {
		if (i == wanted)
			rare(i);
		often(i);
	}
	if (getenv("HANGS")) {
		printf("hangs\\n");
		fflush(stdout);
		pause();
	}
	return 0;
}
"""


def kill_one(program, log, wanted):
    env = {**os.environ, "CALLTRACE_OUTPUT": str(log), "WANTED": wanted, "HANGS": "1"}
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True, env=env) as p:
        assert p.stdout.readline() == "hangs\n"
        p.send_signal(signal.SIGKILL)
        assert p.wait(WAIT) == -signal.SIGKILL


def test_what_a_killed_run_did_not_come_to_is_no_difference(tmp_path):
    program = build(tmp_path, "-O1", source=KILLED)
    execute(program, tmp_path / "good.log", WANTED="-1")
    kill_one(program, tmp_path / "same.log", "-1")
    kill_one(program, tmp_path / "bad.log", "1000")
    for logs in (["good.log", "same.log"], ["same.log", "good.log"], ["same.log", "same.log"]):
        status, objects = diff(*[tmp_path / log for log in logs])
        assert status == CANNOT_TELL and "killed" in doubts(objects)
        assert of_type(objects, "difference") == [] and of_type(objects, "summary")[0]["verdict"] == "cannot_tell"
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    assert status == DIFFERENT and difference(objects)["bad"]["function"] == "rare"


def test_behind_a_gap_nothing_is_compared(tmp_path):
    program = build(tmp_path, "-O1", source=KILLED)
    execute(program, tmp_path / "good.log", WANTED="-1")
    for name, wanted in (("early", "1000"), ("late", "190000")):
        execute(program, tmp_path / f"{name}.log", WANTED=wanted)
        with open(tmp_path / f"{name}.log" / "calls.0000000000", "r+b") as f:
            f.seek(1 << 20)
            f.write(b"damaged!" * 16)
    status, objects = diff(tmp_path / "good.log", tmp_path / "late.log")
    assert (status, of_type(objects, "difference")) == (CANNOT_TELL, []) and "missing in the middle" in doubts(objects)
    status, objects = diff(tmp_path / "good.log", tmp_path / "early.log")
    assert status == DIFFERENT and difference(objects)["bad"]["function"] == "rare"


def test_a_flight_recorder_does_not_show_the_run_from_its_beginning(tmp_path):
    program = build(tmp_path, "-O1", source=KILLED)
    for name in ("good", "bad"):
        execute(program, tmp_path / f"{name}.log", WANTED="190000", CALLTRACE_RING="256K")
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    assert status == CANNOT_TELL and "flight recorder" in doubts(objects)
    assert of_type(objects, "difference") == []


def test_a_log_whose_calls_are_gone_tells_nothing(tmp_path):
    program = build(tmp_path, "-O1")
    execute(program, tmp_path / "good.log", WANTED="-1")
    shutil.copytree(tmp_path / "good.log", tmp_path / "empty.log")
    (tmp_path / "empty.log" / "calls.0000000000").unlink()
    status, objects = diff(tmp_path / "good.log", tmp_path / "empty.log")
    assert status == CANNOT_TELL and "no call" in doubts(objects)


def trace(program, log, wanted):
    ran = subprocess.run([WATCHCTL, "trace", "--args", "-q", "-o", log, "--", program], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "WANTED": wanted})
    assert ran.returncode == 0, ran.stderr


def test_two_logs_of_trace_are_compared(tmp_path):
    """Of a program that was compiled as usual."""
    (tmp_path / "program.c").write_text(PROGRAM.replace("return sum == 0;", "return 0;"))
    program = compile("cc", tmp_path / "program.c", tmp_path / "program", "-g", "-O1")
    for name, wanted in (("good", "-1"), ("again", "-1"), ("bad", "700")):
        trace(program, tmp_path / f"{name}.log", wanted)
    assert diff(tmp_path / "good.log", tmp_path / "again.log")[0] == SAME
    status, objects = diff(tmp_path / "good.log", tmp_path / "bad.log")
    assert status == DIFFERENT and difference(objects)["bad"]["function"] == "rare"
    # What compiled-in tracing records has the same form, but is of another build.
    execute(build(tmp_path, "-O1"), tmp_path / "own.log", WANTED="-1")
    ran = subprocess.run([WATCHCTL, "diff", tmp_path / "good.log", tmp_path / "own.log"], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 2 and "build ids" in ran.stderr and "--by-name" in ran.stderr


def test_two_builds_are_compared_by_names(tmp_path):
    good = build(tmp_path, "-O1", name="good")
    (tmp_path / "other").mkdir()
    bad = build(tmp_path / "other", "-O1", source="int moved_by_this;\n" + PROGRAM.replace("if (n == wanted)", "if (n == wanted * 2)"), name="good")
    execute(good, tmp_path / "good.log", WANTED="700")
    execute(bad, tmp_path / "bad.log", WANTED="700")
    ran = subprocess.run([WATCHCTL, "diff", tmp_path / "good.log", tmp_path / "bad.log"], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 2 and "--by-name" in ran.stderr
    ran = subprocess.run([WATCHCTL, "diff", "--json", "--by-name", tmp_path / "good.log", tmp_path / "bad.log"], capture_output=True, text=True, timeout=WAIT)
    first = difference([json.loads(line) for line in ran.stdout.splitlines()])
    assert ran.returncode == DIFFERENT and first["good"]["function"] == "rare"


def test_a_function_that_one_log_does_not_record_is_left_out(tmp_path):
    good = build(tmp_path, "-O1", name="good")
    (tmp_path / "other").mkdir()
    (tmp_path / "f.toml").write_text('[[block]]\nfunction = ["step"]\n')
    bad = build(tmp_path / "other", "-O1", f"--calltrace-filters-file={tmp_path / 'f.toml'}", name="good")
    for wanted, verdict in (("-1", CANNOT_TELL), ("700", DIFFERENT)):
        for program, name in ((good, "good"), (bad, "bad")):
            execute(program, tmp_path / f"{name}{wanted}.log", WANTED=wanted if program == bad else "-1")
        ran = subprocess.run([WATCHCTL, "diff", "--json", "--by-name", tmp_path / f"good{wanted}.log", tmp_path / f"bad{wanted}.log"], capture_output=True, text=True, timeout=WAIT)
        objects = [json.loads(line) for line in ran.stdout.splitlines()]
        assert ran.returncode == verdict and "different functions" in doubts(objects)
        if verdict == DIFFERENT:
            first = difference(objects)
            assert first["bad"]["function"] == "rare" and [f["function"] for f in first["bad"]["stack"]] == ["main"]
        else:
            assert of_type(objects, "difference") == []


def test_values_that_one_log_alone_has_are_not_compared(tmp_path):
    good = build(tmp_path, "-O1", name="good")
    (tmp_path / "other").mkdir()
    bad = build(tmp_path / "other", "-O1", filters(tmp_path, '"all"'), name="good")
    execute(good, tmp_path / "good.log", WANTED="-1")
    execute(bad, tmp_path / "bad.log", WANTED="-1")
    ran = subprocess.run([WATCHCTL, "diff", "--by-name", tmp_path / "good.log", tmp_path / "bad.log"], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == SAME and "only one of the logs has values" in ran.stdout
