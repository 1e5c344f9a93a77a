# rooms: handler target engine/handler
"""The target is left as it was found, whatever happens to watchctl or to itself."""
import itertools
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from between import PTRACE_ARGUMENTS
from conftest import WAIT, WATCHCTL, snapshot, wait_until
from test_bad_input import as_nobody, once_ready

ENDINGS = {
    "interrupt": ([], signal.SIGINT),
    "terminate": ([], signal.SIGTERM),
    "count": (["-n", "5"], None),
    "time": (["-t", "0.5"], None),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["puppet", "puppet_static", "puppet_musl", "counter_go"])
def test_nothing_of_us_is_left(victim, watch, before_and_after, name, ending):
    v = victim(name)
    v.tell("write 1")  # whatever the program maps at its first steps is there
    args, sig = ENDINGS[ending]
    variable = "main.counter" if name == "counter_go" else "flag"
    with before_and_after(v.pid) if name != "counter_go" else same_signals(v.pid):
        w = watch("-p", v.pid, "-v", variable, "-w", *args)
        v.tell("write 200")
        w.end(sig=sig)
        assert w.balanced()
    v.tell("write 5")


class same_signals:
    """A Go runtime makes threads and maps memory as it likes: only what is ours is compared."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        self.before = snapshot(self.pid)

    def __exit__(self, *_):
        after = snapshot(self.pid)
        caught = [s for s in after["signals"] if s[0] in ("SigCgt", "SigIgn")]
        assert caught == [s for s in self.before["signals"] if s[0] in ("SigCgt", "SigIgn")]
        assert after["fds"] == self.before["fds"]
        executable = [m for m in after["maps"] if " r-xp" in m and m.endswith(" ")]
        assert executable == [m for m in self.before["maps"] if " r-xp" in m and m.endswith(" ")]


@pytest.mark.slow
def test_threads_of_the_target_are_undisturbed_by_attach_and_detach(victim, watch):
    """hammer checks registers, vector registers, red zone, errno, its mask, and that no sleep was cut short."""
    v = victim("hammer", 4, 300)
    for _ in range(10):
        watch("-p", v.pid, "-v", "counter", "-rw", "-t", "0.1", "-q").end(sig=None)
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")
    assert v.process.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize("pause_us", [0, 200])
def test_500_kills_at_random_instants_leave_the_program_alive(victim, hardware, pause_us):
    """SIGKILL of watchctl, threads hammering the variable; 250 with busy threads, 250 with sleeping ones."""
    v = victim("hammer", 2, pause_us)
    rng = random.Random(pause_us + 1)
    for i in range(250):
        w = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "scratch", "-s", "8", "-w", "-q"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.choice([0.02, 0.04, 0.1]) * rng.random())
        w.send_signal(signal.SIGKILL if i % 5 else signal.SIGINT)  # killed while it detaches, too
        if not i % 5:
            time.sleep(0.05 * rng.random())
            w.kill()
        w.wait()
        assert v.alive(), f"the program died at kill {i}: {v.process.returncode}"
        state = Path(f"/proc/{v.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state in "RS", f"kill {i} left the program in state {state}"
    v.process.send_signal(signal.SIGTERM)
    assert v.process.stdout.read().startswith("total")


def all_run(pid, threads):
    """Whether there are so many threads, and each but the first, which sleeps, has had a CPU for a millisecond."""
    tasks = [t for t in Path(f"/proc/{pid}/task").iterdir() if t.name != str(pid)]
    return len(tasks) == threads - 1 and all(int((t / "schedstat").read_text().split()[0]) > 1e6 for t in tasks)


@pytest.mark.slow
def test_a_kill_at_every_step_of_the_injection_leads_home(victim, hardware, tmp_path, run):
    """A library that kills watchctl at its n-th ptrace call or write, for every n there is."""
    source = tmp_path / "die.c"
    source.write_text(r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
static long n;
static void step(void)
{
	if (++n == atol(getenv("DIE_AT")))
		kill(getpid(), SIGKILL);
}
long ptrace(int request, ...)
{
""" + PTRACE_ARGUMENTS + r"""	step();
	return real(request, pid, a, b);
}
ssize_t process_vm_writev(pid_t p, const struct iovec *l, unsigned long ln, const struct iovec *r, unsigned long rn,
			  unsigned long f)
{
	ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
			unsigned long) = dlsym(RTLD_NEXT, "process_vm_writev");
	step();
	return real(p, l, ln, r, rn, f);
}
""")
    library = tmp_path / "die.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(source), "-o", str(library), "-ldl"], check=True)
    for pause_us in (0, 150):
        v = victim("hammer", 2, pause_us)
        wait_until(lambda: all_run(v.pid, 3))  # its threads have made what they map
        before = snapshot(v.pid)["maps"]
        for at in range(1, 400):
            env = dict(os.environ, DIE_AT=str(at), LD_PRELOAD=str(library), ASAN_OPTIONS="verify_asan_link_order=0")
            r = subprocess.run([WATCHCTL, "-p", str(v.pid), "-v", "scratch", "-s", "8", "-w", "-q", "-n", "3",
                                "--engine", "handler"],
                               env=env, capture_output=True, timeout=WAIT)
            assert v.alive(), f"killed at step {at}, the program died: {v.process.wait()}"
            if r.returncode == 0:
                break
            if at % 30 == 0 and pause_us:  # it waits for a second: that often is enough
                assert run("clear", "-p", v.pid).returncode == 0
                assert snapshot(v.pid)["maps"] == before, f"killed at one of the steps to {at}: something is left"
        assert 50 < at < 399
        v.process.send_signal(signal.SIGTERM)
        assert v.process.stdout.read().startswith("total")


def test_a_program_with_a_sigtrap_handler_of_its_own_keeps_it(victim, watch, before_and_after):
    v = victim("own_handler")
    assert v.tell("go") == "10 10 10 0"
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        assert v.tell("go") == "20 20 20 0"
        w.end()
        assert w.summary()["recorded"] == 20 and w.balanced()
    assert v.tell("go") == "30 30 30 0"


def test_the_default_action_still_kills(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.send("raise")
    assert v.process.wait(timeout=WAIT) == -signal.SIGTRAP
    w.end(sig=None)


def test_an_ignored_sigtrap_stays_ignored(victim, watch):
    v = victim("puppet")
    v.tell("handler ignore")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("raise")
    v.tell("write 3")
    w.end()
    v.tell("raise")
    assert v.alive() and w.summary()["recorded"] == 3


@pytest.mark.parametrize("what", ["own", "default"])
def test_a_handler_that_is_replaced_while_watched_gets_none_of_our_signals(victim, watch, what):
    if os.geteuid():
        pytest.skip("the guard needs the right to load BPF programs")
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--verbose")
    v.tell("write 3")
    v.tell(f"handler {what}")
    v.tell("write 50")
    w.end(sig=None, expect=7)
    if "guard against a replaced SIGTRAP handler: in place" not in w.stderr:
        pytest.skip("this kernel's BPF cannot hold a signal back (Linux 6.11 can)")
    assert "may restore watchctl's" in w.stderr
    assert v.tell("got") == "0"
    assert w.summary()["recorded"] == 3 and w.balanced() and w.summary()["lost"] == 50
    if what == "own":
        v.tell("raise")
        assert v.tell("got") == "1"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_without_the_guard_a_replaced_handler_is_noticed_and_the_watch_ended(build, hardware):
    """A plain user may not load the guard: some signals reach the new handler, but not for long."""
    copy = Path("/tmp") / f"puppet-replaces-{os.getpid()}"
    shutil.copy(build("puppet"), copy)
    copy.chmod(0o755)
    try:
        p = subprocess.Popen(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(copy)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        pid = int(p.stdout.readline().split()[1])

        over = threading.Event()

        def work():
            for line in itertools.chain(["write 3", "handler own"], itertools.repeat("write 1")):
                p.stdin.write(line + "\n")
                p.stdin.flush()
                assert p.stdout.readline().startswith("ok")
                if over.is_set():
                    break

        with once_ready(work) as fd:
            try:
                r = as_nobody("-p", pid, "-v", "flag", "-q", "--engine", "handler", "--ready-fd", fd, pass_fds=[fd])
            finally:
                over.set()
        assert r.returncode == 7 and "its own SIGTRAP handler" in r.stdout, (r.stdout, r.stderr)
        assert p.poll() is None
    finally:
        p.kill()
        copy.unlink()


def test_a_thread_that_blocks_sigtrap_is_told_and_survives(victim, watch, before_and_after):
    v = victim("puppet")
    v.tell("block")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 10")
        w.end()
    assert w.balanced() and w.summary()["counted"] == 10 and w.summary()["lost"] >= 9
    v.tell("unblock")
    assert v.alive()


def test_late_hits_of_a_blocking_thread_are_marked(victim, watch):
    v = victim("puppet")
    v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 10")
    v.tell("unblock")
    w.end()
    assert w.balanced()
    assert any("blocks SIGTRAP" in n["text"] for n in w.of("note"))
    assert all(a["displaced"] and a["kind"] == "unknown" for a in w.accesses)


def test_fork_leaves_parent_and_child_correct(victim, watch, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 2")
        assert v.tell("fork") == "0"  # the child wrote the variable, read it back, and exited with 0
        v.tell("write 2")
        w.end()
    assert w.summary()["recorded"] == 4


@pytest.mark.slow
def test_exec_ends_the_watch_and_says_so(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 2")
    v.send("exec")
    w.end(sig=None, expect=3)
    assert len(w.accesses) == 2 and "executed another program" in w.stderr
    assert v.process.wait(timeout=WAIT) == 0


def test_exit_of_the_target_ends_the_watch_with_everything_recorded(victim, watch):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 300")
    v.send("exit 3")
    assert v.process.wait(timeout=WAIT) == 3
    w.end(sig=None)
    assert w.summary()["recorded"] == 300 and w.balanced()


def test_writes_on_an_alternate_signal_stack_are_recorded_there(victim, watch, before_and_after):
    v = victim("altstack")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        v.tell("go")
        wait_until(lambda: len(w.accesses) >= 1)  # the code has been seen: its rules are known
        v.tell("go")
        w.end()
    names = [[f.get("function") for f in a["stack"]] for a in w.accesses[20:]]
    assert len(names) == 20
    assert all("main" in n for n in names), names


def test_two_watchctl_on_one_process(victim, watch, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        a = watch("-p", v.pid, "-v", "flag", "-w")
        b = watch("-p", v.pid, "-v", "v_ll", "-w")
        v.tell("write 5")
        v.tell("types")
        b.end()
        v.tell("write 5")
        a.end()
    assert a.summary()["recorded"] == 10 and b.summary()["recorded"] == 1


def test_of_two_watchctl_the_first_may_leave_first(victim, watch, before_and_after):
    """Its handler stands behind the other's: it is taken out of the chain, and nothing of it is left."""
    v = victim("puppet")
    with before_and_after(v.pid):
        a = watch("-p", v.pid, "-v", "flag", "-w")
        b = watch("-p", v.pid, "-v", "v_ll", "-w")
        v.tell("write 5")
        a.end()
        v.tell("types")
        v.tell("write 5")
        b.end()
        v.tell("handler ignore")
        v.tell("raise")
        v.tell("handler default")
    assert a.summary()["recorded"] == 5 and b.summary()["recorded"] == 1


def test_what_a_killed_watchctl_left_is_cleaned_up_by_the_next(victim, watch, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        w = watch("-p", v.pid, "-v", "flag", "-w")
        w.end(sig=signal.SIGKILL, expect=None)
        v.tell("write 100")
        time.sleep(1.2)  # so long it must have been silent before it counts as dead
        w = watch("-p", v.pid, "-v", "flag", "-w")
        v.tell("write 5")
        w.end()
    assert w.summary()["recorded"] == 5


def test_a_stopped_process_stays_stopped(victim, watch):
    v = victim("puppet")
    os.kill(v.pid, signal.SIGSTOP)
    state = lambda: Path(f"/proc/{v.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    wait_until(lambda: state() == "T")
    w = watch("-p", v.pid, "-v", "flag", "-w")
    wait_until(lambda: state() == "T")
    os.kill(v.pid, signal.SIGCONT)
    v.tell("write 4")
    w.end()
    assert w.summary()["recorded"] == 4


def test_200_threads_born_and_dying_while_we_attach_are_all_caught(victim, watch):
    v = victim("puppet")
    answer = []
    worker = threading.Thread(target=lambda: answer.append(v.tell("storm 4000 1")))
    worker.start()
    wait_until(lambda: len(os.listdir(f"/proc/{v.pid}/task")) > 1 or not worker.is_alive())
    w = watch("-p", v.pid, "-v", "flag", "-w")
    worker.join()
    armed = w.of("armed")[0]
    before = v.tell("storm 200 5")
    w.end()
    assert armed["threads_armed"] == armed["threads"]
    assert w.balanced()
    by_thread = {}
    for a in w.accesses:
        by_thread[a["tid"]] = by_thread.get(a["tid"], 0) + 1
    whole = sum(n == 5 for n in by_thread.values())
    assert before == "1000" and 200 - w.summary()["lost"] <= whole <= 200  # a busy machine may be late to read what is recorded


@pytest.mark.slow
def test_a_kernel_access_that_waits_in_a_system_call_does_no_harm_after_detach(victim, watch):
    """hammer's futex: see also engine_handler.c, outstanding()."""
    v = victim("puppet")
    for _ in range(20):
        w = watch("-p", v.pid, "-v", "flag", "-rw")
        v.tell("kernel 3")
        w.end()
        assert w.balanced()
        v.tell("kernel 3")
    assert v.alive()


@pytest.mark.slow
def test_no_signal_reaches_a_sleeping_system_call(build, watch):
    """epoll_wait and others answer a tracer's stop with EINTR: the program must not see it."""
    if not shutil.which("python3"):
        pytest.skip("needs python3")
    code = ("import ctypes, sys\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "ep = libc.epoll_create1(0)\n"
            "buf = ctypes.create_string_buffer(64)\n"
            "print('pid', libc.getpid(), flush=True)\n"
            "r = libc.epoll_wait(ep, buf, 1, 3000)\n"
            "print('result', r, ctypes.get_errno(), flush=True)\n")
    p = subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline().split()[1])
    wait_until(lambda: Path(f"/proc/{pid}/syscall").read_text().startswith("232 "))  # epoll_wait
    for _ in range(5):
        watch("-p", pid, "-v", "libc.so.6:main_arena.system_mem", "-w", "-t", "0.1").end(sig=None)
    assert p.stdout.readline().split() == ["result", "0", "0"]
    p.wait()
