#!/usr/bin/python3
"""Proof of explanations of recorded hangs: who is blamed for a hang that was recorded must be who is to blame.

usage: WATCHCTL=build/bin/watchctl tests/proof/explain_log.py [--only NAME] [--text]

All scenes of tests/victims/hangs.c, recorded by `watchctl flow record` while they come to hang, and explained from the
log. A scene is recorded again if the first culprit is not right, as it may still have been on its way; the last one
counts. Exit status 1 if the first culprit is right in less than WANTED percent of the scenes that show in events.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import proof

E2E = Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))

import conftest  # noqa: E402
import hang_scenes  # noqa: E402
import recipes  # noqa: E402

WANTED = 90.0
TRIES = 2
HANGS_S = 1
# No event says who is to blame in these: which descriptors poll() has, who has a lock of fcntl(2), who traces.
NOT_IN_EVENTS = ["poll_stopped", "file_lock", "traced"]


class Recording:
    """The system's events, from when it has begun to the end of the block."""

    def __init__(self, log):
        ready, told = os.pipe()
        with open(ready, "rb") as f:
            self.process = subprocess.Popen([proof.watchctl(), "flow", "record", "-o", log, "--force", "--ready-fd", str(told)],
                                            pass_fds=[told], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            os.close(told)
            if not f.read(1):
                raise proof.Failure(self.process.communicate()[1].decode()[-400:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=proof.TIMEOUT)


def explain(log, *options):
    r = subprocess.run([proof.watchctl(), "flow", "explain", log, "--json", *options], capture_output=True, text=True, timeout=proof.TIMEOUT,
                       check=False)
    if r.returncode:
        raise proof.Failure(f"watchctl: exit status {r.returncode}: {r.stderr[-400:]}")
    return [json.loads(line) for line in r.stdout.splitlines()]


def record_scene(program, scene, log):
    """What is said of it, and who is to blame."""
    with Recording(log):
        hang = hang_scenes.Hang(program, scene)
        time.sleep(HANGS_S)
    try:
        return explain(log, "--to", str(hang.ask)), hang.culprits
    finally:
        hang.end()


def rank_of(lines, culprits):
    return next((x["rank"] for x in lines if x["type"] == "culprit" and (x.get("pid"), x["tid"]) in culprits), None)


def run(folder, o):
    program, copy = Path(folder) / "hangs", Path(folder) / "hangs.c"
    copy.write_text((conftest.VICTIMS / "hangs.c").read_text().replace('"/tmp/', f'"{folder}/'))
    recipes.compile_copy("hangs", copy, program)
    n = right = 0
    wrong = []
    for scene in subprocess.check_output([program], text=True).split():
        if (o.only and scene != o.only) or (not o.only and scene in NOT_IN_EVENTS):
            continue
        for _ in range(TRIES):
            lines, culprits = record_scene(program, scene, f"{folder}/log")
            rank = rank_of(lines, culprits)
            if rank == 1:
                break
        n += 1
        right += rank == 1
        if rank != 1:
            wrong.append(scene)
        print(f"{scene:24} {'right' if rank == 1 else 'WRONG'} {rank or '-':>4} {lines[0]['verdict']:15}", flush=True)
        if rank != 1 or o.text:
            print(f"    to blame {sorted(culprits)}: {lines[0]['text']}", flush=True)
    share = 100 * right / max(1, n)
    print(f"\nexplain-log: {n} recorded hangs, the culprit first in {right} ({share:.1f} %)"
          f"{'; not in ' + ', '.join(wrong) if wrong else ''}; {len(NOT_IN_EVENTS)} do not show in events")
    return 1 if share < WANTED else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="NAME", help="one scene")
    parser.add_argument("--text", action="store_true", help="the sentence of each, not only of those that are wrong")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="watchctl-explain-log-") as folder:
        return run(folder, o)


if __name__ == "__main__":
    sys.exit(main())
