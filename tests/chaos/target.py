"""The self-checking program, as the driver sees it: the page that they share, what it left unchanged, what it has done.

The layout is that of chaos.h.
"""
import collections
import ctypes
import mmap
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

VARIABLES = ["chaos_alpha", "chaos_beta", "chaos_gamma", "chaos_delta"]
HOLD, QUIET = 1, 2
PAUSE_US = 3000
PATIENCE_S = 60  # on a machine that does many things at once

u32, u64 = ctypes.c_uint32, ctypes.c_uint64


class Account(ctypes.Structure):
    _fields_ = [("writes", u64), ("exchanges", u64), ("reads", u64)]


class Thread(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 16), ("beats", u64), ("obeys", u32), ("resting", u32), ("calls", u64),
                ("variable", Account * 4)]


class Page(ctypes.Structure):
    _fields_ = [("magic", u64), ("hold", u32), ("quiet", u32), ("stops", u32), ("code_changes", u32),
                ("losing", u32), ("pause_us", u32), ("over", u32), ("threads", u32), ("failed", u32),
                ("failure", ctypes.c_char * 512),
                ("checks", u64), ("traps", u64), ("ticks", u64), ("queued", u64), ("born", u64), ("children", u64),
                ("mappings", u64), ("thread", Thread * 40)]


class Failure(Exception):
    """What must not happen: the program died, found itself changed, or something does not add up."""


Counts = collections.namedtuple("Counts", "writes exchanges reads calls")


def wait_for(condition, what, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise Failure(what() if callable(what) else what)
        time.sleep(0.001)


class Target:
    def __init__(self, program, folder, traps, seed):
        self.traps = traps
        self.path = os.path.join(folder, "page")
        with open(self.path, "wb") as f:
            f.truncate(ctypes.sizeof(Page))
        self.file = open(self.path, "r+b")
        self.memory = mmap.mmap(self.file.fileno(), ctypes.sizeof(Page))
        self.page = Page.from_buffer(self.memory)
        self.page.pause_us = PAUSE_US
        self.process = subprocess.Popen([program, self.path, traps, str(seed)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.beats, self.beat_at = {}, {}
        self.stopped = False
        wait_for(lambda: self.page.magic or self.process.poll() is not None, "the program did not start")
        self.check()
        time.sleep(0.3)  # what it allocates at its first steps is there
        with self.resting(QUIET | HOLD):
            self.first = self.snapshot()
            self.first_memory = self.resident_kb()

    def failure(self):
        if self.page.failed or self.process.poll() is not None:
            if self.page.failed:
                self.process.wait(timeout=PATIENCE_S)
                return f"self-check failed: {self.page.failure.decode(errors='replace')}"
            return f"the program died: {self.process.returncode}, {self.process.stderr.read().decode()}"
        return None

    def check(self):
        """Alive, nothing found, and every thread gets on."""
        why = self.failure()
        if why:
            raise Failure(why)
        now = time.monotonic()
        for i in range(self.page.threads):
            beats = self.page.thread[i].beats
            if self.beats.get(i) != beats or self.stopped:
                self.beats[i], self.beat_at[i] = beats, now
            elif now - self.beat_at[i] > PATIENCE_S:
                raise Failure(f"thread {self.page.thread[i].name.decode()} stands still: {self.thread_states()}")

    def thread_states(self):
        states = {}
        for tid in self.tids():
            try:
                stat = Path(f"/proc/{self.pid}/task/{tid}/stat").read_text()
                call = Path(f"/proc/{self.pid}/task/{tid}/syscall").read_text().split()[0]
            except OSError:
                continue
            name, rest = stat.split("(", 1)[1].rsplit(")", 1)
            states[tid] = f"{name} {rest.split()[0]} {call}"
        return states

    def tids(self):
        return [int(t) for t in os.listdir(f"/proc/{self.pid}/task")]

    # Rest: while it lasts, no access is made (HOLD), no thread, child or mapping comes or goes (QUIET).

    class Rest:
        def __init__(self, target, what):
            self.target, self.what = target, what

        def __enter__(self):
            self.target.set_rest(self.what, 1)
            return self.target

        def __exit__(self, *exception):
            self.target.set_rest(self.what, 0)

    def resting(self, what):
        return Target.Rest(self, what)

    def set_rest(self, what, value):
        if what & HOLD:
            self.page.hold = value
        if what & QUIET:
            self.page.quiet = value
        if not value:
            return
        threads = [self.page.thread[i] for i in range(self.page.threads)]
        waiting = [t for t in threads if t.obeys & what]
        wait_for(lambda: self.failure() or all(t.resting for t in waiting),
                 lambda: f"the program does not come to rest: {[t.name for t in waiting if not t.resting]}, "
                         f"{self.thread_states()}")
        self.check()

    def account(self):
        """Of each variable, and of calls; exact while it holds."""
        total = []
        for v in range(4):
            mine = [self.page.thread[i].variable[v] for i in range(self.page.threads)]
            total.append(Counts(sum(a.writes for a in mine), sum(a.exchanges for a in mine),
                                sum(a.reads for a in mine), 0))
        return total, sum(self.page.thread[i].calls for i in range(self.page.threads))

    # What must be as it was.

    def snapshot(self):
        status = Path(f"/proc/{self.pid}/status").read_text()
        signals = re.findall(r"^(SigBlk|SigIgn|SigCgt|Seccomp|TracerPid|Threads|NoNewPrivs):\s*(\S+)", status, re.M)
        maps = [re.sub(r"^(\S+) (\S+) .*? (\S*)$", r"\1 \2 \3", line)
                for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines()]
        fds = sorted((int(fd), os.readlink(f"/proc/{self.pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{self.pid}/fd"))
        return {"signals": signals, "maps": maps, "fds": fds}

    def resident_kb(self):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return {k: int(v) for k, v in re.findall(r"^(RssAnon|VmData|VmSize|VmLck):\s*(\d+)", status, re.M)}

    def compare(self):
        """Nothing is left: call it while it rests."""
        now = self.snapshot()
        for what in now:
            if now[what] != self.first[what]:
                more = [x for x in now[what] if x not in self.first[what]]
                less = [x for x in self.first[what] if x not in now[what]]
                raise Failure(f"left in the program: {what} differ: now {more}, before {less}")
        memory = self.resident_kb()
        if memory["RssAnon"] > self.first_memory["RssAnon"] + 2048:
            raise Failure(f"the program's own memory has grown from {self.first_memory} to {memory}")

    # What happens to it.

    def stop(self, seconds):
        """SIGSTOP for a while: some of its calls then answer EINTR, as signal(7) says."""
        self.page.stops += 1
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped = True
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)
        self.stopped = False
        time.sleep(0.005)
        self.page.stops += 1

    def finish(self):
        self.page.hold = self.page.quiet = 0
        self.page.over = 1
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"the program does not end: {self.thread_states()}") from None
        if self.process.returncode:
            raise Failure(self.failure())

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def totals(self):
        names = ["checks", "traps", "ticks", "queued", "born", "children", "mappings"]
        return {name: getattr(self.page, name) for name in names}


# An oracle of its own for debug registers: how many does perf still get in a thread?

LIBC = ctypes.CDLL(None, use_errno=True)
NR_PERF_EVENT_OPEN = 298


def free_registers(tid, address):
    attr = bytearray(128)
    disabled_user_only = 1 | 1 << 5 | 1 << 6
    struct.pack_into("<IIQQQQQ", attr, 0, 5, 112, 0, 0, 0, 0, disabled_user_only)
    struct.pack_into("<IIQQ", attr, 48, 0, 2, address, 1)
    buffer = (ctypes.c_char * 128).from_buffer(attr)
    fds = []
    try:
        while len(fds) < 4:
            fd = LIBC.syscall(NR_PERF_EVENT_OPEN, buffer, tid, -1, -1, 8)
            if fd < 0:
                error = ctypes.get_errno()
                if error not in (28, 3):  # ENOSPC, ESRCH
                    raise OSError(error, "perf_event_open")
                return 4 if error == 3 else len(fds)
            fds.append(fd)
        return 4
    finally:
        for fd in fds:
            os.close(fd)
