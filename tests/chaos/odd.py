"""The odd programs (odd.h), as the driver sees them: the page that is shared, who belongs to them, what was left in them.

The layout is that of odd.h.
"""
import ctypes
import json
import mmap
import os
import re
import signal
import subprocess
from pathlib import Path

from target import PATIENCE_S, Failure, free_registers, wait_for

u32, u64 = ctypes.c_uint32, ctypes.c_uint64
FIRST, DESCENDANT, OLD = range(3)
FOREIGN = re.compile(r"^\S+ (r-xp \S+ \S+ 0 *$|rw-s .*/dev/zero)|watchctl(?!-chaos)")
TRAP = 1 << (signal.SIGTRAP - 1)


class Page(ctypes.Structure):
    _fields_ = [("magic", u64), ("hold", u32), ("quiet", u32), ("epoch", u32), ("over", u32), ("late", u32), ("execute", u32), ("watched", u32),
                ("active", u32), ("forking", u32), ("closed", u32), ("executed", u32), ("failed", u32), ("tid", u32 * 2),
                ("beats", u64 * 2), ("writes", u64 * 3), ("before_exec", u64 * 3), ("address", u64), ("born", u64),
                ("ended", u64), ("faults", u64), ("checks", u64), ("failure", ctypes.c_char * 256)]


class Odd:
    """One of them, with all that it has forked."""

    number = 0

    def __init__(self, program, folder, kind, word, traps):
        Odd.number += 1
        self.kind, self.word, self.traps = kind, word, traps
        self.path = os.path.join(folder, f"odd{Odd.number}-")
        with open(self.path, "wb") as f:
            f.truncate(ctypes.sizeof(Page))
        with open(self.path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), ctypes.sizeof(Page))
        self.page = Page.from_buffer(self.memory)
        self.process = subprocess.Popen([program, self.path, kind, word, traps], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)
        said = self.process.stdout.readline().split()
        if not said:
            raise Failure(f"{self} did not start: status {self.process.wait()}")
        self.pid = int(said[1])
        wait_for(lambda: (self.page.magic and all(self.page.tid)) or self.dead(), f"{self} does not start")
        self.first = self.snapshot()

    def __str__(self):
        return f"odd {self.kind} {self.word} {self.traps}"

    def dead(self):
        return self.process.poll() is not None

    def failure(self):
        if self.page.failed:
            return f"{self}: self-check failed: {self.page.failure.decode(errors='replace')}"
        if self.dead() and not (self.page.over and self.process.returncode == 0):
            return f"{self} died: status {self.process.returncode}"
        return None

    def check(self):
        why = self.failure()
        if why:
            raise Failure(why)

    # What it has done

    def hold(self):
        """No access is made, and none is under way."""
        self.page.hold = 1
        self.wait_while("active")

    def release(self):
        self.page.hold = self.page.quiet = 0

    def quiet(self):
        self.page.quiet = 1
        self.wait_while("forking")

    def wait_while(self, field):
        wait_for(lambda: not getattr(self.page, field) or self.failure(), f"{self} does not come to rest ({field})")
        self.check()

    def new_epoch(self):
        """Whoever is forked from now on is counted anew: call it while it is held and quiet."""
        self.page.epoch += 1
        self.page.writes[DESCENDANT] = 0

    def writes(self, follow, before_exec=False):
        counts = self.page.before_exec if before_exec else self.page.writes
        return counts[FIRST] + (counts[DESCENDANT] if follow else 0)

    # Who belongs to it, and what was left in them

    def family(self):
        found = []
        for p in Path("/proc").iterdir():
            try:
                if p.name.isdigit() and self.path.encode() in (p / "cmdline").read_bytes() and int(p.name) != os.getpid():
                    found.append(int(p.name))
            except OSError:
                continue
        return found

    def is_other(self, pid):
        """Of one of these programs, not of watchctl; ours is reaped by who started it."""
        try:
            return b"/odd" in Path(f"/proc/{pid}/cmdline").read_bytes() or pid == self.process.pid
        except OSError:
            return True

    def snapshot(self):
        maps = [line for line in maps_of(self.pid) if not line.endswith("[heap]")]
        status = Path(f"/proc/{self.pid}/status").read_text()
        return {"maps": maps, "signals": re.findall(r"^(SigIgn|SigCgt|SigBlk|Seccomp|TracerPid):\s*(\S+)", status, re.M)}

    def moves(self):
        """Its own mappings come and go."""
        return self.kind in ("tls", "pages")

    def left_in(self, pid):
        """What of a watch is in one of its processes; an empty list if nothing is, or if it has ended."""
        try:
            found = [line for line in maps_of(pid) if FOREIGN.search(line)]
            status = Path(f"/proc/{pid}/status").read_text()  # one that is ending has no threads to list
            for task in Path(f"/proc/{pid}/task").iterdir():
                status = (task / "status").read_text()
                tracer = re.search(r"^TracerPid:\s*(\d+)", status, re.M)
                if int(tracer[1]):
                    found.append(f"thread {task.name} is traced by {tracer[1]}")
                if re.search(r"^State:\s*[tT]", status, re.M):
                    found.append(f"thread {task.name} is stopped")
            caught, ignored = (int(re.search(rf"^{s}:\s*(\S+)", status, re.M)[1], 16) & TRAP for s in ("SigCgt", "SigIgn"))
            if bool(caught) != (self.traps == "own") or bool(ignored) != (self.traps == "ignored"):
                found.append(f"SIGTRAP is {'caught' if caught else 'ignored' if ignored else 'default'}")
        except OSError:
            return []
        return found if Path(f"/proc/{pid}/exe").exists() else []

    def nothing_left(self, watchctl, ptrace):
        for pid in self.family():
            found = self.left_in(pid)
            if found:
                raise Failure(f"left in {'a child' if pid != self.pid else 'the program'} of {self} ({pid}): {found}")
        self.check_whole()
        r = subprocess.run([watchctl, "list", "-p", str(self.pid), "--json"], capture_output=True, text=True, timeout=120)
        for o in map(json.loads, r.stdout.splitlines()):
            reserved = ptrace and o.get("registers") == []  # by the kernel, once ptrace has set one
            if o.get("used") and not reserved or o["type"] == "holder" and o["certain"]:
                raise Failure(f"left in {self}: {o}")
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            free = free_registers(int(tid), self.page.address)
            if free < (2 if ptrace else 4):
                raise Failure(f"left in {self}: thread {tid} has {free} debug registers left")

    def check_whole(self):
        now = self.snapshot()
        for what in ("signals",) if self.moves() else ("signals", "maps"):
            if now[what] != self.first[what]:
                more = [x for x in now[what] if x not in self.first[what]]
                less = [x for x in self.first[what] if x not in now[what]]
                raise Failure(f"left in {self}: {what} differ: now {more}, before {less}")

    # Its end

    def finish(self):
        """It says itself that all was well, and so does each of its descendants."""
        self.release()
        self.page.over = 1
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self} does not end") from None
        wait_for(lambda: not self.family(), lambda: f"descendants of {self} do not end: {self.family()}")
        self.check()
        if self.page.born != self.page.ended:
            raise Failure(f"{self}: {self.page.born} descendants were born, {self.page.ended} ended as they should")

    def kill(self):
        self.page.over = 1
        for pid in [self.process.pid, *self.family()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self.process.stdout.close()
        os.unlink(self.path)


def maps_of(pid):
    return [re.sub(r"^(\S+) (\S+) (\S+) (\S+) (\S+) *(.*)$", r"\1 \2 \3 \4 \5 \6", line).strip()
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
