"""One watchctl on the program: how it is started, starved, stopped, ended; what it says must be true."""
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

from target import VARIABLES, Failure, wait_for

# watchctl(1), EXIT STATUS. What else ends it but the signal that it was sent is a crash.
OK, OTHER, USAGE, TARGET, PERMISSION, NAME, SLOTS, UNSAFE, DAMAGED = range(9)
ORDERLY = {OK, OTHER, TARGET, PERMISSION, SLOTS, UNSAFE}
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)


class Watch:
    """What is watched: a variable and how."""

    def __init__(self, variable, access, filters=()):
        self.variable, self.access, self.filters = variable, access, tuple(filters)

    @property
    def name(self):
        return "chaos_function" if self.access == "-x" else f"{self.variable}.value"

    def arguments(self):
        return ["-v", self.name, self.access, *self.filters]

    def hits(self, before, after):
        """How often the CPU traps, by the program's own account."""
        if self.access == "-x":
            return after[1] - before[1]
        i = VARIABLES.index(self.variable)
        a, b = before[0][i], after[0][i]
        writes = b.writes - a.writes + b.exchanges - a.exchanges
        return writes if self.access == "-w" else writes + b.reads - a.reads


class Session:
    """A running watchctl. Its output goes to files: nobody has to read them for it to go on."""

    number = 0
    has_no_memory = False

    def __init__(self, watchctl, pid, folder, watches, options=(), limits=None, log=False, command=(), output=None,
                 environment=None):
        Session.number += 1
        self.folder = os.path.join(folder, f"session{Session.number}")
        os.mkdir(self.folder)
        self.watches = watches
        self.log = os.path.join(log if isinstance(log, str) else self.folder, f"log{Session.number}") if log else None
        line = [watchctl, *command, "-p", str(pid)]
        for w in watches:
            line += w.arguments()
        line += [*options, "--json", "--color", "never"]
        if self.log:
            line += ["-o", self.log]
        self.line = line
        self.out = output or os.path.join(self.folder, "out")
        self.sent = set()
        self.said = ""
        with open(self.out, "wb") as out:  # messages by a pipe: they are few, and there is no limit to its size
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
                                            env=environment, preexec_fn=limits, start_new_session=True)
        os.set_blocking(self.process.stderr.fileno(), False)
        self.pid = self.process.pid

    def objects(self):
        found = []
        try:
            with open(self.out, "rb") as f:
                for line in f:
                    if line.endswith(b"\n"):
                        found.append(json.loads(line))
        except (OSError, json.JSONDecodeError) as e:
            raise Failure(f"{self}: its output cannot be read: {e}") from e
        return found

    def of(self, kind):
        return [o for o in self.objects() if o["type"] == kind]

    def error(self):
        """What it has said so far."""
        more = self.process.stderr.read() if not self.process.stderr.closed else None
        self.said += (more or b"").decode(errors="replace")
        return self.said

    def __str__(self):
        return " ".join(self.line)

    def ended(self):
        return self.process.poll() is not None

    def armed(self):
        with open(self.out, "rb") as f:
            return f.read().count(b'{"type":"armed"') >= len(self.watches)

    def wait_armed(self):
        """False: it ended before."""
        wait_for(lambda: self.armed() or self.ended(), lambda: f"{self}: is not armed: {self.error()}")
        return not self.ended() or self.armed()

    def send(self, sig):
        self.sent.add(sig)
        if not self.ended():
            self.process.send_signal(sig)

    def wait(self):
        """Its exit status, negative for a signal; a crash is a failure."""
        try:
            status = self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self}: does not end: {self.error()}") from None
        if status == -signal.SIGABRT and self.has_no_memory:
            return status  # a library's way to say so: docs/limits.md
        if status < 0 and -status in CRASHES:
            raise Failure(f"{self}: crashed with signal {-status}: {self.error()}")
        if "AddressSanitizer" in self.error() or "runtime error" in self.error():
            raise Failure(f"{self}: {self.error()}")
        if status < 0 and -status not in self.sent and -status != signal.SIGKILL:
            raise Failure(f"{self}: ended by signal {-status}, which nobody sent: {self.error()}")
        return status

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.log:
            shutil.rmtree(self.log, ignore_errors=True)
        self.process.stderr.close()


def check_sums(session, summaries):
    """Recorded or counted as lost, each one; what a summary does not count says that it does not."""
    for s in summaries:
        if "counted" in s and s["recorded"] + s["lost"] + s["filtered"] != s["counted"]:
            raise Failure(f"{session}: recorded + lost + filtered is not counted: {s}")


def check_exact(session, before, after, counted=True):
    """All that the program did while it was held to what it accounts for, and no more."""
    summaries = {s["watch"]: s for s in session.of("summary")}
    check_sums(session, summaries.values())
    for w in session.watches:
        s, hits = summaries.get(w.name), w.hits(before, after)
        if s is None:
            raise Failure(f"{session}: no summary of {w.name}: {session.error()}")
        if counted and "counted" not in s:
            raise Failure(f"{session}: {w.name} was not counted: {s}")
        if s.get("counted", hits) != hits:
            raise Failure(f"{session}: the program made {hits} accesses of {w.name}, counted were {s}")
        if s["recorded"] + s["lost"] + s["filtered"] != hits and "counted" in s:
            raise Failure(f"{session}: the program made {hits} accesses of {w.name}: {s}")


def check_sequence(session, accesses, lost):
    """A variable is counted up by one thread: what was recorded of its writes is so, without a gap if none was lost."""
    for w in session.watches:
        if w.access == "-x":
            continue
        mine = [a for a in accesses if a["watch"] == w.name and a["kind"] in ("write", "readwrite") and "new" in a
                and not a.get("displaced")]
        if len({a["tid"] for a in mine}) > 1:
            raise Failure(f"{session}: {w.name} has one writer, recorded are {len({a['tid'] for a in mine})}")
        values = [int(a["new"], 16) for a in mine]
        for a, b in zip(values, values[1:]):
            if b <= a or (b != a + 1 and not lost and not w.filters and w.access != "-r"):
                raise Failure(f"{session}: {w.name} went from {a:#x} to {b:#x} without a loss, as recorded")


def read_log(watchctl, session, damaged):
    """Accesses and losses of a log. A killed recorder's may be cut short, and says so."""
    if not os.path.exists(os.path.join(session.log, "metadata")):
        return None
    r = subprocess.run([watchctl, "report", session.log, "--json", "--events", "--no-stack"], capture_output=True,
                       text=True, timeout=300)
    allowed = {OK, DAMAGED} if damaged else {OK}
    if r.returncode not in allowed:
        # Killed before anything was in it: the message says what is missing.
        if damaged and r.returncode in (OTHER, TARGET) and r.stderr:
            return None
        raise Failure(f"{session}: its log cannot be read: status {r.returncode}, {r.stderr}")
    objects = [json.loads(line) for line in r.stdout.splitlines()]
    return objects


def check_log(watchctl, session, damaged):
    objects = read_log(watchctl, session, damaged)
    if objects is None:
        return 0
    accesses = [o for o in objects if o["type"] == "access"]
    check_sequence(session, accesses, any(o["type"] == "lost" for o in objects) or damaged)
    check_sums(session, [o for o in objects if o["type"] == "summary"])
    for s in [o for o in objects if o["type"] == "summary"] if not damaged else []:
        n = sum(1 for a in accesses if a["watch"] == s["watch"])
        if "recorded" in s and s["recorded"] != n:
            raise Failure(f"{session}: {s['recorded']} were recorded of {s['watch']}, the log has {n}")
    return len(accesses)


def limited(address_space=None, files=None, file_size=None, nice=None):
    """What to do in the child before it executes watchctl."""

    def apply():
        if address_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    return apply


def descendants(pid):
    """Processes that watchctl has made, by their parents."""
    found = {}
    for p in Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                found.setdefault(int((p / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(p.name))
            except OSError:
                continue
    todo, all_of_them = [pid], []
    while todo:
        children = found.get(todo.pop(), [])
        all_of_them += children
        todo += children
    return all_of_them


def pause(seconds):
    time.sleep(max(0, seconds))
