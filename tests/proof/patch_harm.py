"""Patches that come and go in a program that checks itself, with watchctls that are killed: nothing of the program's may be changed."""
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import proof

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from as_found import code_of  # noqa: E402

PATTERNS = ["entry *", "@call", "@syscall", "@locked", "@ret", "@branch", "@store", "mov *, *", "push *", "cmp *, *", "lea *, *", "test *, *"]


def mappings(pid):
    """All but heap and stack; what malloc has reserved for a thread, of which more and more becomes writable, is one."""
    found = []
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            span, access, _, _, _, *name = line.split()
            start, end = (int(a, 16) for a in span.split("-"))
            if name in (["[heap]"], ["[stack]"]):
                continue
            plain = not name and access in ("rw-p", "---p")
            if plain and found and found[-1][2] == "anonymous" and found[-1][1] == start:
                found[-1] = (found[-1][0], end, "anonymous")
            else:
                found.append((start, end, "anonymous" if plain else f"{access} {' '.join(name)}"))
    return found


def difference(code, now):
    if now == code:
        return None
    changed = [start + i for start in code if start in now for i, (a, b) in enumerate(zip(code[start], now[start])) if a != b]
    return f"{len(changed)} bytes of code differ, the first at {changed[0]:#x}" if changed else "other code is mapped"


class Victim:
    def __init__(self, folder):
        self.said = folder / "hammer.out"
        self.out, self.err = open(self.said, "wb"), open(folder / "hammer.err", "w+b")
        self.process = subprocess.Popen(["./patch_hammer"], cwd=folder, env=proof.BASE_ENV, stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.err)
        self.pid = self.process.pid
        self.wait_until(lambda: self.lines() > 2)
        self.code, self.maps = code_of(self.pid), mappings(self.pid)

    def lines(self):
        return self.said.read_bytes().count(b"\n")

    def checks(self):
        return int(self.said.read_bytes().splitlines()[-2].split()[0])

    @staticmethod
    def wait_until(ready, seconds=30):
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def wrong(self):
        """None: alive, and all as it was."""
        if self.process.poll() is not None:
            self.err.seek(0)
            return f"the victim has ended with {self.process.returncode}: {self.err.read().decode()[:300]}"
        return difference(self.code, code_of(self.pid))

    def stuck(self):
        """No thread of its checks, or its first thread does not go on."""
        before, lines = self.checks(), self.lines()
        if not self.wait_until(lambda: self.process.poll() is not None or (self.lines() > lines + 2 and self.checks() > before)):
            return "the victim makes no checks any more"
        return None

    def end(self):
        self.process.kill()
        self.process.wait()


def cycle(victim, folder, chance, killed):
    """One session: what it did, what is wrong with it or with the victim then (or None), and whether it was killed with patches in place."""
    where = chance.choice([[], ["--in", "libc.so.6"], ["--in", "patch_hammer"]])
    words = ["patch", "-p", str(victim.pid), "--at", chance.choice(PATTERNS), *where, "--call", chance.choice(["hit", "value", "stack"]), "-q",
             "-t", "100" if killed else f"{chance.uniform(0.01, 0.3):.3f}", "probes.c"]
    what, in_place = f"watchctl {' '.join(words)}", False
    w = subprocess.Popen([proof.watchctl(), *words], cwd=folder, env=proof.BASE_ENV, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if killed:
        after = chance.uniform(0.02, 1.5)
        what += f", killed after {after:.3f} s"
        time.sleep(after)
        w.kill()
    said = w.communicate(timeout=proof.TIMEOUT)[1]
    nowhere = w.returncode == 5 and "the pattern fits nowhere" in said
    if w.returncode != (-9 if killed else 0) and not nowhere:
        return what, f"exit status {w.returncode}: {said[-300:]}", in_place
    if killed and victim.process.poll() is None:
        in_place = code_of(victim.pid) != victim.code
        cleared = subprocess.run([proof.watchctl(), "clear", "-p", str(victim.pid)], capture_output=True, text=True, timeout=proof.TIMEOUT)
        if cleared.returncode != 0:
            return what, f"watchctl clear: exit status {cleared.returncode}: {cleared.stderr[-300:]}", in_place
    return what, victim.wrong(), in_place


def harm(folder, cycles, seed, say):
    """What is wrong, as sentences; and a sentence about all that was done."""
    chance, found, kills, left = random.Random(seed), [], 0, 0
    victim = Victim(folder)
    try:
        for number in range(cycles):
            what, wrong, in_place = cycle(victim, folder, chance, killed=number % 2 == 1)
            kills += number % 2
            left += in_place
            wrong = wrong or (victim.stuck() if number % 20 == 19 else None)
            if wrong:
                found.append(f"cycle {number} of seed {seed}: {what}: {wrong}")
                say(found[-1])
                if victim.process.poll() is not None or re.search("code", wrong):
                    break
        wrong = victim.process.poll() is None and victim.stuck()
        if wrong:
            found.append(wrong)
        if victim.process.poll() is None and mappings(victim.pid) != victim.maps:
            changed = set(mappings(victim.pid)) ^ set(victim.maps)
            found.append("the mappings differ: " + ", ".join(f"{a:#x}-{b:#x} {what}" for a, b, what in sorted(changed)[:6]))
        checks = victim.checks()
    finally:
        victim.end()
    return found, f"{number + 1} cycles, {kills} kills, {left} of them with patches in place; {checks} self-checks of the victim"
