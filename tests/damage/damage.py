#!/usr/bin/python3
"""
Damages logs of every kind at random, and has every command that reads logs read them.

    tests/damage/damage.py BUILD [-n ROUNDS] [-s SEED] [-j JOBS] [--round N]

Of each round must hold:
 - the command ends in order: no signal, no sanitizer, none of the exit statuses that it has no reason for;
 - nothing is misread: each event that it prints is an event of the whole log, in the same order, and each of its fields
   is what the whole log says, or absent. Callers may be missing where the stack says that they are lost; an instruction
   or a name that cannot be known any more may be missing;
 - nothing is silent: exit status 0 without a word only if all that is printed is what is printed of the whole log.

Round N depends on SEED and N alone: --round repeats one, and keeps its log.
"""
import argparse
import collections
import concurrent.futures
import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import tracelog_py as log  # noqa: E402

TIMEOUT = 60
NO_LOG, CANNOT_TELL, TROUBLE = 8, 3, 2

# Kinds of logs. A generator's arguments, without the log.

KINDS = {
    "accesses": ["accesslog-gen", "-n", "900", "-w", "2"],
    "threads": ["accesslog-gen", "-n", "700", "-w", "3", "-t", "200", "-f", "12"],
    "captures": ["accesslog-gen", "-n", "400", "-c", "700"],
    "names": ["accesslog-gen", "-n", "600", "-c", "200", "-w", "4", "-x"],
    "steps": ["steplog-gen", "-n", "1800", "-t", "3"],
    "ring": ["ring-gen", "@", "1048576", "1500"],
    "ring-all": ["ring-gen", "@", "1048576", "600", "all"],
    "moving": None,
    "version-1": None,
}

COMMANDS = {
    "report": ["report", "log"],
    "report --json": ["report", "--json", "log"],
    "report --sites": ["report", "--sites", "--json", "log"],
    "report --tree": ["report", "--tree", "log"],
    "report --folded": ["report", "--folded", "log"],
    "report --html": ["report", "log", "--html", "/dev/null"],
    "export chrome": ["export", "log", "--to", "chrome"],
    "export folded": ["export", "log", "--to", "folded"],
    "export speedscope": ["export", "log", "--to", "speedscope"],
    "export csv": ["export", "log", "--to", "csv"],
    "export jsonl": ["export", "log", "--to", "jsonl", "--regs"],
    "export perf-script": ["export", "log", "--to", "perf-script"],
    "export dot": ["export", "log", "--to", "dot"],
    "export callgrind": ["export", "log", "--to", "callgrind"],
    "export perfetto": ["export", "log", "--to", "perfetto"],
    "diff": ["diff", "log", "whole"],
    "symbolize": ["symbolize", "--dry-run", "log"],
    "top": ["top", "log"],
    "snapshot": ["snapshot", "log", "-o", "new"],
    "redact": ["report", "--json", "--redact", "flag0", "log"],
}


def write_moving(path):
    """A watch that follows a pointer: its address changes between packets."""
    packets = [log.packet2([log.process(1000, 77, "app", 10**18), log.thread(1000, 77, 77, "app"),
                            log.watch(1001, 0, "flag", 0x10000), log.code(1002, 0x401002, b"\x89\x07"),
                            log.stack(1003, 0, [0x401002, 0x401100])])]
    for p in range(12):
        addr = 0x10000 + p // 3 * 64
        events = [log.watch(2000 + 1000 * p, 0, "flag", addr)] if p % 3 == 0 and p else []
        events.append(log.stack(2000 + 1000 * p, 1 + p, [0x401002, 0x401200 + p]))
        for i in range(40):
            t, v = 2001 + 1000 * p + 2 * i, 40 * p + i
            # What has moved is written with its address.
            events.append(log.hit(t, 0, 77, 0, v, v + 1, 1 + p // 2, 0x401002) if p < 3 else
                          log.access(t, 0, 77, addr, v, v + 1, 1 + p // 2, 0x401002))
        packets.append(log.packet2(events))
    packets.append(log.packet2([log.summary(20000, 0, 480, 480)]))
    log.write_log(path, packets, major=2, minor=1)


def write_version_1(path):
    """Without checksums: only damage of what frames the events can be known."""
    packets = [log.packet([log.process(1000, 77, "app", 10**18), log.watch(1001, 0, "flag", 0x10000),
                           log.code(1002, 0x401002, b"\x89\x07"), log.stack(1003, 0, [0x401002, 0x401100])])]
    for p in range(20):
        packets.append(log.packet([log.access(2000 + 100 * p + i, 0, 77, 0x10000, i, i + 1, 0, 0x401002) for i in range(30)]))
    log.write_log(path, [*packets, log.packet([log.summary(9000, 0, 600, 600)])])


def make_log(build, kind, path):
    if kind == "moving":
        return write_moving(path)
    if kind == "version-1":
        return write_version_1(path)
    program, *args = KINDS[kind]
    args = [path if a == "@" else a for a in args] if "@" in args else [*args, path]
    subprocess.run([os.path.join(build, "tests", "bench", program), *args], check=True, timeout=TIMEOUT)


# Damage. Each returns the new bytes.

def flip(r, data):
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 3, 8])):
        data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    return bytes(data)


def overwrite(r, data):
    data = bytearray(data)
    for _ in range(r.choice([1, 3])):
        at, n = r.randrange(len(data)), r.choice([1, 4, 64, 500])
        data[at:at + n] = r.randbytes(len(data[at:at + n]))
    return bytes(data)


def zero_pages(r, data):
    at = r.randrange(len(data)) & ~4095
    n = min(4096 * r.choice([1, 2, 8]), len(data) - at)
    return data[:at] + bytes(n) + data[at + n:]


def zero_end(r, data):
    at = r.randrange(len(data))
    return data[:at] + bytes(len(data) - at)


def cut_end(r, data):
    return data[:r.randrange(len(data))]


def empty(r, data):
    return b""


def lose(r, data):
    at = r.randrange(len(data))
    return data[:at] + data[at + r.choice([1, 100, 4096, 70000]):]


def insert(r, data):
    at = r.randrange(len(data))
    return data[:at] + r.randbytes(r.choice([1, 8, 4096])) + data[at:]


def repeat(r, data):
    """A part of the file stands in the place of another one."""
    n = r.choice([16, 4096, 70000, 140000])
    at, source = r.randrange(len(data)), r.randrange(len(data))
    part = data[source:source + n]
    return data[:at] + part + data[at + len(part):]


def append(r, data):
    return data + (r.randbytes(r.choice([1, 60, 5000])) if r.random() < 0.5 else data[-r.randrange(1, 70000):])


DAMAGE = [flip, overwrite, zero_pages, zero_end, cut_end, empty, lose, insert, repeat, append]


def damage(r, path):
    """Damages one file of the log, seldom two. Returns what was done; None: nothing."""
    done = []
    names = sorted(n for n in os.listdir(path) if n != ".recorder")
    events = [n for n in names if n.startswith("events")]
    for _ in range(r.choice([1, 1, 1, 2])):
        name = r.choice(events) if r.random() < 0.9 else r.choice(names)
        how = r.choice(DAMAGE)
        with open(os.path.join(path, name), "rb") as f:
            data = f.read()
        if not data:
            continue
        new = how(r, data)
        if new != data:
            done.append(f"{how.__name__} {name}")
            with open(os.path.join(path, name), "wb") as f:
                f.write(new)
    return ", ".join(done)


# What is printed

EVENTS = {"access", "stack", "call", "return", "step", "signal", "stood"}
# What cannot be known without the code or the module that was described in a lost packet, and what stands in for it.
DERIVED = {"kind", "ip", "next_ip", "insn", "module", "build_id", "module_offset", "function", "offset", "file", "line",
           "inlined", "after", "comm", "time", "duration_ns", "args", "result", "old_text", "new_text"}


def key_of(o):
    return tuple(json.dumps(o.get(k)) for k in ("type", "time_ns", "tid", "watch", "addr", "old", "new", "tag", "value", "call",
                                                "regs", "depth"))


def frame_fits(frame, whole):
    return all(k in DERIVED or whole.get(k) == v for k, v in frame.items()) and \
        all(k not in frame or k not in whole or frame[k] == whole[k] for k in ("function", "module", "line", "module_offset"))


def fits(o, whole):
    """What is said in @o is what was said in @whole, or nothing."""
    for k, v in o.items():
        if k in ("stack", "stack_end", "open"):
            continue
        if k in whole and whole[k] != v and not (k == "kind" and v == "unknown") and k != "ip":
            return f"{k} is {v}, not {whole[k]}"
        if k not in whole and k not in DERIVED:
            return f"{k} is {v}, and was not there"
    # Which functions were inlined is known from names.
    stack, of_whole = ([f for f in x.get("stack", []) if not f.get("inlined")] for x in (o, whole))
    if o.get("stack_end") == "lost":
        of_whole = of_whole[:len(stack)]
    elif o.get("stack_end") != whole.get("stack_end"):
        return f"stack_end is {o.get('stack_end')}, not {whole.get('stack_end')}"
    if len(stack) != len(of_whole):
        return f"{len(stack)} frames, not {len(of_whole)}"
    for a, b in zip(stack, of_whole):
        if not frame_fits(a, b):
            return f"frame {a} is not {b}"
    return None


def check_json(text, whole_text):
    whole = [json.loads(line) for line in whole_text.split("\n")[:-1]]
    got = [json.loads(line) for line in text.split("\n")[:-1]]
    place, events = collections.defaultdict(list), [o for o in whole if o["type"] in EVENTS]
    for i, o in enumerate(events):
        place[key_of(o)].append(i)
    last = -1
    for o in got:
        if o["type"] in EVENTS:
            at = next((i for i in place.get(key_of(o), []) if i > last), None)
            if at is None:
                return f"never recorded, or out of order: {json.dumps(o)[:400]}"
            wrong = fits(o, events[at])
            if wrong:
                return f"{wrong}: {json.dumps(o)[:300]}"
            last = at
        elif o["type"] == "summary" and o.get("complete"):
            o.pop("held", None)
            if o not in whole:
                return f"a summary that was never recorded: {o}"
        elif o["type"] == "lost" and o not in whole:
            return f"a loss that was never recorded: {o}"
    return None


def check_csv(text, whole_text):
    rows = [(r["type"], r["time_ns"], r["tid"], r.get("new"), r.get("call")) for r in csv.DictReader(io.StringIO(text, newline=""))]
    whole = iter([(r["type"], r["time_ns"], r["tid"], r.get("new"), r.get("call"))
                  for r in csv.DictReader(io.StringIO(whole_text, newline=""))])
    for row in rows:
        if row[0] in EVENTS and not any(row == w for w in whole):
            return f"never recorded, or out of order: {row}"
    return None


CHECKS = {"report --json": check_json, "export jsonl": check_json, "redact": check_json, "export csv": check_csv}


def run(program, command, folder):
    env = dict(os.environ, TERM="dumb", TZ="UTC")
    shutil.rmtree(os.path.join(folder, "new"), ignore_errors=True)
    return subprocess.run([program, *COMMANDS[command]], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=TIMEOUT)


WHOLE = {}  # (kind, command) -> what is printed of the whole log


def said_of_whole(program, kind, command, folder):
    if (kind, command) not in WHOLE:
        with tempfile.TemporaryDirectory() as own:
            for name in ("log", "whole"):
                shutil.copytree(os.path.join(folder, kind), os.path.join(own, name))
            r = run(program, command, own)
            WHOLE[kind, command] = (r.returncode, r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace"))
    return WHOLE[kind, command]


def judge(command, kind, r, whole):
    """Why this must not be; None: it may."""
    out, err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    if "anitizer" in err or r.returncode < 0 or r.returncode > 100:
        return f"crash: exit status {r.returncode}: {err[-500:]}"
    # Of a version without checksums, damage can look like another value.
    allowed = {0, TROUBLE, CANNOT_TELL} | ({1} if kind == "version-1" else set()) if command == "diff" else {0, NO_LOG}
    if r.returncode not in allowed and whole[0] != r.returncode:
        return f"exit status {r.returncode}: {err[:300]}{out[-300:]}"
    same = [re.sub(r", [\d.]+ [KMG]?i?B(ytes)?$", "", text, flags=re.M) for text in (out, whole[1])]  # of a snapshot
    # Without a summary, or with a note, it is told; bytes without a checksum that look like an event are one.
    told = "ends without a summary" in out or '"complete":false' in out or '"type":"missing"' in out
    if r.returncode == 0 and err == whole[2] and same[0] != same[1] and not told and kind != "version-1":
        return f"silent: exit status 0, and other output: {out[-300:]}"
    # Bytes of events without a checksum that still look like events cannot be told from others.
    if kind != "version-1" and command in CHECKS and out:
        wrong = CHECKS[command](out, whole[1])
        return wrong and f"misread: {wrong}"
    return None


def one_round(job):
    program, folder, seed, n, keep = job
    r = random.Random(f"{seed} {n}")
    kind, command = r.choice(list(KINDS)), list(COMMANDS)[n % len(COMMANDS)]
    whole = said_of_whole(program, kind, command, folder)
    with tempfile.TemporaryDirectory() as own:
        for name in ("log", "whole"):
            shutil.copytree(os.path.join(folder, kind), os.path.join(own, name))
        what = damage(r, os.path.join(own, "log"))
        try:
            result = run(program, command, own)
            status, wrong = result.returncode, judge(command, kind, result, whole)
        except subprocess.TimeoutExpired:
            status, wrong = "none", f"no end after {TIMEOUT} s"
        if not what:
            wrong = None
        if keep:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.copytree(os.path.join(own, "log"), keep)
    return n, kind, command, what, status, wrong


def table(title, counts, columns):
    print(f"\n{title:22}" + "".join(f"{str(c):>9}" for c in columns))
    for name in sorted({k for k, _ in counts}):
        print(f"{name:22}" + "".join(f"{counts.get((name, c), 0):9}" for c in columns))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("-n", type=int, default=300)
    p.add_argument("-s", default="1")
    p.add_argument("-j", type=int, default=os.cpu_count())
    p.add_argument("--round", type=int)
    a = p.parse_args()
    program = os.environ.get("WATCHCTL") or os.path.join(os.path.abspath(a.build), "bin", "watchctl")
    by_kind, by_command, by_damage, failed = (collections.Counter() for _ in range(4))
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            make_log(a.build, kind, os.path.join(folder, kind))
        rounds = range(a.n) if a.round is None else [a.round]
        keep = f"/tmp/damage-{a.round}" if a.round is not None else None
        jobs = [(program, folder, a.s, n, keep) for n in rounds]
        with concurrent.futures.ProcessPoolExecutor(a.j) as pool:
            for n, kind, command, what, status, wrong in pool.map(one_round, jobs, chunksize=8):
                by_kind[kind, status] += 1
                by_command[command, status] += 1
                for part in what.split(", ") if what else ["nothing"]:
                    by_damage[part.split(" ")[0], status] += 1
                if wrong:
                    failed[wrong.split(":")[0]] += 1
                    print(f"round {n} ({kind}; {command}; {what}): {wrong}")
                elif keep:
                    print(f"round {n} ({kind}; {command}; {what}): exit status {status}; {keep}")
    statuses = sorted({s for _, s in by_kind}, key=str)
    table("kind, exit status", by_kind, statuses)
    table("command", by_command, statuses)
    table("damage", by_damage, statuses)
    print(f"\n{len(jobs)} damaged logs: " + (", ".join(f"{n} {w}" for w, n in failed.items()) or
                                            "no crash, nothing misread, none silent"))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
