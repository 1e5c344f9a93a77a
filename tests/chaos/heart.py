"""Does a watched program get on? Against one of the same kind that nobody watches, at the same time: a busy machine is
as busy for the one as for the other. What a thread has waited for a CPU, by the scheduler's account, is not held up;
nor is what watchctl itself has waited for one: a traced thread stands until its tracer runs; nor is what the host of a
virtual machine has kept a CPU from it for, which may be the watched program's, and not the other's.
"""
import collections
import os
import threading
import time
from pathlib import Path

WINDOW_S = 0.5
EVERY_S = 0.02
LATE_S = 0.2  # so long after its end a window may be looked at: else the machine has no time for whoever looks either
ENOUGH = 20  # beats of the control's in a window: of fewer, nothing can be said

Sample = collections.namedtuple("Sample", "at beats usual waited")
Freeze = collections.namedtuple("Freeze", "beat seconds beats usual")


class Waited:
    """How long a thread has waited for a CPU, all told, also when another thread takes its place."""

    def __init__(self):
        self.tid, self.last, self.total = 0, 0, 0.0

    def look(self, pid, tid):
        try:
            now = int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[1]) / 1e9
        except OSError:
            return self.total
        if tid == self.tid:
            self.total += max(0.0, now - self.last)
        self.tid, self.last = tid, now
        return self.total


def schedstats(pid):
    """What each thread of a process has waited for a CPU until now, in seconds."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            found[task.parent.name] = int(task.read_text().split()[1]) / 1e9
        except OSError:
            pass
    return found


def family(pid):
    """A process, its children, and theirs: the tracer of the ptrace engine is one of its guard's."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                yield from family(int(child))
        except OSError:
            pass


class WatcherWaited:
    """
    How long whoever watches has waited for a CPU: of its threads, that which waited longest, look by look. Helpers of a session
    that was killed are nobody's children, and still have to let go of the program.
    """

    def __init__(self):
        self.last, self.total, self.members = {}, 0.0, set()

    def look(self, pids):
        now, found = {}, self.members | {member for pid in pids for member in family(pid)}
        self.members = set()
        for member in found:
            stats = schedstats(member)
            if stats:
                self.members.add(member)
                now.update(stats)
        self.total += max((t - self.last.get(tid, t) for tid, t in now.items()), default=0.0)
        self.last = now
        return self.total


class Stolen:
    """How long the host has let a CPU of this machine stand (proc(5), /proc/stat: steal): look by look that which stood longest."""

    TICK_S = 1 / os.sysconf("SC_CLK_TCK")

    def __init__(self):
        self.last, self.total = self.read(), 0.0

    def read(self):
        with open("/proc/stat") as f:
            return [int(line.split()[8]) for line in f if line.startswith("cpu") and line[3].isdigit()]

    def look(self):
        now = self.read()
        self.total += max((b - a for a, b in zip(self.last, now)), default=0) * self.TICK_S
        self.last = now
        return self.total


class Heart:
    """Looks at both until stop(). The beats: of a thread that accesses what is watched, of one that does not."""

    BEATS = ("who accesses", "bystander")

    def __init__(self, watched, control, watchers=list):
        """@watchers() says which processes of watchctl there are now."""
        self.pair, self.watchers, self.watcher_waited = (watched, control), watchers, WatcherWaited()
        self.stolen = Stolen()
        self.samples = [[], []]
        self.waited = [[Waited(), Waited()] for _ in self.BEATS]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(EVERY_S) and not self.pair[0].page.over:
            self.look()

    def look(self):
        now, pages = time.monotonic(), [o.page for o in self.pair]
        beats, watcher = [list(p.beats) for p in pages], self.watcher_waited.look(self.watchers())
        watcher += self.stolen.look()
        for i, waited in enumerate(self.waited):
            mine, other = (w.look(o.pid, p.tid[i]) for w, o, p in zip(waited, self.pair, pages))
            self.samples[i].append(Sample(now, beats[0][i], beats[1][i], mine - other + watcher))

    def stop(self):
        self.over.set()
        self.thread.join()

    def freezes(self, shares, window=WINDOW_S):
        """Where it had less than its share of the usual progress, one for each beat at most: the worst."""
        found = []
        for i, share in enumerate(shares):
            worst = worst_window(self.samples[i], share, window)
            if worst:
                found.append(Freeze(self.BEATS[i], *worst))
        return found


def worst_window(samples, share, window):
    worst, k = None, 0
    for a in samples:
        while k < len(samples) and samples[k].at - a.at < window:
            k += 1
        if k == len(samples):
            break
        b = samples[k]
        seconds, beats, usual = b.at - a.at, b.beats - a.beats, b.usual - a.usual
        if seconds > window + LATE_S:
            continue
        there = min(1.0, max(0.0, 1 - (b.waited - a.waited) / seconds))  # of the time, the machine had for it
        if usual * there >= ENOUGH and beats < share * usual * there and (not worst or beats / usual < worst[1] / worst[2]):
            worst = (round(seconds, 3), beats, usual)
    return worst
