"""Programs that hang in a known way (tests/victims/hangs.c), and what watchctl flow explain says of them."""
import json
import subprocess
import tempfile
import time

from conftest import WAIT, WATCHCTL


NO_BPF = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-all"]


class Hang:
    """A scene that runs: whom a user would ask about, who is to blame, and what it is."""

    def __init__(self, program, scene):
        self.folder = tempfile.TemporaryDirectory(prefix="hangs")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen([program, scene], cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.ask, self.culprits, self.verdict = self.process.pid, set(), None
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "ready":
                return
            if word == "ask":
                self.ask = int(rest[0])
            elif word == "culprit":
                self.culprits.add((int(rest[0]), int(rest[1])))
            else:
                self.verdict = rest[0]
        raise AssertionError(f"{scene} ended before it hung")

    def end(self):
        self.process.kill()
        self.process.wait(timeout=WAIT)
        for pid, _ in self.culprits:
            subprocess.run(["kill", "-KILL", str(pid)], check=False, stderr=subprocess.DEVNULL)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def explain(pid, *options, program=WATCHCTL, prefix=()):
    r = subprocess.run([*prefix, program, "flow", "explain", "-p", str(pid), "--json", *options], capture_output=True, text=True, timeout=WAIT,
                       check=False)
    assert r.returncode == 0, r.stderr
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    assert lines[0]["type"] == "answer"
    return lines


def of_type(lines, kind):
    return [x for x in lines if x["type"] == kind]


def blamed(lines):
    first = of_type(lines, "culprit")
    return (first[0]["pid"], first[0]["tid"]) if first else None


def explained(hang, *options, prefix=(), arrived=lambda lines: True):
    """The explanation when it blames the right thread, and @arrived, which it does once all threads are where they hang; or the last one."""
    end = time.monotonic() + WAIT
    while True:
        lines = explain(hang.ask, *options, prefix=prefix)
        right = blamed(lines) in hang.culprits and (not hang.verdict or lines[0]["verdict"] == hang.verdict)
        if (right and arrived(lines)) or time.monotonic() > end:
            return lines
