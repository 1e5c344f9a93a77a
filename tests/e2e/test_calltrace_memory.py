# rooms: calltrace
"""
What pointers point to, as filters ask for it: what is recorded is what the program says of it itself, at each level of
optimization, in logs, flight recorders and cores. Memory that is not there does no harm, and bytes that are not known are
never others.
"""
import os
import re
import subprocess

import pytest
from conftest import WAIT, WATCHCTL
from test_calltrace import CC, CXX, PLUGIN, SOURCES, VERSIONS, compile, events, execute, report

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass")

CAPTURE = '["*text:str", "*c", "*buf:64", "*raw:20", "*p", "*numbers:16", "*d", "*more:1000", "n", "*return:str", "*f", "*j:str"]'
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-O2 -flto -fuse-ld=lld", "-O2 -fomit-frame-pointer -static"]


def filters(folder, capture=CAPTURE):
    (folder / "f.toml").write_text(f"[[allow]]\ncapture = {capture}\n")
    return f"--calltrace-filters-file={folder / 'f.toml'}"


def told(text):
    """{(function, name): [(state, bytes) of each call]}, as the program has it; in any order, as there are threads."""
    said = {}
    for line in text.splitlines():
        m = re.fullmatch(r"memory (\w+) (\w+) (\w+) (\w*)", line)
        if m:
            said.setdefault((m[1], m[2]), []).append((m[3], m[4]))
    return {k: sorted(v) for k, v in said.items()}


def pointee(v):
    """(state, bytes): of a scalar, (state, its text)."""
    state = v.get("to_state", "ok")
    if "string" in v:
        return state, v["string"].encode().hex()
    return state, v.get("to_bytes", "") or v.get("to", "")


def values(log):
    for e in events(log):
        name = re.sub(r"\(.*", "", e.get("function", "")).split("::")[-1]
        for v in [*e.get("args", []), *([{"name": "return", **e["ret"]}] if "ret" in e else [])]:
            yield name, v


def recorded(log, expected):
    found = {}
    for function, v in values(log):
        if (function, v["name"]) in expected:
            assert "state" not in v, (function, v)
            found.setdefault((function, v["name"]), []).append(pointee(v))
    return {k: sorted(v) for k, v in found.items()}


def scalars_as_text(said):
    """A double is no array of bytes: its text is known."""
    return {**said, ("typed", "d"): [(state, "2.5") for state, _ in said["typed", "d"]]}


def check(folder, traced, **env):
    status, text = execute(traced, folder / "run.log", **env)
    expected = scalars_as_text(told(text))
    assert status == 0 and len(expected) == 14
    assert {state for v in expected.values() for state, _ in v} == {"ok", "cut", "unreadable", "null"}
    assert recorded(folder / "run.log", expected) == expected


@pytest.mark.parametrize("options", LEVELS)
def test_bytes_are_those_that_the_program_sees(tmp_path, options):
    check(tmp_path, compile(CC, SOURCES / "memory.c", tmp_path / "traced", "-g", *options.split(), filters(tmp_path)))


@pytest.mark.parametrize("options", ["-O0", "-O2"])
def test_they_are_in_cplusplus(tmp_path, options):
    check(tmp_path, compile(CXX, SOURCES / "memory.c", tmp_path / "traced", "-g", *options.split(), filters(tmp_path), "-x", "c++"))


@pytest.mark.parametrize("version", VERSIONS)
def test_they_are_with_each_version_of_the_compiler(tmp_path, version):
    check(tmp_path, compile(CC, SOURCES / "memory.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path), CALLTRACE_CLANG=f"clang-{version}"))


def test_a_flight_recorder_has_them(tmp_path):
    check(tmp_path, compile(CC, SOURCES / "memory.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path)), CALLTRACE_RING="1M")


MANY = """
#include <string.h>
#include <stdio.h>
__attribute__((noinline)) int f(char *buf, int n) { __asm__ volatile("" : "+r"(n) : "r"(buf) : "memory"); return n; }
int main(void) { char b[40]; for (int i = 0; i < 30000; i++) { memset(b, 0, sizeof(b)); sprintf(b, "%d", i); f(b, i); } return 0; }
"""


def test_they_stay_with_their_calls_over_packets_and_chunks(tmp_path):
    """Borders of packets and chunks lie at another place of a call each time."""
    (tmp_path / "a.c").write_text(MANY)
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '["*buf:30", "n"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    found = [pointee(v) for function, v in values(tmp_path / "run.log") if function == "f" and v["name"] == "buf"]
    assert found == [("ok", str(i).encode().ljust(30, b"\0").hex()) for i in range(30000)]


def test_a_ring_that_is_full_has_the_last_calls_whole(tmp_path):
    (tmp_path / "a.c").write_text(MANY)
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '["*buf:30", "n"]'))
    assert execute(traced, tmp_path / "run.log", CALLTRACE_RING="256K") == (0, "")
    found = [pointee(v) for function, v in values(tmp_path / "run.log") if function == "f" and v["name"] == "buf"]
    assert 1000 < len(found) < 30000
    assert found == [("ok", str(i).encode().ljust(30, b"\0").hex()) for i in range(30000 - len(found), 30000)]


def test_where_signals_interrupt_bytes_are_left_out_and_never_others(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int handled;
__attribute__((noinline)) int f(const char *text, int n) { __asm__ volatile("" : "+r"(n) : "r"(text) : "memory"); return n; }
static void on_signal(int s) { char b[40]; handled++; sprintf(b, "%d is the text", -handled); f(b, -handled); }
int main(void)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };
	char b[40];
	int i;
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 1; i < 5000 || handled < 300; i++) { sprintf(b, "%d is the text", i); f(b, i); }
	setitimer(ITIMER_REAL, &never, NULL);
	return 0;
}
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*text:str", "n"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    whole = 0
    for e in events(tmp_path / "run.log"):
        if e["type"] != "call" or e["function"] != "f" or not e["args"]:
            continue
        text, n = e["args"]
        assert text.get("to_state", "ok") in ("ok", "not_recorded")
        if "string" in text and "state" not in n:
            assert text["string"] == f"{n['text']} is the text"
            whole += 1
    assert whole >= 300


def test_what_a_sandbox_refuses_is_unreadable(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
__attribute__((noinline)) int f(const char *text) { __asm__ volatile("" : : "r"(text) : "memory"); return errno; }
int main(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };
	errno = 0;
	if (f("before") || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
		return 77;
	return f("behind") || f("again");
}
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*text:str"]'))
    status, _ = execute(traced, tmp_path / "run.log")
    if status == 77:
        pytest.skip("no filter can be set here")
    assert status == 0
    found = [pointee(v) for function, v in values(tmp_path / "run.log") if function == "f" and v["name"] == "text"]
    assert found == [("ok", b"before".hex()), ("unreadable", ""), ("unreadable", "")]


def test_all_parameters_of_a_function_show_4096_bytes(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <string.h>
static char b[2000];
__attribute__((noinline)) int f(void *a1, void *a2, void *a3, void *a4, void *a5) { __asm__ volatile("" : : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory"); return 0; }
int main(void) { memset(b, 5, sizeof(b)); for (int i = 0; i < 100; i++) f(b, b + 1, b + 2, b + 3, b + 4); return 0; }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*a1:1024", "*a2:1024", "*a3:1024", "*a4:1000", "*a5:100"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    found = [len(v["to_bytes"]) // 2 for function, v in values(tmp_path / "run.log") if function == "f" and "to_bytes" in v]
    assert found == [1024, 1024, 1024, 1000, 24] * 100


def test_all_are_addresses_alone(tmp_path):
    (tmp_path / "a.c").write_text('__attribute__((noinline)) int f(const char *text) { __asm__ volatile("" : : "r"(text)); return 0; }\nint main(void) { return f("x"); }\n')
    for capture in ('"all"', '["text"]'):
        log = tmp_path / f"{len(capture)}.log"
        assert execute(compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, capture)), log) == (0, "")
        (text,) = [v for function, v in values(log) if v["name"] == "text"]
        assert re.fullmatch("0x[0-9a-f]+", text["text"]) and pointee(text) == ("not_recorded", "")


def test_names_that_are_no_pointers_are_recorded_as_they_are(tmp_path):
    (tmp_path / "a.c").write_text('__attribute__((noinline)) int f(int n, void *p) { __asm__ volatile("" : : "r"(n), "r"(p)); return 7; }\nint main(void) { return f(3, (void *)5) - 7; }\n')
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*n:8", "*p", "*return:str", "*nothing:4"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    assert [(v["name"], v["text"]) for function, v in values(tmp_path / "run.log") if function == "f"] == [("n", "3"), ("p", "0x5"), ("return", "7")]


@pytest.mark.parametrize("word", ["*buf:0", "*buf:1025", "*buf:2000", "*buf:x", "*buf:", "*buf:8x", "*", "**p", "*:str", "buf:8", "*buf:-1", "*buf:99999999999999999999", "*buf:str "])
def test_a_wrong_word_is_shown(tmp_path, word):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "f.toml").write_text(f'[[allow]]\ncapture = ["n", "{word}"]\n')
    ran = subprocess.run([CC, "--calltrace-filters-file=f.toml", "a.c", "-o", "a"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    said = ran.stderr.splitlines()
    assert ran.returncode == 0 and said[0].startswith("calltrace: f.toml:2: ") and "*NAME:BYTES" in said[0] and said[2].strip().startswith("^")


def test_a_core_has_them(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int deep(int n, const char *text) { volatile int kept = n; char b[20]; __asm__ volatile("" : : "r"(text) : "memory"); if (n == 7) abort(); sprintf(b, "text %d", n + 1); return deep(n + 1, b) + kept; }
int main(void) { return deep(1, "text 1"); }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*text:str", "n"]'))
    for ring in ("", "1M"):
        log, core = tmp_path / f"run{ring}.log", tmp_path / f"core{ring}"
        subprocess.run(["gdb", "-batch", "-ex", "run", "-ex", f"generate-core-file {core}", traced], capture_output=True, timeout=WAIT, env={"PATH": "/usr/bin:/bin", "CALLTRACE_OUTPUT": str(log), "CALLTRACE_RING": ring, "HOME": str(tmp_path)})
        assert [v["string"] for function, v in values(core) if function == "deep" and v["name"] == "text"] == [f"text {n}" for n in range(1, 8)]


def test_they_are_shown_withheld_and_put_into_pages(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <stdio.h>
__attribute__((noinline)) int login(const char *user, const char *buf) { __asm__ volatile("" : : "r"(user), "r"(buf) : "memory"); return 0; }
int main(int c, char **v) { char b[64] = "secret"; return login(v[1], b); }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '["*user:str", "*buf:32"]'))
    for user in ("alice", "bob"):
        subprocess.run([traced, user], check=True, timeout=WAIT, env={**os.environ, "CALLTRACE_OUTPUT": str(tmp_path / f"{user}.log")})
    assert re.search(r'login\(user = "alice", buf = 0x[0-9a-f]+ -> "secret"\)', report(tmp_path / "alice.log", "--calls"))
    hidden = "".join(line for line in report(tmp_path / "alice.log", "--json", "--redact", "login").splitlines() if '"login"' in line)
    assert '"state":"withheld"' in hidden and "alice" not in hidden and b"secret".hex() not in hidden and "secret" not in hidden
    page = tmp_path / "page.html"
    subprocess.run([WATCHCTL, "report", str(tmp_path / "alice.log"), "--html", str(page)], check=True, timeout=WAIT, capture_output=True)
    assert "alice" in page.read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ir_is_valid_and_no_parameter_is_said_to_be_unread(tmp_path, version):
    (tmp_path / "a.c").write_text('__attribute__((noinline)) void writes(char *buf) { buf[0] = 1; }\nvoid calls(char *p) { writes(p); }\n')
    said = {}
    for capture in ('["buf"]', '["*buf:8"]'):
        for source in (tmp_path / "a.c", SOURCES / "memory.c"):
            compile(CC, source, tmp_path / "a.bc", "-O2", "-g", "-c", "-emit-llvm", "-Wno-unused-command-line-argument", filters(tmp_path, CAPTURE if source.name == "memory.c" else capture), CALLTRACE_CLANG=f"clang-{version}")
            ran = subprocess.run([f"opt-{version}", "a.bc", "-passes=verify", "-S", "-o", source.stem + ".ll"], capture_output=True, text=True, cwd=tmp_path, timeout=WAIT)
            assert (ran.returncode, ran.stderr) == (0, "")
        said[capture] = [line for line in (tmp_path / "a.ll").read_text().splitlines() if re.search(r"(define|call).*@writes\(", line)]
        assert "@__calltrace_memory(" in (tmp_path / "memory.ll").read_text()
    assert len(said['["*buf:8"]']) == 2 and "writeonly" in said['["buf"]'][0] and "writeonly" not in "".join(said['["*buf:8"]'])


SMALL = """
#include <stdio.h>
int small(const char *name) { return *name; }
int main(void) { printf("%c%c", small("one"), small("two")); return 0; }
"""


@pytest.mark.parametrize("options", ["-O1", "-O2", "-O3"])
def test_functions_of_which_values_are_wanted_are_not_inlined(tmp_path, options):
    (tmp_path / "a.c").write_text(SMALL)
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", options, filters(tmp_path, '["*name:str"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "ot")
    found = [bytes.fromhex(pointee(v)[1]) for function, v in values(tmp_path / "run.log") if v["name"] == "name"]
    assert sorted(found) == [b"one", b"two"]


def test_a_parameter_of_which_no_value_is_wanted_is_its_name(tmp_path):
    (tmp_path / "a.c").write_text('__attribute__((noinline)) int two(const char *name, int n) { return *name + n; }\nint main(int argc, char **argv) { return two("one", argc) == 1; }\n')
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O0", filters(tmp_path, '["*name:str", "return"]'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    text = subprocess.run([WATCHCTL, "report", "--calls", str(tmp_path / "run.log")], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    assert 'two(name = "one", n) = 112 [' in text
