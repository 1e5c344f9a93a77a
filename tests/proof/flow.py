"""Generated programs that know their own causes (tests/victims/causes.c), recorded by `watchctl flow record`: are the strong edges of `watchctl flow
graph` between their threads those that the programs tell (precision), and are the told ones there (recall)?

An edge is right if giver and taker are, and both its times lie where the program was giving and taking. What a taker got without a system call
does not count: nothing outside can know it. Nor does an edge of a lock from the taker to the giver of a condition variable or semaphore while
these were giving: they may meet at its inner lock, and the program does not know.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

LIMIT_S = 120
SLACK_NS = 100
INNER = ("condition", "semaphore")
KERNEL_LOCK = "out of an uninterruptible sleep"  # of two threads of a process that change its memory

Told = collections.namedtuple("Told", "kind giver taker sent_begin sent_end taken_begin taken_end slept")
Life = collections.namedtuple("Life", "begin end")  # of a thread: what it does before and after is not of the plan
Edge = collections.namedtuple("Edge", "kind giver taker sent taken evidence")


def told_edges(text):
    return [Told(words[1], *map(int, words[2:])) for words in map(str.split, text.splitlines()) if words and words[0] == "edge"]


def lives(text):
    return {int(words[1]): Life(int(words[2]), int(words[3])) for words in map(str.split, text.splitlines()) if words and words[0] == "thread"}


def is_inner_lock(edge, memory):
    """One of the C library's, which the program does not know of."""
    return edge.kind == "lock" and not memory[0] <= int(edge.evidence.split()[1], 16) < memory[1]


def memory_of(text):
    return [int(n, 16) for n in re.search(r"^memory (\S+) (\S+)$", text, re.M).groups()]


def graph_edges(watchctl, log):
    found = []
    done = subprocess.run([watchctl, "flow", "graph", log], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    for line in done.stdout.splitlines():
        e = json.loads(line)
        if e["type"] == "edge" and e["strong"] and "tid" in e["from"]:
            found.append(Edge(e["kind"], e["from"]["tid"], e["to"]["tid"], e["from"]["time_ns"], e["to"]["time_ns"], e.get("evidence", "")))
    return found


def fits(edge, told):
    return (edge.giver, edge.taker) == (told.giver, told.taker) and told.sent_begin - SLACK_NS <= edge.sent <= told.sent_end + SLACK_NS \
        and told.sent_begin - SLACK_NS <= edge.taken <= told.taken_end + SLACK_NS


def is_inner(edge, told):
    return told.kind in INNER and (edge.giver, edge.taker) == (told.taker, told.giver) and told.sent_begin <= edge.taken <= told.sent_end


def is_of_the_plan(edge, life):
    """Of two threads, while both act by the plan, or of one that a step of the plan has made."""
    always = Life(0, float("inf"))
    giver, taker = life.get(edge.giver, always), life.get(edge.taker, always)
    return edge.giver != edge.taker and giver.begin <= edge.sent and taker.begin <= edge.taken <= taker.end and edge.sent <= giver.end


def by_worker(told, to_workers, from_workers):
    """A terminal's bytes are handed on by a thread of the kernel's."""
    return any(told.sent_begin - SLACK_NS <= e.sent <= told.sent_end + SLACK_NS and
               any(e.taken <= f.sent and f.taken <= told.taken_end + SLACK_NS for f in from_workers[e.taker, told.taker])
               for e in to_workers[told.giver])


class Score:
    def __init__(self):
        self.right, self.wrong, self.found, self.missed = (collections.Counter() for _ in range(4))
        self.examples = []

    def judge_edges(self, told, edges, life, name):
        """Returns those told that were found."""
        by_pair = collections.defaultdict(list)
        for t in told:
            by_pair[t.giver, t.taker].append(t)
        seen = set()
        for e in edges:
            matching = [t for t in by_pair[e.giver, e.taker] if fits(e, t)]
            seen.update(matching)
            if matching:
                self.right[e.kind] += 1
            elif is_of_the_plan(e, life) and not any(is_inner(e, t) for t in by_pair[e.taker, e.giver]):
                self.wrong[e.kind] += 1
                self.examples.append(f"{name}: not told: {e}")
        return seen

    def judge(self, told, life, memory, edges, name):
        threads = {t.giver for t in told} | {t.taker for t in told}
        causes = [e for e in edges if e.kind != "wait_for" and e.evidence != KERNEL_LOCK and not is_inner_lock(e, memory)]
        seen = self.judge_edges(told, [e for e in causes if e.giver in threads and e.taker in threads], life, name)
        to_workers, from_workers = collections.defaultdict(list), collections.defaultdict(list)
        for e in causes:
            if e.kind == "work":
                to_workers[e.giver].append(e)
            elif e.taker in threads and e.giver not in threads:
                from_workers[e.giver, e.taker].append(e)
        for t in told:
            if t in seen or (t.kind == "pty" and by_worker(t, to_workers, from_workers)):
                self.found[t.kind] += 1
            elif t.slept:
                self.missed[t.kind] += 1
                self.examples.append(f"{name}: not found: {t}")

    @staticmethod
    def share(good, bad):
        good, bad = sum(good.values()), sum(bad.values())
        return good / (good + bad) if good + bad else 0.0

    def precision(self):
        return self.share(self.right, self.wrong)

    def recall(self):
        return self.share(self.found, self.missed)

    def table(self):
        for title, good, bad in ("edges of the graph", self.right, self.wrong), ("edges that programs tell", self.found, self.missed):
            print(f"{title:28}{'right' if bad is self.wrong else 'found':>8}{'wrong' if bad is self.wrong else 'missed':>8}")
            for kind in sorted(set(good) | set(bad)):
                print(f"  {kind:26}{good[kind]:8}{bad[kind]:8}")


def one(o, seed, folder, score):
    log = os.path.join(folder, f"log{seed}")
    done = subprocess.run([o.watchctl, "flow", "record", "-o", log, "--json", "--", o.causes, str(seed), str(o.steps)], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"seed {seed}: {done.stderr}")
    score.judge(told_edges(done.stdout), lives(done.stdout), memory_of(done.stdout), graph_edges(o.watchctl, log), f"seed {seed}")
    if not o.keep:
        subprocess.run(["rm", "-rf", log], check=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--watchctl", required=True)
    p.add_argument("--causes", required=True)
    p.add_argument("--programs", type=int, default=200)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--examples", type=int, default=10, help="how many of what is wrong or missing are shown")
    p.add_argument("--precision", type=float, default=99, help="percent, that must be reached")
    p.add_argument("--recall", type=float, default=95, help="percent, that must be reached")
    p.add_argument("--keep", help="the folder for the logs, which stay")
    p.add_argument("--json")
    o = p.parse_args()
    score = Score()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(o.first, o.first + o.programs):
            one(o, seed, o.keep or folder, score)
    score.table()
    for line in score.examples[: o.examples]:
        print(line)
    print(f"{o.programs} programs: precision {score.precision():.2%} (wanted {o.precision:g}), recall {score.recall():.2%} (wanted {o.recall:g})")
    if o.json:
        with open(o.json, "w", encoding="ascii") as f:
            json.dump({"programs": o.programs, "precision": score.precision(), "recall": score.recall()}, f)
    return 0 if score.precision() * 100 >= o.precision and score.recall() * 100 >= o.recall else 1


if __name__ == "__main__":
    sys.exit(main())
