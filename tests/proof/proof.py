"""Recording real programs, comparing their logs: what the proofs share."""
import json
import os
import signal
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = 120

# The same for every run; what a shell of the user's may have in it is not the programs' business.
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}


class Failure(Exception):
    """A recording or a comparison that did not work at all."""


def watchctl():
    return os.environ["WATCHCTL"]


def run_group(command, limit_s, **options):
    """As subprocess.run, but at the limit all that the command has started is ended, too."""
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **options) as p:
        try:
            out, err = p.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate()
            raise
    return subprocess.CompletedProcess(command, p.returncode, out, err)


def record(log, argv, folder, options=(), env=None, stdin=subprocess.DEVNULL, limit_s=TIMEOUT):
    """Runs the program to its end; what it printed. With --aslr, it is proved that addresses are no difference."""
    command = [watchctl(), "step", "-q", "-o", str(log), *options, "--", *argv]
    r = run_group(command, limit_s, cwd=folder, env={**BASE_ENV, **(env or {})}, stdin=stdin)
    if r.returncode != 0:
        raise Failure(f"watchctl step: exit status {r.returncode}: {r.stderr.decode(errors='replace')[-500:]}")
    return r.stdout


def diff(*args):
    """The exit status (0 same, 1 different), and the objects that it printed."""
    r = subprocess.run([watchctl(), "diff", "--json", *map(str, args)], capture_output=True, timeout=TIMEOUT)
    if r.returncode not in (0, 1, 3):
        raise Failure(f"watchctl diff: exit status {r.returncode}: {r.stderr.decode(errors='replace')[-500:]}")
    return r.returncode, [json.loads(line) for line in r.stdout.splitlines()]


def function_of(difference):
    return (difference.get("bad") or difference.get("good") or {}).get("function")


def first_difference(objects):
    """The one that comes first in the bad run, of values and of control; None: there is none."""
    found = [o for o in objects if o["type"] == "difference" and o["kind"] != "input"]
    groups = [o for o in objects if o["type"] == "group"]
    for d in found:
        if groups and (d["kind"], function_of(d)) == (groups[0]["kind"], groups[0]["function"]):
            return d
    return found[0] if found else None


def addresses(call):
    """The return addresses of its stack, without inlined functions."""
    return [int(f["ip"], 16) for f in call["stack"] if not f.get("inlined")]
