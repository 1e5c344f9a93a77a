"""The verdict that a comparison of a good run and a bad one gives about a known fault: right, or which kind of miss."""
import json
import subprocess

import proof
import seeded

RIGHT = "right"
# Of a fault that was judged; in the order of the table.
MISSES = {
    "none": "no difference",
    "cannot tell": "no difference, and a log is not whole",
    "inlined": "the faulty function is inlined into the reported one, or into its caller",
    "noise": "the reported call began before the faulty function ran, or good runs differ by it, too",
    "caller": "a caller of the faulty function, further out",
    "listed": "the faulty function is listed, but comes later",
    "data": "the faulty function is the same in both runs: a later reader of its data",
    "other": "other",
}
NOT_JUDGED = ["failed", "timeout"]


def first_report(objects):
    """The report that counts as the answer of diff."""
    return proof.first_difference(objects)


def named(difference):
    """The functions that a report leads to: of its calls, of where they are made, and where in the code the runs part."""
    names = seeded.involved(difference)
    if difference["kind"] == "calls" and difference.get("good"):
        names |= seeded.involved({"good": difference["good"]})
    branches = difference.get("parts_at", {}).get("branches", [])
    names |= {seeded.plain(f.get("function")) for branch in branches for f in branch}
    return names | {seeded.plain(f["function"]) for f in difference.get("inlined", [])}


class Calls:
    """The calls of a log, in the order in which they began."""

    def __init__(self, log):
        r = subprocess.run([proof.watchctl(), "report", "--json", "--events", str(log)], capture_output=True,
                           timeout=proof.TIMEOUT)
        self.calls = [o for o in map(json.loads, r.stdout.splitlines()) if o["type"] == "call"]

    def own(self, names):
        return [c for c in self.calls if seeded.plain(c.get("function")) in names]

    def first(self, names):
        """The number of the first call of one of the functions, or out of it; None: none is seen to run."""
        return min((c["call"] for c in self.calls if names & seeded.involved({"bad": c})), default=None)

    def around(self, names):
        """The functions that are in the stacks of their calls."""
        frames = {seeded.plain(f.get("function")) for c in self.own(names) for f in c.get("stack", [])}
        return frames - names


def groups_of(objects, names):
    return [o for o in objects if o["type"] == "group" and seeded.plain(o.get("function")) in names]


def miss(first, objects, faulty, callers, logs):
    """The kind of a wrong report."""
    side = "bad" if first.get("bad") else "good"
    calls = Calls(logs[side])
    if not calls.own(faulty) and seeded.involved(first) & callers:
        return "inlined"
    ran = calls.first(faulty) or calls.first(callers)
    outer = callers | calls.around(faulty)
    reported = seeded.plain(proof.function_of(first))
    # A difference outside of all calls, such as how a thread ends, has no number.
    before = ran is None or first.get(side, {}).get("call", ran) < ran
    if before and (first["kind"] == "params" or reported not in outer):
        return "noise"
    if reported in outer:
        return "caller"
    return "listed" if groups_of(objects, faulty) else "data" if not before else "other"


def judge(good_log, bad_log, faulty, callers):
    """(the kind, the text of the first report)"""
    status, objects = proof.diff("--by-name", good_log, bad_log)
    first = first_report(objects)
    if not first:
        return ("cannot tell" if status == 3 else "none"), "no difference"
    text = f"{first['text']} (in {', '.join(sorted(named(first)))})"
    if faulty & named(first):
        return RIGHT, text
    return miss(first, objects, faulty, callers, {"good": good_log, "bad": bad_log}), text
