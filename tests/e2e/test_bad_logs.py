# rooms: trace/log trace/rows cli
"""
Whatever is given to them as a log, the commands that read logs say in one sentence what is wrong with it, or print
what of it can be read, and end soon and in little memory: report, export, diff, symbolize, top, snapshot.
"""
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import export_readers as read  # noqa: E402
import tracelog_py as log  # noqa: E402
from conftest import BUILD, MEASURE, WAIT, WATCHCTL  # noqa: E402

LOG = 8
CANNOT_TELL = 3  # of diff
READERS = {
    "report": ["report", "@"],
    "report-json": ["report", "--json", "@"],
    "report-html": ["report", "@", "--html", "/dev/null"],
    "chrome": ["export", "@", "--to", "chrome"],
    "speedscope": ["export", "@", "--to", "speedscope"],
    "folded": ["export", "@", "--to", "folded"],
    "csv": ["export", "@", "--to", "csv"],
    "jsonl": ["export", "@", "--to", "jsonl"],
    "perf-script": ["export", "@", "--to", "perf-script"],
    "dot": ["export", "@", "--to", "dot"],
    "callgrind": ["export", "@", "--to", "callgrind"],
    "perfetto": ["export", "@", "--to", "perfetto"],
    "diff": ["diff", "@", "@"],
    "symbolize": ["symbolize", "--dry-run", "@"],
    "top": ["top", "@"],
    "snapshot": ["snapshot", "-q", "@", "NEW"],
}


def reader(name, path, wrap=(), **kw):
    env = dict(os.environ, TERM="dumb", TMPDIR="/tmp")
    with tempfile.TemporaryDirectory() as folder:
        names = {"@": str(path), "NEW": os.path.join(folder, "new")}
        return subprocess.run([*wrap, WATCHCTL, *(names.get(a, a) for a in READERS[name])], stdin=subprocess.DEVNULL,
                              capture_output=True, env=env, timeout=WAIT, **kw)


SANITIZED = b"__asan_init" in open(WATCHCTL, "rb").read()  # reserves address space without end


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@pytest.fixture(scope="session")
def logs(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("logs"), {}

    def make(program, *args):
        key = (program, *args)
        if key not in made:
            made[key] = folder / str(len(made))
            subprocess.run([BUILD / "tests" / "bench" / program, *args, made[key]], check=True, timeout=WAIT)
        return made[key]

    return make


@pytest.fixture(scope="session")
def good(logs):
    return logs("accesslog-gen", "-n", "3000", "-c", "50", "-w", "2")


@pytest.fixture(scope="session")
def steps(logs):
    return logs("steplog-gen", "-n", "2000", "-t", "3")


# What is no log of ours

LTTNG = b"""/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { uint32_t magic; }; };
env { hostname = "box"; domain = "kernel"; tracer_name = "lttng-modules"; tracer_major = 2; tracer_minor = 13; };
stream { event.header := struct { uint8_t id; }; };
event { name = "sched_switch"; id = 0; fields := struct { uint8_t prio; }; };
"""


def bad_missing(path, good):
    pass


def bad_plain_file(path, good):
    path.write_bytes(b"hello\n")


def bad_fifo(path, good):
    os.mkfifo(path)


def bad_empty_folder(path, good):
    path.mkdir()


def bad_empty_metadata(path, good):
    shutil.copytree(good, path)
    (path / "metadata").write_bytes(b"")


def bad_noise_metadata(path, good):
    shutil.copytree(good, path)
    (path / "metadata").write_bytes(bytes(random.Random(1).randrange(256) for _ in range(5000)))


def bad_no_events(path, good):
    shutil.copytree(good, path)
    for name in os.listdir(path):
        if name.startswith("events"):
            (path / name).unlink()


def bad_newer(path, good):
    log.write_log(path, [], major=99)


def bad_foreign_lttng(path, good):
    path.mkdir()
    (path / "metadata").write_bytes(LTTNG)
    (path / "channel0_0").write_bytes(b"\xc1\x1f\xfc\xc1\x00\x05")


def bad_foreign_babeltrace(path, good):
    """A log of ours (of accesses: its writer cannot do all of CTF), written anew by another tracer's writer."""
    ours = path.with_name("ours")
    subprocess.run([BUILD / "tests" / "bench" / "accesslog-gen", "-n", "50", ours], check=True, timeout=WAIT)
    (ours / "symbols").unlink()
    subprocess.run(["babeltrace2", str(ours), "--component=sink.ctf.fs", f'--params=path="{path}"'], check=True,
                   capture_output=True, timeout=WAIT)
    inner, = [p.parent for p in path.rglob("metadata")]
    if inner != path:
        for f in list(inner.iterdir()):
            shutil.move(f, path / f.name)


def bad_fifo_metadata(path, good):
    path.mkdir()
    os.mkfifo(path / "metadata")


def bad_fifo_events(path, good):
    bad_no_events(path, good)
    os.mkfifo(path / "events")


def bad_loop(path, good):
    path.symlink_to(path)


BAD = {name[4:]: f for name, f in sorted(globals().items()) if name.startswith("bad_")}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_log_is_refused_in_one_sentence_by_all(kind, good, tmp_path):
    path = tmp_path / "thing"
    BAD[kind](path, good)
    # What keeps our name on another's bytes is taken for a damaged log of ours, of which nothing can be read:
    # then diff has nothing to compare, and says so.
    named_ours = kind == "foreign_babeltrace"
    for name in READERS:
        r = reader(name, path, preexec_fn=limit)
        text = r.stderr.decode()
        if named_ours:
            assert r.returncode == {"diff": CANNOT_TELL}.get(name, LOG), (name, text)
            assert re.search("is not whole|no whole packet", text + r.stdout.decode(errors="replace")), (name, text)
            continue
        assert r.returncode == (2 if name == "diff" else LOG), (name, r.returncode, text)
        assert re.fullmatch(r"watchctl: [^\n]+\n", text) and str(path) in text, (name, text)
        assert r.stdout == b"", (name, r.stdout[:200])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read")
def test_a_log_that_may_not_be_read(good, tmp_path):
    program = shutil.copy(WATCHCTL, "/tmp/watchctl-bad-logs-%d" % os.getpid())
    os.chmod(program, 0o755)
    try:
        for name, args in READERS.items():
            r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program,
                                *[str(good) if a == "@" else a for a in args]], cwd="/", stdin=subprocess.DEVNULL,
                               env=dict(os.environ, TERM="dumb"), capture_output=True, text=True, timeout=WAIT)
            assert r.returncode == (2 if name == "diff" else LOG) and "ermission denied" in r.stderr, (name, r.stderr)
            assert r.stderr.count("\n") == 1
    finally:
        os.unlink(program)


# Damage: what can be read is read

def packets_file(path):
    return [path / n for n in sorted(os.listdir(path)) if n.startswith("events")][0]


def whole(name):
    """Of a log that the generator made: it does not say how its recording ended, which is all that diff asks more."""
    return CANNOT_TELL if name == "diff" else 0


def must_be_sane(name, r):
    text = r.stderr.decode()
    allowed = (0, 1, 2, CANNOT_TELL) if name == "diff" else (0, LOG)
    assert r.returncode in allowed, (name, r.returncode, text)
    assert len(text) < 2000 and "anitizer" not in text, text
    if r.returncode == LOG:
        assert "not whole" in text or r.stdout == b"", (name, text)
    if name == "chrome" and r.stdout:
        read.trace_events(r.stdout.decode())
    if name == "speedscope" and r.stdout:
        read.speedscope(r.stdout.decode())
    if name == "perf-script":
        read.perf_script(r.stdout.decode())
    if name == "callgrind" and r.stdout:
        read.callgrind(r.stdout.decode())
    if name == "perfetto" and r.stdout:
        read.perfetto(r.stdout)
    if name == "folded":
        read.folded(r.stdout.decode())
    if name in ("report-json", "jsonl"):
        for line in r.stdout.decode().split("\n")[:-1]:
            json.loads(line)


@pytest.mark.parametrize("which", ["good", "steps"])
@pytest.mark.parametrize("name", READERS)
def test_a_log_cut_anywhere_is_read_as_far_as_it_is_whole(request, which, name, tmp_path):
    log_path = request.getfixturevalue(which)
    size = packets_file(log_path).stat().st_size
    for i, cut in enumerate([0, 1, 40, 300, size // 3, size // 2 + 7, size - 1]):
        path = tmp_path / str(i)
        shutil.copytree(log_path, path)
        os.truncate(packets_file(path), cut)
        must_be_sane(name, reader(name, path, preexec_fn=limit))


@pytest.mark.parametrize("which", ["good", "steps"])
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_log_neither_ends_nor_stops_a_reader(request, which, name, tmp_path):
    log_path, chance = request.getfixturevalue(which), random.Random(f"{which} {name}")
    for i in range(8):
        path = tmp_path / str(i)
        shutil.copytree(log_path, path)
        for f in [packets_file(path)] + [path / "symbols"] * (path / "symbols").exists():
            data = bytearray(f.read_bytes())
            for _ in range(chance.choice([1, 3, 30])):
                at = chance.randrange(len(data))
                data[at:at + chance.choice([1, 4, 64])] = chance.randbytes(chance.choice([1, 4, 64]))
            f.write_bytes(data)
        must_be_sane(name, reader(name, path, preexec_fn=limit))


def test_damage_without_a_checksum_reaches_the_readers_and_does_no_harm(tmp_path):
    """A log of the second writer has no checksums: what is wrong in it is for the readers to find."""
    chance = random.Random(7)
    events = [log.process(1000, 77, "app", 10**18), log.watch(1001, 0, "flag", 0x404010),
              log.code(1002, 0x401002, b"\x89\x07"), log.stack(1003, 0, [0x401002, 0x401100]),
              log.tag(1004, 0, "here"), *[log.access(2000 + i, 0, 77, 0x404010, i, i + 1, 0, 0x401002) for i in range(50)],
              *[log.capture(3000 + i, 0, 78, 0, value=i) for i in range(20)], log.summary(4000, 0, 50, 50)]
    for i in range(24):
        packet = bytearray(log.packet(events))
        for _ in range(chance.choice([1, 2, 5])):
            packet[chance.randrange(64, len(packet))] = chance.randrange(256)
        path = log.write_log(tmp_path / str(i), [bytes(packet)]) or tmp_path / str(i)
        for name in ("report-json", "chrome", "speedscope", "csv", "perf-script", "dot", "callgrind", "perfetto"):
            must_be_sane(name, reader(name, path, preexec_fn=limit))


def packets_of(data):
    at = 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at + 48)[0] // 8
        yield at, size
        at += size


def damaged_in_the_middle(whole_log, path):
    """Three bytes, in three packets of many; none is the first or the last. Returns the places."""
    shutil.copytree(whole_log, path)
    f = packets_file(path)
    data = bytearray(f.read_bytes())
    packets = list(packets_of(data))
    hit = [packets[len(packets) * i // 4] for i in (1, 2, 3)]
    assert len(set(hit)) == 3 and packets[0] not in hit and packets[-1] not in hit
    for at, size in hit:
        data[at + size // 2] ^= 0x10
    f.write_bytes(data)
    return hit


@pytest.fixture(scope="session")
def large(logs):
    return logs("accesslog-gen", "-n", "8000", "-w", "2")


@pytest.fixture(scope="session")
def large_steps(logs):
    return logs("steplog-gen", "-n", "20000", "-t", "3")


@pytest.mark.parametrize("which", ["large", "large_steps"])
@pytest.mark.parametrize("name", READERS)
def test_a_log_with_damaged_packets_is_told_by_every_command(request, which, name, tmp_path):
    damaged_in_the_middle(request.getfixturevalue(which), tmp_path / "log")
    r = reader(name, tmp_path / "log", preexec_fn=limit)
    must_be_sane(name, r)
    text = r.stderr.decode() + (r.stdout.decode() if name == "diff" else "")
    if name == "diff":
        assert r.returncode == CANNOT_TELL and "is not whole" in text and "missing, from " in text
    else:
        assert r.returncode == LOG and "is not whole: about" in text, text
        assert re.search(r"at 3 places from \S+ to \S+ \(\d+\.\d{6} s\)", text), text


@pytest.mark.parametrize("name", READERS)
def test_an_empty_log_is_told_by_every_command(good, name, tmp_path):
    shutil.copytree(good, tmp_path / "log")
    os.truncate(packets_file(tmp_path / "log"), 0)
    r = reader(name, tmp_path / "log", preexec_fn=limit)
    assert r.returncode == (CANNOT_TELL if name == "diff" else LOG)
    assert "has no events" in r.stderr.decode() + r.stdout.decode(errors="replace")


@pytest.mark.parametrize("how", ["cut", "damaged"])
@pytest.mark.parametrize("damaged_first", [True, False])
def test_what_is_missing_in_a_damaged_log_is_no_difference(large, tmp_path, how, damaged_first):
    """Of accesses as of calls: diff compares up to there, and cannot tell then."""
    if how == "damaged":
        damaged_in_the_middle(large, tmp_path / "log")
    else:
        shutil.copytree(large, tmp_path / "log")
        os.truncate(packets_file(tmp_path / "log"), packets_file(large).stat().st_size // 2)
    logs = [tmp_path / "log", large]
    r = subprocess.run([WATCHCTL, "diff", *(logs if damaged_first else logs[::-1])], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode == CANNOT_TELL and "is not whole" in r.stdout, r.stdout


def test_behind_a_damaged_packet_the_reader_goes_on(large, tmp_path):
    hit = damaged_in_the_middle(large, tmp_path / "log")
    lost, times = 0, []
    data = packets_file(large).read_bytes()
    for at, size in hit:  # what was in those packets, as the second reader sees it
        events = list(log.events_of_packet(data[at + 64:at + size]))
        lost += sum(e.name in ("hit", "access") for e in events)
        times.append((events[0].time_ns, events[-1].time_ns))
    whole_lines = [json.loads(x) for x in reader("report-json", large).stdout.decode().splitlines()]
    got = [json.loads(x) for x in reader("report-json", tmp_path / "log").stdout.decode().splitlines()]
    of_whole = [o for o in whole_lines if o["type"] == "access"]
    accesses = [o for o in got if o["type"] == "access"]
    assert lost > 300 and len(accesses) == len(of_whole) - lost
    by_time = {(o["time_ns"], o["tid"], o["watch"], o.get("new")): o for o in of_whole}
    assert len(by_time) == len(of_whole)
    for o in accesses:
        want = by_time[o["time_ns"], o["tid"], o["watch"], o.get("new")]
        if o.get("stack_end") == "lost":
            want, o = dict(want), dict(o)
            assert o.pop("stack") == want.pop("stack")[:1]
            want.pop("stack_end", None), o.pop("stack_end")
        assert o == want
    gaps = [o for o in got if o["type"] == "missing"]
    assert [o["bytes"] for o in gaps] == [size for _, size in hit]
    for gap, (first, last) in zip(gaps, times):
        assert gap["from_ns"] <= first and last <= gap["to_ns"] and "checksum" in gap["why"]
    text = subprocess.run([WATCHCTL, "report", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT).stdout
    assert len(re.findall(r"note: about \d+ bytes of the log are missing here, from \S+ to \S+ \(", text)) == 3


def test_what_a_lost_packet_described_is_left_out_and_counted(tmp_path):
    """The watch `b`, a thread and a stack are described in the second packet; the first has what `a` needs."""
    begin = [log.process(1000, 77, "app", 10**18), log.thread(1000, 77, 77, "app"), log.watch(1001, 0, "a", 0x404010),
             log.code(1002, 0x401002, b"\x89\x07"), log.stack(1003, 0, [0x401002, 0x401100])]
    lost = [log.watch(2000, 1, "b", 0x404020), log.stack(2001, 1, [0x401002, 0x401200])]
    after = [log.access(3000, 0, 77, 0x404010, 1, 2, 0, 0x401002), log.access(3001, 1, 77, 0x404020, 1, 2, 0, 0x401002),
             log.access(3002, 0, 77, 0x404010, 2, 3, 1, 0x401002), log.summary(4000, 0, 2, 2), log.summary(4001, 1, 1, 1)]
    damaged = bytearray(log.packet2(lost))
    damaged[-3] ^= 1
    log.write_log(tmp_path / "log", [log.packet2(begin), bytes(damaged), log.packet2(after)], major=2)
    r = reader("report-json", tmp_path / "log")
    got = [json.loads(x) for x in r.stdout.decode().splitlines()]
    accesses = [o for o in got if o["type"] == "access"]
    assert [(o["watch"], o["time_ns"], len(o["stack"]), o.get("stack_end")) for o in accesses] \
        == [("a", 3000, 2, "complete"), ("a", 3002, 1, "lost")]
    assert [o["watch"] for o in got if o["type"] == "summary"] == ["a"]
    missing = [o for o in got if o["type"] == "missing"]
    assert [(o.get("bytes"), o.get("events"), o.get("from_ns"), o.get("to_ns")) for o in missing] \
        == [(len(damaged), None, 1003, 3000), (None, 2, 1003, None)]
    assert r.returncode == LOG and "2 later events are left out" in r.stderr.decode()


def test_a_log_of_nothing_is_read_as_nothing(tmp_path):
    path = log.write_log(tmp_path / "empty", []) or tmp_path / "empty"
    for name in READERS:
        r = reader(name, path, preexec_fn=limit)
        must_be_sane(name, r)
        assert r.returncode == (CANNOT_TELL if name == "diff" else LOG)
        if name == "chrome":
            assert read.trace_events(r.stdout.decode())[0] == []
        elif name == "csv":
            assert r.stdout.count(b"\n") == 1
        elif name == "perf-script":
            assert r.stdout == b""


# Read by somebody who has seen enough

@pytest.mark.parametrize("which", ["large", "large_steps"])
@pytest.mark.parametrize("name", [n for n in READERS if n != "report-html"])
def test_a_reader_that_goes_away_is_no_error(request, which, name, tmp_path):
    """Also where it is gone before anything is written."""
    path, read_end, write_end = request.getfixturevalue(which), *os.pipe()
    os.close(read_end)
    args = [{"@": str(path), "NEW": str(tmp_path / "new")}.get(a, a) for a in READERS[name] if a != "-q"]
    r = subprocess.run([WATCHCTL, *args], stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE, text=True,
                       env=dict(os.environ, TERM="dumb"), timeout=WAIT)
    os.close(write_end)
    said = [line for line in r.stderr.splitlines() if "plain lines instead of a screen" not in line]
    assert r.returncode == (0 if which == "large_steps" else whole(name)) and said == [], r.stderr


# Odd, but whole

def test_clocks_that_jump_lose_nothing(logs):
    jumps = logs("accesslog-gen", "-n", "4000", "-j")
    for name in READERS:
        r = reader(name, jumps, preexec_fn=limit)
        assert r.returncode == whole(name), (name, r.stderr)
        must_be_sane(name, r)
    events, _ = read.trace_events(reader("chrome", jumps).stdout.decode())
    assert sum(e.get("cat") == "access" for e in events) == 4000
    perf = read.perf_script(reader("perf-script", jumps).stdout.decode())
    want = sorted(5_000_001_000 + i * 500 + (10**9 if i >= 1000 else 0) - (2 * 10**9 if i >= 2000 else 0)
                  + (3600 * 10**9 if i == 3999 else 0) for i in range(4000))
    assert sorted(e["ns"] for e in perf) == want
    for o in map(json.loads, reader("report-json", jumps).stdout.decode().split("\n")[:-1]):
        assert o.get("duration_ns", 0) < 3700 * 10**9


def peak_of(name, path):
    """Its peak in MB."""
    r = reader(name, path, wrap=["/usr/bin/python3", "-c", MEASURE])
    status, peak = map(int, r.stdout.split())
    assert status == whole(name), (name, r.stderr)
    return peak / 1024


@pytest.mark.slow_when("diff", "report")
@pytest.mark.parametrize("name", READERS)
def test_a_hundred_thousand_threads_in_one_log(name, logs):
    many = logs("accesslog-gen", "-n", "200000", "-t", "100000", "-f", "4")
    assert peak_of(name, many) < (4096 if SANITIZED else 768)
