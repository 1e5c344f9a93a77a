# rooms: monitor session
"""--ready-fd: whoever starts watchctl hears when he can rely on it, and hears an end if that never comes."""
import os
import re
import subprocess

import pytest
from conftest import WAIT, WATCHCTL, heard, started

PROBES = '#include <watchctl/probe.h>\nPROBE(seen) { probe_log("%ld", p->regs->rdi); }\n'


def begun(*args):
    return started(WATCHCTL, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(p, expect=0):
    p.send_signal(2)
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == expect, err
    return out


@pytest.mark.parametrize("engine", ["handler", "ring", "ptrace"])
@pytest.mark.parametrize("command", ["", "record", "top"])
def test_nothing_escapes_a_watch_that_was_ready(victim, hardware, tmp_path, command, engine):
    v = victim("puppet")
    p, fd = begun(*command.split(), "-p", v.pid, "-v", "flag", "-w", "--engine", engine, "--json",
                    *(["-o", tmp_path / "log"] if command == "record" else []))
    assert heard(fd) == b"\n"
    v.tell("write 5")
    out = ended(p)
    if command == "record":
        out = subprocess.run([WATCHCTL, "report", "--json", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT).stdout
    assert '"counted":5' in out.splitlines()[-1]


def test_nothing_escapes_probes_and_traces_that_were_ready(victim, hardware, tmp_path):
    (tmp_path / "probes.c").write_text(PROBES)
    for words in (["patch", "--at", "entry write_flag", tmp_path / "probes.c"], ["trace", "--function", "write_flag"]):
        v = victim("puppet")
        p, fd = begun(words[0], "-p", v.pid, *words[1:], "--json")
        assert heard(fd) == b"\n", p.communicate(timeout=WAIT)
        v.tell("write 5")
        out = ended(p)
        assert out.count('"type":"probe"') + out.count('"type":"call"') == 5, out


def test_nothing_escapes_a_recording_that_was_ready(victim, build):
    v = victim("requests", 3, "wait")
    p, fd = begun("step", "-p", v.pid, "--from", "handle", "--count", "0", "--json")
    assert heard(fd) == b"\n"
    v.send("go")
    assert v.finish() == 0
    out, err = p.communicate(timeout=WAIT)
    lines = out.splitlines()
    assert p.returncode == 0 and f"recording process {v.pid}, as soon as it reaches handle" in err
    ready = next(i for i, line in enumerate(lines) if f'"type":"ready","pid":{v.pid}' in line)
    calls = [i for i, line in enumerate(lines) if '"type":"call"' in line and '"depth":0' in line]
    assert len(calls) == 3 and ready < calls[0]


def test_a_session_of_the_prompt_says_so_as_well(victim, hardware):
    v = victim("puppet")
    ours, its = os.pipe()
    p = subprocess.Popen([WATCHCTL, "repl"], pass_fds=[its], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    p.stdin.write(f"watch flag\nattach {v.pid} --ready-fd {its}\n")
    p.stdin.flush()
    assert heard(ours) == b"\n"
    os.close(its)
    v.tell("write 2")
    out = p.communicate("wait -n 2 -t 50\nsites\n", timeout=WAIT)[0]
    assert p.returncode == 0 and re.search(r"\b2 +flag +write +write_flag", out), out


def test_the_end_of_one_that_was_never_ready_is_heard(victim, hardware):
    v = victim("puppet")
    p, fd = begun("-p", v.pid, "-v", "no_such_variable")
    assert heard(fd) == b""
    assert p.communicate(timeout=WAIT)[0] == "" and p.returncode == 5


def test_a_program_that_is_launched_does_not_inherit_it(build, hardware):
    ours, its = os.pipe()
    p = subprocess.Popen([WATCHCTL, "-v", "flag", "--ready-fd", str(its), "--", build("puppet")], pass_fds=[its], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    os.close(its)
    with os.fdopen(ours, "rb", 0) as f:
        assert f.read(1) == b"\n"
        pid = int(p.stdout.readline().split()[1])
        assert not [fd for fd in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{fd}") == os.readlink(f"/proc/self/fd/{f.fileno()}")]
    p.communicate(timeout=WAIT)
    assert p.returncode == 0


@pytest.mark.parametrize("number,says", [("9", "is not open"), ("2", "3"), ("x", "--ready-fd")])
def test_a_descriptor_that_cannot_be_told_is_refused(run, victim, hardware, number, says):
    r = run("-p", victim("puppet").pid, "-v", "flag", "--ready-fd", number)
    assert r.returncode == 2 and says in r.stderr and r.stdout == ""


def test_nobody_who_listens_any_more_does_not_end_the_watch(victim, hardware):
    v = victim("puppet")
    ours, its = os.pipe()
    os.close(ours)
    p = subprocess.Popen([WATCHCTL, "-p", str(v.pid), "-v", "flag", "-n", "3", "--ready-fd", str(its), "--json"], pass_fds=[its],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.close(its)
    assert any('"type":"armed"' in line for line in iter(p.stdout.readline, ""))
    v.tell("write 3")
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == 0 and "ready-fd" not in err and out.count('"type":"access"') >= 3
