"""Run by gdb (patch_oracles.py): counts how often a program comes to some addresses, from its entry on."""
import json
import os

import gdb

plan = json.load(open(os.environ["PATCH_COUNTS"]))


def quietly(command):
    return gdb.execute(command, to_string=True)


def mapped():
    """Where the module begins and ends; of a program that is not moved, addresses are those of the file."""
    spans = []
    with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
        for line in maps:
            words = line.split()
            if words[-1] == os.path.realpath(plan["module"]):
                spans += [int(a, 16) for a in words[0].split("-")]
    with open(plan["module"], "rb") as f:
        header = f.read(18)
    return (min(spans) if header[16] == 3 else 0), max(spans)


for setting in ("pagination off", "confirm off", "startup-with-shell off", "debuginfod enabled off", "print thread-events off"):
    quietly("set " + setting)
for name in ("LINES", "COLUMNS", "PATCH_COUNTS"):
    quietly("unset environment " + name)
quietly("handle all nostop noprint pass")
quietly("starti")
entry = next(int(line.split()[-1], 16) for line in quietly("info auxv").splitlines() if "AT_ENTRY" in line)
quietly(f"tbreak *{entry:#x}")
quietly("catch syscall")
calls = 0  # gdb stops at the beginning and at the end of each
while True:
    quietly("continue")
    if int(gdb.parse_and_eval("$pc")) == entry:
        break
    calls += 1
quietly("delete")

base, end = mapped()
points = {}
for address in plan["addresses"]:
    points[address] = gdb.Breakpoint(f"*{base + address:#x}")
    points[address].silent = True
    points[address].ignore_count = plan["limit"]
if points:
    while gdb.selected_inferior().pid:
        quietly("continue")
        for point in points.values():
            if point.hit_count > plan["limit"] and point.enabled:
                point.enabled = False
# The program stands at its entry: gdb steps over a breakpoint there, and counts nothing.
hits = {a: p.hit_count + (base + a == entry) for a, p in points.items() if p.hit_count <= plan["limit"]}
with open(plan["out"], "w") as f:
    json.dump({"base": base, "end": end, "calls": calls // 2, "counts": hits}, f)
if not points:
    quietly("kill")
