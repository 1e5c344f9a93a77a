"""The planner of `watchctl patch`: how fast it looks through code, and how many sites need no trap.

Each file is analysed in a fresh process, files in the page cache: the analysis (sweep, pointers, landing pads, jump
tables; processor time), and the whole command with its search for `syscall`. Beside it stands `objdump -d` on the same file. Numbers are medians over
the rounds; a ratio is the median of those of each round. The shares of tactics are counts, which do not vary.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

FILES = ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/bin/bash", "/usr/bin/git",
         "/usr/bin/python3.11", "/usr/bin/node"]
TARGET = 5.0  # million instructions a second
LIMIT_S = 300


def plan(watchctl, path, *words):
    done = subprocess.run([watchctl, "patch", "--plan", "--json", *words, path], capture_output=True, text=True, check=True, timeout=LIMIT_S,
                          errors="replace")
    return [json.loads(line) for line in done.stdout.splitlines()]


def timed(words):
    begin = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    return time.monotonic() - begin


def speed(watchctl, path, rounds):
    analysis, whole, ratio, instructions = [], [], [], 0
    for _ in range(rounds):
        total = plan(watchctl, path, "--at", "syscall")[-1]
        instructions = total["instructions"]
        ours = timed([watchctl, "patch", "--plan", "--at", "syscall", path])
        analysis.append(instructions / total["analysis_ns"] * 1e3)
        whole.append(instructions / ours / 1e6)
        ratio.append(timed(["objdump", "-d", path]) / ours)
    return {"instructions": instructions, "analysis_m_per_s": statistics.median(analysis),
            "command_m_per_s": statistics.median(whole), "objdump_over_command": statistics.median(ratio)}


def share(total):
    return f"{100 * total['without_trap'] / total['sites']:.2f}" if total["sites"] else "-"


def tenth(watchctl, path):
    """A random tenth of all instructions of known functions, the same ones in each run."""
    known = [s["addr"] for s in plan(watchctl, path, "--at", "*")[:-1] if "in no function" not in s["reason"]]
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as rules:
        rules.write("\n".join(random.Random(1).sample(known, len(known) // 10)))
        rules.flush()
        return plan(watchctl, path, "--rules", rules.name)[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("files", nargs="*", default=FILES)
    options = parser.parse_args()
    rows = {}
    print(f"{'':22}{'instructions':>13}{'analysis M/s':>14}{'command M/s':>13}{'objdump takes':>15}")
    for path in filter(os.path.exists, options.files):
        rows[path] = row = speed(options.watchctl, path, options.rounds)
        print(f"{os.path.basename(path):22}{row['instructions']:13}{row['analysis_m_per_s']:14.1f}{row['command_m_per_s']:13.1f}"
              f"{row['objdump_over_command']:13.1f} x")
    print(f"\nwithout a trap, %{'':6}{'entries':>13}{'syscall':>14}{'lock':>13}{'calls':>15}{'a tenth':>10}")
    for path, row in rows.items():
        if row["instructions"] > 3000000:
            continue  # a list of all instructions of it takes long
        for name, pattern in (("entry", "entry *"), ("syscall", "syscall"), ("locked", "@locked"), ("call", "@call")):
            row[name] = plan(options.watchctl, path, "--at", pattern)[-1]
        row["tenth"] = tenth(options.watchctl, path)
        print(f"{os.path.basename(path):22}{share(row['entry']):>13}{share(row['syscall']):>14}{share(row['locked']):>13}"
              f"{share(row['call']):>15}{share(row['tenth']):>10}")
    slow = [os.path.basename(p) for p, r in rows.items() if r["analysis_m_per_s"] < TARGET]
    print(f"\ntarget: {TARGET:.0f} M instructions/s for the analysis: " + ("reached" if not slow else "not reached by " + ", ".join(slow)))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


main()
