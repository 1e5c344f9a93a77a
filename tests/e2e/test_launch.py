# rooms: target monitor engine/arm
"""Launch mode: armed before the program's first instruction, and for libraries that come later."""
import json
import os
import signal
import subprocess

import pytest
from conftest import WAIT, WATCHCTL, wait_until

PROGRAMS = ["puppet", "puppet_nopie", "puppet_static", "puppet_static_pie", "puppet_musl"]


def launch(tmp_path, program, *options, stdin="", expect=0, args=(), may_be_late=False):
    """How it ended and what it told, in a session in which no thread was late: on a busy machine that may take a few, or @may_be_late."""
    out = tmp_path / "out.json"

    def once():
        r = subprocess.run([WATCHCTL, *options, "--json", "--output", str(out), "--", program, *map(str, args)],
                           input=stdin, capture_output=True, text=True, timeout=WAIT)
        objects = [json.loads(line) for line in out.read_text().splitlines()]
        if any("a thread did not wait" in n["text"] for n in of(objects, "note")) or (expect == 0 and "was never armed" in r.stderr):
            return (None, None) if may_be_late else None
        assert r.returncode == expect, r.stderr
        return r, objects

    return wait_until(once)


def of(objects, kind):
    return [o for o in objects if o["type"] == kind]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launched_program_is_watched_from_its_first_instruction(build, hardware, tmp_path, name):
    r, objects = launch(tmp_path, build(name), "-v", "flag", "-rw", stdin="write 3\nread 2\nexit 0\n")
    accesses = of(objects, "access")
    assert [a["kind"] for a in accesses] == ["write"] * 3 + ["read"] * 2
    assert r.stdout.startswith("pid ")  # the program's own output, untouched
    summary = of(objects, "summary")[0]
    assert summary["counted"] == summary["recorded"] == 5


def test_what_a_library_exports_is_waited_for(build, hardware, tmp_path):
    """The loader has an "environ" of its own, which is there first; the program's is libc's."""
    _, objects = launch(tmp_path, build("puppet"), "-v", "environ", "-w", stdin="exit 0\n")
    assert "libc" in of(objects, "armed")[0]["module"]
    assert len(of(objects, "access")) >= 1


def test_relocations_by_the_loader_are_seen(build, hardware, tmp_path):
    """stats.head is initialised with an address: in a PIE the loader writes it, before main."""
    _, objects = launch(tmp_path, build("puppet"), "-v", "stats.head", "-w", stdin="exit 0\n")
    accesses = of(objects, "access")
    assert len(accesses) == 1
    assert "ld-linux" in accesses[0]["module"]


def test_a_library_that_is_loaded_later_is_armed_before_its_constructors(build, hardware, tmp_path):
    library = build("libplugin.so")
    _, objects = launch(tmp_path, build("linked"), "-v", "libplugin.so:plugin_state", "-w", args=[library, 5])
    accesses = of(objects, "access")
    functions = [a["function"] for a in accesses]
    assert functions == ["plugin_start"] + ["plugin_touch"] * 5
    assert [int(a["new"], 16) for a in accesses] == [100, 0, 1, 2, 3, 4]


def test_a_running_program_that_loads_the_library_later(victim, build, watch, run):
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "libplugin.so:plugin_state", "-w", "--pending", wait=False)
    wait_until(lambda: '"used":1' in run("list", "-p", v.pid, "--json").stdout)  # in the loader
    v.tell("dlopen " + build("libplugin.so"))
    w.wait_for("armed")
    v.tell("plugin 4")
    w.end()
    # It waits for a bounded time: a busy machine may have made it go on, and then that is told.
    told = any("before that watch was armed are not seen" in n["text"] for n in w.of("note"))
    assert [a["function"] for a in w.accesses] in (["plugin_start"] + ["plugin_touch"] * 4, *[["plugin_touch"] * 4] * told)


def test_a_program_that_did_not_wait_until_its_library_was_armed_is_said_to_have_gone_on(victim, build, watch, run):
    """watchctl stands still meanwhile, as if it had been killed: nobody waits for that."""
    v = victim("puppet")
    w = watch("-p", v.pid, "-v", "libplugin.so:plugin_state", "-w", "--pending", wait=False)
    wait_until(lambda: '"used":1' in run("list", "-p", v.pid, "--json").stdout)  # in the loader
    w.process.send_signal(signal.SIGSTOP)
    v.tell("dlopen " + build("libplugin.so"))
    v.tell("plugin 4")
    w.process.send_signal(signal.SIGCONT)
    wait_until(lambda: w.of("note") and w.of("armed"))
    v.tell("plugin 2")
    w.end()
    note, = w.of("note")
    assert "before that watch was armed are not seen" in note["text"]
    assert [a["function"] for a in w.accesses] == ["plugin_touch"] * 2


def test_a_library_the_program_is_linked_with(hardware, tmp_path):
    _, objects = launch(tmp_path, "/usr/bin/python3", "-v", "libc.so.6:main_arena.system_mem", "-w",
                        args=["-c", "x = [bytearray(5000) for i in range(200)]"])
    armed, accesses = of(objects, "armed"), of(objects, "access")
    assert len(armed) == 1 and accesses
    assert int(accesses[0]["old"], 16) == 0  # the heap's very first growth


def test_two_variables_one_here_one_to_come(build, hardware, tmp_path):
    library = build("libplugin.so")
    _, objects = launch(tmp_path, build("linked"), "-v", "libplugin.so:plugin_state", "-w", "-v",
                        "libc.so.6:main_arena.system_mem", "-w", args=[library, 2], may_be_late=True)
    if not objects:  # three waits, each of 0.3 s at most: under load that may be too short in every session
        pytest.skip("this machine is too busy: a thread did not wait until its watch was armed, and that was told")
    assert {o["watch"] for o in of(objects, "armed")} == {"libplugin.so:plugin_state",
                                                          "libc.so.6:main_arena.system_mem"}
    assert len([a for a in of(objects, "access") if a["watch"].startswith("libplugin")]) == 3


def test_a_name_that_is_nowhere_ends_the_launch_before_the_program_runs(build, hardware, tmp_path):
    r, objects = launch(tmp_path, build("puppet"), "-v", "flagg", expect=5, stdin="")
    assert "flag" in r.stderr and r.stdout == ""


def test_a_library_that_never_comes_is_said_to_be_missing(build, hardware, tmp_path):
    r = subprocess.run([WATCHCTL, "-v", "libnowhere.so:x", "--", build("puppet")], input="exit 0\n",
                       capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 5, r.stderr
    assert "libnowhere.so" in r.stderr


def test_a_program_that_cannot_be_executed(run):
    r = run("-v", "flag", "--", "/nonexistent/program")
    assert r.returncode == 2 and "cannot run /nonexistent/program" in r.stderr


@pytest.mark.parametrize("command", [[], ["record"]])
@pytest.mark.parametrize("name, program", [("flagg", "puppet"), ("flag", "/nonexistent/program"), ("flag", __file__)])
def test_a_launch_that_comes_to_nothing_leaves_no_log(build, run, hardware, tmp_path, command, name, program):
    program = program if program.startswith("/") else build(program)
    log = tmp_path / "log"
    r = run(*command, "-v", name, "-o", log, "--", program)
    assert r.returncode != 0 and os.listdir(tmp_path) == []
    assert run(*command, "-v", "flag", "-o", log, "--", build("puppet"), input="write 3\nexit 0\n").returncode == 0
    old = {p.name: p.read_bytes() for p in log.iterdir()}
    assert run(*command, "-v", name, "-o", log, "--force", "--", program).returncode != 0
    assert os.listdir(tmp_path) == ["log"] and {p.name: p.read_bytes() for p in log.iterdir()} == old


@pytest.mark.parametrize("ignored", [[], [signal.SIGHUP, signal.SIGPIPE]])
def test_the_launched_program_has_the_signals_and_descriptors_it_would_have_alone(hardware, tmp_path, ignored):
    def ignore():
        for sig in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(sig, signal.SIG_IGN if sig in ignored else signal.SIG_DFL)

    script = ("import os, signal\n"
              "print(signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGXFSZ))\n"
              "print(sorted(int(f) for f in os.listdir('/proc/self/fd')))\n"
              "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0])\n")
    alone = subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                           preexec_fn=ignore)
    watched = subprocess.run([WATCHCTL, "-v", "libc.so.6:main_arena.system_mem", "-q", "--output", str(tmp_path / "o"),
                              "--", "/usr/bin/python3", "-c", script], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=WAIT, preexec_fn=ignore)
    assert watched.stdout == alone.stdout, watched.stderr


def test_killing_watchctl_leaves_the_launched_program_running(build, hardware):
    p = subprocess.Popen([WATCHCTL, "-v", "flag", "-q", "--", build("puppet")], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
    pid = int(p.stdout.readline().split()[1])
    p.kill()
    p.wait()
    p.stdin.write("write 10\n")
    p.stdin.flush()
    assert p.stdout.readline().startswith("ok")
    os.kill(pid, signal.SIGTERM)


# Where what is printed goes

def objects_of(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("how", ["watch", "record", "step"])
def test_json_goes_to_standard_output_when_the_programs_goes_elsewhere(build, hardware, tmp_path, how):
    words = {"watch": ["-v", "flag", "-w"], "record": ["record", "-v", "flag", "-w", "-o", tmp_path / "log"],
             "step": ["step", "--from", "main", "--depth", "1"]}[how]
    r = subprocess.run([WATCHCTL, *map(str, words), "--json", "--program-output", tmp_path / "program", "--", build("puppet")],
                       input="write 3\n", capture_output=True, text=True, timeout=WAIT)
    assert r.returncode == 0, r.stderr
    printed = objects_of(r.stdout)
    assert (tmp_path / "program").read_text().startswith("pid ") and "write" not in r.stderr
    if how == "watch":
        assert len(of(printed, "access")) == 3 and r.stderr == ""
    assert of(printed, {"watch": "summary", "record": "recorder", "step": "call"}[how])


def test_json_says_where_it_goes_when_standard_output_is_the_programs(build, hardware, tmp_path):
    r = subprocess.run([WATCHCTL, "-v", "flag", "-w", "--json", "--", build("puppet")], input="write 3\n",
                       capture_output=True, text=True, timeout=WAIT)
    printed = objects_of(r.stderr)
    assert r.stdout.startswith("pid ") and len(of(printed, "access")) == 3
    assert printed[0]["type"] == "note" and "--program-output" in printed[0]["text"]
    out = tmp_path / "out"
    r = subprocess.run([WATCHCTL, "-v", "flag", "-w", "--json", "--output", out, "--", build("puppet")], input="write 3\n",
                       capture_output=True, text=True, timeout=WAIT)
    assert not [o for o in of(objects_of(out.read_text()), "note") if "--program-output" in o["text"]]


def test_the_programs_output_can_be_sent_elsewhere_only_when_it_is_started(run):
    for words in (["-p", "1", "-v", "flag"], ["record", "-p", "1", "-v", "flag", "-o", "x"], ["step", "-p", "1"]):
        r = run(*words, "--program-output", "f")
        assert r.returncode == 2 and "--program-output needs a program to launch" in r.stderr
