# rooms: calltrace
"""
Parameters and results that filters ask for: what is recorded is what the program prints of them itself, at each level of
optimization, in logs, flight recorders and cores. A value that is not known is said to be that, and is never another.
"""
import re
import subprocess

import pytest
from conftest import WAIT, WATCHCTL
from test_calltrace import CC, CXX, LEVELS, PLUGIN, SOURCES, compile, events, execute

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass")


def told(text):
    """{(function, name): [text of each call]}, as the program has it."""
    said = {}
    for line in text.splitlines():
        m = re.fullmatch(r"value (\S+) (\S+) (.*)", line)
        if m:
            said.setdefault((m[1], m[2]), []).append(m[3])
    return said


def plain(value):
    """As printf has it: hello of 'h' (104), NULL is (nil)."""
    text = value["text"]
    m = re.fullmatch(r"'.*' \((-?\d+)\)", text)
    return "(nil)" if text == "NULL" else m[1] if m else text.split("::")[-1]


def recorded(log, functions):
    """The same of the log; and the names of values that are not known."""
    values, unknown = {}, set()
    for e in events(log):
        name = re.sub(r"\(.*", "", e.get("function", ""))
        if name not in functions:
            continue
        for v in [*e.get("args", []), *([{"name": "return", **e["ret"]}] if "ret" in e else [])]:
            if v.get("state"):
                unknown.add((name, v["name"]))
            else:
                values.setdefault((name, v["name"]), []).append(plain(v))
    return values, unknown


def filters(folder, capture):
    (folder / "f.toml").write_text(f'[[allow]]\ncapture = {capture}\n')
    return f"--calltrace-filters-file={folder / 'f.toml'}"


@pytest.mark.parametrize("options", LEVELS)
def test_values_are_those_that_the_program_prints(tmp_path, options):
    traced = compile(CXX, SOURCES / "values.cc", tmp_path / "traced", "-g", *options.split(), filters(tmp_path, '"all"'))
    status, said = execute(traced, tmp_path / "run.log")
    expected = told(said)
    values, unknown = recorded(tmp_path / "run.log", {f for f, _ in expected})
    assert status == 0 and len(expected) > 30
    # By value in memory, or in two registers.
    assert unknown <= {("structs", "p"), ("structs", "b"), ("structs", "return")}
    assert {k: v for k, v in values.items() if k in expected} == expected


def test_a_flight_recorder_has_them_and_loses_them_with_their_calls(tmp_path):
    traced = compile(CXX, SOURCES / "values.cc", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '"all"'))
    _, said = execute(traced, tmp_path / "run.log", CALLTRACE_RING="256K")
    expected = told(said)
    values, _ = recorded(tmp_path / "run.log", {f for f, _ in expected})
    assert {k: v for k, v in values.items() if k in expected} == expected


@pytest.mark.parametrize("capture, names", [('"scalars"', {"k", "return"}), ('"all"', {"n", "k", "return"}), ('["n"]', {"n"}), ('["return", "k"]', {"k", "return"}), ('["none"]', set())])
def test_filters_say_which_values(tmp_path, capture, names):
    (tmp_path / "a.c").write_text("""
__attribute__((noinline)) int f(char *n, int k) { __asm__ volatile("" : : "r"(n)); return k + 1; }
int main(void) { return f("x", 3) - 4; }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, capture))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    values, _ = recorded(tmp_path / "run.log", {"f"})
    assert {name for _, name in values} == names


def test_a_result_is_waited_for_where_the_call_would_be_a_jump(tmp_path):
    (tmp_path / "a.c").write_text("""
__attribute__((noinline)) int inner(int n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
__attribute__((noinline)) int outer(int n) { __asm__ volatile("" : "+r"(n)); return inner(n * 2); }
int main(void) { return outer(3) - 7; }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '"all"'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    assert recorded(tmp_path / "run.log", {"inner", "outer"})[0] == {("outer", "n"): ["3"], ("inner", "n"): ["6"], ("inner", "return"): ["7"], ("outer", "return"): ["7"]}


def test_values_stay_with_their_calls_over_packets_and_chunks(tmp_path):
    """Thousands of packets' and chunks' borders, which lie at another place each time."""
    (tmp_path / "a.c").write_text("""
__attribute__((noinline)) int f(int a, int b, int c) { __asm__ volatile("" : "+r"(a) : "r"(b), "r"(c)); return a + b + c; }
__attribute__((noinline)) int g(int n) { __asm__ volatile("" : "+r"(n)); return f(n, n + 1, n + 2); }
int main(void) { int i, bad = 0; for (i = 0; i < 30000; i++) bad += g(i) != 3 * i + 3; return bad; }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '"all"'))
    assert execute(traced, tmp_path / "run.log") == (0, "")
    values, unknown = recorded(tmp_path / "run.log", {"f", "g"})
    n = range(30000)
    assert not unknown and values == {("g", "n"): [str(i) for i in n], ("f", "a"): [str(i) for i in n], ("f", "b"): [str(i + 1) for i in n], ("f", "c"): [str(i + 2) for i in n],
                                      ("f", "return"): [str(3 * i + 3) for i in n], ("g", "return"): [str(3 * i + 3) for i in n]}


def test_without_debug_information_there_are_no_values_and_that_is_said(tmp_path):
    (tmp_path / "a.c").write_text("int main(int c, char **v) { return 0; }\n")
    ran = subprocess.run([CC, "-O1", filters(tmp_path, '"all"'), "a.c", "-o", "a"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert ran.returncode == 0 and len(ran.stderr.splitlines()) == 1 and "-g" in ran.stderr
    assert execute(str(tmp_path / "a"), tmp_path / "run.log") == (0, "")
    assert [e["function"] for e in events(tmp_path / "run.log") if e["type"] == "call"] == ["main"]


@pytest.mark.parametrize("text, words", [('[[block]]\ncapture = "all"\n', "[[allow]]"), ('[[allow]]\ncapture = "some"\n', "scalars"), ("[[allow]]\ncapture = 3\n", "scalars"), ('[[allow]]\ncapture = ["*buf:0"]\n', "points to")])
def test_a_wrong_capture_is_shown(tmp_path, text, words):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "f.toml").write_text(text)
    ran = subprocess.run([CC, "--calltrace-filters-file=f.toml", "a.c", "-o", "a"], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    said = ran.stderr.splitlines()
    assert ran.returncode == 0 and said[0].startswith("calltrace: f.toml:2: ") and words in said[0] and said[2].strip().startswith("^")


def test_values_can_be_withheld_and_exported(tmp_path):
    traced = compile(CXX, SOURCES / "values.cc", tmp_path / "traced", "-g", "-O2", filters(tmp_path, '"all"'))
    execute(traced, tmp_path / "run.log")
    text = subprocess.run([WATCHCTL, "report", "--calls", str(tmp_path / "run.log")], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    assert re.search(r"changed\(a = 1, b = 2\) = 11\b", text)
    shown = subprocess.run([WATCHCTL, "report", "--calls", "--redact", "changed", str(tmp_path / "run.log")], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    assert "changed(a = (withheld), b = (withheld)) = (withheld)" in shown and "recursive(n = 5)" in shown


def test_a_core_has_the_values_of_the_last_calls(tmp_path):
    (tmp_path / "a.c").write_text("""
#include <stdlib.h>
__attribute__((noinline)) int deep(int n, double d) { volatile int kept = n; if (n == 7) abort(); return deep(n + 1, d / 2) + kept; }
int main(void) { return deep(1, 8); }
""")
    traced = compile(CC, tmp_path / "a.c", tmp_path / "traced", "-g", "-O1", filters(tmp_path, '"all"'))
    for ring in ("", "1M"):
        log, core = tmp_path / f"run{ring}.log", tmp_path / f"core{ring}"
        subprocess.run(["gdb", "-batch", "-ex", "run", "-ex", f"generate-core-file {core}", traced], capture_output=True, timeout=WAIT, env={"PATH": "/usr/bin:/bin", "CALLTRACE_OUTPUT": str(log), "CALLTRACE_RING": ring, "HOME": str(tmp_path)})
        values, unknown = recorded(core, {"deep"})
        assert not unknown and values == {("deep", "n"): [str(n) for n in range(1, 8)], ("deep", "d"): ["8", "4", "2", "1", "0.5", "0.25", "0.125"]}
