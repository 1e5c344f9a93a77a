# rooms: engine/intake engine/ring
"""A target that is compromised, or was written to do harm: it can tell lies about itself, and nothing more."""
import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest
from between import PTRACE_ARGUMENTS
from conftest import WAIT, WATCHCTL, peak_memory

MEMORY_MAX = 400 << 20  # of a watchctl whose target invents threads, code and stacks as fast as it can
LOG_MAX = 8 << 20
BEHAVIOURS = ["noise", "forge", "invent", "pad", "drop", "stuck", "lie"]


def status_of(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return line.split()[1]
    return None


def objects(log):
    r = subprocess.run([WATCHCTL, "report", "--json", "--events", str(log)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


ENDS = (0, 1, 3, 7)  # its time was over (1: the target has copied the handler's address), it ended, or we had enough


def attacked(victim, how, *args, seconds=0.5, limit_cpu=40):
    """watchctl on a target that does @how to what they share, until its time is over or it has had enough."""
    v = victim("resist_ring", how)
    p = subprocess.Popen([WATCHCTL, *map(str, args), "-p", str(v.pid), "-v", "flag", "--engine", "handler", "--buffer", "1M",
                          "-t", str(seconds), "--json"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit_cpu, limit_cpu)))
    try:
        out, err = p.communicate(timeout=WAIT)
    finally:
        p.kill()
    return v, p.returncode, out, err


@pytest.mark.slow_when("invent")
@pytest.mark.parametrize("how", BEHAVIOURS)
def test_a_target_that_writes_into_the_shared_ring_harms_nobody_but_itself(victim, hardware, tmp_path, how):
    log = tmp_path / "log"
    v, code, _, err = attacked(victim, how, "record", "-o", log, "--ring", LOG_MAX)
    assert v.process.stdout.readline() == "found\n"  # it did attack
    # Ended by time (0), given up because of what it found in there (7), or the target destroyed itself (3).
    assert code in ENDS, (code, err)
    if code == 3 and not log.exists():
        assert how == "lie" and "can no longer be watched" in err  # before anything was armed
        return
    assert sum(p.stat().st_size for p in log.rglob("*")) <= LOG_MAX
    found = objects(log)
    told = [o for o in found if o["type"] in ("access", "thread", "call")]
    assert {o["pid"] for o in told} <= {v.pid}  # it cannot put words into the mouth of another process
    assert not [o for o in told if o.get("origin") == "kernel"]
    for o in found:
        if o["type"] == "summary" and "counted" in o:  # what is missing is told; nothing is made up but by its records
            assert o["recorded"] + o["lost"] + o["filtered"] >= o["counted"], o
            assert o["lost"] + o["filtered"] <= o["counted"], o
    if code == 7:
        notes = [o["text"] for o in found if o["type"] == "note"]
        assert any("event buffer" in n or (how == "lie" and "written over" in n) for n in notes), (err, notes)
    if how != "lie":  # there it writes over what sends its own signals home
        assert v.alive()


def test_memory_has_a_bound_whatever_the_target_invents(victim, hardware, tmp_path):
    v = victim("resist_ring", "invent")
    code, peak = peak_memory(WATCHCTL, "record", "-p", v.pid, "-v", "flag", "--engine", "handler", "-o", tmp_path / "log",
                             "--ring", "4M", "--buffer", "1M", "-t", "2")
    assert code in ENDS
    assert peak * 1024 < MEMORY_MAX


def test_watchctl_can_be_interrupted_whatever_the_target_does(victim, hardware):
    for how in ("pad", "drop", "stuck", "forge"):
        v = victim("resist_ring", how)
        p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "flag", "--engine", "handler", "-q", "--buffer", "1M"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert v.process.stdout.readline() == "found\n"
            p.send_signal(signal.SIGINT)
            assert p.wait(timeout=WAIT) in ENDS, how
        finally:
            p.kill()
            p.wait()


LOOK_AT_MAPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
/* What was writable and executable at once in the target, after each of our calls that can change it. */
static void look(void)
{
	char line[1024], path[64];
	static long n;
	FILE *maps, *out;
	snprintf(path, sizeof(path), "/proc/%s/maps", getenv("TARGET"));
	maps = fopen(path, "r");
	out = fopen(getenv("SEEN"), "a");
	while (maps && out && fgets(line, sizeof(line), maps)) {
		const char *perm = strchr(line, ' ');
		if (perm && perm[2] == 'w' && perm[3] == 'x')
			fputs(line, out);
	}
	if (out) {
		fprintf(out, "looked %ld\n", ++n);
		fclose(out);
	}
	if (maps)
		fclose(maps);
}
long ptrace(int request, ...)
{
""" + PTRACE_ARGUMENTS + r"""	long r = real(request, pid, a, b);
	look();
	return r;
}
ssize_t process_vm_writev(pid_t p, const struct iovec *l, unsigned long ln, const struct iovec *r, unsigned long rn, unsigned long f)
{
	ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long) =
		dlsym(RTLD_NEXT, "process_vm_writev");
	ssize_t n = real(p, l, ln, r, rn, f);
	look();
	return n;
}
"""


@pytest.fixture(scope="module")
def looker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looker")
    (folder / "look.c").write_text(LOOK_AT_MAPS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", str(folder / "look.c"), "-o", str(folder / "look.so"), "-ldl"], check=True)
    return folder / "look.so"


@pytest.mark.parametrize("command", [["-v", "counter", "-w", "-n", "2", "--engine", "handler"],
                                     ["-v", "counter", "-w", "-n", "2", "-i", "1"],
                                     ["-v", "counter", "-w", "-n", "2", "--engine", "ptrace"],
                                     ["step", "--from", "count", "--count", "2"]], ids=["handler", "register", "ptrace", "step"])
def test_nothing_of_ours_is_ever_writable_and_executable(victim, hardware, looker, tmp_path, command):
    v = victim("secrets")
    seen = tmp_path / "seen"
    env = dict(os.environ, TARGET=str(v.pid), SEEN=str(seen), LD_PRELOAD=str(looker), ASAN_OPTIONS="verify_asan_link_order=0")
    where = 1 if command[0] == "step" else 0
    p = subprocess.Popen([WATCHCTL, *command[:where], "-p", str(v.pid), *command[where:]], env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    try:
        while p.poll() is None:  # as often as it takes: when it is ready shows in different ways
            v.tell("count")
        _, err = p.communicate(timeout=WAIT)
    finally:
        p.kill()
    assert p.returncode == 0, err
    lines = seen.read_text().splitlines()
    assert len([line for line in lines if line.startswith("looked")]) > 10
    assert not [line for line in lines if not line.startswith("looked")]


def test_the_code_is_private_and_the_buffer_is_shared_without_execution(victim, watch):
    v = victim("puppet")
    before = Path(f"/proc/{v.pid}/maps").read_text().splitlines()
    w = watch("-p", v.pid, "-v", "flag", "-w")
    new = [line.split() for line in Path(f"/proc/{v.pid}/maps").read_text().splitlines() if line not in before]
    w.end()
    ours = {(line[1], " ".join(line[5:])) for line in new}
    assert ("r-xp", "") in ours
    assert ours <= {("r-xp", ""), ("rw-s", "/dev/zero (deleted)"), ("rw-p", "")} | {o for o in ours if o[1].startswith("[")}
