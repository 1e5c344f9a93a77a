# rooms: target
"""Processes of other mount and pid namespaces: their files and their thread ids are not ours."""
import os
import shutil
import subprocess

import pytest
from conftest import WAIT, Victim, snapshot, wait_until


@pytest.fixture
def hidden(build, tmp_path):
    """A victim whose file exists in a mount namespace of its own only; with @pids also in a pid namespace."""
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root and unshare")
    started = []

    def start(name, pids):
        inside = tmp_path / "inside"
        inside.mkdir(exist_ok=True)
        script = (f"mount -t tmpfs none {inside} && cp {build(name)} {inside}/program && "
                  f"exec {inside}/program")
        command = ["unshare", "-m", *(["-p", "-f"] if pids else []), "sh", "-c", script]
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            pytest.skip("namespaces are not permitted here")
        p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        started.append(p)
        v = Victim.__new__(Victim)
        v.process = p
        inner = int(p.stdout.readline().split()[1])
        v.pid = p.pid if not pids else child_of(p.pid)
        v.inner = inner
        return v

    yield start
    for p in started:
        p.stdin.close()
        p.wait(timeout=WAIT)


def child_of(pid):
    return int(wait_until(lambda: subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split())[0])


@pytest.mark.parametrize("pids", [False, True])
def test_names_and_stacks_of_a_program_whose_file_we_cannot_see(hidden, watch, pids):
    v = hidden("puppet", pids)
    assert (v.inner == 1) == pids
    v.tell("thread 1")  # libc installs handlers of its own with the first thread
    before = snapshot(v.pid)
    w = watch("-p", v.pid, "-v", "flag", "-w")
    v.tell("write 5")
    v.tell("thread 3")
    w.end()
    assert snapshot(v.pid)["signals"] == before["signals"] and snapshot(v.pid)["fds"] == before["fds"]
    assert [a["function"] for a in w.accesses] == ["write_flag"] * 8
    assert all("puppet.c" in a["file"] for a in w.accesses)
    assert all(a["tid"] == v.pid for a in w.accesses[:5])
    assert w.accesses[5]["tid"] != v.pid
