"""
calltrace-cc on programs that nobody here wrote: SQLite and Lua, from their sources. At -O0 each function is called as often as callgrind counts in
the same run; at every level the output is that of the plain program, and every call of the log has its return, or one that is marked as
derived, but for those that were open when the program ended.
"""

import argparse
import collections
import glob
import json
import os
import re
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 1200
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-O2 -flto -fuse-ld=lld", "-O2 -flto=thin -fuse-ld=lld"]


def run(*words, env=None, cwd=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, cwd=cwd)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


class Program:
    def __init__(self, name, sources, options, arguments):
        self.name, self.sources, self.options, self.arguments = name, sources, options, arguments

    def build(self, compiler, level, folder, target):
        run(compiler, *level.split(), "-w", *self.sources, *self.options, "-o", target, cwd=folder)


def programs(sqlite, lua):
    bench = os.path.join(os.path.dirname(HERE), "bench")
    yield Program("SQLite", [os.path.join(bench, "compile_sqlite.c"), os.path.join(sqlite, "sqlite3.c")], ["-I", sqlite, "-lm"], ["300"])
    sources = [s for s in sorted(glob.glob(os.path.join(lua, "*.c"))) if os.path.basename(s) != "luac.c"]
    yield Program("Lua", sources, ["-Dluai_makeseed()=42u", "-DLUA_USE_POSIX", "-DLUA_USE_DLOPEN", "-ldl", "-lm"], [os.path.join(HERE, "compile_load.lua")])


def callgrind(program, folder, **env):
    """{function: calls}, of those that the program itself has."""
    out = os.path.join(folder, "callgrind.out")
    run("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *program, env=env, cwd=folder)
    names, objects, counts, ours, callee, inside = {}, {}, collections.Counter(), os.path.realpath(program[0]), None, None
    with open(out) as f:
        for line in f:
            m = re.match(r"(c?)(fn|ob)=\((\d+)\)(?: (.*))?", line)
            if m:
                table = names if m[2] == "fn" else objects
                if m[4]:
                    table[m[3]] = re.sub(r"'\d+$", "", m[4].strip())
                if m[2] == "ob" and m[1]:
                    inside = objects[m[3]]
                elif m[2] == "ob":
                    current = objects[m[3]]
                elif m[1]:
                    callee = names[m[3]]
            elif line.startswith("calls="):
                if (inside or current) == ours:
                    counts[callee] += int(line[6:].split()[0])
                inside = None
    return counts


def totals(watchctl, log):
    """The same of the log; functions of one name are one, as they are for callgrind."""
    counts = collections.Counter()
    for line in run(watchctl, "report", "--calls", "--json", log).splitlines():
        e = json.loads(line)
        if e["type"] == "function_total":
            counts[e["function"]] += e["calls"]
    return counts


def ends(watchctl, log):
    """(calls, returns, derived ones, open at the end)"""
    n = collections.Counter()
    for line in run(watchctl, "report", "--json", log).splitlines():
        if line.startswith('{"type":"call"'):
            n["calls"] += 1
        elif line.startswith('{"type":"return"'):
            e = json.loads(line)
            n["derived" if e.get("derived") else e["how"]] += 1
    return n


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True)
    p.add_argument("--watchctl", required=True)
    p.add_argument("--sqlite", required=True)
    p.add_argument("--lua", required=True)
    args = p.parse_args()
    watchctl, cc = os.path.abspath(args.watchctl), os.path.abspath(os.path.join(args.build, "bin", "calltrace-cc"))
    wrong = 0
    for program in programs(os.path.abspath(args.sqlite), os.path.abspath(args.lua)):
        for level in LEVELS:
            with tempfile.TemporaryDirectory() as folder:
                plain, traced, log = [os.path.join(folder, n) for n in ("plain", "traced", "run.log")]
                program.build("clang-19", level, folder, plain)
                program.build(cc, level, folder, traced)
                expected = run(plain, *program.arguments)
                same = run(traced, *program.arguments, env={"CALLTRACE_OUTPUT": log}) == expected
                n = ends(watchctl, log)
                balanced = n["calls"] == n["returned"] + n["derived"] + n["never"]
                said = f"{program.name} {level}: output {'the same' if same else 'DIFFERS'}; {n['calls']} calls, {n['returned']} returned, {n['derived']} derived, {n['never']} open at the end"
                wrong += not same or not balanced
                if level == "-O0":
                    # The recorded run itself: what Lua does follows from addresses, which another one has otherwise.
                    both = os.path.join(folder, "both.log")
                    counted = callgrind([traced, *program.arguments], folder, CALLTRACE_OUTPUT=both)
                    recorded = totals(watchctl, both)
                    differ = {f: (counted[f], c) for f, c in recorded.items() if counted[f] != c and f != "main"}
                    defined = set(run("nm", "--defined-only", traced).split()[2::3])
                    missed = {f: c for f, c in counted.items() if f in defined and f not in recorded and not f.startswith("_")}
                    wrong += bool(differ or missed)
                    said += f"; {len(recorded)} functions called as often as callgrind counts, but for {differ or 'none'}; not recorded: {missed or 'none'}"
                print(said + ("" if balanced else " NOT BALANCED"), flush=True)
    return 1 if wrong else 0


raise SystemExit(main())
