# rooms: cli/repl
"""The REPL at a terminal: its line, completion, history and keys, and what is left when it ends."""
import os
import re
import signal
import stat
import termios
from pathlib import Path

import pytest

from conftest import snapshot, wait_until
from repl_driver import PROMPT, script, terminal, values  # noqa: F401


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
    t.type("help bt\n").sees("usage: bt")
    t.sees(r"\.\.\. [\d,]+ more \(\d+ to \d+\): sites, show N")
    t.type("log off\n")
    assert v.process.stdout.readline().strip() == "ok"
    wait_until(lambda: re.search(r"30,?000  flag   write", t.run("sites").text()))
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


def test_names_of_files_with_blanks_are_completed_within_quotes(terminal, tmp_path):
    (tmp_path / "some folder").mkdir()
    (tmp_path / "some folder/its commands").write_text("help bt\n")
    t = terminal(columns=200)
    t.type(f"source {tmp_path}/some\t").until(lambda: t.line() == PROMPT + f'source "{tmp_path}/some folder/')
    t.type("its\t").until(lambda: t.line() == PROMPT + f'source "{tmp_path}/some folder/its commands"')
    t.type("\n").sees("usage: bt")


def test_help_is_broken_between_words_to_fit_the_terminal(terminal, script):
    t = terminal(rows=120, columns=60)
    for topic in ("help", "help watch"):
        t.screen.reset()
        shown = t.run(topic).text().split("\n")
        assert " ".join(" ".join(shown[1:-1]).split()) == " ".join(script(topic + "\n").stdout.split())


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


def test_without_a_home_there_is_no_history_and_no_complaint(terminal, tmp_path):
    nowhere = tmp_path / "nowhere"
    t = terminal(home=str(nowhere))
    t.run("help bt")
    t.type("\x1b[A").until(lambda: t.line() == PROMPT + "help bt")
    assert "annot" not in t.text()
    t.type("\x15quit\n")
    assert t.ended() == 0
    assert not nowhere.exists()


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
    t.type("\x03").until(lambda: t.line() == PROMPT.rstrip())
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
def test_however_it_ends_the_program_goes_on(terminal, victim, hardware, how):
    v = victim("puppet")
    t = terminal()
    before = snapshot(v.pid)
    t.run(f"attach {v.pid}")
    t.run("watch flag -rw")
    v.tell("write 5")
    t.sees("#5 ")
    assert snapshot(v.pid) != before
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
        wait_until(lambda: os.waitpid(t.pid, os.WNOHANG)[0] == t.pid)
        t.status = 0
    else:
        code = t.ended()
        assert code == (-signal.SIGKILL if how == "kill" else 0)
    v.tell("write 5")
    wait_until(lambda: snapshot(v.pid) == before, or_say=lambda: (before, snapshot(v.pid)))
    v.tell("write 5")
    assert v.alive()


def test_that_its_session_was_killed_is_said_and_another_can_begin(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal()
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    v.tell("write 2")
    t.sees("#2 ")
    session = int(Path(f"/proc/{t.pid}/task/{t.pid}/children").read_text())
    os.kill(session, signal.SIGKILL)
    t.sees(f"the session's process {session} was killed by signal 9")
    v.tell("write 1")
    t.run("bt 2").sees("write_flag")  # what it had recorded is still there
    t.run(f"attach {v.pid}").sees("watching flag")
    v.tell("write 1")
    t.sees("#1 ")


def test_a_hangup_that_nohup_has_it_ignore_does_not_end_it(terminal, victim, hardware):
    v = victim("puppet")
    t = terminal(hangup=signal.SIG_IGN)
    t.run(f"attach {v.pid}")
    t.run("watch flag")
    os.kill(t.pid, signal.SIGHUP)
    v.tell("write 2")
    t.sees("#2 ")
    t.run("help bt").sees("usage: bt")


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
    t.run("kill").sees("was not started by run")
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
