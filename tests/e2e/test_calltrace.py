# rooms: calltrace trace/calls
"""
calltrace-cc: programs are built with it, run, and what was recorded is held to what each program says itself about its
calls (tests/victims/calltrace/account.h), at each level of optimization.
"""
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import BUILD, VICTIMS, WAIT, WATCHCTL

CC, CXX = str(BUILD / "bin" / "calltrace-cc"), str(BUILD / "bin" / "calltrace-c++")
PLUGIN = BUILD / "libcalltrace-pass-19.so"
SOURCES = VICTIMS / "calltrace"
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -flto -fuse-ld=lld", "-O2 -flto=thin -fuse-ld=lld", "-O2 -g -fno-pie -no-pie", "-O2 -fomit-frame-pointer -static"]
SOURCE_FILES = ["plain.c", "tails.c", "jumps.c", "threads.c", "ends.c", "signals.c", "exceptions.cc"]
UNTRACED = {"CALLTRACE_OUTPUT": ""}
OLDER = (14, 15, 16)

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass")


def compile(compiler, source, target, *options, **env):
    subprocess.run([compiler, *options, str(source), "-o", str(target), "-lpthread"], check=True, timeout=WAIT, env={**os.environ, **env})
    return str(target)


def execute(program, log, **env):
    ran = subprocess.run([program], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": str(log), **env})
    assert ran.stderr == ""
    return ran.returncode, ran.stdout


def results(text):
    return [line for line in text.splitlines() if line.startswith("result")]


def account(text):
    """{thread: [(what, function)]}, as the program has it."""
    said = defaultdict(list)
    for line in text.splitlines():
        m = re.fullmatch(r"(\d+) ([<>!]) (\w+)", line)
        if m:
            said[int(m[1])].append((m[2], m[3]))
    return dict(said)


def report(log, *options):
    ran = subprocess.run([WATCHCTL, "report", str(log), *options], capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def events(log):
    return [json.loads(line) for line in report(log, "--json").splitlines()]


def plain_name(name):
    """leaf(int) and (anonymous namespace)::leaf(int) -> leaf"""
    return re.sub(r"\(.*", "", name).split("::")[-1]


def recorded(log, names):
    """The same of the log, of functions called @names; calls that have no end are left out, as the program does."""
    told = defaultdict(list)
    for e in events(log):
        if e["type"] not in ("call", "return") or plain_name(e["function"]) not in names:
            continue
        if e["type"] == "call":
            told[e["tid"]].append((">", plain_name(e["function"])))
        elif e["how"] == "returned":
            told[e["tid"]].append(("<", plain_name(e["function"])))
        elif e.get("derived"):
            told[e["tid"]].append(("!", plain_name(e["function"])))
    return dict(told)


def functions_of(said):
    return {name for lines in said.values() for _, name in lines}


def missing(version):
    """The part that is not there for clang @version, or None."""
    plugin = BUILD / f"libcalltrace-pass-{version}.so"
    return f"there is no clang-{version}" if not shutil.which(f"clang-{version}") else None if plugin.exists() else f"built without LLVM {version}"


VERSIONS = [19, *(pytest.param(v, marks=pytest.mark.skipif(bool(missing(v)), reason=missing(v) or "")) for v in OLDER)]


def with_older(levels):
    """(version, options): all levels of clang 19, and a few of each older one."""
    yield from ((19, o) for o in levels)
    for version in OLDER:
        for options in (*[o for o in ("-O0", "-O2", "-O2 -g") if o in levels or o != "-O0"], f"-O2 -flto -fuse-ld=lld-{version}"):
            why = missing(version) or ("lld" in options and not shutil.which(f"ld.lld-{version}") and f"there is no lld-{version}")
            yield pytest.param(version, options, marks=pytest.mark.skipif(bool(why), reason=why or ""))


def builds(folder, source, version, options, *more):
    """The program @source, plain and traced, by clang @version."""
    clang, cc = ("clang++-", CXX) if str(source).endswith(".cc") else ("clang-", CC)
    clang += str(version)
    return (compile(clang, SOURCES / source, folder / "plain", *options.split(), *[o for o in more if not o.startswith("--calltrace")]),
            compile(cc, SOURCES / source, folder / "traced", *options.split(), *more, CALLTRACE_CLANG=clang, CALLTRACE_CLANGXX=clang))


@pytest.mark.parametrize("version, options", with_older(LEVELS))
@pytest.mark.parametrize("source", SOURCE_FILES)
def test_entries_and_exits_are_those_that_the_program_accounts_for(tmp_path, source, version, options):
    plain, traced = builds(tmp_path, source, version, options)
    expected = subprocess.run([plain], capture_output=True, text=True, timeout=WAIT)
    status, said = execute(traced, tmp_path / "run.log")
    assert status == expected.returncode and results(said) == results(expected.stdout)
    names = functions_of(account(said))
    assert "main" in names
    assert recorded(tmp_path / "run.log", names) == account(said)


@pytest.mark.parametrize("version, options", with_older([o for o in LEVELS if o not in ("-O0", "-Os")]))
@pytest.mark.parametrize("source", SOURCE_FILES)
def test_functions_that_are_inlined_have_their_calls_where_that_is_wanted(tmp_path, source, version, options):
    plain, traced = builds(tmp_path, source, version, options, "-DACCOUNT_INLINED", "--calltrace-before-inlining")
    expected = subprocess.run([plain], capture_output=True, text=True, timeout=WAIT)
    status, said = execute(traced, tmp_path / "run.log")
    assert status == expected.returncode and results(said) == results(expected.stdout)
    names = functions_of(account(said))
    assert recorded(tmp_path / "run.log", names) == account(said)
    there = {plain_name(line.split(maxsplit=2)[2]) for line in subprocess.run(["nm", "-C", "--defined-only", traced], capture_output=True, text=True, check=True).stdout.splitlines()}
    # Calls stay calls where a longjmp may end.
    assert names - there or source in ("jumps.c", "signals.c"), "nothing was inlined"


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_a_function_that_several_files_inline_is_one(tmp_path, linker):
    """Its own code is in one of them, and goes from the other."""
    (tmp_path / "h.h").write_text("""
struct S { int v; S(int x) : v(x) {} ~S() { v = 0; } int get() const { return v; } };
inline int both(int x) { S s(x); return s.get() + 1; }
""")
    (tmp_path / "m.cc").write_text('#include "h.h"\nint other(int x);\nint (*keep)(int) = both;\nint main() { return both(1) + other(2) - 5; }\n')
    (tmp_path / "o.cc").write_text('#include "h.h"\nint (*also)(int) = both;\nint other(int x) { return both(x); }\n')
    subprocess.run([CXX, "-O2", "-g", "--calltrace-before-inlining", f"-fuse-ld={linker}", "-Wl,--gc-sections", "m.cc", "o.cc", "-o", "traced"], cwd=tmp_path, check=True, timeout=WAIT)
    assert execute(str(tmp_path / "traced"), tmp_path / "run.log") == (0, "")
    calls = [plain_name(e["function"]) for e in events(tmp_path / "run.log") if e["type"] == "call"]
    inside = ["both", "S", "get", "~S"]
    assert calls == ["main", *inside, "other", *inside]
    totals = [json.loads(line) for line in report(tmp_path / "run.log", "--calls", "--json").splitlines()]
    assert {plain_name(e["function"]): e["calls"] for e in totals if e["type"] == "function_total"} == {"main": 1, "other": 1, "both": 2, "S": 2, "get": 2, "~S": 2}


@pytest.mark.parametrize("options", ["-O2", "-O2 -g"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_at_the_end_stays_a_jump_whatever_type_its_pointer_has(tmp_path, version, options):
    """Before LLVM 15 a cast comes between the two, before 19 a call for the debug information of `next`."""
    (tmp_path / "a.c").write_text("""
static int value[4];
__attribute__((noinline)) int *last(long n) { __asm__("" : "+r"(n)); return value + n; }
__attribute__((noinline)) char *middle(long n) { __asm__("" : "+r"(n)); int *next = last(n + 1); return (char *)next; }
__attribute__((noinline)) long *first(long n) { __asm__("" : "+r"(n)); char *next = middle(n + 1); return (long *)next; }
int main(int c, char **v) { return first(c) != (long *)(value + 3); }
""")
    plain, traced = builds(tmp_path, tmp_path / "a.c", version, options)
    for program in (plain, traced):
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True).stdout
        assert all(re.search(rf"\bjmp +\w+ <{f}>", code) and not re.search(rf"\bcall +\w+ <{f}>", code) for f in ("middle", "last")), program
    assert execute(traced, tmp_path / "run.log") == (0, "")
    assert [(e["function"], e["depth"]) for e in events(tmp_path / "run.log") if e["type"] == "call"] == [("main", 0), ("first", 1), ("middle", 2), ("last", 3)]


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_inlined_functions_with_the_same_body_are_told_apart(tmp_path, level):
    """The two are one to the optimizer, but for who is called."""
    (tmp_path / "a.c").write_text("""
static int sum;
static void even(int n) { sum += n; }
static void odd(int n) { sum += n; }
int main(void)
{
	for (int i = 0; i < 10; i++)
		if (i % 3 == 0)
			even(i);
		else
			odd(i);
	return sum != 45;
}
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", level, "--calltrace-before-inlining")
    assert execute(traced, tmp_path / "run.log") == (0, "")
    called = [e["function"] for e in events(tmp_path / "run.log") if e["type"] == "call"]
    assert called == ["main", *("even" if i % 3 == 0 else "odd" for i in range(10))]


@pytest.mark.parametrize("result", ["long", "void"])
def test_calls_at_the_end_stay_jumps_where_several_share_a_return(tmp_path, result):
    """As the compiler has it without us: ten million of them in each other need no stack."""
    back = "return " if result == "long" else ""
    (tmp_path / "a.c").write_text(f"""
static volatile long n = 10000000, end = 7;
__attribute__((noinline)) {result} odd(long n);
__attribute__((noinline)) {result} even(long n) {{ if (!n) return{" end" if back else ""}; if (n & 2) {back}odd(n - 1); else {back}odd(n - 1); }}
__attribute__((noinline)) {result} odd(long n) {{ if (n == 1) return{" end + 1" if back else ""}; {back}even(n - 1); }}
int main(void) {{ {"return (int)even(n) - 8;" if back else "even(n); return 0;"} }}
""")
    plain = compile("clang-19", tmp_path / "a.c", tmp_path / "plain", "-O2", "-w")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-O2", "-w")
    assert subprocess.run([plain], timeout=WAIT).returncode == 0
    assert subprocess.run([traced], timeout=WAIT, env={**os.environ, **UNTRACED}).returncode == 0


def test_every_function_has_its_file_and_line(tmp_path):
    source = SOURCES / "plain.c"
    execute(compile(CC, source, tmp_path / "traced", "-O2", "-g"), tmp_path / "run.log")
    lines = source.read_text().splitlines()
    calls = [e for e in events(tmp_path / "run.log") if e["type"] == "call"]
    assert {e["function"] for e in calls} >= {"main", "leaf", "fact", "several"}
    for e in calls:
        assert e["file"] == str(source) and re.search(rf"\b{e['function']}\(", lines[e["line"] - 1])


def test_without_an_output_nothing_is_recorded_and_nothing_is_left(tmp_path):
    traced = compile(CC, SOURCES / "plain.c", tmp_path / "traced", "-O2")
    before = set(tmp_path.iterdir())
    ran = subprocess.run([traced], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "CALLTRACE_OUTPUT"})
    assert ran.returncode == 0 and ran.stderr == "" and set(tmp_path.iterdir()) == before


def test_an_output_that_cannot_be_written_is_one_sentence_and_the_program_goes_on(tmp_path):
    traced = compile(CC, SOURCES / "plain.c", tmp_path / "traced", "-O2")
    expected = subprocess.run([traced], capture_output=True, text=True, timeout=WAIT)
    ran = subprocess.run([traced], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": str(tmp_path / "none" / "run.log")})
    assert ran.returncode == 0 and results(ran.stdout) == results(expected.stdout)
    assert len(ran.stderr.splitlines()) == 1 and "run.log" in ran.stderr and "untraced" in ran.stderr


def test_an_output_names_the_process(tmp_path):
    traced = compile(CC, SOURCES / "plain.c", tmp_path / "traced", "-O2")
    pid = subprocess.run(["sh", "-c", 'echo $$; exec "$0" >/dev/null', traced], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": str(tmp_path / "%e-%p.log")}).stdout.strip()
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == [f"traced-{pid}.log"]


def test_a_compiler_in_a_build_does_all_that_clang_does(tmp_path):
    """Compiling, linking, preprocessing, asking: with the same status and output, but for the code itself."""
    (tmp_path / "a.c").write_text("int f(int n) { return n + 1; }\n")
    (tmp_path / "b.c").write_text("int f(int);\nint main(int c, char **v) { return f(c) - 2; }\n")
    for args in (["--version"], ["-dumpmachine"], ["-print-search-dirs"], ["-E", "a.c"], ["-M", "a.c"], ["-fsyntax-only", "b.c"], ["-o", "x"], []):
        ours, theirs = [subprocess.run([c, *args], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path) for c in (CC, "clang-19")]
        assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr), args
    missing = subprocess.run([CC, "-c", "none.c"], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path)
    assert missing.returncode == 1 and "no such file or directory: 'none.c'" in missing.stderr
    for line in ("-Wall -Werror -c a.c", "-Wall -Werror -c b.c", "-r a.o b.o -o both.o", "a.o b.o -o linked", "-Wall -Werror a.c b.c -o whole", "-shared -fPIC a.c -o liba.so", "b.c -L. -la -Wl,-rpath,. -o shared"):
        ran = subprocess.run([CC, *line.split()], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path)
        assert (ran.returncode, ran.stderr) == (0, ""), line
    for program, calls in (("linked", 2), ("whole", 2), ("shared", 2)):
        log = tmp_path / f"{program}.log"
        ran = subprocess.run([f"./{program}"], cwd=tmp_path, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": str(log)})
        assert ran.returncode == 0
        assert [e["function"] for e in events(log) if e["type"] == "call"] == ["main", "f"], program


def test_another_architecture_is_compiled_and_said_to_be_left_untraced(tmp_path):
    (tmp_path / "a.c").write_text("int f(int n) { return n + 1; }\n")
    ran = subprocess.run([CC, "--target=aarch64-linux-gnu", "-S", "a.c", "-o", "a.s"], capture_output=True, text=True, timeout=WAIT, cwd=tmp_path)
    assert ran.returncode == 0 and "aarch64" in ran.stderr and "not traced" in ran.stderr
    assert "__calltrace" not in (tmp_path / "a.s").read_text()


def a_script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def plugin_of(clang, path=os.environ["PATH"]):
    """The plugin that @clang, which prints its command line, was given; "": that which is found in @path."""
    ran = subprocess.run([CC, "-c", "a.c"], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "CALLTRACE_CLANG": clang, "PATH": path}, check=True)
    return re.search(r"-fpass-plugin=(\S+)", ran.stdout)[1]


def test_the_compiler_decides_which_plugin_it_gets(tmp_path):
    (tmp_path / "bin").mkdir()
    asked = a_script(tmp_path / "clang", f'[ "$*" = -dumpversion ] && {{ echo "19.1.7"; echo >> {tmp_path}/asked; exit; }}; echo "$@"')
    named = a_script(tmp_path / "bin" / "clang-19", f'echo "$@"; echo named >> {tmp_path}/named')
    assert plugin_of(asked) == plugin_of(named) == plugin_of("", str(tmp_path / "bin")) == str(PLUGIN)
    assert (tmp_path / "asked").read_text() == "\n" and (tmp_path / "named").read_text() == 2 * "named\n"
    for version in OLDER:
        plugin = BUILD / f"libcalltrace-pass-{version}.so"
        if plugin.exists():
            (tmp_path / str(version)).mkdir()
            older = a_script(tmp_path / str(version) / f"clang-{version}", 'echo "$@"')
            assert plugin_of(older) == plugin_of("", str(tmp_path / str(version))) == str(plugin)


def test_a_compiler_that_is_missing_or_of_another_version_is_one_sentence(tmp_path):
    for clang, words in (("/none/clang", "/none/clang: No such file"), ("/none/clang-19", "/none/clang-19: No such file"), ("clang-18", "clang-18 is of version 18"),
                         (a_script(tmp_path / "clang", "echo 3.9.1"), "of version 3,"), (a_script(tmp_path / "other", "exit 1"), "does not say its version")):
        ran = subprocess.run([CC, "-c", "a.c"], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "CALLTRACE_CLANG": clang})
        assert ran.returncode == 126 and len(ran.stderr.splitlines()) == 1 and words in ran.stderr and "CALLTRACE_CLANG" in ran.stderr
    ran = subprocess.run([CC, "-c", "a.c"], capture_output=True, text=True, timeout=WAIT, env={**os.environ, "PATH": str(tmp_path)})
    assert ran.returncode == 126 and ran.stderr.startswith("calltrace-cc: clang-19: No such file") and len(ran.stderr.splitlines()) == 1


def test_chrome_has_the_calls_balanced_and_nested(tmp_path):
    execute(compile(CC, SOURCES / "threads.c", tmp_path / "traced", "-O2"), tmp_path / "run.log")
    out = tmp_path / "chrome.json"
    subprocess.run([WATCHCTL, "export", str(tmp_path / "run.log"), "--to", "chrome", "-o", str(out)], check=True, timeout=WAIT)
    calls = sum(e["type"] == "call" for e in events(tmp_path / "run.log"))
    begun = [e for e in json.loads(out.read_text())["traceEvents"] if e.get("ph") in ("X", "B")]
    assert len(begun) == calls > 12


def test_threads_have_their_names_from_their_first_call_on(tmp_path):
    (tmp_path / "a.c").write_text("""#define _GNU_SOURCE
#include <pthread.h>
static void *body(void *name) { pthread_setname_np(pthread_self(), name); return name; }
int main(void)
{
	char name[2][16] = { "worker", "timer" };
	pthread_t t;
	for (int i = 0; i < 2; i++) {
		pthread_create(&t, 0, body, name[i]);
		pthread_join(t, 0);
	}
	return 0;
}
""")
    execute(compile(CC, tmp_path / "a.c", tmp_path / "named", "-O2", "-w"), tmp_path / "run.log")
    called = [(e["comm"], e["function"]) for e in events(tmp_path / "run.log") if e["type"] == "call"]
    assert called == [("named", "main"), ("worker", "body"), ("timer", "body")]


FORKS = """#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int f(int n) { return n ? 1 + f(n - 1) : 0; }
int main(int argc, char **argv)
{
	int i;
	if (chdir("/"))
		return 1;
	for (i = 3; i < 100; i++)
		close(i);
	while (dup(0) >= 0 && i++ < 120)
		;
	for (i = 0; i < 3000; i++)
		f(10);
	if (!fork())
		_exit(f(1000) - 1000);
	wait(&i);
	if (!fork())
		exit(f(1000) - 1000);
	wait(&i);
	for (i = 0; i < 3000; i++)
		f(10);
	if (argc > 1)
		_exit(0);
	return 0;
}
"""


def test_children_closed_descriptors_and_another_directory_cost_no_call(tmp_path):
    (tmp_path / "a.c").write_text(FORKS)
    program = compile(CC, tmp_path / "a.c", tmp_path / "forks", "-O0", "-w")
    ran = subprocess.run([program], cwd=tmp_path, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": "run.log"})
    calls = [e for e in events(tmp_path / "run.log") if e["type"] in ("call", "return")]
    assert ran.returncode == 0 and sum(e["type"] == "call" for e in calls) == 6000 * 11 + 1 == len(calls) / 2


def test_a_flight_recorder_has_the_end_of_what_is_recorded_otherwise(tmp_path):
    (tmp_path / "a.c").write_text(FORKS)
    program = compile(CC, tmp_path / "a.c", tmp_path / "forks", "-O0", "-w")
    told = {}
    for name, ring in (("whole", ""), ("ring", "256K")):
        subprocess.run([program], cwd=tmp_path, timeout=WAIT, check=True, env={**os.environ, "CALLTRACE_OUTPUT": name, "CALLTRACE_RING": ring})
        found = events(tmp_path / name)
        told[name] = [e["function"] for e in found if e["type"] == "call"]
    assert any(e["type"] == "note" and "flight recorder" in e["text"] for e in found)
    # Four chunks of 4,096 slots, the newest of which may have just begun; the calls that were open have no entry.
    assert 3 * 4096 / 2 - 11 <= len(told["ring"]) <= 4 * 4096 / 2
    assert told["whole"][-len(told["ring"]):] == told["ring"] and len(told["whole"]) == 66001


def test_a_program_that_ends_without_exit_leaves_a_log_that_says_so(tmp_path):
    (tmp_path / "a.c").write_text(FORKS)
    program = compile(CC, tmp_path / "a.c", tmp_path / "forks", "-O0", "-w")
    subprocess.run([program, "now"], cwd=tmp_path, timeout=WAIT, check=True, env={**os.environ, "CALLTRACE_OUTPUT": "run.log"})
    found = events(tmp_path / "run.log")
    calls = sum(e["type"] == "call" for e in found)
    assert 6000 * 22 - 12277 <= calls + sum(e["type"] == "return" and e["how"] == "returned" for e in found) <= 6000 * 22 + 1
    assert any(e["type"] == "note" and "has not closed its log" in e["text"] for e in found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ir_verifier_has_nothing_to_say(tmp_path, version):
    """To what the pass makes in opt, and to what clang emits with it, which itself does not ask the verifier."""
    plugin = f"-load-pass-plugin={BUILD}/libcalltrace-pass-{version}.so"
    for source in sorted(Path(SOURCES).glob("*.c*")):
        clang, cc = (f"clang++-{version}", CXX) if source.suffix == ".cc" else (f"clang-{version}", CC)
        for level in ("-O0", "-O2", "-O2 --calltrace-before-inlining"):
            options = [*level.split(), "-g", "-c", "-emit-llvm", str(source)]
            subprocess.run([clang, *[o for o in options if "calltrace-b" not in o], "-o", "a.bc"], check=True, cwd=tmp_path, timeout=WAIT)
            compile(cc, source, tmp_path / "b.bc", *options[:-1], "-Wno-unused-command-line-argument", CALLTRACE_CLANG=clang, CALLTRACE_CLANGXX=clang)
            for words in (["a.bc", plugin, "-passes=inject-calltrace,verify"], ["b.bc", "-passes=verify"]):
                ran = subprocess.run([f"opt-{version}", *words, "-S", "-o", "a.ll"], capture_output=True, text=True, cwd=tmp_path, timeout=WAIT)
                assert (ran.returncode, ran.stderr) == (0, "") and "__calltrace_at" in (tmp_path / "a.ll").read_text()
