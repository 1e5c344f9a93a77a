#!/usr/bin/python3
"""Proof of patches in real programs: they do what they do without, probes are reached as often as others count, nothing is harmed.

usage: WATCHCTL=build/bin/watchctl tests/proof/patches.py [--only CLASS/MODULE] [--seed N] [--cycles N] [--quick]

Each class of instructions is patched in each module, one at a time, while a program runs that does the same in every run. What it
prints and how it ends must be what it is without watchctl, and the probe must have run. Then counts are compared with gdb's and
strace's, and patches come and go in a program that checks itself. Exit status 1 if anything is wrong.
"""
import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import patch_harm
import patch_oracles
import patch_workloads
import proof
from patch_scene import Scene

CLASSES = {"entry": "entry *", "syscall": "@syscall", "locked": "@locked", "call": "@call", "branch": "@branch", "ret": "@ret", "random": None}
RANDOM_SHARE, RANDOM_MOST = 0.1, 100000
ENTRIES_WANTED, ENTRIES_WANTED_OF = 99.0, {"python3": 98.0}


def random_rules(scene, w):
    """A tenth of the module's instructions, chosen by the seed, as addresses in a process whose addresses are not randomized.

    The pattern language has no "one in ten", but 0xADDRESS is a place; gdb says where the module lies.
    """
    base = patch_oracles.in_gdb(w.argv, scene.folder, w.env, w.open_stdin(scene.folder), w.path, [], "base")["base"]
    chance, chosen = random.Random(f"{scene.seed} {w.name}"), []
    plan = subprocess.Popen([proof.watchctl(), "patch", "--plan", "--at", "*", "--json", str(w.path)], stdout=subprocess.PIPE)
    for line in plan.stdout:
        if chance.random() < RANDOM_SHARE and line.startswith(b'{"type":"patch_site"'):
            chosen.append(int(re.search(rb'"addr":"(0x[0-9a-f]+)"', line)[1], 16))
    plan.wait()
    if len(chosen) > RANDOM_MOST:
        chosen = sorted(chance.sample(chosen, RANDOM_MOST))
    (scene.folder / "random.rules").write_text("".join(f"{base + a:#x}\n" for a in chosen))
    return ["--rules", "random.rules"], len(chosen)


def has_none(w, kind):
    """Whether objdump finds no such instruction in the module either."""
    wanted = {"syscall": r":\s+(syscall|sysenter|int +\$0x80)", "locked": r":\s+lock "}.get(kind)
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(w.path)], capture_output=True, text=True).stdout
    return wanted and not re.search(wanted, out)


def check_plain(scene, w, plain):
    return scene.plain(w, w.argv).unlike(plain), f"{len(plain.out)} bytes"


def check_class(scene, w, kind, plain):
    """The program with all instructions of one class patched in one module."""
    wanted = None
    if kind == "random":
        where, wanted = random_rules(scene, w)
    else:
        where = ["--at", CLASSES[kind]]
    ran, session = scene.patched(w, w.argv, where, w.path, fixed=kind == "random")
    reached = sum(session.counts.values())
    said = f"{len(session.sites)} sites, {len(session.patched)} patched ({session.share:.2f} %), reached {reached} times"
    if not any(row[0] == kind and row[1] == w.module for row in scene.table):
        scene.table.append((kind, w.module, session))
    if not session.sites:
        return (None, "no such instruction, says objdump too") if has_none(w, kind) else ("no site at all", said)
    if not ran:  # watchctl has refused before the program ran
        return (None if kind in ("syscall", "locked") and not session.patched else "nothing is patched"), said
    wrong = ran.unlike(plain)
    if wrong:
        return wrong, said
    if ran.status is None:
        said += "; how it ended is not known"
    if wanted is not None and len(session.sites) != wanted:
        return f"{wanted} addresses were given", said
    # Whether a workload comes to the few instructions that make a system call or lock is known of the C library only.
    if not reached and (kind not in ("syscall", "locked") or w.module == "libc.so.6"):
        return "no probe was reached", said
    least = ENTRIES_WANTED_OF.get(w.module, ENTRIES_WANTED)
    if kind == "entry" and session.share < least:
        return f"less than {least} % of the entries are patched", said
    return None, said


def check_entries(scene, w, functions):
    """Of some functions by name and of others by chance: hits of probes, and of gdb's breakpoints, which two runs agree about."""
    chance = random.Random(f"{scene.seed} {w.name} entries")
    symbols = patch_oracles.functions_of(str(w.path))
    data = w.path.read_bytes()
    names = [n for n in w.asked if n in symbols] + chance.sample(sorted(symbols), min(functions, len(symbols)))
    addresses = {symbols[n] for n in names}
    if len(symbols) < 100:  # no symbols: the unwind tables have the functions
        names, starts = [], patch_oracles.unwound_starts(str(w.path))
        addresses = set(chance.sample(starts, min(functions, len(starts))))
    offset_of = segment_offsets(w.path)
    addresses = sorted(a + 4 if data[offset_of(a):offset_of(a) + 4] == b"\xf3\x0f\x1e\xfa" else a for a in addresses)

    def in_gdb(where):
        return patch_oracles.in_gdb(w.single, scene.folder, w.env, w.open_stdin(scene.folder), w.path, where, "entries")

    base = in_gdb([])["base"]
    where = [f"entry {name}" for name in sorted(set(names))] or [f"{base + a:#x}" for a in addresses]
    (scene.folder / "entries.rules").write_text("\n".join(where) + "\n")
    _, session = scene.patched(w, w.single, ["--rules", "entries.rules"], w.path, fixed=True)
    expected = patch_oracles.agreed(lambda: in_gdb(addresses)["counts"], addresses, session.seen())
    return compared(session, *expected, "functions", "gdb")


def segment_offsets(path):
    """A function that says where in the file the code of an address is."""
    out = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
    loads = [tuple(int(x, 16) for x in m) for m in re.findall(r"LOAD\s+(0x\S+) (0x\S+) 0x\S+ (0x\S+)", out)]
    return lambda a: next(offset + a - addr for offset, addr, size in loads if addr <= a < addr + size)


def compared(session, expected, unstable, what, who):
    seen = session.seen()
    wrong = [(a, seen[a], n) for a, n in sorted(expected.items()) if a in seen and seen[a] != n]
    missed = sorted(a for a, n in expected.items() if a not in session.sites)
    both = {a: n for a, n in expected.items() if a in seen}
    said = (f"{len(both)} {what} compared, {sum(n > 0 for n in both.values())} of them reached, {sum(both.values())} times in all; "
            f"{len(session.sites) - len(seen)} not patched") + (f", {unstable} different from run to run" if unstable else "")
    if wrong:
        return f"{len(wrong)} counts are not {who}'s: " + ", ".join(f"{a:#x} {mine} instead of {n}" for a, mine, n in wrong[:5]), said
    if missed:
        return "no site is at " + ", ".join(map(hex, missed[:5])), said
    return None if any(both.values()) else "nothing could be compared", said


def check_system_calls(scene, w, libc):
    """Each instruction of the C library that makes a system call: as often as strace says it did."""
    count = patch_oracles.system_call_counter(w.single, scene.folder, w.env, lambda: w.open_stdin(scene.folder), libc)
    _, session = scene.patched(w, w.single, ["--at", "@syscall"], libc, fixed=True)
    return compared(session, *patch_oracles.agreed(count, session.patched, session.seen()), "instructions", "strace")


def check_harm(scene, cycles):
    found, said = patch_harm.harm(scene.folder, cycles, scene.seed, scene.say)
    return ("; ".join(found) if found else None), said


def run(scene, o):
    wanted_class, _, wanted_module = (o.only or "").partition("/")

    def asked(kind, module):
        return wanted_class in ("", "*", kind) and wanted_module in ("", "*", module)

    libc = patch_workloads.WORKLOADS[0].path
    for w in patch_workloads.WORKLOADS:
        if w.missing:
            scene.say(f"skip {w.name}: {w.missing}")
            continue
        slow = {"random"} | ({"branch", "call", "ret"} if w.name == "node" else set())
        kinds = [k for k in CLASSES if asked(k, w.module) and not (o.quick and k in slow)]
        if kinds:
            plain = scene.plain(w, w.argv)
            scene.check(f"{w.name}: twice the same without watchctl", lambda w=w, plain=plain: check_plain(scene, w, plain))
        for kind in kinds:
            scene.check(f"{kind} of {w.module}, {w.name}", lambda w=w, kind=kind, plain=plain: check_class(scene, w, kind, plain))
        if w.single and asked("counts", w.module):
            functions = 60 if o.quick else 150
            scene.check(f"entries of {w.module} counted, {w.name}", lambda w=w, functions=functions: check_entries(scene, w, functions))
            if not w.threads:
                scene.check(f"system calls counted, {w.name}", lambda w=w: check_system_calls(scene, w, libc))
    if asked("harm", "patch_hammer") and o.cycles:
        scene.check("patches come and go, watchctls are killed", lambda: check_harm(scene, o.cycles))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help=f"CLASS/MODULE: of {', '.join(CLASSES)}, counts, harm; either may be left out or *")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cycles", type=int, default=None, help="of patches that come and go (default 300; 20 with --quick)")
    parser.add_argument("--quick", action="store_true", help="without random instructions and the slowest of node's; fewer functions counted")
    parser.add_argument("--keep", help="a new folder for all files, which stay")
    o = parser.parse_args()
    if o.cycles is None:
        o.cycles = 20 if o.quick else 300
    if o.keep:
        Path(o.keep).mkdir()
    folder = o.keep or tempfile.mkdtemp(prefix="watchctl-patches-")
    try:
        scene = Scene(folder, o.seed)
        run(scene, o)
    finally:
        if not o.keep:
            shutil.rmtree(folder)
    scene.print_table()
    scene.end("patches")
    return 1 if scene.failed or not scene.checks else 0


if __name__ == "__main__":
    sys.exit(main())
