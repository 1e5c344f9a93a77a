# rooms: completion
"""bash's completion of symbols, typed on a terminal of its own: what readline makes of quotes, colons and arrows counts."""
import os
import pty
import select
import shutil
import subprocess
import time

import pytest

from conftest import ROOT, WAIT, WATCHCTL


@pytest.fixture(scope="module")
def shell():
    if not shutil.which("bash"):
        pytest.skip("there is no bash")


@pytest.fixture
def armed(build):
    return build("armed")


@pytest.fixture
def process(armed):
    running = subprocess.Popen([armed, "60"], stdout=subprocess.PIPE, text=True)
    running.stdout.readline()
    yield running.pid
    running.kill()
    running.communicate()


def read_until(fd, end):
    said, stop = "", time.monotonic() + WAIT
    while end not in said and time.monotonic() < stop:
        if select.select([fd], [], [], 0.1)[0]:
            said += os.read(fd, 65536).decode(errors="replace")
    assert end in said, said
    return said


def typed(keys, cwd=ROOT):
    """The words of the line that @keys, tabs included, have made."""
    master, slave = pty.openpty()
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"], TERM="dumb", INPUTRC="/dev/null",
               HISTFILE="/dev/null", PS1="ready> ", LC_ALL="C")
    bash = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave,
                            start_new_session=True, env=env, cwd=cwd)
    os.close(slave)
    try:
        read_until(master, "ready> ")
        # What is left on the line goes, word by word, to a function in place of watchctl.
        os.write(master, f"bind 'set bell-style none'; source {ROOT}/completion/watchctl.bash; "
                         "shown() { printf '<%s>' \"$@\"; echo; echo END; }; echo SET\n".encode())
        read_until(master, "SET\r\nready> ")
        os.write(master, keys.encode())
        os.write(master, b"\x01")  # to the beginning of the line
        os.write(master, b"shown \x05\n")
        said = read_until(master, "END\r\n")
        line = [part for part in said.split("\r\n") if part.startswith("<")][-1]
        return line[1:-1].split("><")
    finally:
        bash.kill()
        bash.wait()
        os.close(master)


def test_variables_of_a_process(shell, process):
    assert typed(f"watchctl -p {process} -v total_w\t") == ["watchctl", "-p", str(process), "-v", "total_writes"]


def test_members_in_quotes(shell, process):
    # With the only one, bash closes the quote.
    assert typed(f"watchctl -p {process} -v 'table[1].sta\t")[-1] == "table[1].state"


def test_a_variable_of_a_library(shell, process):
    assert typed(f"watchctl -p {process} -v libc.so.6:environ_does_not\t")[-1] == "libc.so.6:environ_does_not"
    assert typed(f"watchctl -p {process} -v armed.c:sum_\t")[-1] == "armed.c:sum_writes"


def test_variables_and_functions_of_a_program_behind_the_cursor(shell, armed):
    left = "\x02" * len(f" -- {armed}")  # back over what follows
    assert typed(f"watchctl -v  -- {armed}{left}state_\t") == ["watchctl", "-v", "state_writes", "--", armed]
    assert typed(f"watchctl -v total --caller  -- {armed}{left}scr\t")[4] == "scribble"


def test_a_log_with_a_blank_in_its_name(shell, tmp_path):
    (tmp_path / "incident one.log").mkdir()
    (tmp_path / "other.txt").write_text("")
    assert typed("watchctl report inc\t", tmp_path) == ["watchctl", "report", "incident one.log/"]
    # Of files, only folders are logs.
    assert typed("watchctl report oth\t", tmp_path)[-1] == "oth"


@pytest.mark.parametrize("keys, last", [
    ("watchctl snap\t", "snapshot"), ("watchctl rec\t", "record"), ("watchctl exp\t", "export"), ("watchctl to\t", "top"),
    ("watchctl repl --kee\t", "--keep-going"), ("watchctl record --unb\t", "--unbounded"), ("watchctl top --del\t", "--delay"),
    ("watchctl export x --to spee\t", "speedscope"), ("watchctl record --on-trigger sn\t", "snapshot"),
    ("watchctl snapshot --la\t", "--last"),
])
def test_every_kind_of_word_is_completed(shell, keys, last):
    assert typed(keys)[-1] == last


def test_variables_and_functions_for_the_recorder_and_the_live_view(shell, process):
    assert typed(f"watchctl record -p {process} -v total_w\t")[-1] == "total_writes"
    assert typed(f"watchctl top -p {process} -v total --not-caller scr\t")[-1] == "scribble"


def test_without_a_process_or_one_that_is_gone_nothing_is_said(shell, process):
    assert typed("watchctl -v total_w\t") == ["watchctl", "-v", "total_w"]
    assert typed("watchctl -p 4194303 -v total_w\t")[-1] == "total_w"


@pytest.mark.slow  # judges time
def test_a_name_is_found_within_300_ms():
    python = "/usr/bin/python3.11"
    if not os.path.exists(python):
        pytest.skip("there is no Debian python3.11")
    spent = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run([WATCHCTL, "__complete", "--variables", "_PyRunt", python], capture_output=True,
                              text=True, timeout=WAIT)
        after = os.times()
        # Its own time: the machine may have other work.
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert done.stdout == "_PyRuntime\n"
    assert min(spent) < 0.3
