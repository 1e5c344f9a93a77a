# rooms: monitor/calls cli/trace
"""`watchctl trace`: which functions are chosen. The program counts its calls itself."""
import os
import subprocess
import sys
from collections import Counter

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT  # noqa: E402
from test_trace import said_by, told_by, trace  # noqa: E402

SOURCES = {
    "net/tcp.c": '#include "net/wire.h"\nint tcp_calls;\n'
                 "__attribute__((noipa)) int tcp_send(int n) { tcp_calls++; return wire_pack(n) + 1; }\n",
    "net/deep/udp.c": '#include "net/wire.h"\nint udp_calls;\n'
                      "__attribute__((noipa)) int udp_send(int n) { udp_calls++; return wire_pack(n) + 2; }\n",
    "net/wire.h": "extern int wire_calls;\n"
                  "static __attribute__((noipa, unused)) int wire_pack(int n) { wire_calls++; return n * 3; }\n",
    "subnet/tcp.c": "int other_calls;\n__attribute__((noipa)) int other_send(int n) { other_calls++; return n + 4; }\n",
    "main.c": "#include <stdio.h>\nint wire_calls;\nextern int tcp_calls, udp_calls, other_calls;\n"
              "int tcp_send(int n); int udp_send(int n); int other_send(int n);\n"
              "int main(void) { int n = 0; for (int i = 0; i < 30; i++) { n += tcp_send(i); n += udp_send(i) + udp_send(n); n += other_send(i); }\n"
              'printf("tcp_send %d\\nudp_send %d\\nwire_pack %d\\nother_send %d\\n", tcp_calls, udp_calls, wire_calls, other_calls); return n == 7; }\n',
}
ALL = ["tcp_send", "udp_send", "wire_pack", "other_send"]


def compile_sources(folder, *options):
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    objects = []
    for name in ["main.c", "net/tcp.c", "net/deep/udp.c", "subnet/tcp.c"]:
        objects.append(name.replace(".c", ".o"))  # beside each its own .dwo
        subprocess.run(["gcc", "-O1", *options, "-I.", "-c", "-o", objects[-1], name], cwd=folder, check=True, timeout=WAIT)
    subprocess.run(["gcc", "-O1", *options, "-o", "app", *objects], cwd=folder, check=True, timeout=WAIT)
    return folder / "app"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return compile_sources(tmp_path_factory.mktemp("sources"), "-g")


def called(program, log, *words, **kw):
    """How often each function was called that was chosen, and by the program's own account."""
    done = trace("--not", "main", "--not", "_*", *words, "-o", log, "--", program, **kw)
    told = Counter()
    for name, n in told_by(log).items():
        told[name.partition(".lto_priv")[0]] += n
    return told, said_by(done.stdout)


# Source files


@pytest.mark.parametrize("globs, want", [
    (["net/*.c"], ["tcp_send", "wire_pack"]),  # wire_pack: of the copy that tcp.c has
    (["net/tcp.c"], ["tcp_send", "wire_pack"]),
    (["tcp.c"], ["tcp_send", "wire_pack", "other_send"]),
    (["t?p.c"], ["tcp_send", "wire_pack", "other_send"]),
    (["subnet/"], ["other_send"]),
    (["net/"], ["tcp_send", "udp_send", "wire_pack"]),
    (["net/wire.h"], ["wire_pack"]),
    (["./subnet/*.c", "deep/*"], ["udp_send", "wire_pack", "other_send"]),
    (["/*/subnet/tcp.c"], None),  # a '*' fits no '/'
])
def test_functions_are_chosen_by_the_files_that_define_them(app, tmp_path, globs, want):
    words = [w for g in globs for w in ("--source", g)]
    if want is None:
        assert "did you mean" in trace(*words, "--", app, status=5).stderr
        return
    told, said = called(app, tmp_path / "log", *words)
    assert set(told) == set(want)
    assert all(told[f] == said[f] for f in want if f != "wire_pack")
    copies = {"tcp_send": 1, "udp_send": 1}
    if globs in (["net/"], ["net/wire.h"]):
        assert told["wire_pack"] == said["wire_pack"]
    elif "wire_pack" in want:
        assert told["wire_pack"] == sum(told[f] for f in copies)


@pytest.mark.parametrize("how", ["-gdwarf-4", "-gdwarf-5", "-gsplit-dwarf", "-flto", "separate"])
def test_however_the_debug_information_is_kept(tmp_path, how):
    options = ["-g"] if how == "separate" else ["-g", how]
    program = compile_sources(tmp_path, *options)
    if how == "separate":
        for command in ["objcopy --only-keep-debug app app.debug", "strip app", "objcopy --add-gnu-debuglink=app.debug app"]:
            subprocess.run(command.split(), cwd=tmp_path, check=True, timeout=WAIT)
    told, said = called(program, tmp_path / "log", "--source", "net/wire.h", "--source", "subnet/*")
    assert told == {"wire_pack": said["wire_pack"], "other_send": said["other_send"]}


def test_names_and_sizes_choose_among_those_of_the_files(app, tmp_path):
    told, said = called(app, tmp_path / "log", "--source", "net/", "--function", "*_send", "--not", "udp*")
    assert told == {"tcp_send": said["tcp_send"]}


def test_a_file_that_does_not_exist_has_near_ones(app):
    said = trace("--source", "net/tpc.c", "--", app, status=5).stderr
    assert 'source file that "net/tpc.c" fits' in said and "did you mean 'tcp.c'" in said
    said = trace("--source", "net/tcp.c", "--source", "nowhere/at/all.f90", "--", app, status=5).stderr
    assert '"nowhere/at/all.f90"' in said and "did you mean" not in said


def test_without_debug_information_the_error_says_so(tmp_path):
    program = compile_sources(tmp_path)
    said = trace("--source", "net/*.c", "--", program, status=5)
    assert "app has no debug information" in said.stderr and "which source files" in said.stderr and said.stdout == ""


def test_the_package_with_the_debug_information_is_named():
    package = subprocess.run(["dpkg", "-S", "/bin/sleep"], capture_output=True, text=True, timeout=WAIT).stdout.split(":")[0]
    if not package:
        pytest.skip("sleep was not installed by a package")
    assert f"{package}-dbgsym" in trace("--source", "*.c", "--", os.path.realpath("/bin/sleep"), "0", status=5).stderr


# Names from a file


def test_a_file_chooses_as_the_options_do(app, tmp_path):
    (tmp_path / "names").write_text("# of the network\n\n  tcp_*\t# whole\r\nudp_send\n! udp*\n")
    told, said = called(app, tmp_path / "log", "--functions-from", tmp_path / "names", "--function", "other_*")
    assert told == {f: said[f] for f in ("tcp_send", "other_send")}


def test_a_file_that_only_excludes_leaves_the_others(app, tmp_path):
    (tmp_path / "names").write_text("!*_send")
    told, said = called(app, tmp_path / "log", "--functions-from", tmp_path / "names")
    assert told == {"wire_pack": said["wire_pack"]}


@pytest.mark.parametrize("text, said", [
    (b"tcp_send\n!  # none\n", "names:2: Expected a glob behind '!', at column 4 of the line:\n  !  # none\n     ^"),
    (b"ns::f\nlibc.so.6:read\n", "names:2: Expected the name of a function without its module, which --in chooses, at column 10"),
    (b"# nothing\n\n", "holds no glob"),
    (b"", "holds no glob"),
    (b"tcp\n\x7fELF\0", "names:2: byte 1 is no text"),
    (b"a" * 5000, "names:1: the line is longer than 4096 bytes"),
    (b"tpc_send\n", "did you mean tcp_send"),
])
def test_what_is_wrong_in_a_file_is_said_with_its_place(app, tmp_path, text, said):
    (tmp_path / "names").write_bytes(text)
    done = trace("--functions-from", tmp_path / "names", "-o", tmp_path / "log", "--", app, status=5 if "mean" in said else 2)
    assert said in done.stderr and done.stdout == "" and not (tmp_path / "log").exists()


@pytest.mark.parametrize("path, said", [("missing", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read(app, tmp_path, path, said):
    assert said in trace("--functions-from", tmp_path / path, "--", app, status=2).stderr
