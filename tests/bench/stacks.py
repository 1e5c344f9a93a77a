"""What a stack costs: a walk against other walkers, a capture against its limits, bytes of a record in the log.

Runs small C programs round after round; each prints lines of a row's name, a tab, and nanoseconds (a walk, a capture,
a frame: the name says which). A ratio is the median, over the rounds, of two rows of the same round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import report

PROGRAM_TIMEOUT_S = 120
SIZED = 20000  # captures


class Row:
    def __init__(self, name):
        self.name = name
        self.values = {}  # round -> ns
        self.problem = None


class Limit:
    """A claim about a row itself, not about a ratio: its median is at most so much."""

    def __init__(self, row, limit, unit, divisor=1):
        self.row, self.limit, self.unit, self.divisor = row, limit, unit, divisor

    def judge(self, rows):
        claim = {"row": self.row, "over": self.unit, "target": f"<= {self.limit:g}"}
        row = rows.get(self.row)
        if not row or not row.values:
            return {**claim, "skipped": "not measured"}
        values = [v / self.divisor for v in row.values.values()]
        median = statistics.median(values)
        return {
            **claim, "median": median, "least": min(values), "most": max(values), "met": median <= self.limit,
        }


def targets():
    t = report.Target
    return [
        t("walk with-fp, self_walk", "walk with-fp, rbp-loop", "<=", 1.5),
        Limit("walk without-fp, self_walk", 6, "ns a frame", divisor=16),
        Limit("first sight of an address", 5000, "ns"),
        *[t(f"walk {kind}, {other}", f"walk {kind}, self_walk", ">=", 1) for kind in ("with-fp", "without-fp")
          for other in ("unw_backtrace", "backtrace", "unw_step")],
        Limit("capture, frame pointers", 60, "ns"),
        Limit("disabled", 1, "ns"),
        t("capture, 4 threads", "capture, frame pointers", "<=", 1.2),
        Limit("record", 40, "bytes in the log"),
    ]


def run(program, arguments=()):
    out = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False)
    if out.returncode:
        raise OSError(f"{os.path.basename(program)}: {out.stderr.strip() or out.returncode}")
    return [(name, float(value)) for name, value in (line.split("\t") for line in out.stdout.splitlines())]


def run_walks(program):
    """One line a walker: stack, name, frames, ns, ns a frame, and both again for walks that overlap; and first sights."""
    out = subprocess.run([program], capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=True)
    found, first = [], []
    for fields in (line.split("\t") for line in out.stdout.splitlines()):
        if fields[0] == "first-sight":
            first += [float(fields[3].split()[0])] if len(fields) > 3 else []
        else:
            found.append((f"walk {fields[0]}, {fields[1]}", float(fields[3])))
            found.append((f"  ... overlapping, {fields[0]}, {fields[1]}", float(fields[5])))
    return found + ([("first sight of an address", max(first))] if first else [])


def summary_of(watchctl, log):
    out = subprocess.run([watchctl, "report", log, "--json"], capture_output=True, text=True, check=True)
    objects = [json.loads(line) for line in out.stdout.splitlines() if '"summary"' in line]
    return objects[-1]


def bytes_a_record(captures, folder, kind):
    """What so many captures more of the same stack make the log longer, for each of them."""
    size = []
    for count in (SIZED, 2 * SIZED):
        log = os.path.join(folder, f"{kind}-{count}")
        run(captures, [log, kind, str(count)])
        size.append(os.path.getsize(os.path.join(log, "events")))
    return (size[1] - size[0]) / SIZED


def one_round(number, rows, arguments):
    measured = run_walks(arguments.walks)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = os.path.join(folder, "log")
        measured += run(arguments.captures, [log])
        lost = summary_of(arguments.watchctl, log)["lost"]
        if lost:
            raise OSError(f"{lost} captures were lost: the time of a lost one says nothing")
        measured.append(("record", bytes_a_record(arguments.captures, folder, "number")))
        measured.append(("record with a value", bytes_a_record(arguments.captures, folder, "value")))
    for name, value in measured:
        rows.setdefault(name, Row(name)).values[number] = value


def main():
    parser = argparse.ArgumentParser(prog="bench-stacks", description=__doc__.splitlines()[0])
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--walks", required=True, help="built from walks.c")
    parser.add_argument("--captures", required=True, help="built from captures.c")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows = {}
    for number in range(arguments.rounds):
        try:
            one_round(number, rows, arguments)
        except OSError as e:
            print(f"bench-stacks: round {number + 1}: {e}", file=sys.stderr)
    if not rows:
        return 1
    print(f"{'STACKS':44}{'median':>11}{'least':>11}{'most':>11}")
    for row in rows.values():
        values = list(row.values.values())
        if row.name.startswith("record"):
            cells = "".join(f"{v:>9.1f} B" for v in (statistics.median(values), min(values), max(values)))
        else:
            cells = "".join(f"{report.duration(v):>11}" for v in (statistics.median(values), min(values), max(values)))
        print(f"{row.name:44}{cells}")
    claims = [t.judge(rows) for t in targets()]
    report.print_claims(claims, sys.stdout)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as f:
            json.dump({"rows": {r.name: list(r.values.values()) for r in rows.values()}, "targets": claims}, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
