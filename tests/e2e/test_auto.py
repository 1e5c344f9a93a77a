# rooms: engine monitor
"""Which engine is chosen without a wish: the least intrusive that keeps every promise for these watches here."""
import os
import subprocess

import pytest
from conftest import WAIT, WATCHCTL, snapshot

AUTO = ["--engine", "auto"]


def bpf():
    r = subprocess.run([WATCHCTL, "-v", "0x1", "-s", "1", "--engine", "ring", "--", "/bin/true"], capture_output=True,
                       text=True, timeout=WAIT)
    return "cannot record" not in r.stdout + r.stderr


@pytest.fixture(scope="module")
def with_bpf(hardware):
    if not bpf():
        pytest.skip("BPF is not permitted here")


NO_BPF = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all"]


def armed(w):
    return w.of("armed")[0]


def watching(v, *options, prefix=()):
    """The line that tells the engine and why."""
    r = subprocess.run([*prefix, WATCHCTL, "-p", str(v.pid), *options, *AUTO, "-t", "0.1"], capture_output=True, text=True,
                       timeout=WAIT, env=dict(os.environ, COLUMNS="1000"))
    assert r.returncode == 0, r.stderr
    return r.stdout + r.stderr


def test_where_bpf_is_permitted_nothing_is_put_into_the_program(victim, watch, with_bpf):
    v = victim("puppet")
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w", *AUTO)
    assert snapshot(v.pid) == before
    v.tell("write 5")
    w.end()
    assert armed(w)["engine"] == "ring"
    assert len(w.accesses) == 5 and w.balanced() and snapshot(v.pid) == before


def test_a_program_that_blocks_sigtrap_is_seen(victim, watch, with_bpf):
    v = victim("puppet")
    v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w", *AUTO)
    v.tell("write 50")
    w.end()
    assert armed(w)["engine"] == "ring" and len(w.accesses) == 50 and w.balanced()


@pytest.mark.parametrize("later", [False, True])
def test_a_named_register_ends_no_thread_that_blocks_sigtrap(victim, watch, later):
    """The kernel forces such a trap upon its thread: who blocks it is ended, unless somebody traces it."""
    v = victim("puppet")
    if not later:
        v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w", "-i", "2", *AUTO)
    if later:
        v.tell("block")
    v.tell("write 5")
    w.end()
    assert armed(w)["engine"] == "ptrace" and v.alive()
    assert len(w.accesses) == 5 and w.balanced()


def test_the_handler_engine_takes_no_register_of_a_program_that_blocks_sigtrap(victim):
    v = victim("puppet")
    v.tell("block")
    r = subprocess.run([WATCHCTL, "-p", str(v.pid), "-v", "flag", "-i", "2", "--engine", "handler", "-t", "0.1"],
                       capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 7 and "--engine ptrace" in r.stderr
    v.tell("write 5")
    assert v.alive()


def test_a_private_buffer_blinds_nobody(victim, watch):
    v = victim("puppet")
    v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w", "--private-buffer", *AUTO)
    v.tell("write 5")
    w.end()
    assert armed(w)["engine"] != "handler" and len(w.accesses) == 5 and w.balanced()


@pytest.mark.parametrize("blocked", [False, True])
def test_without_bpf_the_handler_or_where_it_would_be_blind_the_kernels_samples(victim, watch, blocked, hardware):
    v = victim("puppet")
    if blocked:
        v.tell("block")
    w = watch("-p", v.pid, "-v", "flag", "-w", *AUTO, prefix=NO_BPF)
    v.tell("write 50")
    w.end()
    assert armed(w)["engine"] == ("ring" if blocked else "handler")
    assert len(w.accesses) == 50 and w.balanced()
    told = watching(v, "-v", "flag", "-w", prefix=NO_BPF)
    assert ("ring engine (a thread blocks SIGTRAP" if blocked else "handler engine, ") in told


@pytest.mark.parametrize("options, reason", [
    (["-v", "stats.head->len", "--follow"], "threads wait while a pointer changes"),
    (["-v", "errno", "-w"], "the ring engine cannot make new threads wait until their own copy is armed"),
    (["-v", "flag", "--pending"], "threads wait while the watch of a new library is armed"),
])
def test_what_needs_threads_to_wait_takes_the_handler(victim, with_bpf, options, reason):
    assert f"handler engine ({reason})" in watching(victim("puppet"), *options)


def test_the_first_choice_needs_no_reason(victim, with_bpf):
    assert "ring engine, " in watching(victim("puppet"), "-v", "flag", "-w")


def test_a_program_is_launched_with_the_ring(run, build, with_bpf):
    r = run("-v", "flag", "-w", *AUTO, "--json", "--", build("puppet"), input="write 3\n")
    assert r.returncode == 0 and '"engine":"ring"' in r.stderr, r.stderr
    assert r.stderr.count('"type":"access"') == 3


def test_another_tracer_is_no_hindrance(victim, watch, with_bpf):
    v = victim("puppet")
    tracer = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-p", str(v.pid)])
    try:
        while "TracerPid:\t0" in open(f"/proc/{v.pid}/status").read():
            assert tracer.poll() is None
        w = watch("-p", v.pid, "-v", "flag", "-w", *AUTO)
        v.tell("write 4")
        w.end()
        assert armed(w)["engine"] == "ring" and len(w.accesses) == 4 and w.balanced()
    finally:
        tracer.terminate()
        tracer.wait(timeout=WAIT)


@pytest.mark.slow_when("tls_born_musl")
@pytest.mark.parametrize("name", ["tls_born", "tls_born_musl"])
def test_a_program_that_makes_threads_all_the_time_does_not_block_sigtrap(build, hardware, name):
    """It blocks all signals for a moment for each."""
    v = subprocess.Popen([build(name), "0", "1000000000"])
    try:
        for _ in range(8):
            r = subprocess.run([WATCHCTL, "-p", str(v.pid), "-v", "mine", "-t", "0.1", "-q"], capture_output=True, text=True,
                               timeout=WAIT, env=dict(os.environ, COLUMNS="1000"))
            assert "handler engine" in r.stdout + r.stderr, r.stderr
    finally:
        v.kill()
        v.wait()
