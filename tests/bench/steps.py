"""Recorded calls: `watchctl step` against LLDB's breakpoints and LLDB's stepping; and `watchctl diff` of large logs.

The time of a call is taken from what each recorder itself did, from its first call to its last, so that loading
LLDB and debug information does not count. A ratio is the median, over the rounds, of two rows of the same round.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

# row: (how many calls, the target for its ratio to ours)
LLDB_ROWS = {"LLDB, breakpoints on entry and return": ("breakpoints", 600, 15),
             "LLDB, instruction by instruction": ("instructions", 30, 30)}
OURS = "watchctl step"
OURS_BY_LLDB = "watchctl step --mover lldb"


def lldb_python():
    tool = next((t for t in ("lldb-19", "lldb-18", "lldb-17", "lldb-16", "lldb-15", "lldb-14") if shutil.which(t)), None)
    if not tool:
        return None
    path = subprocess.run([tool, "-P"], capture_output=True, text=True, check=True).stdout.strip()
    env = dict(os.environ, PYTHONPATH=path)
    server = shutil.which("lldb-server-" + tool.split("-")[1])
    if server:
        env["LLDB_DEBUGSERVER_PATH"] = server
    return env


def call_times(watchctl, log):
    """The recorded calls and the time between the first entry and the last return, in seconds."""
    out = subprocess.run([watchctl, "report", "--json", "--events", "--no-stack", log], capture_output=True, text=True,
                         check=True, timeout=300).stdout
    events = [json.loads(line) for line in out.splitlines()]
    calls = [e for e in events if e["type"] == "call"]
    times = [e["time_ns"] for e in events if e["type"] in ("call", "return")]
    return len(calls), (max(times) - min(times)) / 1e9


def ours(args, folder, count, extra=()):
    log = folder / "log"
    shutil.rmtree(log, ignore_errors=True)
    subprocess.run([args.watchctl, "step", "--from", "run", "-o", str(log), "-q", *extra, "--", args.calls, str(count)],
                   check=True, capture_output=True, timeout=600)
    calls, seconds = call_times(args.watchctl, str(log))
    assert calls == 2 * count + 1, (calls, count)
    return seconds / calls


def lldb_row(args, env, how, calls):
    out = subprocess.run(["/usr/bin/python3", "-B", str(HERE / "lldb_calls.py"), how, args.calls, str(calls)], env=env,
                         check=True, capture_output=True, text=True, timeout=600).stdout
    row = json.loads(out.splitlines()[-1])
    assert row["calls"] == calls, row
    return row["seconds"] / row["calls"]


def step_round(args, env, folder):
    row = {OURS: ours(args, folder, args.count)}
    row[OURS_BY_LLDB] = ours(args, folder, 100, ["--stepper", "lldb"])
    for name, (how, calls, _) in LLDB_ROWS.items():
        row[name] = lldb_row(args, env, how, calls)
    return row


def print_steps(rounds):
    print("%-42s %12s %10s %8s" % ("a recorded call", "us", "/ ours", "wanted"))
    for name in rounds[0]:
        us = statistics.median(r[name] for r in rounds) * 1e6
        ratio = statistics.median(r[name] / r[OURS] for r in rounds)
        wanted = LLDB_ROWS.get(name, (None, None, None))[2]
        print("%-42s %12.1f %10.1f %8s" % (name, us, ratio, ">= %d" % wanted if wanted else ""))


def diff_row(args, folder):
    good, bad = folder / "good", folder / "bad"
    # One call of the bad run returns something else, deep inside.
    for seed, log, fault in ((1, good, []), (2, bad, ["-d", "result@%d" % (args.log_calls // 2)])):
        shutil.rmtree(log, ignore_errors=True)
        subprocess.run([args.generator, "-n", str(args.log_calls), "-p", "1", "-s", str(seed), *fault, str(log)], check=True, capture_output=True,
                       timeout=600)
    # Into the page cache; not by ourselves: a child's peak of memory begins with ours.
    subprocess.run(["cat", str(good / "events"), str(bad / "events")], check=True, stdout=subprocess.DEVNULL)
    start = time.monotonic()
    p = subprocess.Popen([args.watchctl, "diff", str(good), str(bad)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    return {"seconds": time.monotonic() - start, "bytes_per_call": usage.ru_maxrss * 1024 / (2 * args.log_calls),
            "status": os.waitstatus_to_exitcode(status)}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--watchctl", required=True)
    a.add_argument("--calls", required=True)
    a.add_argument("--generator", required=True)
    a.add_argument("--json")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--count", type=int, default=3000)
    a.add_argument("--log-calls", type=int, default=10_000_000)
    args = a.parse_args()
    env = lldb_python()
    if not env:
        sys.exit("steps.py: there is no lldb to compare with")
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        rounds = [step_round(args, env, folder) for _ in range(args.rounds)]
        print_steps(rounds)
        diffs = [diff_row(args, folder) for _ in range(args.rounds)]
    seconds = statistics.median(d["seconds"] for d in diffs)
    memory = statistics.median(d["bytes_per_call"] for d in diffs)
    print("\nwatchctl diff, %d calls a side: %.2f s (wanted: <= 5), %.1f bytes a call (wanted: <= 40)" %
          (args.log_calls, seconds, memory))
    if args.json:
        Path(args.json).write_text(json.dumps({"steps": rounds, "diff": diffs}, indent=1))


main()
