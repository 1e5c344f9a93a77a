# rooms: engine target code/elf
"""Programs, children and threads that are over before anybody could look at what they had mapped."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from conftest import VICTIMS, WAIT, WATCHCTL

ENGINES = ["handler", "ring", "ptrace"]
RUNS = int(os.environ.get("SHORT_LIVED_RUNS", "2"))


def build_brief(out):
    """brief(NAME) -> the path of the program, or of a library."""
    compiler = ["gcc", "-O1", "-g"]
    for i, name in enumerate(["linked", "one", "two"]):
        subprocess.run([*compiler, "-shared", "-fPIC", f"-DNAME={name}", f"-DMARK={1000 * i}", str(VICTIMS / "brief_lib.c"),
                        "-o", str(out / f"lib{name}.so")], check=True, timeout=WAIT)
    subprocess.run([*compiler, str(VICTIMS / "brief.c"), "-o", str(out / "brief"), "-pthread", "-ldl", str(out / "liblinked.so"),
                    f"-Wl,-rpath,{out}"], check=True, timeout=WAIT)
    return lambda name: str(out / name)


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    return build_brief(tmp_path_factory.mktemp("brief"))


@pytest.fixture(scope="module")
def plain_user():
    """A folder in which a plain user has watchctl and the program, and may write; and how to become one."""
    if os.geteuid():
        pytest.skip("needs root to become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        out = pathlib.Path(name)
        out.chmod(0o777)
        build_brief(out)
        shutil.copy(WATCHCTL, out / "watchctl")
        yield out, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture(params=["calm", pytest.param("busy", marks=[pytest.mark.slow, pytest.mark.alone])])
def busy(request):
    """Busy: two programs that do nothing but run, so that whoever wants a CPU waits for it; which disturbs other tests, too."""
    loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(2 if request.param == "busy" else 0)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def launch(tmp_path, *options, command, expect=(0,), prefix=(), program=WATCHCTL):
    out = tmp_path / "out.json"
    r = subprocess.run([*prefix, program, *options, "--json", "--output", str(out), "--", *command],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)
    assert r.returncode in expect, r.stderr
    objects = [json.loads(line) for line in out.read_text().splitlines()]
    for s in objects:
        assert s["type"] != "summary" or s["recorded"] + s["lost"] + s["filtered"] == s["counted"], s
    return [o for o in objects if o["type"] == "access"], objects, r


def functions(access):
    """Innermost first; None where there is no name."""
    return [frame.get("function") for frame in access["stack"]]


def assert_whole(access, *inner):
    named = functions(access)
    assert named[:len(inner)] == list(inner) and named[-1] in ("_start", "clone3", "__clone3", "clone", "__clone"), access
    assert None not in named and all(frame.get("module") for frame in access["stack"]), access
    assert access.get("insn") and access["function"] == named[0], access


def assert_all_ways(accesses, engine, *outer):
    by_library = ("linked_write", "linked_middle", "brief_store", "all_ways", *outer)
    assert [int(a["new"], 16) for a in accesses] == ([1, 2] if engine == "ptrace" else [1, 7, 2])
    for a in accesses:
        if a["origin"] == "kernel":
            assert "read" in functions(a)[0]
            assert_whole(a, functions(a)[0], "all_ways", *outer)
        else:
            assert_whole(a, *by_library)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_frames_of_a_program_that_ends_at_once_have_names(brief, busy, hardware, tmp_path, engine):
    for _ in range(RUNS):
        accesses, _, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, command=[brief("brief")])
        assert_all_ways(accesses, engine, "main")


@pytest.mark.parametrize("engine", ENGINES)
def test_children_that_end_at_once_have_names(brief, busy, hardware, tmp_path, engine):
    accesses, objects, r = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, "--fork", "follow",
                                  command=[brief("brief"), "children", "5"])
    children = [int(line) for line in r.stdout.split()]
    assert len(children) == 5
    for pid in children:
        assert_all_ways([a for a in accesses if a["pid"] == pid], engine, "main")
    assert all(a["comm"] == "brief" for a in accesses)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("who", ["plugin", "thread", "child", "grandchild"])
def test_a_library_that_is_loaded_just_before_the_end_has_names(brief, busy, hardware, tmp_path, engine, who):
    accesses, _, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, "--fork", "follow",
                            command=[brief("brief"), who, brief("libone.so")])
    assert [int(a["new"], 16) for a in accesses] == ([1003] if who == "grandchild" else [1001, 1002])
    for a in accesses:
        assert_whole(a, "one_write", "one_middle", "brief_store", "grandchild" if who == "grandchild" else "call_plugin")


@pytest.mark.parametrize("engine", ENGINES)
def test_accesses_are_named_by_the_library_that_was_there_then(brief, busy, hardware, tmp_path, engine):
    """Two take each other's place many times. Which of them wrote is in what it wrote."""
    accesses, _, r = launch(tmp_path, "-v", "flag", "-w", "--engine", engine,
                            command=[brief("brief"), "swap", "60", brief("libone.so"), brief("libtwo.so")])
    assert len(set(r.stdout.split())) == 1, "they never took each other's place"
    assert len(accesses) == 180
    for a in accesses:
        name = {1: "one", 2: "two"}[int(a["new"], 16) // 1000]
        assert a["module"] == brief(f"lib{name}.so")
        # What was walked just after an exchange, when rules of the other one were still in use, is cut there.
        whole = [f"{name}_write", f"{name}_middle", "brief_store", "swap", "main"]
        assert functions(a)[:5] == whole[:len(functions(a))] and (len(functions(a)) < 5 or functions(a)[-1] == "_start")
    assert functions(accesses[0])[-1] == "_start"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_happened_just_before_an_exec_has_names(brief, busy, hardware, tmp_path, engine):
    accesses, _, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, command=[brief("brief"), "exec", "/bin/sleep", "0.2"],
                            expect=(0, 3))  # on a busy machine it has ended before anybody notices the exec
    assert_all_ways(accesses, engine, "main")
    assert {a["comm"] for a in accesses} == {"brief"}


def test_a_program_that_is_executed_and_ends_at_once_has_names(brief, busy, hardware, tmp_path):
    """By the ptrace engine, which alone sees the next program from its first instruction."""
    accesses, objects, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", "ptrace", "--exec", "follow",
                                  command=[brief("brief"), "exec", brief("brief")])
    assert len(accesses) == 4 and len([o for o in objects if o["type"] == "armed"]) == 2
    for half in accesses[:2], accesses[2:]:
        assert_all_ways(half, "ptrace", "main")


def notes(objects, word):
    return [o["text"] for o in objects if o["type"] == "note" and word in o["text"]]


@pytest.mark.parametrize("engine", ["auto", "handler", "ring"])
@pytest.mark.parametrize("how, options", [("exec", []), ("exec", ["--fork", "follow"]), ("thread_exec", ["--fork", "follow"])])
@pytest.mark.parametrize("follow", [True, False])
def test_a_program_that_is_over_before_anybody_looks_is_told(brief, busy, hardware, tmp_path, engine, how, options, follow):
    """All its accesses may be missed: then that is said, and the status tells of it."""
    options = [*options, "--exec", "follow" if follow else "ignore"]
    accesses, objects, r = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, *options,
                                  command=[brief("brief"), how, brief("brief")], expect=(0, 3))
    told = notes(objects, "the process has executed another program")
    assert len(told) == 1, r.stderr
    assert (r.returncode == 0) == ("the watch continues" in told[0])
    if r.returncode:
        assert ("ended before the watch could continue" if follow else "its variables no longer exist") in told[0]
        assert len(accesses) == (1 if how == "thread_exec" else 3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", [[], ["--exec", "follow"]])
def test_children_that_execute_another_program_are_told(brief, busy, hardware, tmp_path, engine, options):
    """The first three each, the rest by number; what those execute, or start, is nobody's business any more."""
    accesses, objects, r = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, "--fork", "follow", *options,
                                  command=[brief("brief"), "leave", "5", "/bin/sh", "-c", "/bin/true; exec /bin/true"])
    children = [int(line) for line in r.stdout.split()]
    assert [a["pid"] for a in accesses] == children and len(children) == 5
    assert notes(objects, "executed another program") == [
        *[f"process {pid}, a followed child, has executed another program (sh): it is no longer watched"
          for pid in children[:3]],
        "2 more of the followed children have executed another program, and were no longer watched"]


def test_where_perf_is_forbidden_children_that_execute_another_program_are_counted(brief, build, hardware, tmp_path):
    accesses, objects, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", "ptrace", "--fork", "follow", prefix=[build("noperf"), "1"],
                                  command=[brief("brief"), "leave", "5", "/bin/true"])
    assert len(accesses) == 5 and notes(objects, "executed another program") == [
        "5 of the followed children have executed another program, and were no longer watched"]


@pytest.mark.parametrize("who", ["", "plugin", "thread", "child", "exec"])
def test_where_perf_is_forbidden_a_program_waits_until_its_maps_were_read(brief, build, busy, hardware, tmp_path, who):
    """Nobody tells what it maps. The ptrace engine holds a thread whose place it does not know until watchctl has looked."""
    arguments = {"": [], "exec": ["exec", "/bin/true"]}.get(who, [who, brief("libone.so")])
    for _ in range(RUNS):
        accesses, objects, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", "ptrace", "--fork", "follow", expect=(0, 3),
                                      command=[brief("brief"), *arguments], prefix=[build("noperf"), "1"])
        if who in ("", "exec"):
            assert_all_ways(accesses, "ptrace", "main")
        else:
            assert len(accesses) == 2
            for a in accesses:
                assert_whole(a, "one_write", "one_middle", "brief_store", "call_plugin")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_cannot_be_known_is_said(brief, busy, hardware, tmp_path, engine):
    """The file of the library is removed before anybody can look, or between two looks: of its code the place is known, then."""
    library = tmp_path / "gone.so"
    for _ in range(5 * RUNS):
        shutil.copy(brief("libone.so"), library)
        accesses, objects, _ = launch(tmp_path, "-v", "flag", "-w", "--engine", engine, command=[brief("brief"), "gone", str(library)])
        assert len(accesses) == 1 and not library.exists()
        said = [o["text"] for o in objects if o["type"] == "note" and "removed or replaced" in o["text"]]
        if accesses[0].get("function") == "one_write":  # it was looked at in time
            continue
        assert "function" not in accesses[0], accesses
        if accesses[0]["stack_end"] != "complete" or "module" not in accesses[0]["stack"][0]:
            assert len(said) == 1, json.dumps(objects)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("who", [[], ["children", "3"]])
def test_a_plain_user_loses_nothing_of_it_either(plain_user, busy, hardware, tmp_path, engine, who):
    """What the handler recorded must not end with the program that it was put into."""
    out, become = plain_user
    follow = ["--fork", "follow"] if who else []
    for _ in range(RUNS):
        accesses, objects, _ = launch(out, "-v", "flag", "-w", "--engine", engine, *follow, command=[str(out / "brief"), *who],
                                      prefix=become, program=str(out / "watchctl"))
        of = {pid: [a for a in accesses if a["pid"] == pid] for pid in {a["pid"] for a in accesses}}
        assert len(of) == (3 if who else 1)
        for child in of.values():
            assert_all_ways([a for a in child if a["origin"] == "user"], "ptrace", "main")
        assert [o["lost"] for o in objects if o["type"] == "summary"] == [0]
