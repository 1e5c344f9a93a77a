#!/usr/bin/python3
"""Proof of traces of real programs: they do what they do without, no call is missing, each has its end.

usage: WATCHCTL=build/bin/watchctl tests/proof/traces.py [--only PROGRAM] [--seed N] [--part K/N] [--quick]

All functions of a program and of two of its libraries are traced, launched and, of servers, attached, with and without
a limit to the rate. What it prints and how it ends must be what it is without watchctl; nearly all functions must be
traced, the account of calls must add up, and the log have an end for each call. Of programs that do the same in every
run, calls by function are compared with callgrind's counts. Exit status 1 if anything is wrong.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import patch_oracles
import proof
import trace_oracles
import trace_programs
from patch_scene import Checks, Ran

TRACED_WANTED, TRACED_WANTED_OF = 99.0, {"python3": 98.0}
LIMIT_S = 300
BUFFER = ["--buffer", "512M"]
RATES = {"default": [], "unlimited": ["--max-rate", "0"]}
COUNTING_RATES = [2000, 200, 20]  # what is called more often is counted and not recorded, so that nothing is lost


class Scene(Checks):
    def __init__(self, folder, seed, quick):
        super().__init__(seed)
        self.folder, self.quick, self.exits, self.table = Path(folder).resolve(), quick, patch_oracles.Exits(), {}
        trace_programs.prepare(self.folder)

    def argv(self, p):
        return p.small if self.quick else p.argv

    def log(self, p):
        return p.where(self.folder) / "trace.log"

    def words(self, p, options):
        words = [proof.watchctl(), "trace", "-q", "--output", "trace.said", "--force", "-o", "trace.log"]
        return words + [*p.options, *options] + [word for module in p.modules for word in ("--in", str(module))]

    def print_table(self):
        self.say(f"\n{'program':17} {'functions':>9} {'refused':>7} {'share':>8} {'exits not patched':>17}")
        for name, s in self.table.items():
            self.say(f"{name:17} {s.functions + s.refused:9} {s.refused:7} {s.share:6.2f} % {s.exits_refused:17}")


def finished(scene, p, words, env=None):
    """Runs it, and talks with a server once; what the process has printed, the answers, and its status."""
    process = p.begin(words, scene.folder, env)
    killer = threading.Timer(LIMIT_S, process.kill)
    killer.start()
    try:
        answers = b""
        if p.waits:
            p.wait(process, scene.folder)
            answers = p.talk(process, scene.folder)
            p.stop(process, scene.folder)
        out, err = process.communicate()
    finally:
        killer.cancel()
        process.kill()
        process.wait()
    return out + answers, err, process.returncode


def wait_status(returncode):
    return returncode << 8 if returncode >= 0 else -returncode


def plain(scene, p):
    out, err, status = finished(scene, p, scene.argv(p))
    return Ran(out, err, wait_status(status))


def launched(scene, p, options, env=None):
    """A run: what the program has done under watchctl, the session, and the log."""
    scene.exits.forget()
    out, err, status = finished(scene, p, [*scene.words(p, options), "--", *scene.argv(p)], env)
    said = err.decode(errors="replace")
    if status:
        raise proof.Failure(f"watchctl: exit status {status}: {said[-400:]}")
    session = trace_oracles.Session(said)
    err = b"".join(line for line in err.splitlines(True) if not line.startswith(b"watchctl: "))
    return Ran(out, err, scene.exits.status(session.pid)), session, trace_oracles.Log(scene.log(p))


def judged(scene, p, session, log, wrong):
    least = TRACED_WANTED_OF.get(p.name, TRACED_WANTED)
    scene.table[p.name] = session
    if not wrong and session.share < least:
        wrong = f"less than {least} % of the functions are traced"
    return wrong or session.wrong() or log.wrong(session), f"{session}; {log.told()}"


def check_launched(scene, p, options, before):
    ran, session, log = launched(scene, p, options)
    wrong, said = judged(scene, p, session, log, ran.unlike(before))
    return wrong, said + ("; how it ended is not known" if ran.status is None else "")


def check_attached(scene, p, options):
    """A server answers before, during and after a session what it answers without one."""
    def served(do):
        process = p.begin(scene.argv(p), scene.folder)
        try:
            p.wait(process, scene.folder)
            answers = [p.talk(process, scene.folder), do(process), p.talk(process, scene.folder)]
            p.stop(process, scene.folder)
            out, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.wait()
        return Ran(b"".join(answers) + out, err, wait_status(process.returncode))

    said = []

    def traced(process):
        read_end, write_end = os.pipe()
        words = [*scene.words(p, options), "-p", str(p.pid(process)), "--ready-fd", str(write_end)]
        w = subprocess.Popen(words, cwd=p.where(scene.folder), pass_fds=[write_end], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(write_end)
        ready = os.read(read_end, 1)
        os.close(read_end)
        try:
            answer = p.talk(process, scene.folder) if ready else b""
        finally:
            w.send_signal(signal.SIGINT)
            said.append(w.communicate(timeout=LIMIT_S)[1])
        if w.returncode or not ready:
            raise proof.Failure(f"watchctl: exit status {w.returncode}: {said[-1][-400:]}")
        return answer

    expected = served(lambda process: p.talk(process, scene.folder))
    ran = served(traced)
    session = trace_oracles.Session(said[-1])
    wrong = ran.unlike(expected) or (None if session.called else "no call was seen")
    return judged(scene, p, session, trace_oracles.Log(scene.log(p)), wrong)


def counted(scene, p, env):
    """Runs it until nothing is lost; the session, and its calls by function."""
    for rate in COUNTING_RATES:
        _, session, log = launched(scene, p, [*BUFFER, "--max-rate", str(rate)], env)
        wrong = session.wrong() or log.wrong(session, each=False)
        if wrong:
            raise proof.Failure(wrong)
        if not session.lost:
            for where in log.unplaced:
                del log.calls[where]
            return session, log
    raise proof.Failure(f"{session.lost} calls were lost with --max-rate {rate}: nothing is compared")


def check_counts(scene, p):
    counts = trace_oracles.executed(scene.argv(p), scene.folder, p.env, p.open_stdin(scene.folder))
    env = trace_oracles.environment_of_executed(scene.folder, p.env)
    session, log = counted(scene, p, env)
    compared = trace_oracles.Compared(p.modules, counts, log, lambda: counted(scene, p, env)[1].calls,
                                      session.refused, p.unlike)
    return compared.verdict(), str(compared)


def run(scene, only, part):
    number, parts = map(int, part.split("/"))
    programs = [p for i, p in enumerate(trace_programs.PROGRAMS) if only in ("", p.name) and i % parts == number]
    random.Random(scene.seed).shuffle(programs)
    for p in programs:
        if p.missing:
            scene.say(f"skip {p.name}: {p.missing}")
            continue
        p.prepare(scene.folder)
        attached_only = isinstance(p, trace_programs.PostgresBackend)
        before = None if attached_only else plain(scene, p)
        for rate, options in RATES.items():
            if before:
                scene.check(f"{p.name} launched, {rate} rate",
                            lambda p=p, options=options, before=before: check_launched(scene, p, options, before))
            if p.waits:
                scene.check(f"{p.name} attached, {rate} rate",
                            lambda p=p, options=options: check_attached(scene, p, options))
        if p.counted and shutil.which("valgrind"):
            scene.check(f"{p.name} counted", lambda p=p: check_counts(scene, p))


def main():
    parser = argparse.ArgumentParser()
    names = [p.name for p in trace_programs.PROGRAMS]
    parser.add_argument("--only", default="", choices=["", *names], metavar="PROGRAM", help=", ".join(names))
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--part", default="0/1", help="K/N: every Nth program, from the Kth (0 is the first)")
    parser.add_argument("--quick", action="store_true", help="a small input of each program")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="watchctl-traces-") as folder:
        scene = Scene(folder, o.seed, o.quick)
        run(scene, o.only, o.part)
    scene.print_table()
    scene.end("traces")
    return 1 if scene.failed or not scene.checks else 0


if __name__ == "__main__":
    sys.exit(main())
