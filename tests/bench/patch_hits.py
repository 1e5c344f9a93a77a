"""What a probe costs: a call of an empty function, plain, and with probes at its entry; beside it a uprobe that counts, by bpftrace.

The program measures itself: the median of its rounds. Of probes that record, a round has fewer calls than the buffer has room for
records, and a pause follows in which they are read: so what is recorded is written and not dropped. "more": than the plain call of the
same run. The last row but one: a thread for each CPU, all at once.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

PROBES = r"""
#include <watchctl/probe.h>
PROBE(empty) { (void)p; }
PROBE(value) { probe_value(p->regs->rdi); }
PROBE(line) { probe_log("%lu of %p", p->regs->rdi, (void *)p->regs->rsp); }
PROBE(stack) { probe_stack("bench", p->regs->rdi); }
PROBE_VECTOR(vector) { probe_value(probe_double(vector, 0)); }
"""
LIMIT_S = 300


def times(text):
    return [float(line) for line in text.split() if line.replace(".", "").isdigit()]


def plain(program, calls, rounds, threads=1):
    return statistics.median(times(subprocess.run([program, str(calls), str(rounds), "0", str(threads)], capture_output=True, text=True, check=True,
                                                  timeout=LIMIT_S).stdout))


def patched(watchctl, program, probes, function, calls, rounds, pause_ms, threads, log):
    """ns, records that were lost."""
    done = subprocess.run([watchctl, "patch", "--at", "entry site", "--call", function, "--buffer", "4M", "-q", "-o", log, "--force", probes, "--", program,
                           str(calls), str(rounds), str(pause_ms), str(threads)], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    lost = int(done.stderr.split(" records, ")[1].split()[0])
    return statistics.median(times(done.stdout)), lost


def uprobe(program, calls, rounds):
    if not shutil.which("bpftrace"):
        return None
    trace = subprocess.Popen(["bpftrace", "-e", f"uprobe:{program}:site {{ @n = count(); }} BEGIN {{ printf(\"ready\\n\"); }}"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    try:
        while "ready" not in trace.stdout.readline():
            pass
        time.sleep(0.5)
        return plain(program, calls // 100, rounds)
    finally:
        trace.terminate()
        trace.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--calls", required=True, help="the program that calls")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        probes, log = os.path.join(folder, "probes.c"), os.path.join(folder, "log")
        with open(probes, "w", encoding="utf-8") as f:
            f.write(PROBES)
        floor = plain(options.calls, 50_000_000, options.rounds)
        print(f"a call, plain: {floor:.2f} ns\n{'':18}{'ns':>8}{'more':>8}{'lost':>12}")
        for function, calls, rounds, pause_ms in (("empty", 20_000_000, options.rounds, 0), ("value", 20_000, 40, 50), ("vector", 20_000, 40, 50),
                                                  ("line", 20_000, 40, 50), ("stack", 500, 40, 50)):
            ns, lost = patched(options.watchctl, options.calls, probes, function, calls, rounds, pause_ms, 1, log)
            rows[function] = {"ns": ns, "more_ns": ns - floor, "lost": lost}
            print(f"{function:18}{ns:8.1f}{ns - floor:8.1f}{lost:12}", flush=True)
        threads = len(os.sched_getaffinity(0))
        if threads > 1:
            alone = plain(options.calls, 50_000_000, options.rounds, threads)
            ns, lost = patched(options.watchctl, options.calls, probes, "empty", 20_000_000, options.rounds, 0, threads, log)
            rows["threads"] = {"threads": threads, "ns": ns, "more_ns": ns - alone, "lost": lost}
            print(f"{f'empty, {threads} threads':18}{ns:8.1f}{ns - alone:8.1f}{lost:12}", flush=True)
        ns = uprobe(options.calls, 20_000_000, options.rounds)
        if ns is None:
            print("uprobe, bpftrace: skipped, there is no bpftrace")
        else:
            rows["uprobe"] = {"ns": ns, "more_ns": ns - floor, "over_empty": (ns - floor) / rows["empty"]["more_ns"]}
            print(f"{'uprobe, bpftrace':18}{ns:8.1f}{ns - floor:8.1f}   {rows['uprobe']['over_empty']:.0f} times an empty probe")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"plain_ns": floor, **rows}, f, indent=1)


main()
