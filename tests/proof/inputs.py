"""One byte, or variable, of what real programs read is changed: diff must name that input first, with its place.

usage: inputs.py [-n CASES]        exit status: 0 the required rate was reached
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import proof

REQUIRED = 0.95
TEXT = b"".join(b"line %d of the input, which nobody prints\n" % i for i in range(60))
JSON = b"[" + b",".join(b'{"key":"value %d"}' % i for i in range(60)) + b"]\n"
XML = b"<r>" + b"".join(b"<e>text %d</e>" % i for i in range(60)) + b"</r>\n"
SUMS = b"".join(b"x = %d\n" % (100 + i) for i in range(60)) + b"quit\n"

# "FILE" is the input's name; by default also given at the standard input, as a pipe, without the name.
PROGRAMS = [
    ("bc", ["bc", "-q", "FILE"], SUMS, True, []),
    ("gzip", ["gzip", "-c", "FILE"], TEXT, True, []),
    ("sed", ["sed", "-n", "/zzz/p", "FILE"], TEXT, True, []),
    ("grep", ["grep", "-c", "line", "FILE"], TEXT, True, []),
    ("gawk", ["gawk", "/zzz/", "FILE"], TEXT, True, []),
    ("sort", ["sort", "-o", "/dev/null", "FILE"], TEXT, True, []),
    ("jq", ["jq", "length", "FILE"], JSON, True, ["--from", "jq_start", "--to", "jq_teardown"]),
    ("xmllint", ["xmllint", "--noout", "FILE"], XML, False, []),
    ("xz", ["xz", "-T1", "-c", "FILE"], TEXT, True, []),
    ("bzip2", ["bzip2", "-c", "FILE"], TEXT, True, []),
    ("perl", ["perl", "-ne", "$n++", "FILE"], TEXT, True, []),
    ("python3", ["/usr/bin/python3", "-S", "-c", "import sys; len(open(sys.argv[1]).read())", "FILE"], TEXT, False,
     ["--from", "PyRun_SimpleStringFlags", "--pointee", "0"]),
]
ENV = {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}


def changed(data, at):
    """A letter becomes the next one, a digit the next one, so that the input stays well formed."""
    while not chr(data[at]).isdigit():
        at += 1
    return at, data[:at] + (b"%d" % ((data[at] - ord("0") + 1) % 10)) + data[at + 1:]


def run(log, argv, data, way, options, env):
    with tempfile.TemporaryDirectory() as folder:
        stdin = {"stdin": subprocess.DEVNULL}
        if way == "pipe":
            argv = [w for w in argv if w != "FILE"]
            stdin = {"input": data}
        else:
            (Path(folder) / "FILE").write_bytes(data)
        r = subprocess.run([proof.watchctl(), "step", "-q", "-o", str(log), *options, "--", *argv], cwd=folder,
                           env={**proof.BASE_ENV, **ENV, **env}, capture_output=True, timeout=proof.TIMEOUT, **stdin)
    if not log.is_dir():
        raise proof.Failure(r.stderr.decode(errors="replace")[-500:])


def cases():
    for name, argv, data, pipe, options in PROGRAMS:
        if not any(os.access(Path(d) / argv[0], os.X_OK) for d in proof.BASE_ENV["PATH"].split(":")):
            print(f"{name} is not installed: left out", file=sys.stderr)
            continue
        for part in (0, 3, 8):
            yield name, argv, data, "file", part, options
        if pipe:
            yield name, argv, data, "pipe", 5, options
        yield name, argv, data, "environment", 0, options


def first(objects):
    return next((o for o in objects if o["type"] == "difference"), None)


def verdict(objects, way, at):
    """None: right."""
    if way == "environment":
        named = [o for o in objects if o["type"] == "changed" and o["what"] == "variable"]
        return None if [o.get("bad") for o in named] == ["SETTING=2"] else f"changed: {named}"
    d = first(objects)
    if not d or d["kind"] != "input":
        return f"the first difference is {d and d['text']}"
    if d["offset"] != at or not (d["name"].endswith("/FILE") if way == "file" else d["name"].startswith("pipe:")):
        return f"{d['text']}, instead of byte {at}"
    return None


def check(case, folder, number):
    name, argv, data, way, part, options = case
    at, other = changed(data, len(data) * part // 10)
    env = {"SETTING": "2"} if way == "environment" else {"SETTING": "1"}
    good, bad = folder / f"{number}.good", folder / f"{number}.bad"
    run(good, argv, data, way, options, {"SETTING": "1"})
    run(bad, argv, data if way == "environment" else other, way, options, env)
    return verdict(proof.diff(good, bad)[1], way, at)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=1000, help="check so many cases, spread over all")
    wanted = parser.parse_args().n
    every = list(cases())
    chosen = every[::max(1, len(every) // wanted)][:wanted]
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(chosen):
            why = check(case, Path(folder), number)
            right += not why
            if why:
                print(f"{case[0]}, {case[3]}: {why}")
    rate = right / len(chosen)
    print(f"inputs: of {len(chosen)} changed in {len({c[0] for c in chosen})} programs, {right} named first, with the "
          f"right place: {100 * rate:.1f} % (required: {100 * REQUIRED:.0f} %)")
    return rate < REQUIRED


if __name__ == "__main__":
    sys.exit(main())
