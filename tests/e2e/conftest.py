"""Fixtures of the end-to-end tests: the program under test, victims that obey and account, and what is left behind."""
import contextlib
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import queue
import select
import signal
import subprocess
import threading
import zlib
from pathlib import Path

import failure_report
import pytest
import recipes
from as_found import snapshot
from waiting import WAIT, heard, ready, started, wait_until, wait_until_it_has_run  # noqa: F401

pytest_plugins = ["durations"]

ROOT = Path(__file__).resolve().parents[2]
VICTIMS = ROOT / "tests" / "victims"
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
WATCHCTL = os.environ.get("WATCHCTL", str(BUILD / "bin" / "watchctl"))

STACKWALK = recipes.stackwalk(BUILD)


def load_tool(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


contain = load_tool("contain")


def pytest_configure(config):
    # A shell has its background jobs ignore these, nohup another, and what a test starts would inherit it.
    for sig in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(sig) == signal.SIG_IGN:
            signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line("markers", "alone: looks at the whole machine, or takes all of it (as a browser does), so that no other test may run meanwhile")
    config.addinivalue_line("markers", "slow: takes more than 3 s, or judges time or chance; not in the gate, but in make test-slow")
    config.addinivalue_line("markers", "slow_when(id, ...): slow with these parameters, which are named as pytest names them in brackets")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config, items):
    """E2E_SAMPLE=K/N: of the tests, the K-th (from 0) of N parts, chosen by name: all runs of K from 0 to N - 1 are all tests."""
    for item in items:
        if "browser" in item.fixturenames:  # it takes every CPU that there is
            item.add_marker(pytest.mark.alone)
    part = os.environ.get("E2E_SAMPLE")
    if not part:
        return
    k, n = map(int, part.split("/"))
    chosen = [zlib.crc32(i.nodeid.encode()) % n == k for i in items]
    config.hook.pytest_deselected(items=[i for i, c in zip(items, chosen) if not c])
    items[:] = [i for i, c in zip(items, chosen) if c]


@pytest.hookimpl(tryfirst=True)  # before fixtures start anything
def pytest_runtest_setup():
    failure_report.forget()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """Of a test that failed also what there was; nothing has been taken down yet."""
    report = (yield).get_result()
    if report.failed:
        report.sections.append(("What there was", failure_report.text()))


def pytest_runtest_logreport(report):
    """E2E_FAILED=FILE: which test failed and why, as a line of JSON, for tools/rerun-failed."""
    path = os.environ.get("E2E_FAILED")
    if not path or not report.failed or "PYTEST_XDIST_WORKER" in os.environ:
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    why = crash.message if crash else str(report.longrepr)
    with open(path, "a") as f:
        print(json.dumps({"test": report.nodeid, "why": (why.splitlines() or ["?"])[0]}), file=f)


class Started:
    """Processes that this one has started, directly or not, as tools/contain knows them, also without a parent."""

    def __init__(self):
        self.kept = set()  # those that fixtures of many tests have started

    def all(self, but=()):
        root = os.getppid() if os.environ.get("CONTAIN_PID") == str(os.getppid()) else os.getpid()
        return {(pid, began) for pid, began in contain.descendants(root, but).items() if pid != os.getpid()}

    def new(self):
        """Those beside the kept ones and what these start: a server makes another worker for one that has ended."""
        return self.all(self.kept)

    def kill_new(self):
        left = self.new()
        for pid, _ in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)  # if it is a child of ours
        return left

    def end_new(self):
        wait_until(lambda: not self.kill_new())


processes = Started()


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    shared = fixturedef.scope != "function"
    before = processes.new() if shared else set()
    yield
    if shared:
        processes.kept |= processes.new() - before


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Ends what a test has started. It is set up before the test's other fixtures, and taken down after them."""
    yield
    processes.end_new()


def have_hardware():
    probe = subprocess.run([WATCHCTL, "-v", "0x1", "-s", "1", "--", "/bin/true"], capture_output=True, text=True)
    return "no hardware debug registers" not in probe.stderr


@pytest.fixture(scope="session")
def hardware():
    if not have_hardware():
        pytest.skip("this machine offers no debug registers")


@contextlib.contextmanager
def locked(path):
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def build():
    """build(name) -> the victim's path. `make victims` has built it."""
    known = recipes.read()

    def path(name):
        assert name in known, f"no victim {name}; one begins with a line like /* build: gcc -g */ (e2e/recipes.py)"
        target, recipe = BUILD / "victims" / name, known[name]
        if not target.exists() or any(p.stat().st_mtime > target.stat().st_mtime for p in recipe.sources):
            if recipe.missing():
                pytest.skip(f"{name} needs {recipe.missing()}, which is not installed")
            raise AssertionError(f"{target} is not there, or older than its source: make victims")
        return str(target)

    return path


class Victim:
    def __init__(self, path, *args, prefix=()):
        self.process = subprocess.Popen([*prefix, path, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.pid = int(self.process.stdout.readline().split()[1])

    def tell(self, line):
        """One command; returns what it answers after "ok"."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer.split()[0] == "ok", f"{line}: {answer!r}"
        return answer[2:].strip()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        """Its answer, or what became of it: a thread that is killed alone leaves nobody to answer."""
        try:
            self.send(line)
        except BrokenPipeError:
            return f"dead: {self.process.wait(timeout=WAIT)}"
        ready, _, _ = select.select([self.process.stdout], [], [], WAIT)
        return self.process.stdout.readline().strip() if ready else "silent"

    def alive(self):
        return self.process.poll() is None

    def finish(self):
        if self.alive():
            self.process.stdin.close()
        return self.process.wait(timeout=WAIT)


@pytest.fixture
def victim(build):
    started = []

    def start(name, *args):
        v = Victim(build(name), *args)
        started.append(v)
        return v

    yield start
    for v in started:
        if v.alive():
            v.process.kill()
            v.process.wait()


def with_engine(args):
    """
    Without a wish of their own: by the handler engine. What it puts into a program, and takes out again, is what most
    tests look for; which engine is chosen by itself is test_auto.py's matter.
    """
    args = [str(a) for a in args]
    own = args[:args.index("--")] if "--" in args else args
    at = 1 if own and own[0] in ("record", "top") else 0
    asks = any(a in ("-v", "--variable") for a in own)
    if not asks or "--engine" in own or (own[at:] and not own[at].startswith("-")):
        return args
    return [*args[:at], "--engine", "handler", *args[at:]]


def unheld(notes):
    """How often a thread did not wait long enough for us, as @notes tell: on a machine that is busy elsewhere."""
    return sum(int(n["text"].split()[0]) for n in notes if "a thread did not wait" in n["text"])


class Watch:
    """A live watchctl, its JSON read as it comes."""

    def __init__(self, *args, wait=True, prefix=()):
        self.process = subprocess.Popen([*prefix, WATCHCTL, *with_engine(args), "--json", "--color", "never"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.objects = []
        self.said = []
        failure_report.watches.append(self)
        self.lines = queue.Queue()
        self.readers = [threading.Thread(target=self.read_out), threading.Thread(target=self.read_err)]
        for reader in self.readers:
            reader.start()
        if wait:
            self.wait_for("armed")

    def read_out(self):
        for line in self.process.stdout:
            self.objects.append(json.loads(line))
            self.lines.put(self.objects[-1])
        self.lines.put(None)

    def read_err(self):
        for line in self.process.stderr:
            self.said.append(line)

    @property
    def stderr(self):
        return "".join(self.said)

    def wait_for(self, kind):
        while True:
            try:
                found = self.lines.get(timeout=WAIT)
            except queue.Empty:
                failure_report.take()
                raise AssertionError(f"no {kind} within {WAIT:g} s") from None
            if found is None:
                self.process.wait(timeout=WAIT)
                self.readers[1].join()
                raise AssertionError(f"no {kind}: {self.stderr}")
            if found["type"] == kind:
                return found

    def end(self, sig=signal.SIGINT, expect=0):
        if self.process.poll() is None and sig:
            self.process.send_signal(sig)
        self.process.wait(timeout=WAIT)
        for reader in self.readers:
            reader.join(timeout=WAIT)
        if expect is not None:
            assert self.process.returncode == expect, self.stderr
        return self

    def of(self, kind):
        return [o for o in self.objects if o["type"] == kind]

    @property
    def accesses(self):
        return self.of("access")

    def summary(self, watch=0):
        return self.of("summary")[watch]

    def unheld(self):
        return unheld(self.of("note"))

    def balanced(self):
        """recorded + lost + filtered == counted, for every watch."""
        for s in self.of("summary"):
            assert s["recorded"] + s["lost"] + s["filtered"] == s["counted"], s
        return True


@pytest.fixture
def watch(hardware):
    running = []

    def start(*args, **kw):
        w = Watch(*args, **kw)
        running.append(w)
        return w

    yield start
    for w in running:
        if w.process.poll() is None:
            w.process.kill()
            w.process.wait()


@pytest.fixture
def run():
    def call(*args, **kw):
        return subprocess.run([WATCHCTL, *with_engine(args)], capture_output=True, text=True,
                              timeout=kw.pop("timeout", WAIT), **kw)

    return call


@pytest.fixture
def before_and_after():
    @contextlib.contextmanager
    def check(pid):
        before = snapshot(pid)
        yield
        assert snapshot(pid) == before

    return check


MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_memory(*command):
    """Exit status of @command and the most memory that it had, in KiB. What the kernel says of it counts what its parent
    had when it was forked: it needs a small parent, which a test run is not."""
    r = subprocess.run(["/usr/bin/python3", "-c", MEASURE, *map(str, command)], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(map(int, r.stdout.split()))


# Pages

@pytest.fixture(scope="module")
def browser():
    """For tests of pages: skips where there is no Chromium."""
    import chromium_py
    why = chromium_py.missing()
    if why:
        pytest.skip(why)
    with chromium_py.Browser() as b:
        yield b


@pytest.fixture
def shown(browser, page):
    """shown(fragment) -> the browser with the module's `page`; nothing may have been complained about in the end."""
    def show(fragment=""):
        browser.resize(1280, 900)
        browser.open(page, fragment)
        return browser

    yield show
    assert browser.messages == []
    assert [r for r in browser.requests if not r.startswith(("file:", "about:"))] == []
