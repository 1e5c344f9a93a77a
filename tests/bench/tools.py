"""The watchers that are compared: how each is started on a process, and how it is made to go away."""

import json
import os
import shutil
import signal
import subprocess
import time

ARM_TIMEOUT_S = 10
END_TIMEOUT_S = 10
FRAMES = "16"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class ToolError(Exception):
    pass


class Tool:
    """One way to watch 8 bytes for writes."""

    program = None  # what must be installed
    package = None
    settle = 0.5  # seconds between the first hit seen and the measuring: past the first lap of every ring
    window = 0.4  # seconds measured
    stop_signal = signal.SIGINT

    def missing(self):
        """Why it cannot run here; None: it can."""
        if self.program and not shutil.which(self.program):
            return f"{self.program} is not installed (package {self.package})"
        return None

    def command(self, pid, addr, folder):
        """The argument vector; files go into `folder`."""
        raise NotImplementedError

    def environment(self):
        return None


class Watchctl(Tool):
    def __init__(self, path, options=("-w",), log=False):
        self.path = path
        self.options = options
        self.log = log

    def missing(self):
        return None if os.access(self.path, os.X_OK) else f"{self.path} is not built"

    def command(self, pid, addr, folder):
        command = [self.path, "-p", str(pid), "-v", addr, "-s", "8", *self.options, "--frames", FRAMES]
        command += ["--json", "--output", os.path.join(folder, "watchctl.json")]
        return command + (["-o", os.path.join(folder, "log")] if self.log else ["-q"])


class Perf(Tool):
    program = "perf"
    package = "linux-perf"

    def __init__(self, registers=False, raw=0):
        self.registers = registers
        self.graph = f"dwarf,{raw}" if raw else "fp"
        self.modifiers = ":u" if raw else ""

    def command(self, pid, addr, folder):
        command = ["perf", "record", "-e", f"mem:{addr}/8:w{self.modifiers}", "-c", "1", "--call-graph", self.graph, "-p", str(pid)]
        if self.registers:
            command += ["--user-regs=ax,bx,cx,dx,si,di,bp,sp,ip,flags,r8,r9,r10,r11,r12,r13,r14,r15"]
        return command + ["-o", os.path.join(folder, "perf.data")]


class PerfCount(Tool):
    """Counts and records nothing: what the kernel's part of a hit costs by itself."""

    program = "perf"
    package = "linux-perf"

    def command(self, pid, addr, folder):
        return ["perf", "stat", "-e", f"mem:{addr}/8:w", "-p", str(pid), "-o", os.path.join(folder, "stat")]


class PtraceLoop(Tool):
    """Debug registers by POKEUSER, and nothing but going on at each stop."""

    stop_signal = signal.SIGTERM

    def __init__(self, path):
        self.path = path

    def missing(self):
        return None if os.access(self.path, os.X_OK) else f"{self.path} is not built"

    def command(self, pid, addr, folder):
        return [self.path, str(pid), addr]


class Bpftrace(Tool):
    program = "bpftrace"
    package = "bpftrace"

    def command(self, pid, addr, folder):
        return ["bpftrace", "-p", str(pid), "-e", f"watchpoint:{addr}:8:w {{ @[ustack] = count(); }}"]


class Gdb(Tool):
    """Killed at the end, and its target with it: it does not let go of a process that traps all the time."""

    program = "gdb"
    package = "gdb"
    settle = 0.2
    window = 0.5
    stop_signal = signal.SIGKILL

    def __init__(self, at_hit=(), condition=None):
        self.at_hit = at_hit
        self.condition = condition

    def command(self, pid, addr, folder):
        script = os.path.join(folder, "commands.gdb")
        condition = f" if {self.condition.replace('ADDR', addr)}" if self.condition else ""
        lines = ["set pagination off", "set confirm off", f"watch -location *(long *) {addr}{condition}", "commands"]
        with open(script, "w", encoding="ascii") as f:
            f.write("\n".join([*lines, "silent", *self.at_hit, "continue", "end", "continue", ""]))
        return ["gdb", "-nx", "-q", "-batch", "-p", str(pid), "-x", script]

    def environment(self):
        return {**os.environ, "DEBUGINFOD_URLS": ""}


class Lldb(Tool):
    """Killed at the end like gdb."""

    program = "lldb-19"
    package = "lldb-19"
    settle = 0.2
    window = 0.5
    stop_signal = signal.SIGKILL

    def __init__(self, at_hit=(), condition=None):
        self.at_hit = at_hit
        self.condition = condition

    def command(self, pid, addr, folder):
        script = os.path.join(folder, "commands.lldb")
        lines = [f"watchpoint set expression -w write -s 8 -- {addr}"]
        if self.condition:
            lines.append(f"watchpoint modify -c '{self.condition.replace('ADDR', addr)}' 1")
        lines.append("watchpoint command add 1")
        with open(script, "w", encoding="ascii") as f:
            f.write("\n".join([*lines, *self.at_hit, "process continue", "DONE", "process continue", ""]))
        return ["lldb-19", "--batch", "--no-lldbinit", "-p", str(pid), "-s", script]


def _tail(path):
    try:
        with open(path, "r", encoding="utf-8", errors="replace") as f:
            lines = [line.strip() for line in f.read()[-2000:].splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1] if lines else ""


class Running:
    """A tool at work on a process. Its output goes to a file where it is needed later, else nowhere."""

    def __init__(self, tool, pid, addr, folder, unprivileged=False):
        self.tool = tool
        self.folder = folder
        self.stderr = os.path.join(folder, "stderr")
        with open(self.stderr, "wb") as errors:
            self.process = subprocess.Popen(
                (NOBODY if unprivileged else []) + tool.command(pid, addr, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=tool.environment(),
                cwd=folder,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def alive(self):
        return self.process.poll() is None

    def complaint(self):
        if self.alive():
            return f"it did not arm within {ARM_TIMEOUT_S} s"
        return _tail(self.stderr) or f"it ended with status {self.process.returncode}"

    def kill(self):
        """The whole session of the tool: lldb has a server, perf may have helpers."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def stop(self):
        if self.alive():
            self.process.send_signal(self.tool.stop_signal)
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def _objects(self):
        """What watchctl printed so far."""
        try:
            with open(os.path.join(self.folder, "watchctl.json"), "r", encoding="utf-8") as f:
                text = f.read()
        except OSError:
            return []
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [json.loads(line) for line in whole if '"armed"' in line or '"summary"' in line]

    def wait_armed(self):
        """For a watch that is never hit: watchctl says when it is armed."""
        end = time.monotonic() + ARM_TIMEOUT_S
        while time.monotonic() < end and self.alive():
            if any(o["type"] == "armed" for o in self._objects()):
                return True
            time.sleep(0.01)
        return False

    def summary(self):
        """watchctl's balance, after stop(); None from other tools."""
        found = [o for o in self._objects() if o["type"] == "summary"]
        return found[-1] if found else None
