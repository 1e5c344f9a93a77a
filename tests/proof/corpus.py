#!/usr/bin/python3
"""Proof by public corpora of C programs with known faults: step and diff must lead to the faulty function.

usage: WATCHCTL=build/bin/watchctl tests/proof/corpus.py --corpora DIR [--program GLOB] [--version GLOB] [--level -O0]

DIR has the corpora (corpus_programs.CORPORA); one that is not there is cloned. Each faulty version is compiled as a
user does it, and run by itself until inputs are found for which it does something else than the correct one, each time.
Both are recorded with such an input, and compared. Right is: the first report is of a call of a faulty function, or of
one made from it; frames that are inlined there count. Correct programs are also recorded twice with the same input,
which must not differ. Exit status 0: enough is right; 1: not; 77: there is no corpus.
"""
import argparse
import collections
import fnmatch
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corpus_judge
import corpus_programs
import corpus_run
import proof

WANTED = {"-O0": 0.95, "-O1": 0.85}
WANTED_GOOD = 0.99
SKIPPED = 77


class Results:
    """Objects, one a line in a file if there is one; a run that resumes finds those of earlier runs."""

    def __init__(self, path, resume):
        self.found, self.path = {}, Path(path) if path else None
        if self.path and resume and self.path.exists():
            for line in self.path.read_text().splitlines():
                self.take(json.loads(line))
        elif self.path:
            self.path.write_text("")

    def take(self, result):
        self.found[self.key(result)] = result

    @staticmethod
    def key(result):
        return tuple(result[k] for k in ("type", "program", "version", "level", "input"))

    def add(self, **result):
        self.take(result)
        if self.path:
            with open(self.path, "a") as f:
                f.write(json.dumps(result) + "\n")

    def of(self, **wanted):
        return [r for r in self.found.values() if all(r[k] == v for k, v in wanted.items())]


def faults_of(o, folder):
    """Those that are asked for; None: there is no corpus."""
    found, any_corpus = [], False
    for name in o.corpus or corpus_programs.CORPORA:
        try:
            place = corpus_programs.fetch(name, Path(o.corpora).resolve())
        except corpus_programs.Missing as e:
            print(f"skipped {name}: {e}")
            continue
        any_corpus = True
        found += corpus_programs.LISTS[name](place, folder)
    return [f for f in found if fnmatch.fnmatch(f.program, o.program) and fnmatch.fnmatch(f.version, o.version)] \
        if any_corpus else None


def recorded(place, test, o):
    """Its log, the one of an earlier run if that is to be used again."""
    log = place / "log"
    return log if o.reuse and log.exists() else corpus_run.record(place, test, options=o.step.split())


def judged(scene, o, test, places, names, results, key):
    """Records and compares one faulty run."""
    began = time.monotonic()
    try:
        logs = [recorded(p, test, o) for p in places]
        kind, text = corpus_judge.judge(*logs, *names)
    except subprocess.TimeoutExpired as e:
        kind, text = "timeout", f"not at an end after {e.timeout} s"
    except proof.Failure as e:
        kind, text = "failed", str(e)
    result = {"type": "fault", **key, "input": test.name, "kind": kind, "text": text, "faulty": sorted(names[0]),
              "seconds": round(time.monotonic() - began, 2)}
    results.add(**result)
    if kind != corpus_judge.RIGHT:
        print(line_of(result), flush=True)


def line_of(r):
    return f"{r['program']} {r['version']} {r['level']} {r['input']}: {r['kind']}: {r['text']}; " \
           f"faulty: {', '.join(r['faulty'])}"


def prove_fault(scene, o, results, fault, level):
    """All of one version at one level."""
    key = {"program": fault.program, "version": fault.version, "level": level}
    if any(r["kind"] == "left out" for r in results.of(**key)) or len(results.of(type="fault", **key)) >= o.n:
        return

    def left_out(why):
        results.add(type="fault", **key, input="", kind="left out", text=why, faulty=[])

    builds = [scene.build(s, level, n) for s, n in ((fault.good, corpus_run.good_name(fault)),
                                                    (fault.bad, corpus_run.bad_name(fault)))]
    if any(said for _, said in builds):
        lines = next(s for _, s in builds if s).splitlines()
        return left_out("does not compile: " + next((x for x in lines if "error" in x or "undefined" in x), lines[0]))
    names = corpus_run.faulty_functions(scene, fault, level)
    if not names[0]:
        return left_out("its text is that of the correct program")
    place = f"{fault.program}-{fault.version}{level}"
    search = [scene.place(f"{place}-{side}", build) for side, (build, _) in zip(("good", "bad"), builds)]
    tests = remembered(scene, fault, search, level, o)
    if not tests:
        return left_out("no input shows it")
    for test in tests:
        if not results.of(type="fault", **key, input=test.name):
            places = [scene.place(f"{place}-{test.name}-{side}", build)
                      for side, (build, _) in zip(("good", "bad"), builds)]
            judged(scene, o, test, places, names, results, key)
            if not o.keep:
                for p in places:
                    shutil.rmtree(p)


def remembered(scene, fault, search, level, o):
    """The inputs that show the fault, as many as are wanted; a folder that is kept remembers them."""
    path = search[1] / f"inputs-{o.n}"
    if path.exists():
        named = path.read_text().split()
        return [t for name in named for t in fault.tests if t.name == name]
    found = []
    for test in scene.bad_tests(fault, level, *search):
        found.append(test)
        if len(found) == o.n:
            break
    path.write_text("\n".join(t.name for t in found))
    return found


def prove_good(scene, o, results, fault, level):
    """A correct program against itself, with some inputs."""
    name = corpus_run.good_name(fault)
    key = {"type": "good", "program": fault.program, "version": name.removeprefix(f"{fault.program}-"), "level": level}
    build, said = scene.build(fault.good, level, name)
    tests = list(fault.tests)
    random.Random(name).shuffle(tests)
    for test in tests:
        if said or len(results.of(**key)) >= o.good:
            return
        place = scene.place(f"{name}{level}-{test.name}", build)
        if not results.of(**key, input=test.name) and scene.stable(place, test):
            results.add(**key, input=test.name, **compared(place, test, o), faulty=[])
            last = results.of(**key, input=test.name)[0]
            if last["kind"] != corpus_judge.RIGHT:
                print(line_of(last), flush=True)
        if not o.keep:
            shutil.rmtree(place)


def compared(place, test, o):
    began = time.monotonic()
    try:
        logs = [place / "log1", place / "log2"]
        for log in logs:
            if not (o.reuse and log.exists()):
                corpus_run.record(place, test, log.name, o.step.split())
        status, objects = proof.diff(*logs)
    except subprocess.TimeoutExpired as e:
        return {"kind": "timeout", "text": f"not at an end after {e.timeout} s", "seconds": e.timeout}
    except proof.Failure as e:
        return {"kind": "failed", "text": str(e), "seconds": round(time.monotonic() - began, 2)}
    first = corpus_judge.first_report(objects) or next((x for x in objects if x["type"] == "difference"), {})
    return {"kind": {0: corpus_judge.RIGHT, 3: "cannot tell"}.get(status, "differs"), "text": first.get("text", ""),
            "seconds": round(time.monotonic() - began, 2)}


def settle(results):
    """A wrong report that is also the first of two good runs of the program is noise, whenever it came."""
    noise = {(r["program"], r["level"], r["text"]) for r in results.of(type="good", kind="differs")}
    for r in results.of(type="fault"):
        if r["kind"] in corpus_judge.MISSES and (r["program"], r["level"], r["text"].rpartition(" (in ")[0]) in noise:
            r["kind"] = "noise"


def share(right, count):
    return f"{right / count:.1%}" if count else "-"


def table(results):
    """Rows by program and level, with a sum for each level."""
    kinds = [*corpus_judge.MISSES, *corpus_judge.NOT_JUDGED]
    rows = [["program", "level", "faults", "right", "%", *kinds, "left out"]]
    all_of = [r for r in results.of(type="fault")]
    for level in sorted({r["level"] for r in all_of}):
        for program in [*sorted({r["program"] for r in all_of}), "all"]:
            n = collections.Counter(r["kind"] for r in all_of
                                    if r["level"] == level and program in (r["program"], "all"))
            count = judged_of(n)
            rows.append([program, level, count, n[corpus_judge.RIGHT], share(n[corpus_judge.RIGHT], count),
                         *(n[k] for k in kinds), n["left out"]])
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(str(x).ljust(w) if i < 2 else str(x).rjust(w) for i, (x, w) in enumerate(zip(row, widths))))
    for kind in {r["kind"]: 0 for r in all_of}:
        if kind in corpus_judge.MISSES:
            print(f"{kind}: {corpus_judge.MISSES[kind]}")


def judged_of(counts):
    return sum(n for k, n in counts.items() if k in (corpus_judge.RIGHT, *corpus_judge.MISSES))


def verdict(results):
    """Whether enough is right, by level, and of good runs."""
    enough = True
    for level in sorted({r["level"] for r in results.found.values()}):
        n = collections.Counter(r["kind"] for r in results.of(type="fault", level=level))
        right, count = n[corpus_judge.RIGHT], judged_of(n)
        print(f"{level}: {right} of {count} faults right ({share(right, count)}; wanted {WANTED[level]:.0%}); "
              f"{n['failed']} recordings failed, {n['timeout']} took too long, {n['left out']} left out")
        enough &= right >= WANTED[level] * count
    good = collections.Counter(r["kind"] for r in results.of(type="good"))
    count = good[corpus_judge.RIGHT] + good["differs"]
    print(f"good against good: {good[corpus_judge.RIGHT]} of {count} without a difference "
          f"({share(good[corpus_judge.RIGHT], count)}; wanted {WANTED_GOOD:.0%}); "
          f"{good['cannot tell']} cannot tell, {good['failed']} failed, {good['timeout']} took too long")
    return enough and good[corpus_judge.RIGHT] >= WANTED_GOOD * count


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpora", required=True, help="the folder that has the corpora, or gets them")
    parser.add_argument("--corpus", choices=list(corpus_programs.CORPORA), action="append", help="default: all")
    parser.add_argument("--program", default="*", metavar="GLOB")
    parser.add_argument("--version", default="*", metavar="GLOB")
    parser.add_argument("--level", choices=list(WANTED), action="append", help="default: both")
    parser.add_argument("-n", type=int, default=1, help="inputs that show a fault, of each version")
    parser.add_argument("-j", type=int, default=2, help="at a time")
    parser.add_argument("--good", type=int, default=10, help="inputs of each correct program, recorded twice")
    parser.add_argument("--inputs", type=int, default=0, help="inputs that are tried for a fault (0: all)")
    parser.add_argument("--slice", default="0/1", metavar="K/N", help="each Nth version, beginning with the Kth")
    parser.add_argument("--step", default="", metavar="OPTIONS", help="more options for watchctl step")
    parser.add_argument("--json", metavar="FILE", help="all results, one object a line")
    parser.add_argument("--resume", action="store_true", help="leave out what --json FILE has")
    parser.add_argument("--keep", metavar="DIR", help="builds, inputs and logs stay there; builds and inputs are used again")
    parser.add_argument("--reuse", action="store_true", help="logs in --keep DIR are used again, too: only diff runs")
    return parser.parse_args()


def main():
    o = options()
    began = time.monotonic()
    folder = Path(o.keep or tempfile.mkdtemp(prefix="watchctl-corpus-"))
    folder.mkdir(exist_ok=True)
    try:
        faults = faults_of(o, folder.resolve())
        if faults is None:
            return SKIPPED
        k, n = map(int, o.slice.split("/"))
        faults = faults[k::n]
        results = Results(o.json, o.resume)
        prove(corpus_run.Scene(folder, o), o, results, faults)
    finally:
        if not o.keep:
            shutil.rmtree(folder)
    settle(results)
    table(results)
    enough = verdict(results)
    spent = sum(r.get("seconds", 0) for r in results.found.values())
    print(f"{time.monotonic() - began:.0f} s, of which recording and comparing took {spent:.0f} s, {o.j} at a time")
    return 0 if enough else 1


def prove(scene, o, results, faults):
    levels = o.level or list(WANTED)
    programs = {(corpus_run.good_name(f), level): (f, level) for f in faults for level in levels}
    with ThreadPoolExecutor(o.j) as pool:
        work = [pool.submit(prove_fault, scene, o, results, f, level) for f in faults for level in levels]
        work += [pool.submit(prove_good, scene, o, results, *p) for p in programs.values()]
        for w in work:
            w.result()


if __name__ == "__main__":
    sys.exit(main())
