# rooms: code/tls engine
"""A thread-local variable from the first moment of each thread: of the first one, and of those to come."""
import collections
import json
import os
import subprocess

import pytest
from conftest import WAIT, WATCHCTL, unheld


def launch(run, *command, args=()):
    """What was told while @command ran; the victim prints nothing."""
    r = run("-v", "mine", *args, "--no-stack", "--json", "--output", "/dev/stdout", "--", *command)
    assert r.returncode == 0, r.stderr[-2000:]
    objects = collections.defaultdict(list)
    for line in r.stdout.splitlines():
        o = json.loads(line)
        objects[o["type"]].append(o)
    return objects


def notes(objects):
    return [n["text"] for n in objects["note"]]


@pytest.mark.parametrize("engine", ["handler", "ptrace"])
@pytest.mark.parametrize("name", ["tls_born", "tls_born_static", "tls_born_static_pie", "tls_born_musl"])
def test_no_write_of_a_launched_program_escapes(hardware, build, run, name, engine):
    told = launch(run, build(name), 50, 200, args=["--engine", engine])
    writes = sorted(collections.Counter(a["tid"] for a in told["access"]).values())
    late = unheld(told["note"])
    assert len(writes) + late >= 201
    if not late:
        assert writes == [1] * 200 + [51]
    assert not [n for n in notes(told) if "noticed" in n]


@pytest.mark.parametrize("name", ["tls_born", "tls_born_static", "tls_born_static_pie", "tls_born_musl"])
def test_no_write_escapes_in_a_program_that_an_attached_one_executes(hardware, build, watch, name):
    """Under the ptrace engine, which sees a program from its first instruction on."""
    process = subprocess.Popen(["/bin/sh", "-c", f"read go; exec {build(name)} 50 24"], stdin=subprocess.PIPE)
    w = watch("-p", process.pid, "-v", "environ", "-v", "mine", "--exec", "follow", "--pending", "--engine", "ptrace",
              wait=False)
    try:
        w.wait_for("armed")
    except AssertionError as e:
        process.kill()
        process.wait()
        pytest.skip(f"dash exports no such variable here: {e}")
    process.communicate(b"\n", timeout=WAIT)
    w.process.wait(WAIT)
    w.end(expect=None)
    writes = sorted(collections.Counter(a["tid"] for a in w.accesses if a["watch"] == "mine").values())
    late = w.unheld()
    assert len(writes) + late >= 25 and (late or writes == [1] * 24 + [51]), (writes, w.of("note"))


def test_where_a_thread_cannot_be_made_to_wait_it_is_told(hardware, build, run):
    assert "first thread" in " ".join(notes(launch(run, build("tls_born_hidden"), 1, 0)))
    late = launch(run, build("tls_born_static"), 1, 8, args=["--engine", "ring"])
    assert [n for n in notes(late) if "including the first" in n]


def test_a_watch_that_leaves_no_register_for_that_is_refused(hardware, build, run):
    r = run("-v", "mine", "-v", "quad[0]", "-v", "quad[1]", "-v", "quad[2]", "--", build("tls_born_static"), 1, 0)
    assert r.returncode and "register is needed to detect the start of the first thread" in r.stderr


@pytest.mark.parametrize("order", [("mine", "flag", "ratio", "list.count"), ("flag", "ratio", "list.count", "mine")])
def test_the_reason_for_the_engine_does_not_promise_what_registers_do_not_allow(hardware, victim, order):
    v = victim("mover")
    names = [w for name in order for w in ("-v", name)]
    r = subprocess.run([WATCHCTL, "-p", str(v.pid), *names, "-t", "0.1", "-q"], capture_output=True, text=True,
                       timeout=WAIT, env=dict(os.environ, COLUMNS="1000"))
    told = r.stdout + r.stderr
    assert "not enough debug registers are left to make new threads wait" in told
    assert "(new threads wait" not in told
