# rooms: calltrace/opt calltrace/config calltrace/pass
"""
calltrace-opt and the settings of the compile-time tools: a module goes through it between two steps of clang's; rules say
which functions are traced. What a program then records is held to the rules as Python's fnmatch and re read them.
"""
import fnmatch
import json
import os
import pty
import re
import subprocess

import pytest
from conftest import BUILD, ROOT, WAIT
from test_calltrace import CC, PLUGIN, SOURCES, account, events, execute, functions_of, recorded, results

OPT = str(BUILD / "bin" / "calltrace-opt")
CLANG, CLANGXX = "clang-19", "clang++-19"
LINK = ["-L" + str(BUILD), "-lcalltrace", "-Wl,-rpath," + str(BUILD), "-lpthread"]

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without LLVM 19: there is no pass")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, timeout=WAIT, **more)


def bitcode(folder, source, *options):
    target = folder / (source.stem + ".bc")
    assert run(CLANGXX if source.suffix == ".cc" else CLANG, *(options or ["-O1", "-g"]), "-c", "-emit-llvm", source, "-o", target).returncode == 0
    return target


def link(folder, module, name="traced"):
    ran = run(CLANGXX, "-x", "ir", module, "-o", folder / name, *LINK)
    assert ran.returncode == 0, ran.stderr
    return str(folder / name)


def symbols(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def called(log):
    return {e["function"] for e in events(log) if e["type"] == "call"}


@pytest.fixture(scope="module")
def scopes(tmp_path_factory):
    """Bitcode, and its functions as the symbols file has them without rules."""
    folder = tmp_path_factory.mktemp("scopes")
    module = bitcode(folder, SOURCES / "scopes.cc")
    ran = run(OPT, module, "-o", folder / "all.bc", "--output-symbols-file", folder / "all.symbols", cwd=folder)
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, b"", b"")
    return module, symbols(folder / "all.symbols")


@pytest.mark.parametrize("source", ["plain.c", "tails.c", "exceptions.cc"])
@pytest.mark.parametrize("way", ["bitcode by pipes", "IR by pipes", "files", "IR to a file"])
def test_a_module_that_went_through_it_records_what_the_program_accounts_for(tmp_path, source, way):
    module = bitcode(tmp_path, SOURCES / source, "-O2")
    if "pipes" in way:
        ran = run(OPT, *(["-S"] if "IR" in way else []), input=module.read_bytes())
        (tmp_path / "out").write_bytes(ran.stdout)
    else:
        ran = run(OPT, module, "-o", tmp_path / "out", *(["--output-language=ir"] if "IR" in way else []))
        assert ran.stdout == b""
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ((tmp_path / "out").read_bytes()[:4] == b"BC\xc0\xde") == ("IR" not in way)
    status, said = execute(link(tmp_path, tmp_path / "out"), tmp_path / "run.log")
    expected = run(link(tmp_path, module, "plain"))
    assert status == expected.returncode and results(said) == results(expected.stdout.decode())
    assert recorded(tmp_path / "run.log", functions_of(account(said))) == account(said)


def test_the_same_pass_in_opt_makes_the_same_module(tmp_path):
    module = bitcode(tmp_path, SOURCES / "tails.c", "-O2")
    theirs = run("opt-19", module, "-load-pass-plugin=" + str(PLUGIN), "-passes=inject-calltrace", "-S", "-o", "-")
    ours = run(OPT, module, "-S")
    assert theirs.returncode == ours.returncode == 0 and theirs.stdout == ours.stdout != b""


def test_a_module_is_not_changed_twice(tmp_path):
    once = run(OPT, bitcode(tmp_path, SOURCES / "plain.c"))
    twice = run(OPT, input=once.stdout)
    assert twice.returncode == 0 and run("llvm-dis-19", input=once.stdout).stdout == run("llvm-dis-19", input=twice.stdout).stdout


# Rules


def plain(name):
    """The name in a demangled one of scopes.cc."""
    name = name.replace("(anonymous namespace)", "@")
    name = re.sub(r"^(\w+ )(?=app::twice)", "", name)
    return re.sub(r"(?<!operator)\((?!\)\().*", "", name).replace("@", "(anonymous namespace)")


def expect(function, rules):
    """Whether the function is traced, and by which rule."""
    def names():
        return [function["demangled_name"], plain(function["demangled_name"])]

    def meets(key, value):
        values = value if isinstance(value, list) else [value]
        texts = {"function": names(), "function_demangled_name": names()[:1], "linkage_name": [function["linkage_name"]], "function_linkage_name": [function["linkage_name"]],
                 "file": [function["file"]], "source_file_path": [function["file"]]}
        if key.endswith("_lt"):
            return function["ir_instruction_count"] < value
        if key.endswith("_gt"):
            return function["ir_instruction_count"] > value
        if key in ("function", "linkage_name", "file"):
            return any(fnmatch.fnmatchcase(t, v) for t in texts[key] for v in values)
        return any(re.fullmatch(v, t) for t in texts[key] for v in values)

    for kind in ("allow", "block"):
        for i, rule in enumerate(rules.get(kind, [])):
            if all(meets(k, v) for k, v in rule.items() if k != "rule_name"):
                return kind == "allow", f"[[{kind}]] " + rule.get("rule_name", f"number {i + 1}")
    return True, "no rule is against it"


def toml(rules):
    return "".join(f"[[{kind}]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in rule.items()) for kind in rules for rule in rules[kind])


RULES = {
    "everything": {"block": [{}]},
    "one function": {"block": [{"function": "app_plain"}]},
    "a namespace": {"block": [{}], "allow": [{"function": "app::*"}]},
    "a class's call operator": {"block": [{"function": "app::adder::operator()"}]},
    "a conversion": {"block": [{"function": "app::adder::operator bool"}]},
    "all instances of a template": {"block": [{"function": "app::twice<*>"}]},
    "the anonymous namespace": {"block": [{"function": "app::(anonymous namespace)::*"}]},
    "with its parameters": {"block": [{"function": "app::run(int)"}]},
    "with other parameters": {"block": [{"function": "app::run(long)"}]},
    "several names": {"block": [{"function": ["main", "app_plain", "none"]}]},
    "a linkage name": {"block": [{"linkage_name": "_ZN3app*"}]},
    "a file": {"block": [{"file": "*/scopes.cc"}]},
    "another file": {"block": [{"file": "*/other.cc"}]},
    "small ones": {"block": [{"rule_name": "small ones", "instructions_lt": 30}]},
    "large ones": {"block": [{"rule_name": "large ones", "instructions_gt": 30}]},
    "two conditions": {"block": [{"function": "app::*", "instructions_lt": 5}]},
    "a condition that is not met": {"block": [{"function": "app::*", "file": "none"}]},
    "allowed in spite": {"block": [{"instructions_lt": 1000}], "allow": [{"rule_name": "the start", "function": "main"}]},
    "Spoor's regular expressions": {"block": [{"function_demangled_name": "app::.*", "source_file_path": ".*\\.cc"}], "allow": [{"function_linkage_name": "_ZN3app3run.*"}]},
    "Spoor's whole name": {"block": [{"function_demangled_name": "app"}, {"function_linkage_name": "^main$"}]},
    "Spoor's alternatives": {"block": [{"function_linkage_name": "main|app_plain"}]},
    "Spoor's counts": {"block": [{"function_ir_instruction_count_gt": 3, "function_ir_instruction_count_lt": 30}]},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_rules_choose_the_functions_that_are_recorded(tmp_path, scopes, rules):
    module, functions = scopes
    (tmp_path / "f.toml").write_text(toml(rules))
    ran = run(OPT, module, "--filters-file", tmp_path / "f.toml", "--output-symbols-file", tmp_path / "symbols", "-o", tmp_path / "out.bc")
    assert (ran.returncode, ran.stderr) == (0, b"")
    expected = {f["linkage_name"]: expect(f, rules) for f in functions}
    assert {f["linkage_name"]: (f["instrumented"], f["reason"]) for f in symbols(tmp_path / "symbols")} == expected
    status, said = execute(link(tmp_path, tmp_path / "out.bc"), tmp_path / "run.log")
    assert status == 0 and results(said) == results(run(link(tmp_path, module, "plain")).stdout.decode())
    assert called(tmp_path / "run.log") == {f["demangled_name"] for f in functions if expected[f["linkage_name"]][0]}


def test_a_call_at_the_end_of_one_that_is_not_traced_is_no_part_of_its_caller(tmp_path):
    (tmp_path / "a.c").write_text("""
__attribute__((noinline)) int inner(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int hop(int n) { __asm__ volatile(""); return inner(n * 2); }
__attribute__((noinline)) int outer(int n) { __asm__ volatile(""); return hop(n * 2); }
int main(int c, char **v) { return outer(c) + inner(c) - 7; }
""")
    (tmp_path / "f.toml").write_text('[[block]]\nfunction = "hop"\n')
    assert run(CC, "-O2", "--calltrace-filters-file=f.toml", "a.c", "-o", "a", cwd=tmp_path).returncode == 0
    assert execute(str(tmp_path / "a"), tmp_path / "run.log") == (0, "")
    assert [(e["type"], e["function"]) for e in events(tmp_path / "run.log") if e["type"] in ("call", "return")] == [
        ("call", "main"), ("call", "outer"), ("return", "outer"), ("call", "inner"), ("return", "inner"), ("call", "inner"), ("return", "inner"), ("return", "main")]


# Symbols


def fnv(text):
    h = 2166136261
    for byte in text.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def test_symbols_have_each_function_with_a_stable_id_and_the_reason(tmp_path):
    (tmp_path / "a.c").write_text("""
int plain(int n) { return n; }
__attribute__((naked)) void bare(void) { __asm__("ret"); }
static int (*resolve(void))(int) { return plain; }
int chosen(int n) __attribute__((ifunc("resolve")));
""")
    for name, options in (("one", []), ("two", []), ("named", ["--module-id", "my module"])):
        assert run(OPT, bitcode(tmp_path, tmp_path / "a.c", "-O0"), "--output-symbols-file", tmp_path / name, "-o", "/dev/null", *options).returncode == 0
    one = {f["linkage_name"]: f for f in symbols(tmp_path / "one")}
    assert set(one) == {"plain", "bare", "resolve"} and [name for name, f in one.items() if f["instrumented"]] == ["plain"]
    assert "naked" in one["bare"]["reason"] and "IFUNC" in one["resolve"]["reason"]
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()
    for f in one.values():
        assert f["id"] == f"{fnv(f['module']):08x}{fnv(f['linkage_name']):08x}" and f["module"] == str(tmp_path / "a.c")
        assert "file" not in f and "line" not in f  # without debug information
    assert {f["id"][:8] for f in symbols(tmp_path / "named")} == {f"{fnv('my module'):08x}"}


def test_the_order_of_calls_is_recorded_without_times(tmp_path):
    """A thread's chunk is one moment: times do not go back, and stand still in between."""
    module = bitcode(tmp_path, SOURCES / "threads.c", "-O2")
    assert run(OPT, module, "--no-time", "-o", tmp_path / "out.bc").returncode == 0
    _, said = execute(link(tmp_path, tmp_path / "out.bc"), tmp_path / "run.log")
    assert recorded(tmp_path / "run.log", functions_of(account(said))) == account(said)
    calls = [e for e in events(tmp_path / "run.log") if e["type"] == "call"]
    assert sum("without times" in e["text"] for e in events(tmp_path / "run.log") if e["type"] == "note") == 1
    assert len({(e["tid"], e["time_ns"]) for e in calls}) == len({e["tid"] for e in calls}) > 1


def test_a_build_collects_the_symbols_of_all_its_files(tmp_path):
    (tmp_path / "a.c").write_text("int b(void);\nint main(void) { return b(); }\n")
    (tmp_path / "b.c").write_text("int b(void) { return 0; }\n")
    for source in ("a.c", "b.c"):
        assert run(CC, "-c", "-g", source, cwd=tmp_path, env={**os.environ, "CALLTRACE_OUTPUT_SYMBOLS_FILE": "all.symbols"}).returncode == 0
    assert [(f["linkage_name"], f["file"], f["line"]) for f in symbols(tmp_path / "all.symbols")] == [("main", str(tmp_path / "a.c"), 2), ("b", str(tmp_path / "b.c"), 1)]


def test_names_that_are_no_utf8_are_in_the_symbols_as_replacements(tmp_path):
    (tmp_path / "a.ll").write_text('target triple = "x86_64-pc-linux-gnu"\ndefine void @"q\\22\\FF\\5C\\01"() {\n  ret void\n}\n')
    assert run(OPT, tmp_path / "a.ll", "--output-symbols-file", tmp_path / "s", "-o", "/dev/null").returncode == 0
    assert [f["linkage_name"] for f in symbols(tmp_path / "s")] == ['q"\ufffd\\\x01']


# Settings


def test_an_option_comes_before_the_environment_and_that_before_the_file(tmp_path, scopes):
    module, _ = scopes
    deep = tmp_path / "project" / "src" / "deep"
    deep.mkdir(parents=True)
    for name in ("main", "app_plain", "report_all*"):
        (tmp_path / "project" / f"{name.rstrip('*')}.toml").write_text(f'[[block]]\nfunction = "{name}"\n')
    (tmp_path / "project" / "calltrace.toml").write_text('filters_file = "main.toml"\noutput_language = "ir"\n')
    (tmp_path / "calltrace.toml").write_text("this is not read: a nearer one is\n")

    def blocked(*options, **env):
        ran = run(OPT, module, "--output-symbols-file", deep / "s", *options, cwd=deep, env={**os.environ, **env})
        assert ran.returncode == 0 and ran.stdout.startswith(b"; ModuleID")
        return {f["demangled_name"].split("(")[0] for f in symbols(deep / "s") if not f["instrumented"]}

    assert blocked() == {"main"}
    assert blocked(CALLTRACE_FILTERS_FILE="../../app_plain.toml") == {"app_plain"}
    assert blocked("--filters_file=../../report_all.toml", CALLTRACE_FILTERS_FILE="../../app_plain.toml") == {"report_all"}
    assert blocked("--filters-file", "", CALLTRACE_FILTERS_FILE="../../app_plain.toml") == set()


def test_rules_may_be_in_the_file_of_settings_itself(tmp_path, scopes):
    (tmp_path / "calltrace.toml").write_text('[[block]]\nfunction = "main"\n')
    assert run(OPT, scopes[0], "--output-symbols-file", "s", "-o", "/dev/null", cwd=tmp_path).returncode == 0
    assert [f["linkage_name"] for f in symbols(tmp_path / "s") if not f["instrumented"]] == ["main"]


def test_every_option_of_spoor_is_known_by_its_own_name(tmp_path, scopes):
    ran = run(OPT, scopes[0], "--enable_runtime=true", "--filters_file=", "--force_binary_output", "--initialize_runtime=true", "--inject_instrumentation=true", "--module_id=m", f"--output_file={tmp_path / 'out'}", "--output_language=bitcode", f"--output_symbols_file={tmp_path / 's'}")
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, b"", b"") and (tmp_path / "out").stat().st_size and symbols(tmp_path / "s")


def test_without_instrumentation_a_module_stays_as_it_is(tmp_path, scopes):
    module, functions = scopes
    for option in ("--inject-instrumentation=false", "--no-inject-instrumentation"):
        ran = run(OPT, module, "-S", option, "--output-symbols-file", tmp_path / "s")
        assert ran.returncode == 0 and ran.stdout == run(OPT, module, "-S", "--inject-instrumentation=0").stdout and b"__calltrace" not in ran.stdout
        assert [f["instrumented"] for f in symbols(tmp_path / "s")] == [False] * len(functions)


# Bad input

WRONG = {
    "an unknown key": ('[[block]]\nfucntion = "x"\n', 2, "did you mean function?"),
    "an unknown table": ('[[deny]]\nfunction = "x"\n', 1, "[[block]] and [[allow]]"),
    "a setting": ('[[block]]\n\n[[allow]]\n[x]\n', 4, "[[block]] and [[allow]]"),
    "one bracket": ('\n[block]\nfunction = "x"\n', 2, "two brackets"),
    "a bracket too few": ('[[block]\nfunction = "x"\n', 1, "not TOML"),
    "an open string": ('[[block]]\nfunction = "x\n', 2, "not TOML"),
    "the key twice": ('[[block]]\nfunction = "x"\nfunction = "y"\n', 3, "not TOML"),
    "a number for a name": ("[[block]]\nfunction = 3\n", 2, "text in quotes"),
    "a text for a number": ('[[block]]\n\ninstructions_lt = "3"\n', 3, "number of instructions"),
    "a negative number": ("[[allow]]\n[[block]]\ninstructions_gt = -3\n", 3, "number of instructions"),
    "no regular expression": ('[[block]]\n[[block]]\nfunction_linkage_name = "(a"\n', 3, "regular expression"),
    "an empty list": ("[[block]]\nfile = []\n", 2, "text in quotes"),
    "a table for a name": ("[[block]]\nfunction = { a = 1 }\n", 2, "text in quotes"),
    "brackets without end": ("a = " + 9000 * "[", 1, "brackets"),
}


@pytest.mark.parametrize("text, line, words", WRONG.values(), ids=WRONG.keys())
def test_rules_that_are_wrong_are_shown_with_line_and_caret_and_nothing_is_written(tmp_path, scopes, text, line, words):
    (tmp_path / "f.toml").write_text(text)
    ran = run(OPT, scopes[0], "--filters-file=f.toml", "-o", "out", "--output-symbols-file=s", cwd=tmp_path)
    said = ran.stderr.decode().splitlines()
    assert ran.returncode == 2 and len(said) == 3
    assert said[0].startswith(f"calltrace-opt: f.toml:{line}: ") and words in said[0]
    shown = text.splitlines()[line - 1].strip()
    assert shown.startswith(said[1].strip()) and re.fullmatch(r"    \^~*", said[2]) and len(said[2]) <= len(said[1])
    assert not (tmp_path / "out").exists() and not (tmp_path / "s").exists()


def test_with_rules_that_are_wrong_a_build_goes_on_untraced(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "f.toml").write_text('[[block]]\nfucntion = "x"\n')
    ran = run(CC, "--calltrace-filters-file=f.toml", "a.c", "-o", "a", cwd=tmp_path)
    assert ran.returncode == 0 and b"f.toml:2: " in ran.stderr and b"the functions of a.c are not traced" in ran.stderr
    assert execute(str(tmp_path / "a"), tmp_path / "run.log") == (0, "")
    assert not (tmp_path / "run.log").exists() or not called(tmp_path / "run.log")


@pytest.mark.parametrize("options, words", [
    (["--filters-flie=x"], "did you mean --filters-file"), (["--output-language=c"], "bitcode and ir"), (["--enable-runtime=maybe"], "true and false"), (["--module-id"], "needs a value"), (["-o"], "needs a value"),
    (["-x"], "--help"), (["a.bc", "b.bc"], "a.bc and b.bc")])
def test_a_wrong_command_line_is_one_sentence(options, words):
    ran = run(OPT, *options, stdin=subprocess.DEVNULL)
    assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1 and words in ran.stderr.decode() and ran.stdout == b""


def test_a_wrong_option_of_the_compiler_is_one_sentence(tmp_path):
    for option, words in (("--calltrace-filters-flie=x", "did you mean --calltrace-filters-file"), ("--calltrace-output-file=x", "calltrace-opt"), ("--calltrace-module-id", "needs a value")):
        ran = run(CC, option, "a.c", cwd=tmp_path)
        assert ran.returncode == 1 and len(ran.stderr.splitlines()) == 1 and words in ran.stderr.decode()


def test_input_that_is_no_module_is_told_and_leaves_the_output_as_it_was(tmp_path, scopes):
    whole = scopes[0].read_bytes()
    (tmp_path / "out").write_text("as it was")
    for data in (b"", b"int main(void) { }\n", whole[: len(whole) // 2], whole[:6] + bytes(64) + whole[70:], b"\x7fELF" + bytes(60)):
        (tmp_path / "in").write_bytes(data)
        ran = run(OPT, "in", "-o", "out", cwd=tmp_path)
        assert ran.returncode == 1 and ran.stderr.startswith(b"calltrace-opt: in is ") and ran.stdout == b""
        assert run(OPT, input=data).returncode == 1
    ran = run(OPT, "none", "-o", "out", cwd=tmp_path)
    assert ran.returncode == 1 and b"none: No such file" in ran.stderr
    assert (tmp_path / "out").read_text() == "as it was" and sorted(p.name for p in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("options", [["-o", "/dev/full"], ["-o", "none/out"], ["--output-symbols-file=/dev/full"], ["--output-symbols-file=none/s"], ["--filters-file=none"]])
def test_what_cannot_be_written_or_read_is_one_sentence_and_leaves_nothing(tmp_path, scopes, options):
    ran = run(OPT, scopes[0], *options, cwd=tmp_path)
    assert ran.returncode == 1 and len(ran.stderr.splitlines()) == 1 and ran.stdout == b"" and not list(tmp_path.iterdir())


def test_bitcode_is_not_written_to_a_terminal(scopes):
    for options, refused in (([], True), (["--force-binary-output"], False), (["-S"], False)):
        ours, theirs = pty.openpty()
        ran = subprocess.Popen([OPT, str(scopes[0]), *options], stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        size = 0
        try:
            while chunk := os.read(ours, 65536):
                size += len(chunk)
        except OSError:
            pass  # of a terminal that the other side has closed
        os.close(ours)
        said = ran.communicate(timeout=WAIT)[1]
        assert (ran.returncode, size > 0) == ((2, False) if refused else (0, True)) and (b"terminal" in said) == refused


def test_older_bitcode_can_be_read(tmp_path):
    older = next((c for c in ("clang-14", "clang-15", "clang-16") if run("sh", "-c", f"command -v {c}").returncode == 0), None)
    if not older:
        pytest.skip("there is no older clang")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    assert run(older, "-O1", "-c", "-emit-llvm", "a.c", "-o", "a.bc", cwd=tmp_path).returncode == 0
    assert run(OPT, "a.bc", "-o", "b.bc", cwd=tmp_path).returncode == 0
    assert execute(link(tmp_path, tmp_path / "b.bc"), tmp_path / "run.log")[0] == 0
    assert called(tmp_path / "run.log") == {"main"}


def test_help_manual_and_completion_name_the_same_options():
    said = set(re.findall(r"--[a-z][a-z-]+", run(OPT, "--help").stdout.decode()))
    manual = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "man" / "calltrace-opt.1").read_text().split(".SH OPTIONS")[1].split(".SH FILES")[0].replace("\\-", "-").replace("--no-", "").replace("--NAME", "")))
    script = f"source {ROOT}/completion/calltrace-opt.bash; compopt() {{ :; }}\nCOMP_WORDS=({OPT} --) COMP_CWORD=1\n_calltrace_opt\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    completed = set(run("bash", "-c", script).stdout.decode().replace("=", "").split())
    assert said == manual == completed and "--filters-file" in said
