# rooms: flow/graph cli/flow trace/flow
"""`watchctl flow record --attach-log LOG`: edges of kind `data`, from who wrote a watched variable to who read it. The accesses are told by the
program itself, and stand in a log that is made here, as of a watch: so this runs where no variable can be watched."""
import json
import os
import shutil
import subprocess
import sys

import pytest
import tracelog_py as log
from conftest import WAIT, WATCHCTL
from test_flow_record import flow, graph

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for BPF programs of the whole system")

VARIABLE = 0x55550000
READ, WRITE = 0x4000, 0x5000  # where execution goes on behind these instructions:
CODE = {READ: b"\x8b\x07", WRITE: b"\x89\x07"}  # mov eax,[rdi]; mov [rdi],eax

# Four threads. The first writes, the others see that without a system call, and tell when.
PROGRAM = """
import threading, time
value, told, done = [0], [], []
def tell(what):
    told.append((time.monotonic_ns(), threading.get_native_id(), what))
def reader():
    while value[0] == 0:
        tell("read")
    tell("read")
    done.append(1)
    while len(done) < 4:
        pass
def writer():
    while len(told) < 300:
        pass
    tell("write")
    value[0] = 1
    done.append(1)
threads = [threading.Thread(target=f) for f in (reader, reader, reader, writer)]
for t in threads: t.start()
for t in threads: t.join()
for t in sorted(told): print(*t)
"""


def accesses_of(told, filtered_at=None):
    """Packets of a watch log with them."""
    first = told[0][0]
    events = [log.process(first, 77, "python3", 10**18 + first), log.watch(first, 0, "value", VARIABLE)]
    events += [log.code(first, pc, before) for pc, before in CODE.items()]
    events.append(log.stack(first, 0, [READ]))
    events.append(log.stack(first, 1, [WRITE]))
    for ns, tid, what in told:
        events.append(log.access(ns, 0, tid, VARIABLE, 0, 0, int(what == "write"), WRITE if what == "write" else READ))
        if filtered_at == ns:
            events.append(log.event(log.LOST, ns + 1, b"\0\0\0\0" + (1).to_bytes(8, "little") + log.text("ring full")))
    # How often the readers look depends on the machine; a packet has a largest size.
    return [log.packet(events[i:i + 2000]) for i in range(0, len(events), 2000)]


@pytest.fixture(scope="module", name="recorded")
def _recorded(tmp_path_factory):
    """The log, the attached one, and what the program tells."""
    folder = tmp_path_factory.mktemp("attach")
    attached = folder / "flag.log"
    log.write_log(attached, [])
    r = subprocess.run([WATCHCTL, "flow", "record", "-o", folder / "sys.log", "--attach-log", attached, "--", sys.executable, "-c", PROGRAM],
                       capture_output=True, text=True, timeout=WAIT, check=False)
    assert r.returncode == 0, r.stderr
    told = [(int(ns), int(tid), what) for ns, tid, what in map(str.split, r.stdout.splitlines())]
    return folder / "sys.log", attached, told


def put(attached, packets):
    shutil.rmtree(attached)
    log.write_log(attached, packets)


def data_edges(objects):
    return [x for x in objects if x["type"] == "edge" and x["kind"] == "data"]


def test_who_writes_a_watched_variable_brings_on_who_reads_it(recorded):
    sys_log, attached, told = recorded
    put(attached, accesses_of(told))
    wrote, writer = next((ns, tid) for ns, tid, what in told if what == "write")
    readers = {tid for ns, tid, what in told if what == "read" and ns > wrote}
    edges = data_edges(graph(sys_log))
    assert len(readers) == 3 and {e["to"]["tid"] for e in edges} == readers
    for e in edges:
        assert e["from"]["tid"] == writer and e["from"]["time_ns"] == wrote and e["evidence"] == "value was written" and e["strong"]
        # The first look behind the write; units that go on have one edge each, however often they look.
        assert e["to"]["time_ns"] in [ns for ns, tid, what in told if tid == e["to"]["tid"] and what == "read" and ns > wrote]
    units = [e["to"]["node"] for e in edges]
    assert len(units) == len(set(units))


def test_a_loss_of_accesses_leaves_no_edge_across_it(recorded):
    sys_log, attached, told = recorded
    wrote = next(ns for ns, _, what in told if what == "write")
    put(attached, accesses_of(told, filtered_at=wrote))
    assert data_edges(graph(sys_log)) == []


def test_an_attached_log_that_has_moved_along_is_found_and_one_that_is_gone_is_told(recorded, tmp_path):
    sys_log, attached, told = recorded
    put(attached, accesses_of(told))
    shutil.copytree(sys_log, tmp_path / "sys.log")
    shutil.move(attached, tmp_path / "flag.log")
    try:
        assert data_edges(graph(tmp_path / "sys.log"))
        r = flow("graph", sys_log)
        assert r.returncode == 0 and f"the attached log {attached} is not there" in r.stderr
        assert data_edges([json.loads(x) for x in r.stdout.splitlines()]) == []
    finally:
        shutil.move(tmp_path / "flag.log", attached)


def test_a_log_that_is_not_there_is_refused_before_anything_is_recorded(tmp_path):
    r = flow("record", "-o", tmp_path / "sys.log", "--attach-log", tmp_path / "none.log", "-t", "0.1")
    assert r.returncode == 8 and "there is no log" in r.stderr and not os.path.exists(tmp_path / "sys.log")
