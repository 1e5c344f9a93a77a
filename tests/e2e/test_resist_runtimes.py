# rooms: engine target code
"""Programs with a runtime of their own (JIT, garbage collection, signals, stacks): what is told of them, and what they notice."""
import json
import subprocess

import pytest
import resist_real
from conftest import WAIT, WATCHCTL, wait_until
from test_step import events, of
from test_step_harm import code_differs, step_tracers

HITS = 500
CYCLES = 21


@pytest.fixture(scope="module", params=resist_real.PROGRAMS)
def program(request, hardware):
    """It is started once, watched by every test, and must end in an orderly way after all of them."""
    started = resist_real.start(request.param)
    failed = request.session.testsfailed
    try:
        started.hit(HITS)  # what a JIT compiles is compiled
        yield started
        if request.session.testsfailed == failed:
            started.finish()
    finally:
        started.kill()


@pytest.mark.parametrize("engine", resist_real.ENGINES)
def test_each_write_is_told_as_the_program_accounts_for_it(program, watch, engine):
    with resist_real.left_as_found(program):
        w = watch(*program.watch(), "--engine", engine, "--no-stack")
        before = program.value()
        after = program.hit(HITS)
        written = program.written(before, after)
        program.well()
        w.end()
    armed, summary = w.of("armed")[0], w.summary()
    assert armed["engine"] == engine and armed["threads_armed"] == armed["threads"]
    assert after - before == HITS == summary["counted"] == summary["recorded"] and w.balanced()
    new = [int(a["new"], 16) for a in w.accesses]
    assert set(new) <= set(written) if program.atomic else new == written


@pytest.mark.slow
def test_under_load_we_come_and_go_and_are_killed_and_it_works_on(program, watch):
    resist_real.come_and_go(program, watch, CYCLES)


@pytest.mark.parametrize("program", ["python", "java", "go", "musl"], indirect=True)
def test_a_recorder_that_is_killed_in_mid_work_leaves_its_log_and_the_program(program, tmp_path, run):
    def written():
        """What was written since all threads were armed: before, it is seen of some of them."""
        told = [json.loads(line) for line in run("report", tmp_path / "log", "--json").stdout.splitlines()]
        armed = next((o["time_ns"] for o in of(told, "armed")), float("inf"))
        return [int(o["new"], 16) for o in of(told, "access") if o["time_ns"] > armed]

    with resist_real.left_as_found(program), resist_real.Load(program) as load:
        w = subprocess.Popen([WATCHCTL, "record", *map(str, program.watch()), "--ring", "1M", "-o", tmp_path / "log"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(written)
        w.kill()
        w.wait()
        load.goes_on()
        wait_until(lambda: "nothing" in resist_real.clear(program.pid))
    new = written()
    if not program.atomic and program.size == 8:
        assert new == list(range(new[0], new[0] + len(new)))


@pytest.mark.slow
@pytest.mark.parametrize("program", ["java", "go", "rust", "luajit"], indirect=True)
def test_calls_are_recorded_and_when_the_recorder_is_killed_it_works_on(program, tmp_path):
    """Breakpoints in a runtime that has traps and signals of its own."""
    with resist_real.left_as_found(program), resist_real.Load(program) as load:
        code = code_differs(program.pid)
        for ending in ("interrupt", "kill"):
            w = subprocess.Popen([WATCHCTL, "step", "-q", "-o", tmp_path / ending, "-p", str(program.pid), *program.calls],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            armed = lambda: code_differs(program.pid) != code or w.poll() is not None
            assert wait_until(armed) and w.poll() is None, (w.poll(), w.poll() is not None and w.stderr.read())
            load.goes_on()
            getattr(w, "kill" if ending == "kill" else "terminate")()
            w.communicate(timeout=WAIT)
            wait_until(lambda: not resist_real.tracers(program.pid) and not step_tracers(program.pid))
            assert code_differs(program.pid) == code
            load.goes_on()
        program.well()
    assert of(events(tmp_path / "interrupt"), "call")


LAUNCHED = {"go": "main.counter", "rust": "RESIST_COUNTER", "musl": "cell", "static_pie": "cell", "python": "libc.so.6:environ",
            "node": "libc.so.6:environ", "java": "libc.so.6:environ", "luajit": "libc.so.6:environ"}
SCRIPT = "hit 100\nhit 7\ncheck 0\nbye 0\n"


def launch(name, engine, tmp_path):
    """Returns the exit code, all that was said, and the summary; what the program said is as it should be."""
    options = ["-s", "8", "-w", "-q", "--json", "--output", tmp_path / "out", "--engine", engine, "--pending"]
    command = [*resist_real.command(name), *(["12345"] if name == "node" else [])]
    r = subprocess.run([WATCHCTL, "-v", LAUNCHED[name], *options, "--", *command], input=SCRIPT, capture_output=True, text=True,
                       timeout=WAIT)
    answers = [line.split() for line in r.stdout.splitlines()[1:]]
    assert [a[:2] for a in answers[:2]] == [["ok", "100"], ["ok", "107"]] and answers[3] == ["bye", "107", "0"], r.stdout
    said = (tmp_path / "out").read_text()
    return r.returncode, said + r.stderr, next(o for o in map(json.loads, said.splitlines()) if o["type"] == "summary")


@pytest.mark.parametrize("name, engine", [("go", "ring"), ("go", "ptrace"), ("rust", "handler"), ("rust", "ring"), ("rust", "ptrace"),
                                          ("static_pie", "handler"), ("musl", "ptrace"), ("python", "handler"), ("node", "handler"),
                                          ("java", "ptrace"), ("luajit", "handler")])
def test_one_that_we_launch_does_the_same_and_is_watched_from_its_first_instruction(name, engine, hardware, tmp_path):
    code, said, summary = launch(name, engine, tmp_path)
    assert code == 0, said
    assert summary["lost"] == 0 and summary["recorded"] + summary["filtered"] == summary["counted"]
    if "environ" in LAUNCHED[name]:
        assert summary["recorded"] >= 1  # libc's own, before main
    else:
        assert summary["recorded"] == 107


def test_a_runtime_that_takes_sigtrap_when_it_starts_comes_to_no_harm_and_is_told(hardware, tmp_path):
    code, said, summary = launch("go", "handler", tmp_path)
    assert code in (0, 7) and summary["recorded"] == 0 and summary["counted"] == summary["lost"]
    assert "replaced watchctl's SIGTRAP handler" in said or "its own SIGTRAP handler" in said, said


@pytest.fixture
def heap_stack():
    started = []

    def start(*args):
        made = resist_real.built("resist_heap_stack", "heap_stack.c", "gcc", "-O1", "-g", "{source}", "-o", "{target}")
        started.append(resist_real.Program(made, *args))
        return started[-1]

    yield start
    for program in started:
        program.kill()


def test_the_heap_around_a_coroutines_stack_is_not_written_to(heap_stack, watch):
    """What is put into a program needs a place first, and "below the stack pointer" is the program's own memory here."""
    program = heap_stack()
    for _ in range(3):
        w = watch(*program.watch(), "--engine", "handler")
        program.hit(20)
        w.end()
        assert w.summary()["recorded"] == 20 and w.balanced()
        assert program.check()
    program.finish()


def test_where_no_memory_is_certainly_unused_nothing_is_put_into_the_program(heap_stack, watch, run):
    program = heap_stack("deep")
    with resist_real.left_as_found(program):
        r = run(*program.watch(), "--engine", "handler", "-n", 1)
        assert r.returncode == 7 and "certainly unused" in r.stderr and "--engine ring" in r.stderr, r.stderr
        assert program.check()
        for engine in ("ring", "ptrace"):
            w = watch(*program.watch(), "--engine", engine)
            program.hit(20)
            w.end()
            assert w.summary()["recorded"] == 20 and w.balanced()
            assert program.check()
    program.finish()
