"""What the commands of gdb and lldb share: watchctl runs beside the debugger, and this looks after it.

The program stays under the debugger, so watchctl may neither trace it nor send it signals, which the debugger would
take for its own: the ring engine needs neither. The kernel records, and the program does not stop for an access.

    watchctl-arm EXPR [watchctl's options]    watch a variable, -w by default; -rw, --if, --changes, -n ...
    watchctl-disarm [N]                       end one watch, or all of them
    watchctl-sites [N]                        the accessing places, counted
    watchctl-events [N] [report's options]    each access with its stack
"""
import atexit
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
START_S = 60
END_S = 10
EXIT_NO_REGISTER = 6

# Ends watchctl when the debugger is gone, however it went: then nobody holds the other end of the pipe, descriptor 3.
# The shell makes a command in the background deaf to SIGINT, not to SIGTERM.
KEEPER = """
exec 3<&0 </dev/null
"$@" 3<&- &
watch=$!
( cat; kill -TERM "$watch" ) <&3 >/dev/null 2>&1 &
keeper=$!
exec 3<&-
wait "$watch"
status=$?
kill "$keeper" 2>/dev/null
exit "$status"
"""


# Removes the logs when the debugger and the last watchctl are gone, however they went: neither runs its own code when killed,
# and LLDB's Python does not even at a normal end. Both hold the other end of its input.
CLEANER = 'cat >/dev/null; rm -rf -- "$1"'


class Trouble(Exception):
    """A sentence for the user."""


class NoRegister(Trouble):
    pass


def program():
    """watchctl: the one that WATCHCTL names, that belongs to this folder, or that the PATH has."""
    above = os.path.dirname(HERE)
    built = sorted(glob.glob(os.path.join(above, "build*", "bin", "watchctl")), key=os.path.getmtime, reverse=True)
    installed = os.path.join(os.path.dirname(os.path.dirname(above)), "bin", "watchctl")
    for path in [os.environ.get("WATCHCTL"), installed, *built, shutil.which("watchctl")]:
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise Trouble("watchctl is not found: put it into the PATH, or its path into the variable WATCHCTL")


def split(text):
    """EXPR and the options behind it: the first word that begins like one ends EXPR, unless EXPR is quoted."""
    try:
        words = shlex.split(text)
    except ValueError as e:
        raise Trouble("%s in: %s" % (e, text)) from e
    if not words:
        raise Trouble("usage: watchctl-arm EXPR [-r|-w|-rw] [--if COND] [other options of watchctl]")
    if text.lstrip()[0] in "'\"":
        return words[0], words[1:]
    option = re.search(r"(?:^|\s)(--?[A-Za-z][\w-]*)", text)
    if not option:
        return text.strip(), []
    expr = text[:option.start()].strip()
    if not expr:
        raise Trouble("the expression comes first: watchctl-arm EXPR %s" % text.strip())
    return expr, shlex.split(text[option.start():])


def check_options(options):
    for word in options:
        if word in ("-p", "--pid", "-v", "--variable", "--engine", "--json", "--", "--tags", "--output", "--echo"):
            raise Trouble("%s is the debugger's business here: leave it out" % word)


def take_log(options):
    """-o LOG out of @options: (LOG or None, the others)."""
    for i, word in enumerate(options):
        if word in ("-o", "--log"):
            if i + 1 == len(options):
                raise Trouble("%s wants the name of a log" % word)
            return options[i + 1], options[:i] + options[i + 2:]
    return None, options


def run(*args):
    done = subprocess.run([program(), *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Trouble(done.stderr.strip() or "watchctl ended with status %d" % done.returncode)
    return done.stdout


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Scratch:
    """A folder for the logs that are not kept: see CLEANER."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="watchctl-")
        self.cleaner = subprocess.Popen(["sh", "-c", CLEANER, "watchctl-cleaner", self.folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.life = self.cleaner.stdin.fileno()
        self.logs = 0

    def new_log(self):
        self.logs += 1
        return os.path.join(self.folder, "log-%d" % self.logs)

    def close(self):
        self.cleaner.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.cleaner.wait(END_S)


class Watch:
    """A watchctl at work. @where: (address, size) as the debugger has it; size None: told by an option."""

    def __init__(self, number, pid, expr, where, options, scratch):
        self.number, self.pid, self.expr, self.summary = number, pid, expr, None
        self.frame_left, self.life = False, scratch.life
        log, options = take_log(options)
        check_options(options)
        self.log = log or scratch.new_log()
        self.start(expr, where, options)

    def start(self, expr, where, options):
        """By name, so that the log knows name and type, where that means what the debugger means by it."""
        if re.fullmatch(r"[A-Za-z_][\w.>\[\]:-]*", expr):
            armed = self.launch([expr, *options], may_fail=True)
            if armed and self.is_at(armed, where):
                return self.tell(armed)
            self.stop()
            if armed:  # another variable of that name: so this is our log, and of no use
                shutil.rmtree(self.log)
        address = ["0x%x" % where[0]]
        if where[1] and not {"-s", "--size", "-x", "--execute"} & set(options):
            address += ["-s", str(where[1])]
        return self.tell(self.launch(address + options))

    def is_at(self, armed, where):
        return int(armed["addr"], 16) == where[0]

    def launch(self, words, may_fail=False):
        """Until it is armed; the object that says so, or None if it ended and may."""
        command = [program(), "-p", str(self.pid), "-v", *words, "--engine", "ring", "-o", self.log, "-q", "--json"]
        self.process = subprocess.Popen(["sh", "-c", KEEPER, "watchctl-keeper", *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True, pass_fds=[self.life])
        self.is_armed, self.armed, self.summary, self.said = threading.Event(), None, None, ""
        self.readers = [threading.Thread(target=self.read_objects, daemon=True),
                        threading.Thread(target=self.read_words, daemon=True)]
        for reader in self.readers:
            reader.start()
        if not self.is_armed.wait(START_S):
            self.stop()
            raise Trouble("watchctl was not ready within %d s" % START_S)
        if not self.armed:
            self.stop()
            if may_fail:
                return None
            words = re.sub(r"^watchctl: ", "", self.said.strip()) or "watchctl ended without a word"
            raise NoRegister(words) if self.process.returncode == EXIT_NO_REGISTER else Trouble(words)
        return self.armed

    def read_objects(self):
        for line in self.process.stdout:
            found = json.loads(line)
            if found["type"] == "armed":
                self.armed = found
                self.is_armed.set()
            elif found["type"] == "summary":
                self.summary = found
        self.is_armed.set()

    def read_words(self):
        self.said = self.process.stderr.read()

    def tell(self, armed):
        kinds = {"w": "writes", "r": "reads", "rw": "reads and writes", "x": "executions"}
        size = "%d byte%s " % (armed["size"], "s" if armed["size"] != 1 else "")
        self.title = "watch %d: %s, %sat %s, %s" % (
            self.number, self.expr, size if armed["access"] != "x" else "", armed["addr"],
            kinds.get(armed["access"], armed["access"]))
        self.threads = "armed on %d of %d threads" % (armed["threads_armed"], armed["threads"])
        return self

    def is_running(self):
        return self.process.poll() is None

    def wait(self):
        """After it was told to end, or its process did."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.process.stdin.close()
        for reader in self.readers:
            reader.join(END_S)

    def stop(self):
        """Closing the pipe ends it: see KEEPER."""
        self.process.stdin.close()
        self.wait()

    def balance(self):
        s = self.summary
        if not s:
            return self.said.strip() or "no summary"
        return "%(counted)d accesses counted by the CPU: %(recorded)d recorded, %(lost)d lost, %(filtered)d filtered" % s

    def state(self):
        if self.is_running():
            return "armed"
        return "ended, the frame that it belonged to was left" if self.frame_left else "ended"


class Watches:
    """Those of one debugger. Each method returns what is to be printed; Trouble says what is wrong."""

    def __init__(self):
        self.all, self.scratch = [], None
        atexit.register(self.close)

    def arm(self, pid, expr, where, options):
        if not self.scratch:
            self.scratch = Scratch()
        try:
            watch = Watch(len(self.all) + 1, pid, expr, where, options, self.scratch)
        except NoRegister as e:
            armed = ["%d (%s)" % (w.number, w.expr) for w in self.all if w.pid == pid and w.is_running()]
            if not armed:
                raise
            raise Trouble("%s\narmed from here: %s; watchctl-disarm N frees what one takes" % (e, ", ".join(armed))) from e
        self.all.append(watch)
        return watch

    def chosen(self, words):
        """The watch that the first of @words names, else all; and the other words."""
        if not self.all:
            raise Trouble("nothing has been armed: watchctl-arm EXPR")
        if words and words[0].isdigit():
            number = int(words[0])
            if not 1 <= number <= len(self.all):
                raise Trouble("there is no watch %d, but 1 to %d" % (number, len(self.all)))
            return [self.all[number - 1]], words[1:]
        return list(self.all), words

    def disarm(self, text):
        watches, rest = self.chosen(shlex.split(text))
        if rest:
            raise Trouble("usage: watchctl-disarm [N]")
        said = []
        for watch in watches:
            if watch.is_running() or len(watches) == 1:
                watch.stop()
                said.append("%s\n    disarmed; %s\n" % (watch.title, watch.balance()))
        return "".join(said) or "no watch is armed any more\n"

    def sites(self, text):
        watches, rest = self.chosen(shlex.split(text))
        return self.told(watches, rest, "--sites")

    def events(self, text):
        watches, rest = self.chosen(shlex.split(text))
        return self.told(watches, rest)

    def told(self, watches, options, *more):
        """Titles are not for readers of JSON."""
        if "--json" in options:
            return "".join(self.report(w, *more, *options) for w in watches)
        return "\n".join("%s (%s)\n%s" % (w.title, w.state(), self.report(w, *more, *options)) for w in watches)

    def report(self, watch, *options):
        if not watch.is_running():
            watch.wait()
        return run("report", *options, watch.log)

    def process_ended(self):
        """What is to be said of the watches that ended with it."""
        said = []
        for watch in self.all:
            if watch.is_running() and is_alive(watch.pid):
                continue  # detached from
            if watch.summary is None and watch.armed:
                watch.wait()
                said.append("%s\n    ended with the process; %s\n" % (watch.title, watch.balance()))
        return "".join(said)

    def still_armed(self):
        return "".join("%s\n    still armed, until watchctl-disarm or the end of the debugger\n" % w.title
                       for w in self.all if w.is_running())

    def close(self):
        for watch in self.all:
            watch.stop()
        self.all = []
        if self.scratch:
            self.scratch.close()
            self.scratch = None
