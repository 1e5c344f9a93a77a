"""What calls cost in programs that calltrace-cc has compiled: recorded and switched off, against two rdtsc and two stores of 16 bytes in the
same run, and beside other ways of the compiler's: hooks by -finstrument-functions, XRay, -pg with uftrace. And SQLite: the time to compile it,
to run it, and the bytes of an event in its log.

Each figure is the median of the rounds; the log is written into memory (/dev/shm) where there is one.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile

LIMIT_S = 600
HERE = os.path.dirname(os.path.abspath(__file__))


def run(*words, env=None, cwd=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, cwd=cwd)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr[-500:]}")
    return done.stdout


def cpu_seconds(*words, env=None):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*words, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def size_of(log):
    return sum(os.path.getsize(os.path.join(log, f)) for f in os.listdir(log))


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.cc = os.path.join(args.build, "bin", "calltrace-cc")

    def at(self, name):
        return os.path.join(self.folder, name)

    def log(self):
        shutil.rmtree(self.at("run.log"), ignore_errors=True)
        return self.at("run.log")

    def compiled(self, name, compiler, *options):
        run(compiler, "-O2", os.path.join(HERE, "compile_calls.c"), *options, "-lpthread", "-o", self.at(name))
        return self.at(name)

    def cost(self, program, threads=1, **env):
        """Medians of (a call, the floor) in ns."""
        rounds = []
        for _ in range(self.args.rounds):
            more = {k: self.log() if v == "LOG" else v for k, v in env.items()}
            said = run(program, threads, self.args.calls, env=more, cwd=self.folder)
            rounds.append([float(re.search(rf"^{what} (.*)$", said, re.M)[1]) for what in ("call", "floor")])
        return [statistics.median(column) for column in zip(*rounds)]

    def calls(self):
        traced = self.compiled("traced", self.cc)
        plain, floor = self.cost(self.compiled("plain", "clang-19"))
        yield "two rdtsc and two stores of 16 bytes: the floor", floor, floor
        yield "a call, not traced", plain, floor
        yield "calltrace, off", *self.cost(traced, CALLTRACE_OUTPUT="")
        yield "calltrace, flight recorder", *self.cost(traced, CALLTRACE_OUTPUT="LOG", CALLTRACE_RING="1M")
        yield "calltrace, flight recorder, two threads", *self.cost(traced, threads=2, CALLTRACE_OUTPUT="LOG", CALLTRACE_RING="1M")
        untimed = self.compiled("untimed", self.cc, "--calltrace-no-time")
        yield "calltrace, flight recorder, no times", *self.cost(untimed, CALLTRACE_OUTPUT="LOG", CALLTRACE_RING="1M")
        yield "calltrace, recorded, no times", *self.cost(untimed, CALLTRACE_OUTPUT="LOG")
        yield "calltrace, recorded", *self.cost(traced, CALLTRACE_OUTPUT="LOG")
        yield "calltrace, recorded, two threads", *self.cost(traced, threads=2, CALLTRACE_OUTPUT="LOG")
        run("clang-19", "-O2", "-c", os.path.join(HERE, "compile_hooks.c"), "-o", self.at("hooks.o"))
        yield "-finstrument-functions, hooks with a ring", *self.cost(self.compiled("hooked", "clang-19", "-finstrument-functions", self.at("hooks.o")))
        xray = self.compiled("xray", "clang-19", "-fxray-instrument", "-fxray-instruction-threshold=1")
        yield "XRay, flight recorder", *self.cost(xray, XRAY_OPTIONS="patch_premain=true xray_mode=xray-fdr xray_logfile_base=xray-")
        if shutil.which("uftrace"):
            self.compiled("pg", "gcc", "-pg")
            said = run("uftrace", "record", "--no-libcall", "--no-event", "-b", "64M", "-d", self.at("uftrace"), self.at("pg"), 1, min(self.args.calls, 2000000))
            yield "-pg, uftrace", *[float(re.search(rf"^{what} (.*)$", said, re.M)[1]) for what in ("call", "floor")]

    def sqlite(self):
        source = self.args.sqlite
        load = os.path.join(HERE, "compile_sqlite.c")
        made = {}
        for name, compiler in (("plain", "clang-19"), ("traced", self.cc)):
            objects = [self.at(f"{name}-{i}.o") for i in range(2)]
            took = [cpu_seconds(compiler, "-O2", "-c", os.path.join(source, "sqlite3.c"), "-o", objects[0]) for _ in range(self.args.rounds)]
            run(compiler, "-O2", "-I", source, "-c", load, "-o", objects[1])
            run(compiler, *objects, "-lm", "-o", self.at(f"sqlite-{name}"))
            made[name] = statistics.median(took)
        words = self.args.rows
        ran = {}
        for name, env in (("plain", None), ("off", {"CALLTRACE_OUTPUT": ""}), ("ring", {"CALLTRACE_RING": "1M"}), ("traced", {})):
            program = self.at("sqlite-plain" if name == "plain" else "sqlite-traced")
            ran[name] = statistics.median(cpu_seconds(program, words, env={"CALLTRACE_OUTPUT": self.log(), **(env or {})}) for _ in range(self.args.rounds))
        said = run(self.at("sqlite-plain"), words), run(self.at("sqlite-traced"), words, env={"CALLTRACE_OUTPUT": self.log()})
        if said[0] != said[1]:
            raise SystemExit("SQLite's output is another one with the pass")
        events = sum(json.loads(line)["calls"] * 2 for line in run(self.args.watchctl, "report", "--calls", "--json", self.at("run.log")).splitlines() if '"function_total"' in line)
        size = sum(os.path.getsize(os.path.join(self.at("run.log"), f)) for f in os.listdir(self.at("run.log")) if f.startswith("calls."))
        return {
            "compile_s": made["plain"], "compile_traced_s": made["traced"], "run_s": ran["plain"], "run_off_s": ran["off"], "run_ring_s": ran["ring"], "run_traced_s": ran["traced"],
            "events": events, "bytes_per_event": size / max(events, 1), "log_bytes": size_of(self.at("run.log")),
            "text_ratio": text_of(self.at("sqlite-traced")) / text_of(self.at("sqlite-plain")),
        }


def text_of(program):
    return int(run("size", program).splitlines()[1].split()[0])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    p.add_argument("--watchctl", required=True)
    p.add_argument("--sqlite", help="a folder with sqlite3.c and sqlite3.h")
    p.add_argument("--calls", type=int, default=5000000)
    p.add_argument("--rows", type=int, default=20000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json")
    args = p.parse_args()
    args.build, args.watchctl = os.path.abspath(args.build), os.path.abspath(args.watchctl)
    ret = {"calls": []}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        bench = Bench(args, folder)
        print(f"{'a call':48} {'ns':>8}  {'of the floor':>12}")
        for name, call, floor in bench.calls():
            ret["calls"].append({"name": name, "ns": call, "floor_ns": floor})
            print(f"{name:48} {call:8.2f}  {call / floor:12.2f}", flush=True)
        if args.sqlite:
            s = ret["sqlite"] = bench.sqlite()
            print(f"SQLite, compiled: {s['compile_s']:.2f} s, traced {s['compile_traced_s']:.2f} s: {s['compile_traced_s'] / s['compile_s'] - 1:+.1%}; code x {s['text_ratio']:.2f}")
            print(f"SQLite, run: {s['run_s']:.3f} s, off {s['run_off_s']:.3f} s, flight recorder {s['run_ring_s']:.3f} s, recorded {s['run_traced_s']:.3f} s: {s['events']} events, {s['bytes_per_event']:.2f} bytes each")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(ret, f, indent=1)


if __name__ == "__main__":
    main()
