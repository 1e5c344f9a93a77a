# rooms: step/ptrace step/model
"""`watchctl step` on a program that calls a small function again and again: what it says of that, and does about it."""
import os
import pty
import re
import subprocess
import threading

import pytest
from conftest import WAIT, WATCHCTL
from test_step import events, of, step

SLOW = ["sleep", "2100"]  # so that the recording takes longer than two seconds


@pytest.fixture
def hot(build):
    return build("hot")


def counts(stdout):
    return {name: int(n) for name, n in re.findall(r"^(\w+) (\d+)$", stdout, re.M)}


def recorded(log):
    """Calls by function."""
    n = {}
    for c in of(events(log), "call"):
        name = c["function"].split("(")[0]
        n[name] = n.get(name, 0) + 1
    return n


def test_a_long_recording_names_the_function_with_most_calls_and_what_leaves_it_out(hot, tmp_path):
    r = step(tmp_path / "log", "--from", "main", program=[hot, 2, *SLOW])
    n = sum(counts(r.stdout).values())
    said = re.search(r"([\d,]+) calls, [\d,]+/s; (\d+) % are of (\w+): (.*) leaves it out$", r.stderr, re.M)
    assert said, r.stderr
    calls = int(said[1].replace(",", ""))
    assert n < calls <= n + 10  # main, and what it calls of the C library
    assert said.group(3, 4) == ("tiny", "--skip tiny") and int(said[2]) == 100 * counts(r.stdout)["tiny"] // calls
    r = step(tmp_path / "less", "--from", "main", *said[4].split(), program=[hot, 2, *SLOW])
    seen = recorded(tmp_path / "less")
    assert "tiny" not in seen and seen["mix"] == counts(r.stdout)["mix"] and seen["turn"] == counts(r.stdout)["turn"]
    assert re.search(r" calls, \d+/s$", r.stderr, re.M), r.stderr  # too few to say more


@pytest.mark.parametrize("args, program", [(["-q"], SLOW), ([], [])])
def test_nothing_is_said_when_quiet_or_at_once(hot, tmp_path, args, program):
    r = step(tmp_path / "log", "--from", "turn", *args, program=[hot, 1, *program])
    assert not re.search(r"calls, [\d,]+/s", r.stderr), r.stderr


def test_a_terminal_shows_how_it_goes_and_loses_the_line(hot, tmp_path):
    ours, terminal = pty.openpty()
    shown = []

    def read():
        try:
            while part := os.read(ours, 65536):
                shown.append(part)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    subprocess.run([WATCHCTL, "step", "-q", "-o", tmp_path / "log", "--from", "main", "--", hot, "2", "sleep", "3500"],
                   stderr=terminal, stdout=subprocess.DEVNULL, check=True, timeout=WAIT, env={**os.environ, "TERM": "xterm"})
    os.close(terminal)
    reader.join(WAIT)
    os.close(ours)
    text = b"".join(shown).decode()
    assert re.search(r"\r[\d,]+ calls, [\d,]+/s; \d\d % are of tiny: --skip tiny leaves it out", text), text
    assert text.rsplit("leaves it out", 1)[1].startswith("\x1b[K\r\x1b[K"), text
