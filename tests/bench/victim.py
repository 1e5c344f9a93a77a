"""A running `hits`, and what it says about itself: see hits.c for the lines it prints."""

import os
import select
import signal
import statistics
import subprocess
import time

WATCHED_NS = 500  # a write dearer than this traps; a bare one takes about one
LIFE_S = 60


class VictimError(Exception):
    pass


class Sample:
    """Nanoseconds per hit, from the lines of all threads in one window."""

    def __init__(self, lines):
        per_hit = [ns / hits for _, ns, hits in lines if hits]
        self.hits = sum(hits for _, _, hits in lines)
        self.median = statistics.median(per_hit)
        self.mean = sum(ns for _, ns, _ in lines) / self.hits


class Victim:
    def __init__(self, path, arguments=(), prefix=()):
        self.threads = 1
        if "--threads" in arguments:
            self.threads = int(arguments[arguments.index("--threads") + 1])
        command = [*prefix, path, "--life", str(LIFE_S), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.fd = self.process.stdout.fileno()
        self.partial = b""
        first = self._read_lines(time.monotonic() + 5)
        if not first or not first[0].startswith("ready "):
            self.close()
            raise VictimError("the victim did not start")
        _, pid, self.addr, self.untouched = first[0].split()
        self.pid = int(pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def _read_lines(self, deadline):
        """The lines that are there; waits for one until the deadline."""
        while b"\n" not in self.partial:
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.fd, 65536) if ready else b""
            if not chunk:
                return []
            self.partial += chunk
        *whole, self.partial = self.partial.split(b"\n")
        return [line.decode() for line in whole]

    def _intervals(self, deadline):
        """(thread, ns, hits) as they come; ends at the deadline or with the victim."""
        while time.monotonic() < deadline:
            for line in self._read_lines(deadline):
                fields = line.split()
                if len(fields) == 3:
                    yield tuple(int(field) for field in fields)
            if self.process.poll() is not None:
                return

    def wait_watched(self, timeout, tool_alive):
        """True once every thread pays for its hits; False when the tool ended or the time is over."""
        watched = set()
        end = time.monotonic() + timeout
        while time.monotonic() < end and tool_alive():
            for thread, ns, hits in self._intervals(min(end, time.monotonic() + 0.1)):
                if ns > WATCHED_NS * hits:
                    watched.add(thread)
                else:
                    watched.discard(thread)
                if len(watched) == self.threads:
                    return True
        return False

    def sample(self, settle, window):
        """What a hit costs from `settle` seconds from now on, for `window` seconds."""
        for _ in self._intervals(time.monotonic() + settle):
            pass
        lines = [line for line in self._intervals(time.monotonic() + window) if line[2]]
        if not lines:
            raise VictimError("the victim ended" if self.process.poll() is not None else "no hit in time")
        return Sample(lines)
