"""The REPL: what it prints against the victims' own accounts and gdb, at a terminal and from scripts."""
import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time
from pathlib import Path

import pyte
import pytest

from conftest import TIMEOUT, VICTIMS, WATCHCTL, wait_until

PROMPT = "(watchctl) "


class Terminal:
    """A REPL at a terminal of its own; what a person would see is in lines()."""

    def __init__(self, *args, rows=40, columns=120, home="/nonexistent"):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.status = None
        environment = dict(os.environ, TERM="xterm", HOME=str(home), LC_ALL="C.UTF-8")
        environment.pop("XDG_STATE_HOME", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
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

    def until(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.text()
            self.read(0.05)
        return self

    def sees(self, pattern, seconds=20):
        return self.until(lambda: re.search(pattern, self.text()), seconds)

    def type(self, text):
        os.write(self.fd, text.encode())
        return self

    def run(self, line):
        """A command; waits for the prompt behind it."""
        self.type(line + "\n").read(0.2)
        return self.until(lambda: self.line() == PROMPT.rstrip())

    def line(self):
        """The line that the cursor is in."""
        return self.lines()[self.screen.cursor.y]

    def ended(self, seconds=20):
        def gone():
            self.read(0.02)
            pid, self.status = os.waitpid(self.pid, os.WNOHANG)
            return pid == self.pid

        assert wait_until(gone, seconds), self.text()
        return os.waitstatus_to_exitcode(self.status)


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
        r = subprocess.run(command, input=text if stdin else None, capture_output=True, text=True, timeout=TIMEOUT,
                           stdin=None if stdin else subprocess.DEVNULL)
        assert r.returncode == expect, (r.returncode, r.stdout, r.stderr)
        return r

    return run


# print and x, against gdb


def compile_once(tmp_path, source, compiler, *flags):
    target = tmp_path / source.replace(".", "_")
    subprocess.run([compiler, "-g", *flags, "-o", str(target), str(VICTIMS / source)], check=True, timeout=TIMEOUT)
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


def gdb(pid, commands):
    line = ["gdb", "-nx", "-q", "-batch", "-p", str(pid), "-ex", "set print null-stop on", "-ex", "set width 0",
            "-ex", "set print static-members off"]
    for c in commands:
        line += ["-ex", f"echo \\n<<{c}>>\\n", "-ex", c]
    out = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, errors="replace").stdout
    out = re.sub(r"\n\[Inferior .*", "", out)
    return {m[1]: m[2].strip("\n") for m in re.finditer(r"<<(.*?)>>\n(.*?)(?=\n<<|\Z)", out, re.S)}


def in_hex(name):
    return re.sub(r"\+(\d+)$", lambda m: f"+{int(m[1]):#x}", name)


def from_gdb(text, address=False):
    """gdb's way to write a value -> ours. Only the form is changed, never a number or a name."""
    text = re.sub(r"^\$\d+ = ", "", text)
    if not address:  # the type of a pointer, which we give to addresses alone
        text = re.sub(r"^\([^()]*(\([^()]*\)[^()]*)*\) (?=0x|@)", "", text)
    text = re.sub(r"^@0x[0-9a-f]+: ", "", text)
    text = re.sub(r"<([^<>]*)>(?! =)", lambda m: m[0] if "repeats" in m[1] else " " + in_hex(m[1]), text)
    text = re.sub(r"(-?\d+) [Lu]?('(?:\\.[0-7]*|[^'])+')", r"\2 (\1)", text)
    text = re.sub(r"\((\w+(?: \| \w+)+)\)", lambda m: m[1].replace(" | ", "|"), text)
    return re.sub(r"\\([0-7]{3})", lambda m: f"\\x{int(m[1], 8):02x}", text)


def to_one_line(text):
    text = re.sub(r"\{\s+", "{", text)
    text = re.sub(r"\s+\}", "}", text)
    return re.sub(r",\s+", ", ", text)


def same_number(a, b):
    """gdb prints floating point numbers with more digits than it takes to tell them apart."""
    try:
        return float(a) == float(b) or abs(float(a) - float(b)) < 1e-7 * abs(float(b))
    except ValueError:
        return False


def assert_same(ours, theirs, what):
    split = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])")
    a, b = split.split(ours), split.split(theirs)
    assert len(a) == len(b) and all(x == y or same_number(x, y) for x, y in zip(a, b)), f"{what}: {ours!r}, gdb {theirs!r}"


def prints(script, pid, expressions):
    out = script(f"attach {pid}\n" + "".join(f"print{e}\n" for e in expressions), "-k").stdout
    found = {}
    for e in expressions:
        name = e.split(" ", 1)[1]
        at = out.index(f"\n{name} = ") + 1
        value = re.match(re.escape(name) + r" = (.*(?:\n[ }].*)*)", out[at:])[1]
        found[e] = to_one_line(value)
        out = out[at + len(name):]
    return found


C_VALUES = """number positive brief brief_positive wide wide_positive truth real precise extended huge color strange flags
    first second head nowhere indirect *head head->next->len head->name table table[1] table[2].name bits bits.across
    bits.middle mixed.half mixed.x mixed.wide mixed.text mixed.call mixed.list mixed.yes grid grid[1] zeros longer doubles
    chars exact words text anything function_pointer atomic_count letter bell &number &table &grid[1] &mixed.color
    """.split()


def test_values_of_c_print_as_gdb_prints_them(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    theirs = gdb(pid, [f"print {e}" for e in C_VALUES])
    ours = prints(script, pid, [f" {e}" for e in C_VALUES])
    for e in C_VALUES:
        assert_same(re.sub(r"  +", " ", ours[f" {e}"]), re.sub(r"  +", " ", from_gdb(theirs[f"print {e}"], e[0] == "&")), e)


def test_structures_within_structures_print_with_all_members(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    ours = prints(script, pid, [" mixed"])[" mixed"]
    theirs = gdb(pid, ["print mixed"])["print mixed"]
    # gdb shows unsigned char as a character too: a number to us.
    theirs = re.sub(r"(small|tiny) = (-?\d+) '[^']*'", r"\1 = \2", re.sub(r"^\$1 = ", "", theirs))
    theirs = re.sub(r" <(\w+)>", r"  \1", theirs)
    assert_same(ours, theirs, "mixed")


@pytest.mark.parametrize("form", "xduotc")
def test_formats_print_as_gdb_prints_them(script, values, form):
    pid = values("repl_values.c", "gcc", "-O0")
    names = ["number", "positive", "brief", "wide", "octet", "letter", "bits", "table[1]", "either.byte", "chars", "grid",
             "color", "head"]
    if form == "c":
        names = ["number", "letter", "octet", "chars", "either.byte"]
    if form in "xduot":
        names.append("precise")
    theirs = gdb(pid, [f"print/{form} {e}" for e in names])
    ours = prints(script, pid, [f"/{form} {e}" for e in names])
    for e in names:
        expected = from_gdb(theirs[f"print/{form} {e}"])
        assert re.sub(r"\\0'", r"\\x00'", ours[f"/{form} {e}"]) == expected, e


def test_values_of_cpp_print_as_gdb_prints_them(script, values):
    pid = values("repl_values.cc", "g++", "-O0")
    names = ["reference", "square", "twins", "plain", "&reference", "shop::price", "one.price", "one.id"]
    theirs = gdb(pid, [f"print {e.replace('one.', 'shop::one.')}" for e in names])
    ours = prints(script, pid, [f" {e}" for e in names])
    for e in names:
        expected = from_gdb(theirs[f"print {e.replace('one.', 'shop::one.')}"], e[0] == "&")
        assert_same(re.sub(r"  +", " ", ours[f" {e}"]), re.sub(r"  +", " ", re.sub(r"^\(int &\) ", "", expected)), e)
    assert "closed" in prints(script, pid, [" now"])[" now"]
    assert re.fullmatch(r"\{<base> = \{id = 3\}, price = @0x\w+: 99, sold = false\}", prints(script, pid, [" one"])[" one"])


EXAMINED = ["x/4xw &number", "x/8xb &mixed", "x/3dh longer", "x/4uw grid", "x/2xg &head", "x/2gx table", "x/3f doubles",
            "x/2tw grid", "x/5ob raw", "x/s text", "x/2s chars", "x/4db raw", "x/xw head", "x/2wx &grid[1]",
            "x/3xg &indirect", "x/2dw grid + 1"]


def test_memory_is_laid_out_as_gdb_does(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    theirs = gdb(pid, EXAMINED)
    for command in EXAMINED:
        ours = script(f"attach {pid}\n{command}\n").stdout.split("\n", 1)[1].rstrip("\n")
        expected = re.sub(r"<(.*?)>", lambda m: f"<{in_hex(m[1])}>", theirs[command])
        for a, b in zip(re.split(r"[\t\n]", ours), re.split(r"[\t\n]", expected), strict=True):
            assert a == b or same_number(a, b), f"{command}: {ours!r}, gdb {expected!r}"


def test_instructions_begin_where_gdb_says(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    ours = script(f"attach {pid}\nx/6i main\n").stdout
    theirs = gdb(pid, ["x/6i main"])["x/6i main"]
    address = re.compile(r"^\W*(0x[0-9a-f]+)", re.M)
    assert address.findall(ours) == address.findall(theirs)


def test_what_cannot_be_known_is_said_and_not_guessed(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    r = script(f"attach {pid}\nprint per_thread\nprint nowhere->len\nprint nosuch\nx/4xw 0x10\nprint first.nolen\n"
               "print twice\n", "-k", expect=5)
    assert "thread-local" in r.stderr and "null pointer" in r.stderr and "'nosuch'" in r.stderr
    assert "cannot be read: the process has not mapped it" in r.stderr and "no member 'nolen'" in r.stderr
    assert re.search(r"twice = 0x\w+ +twice \(a function\)", r.stdout)


def test_what_the_program_says_is_not_obeyed_by_the_terminal(script, tmp_path):
    source = tmp_path / "evil.c"
    source.write_text('#include <sys/prctl.h>\n#include <unistd.h>\nchar text[] = "a\\033[2Jb\\r\\n\\u202e";\n'
                      'int main(void) { prctl(PR_SET_NAME, "x\\033[2Jy"); pause(); }')
    subprocess.run(["gcc", "-g", "-o", str(tmp_path / "evil"), str(source)], check=True, timeout=TIMEOUT)
    v = subprocess.Popen([str(tmp_path / "evil")])
    try:
        assert wait_until(lambda: b"\x1b" in Path(f"/proc/{v.pid}/comm").read_bytes())
        out = script(f"attach {v.pid}\nprint text\nx/s &text\ninfo threads\n").stdout
    finally:
        v.kill()
        v.wait()
    assert "\x1b" not in out and "\r" not in out and "\u202e" not in out
    assert 'text = "a\\e[2Jb\\r\\n\\342\\200\\256"' in out


# Scripts


def test_a_script_sees_every_access_that_the_program_accounts_for(script, victim, hardware):
    v = victim("puppet")
    commands = subprocess.Popen([WATCHCTL, "repl", "--color", "never"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True)
    commands.stdin.write(f"attach {v.pid}\nwatch flag -rw\n")
    commands.stdin.flush()
    while "watching flag" not in commands.stdout.readline():
        pass
    v.tell("write 5")
    v.tell("read 3")
    out, _ = commands.communicate("wait -n 8 -t 10\nsites\ninfo watches\nshow 8\n", timeout=TIMEOUT)
    assert commands.returncode == 0
    assert len(re.findall(r"^#\d+ .* write  flag", out, re.M)) == 5
    assert len(re.findall(r"^#\d+ .* read   flag", out, re.M)) == 3
    assert re.search(r"^ +5  flag   write .*write_flag", out, re.M) and re.search(r"^ +3  flag   read ", out, re.M)
    assert re.search(r"1  on +8 events  flag -rw", out)
    full = out[out.index("event 8"):]
    assert "read_flag" in full and "rip " in full and "puppet.c:" in full and "->" in full
    assert v.alive()
    v.tell("write 1")


def test_watches_before_run_are_armed_before_the_first_instruction(script, build, hardware, tmp_path):
    out = tmp_path / "out"
    r = script(f"watch flag\nrun {build('puppet')} < /dev/null > {out}\nwait\ninfo\n")
    assert re.search(r"watch 1: flag, to be armed", r.stdout) and "watching flag" in r.stdout
    assert "the program has ended" in r.stdout and "no process" in r.stdout
    assert out.read_text().startswith("pid ")


def test_the_program_gets_its_arguments_and_input(script, build, hardware, tmp_path):
    (tmp_path / "in").write_text("write 4\nexit 0\n")
    r = script(f"watch flag -w\nrun {build('puppet')} < {tmp_path}/in\nwait\nsites\nrun\nwait\n")
    assert re.search(r"^ +4  flag   write ", r.stdout, re.M)
    assert r.stdout.count("the program has ended") == 2  # run again: the same words, the same watch
    assert r.stdout.count("watching flag") == 2


def test_watches_come_go_and_rest_while_the_program_runs(script, victim, hardware):
    v = victim("puppet")
    commands = subprocess.Popen([WATCHCTL, "repl", "--color", "never"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, bufsize=1)

    def do(line, end):
        commands.stdin.write(line + "\n")
        text = ""
        while end not in text:
            got = commands.stdout.readline()
            assert got, text
            text += got
        return text

    do(f"attach {v.pid}\nwatch flag", "watching flag")
    do("watch v_short -w", "watching v_short")
    do("disable 1\ninfo watches", "2  on")
    v.tell("write 3")
    v.tell("types")
    do("wait -n 1 -t 10", "v_short")
    do("enable 1\nwait 0.3\ninfo watches", "2  on")
    v.tell("write 2")
    do("wait -n 2 -t 10", "#3 ")
    do("delete 2\ninfo watches", "1  on")
    out, _ = commands.communicate("delete\ninfo\nsites\n", timeout=TIMEOUT)
    assert "no watches" in out
    assert re.search(r"^ +2  flag +write ", out, re.M) and re.search(r"^ +1  v_short +write ", out, re.M)
    assert commands.returncode == 0 and v.alive()


def test_a_script_stops_at_its_first_error_with_its_status(script):
    r = script("help quit\nprint flag\nhelp watch\n", expect=3)
    assert "script:2:" in r.stderr and "usage: quit" in r.stdout and "usage: watch" not in r.stdout
    r = script("print flag\nwatc\n\n# a comment\nhelp watch\nfoo\n", "-k", expect=3)
    assert "usage: watch" in r.stdout and "script:6:" in r.stderr


def test_commands_come_through_a_pipe_too(script):
    r = script("help print\nnonsense\n", stdin=True, expect=2)
    assert "usage: print" in r.stdout and "standard input:2:" in r.stderr
    r = subprocess.run([WATCHCTL], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")


@pytest.mark.parametrize("line,status,words", [
    ("attach", 2, "PID"), ("attach x", 2, "x"), ("attach 999999999", 3, "999999999"), ("run", 2, "run what"),
    ("run /nonexistent/program", None, "/nonexistent/program"), ("watch", 2, "watch what"),
    ("watch flag other", 2, "one expression"), ("watch flag --nonsense", 2, "--nonsense"), ("watch 'flag", 2, "quote"),
    ("watch flag -x -s 4", 2, "-s"), ("delete 7", 2, "none was asked"), ("show", 3, "attach"), ("bt x", 3, "attach"),
    ("x/9999999999xw &flag", 2, "count"), ("x/4q flag", 2, "'q'"), ("print/xx flag", 2, "formats"), ("info nonsense", 2, "threads"),
    ("source /nonexistent/file", 2, "/nonexistent/file"), ("save", 2, "save LOG"), ("save x", 3, "nothing to save"),
    ("open /nonexistent/log", 8, "/nonexistent/log"), ("log perhaps", 2, "summary"), ("wait -t x", 2, "seconds"),
    ("wacth flag", 2, "watch"), ("s", 2, "sites, show, save, step, source"), ("quit/x", 2, "format"), ("detach", 3, "no session"),
    ("kill", 3, "no program"), ("help nonsense", 2, "nonsense"), ("report", 3, "which log"), ("x", 3, "no process")])
def test_what_is_wrong_is_said_with_what_to_do(script, line, status, words):
    r = subprocess.run([WATCHCTL, "repl"], input=line + "\n", capture_output=True, text=True, timeout=TIMEOUT)
    assert words in r.stderr and r.stderr.startswith("watchctl: standard input:1: ") and r.stderr.count("\n") >= 1
    assert r.returncode == status if status else r.returncode in (2, 3)


def test_scripts_may_run_scripts_but_not_forever(script, tmp_path):
    (tmp_path / "inner").write_text("help bt\n")
    assert "usage: bt" in script(f"source {tmp_path}/inner\n").stdout
    (tmp_path / "loop").write_text(f"source {tmp_path}/loop\n")
    assert "no end" in script(f"source {tmp_path}/loop\n", expect=2).stderr


def test_a_recorded_log_is_read_like_a_session(script, victim, watch, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    w = watch("-p", v.pid, "-v", "flag", "-o", log)
    v.tell("write 30")
    w.end()
    r = script(f"open {log}\nsites\nbt 30\nregs 1\nlist 7\ndisassemble 7\nreport --sites\n")
    assert "30 events" in r.stdout and "... 10 more (21 to 30): sites, show N" in r.stdout
    assert len(re.findall(r"^ +30  flag   write ", r.stdout, re.M)) == 2  # ours, and that of watchctl report
    assert re.search(r"^->? .*flag = i;", r.stdout, re.M) or re.search(r"->.*flag = i;", r.stdout)
    assert re.search(r"-> 0x[0-9a-f]+  mov", r.stdout)


def test_save_keeps_what_was_recorded_so_far(script, victim, hardware, run, tmp_path):
    v = victim("puppet")
    commands = subprocess.Popen([WATCHCTL, "repl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    commands.stdin.write(f"attach {v.pid}\nwatch flag\n")
    commands.stdin.flush()
    while "watching flag" not in commands.stdout.readline():
        pass
    v.tell("write 6")
    out, _ = commands.communicate(f"wait -n 6 -t 10\nsave {tmp_path}/saved\n", timeout=TIMEOUT)
    assert commands.returncode == 0, out
    r = run("report", "--json", f"{tmp_path}/saved")
    assert r.stdout.count('"type":"access"') == 6


def test_the_session_leaves_the_process_as_it_found_it(script, victim, hardware, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        script(f"attach {v.pid}\nwatch flag -rw\nprint stats\nx/8xw &flag\ninfo threads\ninfo modules\ndetach\n")
        assert wait_until(lambda: not list(Path("/tmp").glob(f"watchctl-*/{v.pid}")))
    assert v.alive()


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
        out, _ = self.process.communicate(line, timeout=TIMEOUT)
        return out


def test_names_of_an_event_are_those_of_its_moment(victim, hardware, build):
    """The library that made the access has gone, and another may lie there now."""
    v = victim("puppet")
    library = build("libplugin.so")
    v.tell(f"dlopen {library}")
    d = Dialogue()
    d.do(f"attach {v.pid}\nwatch plugin_state", "watching plugin_state")
    v.tell("plugin 2")
    d.do("wait -n 2 -t 10", "#2 ")
    v.tell("dlclose")
    full = d.finish("wait 1\nbt 1\nshow 2\ninfo modules\n")
    assert d.process.returncode == 0
    bt = full[full.index("event 1"):full.index("event 2")]
    assert "plugin_touch" in bt and "plugin.c:" in bt and "main" in bt
    assert "plugin_touch" in full[full.index("event 2"):]
    assert not re.search(r"^0x\w+-0x\w+  .*libplugin", full, re.M) and re.search(r"^0x\w+-0x\w+  .*puppet$", full, re.M)


def test_names_survive_that_the_process_executes_another_program(victim, hardware):
    v = victim("puppet")
    d = Dialogue()
    d.do(f"attach {v.pid} --exec follow\nwatch flag", "watching flag")
    v.tell("write 2")
    d.do("wait -n 2 -t 10", "#2 ")
    v.send("exec")  # of sleep(1): all that was mapped has gone
    out = d.do("wait 1.5\nshow 1\nhelp quit", "usage: quit")
    first = out[out.index("event 1\n"):]
    assert re.search(r"-> 0x[0-9a-f]+  mov .*flag", first), out
    assert "the process has executed another program" in out
    assert "write_flag" in first and "obey" in first and "puppet.c" in first, out
    d.finish()


def test_captures_are_events_too(script, build, hardware):
    """The victim makes 100 captures of tag 3, with the values 0 to 99."""
    r = script(f"run --tags {build('tagged')} once\nwait 5\nshow 1\nregs 1\nbt 100\nreport --tag 3\n")
    assert "100 captures" in r.stdout or re.search(r"#\d+ .* tag ", r.stdout)
    first, last = r.stdout.index("event 1\n"), r.stdout.index("event 100\n")
    assert "inner" in r.stdout[first:] and "middle" in r.stdout[last:] and "99" in r.stdout[last:]
    assert "a capture has none" in r.stdout


def test_what_is_quoted_is_an_argument_and_no_file(script, tmp_path, hardware):
    out = tmp_path / "out file"
    script(f"run /bin/echo '<a' \">b\" c\\ d '' > '{out}'\nwait\n")
    assert out.read_text() == "<a >b c d \n"
    script(f"run /bin/echo again >> '{out}'\nwait\n")
    assert out.read_text() == "<a >b c d \nagain\n"
    script(f"run /bin/sh -c 'echo bad >&2' 2> '{out}'\nwait\n")
    assert out.read_text() == "bad\n"


def test_options_may_stand_on_either_side_of_the_process(script, victim, hardware, run, tmp_path):
    v = victim("puppet")
    for words in (f"-o {tmp_path}/a --frames 4 {v.pid}", f"{v.pid} --frames 4 -o {tmp_path}/b"):
        script(f"attach {words}\nwatch flag\ndetach\n")
    for log in "ab":
        assert '"type":"armed"' in run("report", "--json", tmp_path / log).stdout  # these stay
    assert "one too many" in script(f"attach {v.pid} {v.pid}\n", expect=2).stderr


def test_a_watch_that_was_refused_leaves_nothing_behind(script, victim, watch):
    v = victim("puppet")
    watch("-p", v.pid, "-v", "v_short")  # holds the fourth register, which nobody can know before
    commands = subprocess.Popen([WATCHCTL, "repl", "-k"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.PIPE)
    commands.stdin.write(f"attach {v.pid}\nwatch flag\nwatch untouched\nwatch v_uint\nwatch flag -s 2\n"
                         "watch nosuch\ninfo\n")
    commands.stdin.flush()
    while "3  on" not in commands.stdout.readline():
        pass
    v.tell("write 3")
    out, errors = commands.communicate("wait 0.3\nsites\n", timeout=TIMEOUT)
    assert "no free debug register" in errors and "'nosuch'" in errors
    assert len(re.findall(r"^#\d+ ", out, re.M)) == 3
    assert v.alive()


# At a terminal


def test_a_half_typed_line_survives_arriving_events(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    t.type("print stats.ca").until(lambda: t.line() == PROMPT + "print stats.ca")
    v.tell("write 3")
    t.sees("#3 ")
    t.until(lambda: t.line() == PROMPT + "print stats.ca")
    text = t.lines()
    events = [i for i, line in enumerate(text) if re.match(r"#\d ", line)]
    assert len(events) == 3 and events == list(range(events[0], events[0] + 3))
    assert text[events[-1] + 1] == PROMPT + "print stats.ca"  # the line is below them, and only there
    assert sum("print stats.ca" in line for line in text) == 1
    t.type("che.hits\n")
    t.sees(r"stats\.cache\.hits = 0")


def test_a_long_half_typed_line_survives_too(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal(rows=30, columns=60)
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    long = "print " + "a" * 100
    t.type(long).read(0.5)
    v.tell("write 2")
    t.sees("#2 ")
    t.read(0.5)
    joined = "".join(t.lines())
    assert joined.count("a" * 100) == 1 and joined.rstrip().endswith(long)


def test_many_events_are_summed_up_and_the_prompt_answers(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    v.send("write 30000")
    began = time.monotonic()
    t.type("help bt\n").sees("usage: bt", seconds=5)
    assert time.monotonic() - began < 5
    t.sees(r"\.\.\. [\d,]+ more \(\d+ to \d+\): sites, show N")
    t.type("log off\n")
    assert v.process.stdout.readline().strip() == "ok"
    t.read(1)
    t.run("sites").sees(r"30,?000  flag   write")
    t.run("show 30000").sees("event 30000")
    printed = re.findall(rb"#(\d+) ", t.raw)
    assert len(printed) < 400


def test_tab_completes_commands_options_variables_members_and_functions(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.type("att\t").until(lambda: t.line() == PROMPT + "attach")
    t.type(f" {v.pid}\n").sees("process")
    t.type("print sta\t").until(lambda: t.line() == PROMPT + "print stats")
    t.type(".ca\t").until(lambda: t.line() == PROMPT + "print stats.cache")
    t.type(".mi\t").until(lambda: t.line() == PROMPT + "print stats.cache.misses")
    t.type("\x15print stats.head->le\t").until(lambda: t.line() == PROMPT + "print stats.head->len")
    t.type("\x15print v_pointer->ne\t").until(lambda: t.line() == PROMPT + "print v_pointer->next")  # a null pointer now
    t.type("\x15watch flag --cha\t").until(lambda: t.line() == PROMPT + "watch flag --changes")
    t.type("\x15watch flag --caller copy_\t").until(lambda: t.line() == PROMPT + "watch flag --caller copy_flag")
    t.type("\x15x/4xw &unt\t").until(lambda: t.line() == PROMPT + "x/4xw &untouched")
    t.type("\x15info thr\t").until(lambda: t.line() == PROMPT + "info threads")
    t.type("\x15log su\t").until(lambda: t.line() == PROMPT + "log summary")
    t.type("\x15report --si\t").until(lambda: t.line() == PROMPT + "report --sites")
    t.type("\x15print v_\t\t").sees("v_bool.*v_char")


def test_history_is_kept_for_its_owner_alone(terminal, tmp_path):
    t = terminal()
    t.run("help bt")
    t.type("\x04")
    assert t.ended() == 0
    file = tmp_path / "home/.local/state/watchctl/history"
    assert "help bt" in file.read_text().splitlines()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    t = terminal()
    t.type("\x1b[A").until(lambda: t.line() == PROMPT + "help bt")


def test_without_a_home_there_is_no_history_and_no_complaint(terminal):
    t = terminal(home="/nonexistent")
    t.run("help bt")
    t.type("\x1b[A").until(lambda: t.line() == PROMPT + "help bt")
    assert "annot" not in t.text()
    t.type("\x15quit\n")
    assert t.ended() == 0


def test_history_does_not_grow_without_bounds(terminal, tmp_path):
    file = tmp_path / "home/.local/state/watchctl/history"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"help {i}\n" for i in range(5000)))
    t = terminal()
    t.type("quit\n")
    assert t.ended() == 0
    lines = file.read_text().splitlines()
    assert len(lines) <= 1001 and lines[-2] == "help 4999" and lines[-1] == "quit"


def test_ctrl_c_clears_the_line_and_keeps_the_session(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    t.type("print sta").until(lambda: t.line().endswith("print sta"))
    t.type("\x03").until(lambda: t.line() == PROMPT.rstrip())
    v.tell("write 2")
    t.sees("#2 ")
    t.run("wait 0.1")
    t.type("wait\n").read(0.5)
    t.type("\x03").until(lambda: t.line() == PROMPT.rstrip(), seconds=5)
    v.tell("write 1")
    t.sees("#3 ")


def test_ctrl_c_ends_a_command_of_ours_and_not_the_session(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    t.type("report --follow-nothing\n").sees("--follow-nothing")
    t.type("diff /dev/stdin /dev/stdin\n").read(0.5)
    t.type("\x03\n").until(lambda: t.line() == PROMPT.rstrip())
    v.tell("write 2")
    t.sees("#2 ")


def test_an_empty_line_goes_on_with_x_alone(terminal, values):
    pid = values("repl_values.c", "gcc", "-O0")
    t = terminal()
    t.run(f"attach {pid}")
    t.run("help bt")
    before = t.text().count("usage: bt")
    t.type("\n").read(0.5)
    assert t.text().count("usage: bt") == before
    t.run("x/2dw grid")
    t.run("")
    t.sees(r"grid\+0x8>:\s+3\s+4")


def test_the_terminal_may_change_its_size(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal(columns=120)
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    t.resize(24, 50)
    t.read(0.3)
    v.tell("write 2")
    t.sees("#2 ")
    t.read(0.3)
    assert all(len(line) <= 50 for line in t.lines())
    # An event is one line, however narrow.
    first, second = (next(i for i, line in enumerate(t.lines()) if line.startswith(f"#{n} ")) for n in (1, 2))
    assert second == first + 1
    t.run("help bt").sees("usage: bt")


@pytest.mark.parametrize("how", ["kill", "hangup", "quit", "eof", "close"])
def test_however_it_ends_the_program_goes_on(terminal, victim, hardware, how, before_and_after):
    v = victim("puppet")
    t = terminal()
    with before_and_after(v.pid):
        t.run(f"attach {v.pid}")
        t.run("watch flag -rw")
        v.tell("write 5")
        t.sees("#5 ")
        if how == "kill":
            os.kill(t.pid, signal.SIGKILL)
        elif how == "hangup":
            os.kill(t.pid, signal.SIGHUP)
        elif how == "quit":
            t.type("quit\n")
        elif how == "eof":
            t.type("\x04")
        else:
            os.close(t.fd)
            t.fd = os.open("/dev/null", os.O_RDONLY)
        if how == "close":
            assert wait_until(lambda: os.waitpid(t.pid, os.WNOHANG)[0] == t.pid)
            t.status = 0
        else:
            code = t.ended()
            assert code == (-signal.SIGKILL if how == "kill" else 0)
        v.tell("write 5")
        assert wait_until(lambda: "perf_event" not in " ".join(
            os.readlink(f"/proc/{v.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{v.pid}/fd")))
        time.sleep(1)
    v.tell("write 5")
    assert v.alive()


def test_a_program_that_was_started_lives_on_after_quit(terminal, build, hardware):
    t = terminal()
    t.run(f"run {build('hammer')} < /dev/null > /dev/null")
    found = re.search(r"process (\d+) \(hammer\)", t.text())
    if not found:
        pytest.skip("the victim ended at once: " + t.text())
    pid = int(found[1])
    t.type("quit\n")
    assert t.ended() == 0
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, signal.SIGKILL)


def test_kill_asks_and_only_kills_what_it_started(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("kill").sees("was not started from here")
    t.run("detach")
    t.run("run /bin/sleep 60")
    pid = int(re.findall(r"process (\d+) \(sleep\)", t.text())[-1])
    t.type("kill\n").sees(r"kill process \d+\? \(y or n\)")
    t.type("n\n").until(lambda: t.line() == PROMPT.rstrip())
    assert Path(f"/proc/{pid}").exists()
    t.type("kill\n").read(0.3)
    t.type("y\n").sees("the program has ended")
    assert v.alive()


def test_the_terminal_is_left_as_it_was(terminal):
    t = terminal()
    before = termios.tcgetattr(t.fd)
    t.type("help b\x04\x15").read(0.3)
    t.type("\x04")
    assert t.ended() == 0
    after = termios.tcgetattr(t.fd)
    assert after[3] & termios.ECHO and after[3] & termios.ICANON
    assert before[0] & termios.IXON == after[0] & termios.IXON
