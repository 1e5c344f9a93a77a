"""What `watchctl trace` costs: entry and exit of an empty function, recorded and switched off, against two rdtsc and two stores of 16 bytes (the
floor) on the same machine; beside it XRay, uftrace, a uprobe with a uretprobe, and `watchctl step`; the log's bytes for a call, and how many
calls a second are read; whole programs; and redis-server under load, beside perf.

The function's program measures itself, floor and call in the same process: the median of its rounds. Of so few calls that there is room for all
in memory that was used before; in the pause behind a round the reader takes them. "into fresh memory" are more. "more": than the plain call.
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
BURST, BURSTS, PAUSE_MS = 40_000, 25, 50  # calls that the memory holds which is there from the beginning, of two threads
REDIS_PORT = 7399
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


def compiled(folder, name, compiler, *options):
    """compile_calls.c; None: there is no such compiler."""
    program = os.path.join(folder, name)
    source = os.path.join(HERE, "compile_calls.c")
    done = shutil.which(compiler) and run(compiler, "-O2", *options, source, "-lpthread", "-o", program)
    return program if done and not done.returncode else None


def call_and_floor(rounds, *command):
    """Medians of ns for a call, and for two rdtsc and two stores; and what the last run has said."""
    done = [run(*command) for _ in range(rounds)]
    return *(statistics.median(float(re.search(rf"^{name} ([\d.]+)", d.stdout, re.M).group(1)) for d in done) for name in ("call", "floor")), done[-1].stderr


def in_a_burst(o, program, threads, log):
    """ns of a recorded call, of the floor, bytes of the log for one, calls that were lost."""
    words = [o.watchctl, "trace", "--max-rate", 0, "--function", "leaf", "-o", log, "--force", "--", program, threads, BURST, BURSTS, PAUSE_MS]
    ns, floor, said = call_and_floor(1, *words)
    _, recorded, lost, _ = counts(said)
    return ns, floor, size_of(log) / recorded, lost


def size_of(log):
    return sum(os.path.getsize(os.path.join(log, f)) for f in os.listdir(log))


def traced(watchctl, options, program, calls, rounds, log):
    """ns of a call, bytes of the log for one, calls that were lost."""
    done = run(watchctl, "trace", *options, "--function", "site", "--buffer", "1G", "-o", log, "--force", "--", program, calls, rounds)
    _, recorded, lost, _ = counts(done.stderr)
    return statistics.median(times(done.stdout)), size_of(log) / max(recorded, 1), lost


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


def row(rows, name, ns, plain_ns, floor, rest=""):
    if ns is None:
        print(f"{name:30}  skipped")
        return
    rows[name] = {"ns": ns, "more_ns": ns - plain_ns, "of_floor": ns / floor}
    print(f"{name:30}{ns:10.1f}{ns - plain_ns:10.1f}{ns / floor:10.2f}  {rest}", flush=True)


def typed(o, folder):
    """Parameters and results by their types: (name, ns) of each kind, without and with recording. Bursts that fit the buffers."""
    program = os.path.join(folder, "typed_calls")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, os.path.join(os.path.dirname(__file__), "typed_calls.c")], check=True)
    words = [program, 50_000, 2 * o.rounds + 1]
    bare = dict(re.findall(r"^(\w+) ([\d.]+)$", run(*words).stdout, re.M))
    done = run(o.watchctl, "trace", "--args", "--max-rate", 0, "--force", "-o", os.path.join(folder, "typed"), "--", *words)
    return [(f"--args, {name}", float(ns), float(bare[name])) for name, ns in re.findall(r"^(\w+) ([\d.]+)$", done.stdout, re.M)]


def one_call(o, folder):
    rows, log = {}, os.path.join(folder, "log")
    program = compiled(folder, "calls", "gcc")
    bare, floor, _ = call_and_floor(o.rounds, program, 1, 2_000_000)
    print(f"a call, plain: {bare:.2f} ns; two rdtsc and two stores: {floor:.2f} ns\n{'entry and exit':30}{'ns':>10}{'more':>10}{'of floor':>10}")
    for threads in 1, 2:
        ns, floor_then, size, lost = in_a_burst(o, program, threads, log)
        row(rows, f"recorded{', 2 threads' if threads == 2 else ''}", ns, bare, floor_then, f"{size:.0f} bytes of log, {lost} lost")
    for name, options, calls in (("recorded, into fresh memory", ["--max-rate", 0], 200_000), ("recorded, --args", ["--max-rate", 0, "--args"], 100_000),
                                 ("switched off", ["--max-rate", 1], 5_000_000)):
        ns, size, lost = traced(o.watchctl, options, o.calls, calls, o.rounds, log)
        row(rows, name, ns, bare, floor, "" if name == "switched off" else f"{size:.0f} bytes of log, {lost} lost")
    for name, ns, of_it in typed(o, folder):
        row(rows, name, ns, of_it, floor)
    xray = compiled(folder, "calls-xray", "clang-19", "-fxray-instrument", "-fxray-instruction-threshold=1")
    settings = "XRAY_OPTIONS=patch_premain=true xray_mode=xray-fdr xray_logfile_base=" + os.path.join(folder, "xray-")
    row(rows, "XRay, flight recorder", xray and call_and_floor(o.rounds, "env", settings, xray, 1, 2_000_000)[0], bare, floor)
    row(rows, "uftrace -P", uftrace(o.calls, 200_000, o.rounds, folder), bare, floor)
    row(rows, "uprobe + uretprobe", uprobes(o.calls, 200_000, o.rounds), bare, floor)
    row(rows, "watchctl step", stepped(o.watchctl, o.calls, folder), bare, floor)
    return {"plain_ns": bare, "floor_ns": floor, **rows}


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


def requests(rounds):
    """SET requests a second of a server that runs."""
    said = [run("redis-benchmark", "-p", REDIS_PORT, "-t", "set", "-n", 300_000, "-P", 16, "-q").stdout for _ in range(rounds)]
    return statistics.median(float(re.findall(r"([\d.]+) requests per second", text)[-1]) for text in said)


def redis(o, folder):
    rows = {}
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        return rows
    server = subprocess.Popen(["redis-server", "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no", "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        while run("redis-cli", "-p", REDIS_PORT, "ping").stdout.strip() != "PONG":
            time.sleep(0.05)
        print(f"\n{'redis-server, SET -P 16':34}{'requests/s':>12}{'of plain':>10}")
        for name, *words in (("plain",), ("all functions traced", o.watchctl, "trace", "-p", server.pid, "-o", os.path.join(folder, "redis.log")),
                             ("perf record -g", "perf", "record", "-g", "-p", server.pid, "-o", os.path.join(folder, "perf.data"))):
            if words and not shutil.which(words[0]):
                continue
            tracer = subprocess.Popen([str(w) for w in words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) if words else None
            if tracer and "watchctl" in str(words[0]):
                while "traced in" not in tracer.stderr.readline():
                    pass
            elif tracer:
                time.sleep(1)
            rows[name] = requests(o.rounds)
            said = ""
            if tracer:
                tracer.send_signal(signal.SIGINT)
                said = next((line for line in tracer.communicate()[1].splitlines() if " recorded, " in line), "")
            print(f"{name:34}{rows[name]:12.0f}{rows[name] / rows['plain']:10.2f}  {said[said.find(':') + 2:said.find(';')] if said else ''}", flush=True)
    finally:
        server.kill()
        server.wait()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--calls", required=True, help="the program that calls")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"call": one_call(options, folder), "reading": reading(options, folder), "programs": whole_programs(options, folder),
                 "redis": redis(options, folder)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


main()
