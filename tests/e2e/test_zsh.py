# rooms: completion
"""zsh's completion, in a zsh on a terminal of its own."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from conftest import ROOT, WAIT, WATCHCTL

def read_until(fd, pattern):
    """What is shown on the terminal until then, without what moves the cursor."""
    said, stop = "", time.monotonic() + WAIT
    while time.monotonic() < stop:
        if select.select([fd], [], [], 0.1)[0]:
            said += os.read(fd, 65536).decode(errors="replace")
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x08\r]", "", said)
        if re.search(pattern, shown):
            return shown
    pytest.fail(f"{pattern} was not shown, but: {shown}")


def complete(keys, pattern):
    """Types @keys, and waits until the terminal shows @pattern."""
    master, slave = pty.openpty()
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"], TERM="xterm", PS1="ready> ", LC_ALL="C.UTF-8",
               HISTFILE="/dev/null")
    zsh = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=env)
    os.close(slave)
    try:
        read_until(master, "ready> ")
        os.write(master, f"fpath=({ROOT}/completion $fpath); autoload -U compinit; compinit -u -D; print S''ET\n".encode())
        read_until(master, r"(?s)\nSET\s.*ready> ")
        os.write(master, keys.encode())
        return read_until(master, pattern)
    finally:
        zsh.kill()
        zsh.wait()
        os.close(master)


@pytest.fixture(autouse=True)
def zsh():
    if not shutil.which("zsh"):
        pytest.skip("there is no zsh")


def test_commands_and_options_are_completed():
    complete("watchctl dif\t--save\t", r"watchctl diff\s+--save-masks")


@pytest.mark.parametrize("keys, line", [
    ("watchctl record --unbo\t", "watchctl record --unbounded"), ("watchctl snaps\t--la\t", r"watchctl snapshot\s+--last"),
    ("watchctl top --dela\t", "watchctl top --delay"), ("watchctl repl --keep\t", "watchctl repl --keep-going"),
    ("watchctl export x --to spee\t", "watchctl export x --to speedscope"),
])
def test_every_command_is_completed(keys, line):
    complete(keys, line)


def test_values_of_options_are_offered():
    complete("watchctl step --stepper \t\t", r"(?s)lldb.*ptrace|ptrace.*lldb")


def test_variables_of_the_program_behind_the_dashes_are_completed(build):
    program = build("hammer")
    names = subprocess.run([WATCHCTL, "__complete", "--variables", "", program], capture_output=True, text=True,
                           timeout=WAIT).stdout.split()
    name = max(names, key=len)
    assert sum(n.startswith(name[:-1]) for n in names) == 1
    left = "\x1b[D" * len(" -- " + program)
    # Ctrl-A, Ctrl-E: what the line has become is printed as words.
    complete(f"watchctl -v {name[:-1]} -- {program}{left}\t\x01print -r -- \x05\n",
             rf"\nwatchctl -v {re.escape(name)} -- {re.escape(program)}\n")
