"""What it costs a program to be watched, per hit: watchctl against its floor and against the others.

Each round starts a fresh victim for every row, one row after the other, so that all rows see the same
machine; a ratio is the median, over the rounds, of two rows of the same round.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time

import report
import server
import tools
import victim

SETTLE_S = 0.1  # before a victim without a tool is measured
SERVER_WINDOW_S = 0.7
FLOOR, FLOOR_2 = "floor", "floor, 2 threads"
BARE, UNTOUCHED = "no watch", "untouched variable"


class Row:
    """One line of the table: a tool on a kind of victim. No tool: the victim alone."""

    def __init__(self, name, tool=None, arguments=(), untouched=False, unprivileged=False):
        self.name = name
        self.unprivileged = unprivileged  # victim and tool belong to nobody
        self.tool = tool
        self.arguments = arguments
        self.untouched = untouched
        self.values = {}  # round -> ns per hit
        self.hits = 0
        self.lost = 0
        self.problem = tool.missing() if tool else None
        if unprivileged and os.geteuid():
            self.problem = "only root can start it as another user"


ONE_IN_1024 = "(new & 1023) == 5"
RAW_STACK = 8192  # bytes; what the ring engine asks for, too


def w(watchctl, options=("-w",), **more):
    """By the handler, unless it is said: what would be chosen by itself differs with what is permitted."""
    return tools.Watchctl(watchctl, options if "--engine" in options else (*options, "--engine", "handler"), **more)


def hit_rows(watchctl, loop):
    return [
        Row(BARE),
        Row(FLOOR, arguments=("--floor",)),
        Row("watchctl -w", w(watchctl)),
        Row("watchctl -w -o LOG", w(watchctl, log=True)),
        Row("watchctl -rw", w(watchctl, ("-rw",))),
        Row("watchctl -rw, add", w(watchctl, ("-rw",)), ("--add",)),
        Row("watchctl -w, filtered", w(watchctl, ("-w", "--if", "new==old+77"))),
        Row("watchctl -w, 1 in 1024", w(watchctl, ("-w", "--if", ONE_IN_1024))),
        Row("watchctl ring", w(watchctl, ("-w", "--engine", "ring"))),
        Row("perf count", tools.PerfCount()),
        Row("perf record", tools.Perf()),
        Row("perf record, regs", tools.Perf(registers=True)),
        Row("bpftrace ustack", tools.Bpftrace()),
        Row("gdb silent", tools.Gdb()),
        Row("gdb bt 16", tools.Gdb(["bt 16"])),
        Row("lldb continue", tools.Lldb()),
        Row("lldb bt 16", tools.Lldb(["thread backtrace -c 16"])),
        Row("gdb condition 1 in 1024", tools.Gdb(condition="(*(long *) ADDR & 1023) == 5")),
        Row("lldb condition 1 in 1024", tools.Lldb(condition="(*(long *) ADDR & 1023) == 5")),
        Row("ptrace loop", tools.PtraceLoop(loop)),
        Row("watchctl ptrace", w(watchctl, ("-w", "--engine", "ptrace"))),
        Row("watchctl ring, no BPF", w(watchctl, ("-w", "--engine", "ring")), unprivileged=True),
        Row("perf record, raw stack", tools.Perf(registers=True, raw=RAW_STACK), unprivileged=True),
        Row(FLOOR_2, arguments=("--floor", "--threads", "2")),
        Row("watchctl -w, 2 threads", w(watchctl), ("--threads", "2")),
        Row(UNTOUCHED, w(watchctl), untouched=True),
    ]


def server_rows(watchctl):
    return [
        Row("redis, no watch"),
        Row("redis, watchctl auto", tools.Watchctl(watchctl)),
        Row("redis, watchctl -w", w(watchctl)),
        Row("redis, watchctl -w -o LOG", w(watchctl, log=True)),
        Row("redis, perf record", tools.Perf()),
        Row("redis, gdb silent", tools.Gdb()),
    ]


def targets():
    t = report.Target
    watchctl = ["watchctl -w", "watchctl -w -o LOG", "watchctl -rw", "watchctl -rw, add"]
    return [
        *[t(name, FLOOR, "<=", 1.10) for name in watchctl],
        *[t(name, "perf record", "<=", 1.20) for name in watchctl[:3]],
        t("gdb silent", "watchctl -w", ">=", 20, bound=FLOOR),
        t("gdb bt 16", "watchctl -w", ">=", 90, bound=FLOOR),
        t("lldb continue", "watchctl -w", ">=", 80, bound=FLOOR),
        t("watchctl -w, filtered", FLOOR, "<=", 1.05),
        t("watchctl ring", "perf record", "<=", 1.05),
        t("watchctl ring, no BPF", "perf record, raw stack", "<=", 1.10),
        t("watchctl ptrace", "ptrace loop", "<=", 1.30),
        t("gdb condition 1 in 1024", "watchctl -w, 1 in 1024", ">=", 20, bound=FLOOR),
        t("lldb condition 1 in 1024", "watchctl -w, 1 in 1024", ">=", 80, bound=FLOOR),
        t("watchctl -w, 2 threads", FLOOR_2, "<=", 1.10),
        t(UNTOUCHED, BARE, "<=", 1.02),
    ]


def watch(row, v, folder):
    """One sample of a victim with the row's tool at work on it."""
    addr = v.untouched if row.untouched else v.addr
    with tools.Running(row.tool, v.pid, addr, folder, row.unprivileged) as running:
        if row.untouched:
            armed = running.wait_armed()
        else:
            armed = v.wait_watched(tools.ARM_TIMEOUT_S, running.alive)
        if not armed:
            raise victim.VictimError(running.complaint())
        sample = v.sample(row.tool.settle, row.tool.window)
        running.stop()
        summary = running.summary()
    if summary:
        row.lost += summary["lost"]
    return sample


def run_hits(row, number, hits):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, victim.Victim(
        hits, row.arguments, tools.NOBODY if row.unprivileged else []
    ) as v:
        if row.unprivileged:
            os.chmod(folder, 0o777)
        if row.tool:
            sample = watch(row, v, folder)
        else:
            sample = v.sample(SETTLE_S, tools.Tool.window)
    row.values[number] = sample.median
    row.hits += sample.hits


def run_server(row, number):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, server.Server(folder) as s:
        s.start_load()
        if not row.tool:
            rate = s.rate(SERVER_WINDOW_S)
        else:
            bare = s.rate(0.2)
            with tools.Running(row.tool, s.pid, hex(s.addr), folder) as running:
                if not s.wait_slower(0.8 * bare, tools.ARM_TIMEOUT_S, running.alive):
                    raise server.ServerError(running.complaint())
                time.sleep(row.tool.settle)
                rate = s.rate(SERVER_WINDOW_S)
                running.stop()
                summary = running.summary()
            if summary:
                row.lost += summary["lost"]
    row.values[number] = 1e9 / rate
    row.hits += int(rate * SERVER_WINDOW_S)


def run_rounds(rows, rounds, run, progress):
    """A row that fails twice in a row is given up, with the reason in its place."""
    for number in range(rounds):
        for row in rows:
            if row.problem:
                continue
            progress(f"round {number + 1} of {rounds}: {row.name}")
            for attempt in (1, 2):
                try:
                    run(row, number)
                    break
                except (victim.VictimError, server.ServerError, OSError) as e:
                    if attempt == 2:
                        row.problem = str(e)


def progress_line(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", "r", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.splitlines()[0])
    parser.add_argument("--watchctl", required=True, help="the watchctl to measure")
    parser.add_argument("--hits", required=True, help="the victim, built from hits.c")
    parser.add_argument("--ptrace-loop", required=True, help="the bare ptrace loop, built from ptrace_loop.c")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there")
    parser.add_argument("--rounds", type=int, default=7, help="repetitions of every row (default %(default)s)")
    parser.add_argument("--server-rounds", type=int, default=3, help="... of the redis rows (default %(default)s)")
    parser.add_argument("--only", metavar="TEXT", action="append", help="only the rows whose name contains TEXT")
    arguments = parser.parse_args()
    arguments.watchctl = os.path.abspath(arguments.watchctl)
    arguments.ptrace_loop = os.path.abspath(arguments.ptrace_loop)
    arguments.hits = os.path.abspath(arguments.hits)
    return arguments


def main():
    arguments = parse_arguments()
    about = {**machine(), "rounds": arguments.rounds}
    rows, redis = hit_rows(arguments.watchctl, arguments.ptrace_loop), server_rows(arguments.watchctl)
    if arguments.only:
        rows = [row for row in rows if any(text in row.name for text in arguments.only)]
        redis = [row for row in redis if any(text in row.name for text in arguments.only)]
    for row in redis:
        row.problem = row.problem or server.missing()
    begin = time.monotonic()
    run_rounds(rows, arguments.rounds, lambda row, n: run_hits(row, n, arguments.hits), progress_line)
    run_rounds(redis, arguments.server_rounds, run_server, progress_line)
    progress_line("")
    about["seconds"] = round(time.monotonic() - begin)
    result = report.Result(about, rows, redis, targets())
    result.print(sys.stdout)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as f:
            json.dump(result.as_json(), f, indent=1)
            f.write("\n")
        print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
