# rooms: view/print view/table view/event trace/log
"""watchctl report and the command table, run as a user runs them, on logs written by another program."""

import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import tracelog_py as log  # noqa: E402
from conftest import WAIT, peak_memory  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WATCHCTL = os.environ.get("WATCHCTL", os.path.join(ROOT, "build", "bin", "watchctl"))
FLAG, COUNT = 0x404010, 0x404020
STORE, LOAD = 0x401002, 0x401012  # where execution goes on behind mov [rdi], eax and mov eax, [rdi]


def run(*args, **options):
    options.setdefault("env", dict(os.environ, TZ="UTC", TERM="xterm"))
    return subprocess.run([WATCHCTL, *args], capture_output=True, text=True, timeout=WAIT, **options)


def preamble():
    return [
        log.process(1000, 77, "app", 1700000000 * 10**9),
        log.watch(1001, 0, "flag", FLAG),
        log.watch(1002, 1, "count", COUNT),
        log.code(1003, STORE, b"\x89\x07"),
        log.code(1004, LOAD, b"\x8b\x07"),
        log.stack(1005, 0, [STORE, 0x401100]),
        log.stack(1006, 1, [LOAD]),
    ]


def accesses(n):
    return [log.access(2000 + 10 * i, 0, 77, FLAG, i, i + 1, 0, STORE) for i in range(n)]


@pytest.fixture
def sample(tmp_path):
    events = preamble() + accesses(3)
    events += [log.access(3000, 1, 78, COUNT, 9, 9, 1, LOAD)]
    events += [log.summary(4000, 0, 3, 3), log.summary(4001, 1, 1, 1)]
    return log.write_log(tmp_path / "log", [log.packet(events[:5]), log.packet(events[5:])])


def objects(result, kind):
    return [o for o in map(json.loads, result.stdout.splitlines()) if o["type"] == kind]


def test_text_form_has_accesses_table_and_summary(sample):
    r = run("report", sample)
    assert r.returncode == 0 and r.stderr == ""
    assert r.stdout.count("write  flag") == 3
    assert "    3  flag   write  0x401000 " in r.stdout
    assert "    #1  0x401100\n" in r.stdout
    assert "flag: 3 accesses counted by the CPU: 3 recorded, 0 lost, 0 filtered, in 1.0 s\n" in r.stdout
    assert "\033" not in r.stdout


def test_json_form_has_the_documented_fields(sample):
    r = run("report", "--json", sample)
    assert r.returncode == 0
    first = objects(r, "access")[0]
    assert first == first | {
        "time_ns": 2000, "time": "2023-11-14T22:13:20.000001000Z", "pid": 77, "tid": 77, "comm": "app",
        "watch": "flag", "addr": "0x404010", "size": 4, "kind": "write", "origin": "user", "old": "0x0", "new": "0x1",
        "ip": "0x401000", "insn": "mov dword ptr [rdi], eax",
        "stack": [{"ip": "0x401000", "inlined": False}, {"ip": "0x401100", "inlined": False}],
    }
    assert "regs" not in first and "function" not in first
    assert [(s["watch"], s["kind"], s["count"]) for s in objects(r, "site")] == [
        ("flag", "write", 3), ("count", "read", 1)]
    assert objects(r, "summary")[0] == {
        "type": "summary", "watch": "flag", "counted": 3, "recorded": 3, "lost": 0, "filtered": 0,
        "duration_ns": 10**9, "complete": True}
    assert objects(r, "armed")[1]["threads_armed"] == 1


def test_last_accesses_only(sample):
    r = run("report", "--json", "-n", "2", sample)
    assert [a["time_ns"] for a in objects(r, "access")] == [2020, 3000]
    assert objects(r, "site")[0]["count"] == 3
    assert objects(run("report", "--json", "-n0", sample), "access") == []


def test_one_watch_only(sample):
    r = run("report", "--json", "--watch", "count", sample)
    assert {o["watch"] for o in map(json.loads, r.stdout.splitlines()) if "watch" in o} == {"count"}
    r = run("report", "--watch", "cuont", sample)
    assert r.returncode == 5
    assert "has no watch \"cuont\"; its watches are: flag, count" in r.stderr


def test_table_or_accesses_alone(sample):
    r = run("report", "--json", "--sites", sample)
    assert objects(r, "site") and not objects(r, "access")
    r = run("report", "--json", "--events", sample)
    assert objects(r, "access") and not objects(r, "site") and objects(r, "summary")
    assert run("report", "--sites", "--events", sample).returncode == 2


def test_stack_and_registers_on_request(sample):
    r = run("report", "--json", "--no-stack", "--regs", sample)
    first = objects(r, "access")[0]
    assert "stack" not in first
    assert first["regs"]["rdi"] == "0x404010" and first["regs"]["rip"] == "0x401002"


def test_truncated_log_prints_what_is_whole_and_says_so(tmp_path):
    whole = log.packet(preamble() + accesses(3))
    path = log.write_log(tmp_path / "log", [whole[:-10]])
    r = run("report", "--json", path)
    assert r.returncode == 8
    assert len(objects(r, "access")) == 2
    assert objects(r, "summary")[0]["complete"] is False
    ignored = len(accesses(1)[0]) - 10
    assert "is not whole: the last %d bytes were ignored, because it ends in the middle of an event" % ignored in r.stderr


def test_what_cannot_be_read_is_said_with_status_8(tmp_path):
    for path, options, words in [
            ("newer", {"major": 3}, "made by a newer version of watchctl"),
            ("foreign", {"tracer": "lttng-modules"}, "made by lttng-modules"),
    ]:
        r = run("report", log.write_log(tmp_path / path, [], **options))
        assert r.returncode == 8 and words in r.stderr and r.stdout == ""
    r = run("report", str(tmp_path / "none"))
    assert r.returncode == 8 and "there is no log" in r.stderr


def test_reader_that_goes_away_ends_it_quietly(tmp_path):
    path = log.write_log(tmp_path / "log", [log.packet(preamble() + accesses(20000))])
    r = subprocess.run("'%s' report '%s' | head -1; exit ${PIPESTATUS[0]}" % (WATCHCTL, path), shell=True,
                       executable="/bin/bash", capture_output=True, text=True, timeout=WAIT)
    assert r.stderr == "" and r.stdout.count("\n") == 1
    assert r.returncode == 0


def test_full_disk_on_output_is_an_error(sample):
    with open("/dev/full", "w") as full:
        r = subprocess.run([WATCHCTL, "report", sample], stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT)
    assert r.returncode == 1 and "No space left" in r.stderr


def test_no_summary_in_the_log_is_made_up_and_marked(tmp_path):
    r = run("report", log.write_log(tmp_path / "log", [log.packet(preamble() + accesses(2))]))
    assert r.returncode == 0
    assert "flag: 2 recorded, 0 lost, 0 filtered" in r.stdout and "ends without a summary" in r.stdout


def test_instructions_are_written_in_the_syntax_asked_for(sample):
    assert "mov dword ptr [rdi], eax" in run("report", "--syntax", "intel", sample).stdout
    r = run("report", "--syntax", "att", sample)
    assert "movl %eax, (%rdi)" in r.stdout and "dword" not in r.stdout
    assert '"insn":"movl %eax, (%rdi)"' in run("report", "--syntax=att", "--json", sample).stdout
    r = run("report", "--syntax", "masm", sample)
    assert r.returncode == 2 and "intel att" in r.stderr
    assert complete("report", "--syntax", "a") == ["att"]


def test_colour_follows_the_option_and_the_environment(sample):
    assert "\033[" in run("report", "--color=always", sample).stdout
    assert "\033[" not in run("report", "--color", "always", "--json", sample).stdout
    assert "\033[" not in run("report", "--color", "never", sample).stdout
    r = run("report", "--color", "sometimes", sample)
    assert r.returncode == 2 and "auto always never" in r.stderr


def test_memory_does_not_grow_with_the_log(tmp_path):
    def peak(n):
        packets = [log.packet(preamble())] + [log.packet(accesses(250))] * (n // 250)
        path = log.write_log(tmp_path / ("log%d" % n), packets)
        status, kib = peak_memory(WATCHCTL, "report", "--no-stack", path)
        assert status == 0
        return kib

    assert peak(100000) < peak(10000) + 4096  # KiB


def test_command_line_mistakes_are_explained():
    for args, words in [
            (["reprot"], 'there is no command "reprot"; did you mean report?'),
            (["report", "--jsno", "x"], "there is no option --jsno; did you mean --json?"),
            (["report"], "needs the name of a log"),
            (["report", "a", "b"], '"b" is one too many'),
            (["report", "-n", "-3", "a"], 'wants a number from 0 to'),
            (["report", "a", "-n"], "option -n needs an argument: COUNT"),
            (["report", "--json=1", "a"], "option --json takes no argument"),
    ]:
        r = run(*args)
        assert r.returncode == 2, args
        assert words in r.stderr and r.stderr.startswith("watchctl: ") and r.stdout == ""


def test_every_command_has_help_a_manual_and_completion():
    names = [line.split("\t")[0] for line in run("__complete").stdout.splitlines()]
    assert "watch" in names and "report" in names
    overview = run("--help").stdout
    for name in names:
        assert "\n  %s " % name in overview
        help_text = run(name, "--help").stdout
        assert help_text.startswith("usage: ") and run("help", name).stdout == help_text
        page = os.path.join(ROOT, "man", "watchctl.1" if name in ("watch", "help") else "watchctl-%s.1" % name)
        with open(page) as f:
            manual = f.read().replace("\\-", "-")
        if "watchctl (1)\nthat say what is watched" in manual:  # it refers to that page for those
            with open(os.path.join(ROOT, "man", "watchctl.1")) as f:
                manual += f.read().replace("\\-", "-")
        for line in run("__complete", name).stdout.splitlines():
            option = line.split("\t")[0]
            if option not in ("-", "--help"):
                told = overview if option == "--version" else help_text
                assert option in told and option in manual, option


def test_version():
    assert run("--version").stdout.startswith("watchctl ")


COMPLETE = r"""
source "%s/completion/watchctl.bash"
COMP_WORDS=(watchctl %s) COMP_CWORD=%d
_watchctl
printf '%%s\n' "${COMPREPLY[@]}"
"""


def complete(*words):
    script = COMPLETE % (ROOT, " ".join("'%s'" % w for w in words), len(words))
    env = dict(os.environ, PATH=os.path.dirname(WATCHCTL) + ":" + os.environ["PATH"])
    r = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=WAIT, env=env)
    assert r.stderr == ""
    return r.stdout.split()


def test_bash_completes_commands_options_and_their_words():
    assert "report" in complete("re")
    assert complete("report", "--no")[0] == "--no-stack"
    assert complete("report", "--color", "al") == ["always"]
    assert "--pending" in complete("--pe")
    assert str(os.getpid()) in complete("-p", str(os.getpid()))
