"""Packaged programs that `watchctl trace` is tried on, each with two libraries that it uses; servers with a client."""
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import patch_workloads
import programs
import proof

START_LIMIT_S = 60


def newest(pattern):
    found = sorted(Path("/").glob(pattern))
    return str(found[-1]) if found else pattern


CC1, POSTGRES = newest("usr/lib/gcc/x86_64-linux-gnu/*/cc1"), newest("usr/lib/postgresql/*/bin/postgres")
JVM = "/usr/bin/java"


def java_library(name):
    return next(iter(sorted(Path(os.path.realpath(JVM)).parent.parent.glob(f"lib/**/{name}"))), Path(name))


def installed(argv):
    """The program is the system's."""
    return [shutil.which(argv[0], path="/usr/sbin:/usr/bin:/bin") or argv[0], *argv[1:]]


class Program:
    """A program that ends by itself. @small: in place of @argv for a quick run. @options: of watchctl trace.

    @counted: it does the same in every run, and callgrind counts its calls; but for functions that are called @unlike.
    """

    waits = False
    user = ()

    def __init__(self, name, argv, libraries, small=None, env=None, stdin=None, counted=False, options=(), unlike=()):
        self.unlike = unlike
        self.name, self.libraries = name, list(libraries)
        self.argv, self.small = installed(argv), installed(small or argv)
        self.env, self.stdin, self.counted, self.options = env or {}, stdin, counted, list(options)

    @property
    def modules(self):
        """The files: the program's first."""
        libraries = (patch_workloads.LIBRARIES / name for name in self.libraries)
        return [Path(os.path.realpath(p)) for p in (self.argv[0], *libraries)]

    @property
    def missing(self):
        absent = [p.name for p in self.modules if not p.is_file()]
        return f"{', '.join(absent)} not installed" if absent else None

    def prepare(self, folder):
        """Puts there what it reads."""

    def where(self, folder):
        """The folder to run it in."""
        return folder

    def open_stdin(self, folder):
        return open(folder / self.stdin, "rb") if self.stdin else subprocess.DEVNULL

    def begin(self, words, folder, env=None):
        return subprocess.Popen([*self.user, *words], cwd=self.where(folder), env=env or {**proof.BASE_ENV, **self.env},
                                stdin=self.open_stdin(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Server(Program):
    """A program that waits for questions: talk() asks them and returns the answers, stop() ends it."""

    waits = True
    socket = None

    def wait(self, process, folder):
        """Until it can be asked."""
        end = time.monotonic() + START_LIMIT_S
        while True:
            try:
                return self.connect(folder).close()
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise proof.Failure(f"{self.name} does not answer: {process.poll()}") from None
                time.sleep(0.02)

    def connect(self, folder):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(START_LIMIT_S)
        s.connect(str(folder / self.socket))
        return s

    def pid(self, process):
        """The process to attach to."""
        return process.pid


class Redis(Server):
    socket = "redis.socket"
    ASKED = ["flushall", "set a 1", "incr a", "append a xyz", "get a", "rpush l 3 1 2", "sort l",
             "zadd z 2 x 1 y", "zrange z 0 -1 withscores",
             "hset h f v g w", "hlen h", "setrange s 5 abc", "bitcount s", "pfadd p a b c", "pfcount p", "incr l", "nothing",
             "object encoding l", "dbsize", "del a l z h s p"]

    def ask(self, folder, lines):
        with self.connect(folder) as s:
            s.sendall("".join(f"{line}\r\n" for line in [*lines, "echo over"]).encode())
            said = b""
            while not said.endswith(b"over\r\n"):
                chunk = s.recv(65536)
                if not chunk:
                    return said
                said += chunk
            return said

    def talk(self, _, folder):
        return self.ask(folder, self.ASKED * 20)

    def stop(self, _, folder):
        self.ask(folder, ["shutdown nosave"])


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, s):
        super().__init__("localhost")
        self.sock = s


class Nginx(Server):
    socket = "nginx.socket"
    CONF = """daemon off; master_process off; pid nginx.pid; error_log nginx.log; events {{ }}
http {{ access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
server {{ listen unix:{folder}/nginx.socket; root {folder}; gzip on; gzip_min_length 1; gzip_types *;
location ~ ^/re/(\\w+) {{ return 200 "is $1\\n"; }} location /old {{ rewrite ^/old/(.*)$ /$1 last; }} }} }}
"""

    def prepare(self, folder):
        (folder / "nginx.conf").write_text(self.CONF.format(folder=folder))

    def talk(self, _, folder):
        said = b""
        for path in ["/in.seq", "/old/in.json", "/re/abc", "/nothing"] * 20:
            http_connection = UnixHttp(self.connect(folder))
            http_connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = http_connection.getresponse()
            said += f"{answer.status} {[h for h in answer.getheaders() if h[0] != 'Date']}\n".encode() + answer.read()
            http_connection.close()
        return said

    def stop(self, _, folder):
        os.kill(int((folder / "nginx.pid").read_text()), signal.SIGQUIT)


class Postgres(Program):
    """Alone (--single), it reads SQL from its standard input. Root must be another user, who has a folder."""

    SQL = """create table t(a int primary key, b text, c float);
insert into t select i, md5(i::text), i / 7.0 from generate_series(1, 2000) i;
select count(*), sum(a), min(b), max(b) from t where b like '1%' or c > 100;
select a % 7 k, string_agg(b, ',' order by b) from t where a < 60 group by k having count(*) > 2 order by k;
select x.a, y.b from t x join t y on y.a = x.a + 1 where x.b ~ '^0[0-9]{3}' order by 1;
select jsonb_path_query('{"a":[1,{"b":2}]}', '$.a[*].b'), '2020-02-28'::date + 1;
select nothing from t;
drop table t;
"""

    @property
    def missing(self):
        return super().missing or (None if shutil.which("setpriv") or os.geteuid() else "setpriv is not installed")

    @property
    def user(self):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if not os.geteuid() else []

    def where(self, folder):
        return folder / "postgres"

    def tool(self, name, *args):
        return [*self.user, str(Path(POSTGRES).parent / name), *args]

    def prepare(self, folder):
        where = self.where(folder)
        if where.exists():
            return
        where.mkdir()
        folder.chmod(0o711)
        if self.user:
            shutil.chown(where, "postgres", "postgres")
        words = self.tool("initdb", "-N", "-A", "trust", "-U", "postgres", "--locale=C", "-D", "data")
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=where)
        (folder / "postgres.sql").write_text(re.sub(r"\n(?=.)", " ", self.SQL).replace("; ", ";\n"))


class PostgresBackend(Postgres, Server):
    """The process that serves one client."""

    SETTINGS = {"listen_addresses": "", "fsync": "off", "autovacuum": "off", "shared_buffers": "8MB",
                "max_wal_senders": "0", "wal_level": "minimal"}

    def begin(self, words, folder, env=None):
        where = self.where(folder)
        settings = {**self.SETTINGS, "unix_socket_directories": where}
        options = [w for name, value in settings.items() for w in ("-c", f"{name}={value}")]
        self.server = subprocess.Popen([*self.user, *words, *options], cwd=where, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_LIMIT_S
        while subprocess.run(self.tool("pg_isready", "-q", "-h", str(where)), check=False).returncode:
            if self.server.poll() is not None or time.monotonic() > end:
                raise proof.Failure(f"postgres does not answer: {self.server.poll()}")
            time.sleep(0.05)
        psql = self.tool("psql", "-XAtqw", "-h", str(where), "-U", "postgres", "postgres")
        return subprocess.Popen(psql, cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, process, sql):
        process.stdin.write(f"{sql}\\echo over\n".encode())
        process.stdin.flush()
        said = []
        while not said or said[-1] != b"over\n":
            said.append(process.stdout.readline())
            if not said[-1]:
                raise proof.Failure("psql has ended")
        return b"".join(said)

    def wait(self, process, folder):
        self.backend = int(self.ask(process, "select pg_backend_pid();\n").split()[0])

    def pid(self, _):
        return self.backend

    def talk(self, process, _):
        return self.ask(process, self.SQL)

    def stop(self, process, _):
        process.stdin.write(b"\\q\n")
        process.stdin.flush()
        process.wait(timeout=START_LIMIT_S)
        self.server.send_signal(signal.SIGINT)
        if self.server.wait(timeout=START_LIMIT_S):
            raise proof.Failure(f"postgres ended with {self.server.returncode}")


JAVA = """import java.util.*;
public class Work {
    public static void main(String[] a) throws Exception {
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine() && !in.nextLine().equals("bye")) {
            long s = 0;
            TreeMap<Integer, String> m = new TreeMap<>();
            for (int i = 0; i < 20000; i++) { s += i * 7919L % 1009; m.put((int) (s % 5000), "v" + s); }
            try { Object o = m; ((String) o).length(); } catch (ClassCastException e) { s++; }
            Thread t = new Thread(() -> m.put(-1, "thread")); t.start(); t.join(); System.gc();
            System.out.println(s + " " + m.size() + " " + String.join(",", m.values()).hashCode());
        }
        System.exit(3);
    }
}
"""


class Java(Server):
    def __init__(self, name, argv, libraries, **more):
        super().__init__(name, argv, [], **more)
        self.names = libraries

    @property
    def modules(self):
        return [Path(os.path.realpath(JVM)), *map(java_library, self.names)]

    @property
    def missing(self):
        return super().missing or (None if shutil.which("javac") else "javac is not installed")

    def prepare(self, folder):
        (folder / "Work.java").write_text(JAVA)
        if not (folder / "Work.class").exists():
            subprocess.run(["javac", "Work.java"], cwd=folder, check=True, stderr=subprocess.DEVNULL)

    def open_stdin(self, _):
        return subprocess.PIPE

    def wait(self, process, folder):
        self.talk(process, folder)

    def talk(self, process, _):
        process.stdin.write(b"go\n")
        process.stdin.flush()
        return process.stdout.readline()

    def stop(self, process, _):
        process.stdin.write(b"bye\n")
        process.stdin.flush()


XML = """import xml.parsers.expat
p, names = xml.parsers.expat.ParserCreate(), []
p.StartElementHandler = lambda name, attributes: names.append((name, attributes))
p.Parse("<a b='1'>" + "<c>x</c>" * 50 + "</a>", True)
print(len(names), names[:2])
"""

JQ = '.a[2].b, (.a|length), (["ab1","c"]|map(test("^[a-z]+[0-9]$")))'

# Of these, callgrind counts some calls less or more, the same in each run, of which the reason is not found yet.
PYTHON_UNLIKE = ["PyObject_RichCompare", "PyObject_RichCompareBool", "allocate_from_new_pool", "listiter_next",
                 "long_richcompare", "take_gil", "unicode_dealloc", "unicode_decode_utf8", "visit_reachable"]

PROGRAMS = [
    Program("jq", ["jq", "-c", JQ, "in.json"], ["libjq.so.1", "libonig.so.5"], counted=True),
    Program("sqlite3", ["sqlite3", "-batch", "-init", "/dev/null", ":memory:"], ["libsqlite3.so.0", "libz.so.1"],
            stdin="in.sql", counted=True, small=["sqlite3", "-batch", "-init", "small.sql", ":memory:", ".quit"]),
    Program("git", ["git", "-C", "repo", "--no-pager", "log", "-p", "--stat", "-P", "--grep", "c[0-9]"],
            ["libpcre2-8.so.0", "libz.so.1"], counted=True,
            small=["git", "-C", "repo", "--no-pager", "log", "--oneline", "-P", "--grep", "c[0-9]"]),
    Program("python3", ["/usr/bin/python3", "-S", "trace.py"], ["libexpat.so.1", "libz.so.1"],
            small=["/usr/bin/python3", "-S", "-c", XML], counted=True,
            env={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}, unlike=PYTHON_UNLIKE),
    Program("cc1", [CC1, "-quiet", "-O2", "victim.i", "-o", "-"], ["libgmp.so.10", "libzstd.so.1"],
            small=[CC1, "-quiet", "small.i", "-o", "-"], counted=True),
    Program("node", ["node", "in.js"], ["libstdc++.so.6", "libgcc_s.so.1"],
            small=["node", "-e", "console.log([3, 1, 2].sort())"]),
    Postgres("postgres", [POSTGRES, "--single", "-D", "data", "-c", "log_line_prefix=", "-c", "log_checkpoints=off",
             "postgres"], ["libcrypto.so.3", "libz.so.1"], stdin="postgres.sql"),
    PostgresBackend("postgres-backend", [POSTGRES, "-D", "data"], ["libcrypto.so.3", "libz.so.1"]),
    Redis("redis-server", ["redis-server", "--port", "0", "--unixsocket", Redis.socket, "--save", "", "--logfile",
          "redis.log"], ["libjemalloc.so.2", "liblzf.so.1"]),
    Nginx("nginx", ["nginx", "-p", ".", "-c", "nginx.conf"], ["libpcre2-8.so.0", "libz.so.1"]),
    Java("java", [JVM, "-cp", ".", "Work"], ["libjvm.so", "libjava.so"], options=["--pending"]),
]


def prepare(folder):
    """Puts there what the programs read."""
    files = {**programs.FILES, "small.sql": programs.FILES["in.sql"], "in.sql": patch_workloads.SQL,
             "in.js": patch_workloads.NODE, "trace.py": XML + patch_workloads.PYTHON,
             "small.i": "int twice(int a) { return a + a; }\n",
             "victim.i": patch_workloads.VICTIM.replace("#include <stdio.h>", "int printf(const char *, ...);")}
    for name, text in files.items():
        (folder / name).write_text(text)
    if shutil.which("git"):
        patch_workloads.make_repository(folder / "repo")
