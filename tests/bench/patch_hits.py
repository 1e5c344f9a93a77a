"""What a probe costs: a call of an empty function, plain, and with probes at its entry; beside it uprobes that count, by bpftrace and perf, and gdb's dprintf.

The program measures itself: the median of its rounds. Of probes that record, a round has fewer calls than the buffer has room for
records, and a pause follows in which they are read: so what is recorded is written and not dropped. "more": than the plain call of the
same run. The last row but one: a thread for each CPU, all at once.
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
    return [float(ns) for ns in re.findall(r"^(\d+\.\d{3})$", text, re.M)]


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


def probe_of_perf(program, calls, rounds):
    """Counted by perf stat."""
    if not shutil.which("perf") or os.geteuid():
        return None
    event = f"probe_{os.path.basename(program)}:site"
    if subprocess.run(["perf", "probe", "-q", "-x", program, "--add", "site"], capture_output=True, timeout=LIMIT_S).returncode:
        return None
    try:
        done = subprocess.run(["perf", "stat", "-e", event, program, str(calls // 100), str(rounds)], capture_output=True, text=True, check=True,
                              timeout=LIMIT_S)
        return statistics.median(times(done.stdout))
    finally:
        subprocess.run(["perf", "probe", "-q", "--del", event], capture_output=True, timeout=LIMIT_S)


def dprintf(program, calls, rounds):
    """Of gdb, which prints."""
    if not shutil.which("gdb"):
        return None
    done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-ex", 'dprintf site,"hit\\n"', "-ex", "run", "--args", program, str(calls // 10_000), str(rounds)],
                          capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return statistics.median(times(done.stdout))


def applied(watchctl, probes, rounds):
    """Every function of a live python3 and its libraries: seconds from the command to its end, all patched and taken out again; sites; ms that threads stood."""
    victim = subprocess.Popen(["/usr/bin/python3", "-c", "import ssl, sqlite3; print(1, flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    seconds, sites, stood = [], 0, []
    try:
        victim.stdout.readline()
        for _ in range(rounds):
            begin = time.monotonic()
            done = subprocess.run([watchctl, "patch", "-p", str(victim.pid), "--at", "entry *", "--call", "empty", "-q", "-t", "0.01", probes],
                                  capture_output=True, text=True, check=True, timeout=LIMIT_S)
            seconds.append(time.monotonic() - begin)
            sites = int(re.search(r"(\d+) sites patched", done.stderr)[1])
            stood.append(float(re.search(r"threads stood ([\d.]+) ms", done.stderr)[1]))
    finally:
        victim.kill()
        victim.wait()
    return statistics.median(seconds), sites, statistics.median(stood)


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
        for name, peer in (("uprobe, bpftrace", uprobe), ("perf probe, stat", probe_of_perf), ("gdb dprintf", dprintf)):
            ns = peer(options.calls, 20_000_000, options.rounds)
            if ns is None:
                print(f"{name:18}skipped, it is not there")
                continue
            rows[name] = {"ns": ns, "more_ns": ns - floor, "over_empty": (ns - floor) / rows["empty"]["more_ns"]}
            print(f"{name:18}{ns:8.1f}{ns - floor:8.1f}   {rows[name]['over_empty']:.0f} times an empty probe", flush=True)
        if os.path.exists("/usr/bin/python3"):
            seconds, sites, stood = applied(options.watchctl, probes, options.rounds)
            rows["applied"] = {"sites": sites, "us_a_site": seconds / sites * 1e6, "stood_ms": stood}
            print(f"python3, entry *: {sites} sites planned, patched and taken out in {seconds:.2f} s: {seconds / sites * 1e6:.1f} us a site; "
                  f"threads stood {stood:.2f} ms at most")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump({"plain_ns": floor, **rows}, f, indent=1)


main()
