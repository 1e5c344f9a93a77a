"""The functions that a fault is in: those whose preprocessed text differs, or uses what differs outside of functions."""
import collections
import difflib
import json
import re
import subprocess

MARKER = re.compile(r'# (\d+) "([^"]*)"')
WORD = re.compile(r"[A-Za-z_]\w*")


class Text:
    """A source after the preprocessor: its lines, each with the function it is in (None: outside)."""

    def __init__(self, place, source):
        r = subprocess.run(["gcc", "-std=gnu89", "-w", "-E", "-I.", *source.flags, source.main], cwd=place,
                           capture_output=True, timeout=60)
        spans, self.names = tags(place, source.main)
        self.lines, self.where = [], []
        file, number = "", 0
        for line in r.stdout.decode(errors="replace").splitlines():
            marker = MARKER.match(line)
            if marker:
                number, file = int(marker.group(1)), marker.group(2)
                continue
            text = " ".join(line.split())
            if text and file.startswith("/") is False and not file.startswith("<"):
                self.lines.append(text)
                self.where.append((file, number, spans.get((file, number))))
            number += 1

    def users(self, names):
        """Functions whose text has one of the names."""
        return {f for line, (_, _, f) in zip(self.lines, self.where) if f and names & set(WORD.findall(line))}


def tags(place, main):
    """{(file, line): function}, {file: {line: names that are declared there}}; a prototype declares nothing new."""
    files = [main, *sorted(p.name for p in place.glob("*.[ch]") if p.name != main)]
    r = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=fpvmdtegsu", "--language-force=C",
                        "-f", "-", *files], cwd=place, capture_output=True, timeout=60)
    spans, names = {}, collections.defaultdict(lambda: collections.defaultdict(set))
    for line in r.stdout.decode(errors="replace").splitlines():
        tag = json.loads(line)
        if tag.get("_type") != "tag" or "line" not in tag:
            continue
        if tag["kind"] == "function":
            for n in range(tag["line"], tag.get("end", tag["line"]) + 1):
                spans[tag["path"], n] = tag["name"]
        else:
            names[tag["path"]][tag["line"]] |= {tag["name"]} if tag["kind"] != "prototype" else set()
    return spans, names


def differing(good, bad):
    """Ranges of lines that are not the same: (from, to) in the good text and in the bad one."""
    matcher = difflib.SequenceMatcher(None, *trimmed(good, bad), autojunk=False)
    skip = common(good, bad)
    return [(i + skip, j + skip, k + skip, m + skip) for op, i, j, k, m in matcher.get_opcodes() if op != "equal"]


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def trimmed(a, b):
    """Without what is the same at both ends: most of it."""
    start = common(a, b)
    end = common(a[start:][::-1], b[start:][::-1])
    return a[start:len(a) - end], b[start:len(b) - end]


def declared(text, start, end):
    """The names declared outside of functions in these lines, or by what these lines belong to."""
    found = set()
    for i in range(start, end):
        file, number, function = text.where[i]
        if not function:
            found |= text.names[file][max((n for n in text.names[file] if n <= number), default=0)]
    return found


def faulty_functions(good_place, good, bad_place, bad):
    """Names of functions; empty: the texts are the same."""
    g, b = Text(good_place, good), Text(bad_place, bad)
    found, names = set(), set()
    for i, j, k, m in differing(g.lines, b.lines):
        for text, start, end in (g, i, j), (b, k, m):
            inside = {text.where[n][2] for n in range(start, end)} - {None}
            found |= inside
            names |= declared(text, start, end)
    return found | (g.users(names) | b.users(names) if names and not found else set())


def callers_of(place, source, wanted):
    """Functions whose text names one of @wanted, and those that name these, and so on."""
    text = Text(place, source)
    found, new = set(), set(wanted)
    while new:
        found |= new
        new = text.users(new) - found
    return found - set(wanted)
