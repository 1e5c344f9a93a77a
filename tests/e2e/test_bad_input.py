# rooms: base cli monitor
"""One clear sentence, a documented exit code, the target unharmed."""
import contextlib
import errno
import json
import os
import re
import resource
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import BUILD, WAIT, WATCHCTL, snapshot, wait_until
from repl_driver import script  # noqa: F401

OTHER, USAGE, TARGET, PERM, NAME, SLOTS, NOTSUP, LOG = 1, 2, 3, 4, 5, 6, 7, 8


def refused(run, v, code, *words, args):
    before = snapshot(v.pid) if v else None
    r = run(*args)
    assert r.returncode == code, (r.returncode, r.stderr)
    assert r.stderr.startswith("watchctl: ") and r.stderr.count("watchctl: ") == 1
    for word in words:
        assert word in r.stderr, r.stderr
    if v:
        assert snapshot(v.pid) == before
        v.tell("write 1")
    return r.stderr


@pytest.mark.parametrize("files", [*range(4, 20), 24, 32])
@pytest.mark.parametrize("engine", ["auto", "handler", "ring", "ptrace"])
def test_with_too_few_files_nothing_is_said_that_could_not_be_looked_at(hardware, victim, engine, files):
    """Neither that the process has ended nor, without a word more, that it has no such variable. And nothing is left in it."""
    v = victim("puppet")
    before = snapshot(v.pid)
    r = subprocess.run([WATCHCTL, "-q", "-p", str(v.pid), "-v", "flag", "-w", "-t", "0.05", "--engine", engine],
                       capture_output=True, text=True,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert r.returncode in (0, OTHER) and "ended" not in r.stderr and "not a variable" not in r.stderr, r.stderr
    assert r.returncode == 0 or re.search("Too many open files|file descriptor", r.stderr), r.stderr
    assert snapshot(v.pid) == before


def test_no_such_process(run):
    refused(run, None, TARGET, "no process 4194000", args=["-p", 4194000, "-v", "flag"])


def test_a_thread_is_not_a_process(run, victim):
    v = victim("hammer", 2, 1000)
    wait_until(lambda: len(os.listdir(f"/proc/{v.pid}/task")) == 3)
    tid = [t for t in os.listdir(f"/proc/{v.pid}/task") if int(t) != v.pid][0]
    r = run("-p", tid, "-v", "counter")
    assert r.returncode == TARGET and f"-p {v.pid}" in r.stderr


def test_a_kernel_thread(run):
    r = run("-p", 2, "-v", "flag")
    assert r.returncode == TARGET and "kernel thread" in r.stderr


def test_a_zombie(run):
    p = subprocess.Popen(["/bin/true"])
    wait_until(lambda: "State:\tZ" in Path(f"/proc/{p.pid}/status").read_text())
    r = run("-p", p.pid, "-v", "flag")
    p.wait()
    assert r.returncode == TARGET and "zombie" in r.stderr


def as_nobody(*args, **more):
    """A copy that a plain user can reach."""
    copy = Path("/tmp") / f"watchctl-as-nobody-{os.getpid()}"
    shutil.copy(WATCHCTL, copy)
    copy.chmod(0o755)
    try:
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(copy),
                               *map(str, args)], capture_output=True, text=True, timeout=WAIT, **more)
    finally:
        copy.unlink()


@contextlib.contextmanager
def once_ready(do):
    """The descriptor for a watchctl's --ready-fd: do() is called meanwhile, in a thread of its own, when that is ready."""
    ours, its = os.pipe()
    hears = threading.Thread(target=lambda: os.read(ours, 1) and do())
    hears.start()
    try:
        yield its
    finally:
        os.close(its)  # the end of whoever was never ready is heard
        hears.join()
        os.close(ours)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_process(victim):
    v = victim("puppet")
    r = as_nobody("-p", v.pid, "-v", "flag")
    assert r.returncode == PERM and "root" in r.stderr, r.stderr
    v.tell("write 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_plain_user_watches_his_own_process(build, hardware, tmp_path):
    """No privilege at all: no shared ring, no kernel accesses, no guard; the accesses are all there."""
    copy = Path("/tmp") / f"puppet-as-nobody-{os.getpid()}"
    shutil.copy(build("puppet"), copy)
    copy.chmod(0o755)
    try:
        p = subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(copy)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        pid = int(p.stdout.readline().split()[1])
        before = snapshot(pid)

        def work():
            p.stdin.write("write 20\nread 5\n")
            p.stdin.flush()

        with once_ready(work) as fd:
            r = as_nobody("-p", pid, "-v", "flag", "-rw", "-n", 25, "--ready-fd", fd, pass_fds=[fd])
        assert r.returncode == 0, r.stderr
        assert "25 recorded, 0 lost" in r.stdout
        assert snapshot(pid) == before
    finally:
        p.kill()
        copy.unlink()


@pytest.mark.slow
def test_already_traced_by_another(run, victim, tmp_path):
    v = victim("puppet")
    gdb = subprocess.Popen(["gdb", "-q", "-batch", "-p", str(v.pid), "-ex", "shell cat"], stdin=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{v.pid}/status").read_text())
    r = run("-p", v.pid, "-v", "flag")
    gdb.stdin.close()
    gdb.wait(timeout=WAIT)
    assert r.returncode == PERM and "gdb" in r.stderr, r.stderr
    v.tell("write 1")


def test_unknown_symbol_offers_near_misses(run, victim):
    v = victim("puppet")
    assert "flag" in refused(run, v, NAME, "flga", args=["-p", v.pid, "-v", "flga"])


def test_a_function_is_not_watched_as_a_variable(hardware, run, victim):
    v = victim("puppet")
    text = refused(run, v, NAME, "'main' is a function", "-x", args=["-p", v.pid, "-v", "main"])
    address = re.search(r"0x[0-9a-f]+:1", text)[0]
    r = run("-p", v.pid, "-v", "main", "-x", "-t", 0.1)
    assert r.returncode == 0 and "main of puppet (" + address[:-2] in r.stdout, (r.stdout, r.stderr)
    assert run("-p", v.pid, "-v", address, "-t", 0.1).returncode == 0


def test_ambiguous_names_list_their_candidates(hardware, run, build):
    source = BUILD / "victims"
    for name in "ab":
        (source / f"ambi_{name}.c").write_text(f"static volatile int twice; int get_{name}(void); "
                                               f"int get_{name}(void) {{ return ++twice; }}\n")
    (source / "ambi_main.c").write_text("#include <stdio.h>\n#include <unistd.h>\nint get_a(void), get_b(void);\n"
                                        "int main(void) { puts(\"begun\"); fflush(stdout); "
                                        "for (;;) { get_a(); get_b(); usleep(1000); } }\n")
    program = source / "ambi"
    subprocess.run(["gcc", "-g", "-o", program, *[source / f"ambi_{n}.c" for n in ("a", "b", "main")]], check=True)
    p = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "begun\n"
        r = run("-p", p.pid, "-v", "twice")
        assert r.returncode == NAME and "ambi_a.c" in r.stderr and "ambi_b.c" in r.stderr, r.stderr
        r = run("-p", p.pid, "-v", "ambi_b.c:twice", "-n", 1)
        assert r.returncode == 0, r.stderr
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("place, size", [("0xffffffffffffffff", 1), ("0xfffffffffffffff8", 8), ("0xfffffffffffffffe", 4)])
def test_the_end_of_the_address_space_is_called_so(run, victim, place, size):
    v = victim("puppet")
    refused(run, v, NAME, "the end of the address space", place, args=["-p", v.pid, "-v", place, "-s", size])


@pytest.mark.parametrize("size, word", [("33", "at most 32"), ("0", "-s"), ("4294967297", "-s"), ("x", "-s")])
def test_wrong_sizes(run, victim, size, word):
    v = victim("puppet")
    refused(run, v, USAGE, word, args=["-p", v.pid, "-v", "flag", "-s", size])


def test_a_struct_names_its_members(run, victim):
    v = victim("puppet")
    refused(run, v, USAGE, "requests, cache, colour, head, table", "at most 24",
            args=["-p", v.pid, "-v", "stats", "-v", "flag"])


def test_a_fifth_watch(run, victim):
    v = victim("puppet")
    args = [x for n in ("flag", "v_ll", "v_uint", "v_bool", "v_colour") for x in ("-v", n)]
    refused(run, v, SLOTS, "v_colour", "one too many", args=["-p", v.pid, *args])


def test_registers_held_by_another_tool(run, victim, watch):
    v = victim("puppet")
    args = [x for n in ("v_ll", "v_uint", "v_bool", "v_colour") for x in ("-v", n)]
    first = watch("-p", v.pid, *args)
    wait_until(lambda: len(first.of("armed")) == 4)
    r = run("-p", v.pid, "-v", "flag")
    assert r.returncode == SLOTS and "no free debug register" in r.stderr, r.stderr
    v.tell("types")
    first.end()
    assert all(s["recorded"] == 1 for s in first.of("summary"))


def test_registers_that_the_kernel_keeps_for_ptrace(run, victim, watch):
    """Nobody holds them any more: the ptrace engine has used them before."""
    v = victim("puppet")
    args = [x for n in ("v_ll", "v_uint", "v_bool", "v_colour") for x in ("-v", n)]
    watch("-p", v.pid, *args, "--engine", "ptrace").end()
    refused(run, v, SLOTS, "no free debug register", "the kernel reserves them for ptrace", "--engine ptrace, -i",
            args=["-p", v.pid, "-v", "flag"])
    again = watch("-p", v.pid, "-v", "flag", "-w", "--engine", "ptrace")
    v.tell("write 3")
    again.end()
    assert again.summary()["recorded"] == 3


def test_unmapped_address(run, victim):
    v = victim("puppet")
    refused(run, v, NAME, "nothing is mapped", args=["-p", v.pid, "-v", "0x10000", "-s", 4])


def test_an_address_without_a_size(run, victim):
    v = victim("puppet_nopie")
    refused(run, v, USAGE, "-s", args=["-p", v.pid, "-v", "0x404040"])


def test_null_pointer_on_the_path(run, victim):
    v = victim("puppet")
    refused(run, v, NAME, "null", args=["-p", v.pid, "-v", "v_pointer->len"])


def test_malformed_expression_shows_where(run, victim):
    v = victim("puppet")
    assert "^" in refused(run, v, USAGE, args=["-p", v.pid, "-v", "stats..hits"])


def test_a_thread_local_variable_takes_one_register(run, victim):
    v = victim("mover")
    refused(run, v, USAGE, "thread-local", "1, 2, 4 or 8", args=["-p", v.pid, "-v", "mine", "-s", 3])
    refused(run, v, NOTSUP, "-i", args=["-p", v.pid, "-v", "mine", "-i", 1])


def test_a_library_that_is_not_loaded(run, victim):
    v = victim("puppet")
    refused(run, v, NAME, "libplugin.so", "--pending", args=["-p", v.pid, "-v", "libplugin.so:plugin_state"])


def test_seccomp_gets_an_engine_that_cannot_kill(run, victim, watch):
    v = victim("sandboxed")
    r = run("-p", v.pid, "-v", "flag", "--engine", "handler")
    assert r.returncode == NOTSUP and "seccomp" in r.stderr
    w = watch("-p", v.pid, "-v", "flag", "--engine", "auto")
    assert v.tell("go") == "1"
    w.end()
    assert w.of("armed")[0]["engine"] == "ring" and len(w.accesses) == 1


def test_a_program_that_sandboxes_itself_while_watched_is_let_go(victim, watch):
    v = victim("sandboxed", "late")
    w = watch("-p", v.pid, "-v", "flag")
    assert v.tell("go") == "1"
    w.end(sig=None, expect=NOTSUP)
    assert "seccomp" in w.of("note")[-1]["text"]
    assert v.tell("go") == "2"


def test_log_exists_already(run, victim, tmp_path):
    v = victim("puppet")
    (tmp_path / "log").mkdir()
    refused(run, v, LOG, "exists", args=["-p", v.pid, "-v", "flag", "-o", tmp_path / "log"])


def test_log_cannot_be_written(run, victim):
    v = victim("puppet")
    refused(run, v, LOG, "/proc/nolog", args=["-p", v.pid, "-v", "flag", "-o", "/proc/nolog"])


def test_nothing_is_left_of_a_log_that_was_never_begun(run, victim, tmp_path):
    v = victim("puppet")
    refused(run, v, NAME, args=["-p", v.pid, "-v", "flga", "-o", tmp_path / "log"])
    assert not (tmp_path / "log").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_disk_full_ends_the_watch_and_what_is_there_reads(hardware, run, victim, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        v = victim("hammer", 2, 0)
        r = run("-p", v.pid, "-v", "counter", "-o", disk / "log", "-t", 20)
        assert r.returncode == LOG and "space" in r.stderr, r.stderr
        assert v.alive()
        r = run("report", disk / "log", "--sites")
        assert r.returncode in (0, LOG) and "counter" in r.stdout
    finally:
        subprocess.run(["umount", disk])


def test_the_reader_of_the_output_goes_away(victim, hardware):
    v = victim("hammer", 1, 100)
    p = subprocess.Popen(f"{WATCHCTL} -p {v.pid} -v counter | head -3", shell=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=WAIT)
    assert out.count("\n") == 3 and err == ""
    assert v.alive()


@pytest.mark.parametrize("args, word", [
    (["-v", "flag"], "-p PID"),
    (["-p", "1"], "-v EXPR"),
    (["-p", "1", "-s", "4", "-v", "flag"], "after the -v"),
    (["-p", "x", "-v", "flag"], "-p"),
    (["-p", "1", "-v", "flag", "--buffer", "3K"], "--buffer"),
    (["-p", "1", "-v", "flag", "-t", "-1"], "-t"),
    (["-p", "1", "-v", "flag", "-n", "0"], "-n"),
    (["-p", "1", "-v", "flag", "--frames", "65"], "--frames"),
    (["-p", "1", "-v", "flag", "--", "/bin/true"], "one of them"),
    (["-v", "flag", "--"], "missing after --"),
    (["-p", "1", "-v", "flag", "extra"], "extra"),
    (["-p", "1", "-v", "flag", "--jsn"], "--json"),
    (["-p", "1", "-v", "flag", "-i", "4"], "-i"),
])
def test_command_lines_that_make_no_sense(run, args, word):
    refused(run, None, USAGE, word, args=args)


def test_where_perf_is_forbidden_the_watch_works_all_the_same(hardware, build, victim):
    v = victim("puppet")
    w = subprocess.Popen([build("noperf"), str(errno.EPERM), WATCHCTL, "-p", str(v.pid), "-v", "flag", "--json", "-n", "3"],
                         stdout=subprocess.PIPE, text=True)
    lines = (json.loads(line) for line in w.stdout)
    armed = next(o for o in lines if o["type"] == "armed")
    assert armed["engine"] == "ptrace" and "perf events are not permitted" in armed["engine_why"]
    v.tell("write 3")
    assert len([o for o in lines if o["type"] == "access"]) == 3
    assert w.wait(timeout=WAIT) == 0


@pytest.mark.parametrize("error, code, word", [
    ("EACCES", PERM, "kernel.perf_event_paranoid"),
    ("EPERM", PERM, "seccomp"),
    ("ENODEV", NOTSUP, "no hardware debug registers"),
    ("ENOSYS", NOTSUP, "perf_event_open"),
])
@pytest.mark.parametrize("engine", ["handler", "ring"])
def test_perf_forbidden_or_absent_says_what_to_do(build, victim, error, code, word, engine):
    """The same errors as in a container, or on a machine without debug registers, made by a seccomp filter."""
    v = victim("puppet")
    before = snapshot(v.pid)
    r = subprocess.run([build("noperf"), str(getattr(errno, error)), WATCHCTL, "-p", str(v.pid), "-v", "flag",
                        "--engine", engine], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == code and word in r.stderr, r.stderr
    assert snapshot(v.pid) == before
    v.tell("write 1")


def test_what_a_plain_user_cannot_see_is_said_once(hardware, build, tmp_path):
    if os.geteuid():
        pytest.skip("only root can start it as another user")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    probe = subprocess.run([*nobody, WATCHCTL, "--version"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip("another user cannot run it from this folder")
    v = subprocess.Popen([*nobody, build("puppet")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert v.stdout.readline()
    try:
        r = subprocess.run([*nobody, WATCHCTL, "-p", str(v.pid), "-v", "flag", "-v", "v_ll", "-t", "0.2", "--json"],
                           capture_output=True, text=True, timeout=WAIT)
        notes = [json.loads(line)["text"] for line in r.stdout.splitlines() if '"note"' in line]
        unseen = [text for text in notes if "not seen" in text]
        assert r.returncode == 0 and len(unseen) == 1, (notes, r.stderr)
        assert "by the kernel are not seen" in unseen[0] and "CAP_PERFMON" in unseen[0]
    finally:
        v.kill()
        v.wait()


@pytest.fixture
def packaged():
    """A program that a Debian package installed, and the sentence that names the package with its debug information."""
    owner = shutil.which("dpkg-query") and subprocess.run(["dpkg-query", "-S", "*/bin/sleep"], capture_output=True, text=True)
    if not owner or owner.returncode != 0:
        pytest.skip("no Debian package has installed /bin/sleep here")
    package = owner.stdout.split(":")[0]
    return os.path.realpath("/bin/sleep"), f"ts package is {package}: {package}-dbgsym (or -dbg) has the debug information"


LACKING = [
    ["-v", "nosuch", "--"],
    ["-v", "nosuch.c:3", "-x", "--"],
    ["-v", "*(struct nosuch *)0x1000", "--"],
    ["step", "--from", "nosuch", "--"],
    ["record", "-v", "nosuch", "-o", "log", "--"],
    ["trace", "--function", "nosuch*", "--"],
    ["patch", "--plan", "--function", "nosuch", "--at", "ret"],
    ["patch", "--plan", "--at", "entry nosuch"],
    ["patch", "--plan", "--at", "nosuch.c:3"],
]


@pytest.mark.parametrize("command", LACKING, ids=lambda c: c[0] + " " + c[-2])
def test_the_debian_package_with_the_debug_information_is_named(run, hardware, tmp_path, packaged, command):
    program, advice = packaged
    command = [tmp_path / w if w == "log" else w for w in command]
    more = ["0"] if command[-1] == "--" else []
    assert f"I{advice}." in run(*command, program, *more).stderr
    copy = tmp_path / "sleep"  # what no package installed
    shutil.copy(program, copy)
    r = run(*command, copy, *more)
    assert re.search("sleep has (no|neither) debug information", r.stderr) and "-dbgsym" not in r.stderr


def test_the_end_of_a_recording_names_the_package_of_functions_without_types(run, hardware, tmp_path, packaged):
    program, advice = packaged
    note = run("step", "-o", tmp_path / "log", "--", program, "0").stderr
    assert re.search(rf"functions have no debug information: .*; \d+ of them are in sleep: i{re.escape(advice)}", note), note
    copy = tmp_path / "sleep"
    shutil.copy(program, copy)
    note = run("step", "-o", tmp_path / "log2", "--", copy, "0").stderr
    assert "functions have no debug information" in note and "coreutils" not in note, note


def test_the_repl_names_the_package_of_a_place_without_lines(script, hardware, tmp_path, packaged):
    program, advice = packaged
    copy = tmp_path / "sleep"
    shutil.copy(program, copy)
    for path, named in ((program, True), (copy, False)):
        # The last access is the program's own: it closes its standard output.
        out = script(f"watch stdout -rw\nrun {path} 0\nwait\nlist\n").stdout
        place = out[out.rindex("source: unknown"):]
        assert "there is no debug information for this place" in place and (advice in place) == named, out
