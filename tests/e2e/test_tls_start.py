"""A thread-local variable from the first moment of each thread: the first one's of a launched program, and those to come."""
import collections
import json

import pytest


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
    return [n["text"] for n in objects["note"] if "accesses by the kernel" not in n["text"]]


@pytest.mark.parametrize("engine", ["handler", "ptrace"])
@pytest.mark.parametrize("name", ["tls_born", "tls_born_static", "tls_born_static_pie", "tls_born_musl"])
def test_no_write_of_a_launched_program_escapes(hardware, build, run, name, engine):
    told = launch(run, build(name), 50, 200, args=["--engine", engine])
    writes = collections.Counter(a["tid"] for a in told["access"])
    assert sorted(writes.values()) == [1] * 200 + [51]
    assert not notes(told)


def test_where_a_thread_cannot_be_made_to_wait_it_is_told(hardware, build, run):
    assert "first thread" in " ".join(notes(launch(run, build("tls_born_hidden"), 1, 0)))
    late = launch(run, build("tls_born_static"), 1, 8, args=["--engine", "ring"])
    assert [n for n in notes(late) if "the first included" in n]


def test_a_watch_that_leaves_no_register_for_that_is_refused(hardware, build, run):
    r = run("-v", "mine", "-v", "quad[0]", "-v", "quad[1]", "-v", "quad[2]", "--", build("tls_born_static"), 1, 0)
    assert r.returncode and "register is needed to see the first thread" in r.stderr
