"""What `watchctl trace` costs: entry and exit of an empty function, recorded and switched off; beside it uftrace, a uprobe with a uretprobe,
and `watchctl step`; the log's bytes for a call, and how many calls a second are read; and whole programs.

The function's program measures itself: the median of its rounds, of so few calls that the buffer has room for all. "more": than the plain
call of the same run.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

LIMIT_S = 300
PROGRAMS = {
    "jq": ("jq,libjq.so.1", "jq", "-n", "[range(2000)] | map(. * 2) | add"),
    "python3": ("python3.11", "/usr/bin/python3.11", "-I", "-c", "import json; json.dumps({i: i * i for i in range(20000)})"),
    "git": ("git", "git", "--no-pager", "log", "--oneline", "-200"),
    "sqlite3": ("sqlite3,libsqlite3.so.0", "sqlite3", ":memory:", "with recursive c(x) as (values(1) union all select x + 1 from c where x < 20000) select sum(x) from c"),
    "gawk": ("gawk", "gawk", "BEGIN { for (i = 0; i < 200000; i++) s += i % 7; print s }"),
}


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)


def times(text):
    return [float(line) for line in text.split() if line.replace(".", "").isdigit()]


def counts(said):
    return [int(n) for n in re.search(r"(\d+) calls?: (\d+) recorded, (\d+) lost, (\d+) of", said).groups()]


def plain(program, calls, rounds):
    return statistics.median(times(run(program, calls, rounds).stdout))


def traced(watchctl, options, program, calls, rounds, log):
    """ns of a call, bytes of the log for one, calls that were lost."""
    done = run(watchctl, "trace", *options, "--function", "site", "--buffer", "1G", "-o", log, "--force", "--", program, calls, rounds)
    _, recorded, lost, _ = counts(done.stderr)
    size = sum(os.path.getsize(os.path.join(log, f)) for f in os.listdir(log))
    return statistics.median(times(done.stdout)), size / max(recorded, 1), lost


def uftrace(program, calls, rounds, folder):
    if not shutil.which("uftrace"):
        return None
    done = run("uftrace", "record", "-P", "site", "--no-libcall", "--no-event", "-b", "64M", "-d", os.path.join(folder, "uftrace"), program, calls, rounds)
    shown = run("uftrace", "report", "-d", os.path.join(folder, "uftrace")).stdout
    return statistics.median(times(done.stdout)) if re.search(r"\bsite\b", shown) else None


def uprobes(program, calls, rounds):
    if not shutil.which("bpftrace"):
        return None
    trace = subprocess.Popen(["bpftrace", "-e", f"uprobe:{program}:site {{ @n = count(); }} uretprobe:{program}:site {{ @m = count(); }} "
                              "BEGIN { printf(\"ready\\n\"); }"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while "ready" not in trace.stdout.readline():
            pass
        time.sleep(0.5)
        return plain(program, calls, rounds)
    finally:
        trace.terminate()
        trace.wait()


def stepped(watchctl, program, folder):
    """A recorded call by breakpoints, from two runs of different lengths."""
    took = []
    for calls in 100, 2100:
        began = time.monotonic()
        done = run(watchctl, "step", "--only", "site", "-q", "-o", os.path.join(folder, f"step{calls}"), "--", program, calls, 1)
        if done.returncode:
            return None
        took.append(time.monotonic() - began)
    return (took[1] - took[0]) / 2000 * 1e9


def row(rows, name, ns, floor, rest=""):
    if ns is None:
        print(f"{name:26}  skipped")
        return
    rows[name] = {"ns": ns, "more_ns": ns - floor}
    print(f"{name:26}{ns:10.1f}{ns - floor:10.1f}  {rest}", flush=True)


def one_call(o, folder):
    rows, log = {}, os.path.join(folder, "log")
    floor = plain(o.calls, 50_000_000, o.rounds)
    print(f"a call, plain: {floor:.2f} ns\n{'entry and exit':26}{'ns':>10}{'more':>10}")
    for name, options, calls in (("recorded", ["--max-rate", 0], 200_000), ("recorded, --args", ["--max-rate", 0, "--args"], 100_000),
                                 ("switched off", ["--max-rate", 1], 5_000_000)):
        ns, size, lost = traced(o.watchctl, options, o.calls, calls, o.rounds, log)
        row(rows, name, ns, floor, "" if name == "switched off" else f"{size:.0f} bytes of log, {lost} lost")
    row(rows, "uftrace -P", uftrace(o.calls, 200_000, o.rounds, folder), floor)
    row(rows, "uprobe + uretprobe", uprobes(o.calls, 200_000, o.rounds), floor)
    row(rows, "watchctl step", stepped(o.watchctl, o.calls, folder), floor)
    return {"plain_ns": floor, **rows}


def reading(o, folder):
    """More calls than can be read, for three seconds."""
    program = subprocess.Popen([o.calls, "100000000", "100"], stdout=subprocess.DEVNULL)
    try:
        done = run(o.watchctl, "trace", "-p", program.pid, "--function", "site", "--max-rate", 0, "-t", 3, "-o", os.path.join(folder, "flood"))
        called, recorded, lost, _ = counts(done.stderr)
    finally:
        program.kill()
        program.wait()
    print(f"read: {recorded / 3e6:.1f} million calls a second, of {called / 3e6:.1f} that were made")
    return {"called": called, "recorded": recorded, "lost": lost}


def whole_programs(o, folder):
    rows = {}
    print(f"\n{'whole programs':12}{'plain s':>10}{'traced s':>10}{'calls':>12}{'recorded':>12}{'lost':>12}{'off':>12}")
    for name, (modules, *command) in PROGRAMS.items():
        if not shutil.which(command[0]):
            print(f"{name:12}  skipped: it is not there")
            continue
        words = [w for m in modules.split(",") for w in ("--in", m)]
        bare, slow = [], []
        for i in range(o.rounds):
            began = time.monotonic()
            run(*command)
            bare.append(time.monotonic() - began)
            began = time.monotonic()
            done = run(o.watchctl, "trace", *words, "-o", os.path.join(folder, f"{name}{i}"), "--", *command)
            slow.append(time.monotonic() - began)
        n = counts(done.stderr)
        rows[name] = {"plain_s": statistics.median(bare), "traced_s": statistics.median(slow), "calls": n}
        print(f"{name:12}{rows[name]['plain_s']:10.3f}{rows[name]['traced_s']:10.3f}{n[0]:12}{n[1]:12}{n[2]:12}{n[3]:12}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--calls", required=True, help="the program that calls")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"call": one_call(options, folder), "reading": reading(options, folder), "programs": whole_programs(options, folder)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


main()
