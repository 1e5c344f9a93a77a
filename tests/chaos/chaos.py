#!/usr/bin/python3
"""Chaos: watchctl comes and goes, is killed, stopped and starved, on a program that checks itself all the while.

    chaos.py --watchctl PROGRAM --program CHAOS --odd ODD [--seconds N] [--cycles N] [--seed N] [--kinds A,B] [--json FILE]

What happens is drawn from the seed, cycle by cycle; when it fails, the message names what is needed to run that
cycle again. Most kinds of cycle (kinds.py) are done to one program, 150 of them. The others (odd_kinds.py) have programs
of their own, each: what is found there is told at once, and the cycles go on.
Exit status: 0, all as promised; 1, something failed; 2, usage; 77, this machine cannot.
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import kinds
import odd_kinds
from session import LIBC, PR_SET_CHILD_SUBREAPER, Session, Watch
from target import PAUSE_US, Failure, Target, wait_for

GENERATION = 150  # cycles on one program, which is then compared with what it was, and ends
REPORT_S = 20
CLEAR_EVERY = 25
MOST_FINDINGS = 20
ODD = {k for _, k in odd_kinds.KINDS}
NAMES = {k.__name__ for _, k in [*kinds.KINDS, *kinds.PTRACE_KINDS, *odd_kinds.KINDS]}
COLUMNS = ["cycles", "kills", "deaths", "freezes", "hits", "findings"]


class MemoryGroup:
    """A group with little memory, where the kernel kills who takes more. None where there are no such groups."""

    def __init__(self):
        self.path = Path(f"/sys/fs/cgroup/memory/watchctl-chaos-{os.getpid()}")
        self.path.mkdir()

    @staticmethod
    def make():
        try:
            return MemoryGroup()
        except OSError:
            return None

    def limit(self, size):
        (self.path / "memory.limit_in_bytes").write_text(str(size))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)
        return None


def make_tiny_disk(folder):
    """A file system that is soon full; None without the right to mount."""
    path = os.path.join(folder, "tiny")
    os.mkdir(path)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k,mode=700", "tmpfs", path], capture_output=True)
    return path if made.returncode == 0 else None


class Chaos:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.watchctl, self.seed = arguments.watchctl, arguments.seed
        self.tiny_disk, self.cgroup = make_tiny_disk(folder), MemoryGroup.make()
        self.counts = collections.Counter()
        self.by_kind = collections.defaultdict(collections.Counter)
        self.findings = []
        self.totals = collections.Counter()
        self.sessions = []
        self.target, self.pause_us = None, PAUSE_US
        self.used_ptrace = False
        self.kinds, self.ptrace_kinds = self.choose_kinds()
        self.cycle = self.orphans = 0
        self.ptrace = False
        self.address = 0
        self.life = 0.2
        self.random = random.Random(self.seed)
        self.kind = None
        self.began = time.monotonic()
        self.reported = self.began

    def close(self):
        """Whatever happened: nothing is left running, mounted or made."""
        if self.target:
            self.target.kill()
            for stranger in self.strangers():
                os.kill(int(stranger.split()[0]), signal.SIGKILL)
        if self.cgroup:
            self.cgroup.remove()
        if self.tiny_disk:
            subprocess.run(["umount", self.tiny_disk], check=False)

    def choose_kinds(self):
        """Of what was asked for: those for a program that ptrace has not touched yet, and those for one that it has."""
        asked = self.arguments.kinds and self.arguments.kinds.split(",")
        return [[(n, k) for n, k in [*table, *odd_kinds.KINDS] if not asked or k.__name__ in asked]
                for table in (kinds.KINDS, kinds.PTRACE_KINDS)]

    def count(self, what, n=1):
        self.counts[what] += n
        if self.kind:
            self.by_kind[self.kind.__name__][what] += n

    def sleep(self, least, most):
        time.sleep(self.random.uniform(least, most))

    def choose(self, table):
        return self.random.choices([k for _, k in table], [n for n, _ in table])[0]

    def say(self, what):
        if self.arguments.verbose:
            print(f"    {time.monotonic() - self.began:8.3f} {what}", file=sys.stderr, flush=True)

    # A program for some cycles.

    def begin(self, generation):
        chance = random.Random(f"{self.seed}/program {generation}")
        self.kind = None
        self.ptrace = chance.random() < 0.3 and bool(self.ptrace_kinds)
        if all(k in ODD for _, k in self.kinds + self.ptrace_kinds):
            return
        traps = chance.choice(["default", "own", "ignored"])
        self.target = Target(self.arguments.program, self.folder, traps, self.seed + generation)
        self.orphans = 0
        self.address = self.address_of_quiet()
        self.life = self.measure_life()
        self.count("programs")

    def address_of_quiet(self):
        r = subprocess.run([self.watchctl, "-p", str(self.target.pid), "-v", "chaos_quiet", "-s", "8", "-t", "0.01", "--json"],
                           capture_output=True, text=True, timeout=120)
        for line in r.stdout.splitlines():
            o = json.loads(line)
            if o["type"] == "armed":
                return int(o["addr"], 16)
        raise Failure(f"nothing can be watched: status {r.returncode}: {r.stderr}")

    def measure_life(self):
        """Of a session that nobody disturbs, as long as they are on this machine, now."""
        lives = []
        for _ in range(3):
            began = time.monotonic()
            s = Session(self.watchctl, self.target.pid, self.folder, [Watch("chaos_alpha", "-w")], ["-q", "-t", "0.05"])
            if s.wait():
                raise Failure(f"{s}: status {s.process.returncode}: {s.error()}")
            lives.append(time.monotonic() - began)
            s.forget()
        return statistics.median(lives) * 1.1

    def end(self):
        """Nothing is left, nothing has grown, and it says itself that all is well."""
        if not self.target:
            return
        if self.orphans:
            kinds.clear(self)
        with self.target.resting(kinds.HOLD):
            kinds.nothing_left(self)
        for name, n in self.target.totals().items():
            self.totals[name] += n
        self.target.finish()
        self.target = None

    def gone(self):
        """Waits until no process that a session has made is left; they are our children when their parents have died."""
        wait_for(lambda: not self.strangers(), lambda: f"processes are left: {self.strangers()}")

    def helpers_gone(self, odd):
        """The same, where descendants of an odd program may have become our children."""
        wait_for(lambda: not self.strangers(odd.is_other), lambda: f"processes are left: {self.strangers(odd.is_other)}")

    def end_sessions(self):
        """Those of a cycle that went wrong."""
        for s in self.sessions:
            if not s.ended():
                s.process.kill()
                s.process.wait()
        self.sessions.clear()

    def strangers(self, is_other=lambda pid: False):
        found = []
        for p in Path("/proc").iterdir():
            try:
                if p.name.isdigit() and not (self.target and int(p.name) == self.target.pid):
                    name, rest = (p / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                    state, parent = rest.split()[:2]
                    if int(parent) != os.getpid():
                        continue
                    if is_other(int(p.name)):
                        continue
                    if state == "Z":
                        os.waitpid(int(p.name), os.WNOHANG)
                    else:
                        found.append(f"{p.name} {name} {state}")
            except (OSError, ChildProcessError):
                continue
        return found

    # The cycles.

    def run_cycle(self):
        self.random = random.Random(f"{self.seed}/cycle {self.cycle}")
        self.kind = self.choose(self.ptrace_kinds if self.ptrace else self.kinds)
        if self.arguments.verbose:
            print(f"cycle {self.cycle}: {self.kind.__name__}", file=sys.stderr, flush=True)
        self.count("cycles")
        if self.kind in ODD:
            self.run_odd()
        else:
            self.kind(self)
        if self.target:
            self.target.check()
        if self.orphans and self.cycle % CLEAR_EVERY == 0:
            kinds.clear(self)

    def run_odd(self):
        try:
            self.kind(self)
        except Failure as e:
            self.count("findings")
            self.findings.append(f"cycle {self.cycle} ({self.kind.__name__}): {e}")
            print(f"chaos: FINDING in {self.findings[-1]}\nchaos: again: make chaos STALLS= CHAOS_SEED={self.seed} CHAOS_FIRST={self.cycle} "
                  f"CHAOS_ARGS='--cycles 1{' --kinds ' + self.arguments.kinds if self.arguments.kinds else ''}'", file=sys.stderr, flush=True)
            if len(self.findings) >= MOST_FINDINGS:
                raise Failure("too many findings") from e

    def time_is_up(self):
        if self.arguments.cycles:
            return self.cycle >= self.arguments.first + self.arguments.cycles
        return time.monotonic() - self.began > self.arguments.seconds

    def run(self):
        self.cycle = self.arguments.first
        while not self.time_is_up():
            generation = self.cycle // GENERATION
            self.begin(generation)
            while self.cycle // GENERATION == generation and not self.time_is_up():
                self.run_cycle()
                self.cycle += 1
                self.tell_progress()
            self.end()

    def tell_progress(self):
        now = time.monotonic()
        if now - self.reported > REPORT_S:
            self.reported = now
            print(f"chaos: {now - self.began:.0f} s, {self.cycle - self.arguments.first} cycles, {self.counts['kills']} kills, "
                  f"{self.counts['hits']} hits accounted for", file=sys.stderr, flush=True)

    def summary(self):
        return {"type": "chaos", "seed": self.seed, "seconds": round(time.monotonic() - self.began, 1),
                "cycles": self.cycle - self.arguments.first, "counts": dict(sorted(self.counts.items())), "findings": self.findings,
                "kinds": {k: {c: counts[c] for c in COLUMNS} for k, counts in sorted(self.by_kind.items())},
                "program": dict(self.totals)}


def print_summary(s):
    print(f"chaos: {s['cycles']} cycles in {s['seconds']:.0f} s, seed {s['seed']}: "
          f"{s['counts'].get('kills', 0)} kills, {s['counts'].get('programs', 0)} programs, "
          f"{s['counts'].get('deaths', 0)} deaths, {s['counts'].get('freezes', 0)} freezes, {len(s['findings'])} findings, "
          f"{s['program'].get('checks', 0) + s['counts'].get('checks of odd programs', 0)} self-checks")
    print(f"    {'kind':18}" + "".join(f"{c:>10}" for c in COLUMNS))
    for kind, counts in s["kinds"].items():
        print(f"    {kind:18}" + "".join(f"{counts[c]:10}" for c in COLUMNS))
    for name, n in s["counts"].items():
        print(f"    {n:9}  {name}")
    for name, n in s["program"].items():
        print(f"    {n:9}  {name} (the program's)")


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--watchctl", required=True)
    p.add_argument("--program", required=True)
    p.add_argument("--odd", required=True)
    p.add_argument("--seconds", type=float, default=180)
    p.add_argument("--cycles", type=int, default=0, help="end after so many, whatever the time")
    p.add_argument("--seed", type=int, default=int(time.time()) % 1000000)
    p.add_argument("--first", type=int, default=0, help="the cycle to begin with")
    p.add_argument("--kinds", help="only these, with commas in between: " + ", ".join(sorted(NAMES)))
    p.add_argument("--json", help="write the summary here")
    p.add_argument("--verbose", action="store_true")
    arguments = p.parse_args(argv)
    unknown = set(arguments.kinds.split(",") if arguments.kinds else []) - NAMES
    if unknown:
        p.error(f"no such kind: {', '.join(sorted(unknown))}")
    return arguments


def have_hardware(watchctl):
    r = subprocess.run([watchctl, "-v", "0x1", "-s", "1", "--", "/bin/true"], capture_output=True, text=True)
    return "no hardware debug registers" not in r.stderr


def run_to_the_end(chaos):
    """What failed; None if nothing did."""
    try:
        chaos.run()
        return None
    except Failure as e:
        why = str(e)
    except Exception:  # a fault of the driver's: the program's state is worth knowing all the same
        why = traceback.format_exc()
    return f"{why}\n    the program: {chaos.target.failure() or 'lives'}" if chaos.target else why


def main(argv):
    arguments = parse(argv)
    if os.geteuid() or not have_hardware(arguments.watchctl):
        print("chaos: skipped: it needs root, and a machine with debug registers", file=sys.stderr)
        return 77
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"chaos: CHAOS_SEED={arguments.seed}", file=sys.stderr, flush=True)
    folder = tempfile.mkdtemp(prefix="watchctl-chaos-")
    chaos = Chaos(arguments, folder)
    try:
        why = run_to_the_end(chaos)
        summary = chaos.summary()
    finally:
        chaos.close()
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        summary["failed"] = why
        Path(arguments.json).write_text(json.dumps(summary) + "\n")
    if why:
        print(f"chaos: FAILED in cycle {chaos.cycle} ({chaos.kind.__name__ if chaos.kind else 'at the beginning'}): {why}\n"
              f"chaos: again: make chaos CHAOS_SEED={arguments.seed} CHAOS_FIRST={chaos.cycle // GENERATION * GENERATION}",
              file=sys.stderr)
        return 1
    print_summary(summary)
    return 1 if chaos.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
