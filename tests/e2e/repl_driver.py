"""What the tests of the REPL share: a REPL at a terminal of its own, one that reads a pipe, and one that runs a script."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

from conftest import VICTIMS, WAIT, WATCHCTL, wait_until

PROMPT = "(watchctl) "


class Terminal:
    """A REPL at a terminal of its own; what a person would see is in lines()."""

    def __init__(self, *args, rows=40, columns=120, home="/nonexistent", hangup=signal.SIG_DFL):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.status = None
        environment = dict(os.environ, TERM="xterm", HOME=str(home), LC_ALL="C.UTF-8")
        environment.pop("XDG_STATE_HOME", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGHUP, hangup)  # whatever the tests were started with: nohup ignores it
            os.execve(WATCHCTL, [WATCHCTL, *args], environment)
        self.resize(rows, columns, tell=False)

    def resize(self, rows, columns, tell=True):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.screen.resize(rows, columns)

    def read(self, seconds=0.1):
        """What has been printed meanwhile; False: the other side has gone."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return False
            if not data:
                return False
            self.raw += data
            self.stream.feed(data)
        return True

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines()).rstrip()

    def until(self, condition):
        end = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < end, self.text()
            self.read(0.05)
        return self

    def sees(self, pattern):
        return self.until(lambda: re.search(pattern, self.text()))

    def type(self, text):
        os.write(self.fd, text.encode())
        return self

    def run(self, line):
        """A command; waits for the prompt behind it: behind the end of the line, which the REPL itself echoes."""
        before = len(self.raw)
        self.type(line + "\n")
        return self.until(lambda: b"\n" in self.raw[before:] and self.line() == PROMPT.rstrip())

    def line(self):
        """The line that the cursor is in."""
        return self.lines()[self.screen.cursor.y]

    def ended(self):
        def gone():
            self.read(0.02)
            pid, self.status = os.waitpid(self.pid, os.WNOHANG)
            return pid == self.pid

        wait_until(gone, or_say=self.text)
        return os.waitstatus_to_exitcode(self.status)


class Dialogue:
    """A REPL that reads a pipe, told one line after the other."""

    def __init__(self, *args):
        self.process = subprocess.Popen([WATCHCTL, "repl", "--color", "never", *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def do(self, line, end):
        """Types @line; what is printed until @end comes."""
        self.process.stdin.write(line + "\n")
        text = ""
        while end not in text:
            got = self.process.stdout.readline()
            assert got, text
            text += got
        return text

    def finish(self, line=""):
        out, _ = self.process.communicate(line, timeout=WAIT)
        return out


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(*args, **kw):
        t = Terminal(*args, **{"home": tmp_path / "home", **kw})
        opened.append(t)
        t.until(lambda: t.line() == PROMPT.rstrip())
        return t

    (tmp_path / "home").mkdir()
    yield start
    for t in opened:
        if t.status is None or not os.WIFEXITED(t.status):
            try:
                os.kill(t.pid, signal.SIGKILL)
                os.waitpid(t.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(t.fd)


@pytest.fixture
def script(tmp_path):
    def run(text, *options, stdin=None, expect=0):
        file = tmp_path / "script"
        file.write_text(text)
        command = [WATCHCTL, "repl", *options, "--color", "never"] + ([] if stdin else [str(file)])
        r = subprocess.run(command, input=text if stdin else None, capture_output=True, text=True, timeout=WAIT,
                           stdin=None if stdin else subprocess.DEVNULL)
        assert r.returncode == expect, (r.returncode, r.stdout, r.stderr)
        return r

    return run


def compile_once(tmp_path, source, compiler, *flags):
    target = tmp_path / source.replace(".", "_")
    subprocess.run([compiler, "-g", *flags, "-o", str(target), str(VICTIMS / source)], check=True, timeout=WAIT)
    return str(target)


@pytest.fixture
def values(tmp_path):
    running = []

    def start(source, compiler, *flags):
        path = compile_once(tmp_path, source, compiler, *flags)
        v = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(v)
        return int(v.stdout.readline().split()[1])

    yield start
    for v in running:
        v.kill()
        v.wait()
        v.stdin.close()
        v.stdout.close()
