"""Builds and runs of the programs of a corpus, by themselves and recorded."""
import hashlib
import random
import shutil
import subprocess
import threading
from pathlib import Path

import corpus_places
import corpus_programs
import proof

NATIVE_S = 2
RECORD_S = 60
LIMIT = ["/usr/bin/prlimit", "--as=2000000000", "--cpu=2", "--fsize=2000000", "--core=0"]


def outcome(place, test):
    """The outcome of a run in @place: its output, how it ends, the files that it leaves. None: it does not end."""
    work = fresh(place, test)
    with open(place / "output", "wb+") as out, open(test.stdin or "/dev/null", "rb") as stdin:
        try:
            r = subprocess.run([*LIMIT, *argv(place, test)], cwd=work, env=proof.BASE_ENV, stdin=stdin, stdout=out,
                               stderr=subprocess.STDOUT, timeout=NATIVE_S)
        except (subprocess.TimeoutExpired, ValueError):
            return None
        if r.returncode in (-9, -24, -25):
            return None
        out.seek(0)
        text = out.read()
    left = [(str(f.relative_to(work)), f.read_bytes()) for f in sorted(work.rglob("*")) if f.is_file()]
    return hashlib.sha256(repr((r.returncode, text, left)).encode()).hexdigest()


def argv(place, test):
    """The same words for the good program and for the bad one."""
    return [f"../bin/{next((place / 'bin').iterdir()).name}", *test.args]


def fresh(place, test):
    """A folder with the test's files, of which nothing is changed."""
    work = place / "work"
    if work.is_dir() and (test.files or any(work.iterdir())):
        shutil.rmtree(work)
    if test.files:
        shutil.copytree(test.files, work)
    work.mkdir(exist_ok=True)
    return work


def record(place, test, log="log", options=()):
    """The log of a run in @place."""
    path = place / log
    if path.exists():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with open(test.stdin or "/dev/null", "rb") as stdin:
        proof.record(path, argv(place, test), fresh(place, test), options, stdin=stdin, limit_s=RECORD_S)
    return path


class Scene:
    """A folder with all builds; what the good programs do is remembered."""

    def __init__(self, folder, options):
        self.folder, self.options = Path(folder).resolve(), options
        self.lock, self.builds, self.outcomes = threading.Lock(), {}, {}

    def build(self, source, level, name):
        """(its folder, None), or (None, what the compiler says). Once each."""
        key = (*source.key(), level)
        with self.lock:
            done = self.builds.setdefault(key, {"lock": threading.Lock()})
        with done["lock"]:
            if "result" not in done:
                place = self.folder / "build" / f"{name}{level}"
                target = place / "bin" / Path(source.main).stem
                said = None if target.exists() else corpus_programs.compile_source(source, target, place / "src", level)
                done["result"] = (None, said) if said else (place, None)
        return done["result"]

    def place(self, name, build):
        """A folder to run a build in."""
        place = self.folder / "runs" / name
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "bin").exists():
            (place / "bin").symlink_to(build / "bin")
        return place

    def good_outcome(self, source, level, place, test):
        key = (*source.key(), level, test.name)
        if key not in self.outcomes:
            self.outcomes[key] = outcome(place, test)
        return self.outcomes[key]

    def stable(self, place, test):
        """It does the same once more."""
        first = outcome(place, test)
        return first if first and first == outcome(place, test) else None

    def bad_tests(self, fault, level, good, bad):
        """Tests that show the fault, from anywhere in the list, the same for each call."""
        tests = list(fault.tests)
        random.Random(f"{fault.program} {fault.version}").shuffle(tests)
        for test in tests[:self.options.inputs or None]:
            right = self.good_outcome(fault.good, level, good, test)
            wrong = outcome(bad, test) if right else None
            if wrong and wrong != right and outcome(bad, test) == wrong and outcome(good, test) == right:
                yield test


def faulty_functions(scene, fault, level):
    """(the faulty ones, those that call them)"""
    good, bad = (s.place(scene.folder / "build" / f"{n}{level}" / "src")
                 for s, n in ((fault.good, good_name(fault)), (fault.bad, bad_name(fault))))
    faulty = corpus_places.faulty_functions(good, fault.good, bad, fault.bad)
    return faulty, corpus_places.callers_of(bad, fault.bad, faulty)


def good_name(fault):
    """Versions of a corpus with a good source of their own have it by their name up to the point."""
    return f"{fault.program}-good" + (f"-{fault.version.partition('.')[0]}" if "." in fault.version else "")


def bad_name(fault):
    return f"{fault.program}-{fault.version}"
