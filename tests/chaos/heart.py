"""Does a watched program get on? Against one of the same kind that nobody watches, at the same time: a busy machine is
as busy for the one as for the other. What a thread has waited for a CPU, by the scheduler's account, is not held up.
"""
import collections
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


class Heart:
    """Looks at both until stop(). The beats: of a thread that accesses what is watched, of one that does not."""

    BEATS = ("who accesses", "bystander")

    def __init__(self, watched, control):
        self.pair = (watched, control)
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
        beats = [list(p.beats) for p in pages]
        for i, waited in enumerate(self.waited):
            mine, other = (w.look(o.pid, p.tid[i]) for w, o, p in zip(waited, self.pair, pages))
            self.samples[i].append(Sample(now, beats[0][i], beats[1][i], mine - other))

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
