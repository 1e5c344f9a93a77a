#!/usr/bin/python3
"""Proof of explanations of hangs: who is blamed for a hang that was made on purpose must be who is to blame.

usage: WATCHCTL=build/bin/watchctl tests/proof/explain.py [--only NAME] [--quick] [--peers] [--limit SECONDS] [--text]

All scenes of tests/victims/hangs.c, and hangs of packaged programs (explain_programs.py). Each is explained until the
first culprit is right or RETRY_S have passed, in which it may still be on its way to where it hangs; the last
explanation counts. Exit status 1 if the first culprit is right in less than 90 %, or an explanation takes longer than
the limit, which holds on a machine that does nothing else.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import explain_programs
import proof

E2E = Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import conftest  # noqa: E402
import hang_scenes  # noqa: E402
import recipes  # noqa: E402

RETRY_S = 10
PEER_LIMIT_S = 10  # neither comes back from a thread in D state
WANTED = 90.0
QUICK_SCENES = ["mutex_io", "lock_order", "rpc_circle", "file_lock_heir", "join_spinner"]
QUICK_PROGRAMS = ["pipeline", "git-hook", "redis-stopped"]
PEERS = {"gdb": ["gdb", "-q", "-nx", "-batch", "-ex", "thread apply all bt", "-p"], "eu-stack": ["eu-stack", "-p"]}
PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h


def explain(pid, *options):
    """The objects that it prints, and the seconds that it took."""
    began = time.monotonic()
    r = subprocess.run([proof.watchctl(), "flow", "explain", "-p", str(pid), "--json", *options], capture_output=True, text=True,
                       timeout=proof.TIMEOUT, check=False)
    took = time.monotonic() - began
    if r.returncode:
        raise proof.Failure(f"watchctl: exit status {r.returncode}: {r.stderr[-400:]}")
    return [json.loads(line) for line in r.stdout.splitlines()], took


class Explained:
    """The last explanation of a hang."""

    def __init__(self, hung, limit_s=RETRY_S):
        self.seconds, end = 0, time.monotonic() + limit_s
        while True:
            self.lines, took = explain(hung.ask)
            self.seconds = max(self.seconds, took)
            culprits = [x for x in self.lines if x["type"] == "culprit"]
            self.rank = next((x["rank"] for x in culprits if hung.is_right(x)), None)
            if self.rank == 1 or time.monotonic() > end:
                break
        self.verdict, self.text = self.lines[0].get("verdict") or "none", self.lines[0]["text"]

    @property
    def right(self):
        return self.rank == 1


class Report:
    def __init__(self, o):
        self.o, self.n, self.right, self.lost, self.slowest, self.skipped, self.broken = o, 0, 0, [], (0, ""), [], []

    def head(self, kind):
        peers = "".join(f" {name:>9}" for name in PEERS) if self.o.peers else ""
        print(f"\n{kind:24} {'':5} {'rank':>4} {'verdict':15} {'seconds':>7}{peers}", flush=True)

    def skip(self, name, why):
        self.skipped.append(name)
        print(f"{name:24} skip: {why}", flush=True)

    def fail(self, name, why):
        """A hang that could not be made, or not be explained at all."""
        self.n += 1
        self.broken.append(name)
        print(f"{name:24} broken: {why}", flush=True)

    def add(self, name, hung, result):
        self.n += 1
        self.right += result.right
        if result.rank is None:
            self.lost.append(name)
        self.slowest = max(self.slowest, (result.seconds, name))
        peers = "".join(f" {peer_seconds(words, hung.ask):>9}" for words in PEERS.values()) if self.o.peers else ""
        print(f"{name:24} {'right' if result.right else 'WRONG'} {result.rank or '-':>4} {result.verdict:15} {result.seconds:7.2f}{peers}",
              flush=True)
        if not result.right or self.o.text:
            wanted = " or ".join(f"{pid}" if tid in (None, pid) else f"{pid}, thread {tid}" for pid, tid in sorted(hung.culprits, key=str))
            print(f"    asked about {hung.ask}, to blame {wanted}: {result.text}", flush=True)
        if not result.right and self.o.all:
            subprocess.run([proof.watchctl(), "flow", "explain", "-p", str(hung.ask), "--all", "--frames", "4"], check=False, timeout=proof.TIMEOUT)

    def end(self):
        share = 100 * self.right / max(1, self.n)
        print(f"\nexplain: {self.n} hangs, the culprit first in {self.right} ({share:.1f} %), "
              f"only wrong ones in {len(self.lost)}{': ' + ', '.join(self.lost) if self.lost else ''}; "
              f"{len(self.broken)} broken{': ' + ', '.join(self.broken) if self.broken else ''}; "
              f"{len(self.skipped)} skipped; the slowest explanation took {self.slowest[0]:.2f} s ({self.slowest[1]})")
        wrong = []
        if share < WANTED:
            wrong.append(f"less than {WANTED:g} % are right")
        if self.slowest[0] > self.o.limit:
            wrong.append(f"an explanation took longer than {self.o.limit:g} s")
        print("explain: " + ("; ".join(wrong) or "as it should be"))
        return 1 if wrong or not self.n else 0


def peer_seconds(words, pid):
    """How long another tool takes to print the stacks of this process alone."""
    if not shutil.which(words[0]):
        return "-"
    began = time.monotonic()
    try:
        subprocess.run([*words, str(pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                       timeout=PEER_LIMIT_S, env={**os.environ, "DEBUGINFOD_URLS": ""})
    except subprocess.TimeoutExpired:
        return f"> {PEER_LIMIT_S}"
    return f"{time.monotonic() - began:.2f}"


def explain_scene(report, program, scene):
    h = hang_scenes.Hang(program, scene)
    try:
        hung = explain_programs.Hung(h.ask, h.culprits, [h.verdict] if h.verdict else [])
        report.add(scene, hung, Explained(hung))
    finally:
        h.end()


def explain_program(report, p):
    if p.missing:
        report.skip(p.name, p.missing)
        return
    with tempfile.TemporaryDirectory(prefix="watchctl-explain-") as folder, explain_programs.Room(folder) as room:
        hung = p.make(room)
        report.add(p.name, hung, Explained(hung))


def attempt(report, name, do, *args):
    try:
        do(report, *args)
    except (proof.Failure, AssertionError, LookupError, OSError, subprocess.SubprocessError, ValueError) as e:
        report.fail(name, f"{type(e).__name__}: {str(e)[:300]}")


def chosen(names, quick, o):
    return [n for n in names if (not o.only or n == o.only) and (not o.quick or o.only or n in quick)]


def run(report, folder, o):
    program, copy = Path(folder) / "hangs", Path(folder) / "hangs.c"
    # Files that it leaves go with the folder.
    copy.write_text((conftest.VICTIMS / "hangs.c").read_text().replace('"/tmp/', f'"{folder}/'))
    recipes.compile_copy("hangs", copy, program)
    scenes = chosen(subprocess.check_output([program], text=True).split(), QUICK_SCENES, o)
    if scenes:
        report.head("scene")
    for scene in scenes:
        attempt(report, scene, explain_scene, program, scene)
    programs = {p.name: p for p in explain_programs.PROGRAMS}
    names = chosen(programs, QUICK_PROGRAMS, o)
    if names:
        report.head("program")
    for name in names:
        attempt(report, name, explain_program, programs[name])


def end_all():
    """Whoever is left of what was started: as a subreaper, this process is the parent of those whose own has ended."""
    while mine := explain_programs.family([os.getpid()], sessions=False) - {os.getpid()}:
        for pid in mine:
            os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="NAME", help="one scene or program")
    parser.add_argument("--quick", action="store_true", help="five scenes and three programs")
    parser.add_argument("--peers", action="store_true", help="also how long gdb and eu-stack take for stacks of the process")
    parser.add_argument("--limit", type=float, default=2, metavar="SECONDS", help="that an explanation may take (2)")
    parser.add_argument("--text", action="store_true", help="the sentence of each explanation, not only of those that are wrong")
    parser.add_argument("--all", action="store_true", help="all that is known of each that is wrong")
    o = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    report = Report(o)
    try:
        with tempfile.TemporaryDirectory(prefix="watchctl-explain-") as folder:
            run(report, folder, o)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        end_all()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
