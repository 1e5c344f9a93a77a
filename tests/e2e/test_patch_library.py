# rooms: patch/library probe/library
"""watchctl patch --library: programs that load a drop-in library do what they do with the original, and their probes record it all."""

import contextlib
import filecmp
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
import zlib

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL, wait_until  # noqa: E402
from test_patch_live import of_type, report  # noqa: E402

PROBES = r"""
#include <watchctl/probe.h>
PROBE(value) { probe_value(p->regs->rdx); }
PROBE(nothing) { (void)p; }
PROBE(stack) { probe_stack("mark", p->regs->rdi); }
"""
FOLDER = "/lib/x86_64-linux-gnu"
PYTHON = "/usr/bin/python3"
LIBRARIES = ["libz.so.1", "libcrypto.so.3", "libsqlite3.so.0", "libstdc++.so.6", "liblzma.so.5", "libgcc_s.so.1", "libm.so.6"]


@pytest.fixture
def probes(tmp_path):
    path = tmp_path / "probes.c"
    path.write_text(PROBES)
    return str(path)


def patch(*words, status=0, **more):
    done = subprocess.run([WATCHCTL, "patch", *map(str, words)], capture_output=True, text=True, timeout=2 * WAIT, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def drop_in(probes, tmp_path):
    """drop_in(library, *words) -> the folder with the drop-in."""

    def make(library, *words):
        out = tmp_path / "out"
        patch("--library", library, *words, probes, "--output-dir", out)
        return out

    return make


def env(out, log=None, **more):
    e = dict(os.environ, LD_LIBRARY_PATH=str(out), **more)
    e.pop("WATCHCTL_OUTPUT", None)
    return dict(e, WATCHCTL_OUTPUT=str(log)) if log else e


def run(words, e, status=0, said="", **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL, env=e, **more)
    assert done.returncode == status, done.stderr
    assert done.stderr == "" if not said else said in done.stderr, done.stderr
    return done.stdout


def counts(log):
    """How often each function was reached that was at all, by the log, which is whole: nothing is lost."""
    events = report(log)
    (summary,) = of_type(events, "summary")
    assert summary["lost"] == 0
    return {t.get("function", t["ip"]): t["count"] for t in of_type(events, "probe_total") if t["count"]}


def gdb_counts(words, e, *functions):
    """The same by breakpoints of gdb's, without a drop-in."""
    script = [f"break {f}" for f in functions] + [f"ignore {n} 100000000" for n in range(1, len(functions) + 1)] + ["run", "info breakpoints"]
    line = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set breakpoint pending on"]
    for s in script:
        line += ["-ex", s]
    done = subprocess.run([*line, "--args", *map(str, words)], capture_output=True, text=True, timeout=2 * WAIT, stdin=subprocess.DEVNULL, env=e)
    found = [int(m[1]) for m in re.finditer(r"already hit (\d+) time", done.stdout)]
    assert len(found) == len(functions), done.stdout + done.stderr
    return dict(zip(functions, found))


def exports(path):
    """What it defines: (name with version, type, binding, visibility, size), by readelf."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, timeout=WAIT).stdout
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+: ", line)]
    return sorted((r[7], r[3], r[4], r[5], r[2]) for r in rows if len(r) > 7 and r[6] != "UND" and r[4] != "LOCAL")


def by_nm(path):
    text = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", path], capture_output=True, text=True, timeout=WAIT).stdout
    return sorted(line.split(maxsplit=1)[1] for line in text.splitlines())


def victims(build, *names):
    for name in ("libdropped.so.1", "libdropped_other.so", *names):
        path = build(name)
    return os.path.dirname(path)


@contextlib.contextmanager
def running(*words, **more):
    p = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **more)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


def collectors_of(pid):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and f"patch\0drop-in\0{pid}\0" in open(f"/proc/{name}/cmdline").read():
                found.append(int(name))
    return found


# Libraries of the distribution


def test_zlib_in_python(drop_in, tmp_path):
    """Python's loop knows how often it has called crc32, and with what."""
    script = "import zlib\nh = 0\nfor i in range(1000): h = zlib.crc32(b'x' * i, h)\nprint(h, len(zlib.compress(b'abc' * 10000)))"
    out, log = drop_in("libz.so.1", "--at", "entry crc32", "--call", "value", "--at", "entry deflate", "--call", "nothing"), tmp_path / "log"
    assert run([PYTHON, "-c", script], env(out, log)) == run([PYTHON, "-c", script], env(""))
    events = report(log)
    assert [int(e["value"], 16) for e in of_type(events, "probe")] == list(range(1000))
    assert counts(log)["crc32"] == 1000


def test_crypto_in_openssl_and_python(drop_in, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20))
    out, log = drop_in("libcrypto.so.3", "--at", "entry *", "--call", "nothing"), tmp_path / "log"
    words = ["openssl", "dgst", "-sha256", data]
    assert run(words, env(out, log)).split()[-1] == hashlib.sha256(data.read_bytes()).hexdigest()
    seen = counts(log)
    functions = ["EVP_DigestUpdate", "EVP_DigestInit_ex", "BIO_read", "OPENSSL_init_crypto"]
    assert {f: seen.get(f) for f in functions} == gdb_counts(words, env(""), *functions)
    script = "import hashlib\nh = hashlib.sha512()\nfor i in range(1, 501): h.update(bytes(i))\nprint(h.hexdigest())"
    expected = hashlib.sha512(b"".join(bytes(i) for i in range(1, 501))).hexdigest() + "\n"
    assert run([PYTHON, "-c", script], env(out, tmp_path / "log2")) == expected
    assert counts(tmp_path / "log2")["EVP_DigestUpdate"] == 500


def test_sqlite_in_python(drop_in, tmp_path):
    script = """import sqlite3
c = sqlite3.connect(":memory:")
c.execute("create table t (a, b)")
c.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(1000)])
print(c.execute("select sum(a), count(distinct b) from t").fetchone())"""
    out, log = drop_in("libsqlite3.so.0", "--at", "entry *", "--call", "nothing"), tmp_path / "log"
    assert run([PYTHON, "-c", script], env(out, log)) == "(499500, 1000)\n"
    seen = counts(log)
    functions = ["sqlite3_step", "sqlite3_bind_text", "sqlite3_prepare_v2"]
    wanted = gdb_counts([PYTHON, "-c", script], env(""), *functions)
    assert {f: seen.get(f) for f in functions} == wanted and wanted["sqlite3_step"] > 1000


THROWS = r"""
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
static int catch_all(int n)
{
    int caught = 0;
    for (int i = 0; i < n; i++)
        try {
            if (i % 3 == 0) throw std::runtime_error("x" + std::to_string(i));
        } catch (const std::exception &e) { caught += e.what()[0] == 'x'; }
    return caught;
}
int main()
{
    int a = 0, b = 0;
    std::thread t([&] { a = catch_all(3000); });
    b = catch_all(300);
    t.join();
    std::cout << a + b << std::endl;
}
"""


def test_exceptions_through_the_c_plus_plus_library(drop_in, tmp_path):
    (tmp_path / "throws.cc").write_text(THROWS)
    subprocess.run(["g++", "-O1", "-o", "throws", "throws.cc", "-pthread"], cwd=tmp_path, check=True, timeout=WAIT)
    out, log = drop_in("libstdc++.so.6", "--at", "entry *", "--call", "nothing"), tmp_path / "log"
    assert run([tmp_path / "throws"], env(out, log)) == "1100\n"
    seen = counts(log)
    assert seen["__cxa_throw"] == seen["__cxa_begin_catch"] == seen["__cxa_end_catch"] == 1100


def test_a_library_with_threads_of_its_own(drop_in, tmp_path):
    """xz compresses blocks in threads that liblzma makes."""
    data = tmp_path / "data"
    data.write_bytes(b"".join(b"%d " % (i * i) for i in range(300000)))
    out, log = drop_in("liblzma.so.5", "--at", "entry *", "--call", "nothing"), tmp_path / "log"
    done = subprocess.run(["xz", "-T4", "--block-size=100000", "-c", data], stdout=subprocess.PIPE, env=env(out, log), timeout=WAIT)
    assert done.stdout == subprocess.run(["xz", "-T4", "--block-size=100000", "-c", data], stdout=subprocess.PIPE, timeout=WAIT).stdout
    seen = counts(log)
    assert seen["lzma_stream_encoder_mt"] == 1 and seen["lzma_block_encoder_init"] >= 10 if "lzma_block_encoder_init" in seen else seen["lzma_code"] > 10


# A library with all that a library can have


@pytest.mark.parametrize("app", ["dropped_app", "dropped_app_nopie"])
@pytest.mark.parametrize("how", ["", "fork", "close", "threads"])
def test_nothing_differs_and_every_call_is_counted(build, drop_in, tmp_path, app, how):
    """Also those of constructors, the library's own among them, and of .preinit_array, which comes first."""
    own = victims(build, app)
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v*", "--call", "nothing"), tmp_path / "log"
    words = [build(app), *([how] if how else [])]
    seen = run(words, env(f"{out}:{own}", log))
    assert seen == run(words, env(own))
    assert "children 1" in seen
    assert sum(counts(log).values()) == int(re.search(r"(\d+) calls", seen)[1])


def test_programs_that_it_executes_have_logs_of_their_own(build, drop_in, tmp_path):
    own = victims(build, "dropped_app")
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v*", "--call", "nothing"), tmp_path / "log"
    seen = run([build("dropped_app"), "exec"], env(f"{out}:{own}", log))
    logs = sorted(p for p in tmp_path.iterdir() if p.name.startswith("log"))
    assert len(logs) == 2 and re.fullmatch(r"log\.\d+", logs[1].name)
    calls = [int(n) for n in re.findall(r"(\d+) calls", seen)]
    assert sorted(sum(counts(p).values()) for p in logs) == sorted(calls)
    (process,) = of_type(report(logs[1]), "process")
    assert logs[1].name == f"log.{process['pid']}"


def test_a_log_that_is_there_is_kept(build, drop_in, tmp_path):
    own = victims(build, "dropped_app")
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v*", "--call", "nothing"), tmp_path / "log"
    log.write_text("mine")
    run([build("dropped_app")], env(f"{out}:{own}", log))
    assert log.read_text() == "mine"
    assert len(list(tmp_path.glob("log.*"))) == 1


def test_stacks_lead_from_the_library_into_the_program(build, drop_in, tmp_path):
    own = victims(build, "dropped_app")
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v2", "--call", "stack"), tmp_path / "log"
    run([build("dropped_app")], env(f"{out}:{own}", log))
    functions = [[f.get("function") for f in e["stack"]] for e in of_type(report(log), "probe")]
    assert "add_v2" in functions[0] and "before_all" in functions[0]
    assert any("call_at_once" in f for f in functions) and any("call_early" in f for f in functions)
    assert any("use_all" in f and "main" in f for f in functions)


def test_loaded_later_by_a_program_with_threads(build, drop_in, tmp_path):
    own = victims(build)
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v*", "--call", "nothing"), tmp_path / "log"
    assert run([build("dropped_later")], env(out, log)) == "0 children\n"
    assert sum(counts(log).values()) == 301  # its constructor runs once: it stays loaded


def test_two_drop_ins_in_one_process(build, probes, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    for library, function in (("libz.so.1", "crc32"), ("libcrypto.so.3", "EVP_DigestUpdate")):
        patch("--library", library, "--at", f"entry {function}", "--call", "nothing", probes, "--output-dir", out)
    script = "import hashlib, zlib\nfor i in range(300): h = zlib.crc32(b'x'); hashlib.sha256(b'y').digest()\nprint(h)"
    assert run([PYTHON, "-c", script], env(out, log)) == run([PYTHON, "-c", script], env(""))
    (other,) = tmp_path.glob("log.*")
    seen = {**counts(log), **counts(other)}
    assert seen["crc32"] == 300 and seen["EVP_DigestUpdate"] == 300


# What it shows


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_exports_what_the_original_does(drop_in, library):
    out = drop_in(library, "--at", "@call", "--call", "nothing")
    original = f"{FOLDER}/{library}"
    assert filecmp.cmp(original, out / f"{library}.orig", shallow=False)
    assert exports(out / library) == exports(original) and exports(original)
    assert by_nm(out / library) == by_nm(original)
    soname = subprocess.run(["readelf", "-d", out / library], capture_output=True, text=True).stdout
    assert f"soname: [{library}]" in soname


def test_it_exports_thread_local_variables_data_and_ifuncs_of_all_versions(build, drop_in):
    own = victims(build)
    out = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v2", "--call", "nothing")
    seen = exports(out / "libdropped.so.1")
    assert seen == exports(f"{own}/libdropped.so.1") and by_nm(out / "libdropped.so.1") == by_nm(f"{own}/libdropped.so.1")
    assert {s[1] for s in seen} >= {"FUNC", "OBJECT", "TLS", "IFUNC"}
    assert {s[0] for s in seen} >= {"dropped_add@V1", "dropped_add@@V2"}


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_programs_can_be_linked_with_it(build, drop_in, tmp_path, linker):
    """With copied data, too; and then they run with the original."""
    if not shutil.which(f"ld.{linker}"):
        pytest.skip(f"no ld.{linker}")
    own = victims(build)
    out = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v2", "--call", "nothing")
    source = os.path.join(os.path.dirname(os.path.dirname(__file__)), "victims", "dropped_app.c")
    for folder, name in ((out, "with"), (own, "without")):
        subprocess.run(["gcc", f"-fuse-ld={linker}", "-O1", "-no-pie", "-fno-pie", "-o", name, source, f"-L{folder}", f"-L{own}", "-l:libdropped.so.1",
                        "-l:libdropped_other.so", "-pthread"], check=True, cwd=tmp_path, timeout=WAIT)
    assert run([tmp_path / "with"], env(own)) == run([tmp_path / "without"], env(own))
    assert run([tmp_path / "with"], env(f"{out}:{own}", tmp_path / "log")) == run([tmp_path / "without"], env(own))
    dynamic = [subprocess.run(["readelf", "-W", "--dyn-syms", tmp_path / n], capture_output=True, text=True).stdout for n in ("with", "without")]
    names = [sorted((r.split()[7], r.split()[2]) for r in text.splitlines() if "dropped" in r) for text in dynamic]
    assert names[0] == names[1]


# When it cannot be


def test_without_the_variable_nothing_is_done(build, drop_in, probes, tmp_path):
    """And the process can be patched as any other."""
    out = drop_in("libz.so.1", "--at", "entry crc32", "--call", "nothing")
    script = "import zlib\nprint('ready', flush=True)\nwhile True: zlib.crc32(b'x')"
    with running(PYTHON, "-c", script, env=env(out)) as p:
        p.stdout.readline()
        assert not collectors_of(p.pid)
        done = patch("-p", p.pid, "--in", "libz.so.1.orig", "--at", "entry crc32", "--call", "nothing", probes, "-q", "-t", "0.3")
        assert re.search(r"1 site patched, 0 refused; reached [1-9]", done.stderr)


@pytest.mark.parametrize("what", ["watchctl", "folder", "device", "build", "filter"])
def test_what_goes_wrong_is_one_sentence_and_the_program_runs(build, probes, tmp_path, what):
    own = victims(build)
    out, log, tool = tmp_path / "out", tmp_path / "log", tmp_path / "watchctl"
    shutil.copy(WATCHCTL, tool)
    subprocess.run([tool, "patch", "--library", f"{own}/libdropped.so.1", "--at", "entry add_v2", "--call", "nothing", probes, "--output-dir", out],
                   check=True, timeout=WAIT, stdout=subprocess.DEVNULL)
    said = {"watchctl": "cannot be executed", "folder": "no/such/log", "device": "/dev/null is a device", "build": "another build", "filter": "seccomp"}[what]
    if what == "watchctl":
        tool.unlink()
    elif what == "folder":
        log = tmp_path / "no" / "such" / "log"
    elif what == "device":
        log = Path("/dev/null")
    elif what == "build":
        source = os.path.join(os.path.dirname(os.path.dirname(__file__)), "victims", "dropped_lib.c")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-Wl,-soname,libdropped.so.1", "-o", out / "libdropped.so.1.orig", source,
                        f"-Wl,--version-script={source[:-2]}.map"], check=True, timeout=WAIT)
    app = [build("dropped_later"), *(["filter"] if what == "filter" else [])]
    done = subprocess.run(app, capture_output=True, text=True, timeout=WAIT, env=env(out, log))
    assert (done.returncode, done.stdout) == (0, "0 children\n")
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and said in lines[0] and "runs as it is, unpatched" in lines[0], done.stderr
    assert what == "device" or not log.exists()


@pytest.mark.parametrize("name", ["-q", "--help", "--", "-"])
def test_a_log_may_be_called_as_an_option_is(drop_in, tmp_path, name):
    out = drop_in("libz.so.1", "--at", "entry crc32", "--call", "nothing")
    subprocess.run([PYTHON, "-c", "import zlib; zlib.crc32(b'x')"], check=True, timeout=WAIT, cwd=tmp_path, env=env(out, name))
    assert counts(tmp_path / name) == {"crc32": 1}


@pytest.mark.parametrize("tracer", [["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "run", "--args"], ["strace", "-f", "-o", "/dev/null"],
                                    ["valgrind", "-q"]], ids=lambda t: t[0])
def test_debuggers_are_not_disturbed(build, drop_in, tmp_path, tracer):
    if not shutil.which(tracer[0]):
        pytest.skip(f"no {tracer[0]}")
    own = victims(build)
    out, log = drop_in(f"{own}/libdropped.so.1", "--at", "entry add_v*", "--call", "nothing"), tmp_path / "log"
    done = subprocess.run([*tracer, build("dropped_later")], capture_output=True, text=True, timeout=2 * WAIT, env=env(out, log), stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "0 children" in done.stdout and not log.exists()
    said = re.findall("watchctl: libdropped.so.1 runs as it is, unpatched: (.*)", done.stdout + done.stderr)
    assert said == ["it runs in Valgrind" if tracer[0] == "valgrind" else "it is traced (by a debugger, or strace)"]


def test_what_the_terminal_sends_ends_the_program_only(drop_in, tmp_path):
    """Ctrl-C goes to the whole group of the program."""
    out, log = drop_in("libz.so.1", "--at", "entry crc32", "--call", "nothing"), tmp_path / "log"
    script = "import zlib\nfor i in range(100): zlib.crc32(b'x')\nprint('ready', flush=True)\nwhile True: pass"
    with running(PYTHON, "-c", script, env=env(out, log), start_new_session=True, stderr=subprocess.DEVNULL) as p:
        p.stdout.readline()
        os.killpg(p.pid, signal.SIGINT)
        p.wait(WAIT)
    assert counts(log) == {"crc32": 100}


def test_a_killed_collector_does_no_harm(drop_in, tmp_path):
    out, log = drop_in("libz.so.1", "--at", "entry crc32", "--call", "value"), tmp_path / "log"
    script = "import sys, zlib\nfor i in range(100): zlib.crc32(b'x')\nprint('ready', flush=True)\nsys.stdin.readline()\nprint(sum(zlib.crc32(b'x') for i in range(100000)))"
    with running(PYTHON, "-c", script, env=env(out, log)) as p:
        p.stdout.readline()
        (collector,) = collectors_of(p.pid)
        os.kill(collector, signal.SIGKILL)
        wait_until(lambda: not collectors_of(p.pid))
        p.stdin.write("\n")
        p.stdin.flush()
        assert int(p.stdout.readline()) == 100000 * zlib.crc32(b"x") and p.wait(WAIT) == 0


def test_the_collector_has_nothing_of_the_program_and_goes_when_it_is_told(drop_in, tmp_path):
    out, log = drop_in("libz.so.1", "--at", "entry crc32", "--call", "nothing"), tmp_path / "log"
    script = "import sys, zlib\nfor i in range(100): zlib.crc32(b'x')\nprint('ready', flush=True)\nsys.stdin.readline()\nfor i in range(100): zlib.crc32(b'x')\nprint('end')"
    with open(tmp_path / "mine", "w") as mine, running(PYTHON, "-c", script, env=env(out, log), pass_fds=[mine.fileno()], stderr=subprocess.PIPE) as p:
        assert p.stdout.readline() == "ready\n"
        (collector,) = collectors_of(p.pid)
        targets = {fd: os.readlink(f"/proc/{collector}/fd/{fd}") for fd in os.listdir(f"/proc/{collector}/fd")}
        assert [targets[fd] for fd in "012"] == ["/dev/null"] * 3
        assert not any("mine" in t or t.startswith(("pipe:", "socket:")) for t in targets.values()), targets
        assert os.getsid(collector) == collector and os.getsid(p.pid) != collector
        assert open(f"/proc/{p.pid}/task/{p.pid}/children").read() == ""
        os.kill(collector, signal.SIGTERM)
        wait_until(lambda: not collectors_of(p.pid))
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline() == "end\n"
        assert p.wait(WAIT) == 0
    assert counts(log) == {"crc32": 100}


def test_nobody_in_particular_can_use_it(build, probes, tmp_path):
    """Without any privilege, and with standard files closed."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    own = victims(build)
    if subprocess.run([*nobody, "true"], capture_output=True).returncode:
        pytest.skip("this needs root")
    public = f"/tmp/watchctl-drop-in-{os.getpid()}"
    os.mkdir(public)
    try:
        for path in (WATCHCTL, build("dropped_later"), f"{own}/libdropped.so.1", probes):
            shutil.copy(path, public)
        os.chmod(public, 0o777)
        words = [f"{public}/watchctl", "patch", "--library", f"{public}/libdropped.so.1", "--at", "entry add_v2", "--call", "nothing", f"{public}/probes.c",
                 "--output-dir", f"{public}/out"]
        subprocess.run([*nobody, *words], check=True, timeout=WAIT, stdout=subprocess.DEVNULL)
        run([*nobody, f"{public}/dropped_later"], env(f"{public}/out", f"{public}/log"))
        assert counts(f"{public}/log") == {"add_v2": 301}
        hidden = subprocess.run([*nobody, f"{public}/dropped_later", "hidden"], capture_output=True, text=True, timeout=WAIT, env=env(f"{public}/out", f"{public}/log1"))
        assert (hidden.returncode, hidden.stdout) == (0, "0 children\n") and "it lets nobody look at it" in hidden.stderr
        assert hidden.stderr.count("\n") == 1 and not os.path.exists(f"{public}/log1")
        closed = [*nobody, "sh", "-c", f"exec {public}/dropped_later <&- >&- 2>&-"]
        run(closed, env(f"{public}/out", f"{public}/log2"))
        wait_until(lambda: os.path.exists(f"{public}/log2"))
        assert counts(f"{public}/log2") == {"add_v2": 301}
    finally:
        shutil.rmtree(public)


# Making it


def test_a_plan_of_the_library_alone(probes):
    done = patch("--plan", "--library", "libz.so.1", "--at", "entry crc32", "--json")
    (site,) = of_type(map(json.loads, done.stdout.splitlines()), "patch_site")
    assert site["function"] == "crc32" and site["module"].startswith("/")


def test_what_was_made_is_told_in_json(drop_in, probes, tmp_path):
    done = patch("--library", "libz.so.1", "--at", "entry crc32", "--call", "nothing", probes, "--output-dir", tmp_path / "out", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["type"] for e in events] == ["patch_site", "patch_total", "library"]
    assert (events[2]["soname"], events[2]["sites"], events[2]["patchable"]) == ("libz.so.1", 1, 1)


def test_rules_and_functions_choose(drop_in, tmp_path):
    rules = tmp_path / "z.rules"
    rules.write_text("# where\nentry crc32* => value\nexit crc32* => after_all  # wrong\n")
    done = patch("--library", "libz.so.1", "--rules", rules, tmp_path / "probes.c", "--output-dir", tmp_path / "out", status=5)
    assert "after_all" in done.stderr
    rules.write_text("entry * => nothing\n")
    out, log = drop_in("libz.so.1", "--rules", rules, "--function", "crc32"), tmp_path / "log"
    run([PYTHON, "-c", "import zlib; zlib.crc32(b'1')"], env(out, log))
    assert counts(log) == {"crc32": 1}


@pytest.mark.parametrize("words, status, said", [
    (["--library", "libz.so.1", "--at", "entry crc23"], 5, "crc32"),
    (["--library", "libz.so.1", "--at", "vpaddd ymm, ymm, ymm"], 5, "nothing in libz.so.1 fits"),
    (["--library", "libzz.so.1", "--at", "entry crc32"], 5, "libz.so.1"),
    (["--library", "/bin/ls", "--at", "entry main"], 5, "watchctl patch -p"),
    (["--library", "./static", "--at", "entry main"], 5, "static executable"),
    (["--library", "./probes.c", "--at", "entry main"], 5, "no ELF file"),
    (["--library", ".", "--at", "entry main"], 5, "regular file"),
    (["--library", "./no_soname", "--at", "entry f"], 7, "no SONAME"),
    (["--library", "./beside", "--at", "entry f"], 7, "$ORIGIN"),
    (["--library", "libc.so.6", "--at", "entry malloc"], 7, "glibc"),
    (["--library", "/lib64/ld-linux-x86-64.so.2", "--at", "entry _dl_start"], 7, "glibc"),
    (["--library", "libz.so.1", "--at", "entry crc32", "-p", "1"], 2, "-p is about a process"),
    (["--library", "libz.so.1", "--at", "entry crc32", "-o", "log"], 2, "WATCHCTL_OUTPUT"),
    (["--library", "libz.so.1", "--at", "entry crc32 => instead nothing"], 2, "--yes-change-the-program"),
    (["--library", "libz.so.1"], 2, "--at"),
])
def test_a_refusal_is_one_sentence_and_leaves_nothing(probes, tmp_path, words, status, said):
    (tmp_path / "f.c").write_text("int f(int a) { return a + 1; }\nint main(void) { return f(-1); }\n")
    for flags in (["-static", "-o", "static"], ["-shared", "-fPIC", "-o", "no_soname"], ["-shared", "-fPIC", "-Wl,-soname,beside,-rpath,$ORIGIN", "-o", "beside"]):
        subprocess.run(["gcc", *flags, "f.c"], check=True, cwd=tmp_path, timeout=WAIT)
    call = [] if "=>" in str(words) else ["--call", "nothing"]
    done = patch(*words, *call, probes, "--output-dir", "out", status=status, cwd=tmp_path)
    assert said in done.stderr and done.stdout == "" and done.stderr.count("watchctl: ") == 1
    assert not (tmp_path / "out").exists() and not (tmp_path / "log").exists()


def test_folders_that_are_refused(probes, tmp_path):
    words = ["--at", "entry crc32", "--call", "nothing", probes, "--output-dir"]
    shutil.copy(f"{FOLDER}/libz.so.1", tmp_path)
    assert "folder of the library itself" in patch("--library", tmp_path / "libz.so.1", *words, tmp_path, status=2).stderr
    assert "is no folder" in patch("--library", "libz.so.1", *words, probes, status=2).stderr
    assert "no drop-in library" in patch("--library", "libz.so.1", *words, tmp_path, status=2).stderr
    patch("--library", "libz.so.1", *words, tmp_path / "out")
    assert "drop-in library already" in patch("--library", tmp_path / "out" / "libz.so.1", *words, tmp_path / "out2", status=2).stderr
    patch("--library", "libz.so.1", *words, tmp_path / "out")  # over its own


def test_a_full_disk_leaves_nothing_half_done(drop_in, probes, tmp_path):
    out = drop_in("libz.so.1", "--at", "entry crc32", "--call", "nothing")
    before = {p.name: (p.stat().st_ino, p.stat().st_size) for p in out.iterdir()}
    small = subprocess.run([WATCHCTL, "patch", "--library", "libz.so.1", "--at", "entry adler32", "--call", "nothing", probes, "--output-dir", out],
                           capture_output=True, text=True, timeout=WAIT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
    assert small.returncode == 1 and "cannot write" in small.stderr, small.stderr
    assert {p.name: (p.stat().st_ino, p.stat().st_size) for p in out.iterdir()} == before
