# rooms: patch probe monitor/patch cli/patch
"""watchctl patch into running programs: what probes see and record, and that nothing of the program's is harmed or left behind."""

import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from as_found import code_of  # noqa: E402
from conftest import VICTIMS, WAIT, WATCHCTL, ready, wait_until  # noqa: E402

PROBES = r"""
#include <watchctl/probe.h>
PROBE(value) { probe_value(p->regs->rdi); }
PROBE(nothing) { (void)p; }
PROBE(text) { probe_log("%s %lu of %x", (const char *)p->regs->rsi, p->regs->rdi, -1); }
PROBE(bad_text) { probe_log("[%s]", (const char *)8); }
PROBE(stack) { probe_stack("mark", p->regs->rdi); }
PROBE(result) { probe_log("rax %lu", p->regs->rax); }
PROBE(change) { p->regs->rax = 1000; }
PROBE(no_change) { p->regs->rax = p->regs->rbx = p->regs->r12 = 0xdead; }
PROBE(operands) { probe_log("%lx %p", probe_operand(p, 0), probe_address(p, 1)); }
"""


@pytest.fixture
def probes(tmp_path):
    path = tmp_path / "probes.c"
    path.write_text(PROBES)
    return str(path)


READ = 0  # the number of its system call


def patch(*words, status=0, stdin=None):
    done = subprocess.run([WATCHCTL, "patch", *map(str, words)], capture_output=True, text=True, timeout=2 * WAIT, stdin=stdin or subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    return done


def report(log, *words):
    done = subprocess.run([WATCHCTL, "report", "--json", *words, str(log)], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def patched_for_a_moment(pid, *words):
    """Patches of it come and go. A thread that is long on its way through a probe keeps the memory: that is said, and cleared later."""
    done = subprocess.run([WATCHCTL, "patch", "-p", str(pid), *words], capture_output=True, text=True, timeout=2 * WAIT,
                          stdin=subprocess.DEVNULL)
    if done.returncode == 1 and "the memory of the probes stays" in done.stderr:
        wait_until(lambda: subprocess.run([WATCHCTL, "clear", "-p", str(pid)], capture_output=True, timeout=WAIT).returncode == 0)
    else:
        assert done.returncode == 0, done.stderr


def of_type(events, kind):
    return [e for e in events if e["type"] == kind]


@contextlib.contextmanager
def running(*words, **more):
    p = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


@contextlib.contextmanager
def armed(*words):
    """A watchctl that has said that it is ready."""
    ours, its = os.pipe()
    with running(WATCHCTL, *words, "--ready-fd", its, pass_fds=[its]) as w:
        os.close(its)
        with os.fdopen(ours, "rb", 0) as f:
            assert select.select([f], [], [], WAIT)[0] and f.read(1), w.stdout.read()
        yield w


def said_now(p):
    """A line of what it says from now on: what waits in the pipe is older."""
    fd, text = p.stdout.fileno(), b""
    while select.select([fd], [], [], 0)[0] and os.read(fd, 1 << 16):
        pass
    while text.count(b"\n") < 2:
        assert select.select([fd], [], [], WAIT)[0], "it stands still"
        assert (more := os.read(fd, 1 << 12)), f"it has ended: {text}"
        text += more
    return text.split(b"\n")[1].decode()


def goes_on(p):
    """Whether it is alive, and what it counts still grows."""
    before = int(said_now(p).split()[0])
    return wait_until(lambda: int(said_now(p).split()[0]) > before)


def waits_in(pid, call):
    """Whether its first thread sleeps in that system call."""
    with open(f"/proc/{pid}/syscall") as f:
        return f.read().split()[0] == str(call)


def mappings(pid):
    with open(f"/proc/{pid}/maps") as maps:
        return [line for line in maps if "[heap]" not in line and "[stack]" not in line]


# What is recorded


def test_every_call_is_counted_and_recorded_with_its_argument(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch("--at", "entry work", "--call", "value", probes, "-o", log, "--", build("patched"), 1000)
    assert done.stdout == "1503500\n"
    events = report(log)
    assert [int(e["value"], 16) for e in of_type(events, "probe")] == list(range(1000))
    (total,) = of_type(events, "probe_total")
    assert (total["count"], total["lost"], total["function"], total["offset"]) == (1000, 0, "work", 0)
    (summary,) = of_type(events, "summary")
    assert (summary["reached"], summary["recorded"], summary["lost"]) == (1000, 1000, 0)
    assert {e["tid"] for e in of_type(events, "probe")} == {events[0]["pid"]}


def test_a_line_of_text_has_its_arguments_and_strings(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", "entry work => text", "--at", "entry say => bad_text", probes, "-o", log, "--", build("patched"), 2)
    assert [e["text"] for e in of_type(report(log), "probe")] == ["hello 0 of ffffffff", "hello 1 of ffffffff", "[(unreadable)]"]


def test_a_stack_is_exact(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", "entry work", "--call", "stack", probes, "-o", log, "--", build("patched"), 3)
    stacks = of_type(report(log), "probe")
    assert [s["tag"] for s in stacks] == ["mark"] * 3
    for s in stacks:
        names = [f["function"] for f in s["stack"]]
        assert names[0] == "work" and names[-1] == "_start", names
        assert "main" in names


def test_babeltrace_reads_the_log(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", "entry work", "--call", "text", probes, "-o", log, "--", build("patched"), 3)
    shown = subprocess.run(["babeltrace2", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert shown.returncode == 0, shown.stderr
    assert len(re.findall(r"\bprobe: .*\"hello\"", shown.stdout)) == 3
    assert re.search(r"probe_total: .*count = 3, lost = 0", shown.stdout)


def test_values_are_withheld_where_that_is_asked_for(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", "entry work", "--call", "text", probes, "-o", log, "--", build("patched"), 2)
    shown = subprocess.run([WATCHCTL, "report", "--redact", "all", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert "hello" not in shown.stdout and "withheld" in shown.stdout


def test_operands_are_those_of_the_instruction(build, tmp_path):
    """main reads argv[1] by rsi, which is argv: on the stack, and what is there is the text that it was given."""
    path = tmp_path / "argument.c"
    path.write_text(r"""
#include <watchctl/probe.h>
PROBE(argument)
{
	char **at = probe_address(p, 1);
	probe_log("%s %d %d", *at, at == (char **)p->regs->rsi + 1, probe_operand(p, 1) == (uint64_t)*at);
}
""")
    log = tmp_path / "log"
    patch("--at", "mov reg64, [rsi+*]", "--function", "main", path, "-o", log, "--", build("patched"), 17)
    assert [e["text"] for e in of_type(report(log), "probe")] == ["17 1 1"]


# Before, after, instead


def test_after_the_instruction_its_result_is_seen(build, probes, tmp_path):
    log = tmp_path / "log"
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=work", build("patched")], capture_output=True, text=True).stdout
    last = re.findall(r"^\s+([0-9a-f]+):\s+(?:add|lea)\s.*%rax$", text, re.M)[-1]
    start = re.search(r"^([0-9a-f]+) <work>:", text, re.M)[1]
    offset = int(last, 16) - int(start, 16)
    patch("--at", f"work+{offset:#x}", "--after", "--call", "result", probes, "-o", log, "--", build("patched"), 3)
    assert [e["text"] for e in of_type(report(log), "probe")] == ["rax 5", "rax 8", "rax 11"]


def test_instead_changes_the_program_and_needs_to_be_meant(build, probes):
    words = ["--at", "exit work => instead change", "--at", "entry work => nothing", probes]
    done = patch(*words, "--", build("patched"), 1, status=2)
    assert "--yes-change-the-program" in done.stderr


def test_instead_does_something_else_but_not_in_a_forked_child(build, probes):
    """The child has the program's own instruction: its probes do nothing."""
    done = patch("--at", "plus+0", "--instead", "--yes-change-the-program", "--call", "change", probes, "-q", "--", build("patched"), 1, "fork")
    assert done.stdout.splitlines() == ["5", "child 5", "child plus 8", "plus 1000"]


def test_a_probe_that_only_looks_changes_nothing(build, probes):
    done = patch("--at", "entry work => no_change", "--at", "mov *, * => no_change", "--in", "patched", probes, "-q", "--", build("patched"), 100, status=0)
    assert done.stdout == "15350\n"


# Processes


@pytest.mark.slow
def test_code_and_mappings_are_as_before_when_it_is_over(build, probes):
    with running(build("patched"), 1000, "forever") as p:
        p.stdout.readline()
        code, maps = code_of(p.pid), mappings(p.pid)
        for pattern in ("entry *", "@call", "@syscall", "mov *, *"):
            patched_for_a_moment(p.pid, "--at", pattern, "--call", "nothing", probes, "-q", "-t", "0.2")
        assert code_of(p.pid) == code
        assert mappings(p.pid) == maps
        assert p.poll() is None


def test_stale_addresses_on_a_stack_keep_nothing_in_the_program(build, probes):
    """The frames of a sleep do not use all of their room: what a probe has left there is no way back into it."""
    with running(build("patched"), 10, "quiet") as p:
        p.stdout.readline()
        maps = mappings(p.pid)
        for _ in range(5):
            patch("-p", p.pid, "--at", "entry work", "--call", "stack", probes, "-q", "-t", "0.1")
            assert mappings(p.pid) == maps


def test_a_traced_process_is_refused(build, probes):
    with running(build("patched"), 10, "quiet") as p:
        p.stdout.readline()
        with running("gdb", "-q", "-batch", "-p", p.pid, "-ex", "shell cat", stdin=subprocess.PIPE):
            wait_until(lambda: "TracerPid:\t0" not in open(f"/proc/{p.pid}/status").read())
            assert "traced by gdb" in patch("-p", p.pid, "--at", "entry work", "--call", "stack", probes, status=4).stderr


def test_a_forked_child_runs_on_and_records_nothing(build, probes, tmp_path):
    log = tmp_path / "log"
    done = patch("--at", "entry work", "--at", "entry fork", "--call", "value", probes, "-o", log, "--", build("patched"), 50, "fork")
    assert done.stdout == "3925\nchild 3925\nchild plus 57\nplus 57\n"
    totals = {t["function"]: t["count"] for t in of_type(report(log), "probe_total") if t["count"]}
    assert totals.pop("work") == 50


@pytest.mark.parametrize("name", ["patched_static", "patched_static_pie"])
def test_a_static_program_is_patched_from_its_start(build, probes, tmp_path, name):
    log = tmp_path / "log"
    done = patch("--at", "entry work", "--call", "stack", probes, "-o", log, "--", build(name), 50)
    assert done.stdout == "3925\n"
    assert [t["count"] for t in of_type(report(log), "probe_total")] == [50]
    assert "main" in [f["function"] for f in of_type(report(log), "probe")[0]["stack"]]


def test_an_exec_ends_it_with_all_that_was_recorded(build, probes, tmp_path):
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", "--at", "entry work", "--call", "value", probes, "-o", str(log), "--", build("patched"), "50", "exec"],
                          capture_output=True, text=True, timeout=WAIT)
    assert done.returncode in (0, 3), done.stderr  # the other program may have ended before it is seen
    assert len(of_type(report(log), "probe")) == 50


def test_a_library_that_is_loaded_later_is_patched(build, probes, tmp_path):
    shutil.copy(build("libplugged.so"), tmp_path)
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", "--at", "entry plugged", "--at", "entry work", "--call", "value", probes, "-o", str(log), "--",
                           build("patched"), "20", "load"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    # A name that is nowhere yet is an error: patterns with * are for what comes.
    assert done.returncode == 5 and "plugged" in done.stderr
    done = subprocess.run([WATCHCTL, "patch", "--at", "entry *", "--function", "*", "--call", "nothing", probes, "-o", str(log), "--",
                           build("patched"), "20", "load"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    counts = {t["function"]: t["count"] for t in of_type(report(log, "--sites"), "probe_total") if t.get("module", "").endswith("libplugged.so")}
    assert counts["plugged"] == 20


def test_a_name_that_is_nowhere_yet_is_waited_for(build, probes, tmp_path):
    shutil.copy(build("libplugged.so"), tmp_path)
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", "--pending", "--at", "entry plugged", "--call", "value", probes, "-o", str(log), "--",
                           build("patched"), "20", "load"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert "0 sites patched in 0 modules" in done.stderr
    assert [t["count"] for t in of_type(report(log), "probe_total")] == [20]


def test_a_line_of_a_library_that_is_not_there_yet_is_waited_for(build, probes, tmp_path):
    line = 1 + (VICTIMS / "plugged.c").read_text().splitlines().index("\treturn a ^ 5;")
    shutil.copy(build("libplugged.so"), tmp_path)
    log = tmp_path / "log"
    done = subprocess.run([WATCHCTL, "patch", "--pending", "--at", f"plugged.c:{line}", "--call", "nothing", probes,
                           "-o", str(log), "--", build("patched"), "20", "load"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert [t["count"] for t in of_type(report(log), "probe_total")] == [20]


@pytest.mark.parametrize("module", [[], ["--in", "libnowhere.so"]], ids=["anywhere", "in a module"])
def test_what_is_waited_for_and_does_not_come_is_zero(build, probes, tmp_path, module):
    log = tmp_path / "log"
    done = patch("--pending", *module, "--at", "entry plugged", "--call", "value", probes, "-o", log, "--", build("patched"), 5)
    assert done.stdout == patch("--at", "entry work", "--call", "nothing", probes, "-q", "--", build("patched"), 5).stdout
    assert not of_type(report(log), "probe_total")


@pytest.mark.parametrize("words, said", [
    (["--at", "bytes 0f 0b 0f 0b 0f 0b 0f 0b 0f 0b 0f 0b"], ["the pattern fits nowhere", "--pending"]),
    (["--at", "entry *", "--function", "no_such_*"], ["no_such_*", "--function"]),
])
def test_a_pattern_that_fits_nowhere_is_an_error(build, probes, words, said):
    done = patch(*words, "--call", "value", probes, "--", build("patched"), 5, status=5)
    assert all(word in done.stderr for word in said)


@pytest.mark.parametrize("line, word", [
    ('probe_log("[%*d]", 3, 4);', "must be numbers"),
    ('probe_log("[%n]", (int *)0);', '"%n"'),
    ('probe_log("[%d %d]", 1);', "given 1 argument for 2 conversions"),
    ('probe_log("[%d]", 1, 2);', "given 2 arguments for 1 conversion"),
    ('probe_log("100%");', '"%%"'),
])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_a_format_that_cannot_be_printed_is_refused_before_anything_is_patched(build, tmp_path, cc, line, word):
    path = tmp_path / "odd.c"
    path.write_text(f"#include <watchctl/probe.h>\nPROBE(odd) {{ {line} }}\n")
    done = patch("--cc", cc, "--at", "entry work", path, "--", build("patched"), 5, status=2)
    assert done.stderr.splitlines()[-1].startswith(f"watchctl: {path}: probe_log(") and word in done.stderr


def test_formats_that_can_be_printed_are(build, tmp_path):
    path = tmp_path / "fine.c"
    path.write_text('#include <watchctl/probe.h>\nPROBE(fine) { probe_log("%-5d|%05.3lx|%%|%s|%c|%hhu|%#llo|%zd", 1, 2L, "t", 65, 257, 8LL, (size_t)9); }\n')
    log = tmp_path / "log"
    patch("--at", "entry work", path, "-o", log, "--", build("patched"), 1)
    assert [e["text"] for e in of_type(report(log), "probe")] == ["1    |  002|%|t|A|1|010|9"]


KEEP = r"""
#include <stdint.h>
#include <stdio.h>

/* All general registers but rsp and rdi hold something while the first addition to r15 runs. */
static uint64_t keep(uint64_t n)
{
	uint64_t bad = 0;

	__asm__ volatile("push %%rbp; push %%rbx; xor %%r15d, %%r15d; mov $1, %%eax; mov $2, %%ebx; mov $3, %%ecx; mov $4, %%edx; mov $5, %%esi\n"
			 "mov $8, %%r8d; mov $9, %%r9d; mov $10, %%r10d; mov $11, %%r11d; mov $12, %%r12d; mov $13, %%r13d; mov $14, %%r14d; mov $6, %%ebp\n"
			 "1: nop\n"
			 "add $0x12345678, %%r15\n"
			 "sub $0x12345678, %%r15\n"
			 "lea (%%rax, %%rbx), %%rax; add %%rcx, %%rax; add %%rdx, %%rax; add %%rsi, %%rax; add %%rbp, %%rax; add %%r8, %%rax; add %%r9, %%rax\n"
			 "add %%r10, %%rax; add %%r11, %%rax; add %%r12, %%rax; add %%r13, %%rax; add %%r14, %%rax; add %%r15, %%rax\n"
			 "sub $98, %%rax; jnz 2f; mov $1, %%eax; dec %%rdi; jnz 1b; xor %%eax, %%eax\n"
			 "2: pop %%rbx; pop %%rbp\n"
			 : "=a"(bad), "+D"(n) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
	return bad;
}

int main(void)
{
	printf("%lu\n", keep(1000));
	return 0;
}
"""


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("last", ["probe_value(p->regs->rdi);", 'probe_log("%lu %s", p->regs->rdi, "a");', 'probe_stack("here", 1);',
                                  "probe_thread();", "helper(p);"])
def test_what_a_probe_calls_last_keeps_the_registers_too(tmp_path, cc, last):
    """clang leaves a function that keeps all registers by a jump, as if what it calls last kept them."""
    (tmp_path / "keep.c").write_text(KEEP)
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "keep", tmp_path / "keep.c"], check=True, timeout=WAIT)
    probe = tmp_path / "last.c"
    probe.write_text("#include <watchctl/probe.h>\n__attribute__((noinline)) static void helper(struct probe *p)"
                     "{ probe_value(p->regs->rdi + 1); probe_value(p->regs->rdi + 2); }\n"
                     f"PROBE(last) {{ (void)helper; {last} }}\n")
    done = patch("--cc", cc, "--at", "add r15, 0x12345678", probe, "-q", "--", tmp_path / "keep")
    assert done.stdout == "0\n" and "reached 1000 times" in done.stderr, done


def test_an_int3_ends_who_blocks_sigtrap_whatever_its_handler_is(tmp_path):
    """Why no patch is a trap. If this should change in the kernel, docs/limits.md is wrong."""
    (tmp_path / "t.c").write_text(r"""
#include <signal.h>
#include <stdio.h>
static void on_trap(int signal) { (void)signal; }
int main(int argc, char **argv)
{
	sigset_t all;

	(void)argv;
	signal(SIGTRAP, on_trap);
	sigfillset(&all);
	if (argc > 1)
		sigprocmask(SIG_BLOCK, &all, NULL);
	__asm__ volatile("int3");
	puts("alive");
	return 0;
}
""")
    subprocess.run(["gcc", "-o", tmp_path / "t", tmp_path / "t.c"], check=True, timeout=WAIT)
    assert subprocess.run([tmp_path / "t"], capture_output=True, text=True, timeout=WAIT).stdout == "alive\n"
    assert subprocess.run([tmp_path / "t", "block"], timeout=WAIT).returncode == -signal.SIGTRAP


@pytest.mark.parametrize("how", ["before", "after", "instead"])
def test_an_endbr64_is_counted_as_often_as_it_is_reached(tmp_path, how):
    """The function has it at its beginning, and a jump back to what is behind another one, which cannot have a patch."""
    (tmp_path / "b.c").write_text(r"""
#include <stdio.h>
__attribute__((noinline)) long plain(long n) { return n * 3 + 1; }
long again(long n);
__asm__(".globl again; .type again, @function; again: endbr64; 1: dec %rdi; lea 0x1234567(%rdi), %rax; jg 1b; ret; .size again, . - again");
int main(void)
{
	long sum = 0;
	for (long i = 0; i < 500; i++)
		sum += plain(i) + again(4);
	printf("%ld\n", sum);
	return 0;
}
""")
    subprocess.run(["gcc", "-O2", "-fcf-protection=branch", "-o", tmp_path / "b", tmp_path / "b.c"], check=True, timeout=WAIT)
    (tmp_path / "p.c").write_text('#include <watchctl/probe.h>\nPROBE(here) { probe_log("%lx %lx", p->regs->rip, p->regs->rdi); }\n')
    plain = subprocess.run([tmp_path / "b"], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    (tmp_path / "rules").write_text(f"endbr64 => {how} here\n")
    log = tmp_path / "log"
    done = patch("--rules", tmp_path / "rules", *(["--yes-change-the-program"] if how == "instead" else []), "--function", "[pa][lg]*", tmp_path / "p.c",
                 "-o", log, "--", tmp_path / "b", status=7 if how == "instead" else 0)
    if how == "instead":  # it cannot be left out
        assert "none of the 2 sites can be patched" in done.stderr
        return
    assert done.stdout == plain
    told = report(log)
    sites = {e["function"]: e for e in of_type(told, "patch_site")}
    assert sites["again"]["tactic"] == "refused"
    assert sites["plain"]["insn"] == "endbr64" and sites["plain"]["tactic"] == "jump"
    assert [e["text"].split()[1] for e in of_type(told, "probe")] == [f"{i:x}" for i in range(500)]
    assert {int(e["text"].split()[0], 16) - int(e["ip"], 16) for e in of_type(told, "probe")} == {4 if how == "after" else 0}
    assert {e["function"]: e["count"] for e in of_type(told, "probe_total")} == {"plain": 500, "again": 0}


@pytest.mark.slow
def test_a_thread_at_the_beginning_of_a_signal_handler_is_in_no_system_call(tmp_path, probes):
    """The kernel has it stand there with the number of the call that the signal ended; two bytes before is another function's last patch."""
    (tmp_path / "h.c").write_text(r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
volatile long handled;
void handler(int signal);
double before(double x);
__asm__(".text; .type before, @function; before: push %rbx; movq %xmm0, %rbx; mov $6, %edi; movq %rbx, %xmm2; mulsd %xmm2, %xmm0; pop %rbx; ret\n"
	".size before, . - before; .type handler, @function; handler: incq handled(%rip); ret; .size handler, . - handler");
int main(void)
{
	long raised = 0;
	double x = 0;
	sigset_t set;

	signal(SIGUSR1, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	do {
		sigprocmask(SIG_BLOCK, &set, NULL);
		raise(SIGUSR1);
		raised++;
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		x += before(1);
	} while (access("over", F_OK));
	printf("%d %d\n", raised == handled, x == raised);
	return 0;
}
""")
    subprocess.run(["gcc", "-O1", "-no-pie", "-fno-pie", "-o", tmp_path / "h", tmp_path / "h.c"], check=True, timeout=WAIT)
    p = subprocess.Popen([tmp_path / "h"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    for _ in range(20):
        patch("-p", p.pid, "--at", "*", "--function", "before", "--in", "h", "--call", "nothing", probes, "-q", "-t", "0.02")
    (tmp_path / "over").touch()
    assert p.communicate(timeout=WAIT)[0] == "1 1\n" and p.returncode == 0


@pytest.mark.parametrize("children", [0, 1, 3])
def test_children_that_outlive_the_program_are_told_of(tmp_path, probes, children):
    """A daemon's first process ends at once: that nothing was recorded is no proof that nothing was called."""
    (tmp_path / "d.c").write_text(r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) long work(long n) { return n * 7 + 1; }
volatile long sink;
int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++)
		if (!fork()) {
			close(1);
			close(2);
			for (int k = 0; access(argv[2], F_OK); k++) { /* until the test is over */
				sink = work(k);
				usleep(1000);
			}
			return 0;
		}
	printf("%ld\n", work(argc));
	return 0;
}
""")
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "d", tmp_path / "d.c"], check=True, timeout=WAIT)
    log = tmp_path / "log"
    try:
        done = patch("--at", "entry work", "--call", "value", probes, "-o", log, "--program-output", tmp_path / "out", "--",
                     tmp_path / "d", children, tmp_path / "over")
        notes = [e["text"] for e in of_type(report(log), "note") if "goes on" in e["text"] or "go on" in e["text"]]
        assert len(notes) == (children > 0) and len(of_type(report(log), "probe")) == 1, done.stderr
        if children:
            pid = int(notes[0].rsplit(" ", 1)[1])
            assert open(f"/proc/{pid}/comm").read() == "d\n" and ("3 processes" in notes[0]) == (children == 3)
            again = patch("-p", pid, "--at", "entry work", "--call", "value", probes, "-n", 50, "-q")  # as the note says
            assert int(re.search(r"reached ([0-9]+) times", again.stdout + again.stderr)[1]) >= 50, again
    finally:
        (tmp_path / "over").touch()


def test_a_folder_that_a_killed_compilation_has_left_is_removed(build, probes, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    old, new, alive = (tmp_path / f"watchctl-probes-{pid}-{name}" for pid, name in ((gone.pid, "aaaaaa"), (gone.pid, "bbbbbb"), (os.getpid(), "cccccc")))
    for folder in (old, new, alive):
        folder.mkdir()
        (folder / "runtime.o").write_text("")
    for folder in (old, alive):
        os.utime(folder, (time.time() - 3600,) * 2)
    subprocess.run([WATCHCTL, "patch", "--at", "entry work", "--call", "nothing", probes, "-q", "--", build("patched"), "5"],
                   check=True, capture_output=True, timeout=WAIT, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert not old.exists() and new.exists() and alive.exists()
    assert {f.name for f in tmp_path.iterdir()} == {new.name, alive.name, "probes.c"}


def test_a_thread_that_waits_in_a_patched_system_call_gets_its_data(build, probes):
    p = subprocess.Popen([build("patched"), "1", "read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        p.stdout.readline()
        wait_until(lambda: waits_in(p.pid, READ))
        with armed("patch", "-p", p.pid, "--at", "@syscall", "--call", "nothing", probes, "-q") as w:
            assert "patches in" in patch("list", "-p", p.pid).stdout
            wait_until(lambda: waits_in(p.pid, READ))
            p.stdin.write("line\n")
            p.stdin.flush()
            assert p.stdout.readline() == "read line\n"
            assert p.stdout.readline() == "5\n"
            w.wait(timeout=WAIT)
        assert p.wait(timeout=WAIT) == 0
    finally:
        p.kill()


def test_a_thread_that_waits_in_a_system_call_is_let_out_of_it_when_patches_go(build, probes):
    p = subprocess.Popen([build("patched"), "1", "read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        p.stdout.readline()
        maps = None
        for _ in range(3):
            wait_until(lambda: waits_in(p.pid, READ))
            maps = maps or mappings(p.pid)
            patch("-p", p.pid, "--at", "@syscall", "--call", "nothing", probes, "-q", "-t", "0.2")
            assert mappings(p.pid) == maps
        p.stdin.write("line\n")
        p.stdin.flush()
        assert p.stdout.read() == "read line\n5\n"
    finally:
        p.kill()


def test_a_killed_watchctl_leaves_a_program_that_runs_and_can_be_cleared(build, probes):
    with running(build("patched"), 1000, "forever") as p:
        p.stdout.readline()
        code = code_of(p.pid)
        w = ready(WATCHCTL, "patch", "-p", p.pid, "--at", "entry work", "--call", "value", probes, "-q", stdout=subprocess.DEVNULL)
        w.kill()
        w.wait()
        assert "has ended" in patch("list", "-p", p.pid).stdout
        assert goes_on(p)
        cleared = subprocess.run([WATCHCTL, "clear", "-p", str(p.pid)], capture_output=True, text=True, timeout=WAIT)
        assert cleared.returncode == 0 and "took out 1 patch of 1 module" in cleared.stdout
        assert code_of(p.pid) == code
        assert "no patches" in patch("list", "-p", p.pid).stdout


def test_the_next_watchctl_takes_over_what_a_killed_one_has_left(build, probes):
    with running(build("patched"), 1000, "forever") as p:
        p.stdout.readline()
        w = ready(WATCHCTL, "patch", "-p", p.pid, "--at", "entry work", "--call", "value", probes, "-q", stdout=subprocess.DEVNULL)
        w.kill()
        w.wait()
        done = patch("-p", p.pid, "--at", "entry work", "--call", "value", probes, "-q", "-t", "0.5")
        assert "1 site patched, 0 refused" in done.stderr
        assert "no patches" in patch("list", "-p", p.pid).stdout


def test_two_at_once_do_not_write_over_each_other(build, probes):
    with running(build("patched"), 1000, "forever") as p:
        p.stdout.readline()
        code = code_of(p.pid)
        with armed("patch", "-p", p.pid, "--at", "entry work", "--call", "value", probes, "-q") as w:
            done = patch("-p", p.pid, "--at", "entry work", "--call", "value", probes, "-q", status=7)
            assert "a patch of another watchctl's" in done.stderr
            patch("-p", p.pid, "--at", "entry say", "--call", "value", probes, "-q", "-t", "0.3")
            w.send_signal(signal.SIGINT)
            assert w.wait(timeout=WAIT) == 0
        assert code_of(p.pid) == code


# Harm


@pytest.mark.slow
def test_threads_that_run_through_it_all_compute_what_they_should(build, probes):
    """Patches come and go, and every third watchctl is killed, while threads check all that they compute."""
    chance = random.Random(5)
    patterns = ["entry *", "@call", "@syscall", "@locked", "mov *, *", "push *", "cmp *, *", "@ret", "@branch", "lea *, *"]
    with running(build("patch_hammer")) as p:
        p.stdout.readline()
        code = code_of(p.pid)
        for i in range(15):
            words = [WATCHCTL, "patch", "-p", p.pid, "--at", patterns[i % len(patterns)], "--call", chance.choice(["nothing", "value", "stack"]),
                     "-q", "-t", chance.uniform(0.01, 0.3), probes]
            w = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if i % 3 == 2:
                time.sleep(chance.uniform(0.05, 1))
                w.kill()
            said = w.communicate(timeout=2 * WAIT)[1]
            assert w.returncode in (0, -9), said
            assert p.poll() is None, p.stdout.read()
        subprocess.run([WATCHCTL, "clear", "-p", str(p.pid)], check=True, stdout=subprocess.DEVNULL, timeout=WAIT)
        assert "no patches" in patch("list", "-p", p.pid).stdout
        assert code_of(p.pid) == code
        assert goes_on(p)


PROGRAMS = {
    "python3": ["/usr/bin/python3", "-c", "import json, hashlib, re, zlib; d = {str(i): [i] * 3 for i in range(500)}; s = json.dumps(d, sort_keys=True); "
                "print(hashlib.sha256(s.encode()).hexdigest(), len(zlib.compress(s.encode())), len(re.findall(r'\\d+', s)))"],
    "perl": ["perl", "-e", r'my %h; $h{$_ % 97}++ for 1..5000; print join(",", map {"$_=$h{$_}"} sort keys %h), "\n"; eval { die "x" }; print $@;'],
    "bash": ["bash", "-c", "for i in $(seq 200); do x=$((x+i*i)); done; echo $x; (echo sub; echo $((x%7))) | tr a-z A-Z; trap 'echo got' USR1; kill -USR1 $$; echo end"],
    "git": ["git", "--version"],
}


@pytest.mark.slow_when("bash-@branch", "git-@branch", "git-@call", "perl-@branch", "python3-@branch", "python3-@call",
                       "python3-entry *")
@pytest.mark.parametrize("pattern", ["entry *", "@syscall", "@locked", "@call", "@ret", "@branch"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_packaged_programs_print_what_they_print_without(probes, tmp_path, name, pattern):
    command = PROGRAMS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    plain = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=WAIT).stdout
    done = patch("--at", pattern, "--call", "nothing", probes, "-q", "--output", tmp_path / "said", "--", *command)
    assert done.stdout == plain
    patched = int(re.search(r"(\d+) sites? patched", done.stderr)[1])
    assert patched > 200


def test_the_way_back_from_signals_stays(probes):
    done = patch("--plan", "--at", "@syscall", "--function", "__restore_rt", "--json", "/lib/x86_64-linux-gnu/libc.so.6")
    sites = of_type([json.loads(line) for line in done.stdout.splitlines()], "patch_site")
    assert all(s["tactic"] == "refused" for s in sites)


# Refusals


@pytest.mark.parametrize("text, said", [
    ("#include <watchctl/probe.h>\nPROBE(x) { extern void *malloc(unsigned long); malloc(3); }\n", "malloc"),
    ("#include <watchctl/probe.h>\nPROBE(x) { nonsense }\n", "could not be compiled"),
    ("#include <watchctl/probe.h>\nstatic int y;\n", "no probe"),
    ("#include <watchctl/probe.h>\n__thread int t;\nPROBE(x) { probe_value(t++); }\n", "thread"),
])
def test_what_cannot_run_in_a_program_is_refused(build, tmp_path, text, said):
    source = tmp_path / "p.c"
    source.write_text(text)
    assert said in patch("--at", "entry work", source, "--", build("patched"), 1, status=2).stderr


@pytest.mark.parametrize("words, status, said", [
    (["--at", "entry wrok", "--call", "value"], 5, "work"),
    (["--at", "entry work", "--call", "vlaue"], 5, "vlaue"),
    (["--at", "entry work"], 2, "--call"),
    (["--at", "entry work => sideways value"], 2, "before, after or instead"),
    (["--at", "entry work", "--call", "value", "--cc", "no-such-compiler"], 2, "install"),
    (["--at", "entry work", "--call", "value", "--buffer", "1K"], 2, "--buffer"),
    (["--call", "value"], 2, "--at"),
])
def test_a_request_that_makes_no_sense_is_one_sentence(build, probes, words, status, said):
    done = patch(*words, probes, "--", build("patched"), 1, status=status)
    assert said in done.stderr and done.stdout == ""


def test_no_such_process(probes):
    assert "999999999" in patch("-p", 999999999, "--at", "entry malloc", "--call", "value", probes, status=3).stderr


def test_the_loader_and_the_vdso_are_refused(build, probes, tmp_path):
    log = tmp_path / "log"
    patch("--at", "@syscall", "--call", "nothing", probes, "-o", log, "--", build("patched"), 1)
    refused = [s for s in of_type(report(log), "patch_site") if s["tactic"] == "refused"]
    assert any("ld-linux" in s.get("module", "") and "loader" in s["reason"] for s in refused)
    assert not any(s["tactic"] != "refused" and ("ld-linux" in s.get("module", "") or "vdso" in s.get("module", "")) for s in of_type(report(log), "patch_site"))


def test_a_go_program_is_refused(build, probes):
    if not shutil.which("go"):
        pytest.skip("no Go compiler")
    with running(build("counter_go"), stdin=subprocess.PIPE) as p:
        p.stdout.readline()
        done = patch("-p", p.pid, "--at", "entry main.*", "--call", "nothing", probes, "-q", "-t", "0.2", status=7)
        assert "Go" in done.stderr
        assert p.poll() is None
