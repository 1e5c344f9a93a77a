"""The costs of `watchctl flow record`: an event, against the same programs without it; beside it perf record and ftrace with the same tracepoints, and
BPF programs that do nothing (the floor); how many events a second are recorded without a loss, and in how many bytes; a compilation by two
jobs, and redis-server under load.

Rounds of the plain program and of each recorder take turns, so that what else the machine does meets all of them; medians.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

LIMIT_S = 300
HERE = os.path.dirname(os.path.abspath(__file__))
TRACEFS = "/sys/kernel/tracing"
EVENTS = ("raw_syscalls/sys_exit", "sched/sched_switch", "sched/sched_waking")
REDIS_PORT = 7398
SOURCE_LINES = 4000


def run(*words, **more):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, check=True, **more)


class Recorder:
    """In the background, from when it is ready until it is told to end."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end()

    def start(self):
        pass

    def end(self):
        pass


class Watchctl(Recorder):
    def __init__(self, path, folder, *options):
        super().__init__(folder)
        self.path, self.options, self.log = path, options, os.path.join(folder, "sys.log")

    def start(self):
        ready, write = os.pipe()
        words = [self.path, "flow", "record", "-o", self.log, "--force", "--json", "--ready-fd", str(write), *self.options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[write])
        os.close(write)
        if not os.read(ready, 1):
            raise SystemExit(self.process.communicate()[1])
        os.close(ready)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.summary = json.loads(self.process.communicate(timeout=LIMIT_S)[0].splitlines()[-1])


class Perf(Recorder):
    def start(self):
        events = [word for e in EVENTS for word in ("-e", e.replace("/", ":"))]
        self.process = subprocess.Popen(["perf", "record", "-a", "-m", "8M", "-o", os.path.join(self.folder, "perf.data"), *events],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LIMIT_S)


class Floor(Recorder):
    """BPF programs that do nothing, attached as ours are."""

    def __init__(self, folder, loader, programs):
        super().__init__(folder)
        self.words = [loader, programs]

    def start(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if "ready" not in self.process.stdout.readline():
            raise SystemExit("the floor's programs do not load")

    def end(self):
        self.process.communicate(timeout=LIMIT_S)


class Bpftrace(Recorder):
    """Programs that do nothing, by tracepoints of perf, as bpftrace has them."""

    def start(self):
        text = " ".join("tracepoint:%s { }" % e.replace("/", ":") for e in EVENTS)
        self.process = subprocess.Popen(["bpftrace", "-e", text + ' BEGIN { printf("ready\\n"); }'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while "ready" not in self.process.stdout.readline():
            if self.process.poll() is not None:
                raise SystemExit("bpftrace does not run")
        time.sleep(0.5)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=LIMIT_S)


def put(path, text):
    with open(os.path.join(TRACEFS, path), "w", encoding="ascii") as f:
        f.write(text)


class Ftrace(Recorder):
    """An instance of its own, in overwrite mode: nobody reads."""

    def start(self):
        os.mkdir(f"{TRACEFS}/instances/watchctl-bench")
        put("instances/watchctl-bench/buffer_size_kb", "8192")
        for e in EVENTS:
            put(f"instances/watchctl-bench/events/{e}/enable", "1")

    def end(self):
        for e in EVENTS:
            put(f"instances/watchctl-bench/events/{e}/enable", "0")
        os.rmdir(f"{TRACEFS}/instances/watchctl-bench")


def recorders(o, folder):
    all_of_them = {"plain": Recorder(folder), "watchctl": Watchctl(o.watchctl, folder)}
    all_of_them["BPF, empty"] = Floor(folder, *o.floor)
    if shutil.which("bpftrace"):
        all_of_them["bpftrace"] = Bpftrace(folder)
    if os.path.isdir(f"{TRACEFS}/instances"):
        all_of_them["ftrace"] = Ftrace(folder)
    if shutil.which("perf"):
        all_of_them["perf record"] = Perf(folder)
    return all_of_them


def in_turns(o, all_of_them, measure):
    """Of each the median of measure()."""
    got = {name: [] for name in all_of_them}
    for _ in range(o.rounds):
        for name, recorder in all_of_them.items():
            with recorder:
                got[name].append(measure())
    return {name: statistics.median(values) for name, values in got.items()}


def an_event(o, folder, rows):
    print(f"{'an event':14}{'of write/read':>16}{'of turns':>12}   ns more than the plain program")
    columns = {}
    for what, calls in ("write", 200_000), ("turns", 80_000):
        columns[what] = in_turns(o, recorders(o, folder), lambda what=what, calls=calls: statistics.median(map(float, run(o.events, what, calls, 3).stdout.split())))
    for name in columns["write"]:
        more = {what: c[name] - c["plain"] for what, c in columns.items()}
        print(f"{name:14}{more['write']:16.1f}{more['turns']:12.1f}   ({columns['write'][name]:.0f}, {columns['turns'][name]:.0f})", flush=True)
        rows[name] = more


def flood(o, folder, rows):
    """As many as two CPUs make."""
    recorder = Watchctl(o.watchctl, folder)
    with recorder:
        programs = [subprocess.Popen([o.events, "write", "1000000", "5"], stdout=subprocess.DEVNULL) for _ in range(2)]
        for p in programs:
            p.wait(LIMIT_S)
    s = recorder.summary
    rate = s["recorded"] / s["duration_ns"] * 1e9
    print(f"flood: {rate:,.0f} events/s, {s['lost']} lost, {s['bytes'] / s['recorded']:.2f} bytes each")
    rows["flood"] = {"events": s["recorded"], "rate": rate, "lost": s["lost"], "bytes": s["bytes"] / s["recorded"]}


def reading(o, folder, rows):
    """The flood's log: how long a path takes, which reads all of it and builds the graph, in which memory."""
    log, counted = os.path.join(folder, "sys.log"), rows["flood"]["events"]
    words = ["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime + resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime, "
             "resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", o.watchctl, "flow", "path", log, "--to", "flow_events"]
    seconds, kib = map(float, run(*words).stdout.split())
    print(f"graph of {counted:,} events: {seconds:.2f} s ({seconds / counted * 1e7:.1f} s for 10 M), {kib / 1024:.0f} MB, {kib * 1024 / counted:.0f} bytes an event",
          flush=True)
    rows["graph"] = {"s": seconds, "bytes": kib * 1024 / counted}


def sources(folder):
    made = []
    for n in range(8):
        path = os.path.join(folder, f"part{n}.c")
        with open(path, "w", encoding="ascii") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
            f.writelines(f"int f{n}_{i}(int a, int b) {{ char t[64]; snprintf(t, sizeof(t), \"%d\", a * {i} + b); return (int)strlen(t) + a % {i + 2}; }}\n"
                         for i in range(SOURCE_LINES // 8))
        made.append(path)
    return made


def compilation(o, folder, rows):
    files = sources(folder)
    text = "all: " + " ".join(f.replace(".c", ".o") for f in files) + "\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n"
    with open(os.path.join(folder, "Makefile"), "w", encoding="ascii") as f:
        f.write(text)

    def once():
        begin = time.monotonic()
        run("make", "-s", "-B", "-j2", cwd=folder)
        return time.monotonic() - begin

    recorder = Watchctl(o.watchctl, folder)
    got = in_turns(o, {"plain": Recorder(folder), "watchctl": recorder}, once)
    share = got["watchctl"] / got["plain"] - 1
    print(f"make -j2: {got['plain']:.2f} s, {share:+.1%} while recorded ({recorder.summary['recorded'] / recorder.summary['duration_ns'] * 1e9:,.0f} events/s,"
          f" {recorder.summary['bytes'] / recorder.summary['recorded']:.2f} bytes each, {recorder.summary['lost']} lost)", flush=True)
    rows["compile"] = share


def redis(o, folder, rows):
    if not shutil.which("redis-server"):
        print("redis: skipped, it is not installed")
        return
    server = subprocess.Popen(["redis-server", "--port", str(REDIS_PORT), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        while subprocess.run(["redis-cli", "-p", str(REDIS_PORT), "ping"], capture_output=True, check=False).returncode:
            time.sleep(0.05)

        def once():
            said = run("redis-benchmark", "-p", REDIS_PORT, "-t", "set", "-P", 1, "-n", 100_000, "-q").stdout
            return float(re.findall(r"([\d.]+) requests per second", said)[-1])

        recorder = Watchctl(o.watchctl, folder)
        got = in_turns(o, {"plain": Recorder(folder), "watchctl": recorder, "perf record": Perf(folder)}, once)
    finally:
        server.terminate()
        server.wait()
    share = 1 - got["watchctl"] / got["plain"]
    print(f"redis SET -P1: {got['plain']:,.0f}/s, {share:.1%} fewer while recorded ({recorder.summary['lost']} lost,"
          f" {recorder.summary['bytes'] / recorder.summary['recorded']:.2f} bytes an event); perf record {1 - got['perf record'] / got['plain']:.1%} fewer", flush=True)
    rows["redis"] = share


PARTS = (an_event, flood, reading, compilation, redis)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--watchctl", required=True)
    p.add_argument("--events", required=True)
    p.add_argument("--floor", required=True, nargs=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json")
    p.add_argument("--parts", nargs="+", choices=[p.__name__ for p in PARTS], help="only these")
    o = p.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in [p for p in PARTS if not o.parts or p.__name__ in o.parts]:
            part(o, folder, rows)
    if o.json:
        with open(o.json, "w", encoding="ascii") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
