"""Public corpora of faulty C programs: where they are, their versions, and what the programs are run with."""
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import corpus_unix

# By what folder; the commit is the one that the figures in docs/steps.md were measured with.
CORPORA = {
    "siemens": ("https://github.com/houzss/Software-Fault-Location-By-SiemensSuite",
                "2e609f2ea5301e95a7f4a9535c605c6ef94d265b"),
    "unix": ("https://github.com/songsir666/Delta4Ts-benchmark", "c9a8f9540e26943ad361cdc5f494e6d08bd77743"),
}
CLONE_S = 900
FLAGS = ["-g", "-std=gnu89", "-w"]
# The correct one includes it and most faulty ones do not, which is not the fault, but atoi() is then something else.
MORE_FLAGS = {"tcas": ["-include", "stdlib.h"]}


class Missing(Exception):
    """A corpus that is not there, and why."""


def fetch(name, folder):
    """The corpus, cloned if it is not there."""
    place = folder / name
    if place.is_dir():
        return place
    url, commit = CORPORA[name]
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    try:
        subprocess.run(["git", "clone", "-q", url, str(new)], check=True, capture_output=True, timeout=CLONE_S)
        subprocess.run(["git", "-C", str(new), "checkout", "-q", commit], check=True, capture_output=True, timeout=CLONE_S)
        new.rename(place)
    except (subprocess.SubprocessError, OSError) as e:
        said = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip() or str(e)
        raise Missing(f"{place} is not there, and git cannot clone {url}: {said}; clone it there by hand, and check "
                      f"out {commit}") from e
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return place


class Test:
    """All that a program is run with: arguments, a file as standard input, a folder whose copy it runs in."""

    def __init__(self, name, args, stdin=None, files=None):
        self.name, self.args, self.stdin, self.files = name, args, stdin, files


class Source:
    """A folder that a program is compiled from; @header: the text of FaultSeeds.h, None: it has none."""

    def __init__(self, folder, main, header=None, flags=()):
        self.folder, self.main, self.header = folder, main, header
        self.flags = [*flags, *(["-DHAVE_CONFIG_H"] if (folder / "config.h").is_file() else [])]

    def key(self):
        return str(self.folder), self.header

    def place(self, scratch):
        """Where to compile: a copy, if a header must say something else."""
        if self.header is None:
            return self.folder
        if not scratch.is_dir():
            shutil.copytree(self.folder, scratch)
            # One version has the name with a letter too many.
            for name in re.findall(r"#\s*include\s*[<\"](Fau\w*Seeds\.h)", (scratch / self.main).read_text(errors="replace")):
                (scratch / name).write_text(self.header)
        return scratch


class Fault:
    """A correct source and a faulty one."""

    def __init__(self, program, version, good, bad, tests):
        self.program, self.version, self.good, self.bad, self.tests = program, version, good, bad, tests


def by_number(path):
    return int(re.sub(r"\D", "", path.name) or 0)


def siemens_tests(program):
    """The lines of the universe: arguments < file."""
    found = []
    for i, line in enumerate((program / "testplans.alt" / "universe").read_text(errors="surrogateescape").splitlines(), 1):
        words, _, file = line.rpartition("<") if re.search(r"<\s*[\w./-]+\s*$", line) else (line, "", "")
        stdin = program / "inputs" / file.strip() if file else None
        try:
            args = shlex.split(words)
        except ValueError:  # a quote that is not closed
            continue
        if not stdin or stdin.is_file():
            found.append(Test(f"t{i}", args, stdin))
    return found


def siemens(folder, _scratch):
    for program in sorted(p.parent for p in folder.glob("*/source.alt")):
        good = program / "source.alt" / "source.orig"
        main = next(good.glob("*.c")).name
        tests = siemens_tests(program)
        for v in sorted((program / "versions.alt" / "versions.orig").glob("v*"), key=by_number):
            if (v / main).is_file():
                flags = MORE_FLAGS.get(program.name, [])
                yield Fault(program.name, v.name, Source(good, main, flags=flags), Source(v, main, flags=flags), tests)


def macros_of(folder, main):
    """The faults that the header names and that the source asks for."""
    named = re.findall(r"#\s*define\s+(\w+)", (folder / "FaultSeeds.h").read_text(errors="replace"))
    asked = set(re.findall(r"#\s*ifn?def\s+(\w+)", (folder / main).read_text(errors="replace")))
    return [m for m in dict.fromkeys(named) if m in asked]


def unix(folder, scratch):
    for program, scene in corpus_unix.SCENES.items():
        files = scratch / f"files-{program}"
        if not files.is_dir():
            corpus_unix.write_files(files)
        tests = [Test(f"c{i}", args, files / stdin if stdin else None, files)
                 for i, (args, stdin) in enumerate(scene.lines, 1)]
        for v in sorted((folder / program / "versions.alt" / "versions.seeded").glob("v*"), key=by_number):
            flags = [*scene.flags, *scene.only.get(v.name, [])]
            for macro in macros_of(v, scene.main):
                good, bad = (Source(v, scene.main, scene.header + more, flags) for more in ("", f"#define {macro}\n"))
                yield Fault(program, f"{v.name}.{macro.removeprefix('FAULTY_')}", good, bad, tests)


LISTS = {"siemens": siemens, "unix": unix}


def compile_source(source, target, scratch, level):
    """None, or what the compiler says."""
    place = source.place(scratch)
    target.parent.mkdir(parents=True, exist_ok=True)
    r = subprocess.run(["gcc", *FLAGS, level, "-I.", *source.flags, source.main, "-o", str(target), "-lm"],
                       cwd=place, capture_output=True, timeout=300)
    return None if r.returncode == 0 else r.stderr.decode(errors="replace")
