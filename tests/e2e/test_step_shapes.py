# rooms: step
"""`watchctl step` on calls in every shape: what the log says against the account that the program gives of itself."""
import json
import re
import struct
import subprocess

import pytest
from conftest import WAIT, WATCHCTL

C_SHAPES = ["tail", "recursion", "signals", "library", "callbacks", "threads", "forks", "jumps", "handler_jumps",
            "coroutines", "quit", "values", "plugin"]
CPP_SHAPES = ["virtuals", "exceptions", "library"]
EXITS = {"quit": 3}


@pytest.fixture
def program(build):
    return build


def record(program, log, name, shape, *options):
    """Runs it; what it printed."""
    command = [program(name), shape, *([program("libstep_plugin.so")] if shape == "plugin" else [])]
    r = subprocess.run([WATCHCTL, "step", "-q", "-o", str(log), *options, "--", *command], capture_output=True,
                       text=True, timeout=WAIT)
    assert r.returncode == 0, (r.returncode, r.stderr)
    return r.stdout


def objects(log):
    r = subprocess.run([WATCHCTL, "report", "--json", "--events", str(log)], capture_output=True, text=True,
                       timeout=WAIT)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


class Call:
    """A call as the account or the log tells it."""

    def __init__(self, tid, name, args):
        self.tid, self.name, self.args, self.end = tid, name, args, None

    def __repr__(self):
        return f"{self.name}({self.args}) {self.end}"


def account(text):
    """tid -> its calls in order of entry."""
    calls = {}
    for line in text.splitlines():
        m = re.match(r"([ERX]) (\d+) (\S+) ?(.*)", line)
        if not m:
            continue
        what, tid, name, rest = m.group(1), int(m.group(2)), m.group(3), m.group(4)
        mine = calls.setdefault(tid, [])
        if what == "E":
            mine.append(Call(tid, name, dict(re.findall(r'(\S+)=("[^"]*"|\S+)', rest))))
            continue
        call = next(c for c in reversed(mine) if c.name == name and c.end is None)
        call.end = ("returned", None if rest == "-" else int(rest)) if what == "R" else (rest, None)
    return calls


def plain(name):
    """Without parameters: Circle::area(int) const -> Circle::area"""
    return re.sub(r"\(.*", "", name or "")


def logged(seen, names):
    calls, by_number = {}, {}
    for o in seen:
        if o["type"] == "call" and not o.get("over") and plain(o.get("function")) in names:
            c = Call(o["tid"], plain(o["function"]), {a["name"]: a for a in o["args"]})
            c.parent, c.event = o.get("parent"), o
            by_number[o["call"]] = c
            calls.setdefault(o["tid"], []).append(c)
        elif o["type"] == "return" and o["call"] in by_number:
            by_number[o["call"]].end = (o["how"], o.get("ret"))
    return calls


def same_number(value, want):
    """A value's hex is as wide as its type."""
    raw = int(value, 16)
    return any(raw in (want & mask, want) for mask in (0xff, 0xffff, 0xffffffff, 0xffffffffffffffff))


def same_arg(args, key, want):
    if key.startswith("*"):
        return args[key[1:]]["to"] == want
    if "->" in key:
        name, member = key.split("->")
        return re.search(rf"\b{member} ?= ?{re.escape(want)}\b", args[name]["to"])
    if "." in key:
        name, member = key.split(".")
        return re.search(rf"\b{member} ?= ?{re.escape(want)}\b", args[name]["text"])
    a = args[key]
    if want.startswith('"'):
        return a["string"] == want.strip('"')
    if "value" not in a:
        return False
    if a["type"] in ("float", "double"):
        whole, part = ("<I", "<f") if a["type"] == "float" else ("<Q", "<d")
        return struct.unpack(part, struct.pack(whole, int(a["value"], 16)))[0] == float(want)
    return same_number(a["value"], int(want))


def judge(text, seen):
    said = account(text)
    assert said
    names = {c.name for calls in said.values() for c in calls}
    told = logged(seen, names)
    assert set(told) == set(said)
    for tid, want in said.items():
        got = told[tid]
        assert [c.name for c in got] == [c.name for c in want]
        for w, g in zip(want, got):
            for key, value in w.args.items():
                assert same_arg(g.args, key, value), (w, key, g.event)
            assert g.end, g
            assert w.end is None or g.end[0] == w.end[0], (w, g)
            if w.end and w.end[1] is not None:
                assert same_number(g.end[1]["value"], w.end[1]), (w, g)


@pytest.mark.parametrize("shape", C_SHAPES)
def test_calls_in_c_are_as_the_program_says(program, tmp_path, shape):
    text = record(program, tmp_path / "log", "step_shapes", shape)
    judge(text, objects(tmp_path / "log"))


@pytest.mark.parametrize("shape", CPP_SHAPES)
def test_calls_in_cpp_are_as_the_program_says(program, tmp_path, shape):
    text = record(program, tmp_path / "log", "step_shapes_cpp", shape)
    judge(text, objects(tmp_path / "log"))


@pytest.mark.parametrize("how", ["step_shapes_O0", "step_shapes_lazy", "step_shapes_nopie"])
@pytest.mark.parametrize("shape", ["library", "callbacks", "jumps", "signals", "threads", "values"])
def test_however_it_was_built(program, tmp_path, shape, how):
    text = record(program, tmp_path / "log", how, shape)
    judge(text, objects(tmp_path / "log"))


def test_what_the_c_library_was_asked_and_has_answered(program, tmp_path):
    text = record(program, tmp_path / "log", "step_shapes", "library")
    seen = objects(tmp_path / "log")
    said = re.findall(r'O \d+ (\S+) (.*) = (-?\d+)', text)
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    for name in {s[0] for s in said}:
        want = [s for s in said if s[0] == name]
        got = [o for o in seen if o["type"] == "call" and o.get("over") and o["function"] == name]
        got = [o for o in got if name != "strlen" or o["args"][0].get("string") in ("42", "1234567")]
        assert len(got) == len(want), name
        for (_, args, value), g in zip(want, got):
            expected = dict(re.findall(r'(\S+)=("[^"]*"|\S+)', args))
            number = expected.pop("errno", None)
            for key, v in expected.items():
                values = {a["name"].lstrip("_"): a for a in g["args"]}
                assert v.strip('"') in [a.get("string") for a in values.values()], (key, v, g)
            assert same_number(ends[g["call"]]["ret"]["value"], int(value))
            assert str(ends[g["call"]].get("errno_number")) == str(number)


def test_a_forked_child_is_left_alone(program, tmp_path):
    record(program, tmp_path / "log", "step_shapes", "forks")
    names = [o.get("function") for o in objects(tmp_path / "log") if o["type"] == "call"]
    assert "in_parent" in names
    assert "in_child" not in names


def flags_of(seen, name):
    found = [o for o in seen if o["type"] == "call" and plain(o.get("function")) == name]
    assert found
    return found


def test_tail_calls_callbacks_and_handlers_are_marked(program, tmp_path):
    for shape in "tail", "callbacks", "signals":
        record(program, tmp_path / shape, "step_shapes", shape)
    seen = objects(tmp_path / "tail")
    assert all(o.get("tail") for o in flags_of(seen, "tail_middle") + flags_of(seen, "tail_last"))
    assert not any(o.get("tail") for o in flags_of(seen, "tail_first"))
    seen = objects(tmp_path / "callbacks")
    by_number = {o["call"]: o for o in seen if o["type"] == "call"}
    for o in flags_of(seen, "compare"):
        assert o["callback"]
        assert by_number[o["parent"]]["function"] in ("qsort", "bsearch")
    seen = objects(tmp_path / "signals")
    assert all(o["signal_handler"] for o in flags_of(seen, "on_signal"))
    assert [o["signal"] for o in seen if o["type"] == "signal"] == ["SIGUSR1", "SIGUSR2"] * 3


def test_stacks_of_callbacks_name_each_caller_once(program, tmp_path):
    record(program, tmp_path / "log", "step_shapes", "callbacks")
    for o in flags_of(objects(tmp_path / "log"), "compare"):
        names = [f.get("function") for f in o["stack"]]
        assert names.count("main") == 1, names
        assert names.index("callbacks") + 1 == names.index("main"), names
        assert names[-1] == "_start", names


@pytest.mark.slow
def test_signals_that_come_anywhere_disturb_nothing(program, tmp_path):
    text = record(program, tmp_path / "log", "step_shapes", "timer")
    seed, ticks = re.search(r"seed (\d+) ticks (\d+)", text).groups()
    want, seen = 1, objects(tmp_path / "log")
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    churned = flags_of(seen, "churn")
    assert len(churned) == 3000
    for o in churned:
        assert int(o["args"][0]["value"], 16) == want
        for _ in range(200):
            want = (want * 1103515245 + 12345) & 0xffffffff
        assert ends[o["call"]]["how"] == "returned"
        assert int(ends[o["call"]]["ret"]["value"], 16) == want
    assert want == int(seed)
    handled = [o for o in seen if o["type"] == "call" and o.get("function") == "on_tick"]
    assert len(handled) == int(ticks)
    assert all(o["signal_handler"] and ends[o["call"]]["how"] == "returned" for o in handled)


def told_by(log):
    """What a mover must agree on: each thread's calls, by order of threads."""
    seen = objects(log)
    ends = {o["call"]: o for o in seen if o["type"] == "return"}
    threads = {}
    for o in seen:
        if o["type"] == "call":
            end = ends.get(o["call"], {})
            args = [(a.get("name"), a.get("string", a.get("to") if "value" not in a else None)) for a in o["args"]]
            threads.setdefault(o["tid"], []).append((o["depth"], o.get("function"), args, end.get("how")))
    return list(threads.values())


LLDB, INSTRUCTIONS = ("--stepper", "lldb"), ("--every-instruction",)
ALL = [("step_shapes", shape) for shape in C_SHAPES] + [("step_shapes_cpp", shape) for shape in CPP_SHAPES]
# lldb-server does not forget a breakpoint whose memory has gone: in a library that is loaded again at the same address
# it sets none.
WAYS = [(*one, way) for one in ALL for way in (LLDB, INSTRUCTIONS) if (one[1], way) != ("plugin", LLDB)]


@pytest.mark.slow_when("step_shapes-coroutines-lldb", "step_shapes-handler_jumps-lldb", "step_shapes_cpp-library-lldb", "step_shapes-forks-lldb",
                       "step_shapes-callbacks-lldb", "step_shapes-values-lldb", "step_shapes-coroutines-every-instruction",
                       "step_shapes-threads-every-instruction", "step_shapes_cpp-virtuals-lldb")
@pytest.mark.slow_when("step_shapes-jumps-lldb", "step_shapes-tail-lldb", "step_shapes-threads-lldb")
@pytest.mark.parametrize("name, shape, way", WAYS, ids=lambda v: v if isinstance(v, str) else v[-1].strip("-"))
def test_every_mover_tells_the_same(program, tmp_path, name, shape, way):
    record(program, tmp_path / "default", name, shape)
    text = record(program, tmp_path / "other", name, shape, *way)
    judge(text, objects(tmp_path / "other"))
    assert told_by(tmp_path / "default") == told_by(tmp_path / "other")
