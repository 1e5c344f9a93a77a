# rooms: target patch
"""Programs whose code the CPU never executes: Valgrind and its kind run a translation, of which a patch or a breakpoint becomes a part that stays."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import WAIT, WATCHCTL, Victim

PROBE = '#include <watchctl/probe.h>\nPROBE(on_write) { probe_log("write"); }\n'


@pytest.fixture
def translated(build):
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind")
    v = Victim(build("puppet"), prefix=["valgrind", "-q", "--vgdb=no"])
    yield v
    v.process.kill()
    v.process.wait()


def said(*words, cwd=None):
    return subprocess.run([WATCHCTL, *map(str, words)], capture_output=True, text=True, timeout=WAIT, cwd=cwd)


@pytest.mark.parametrize("words", [["patch", "--at", "entry write_flag", "--call", "on_write", "probes.c"], ["step", "--from", "write_flag", "-o", "log"],
                                   ["step", "--stepper", "lldb", "--from", "write_flag", "-o", "log"], ["-v", "write_flag", "-x"],
                                   ["-v", "write_flag", "-x", "--engine", "ptrace"]], ids=["patch", "step", "lldb", "-x", "-x ptrace"])
def test_nothing_is_put_into_its_code_and_it_works_on(request, translated, tmp_path, words):
    if "-x" in words:
        request.getfixturevalue("hardware")
    (tmp_path / "probes.c").write_text(PROBE)
    r = said(*words, "-t", 1, "-p", translated.pid, cwd=tmp_path)
    assert r.returncode == 7 and f"process {translated.pid} runs in Valgrind, where the CPU executes a translation" in r.stderr
    translated.tell("write 5")
    translated.tell("inc 5")
    assert translated.finish() == 0


@pytest.mark.parametrize("engine", ["handler", "ptrace", "ring"])
def test_accesses_to_its_variables_are_true(hardware, translated, watch, engine):
    if engine == "ring" and os.geteuid():
        pytest.skip("the ring engine needs root")
    w = watch("-p", translated.pid, "-v", "flag", "-w", "--engine", engine)
    translated.tell("write 20")
    w.end()
    assert len(w.accesses) == 20 and w.balanced()
    assert translated.finish() == 0


def run_with(mapped, tmp_path):
    """A Python that has mapped a library of that name, and what patch says of it."""
    library = tmp_path / mapped
    library.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy("/lib/x86_64-linux-gnu/libm.so.6", library)
    (tmp_path / "probes.c").write_text(PROBE)
    p = subprocess.Popen([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r}); print('ready', flush=True); import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        return said("patch", "-p", p.pid, "--at", "entry PyLong_FromLong", "--call", "on_write", "probes.c", "-t", 0.1, "-q", cwd=tmp_path)
    finally:
        p.communicate()


@pytest.mark.parametrize("mapped,name", [("libdynamorio.so", "DynamoRIO"), ("pinbin", "Pin"), ("qemu-x86_64-static", "QEMU"), ("valgrind/mine-amd64-linux", "Valgrind")])
def test_each_translator_is_known_by_what_it_maps(tmp_path, mapped, name):
    r = run_with(mapped, tmp_path)
    assert r.returncode == 7 and f"runs in {name}, where" in r.stderr


@pytest.mark.parametrize("mapped", ["mine-amd64-linux", "libvalgrind.so", "libpinbin.so"])
def test_files_of_similar_names_are_no_translators(tmp_path, mapped):
    r = run_with(mapped, tmp_path)
    assert r.returncode == 0, r.stderr
