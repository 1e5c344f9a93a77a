"""Packaged programs, unchanged, that hang on purpose in a way that is known: whom a user would ask about, and who is to blame."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import proof
import trace_programs

FOREVER = "1000"
PYTHON = "/usr/bin/python3"
SEARCHED = "/usr/sbin:/usr/bin:/bin"


class Hung:
    """@ask: the process that a user would ask about. @culprits: (pid, tid) of each that is right; tid None: any of its threads.
    @verdicts: that are right; none: any."""

    def __init__(self, ask, culprits, verdicts=()):
        self.ask, self.culprits, self.verdicts = ask, set(culprits), set(verdicts)

    def is_right(self, culprit):
        who = {(culprit["pid"], culprit["tid"]), (culprit["pid"], None)}
        return bool(who & self.culprits) and (not self.verdicts or culprit["verdict"] in self.verdicts)


def anyone(*pids):
    return [(pid, None) for pid in pids]


# Processes

def processes():
    """pid: (parent, session, state) of all that there are."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        found[int(stat.parent.name)] = (int(fields[1]), int(fields[3]), fields[0])
    return found


def family(roots, sessions=True):
    """These, who descends from them, and who is in a session of one of them."""
    found, everybody = set(roots), processes()
    while True:
        more = {pid for pid, (parent, session, _) in everybody.items() if parent in found or sessions and session in found} - found
        if not more:
            return {pid for pid in found if pid in everybody and everybody[pid][2] != "Z"}
        found |= more


def children(pid):
    """But for those that have ended."""
    return [child for child, (parent, _, state) in processes().items() if parent == pid and state != "Z"]


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").strip("\0").split("\0")
    except OSError:
        return []


SYSCALLS = {"nanosleep": 35, "flock": 73, "clock_nanosleep": 230, "openat": 257}  # arch/x86/entry/syscalls/syscall_64.tbl


def threads_in(pid, *names):
    """The threads of the process that are in one of these system calls."""
    found, numbers = [], {str(SYSCALLS[name]) for name in names}
    for path in Path(f"/proc/{pid}/task").glob("*/syscall"):
        try:
            if path.read_text().split()[0] in numbers:
                found.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def is_sleeping(pid):
    return pid in threads_in(pid, "nanosleep", "clock_nanosleep")


class Room:
    """A folder, and what was started in it: all that ends with the room. Who starts must be there as long as it."""

    def __init__(self, folder, limit_s=60):
        self.folder, self.limit_s, self.started, self.seen = Path(folder).resolve(), limit_s, [], set()

    def start(self, *words, user=(), **popen):
        """In a session of its own, which even ends when this process is killed."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = {**proof.BASE_ENV, "PATH": SEARCHED, "HOME": str(self.folder), **popen.pop("env", {})}
        p = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *user, "--", *map(str, words)], start_new_session=True, env=env,
                             **{"cwd": self.folder, **streams, **popen})
        self.started.append(p)
        self.wait_until(lambda: p.poll() is not None or words_of(p.pid)[:1] not in ([], [""], ["setpriv"]))
        return p

    def run(self, *words):
        subprocess.run(words, cwd=self.folder, env=proof.BASE_ENV, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       timeout=self.limit_s)

    def write(self, name, text, mode=0o644):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def wait_until(self, condition, what="it"):
        end = time.monotonic() + self.limit_s
        while not (said := condition()):
            if time.monotonic() > end:
                raise proof.Failure(f"{what} does not come to where it is to hang")
            time.sleep(0.01)
        return said

    def child(self, process, *words):
        """The pid of the descendant that runs these words."""
        def look():
            return [pid for pid in family([process.pid]) if pid != process.pid and words_of(pid) == list(words)]

        return self.wait_until(look, " ".join(words))[0]

    def halt(self, pid):
        os.kill(pid, signal.SIGSTOP)
        self.wait_until(lambda: processes()[pid][2] == "T", f"process {pid}")

    def stopped(self, process):
        """The pid of the descendant that is stopped."""
        def look():
            everybody = processes()
            return [pid for pid in family([process.pid]) if everybody.get(pid, " " * 3)[2] == "T"]

        return self.wait_until(look, "a stop")[0]

    def connected(self, make):
        """make() of a connection, as soon as it can be had."""
        def look():
            try:
                return make()
            except OSError:
                return None

        return self.wait_until(look, "a server")

    def close(self):
        roots = [p.pid for p in self.started]
        while pids := family(set(roots) | self.seen) - {os.getpid()}:
            self.seen |= pids
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for p in self.started:
                p.poll()
        for p in self.started:
            p.wait()
            for stream in (p.stdin, p.stdout):
                if stream:
                    stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(path))
    return s


# Hangs: each takes a room, and returns who hangs there.

def pipeline(room):
    """yes | cat, and cat is stopped."""
    return pipe_of(room, ["yes"], ["cat"])


def long_pipeline(room):
    """yes | gzip | cat: the last is stopped, and the first is asked about."""
    return pipe_of(room, ["yes"], ["gzip", "-1", "-c"], ["cat"])


def pipe_of(room, *programs):
    parts = []
    for words in programs:
        last = words == programs[-1]
        parts.append(room.start(*words, stdin=parts[-1].stdout if parts else subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL if last else subprocess.PIPE))
    for p in parts[:-1]:  # only the programs have the pipes
        p.stdout.close()
    room.halt(parts[-1].pid)
    return Hung(parts[0].pid, anyone(parts[-1].pid), ["stopped"])


def python_gil(room):
    """A library's function that sleeps and does not let go of the GIL."""
    script = room.write("gil.py", f"""import ctypes, threading
def hold():
    print(threading.get_native_id(), flush=True)
    ctypes.PyDLL(None).sleep({FOREVER})
def work():
    while True:
        pass
for target in (work, work, hold):
    threading.Thread(target=target).start()
work()
""")
    p = room.start(PYTHON, script, stdout=subprocess.PIPE)
    return Hung(p.pid, [(p.pid, int(p.stdout.readline()))], ["sleeps"])


def python_wait_full_pipe(room):
    """A parent that waits for the end of its child before it reads what that prints."""
    script = room.write("wait.py", "import subprocess\nsubprocess.Popen(['yes'], stdout=subprocess.PIPE).wait()\n")
    p = room.start(PYTHON, script)
    return Hung(p.pid, anyone(p.pid, room.child(p, "yes")), ["deadlock"])


def python_inherited_pipe(room):
    """The output of a program that has ended, but what it has left in the background has the pipe as well."""
    script = room.write("run.py", f"import subprocess\nsubprocess.run('sleep {FOREVER} & echo done', shell=True, capture_output=True)\n")
    p = room.start(PYTHON, script)
    sleeps = room.child(p, "sleep", FOREVER)
    room.wait_until(lambda: processes()[sleeps][0] != p.pid and len(children(p.pid)) == 0, "sh")
    return Hung(p.pid, anyone(sleeps), ["sleeps"])


def python_executor(room):
    """A task that waits for a task of its own pool, which has one thread."""
    script = room.write("pool.py", """import threading
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def outer():
    print(threading.get_native_id(), flush=True)
    return pool.submit(abs, 1).result()
pool.submit(outer).result()
""")
    p = room.start(PYTHON, script, stdout=subprocess.PIPE)
    return Hung(p.pid, [(p.pid, int(p.stdout.readline()))])


def git_hook(room):
    room.run("git", "init", "-q", ".")
    room.write(".git/hooks/pre-commit", f"#!/bin/sh\nsleep {FOREVER}\necho done\n", 0o755)
    p = room.start("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", "x")
    return Hung(p.pid, anyone(room.child(p, "sleep", FOREVER)), ["sleeps"])


def git_editor(room):
    """The editor has opened a pipe that nobody else has."""
    room.run("git", "init", "-q", ".")
    os.mkfifo(room.folder / "fifo")
    p = room.start("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", env={"GIT_EDITOR": "cat fifo #"})
    return Hung(p.pid, anyone(room.child(p, "cat", "fifo")))


def git_fetch(room):
    """Over pipes, from an upload-pack that is stopped."""
    room.run("git", "init", "-q", ".")
    room.run("git", "init", "-q", "--bare", "far.git")
    room.write("upload-pack", "#!/bin/sh\nkill -STOP $$\nexec git-upload-pack \"$@\"\n", 0o755)
    p = room.start("git", "fetch", "--upload-pack=./upload-pack", "./far.git")
    return Hung(p.pid, anyone(room.stopped(p)), ["stopped"])


def flock_holder(room):
    held = room.start("flock", "lock", "sleep", FOREVER)
    sleeps = room.child(held, "sleep", FOREVER)
    p = room.start("flock", "lock", "true")
    room.wait_until(lambda: threads_in(p.pid, "flock"), "flock")
    return Hung(p.pid, anyone(held.pid, sleeps), ["sleeps"])


def make_recipe(room):
    room.write("Makefile", f"all: made\nmade:\n\techo begins; sleep {FOREVER}; echo ends\n")
    p = room.start("make")
    return Hung(p.pid, anyone(room.child(p, "sleep", FOREVER)), ["sleeps"])


def make_jobserver(room):
    """A make below another gets no second token: the other recipe of its parent has it."""
    room.write("Makefile", f"all: hog below\nhog:\n\tsleep {FOREVER}0\nbelow:\n\t+$(MAKE) -f below.mk\n")
    room.write("below.mk", f"all: first second\nfirst:\n\tsleep {FOREVER}1\nsecond:\n\tsleep {FOREVER}2\n")
    p = room.start("make", "-j2")
    culprits = [room.child(p, "sleep", FOREVER + word) for word in "01"]
    return Hung(room.child(p, "make", "-f", "below.mk"), anyone(*culprits), ["sleeps"])


def bash_wait(room):
    p = room.start("bash", "-c", f"sleep {FOREVER} & wait; echo done")
    return Hung(p.pid, anyone(room.child(p, "sleep", FOREVER)), ["sleeps"])


def bash_coprocess(room):
    """sed waits for more, as its output is not to a terminal; bash waits for what sed has not written yet."""
    p = room.start("bash", "-c", "coproc sed s/a/b/; echo a >&${COPROC[1]}; read line <&${COPROC[0]}")
    return Hung(p.pid, anyone(p.pid, room.child(p, "sed", "s/a/b/")), ["deadlock", "likely_deadlock"])


def xargs_child(room):
    p = room.start("xargs", "-n", "1", "sleep", stdin=open(room.write("words", f"{FOREVER}\n1\n"), "rb"))
    return Hung(p.pid, anyone(room.child(p, "sleep", FOREVER)), ["sleeps"])


def gdb_stop(room):
    """A program that works, stopped by a debugger that waits for a command of its user's."""
    works = room.start("yes")
    gdb = room.start("gdb", "-q", "-nx", "-batch", "-p", works.pid, "-ex", f"shell sleep {FOREVER}; true", env={"DEBUGINFOD_URLS": ""})
    return Hung(works.pid, anyone(gdb.pid, room.child(gdb, "sleep", FOREVER)))


def sqlite_busy(room):
    """One has a database for itself, another tries again and again."""
    room.run("sqlite3", "-batch", "-init", "/dev/null", "db", "create table t(a);")
    script = room.write("hold.sql", f"begin exclusive;\n.shell sleep {FOREVER}; true\n")
    holds = room.start("sqlite3", "-batch", "-init", "/dev/null", "db", stdin=open(script, "rb"))
    sleeps = room.child(holds, "sleep", FOREVER)
    p = room.start("sqlite3", "-batch", "-init", "/dev/null", "-cmd", ".timeout 1000000", "db", "select * from t;")
    room.wait_until(lambda: is_sleeping(p.pid), "sqlite3")  # between two tries
    return Hung(p.pid, anyone(holds.pid, sleeps))


def apt_lock(room):
    """Another has the lock of dpkg; apt-get tries again each second."""
    for name in ("dpkg/status", "dpkg/lock-frontend", "lists/partial/x", "archives/partial/x"):
        room.write(name, "")
    script = room.write("hold.py", f"""import fcntl, time
f = open("dpkg/lock-frontend", "w")
fcntl.lockf(f, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep({FOREVER})
""")
    holds = room.start(PYTHON, script, stdout=subprocess.PIPE)
    holds.stdout.readline()
    options = {"Dir::State": room.folder, "Dir::State::status": room.folder / "dpkg/status", "Dir::Cache": room.folder,
               "Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": "/dev/null", "Dir::Log": room.folder, "DPkg::Lock::Timeout": FOREVER}
    p = room.start("apt-get", *[w for name, value in options.items() for w in ("-o", f"{name}={value}")], "-y", "install", stdout=subprocess.PIPE)
    room.wait_until(lambda: is_sleeping(p.pid) or p.poll() is not None, "apt-get")
    if p.poll() is not None:
        raise proof.Failure(f"apt-get does not wait: {p.stdout.read().decode()[-200:]}")
    return Hung(p.pid, anyone(holds.pid))


def redis(room, *options):
    """A server with a socket, and a client that has spoken with it."""
    server = room.start("redis-server", "--port", "0", "--unixsocket", "redis.socket", "--save", "", "--logfile", "redis.log", *options)
    room.connected(lambda: unix(room.folder / "redis.socket")).close()
    client = room.start("redis-cli", "-s", "redis.socket", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    say(client, b"ping\n")
    return server, client


def say(client, line, wanted=True):
    client.stdin.write(line)
    client.stdin.flush()
    return client.stdout.readline() if wanted else None


def redis_stopped(room):
    server, client = redis(room)
    room.halt(server.pid)
    say(client, b"get a\n", False)
    return Hung(client.pid, anyone(server.pid), ["stopped"])


def redis_unaccepted(room):
    """The server is stopped before it has taken the connection."""
    server, _ = redis(room)
    room.halt(server.pid)
    client = room.start("redis-cli", "-s", "redis.socket", "get", "a")
    return Hung(client.pid, anyone(server.pid), ["stopped"])


def redis_script(room):
    server, client = redis(room, "--busy-reply-threshold", "0")
    idle = ran_ns(server.pid)
    room.start("redis-cli", "-s", "redis.socket", "eval", "while true do end", "0")
    room.wait_until(lambda: ran_ns(server.pid) > idle + 100_000_000, "the script")
    say(client, b"get a\n", False)
    return Hung(client.pid, [(server.pid, server.pid)], ["busy"])


def ran_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def redis_debug_sleep(room):
    server, client = redis(room, "--enable-debug-command", "yes")
    room.start("redis-cli", "-s", "redis.socket", "debug", "sleep", FOREVER)
    room.wait_until(lambda: is_sleeping(server.pid), "the server")
    say(client, b"get a\n", False)
    return Hung(client.pid, [(server.pid, server.pid)], ["sleeps"])


NGINX = """daemon off; user root; worker_processes 1; pid nginx.pid; error_log nginx.log; events {{ }}
http {{ access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
server {{ listen unix:{folder}/nginx.socket; location / {{ proxy_pass http://127.0.0.1:{port}; proxy_read_timeout 1000s; }} }} }}
"""

ASK_HTTP = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('nginx.socket')\ns.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\ns.recv(1)\n"


def nginx(room):
    """A proxy that listens at nginx.socket, the program behind it, and its worker."""
    behind = room.start(PYTHON, "-u", "-m", "http.server", "-b", "127.0.0.1", "0", stdout=subprocess.PIPE)
    port = re.search(rb"port (\d+)", behind.stdout.readline())[1].decode()
    room.write("nginx.conf", NGINX.format(folder=room.folder, port=port))
    server = room.start("nginx", "-p", room.folder, "-c", "nginx.conf")
    room.connected(lambda: unix(room.folder / "nginx.socket")).close()
    return behind, room.child(server, "nginx: worker process")


def nginx_upstream(room):
    """The program that it is a proxy of is stopped."""
    behind, worker = nginx(room)
    room.halt(behind.pid)
    room.start(PYTHON, "-c", ASK_HTTP)
    return Hung(worker, anyone(behind.pid), ["stopped"])


def node_pool(room):
    """The only thread of its pool opens a FIFO that nobody writes."""
    os.mkfifo(room.folder / "fifo")
    script = room.write("pool.js", "const fs = require('fs');\nfs.readFile('fifo', () => {});\nfs.stat('/', () => console.log('done'));\n")
    p = room.start("node", script, env={"UV_THREADPOOL_SIZE": "1"})
    return Hung(p.pid, [(p.pid, room.wait_until(lambda: threads_in(p.pid, "openat"), "node")[0])])


def node_exec_sync(room):
    """Its thread waits for a program, and for nothing else, in an event loop of its own."""
    script = room.write("exec.js", f"require('child_process').execFileSync('sleep', ['{FOREVER}']);\n")
    p = room.start("node", script)
    return Hung(p.pid, anyone(room.child(p, "sleep", FOREVER)), ["sleeps"])


JAVA = """public class Hang {
    static final Object a = new Object(), b = new Object();
    static void take(Object first, Object second) {
        synchronized (first) {
            try { Thread.sleep(300); } catch (InterruptedException e) { }
            synchronized (second) { System.out.println("never"); }
        }
    }
    public static void main(String[] args) throws Exception {
        Thread t = new Thread(() -> take(a, b), "taker"), u = new Thread(() -> take(b, a), "giver");
        t.start(); u.start(); t.join();
    }
}
"""


def java_monitors(room):
    """Two threads, each of which has the monitor that the other wants; main waits for the first to end."""
    room.write("Hang.java", JAVA)
    p = room.start("java", "-XX:TieredStopAtLevel=1", "Hang.java")
    named = room.wait_until(lambda: len(n := {name: tid for tid, name in names(p.pid) if name in ("taker", "giver")}) == 2 and n, "java")
    return Hung(p.pid, [(p.pid, tid) for tid in named.values()])


def names(pid):
    """The threads of the process, and how they are called."""
    return [(int(path.parent.name), path.read_text().strip()) for path in Path(f"/proc/{pid}/task").glob("*/comm")]


def postgres(room):
    """A server; what begins a session, and returns its client and the pid of its backend."""
    tools, where = Path(trace_programs.POSTGRES).parent, room.folder / "postgres"
    where.mkdir()
    room.folder.chmod(0o711)
    user = []
    if not os.geteuid():
        shutil.chown(where, "postgres", "postgres")
        user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def run(name, *words):
        return subprocess.run(["setpriv", *user, "--", str(tools / name), *map(str, words)], cwd=where, env=proof.BASE_ENV, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    if run("initdb", "-N", "-A", "trust", "-U", "postgres", "--locale=C", "-D", "data"):
        raise proof.Failure("initdb fails")
    settings = {**trace_programs.PostgresBackend.SETTINGS, "unix_socket_directories": where}
    room.start(tools / "postgres", "-D", "data", *[w for name, value in settings.items() for w in ("-c", f"{name}={value}")], user=user, cwd=where)
    room.wait_until(lambda: run("pg_isready", "-q", "-h", where) == 0, "postgres")

    def session():
        psql = room.start(tools / "psql", "-XAtq", "-h", where, "-U", "postgres", "postgres", user=user, cwd=where, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
        return psql, int(say(psql, b"select pg_backend_pid();\n"))

    return session


def postgres_lock(room):
    """A session has locked a table, and its client asks nothing; another session wants the lock."""
    session = postgres(room)
    holds, holder = session()
    say(holds, b"create table t(a int); begin; lock table t; select 1;\n")
    waits, waiter = session()
    say(waits, b"begin; lock table t;\n", False)
    room.wait_until(lambda: "waiting" in " ".join(words_of(waiter)), "the lock")
    return Hung(waiter, anyone(holder, holds.pid))


class Program:
    """A hang, and the programs that it needs."""

    def __init__(self, make, *needs):
        self.name, self.make, self.needs = make.__name__.replace("_", "-"), make, [*needs, "setpriv"]

    @property
    def missing(self):
        absent = [n for n in self.needs if not shutil.which(n, path=SEARCHED)]
        return f"{', '.join(absent)} not installed" if absent else None


PROGRAMS = [
    Program(pipeline, "yes", "cat"),
    Program(long_pipeline, "yes", "gzip", "cat"),
    Program(python_gil, PYTHON),
    Program(python_wait_full_pipe, PYTHON, "yes"),
    Program(python_inherited_pipe, PYTHON),
    Program(python_executor, PYTHON),
    Program(git_hook, "git"),
    Program(git_editor, "git", "cat"),
    Program(git_fetch, "git"),
    Program(flock_holder, "flock"),
    Program(make_recipe, "make"),
    Program(make_jobserver, "make"),
    Program(bash_wait, "bash"),
    Program(bash_coprocess, "bash", "sed"),
    Program(xargs_child, "xargs"),
    Program(gdb_stop, "gdb", "yes"),
    Program(sqlite_busy, "sqlite3"),
    Program(apt_lock, "apt-get", PYTHON),
    Program(redis_stopped, "redis-server", "redis-cli"),
    Program(redis_unaccepted, "redis-server", "redis-cli"),
    Program(redis_script, "redis-server", "redis-cli"),
    Program(redis_debug_sleep, "redis-server", "redis-cli"),
    Program(nginx_upstream, "nginx", PYTHON),
    Program(node_pool, "node"),
    Program(node_exec_sync, "node"),
    Program(java_monitors, "java", "javac"),
    Program(postgres_lock, trace_programs.POSTGRES),
]
