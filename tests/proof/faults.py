#!/usr/bin/python3
"""Proof by injected faults: makes one library call of a real program fail, and asks diff which call went wrong first.

usage: WATCHCTL=build/bin/watchctl tests/proof/faults.py [-n COUNT] [-j JOBS] [PROGRAM ...]

Right is: the first difference that diff names is that call, with the exact stack, as glibc's backtrace() told it to
the interposer (fail_nth.c) in the moment it failed. Exit status 0 if at least 95 % are right.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import programs
import proof

WANTED = 0.95


class Scene:
    """A folder with the workloads' files, the interposer, and the good log of each program."""

    def __init__(self, folder, keep):
        self.folder, self.keep = Path(folder).resolve(), keep
        (self.folder / "work").mkdir()
        programs.prepare(self.folder / "work")
        self.interposer = self.folder / "fail_nth.so"
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", "-fno-builtin", "-fPIC", "-shared",
                        str(proof.HERE / "fail_nth.c"), "-o", str(self.interposer), "-ldl"], check=True)

    def run(self, program, name, call, nth):
        """Records it with that fault, in a folder like any other; the log, and what the interposer has reported."""
        place = self.folder / name
        shutil.copytree(self.folder / "work", place)
        (place / "plan").write_text(f"{Path(program.argv[0]).name} {call} {nth}\n")
        env = {**program.env, "LD_PRELOAD": str(self.interposer), "FAIL_PLAN": "plan"}
        proof.record(place / "log", program.argv, place, ["--aslr", *program.step, "--step-over", "fail_nth*"], env)
        report = place / "plan.report"
        return place / "log", report.read_text().splitlines() if report.exists() else []

    def counts(self, program):
        """Records the good run: how often each function was called in it."""
        log, report = self.run(program, f"{program.name}-good", "none", 0)
        return log, {w[1]: int(w[2]) for w in (line.split() for line in report) if w[0] == "count" and w[2] != "0"}


def spread(counts, n):
    """About n of all calls: of every function some, from its first call to its last."""
    chosen, left = [], dict(counts)
    while left and n > len(chosen):
        share = max(1, (n - len(chosen)) // len(left))
        name = min(left, key=left.get)
        count, take = left.pop(name), 0
        take = min(count, share)
        chosen += [(name, 1 + i * count // take) for i in range(take)]
    return chosen[:n]


def plain(name):
    return name[:-2] if name.endswith("64") else name


def judge(scene, program, good, call, nth):
    """None if diff was right; else what it said."""
    name = f"{program.name}-{call}-{nth}"
    try:
        log, report = scene.run(program, name, call, nth)
        if not report or not report[0].startswith("failed"):
            return "the call was not reached"
        _, objects = proof.diff(good, log)
    except (proof.Failure, subprocess.TimeoutExpired) as e:
        return str(e)
    finally:
        if not scene.keep:
            shutil.rmtree(scene.folder / name, ignore_errors=True)
    return wrong_with(proof.first_difference(objects), call, report)


def wrong_with(first, call, report):
    """Of a call that is made again after it has failed, the failed one may be what is told to be more."""
    if not first:
        return "no difference"
    bad = first.get("bad", {})
    failed = bad.get("ret", {}).get("value") in ("NULL", "-1", "0")
    if plain(bad.get("function", "")) != plain(call) or not (first["kind"] == "result" or failed):
        return f"another call: {first['text']}"
    chain = [int(line, 16) for line in report[1:]]
    if proof.addresses(bad) != chain:
        return f"another stack: {[hex(a) for a in proof.addresses(bad)]}, not {[hex(a) for a in chain]}"
    return None


def prove(chosen, total, jobs, keep=None):
    """Runs about @total injections over the programs; (right, all), and prints those that were wrong."""
    folder = keep or tempfile.mkdtemp(prefix="watchctl-faults-")
    try:
        scene, work = Scene(folder, keep), []
        counted = sorted(((p, *scene.counts(p)) for p in chosen), key=lambda c: sum(c[2].values()))
        for i, (program, good, counts) in enumerate(counted):
            share = -(-(total - len(work)) // (len(counted) - i))
            work += [(program, good, call, nth) for call, nth in spread(counts, share)]
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(lambda w: judge(scene, *w), work))
    finally:
        if not keep:
            shutil.rmtree(folder)
    for (program, _, call, nth), wrong in zip(work, results):
        if wrong:
            print(f"{program.name}: {call} {nth}: {wrong}")
    return results.count(None), len(results)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=320)
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("--keep", help="a new folder for all files, which stay")
    parser.add_argument("program", nargs="*")
    o = parser.parse_args()
    chosen = [p for p in programs.PROGRAMS if p.faults and (not o.program or p.name in o.program)]
    if o.keep:
        Path(o.keep).mkdir()
    right, count = prove(chosen, o.n, o.j, o.keep)
    print(f"injected faults: {count} in {len(chosen)} programs, {right} named with the exact stack "
          f"({right / count:.1%})")
    return 0 if right >= WANTED * count else 1


if __name__ == "__main__":
    sys.exit(main())
