# rooms: cli/repl code/dwarf code/locate
"""print and x of the REPL: what they show of a process against what gdb shows of it."""
import re
import subprocess
from pathlib import Path

import pytest

from conftest import WAIT, wait_until
from repl_driver import script, values  # noqa: F401


def gdb(pid, commands):
    line = ["gdb", "-nx", "-q", "-batch", "-p", str(pid), "-ex", "set print null-stop on", "-ex", "set width 0",
            "-ex", "set print static-members off"]
    for c in commands:
        line += ["-ex", f"echo \\n<<{c}>>\\n", "-ex", c]
    out = subprocess.run(line, capture_output=True, text=True, timeout=WAIT, errors="replace").stdout
    out = re.sub(r"\n\[Inferior .*", "", out)
    return {m[1]: m[2].strip("\n") for m in re.finditer(r"<<(.*?)>>\n(.*?)(?=\n<<|\Z)", out, re.S)}


def in_hex(name):
    return re.sub(r"\+(\d+)$", lambda m: f"+{int(m[1]):#x}", name)


def from_gdb(text, address=False):
    """gdb's way to write a value -> ours. Only the form is changed, never a number or a name."""
    text = re.sub(r"^\$\d+ = ", "", text)
    if not address:  # the type of a pointer, which we give to addresses alone
        text = re.sub(r"^\([^()]*(\([^()]*\)[^()]*)*\) (?=0x|@)", "", text)
    text = re.sub(r"^@0x[0-9a-f]+: ", "", text)
    text = re.sub(r"<([^<>]*)>(?! =)", lambda m: m[0] if "repeats" in m[1] else " " + in_hex(m[1]), text)
    text = re.sub(r"(-?\d+) [Lu]?('(?:\\.[0-7]*|[^'])+')", r"\2 (\1)", text)
    text = re.sub(r"\((\w+(?: \| \w+)+)\)", lambda m: m[1].replace(" | ", "|"), text)
    return re.sub(r"\\([0-7]{3})", lambda m: f"\\x{int(m[1], 8):02x}", text)


def to_one_line(text):
    text = re.sub(r"\{\s+", "{", text)
    text = re.sub(r"\s+\}", "}", text)
    return re.sub(r",\s+", ", ", text)


def same_number(a, b):
    """gdb prints floating point numbers with more digits than it takes to tell them apart."""
    try:
        return float(a) == float(b) or abs(float(a) - float(b)) < 1e-7 * abs(float(b))
    except ValueError:
        return False


def assert_same(ours, theirs, what):
    split = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])")
    a, b = split.split(ours), split.split(theirs)
    assert len(a) == len(b) and all(x == y or same_number(x, y) for x, y in zip(a, b)), f"{what}: {ours!r}, gdb {theirs!r}"


def prints(script, pid, expressions):
    out = script(f"attach {pid}\n" + "".join(f"print{e}\n" for e in expressions), "-k").stdout
    found = {}
    for e in expressions:
        name = e.split(" ", 1)[1]
        at = out.index(f"\n{name} = ") + 1
        value = re.match(re.escape(name) + r" = (.*(?:\n[ }].*)*)", out[at:])[1]
        found[e] = to_one_line(value)
        out = out[at + len(name):]
    return found


C_VALUES = """number positive brief brief_positive wide wide_positive truth real precise extended huge color strange flags
    first second head nowhere indirect *head head->next->len head->name table table[1] table[2].name bits bits.across
    bits.middle mixed.half mixed.x mixed.wide mixed.text mixed.call mixed.list mixed.yes grid grid[1] zeros longer doubles
    chars exact words text anything function_pointer atomic_count letter bell &number &table &grid[1] &mixed.color
    """.split()


def test_values_of_c_print_as_gdb_prints_them(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    theirs = gdb(pid, [f"print {e}" for e in C_VALUES])
    ours = prints(script, pid, [f" {e}" for e in C_VALUES])
    for e in C_VALUES:
        assert_same(re.sub(r"  +", " ", ours[f" {e}"]), re.sub(r"  +", " ", from_gdb(theirs[f"print {e}"], e[0] == "&")), e)


EXPRESSIONS = ["((struct node *)head)->len", "*(int *)&head->len", "(struct node *)&first", "*&number", "&head->len",
               "*(table + 1)", "table + 1", "head + 1", "&table[1] + 1", "(&table[2])->name", "table[1 + 1].len",
               "table[0].len@2", "grid[0]@2", "table[1]@2", "sizeof(struct node)", "sizeof table", "sizeof number * 2",
               "sizeof(table) / sizeof(table[0])", "'repl_values.c'::number", "*'repl_values.c'::head",
               "((struct node *)anything)", "*(unsigned char *)&number", "*&table[1].len", "&*head", "*(char **)&words"]


def test_expressions_print_as_gdb_prints_them(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    theirs = gdb(pid, [f"print {e}" for e in EXPRESSIONS])
    ours = prints(script, pid, [f" {e}" for e in EXPRESSIONS])
    for e in EXPRESSIONS:
        # gdb leaves out the type of a pointer that lies in memory: what counts is the value.
        expected, shown = (re.sub(r"^\(.*\) (?=0x)", "", re.sub(r"  +", " ", t))
                           for t in (from_gdb(theirs[f"print {e}"], True), ours[f" {e}"]))
        assert_same(shown, re.sub(r"^'.*' \((\d+)\)$", r"\1", expected), e)


def test_structures_within_structures_print_with_all_members(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    ours = prints(script, pid, [" mixed"])[" mixed"]
    theirs = gdb(pid, ["print mixed"])["print mixed"]
    # gdb shows unsigned char as a character too: a number to us.
    theirs = re.sub(r"(small|tiny) = (-?\d+) '[^']*'", r"\1 = \2", re.sub(r"^\$1 = ", "", theirs))
    theirs = re.sub(r" <(\w+)>", r"  \1", theirs)
    assert_same(ours, theirs, "mixed")


@pytest.mark.parametrize("form", "xduotc")
def test_formats_print_as_gdb_prints_them(script, values, form):
    pid = values("repl_values.c", "gcc", "-O0")
    names = ["number", "positive", "brief", "wide", "octet", "letter", "bits", "table[1]", "either.byte", "chars", "grid",
             "color", "head"]
    if form == "c":
        names = ["number", "letter", "octet", "chars", "either.byte"]
    if form in "xduot":
        names.append("precise")
    theirs = gdb(pid, [f"print/{form} {e}" for e in names])
    ours = prints(script, pid, [f"/{form} {e}" for e in names])
    for e in names:
        expected = from_gdb(theirs[f"print/{form} {e}"])
        assert re.sub(r"\\0'", r"\\x00'", ours[f"/{form} {e}"]) == expected, e


def test_values_of_cpp_print_as_gdb_prints_them(script, values):
    pid = values("repl_values.cc", "g++", "-O0")
    names = ["reference", "square", "twins", "plain", "&reference", "shop::price", "one.price", "one.id"]
    theirs = gdb(pid, [f"print {e.replace('one.', 'shop::one.')}" for e in names])
    ours = prints(script, pid, [f" {e}" for e in names])
    for e in names:
        expected = from_gdb(theirs[f"print {e.replace('one.', 'shop::one.')}"], e[0] == "&")
        assert_same(re.sub(r"  +", " ", ours[f" {e}"]), re.sub(r"  +", " ", re.sub(r"^\(int &\) ", "", expected)), e)
    assert "closed" in prints(script, pid, [" now"])[" now"]
    assert re.fullmatch(r"\{<base> = \{id = 3\}, price = @0x\w+: 99, sold = false\}", prints(script, pid, [" one"])[" one"])


EXAMINED = ["x/4xw &number", "x/8xb &mixed", "x/3dh longer", "x/4uw grid", "x/2xg &head", "x/2gx table", "x/3f doubles",
            "x/2tw grid", "x/5ob raw", "x/s text", "x/2s chars", "x/4db raw", "x/xw head", "x/2wx &grid[1]",
            "x/3xg &indirect", "x/2dw grid + 1"]


def test_memory_is_laid_out_as_gdb_does(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    theirs = gdb(pid, EXAMINED)
    for command in EXAMINED:
        ours = script(f"attach {pid}\n{command}\n").stdout.split("\n", 1)[1].rstrip("\n")
        expected = re.sub(r"<(.*?)>", lambda m: f"<{in_hex(m[1])}>", theirs[command])
        for a, b in zip(re.split(r"[\t\n]", ours), re.split(r"[\t\n]", expected), strict=True):
            assert a == b or same_number(a, b), f"{command}: {ours!r}, gdb {expected!r}"


def test_instructions_begin_where_gdb_says(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    ours = script(f"attach {pid}\nx/6i main\n").stdout
    theirs = gdb(pid, ["x/6i main"])["x/6i main"]
    address = re.compile(r"^\W*(0x[0-9a-f]+)", re.M)
    assert address.findall(ours) == address.findall(theirs)


def test_instructions_in_att_syntax_are_those_that_gdb_writes(script, values):
    """gdb's default syntax; it leaves suffixes out that registers make plain."""
    pid = values("repl_values.c", "gcc", "-O0")
    ours = script(f"attach {pid}\nx/12i main\n", "--syntax", "att").stdout
    theirs = gdb(pid, ["x/12i main"])["x/12i main"]

    def operands(text):
        lines = re.findall(r"^\W*0x[0-9a-f]+[^\t]*\t(.*)$", text, re.M)
        return [re.sub(r"\s*[<#].*|\s+", "", line.partition(" ")[2]) for line in lines]

    assert len(operands(ours)) == 12 and operands(ours) == operands(theirs)
    assert "%rsp" in ours and "%rsp" not in script(f"attach {pid}\nx/12i main\n").stdout


def test_what_cannot_be_known_is_said_and_not_guessed(script, values):
    pid = values("repl_values.c", "gcc", "-O0")
    r = script(f"attach {pid}\nprint per_thread\nprint nowhere->len\nprint nosuch\nx/4xw 0x10\nprint first.nolen\n"
               "print twice\n", "-k", expect=5)
    assert "thread-local" in r.stderr and "null pointer" in r.stderr and "'nosuch'" in r.stderr
    assert "cannot be read: the process has not mapped it" in r.stderr and "no member 'nolen'" in r.stderr
    assert re.search(r"twice = 0x\w+ +twice \(a function\)", r.stdout)


def test_what_the_program_says_is_not_obeyed_by_the_terminal(script, tmp_path):
    source = tmp_path / "evil.c"
    source.write_text('#include <sys/prctl.h>\n#include <unistd.h>\nchar text[] = "a\\033[2Jb\\r\\n\\u202e";\n'
                      'int main(void) { prctl(PR_SET_NAME, "x\\033[2Jy"); pause(); }')
    subprocess.run(["gcc", "-g", "-o", str(tmp_path / "evil"), str(source)], check=True, timeout=WAIT)
    v = subprocess.Popen([str(tmp_path / "evil")])
    try:
        wait_until(lambda: b"\x1b" in Path(f"/proc/{v.pid}/comm").read_bytes())
        out = script(f"attach {v.pid}\nprint text\nx/s &text\ninfo threads\n").stdout
    finally:
        v.kill()
        v.wait()
    assert "\x1b" not in out and "\r" not in out and "\u202e" not in out
    assert 'text = "a\\e[2Jb\\r\\n\\342\\200\\256"' in out
