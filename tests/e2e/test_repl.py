# rooms: cli/repl
"""The REPL: what its commands do and say, against the victims' own accounts, from scripts and pipes."""
import re
import subprocess
import time
from pathlib import Path

import pytest

from conftest import WAIT, WATCHCTL, wait_until
from repl_driver import Dialogue, script  # noqa: F401


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
    out, _ = commands.communicate("wait -n 8 -t 50\nsites\ninfo watches\nshow 8\n", timeout=WAIT)
    assert commands.returncode == 0
    assert len(re.findall(r"^#\d+ .* write  flag", out, re.M)) == 5
    assert len(re.findall(r"^#\d+ .* read   flag", out, re.M)) == 3
    assert re.search(r"^ +5  flag   write .*write_flag", out, re.M) and re.search(r"^ +3  flag   read ", out, re.M)
    assert re.search(r"1  on +8 events  flag -rw", out)
    full = out[out.index("event 8"):]
    assert "read_flag" in full and "rip " in full and "puppet.c:" in full and "->" in full
    assert v.alive()
    v.tell("write 1")


def test_a_wait_of_a_script_counts_each_event_once_whenever_it_came(victim, hardware):
    v = victim("puppet")
    d = Dialogue()
    d.do(f"attach {v.pid}\nwatch flag", "watching flag")
    v.tell("write 5")
    # They are read before the first wait begins.
    wait_until(lambda: re.search(r"\b5 +flag +write", d.do("sites\nhelp bt", "usage: bt")))
    d.do("wait -n 2 -t 50\nhelp bt", "usage: bt")
    d.do("wait -n 3 -t 50\nhelp bt", "usage: bt")
    v.tell("write 1")
    d.finish("wait -n 1 -t 50\nwait -n 1 -t 0.2\n")
    assert d.process.returncode == 1  # there were six


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
    do("wait -n 1 -t 50", "v_short")
    do("enable 1\nwait 0.3\ninfo watches", "2  on")
    v.tell("write 2")
    do("wait -n 2 -t 50", "#3 ")
    do("delete 2\ninfo watches", "1  on")
    out, _ = commands.communicate("delete\ninfo\nsites\n", timeout=WAIT)
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
    r = subprocess.run([WATCHCTL], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")


@pytest.mark.parametrize("line,status,words", [
    ("attach", 2, "PID"), ("attach x", 2, "x"), ("attach 999999999", 3, "999999999"), ("run", 2, "run what"),
    ("run /nonexistent/program", None, "/nonexistent/program"), ("watch", 2, "watch what"),
    ("watch flag other", 2, "one expression"), ("watch flag --nonsense", 2, "--nonsense"), ("watch 'flag", 2, "quote"),
    ("watch flag -x -s 4", 2, "-s"), ("delete 7", 2, "none was requested"), ("show", 3, "attach"), ("bt x", 3, "attach"),
    ("x/9999999999xw &flag", 2, "count"), ("x/4q flag", 2, "'q'"), ("print/xx flag", 2, "formats"), ("info nonsense", 2, "threads"),
    ("source /nonexistent/file", 2, "/nonexistent/file"), ("save", 2, "save LOG"), ("save x", 3, "nothing to save"),
    ("open /nonexistent/log", 8, "/nonexistent/log"), ("log perhaps", 2, "summary"), ("wait -t x", 2, "seconds"),
    ("wacth flag", 2, "watch"), ("s", 2, "sites, show, save, step, source"), ("quit/x", 2, "format"), ("detach", 3, "no session"),
    ("kill", 3, "no program"), ("help nonsense", 2, "nonsense"), ("report", 3, "which log"), ("x", 3, "no process")])
def test_what_is_wrong_is_said_with_what_to_do(script, line, status, words):
    r = subprocess.run([WATCHCTL, "repl"], input=line + "\n", capture_output=True, text=True, timeout=WAIT)
    assert words in r.stderr and r.stderr.startswith("watchctl: standard input:1: ") and r.stderr.count("\n") >= 1
    assert r.returncode == status if status else r.returncode in (2, 3)


def test_scripts_may_run_scripts_but_not_forever(script, tmp_path):
    (tmp_path / "inner").write_text("help bt\n")
    assert "usage: bt" in script(f"source {tmp_path}/inner\n").stdout
    (tmp_path / "loop").write_text(f"source {tmp_path}/loop\n")
    assert "without end" in script(f"source {tmp_path}/loop\n", expect=2).stderr


def test_a_recorded_log_is_read_like_a_session(script, victim, watch, tmp_path):
    v = victim("puppet")
    log = tmp_path / "log"
    w = watch("-p", v.pid, "-v", "flag", "-o", log)
    v.tell("write 30")
    w.end()
    r = script(f"open {log}\nsites\nbt 30\nregs 1\nlist 7\ndisassemble 7\nreport --sites\n")
    beyond = script(f"open {log}\nshow 99\n", expect=5)
    assert "there is no event 99: they go from 1 to 30" in beyond.stderr and "event 99" not in beyond.stdout
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
    out, _ = commands.communicate(f"wait -n 6 -t 50\nsave {tmp_path}/saved\n", timeout=WAIT)
    assert commands.returncode == 0, out
    r = run("report", "--json", f"{tmp_path}/saved")
    assert r.stdout.count('"type":"access"') == 6


def test_the_session_leaves_the_process_as_it_found_it(script, victim, hardware, before_and_after):
    v = victim("puppet")
    with before_and_after(v.pid):
        script(f"attach {v.pid}\nwatch flag -rw\nprint stats\nx/8xw &flag\ninfo threads\ninfo modules\ndetach\n")
        wait_until(lambda: not list(Path("/tmp").glob(f"watchctl-*/{v.pid}")))
    assert v.alive()


def test_names_of_an_event_are_those_of_its_moment(victim, hardware, build):
    """The library that made the access has gone, and another may lie there now."""
    v = victim("puppet")
    library = build("libplugin.so")
    v.tell(f"dlopen {library}")
    d = Dialogue()
    d.do(f"attach {v.pid}\nwatch plugin_state", "watching plugin_state")
    v.tell("plugin 2")
    d.do("wait -n 2 -t 50", "#2 ")
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
    d.do("wait -n 2 -t 50", "#2 ")
    v.send("exec")  # of sleep(1): all that was mapped has gone
    told = []

    def is_told():  # of the next program, or, if that has ended before anybody looked, of its end
        told.append(d.do("wait 0.2\nhelp quit", "usage: quit"))
        return re.search("executed another program|the program has ended", told[-1])

    wait_until(is_told, or_say=lambda: told)
    out = d.do("show 1\nhelp quit", "usage: quit")
    first = out[out.index("event 1\n"):]
    assert re.search(r"-> 0x[0-9a-f]+  mov .*flag", first), out
    assert "write_flag" in first and "obey" in first and "puppet.c" in first, out
    d.finish()


def test_captures_are_events_too(script, build, hardware):
    """The victim makes 100 captures of tag 3, with the values 0 to 99."""
    r = script(f"run --tags {build('tagged')} once\nwait -n 100 -t 50\nshow 1\nregs 1\nbt 100\nreport --tag 3\n")
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
    out, errors = commands.communicate("wait -n 3 -t 50\nsites\n", timeout=WAIT)
    assert "no free debug register" in errors and "'nosuch'" in errors
    assert len(re.findall(r"^#\d+ ", out, re.M)) == 3
    assert v.alive()
