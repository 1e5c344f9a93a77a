# rooms: flow/explain flow/kernel cli/flow
"""`watchctl flow explain`: hangs whose causes the victim knows (tests/victims/hangs.c), told live."""
import os
import subprocess

import pytest

from conftest import WAIT, WATCHCTL
from hang_scenes import NO_BPF, Hang, blamed, explain, explained, of_type

SCENES = ["mutex_sleep", "mutex_io", "lock_order", "self_lock", "owner_ended", "fork_lock", "rwlock_twice", "rwlock_writer",
          "resumed_lock", "lost_wakeup", "pool_exhausted", "join_spinner", "malloc_signal", "pipe_full", "rpc_circle", "stopped_peer", "poll_stopped", "own_write_end",
          "event_of_nobody", "fifo_open", "tcp_peer", "child_sleeps", "file_lock", "file_lock_heir", "loader_lock", "vfork_child",
          "traced", "idle_loop"]


@pytest.fixture
def hang(build):
    running = []

    def start(scene):
        running.append(Hang(build("hangs"), scene))
        return running[-1]

    yield start
    for h in running:
        h.end()


@pytest.mark.parametrize("scene", SCENES)
def test_the_culprit_is_who_the_victim_says(hang, scene):
    h = hang(scene)
    lines = explained(h)
    assert blamed(lines) in h.culprits, lines[0]["text"]
    if h.verdict:
        assert lines[0]["verdict"] == h.verdict == of_type(lines, "culprit")[0]["verdict"]
    assert [x["rank"] for x in of_type(lines, "culprit")] == list(range(1, len(of_type(lines, "culprit")) + 1))


def test_scenes_are_all_tested(build):
    assert subprocess.check_output([build("hangs")], text=True).split() == SCENES


def test_links_lead_from_the_process_to_the_culprit(hang):
    h = hang("mutex_io")
    lines = explained(h, arrived=lambda x: len(of_type(x, "link")) == 2)
    links = of_type(lines, "link")
    assert [x["n"] for x in links] == list(range(1, len(links) + 1))
    assert links[0]["waiter"]["pid"] == h.ask
    for a, b in zip(links, links[1:]):
        assert (a["waits_for"]["pid"], a["waits_for"]["tid"]) == (b["waiter"]["pid"], b["waiter"]["tid"])
    last = links[-1]["waits_for"]
    assert (last["pid"], last["tid"]) == blamed(lines)
    assert [x["waiter"]["kind"] for x in links] == ["lock", "peer"]
    for x in links:
        assert x["edge"]["kind"] == "wait_for" and x["edge"]["strong"] and x["edge"]["evidence"]
        assert x["edge"]["from"]["tid"] == x["waiter"]["tid"] and x["edge"]["to"]["tid"] == x["waits_for"]["tid"]


def test_a_circle_comes_back_to_where_it_began(hang):
    h = hang("lock_order")
    links = of_type(explained(h), "link")
    assert len(links) == 2
    assert {(x["waiter"]["pid"], x["waiter"]["tid"]) for x in links} == h.culprits
    assert links[0]["waiter"]["tid"] == links[1]["waits_for"]["tid"] and links[1]["waiter"]["tid"] == links[0]["waits_for"]["tid"]
    names = [[f.get("function", "") for f in x["stack"]] for x in links]
    assert all("pthread_mutex_lock" in " ".join(n) for n in names)
    assert {n for stack in names for n in stack} >= {"main", "lock_order", "take_backwards", "take_in_order"}


def test_stacks_are_those_of_gdb(hang):
    h = hang("mutex_sleep")
    lines = explained(h, "--all", arrived=lambda x: [w["kind"] for w in of_type(x, "wait")].count("lock") == 3)
    waits = of_type(lines, "wait")
    out = subprocess.run(["gdb", "-q", "-nx", "-batch", "-p", str(h.ask), "-ex", "thread apply all bt"], capture_output=True, text=True,
                         timeout=WAIT, check=False).stdout
    told, lwp = {}, None
    for line in out.splitlines():
        if line.startswith("Thread ") and "LWP" in line:
            lwp = int(line.split("LWP ")[1].split(")")[0])
            told[lwp] = []
        elif line.startswith("#") and lwp:
            told[lwp].append(line.split(" in ")[1].split(" (")[0] if " in " in line.split("(")[0] else line.split()[1])
    assert len(waits) == len(told) == 4
    own = {"holds_and_sleeps", "lock_table", "mutex_sleep", "main", "sleep_forever"}
    for w in waits:
        mine = [f.get("function", "?").split("(")[0] for f in w["stack"]]
        assert [f for f in mine if f in own] == [f for f in told[w["tid"]] if f in own], (mine, told[w["tid"]])


def test_nobody_is_stopped_and_the_program_notices_nothing(hang):
    h = hang("pipe_full")
    explained(h)  # it hangs now
    before = {}
    for pid, _ in h.culprits:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            before[pid] = [line for line in f if "ctxt_switches" in line]
    out = subprocess.run([WATCHCTL, "flow", "explain", "-p", str(h.ask)], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    assert "none was stopped" in out and "deadlock" in out.splitlines()[0]
    for pid, _ in h.culprits:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            assert [line for line in f if "ctxt_switches" in line] == before[pid]


def test_a_program_that_works_is_not_called_hanging(hang):
    h = hang("idle_loop")
    lines = explained(h)
    assert lines[0]["verdict"] == "idle" and "waits for work" in lines[0]["text"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a part of it up")
def test_without_bpf_it_is_told_and_works_all_the_same(hang):
    h = hang("lock_order")
    lines = explained(h, prefix=NO_BPF)
    assert "CAP_BPF" in lines[0]["without_bpf"]
    assert lines[0]["verdict"] == "deadlock" and blamed(lines) in h.culprits
    links = of_type(lines, "link")
    assert [[f["function"] for f in x["stack"] if f.get("function") in ("lock_order", "take_backwards")] for x in links] == [
        ["lock_order"], ["take_backwards"]]
    assert all(x["waiter"]["asleep_ns"] > 0 for x in links)


def test_who_was_stopped_for_its_registers_goes_on_as_before(hang):
    h = hang("pipe_full")
    explained(h)  # it hangs now
    call = [open(f"/proc/{pid}/syscall", encoding="ascii").read() for pid, _ in sorted(h.culprits)]
    assert explain(h.ask)[0]["stopped"] == 0 or os.geteuid() != 0
    lines = explained(h, prefix=NO_BPF if os.geteuid() == 0 else ())
    assert lines[0]["verdict"] == "deadlock" and all(x["stack"] for x in of_type(lines, "link"))
    assert lines[0]["stopped"] == lines[0]["looked_at"] == 2
    assert [open(f"/proc/{pid}/syscall", encoding="ascii").read() for pid, _ in sorted(h.culprits)] == call


@pytest.mark.parametrize("words,status,sentence", [
    ([], 2, "flow what?"),
    (["explain"], 2, "Give -p PID"),
    (["explain", "again"], 8, "cannot open the log again"),
    (["record", "again"], 2, "takes options only"),
    (["rewind"], 2, 'does not know "rewind"'),
    (["explain", "-p", "2"], 3, "kernel thread"),
    (["explain", "-p", "4194304"], 3, "no process 4194304"),
    (["explain", "-p", "1", "--between", "2m"], 2, "at most a minute"),
])
def test_what_cannot_be_is_refused(words, status, sentence):
    r = subprocess.run([WATCHCTL, "flow", *words], capture_output=True, text=True, timeout=WAIT, check=False)
    assert (r.returncode, r.stdout) == (status, "") and sentence in r.stderr, r.stderr
