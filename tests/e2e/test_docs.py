"""The documentation against the program: examples are run, links lead somewhere, commands and options exist.

A block that begins with ``` console is a session: lines after "$ " are run, in one shell and a folder with copies of
examples/, and every line shown after them must be in what they print; digits may differ, and spaces. [...] stands for lines left out.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, TIMEOUT, WATCHCTL

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
MANUAL = sorted((ROOT / "man").glob("watchctl*.[0-9]"))
SESSION = re.compile(r"^```[ ]?console\n(.*?)^```$", re.M | re.S)
MARK = "@@@ end of command"


def sessions(page):
    """[(command, [line shown])] of all blocks of a page."""
    found = []
    for block in SESSION.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1] = (found[-1][0] + "\n" + line[2:], [])
            elif line.strip() not in ("", "[...]"):
                found[-1][1].append(line)
    return found


def play(commands, folder):
    """What each of @commands prints, in one shell."""
    script = ""
    for command in commands:
        # The reader of the page does not type as fast as a program begins.
        script += f"{command}\n{'sleep 0.5' if command.endswith('&') else ''}\necho; echo '{MARK}'\n"
    script += "kill $(jobs -p) 2>/dev/null\n"
    for example in (ROOT / "examples").iterdir():
        if example.is_file():
            shutil.copy(example, folder)
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"], TERM="dumb", LC_ALL="C.UTF-8", TZ="UTC")
    done = subprocess.run(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=3 * TIMEOUT, env=env, stdin=subprocess.DEVNULL)
    return done.stdout.split(f"\n{MARK}\n")[:len(commands)]


def shape(line):
    """Without what may differ from run to run: numbers, and whether the last write changed its variable."""
    line = re.sub(r"# \(same\)", "# -> #", re.sub(r"\b0x[0-9a-f]+|\b[0-9a-f]{16}\b|\d+", "#", line))
    return re.sub(r"\s+", " ", line).strip()


@pytest.mark.parametrize("page", [p for p in DOCS if sessions(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_page_shows_is_what_its_commands_print(page, hardware, tmp_path):
    shown = sessions(page)
    printed = play([command for command, _ in shown], tmp_path)
    for (command, lines), output in zip(shown, printed, strict=True):
        there = {shape(line) for line in output.splitlines()}
        for line in lines:
            assert shape(line) in there, f"$ {command}\nshown:   {line}\nprinted: {output}"


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


def test_every_page_is_reached_from_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    for page in DOCS:
        name = str(page.relative_to(ROOT / "docs"))
        assert name == "README.md" or f"({name})" in index, name


def tables():
    """command -> its options, as the program tells them to the shells."""
    def ask(*words):
        out = subprocess.run([WATCHCTL, "__complete", *words], capture_output=True, text=True, check=True,
                             timeout=TIMEOUT).stdout
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
