# rooms: monitor/calls patch/plan
"""`watchctl trace --untraced`: functions that cannot be traced, and those of which not all ends are seen, against the victim's symbols."""
import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL  # noqa: E402
from test_step_shapes import objects  # noqa: E402
from test_trace import trace  # noqa: E402

NAMES = [w for f in ("main", "blind", "deaf", "seen") for w in ("--function", f)]
LOOP = "a jump leads between the instructions that would move"
END = "the function ends too early"
LOADER = "code of the dynamic loader"


def addresses(path):
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    return {name: int(addr, 16) for addr, name in re.findall(r"^(\w+) [tT] (\w+)$", symbols, re.M)}


def untraced(printed):
    told = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [o for o in told if o["type"] == "untraced"]


def refused(said):
    """Functions, and places where functions are left, by the lines that stand without --untraced, too."""
    ends = re.search(r"(\d+) places? where functions are left cannot be patched", said)
    return int(re.search(r" (\d+) refused", said).group(1)), int(ends.group(1)) if ends else 0


@pytest.fixture
def loader():
    return os.path.basename(os.path.realpath("/lib64/ld-linux-x86-64.so.2"))


def test_objects_say_where_and_why(build, tmp_path):
    path, out = build("untraced"), tmp_path / "out"
    done = trace("--untraced", "--json", "-q", "--output", out, *NAMES, "--", path)
    at = addresses(path)
    assert untraced(out.read_text()) == [
        {"type": "untraced", "module": path, "function": name, "module_offset": hex(at[name]), "place": place, "places": 1, "reason": why}
        for name, place, why in [("blind", "entry", LOOP), ("deaf", "end", END)]]
    assert refused(done.stderr) == (1, 1)


def test_text_is_by_reason_and_the_log_has_it_too(build, tmp_path):
    out = tmp_path / "out"
    trace("--untraced", "--output", out, "-o", tmp_path / "log", *NAMES, "--", build("untraced"))
    text = out.read_text()
    assert f"not traced, 1 function: {LOOP}\n    untraced  blind\nnot all ends seen, 1 function: {END}\n    untraced  deaf  (1 place)\n" in text
    assert "note: not traced" not in text
    notes = [o["text"] for o in objects(tmp_path / "log") if o["type"] == "note"]
    assert notes == [f"not traced: untraced  blind: {LOOP}", f"not all ends seen: untraced  deaf  (1 place): {END}"]
    told = subprocess.run([WATCHCTL, "report", tmp_path / "log"], capture_output=True, text=True, timeout=WAIT)
    assert told.returncode == 0 and all(n in told.stdout for n in notes)


def test_nothing_is_listed_that_was_not_asked_for(build, tmp_path):
    out = tmp_path / "out"
    trace("--output", out, "-o", tmp_path / "log", *NAMES, "--", build("untraced"))
    assert "not traced" not in out.read_text() and "ends seen" not in out.read_text()
    assert not [o for o in objects(tmp_path / "log") if o["type"] == "note"]
    trace("--untraced", "-q", "--output", out, "--function", "seen", "--", build("untraced"))
    assert "all chosen functions are traced, and all of their ends are seen\n" in out.read_text()
    assert "not traced" not in out.read_text()


def test_ends_of_a_function_that_is_not_traced_are_not_counted(build, tmp_path, loader):
    """The loader's functions have ends, too."""
    done = trace("--untraced", "--json", "-q", "--output", tmp_path / "out", "--in", loader, "--in", "untraced", "--function", "seen",
                 "--function", "_dl_*", "--", build("untraced"))
    told = untraced((tmp_path / "out").read_text())
    assert told and all(o["place"] == "entry" and o["reason"] == LOADER for o in told)
    assert refused(done.stderr) == (len(told), 0)


def test_the_log_has_a_hundred_and_the_number_of_the_others(build, tmp_path, loader):
    done = trace("--untraced", "--json", "--output", tmp_path / "out", "-o", tmp_path / "log", "--in", loader, "--in", "untraced",
                 "--", build("untraced"))
    told = untraced((tmp_path / "out").read_text())
    notes = [o["text"] for o in objects(tmp_path / "log") if o["type"] == "note"]
    functions, ends = refused(done.stderr)
    assert functions > 100 and sum(o["places"] for o in told) == functions + ends
    assert len([n for n in notes if n.startswith("not ")]) == 100
    assert notes[100:] == [f"... and {len(told) - 100} more that are not traced, or not all ends of which are seen"]
    assert sum(o["place"] == "entry" for o in told) == functions


def test_those_of_a_library_that_comes_later_are_told_when_it_is_over(build, tmp_path):
    (tmp_path / "late.c").write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\n"
        "int main(int c, char **v) { getchar(); void (*f)(void) = dlsym(dlopen(v[1], RTLD_NOW), \"seen\"); for (;;) f(); }\n")
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "late", tmp_path / "late.c"], check=True, timeout=WAIT)
    lib = build("libuntraced.so")
    program = subprocess.Popen([tmp_path / "late", lib], stdin=subprocess.PIPE)
    ready, tell = os.pipe()
    try:
        watcher = subprocess.Popen([WATCHCTL, "trace", "-p", str(program.pid), "--pending", "--untraced", "--json", "-q", "-n", "1000",
                                    "--ready-fd", str(tell), "--in", "libuntraced.so", "--function", "deaf", "--function", "seen"],
                                   stdout=subprocess.PIPE, text=True, pass_fds=[tell])
        os.close(tell)
        assert os.read(ready, 1)
        program.stdin.write(b"\n")
        program.stdin.flush()
        told = untraced(watcher.communicate(timeout=WAIT)[0])
        assert [(o["module"], o["function"], o["place"], o["reason"]) for o in told] == [(lib, "deaf", "end", END)]
        assert watcher.returncode == 0
    finally:
        os.close(ready)
        program.kill()
        program.communicate(timeout=WAIT)
