"""
How victims are built: each says so itself, in its first lines, in a comment of its language.

    /* build: gcc -O1 -g -pthread */                    NAME.c becomes the program NAME
    /* build NAME_static: gcc -O2 -g -static */         and another one, if there are two such lines
    /* build: gcc -O0 -g NAME_other.c */                of two sources
    /* ... -pthread */                                  goes on with the line above

The words are a command without its target; the source is put behind the compiler's name. Paths are relative to the
root, those of further sources to the source. `@` is the folder of the victims, and `-l:NAME` or `@/NAME` there is
another victim, which is built before. `@stackwalk.so` and `@stackwalk.a` are what a program is linked with that
captures its stacks.

usage: recipes.py BUILD         prints what make has to know of each (tools/victims.mk)
       recipes.py --missing     names the compilers that are missing, and the victims that are not built for it
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
VICTIMS = ROOT / "tests" / "victims"
FOLDERS = [VICTIMS, ROOT / "tests" / "hostile"]

LINE = re.compile(r"(?:/\*|//|!|#|--|;)\s*(?:build(?: (?P<name>\S+))?:|(?P<more>\.\.\.)) (?P<words>.*?)\s*(?:\*/)?")
SOURCE = re.compile(r"[^-@].*\.(?:c|cc|S|f90|go|rs)")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class Recipe(NamedTuple):
    sources: list
    words: list  # the compiler and its flags

    @property
    def compiler(self):
        return self.words[0]

    def missing(self):
        """The compiler, if it is not there."""
        return None if shutil.which(self.compiler) else self.compiler

    def command(self, build, target, sources=None):
        folder = build / "victims"
        words = [f for word in self.words for f in stackwalk(build).get(word, [word.replace("@", str(folder))])]
        sources = list(map(str, sources or self.sources))
        if self.compiler == "go":
            return [*words, "-o", str(target), *sources]
        return [words[0], *sources, *words[1:], "-o", str(target)]

    def needs(self, build, names):
        """The files that it is made from: sources, the headers beside them, libraries of ours, other victims."""
        libraries = [build / f"lib{w[1:]}" for w in self.words if w in stackwalk(build)]
        others = [w[3:] if w.startswith("-l:") else w[2:] for w in self.words if w.startswith(("-l:", "@/"))]
        victims = [build / "victims" / o for o in others if o in names]
        return [*self.sources, *headers(self), *scripts(self), *libraries, *victims]


def stackwalk(build):
    return {
        "@stackwalk.so": [f"-I{ROOT}/stackwalk", str(build / "libstackwalk.so"), f"-Wl,-rpath,{build}"],
        "@stackwalk.a": [f"-I{ROOT}/stackwalk", str(build / "libstackwalk.a")],
    }


def headers(recipe):
    folders = [ROOT / w[2:] for w in recipe.words if w.startswith("-I")]
    found, todo = [], list(recipe.sources)
    for path in todo:
        for name in INCLUDE.findall(path.read_text()):
            header = next((p for p in (f / name for f in (path.parent, *folders)) if p.exists()), None)
            if header and header not in found:
                found.append(header)
                todo.append(header)
    return found


def scripts(recipe):
    return [ROOT / w.split("=", 1)[1] for w in recipe.words if w.startswith("-Wl,--version-script=")]


def lines(path):
    """(name, words) of each victim that is made of this source."""
    found = []
    for line in map(LINE.fullmatch, path.read_text().splitlines()):
        if not line:
            break
        if line["more"]:
            found[-1][1].extend(line["words"].split())
        else:
            found.append((line["name"] or path.stem, line["words"].split()))
    return found


def read():
    """{name: recipe} of all victims."""
    recipes = {}
    for path in sorted(p for folder in FOLDERS for p in folder.iterdir() if p.is_file()):
        for name, words in lines(path):
            more = [path.parent / w for w in words if SOURCE.fullmatch(w)]
            if name in recipes:
                sys.exit(f"{path}: there is another victim {name}, of {recipes[name].sources[0]}")
            recipes[name] = Recipe([path, *more], [w for w in words if not SOURCE.fullmatch(w)])
    return recipes


def compile_copy(name, source, target):
    """Compiles the only source of victim @name, of which @source is a copy with changes."""
    recipe = read()[name]
    subprocess.run(recipe.command(target.parent, target, [source]), check=True)


def make_word(text):
    return "$@.new" if text == "TARGET" else str(text).replace("$", "$$").replace("#", r"\#")


def rules(build):
    recipes = read()
    print("VICTIMS :=", *[f"$(BUILD)/victims/{name}" for name in recipes])
    seen = set()
    for name, recipe in recipes.items():
        target = f"$(BUILD)/victims/{name}"
        needs = [str(p) for p in recipe.needs(build, recipes)]
        # Where these are targets, they are called as make is told BUILD.
        needs = [n.replace(f"{build}/", "$(BUILD)/", 1) if n.startswith(f"{build}/") else n for n in needs]
        print(f"VICTIM_{name} =", *map(make_word, recipe.command(build, "TARGET")))
        print(f"{target}:", *needs)
        seen.update(p for p in headers(recipe) + recipe.sources + scripts(recipe))
    for path in sorted(seen):  # one that has gone is no error
        print(f"{path}:")


def name_missing():
    missing = {}
    for name, recipe in read().items():
        if recipe.missing():
            missing.setdefault(recipe.compiler, []).append(name)
    for compiler, names in missing.items():
        print(f"victims: {compiler} is not installed; not built: {' '.join(names)}")


if __name__ == "__main__":
    if sys.argv[1] == "--missing":
        name_missing()
    else:
        rules(Path(os.path.abspath(sys.argv[1])))
