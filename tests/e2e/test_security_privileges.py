# rooms: engine monitor
"""What each engine takes, and that nothing more is kept: a plain user, capabilities instead of root, root."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, wait_until

OWN, OTHER = 65534, 65533
# What a session keeps once it has armed: see docs/security.md.
KEPT = {"dac_override", "dac_read_search", "kill", "ipc_lock", "sys_ptrace", "sys_resource", "syslog", "perfmon", "bpf",
        "checkpoint_restore"}
NUMBERS = {"dac_override": 1, "dac_read_search": 2, "kill": 5, "ipc_lock": 14, "sys_ptrace": 19, "sys_resource": 24, "syslog": 34,
           "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root and setpriv")


def as_user(uid, *caps):
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    if caps:
        listed = ",".join("+" + c for c in caps)
        command += [f"--inh-caps={listed}", f"--ambient-caps={listed}"]
    return command


@pytest.fixture(scope="module")
def shared(build, hardware, tmp_path_factory):
    """watchctl and a program where every user can execute them."""
    folder = Path("/tmp") / f"watchctl-privileges-{os.getpid()}"
    folder.mkdir(0o755)
    for path in (WATCHCTL, build("secrets")):
        shutil.copy(path, folder)
        (folder / Path(path).name).chmod(0o755)
    if subprocess.run([*as_user(OWN), str(folder / "watchctl"), "--version"], capture_output=True).returncode:
        shutil.rmtree(folder)
        pytest.skip("other users cannot execute programs in /tmp")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def program(shared):
    running = []

    def start(uid):
        p = subprocess.Popen([*as_user(uid), str(shared / "secrets")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             bufsize=1)
        running.append(p)
        return p, int(p.stdout.readline().split()[1])

    yield start
    for p in running:
        p.kill()
        p.wait()


def watched(shared, program, uid, caps, *args):
    """Two writes, watched by user OWN with @caps: (exit status, objects, standard error)."""
    p, pid = program(uid)
    w = subprocess.Popen([*as_user(OWN, *caps), str(shared / "watchctl"), "-p", str(pid), "-v", "counter", "-n", "2", "--json",
                          *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        for line in w.stdout:
            lines.append(line)
            if '"type":"armed"' in line:
                for _ in range(2):
                    p.stdin.write("count\n")
                    assert p.stdout.readline() == "ok\n"
        err = w.stderr.read()
        return w.wait(timeout=WAIT), [json.loads(line) for line in lines], err
    finally:
        w.kill()
        w.wait()


def paranoid():
    return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_a_users_own_process_takes_no_privilege(shared, program, engine):
    if paranoid() > 2 and engine == "ring":
        pytest.skip(f"kernel.perf_event_paranoid is {paranoid()}: perf is for the privileged")
    code, found, err = watched(shared, program, OWN, [], "--engine", engine)
    assert code == 0, err
    accesses = [o for o in found if o["type"] == "access"]
    assert [a["new"] for a in accesses] == ["0x3", "0x6"]


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
def test_another_users_process_takes_cap_sys_ptrace_and_not_root(shared, program, engine):
    code, found, err = watched(shared, program, OTHER, ["sys_ptrace"], "--engine", engine)
    assert code == 0, err
    assert [a["new"] for a in found if a["type"] == "access"] == ["0x3", "0x6"]


@pytest.mark.parametrize("caps", [[], ["perfmon"], ["perfmon", "bpf"]])
def test_without_it_the_message_names_what_is_missing(shared, program, caps):
    code, _, err = watched(shared, program, OTHER, caps)
    assert code == 4
    assert "CAP_SYS_PTRACE" in err and f"user {OTHER}" in err


@pytest.mark.parametrize("caps, kernel", [([], paranoid() <= 1), (["perfmon"], True)])
def test_accesses_by_the_kernel_take_cap_perfmon(shared, program, caps, kernel):
    code, found, err = watched(shared, program, OWN, caps, "--engine", "handler")
    assert code == 0, err
    assert [o["kernel"] for o in found if o["type"] == "armed"] == [kernel]


def capabilities(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return {name: int(re.search(rf"^{name}:\s*(\w+)", status, re.M).group(1), 16) for name in ("CapPrm", "CapEff", "CapInh")}


def family(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [p for c in children for p in family(int(c))]


@pytest.mark.parametrize("engine", ["handler", "ring"])
def test_root_keeps_only_what_tracing_takes_once_the_watch_is_armed(victim, watch, engine):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--engine", engine)
    allowed = sum(1 << NUMBERS[c] for c in KEPT)
    wait_until(lambda: not capabilities(w.process.pid)["CapPrm"] & ~allowed)
    assert not any(c & ~allowed for c in capabilities(w.process.pid).values())
    v.tell("write 3")
    w.end()
    assert len(w.accesses) == 3  # and that is enough


def test_the_thread_that_speaks_for_us_keeps_no_more(victim, watch):
    """While the program may wait for us in its loader; each thread has capabilities of its own."""
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "libplugin.so:plugin_state", "--pending", "--engine", "handler", wait=False)
    tasks = Path(f"/proc/{w.process.pid}/task")
    allowed = sum(1 << NUMBERS[c] for c in KEPT)
    wait_until(lambda: len(list(tasks.iterdir())) == 2)
    wait_until(lambda: not any(c & ~allowed for t in tasks.iterdir() for c in capabilities(t.name).values()))
    w.end(expect=None)


def test_a_launched_program_has_the_privileges_that_it_would_have_had(hardware, tmp_path):
    """Credentials, capabilities, limits, descriptors and environment are those of a shell's child."""
    script = "grep -E '^(Cap|Uid|Gid|Groups|NoNewPrivs|Seccomp|Sig[BI])' /proc/self/status; ls /proc/self/fd; env | sort; ulimit -a; umask"
    plain = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    launched = subprocess.run([WATCHCTL, "--pending", "-v", "libnothing.so:flag", "--", "/bin/sh", "-c", script],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=WAIT).stdout
    assert launched == plain and "CapEff" in plain


def test_what_reads_foreign_debug_information_has_no_privilege(victim, watch, tmp_path):
    """Its system calls, by strace: after it is confined it opens nothing for writing, and its capabilities are gone."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w", "-o", tmp_path / "log")
    v.tell("write 3")
    w.end()
    trace = tmp_path / "trace"
    subprocess.run(["strace", "-f", "-qq", "-e", "trace=clone,clone3,fork,vfork,prctl,seccomp,capset,openat,execve", "-o", str(trace),
                    WATCHCTL, "symbolize", str(tmp_path / "log")], capture_output=True, timeout=WAIT, check=True)
    calls = {}
    for line in trace.read_text().splitlines():
        pid, call = line.split(None, 1)
        calls.setdefault(pid, []).append(call)
    workers = [c for c in calls.values() if any("PR_SET_SECCOMP" in x or "SECCOMP_MODE_FILTER" in x for x in c)]
    assert workers
    for worker in workers:
        confined = next(i for i, c in enumerate(worker) if "SECCOMP" in c)
        before, after = worker[:confined], worker[confined:]
        assert any("PR_SET_NO_NEW_PRIVS, 1" in c for c in before)
        assert any("capset" in c for c in before)
        assert not [c for c in after if re.search("O_WRONLY|O_RDWR|O_CREAT", c) and "= -1" not in c]
    names = subprocess.run([WATCHCTL, "report", "--sites", str(tmp_path / "log")], capture_output=True, text=True, timeout=WAIT)
    assert "puppet.c" in names.stdout
