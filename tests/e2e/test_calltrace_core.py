# rooms: trace/core calltrace/runtime
"""
The calls of a program that has died, from its core: held to what the program says itself about them
(tests/victims/calltrace/dies.c), by the kernel's core where this system leaves one in the working directory, and by gdb's.
"""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest
from conftest import BUILD, VICTIMS, WAIT, WATCHCTL, wait_until
from test_calltrace import CC, PLUGIN, account, events, functions_of, recorded

SOURCE = VICTIMS / "calltrace" / "dies.c"
GDB = ["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off"]
PATTERN = Path("/proc/sys/kernel/core_pattern").read_text().strip()

pytestmark = [
    pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass"),
    pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb, which makes the cores"),
]

Death = namedtuple("Death", "core log said")


@pytest.fixture(scope="session")
def victim(tmp_path_factory):
    program = tmp_path_factory.mktemp("dies") / "dies"
    subprocess.run([CC, "-O1", "-g", str(SOURCE), "-o", str(program), "-lpthread"], check=True, timeout=WAIT)
    return program


def kernel_core(program, args, folder, env):
    """The core that the kernel leaves, and what the program has printed."""
    if "/" in PATTERN or "|" in PATTERN or not PATTERN:
        pytest.skip(f"the kernel's cores go elsewhere: {PATTERN}")
    ran = subprocess.run([str(program), *args], cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
    assert ran.returncode == -(signal.SIGSEGV if args[0] == "segv" else signal.SIGABRT)
    cores = [p for p in folder.iterdir() if p.is_file() and p.read_bytes()[:4] == b"\x7fELF" and p != program]
    if not cores:
        pytest.skip("the kernel has left no core")
    return cores[0], ran.stdout


def gdb_core(program, args, folder, env):
    """The same by gdb, in whose hands the program dies."""
    core = folder / "gdb.core"
    ran = subprocess.run([*GDB, "-ex", "run", "-ex", f"generate-core-file {core}", "--args", str(program), *args], cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT)
    assert core.exists(), ran.stdout + ran.stderr
    return core, ran.stdout


def dies(program, folder, *args, ring="", by=gdb_core, **more):
    env = {**os.environ, "CALLTRACE_OUTPUT": str(folder / "run.log"), "CALLTRACE_RING": ring, **more}
    core, printed = by(program, args, folder, env)
    return Death(core, folder / "run.log", account(printed))


def ask(*args):
    return subprocess.run([WATCHCTL, *map(str, args)], capture_output=True, text=True, timeout=WAIT)


def notes(log):
    return [e["text"] for e in events(log) if e["type"] == "note"]


def still_open(lines):
    stack = []
    for what, name in lines:
        if what == ">":
            stack.append(name)
        else:
            assert stack.pop() == name
    return stack


@pytest.mark.parametrize("by", [kernel_core, gdb_core])
@pytest.mark.parametrize("how", ["segv", "abort"])
@pytest.mark.parametrize("ring", ["", "1M"])
def test_all_events_of_all_threads_are_in_the_core(victim, tmp_path, by, how, ring):
    died = dies(victim, tmp_path, how, "100", ring=ring, by=by)
    assert len(died.said) == 2
    assert recorded(died.core, functions_of(died.said)) == died.said
    told = events(died.core)
    never = {e["tid"]: [] for e in told if e["type"] == "return"}
    for e in told:
        if e["type"] == "return" and e["how"] == "never":
            never[e["tid"]].append(e["function"])
    assert {tid: list(reversed(names)) for tid, names in never.items()} == {tid: still_open(lines) for tid, lines in died.said.items()}
    name = "SIGSEGV" if how == "segv" else "SIGABRT"
    assert any(f"{died.core}" in n and f"died of {name}, in thread {max(died.said, key=lambda t: len(died.said[t]))}" in n for n in notes(died.core))


def test_a_core_continues_the_log_that_the_program_wrote(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "20000")
    names = functions_of(died.said)
    written, rest = recorded(died.log, names), recorded(died.core, names)
    for tid, lines in died.said.items():
        before = written.get(tid, [])
        given = still_open(before)
        assert before == lines[: len(before)]
        assert rest[tid] == [(">", name) for name in given] + lines[len(before):]
    assert any(str(died.log) in n and "not written yet" in n for n in notes(died.core))
    assert any("were open already" in n for n in notes(died.core))


def test_a_ring_has_the_end_of_the_account(victim, tmp_path):
    died = dies(victim, tmp_path, "abort", "20000", ring="128K")
    main = max(died.said, key=lambda t: len(died.said[t]))
    rest = recorded(died.core, functions_of(died.said))
    # Two chunks of 4,096 slots; of an exit whose entry was overwritten the core has nothing to say.
    assert 4096 - 1 <= len(rest[main]) <= 8192
    assert rest[main] == died.said[main][-len(rest[main]):]
    other, = set(died.said) - {main}
    assert rest[other] == died.said[other]
    assert any("flight recorder" in n for n in notes(died.core))


def test_a_flushed_ring_has_what_came_behind_the_flush(victim, tmp_path):
    died = dies(victim, tmp_path, "abort", "20", "flush", ring="128K")
    names = functions_of(died.said)
    written, rest = recorded(died.log, names), recorded(died.core, names)
    for tid, lines in died.said.items():
        assert written[tid] == lines[: len(written[tid])]
        assert rest[tid] == [(">", name) for name in still_open(written[tid])] + lines[len(written[tid]):]


def test_a_living_program_can_be_looked_at(victim, tmp_path):
    env = {**os.environ, "CALLTRACE_OUTPUT": str(tmp_path / "run.log"), "CALLTRACE_RING": "1M"}
    with open(tmp_path / "said", "w", encoding="ascii") as out:
        p = subprocess.Popen([str(victim), "pause", "10"], stdout=out, env=env)
    try:
        wait_until(lambda: len((tmp_path / "said").read_text().splitlines()) == 2 * 10 + 2 * 7 + 2 + 6 + 8)
        subprocess.run([*GDB, "-p", str(p.pid), "-ex", f"generate-core-file {tmp_path}/living"], check=True, capture_output=True, timeout=WAIT)
    finally:
        p.kill()
        p.wait(WAIT)
    said = account((tmp_path / "said").read_text())
    assert recorded(tmp_path / "living", functions_of(said)) == said
    assert any("was alive" in n for n in notes(tmp_path / "living"))


def test_a_static_program_is_read_as_well(tmp_path):
    program = tmp_path / "static"
    subprocess.run([CC, "-O2", "-static", "-fno-pie", "-no-pie", "-w", str(SOURCE), "-o", str(program), "-lpthread"], check=True, timeout=WAIT)
    died = dies(program, tmp_path, "segv", "10", ring="1M")
    assert recorded(died.core, functions_of(died.said)) == died.said


def test_the_process_and_its_functions_have_their_places(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="1M")
    told = events(died.core)
    process = next(e for e in told if e["type"] == "process")
    assert (process["comm"], process["exe"]) == ("dies", str(victim)) and process["pid"] in died.said
    assert {(e["tid"], e["comm"]) for e in told if e["type"] == "call"} == {(tid, "dies") for tid in died.said}
    source = SOURCE.read_text().splitlines()
    for e in told:
        if e["type"] == "call":
            assert e["file"] == str(SOURCE) and f"{e['function']}(" in source[e["line"] - 1]


def test_other_readers_of_a_log_take_a_core(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="1M")
    entered = sum(what == ">" for lines in died.said.values() for what, _ in lines)
    ran = ask("export", died.core, "--to", "chrome", "-o", tmp_path / "chrome.json")
    assert ran.returncode == 0 and f"{entered} calls" in ran.stdout
    assert sum(e.get("ph") in ("X", "B") for e in json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]) == entered
    ran = ask("report", died.core, "--html", tmp_path / "page.html")
    assert ran.returncode == 0 and (tmp_path / "page.html").stat().st_size > 0
    ran = ask("report", died.core, "--calls")
    assert ran.returncode == 0 and "dives(" in ran.stdout and "still open" in ran.stdout
    assert "watchctl-core-" not in (tmp_path / "page.html").read_text()
    ran = ask("report", died.core, "--thread", "nobody")
    assert ran.returncode != 0 and "watchctl-core-" not in ran.stderr


def moved(died, program, tmp_path, change):
    """The functions in the core, and what is noted, with @program changed; the log is there and then not."""
    kept = tmp_path / "kept"
    shutil.copy2(program, kept)
    ret = []
    try:
        change(program)
        for log in (died.log, None):
            if not log:
                shutil.rmtree(died.log)
            told = events(died.core)
            ret.append(({e["function"] for e in told if e["type"] == "call"}, [e["text"] for e in told if e["type"] == "note"]))
    finally:
        program.unlink(missing_ok=True)
        shutil.move(kept, program)
    return ret


def test_names_come_from_the_log_where_the_program_is_gone(victim, tmp_path):
    program = tmp_path / "own"
    shutil.copy2(victim, program)
    died = dies(program, tmp_path, "segv", "3", ring="1M")
    for word, change in (("cannot be read", lambda p: p.unlink()), ("another file", lambda p: (p.unlink(), shutil.copy2("/bin/sh", p)))):
        copy = tmp_path / "copy"
        shutil.copytree(died.log, copy)
        (with_log, noted), (without, noted_then) = moved(died, program, tmp_path, change)
        shutil.move(copy, died.log)
        assert with_log == functions_of(died.said)
        assert any(word in n and "as the log" in n for n in noted)
        assert all(name.startswith("unknown function ") for name in without) and len(without) == len(with_log)
        assert any(word in n and "are unknown" in n for n in noted_then)


def one_sentence(ran):
    return ran.returncode == 8 and ran.stdout == "" and len(ran.stderr.splitlines()) == 1


def test_a_core_that_is_cut_short_is_one_sentence_or_a_note(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="128K")
    whole, names = died.core.read_bytes(), functions_of(died.said)
    cut = tmp_path / "cut"
    sizes = [63, 64, 200, 1000, 4096, *(len(whole) * i // 16 for i in range(1, 16)), len(whole) - 1]
    sentences = 0
    for size in sizes:
        cut.write_bytes(whole[:size])
        ran = ask("report", cut)
        if ran.returncode:
            assert one_sentence(ran) and "cut short" in ran.stderr, (size, ran)
            sentences += 1
        else:
            assert any("cut short" in n for n in notes(cut)) or recorded(cut, names) == died.said, size
    assert sentences >= len(sizes) // 2


def test_a_damaged_descriptor_is_one_sentence_or_a_note(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="128K")
    whole = bytearray(died.core.read_bytes())
    at = whole.find(b"\x8fcalltrace.rings")
    assert at >= 0
    hurt = tmp_path / "hurt"
    for offset in range(16, 112, 4):
        for value in (0, 1, 0x7fffffff, 0xffffffff):
            bad = bytearray(whole)
            struct.pack_into("<I", bad, at + offset, value)
            hurt.write_bytes(bad)
            ran = ask("report", hurt)
            assert ran.returncode == 0 or one_sentence(ran), (offset, value, ran)
    struct.pack_into("<I", whole, at + 16, 99)
    hurt.write_bytes(whole)
    assert "another version" in ask("report", hurt).stderr


def test_a_program_that_recorded_nothing_is_one_sentence(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", CALLTRACE_OUTPUT="")
    ran = ask("report", died.core)
    assert one_sentence(ran) and "CALLTRACE_OUTPUT" in ran.stderr
    plain = tmp_path / "plain"
    subprocess.run(["gcc", "-O1", "-w", str(SOURCE), "-o", str(plain), "-lpthread"], check=True, timeout=WAIT)
    (tmp_path / "plain.d").mkdir()
    died = dies(plain, tmp_path / "plain.d", "segv", "3")
    ran = ask("report", died.core)
    assert one_sentence(ran) and "calltrace-cc" in ran.stderr


def test_what_is_no_core_is_said_as_ever(victim, tmp_path):
    for path in (victim, SOURCE):
        ran = ask("report", path)
        assert one_sentence(ran) and "is not a log" in ran.stderr


def test_nothing_is_left_behind(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="1M")
    room = tmp_path / "room"
    room.mkdir()
    env = {**os.environ, "TMPDIR": str(room)}
    subprocess.run([WATCHCTL, "report", str(died.core)], env=env, check=True, capture_output=True, timeout=WAIT)
    assert not list(room.iterdir())
    subprocess.run([WATCHCTL, "report", str(died.core), "--thread", "nobody"], env=env, check=False, capture_output=True, timeout=WAIT)
    assert not list(room.iterdir())
    # Its reader does not read: it is in the middle of printing when the signal comes.
    p = subprocess.Popen([WATCHCTL, "report", "--json", str(dies_long(victim, tmp_path))], env=env, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: any(room.iterdir()) and p.stdout.peek(1))
        p.send_signal(signal.SIGINT)
        assert p.wait(WAIT) == -signal.SIGINT
    finally:
        p.kill()
        p.wait(WAIT)
        p.stdout.close()
    assert not list(room.iterdir())


def dies_long(victim, tmp_path):
    (tmp_path / "long").mkdir()
    return dies(victim, tmp_path / "long", "segv", "20000", ring="1M").core


def test_a_folder_that_cannot_be_made_is_one_sentence(victim, tmp_path):
    died = dies(victim, tmp_path, "segv", "3", ring="1M")
    ran = subprocess.run([WATCHCTL, "report", str(died.core)], env={**os.environ, "TMPDIR": str(tmp_path / "none")}, capture_output=True, text=True, timeout=WAIT)
    assert one_sentence(ran) and "TMPDIR" in ran.stderr
