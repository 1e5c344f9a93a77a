"""What is done to the odd programs (odd.h), one function a kind: a program and another one like it that nobody watches,
one to three watches that come and go, and then each process of it is what it was.
"""
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

from heart import WINDOW_S, Heart
from odd import Odd
from session import NAME, OK, OTHER, TARGET, UNSAFE, Session, Watch, check_sums, descendants
from target import Failure, wait_for

ENGINES = ["handler", "ring", "ptrace", "auto"]
HALF, SLOW = 0.5, 0.05
WAIT_S = 0.3  # what a thread may wait for a watchctl that does not get on, once: docs/limits.md
CLEARS = 10


class OddWatch(Watch):
    """What is watched has no name that says how: an expression, or an address."""

    def __init__(self, expression, *options):
        super().__init__(expression, "-w", options)

    @property
    def name(self):
        return self.variable

    def arguments(self):
        return ["-v", self.variable, *self.filters, "-w"]


class Unread(Session):
    """Prints to a pipe of one page, of which nobody reads more than that it is armed."""

    def __init__(self, *args, **more):
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.read_end, False)
        self.got = b""
        super().__init__(*args, output=f"/proc/{os.getpid()}/fd/{self.write_end}", **more)
        os.close(self.write_end)

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self.read_end, 65536):
                self.got += more

    def armed(self):
        if b'"type":"armed"' not in self.got:
            self.read()
        return b'"type":"armed"' in self.got

    def objects(self):
        return [json.loads(line) for line in self.got.splitlines(keepends=True) if line.endswith(b"\n")]

    def wait(self):
        def ended():
            self.read()
            return self.ended()

        wait_for(ended, lambda: f"{self}: does not end: {self.error()}", 120)
        self.read()
        return super().wait()

    def forget(self):
        os.close(self.read_end)
        super().forget()


class Visit:
    """One watch on one of them: how it is begun, what is done to it, how it ends, what must have been counted."""

    def __init__(self, c, odd, engine, options=(), watch=None, session=Session):
        self.c, self.odd, self.engine, self.session = c, odd, engine, session
        self.watch = watch or OddWatch("odd_flag")
        self.options = ["--engine", engine, *options]
        if session is Session:
            self.options.append("-q")
        self.follow = "follow" in options and "--fork" in options
        self.exact = True
        self.refusals = {}  # exit status: what is said then
        self.before = 0
        self.s = None

    def begin(self, more=()):
        self.s = self.session(self.c.watchctl, self.odd.pid, self.c.folder, [self.watch], [*self.options, *more])
        self.c.sessions.append(self.s)
        self.c.count(f"engine {self.engine}")

    def begin_held(self):
        """Armed while no access is made, and nobody is forked."""
        self.odd.hold()
        self.odd.quiet()
        self.before = self.odd.writes(follow=False)
        self.begin()
        if not self.s.wait_armed():
            self.s.wait()
            raise self.error(f"status {self.s.process.returncode}")
        self.odd.new_epoch()
        self.odd.release()

    def error(self, what):
        return Failure(f"{self.odd}: {self.s}: {what}: {self.s.error()}")

    def expect(self, *statuses):
        status = self.s.wait()
        if status not in statuses and not (status in self.refusals and self.refusals[status] in self.s.error()):
            raise self.error(f"status {status}")
        if status not in (OK, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL) and not self.s.error():
            raise self.error(f"status {status} without a word")
        check_sums(self.s, self.s.of("summary"))
        return status

    def check_counted(self, writes, most=None):
        """Each access is recorded, or said to be lost."""
        summaries = self.s.of("summary")
        if not summaries:
            raise self.error("no summary")
        o = summaries[0]
        told = o["recorded"] + o["lost"] + o["filtered"]
        if not writes <= told <= (writes if most is None else most):
            raise self.error(f"the program made {writes} accesses: {o}")
        self.c.count("hits", told)

    def engine_used(self):
        armed = self.s.of("armed")
        return armed[0]["engine"] if armed else None


# Ways to end

def end_by_signal(v):
    """Held, so that what was counted is what was done."""
    v.odd.hold()
    after = v.odd.writes(v.follow)
    v.s.send(v.c.random.choice([signal.SIGINT, signal.SIGTERM]))
    v.expect(OK)
    if v.exact:
        v.check_counted(after - v.before)
    v.odd.release()


def end_by_kill(v):
    v.s.send(signal.SIGKILL)
    v.s.wait()
    v.c.count("kills")
    v.c.helpers_gone(v.odd)
    clear(v)


def clear(v):
    """The documented way to take out what a killed one left; it must have been silent for a moment."""
    for _ in range(CLEARS):
        r = subprocess.run([v.c.watchctl, "clear", "-p", str(v.odd.pid), "--children"], capture_output=True, text=True, timeout=120)
        if r.returncode == OK:
            return
        time.sleep(0.3)
    raise v.error(f"watchctl clear: status {r.returncode}: {r.stdout}{r.stderr}")


def end_by_exit(v):
    v.odd.page.watched = v.odd.page.over = 1
    v.expect(OK, TARGET)
    v.odd.finish()
    if v.exact:
        v.check_counted(v.odd.writes(v.follow) - v.before)


def end_by_exec(v):
    """Its variables are gone: the watch ends, unless it follows."""
    executed = v.odd.page.executed
    v.odd.page.execute = 1
    wait_for(lambda: v.odd.page.executed > executed or v.odd.failure(), f"{v.odd} does not execute itself")
    if not v.follow:
        v.expect(TARGET, OK)
        if v.exact:
            v.check_counted(v.odd.writes(False, before_exec=True) - v.before)
    else:
        v.s.send(signal.SIGINT)
        v.expect(OK, TARGET)
    v.odd.check()
    wait_for(lambda: not v.odd.page.closed or v.odd.failure(), f"{v.odd} does not go on")
    time.sleep(0.02)
    v.odd.first = v.odd.snapshot()


ENDINGS = [(5, end_by_signal), (4, end_by_kill), (2, end_by_exit), (2, end_by_exec)]


def held_visit(v, disturb=None):
    """Begins and ends while nothing is accessed: what was done in between is known."""
    v.begin_held()
    if disturb:
        disturb(v)
    v.c.sleep(0.05, 0.3)
    ending = v.c.choose(ENDINGS)
    v.c.say(f"{v.s.line}: {ending.__name__}")
    ending(v)


def hasty_visit(v):
    """It ends by itself, or is killed or told to end at any moment, and the program goes on as it likes."""
    how = v.c.random.choice(["count", "time", "signal", "kill", "kill"])
    v.exact = False
    before = v.odd.writes(v.follow)
    most = {"count": 1, "time": v.c.random.uniform(0, 0.3)}.get(how, 20)  # merged hits are not recorded: the count may not be reached
    v.begin([*(["-n", str(v.c.random.randint(1, 200))] if how == "count" else []), "-t", f"{most:.3f}"])
    v.c.say(f"{v.s.line}: {how}")
    if how in ("signal", "kill"):
        v.c.sleep(0, 0.4)
    if how == "kill":
        return end_by_kill(v)
    if how == "signal":
        v.s.send(v.c.random.choice([signal.SIGINT, signal.SIGTERM]))
    status = v.expect(OK, *((OTHER, -signal.SIGINT, -signal.SIGTERM) if how == "signal" else ()))
    if status == OK and how in ("count", "time") and not v.follow and v.s.of("summary"):
        v.odd.hold()
        v.check_counted(0, most=v.odd.writes(False) - before)
        v.odd.release()
    return None


# What is to be seen after each

def check_after(v):
    if v.odd.dead():
        return
    v.c.helpers_gone(v.odd)
    v.odd.check()
    v.odd.quiet()
    v.odd.hold()
    v.odd.nothing_left(v.c.watchctl, v.c.used_ptrace)
    v.odd.release()
    v.odd.check()


def shares(visits, waits):
    """
    What each beat must have of the usual progress, and in how long a time. A hit by the ptrace engine costs its thread
    a stop, and a thread that waits for a watch to move waits for watchctl: both are documented. The bystander does not.
    """
    slow = waits or any(v == "ptrace" for v in visits)
    return (SLOW if slow else HALF, HALF)


def run_cycle(c, kind, word, visit, traps="default", waits=False, window=WINDOW_S):
    """@visit is given a new program of that kind, one to three times; nothing of it is left when it returns."""
    odd = control = None
    heart, used = None, []
    c.used_ptrace = False
    try:
        odd, control = (Odd(c.arguments.odd, c.folder, kind, word, traps) for _ in range(2))
        heart = Heart(odd, control, lambda: [s.pid for s in list(c.sessions) if s.process.returncode is None])
        c.sleep(0.1, 0.2)
        for _ in range(c.random.randint(1, 3)):
            v = visit(odd)
            used.append((v and v.engine_used()) or "ptrace")
            c.used_ptrace |= used[-1] == "ptrace"
            if v:
                check_after(v)
                v.s.forget()
            if odd.dead():
                break
        c.sleep(0.1, 0.3)
        heart.stop()
        for f in heart.freezes(shares(used, waits), window):
            c.count("freezes")
            raise Failure(f"{odd} froze: {f.beat} made {f.beats} turns in {f.seconds} s, another one {f.usual}; engines {used}")
        for o in (odd, control):
            o.finish()
        c.count("checks of odd programs", odd.page.checks)
    except Failure as e:
        why = odd and odd.failure()
        c.count("deaths", bool(why and "died" in why))
        raise Failure(f"{e}; {odd}: {why or 'lives'}") from e
    finally:
        if heart:
            heart.stop()
        c.end_sessions()
        for o in (odd, control):
            if o:
                o.kill()


def any_visit(v, disturb=None):
    if v.c.random.random() < 0.6:
        held_visit(v, disturb)
    else:
        hasty_visit(v)
    return v


# The kinds

def blocked_signals(c):
    """A pool of threads that block all signals, as nginx's does."""
    word = c.random.choice(["pool", "all"])
    run_cycle(c, "blocked", word, lambda odd: any_visit(Visit(c, odd, c.random.choice(ENGINES))))


def pages_that_go(c):
    """What is watched is unmapped, protected or cut off, and comes again."""
    word = c.random.choice(["unmap", "truncate", "protect", "owners"])

    def visit(odd):
        watch = OddWatch(hex(odd.page.address), "-s", "8")
        v = Visit(c, odd, c.random.choice(ENGINES), watch=watch)
        v.refusals = {NAME: "nothing is mapped at"}
        return any_visit(v)

    run_cycle(c, "pages", word, visit)


UNREAD = {"plain": ("odd_flag", []), "pointer": ("odd_head->len", ["--follow"]), "tls": ("odd_mine", [])}


def unread_output(c):
    """Nobody reads what is printed, or watchctl is stopped for a while."""
    word = c.random.choice(list(UNREAD))
    expression, options = UNREAD[word]

    def stop(v):
        if stop_watchctl(v):
            c.sleep(0.2, 1.0)
            v.s.process.send_signal(signal.SIGCONT)
            c.count("stops of watchctl")

    def visit(odd):
        engine = c.random.choice(ENGINES)
        v = Visit(c, odd, engine, watch=OddWatch(expression, *options), session=c.random.choice([Unread, Unread, Session]))
        v.exact = word == "plain"
        return any_visit(v, stop if v.session is Session or c.random.random() < 0.3 else None)

    run_cycle(c, word, "-", visit, waits=word != "plain", window=WINDOW_S + WAIT_S)


def stop_watchctl(v):
    """Not in the moment in which it has a thread stopped, for that one would wait: docs/limits.md."""
    for _ in range(50):
        if v.s.ended():
            return False
        v.s.process.send_signal(signal.SIGSTOP)
        time.sleep(0.002)
        if v.engine_used() == "ptrace" or not any_stopped(v.odd.pid):
            return True
        v.s.process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    return False


def any_stopped(pid):
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii", errors="replace") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "t":
                    return True
        return False
    return True


def dispatching(c):
    """It dispatches its system calls itself, as Wine does, or begins to while it is watched."""
    word = c.random.choice(["selector", "range", "lateselector", "laterange"])

    def begin_late(v):
        if word.startswith("late"):
            v.odd.page.late = 1

    def visit(odd):
        v = Visit(c, odd, c.random.choice(ENGINES))
        dispatches = not word.startswith("late") or odd.page.late
        if v.engine == "handler" and (dispatches or word.startswith("late")):
            return visit_refused(v, dispatches)
        return any_visit(v, begin_late)

    run_cycle(c, "dispatch", word, visit)


def visit_refused(v, dispatches):
    """By the handler, from the beginning or as soon as it begins to: that is said, and it is let go."""
    if dispatches:
        v.begin()
    else:
        v.begin_held()
        v.c.sleep(0, 0.1)
        v.odd.page.late = 1
    v.expect(UNSAFE)
    if "dispatch" not in v.s.error() + str(v.s.of("note")):
        raise v.error("refused without the reason")
    v.c.count("refused")
    return v


FOLLOW = [[], ["--fork", "follow"], ["--fork", "follow"]]


def daemon_families(c):
    """Double forks and chains of children, mostly followed."""
    word = c.random.choice(["daemon", "chain"])
    run_cycle(c, "daemons", word, lambda odd: any_visit(Visit(c, odd, c.random.choice(ENGINES), c.random.choice(FOLLOW))))


def first_of_namespace(c):
    """The target is the first process of a pid namespace of its own, and forks."""
    word = c.random.choice(["fork", "daemon"])
    run_cycle(c, "pidns", word, lambda odd: any_visit(Visit(c, odd, c.random.choice(ENGINES), c.random.choice(FOLLOW))))


def forking_server(c):
    """Children are forked all the time, also in the moment in which a watch begins or ends."""
    traps = c.random.choice(["default", "default", "ignored"])
    run_cycle(c, "forking", "fork", lambda odd: any_visit(Visit(c, odd, c.random.choice(ENGINES), c.random.choice(FOLLOW))), traps)


KINDS = [(9, blocked_signals), (9, pages_that_go), (9, unread_output), (6, dispatching), (9, daemon_families), (6, first_of_namespace),
         (9, forking_server)]
