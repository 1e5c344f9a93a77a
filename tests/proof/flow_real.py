"""Packaged programs, recorded by `watchctl flow record` while one of them asks another for something: does `watchctl flow path` lead back from the
answer over those that took part, in their order, by the rules that are shipped for them?

Who took part is known from how the programs are started, and by their numbers; threads of the kernel in between do not count.
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

import explain_programs as programs
import proof
from explain_programs import PYTHON, Room, say

KERNEL = re.compile(r"kworker/|ksoftirqd/|rcu|swapper|migration/")
TOOK_MS = 300
TRIES = 3
ASKED = 3  # of a connection from before the recording: where its bytes are is known when one side has waited for the other


class Recording:
    """Of the whole system, as long as the block."""

    def __init__(self, room):
        self.room, self.log = room, room.folder / "sys.log"

    def __enter__(self):
        ready, write = os.pipe()
        self.process = subprocess.Popen([proof.watchctl(), "flow", "record", "-o", self.log, "--force", "--ready-fd", str(write)], pass_fds=[write],
                                        stderr=subprocess.PIPE, text=True)
        os.close(write)
        said = os.read(ready, 1)
        os.close(ready)
        if not said:
            raise proof.Failure(self.process.communicate()[1])
        return self

    def __exit__(self, *_):
        self.process.send_signal(2)
        self.said = self.process.communicate(timeout=proof.TIMEOUT)[1]

    def ask(self, what, *words, rules=()):
        words = [*words, *(w for r in rules for w in ("--rules", r))]
        r = subprocess.run([proof.watchctl(), "flow", what, self.log, *words], capture_output=True, text=True, timeout=proof.TIMEOUT, check=False)
        if r.returncode:
            raise proof.Failure(r.stderr)
        return [json.loads(line) for line in r.stdout.splitlines()]

    def units(self, tid, rules=()):
        """When this thread's units begin and end."""
        return [(x["begin_ns"], x["end_ns"]) for x in self.ask("graph", "--process", str(tid), rules=rules) if x["type"] == "node" and x["tid"] == tid]

    def path(self, tid, ns=None, rules=()):
        """To the unit of the thread that it is in then, or to the end of its last one: threads, the newest first, each but once in a row: (tid, name)."""
        at = ns or max(self.units(tid, rules))[1]
        found = []
        for link in self.ask("path", "--json", "--to", f"{tid} at {at}", rules=rules):
            who = link["to"]["tid"], link["to"].get("comm", "?")
            if not KERNEL.match(who[1]) and (not found or found[-1] != who):
                found.append(who)
        return found


class Chain:
    """To be found: the first threads of a path, each by its number, its name, or a function of both."""

    def __init__(self, recording, *wanted, ns=None, rules=()):
        self.found, self.wanted = recording.path(wanted[0], ns, rules), wanted

    @property
    def is_right(self):
        at, skips = 0, False
        for w in self.wanted:
            if w is ...:  # any threads in between
                skips = True
                continue
            while skips and at < len(self.found) and w not in self.found[at]:
                at += 1
            if at == len(self.found) or w not in self.found[at]:
                return False
            at, skips = at + 1, False
        return True

    def __str__(self):
        return f"wanted {' <- '.join(map(str, self.wanted))}, found {' <- '.join(f'{name}/{tid}' for tid, name in self.found[:8])}"


def settle():
    """Whoever was asked goes back to its loop, and what is written last is in the log."""
    time.sleep(TOOK_MS / 1000)


def redis_get(room):
    server, client = programs.redis(room)
    with Recording(room) as r:
        for _ in range(ASKED):
            say(client, b"get a\n")
            settle()
    return [Chain(r, client.pid, server.pid, client.pid)]


def redis_blpop(room):
    """One client waits for what another one pushes."""
    server, waits = programs.redis(room)
    pushes = room.start("redis-cli", "-s", "redis.socket", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    say(pushes, b"ping\n")
    say(waits, b"blpop q 0\n", False)
    settle()
    with Recording(room) as r:
        say(pushes, b"lpush q 1\n")
        waits.stdout.readline()
        settle()
    return [Chain(r, waits.pid, server.pid, pushes.pid)]


def nginx_proxy(room):
    _, worker = programs.nginx(room)
    with Recording(room) as r:
        client = room.start(PYTHON, "-c", programs.ASK_HTTP)
        client.wait()
        settle()
    return [Chain(r, client.pid, worker, "python3", worker, client.pid)]


def postgres_query(room):
    session = programs.postgres(room)
    client, backend = session()
    with Recording(room) as r:
        for _ in range(ASKED):
            say(client, b"select 1;\n")
            settle()
    return [Chain(r, client.pid, backend, client.pid)]


def postgres_row(room):
    """One session waits for a lock that another gives back."""
    session = programs.postgres(room)
    holds, holder = session()
    waits, waiter = session()
    say(holds, b"create table t(a int); begin; lock table t; select 1;\n")
    say(waits, b"begin; lock table t; select 2;\n", False)
    room.wait_until(lambda: "waiting" in " ".join(programs.words_of(waiter)), "the lock")
    with Recording(room) as r:
        say(holds, b"commit; select 3;\n")
        waits.stdout.readline()
        settle()
    # psql sends one statement after the other: the last answer is that to `select`.
    return [Chain(r, waits.pid, waiter, waits.pid, waiter, holder, holds.pid)]


def node_read(room):
    """A thread of the pool reads the file, the loop takes it."""
    script = room.write("read.js", "const fs = require('fs');\nprocess.stdin.on('data', () => fs.readFile('read.js', () => console.log('done')));\nconsole.log('up');\n")
    p = room.start("node", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    with Recording(room) as r:
        say(p, b"x\n")
        settle()
    pool = next((tid for tid, _ in r.path(p.pid, rules=("node",)) if tid != p.pid), 0)
    return [Chain(r, p.pid, pool, p.pid, rules=("node",))]


def node_child(room):
    script = room.write("child.js", "require('child_process').exec('echo hi', () => process.exit(0));\n")
    with Recording(room) as r:
        p = room.start("node", script)
        p.wait()
    return [Chain(r, p.pid, ..., "sh", p.pid)]  # it waits for its pool's threads as it ends


POOL = """import queue, threading
jobs, done = queue.Queue(), queue.Queue()
def work():
    while True:
        jobs.get()
        done.put(threading.get_native_id())
t = threading.Thread(target=work, daemon=True)
t.start()
print('up', flush=True)
input()
jobs.put(1)
print(done.get(), flush=True)
input()
"""


def python_queue(room):
    p = room.start(PYTHON, "-c", POOL, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.readline()
    with Recording(room) as r:
        worker = int(say(p, b"x\n"))
        settle()
    return [Chain(r, p.pid, worker, p.pid, rules=("python",))]


ASYNC = """import asyncio, sys
async def serve(r, w):
    w.write(await r.readline())
    await w.drain()
async def main():
    s = await asyncio.start_unix_server(serve, 'async.socket')
    print('up', flush=True)
    await s.serve_forever()
asyncio.run(main())
"""
ASK_LINE = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('async.socket')\ns.sendall(b'x\\n')\ns.recv(9)\n"


def python_asyncio(room):
    server = room.start(PYTHON, "-c", ASYNC, stdout=subprocess.PIPE)
    server.stdout.readline()
    with Recording(room) as r:
        client = room.start(PYTHON, "-c", ASK_LINE)
        client.wait()
        settle()
    return [Chain(r, client.pid, server.pid, client.pid, rules=("python",))]


GO = """package main
import ("bufio"; "fmt"; "net")
func main() {
	l, _ := net.Listen("unix", "async.socket")
	fmt.Println("up")
	for {
		c, err := l.Accept()
		if err != nil { return }
		go func() { s, _ := bufio.NewReader(c).ReadString('\\n'); c.Write([]byte(s)); c.Close() }()
	}
}
"""


def go_server(room):
    """Any thread of its runtime may answer."""
    source = room.write("serve.go", GO)
    room.start("go", "build", "-o", "goserver", source).wait()  # its cache is in the room
    server = room.start(room.folder / "goserver", stdout=subprocess.PIPE)
    server.stdout.readline()
    with Recording(room) as r:
        client = room.start(PYTHON, "-c", ASK_LINE)
        client.wait()
        settle()
    between = [tid for tid, name in r.path(client.pid, rules=("go",))[1:4] if name == "goserver"]
    return [Chain(r, client.pid, *between or ["goserver"], client.pid, rules=("go",))]


def dbus_call(room):
    """The bus itself is asked."""
    bus = room.start("dbus-daemon", "--session", "--nofork", "--address=unix:path=bus.socket", "--print-address", stdout=subprocess.PIPE)
    bus.stdout.readline()
    with Recording(room) as r:
        client = room.start("dbus-send", f"--bus=unix:path={room.folder}/bus.socket", "--print-reply", "--dest=org.freedesktop.DBus", "/",
                            "org.freedesktop.DBus.ListNames")
        client.wait()
        settle()
    return [Chain(r, client.pid, bus.pid, client.pid)]


def tmux_keys(room):
    """tmux is libevent's: a client sends keys, the server types them into a terminal."""
    tmux = ("tmux", "-L", "proof", "-f", "/dev/null")
    environment = {"TMUX_TMPDIR": str(room.folder), "TERM": "xterm"}
    reader = f"{PYTHON} -c \"open('up','w').write(str(__import__('os').getpid())); input(); open('done','w')\""
    made = room.start(*tmux, "new-session", "-d", "-c", room.folder, reader, env=environment)
    made.wait()
    up, done = room.folder / "up", room.folder / "done"
    room.wait_until(lambda: up.exists() and up.read_text(), "the session")
    settle()
    with Recording(room) as r:
        keys = room.start(*tmux, "send-keys", "x", "Enter", env=environment)
        keys.wait()
        room.wait_until(done.exists, "the keys")
        settle()
    room.start(*tmux, "kill-server", env=environment).wait()
    return [Chain(r, int(up.read_text()), "tmux: server", keys.pid, rules=("libevent",))]


def gdbus_call(room):
    """GLib: a thread of GDBus reads the answer and gives it to the one that asked."""
    bus = room.start("dbus-daemon", "--session", "--nofork", f"--address=unix:path={room.folder}/bus.socket", "--print-address", stdout=subprocess.PIPE)
    bus.stdout.readline()
    with Recording(room) as r:
        client = room.start("gdbus", "call", "-a", f"unix:path={room.folder}/bus.socket", "-d", "org.freedesktop.DBus", "-o", "/", "-m",
                            "org.freedesktop.DBus.ListNames")
        client.wait()
        settle()
    return [Chain(r, client.pid, "gdbus", bus.pid, "gdbus", client.pid, rules=("glib",))]


def key_press(room):
    """A key, by an X client that sends it, the X server and a terminal, to a shell; and the shell's answer back to the X server."""
    number = next(n for n in range(70, 99) if not Path(f"/tmp/.X11-unix/X{n}").exists())
    environment = {"DISPLAY": f":{number}"}
    x = room.start("Xvfb", f":{number}", "-screen", "0", "400x300x8", "-nolisten", "tcp")
    room.wait_until(lambda: Path(f"/tmp/.X11-unix/X{number}").exists() or x.poll() is not None, "Xvfb")
    script = room.write("shell.sh", "stty -echo\necho $$ > shell\nread x\necho got $x\necho $x > got\nexec sleep 1000\n")
    terminal = room.start("xterm", "-e", "sh", script, env=environment)
    shell, got = room.folder / "shell", room.folder / "got"
    room.wait_until(lambda: shell.exists() and shell.read_text().strip(), "the shell")
    settle()
    with Recording(room) as r:
        sender = room.start("xdotool", "key", "--clearmodifiers", "a", "Return", env=environment)
        sender.wait()
        room.wait_until(got.exists, "the key")
        settle()
    pid = int(shell.read_text())
    read = min(r.units(pid))[0]
    there = Chain(r, pid, terminal.pid, x.pid, sender.pid, ns=read)
    # The X server draws what the shell has answered: one of its units that the terminal began after that.
    back = [Chain(r, x.pid, terminal.pid, pid, terminal.pid, x.pid, sender.pid, ns=ns) for ns in drawn(r, x.pid, terminal.pid, read)]
    return [there, next((c for c in back if c.is_right), back[-1] if back else there)]


def drawn(r, server, terminal, after_ns):
    """When units of the X server began by the terminal."""
    return [e["to"]["time_ns"] for e in r.ask("graph", "--process", str(server))
            if e["type"] == "edge" and e["kind"] == "message" and e["from"].get("tid") == terminal and e["to"]["tid"] == server and e["to"]["time_ns"] > after_ns][:40]


SCENES = [
    (redis_get, "redis-server", "redis-cli"), (redis_blpop, "redis-server", "redis-cli"), (nginx_proxy, "nginx"),
    (postgres_query, "/usr/lib/postgresql/15/bin/postgres"), (postgres_row, "/usr/lib/postgresql/15/bin/postgres"), (node_read, "node"), (node_child, "node"),
    (python_queue,), (python_asyncio,), (go_server, "go"), (dbus_call, "dbus-daemon", "dbus-send"), (tmux_keys, "tmux"), (gdbus_call, "gdbus", "dbus-daemon"),
    (key_press, "Xvfb", "xterm", "xdotool"),
]


def judge(scene, name):
    """A thread that finds all there already does not wait, and with a connection from before the recording no message is known then: that is chance."""
    for n in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory(prefix="flow-") as folder, Room(folder) as room:
            chains = scene(room)
        wrong = [c for c in chains if not c.is_right]
        print(f"{name:16}{'WRONG' if wrong else 'right'}{f', try {n}' if n > 1 else ''}", flush=True)
        for c in wrong:
            print(f"    {c}", flush=True)
        if not wrong:
            return True
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--only", action="append", help="this one; repeatable")
    p.add_argument("--json")
    o = p.parse_args()
    rows = {}
    for scene, *needs in SCENES:
        name = scene.__name__.replace("_", "-")
        missing = [n for n in needs if not shutil.which(n, path=f"{os.environ['PATH']}:/usr/sbin")]
        if o.only and name not in o.only:
            continue
        if missing:
            print(f"{name:16}skipped: {', '.join(missing)} is not installed")
            continue
        try:
            rows[name] = judge(scene, name)
        except (proof.Failure, subprocess.SubprocessError, OSError) as e:
            print(f"{name:16}FAILED: {e}", flush=True)
            rows[name] = False
    print(f"{sum(rows.values())} of {len(rows)} paths of real programs are right")
    if o.json:
        Path(o.json).write_text(json.dumps(rows, indent=1), encoding="ascii")
    sys.exit(not rows or not all(rows.values()))


if __name__ == "__main__":
    main()
