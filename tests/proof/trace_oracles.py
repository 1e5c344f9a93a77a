"""What watchctl trace and its log say of a run, and how often callgrind has seen the functions begin."""
import collections
import functools
import json
import re
import subprocess
from pathlib import Path

import patch_oracles
import patch_workloads
import proof

SESSION = re.compile(r"process (\d+): (\d+) functions? traced in (\d+) modules?, (\d+) refused")
LEFT = re.compile(r"(\d+) places? that leaves? a function cannot be patched")
CALLED = re.compile(r"(\d+) calls?: (\d+) recorded, (\d+) lost, "
                    r"(\d+) of (\d+) functions? that w(?:as|ere) switched off")
OFF = re.compile(r"(?:the function at (?P<module>.*)\+0x(?P<at>[0-9a-f]+)|(?P<name>.*)) "
                 r"was called so often that it was switched off: (?P<calls>\d+) of")
BRANCH = re.compile(rb"\s*[0-9a-f]+:\t(?:bnd )?(call|j)\w*\s+([0-9a-f]+)\b")
VALGRIND = ["valgrind", "--quiet", "--tool=callgrind"]
CALLGRIND_LIMIT_S = 600
MOST_EVENTS = 60000  # of logs whose calls are looked at one by one: a call takes some 3 KB of JSON


class Session:
    """Words of watchctl: how many functions are traced and how many refused, and the account of calls."""

    def __init__(self, said):
        first, last = SESSION.search(said), CALLED.search(said)
        if not first or not last:
            raise proof.Failure(f"watchctl does not say what it has traced: {said[-400:]}")
        self.pid, self.functions, self.modules, self.refused = map(int, first.groups())
        self.called, self.recorded, self.lost, self.off, self.switched = map(int, last.groups())
        left = LEFT.search(said)
        self.exits_refused = int(left[1]) if left else 0

    @property
    def share(self):
        return 100 * self.functions / max(1, self.functions + self.refused)

    def wrong(self):
        if self.called != self.recorded + self.lost + self.off:
            return f"{self.called} calls are not {self.recorded} recorded + {self.lost} lost + {self.off} switched off"
        return None

    def __str__(self):
        return f"{self.called} calls: {self.recorded} recorded, {self.lost} lost, " \
               f"{self.off} of {self.switched} functions switched off"


class Log:
    """Calls by function, (module, address in it), with those of functions that were switched off; and how they ended."""

    def __init__(self, path):
        self.path, self.calls, self.recorded, self.summary = path, collections.Counter(), 0, {}
        self.ended, self.functions_uneven, self.unplaced = collections.Counter(), [], []
        self.names = {}
        named, off = collections.defaultdict(list), []
        for line in report(path, "--sites"):
            e = json.loads(line)
            if e["type"] == "function_total":
                self.take(e, named)
            elif e["type"] == "step_summary":
                self.summary = e
            elif e["type"] == "note" and OFF.match(e["text"]):
                off.append(OFF.match(e["text"]))
        for m in off:
            where = [(m["module"], int(m["at"], 16))] if m["module"] else named[m["name"]]
            if len(where) == 1:
                self.calls[where[0]] += int(m["calls"])
            else:
                self.unplaced += where  # whose calls these are cannot be told by the name

    def take(self, e, named):
        where = e["module"], int(e["module_offset"], 16)
        self.calls[where] += e["calls"]
        self.recorded += e["calls"]
        named[e.get("function")].append(where)
        self.names[where] = e.get("function")
        self.ended.update(e["ended"])
        if sum(e["ended"].values()) != e["calls"]:
            name, ends = e.get("function") or hex(where[1]), sum(e["ended"].values())
            self.functions_uneven.append(f"{name}: {e['calls']} calls, {ends} ends")

    def wrong(self, session, each=True):
        """Finds what does not agree in it, or with the session's last line. @each: looks at the calls one by one, if not too many."""
        totals = self.summary.get("calls", 0)
        if not self.recorded == totals == session.recorded:
            return f"{session.recorded} calls are said to be recorded: by function {self.recorded}, by the summary {totals}"
        if self.functions_uneven:
            some = "; ".join(self.functions_uneven[:5])
            return f"{len(self.functions_uneven)} functions have not as many ends as calls: {some}"
        ends = self.summary.get("ended", 0) + self.ended["never"]
        if ends != totals:
            return f"{ends} of {totals} calls have ended, or are told as open"
        return self.uneven() if each and totals <= MOST_EVENTS else None

    def uneven(self):
        """The calls one by one: each has one end, behind it."""
        open_calls, number = set(), 0
        for line in report(self.path):
            if line.startswith(b'{"type":"call"'):
                number += 1
                call = int(re.search(rb'"call":(\d+)', line)[1])
                if call in open_calls:
                    return f"call {call} begins twice"
                open_calls.add(call)
            elif line.startswith(b'{"type":"return"'):
                call = int(re.search(rb'"call":(\d+)', line)[1])
                if call not in open_calls:
                    return f"call {call} ends, and is not open"
                open_calls.remove(call)
        if open_calls:
            return f"{len(open_calls)} calls have no end, among them {min(open_calls)}"
        return None if number == self.recorded else f"{number} calls are printed, {self.recorded} counted"

    def told(self):
        return "; ".join(f"{n} {how}" for how, n in self.ended.most_common())


def report(log, *words):
    """The lines of its JSON form."""
    p = subprocess.Popen([proof.watchctl(), "report", "--json", *words, str(log)], stdout=subprocess.PIPE)
    with p.stdout:
        yield from p.stdout
    if p.wait() != 0:
        raise proof.Failure(f"watchctl report: exit status {p.returncode}")


def executed(argv, folder, env, stdin):
    """(module, address in it): how often the program executed the instruction there, from its entry on.

    That of a function's first instruction is exact, whereas callgrind's own calls are not all there are: it takes a jump
    to a function for a call, or not, by the names that it has. What the loader runs before the program's entry
    (constructors of libraries) is left out, as watchctl does not see it either; of the program, only _start.
    """
    out = folder / "callgrind.out"
    words = [*VALGRIND, "--skip-plt=no", "--dump-instr=yes", "--dump-line=no", "--compress-pos=no",
             "--compress-strings=no", "--collect-atstart=no",
             "--toggle-collect=__libc_start_main*", f"--callgrind-out-file={out}", *argv]
    out.unlink(missing_ok=True)
    r = subprocess.run(words, cwd=folder, env={**proof.BASE_ENV, **env}, stdin=stdin, capture_output=True,
                       timeout=CALLGRIND_LIMIT_S)
    if not out.exists():
        raise proof.Failure(f"callgrind counted nothing: {r.stderr.decode(errors='replace')[-400:]}")
    counts, module, of_a_call = collections.Counter(), None, False
    with open(out, errors="replace") as lines:
        for line in lines:
            if line.startswith("0x"):
                at, *cost = line.split()
                if cost and not of_a_call:
                    counts[module, int(at, 16)] += int(cost[0])
                of_a_call = False
            elif line.startswith("ob="):
                module = line[3:].rstrip("\n")
            else:
                of_a_call = line.startswith("calls=")
    return counts


def environment_of_executed(folder, env):
    """As many variables as a program has in executed(): valgrind adds some, and programs call functions for each.

    What it preloads must be something else: by its library watchctl knows a program that runs in valgrind.
    """
    words = [*VALGRIND, "--callgrind-out-file=/dev/null", "/usr/bin/env", "-0"]
    r = subprocess.run(words, cwd=folder, env={**proof.BASE_ENV, **env}, capture_output=True, text=True, check=True,
                       timeout=CALLGRIND_LIMIT_S)
    found = dict(variable.split("=", 1) for variable in r.stdout.split("\0") if variable)
    return {**found, "LD_PRELOAD": str(patch_workloads.LIBRARIES / "libc.so.6")}


@functools.lru_cache(maxsize=None)
def symbols(path, option):
    """(name, address): address, of the functions that the dynamic symbol table has (-D), or the other (-a)."""
    out = subprocess.run(["nm", option, "--defined-only", str(path)], capture_output=True, text=True).stdout
    return {(name, addr): int(addr, 16) for addr, name in re.findall(r"^([0-9a-f]+) [tTwWi] (\S+)$", out, re.M)}


@functools.lru_cache(maxsize=None)
def starts(path):
    """Where functions begin, as unwind tables and symbols have it, but for _start, and parts of others by their names."""
    found, parts = set(patch_oracles.unwound_starts(str(path))), set()
    for option in "-D", "-a":
        for (name, _), at in symbols(path, option).items():
            (parts if ".cold" in name else found).add(at)
    header = subprocess.run(["readelf", "-hW", str(path)], capture_output=True, text=True, check=True).stdout
    return found - parts - {int(re.search(r"Entry point address:\s+(0x[0-9a-f]+)", header)[1], 16)}


@functools.lru_cache(maxsize=None)
def refused(path):
    """The functions whose entries cannot be patched, as `watchctl patch --plan` has them."""
    words = [proof.watchctl(), "patch", "--plan", "--at", "entry *", "--json", str(path)]
    r = subprocess.run(words, capture_output=True, check=True)
    sites = (json.loads(line) for line in r.stdout.splitlines() if re.search(rb'"tactic":"(refused|trap)"', line))
    return {int(e["addr"], 16) for e in sites if e["type"] == "patch_site"}


def rounds(path, start, counts):
    """How often at most a jump of the function at @start led back to where it begins.

    Such a jump is a loop's, or a tail call of itself: nothing in the code tells them apart. watchctl takes it for a loop
    where the function's ends are seen, and for a call where they are not.
    """
    end = min((a for a in starts(path) if a > start), default=start + 4096)
    words = ["objdump", "-d", "--no-show-raw-insn", f"--start-address={start:#x}", f"--stop-address={end:#x}"]
    out = subprocess.run([*words, str(path)], capture_output=True, text=True, check=True).stdout
    entries = {start, start + 4}  # behind endbr64
    jumps = re.findall(r"^\s*([0-9a-f]+):\s+j\w+\s+([0-9a-f]+)\b", out, re.M)
    return sum(counts[str(path), int(at, 16)] for at, to in jumps if int(to, 16) in entries)


@functools.lru_cache(maxsize=None)
def branches(path):
    """The addresses that calls lead to, and those that jumps do, of all instructions of a file."""
    found = {"call": set(), "j": set()}
    p = subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", str(path)], stdout=subprocess.PIPE)
    with p.stdout:
        for line in p.stdout:
            m = (b"\tcall" in line or b"\tj" in line or b"\tbnd" in line) and BRANCH.match(line)
            if m:
                found[m[1].decode()].add(int(m[2], 16))
    p.wait()
    return found


@functools.lru_cache(maxsize=None)
def named(path):
    return frozenset(a for option in ("-D", "-a") for a in symbols(path, option).values())


def only_jumped_to(path, at):
    """It has no name, and jumps lead to it, but no call: it may be a part of another, see LIMITS in watchctl-trace(1)."""
    return at not in named(path) and at in branches(path)["j"] and at not in branches(path)["call"]


class Compared:
    """Calls that watchctl counts in several runs against executions of the functions' first instructions, by callgrind."""

    def __init__(self, modules, counts, log, count, most_refused, unlike):
        first = log.calls
        self.loops, self.jumped, self.refused, self.unlike = [], [], [], []
        modules = {str(m) for m in modules}
        seen = {w: n for w, n in counts.items() if w[0] in modules and w[1] in starts(Path(w[0]))}
        seen.update({w: counts[w] for w in first if w[0] in modules and w[1] in starts(Path(w[0]))})
        for where in sorted(seen):
            path, n = Path(where[0]), seen[where]
            if first[where] == n:
                continue
            if not first[where] and where[1] in refused(path):
                self.refused.append(where)
            elif not first[where] and only_jumped_to(path, where[1]):
                self.jumped.append(where)
            elif (log.names.get(where) or "").partition(".")[0] in unlike:
                self.unlike.append(where)
            elif n - rounds(path, where[1], counts) <= first[where] < n:
                self.loops.append(where)
        excused = {*self.refused, *self.jumped, *self.loops, *self.unlike}
        runs = iter([first])
        judged = {w: n for w, n in seen.items() if w not in excused}
        agreed, self.unstable = patch_oracles.agreed(lambda: next(runs, None) or count(), set(seen), judged)
        self.functions = {w: n for w, n in agreed.items() if judged.get(w)}
        self.wrong = [(w, agreed[w], judged[w]) for w in sorted(agreed) if w in judged and agreed[w] != judged[w]]
        self.too_many = len(self.refused) > most_refused

    def verdict(self):
        if self.too_many:
            return f"{len(self.refused)} functions were called and not traced"
        if self.wrong:
            some = (f"{Path(w[0]).name}+{w[1]:#x} {mine} instead of {n}" for w, mine, n in self.wrong[:8])
            return f"{len(self.wrong)} counts are not callgrind's: {', '.join(some)}"
        return None if self.functions else "nothing could be compared"

    def __str__(self):
        said = f"{len(self.functions)} functions compared, {sum(self.functions.values())} calls"
        for n, what in ((self.unstable, "differ from run to run"), (len(self.loops), "jump to their own begin"),
                        (len(self.jumped), "have no name and are only jumped to"),
                        (len(self.unlike), "are known to differ, and why is not known"), (len(self.refused), "are refused")):
            said += f", {n} more {what}" if n else ""
        return said
