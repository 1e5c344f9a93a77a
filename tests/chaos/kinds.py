"""What is done to the program, one function each: attach, and then something goes wrong, or nothing.

Each gets a Chaos (chaos.py): its random numbers, the target, where to put files. Each leaves nothing running.
"""
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from session import (DAMAGED, OK, ORDERLY, OTHER, SLOTS, Session, Watch, check_exact, check_log, check_sequence, check_sums,
                     descendants, limited)
from target import HOLD, QUIET, VARIABLES, Failure, free_registers, wait_for

FILTERS = [[], [], [], ["--changes"], ["--sample", "3"], ["--if", "new>100"], ["--thread", "beta"],
           ["--rate", "200/s"], ["--caller", "write_and_check"]]
ENDINGS = [signal.SIGINT, signal.SIGTERM]
NO_NAME = 5
LOADER_FAILED = 127  # ld.so(8)
MOST_ORPHANS = 40  # handlers of killed ones that stand in front of each other


def engine_options(c):
    """Engines, and how they keep their events."""
    engines = [["--engine", "handler"]] * 3 + [["--engine", "ring"], ["--engine", "auto"]]
    if c.ptrace:
        engines += [["-i", "0"]] * 2 + [["--engine", "ptrace"]] * 2
    options = list(c.random.choice(engines))
    if "ptrace" not in options and c.random.random() < 0.3:
        options += ["--buffer", c.random.choice(["64K", "1M"])]
    if "handler" in options and c.random.random() < 0.3:
        options.append("--private-buffer")
    return options


def some_watches(c, most, filters=True):
    """Registers that ptrace has once set are perf's no more: there, one watch at a time."""
    n = 1 if c.ptrace else c.random.randint(1, most)
    names = c.random.sample(VARIABLES, n)
    chosen = []
    for name in names:
        access = c.random.choice(["-w", "-w", "-rw", "-rw", "-r", "-x"])
        if access == "-x" and any(w.access == "-x" for w in chosen):
            access = "-w"
        chosen.append(Watch(name, access, c.random.choice(FILTERS) if filters and access != "-x" else []))
    return chosen


def is_counted(options):
    return "ptrace" not in options and "-i" not in options


def start(c, watches, options, **more):
    if "-i" in options:  # belongs to a watch
        watches[0].filters += ("-i", "0")
        options = [o for o in options if o not in ("-i", "0")]
    if "log" not in more and "command" not in more:
        options = [*options, "-q"]
    return Session(c.watchctl, c.target.pid, c.folder, watches, options, **more)


# An ordinary end, with everything accounted for.

def disturb(c, session):
    """Something happens meanwhile, or nothing."""
    what = c.random.choice(["nothing", "stop watchctl", "stop the program", "storm", "stop both"])
    if what in ("stop watchctl", "stop both") and not session.ended():
        session.process.send_signal(signal.SIGSTOP)
    if what in ("stop the program", "stop both"):
        c.target.stop(c.random.uniform(0, 0.05))
    if what == "storm":
        c.target.page.pause_us = 0
    time.sleep(c.random.uniform(0, 0.25))
    if what == "storm":
        c.target.page.pause_us = c.pause_us
    if what in ("stop watchctl", "stop both") and not session.ended():
        session.process.send_signal(signal.SIGCONT)


def exact(c):
    """Attached and detached while the program rests; what it does in between is counted by both sides."""
    options, with_log = engine_options(c), c.random.random() < 0.5
    watches = some_watches(c, 3)
    with c.target.resting(HOLD):
        before = c.target.account()
        s = start(c, watches, options, log=with_log)
        if not s.wait_armed():
            return refused(c, s)
    disturb(c, s)
    with c.target.resting(HOLD):
        after = c.target.account()
        s.send(c.random.choice(ENDINGS))
        if s.wait() != OK:
            raise Failure(f"{s}: status {s.process.returncode}: {s.error()}")
        check_exact(s, before, after, is_counted(options))
        if with_log:
            c.count("recorded", check_log(c.watchctl, s, damaged=False))
        nothing_left(c)
    c.count("hits", sum(w.hits(before, after) for w in watches))
    s.forget()
    return None


def refused(c, s):
    """It would not: only ptrace's registers are a reason."""
    status = s.wait()
    if status != SLOTS or not c.ptrace:
        raise Failure(f"{s}: status {status}: {s.error()}")
    c.count("no register was free")
    s.forget()


def nothing_left(c):
    """While it rests (HOLD). What killed ones have left is for `clear`."""
    if c.orphans:
        return
    with c.target.resting(QUIET):
        c.target.compare()
        for tid in c.random.sample(c.target.tids(), 4):
            free = free_registers(tid, c.address)
            if free < (2 if c.ptrace else 4):
                raise Failure(f"thread {tid} has {free} debug registers left")


def two(c):
    """Two at once; one may be killed, and the other knows everything all the same."""
    a_options, b_options = engine_options(c), engine_options(c)
    if c.ptrace:  # one tracer at a time
        b_options = ["--engine", c.random.choice(["handler", "ring"])]
    killed = c.random.random() < 0.4
    watches = some_watches(c, 4, filters=False)
    if len(watches) == 1:
        watches.append(Watch(c.random.choice([v for v in VARIABLES if v != watches[0].variable]), "-w"))
    cut = c.random.randint(1, len(watches) - 1)
    with c.target.resting(HOLD):
        before = c.target.account()
        a = start(c, watches[:cut], a_options)
        b = start(c, watches[cut:], b_options)
        armed = [s.wait_armed() for s in (a, b)]
        if not all(armed):
            for s, up in zip((a, b), armed):
                if up:
                    s.send(signal.SIGINT)
                    s.wait()
                else:
                    refused_by_another(c, s)
            return
    disturb(c, a)
    if killed:
        b.send(signal.SIGKILL)
        b.wait()
        c.orphans += "handler" in b_options
        c.count("kills")
        disturb(c, a)
    with c.target.resting(HOLD):
        after = c.target.account()
        ends = [a, b] if "ptrace" in a_options else c.random.sample([a, b], 2)  # no handler is taken out beside a tracer
        for s in ends:
            if s is b and killed:
                continue
            s.send(c.random.choice(ENDINGS))
            if s.wait() != OK:
                raise Failure(f"{s}: status {s.process.returncode}: {s.error()}")
            check_exact(s, before, after, is_counted(a_options if s is a else b_options))
        nothing_left(c)
    for s in (a, b):
        s.forget()


def refused_by_another(c, s):
    """Both wanted to trace at the same moment, or had not registers enough: that is said."""
    status = s.wait()
    if status not in ORDERLY or not s.error():
        raise Failure(f"{s}: status {status}: {s.error()}")
    c.count("refused beside another")


def early(c):
    """Told to end at any moment of its life, while the program goes on as it likes."""
    options, with_log = engine_options(c), c.random.random() < 0.3
    s = start(c, some_watches(c, 3), [*options, "-t", "0.1"], log=with_log)
    time.sleep(c.random.uniform(0, c.life))
    s.send(c.random.choice(ENDINGS))
    status = s.wait()
    if status not in (OK, -signal.SIGINT, -signal.SIGTERM, TOO_EARLY) and not (c.ptrace and status == SLOTS):
        raise Failure(f"{s}: status {status}: {s.error()}")
    check_sums(s, s.of("summary"))
    if with_log and status == OK:
        check_log(c.watchctl, s, damaged=False)
    s.forget()


TOO_EARLY = OTHER  # "interrupted before ..."


# Killed.

def kill(c):
    """SIGKILL at an instant of its life that is as likely as any other."""
    options, with_log = engine_options(c), c.random.random() < 0.3
    s = start(c, some_watches(c, 3), [*options, "-t", "0.05"], log=with_log)
    if with_log and c.random.random() < 0.5:
        s.wait_armed()
    time.sleep(c.random.uniform(0, c.life))
    s.send(signal.SIGKILL)
    s.wait()
    c.say(f"killed: {s}")
    c.count("kills")
    if "-i" in options or "ptrace" in options:
        c.gone()
        clear(c)
    else:
        c.orphans += 1
    if with_log:
        c.count("read from killed ones", check_log(c.watchctl, s, damaged=True))
    s.forget()


def burst(c):
    """Several at once, each killed at an instant of its own: while another injects, or takes out what a third left."""
    if c.ptrace:
        return kill(c)
    running = [start(c, some_watches(c, 1), [*engine_options(c), "-t", "0.05"]) for _ in range(4)]
    begun = time.monotonic()
    for at, s in sorted(((c.random.uniform(0, c.life * 1.5), s) for s in running), key=lambda x: x[0]):
        time.sleep(max(0, begun + at - time.monotonic()))
        s.send(signal.SIGKILL)
    for s in running:
        s.wait()
        c.count("kills")
        s.forget()
    c.orphans += len(running)
    c.target.check()
    if c.orphans > MOST_ORPHANS:
        clear(c)
    return None


def clear(c):
    """The documented way to take out what killed ones left."""
    c.gone()
    for _ in range(3):
        r = subprocess.run([c.watchctl, "clear", "-p", str(c.target.pid)], capture_output=True, text=True, timeout=120)
        if r.returncode == OK:
            break
        time.sleep(0.5)
    if r.returncode != OK:
        raise Failure(f"watchctl clear: status {r.returncode}: {r.stdout}{r.stderr}")
    c.say(f"clear: {r.stdout}{r.stderr}")
    c.orphans = 0
    with c.target.resting(HOLD):
        nothing_left(c)
    c.count("clear")


def kill_helpers(c):
    """The ptrace engine's keeper and guard, alone or together, and of a variable that nobody touches: docs/limits.md."""
    s = Session(c.watchctl, c.target.pid, c.folder, [Watch("chaos_quiet", "-rw")], ["--engine", "ptrace", "-q"])
    up = s.wait_armed()
    if not up:
        return refused(c, s)
    helpers = descendants(s.pid)
    victims = c.random.sample([s.pid, *helpers], c.random.randint(1, 1 + len(helpers)))
    c.say(f"watchctl {s.pid}, helpers {helpers}: kills {victims}")
    nobody_left = len(victims) == 1 + len(helpers)
    if nobody_left:  # who stops a thread to clear its registers is killed before it can undo what that does to its call
        c.target.page.stops += 1
    c.target.page.losing = 1
    time.sleep(c.random.uniform(0, 0.05))
    s.sent |= {signal.SIGKILL}
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if c.random.random() < 0.5:
            time.sleep(c.random.uniform(0, 0.01))
    if s.pid not in victims:
        time.sleep(c.random.uniform(0, 0.1))
        s.send(signal.SIGINT)
    s.wait()
    c.gone()
    c.count("helpers killed", len(victims))
    if nobody_left:  # nobody has cleared the registers: that is to be done by hand
        time.sleep(0.05)
        c.target.page.stops += 1
        os.kill(c.target.pid, signal.SIGCONT)  # nor has anybody let go on what was held while they were cleared
        subprocess.run([c.watchctl, "clear", "-p", str(c.target.pid), "--all-registers"], capture_output=True,
                       timeout=120, check=False)
    clear(c)
    c.target.page.losing = 0
    s.forget()
    return None


# Starved.

def starve(c):
    """Too little of something: it ends with a sentence, or does without."""
    what = c.random.choice(["memory", "files", "file size", "disk", "cgroup", "output"])
    options, more, log = engine_options(c), {}, False
    if what == "memory":
        more["limits"] = limited(address_space=c.random.choice([4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128]) << 20)
    elif what == "files":
        more["limits"] = limited(files=c.random.randint(3, 60))
    elif what == "file size":
        more["limits"], log = limited(file_size=c.random.choice([0, 100, 4096, 20000, 65536, 200000])), True
    elif what == "disk" and c.tiny_disk:
        log = c.tiny_disk
    elif what == "cgroup" and c.cgroup:
        more["limits"] = c.cgroup.enter
        c.cgroup.limit(c.random.choice([1, 2, 3, 4, 6, 8, 12, 16]) << 20)
    elif what == "output":
        more["output"] = "/dev/full"
    else:
        return
    s = start(c, some_watches(c, 3), [*options, "-t", "0.2"], log=log, **more)
    s.has_no_memory = what == "memory"
    if log:
        c.target.page.pause_us = 200
    status = s.wait()
    c.target.page.pause_us = c.pause_us
    c.count(f"starved of {what}: status {status}")
    if status < 0:
        c.orphans += 1
    elif status == LOADER_FAILED and "shared librar" in s.error():
        pass  # not even loaded
    elif status == NO_NAME and "some names may be missing" in s.error():
        pass
    elif status not in ORDERLY and not (log and status == DAMAGED):
        raise Failure(f"{s}: starved of {what}, status {status}: {s.error()}")
    elif status != OK and not s.error():
        raise Failure(f"{s}: starved of {what}, status {status} without a word")
    if what not in ("output",) and status >= 0 and what != "cgroup":
        check_sums(s, s.of("summary"))
    if log and status >= 0:
        check_log(c.watchctl, s, damaged=True)
    s.forget()
    c.gone()
    clear(c)


# Led by commands, recording for long, stepping.

def dialogue(c):
    """The prompt: watches come and go while it runs; ended by quit, an end of its input, or SIGKILL of either process."""
    folder = os.path.join(c.folder, f"repl{c.cycle}")
    os.mkdir(folder)
    with open(os.path.join(folder, "out"), "wb") as out:
        p = subprocess.Popen([c.watchctl, "repl", "-k", "--color", "never"], stdin=subprocess.PIPE, stdout=out,
                             stderr=out, text=True, start_new_session=True)
    end = c.random.choice(["quit", "end", "kill", "kill the session"])
    lines = [f"attach {c.target.pid} --engine {c.random.choice(['handler', 'ring'])}", "log off"]
    for n in range(1, c.random.randint(2, 5)):
        w = some_watches(c, 1)[0]
        lines += [f"watch {w.name} {w.access} " + " ".join(w.filters), f"wait -t {c.random.uniform(0, 0.05):.3f}",
                  c.random.choice([f"delete {n}", f"disable {n}", "sites", f"print {w.variable}.value", "info"])]
    with contextlib.suppress(BrokenPipeError):
        p.stdin.write("\n".join(lines) + "\n")
        p.stdin.flush()
        if end == "quit":
            p.stdin.write("quit\n")
        if end.startswith("kill"):
            time.sleep(c.random.uniform(0, c.life * 2))
            for pid in [p.pid] if end == "kill" else descendants(p.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            c.count("kills")
            c.orphans += 1
    with contextlib.suppress(BrokenPipeError):
        p.stdin.close()
    try:
        status = p.wait(timeout=120)
    except subprocess.TimeoutExpired:
        raise Failure(f"the prompt does not end ({end}): {Path(folder, 'out').read_text()}") from None
    said = Path(folder, "out").read_text(errors="replace")
    if status < 0 and not (end == "kill" and status == -signal.SIGKILL):
        raise Failure(f"the prompt crashed with {status}: {said}")
    if end in ("quit", "end") and status and not c.ptrace:
        raise Failure(f"the prompt ended with status {status}: {lines}: {said}")
    c.gone()
    if c.orphans:
        clear(c)
    else:
        with c.target.resting(HOLD):
            nothing_left(c)
    subprocess.run(["rm", "-rf", folder], check=False)


def record(c):
    """The flight recorder, with a bound; at times killed. Its log is true at any moment."""
    options = [*engine_options(c), "--ring", "1M"]
    killed = c.random.random() < 0.5
    s = start(c, some_watches(c, 2), options, log=True, command=["record"])
    if not s.wait_armed():
        return refused(c, s)
    c.target.page.pause_us = 500
    disturb(c, s)
    c.target.page.pause_us = c.pause_us
    if c.random.random() < 0.3:
        copy = os.path.join(s.folder, "copy")
        r = subprocess.run([c.watchctl, "snapshot", s.log, "-o", copy], capture_output=True, text=True,
                           timeout=120)
        if r.returncode not in (OK, OTHER):
            raise Failure(f"snapshot of {s}: status {r.returncode}: {r.stderr}")
    s.send(signal.SIGKILL if killed else signal.SIGINT)
    status = s.wait()
    if not killed and status != OK:
        raise Failure(f"{s}: status {status}: {s.error()}")
    c.count("kills", killed)
    c.count("read from killed ones" if killed else "recorded", check_ring(c, s, killed))
    c.gone()
    c.orphans += killed
    clear(c)
    s.forget()
    return None


def check_ring(c, s, killed):
    """Of what a ring has let go, the rest is in order."""
    from session import read_log

    objects = read_log(c.watchctl, s, killed) or []
    accesses = [o for o in objects if o["type"] == "access"]
    check_sequence(s, accesses, True)
    check_sums(s, [o for o in objects if o["type"] == "summary"])
    return len(accesses)


def step(c):
    """Breakpoints in its code, for a moment; at times the recorder is killed."""
    if c.target.traps != "default":
        return
    killed = c.random.random() < 0.5
    c.target.page.code_changes = 1
    s = Session(c.watchctl, c.target.pid, c.folder, [], ["--only", "chaos_function", "-t", "0.3", "-q"],
                command=["step"], log=True)
    if killed:
        time.sleep(c.random.uniform(0, 3))
        s.send(signal.SIGKILL)
        c.count("kills")
    status = s.wait()
    if not killed and status != OK:
        raise Failure(f"{s}: status {status}: {s.error()}")
    c.gone()
    c.target.page.code_changes = 0
    c.count(f"step: status {status}")
    s.forget()
    with c.target.resting(HOLD):
        nothing_left(c)


# (how often, what): kills are cheap, and what must be shown most often.
KINDS = [(50, kill), (10, burst), (12, exact), (6, two), (6, early), (5, starve), (3, dialogue), (2, record), (1, step)]
PTRACE_KINDS = [(50, kill), (14, exact), (6, two), (6, early), (6, kill_helpers), (5, starve), (2, record), (1, step)]
