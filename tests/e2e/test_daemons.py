# rooms: engine target monitor
"""--fork follow to the end: the session lasts as long as anybody who is followed lives, and misses none of them."""
import collections
import os
import subprocess
from pathlib import Path

import pytest
from conftest import WAIT, WATCHCTL, Victim

ENGINES = ["handler", "ring", "ptrace"]
KINDS = {"daemon": 30, "chain": 40, "thread": 30, "exec": 10, "pidns": 10}


def account(out):
    """pid: how many writes it says that it has made."""
    did = collections.Counter()
    for line in out.splitlines():
        word, *numbers = line.split()
        if word == "did":
            did[int(numbers[0])] += int(numbers[1])
    return did


@pytest.mark.slow_when("pidns-ptrace")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_session_ends_with_the_last_of_a_family(victim, watch, kind, engine):
    for _ in range(3):
        v = victim("daemons")
        w = watch("-p", v.pid, "-v", "flag", "-w", "--fork", "follow", "--engine", engine, "--no-stack")
        v.send(f"{kind} {KINDS[kind]}")
        out = v.process.stdout.read()  # until the last of them has ended
        if "refused" in out:
            pytest.skip("a pid namespace of its own is not permitted here")
        w.end(sig=None)
        did = account(out)
        assert w.balanced() and w.summary()["lost"] == 0
        assert w.summary()["recorded"] == sum(did.values()) > KINDS[kind] - 1
        assert collections.Counter(a["pid"] for a in w.accesses) == did


@pytest.fixture
def contained(build):
    """A victim in a pid namespace of its own, and whose number there is not 1."""
    if os.geteuid() or subprocess.run(["unshare", "-p", "-f", "true"], capture_output=True).returncode:
        pytest.skip("needs root, and that namespaces are permitted")
    command = ["unshare", "-p", "-f", "--kill-child", "sh", "-c", f"exec 3<&0; {build('daemons')} <&3 & sleep 600 >&2"]
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    v = Victim.__new__(Victim)
    v.process = p
    assert p.stdout.readline().split() == ["pid", "2"]
    v.pid = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_in(pid, p.pid))
    yield v
    p.kill()
    p.wait()


def is_in(pid, unshare):
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        parent = Path(f"/proc/{status.split('PPid:')[1].split()[0]}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.startswith("Name:\tdaemons") and int(parent.split("PPid:")[1].split()[0]) == unshare


@pytest.mark.parametrize("engine", ENGINES)
def test_whose_accesses_they_are_is_known_when_the_first_process_of_a_container_has_ended(contained, watch, engine):
    v = contained
    w = watch("-p", v.pid, "-v", "flag", "-w", "--fork", "follow", "--engine", engine, "--no-stack")
    v.send("daemon 150" if engine == "handler" else "pidns 10")  # below a container, a handler knows too little
    w.end(sig=None)
    v.process.kill()
    did = account(v.process.stdout.read())
    assert len(did) > 1 and w.balanced()
    assert collections.Counter(a["pid"] for a in w.accesses) == did


@pytest.mark.parametrize("engine", ENGINES)
def test_a_launched_daemon_is_followed_to_its_end(build, hardware, engine, tmp_path):
    r = subprocess.run([WATCHCTL, "-v", "flag", "-w", "--fork", "follow", "--engine", engine, "--no-stack", "--json", "--output",
                        tmp_path / "out", "--", build("daemons"), "daemon", "30"], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    assert sum(account(r.stdout).values()) == 31
    assert (tmp_path / "out").read_text().count('"type":"access"') == 31
