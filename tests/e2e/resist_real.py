"""
Real programs that obey a line at a time, keep an account of what is watched in them, and check themselves all the while:

    hit N       the watched word grows N times by one; answers "ok VALUE"
    check 0     answers "ok ROUNDS ERRORS": how often its threads have checked themselves, and what was wrong
    bye 0       ends in an orderly way with status 7; answers "bye VALUE ERRORS"
"""
import contextlib
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from conftest import BUILD, VICTIMS, WAIT, WATCHCTL, locked, wait_until

SOURCES = VICTIMS / "resist"
ENGINES = ["handler", "ring", "ptrace"]
GOODBYE = 7


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def built(target, source, *command):
    """Compiled at most once, in a folder of its own, by whichever worker comes first."""
    out = BUILD / "victims"
    out.mkdir(parents=True, exist_ok=True)
    target, source = out / target, SOURCES / source
    with locked(out / f".{target.name}.lock"):
        if not target.exists() or source.stat().st_mtime > target.stat().st_mtime:
            env = dict(os.environ, HOME=str(out), GOCACHE=str(out / "gocache"))
            line = [str(w).format(target=target, source=source, out=out) for w in command]
            subprocess.run(line, check=True, env=env, cwd=out, timeout=5 * WAIT, stderr=subprocess.DEVNULL)
    return str(target)


class Program:
    """One that talks by lines; every wait for it has an end, and says what became of it."""

    size = 8
    stable_fds = True
    atomic = False  # several threads write the word at the same time
    alone = True  # what grows the word is hit() and nothing else
    calls = ()  # options of `watchctl step`: which of the functions that it calls all the time

    def __init__(self, *command, addr=None):
        self.lock = threading.Lock()
        self.buffer = b""
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.pid, self.addr = self.greeting()
        if addr:
            self.addr = addr(self.pid)

    def greeting(self):
        word, pid, addr = self.line().split()
        assert word == "pid"
        return int(pid), int(addr, 16)

    def line(self):
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], WAIT)
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                raise AssertionError(f"no answer: {self.state()}")
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def state(self):
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace")[-2000:]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)  # it may be about to end
        if self.process.poll() is not None:
            return f"it ended with {self.process.returncode}: {said}"
        threads = [re.findall(r"^(?:Name|State|TracerPid|SigBlk):\s*(.*)", p.read_text(), re.M)
                   for p in Path(f"/proc/{self.process.pid}/task").glob("*/status")]
        return f"it hangs, {threads}: {said}"

    def send(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(self.state()) from None

    def ask(self, line, answer="ok"):
        with self.lock:
            self.send(line)
            words = self.line().split()
        assert words[0] == answer, words
        return words[1:]

    def hit(self, n):
        """n writes; returns the value that the program says it has then."""
        return int(self.ask(f"hit {n}")[0])

    def value(self):
        return self.hit(0)

    def check(self):
        rounds, errors = self.ask("check 0")[:2]
        assert errors == "0", f"it says of itself that {errors} of its checks failed"
        return int(rounds)

    def well(self):
        """It does not only live: each of its threads goes on to do right what it has to do."""
        before = self.check()
        wait_until(lambda: self.check() > before, or_say=lambda: "one of its threads does nothing any more")

    def written(self, before, after):
        """Which values a watch should have seen written between two accounts."""
        return list(range(before + 1, after + 1))

    def watch(self, kind="-w"):
        return ["-p", self.pid, "-v", hex(self.addr), "-s", self.size, kind]

    def finish(self):
        value = self.value()
        told, errors = self.ask("bye 0", answer="bye")
        assert (int(told), errors) == (value, "0")
        assert self.process.wait(timeout=WAIT) == GOODBYE, self.state()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def writable(pid):
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        if words[1].startswith("rw") and (len(words) == 5 or words[-1] == "[heap]"):
            yield [int(x, 16) for x in words[0].split("-")]


def symbol(pid, name):
    """The address of a variable that the process's program exports."""
    path = os.path.realpath(f"/proc/{pid}/exe")
    listing = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    offset = int(re.search(rf"^(\w+) \w {name}$", listing, re.M)[1], 16)
    maps = Path(f"/proc/{pid}/maps").read_text()
    return offset + int(re.search(rf"^(\w+)-\S+ \S+ 00000000 .*{re.escape(path)}$", maps, re.M)[1], 16)


def places(pid, wanted):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for start, end in writable(pid):
            with contextlib.suppress(OSError):
                memory.seek(start)
                text = memory.read(end - start)
                yield from (start + m.start() for m in re.finditer(re.escape(wanted), text))


def find_words(pid, *words):
    """Where in the memory of a process these 32-bit words stand one after the other. Mappings come and go meanwhile."""
    wanted, found = struct.pack(f"<{len(words)}I", *words), []

    def look():
        found[:] = places(pid, wanted)
        return len(found) == 1

    wait_until(look, or_say=lambda: found)
    return found[0]


class Atomic(Program):
    atomic = True


class Node(Program):
    size = 4

    def __init__(self, *command):
        mark = random.randrange(1 << 28, 1 << 30)
        super().__init__(*command, str(mark), addr=lambda pid: find_words(pid, *range(mark, mark + 4)) - 4)


class Rust(Atomic):
    def finish(self):
        """Off its stack: told by a handler of Rust's runtime, on the signal stack that it has made for the thread."""
        assert self.check() > 0
        self.send("overflow 0")
        assert self.process.wait(timeout=WAIT) == -signal.SIGABRT
        assert "has overflowed its stack" in self.state()


class Gdb(Program):
    """A debugger at work on a program of its own, which it stops, steps and watches."""

    stable_fds = False  # it opens files of its own program

    def line(self):
        while not (line := super().line()).startswith(("pid ", "ok ", "bye ")):
            pass  # what it tells of its stops
        return line


class Bash(Program):
    """Watched is the shell's last random number: it tells which ones there were."""

    size = 4

    def __init__(self, *command):
        super().__init__(*command, addr=lambda pid: symbol(pid, "last_random_value"))

    def hit(self, n):
        count, *self.seen = map(int, self.ask(f"hit {n}"))
        return count

    def written(self, before, after):
        return self.seen


STATIC_PIE = ["gcc", "-O2", "-g", "-static-pie", "-pthread"]


def plain(name, *command):
    def line():
        need(command[0])
        return [built(name, "resist.c", *command, "{source}", "-o", "{target}")]

    return line


def python():
    return ["/usr/bin/python3", str(SOURCES / "resist.py")]


def node():
    need("node")
    return ["node", str(SOURCES / "resist.js")]


def java():
    need("java")
    compiler = next((c for c in ("javac", "ecj") if shutil.which(c)), None) or pytest.skip("neither javac nor ecj is installed")
    made = built("Resist.class", "Resist.java", compiler, "-nowarn", "-source", "11", "-target", "11", "-d", "{out}", "{source}")
    return ["java", "-Xmx64m", "-cp", str(Path(made).parent), "Resist"]


def go():
    need("go")
    return [built("resist_go", "resist.go", "go", "build", "-o", "{target}", "{source}")]


def cgo():
    """Linked with libc, which then shares the signals and the threads with Go's runtime."""
    need("go", "gcc")
    made = built("resist_cgo", "resist.go", "sh", "-c", "mkdir -p cgo && sed 's/^package main/&\\nimport \"C\"/' {source} >cgo/main.go && "
                 "CGO_ENABLED=1 go build -o {target} cgo/main.go")
    return [made]


def rust():
    rustc = next((r for r in ("/usr/bin/rustc", "rustc") if shutil.which(r)), None) or pytest.skip("rustc is not installed")
    return [built("resist_rust", "resist.rs", rustc, "--edition", "2021", "-O", "-g", "{source}", "-o", "{target}")]


def luajit():
    need("luajit")
    return ["luajit", str(SOURCES / "resist.lua")]


def bash():
    need("nm")
    return ["bash", str(SOURCES / "resist.sh")]


def gdb():
    need("gdb")
    own = built("resist_static_pie", "resist.c", *STATIC_PIE, "{source}", "-o", "{target}")
    return ["gdb", "-q", "-nx", "-batch", "-x", str(SOURCES / "resist_gdb.py"), "--args", own]


# What each is: the class that talks with it, and the command line, which skips the test where something is missing.
CALLS = {"java": "JVM_*", "go": "main.*", "luajit": "*"}
PROGRAMS = {
    "python": (Program, python),
    "node": (Node, node),
    "java": (Program, java),
    "go": (Atomic, go),
    "cgo": (Atomic, cgo),
    "rust": (Rust, rust),
    "musl": (Atomic, plain("resist_musl", "musl-gcc", "-O2", "-g", "-static", "-pthread")),
    "static_pie": (Atomic, plain("resist_static_pie", *STATIC_PIE)),
    "luajit": (Program, luajit),
    "bash": (Bash, bash),
    "gdb": (Gdb, gdb),
}


def command(name):
    return PROGRAMS[name][1]()


def start(name):
    started = PROGRAMS[name][0](*command(name))
    started.calls = ["--only", CALLS.get(name, "*hit*")]
    return started


class Load:
    """Somebody who works with a program all the time, verifies each answer, and knows how often the word was written."""

    def __init__(self, program, hits=20):
        self.program, self.hits = program, hits
        self.rounds, self.failure = 0, None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            value = self.program.value()
            while not self.stop.is_set():
                was, value = value, self.program.hit(self.hits)
                right = value == was + self.hits if self.program.alone else value >= was + self.hits
                assert right, f"{self.hits} writes made {value} of {was}"
                self.rounds += 1
        except BaseException as e:  # pylint: disable=broad-except
            self.failure = e

    def goes_on(self, rounds=2):
        """So many requests were begun, and answered right, from now on."""
        seen = self.rounds
        wait_until(lambda: self.rounds > seen + rounds or self.failure, or_say=lambda: self.program.state())
        self.sound()

    def sound(self):
        if self.failure:
            raise self.failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()
        if not exc[0]:
            self.sound()


def signals(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return re.findall(r"^(SigIgn|SigCgt|Seccomp|TracerPid):\s*(\S+)", status, re.M)


def blocking(pid):
    """Threads that hold SIGTRAP back. A runtime does that for moments, a thread that we forgot on its way home for ever."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            if int(re.search(r"^SigBlk:\s*(\S+)", status.read_text(), re.M)[1], 16) & 1 << (signal.SIGTRAP - 1):
                found.add(status.parent.name)
    return found


def tracers(pid):
    """Who traces any of its threads."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            found.add(int(re.search(r"^TracerPid:\s*(\d+)", status.read_text(), re.M)[1]))
    return found - {0}


def fds(pid):
    return sorted((fd, re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))) for fd in os.listdir(f"/proc/{pid}/fd"))


def shared_memory(pid):
    """What our ring and code would be: a runtime maps and unmaps private memory as it likes."""
    return sorted(line.split()[0] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/dev/zero" in line)


@contextlib.contextmanager
def left_as_found(program):
    """Signal actions and masks, descriptors, and no trace of ours, as `watchctl clear` sees it."""
    pid = program.pid

    def state():
        return signals(pid), shared_memory(pid), program.stable_fds and fds(pid)

    found, blocked = state(), blocking(pid)
    yield
    wait_until(lambda: state() == found, or_say=lambda: (state(), found))  # a server closes a connection when it gets to it
    wait_until(lambda: blocking(pid) <= blocked, or_say=lambda: f"threads {blocking(pid)} block SIGTRAP")
    cleared = clear(pid)
    assert "nothing" in cleared, cleared


def clear(pid):
    r = subprocess.run([WATCHCTL, "clear", "-p", str(pid)], capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


def come_and_go(program, watch, cycles, *options):
    """While it works for somebody: watched and left, watched and killed, by each engine in turn; at the end nothing of us is left."""
    rng = random.Random(program.addr)
    with left_as_found(program), Load(program) as load:
        for cycle in range(cycles):
            engine = ENGINES[cycle % len(ENGINES)]
            free(program.pid)
            if cycle % 2:
                w = watch(*program.watch("-rw"), "--engine", engine, "-q", *options)
                load.goes_on(1)
                w.end()
                assert w.balanced() and w.summary()["counted"] >= load.hits
            else:
                w = subprocess.Popen([WATCHCTL, *map(str, program.watch("-rw")), "--engine", engine, "-q", *options],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(rng.random() * 0.15)
                w.kill()
                w.wait()
            load.goes_on(1)
        free(program.pid)
        wait_until(lambda: "nothing" in clear(program.pid))
        program.well()


def free(pid):
    """What a killed tracer leaves is a process that lets go and ends."""
    wait_until(lambda: not tracers(pid), or_say=lambda: f"{tracers(pid)} still trace it")
