"""Cold symbolization: `watchctl symbolize` against `perf script`, on the same stacks of a packaged program.

perf records user-space stacks of a Python interpreter that has debug information. They are written into a log of
ours, sample for sample, and each program names them: a fresh process, files in the page cache, nothing printed
to a terminal. A ratio is the median, over the rounds, of two rows of the same round.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import tracelog_py as log  # noqa: E402

TARGET = 5
LIMIT_S = 400

WORK = """
import ast, csv, decimal, difflib, hashlib, io, json, pickle, re, sys, time, zlib
end, i = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    i += 1
    text = json.dumps({"a": list(range(50)), "b": {str(k): k * 1.5 for k in range(30)}})
    re.findall(r"(\\d+)\\.(\\d+)", text)
    pickle.loads(pickle.dumps(json.loads(text)))
    hashlib.sha256(zlib.decompress(zlib.compress(text.encode()))).hexdigest()
    decimal.Decimal(i) / decimal.Decimal(7)
    ast.parse("def f(x):\\n return [y for y in x if y > %d]" % i)
    difflib.get_close_matches("appel", ["ape", "apple", "peach"])
    list(csv.reader(io.StringIO("a,b\\n1,2\\n")))
    compile("x = [i ** 2 for i in range(10)]", "x", "exec")
"""

# row: what perf is asked for. The last is what we find out too: function, file, line, inlined callers.
PERF_ROWS = {
    "perf script, functions only": ["-F", "ip,sym,symoff", "--no-inline"],
    "perf script (inlined callers)": ["-F", "ip,sym,symoff"],
    "perf script, file and line": ["-F", "ip,sym,symoff,srcline", "--no-inline"],
    "perf script, file, line, inlined": ["-F", "ip,sym,symoff,srcline"],
}
OURS = "watchctl symbolize"


def record(folder, seconds):
    data = folder / "perf.data"
    program = folder / "work.py"
    program.write_text(WORK)
    subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock:u", "-F", "10000", "-o", str(data), "python3.11-dbg",
                    str(program), str(seconds)], check=True, capture_output=True, timeout=60)
    return data


class Module:
    """The executable mapping of a file, as perf saw it."""

    def __init__(self, start, size, offset, path):
        self.start, self.end, self.path, self.build_id = start, start + size, path, b""
        self.bias = start - offset
        with open(path, "rb") as f:
            elf = f.read()
        phoff, = struct.unpack_from("<Q", elf, 32)
        size, count = struct.unpack_from("<HH", elf, 54)
        for i in range(count):
            kind, _, at, vaddr, _, length, _, align = struct.unpack_from("<IIQQQQQQ", elf, phoff + i * size)
            if kind == 1 and at & ~4095 <= offset < at + length:
                self.bias = start - (vaddr - at + offset)
            if kind == 4:
                self.read_notes(elf[at:at + length], 8 if align == 8 else 4)

    def read_notes(self, notes, align):
        while len(notes) >= 12:
            name, desc, kind = struct.unpack_from("<III", notes)
            at = 12 + (name + align - 1) // align * align
            if kind == 3 and notes[12:16] == b"GNU\0":
                self.build_id = notes[at:at + desc]
            notes = notes[at + (desc + align - 1) // align * align:]

    def event(self, time_ns):
        return log.event(log.MODULE, time_ns, struct.pack("<QQQB", self.start, self.end, self.bias & (2**64 - 1), 0)
                         + log.text(self.path) + log.text(self.build_id.hex()) + struct.pack("<i", 77))


def read_samples(data):
    """The executable modules and the stacks (innermost first, no kernel addresses) of perf's file."""
    dump = subprocess.run(["perf", "script", "-D", "-i", str(data)], capture_output=True, text=True, check=True,
                          timeout=LIMIT_S).stdout
    modules, stacks, stack = [], [], None
    mapping = re.compile(r"PERF_RECORD_MMAP2 .*\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) .*\]: (\S+) (/\S+)$")
    for line in dump.splitlines():
        frame = re.match(r"\.{5} +\d+: ([0-9a-f]{16})$", line)
        if frame and stack is not None:
            stack.append(int(frame[1], 16))
            continue
        if "PERF_RECORD_SAMPLE" in line:
            stack = []
            stacks.append(stack)
        elif not line.startswith("... FP chain"):
            stack = None
        found = mapping.search(line)
        if found and "x" in found[4] and os.path.exists(found[5]):
            modules.append(Module(int(found[1], 16), int(found[2], 16), int(found[3], 16), found[5]))
    return modules, [[a for a in s if a < 2**47][:128] for s in stacks]


def write_log(path, modules, stacks):
    events = [log.process(1000, 77, "python3", 1700000000 * 10**9), log.watch(1001, 0, "flag", 0x1000)]
    events += [m.event(1002) for m in modules]
    numbers, packets = {}, []
    for stack in filter(None, stacks):
        key = tuple(stack)
        if key not in numbers:
            numbers[key] = len(numbers)
            events.append(log.stack(2000, numbers[key], stack))
        events.append(log.access(2000, 0, 77, 0x1000, 0, 0, numbers[key], stack[0]))
        if len(events) > 500:
            packets.append(log.packet(events))
            events = []
    log.write_log(path, packets + [log.packet(events)])
    return len(numbers)


def seconds_of(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT_S)
    took = time.perf_counter() - start
    return took if done.returncode == 0 else None


def missing():
    for tool in ("perf", "python3.11-dbg"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return None


def measure(watchctl, rounds, seconds, say):
    folder = Path(tempfile.mkdtemp(prefix="symbols-bench-"))
    try:
        data = record(folder, seconds)
        modules, stacks = read_samples(data)
        trace = folder / "log"
        distinct = write_log(trace, modules, stacks)
        addresses = {a for s in stacks for a in s if any(m.start <= a < m.end for m in modules)}
        say(f"{len(stacks)} samples, {distinct} distinct stacks, {len(addresses)} code addresses in {len(modules)} modules")
        rows = {OURS: [watchctl, "symbolize", "-q", "--dry-run", str(trace)]}
        rows |= {name: ["perf", "script", "-i", str(data), *fields] for name, fields in PERF_ROWS.items()}
        for command in rows.values():
            if "srcline" not in str(command):
                seconds_of(command)  # fills the page cache
        times = {name: [] for name in rows}
        for _ in range(rounds):
            for name, command in rows.items():
                times[name].append(seconds_of(command))
        return times, {"samples": len(stacks), "addresses": len(addresses), "modules": len(modules)}
    finally:
        shutil.rmtree(folder)


def judge(times):
    """Rows with their ratio to ours; None where perf failed or took longer than it may."""
    table = []
    for name, values in times.items():
        both = [v / o for v, o in zip(values, times[OURS]) if v and o]
        table.append({"row": name, "seconds": statistics.median([v for v in values if v] or [float("nan")]),
                      "over_ours": statistics.median(both) if both else None})
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of recording")
    parser.add_argument("--json", help="write the results there")
    opt = parser.parse_args()
    if missing():
        print(f"symbolization is not measured: {missing()}")
        return
    times, facts = measure(opt.watchctl, opt.rounds, opt.seconds, print)
    table = judge(times)
    for row in table:
        ratio = f"{row['over_ours']:8.1f} x ours" if row["over_ours"] else "    failed"
        print(f"  {row['row']:36} {row['seconds'] * 1e3:10.1f} ms {ratio}")
    same = table[-1]["over_ours"]
    met = bool(same and same >= TARGET)
    print(f"target: >= {TARGET} x faster than perf script for the same answers: {'met' if met else 'not met'}")
    if opt.json:
        Path(opt.json).write_text(json.dumps({**facts, "rows": table, "target": TARGET, "met": met}, indent=1))


if __name__ == "__main__":
    main()
