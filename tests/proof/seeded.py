#!/usr/bin/python3
"""Proof by seeded faults: changes an operator or a constant in a small program, and asks diff where the runs part.

usage: WATCHCTL=build/bin/watchctl tests/proof/seeded.py [-n COUNT] [-j JOBS] [PROGRAM ...]

Programs are tests/proof/seeds/*.c. Of each, changes are made that show in what it prints, or in how it ends. Right is:
the first difference that diff names is in the changed function or in one that calls it: the call that differs is one
of it, or is made from it. With --garbage the stack of the good runs holds something else than that of the bad ones
before they begin. Exit status 0 if at least 90 % are right.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import proof

WANTED = 0.90
SEEDS = proof.HERE / "seeds"
# What is inlined is no call: a difference in it shows in the function that it has become a part of.
LEVELS = {"O1": ["-O1", "-fno-inline"], "O0": ["-O0"]}
STEP = ["--pointee", "512"]

# What is looked for, and what takes its place. Spaces keep pointers, unary signs and shifts out.
OPERATORS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
             (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "),
             (" % ", " / "), ("++", "--"), ("--", "++"), (" += ", " -= "), (" ^= ", " |= "), (" ^ ", " & ")]
NUMBER = re.compile(r"(?<![\w.'])(\d+)(?![\w.])")


class Function:
    """Lines [start, end) of a source."""

    def __init__(self, name, start, end):
        self.name, self.start, self.end = name, start, end


def functions(lines):
    """In the style of the sources: the opening brace stands alone at the left, the name in the line before."""
    found = []
    for i, line in enumerate(lines):
        if line == "{":
            name = re.search(r"(\w+)\(", lines[i - 1])
            found.append(Function(name.group(1), i + 1, lines.index("}", i)))
    return found


def without_strings(line):
    """As long as @line; what stands in quotes is left blank."""
    return re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|/\*.*?\*/', lambda m: " " * len(m.group()), line)


def changes_of(line):
    """(start, end, new text)"""
    plain = without_strings(line)
    for old, new in OPERATORS:
        for m in re.finditer(re.escape(old), plain):
            yield m.start(), m.end(), new
    if "[" in plain and ";" in plain and "=" not in plain:
        return  # the size of an array
    for m in NUMBER.finditer(plain):
        yield m.start(), m.end(), str(int(m.group(1)) + 1)


class Fault:
    """One change of a program."""

    def __init__(self, source, function, line, change):
        self.source, self.function, self.line, self.change = source, function, line, change

    def __str__(self):
        text = self.source.read_text().splitlines()[self.line]
        start, end, new = self.change
        return f"{self.source.name}:{self.line + 1} {self.function}: {text.strip()!r}, {text[start:end]!r} -> {new!r}"

    def text(self):
        lines = self.source.read_text().splitlines()
        start, end, new = self.change
        lines[self.line] = lines[self.line][:start] + new + lines[self.line][end:]
        return "\n".join(lines) + "\n"


def faults_of(source):
    lines = source.read_text().splitlines()
    for f in functions(lines):
        if f.name == "main":
            continue
        for i in range(f.start, f.end):
            for change in changes_of(lines[i]):
                yield Fault(source, f.name, i, change)


def callers_of(source, name):
    """Those whose code names it."""
    lines = source.read_text().splitlines()
    return {f.name for f in functions(lines) if any(re.search(rf"\b{name}\b", x) for x in lines[f.start:f.end])}


def compile_source(source, target, level):
    r = subprocess.run(["gcc", "-std=gnu11", "-g", "-w", *LEVELS[level], str(source), "-o", str(target), "-lm"],
                       capture_output=True)
    return r.returncode == 0


def run(program):
    """What it prints, and how it ends; None: it does not end, or only by luck."""
    limit = ["prlimit", "--as=1000000000", "--cpu=2", "--fsize=1000000"]
    try:
        r = subprocess.run([*limit, str(program)], capture_output=True, timeout=5, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return None if r.returncode in (-9, -24) or len(r.stdout) > 5000 else (r.stdout, r.returncode)


class Scene:
    """A folder with all programs, as they should be."""

    def __init__(self, folder, keep, garbage=False):
        self.folder, self.keep = Path(folder).resolve(), keep
        self.preload = str(self.folder / "garbage.so") if garbage else None
        if garbage:
            subprocess.run(["gcc", "-O1", "-shared", "-fPIC", str(proof.HERE / "garbage.c"), "-o", self.preload,
                            "-ldl"], check=True)

    def record(self, place, program, garbage):
        env = {"LD_PRELOAD": self.preload, "GARBAGE": garbage} if self.preload else {}
        proof.record(place / "log", [str(place / program)], place, [*STEP, "--aslr"], env)

    def good(self, source, level):
        place = self.folder / f"{source.stem}-{level}"
        place.mkdir()
        assert compile_source(source, place / source.stem, level)
        self.record(place, source.stem, "3")
        return place / "log", run(place / source.stem)

    def bad(self, name, fault, level, good):
        """Its folder; None: it does not compile, or nothing shows."""
        place = self.folder / name
        place.mkdir()
        (place / fault.source.name).write_text(fault.text())
        program = place / fault.source.stem
        if compile_source(place / fault.source.name, program, level):
            first, second = run(program), run(program)
            if first and first == second and first != good:
                return place
        shutil.rmtree(place)
        return None


def plain(name):
    return re.sub(r"\..*|\(.*", "", name or "")


def involved(difference):
    """The function that is called in the first difference, and the one that calls it, inlined ones too."""
    call = difference.get("bad") or difference.get("good")
    names = {plain(call.get("function"))}
    for frame in call.get("stack", []):
        names.add(plain(frame.get("function")))
        if not frame.get("inlined"):
            break
    return names


def judge(scene, fault, level, name, good_log, good_run):
    """None: nothing to judge; else (right, what was said)."""
    place = scene.bad(name, fault, level, good_run)
    if not place:
        return None
    try:
        scene.record(place, fault.source.stem, "9")
        _, objects = proof.diff("--by-name", good_log, place / "log")
    except (proof.Failure, subprocess.TimeoutExpired) as e:
        return False, str(e)
    finally:
        if not scene.keep:
            shutil.rmtree(place)
    first = proof.first_difference(objects)
    if not first:
        return False, "no difference"
    near = {fault.function} | callers_of(fault.source, fault.function)
    return bool(near & involved(first)), f"{first['text']} (in {', '.join(sorted(involved(first)))})"


def every(items, n):
    """About n of them, from the first to the last."""
    return items if len(items) <= n else [items[i * len(items) // n] for i in range(n)]


def prove(sources, total, jobs, keep=None, garbage=False):
    """Judges about @total faults; (right, all), and prints those that were wrong."""
    folder = keep or tempfile.mkdtemp(prefix="watchctl-seeded-")
    scene = Scene(folder, keep, garbage)
    work, each = [], -(-total // (len(sources) * len(LEVELS)))
    try:
        for source in sources:
            for level in LEVELS:
                good = scene.good(source, level)
                # Twice as many as wanted: not every change shows.
                for i, fault in enumerate(every(list(faults_of(source)), each * 2)):
                    work.append((fault, level, f"{source.stem}-{level}-{i}", *good))
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(lambda w: judge(scene, *w), work))
    finally:
        if not keep:
            shutil.rmtree(folder)
    judged = [(w, r) for w, r in zip(work, results) if r]
    for (fault, level, name, *_), (right, said) in judged:
        if not right:
            print(f"{name} {fault}: {said}")
    return sum(right for _, (right, _) in judged), len(judged)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=250)
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("--garbage", action="store_true")
    parser.add_argument("--keep", help="a new folder for all files, which stay")
    parser.add_argument("program", nargs="*")
    o = parser.parse_args()
    sources = [s for s in sorted(SEEDS.glob("*.c")) if not o.program or s.stem in o.program]
    if o.keep:
        Path(o.keep).mkdir()
    right, count = prove(sources, o.n, o.j, o.keep, o.garbage)
    print(f"seeded faults: {count} in {len(sources)} programs, {right} shown in the function or its caller "
          f"({right / max(count, 1):.1%})")
    return 0 if count and right >= WANTED * count else 1


if __name__ == "__main__":
    sys.exit(main())
