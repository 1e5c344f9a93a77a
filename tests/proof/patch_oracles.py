"""What says, without watchctl, how a program ended, how often it came to an instruction, and which system calls it made."""
import collections
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import proof

HERE = Path(__file__).resolve().parent


class Exits:
    """How processes end, as the kernel tells it (proc connector). Root only: without it, status() is None."""

    CONNECTOR, CN_IDX_PROC, PROC_EVENT_EXIT = 11, 1, 0x80000000

    def __init__(self):
        self.seen = {}
        try:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, self.CONNECTOR)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            self.socket.bind((0, self.CN_IDX_PROC))
            listen = struct.pack("IIIIHHI", self.CN_IDX_PROC, 1, 0, 0, 4, 0, 1)
            self.socket.send(struct.pack("IHHII", 16 + len(listen), 3, 0, 0, os.getpid()) + listen)
            threading.Thread(target=self.take, daemon=True).start()
        except OSError:
            self.socket = None

    def take(self):
        """In a thread of its own, for on a busy machine so many processes end that the kernel soon drops what nobody reads."""
        while True:
            try:
                data = self.socket.recv(4096)
            except OSError:
                continue  # some were lost
            if struct.unpack_from("I", data, 36)[0] == self.PROC_EVENT_EXIT:
                pid, tgid, code = struct.unpack_from("III", data, 52)
                if pid == tgid:
                    self.seen[pid] = code

    def forget(self):
        self.seen.clear()

    def status(self, pid):
        """As wait(2) has it; None: not known."""
        end = time.monotonic() + 2
        while self.socket and pid not in self.seen and time.monotonic() < end:
            time.sleep(0.01)
        return self.seen.get(pid)


def functions_of(path):
    """name: address in the file, of functions that the dynamic symbol table has, each address once. Not of IFUNCs."""
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        addr, kind, name = line.split()
        if kind == "T":
            found.setdefault(int(addr, 16), name.split("@")[0])
    names = collections.Counter(found.values())
    return {name: addr for addr, name in found.items() if names[name] == 1 and re.fullmatch(r"[A-Za-z_]\w*", name)}


def unwound_starts(path):
    """Where the functions of the unwind tables begin, as readelf has them."""
    out = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, text=True).stdout
    return sorted({int(m, 16) for m in re.findall(r"FDE cie=\S+ pc=([0-9a-f]+)", out)})


def in_gdb(command, folder, env, stdin, module, addresses, out, limit=500):
    """Runs it in gdb, without address randomization, with a breakpoint at each of these addresses of the file @module.

    Counts begin where watchctl's do: at the program's entry, where the loader hands over to it. Returns base and end of the module,
    calls (the number of system calls before that), and counts: address: hits, None where there were more than @limit.
    """
    plan = folder / f"{out}.plan"
    plan.write_text(json.dumps({"module": str(module), "addresses": addresses, "limit": limit, "out": str(folder / f"{out}.counts")}))
    words = ["gdb", "-q", "-nx", "-batch", "-x", str(HERE / "patch_counts_gdb.py"), "--args", *command]
    r = subprocess.run(words, cwd=folder, env={**proof.BASE_ENV, **env, "PATCH_COUNTS": str(plan)}, stdin=stdin, capture_output=True, timeout=300)
    if not (folder / f"{out}.counts").exists():
        raise proof.Failure(f"gdb counted nothing: {r.stderr.decode(errors='replace')[-400:]}")
    result = json.loads((folder / f"{out}.counts").read_text())
    result["counts"] = {a: result["counts"].get(str(a)) for a in addresses}
    return result


def agreed(count, addresses, seen):
    """address: count, where all runs of @count agree, and how many they do not agree about.

    Where what watchctl has @seen is something else, they are asked eight times more: a count may depend on random numbers (as that
    of getpid() when OpenSSL signs by RSA, once in ten runs).
    """
    runs = [count(), count()]
    addresses = set(addresses).union(*runs)

    def same():
        found = {a: {r[a] for r in runs} for a in addresses}
        return {a: n for a, numbers in found.items() if len(numbers) == 1 for n in numbers if n is not None}, sum(len(n) > 1 for n in found.values())

    if any(a in seen and seen[a] != n for a, n in same()[0].items()):
        runs += [count() for _ in range(8)]
    return same()


def system_calls(command, folder, env, stdin, out):
    """The addresses behind the system call instructions, one for each call of the program's main process, in their order (strace -i)."""
    path = folder / f"{out}.strace"
    words = ["setarch", "-R", "strace", "-i", "-o", str(path), *command]
    subprocess.run(words, cwd=folder, env={**proof.BASE_ENV, **env}, stdin=stdin, capture_output=True, timeout=300)
    return [int(a, 16) for a in re.findall(r"^\[([0-9a-f]+)\] \w+\(", path.read_text(errors="replace"), re.M)]


def system_call_counter(command, folder, env, stdin, module):
    """A function that runs the program, and counts by address in the file the system calls of that module, from the program's entry on.

    Exact, because each call is taken to the instruction that made it: those of the loader and of other modules are left out by their
    addresses, those before the entry by their number, which gdb has counted. Calls of the vDSO are none. Forked children are not
    followed, as probes do nothing there; the programs that this is used for have no threads, and no vfork.
    """
    at_entry = in_gdb(command, folder, env, stdin(), module, [], "calls")
    base, end = at_entry["base"], at_entry["end"]

    def count():
        calls = system_calls(command, folder, env, stdin(), "calls")[1 + at_entry["calls"]:]  # the first is strace's own execve
        return collections.Counter(a - 2 - base for a in calls if base <= a < end)
    return count
