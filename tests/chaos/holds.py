"""How long the threads of a program stand still for a tracer, by the kernel's account: its scheduler's trace (tracefs).

A thread that is made to run system calls stops several times in a row. That is one hold: what it runs in between is
not its own. Times are those of CLOCK_MONOTONIC.
"""
import collections
import os
import re
import subprocess
from pathlib import Path

SWITCH = re.compile(r"\s([\d.]+): sched_switch: prev_comm=(.*?) prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> "
                    r"next_comm=(.*?) next_pid=(\d+) ")
OWN_S = 200e-6  # who runs on for so long runs for itself
BUFFER_KB = 32768

Hold = collections.namedtuple("Hold", "tid begin end")


class Holds:
    """Of all processes whose threads are named *name*. None without the right to trace: make()."""

    def __init__(self, name, root):
        self.name, self.root = name, root
        self.path = root / "instances" / f"watchctl-holds-{os.getpid()}"
        self.path.mkdir()
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", BUFFER_KB)
        self.write("events/sched/sched_switch/filter", f'prev_comm == "{name}" || next_comm == "{name}"')
        self.write("events/sched/sched_switch/enable", 1)

    @staticmethod
    def make(name, folder):
        root = Path(folder, "tracing")
        root.mkdir()
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", root], capture_output=True).returncode:
            return None
        return Holds(name, root)

    def write(self, file, value):
        (self.path / file).write_text(f"{value}\n")

    def end(self):
        """What there was, by time; takes the trace down."""
        try:
            self.write("tracing_on", 0)
            lost = sum(int(n) for p in self.path.glob("per_cpu/cpu*/stats")
                       for n in re.findall(r"(?:overrun|dropped events): (\d+)", p.read_text()))
            with open(self.path / "trace", encoding="ascii", errors="replace") as f:
                found = holds_of(f, self.name)
        finally:
            self.close()
        if lost:
            raise SystemExit(f"stalls: {lost} events of the scheduler's trace were lost: nothing is known of holds")
        return found

    def close(self):
        if self.path.exists():
            self.path.rmdir()
        subprocess.run(["umount", self.root], check=False)


def holds_of(lines, name):
    open_at, went_on, found = {}, {}, []

    def close(tid):
        begin = open_at.pop(tid)
        if went_on.get(tid, 0) > begin:
            found.append(Hold(tid, begin, went_on[tid]))

    for line in lines:
        m = SWITCH.search(line)
        if not m:
            continue
        at, out, state, into = float(m[1]), int(m[3]), m[4], int(m[6])
        if m[2] == name:
            own = out in open_at and at - went_on.get(out, at) > OWN_S
            if out in open_at and (own or not state.startswith(("t", "R"))):
                close(out)
            if state.startswith("t"):
                open_at.setdefault(out, at)
        if m[5] == name:
            went_on[into] = at
    for tid in list(open_at):
        close(tid)
    return sorted(found, key=lambda h: h.begin)
