"""One run of a program with and without patches, and what is said of it: what the checks of patches.py share."""
import collections
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import patch_oracles
import patch_workloads
import proof

TACTICS = ("jump", "padding", "nop", "pun")
RUN_LIMIT = 300
NOTHING_CAN_BE_PATCHED, NO_SITE = 7, 5  # exit statuses of watchctl's


class Ran:
    """What a program has printed, without numbers of processes, and how it ended (as wait(2) has it; None: not known)."""

    def __init__(self, out, err, status):
        self.out, self.err = (re.sub(rb"\(process \d+\)", b"(process)", text) for text in (out, err))
        self.status = status

    def unlike(self, other):
        for name in ("out", "err"):
            a, b = getattr(self, name), getattr(other, name)
            if a != b:
                at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                return f"std{name} differs at byte {at} of {len(a)}: {a[at:at + 80]!r}, not {b[at:at + 80]!r}"
        if None not in (self.status, other.status) and self.status != other.status:
            return f"it ended with {self.status:#x}, not {other.status:#x} (as wait(2) has it)"
        return None


class Session:
    """What watchctl has said of one session in one module: its sites, and how often each was reached, by address in the module."""

    def __init__(self, lines):
        self.pid, self.sites, self.counts = None, {}, collections.Counter()
        for line in lines:
            e = json.loads(line)
            if e["type"] == "process":
                self.pid = e["pid"]
            elif e["type"] == "patch_site":
                self.sites[int(e["module_offset"], 16)] = (e["tactic"], re.sub(r"0x[0-9a-f]+", "ADDRESS", e["reason"]))
            elif e["type"] == "probe_total":
                self.counts[int(e["module_offset"], 16)] += e["count"]

    @property
    def patched(self):
        return [a for a, (tactic, _) in self.sites.items() if tactic in TACTICS]

    def seen(self):
        """address: count, of those that are patched"""
        return {a: self.counts[a] for a in self.patched}

    @property
    def share(self):
        return 100 * len(self.patched) / max(1, len(self.sites))

    def reasons(self):
        return collections.Counter(reason for tactic, reason in self.sites.values() if tactic not in TACTICS)


class Checks:
    """Checks so far, each of which has a line."""

    def __init__(self, seed):
        self.seed, self.failed, self.checks, self.began = seed, [], 0, time.monotonic()

    def say(self, text):
        print(text, flush=True)

    def check(self, name, do):
        """Runs one check; its line. do() returns what is wrong, or None, and a sentence about what was found."""
        began = time.monotonic()
        try:
            wrong, said = do()
        except (proof.Failure, subprocess.TimeoutExpired) as e:
            wrong, said = str(e)[:600], ""
        self.checks += 1
        if wrong:
            self.failed.append(name)
        self.say(f"{'FAIL' if wrong else 'ok  '} {name}: {'; '.join(s for s in (wrong, said) if s)} ({time.monotonic() - began:.1f} s)")

    def end(self, name):
        self.say(f"\n{name}: {self.checks} checks with seed {self.seed}, {len(self.failed)} failed, in {time.monotonic() - self.began:.0f} s"
                 + "".join(f"\n  {name}" for name in self.failed))


class Scene(Checks):
    """A folder with all that the workloads need, and the checks so far."""

    def __init__(self, folder, seed):
        super().__init__(seed)
        self.folder, self.exits, self.table = Path(folder).resolve(), patch_oracles.Exits(), []
        patch_workloads.prepare(self.folder)

    def print_table(self):
        self.say(f"\n{'class':8} {'module':15} {'sites':>7} {'patched':>7} {'share':>8} {'refused':>7}  refused because")
        for kind, module, s in self.table:
            why = "; ".join(f"{n} {reason}" for reason, n in s.reasons().most_common(5))
            share = f"{s.share:.2f} %" if s.sites else "-"
            self.say(f"{kind:8} {module:15} {len(s.sites):7} {len(s.patched):7} {share:>8} {len(s.sites) - len(s.patched):7}  {why}")

    def run(self, w, words):
        return subprocess.run(words, cwd=self.folder, env={**proof.BASE_ENV, **w.env}, stdin=w.open_stdin(self.folder),
                              capture_output=True, timeout=RUN_LIMIT)

    def plain(self, w, argv):
        r = self.run(w, argv)
        return Ran(r.stdout, r.stderr, r.returncode << 8 if r.returncode >= 0 else -r.returncode)

    def patched(self, w, argv, where, module, fixed=False):
        """Runs it with patches; what the program did, and what watchctl said. @fixed: without address randomization."""
        log = self.folder / "log"
        shutil.rmtree(log, ignore_errors=True)
        words = ["setarch", "-R"] if fixed else []
        words += [proof.watchctl(), "patch", *where, "--in", str(module), "--call", "hit", "probes.c", "-q", "--output", "said", "-o", "log", "--"]
        self.exits.forget()
        r = self.run(w, words + argv)
        said = r.stderr.decode(errors="replace")
        if r.returncode == NOTHING_CAN_BE_PATCHED and "sites can be patched" in said:
            return None, self.planned(where, module)
        if r.returncode == NO_SITE and "the pattern fits nowhere" in said:
            return None, Session([])
        if r.returncode != 0:
            raise proof.Failure(f"watchctl: exit status {r.returncode}: {said[-400:]}")
        report = subprocess.Popen([proof.watchctl(), "report", "--json", str(log)], stdout=subprocess.PIPE)
        session = Session(report.stdout)
        if report.wait() != 0:
            raise proof.Failure(f"watchctl report: exit status {report.returncode}")
        err = b"".join(line for line in r.stderr.splitlines(True) if not line.startswith(b"watchctl: "))
        return Ran(r.stdout, err, self.exits.status(session.pid)), session

    @staticmethod
    def planned(where, module):
        """Where nothing can be patched, nothing is recorded: the sites are those of the plan."""
        r = subprocess.run([proof.watchctl(), "patch", "--plan", *where, "--json", str(module)], capture_output=True, check=True)
        return Session(r.stdout.replace(b'"addr"', b'"module_offset"').splitlines())
