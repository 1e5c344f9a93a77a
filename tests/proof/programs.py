"""Real packaged programs, each with a small workload that is the same in every run."""
import os
import subprocess
from pathlib import Path


class Program:
    """What is run: argv in a folder of its own, with options for `watchctl step` and an environment."""

    def __init__(self, name, *argv, step=(), env=None, faults=False):
        self.name, self.argv, self.step, self.env, self.faults = name, list(argv), list(step), env or {}, faults


# Whole programs, but for jq, which compiles a library of its own for seconds first. Two runs must do the same: hash
# tables are seeded by options where a program would take the time or chance; lua5.4 has no such option, and jq, whose
# objects are hashed with arc4random(), is given arrays. How many references python has to None differs from run to run,
# so there pointers are not followed.
PROGRAMS = [
    Program("sqlite3", "sqlite3", "-batch", "-init", "in.sql", ":memory:", ".quit", faults=True),
    Program("lua", "lua5.1", "in.lua", faults=True),
    Program("jq", "jq", "-c", ".[2][1], length", "arrays.json", step=["--from", "jq_start", "--to", "jq_teardown"]),
    Program("sed", "sed", "-e", "s/b/XX/;y/def/DEF/", "in.txt", faults=True),
    Program("awk", "gawk", "{ s += $2; n[$1]++ } END { print s, length(n) }", "in.txt", faults=True),
    Program("bc", "bc", "-q", "in.bc", faults=True),
    Program("xz", "xz", "-k", "-c", "-T1", "in.seq", faults=True),
    Program("git", "git", "-C", "repo", "--no-pager", "log", "--oneline", faults=True),
    Program("python3", "/usr/bin/python3", "-S", "-c", 'print(sum(x * x for x in range(10)), "a,b".split(","))',
            step=["--from", "PyRun_SimpleStringFlags", "--pointee", "0"], env={"PYTHONHASHSEED": "0"}),
    Program("perl", "perl", "-e", 'my %h = (a => 1, b => 2); print join(",", sort keys %h), " $h{a}\\n"',
            env={"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}),
    Program("bzip2", "bzip2", "-k", "-c", "in.seq", faults=True),
    Program("file", "file", "-b", "in.json", faults=True),
    Program("tree", "tree", "--noreport", "deep", faults=True),
]

# What differs in these is learned from several good runs.
LEARNED = [
    Program("uptime", "gawk", 'BEGIN { getline x < "/proc/uptime"; print (x + 0 > 1) }'),
]

FILES = {
    "in.txt": "a 1 c\nb 2 f\na 3 g\n",
    "in.json": '{"a":[1,2,{"b":"x"}],"c":null}\n',
    "arrays.json": '[1,2,[3,"x"],null]\n',
    "in.sql": "create table t(a, b);\ninsert into t values (1, 2), (3, 4), (5, 6);\n"
              "select sum(a), max(b) from t group by a % 2;\n",
    "in.bc": "scale = 5\nx = 3\nfor (i = 0; i < 4; i++) x = x * 1.5\nx\nsqrt(x)\nquit\n",
    "in.lua": 'local t = {}\nfor i = 1, 10 do t[i] = i * i end\nprint(#t, t[5], string.format("%d-%s", 7, "q"))\n',
    "in.seq": "".join(f"{i}\n" for i in range(1, 201)),
}


def commit(repo, number):
    (repo / f"f{number}").write_text(f"{number}\n")
    date = f"2020-01-0{number}T00:00:00Z"
    env = dict(os.environ, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date, GIT_CONFIG_GLOBAL="/dev/null")
    git = ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True, env=env)
    subprocess.run([*git, "commit", "-q", "-m", f"c{number}"], check=True, env=env)


def prepare(folder):
    """Puts there what the workloads read."""
    folder = Path(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for i in range(3):
        (folder / "deep" / f"d{i}").mkdir(parents=True)
        (folder / "deep" / f"d{i}" / "f").write_text("x")
    subprocess.run(["git", "init", "-q", str(folder / "repo")], check=True)
    for i in range(1, 4):
        commit(folder / "repo", i)
