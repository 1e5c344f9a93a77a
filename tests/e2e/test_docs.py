# rooms: docs man README.md CONTRIBUTING.md examples cli/options
"""The documentation against the program: examples are run, links lead somewhere, commands and options exist.

A block that begins with ``` console is a session: lines after "$ " are run, in one shell and a folder with copies of
examples/, and every line shown after them must be in what they print; numbers may differ, and spaces. [...] stands for lines left
out: where it is missing, nothing else may be printed. Libstackwalk is there as if it had been installed.
"""
import contextlib
import fnmatch
import functools
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, WAIT, WATCHCTL

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md", *DOCS]
MANUAL = sorted((ROOT / "man").glob("watchctl*.[0-9]"))
SESSION = re.compile(r"^```[ ]?console\n(.*?)^```$", re.M | re.S)
MARK = "@@@ end of command"


def sessions(page):
    """[(command, [line shown], nothing is left out)] of all blocks of a page."""
    found = []
    for block in SESSION.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], [], True))
                continue
            command, shown, whole = found[-1]
            if line.startswith("> ") and not shown:
                found[-1] = (command + "\n" + line[2:], shown, whole)
            elif line.strip() == "[...]":
                found[-1] = (command, shown, False)
            elif line.strip():
                shown.append(line)
    return found


def installed_library(prefix):
    """The variables of the environment with which a program is compiled with libstackwalk, and runs."""
    (prefix / "lib").mkdir(parents=True)
    for name in ("libstackwalk.so", "libstackwalk.so.0"):
        (prefix / "lib" / name).symlink_to((BUILD / "libstackwalk.so.0").resolve())
    (prefix / "include").symlink_to(ROOT / "stackwalk")
    template = (ROOT / "stackwalk/stackwalk.pc.in").read_text()
    (prefix / "stackwalk.pc").write_text(template.replace("@PREFIX@", str(prefix)).replace("@LIBDIR@", f"{prefix}/lib")
                                         .replace("@VERSION@", "0"))
    return {"PKG_CONFIG_PATH": str(prefix), "LD_LIBRARY_PATH": str(prefix / "lib")}


def play(commands, folder):
    """What each of @commands prints, in one shell."""
    script = ""
    for command in commands:
        # The reader of the page does not type as fast as a program begins: those that run meanwhile all have threads.
        begun = 'while [ "$(ls /proc/$!/task | wc -l)" = 1 ]; do sleep 0.01; done' if command.endswith("&") else ""
        script += f"{command}\n{begun}\necho; echo '{MARK}'\n"
    script += "kill $(jobs -p) 2>/dev/null\n"
    for example in (ROOT / "examples").iterdir():
        if example.is_file():
            shutil.copy(example, folder)
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"], TERM="dumb", LC_ALL="C.UTF-8", TZ="UTC",
               **installed_library(folder / "prefix"))
    # A session of its own, as a terminal is one: what is left of it can be ended without harm to others.
    shell = subprocess.Popen(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        printed = shell.communicate(timeout=3 * WAIT)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return printed.split(f"\n{MARK}\n")[:len(commands)]


def shape(line):
    """Without what may differ from run to run: numbers, units of time, whether the last write changed its variable, or the value
    before it is uncertain, and what takes a privilege. None stays none."""
    line = re.sub(r".* note: accesses by the kernel are not seen: .*", "", line.replace(", the kernel's accesses too", ""))
    line = re.sub(r"\b0 (lost|of them)\b", r"none \1", line)
    line = re.sub(r"\b0x[0-9a-f]+|\b[0-9a-f]{16}\b|\d[\d,]*(?:\.\d+)?", "#", line)
    line = line.replace("~# ->", "# ->")
    line = re.sub(r"# (ns|us|ms|s|min)\b", "# s", re.sub(r"# \(same\)", "# -> #", line))
    return re.sub(r"\s+", " ", line).strip()


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if sessions(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_page_shows_is_what_its_commands_print(page, hardware, tmp_path):
    told = sessions(page)
    printed = play([command for command, _, _ in told], tmp_path)
    for (command, lines, whole), output in zip(told, printed, strict=True):
        there = {shape(line) for line in output.splitlines()}
        for line in lines:
            assert shape(line) in there, f"$ {command}\nshown:   {line}\nprinted: {output}"
        unsaid = there - {shape(line) for line in lines} - {""}
        assert not whole or not unsaid, f"$ {command}\nprinted, and not shown: {unsaid}"


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


# Names that look like ours and are not, each with the reason.
FOREIGN_NAMES = {
    "app.c": "a user's program",
    "malloc.c": "glibc's source, where an access was",
    "calltrace.toml": "what a user writes",
    "/tmp/perf-PID.map": "what a JIT compiler writes for perf",
    ".nightly/": "what `make nightly` leaves, and git ignores",
}
ENDINGS = "c|h|S|cc|hh|py|mk|js|css|map|toml|txt"
SOURCE_NAME = re.compile(rf"(?<![\w./*+-])(?:[\w.*+-]*/)*[\w.*+-]+(?:\.(?:{ENDINGS})(?![\w*-])|/(?![\w.*+-]))")


@functools.cache
def paths_of_ours():
    """Each file and, with a slash behind it, each folder, with a slash in front."""
    found = []
    for folder, inside, files in os.walk(ROOT):
        inside[:] = [name for name in inside if not name.startswith((".", "build")) and name != "__pycache__"]
        below = "/" + os.path.relpath(folder, ROOT) if folder != str(ROOT) else ""
        found += [f"{below}/{name}" for name in files] + [f"{below}/{name}/" for name in inside]
    return found


def source_names(page):
    """Words in `quotes` that look like a path; of the page about the sources the files of its drawings, too."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    names = {name for quoted in re.findall(r"`([^`]+)`", text) for name in SOURCE_NAME.findall(quoted)}
    if page.name == "architecture.md":
        names |= {name for name in SOURCE_NAME.findall(text) if not name.endswith("/")}
    return sorted(names - set(FOREIGN_NAMES))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_of_ours_that_a_page_names_exists(page):
    """A name is the end of a path: `look.c`, `explain/look.c`; it may have a *, or NAME and ROOM, for any word."""
    known = paths_of_ours()
    stale = [name for name in source_names(page) if not fnmatch.filter(known, "*/" + re.sub(r"NAME|ROOM", "*", name))]
    assert not stale, f"{page.relative_to(ROOT)} names what is not there: {' '.join(stale)}"


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in DOCS:
        name = str(page.relative_to(ROOT / "docs"))
        assert name == "README.md" or f"({name})" in index, name


def tables():
    """command -> its options, as the program tells them to the shells."""
    def ask(*words):
        out = subprocess.run([WATCHCTL, "__complete", *words], capture_output=True, text=True, check=True,
                             timeout=WAIT).stdout
        return [line.split("\t")[0] for line in out.splitlines()]

    return {name: set(ask(name)) | {"--help", "--version"} for name in ask()}


def command_lines(text):
    """The lines that call watchctl, joined where a backslash continues them, each cut where the shell ends a command."""
    text = text.replace("\\\n", " ")
    for line in re.findall(r"(?:^|[`$;&|(] ?|sudo |exec )\bwatchctl( [^`\n]*)", text, re.M):
        line = re.sub(r"'[^']*'|\"[^\"]*\"", "QUOTED", line)
        yield re.split(r" -- | [|;&>#]|[;)]|  +#|\t", line + " ")[0].split()


@pytest.mark.parametrize("page", [*PAGES, *MANUAL], ids=lambda p: p.name)
def test_every_command_and_option_that_is_named_exists(page):
    known = tables()
    text = page.read_text()
    if page.suffix != ".md":
        text = re.sub(r"\\f[BIRP]|^\.(RB?|BR?|I|BI|IR|RI) ?", "", text.replace("\\-", "-"), flags=re.M)
        text = "\n".join(line for line in text.splitlines() if re.match(r"(sudo )?watchctl ", line) and "[" not in line)
    for words in command_lines(text):
        if not words:
            continue
        command = words[0] if re.fullmatch(r"[a-z_]+", words[0]) else "watch"
        if command == words[0] and command not in known:
            # Prose, not a command: "watchctl records", unless options follow.
            assert not any(re.match(r"--?[a-z]", w) for w in words), f"{page.name}: watchctl {' '.join(words)}"
            continue
        for word in words:
            option = re.match(r"--?[a-zA-Z][\w-]*", word)
            if option:
                name = option[0]
                short = next((o for o in known[command] if len(o) == 2 and name.startswith(o)), None)
                assert name in known[command] or short and name[2:].isdigit(), f"{page.name}: watchctl {' '.join(words)}"


def options_of_help(command):
    text = subprocess.run([WATCHCTL, command, "--help"], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    return {name for line in re.findall(r"^  (-.*)$", text, re.M)
            for name in re.findall(r"--?[A-Za-z][\w-]*", re.split(r" [A-Z<]|  ", line)[0])}


def options_of_manual(command):
    """What is explained under OPTIONS: the tags of its paragraphs; and does it refer to watchctl(1) for others?"""
    page = "watchctl" if command in ("watch", "help") else f"watchctl-{command}"
    text = (ROOT / "man" / f"{page}.1").read_text().replace("\\-", "-")
    section = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", text, re.M | re.S)
    tags = re.findall(r"^\.T[PQ].*\n(.*)$", section[1], re.M) if section else []
    refers = "All options of\n.BR watchctl (1)\nthat say what is watched" in text
    return {name for tag in tags for name in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", re.sub(r"\\f.", "", tag))}, refers


def completed_by_bash(command):
    words = ["watchctl", "-"] if command == "watch" else ["watchctl", command, "-"]
    script = f"source {ROOT}/completion/watchctl.bash\nCOMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}\n_watchctl\n"
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"])
    return set(subprocess.run(["bash", "-c", script + "printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True, check=True,
                              timeout=WAIT, env=env).stdout.split())


@pytest.mark.parametrize("command", sorted(tables()))
def test_help_manual_and_completion_name_the_same_options(command):
    overall = {"--help", "--version"}  # told by `watchctl --help`
    known = tables()[command] - {"-"} - overall
    assert options_of_help(command) == known
    assert completed_by_bash(command) - {""} - overall == known
    if command == "help":
        return
    explained, refers = options_of_manual(command)
    explained -= overall
    if command in ("list", "clear"):  # on one page
        assert explained == (tables()["list"] | tables()["clear"]) - {"-"} - overall
    elif refers:
        watched = options_of_manual("watch")[0]
        assert explained <= known <= explained | watched
    else:
        assert explained == known


def test_the_main_manual_page_leads_to_every_command():
    text = (ROOT / "man/watchctl.1").read_text().replace("\\-", "-")
    listed = re.search(r"^\.SS Commands\n(.*?)^\.S[HS] ", text, re.M | re.S)[1]
    see_also = text[text.index(".SH SEE ALSO"):]
    tags = re.findall(r"[a-z]+", " ".join(re.findall(r"^\.TP\n\.BR?(.*)$", listed, re.M)))
    assert sorted(tags) == sorted(tables())
    for command in tables():
        assert command in ("watch", "help") or f".BR watchctl-{command} (1)" in see_also, command


@pytest.mark.parametrize("command", sorted(tables()))
def test_the_readme_or_the_documentation_shows_every_command(command):
    shown = "\n".join(page.read_text() for page in PAGES)
    assert command in ("watch", "help") or re.search(rf"\bwatchctl {command}\b", shown)


def test_every_command_of_the_prompt_is_in_its_manual_page():
    told = subprocess.run([WATCHCTL], input="help\n", capture_output=True, text=True, check=True, timeout=WAIT).stdout
    names = re.findall(r"^  ([a-z]+) +\S", told, re.M)
    assert len(names) > 20
    text = (ROOT / "man/watchctl-repl.1").read_text()
    section = re.search(r"^\.SH COMMANDS\n(.*?)^\.SH ", text, re.M | re.S)[1]
    explained = " ".join(re.sub(r"\\f.", "", tag) for tag in re.findall(r"^\.T[PQ].*\n(.*)$", section, re.M))
    assert not [name for name in names if not re.search(rf"\b{name}\b", explained)]


@pytest.mark.slow
def test_the_comparison_says_what_is_measured_of_watchctl(hardware, tmp_path):
    """The other tools' rows are held against `make compare`, which needs them."""
    program = tmp_path / "asked"
    subprocess.run(["gcc", "-I.", "-O1", "-g", "-o", program, "tests/compare/asked.c"], cwd=ROOT, check=True, timeout=WAIT)
    said = subprocess.run([sys.executable, "-B", ROOT / "tests/compare/compare.py", "--watchctl", WATCHCTL, "--program", program,
                           "--only", "watchctl"], capture_output=True, text=True, check=True, timeout=3 * WAIT).stdout
    assert len(re.findall(r"^watchctl --engine", said, re.M)) == 3 and "docs/comparison.md says the same" in said, said


# As the page calls what the metadata call so.
WORDS = {"string": "str", "uint48_t": "u48"} | {
    f"{c}{bits}_t": f"{'i' if c == 'int' else 'u'}{bits}" for c in ("int", "uint", "hex") for bits in (8, 16, 32, 64)}
AS_ANOTHER = {"module_gone", "capture_value", "return_error", "hit", "thread_again", "code_again", "tag_again", "capture_withheld"}


def described_events():
    """{name: [(type, field)]} of the metadata, which are made from what reads and writes events."""
    text = (ROOT / "tests/unit/trace/kept/metadata").read_text()
    text = re.sub(r"struct \{\s*hex64_t rax.*?\} regs;", "", text, flags=re.S)
    text = re.sub(r"enum( \w+)?( : uint8_t \{[^}]*\})? (\w+;)", r"hex8_t \3", text)
    events = re.findall(r'^event \{\n\tname = "(\w+)";\n\tid = (\d+);.*?struct \{\n(.*?)^\t\};', text, flags=re.M | re.S)
    return {(name, number): re.findall(r"(\w+) (\w+)(?:\[\w+\])?;", fields) for name, number, fields in events}


@pytest.mark.parametrize("event", sorted(described_events()), ids=lambda e: e[0])
def test_the_page_about_logs_has_every_field_of_an_event_in_order(event):
    page = (ROOT / "man/watchctl-log.5").read_text()
    name, number = event
    found = re.search(rf"^\.B {number} {name}\n(.*?)^\.(TP|SS)", page, re.M | re.S)
    assert found, f"no event {number} {name}"
    text = " ".join(found[1].split())
    if name in AS_ANOTHER:
        return
    at = 0
    for kind, field in described_events()[event]:
        word = f"{WORDS[kind]} {field}"
        next_one = re.search(rf"\b{word}\b", text[at:])
        assert next_one, f"{word} is missing, or not behind the one before it, in: {text}"
        at += next_one.end()
