# rooms: code/symbols view/rewrite
"""watchctl symbolize: names for the code addresses of a log, from build ids, kept in the log."""

import contextlib
import http.server
import json
import os
import pty
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from conftest import WAIT, WATCHCTL  # noqa: E402

SOURCE = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
volatile int counter;
static inline __attribute__((always_inline)) void add(int n) { counter += n; /* line of add */ }
__attribute__((noinline)) void outer(int n) { add(n); __asm__ volatile(""); /* line of outer */ }
static int compare(const void *a, const void *b) { outer(1); return *(int *)a - *(int *)b; }
static void on_signal(int sig) { outer(100); __asm__ volatile(""); }
int main(void)
{
	int v[4] = { 4, 3, 2, 1 };

	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 3; i++)
		outer(i);
	qsort(v, 4, sizeof(v[0]), compare);
	raise(SIGUSR1);
	usleep(300000); /* the recorder looks at what is mapped */
	return 0;
}
"""


@pytest.fixture
def program(tmp_path):
    """compile(flags) -> the path of a program in a folder of its own."""

    def compile_it(*flags):
        folder = tmp_path / "program"
        folder.mkdir(exist_ok=True)
        (folder / "app.c").write_text(SOURCE)
        subprocess.run(["gcc", "-O2", "-g", "-Wl,--build-id=sha1", *flags, "-o", "app", "app.c"], cwd=folder, check=True,
                       timeout=WAIT)
        return str(folder / "app")

    return compile_it


@pytest.fixture
def record(hardware, run, tmp_path):
    """record(program) -> a log of its accesses to `counter`."""

    def start(path, **kw):
        target = str(tmp_path / "log")
        done = run("-v", "counter", "-w", "-o", target, "--", path, **kw)
        assert done.returncode == 0, done.stderr
        return target

    return start


def accesses(run, path):
    done = run("report", "--json", path)
    assert done.returncode == 0, done.stderr
    found = [o for o in map(json.loads, done.stdout.splitlines()) if o["type"] == "access"]
    assert found
    return found


def places(objects):
    """What names the frames, and nothing else."""
    keys = ("function", "offset", "file", "line", "inlined")
    return [[{k: f.get(k) for k in keys} for f in o["stack"] if "app" in f.get("module", "") or "libc" in f.get("module", "")]
            for o in objects]


def symbolize(run, *args, **kw):
    done = run("symbolize", "--json", *args, **kw)
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    return done, objects


def of(objects, kind):
    return [o for o in objects if o["type"] == kind]


def module_of(objects, name):
    found = [m for m in of(objects, "module") if m["module"].endswith(name)]
    assert len(found) == 1, objects
    return found[0]


def build_id_of(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def split_debug(path, folder, strip="-s"):
    """Moves the debug information of the program into a folder of the form of /usr/lib/debug. strip -g leaves symbols."""
    name = build_id_of(path)
    target = folder / ".build-id" / name[:2]
    target.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", path, str(target / (name[2:] + ".debug"))], check=True)
    subprocess.run(["strip", strip, path], check=True)
    return folder


def test_a_report_shows_the_same_names_when_the_program_is_gone(program, record, run):
    app = program()
    trace = record(app)
    before = places(accesses(run, trace))
    assert any(f["inlined"] and f["function"].startswith("add") for s in before for f in s)
    shutil.move(app, app + ".away")
    assert all(f["function"] is None for s in places(accesses(run, trace)) for f in s if f["file"] == "app.c")
    assert not any("outer" in str(f["function"]) for s in places(accesses(run, trace)) for f in s)
    shutil.move(app + ".away", app)
    done = run("symbolize", trace)
    assert done.returncode == 0 and done.stderr == ""
    assert re.match(r"\d+ code addresses: (\d+) with a function, \d+ with file and line\nthe names are in ", done.stdout)
    shutil.move(app, app + ".away")
    assert places(accesses(run, trace)) == before
    # Something else at its path does not change that, and is not complained about: the names are right.
    shutil.copy("/bin/true", app)
    assert places(accesses(run, trace)) == before
    assert "has changed" not in run("report", trace).stdout


def test_babeltrace_reads_the_log_with_its_names(program, record, run):
    if not shutil.which("babeltrace2"):
        pytest.skip("babeltrace2 is not installed")
    app = program()
    trace = record(app)
    plain = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    _, objects = symbolize(run, trace)
    text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    symbols = [line for line in text.splitlines() if " symbol: " in line]
    assert len(symbols) == of(objects, "summary")[0]["named"] > 0
    events = [line for line in text.splitlines() if " checksum: " not in line]
    assert len(events) == len([line for line in plain.splitlines() if " checksum: " not in line]) + len(symbols)
    outer = next(line for line in symbols if 'name = "outer"' in line)
    assert 'name = "add"' in outer and 'file = "app.c"' in outer and build_id_of(app) in outer


def test_json_has_each_address_once_with_its_functions(program, record, run):
    app = program()
    done, objects = symbolize(run, record(app))
    assert done.returncode == 0 and done.stderr == ""
    lines = SOURCE.splitlines()
    inner = next(o for o in of(objects, "address") if len(o["frames"]) == 2 and o["frames"][0]["function"] == "add")
    assert inner["build_id"] == build_id_of(app) and inner["module"] == app
    assert inner["frames"] == [
        {"function": "add", "file": "app.c", "line": 1 + lines.index(next(x for x in lines if "line of add" in x)),
         "inlined": True},
        {"function": "outer", "file": "app.c", "line": 1 + lines.index(next(x for x in lines if "line of outer" in x)),
         "inlined": False}]
    # The oracle for the function and its offset.
    nm = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    outer = int(re.search(r"^([0-9a-f]+) T outer$", nm, re.M)[1], 16)
    assert int(inner["address"], 16) - inner["offset"] == outer
    keys = [(o["module"], o["address"]) for o in of(objects, "address")]
    assert len(set(keys)) == len(keys)
    summary = of(objects, "summary")[0]
    assert summary["addresses"] == len(keys) and summary["stored"] is True
    assert summary["named"] == sum("function" in o["frames"][-1] for o in of(objects, "address"))
    assert module_of(objects, "/app") == module_of(objects, "/app") | {"state": "ok", "detail": "lines", "damaged": False}
    # Callers through libc's qsort, and above the signal handler, are among them.
    functions = {o["frames"][-1].get("function") for o in of(objects, "address")}
    assert {"main", "compare", "on_signal"} <= functions


def test_more_debug_information_improves_and_less_never_harms(program, record, run, tmp_path):
    app = program()
    trace = record(app)
    full = places(accesses(run, trace))
    store = split_debug(app, tmp_path / "store")
    done = run("symbolize", trace)
    assert done.returncode == 0
    assert f"{app}\n" in done.stdout and f"build id {build_id_of(app)}" in done.stdout
    assert "it is stripped" in done.stdout and "--debug-dir" in done.stdout and "DEBUGINFOD_URLS" in done.stdout
    done = run("symbolize", "--debug-dir", str(store), trace)
    assert done.returncode == 0 and app not in done.stdout
    assert places(accesses(run, trace)) == full
    done = run("symbolize", trace)
    assert done.returncode == 0 and app not in done.stdout
    assert places(accesses(run, trace)) == full
    os.unlink(app)
    done = run("symbolize", trace)
    assert done.returncode == 0
    assert places(accesses(run, trace)) == full


def test_the_files_of_another_system_are_below_a_sysroot_or_elsewhere(program, record, run, tmp_path):
    app = program()
    trace = record(app)
    full = places(accesses(run, trace))
    root = tmp_path / "root"
    (root / app[1:]).parent.mkdir(parents=True)
    shutil.move(app, root / app[1:])
    shutil.copy("/bin/true", app)  # the same path on this machine is another program
    _, objects = symbolize(run, "--dry-run", trace)
    assert module_of(objects, "/app")["state"] == "stale"
    assert "different build id" in run("symbolize", "--dry-run", trace).stdout
    _, objects = symbolize(run, "--dry-run", "--sysroot", str(root), trace)
    assert module_of(objects, "/app")["state"] == "ok"
    done, objects = symbolize(run, "--module-path", f"{os.path.dirname(app)}={root}{os.path.dirname(app)}", trace)
    assert module_of(objects, "/app")["state"] == "ok"
    assert [[f for f in s if f["file"] == "app.c"] for s in places(accesses(run, trace))] == [
        [f for f in s if f["file"] == "app.c"] for s in full]


def test_a_dry_run_stores_nothing_and_quiet_says_nothing(program, record, run):
    trace = record(program())
    done = run("symbolize", "--dry-run", trace)
    assert done.returncode == 0 and "the names are in" not in done.stdout
    assert sorted(os.listdir(trace)) == ["events", "metadata"]
    done = run("symbolize", "-q", trace)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(os.listdir(trace)) == ["events", "metadata", "symbols"]


def test_usage_errors(run, tmp_path):
    nowhere = str(tmp_path / "nowhere")
    for args, text in ((), "name of a log"), (("a", "b"), "one too many"), (("--sysroot",), "needs an argument"), (
            ("--module-path", "x", "a"), "OLD=NEW"), (("--debug-dir", nowhere, "a"), nowhere), (
            ("--sysrot", "x", "a"), "did you mean --sysroot"):
        done = run("symbolize", *args)
        assert done.returncode == 2 and text in done.stderr, (args, done.stderr)
    done = run("symbolize", "--help")
    assert done.returncode == 0 and "--debug-dir DIR" in done.stdout
    assert "symbolize" in run("--help").stdout


# Logs made by hand: bad ones, and those of other times.

APP_ID = bytes(range(20))


def module(time_ns, path, build_id=b"", start=0x400000, end=0x500000, bias=0):
    return log.event(log.MODULE, time_ns, struct.pack("<QQQB", start, end, bias, 0) + log.text(path)
                     + log.text(build_id.hex()) + struct.pack("<i", 77))


def process(time_ns, pid, host, realtime_ns=None):
    return log.event(log.PROCESS, time_ns, struct.pack("<iQ", pid, realtime_ns or time.time_ns()) + log.text("app")
                     + log.text("/bin/app") + log.text("app") + log.text(host))


def events_at(address, *extra):
    return [*extra, log.watch(1001, 0, "flag", 0x404010), log.stack(1005, 0, [address, address + 0x100]),
            log.access(2000, 0, 77, 0x404010, 0, 1, 0, address)]


def test_logs_that_cannot_be_read(run, tmp_path):
    done = run("symbolize", str(tmp_path / "none"))
    assert done.returncode == 8 and "there is no log" in done.stderr
    future = log.write_log(tmp_path / "future", [log.packet(events_at(0x401000))], major=9)
    done = run("symbolize", future)
    assert done.returncode == 8 and "newer version" in done.stderr
    other = log.write_log(tmp_path / "other", [log.packet(events_at(0x401000))], tracer="lttng")
    assert run("symbolize", other).returncode == 8
    (tmp_path / "file").write_text("x")
    assert run("symbolize", str(tmp_path / "file")).returncode == 8
    assert not [f for d in (future, other) for f in os.listdir(d) if f not in ("metadata", "events")]


def test_a_truncated_log_is_named_as_far_as_it_goes(program, record, run):
    trace = record(program())
    with open(trace + "/events", "r+b") as f:  # another packet was begun
        head = f.read(300)
        f.seek(0, os.SEEK_END)
        f.write(head)
    done = run("symbolize", trace)
    assert done.returncode == 8 and "is not whole" in done.stderr and "the names are in" in done.stdout
    assert os.path.exists(trace + "/symbols")


def test_a_log_of_an_older_version_gets_the_description_of_its_names(program, run, tmp_path):
    app = program("-no-pie")
    nm = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    outer = int(re.search(r"^([0-9a-f]+) T outer$", nm, re.M)[1], 16)
    trace = log.write_log(tmp_path / "log", [log.packet(events_at(
        outer + 1, process(1000, 77, "elsewhere"), module(1000, app, bytes.fromhex(build_id_of(app)))))], minor=1)
    assert "symbol" not in open(trace + "/metadata").read()
    assert run("symbolize", "-q", trace).returncode == 0
    text = open(trace + "/metadata").read()
    assert text.count('name = "symbol";') == 1
    assert run("symbolize", "-q", trace).returncode == 0
    assert open(trace + "/metadata").read() == text
    os.unlink(app)
    assert next(f for f in accesses(run, trace)[0]["stack"] if not f["inlined"])["function"] == "outer"


def test_a_log_that_cannot_be_written_to_stays_as_it_is(program, record, run):
    trace = record(program())
    assert run("symbolize", "-q", trace).returncode == 0
    names = open(trace + "/symbols", "rb").read()
    # No space: a file size limit fails in the same place, for everybody.
    done = subprocess.run(["bash", "-c", f"ulimit -f 0; {WATCHCTL} symbolize {trace}"], capture_output=True, text=True,
                          timeout=WAIT)
    assert done.returncode == 8 and "cannot add names to the log" in done.stderr and "as it was before" in done.stderr
    assert open(trace + "/symbols", "rb").read() == names
    assert sorted(os.listdir(trace)) == ["events", "metadata", "symbols"]


def test_a_reader_who_may_not_write_is_told_so(program, record, run):
    if os.geteuid():
        pytest.skip("only root can become another user")
    trace = record(program())
    for path, mode in ((trace, 0o755), (trace + "/events", 0o644), (trace + "/metadata", 0o644)):
        os.chmod(path, mode)
    folder = trace
    while folder != "/tmp" and folder != "/":
        folder = os.path.dirname(folder)
        if folder not in ("/", "/tmp"):
            os.chmod(folder, 0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", WATCHCTL, "symbolize", trace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 8 and "Permission denied" in done.stderr
    assert subprocess.run([*command, "--dry-run"], capture_output=True, timeout=WAIT).returncode == 0
    # What root adds to it can be read by whoever could read the log.
    assert run("symbolize", "-q", trace).returncode == 0
    assert os.stat(trace + "/symbols").st_mode & 0o777 == 0o644


def test_damaged_names_are_told_and_do_not_stop_a_report(program, record, run):
    app = program()
    trace = record(app)
    assert run("symbolize", "-q", trace).returncode == 0
    with open(trace + "/symbols", "r+b") as f:
        f.seek(200)
        f.write(b"\xff" * 40)
    done = run("report", trace)
    assert done.returncode == 0 and "names that were added to the log cannot be read" in done.stdout + done.stderr
    os.truncate(trace + "/symbols", 0)
    assert run("report", trace).returncode == 0
    assert run("symbolize", "-q", trace).returncode == 0
    os.unlink(app)
    assert any(f["function"] == "outer" for s in places(accesses(run, trace)) for f in s)


def test_a_module_without_a_build_id_must_be_old_enough(program, run, tmp_path):
    app = program("-no-pie", "-Wl,--build-id=none")
    nm = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    outer = int(re.search(r"^([0-9a-f]+) T outer$", nm, re.M)[1], 16) + 1
    here = socket.gethostname()

    def result(name, host, realtime_ns, *args):
        trace = log.write_log(tmp_path / name, [log.packet(events_at(
            outer, process(1000, 77, host, realtime_ns), module(1000, app)))])
        return symbolize(run, "--dry-run", *args, trace)[1]

    now = time.time_ns()
    assert module_of(result("same", here, now + 10**9), "/app")["state"] == "ok"
    for objects in result("changed", here, now - 3600 * 10**9), result("elsewhere", "elsewhere", now + 10**9):
        assert module_of(objects, "/app")["state"] == "not-recognised"
        assert all("function" not in o["frames"][0] for o in of(objects, "address"))
    objects = result("told", "elsewhere", now, "--module-path", f"{app}={app}")
    assert module_of(objects, "/app")["state"] == "ok"


def test_tagged_stacks_are_named_too(program, run, tmp_path):
    app = program("-no-pie")
    nm = subprocess.run(["nm", app], capture_output=True, text=True, check=True).stdout
    at = {name: int(address, 16) for address, name in re.findall(r"^([0-9a-f]+) [Tt] (\w+)$", nm, re.M)}
    # A return address at the very end of compare: the byte before it is what counts.
    size = subprocess.run(["nm", "-S", app], capture_output=True, text=True, check=True).stdout
    end = at["compare"] + int(re.search(r" ([0-9a-f]+) t compare$", size, re.M)[1], 16)
    events = [process(1000, 77, "elsewhere"), module(1000, app, bytes.fromhex(build_id_of(app))),
              log.event(11, 1500, struct.pack("<IBQ", 0, 1, 0) + log.text("cache-miss")),
              log.event(log.STACK, 1600, struct.pack("<IBI2Q", 0, 0, 2, end, at["main"] + 10)),
              log.event(12, 2000, struct.pack("<IiI", 0, 77, 0) + bytes(6))]
    trace = log.write_log(tmp_path / "log", [log.packet(events)], minor=2)
    done, objects = symbolize(run, trace)
    assert done.returncode == 0, done.stderr
    assert {o["frames"][-1]["function"] for o in of(objects, "address")} == {"compare", "main"}
    assert int(of(objects, "address")[1]["address"], 16) == end - 1 or int(of(objects, "address")[0]["address"], 16) == end - 1
    os.unlink(app)
    done = run("report", "--json", trace)
    assert done.returncode == 0 and '"function":"compare"' in done.stdout and '"function":"main"' in done.stdout


def dead_pid():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_jit_code_gets_its_names_from_the_perf_map(run, tmp_path):
    pid = dead_pid()
    perf_map = f"/tmp/perf-{pid}.map"
    try:
        with open(perf_map, "w") as f:
            f.write("7f0000001000 80 py::work:/app.py\n")
        here = log.write_log(tmp_path / "here", [log.packet(events_at(
            0x7f0000001010, process(1000, pid, socket.gethostname(), time.time_ns())))])
        away = log.write_log(tmp_path / "away", [log.packet(events_at(
            0x7f0000001010, process(1000, pid, "elsewhere", time.time_ns())))])
        _, objects = symbolize(run, "-q", away)
        assert not of(objects, "address") and of(objects, "summary")[0]["outside"] == 2
        assert run("symbolize", "-q", here).returncode == 0
    finally:
        os.unlink(perf_map)
    frame = accesses(run, here)[0]["stack"][0]
    assert frame["module"] == "[jit]" and frame["function"] == "py::work:/app.py" and frame["offset"] == 0x10


JIT_SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
volatile int counter;
int main(void)
{
	/* mov $counter, %rax; incl (%rax); ret */
	unsigned char code[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x00, 0xc3 };
	volatile int *where = &counter;
	char path[64];
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *f;

	memcpy(code + 2, &where, 8);
	memcpy(at, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	f = fopen(path, "w");
	fprintf(f, "%lx %lx jitted_store\n", (unsigned long)at, sizeof(code));
	fclose(f);
	usleep(200000);
	for (int i = 0; i < 3; i++)
		((void (*)(void))at)();
	usleep(400000);
	return 0;
}
"""


def test_jit_code_of_a_live_program_is_named_then_and_later(hardware, run, tmp_path):
    (tmp_path / "jit.c").write_text(JIT_SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", "jit", "jit.c"], cwd=tmp_path, check=True, timeout=WAIT)
    trace = str(tmp_path / "log")
    done = run("-v", "counter", "-w", "--json", "--echo", "-o", trace, "--", str(tmp_path / "jit"))
    assert done.returncode == 0, done.stderr
    objects = [json.loads(line) for line in done.stderr.splitlines()]  # --echo's place
    pid = of(objects, "access")[0]["pid"]
    try:
        assert len(of(objects, "access")) == 3
        for access in of(objects, "access"):
            frame = access["stack"][0]
            assert (frame["module"], frame["function"]) == ("[jit]", "jitted_store")
        # The process is gone: whose map that is, is only known to whoever knows when the recording ended.
        assert "function" not in accesses(run, trace)[0]["stack"][0]
        assert run("symbolize", "-q", trace).returncode == 0
    finally:
        os.unlink(f"/tmp/perf-{pid}.map")
    assert accesses(run, trace)[0]["stack"][0]["function"] == "jitted_store"


def test_a_damaged_program_is_named_as_such_or_not_at_all(program, record, run):
    app = program()
    trace = record(app)
    with open(app, "r+b") as f:
        data = f.read()
        at = data.find(b"GNU C")  # the debug strings, and what follows them
        f.seek(len(data) // 2)
        f.truncate()
    assert at > 0
    done = run("symbolize", trace)
    assert done.returncode == 0 and done.stderr == ""
    assert run("report", trace).returncode == 0


# debuginfod

class Server(http.server.BaseHTTPRequestHandler):
    asked, files, delay = [], {}, 0

    def do_GET(self):
        self.asked.append(self.path)
        time.sleep(self.delay)
        found = self.files.get(self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of debug files; and a client that knows it, with an empty cache."""
    Server.asked, Server.files, Server.delay = [], {}, 0
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{httpd.server_address[1]}")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield Server
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_servers_are_asked_afterwards_and_never_while_recording(program, record, run, tmp_path, server):
    app = program()
    name = build_id_of(app)
    store = split_debug(app, tmp_path / "store", "-g")
    server.files[f"/buildid/{name}/debuginfo"] = (store / ".build-id" / name[:2] / (name[2:] + ".debug")).read_bytes()
    trace = record(app)
    run("report", trace)
    assert server.asked == []
    done, objects = symbolize(run, trace)
    assert done.returncode == 0
    if not server.asked:
        pytest.skip("libdebuginfod.so.1 is not installed")
    assert module_of(objects, "/app")["detail"] == "lines"
    assert f"/buildid/{name}/debuginfo" in server.asked
    assert any(f["function"] == "add" for s in places(accesses(run, trace)) for f in s)


@pytest.mark.slow
def test_a_bar_shows_on_a_terminal_when_it_takes_longer_than_a_second(program, record, tmp_path, server):
    app = program()
    split_debug(app, tmp_path / "store", "-g")
    trace = record(app)
    server.delay = 2.5
    main, terminal = pty.openpty()
    child = subprocess.Popen([WATCHCTL, "symbolize", trace], stdout=subprocess.PIPE, stderr=terminal, text=True,
                             env=dict(os.environ, TERM="xterm"))
    os.close(terminal)
    text = b""
    with contextlib.suppress(OSError):
        while more := os.read(main, 4096):
            text += more
    os.close(main)
    out, _ = child.communicate(timeout=WAIT)
    assert child.returncode == 0 and "code addresses" in out
    if not server.asked:
        pytest.skip("libdebuginfod.so.1 is not installed")
    assert re.search(rb"\rnaming addresses +\d+ % \[#* *\]", text), text
    assert text.endswith(b"\r\x1b[K")


def test_no_bar_where_it_would_be_in_the_way(program, record, run, tmp_path, server):
    app = program()
    split_debug(app, tmp_path / "store", "-g")
    trace = record(app)
    server.delay = 1.5
    done = run("symbolize", trace)
    assert done.returncode == 0 and done.stderr == ""
