# rooms: code/unwind handler view/event
"""
Stacks of every shape, under each engine, against the return addresses that the victim itself tells: those that its
compiler knows, those that it put there, and where the kernel said that a signal interrupted it.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import BUILD, ROOT, WAIT, wait_until, wait_until_it_has_run

ENGINES = ["handler", "ring", "ptrace"]
LIBC_START = {"__libc_start_call_main", "__libc_start_main", "__libc_start_main_impl", "__libc_start_main@@GLIBC_2.34",
              "_start"}


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def shapes(victim, build, watch, engine):
    """shapes(name, variable, *options) -> tell(line) -> the accesses of it, and the addresses the victim told."""

    def start(name, variable="flag", *options):
        for library in ("libshape_a.so", "libshape_b.so"):
            build(library)
        v = victim(name)
        w = watch("-p", v.pid, "-v", variable, "--engine", engine, *(options or ["-w"]))
        if w.of("armed")[0]["engine"] != engine:
            pytest.skip(f"the {engine} engine is not to be had here")
        told = []

        def tell(line):
            told.append([int(word, 16) for word in v.tell(line).split()])
            return told[-1]

        def end():
            w.end()
            assert w.balanced() and w.summary()["lost"] == 0
            return w.accesses

        tell.end = end
        tell.watch = w
        tell.told = told
        tell.victim = v
        return tell

    return start


def without_run(access):
    """The victim does not know where in run() the code that it made returns to."""
    stack = access["stack"]
    access["stack"] = [f for i, f in enumerate(stack)
                       if not (i and stack[i - 1].get("module") == "[jit]" and f.get("function") == "run")]
    return access


def ips(access):
    """The real frames: of what was inlined there is one address, told once for each function."""
    return [int(f["ip"], 16) for f in access["stack"] if not f["inlined"]]


def names(access):
    return [f.get("function") for f in access["stack"] if not f["inlined"]]


def assert_first_stack(access, told, inner=1):
    """
    Code met for the first time is unwound afterwards, from a copy of the stack that ends where the stack does: from a
    signal's own stack the way leads no further then.
    """
    if access["stack_end"] == "unreadable":
        got = ips(access)[inner:]
        assert len(got) >= 2 and got == told[:len(got)], names(access)
    else:
        assert_stack(access, told, inner)


def assert_stack(access, told, inner=1, whole=True):
    """@inner frames, and then those that the victim told; and the program's start."""
    got = ips(access)
    assert [hex(ip) for ip in got[inner:inner + len(told)]] == [hex(ip) for ip in told], names(access)
    if whole:
        assert access["stack_end"] == "complete", (access["stack_end"], names(access))
        assert set(names(access)[inner + len(told):]) <= LIBC_START, names(access)


CALLS = ["plain", "tail", "realigned", "aligned_args", "noreturn", "fault", "alternate", "switched", "in_register", "expressed"]
OTHER_STACK = {"alternate", "switched"}


@pytest.mark.parametrize("program", ["shape", "shape_fp"])
def test_calls_signals_and_stacks_of_ones_own(shapes, program):
    tell = shapes(program)
    told = {shape: tell(shape)[1:] for shape in CALLS}
    accesses = tell.end()
    assert len(accesses) == len(CALLS)
    for access, (shape, addresses) in zip(accesses, told.items()):
        (assert_first_stack if shape in OTHER_STACK else assert_stack)(access, addresses)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["shape", "shape_fp"])
def test_what_is_met_once_is_known_the_second_time(shapes, program):
    """By the handler's own walk, with rules that were published after the first."""
    tell = shapes(program)
    for _ in range(2):
        for shape in CALLS:
            tell(shape)
            wait_until(lambda: len(tell.watch.accesses) == len(tell.told))
    told = [tell(shape)[1:] for shape in CALLS]
    accesses = tell.end()[-len(CALLS):]
    for access, addresses in zip(accesses, told):
        assert_stack(access, addresses)


def test_a_handler_that_interrupts_a_system_call(shapes):
    tell = shapes("shape")
    told = tell("interrupted")[1:]
    access, = tell.end()
    # Between the system call in libc's kill() and our caller of it the victim knows nothing: one frame.
    got = ips(access)
    assert got[1:3] == told[:2] and got[4:4 + len(told) - 2] == told[2:]
    assert names(access)[2] in ("kill", "__GI_kill") and names(access)[3] == "interrupted"
    assert access["stack_end"] == "complete"
    assert [f.get("signal", False) for f in access["stack"]][1] is True


def test_a_callback_of_libc(shapes):
    tell = shapes("shape")
    told = tell("sorted")[1:]
    accesses = [a for a in tell.end() if a["function"] == "by_value"]
    assert accesses and "sorted" in names(accesses[0])
    assert ips(accesses[0])[1] == told[0]  # into libc
    at = names(accesses[0]).index("sorted")
    assert_stack(accesses[0], told[1:], inner=at + 1)


@pytest.mark.parametrize("which", ["memcpy", "strcpy", "memset", "stosb"])
def test_assembly_of_libc_has_its_caller(shapes, which):
    tell = shapes("shape", "text_flag", "-s", "8", "-w")
    told = tell(which)[1:]
    accesses = tell.end()
    assert accesses
    for access in accesses:
        at = names(access).index("strings")
        assert at == (0 if which == "stosb" else 1), names(access)
        assert_stack(access, told, inner=at + 1)


def test_the_vdso_has_its_caller(shapes):
    tell = shapes("shape", "time_flag", "-s", "8", "-w")
    told = tell("vdso")[1:]
    access, = tell.end()
    at = names(access).index("vdso")
    assert access["stack"][0]["module"] == "[vdso]" and at == 2, names(access)
    assert_stack(access, told, inner=at + 1)


def test_a_stack_of_its_own_ends_where_it_begins(shapes):
    tell = shapes("shape")
    told = tell("coroutine")[1:]
    access, = tell.end()
    assert ips(access)[1:] == told
    # The last is the first instruction of a function of libc's that nothing called.
    assert access["stack_end"] == "complete" and access["stack"][-1]["module"].endswith("/libc.so.6")


@pytest.mark.parametrize("shape, end, known", [("smashed", {"no_rule"}, 2), ("zeroed", {"complete"}, 1),
                                               ("wild_rbp", {"unreadable"}, 1), ("low_rbp", {"not_ascending", "unreadable"}, 1)])
def test_a_damaged_stack_ends_with_a_reason(shapes, shape, end, known):
    tell = shapes("shape")
    told = tell(shape)[1:]
    told_again = tell(shape)[1:]
    first, second = tell.end()
    for access, addresses in ((first, told), (second, told_again)):
        assert ips(access)[1:] == addresses[:known], names(access)
        assert access["stack_end"] in end


@pytest.mark.slow_when("handler", "ptrace")
def test_a_library_that_took_the_place_of_another(shapes, build):
    """Where the first had a small frame the second has a large one: no stack may be walked by rules of the first."""
    tell = shapes("shape")
    for library in ["libshape_a.so", "libshape_b.so"] * 3:
        source = build(library)
        path = os.path.join(os.path.dirname(source), f"copy_{library}")
        shutil.copyfile(source, path)
        for line in (f"library {path}", "library"):
            tell(line)
            wait_until(lambda: len(tell.watch.accesses) == len(tell.told))  # it stays only until the next one comes
    accesses = tell.end()
    assert len(accesses) == 12
    for i, (access, (_, *addresses)) in enumerate(zip(accesses, tell.told)):
        if i % 2 == 0 and access["stack_end"] == "no_rule":
            # Seen between two looks at what is mapped: what is beyond the change was not believed.
            assert ips(access)[1:] == []
        else:
            assert_stack(access, addresses)
            library = os.path.basename(access["stack"][1]["module"])
            assert library == ("copy_libshape_a.so" if i % 4 < 2 else "copy_libshape_b.so")
    # They did lie at the same place.
    assert len({addresses[0] & ~0xfff for _, *addresses in tell.told}) == 1


def test_a_lazy_call_is_bound_below_its_caller(victim, build, watch, engine):
    """The loader, between a PLT stub and the function: the write is its own, the stub has no frame."""
    for library in ("libshape_a.so", "libshape_b.so"):
        build(library)
    relocations = subprocess.run(["readelf", "-rW", build("shape")], capture_output=True, text=True, check=True).stdout
    offset = int(re.search(r"^(\w+)\s.*JUMP_SLO\w* .*shape_lazy", relocations, re.M).group(1), 16)
    v = victim("shape")
    with open(f"/proc/{v.pid}/maps", encoding="ascii") as maps:
        base = int(maps.readline().split("-")[0], 16)
    w = watch("-p", v.pid, "-v", hex(base + offset), "-s", "8", "-w", "--engine", engine)
    told = [int(word, 16) for word in v.tell("lazy").split()][1:]
    access, = w.end().accesses
    got = names(access)
    assert got[0] == "_dl_fixup" and re.match("_dl_runtime_resolve", got[1]) and got[2] == "lazy", got
    assert_stack(access, told, inner=3)


def test_an_access_by_push_and_pop_in_prologue_and_epilogue(victim, build, watch, engine):
    for library in ("libshape_a.so", "libshape_b.so"):
        build(library)
    v = victim("shape")
    slot = [int(word, 16) for word in v.tell("slot").split()][0]
    w = watch("-p", v.pid, "-v", hex(slot), "-s", "8", "-rw", "--engine", engine)
    told = [int(word, 16) for word in v.tell("slot").split()][1:]
    accesses = [a for a in w.end().accesses if a["function"] == "pushes_rbx"]
    assert [a["insn"].split()[0] for a in accesses] == ["push", "pop"]
    for access in accesses:
        assert_stack(access, told)


@pytest.mark.slow_when("handler")
def test_code_of_a_jit_with_frame_pointers(shapes):
    tell = shapes("shape_jit")
    order = ["framed", "twice", "framed", "memfd", "moved", "twice"]
    for line in order:
        tell(line)  # its memory stays only until the next moves it
        wait_until(lambda: len(tell.watch.accesses) == len(tell.told))
    accesses = tell.end()
    assert len(accesses) == len(order)
    for access, (_, *addresses) in zip(accesses, tell.told):
        jit = [f for f in access["stack"] if f.get("module") == "[jit]"]
        assert len(jit) in (1, 2)
        assert_stack(without_run(access), addresses)


def test_an_access_by_code_of_a_jit_and_other_code_in_its_place(shapes):
    tell = shapes("shape_jit")
    order = ["writes", "rewritten", "writes", "rewritten"]
    told = [tell(line)[1:] for line in order]
    accesses = tell.end()
    assert [int(a["new"], 16) for a in accesses] == [1000, 2000, 1000, 2000]
    for access, addresses in zip(accesses, told):
        assert access["stack"][0]["module"] == "[jit]"
        assert_stack(without_run(access), addresses)


@pytest.mark.parametrize("shape", ["frameless", "misleading"])
def test_code_of_a_jit_without_frame_pointers_ends_the_stack_truthfully(shapes, shape):
    tell = shapes("shape_jit")
    told = [tell(shape)[1:] for _ in range(3)]
    accesses = tell.end()
    assert len(accesses) == 3
    for access, addresses in zip(accesses, told):
        got = ips(access)[1:]
        assert got == addresses[:1], "frames that are none"
        assert access["stack_end"] in ("no_rule", "unreadable", "not_ascending")


def test_a_log_tells_of_jit_code_what_the_live_session_told(victim, watch, run, tmp_path):
    v = victim("shape_jit")
    w = watch("-p", v.pid, "-v", "flag", "-w", "-o", tmp_path / "log", "--echo")
    for i, line in enumerate(["framed", "twice", "memfd", "frameless"]):
        v.tell(line)
        wait_until(lambda: len(w.accesses) == i + 1)
    w.end()
    v.finish()  # the log must not need the process
    again = [json.loads(line) for line in run("report", tmp_path / "log", "--json").stdout.splitlines()]
    assert [o for o in again if o["type"] == "access"] == w.accesses
    assert sum(f.get("module") == "[jit]" for a in w.accesses for f in a["stack"]) == 5


NODE = """
function inner(n) { return process.hrtime()[1] + n; }
function middle(n) { let s = 0; for (let i = 0; i < 3; i++) s += inner(i); return s; }
function outer(n) { return middle(n) + 1; }
console.log("pid " + process.pid);
require("readline").createInterface({input: process.stdin}).on("line", () => {
  let s = 0; for (let i = 0; i < 20000; i++) s += outer(i); console.log("ok " + s); });
"""


def test_javascript_from_main_to_the_compiled_function_and_on_into_c(tmp_path, watch, engine):
    """V8's own stack goes through code of the JIT and through V8's assembly, neither of which has unwind tables."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    script = tmp_path / "load.js"
    script.write_text(NODE)
    node = subprocess.Popen(["node", "--perf-basic-prof", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, bufsize=1, cwd=tmp_path)  # it leaves a log where it runs
    try:
        pid = int(node.stdout.readline().split()[1])
        node.stdin.write("warm up\n")
        node.stdout.readline()
        w = watch("-p", pid, "-v", "uv_hrtime", "-x", "-n", "20", "--engine", engine, "--frames", "64")
        node.stdin.write("go\n")
        accesses = w.end(sig=None).accesses
    finally:
        node.kill()
        node.wait()
        Path(f"/tmp/perf-{node.pid}.map").unlink(missing_ok=True)
    compiled = [a for a in accesses if any(f.get("module") == "[jit]" for f in a["stack"])]
    assert compiled
    for access in compiled:
        assert access["stack_end"] == "complete", (access["stack_end"], names(access))
        assert names(access)[0] == "uv_hrtime" and set(names(access)[-3:]) <= LIBC_START | {"main"}, names(access)
    # The interpreter's loop and the compiled function, by the name that V8 gave it.
    assert any("load.js" in (f.get("function") or "") for a in compiled for f in a["stack"] if f.get("module") == "[jit]")


LUA = """
io.stdout:setvbuf("line")
local ffi = require("ffi")
ffi.cdef[[int getpid(void); int clock_gettime(int, void *);]]
local buf = ffi.new("char[16]")
local function inner(i) return ffi.C.clock_gettime(1, buf) + i end
local function outer(n) local s = 0 for i = 1, n do s = s + inner(i) end return s end
print("pid " .. ffi.C.getpid())
while true do outer(1000) end
"""


def test_luajit_which_keeps_no_frame_pointers_ends_the_stack_at_its_code(tmp_path, watch, engine):
    if not shutil.which("luajit"):
        pytest.skip("luajit is not installed")
    script = tmp_path / "load.lua"
    script.write_text(LUA)
    lua = subprocess.Popen(["luajit", script], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(lua.stdout.readline().split()[1])
        wait_until_it_has_run(pid)  # until it is compiled
        accesses = watch("-p", pid, "-v", "libc.so.6:clock_gettime", "-x", "-n", "100", "--engine",
                         engine).end(sig=None).accesses
    finally:
        lua.kill()
        lua.wait()
    assert len(accesses) == 100
    for access in accesses:
        assert [f.get("module") for f in access["stack"]][1:] == ["[jit]"], access["stack"]
        assert access["stack_end"] in ("no_rule", "unreadable", "not_ascending")


def test_an_exception_in_flight(shapes):
    tell = shapes("shape_unwinds")
    tell("throw")
    tell("throw")
    accesses = tell.end()
    assert len(accesses) == 6
    for access in accesses:
        assert access["stack_end"] == "complete"
    for destructor, handler, rethrown in (accesses[:3], accesses[3:]):
        assert [re.sub(r"\(.*", "", n) for n in names(destructor)[:4]] == ["Guard::~Guard", "middle", "outer", "main"]
        assert [re.sub(r"\(.*", "", n) for n in names(handler)[:2]] == ["outer", "main"]
        assert [re.sub(r"\(.*", "", n) for n in names(rethrown)[:3]] == ["in_flight", "outer", "main"]


def test_rust_closures_traits_and_a_panic(shapes):
    if not shutil.which("rustc"):
        pytest.skip("rustc is not installed")
    tell = shapes("shape_rust", "FLAG")
    tell("go")
    accesses = tell.end()
    short = [[re.sub(r"^.*?(\w+)(::\{closure#?\w*\}|<.*)?$", r"\1", n or "") for n in names(a)] for a in accesses]
    assert [int(a["new"], 16) for a in accesses] == [1, 2, 3]
    assert all(a["stack_end"] == "complete" for a in accesses)
    assert short[0][:3] == ["write_flag", "direct", "main"], names(accesses[0])
    assert short[1][:2] == ["write_flag", "draw"] and "through_closure" in short[1], names(accesses[1])
    assert short[2][:2] == ["write_flag", "drop"] and "panics" in short[2], names(accesses[2])
    for stack in short:
        assert stack.index("main") > 0 and stack[-1] == "_start"


def test_goroutines_to_their_beginning(shapes):
    tell = shapes("shape_goroutines", "main.counter")
    tell("go")
    accesses = tell.end()
    assert accesses
    for access in accesses:
        assert names(access) == ["main.bump", "main.inner", "main.worker", "main.main.func1", "runtime.goexit"], names(access)
        assert access["stack_end"] == "complete"


@pytest.mark.slow
def test_our_stacks_are_those_of_gdb_and_libunwind_in_packaged_programs():
    """The short form of `make oracle`."""
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    out = subprocess.run([sys.executable, ROOT / "tests/oracle/run-gdb-oracle", BUILD, "500", "python3", "sqlite3",
                          "perl"], capture_output=True, text=True, timeout=4 * WAIT, check=False)
    if out.returncode == 77:
        pytest.skip(out.stdout.strip())
    assert out.returncode == 0, out.stdout + out.stderr
    assert int(re.search(r"^all: (\d+) stops", out.stdout, re.M).group(1)) >= 1500, out.stdout
