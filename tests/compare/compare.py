"""What other tools tell of accesses whose number and kind are known: the tables of docs/comparison.md.

    make compare

A program (asked.c) makes them when a tool is ready, and says when it is done. Then each tool is killed with its watch armed, and
the program goes on, or does not. Costs are measured by `make bench`.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WAIT_S = 60


def numbers():
    text = (HERE / "accesses.h").read_text()
    return {name.lower(): int(n) for name, n in re.findall(r"^#define ([A-Z_]+) (\d+)", text, re.M)}


class Program:
    def __init__(self, path, folder):
        self.go = folder / "go"
        self.process = subprocess.Popen([path, str(self.go)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pid, self.address = self.process.stdout.readline().split()
        self.pid = int(pid)

    def start(self):
        self.go.touch()

    def wait_done(self):
        return self.process.stdout.readline().strip() == "done"

    def close(self):
        self.process.kill()
        self.process.communicate()


class Tool:
    """A way to watch: `line` is the command, `ready` is in its output when the watch is armed."""

    ready = None
    settle_s = 0.5
    runs_program = False  # a debugger: its script starts the accesses, and the program must be let go on

    def __init__(self, name, needs):
        self.name, self.process = name, None
        self.path = shutil.which(needs) if needs else None
        self.missing = None if self.path or not needs else f"{needs} is not installed"

    def begin(self, program, folder, by_itself=True):
        """@by_itself: a debugger's script starts the accesses, too, as soon as the program runs on."""
        self.folder, self.by_itself = folder, by_itself
        self.out = folder / "out"
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(self.line(program), stdout=out, stderr=subprocess.STDOUT, cwd=folder,
                                            stdin=subprocess.DEVNULL, env=self.environment(), start_new_session=True)
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and self.process.poll() is None:
            if re.search(self.ready, self.out.read_text(errors="replace")):
                time.sleep(self.settle_s)
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name}: {self.out.read_text(errors='replace')[-300:]}")

    def environment(self):
        return dict(os.environ)

    def close(self):
        """Whatever went wrong before."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()

    def end(self):
        if not self.runs_program:
            self.process.send_signal(2)
        self.process.wait(WAIT_S)
        return self.told(self.out.read_text(errors="replace"))


class Watchctl(Tool):
    ready = '"type":"armed"'

    def __init__(self, path, engine):
        super().__init__(f"watchctl --engine {engine}", None)
        self.path, self.engine = path, engine

    def line(self, program):
        return [self.path, "-p", str(program.pid), "-v", "value", "-rw", "--engine", self.engine, "--json"]

    def told(self, text):
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        found = [o for o in found if o["type"] == "access"]
        kinds = [o["kind"] for o in found]
        return {"accesses": len(found), "reads": kinds.count("read"), "writes": kinds.count("write"), "both": kinds.count("readwrite"),
                "kernel": sum(o["origin"] == "kernel" for o in found), "values": sum("new" in o for o in found)}


class Gdb(Tool):
    ready = "watchpoint \\d+: .*value"
    runs_program = True

    def __init__(self, command):
        super().__init__(f"gdb {command}", "gdb")
        self.command = command

    def line(self, program):
        script = self.folder / "script"
        script.write_text(f"set pagination off\nset confirm off\nset debuginfod enabled off\n{self.command} value\n"
                          "commands\nx/i $pc\ncontinue\nend\nbreak finished\nshell sleep 2\n"
                          f"{'shell touch go' if self.by_itself else ''}\ncontinue\ndelete\ndetach\n")
        return [self.path, "-q", "-nx", "-batch", "-p", str(program.pid), "-x", str(script)]

    def told(self, text):
        changed = len(re.findall(r"^New value = ", text, re.M))
        same = len(re.findall(r"^Value = ", text, re.M))
        return {"accesses": changed + same, "writes": changed if self.command != "rwatch" else 0,
                "reads": same if self.command == "rwatch" else 0, "undecided": same if self.command == "awatch" else 0,
                "kernel": 0, "values": changed + same}


class Lldb(Tool):
    ready = "Watchpoint created"
    runs_program = True

    def __init__(self, kind):
        super().__init__(f"lldb watchpoint -w {kind}", "lldb-19")
        self.kind = kind

    def environment(self):
        return dict(os.environ, LLDB_DEBUGSERVER_PATH="/usr/bin/lldb-server-19")

    def line(self, program):
        (self.folder / "loop.py").write_text(
            "import lldb, os, time\n"
            "def loop(debugger, command, result, d):\n"
            "    process = debugger.GetSelectedTarget().GetProcess()\n"
            "    hits = 0\n"
            "    time.sleep(2)\n"
            + ("    open('go', 'w').close()\n" if self.by_itself else "") +
            "    while True:\n"
            "        process.Continue()\n"
            "        if process.GetState() != lldb.eStateStopped:\n"
            "            break\n"
            "        if process.GetSelectedThread().GetStopReason() != lldb.eStopReasonWatchpoint:\n"
            "            break\n"
            "        hits += 1\n"
            "    print('hits %d' % hits, flush=True)\n")
        return [self.path, "--no-lldbinit", "-b", "-p", str(program.pid), "-o", "command script import loop.py",
                "-o", "command script add -f loop.loop loop", "-o", "breakpoint set -n finished",
                "-o", f"watchpoint set variable -w {self.kind} value", "-o", "loop", "-o", "watchpoint delete -f",
                "-o", "breakpoint delete -f", "-o", "detach"]

    def told(self, text):
        hits = re.search(r"^hits (\d+)", text, re.M)
        return {"accesses": int(hits[1]) if hits else 0, "undecided": int(hits[1]) if hits else 0, "kernel": 0, "values": int(hits[1]) if hits else 0}


class Perf(Tool):
    ready = ""  # it does not say
    settle_s = 6

    def __init__(self):
        super().__init__("perf record -e mem:ADDR:rw", "perf")

    def line(self, program):
        return [self.path, "record", "-q", "-c", "1", "-e", f"mem:{program.address}/8:rw", "-g", "-o", "data", "-p",
                str(program.pid)]

    def told(self, text):
        script = subprocess.run(["perf", "script", "-i", "data", "-F", "ip,sym"], cwd=self.folder, capture_output=True,
                                text=True, check=False).stdout
        stacks = [s for s in script.split("\n\n") if s.strip()]
        kernel = sum(bool(re.match(r"\s*ffff", s)) for s in stacks)
        return {"accesses": len(stacks), "undecided": len(stacks), "kernel": kernel, "values": 0}


class Bpftrace(Tool):
    ready = "Attaching"

    def __init__(self):
        super().__init__("bpftrace watchpoint:ADDR:8:rw", "bpftrace")

    def line(self, program):
        code = f"watchpoint:{program.address}:8:rw {{ @hits = count(); }}"
        return [self.path, "-p", str(program.pid), "-e", code]

    def told(self, text):
        hits = re.search(r"@hits: (\d+)", text)
        hits = int(hits[1]) if hits else 0
        return {"accesses": hits, "undecided": hits, "kernel": None, "values": 0}


def ask(tool, program_path):
    """What it tells, and whether the program lives after the tool is killed."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(program_path, Path(folder))
        try:
            tool.begin(program, Path(folder))
            if not tool.runs_program:
                program.start()
            if not program.wait_done():
                raise RuntimeError("the program died under it")
            time.sleep(1)
            row = tool.end()
        finally:
            tool.close()
            program.close()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(program_path, Path(folder))
        try:
            tool.begin(program, Path(folder), by_itself=False)
            time.sleep(3)
            os.killpg(tool.process.pid, 9)
            tool.process.wait()
            time.sleep(1)
            program.start()
            row["lives"] = program.wait_done()
        finally:
            tool.close()
            program.close()
    return row


# The columns of the table in docs/comparison.md. It has none for "both": asked.c adds by two instructions.
DOCUMENTED = ["accesses", "reads", "writes", "undecided", "kernel", "values", "lives"]
PAGE = HERE.parents[1] / "docs" / "comparison.md"


def documented():
    """name of a tool -> its row of the table, as it is printed there."""
    rows = {}
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 1 + len(DOCUMENTED):
            name = re.sub(r"\*\*watchctl\*\*, (\w+) engine", r"watchctl --engine \1", cells[0]).replace("`", "")
            rows[name] = [c.replace("not asked", "?") for c in cells[1:]]
    return rows


def differing(rows):
    """Sentences about what the page says otherwise: of another version or processor, that is no mistake."""
    page = documented()
    for name, row in rows.items():
        if name not in page:
            yield f"docs/comparison.md has no row for {name}"
            continue
        for column, there in zip(DOCUMENTED, page[name], strict=True):
            if cell(row.get(column, 0)) != there:
                yield f"docs/comparison.md says {there} {column} of {name}, not {cell(row.get(column, 0))}"


def cell(value):
    return {None: "?", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchctl", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--json")
    parser.add_argument("--only", action="append", default=[], help="tools whose name has this in it")
    args = parser.parse_args()
    tools = [Watchctl(os.path.abspath(args.watchctl), e) for e in ("handler", "ring", "ptrace")]
    tools += [Gdb("watch"), Gdb("rwatch"), Gdb("awatch"), Lldb("write"), Lldb("read"), Lldb("read_write"), Perf(), Bpftrace()]
    n = numbers()
    print(f"made: {n['changes']} writes that change the value and {n['same']} that do not, {n['reads']} reads, {n['adds']} additions in place,")
    print(f"      {n['by_kernel']} times read(2) into it\n")
    columns = ["accesses", "reads", "writes", "both", "undecided", "kernel", "values", "lives"]
    print(f"{'':34}" + "".join(f"{c:>11}" for c in columns))
    rows, failed = {}, False
    for tool in tools:
        if args.only and not any(o in tool.name for o in args.only):
            continue
        if tool.missing:
            print(f"{tool.name:34}  skipped: {tool.missing}")
            continue
        try:
            rows[tool.name] = ask(tool, os.path.abspath(args.program))
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print(f"{tool.name:34}  failed: {e}")
            failed = True
            continue
        print(f"{tool.name:34}" + "".join(f"{cell(rows[tool.name].get(c, 0)):>11}" for c in columns), flush=True)
    told = list(differing(rows))
    print("\n" + "\n".join(told or ["docs/comparison.md says the same"]))
    if args.json:
        Path(args.json).write_text(json.dumps({"made": n, "rows": rows}, indent=1) + "\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
