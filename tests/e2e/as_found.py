"""What of a process a watch must leave as it found it."""
import os
import re
from pathlib import Path


def snapshot(pid, *but):
    """Signals, mappings (without those named in @but) and files."""
    status = Path(f"/proc/{pid}/status").read_text()
    signals = re.findall(r"^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|Seccomp|TracerPid|Threads):\s*(\S+)", status, re.M)
    maps = [re.sub(r"^(\S+) (\S+) .*? (\S*)$", r"\1 \2 \3", line)
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if not line.endswith(but)]
    fds = sorted((fd, os.readlink(f"/proc/{pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{pid}/fd"))
    return {"signals": signals, "maps": maps, "fds": fds}


def code_of(pid):
    """The bytes of all code that is mapped from files, by address."""
    found = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            span, access, _, _, _, *name = line.split()
            if "x" in access and name and name[0].startswith("/"):
                start, end = (int(a, 16) for a in span.split("-"))
                mem.seek(start)
                found[start] = mem.read(end - start)
    return found
