# rooms: engine target
"""Servers at work for clients that verify every answer: an event loop, processes that share memory, processes with one job each."""
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import resist_real
from conftest import ROOT, WAIT, wait_until
from resist_real import ENGINES

sys.path.insert(0, str(ROOT / "tests" / "bench"))
import server  # noqa: E402  pylint: disable=wrong-import-position


class Redis(resist_real.Program):
    """Watched is the number of commands it has executed. A hit is a command whose reply is compared."""

    alone = False

    def __init__(self, folder):
        self.lock = threading.Lock()
        self.server = server.Server(folder)
        self.process, self.pid, self.addr = self.server.process, self.server.pid, self.server.addr
        self.connection = self.server.client
        self.rng = random.Random(1)
        self.model = {}
        self.rounds = 0

    def state(self):
        return f"redis-server ended with {self.process.poll()}"

    def reply(self, stream):
        line = stream.readline()
        assert line.endswith(b"\r\n"), self.state()
        if line[:1] == b"$":
            n = int(line[1:])
            return None if n < 0 else stream.read(n + 2)[:-2]
        return line[1:-2]

    def commands(self, lines):
        """All in one packet, and their replies."""
        with self.lock, self.connection.makefile("rb") as stream:
            self.connection.sendall(b"".join(b"%s\r\n" % line for line in lines))
            return [self.reply(stream) for _ in lines]

    def hit(self, n):
        lines, expected = [], []
        for _ in range(n):
            key = b"key%d" % self.rng.randrange(50)
            if self.rng.random() < 0.5:
                self.model[key] = b"%d" % self.rng.getrandbits(60)
                lines.append(b"SET %s %s" % (key, self.model[key]))
                expected.append(b"OK")
            else:
                lines.append(b"GET " + key)
                expected.append(self.model.get(key))
        assert self.commands(lines) == expected
        return self.server.commands()  # from outside, for INFO would count itself

    def check(self):
        """A fork that writes all of it to a file, and is waited for."""
        info, *_ = self.commands([b"BGSAVE", b"INFO persistence"][1:])
        before = re.search(rb"rdb_last_save_time:(\d+)", info)[1]
        assert self.commands([b"BGSAVE"])[0].startswith(b"Background saving started")
        wait_until(lambda: b"rdb_bgsave_in_progress:0" in self.commands([b"INFO persistence"])[0])
        info = self.commands([b"INFO persistence"])[0]
        assert b"rdb_last_bgsave_status:ok" in info and re.search(rb"rdb_last_save_time:(\d+)", info)[1] >= before
        self.rounds += 1
        return self.rounds

    def well(self):
        self.check()

    def finish(self):
        self.connection.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert self.process.wait(timeout=WAIT) == 0

    def kill(self):
        self.server.close()


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    if server.missing():
        pytest.skip(server.missing())
    started = Redis(str(tmp_path_factory.mktemp("redis")))
    try:
        yield started
        started.finish()
    finally:
        started.kill()


@pytest.mark.parametrize("engine", ENGINES)
def test_redis_counts_its_commands_as_they_are_told(redis, watch, engine):
    with resist_real.left_as_found(redis):
        w = watch(*redis.watch(), "--engine", engine, "--no-stack")
        before = redis.server.commands()
        redis.hit(300)
        redis.well()
        after = redis.hit(200)
        w.end()
    assert w.summary()["recorded"] == w.summary()["counted"] == after - before > 500 and w.balanced()
    assert [int(a["new"], 16) for a in w.accesses] == list(range(before + 1, after + 1))
    told = re.search(rb"total_commands_processed:(\d+)", redis.commands([b"INFO stats"])[0])[1]
    assert int(told) == after


@pytest.mark.slow
def test_redis_answers_right_while_we_come_and_go_and_are_killed(redis, watch):
    resist_real.come_and_go(redis, watch, 21)


class Postgres(resist_real.Program):
    """Watched is the next transaction's number, in memory that all backends share. A hit is a number that a backend takes."""

    alone = stable_fds = False  # a backend opens tables when it needs them

    def __init__(self, folder):
        self.lock = threading.Lock()
        self.buffer = b""
        self.folder, self.bin = folder, postgres_programs()
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if not os.geteuid() else []
        self.server = self.psql = None
        self.make()
        self.errors = tempfile.TemporaryFile()
        self.start()
        self.process = self.psql = subprocess.Popen(self.tool("psql", "-XAtqw", "postgres"), stdin=subprocess.PIPE,
                                                    stdout=subprocess.PIPE, stderr=self.errors)
        self.pid = int(self.sql("select pg_backend_pid()"))
        pointer = resist_real.symbol(self.server.pid, "ShmemVariableCache")
        with open(f"/proc/{self.server.pid}/mem", "rb", 0) as memory:
            self.addr = struct.unpack("<Q", os.pread(memory.fileno(), 8, pointer))[0] + 8  # behind nextOid, oidCount
        self.xid = self.next_xid() - 1

    def tool(self, name, *args):
        return [*self.user, f"{self.bin}/{name}", "-h", self.folder, *args]

    def make(self):
        if self.user:
            shutil.chown(self.folder, "postgres", "postgres")
        subprocess.run([*self.user, f"{self.bin}/initdb", "-N", "-A", "trust", "--locale=C", "-D", f"{self.folder}/data"],
                       check=True, stdout=subprocess.DEVNULL, timeout=WAIT, cwd=self.folder)

    def start(self):
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off", "autovacuum": "off",
                    "shared_buffers": "8MB", "max_connections": "20", "max_wal_senders": "0", "wal_level": "minimal"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.server = subprocess.Popen([*self.user, f"{self.bin}/postgres", "-D", f"{self.folder}/data", *options],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
                                       cwd=self.folder)
        ready = self.tool("pg_isready", "-q")
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, or_say=self.state)
        self.run("pgbench", "-i", "-q", "-n", "-s", "1", "postgres")

    def run(self, name, *args):
        r = subprocess.run(self.tool(name, *args), capture_output=True, text=True, timeout=WAIT, cwd=self.folder)
        assert r.returncode == 0, r.stdout + r.stderr
        return r.stdout + r.stderr

    def sql(self, *queries):
        with self.lock:
            for query in queries:
                self.send(query + ";")
            words = [self.line() for _ in queries]
        return words if len(words) > 1 else words[0]

    def next_xid(self):
        return int(self.sql("select pg_snapshot_xmax(pg_current_snapshot())"))

    def hit(self, n):
        """n transactions that take a number; they tell which."""
        if n:
            self.seen = [int(word) for word in self.sql(*["select pg_current_xact_id()"] * n, "select 0")[:-1]]
            self.xid = self.seen[-1]
        return self.xid

    def check(self):
        """TPC-B's rule: what the accounts, the tellers and the branches hold is what the history says."""
        sums = self.sql("select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), "
                        "(select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)")
        assert len(set(sums.split("|"))) == 1, sums
        return int(self.sql("select count(*) from pgbench_history"))

    def well(self):
        done = self.run("pgbench", "-n", "-t", "10", "-c", "2", "postgres")
        assert "number of transactions actually processed: 20/20" in done, done
        self.check()

    def finish(self):
        self.psql.stdin.close()
        assert self.psql.wait(timeout=WAIT) == 0
        self.server.send_signal(signal.SIGINT)
        assert self.server.wait(timeout=WAIT) == 0

    def kill(self):
        for process in (self.psql, self.server):
            if process and process.poll() is None:
                process.send_signal(signal.SIGQUIT if process is self.server else signal.SIGKILL)
                process.wait()


def postgres_programs():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return str(found[-1].parent) if found else None


@pytest.fixture(scope="module")
def postgres():
    if not postgres_programs():
        pytest.skip("PostgreSQL's server is not installed (package postgresql-15)")
    resist_real.need("setpriv", "nm")
    folder = tempfile.mkdtemp(prefix="resist-pg-")
    started = None
    try:
        started = Postgres(folder)
        yield started
        started.finish()
    finally:
        if started:
            started.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def pgbench(postgres, *args):
    """Other backends at work, which take numbers as well."""
    load = subprocess.Popen(postgres.tool("pgbench", "-n", *args, "postgres"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, cwd=postgres.folder)
    try:
        yield load
        out = load.communicate(timeout=WAIT)[0]
        assert load.returncode == 0, out
    finally:
        if load.poll() is None:
            load.kill()
            load.communicate()


@pytest.mark.parametrize("engine", ENGINES)
def test_postgres_takes_the_numbers_that_are_told_though_others_take_some_too(postgres, watch, engine):
    with resist_real.left_as_found(postgres):
        w = watch(*postgres.watch(), "--engine", engine, "--no-stack")
        with pgbench(postgres, "-t", "50", "-c", "2"):
            postgres.hit(200)
        w.end()
    assert w.summary()["recorded"] == w.summary()["counted"] == 200 and w.balanced()
    assert [int(a["new"], 16) for a in w.accesses] == [xid + 1 for xid in postgres.seen]
    postgres.check()


@pytest.mark.slow
def test_postgres_works_right_while_we_come_and_go_and_are_killed(postgres, watch):
    with pgbench(postgres, "-T", "3", "-c", "2"):
        resist_real.come_and_go(postgres, watch, 21)


@pytest.mark.parametrize("engine", ["handler", "ring"])
def test_what_all_backends_do_is_told_when_their_parent_is_followed(postgres, watch, engine):
    """Of shared memory each process has a watch of its own; together they account for every number that was given out."""
    before = postgres.next_xid()
    w = watch("-p", postgres.server.pid, "-v", hex(postgres.addr), "-s", "8", "-w", "--engine", engine, "--fork", "follow", "--no-stack")
    with pgbench(postgres, "-t", "25", "-c", "4", "-C"):
        pass
    w.end()
    after = postgres.next_xid()
    told = sorted(int(a["new"], 16) for a in w.accesses)
    assert told == list(range(before + 1, after + 1)) and len(told) >= 100
    assert w.balanced() and w.summary()["lost"] == 0
    assert len({a["pid"] for a in w.accesses}) >= 4
    postgres.check()


def children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


class Nginx(resist_real.Program):
    """Watched is the number of requests, in memory that master and worker share. A hit is a request whose answer is compared."""

    alone = False

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.chmod(0o755)
        self.socket = str(self.folder / "socket")
        self.errors = tempfile.TemporaryFile()
        self.rng = random.Random(2)
        self.files = {f"/{n}": os.urandom(n * 37 + 1) for n in range(40)}
        for name, content in self.files.items():
            (self.folder / name[1:]).write_bytes(content)
        (self.folder / "conf").write_text(f"""
            daemon off; master_process on; worker_processes 1; pid {folder}/pid; error_log {folder}/log; {"user root;" if not os.geteuid() else ""}
            events {{ worker_connections 64; }}
            http {{ access_log off; keepalive_requests 1000000; server {{ listen unix:{self.socket}; root {folder};
                    location = /status {{ stub_status; }} }} }}""")
        self.process = subprocess.Popen(["nginx", "-e", f"{folder}/log", "-c", f"{folder}/conf"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.errors)
        wait_until(lambda: os.path.exists(self.socket) and children(self.process.pid), or_say=self.state)
        self.use_worker()

    def use_worker(self):
        self.pid = children(self.process.pid)[-1]
        with open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            self.addr = struct.unpack("<Q", os.pread(memory.fileno(), 8, resist_real.symbol(self.pid, "ngx_stat_requests")))[0]

    def get(self, stream, name):
        stream.write(f"GET {name} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        stream.flush()
        assert stream.readline().startswith(b"HTTP/1.1 200 "), self.state()
        length = 0
        while (line := stream.readline().strip()):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return stream.read(length)

    def ask(self, names):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT)
            connection.connect(self.socket)
            with connection.makefile("rwb") as stream:
                return [self.get(stream, name) for name in names]

    def hit(self, n):
        names = self.rng.choices(list(self.files), k=n)
        assert self.ask(names) == [self.files[name] for name in names]
        with open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            return struct.unpack("<Q", os.pread(memory.fileno(), 8, self.addr))[0]

    def requests(self):
        """By its own account, in which this request is."""
        return int(re.search(rb"requests\s+\d+ \d+ (\d+)", self.ask(["/status"])[0])[1])

    def well(self):
        self.hit(20)

    def finish(self):
        self.process.send_signal(signal.SIGQUIT)
        assert self.process.wait(timeout=WAIT) == 0

    def kill(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory, hardware):
    resist_real.need("nginx", "nm")
    folder = tempfile.mkdtemp(prefix="resist-nginx-")
    started = Nginx(folder)
    try:
        yield started
        started.finish()
    finally:
        started.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_nginx_has_served_as_many_requests_as_are_told(nginx, watch, engine):
    with resist_real.left_as_found(nginx):
        before = nginx.requests()
        w = watch(*nginx.watch(), "--engine", engine, "--no-stack")
        nginx.hit(150)
        after = nginx.requests()
        w.end()
    assert w.summary()["recorded"] == w.summary()["counted"] == after - before == 151 and w.balanced()
    assert [int(a["new"], 16) for a in w.accesses] == list(range(before + 1, after + 1))


def test_a_worker_that_is_replaced_while_watched_ends_the_watch_and_loses_no_request(nginx, watch):
    """SIGHUP: the old worker serves what it has, and ends; the next one takes over."""
    resist_real.come_and_go(nginx, watch, 6)
    old, w = nginx.pid, watch(*nginx.watch(), "-q")
    nginx.hit(10)
    nginx.process.send_signal(signal.SIGHUP)
    w.end(sig=None)
    assert w.summary()["recorded"] == 10 and w.balanced()
    wait_until(lambda: children(nginx.process.pid) not in ([], [old]))
    nginx.use_worker()
    nginx.hit(20)
