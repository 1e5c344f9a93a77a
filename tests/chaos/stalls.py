#!/usr/bin/python3
"""What the threads of a program feel of watchctl: how long one was kept from going on, and how long a hit takes.

    stalls.py --watchctl PROGRAM --program STALLS [--engine ENGINE] [--threads N] [--mappings N] [--attaches N]
              [--json FILE]

Two runs of the same length, in turns: one in which nobody is looking, the control, and one in which watchctl attaches,
records and detaches again and again. A machine has stalls of its own, a virtual one above all: the control says how
long they are. With real-time priority, where that is permitted, the program's threads do not wait for other programs.
A thread that sleeps does not notice that it is stopped: so the scheduler's trace says how long each was (holds.py).
Exit status: 0, as promised; 1, not; 2, usage; 77, this machine cannot.
"""
import argparse
import ctypes
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holds import Holds

BUCKETS = 256
STALL_MS = 5.0
HIT_FACTOR = 10
TURN_S = 1.0

u32, u64 = ctypes.c_uint32, ctypes.c_uint64


class Histogram(ctypes.Structure):
    _fields_ = [("count", u64 * BUCKETS), ("longest_ns", u64), ("total_ns", u64), ("n", u64)]


class Page(ctypes.Structure):
    _fields_ = [("over", u32), ("phase", u32), ("ready", u32), ("pad", u32), ("gaps", Histogram * 2),
                ("writes", Histogram * 2)]


def lower_bound(bucket):
    """The least number of nanoseconds in a bucket: eight for each doubling."""
    return bucket if bucket < 8 else (8 + bucket % 8) << (bucket // 8 - 1)


def quantile(counts, share):
    left = sum(counts) * share
    for bucket, n in enumerate(counts):
        left -= n
        if left <= 0:
            return lower_bound(bucket + 1)
    return 0


def beyond(counts, ns):
    return sum(n for bucket, n in enumerate(counts) if lower_bound(bucket) >= ns)


def human(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def picture(title, columns):
    """A line for each doubling, a bar on a scale of powers of ten for each column."""
    print(title)
    rows = [[sum(c[first:first + 8]) for c in columns.values()] for first in range(0, BUCKETS, 8)]
    print(f"{'':>20}" + "".join(f"{name:>34}" for name in columns))
    used = [i for i, row in enumerate(rows) if any(row)]
    for i in range(used[0], used[-1] + 1) if used else []:
        bars = "".join(f"{n:>12} {'#' * len(str(n)) * 2 if n else '':<21}" for n in rows[i])
        print(f"{human(lower_bound(8 * i)):>9} - {human(lower_bound(8 * i + 8)):>8}{bars}")


class Program:
    def __init__(self, path, threads, mappings, folder):
        page = os.path.join(folder, "stalls")
        with open(page, "wb") as f:
            f.truncate(ctypes.sizeof(Page))
        self.file = open(page, "r+b")
        self.memory = mmap.mmap(self.file.fileno(), ctypes.sizeof(Page))
        self.page = Page.from_buffer(self.memory)
        self.process = subprocess.Popen([path, page, str(threads), str(mappings)])
        end = time.monotonic() + 60
        while self.page.ready < threads:
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit("stalls: the program did not start")
            time.sleep(0.01)
        self.real_time = self.prefer()
        time.sleep(1)  # its first turns, which meet memory for the first time
        for h in (*self.page.gaps, *self.page.writes):
            ctypes.memset(ctypes.byref(h), 0, ctypes.sizeof(h))

    def prefer(self):
        try:
            for tid in os.listdir(f"/proc/{self.process.pid}/task"):
                os.sched_setscheduler(int(tid), os.SCHED_FIFO, os.sched_param(1))
            return True
        except OSError:
            return False

    def end(self):
        self.page.over = 1
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()


def attach_once(a, pid, out):
    """Attached, a while of hits, detached. *out* gets what it says. Returns when it was told to end."""
    how = ["-i", "0"] if a.engine == "-i" else ["--engine", a.engine]
    began = out.tell()
    w = subprocess.Popen([a.watchctl, "-p", str(pid), "-v", "stalls_watched", "-s", "8", "-w", *how, "-q", "--json",
                          "--verbose"], stdout=out, stderr=out)
    end = time.monotonic() + 120
    while b'"type":"armed"' not in Path(out.name).read_bytes()[began:] and w.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(TURN_S / 2)
    told = time.monotonic()
    w.send_signal(signal.SIGINT)
    if w.wait(timeout=120):
        out.seek(0)
        raise SystemExit(f"stalls: watchctl ended with {w.returncode}: {out.read()[-500:].decode(errors='replace')}")
    return told


def measure(a, folder):
    program = Program(a.program, a.threads, a.mappings, folder)
    stops, attach, detach = [], [], []
    try:
        with open(os.path.join(folder, "out"), "w+b") as out:
            for _ in range(a.attaches):
                program.page.phase = 0
                time.sleep(TURN_S)
                program.page.phase = 1
                began = time.monotonic()
                holds = Holds.make(os.path.basename(a.program), tempfile.mkdtemp(dir=folder))
                told = attach_once(a, program.process.pid, out)
                seen = holds.end() if holds else []
                attach.append([(h.end - h.begin) * 1e9 for h in seen if h.begin < told])
                detach.append([(h.end - h.begin) * 1e9 for h in seen if h.begin >= told])
                time.sleep(max(0, TURN_S - (time.monotonic() - began)))
            out.seek(0)
            stops = [int(us) for us in re.findall(rb"stopped for (\d+) us", out.read())]
        page = Page.from_buffer_copy(program.memory)
    finally:
        program.end()
    return page, stops, (attach, detach) if holds else None, program.real_time


def summary_of(times):
    """Of as many attaches, or detaches."""
    holds = [h for one in times for h in one]
    return {"n": len(holds), "longest_ns": round(max(holds, default=0)), "over_1ms": sum(h > 1e6 for h in holds),
            "longest_of_each_ns": [round(max(one, default=0)) for one in times]}


def judge(page, stops, holds, real_time, a):
    """The promise, and how far it is kept; what the machine does by itself counts against nobody."""
    gaps, writes = ([list(h.count) for h in pair] for pair in (page.gaps, page.writes))
    hits = writes[1]
    trapped = [n if lower_bound(b) >= 1000 else 0 for b, n in enumerate(hits)]  # a write that traps takes more than a microsecond
    median = quantile(trapped, 0.5)
    limit = HIT_FACTOR * median
    n = sum(trapped)
    late, natural = beyond(trapped, limit), beyond(gaps[0], limit) / max(1, sum(gaps[0]))
    # In as much time, the control's threads were held up that often by themselves.
    expected = natural * sum(trapped) * median / 60000
    return {
        "type": "stalls", "engine": a.engine, "threads": a.threads, "mappings": a.mappings, "attaches": a.attaches, "real_time": real_time,
        "control": {"stretches": page.gaps[0].n, "longest_ns": page.gaps[0].longest_ns,
                    "over_5ms": beyond(gaps[0], STALL_MS * 1e6), "p999_ns": quantile(gaps[0], 0.999)},
        "watched": {"stretches": page.gaps[1].n, "longest_ns": page.gaps[1].longest_ns,
                    "over_5ms": beyond(gaps[1], STALL_MS * 1e6), "p999_ns": quantile(gaps[1], 0.999)},
        "stop_us": sorted(stops),
        "holds": {"attach": summary_of(holds[0]), "detach": summary_of(holds[1])} if holds else None,
        "hit": {"n": n, "median_ns": median, "p99_ns": quantile(trapped, 0.99), "longest_ns": page.writes[1].longest_ns,
                "over_10_medians": late, "expected_by_control": round(expected, 2)},
        "histogram": {"lower_ns": [lower_bound(b) for b in range(BUCKETS)], "control_gaps": gaps[0], "watched_gaps": gaps[1],
                      "control_writes": writes[0], "watched_writes": hits},
    }


def verdict(r):
    kept = []
    stall = max(r["watched"]["longest_ns"], max(r["stop_us"], default=0) * 1000)
    allowed = max(STALL_MS * 1e6, r["control"]["longest_ns"])
    kept.append((stall <= allowed, f"longest stall with {r['threads']} threads: {human(stall)} while watchctl comes and goes, "
                                   f"{human(r['control']['longest_ns'])} without it (promised: {STALL_MS:g} ms)"))
    for what, holds in (r["holds"] or {}).items():
        kept.append((holds["longest_ns"] <= STALL_MS * 1e6,
                     f"{what}: {holds['n']} times a thread was stopped, for {human(holds['longest_ns'])} at most, {holds['over_1ms']} "
                     f"times for more than 1 ms (promised: {STALL_MS:g} ms)"))
    h = r["hit"]
    kept.append((h["longest_ns"] <= HIT_FACTOR * h["median_ns"] or
                 h["over_10_medians"] <= max(3, 3 * h["expected_by_control"]),
                 f"longest hit: {human(h['longest_ns'])}, median {human(h['median_ns'])}; of {h['n']} hits, {h['over_10_medians']} "
                 f"took more than {HIT_FACTOR} medians; threads that nobody watches are held up as long "
                 f"{h['expected_by_control']:g} times in that time"))
    return kept


def main(argv):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--watchctl", required=True)
    p.add_argument("--program", required=True)
    p.add_argument("--threads", type=int, default=200)
    p.add_argument("--mappings", type=int, default=0, help="that the program has beside its usual ones")
    p.add_argument("--attaches", type=int, default=10)
    p.add_argument("--engine", default="handler", choices=["handler", "ring", "ptrace", "-i"])
    p.add_argument("--json")
    a = p.parse_args(argv)
    if subprocess.run([a.watchctl, "-v", "0x1", "-s", "1", "--", "/bin/true"], capture_output=True,
                      text=True).stderr.find("no hardware debug registers") >= 0:
        print("stalls: skipped: this machine offers no debug registers", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="watchctl-stalls-") as folder:
        result = judge(*measure(a, folder), a)
    h = result["histogram"]
    print(f"{a.engine} engine, {a.threads} threads, {a.mappings} mappings, {a.attaches} times attached and detached")
    picture("gaps in the threads' time (the longest of each 60 us of work)",
            {"control": h["control_gaps"], "watched": h["watched_gaps"]})
    picture("what a write of the watched variable takes", {"control": h["control_writes"], "watched": h["watched_writes"]})
    stops = result["stop_us"]
    if stops:
        print(f"the thread that the handler is placed by was stopped for {stops[len(stops) // 2]} us (median), {stops[-1]} us (most)")
    kept = verdict(result)
    result["kept"] = [ok for ok, _ in kept]
    for ok, text in kept:
        print(f"{'ok' if ok else 'NOT KEPT'}: {text}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(result, f)
    return 0 if all(ok for ok, _ in kept) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
