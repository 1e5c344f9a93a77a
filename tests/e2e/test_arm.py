# rooms: debugger
"""watchctl-arm and its companions inside gdb and lldb, on a program that accounts for its own accesses (armed.c)."""
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import ROOT, WAIT, WATCHCTL, wait_until

GDB = shutil.which("gdb")
LLDB = next((p for p in map(shutil.which, [f"lldb-{n}" for n in (19, 18, 17, 16, 15, 14)] + ["lldb"]) if p), None)

pytestmark = pytest.mark.usefixtures("hardware")


@pytest.fixture
def armed(build):
    return build("armed")


class Gdb:
    load = f"source {ROOT}/debugger/watchctl_gdb.py"
    stop_in_work = ["break work", "run", "next"]

    @staticmethod
    def line(program, commands, pid=None):
        line = [GDB, "-q", "-batch", "-nx", "-iex", "set confirm off", "-iex", "set debuginfod enabled off"]
        line += ["-p", str(pid)] if pid else []
        for command in [Gdb.load, *commands]:
            line += ["-ex", command]
        return line + ([] if pid else [program])


class Lldb:
    load = f"command script import {ROOT}/debugger/watchctl_lldb.py"
    stop_in_work = ["breakpoint set -n work", "run"]

    @staticmethod
    def line(program, commands, pid=None):
        line = [LLDB, "--no-lldbinit", "-b"] + (["-p", str(pid)] if pid else [])
        for command in [Lldb.load, *commands]:
            line += ["-o", command]
        return line + ([] if pid else [program])


def environment():
    server = next((f"/usr/bin/lldb-server-{n}" for n in (19, 18, 17, 16, 15, 14)
                   if os.path.exists(f"/usr/bin/lldb-server-{n}")), "")
    return dict(os.environ, WATCHCTL=WATCHCTL, LLDB_DEBUGSERVER_PATH=server)


@pytest.fixture(params=[Gdb, Lldb])
def debugger(request):
    if request.param is Gdb and not GDB:
        pytest.skip("there is no gdb")
    if request.param is Lldb:
        if not LLDB:
            pytest.skip("there is no lldb (package lldb-19)")
        probe = subprocess.run([LLDB, "-b", "-o", "script print(6 * 7)"], capture_output=True, text=True,
                               timeout=WAIT)
        if "\n42" not in probe.stdout:
            pytest.skip("this LLDB has no Python")
    return request.param


def session(debugger, program, *commands):
    """A batch session; what it printed."""
    done = subprocess.run(debugger.line(program, commands), capture_output=True, text=True, timeout=WAIT,
                          stdin=subprocess.DEVNULL, env=environment())
    return done.stdout + done.stderr


def account(said):
    """What the victim says that it did."""
    words = re.search(r"^total (\d+) state (\d+) sum (\d+)$", said, re.M)
    assert words, said
    return dict(zip(("total", "state", "sum"), map(int, words.groups())))


def recorded(said, watch):
    """Of the accesses that the CPU counted, those in the report: all."""
    found = re.search(rf"^{re.escape(watch)}: (\d+) accesses? counted by the CPU: (\d+) recorded, 0 lost", said, re.M)
    assert found, said
    assert found[1] == found[2]
    return int(found[1])


def test_what_is_armed_in_a_debugger_is_recorded_while_the_program_runs_on(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm total", "watchctl-arm table[1].state -w",
                   "continue", "watchctl-sites")
    mine = account(said)
    assert recorded(said, "total") == mine["total"] == 60
    assert recorded(said, "table[1].state") == mine["state"] == 5
    # The log knows the names, since they mean the same to watchctl.
    assert re.search(r"^ *60 +total +(write|rw) +add\+\d+ +armed\.c:\d+", said, re.M), said


def test_a_local_variable_is_watched_until_its_frame_is_left(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm sum", "continue", "watchctl-sites",
                   "watchctl-events 1 --no-stack -n 3")
    address = re.search(r"watch 1: sum, 4 bytes at (0x[0-9a-f]+), writes", said)[1]
    # Its initialization is still to come where lldb stops: the 61st.
    assert recorded(said, address) in (account(said)["sum"], account(said)["sum"] + 1)
    assert "ended, the frame that it belonged to was left" in said
    assert "scribble" not in said
    assert len(re.findall(rf"^\d\d:\d\d:\S+ +armed/\d+ .* {address} ", said, re.M)) == 3


def test_options_of_watchctl_are_passed_on(debugger, armed, tmp_path):
    log = tmp_path / "kept"
    said = session(debugger, armed, *debugger.stop_in_work, f"watchctl-arm total -rw --if 'new>1000' -o {log}",
                   "continue", "watchctl-sites")
    # Sums of 1..n above 1000: n from 45 on. The read before each addition is a part of the same or of another
    # instruction, and sees the value before.
    report = subprocess.run([WATCHCTL, "report", "--json", str(log)], capture_output=True, text=True, check=True,
                            timeout=WAIT).stdout
    writes = len(re.findall(r'"type":"access".*"kind":"(?:write|readwrite)"', report))
    assert writes == 60 - 44, said


@pytest.mark.parametrize("command, why", [
    ("watchctl-arm nosuch", "nosuch"),
    ("watchctl-arm rounds+1", "without a place"),
    ("watchctl-arm", "usage"),
    ("watchctl-arm total --json", "leave it out"),
    ("watchctl-arm total --engin ring", "--engin"),
    ("watchctl-sites", "nothing has been armed"),
    ("watchctl-disarm 7", "nothing has been armed"),
])
def test_what_cannot_be_done_is_said(debugger, armed, command, why):
    said = session(debugger, armed, *debugger.stop_in_work, command)
    assert re.search(rf"watchctl-\w+: .*{re.escape(why)}", said), said
    assert "Traceback" not in said


def test_executions_of_a_function_are_recorded(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm add -x", "continue", "watchctl-sites")
    assert recorded(said, "add") == account(said)["total"]


def test_without_a_process_it_says_so(debugger, armed):
    assert "no process is being debugged" in session(debugger, armed, "watchctl-arm total")


def test_disarm_ends_the_recording_and_the_program_goes_on(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm total", "watchctl-disarm", "continue")
    assert re.search(r"disarmed; 0 accesses counted by the CPU", said), said
    assert account(said)["total"] == 60


def watchers(pid):
    """The watchctls at work on @pid."""
    return subprocess.run(["pgrep", "-f", f"watchctl -p {pid} "], capture_output=True, text=True,
                          timeout=WAIT).stdout.split()


def test_when_the_debugger_is_killed_the_watch_ends_and_the_program_lives(debugger, armed):
    program = subprocess.Popen([armed, "600"], stdout=subprocess.PIPE, text=True)
    pid = int(program.stdout.readline().split()[1])
    stay = "shell sleep 600" if debugger is Gdb else "script import time; time.sleep(600)"
    debugging = subprocess.Popen(debugger.line(armed, ["watchctl-arm total", stay], pid), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
                                 start_new_session=True)
    try:
        said = ""
        while ", log " not in said:  # until it is armed
            line = debugging.stdout.readline()
            assert line, said
            said += line
        assert watchers(pid)
        os.killpg(debugging.pid, signal.SIGKILL)
        wait_until(lambda: not watchers(pid))
        assert program.poll() is None
        folder = next(iter(logs_of(said)))
        wait_until(lambda: not os.path.exists(folder))
    finally:
        program.kill()
        debugging.wait()
        debugging.stdout.close()
        program.communicate()


def logs_of(said):
    """The folders that logs were put into."""
    return set(re.findall(r", log (/\S+/watchctl-[^/]+)/log-\d+$", said, re.M))


def test_the_logs_go_with_the_debugger(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm total", "watchctl-arm table[1].state", "continue")
    folders = logs_of(said)
    assert len(folders) == 1
    wait_until(lambda: not os.path.exists(next(iter(folders))))


def test_a_local_variable_hides_a_global_of_its_name(debugger, tmp_path):
    """By its name, watchctl would find the global one."""
    source, program = tmp_path / "hide.c", tmp_path / "hide"
    source.write_text("int n = 1;\n__attribute__((noinline)) int work(void)\n{\n\tvolatile int n = 0;\n\tint i;\n"
                      "\tfor (i = 0; i < 7; i++)\n\t\tn += i;\n\treturn n;\n}\n"
                      "int main(void)\n{\n\tn = work();\n\tn = 0;\n\treturn n;\n}\n")
    subprocess.run(["gcc", "-O0", "-g", "-o", program, source], check=True, timeout=WAIT)
    said = session(debugger, str(program), *debugger.stop_in_work, "watchctl-arm n", "continue", "watchctl-sites")
    address = re.search(r"watch 1: n, 4 bytes at (0x[0-9a-f]+), writes", said)[1]
    # With or without its initialization: see above.
    assert recorded(said, address) in (7, 8)
    assert "hide.c:7" in said and "hide.c:12" not in said


def test_when_no_register_is_left_it_says_what_would_free_one(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm table", "watchctl-arm total")
    assert re.search(r"^watch 1: table, 32 bytes", said, re.M), said
    assert "armed from here: 1 (table); watchctl-disarm" in said


def test_json_of_a_watch_is_nothing_but_objects(debugger, armed):
    said = session(debugger, armed, *debugger.stop_in_work, "watchctl-arm total", "continue", "watchctl-sites --json")
    objects = said[said.index('{"type"'):].splitlines()
    assert any('"type":"site"' in o for o in objects)
    assert "watch 1: " not in said[said.index('{"type"'):]


@pytest.mark.slow
def test_what_is_detached_from_stays_armed_until_it_is_disarmed(debugger, armed):
    program = subprocess.Popen([armed, "600"], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(program.stdout.readline().split()[1])
        stay = "shell sleep 3" if debugger is Gdb else "script import time; time.sleep(3)"
        done = subprocess.run(debugger.line(armed, ["watchctl-arm total", "detach", stay, "watchctl-disarm 1"], pid),
                              capture_output=True, text=True, timeout=WAIT, stdin=subprocess.DEVNULL, env=environment())
        said = done.stdout + done.stderr
        found = re.search(r"disarmed; (\d+) accesses counted by the CPU: (\d+) recorded, 0 lost", said)
        assert found and found[1] == found[2] and int(found[1]) > 0, said
        assert "ended with the process" not in said and program.poll() is None
    finally:
        program.kill()
        program.communicate()
