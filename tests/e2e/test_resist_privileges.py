# rooms: target
"""Programs that are shut in, or are more than we are: watched with nothing broken, or refused in a clear sentence."""
import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, Victim, snapshot, wait_until

TARGET, PERM, NOTSUP = 3, 4, 7
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
ENGINES = {
    "handler": ["--engine", "handler"],
    "handler -i": ["--engine", "handler", "-i", "2"],
    "ring": ["--engine", "ring"],
    "ptrace": ["--engine", "ptrace"],
}
each_engine = pytest.mark.parametrize("engine", ENGINES)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user or to mount")

# seccomp

KINDS = ["strict", "container", "kill", "trap", "trace", "notify"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_in_a_sandbox_is_watched_without_a_system_call_of_ours(victim, watch, run, kind):
    v = victim("resist_seccomp", kind)
    before = snapshot(v.pid)
    r = run("-p", v.pid, "-v", "flag", "--engine", "handler")
    assert r.returncode == NOTSUP and "seccomp" in r.stderr and "--engine ring" in r.stderr
    n = 0
    for options, engine in (["--engine", "auto"], "ring"), (["--engine", "ptrace"], "ptrace"):
        w = watch("-p", v.pid, "-v", "flag", "-w", *options)
        n += 3
        assert v.ask("w 3") == f"ok {n}"
        w.end()
        assert w.of("armed")[0]["engine"] == engine and w.summary()["counted"] == 3 and w.balanced()
    assert snapshot(v.pid) == before
    assert v.ask("w 1") == f"ok {n + 1}"


@needs_root
@pytest.mark.parametrize("how", ["late", "thread"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_shuts_itself_in_while_watched_is_let_go_unharmed(victim, watch, run, kind, how):
    """
    The handler's system calls would kill it. From the first hit in the sandbox on, the guard records in its place, and
    loses none; nobody in the sandbox is made to do anything. "thread": one thread is shut in, another stays free. Where
    the machine is busy, the watch may be over before the last of the five, or, told of the sandbox by a thread that is
    born in it ("notify"), before the first.
    """
    v = victim("resist_seccomp", kind, how)
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", "--verbose")
    answer = v.ask("w 5")
    w.end(sig=None, expect=None)
    if "guard against a replaced SIGTRAP handler: in place" not in w.stderr:
        pytest.skip("this kernel's BPF cannot hold a signal back (Linux 6.11 can)")
    assert answer == "ok 5" and w.process.returncode == NOTSUP
    s = w.summary()
    assert s["recorded"] == s["counted"] and s["lost"] == 0 and (0 if kind == "notify" else 1) <= s["counted"] <= 5, s
    assert "has put itself under seccomp" in w.of("note")[-1]["text"]
    assert v.ask("w 2") == "ok 7"
    maps = snapshot(v.pid)["maps"]
    if how == "thread":
        assert [m for m in maps if "r-xp" in m] == [m for m in before["maps"] if "r-xp" in m]
    else:
        assert "the handler is left in process" in w.stderr and "runs under seccomp" in w.stderr
        r = run("clear", "-p", v.pid)
        assert r.returncode == NOTSUP and "seccomp" in r.stderr
    assert v.ask("w 1") == "ok 8"


@pytest.mark.parametrize("kind", ["strict", "kill"])
def test_the_calls_of_a_program_in_a_sandbox_are_recorded(victim, watch, kind):
    """Where no code may be mapped into it, breakpoints are stepped over without."""
    v = victim("resist_seccomp", kind)
    w = watch("step", "-p", v.pid, "--from", "write_flag", "--count", 3, wait=False)
    writes = 0
    while w.process.poll() is None:
        writes += 1
        assert v.ask("w 1") == f"ok {writes}"
    w.end(sig=None)
    assert [o["function"] for o in w.of("call")] == ["write_flag"] * 3
    assert v.ask("w 1") == f"ok {writes + 1}"


def test_what_a_killed_watchctl_left_is_taken_out_by_a_thread_that_is_free(victim, watch, run):
    v = victim("resist_seccomp", "kill", "thread")
    before = snapshot(v.pid)
    watch("-p", v.pid, "-v", "flag", "-w", "--engine", "handler").end(sig=signal.SIGKILL, expect=None)
    assert v.ask("w 2") == "ok 2"
    r = run("clear", "-p", v.pid)
    assert r.returncode == 0 and "took out the handler" in r.stdout, r.stderr
    assert [m for m in snapshot(v.pid)["maps"] if "r-xp" in m] == [m for m in before["maps"] if "r-xp" in m]
    assert v.ask("w 2") == "ok 4"


# Users

@pytest.fixture
def shelf(build):
    """A folder that a plain user can reach: shelf.put(name, mode) copies a program there."""

    class Shelf:
        path = Path("/tmp") / f"watchctl-shelf-{os.getpid()}"

        def put(self, source, mode=0o755):
            target = self.path / Path(source).name
            shutil.copy(source, target)
            target.chmod(mode)
            return str(target)

    s = Shelf()
    s.path.mkdir(mode=0o755)
    s.watchctl = s.put(WATCHCTL)
    yield s
    shutil.rmtree(s.path)


@contextlib.contextmanager
def started(*command):
    """A victim that is started by @command."""
    p = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    v = Victim.__new__(Victim)
    v.process = p
    v.inner = int(p.stdout.readline().split()[1])
    v.pid = p.pid
    try:
        yield v
    finally:
        p.kill()
        p.wait()


def as_nobody(shelf, *args, timeout=WAIT):
    return subprocess.run([*NOBODY, shelf.watchctl, *map(str, args)], capture_output=True, text=True, timeout=timeout)


def refused(r, code, *words):
    assert r.returncode == code, (r.returncode, r.stderr)
    assert r.stderr.startswith("watchctl: ") and r.stderr.count("\n") == 1
    for word in words:
        assert word in r.stderr, r.stderr


@needs_root
def test_a_setuid_program_is_root_s_to_watch(build, shelf, watch, hardware):
    program = shelf.put(build("resist_procs"), 0o4755)
    with started(*NOBODY, program) as v:
        if Path(f"/proc/{v.pid}").stat().st_uid == 65534:
            pytest.skip("set-user-ID is not obeyed here")
        before = snapshot(v.pid)
        for options in ([], *ENGINES.values()):
            refused(as_nobody(shelf, "-p", v.pid, "-v", "flag", *options), PERM, "as root")
        for command in ("list", "clear"):
            refused(as_nobody(shelf, command, "-p", v.pid), PERM)
        assert snapshot(v.pid) == before
        for name, options in ENGINES.items():
            w = watch("-p", v.pid, "-v", "flag", "-w", *options)
            v.tell("write 3")
            w.end()
            assert w.summary()["recorded"] == 3, name
        assert snapshot(v.pid) == before


@needs_root
def test_a_setuid_program_is_not_started_without_its_privileges(build, shelf, hardware):
    """Under any tracer the kernel would ignore the bit, and the program would go wrong in ways of its own."""
    program = shelf.put(build("resist_procs"), 0o4755)
    r = as_nobody(shelf, "-v", "flag", "-t", 1, "--", program)
    refused(r, PERM, "set-user-ID", "-p")


@needs_root
@each_engine
def test_a_setuid_program_that_a_watched_one_executes_has_its_privileges(build, shelf, engine, hardware):
    """Children are not traced; nor is the program itself, but with the ptrace engine (docs/limits.md)."""
    ids = shelf.put(shutil.which("id"), 0o4755)
    program = shelf.put(shutil.which("bash"))
    with started(*NOBODY, program, "-c", f"echo pid $$; while read line; do {ids} -u; done") as v:
        w = subprocess.Popen([*NOBODY, shelf.watchctl, "-p", str(v.pid), "-v", "interactive", "-w", "--json",
                              *ENGINES[engine]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = w.stdout.readline()
            while line and '"armed"' not in line:
                line = w.stdout.readline()
            if not line:
                pytest.skip(f"not for a plain user here: {w.stderr.read()}")
            v.send("go")
            assert v.process.stdout.readline() == "0\n"
        finally:
            w.send_signal(signal.SIGINT)
            w.communicate(timeout=WAIT)
        assert w.returncode == 0


@needs_root
def test_a_program_that_is_not_dumpable_is_root_s_to_watch(build, shelf, watch, hardware):
    with started(*NOBODY, shelf.put(build("resist_procs"))) as v:
        v.tell("dumpable 0")
        before = snapshot(v.pid)
        for options in ENGINES.values():
            refused(as_nobody(shelf, "-p", v.pid, "-v", "flag", *options), PERM, "as root")
        for name, options in ENGINES.items():
            w = watch("-p", v.pid, "-v", "flag", "-w", *options)
            v.tell("write 3")
            w.end()
            assert w.summary()["recorded"] == 3, name
        assert snapshot(v.pid) == before


@needs_root
@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_program_that_bars_us_while_watched_is_left_alive(build, shelf, run, engine, hardware):
    """From then on a plain user may neither stop it nor write into it. A tracer goes on as one."""
    with started(*NOBODY, shelf.put(build("resist_procs"))) as v:
        w = subprocess.Popen([*NOBODY, shelf.watchctl, "-p", str(v.pid), "-v", "flag", "-w", "--json",
                              *ENGINES[engine]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while '"armed"' not in w.stdout.readline():
            assert w.poll() is None, w.stderr.read()
        v.tell("write 3")
        v.tell("dumpable 0")
        v.tell("write 3")
        w.send_signal(signal.SIGINT)
        out, err = w.communicate(timeout=WAIT)
        assert v.alive()
        v.tell("write 3")
        if engine != "handler":
            assert w.returncode == 0 and '"recorded":6,' in out, err
        else:
            assert w.returncode in (PERM, NOTSUP) and "the handler is left in p" in err, err
            assert out.count('"summary"') == 1
            r = run("clear", "-p", v.pid)
            assert r.returncode == 0 and "took out the handler" in r.stdout, r.stderr
        v.tell("write 3")


# Places

def unshared(*options):
    if not shutil.which("unshare") or subprocess.run(["unshare", *options, "true"], capture_output=True).returncode:
        pytest.skip("namespaces are not permitted here")
    return ["unshare", *options]


def inner_pids(v):
    return Path(f"/proc/{v.pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split()


def child(pid):
    found = []
    wait_until(lambda: found.extend(
        Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) or found)
    return int(found[0])


@needs_root
@each_engine
def test_programs_with_the_same_number_in_namespaces_of_their_own_are_told_apart(build, watch, engine, hardware):
    with started(*unshared("-p", "-f"), build("resist_procs")) as a, \
            started(*unshared("-p", "-f"), build("resist_procs")) as b:
        a.pid, b.pid = child(a.pid), child(b.pid)
        assert a.inner == b.inner == 1
        before = snapshot(a.pid), snapshot(b.pid)
        wa = watch("-p", a.pid, "-v", "flag", "-w", *ENGINES[engine])
        wb = watch("-p", b.pid, "-v", "flag", "-w", *ENGINES[engine])
        a.tell("write 3")
        b.tell("write 5")
        wa.end()
        wb.end()
        assert [x["tid"] for x in wa.accesses] == [a.pid] * 3 and [x["tid"] for x in wb.accesses] == [b.pid] * 5
        assert (snapshot(a.pid), snapshot(b.pid)) == before
        a.process.stdin.close()
        b.process.stdin.close()
        a.process.wait(timeout=WAIT)
        b.process.wait(timeout=WAIT)


@needs_root
def test_the_proc_of_another_pid_namespace_is_noticed(victim, hardware):
    """Its numbers are not those that system calls take: another process would be stopped, and written to."""
    v = victim("resist_procs")
    before = snapshot(v.pid)
    for command in (["-p", "2", "-v", "flag", "-t", "1"], ["list", "-p", "2"], ["clear", "-p", "2"],
                    ["-p", str(v.pid), "-v", "flag", "-t", "1"]):
        r = subprocess.run([*unshared("-p", "-f"), "sh", "-c", 'sleep 20 & "$@"; r=$?; kill $!; exit $r', "sh",
                            WATCHCTL, *command], capture_output=True, text=True, timeout=WAIT)
        refused(r, NOTSUP, "/proc", "PID namespace")
    assert snapshot(v.pid) == before


@needs_root
def test_without_proc_it_is_said(victim, hardware):
    v = victim("resist_procs")
    r = subprocess.run([*unshared("-m"), "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", WATCHCTL, "-p",
                        str(v.pid), "-v", "flag"], capture_output=True, text=True, timeout=WAIT)
    refused(r, NOTSUP, "/proc is not mounted")


@needs_root
@each_engine
def test_a_program_in_a_chroot_without_proc_is_watched(build, watch, tmp_path, engine, hardware):
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(build("puppet_static"), root / "program")
    with started("chroot", root, "/program") as v:
        before = snapshot(v.pid)
        w = watch("-p", v.pid, "-v", "flag", "-w", *ENGINES[engine])
        v.tell("write 3")
        w.end()
        assert [a["function"] for a in w.accesses] == ["write_flag"] * 3
        assert snapshot(v.pid) == before


@needs_root
def test_a_process_that_proc_hides_is_refused(build, shelf, victim, hardware):
    v = victim("resist_procs")
    r = subprocess.run([*unshared("-m", "-p", "-f"), "sh", "-c",
                        'mount -t proc -o hidepid=2 none /proc; sleep 20 & "$@" -p $!; exit $?', "sh", *NOBODY,
                        shelf.watchctl, "-v", "flag"], capture_output=True, text=True, timeout=WAIT)
    refused(r, PERM, "hidden from this user")
    assert v.alive()


@needs_root
@each_engine
def test_the_root_of_a_user_namespace_watches_its_own(build, shelf, engine, hardware):
    """It is root there, and has none of root's rights outside: no guard, no shared memory, no kernel's accesses."""
    if subprocess.run([*NOBODY, "unshare", "-Ur", "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not permitted here")
    script = f'exec 3<&0; "{shelf.put(build("resist_procs"))}" <&3 & ' \
             'while [ "$(cat /proc/$!/comm)" = sh ]; do :; done; "$@" -p $!'  # until the child has become the victim
    p = subprocess.Popen([*NOBODY, "unshare", "-Ur", "sh", "-c", script, "sh", shelf.watchctl, "-v", "flag", "-w",
                          "--json", "-n", "4", *ENGINES[engine]],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    lines = []
    while not lines or '"armed"' not in lines[-1]:
        lines.append(p.stdout.readline())
        assert lines[-1], p.stderr.read()
    p.stdin.write("write 4\n")
    while '"summary"' not in lines[-1]:
        lines.append(p.stdout.readline())
        assert lines[-1], p.stderr.read()
    _, err = p.communicate(timeout=WAIT)
    assert p.returncode == 0 and "".join(lines).count('"type":"access"') == 4, (lines, err)
