# rooms: target step cli/request
"""`watchctl step -- PROGRAM`: its addresses are the same in each run, and it does not notice."""
import ctypes
import subprocess

import pytest

from conftest import WAIT, WATCHCTL

PROGRAM = """#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) int show(const char *what, void *p) { return printf("%s %p\\n", what, p); }
int main(void)
{
	int on_stack = 0;

	show("stack", &on_stack);
	show("heap", malloc(10));
	show("code", (void *)main);
	show("library", (void *)puts);
	fflush(stdout);
	return system("cat /proc/self/personality");
}
"""
STEPPERS = ("ptrace", "lldb", "patch")


@pytest.fixture(scope="module", params=["dynamic", "static"])
def program(request, tmp_path_factory):
    source = tmp_path_factory.mktemp("addresses") / "addresses.c"
    source.write_text(PROGRAM)
    flags = ["-static"] if request.param == "static" else ["-pie"]
    subprocess.run(["gcc", "-g", *flags, "-o", source.with_suffix(""), source], check=True)
    return source.with_suffix("")


def step(program, *options, **more):
    r = subprocess.run([WATCHCTL, "step", *options, "--only", "show", "-q", "--output", "/dev/null", "--", program], capture_output=True,
                       text=True, timeout=WAIT, check=False, **more)
    assert r.returncode == 0, r.stderr
    *shown, persona = r.stdout.splitlines()
    return shown, persona, r.stderr


def ours():
    with open("/proc/self/personality", encoding="ascii") as f:
        return f.read().strip()


def is_refused():
    return subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode != 0


@pytest.mark.skipif(is_refused(), reason="personality(ADDR_NO_RANDOMIZE) is not permitted here")
@pytest.mark.parametrize("stepper", STEPPERS)
def test_two_runs_have_the_same_addresses_and_their_children_the_usual_personality(program, stepper):
    one, two = (step(program, "--stepper", stepper) for _ in range(2))
    assert len(one[0]) == 4 and one[0] == two[0]
    assert one[1] == two[1] == ours()
    assert "addresses" not in one[2] + two[2]


@pytest.mark.parametrize("stepper", STEPPERS)
def test_with_aslr_they_are_random(program, stepper):
    runs = [step(program, "--stepper", stepper, "--aslr") for _ in range(2)]
    (stack, *_), (other, *_) = (shown for shown, _, _ in runs)
    assert stack != other
    assert runs[0][1] == ours()


def no_personality():
    """seccomp(2): personality() answers EPERM, as in most containers."""
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    words = (Filter * 4)((0x20, 0, 0, 0), (0x15, 0, 1, 135), (6, 0, 0, 0x00050001), (6, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, ctypes.byref(Program(4, words)))


def test_where_the_kernel_refuses_that_is_said(program):
    shown, persona, said = step(program, preexec_fn=no_personality)
    assert "addresses are random" in said and len(shown) == 4 and persona == ours()


def test_aslr_needs_a_program_to_launch():
    r = subprocess.run([WATCHCTL, "step", "--aslr", "-p", "1"], capture_output=True, text=True, timeout=WAIT, check=False)
    assert r.returncode == 2 and "--aslr needs a program to launch" in r.stderr
