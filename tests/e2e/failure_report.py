"""
What there was when a test failed: the processes that it had started and had not ended yet, thread by thread, what
watchctl had said, and how busy the machine was. Failures that come once in a thousand runs must explain themselves.
"""
import contextlib
import os
from pathlib import Path

MOST_PROCESSES, MOST_THREADS = 16, 12
STATUS = ("Name", "State", "Tgid", "TracerPid", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Seccomp")

taken = []  # of the test that runs: pictures from where it gave up, before its processes were ended
watches = []  # of the test that runs: every Watch


def take():
    """Where a test gives up: what there is now."""
    if not taken:
        taken.append(picture())


def forget():
    taken.clear()
    watches.clear()


def text():
    return "\n".join(taken or [picture()])


def picture():
    parts = [f"load: {_read('/proc/loadavg')}; pressure: {_read('/proc/pressure/cpu') or 'unknown'}"]
    below = _below(os.getpid())
    parts += [_process(pid) for pid in below[:MOST_PROCESSES]]
    if len(below) > MOST_PROCESSES:
        parts.append(f"and {len(below) - MOST_PROCESSES} more processes")
    for w in watches:
        parts.append(f"watchctl {w.process.pid}, exit status {w.process.poll()}, {len(w.objects)} objects, the last: {w.objects[-3:]}\n"
                     f"its stderr: {''.join(w.said)[-4000:]}")
    return "\n".join(parts)


def _read(path):
    with contextlib.suppress(OSError):  # it has ended, or may not be read
        return Path(path).read_text(errors="replace").strip().replace("\0", " ")
    return ""


def _below(root):
    """The descendants of @root that were not begun by the test runner itself for its own ends."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _read(entry / "stat")):
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, new = [], [root]
    while new:
        new = sorted(pid for pid, parent in parents.items() if parent in new)
        found += new
    return found


def _process(pid):
    tasks = sorted(Path(f"/proc/{pid}/task").glob("*"), key=lambda p: int(p.name))
    lines = [f"process {pid}: {_read(f'/proc/{pid}/cmdline')[:300]}"]
    for task in tasks[:MOST_THREADS]:
        status = [line.expandtabs(1) for line in _read(task / "status").splitlines() if line.partition(":")[0] in STATUS]
        lines.append(f"  {task.name}: {', '.join(status)}")
        lines.append(f"    syscall: {_read(task / 'syscall')}")
        lines += [f"    {frame}" for frame in _read(task / "stack").splitlines()[:12]]
    if len(tasks) > MOST_THREADS:
        lines.append(f"  and {len(tasks) - MOST_THREADS} more threads")
    return "\n".join(lines)
