#!/usr/bin/python3
"""Makes each call of watchctl that asks the kernel or the allocator for something fail once, and judges what follows.

A way is a call together with its innermost callers. Each scenario is run once to learn its ways, then once for each
way with that call failing. What must hold then is in judge() and Target.unharmed(). See tests/faults/faults.c.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import json
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from as_found import snapshot  # noqa: E402
HERE = ROOT / "tests" / "faults"
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
WATCHCTL = BUILD / "bin" / "watchctl"
LIBRARY = BUILD / "tests" / "faults" / "libfaults.so"
VICTIMS = BUILD / "victims"

HEAD = struct.Struct("=5Q")
SITE = struct.Struct("=QIIQ8Q")
SITES = 32768
OTHER_PROGRAM = 0x10000
CALLS = re.findall(r"^FAULT(?:_AFTER)?\((\w+), (\w+)", (HERE / "faults_list.h").read_text(), re.M)

# watchctl(1), EXIT STATUS; diff(1)-like statuses are below these.
STATUSES = set(range(9)) | {130}
TIMEOUT = 60
SANITIZERS = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|Sanitizer:DEADLYSIGNAL")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Way:
    """One call, by its innermost callers."""

    def __init__(self, record):
        self.key, self.function, self.asked, self.count, *callers = record
        self.callers = [a for a in callers if a]
        self.program = f"{WATCHCTL}-step" if self.function & OTHER_PROGRAM else str(WATCHCTL)
        self.function &= OTHER_PROGRAM - 1

    @property
    def call(self):
        name, error = CALLS[self.function]
        return f"{name}({self.asked}...)" if self.asked else name, error


class State:
    """The file that is shared with the preloaded library."""

    def __init__(self, path):
        self.path = path

    def ask(self, key, nth, depth):
        with open(self.path, "wb") as f:
            f.write(HEAD.pack(key, nth, depth, 0, 0))
            f.truncate(HEAD.size + SITES * SITE.size)

    def fired(self):
        with open(self.path, "rb") as f:
            return HEAD.unpack(f.read(HEAD.size))[3] == 1

    def ways(self):
        data = Path(self.path).read_bytes()
        if HEAD.unpack_from(data)[4]:
            raise SystemExit("faults: too many ways for the table (FAULTS_SITES)")
        all_of_them = (Way(SITE.unpack_from(data, HEAD.size + i * SITE.size)) for i in range(SITES))
        return sorted((w for w in all_of_them if w.key), key=lambda w: w.key)


def differences(a, b):
    return [f"{k}: {sorted(set(a[k]) - set(b[k]))} became {sorted(set(b[k]) - set(a[k]))}" for k in a if a[k] != b[k]]


def ends_with_us():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Target:
    """A program that checks itself (tests/victims/hammer.c); begun again when it has died."""

    def __init__(self, *command, warm=None):
        self.command, self.warm = command, warm
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
                                        preexec_fn=ends_with_us)
        self.pid = int(self.process.stdout.readline().split()[1])
        self.settled()
        if self.warm:
            self.warm(self)
        self.before = self.settled()

    def snapshot(self):
        return snapshot(self.pid, "[stack]", "[heap]")

    def settled(self):
        """A snapshot that two before it agree with: who makes a thread has all signals blocked meanwhile."""
        seen = []
        while len(seen) < 3 or any(differences(one, seen[-1]) for one in seen[-3:]):
            time.sleep(0.05)
            seen.append(self.snapshot())
        return seen[-1]

    def state(self):
        return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def unharmed(self):
        """None, or what has become of it."""
        if self.process.poll() is not None:
            said = self.process.stdout.read().strip()
            status = self.process.returncode
            self.begin()
            return f"the target died: status {status} {said}"
        if self.state() not in "RSD":
            was = self.state()
            os.kill(self.pid, signal.SIGCONT)
            self.end()
            self.begin()
            return f"the target was left in state {was}"
        return None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            said = self.process.communicate(timeout=30)[0].strip()
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "the target did not end"
        return None if said.startswith("total") or said == "" else f"the target says: {said}"


def normal(text):
    """Output without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{16,}\b", "X", text)
    text = re.sub(r"\d+", "#", text)
    return re.sub(r"[#.,:]*#", "#", text)


def text_shape(line):
    """Of a line of a session; the events and where they were stopped differ."""
    if line.startswith(("process ", "the session ", "saved as ")):
        return {line.split()[0]}
    if line.startswith("watch"):  # "not verified" says that, and --verbose why
        return {normal(line.replace(", not verified", ", verified by a known access"))}
    summary = re.search(r"([\d,]+) accesses? counted by the CPU: ([\d,]+) recorded, ([\d,]+) lost, ([\d,]+) filtered", line)
    if not summary:
        return set()
    counted, *parts = (int(n.replace(",", "")) for n in summary.groups())
    return {("summary", "whole" if counted == sum(parts) else "NOT WHOLE")}


def shapes(text, session):
    """What kinds of objects were printed, and where the accesses were: a live run differs in all else. Of other lines
    each counts, unless they are what a session says."""
    kinds = set()
    for line in text.splitlines():
        if session and not line.startswith("{"):
            kinds |= text_shape(line)
            continue
        try:
            o = json.loads(line)
        except ValueError:
            kinds.add(normal(line))
            continue
        if o.get("type") == "access":
            kinds.add(("access", o.get("function"), o.get("line"), o.get("kind"), o.get("insn", "")[:4],
                       tuple(f.get("function") for f in o.get("stack", [])[:2])))
        elif o.get("type") == "summary":
            whole = "counted" in o and o["recorded"] + o["lost"] + o["filtered"] == o["counted"]
            kinds.add(("summary", "whole" if whole else "NOT WHOLE"))
        elif o.get("type") == "site":  # its names; whether its last values are known is a matter of who came between
            kinds.add(("site", o.get("function"), o.get("line"), o.get("kind"),
                       tuple(sorted(k for k in o if not k.startswith(("old", "new"))))))
        elif o.get("type") in ("lost", "note"):
            continue
        elif o.get("type") == "slots":  # "sight" says how each thread was looked at
            kinds.add("slots")
        elif o.get("type") == "process":  # what cannot be known of it is absent
            kinds.add("process")
        else:
            kinds.add((o.get("type"), tuple(sorted(o))))
    return kinds


def losses(text):
    """What was lost, and is said to be."""
    return [line for line in text.splitlines() if line.startswith('{"type":"lost"') and json.loads(line)["count"]]


def notes(text):
    return {normal(line) for line in text.splitlines() if line.startswith('{"type":"note"')}


class Scenario:
    def __init__(self, name, words, target=None, live=False, stdin=None, prepare=None, warm=False, silent=False):
        self.name, self.words, self.target_command = name, words, target
        self.live, self.stdin, self.prepare = live, stdin, prepare
        self.session = stdin is not None  # commands are typed, and it answers in words
        self.silent = silent  # what it cannot do it leaves out: somebody is typing
        self.warm = warm  # what the program itself sets up for us, the first time, it keeps


def fixed_log(folder):
    """A log that all readers read, made once."""
    log = folder / "log"
    t = Target(VICTIMS / "hammer", "2", "150")
    subprocess.run([WATCHCTL, "record", "-p", str(t.pid), "-v", "scratch", "-s", "8", "-w", "-n", "30", "-o", log],
                   check=True, capture_output=True)
    t.end()
    return log


def step_logs(folder):
    for i, bad in enumerate(("0", "1")):
        subprocess.run([WATCHCTL, "step", "--from", "main", "--events", "200", "-q", "-o", folder / f"steps{i}", "--",
                        VICTIMS / "faults_steps", bad], check=True, capture_output=True)


def call_log(folder):
    subprocess.run([WATCHCTL, "trace", "-q", "-o", folder / "calls", "--", VICTIMS / "faults_steps", "0"],
                   check=True, capture_output=True)


def flow_log(folder):
    subprocess.run([WATCHCTL, "flow", "record", "-t", "0.3", "-o", folder / "flow"], check=True, capture_output=True)


HAMMER = (VICTIMS / "hammer", "2", "150")
TRACE = ["trace", "-p", "{pid}", "--function", "*bump", "--max-rate", "0", "-n", "40", "--json"]
WATCH = ["-p", "{pid}", "-v", "scratch", "-s", "8", "-w", "-n", "12", "--json"]
SCRIPT = """attach {pid}
watch scratch -s 8 -w
wait 20 -n 5
info watches
show 1
bt 1
sites
print scratch
x/2xg &scratch
disassemble 1
list 1
disable 1
enable 1
delete 1
save {dir}/saved
detach
quit
"""

SCENARIOS = [
    Scenario("handler", [*WATCH, "--engine", "handler"], HAMMER, live=True),
    Scenario("handler-filters", [*WATCH, "--engine", "handler", "-n", "60", "--if", "new>1", "--caller", "work", "--rate", "1000/s", "--verbose"], HAMMER,
             live=True),
    Scenario("handler-register", [*WATCH, "-i", "1"], HAMMER, live=True),
    Scenario("handler-private", [*WATCH, "--private-buffer"], HAMMER, live=True),
    Scenario("ring", [*WATCH, "--engine", "ring"], HAMMER, live=True),
    Scenario("ptrace", [*WATCH, "--engine", "ptrace"], HAMMER, live=True),
    Scenario("launch", ["-v", "total", "-w", "--json", "--output", "/dev/stdout", "--", VICTIMS / "faults_steps", "0"], live=True),
    Scenario("launch-ptrace", ["-v", "total", "-w", "--engine", "ptrace", "--json", "--output", "/dev/stdout", "--",
                               VICTIMS / "faults_steps", "0"], live=True),
    Scenario("record", ["record", "-p", "{pid}", "-v", "scratch", "-s", "8", "-w", "-n", "40", "--ring", "1M", "-o", "{dir}/log",
                        "--trigger", "new==3", "--json"], HAMMER, live=True),
    Scenario("snapshot", ["snapshot", "{log}", "-o", "{dir}/saved"]),
    Scenario("list", ["list", "-p", "{pid}", "--threads", "--json"], HAMMER, live=True),
    Scenario("clear", ["clear", "-p", "{pid}", "--json"], HAMMER, prepare="orphan"),
    Scenario("step", ["step", "-p", "{pid}", "--from", "work", "--count", "3", "--events", "40", "-t", "5", "-o", "{dir}/log", "--json"],
             (VICTIMS / "hammer", "2", "150"), live=True),
    Scenario("step-launch", ["step", "--from", "main", "-o", "{dir}/log", "--json", "--", VICTIMS / "faults_steps", "0"], live=True),
    Scenario("trace", TRACE, HAMMER, live=True),
    Scenario("trace-log", [*TRACE, "-o", "{dir}/log"], HAMMER, live=True),
    Scenario("trace-args", [*TRACE, "--args", "-o", "{dir}/log"], HAMMER, live=True),
    Scenario("trace-launch", ["trace", "-o", "{dir}/log", "--json", "--", VICTIMS / "faults_steps", "0"], live=True),
    Scenario("patch", ["patch", "-p", "{pid}", "--at", "entry bump", "--call", "on_bump", "-n", "12", "--json",
                       HERE / "faults_probes.c"],
             HAMMER, live=True),
    Scenario("patch-plan", ["patch", "--plan", "--sites", "--at", "lock *", "--at", "entry *", "--json",
                            VICTIMS / "hammer"]),
    Scenario("flow-explain", ["flow", "explain", "-p", "{pid}", "--all", "--json"], HAMMER, live=True),
    Scenario("flow-record", ["flow", "record", "-t", "0.3", "-o", "{dir}/log", "--json"], live=True),
    Scenario("flow-graph", ["flow", "graph", "{flow}", "--to", "json"]),
    Scenario("tags", ["-p", "{pid}", "--tags", "-n", "12", "--json"], (VICTIMS / "faults_tags",), live=True, warm=True),
    Scenario("repl", [], HAMMER, live=True, stdin=SCRIPT),
    Scenario("report", ["report", "{log}", "--regs"]),
    Scenario("report-json", ["report", "{log}", "--json"]),
    Scenario("report-tree", ["report", "{log}", "--tree"]),
    Scenario("report-html", ["report", "{log}", "--html", "{dir}/page.html"]),
    Scenario("report-calls", ["report", "{calls}", "--calls", "--json"]),
    Scenario("report-calls-html", ["report", "{calls}", "--html", "{dir}/page.html"]),
    Scenario("report-steps", ["report", "{steps}0", "--calls", "--json"]),
    Scenario("export-chrome", ["export", "{log}", "--to", "chrome", "-o", "{dir}/out"]),
    Scenario("export-speedscope", ["export", "{log}", "--to", "speedscope", "-o", "{dir}/out"]),
    Scenario("export-csv", ["export", "{log}", "--to", "csv", "-o", "{dir}/out"]),
    Scenario("export-dot", ["export", "{log}", "--to", "dot", "-o", "{dir}/out"]),
    Scenario("export-callgrind", ["export", "{steps}0", "--to", "callgrind", "-o", "{dir}/out"]),
    Scenario("export-perfetto", ["export", "{steps}0", "--to", "perfetto", "-o", "{dir}/out"]),
    Scenario("export-perfetto-accesses", ["export", "{log}", "--to", "perfetto", "-o", "{dir}/out"]),
    Scenario("export-perf", ["export", "{log}", "--to", "perf-script"]),
    Scenario("diff", ["diff", "{steps}0", "{steps}1", "--html", "{dir}/page.html"]),
    Scenario("diff-masks", ["diff", "{steps}0", "{steps}0", "{steps}1", "--save-masks", "{dir}/masks", "--json"]),
    Scenario("symbolize", ["symbolize", "{log}", "--json"], prepare="copy"),
    Scenario("help", ["help", "record"]),
    Scenario("complete", ["__complete", "--variables", "scr", "-p", "{pid}"], HAMMER, silent=True),
]


class Outcome:
    def __init__(self, status, out, err, files):
        self.status, self.out, self.err, self.files = status, out, err, files


class Run:
    """A worker: its own folder, state, target and copy of the logs."""

    def __init__(self, scenario, material, folder, depth):
        self.scenario, self.material, self.folder, self.depth = scenario, material, folder, depth
        folder.mkdir()
        self.work = folder / "work"
        self.state = State(folder / "state")
        self.target = Target(*scenario.target_command, warm=scenario.warm and self.warm) if scenario.target_command else None

    def warm(self, target):
        words = [w.replace("{pid}", str(target.pid)) for w in self.scenario.words]
        subprocess.run([WATCHCTL, *words], check=True, capture_output=True)

    def words(self):
        log = self.work / "copy" if self.scenario.prepare == "copy" else self.material / "log"
        fill = {"{pid}": str(self.target.pid if self.target else 0), "{dir}": str(self.work), "{log}": str(log),
                **{f"{{{name}}}": str(self.material / name) for name in ("steps", "calls", "flow")}}

        def filled(word):
            for k, v in fill.items():
                word = word.replace(k, v)
            return word

        return [filled(str(w)) for w in self.scenario.words], filled(self.scenario.stdin or "")

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        if self.scenario.prepare == "copy":
            shutil.copytree(self.material / "log", self.work / "copy")
        if self.scenario.prepare == "orphan":
            p = subprocess.Popen([WATCHCTL, "-p", str(self.target.pid), "-v", "scratch", "-s", "8", "-w", "--json"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            while '"armed"' not in p.stdout.readline():
                pass
            p.kill()
            p.wait()

    def once(self, key, nth):
        self.prepare()
        self.state.ask(key, nth, self.depth)
        words, stdin = self.words()
        env = dict(os.environ, LD_PRELOAD=str(LIBRARY), FAULTS_STATE=str(self.state.path), TMPDIR=str(self.work),
                   HOME=str(self.work), XDG_RUNTIME_DIR=str(self.work), DEBUGINFOD_URLS="", LC_ALL="C.UTF-8",
                   ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        p = subprocess.Popen([str(WATCHCTL), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=env, errors="replace", start_new_session=True)
        try:
            out, err = p.communicate(stdin, timeout=TIMEOUT)
            status = p.returncode
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            status = "hang"
        # The mark of a recorder says nothing once nobody holds it: one that was killed leaves it, too.
        files = sorted(re.sub(r"\d{10}", "N", str(f.relative_to(self.work))) for f in self.work.rglob("*") if f.is_file() and f.name != ".recorder")
        return Outcome(status, out, err, files)

    def helpers_left(self):
        """Processes that the run has made and that have lost it, and still run after some time."""
        mine = f"FAULTS_STATE={self.state.path}".encode()
        for _ in range(500):
            running = []
            for pid in own_children():
                try:
                    if mine in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        running.append(pid)
                except OSError:
                    continue
            if not running:
                return []
            time.sleep(0.01)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        return running

    def left(self):
        """What our helpers have left in the target, and whether it was told; after `watchctl clear` nothing may be."""
        for _ in range(200):
            if not differences(self.target.before, self.target.snapshot()):
                return None, None
            time.sleep(0.01)
        left = differences(self.target.before, self.target.snapshot())
        r = subprocess.run([WATCHCTL, "clear", "-p", str(self.target.pid)], capture_output=True, text=True, timeout=TIMEOUT)
        self.cleared = f"clear: status {r.returncode}: {r.stdout}{r.stderr}"
        stays = differences(self.target.before, self.target.snapshot())
        return left, stays


def own_children():
    """Also those that have come to us when they lost their parent: we are their subreaper."""
    return [int(c) for tasks in Path("/proc/self/task").glob("*/children") for c in tasks.read_text().split()]


def judge(run, base, o):
    """What is wrong with the outcome, or None."""
    if o.status == "hang":
        return f"it did not end within {TIMEOUT} s"
    if SANITIZERS.search(o.err):
        return "sanitizer: " + SANITIZERS.search(o.err).group(0)
    if o.status < 0:
        return f"it died of {signal.Signals(-o.status).name}"
    if o.status not in STATUSES:
        return f"undocumented exit status {o.status}"
    said = [line for line in o.err.splitlines() if line.startswith("watchctl")]
    new = [line for line in said if normal(line) not in base.told]
    new += [line for line in o.out.splitlines() if '"engine_why"' in line]  # another engine, and why
    new += [line for line in o.out.splitlines()  # the same in a session's words
            if base.session and line.startswith("watching ") and re.search(r" engine \(", line)
            and not text_shape(line) & base.shapes]
    new += losses(o.out) if not base.losses else []
    new += notes(o.out) - base.notes
    if any("(null)" in line or "Success" in line for line in new):
        return "the message has a hole: " + new[-1]
    if run.target:
        harm = run.target.unharmed()
        if harm:
            return harm
        left, stays = run.left()
        if stays:
            run.target.end()
            run.target.begin()
            return f"left in the target, and not taken out by clear: {stays} {run.cleared}"
        if left and not new and not any(" is left " in line for line in said):
            return f"left in the target without a word: {left}, {said}"
    if o.status not in base.statuses and not new:
        return f"exit status {o.status} without a message: {o.err.strip()[-200:]!r}"
    if o.status in base.statuses and not new and not run.scenario.silent:
        if run.scenario.live:
            odd = shapes(o.out, base.session) - base.shapes
            lacks = base.always - shapes(o.out, base.session)
        else:
            odd = {normal(x) for x in o.out.splitlines()} - base.lines
            lacks = base.always_lines - {normal(x) for x in o.out.splitlines()}
        if odd or lacks:
            return f"other output without a word: {sorted(map(str, odd))[:3]} in place of {sorted(map(str, lacks))[:3]}"
        if set(o.files) != set(base.files):
            return f"other files without a word: {sorted(set(o.files) ^ set(base.files))[:5]}"
    return None


class Baseline:
    """What runs without any fault print."""

    def __init__(self, outcomes, session):
        self.session = session
        self.statuses = {o.status for o in outcomes}
        self.told = {normal(line) for o in outcomes for line in o.err.splitlines()}
        self.shapes = set().union(*(shapes(o.out, session) for o in outcomes))
        self.always = set.intersection(*(shapes(o.out, session) for o in outcomes))
        self.lines = {normal(x) for o in outcomes for x in o.out.splitlines()}
        self.always_lines = set.intersection(*({normal(x) for x in o.out.splitlines()} for o in outcomes))
        self.losses = any(losses(o.out) for o in outcomes)
        self.notes = set().union(*(notes(o.out) for o in outcomes))
        self.files = outcomes[-1].files


class Names:
    """Functions of the program by offset, as addr2line knows them."""

    def __init__(self):
        self.known = {}

    def of(self, program, offsets):
        want = [o for o in offsets if (program, o) not in self.known]
        if want:
            r = subprocess.run(["addr2line", "-f", "-s", "-e", program, *[hex(o - 1) for o in want]],
                               capture_output=True, text=True, check=True)
            lines = r.stdout.splitlines()
            for i, o in enumerate(want):
                self.known[program, o] = f"{lines[2 * i]} {lines[2 * i + 1].split(' ')[0]}"
        return [self.known[program, o] for o in offsets]


def examine(scenario, material, options, folder):
    """-> (ways, ways tried, findings)"""
    runs = [Run(scenario, material, folder / f"{scenario.name}.{i}", options.depth) for i in range(options.jobs)]
    outcomes = [runs[0].once(0, 0) for _ in range(options.base)]
    ways = runs[0].state.ways()
    for o in outcomes:
        if o.status not in STATUSES or SANITIZERS.search(o.err):
            raise SystemExit(f"faults: {scenario.name} fails without any fault: {o.status} {o.err}")
        if runs[0].target and runs[0].left()[0]:
            raise SystemExit(f"faults: {scenario.name} leaves something without any fault")
    base = Baseline(outcomes, scenario.session)
    chosen = [w for w in ways if options.way in (None, w.key) and options.call in (None, w.call[0])]
    tries = [(w, 1) for w in chosen]
    if options.last:
        tries = [(w, w.count) for w in chosen if w.count > 1]
    random.Random(options.seed).shuffle(tries)
    tries = tries[:options.sample or None]
    free = list(runs)
    findings, reached = [], 0

    def attempt(pair):
        way, nth = pair
        run = free.pop()
        try:
            o = run.once(way.key, nth)
            fired = run.state.fired()
            wrong = judge(run, base, o)
            if running := run.helpers_left():
                wrong = f"helpers are left: {running}"
            if not fired and wrong and "without a word" in wrong:
                wrong = None  # nothing failed: the machine was busy
            return way, nth, fired, wrong, o
        finally:
            free.append(run)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for way, nth, fired, wrong, o in pool.map(attempt, tries):
            reached += fired
            if wrong:
                findings.append((way, nth, wrong, o))
                tell_finding(scenario, way, nth, wrong, o, options)
    for run in runs:
        if run.target and (harm := run.target.end()):
            findings.append((None, 0, harm, None))
            print(f"{scenario.name}: {harm}", flush=True)
    return len(ways), len(tries), reached, findings


NAMES = Names()


class Nobody:
    """For the self test: a run of a scenario without a target."""

    def __init__(self, live):
        self.scenario, self.target = Scenario("self-test", [], live=live), None


def self_test():
    """What must be found is found: each of these outcomes has one thing wrong."""
    summary = '{"type":"summary","recorded":3,"lost":0,"filtered":1,"counted":4}\n'
    good = Outcome(0, summary, "watchctl: armed\n", ["log/events"])
    base = Baseline([good], session=False)
    wrong = {
        "hang": Outcome("hang", "", "", []),
        "crash": Outcome(-signal.SIGSEGV, "", "", []),
        "status": Outcome(77, "", "watchctl: odd\n", []),
        "sanitizer": Outcome(23, "", "==1==ERROR: LeakSanitizer: detected memory leaks\n", []),
        "a hole in the message": Outcome(1, "", "watchctl: cannot open (null)\n", []),
        "no message": Outcome(1, "", "", ["log/events"]),
        "a sum that is not right": Outcome(0, summary.replace("4}", "5}"), "", ["log/events"]),
        "nothing printed": Outcome(0, "", "", ["log/events"]),
        "a line in words": Outcome(0, summary + "odd\n", "", ["log/events"]),
        "a file too many": Outcome(0, summary, "", ["log/events", "log/events.tmp"]),
    }
    missed = [name for name, o in wrong.items() if not judge(Nobody(True), base, o)]
    site = '{"type":"site","function":"f","line":1,"kind":"write","old":"0x1"}\n'
    named, nameless, uncertain = (Outcome(0, summary + line, "", []) for line in (
        site, site.replace('"function":"f","line":1,', ""), site.replace('"old":"0x1"', '"old_uncertain":true')))
    if not judge(Nobody(True), Baseline([named], session=False), nameless):
        missed.append("a site without a name")
    if judge(Nobody(True), Baseline([named], session=False), uncertain):
        missed.append("another thread's write in between was found to be wrong")
    told = Outcome(1, "", "watchctl: out of memory\n", [])
    if judge(Nobody(True), base, good) or judge(Nobody(True), base, told):
        missed.append("what is right was found to be wrong")
    print(f"missed: {missed}" if missed else f"{len(wrong)} kinds of trouble are found")
    return 1 if missed else 0


def tell_finding(scenario, way, nth, wrong, o, options):
    name, error = way.call
    print(f"{scenario.name}: {name} fails with {error} (call {nth} of {way.count}): {wrong}")
    for line in NAMES.of(way.program, way.callers[:6]):
        print(f"    {line}")
    print(f"    again: tests/faults/driver.py --scenario {scenario.name} --depth {options.depth} --way {way.key:#x}")
    if options.verbose:
        print(f"    status {o.status}\n    out: {o.out[-1500:]}\n    err: {o.err[-3000:]}")
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--scenario", action="append", help="only this one (repeatable)")
    p.add_argument("--sample", type=int, default=0, help="only N ways of each scenario, chosen by --seed (0: all)")
    p.add_argument("--seed", type=int, default=int(time.time()), help="of --sample")
    p.add_argument("--depth", type=int, default=4, help="so many callers tell one way from another (1 to 8)")
    p.add_argument("--last", action="store_true", help="the last call of each way fails instead of the first")
    p.add_argument("--way", type=lambda x: int(x, 0), help="only this one")
    p.add_argument("--call", help="only calls of this function")
    p.add_argument("--base", type=int, default=4, help="runs without a fault, to learn what differs by itself")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="at once")
    p.add_argument("--verbose", action="store_true", help="what a run with a finding printed")
    p.add_argument("--self-test", action="store_true", help="show that trouble is found")
    p.add_argument("--list", action="store_true", help="the scenarios")
    p.add_argument("--json", action="store_true", help="the summary as one JSON object")
    options = p.parse_args()
    if options.self_test:
        return self_test()
    names = [s.name for s in SCENARIOS]
    if options.list:
        print("\n".join(names))
        return 0
    if unknown := set(options.scenario or []) - set(names):
        p.error(f"no scenario {', '.join(unknown)}; there are: {' '.join(names)}")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    totals = collections.Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults.") as name:
        folder = Path(name)
        fixed_log(folder)
        step_logs(folder)
        asked = [s for s in SCENARIOS if s.name in (options.scenario or names)]
        for word, make in (("{calls}", call_log), ("{flow}", flow_log)):
            if any(word in s.words for s in asked):
                make(folder)
        for s in asked:
            ways, tried, reached, findings = examine(s, folder, options, folder)
            totals.update(ways=ways, tried=tried, failed=reached, findings=len(findings), scenarios=1)
            if not options.json:
                print(f"{s.name}: {ways} ways, {tried} tried, {reached} failed as asked, {len(findings)} findings", flush=True)
    totals["seconds"] = round(time.monotonic() - began)
    if options.json:
        print(json.dumps(dict(totals, seed=options.seed)))
    else:
        print(f"{totals['scenarios']} scenarios, {totals['ways']} ways, {totals['tried']} tried, {totals['failed']} failed as asked: "
              f"{totals['findings']} findings, in {totals['seconds']} s (seed {options.seed})")
    return 1 if totals["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
