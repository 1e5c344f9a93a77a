# rooms: patch/plan cli/patch
"""watchctl patch --plan: what it finds against objdump and readelf, and whether what it plans would be safe."""

import bisect
import functools
import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT, WATCHCTL  # noqa: E402

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
CRYPTO = "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"
BASH = "/bin/bash"
GIT = "/usr/bin/git"
PYTHON = "/usr/bin/python3.11"
FILES = [LIBC, BASH, *(pytest.param(path, marks=pytest.mark.slow) for path in (CRYPTO, GIT, PYTHON))]
JUMPS = re.compile(r"^(?:bnd |notrack |data16 )*(j\w+|call|loop\w*|xbegin)\s+0?x?([0-9a-f]+)(?: |$)")


def watchctl(*words, status=0):
    done = subprocess.run([WATCHCTL, "patch", *words], capture_output=True, text=True, timeout=10 * WAIT, errors="replace")
    assert done.returncode == status, done.stderr
    return done


def there(path):
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed")
    return path


@functools.lru_cache(maxsize=64)
def plan(path, *patterns, more=()):
    """The sites, and the totals."""
    words = [w for p in patterns for w in ("--at", p)]
    lines = [json.loads(line) for line in watchctl("--plan", *words, "--json", *more, there(path)).stdout.splitlines()]
    assert lines[-1]["type"] == "patch_total"
    assert all(line["type"] == "patch_site" for line in lines[:-1])
    return lines[:-1], lines[-1]


@functools.lru_cache(maxsize=8)
def objdump(path):
    """(address, length, text) of every instruction, as objdump has it."""
    text = subprocess.run(["objdump", "-d", "-w", "-M", "intel", there(path)], capture_output=True, text=True, check=True,
                          timeout=10 * WAIT, env=dict(os.environ, LC_ALL="C")).stdout
    found = []
    for line in text.splitlines():
        part = line.split("\t")
        if len(part) >= 3 and part[0].endswith(":"):
            found.append((int(part[0][:-1], 16), len(part[1].split()), part[2].strip()))
    return found


def addresses(sites):
    return {int(s["addr"], 16) for s in sites}


def in_functions(sites):
    """Without those in bytes that belong to no function: what these are, two disassemblers need not agree on."""
    return {int(s["addr"], 16) for s in sites if "in no function" not in s["reason"]}


def compare(path, pattern, expected):
    """The sites of @pattern are those that objdump's text shows, wherever code is known to be code."""
    sites, _ = plan(path, pattern)
    wanted = {a for a, _, text in objdump(path) if expected(text)}
    assert in_functions(sites) == wanted - gaps(path)
    assert in_functions(sites) or path != LIBC
    return sites


@functools.lru_cache(maxsize=8)
def gaps(path):
    """Where the plan says that code belongs to no function."""
    sites, _ = plan(path, "*")
    known = sorted(in_functions(sites))
    return {a for a, _, _ in objdump(path) if not is_known(known, a)}


def is_known(known, addr):
    i = bisect.bisect_right(known, addr)
    return i > 0 and known[i - 1] == addr


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_syscall_finds_what_objdump_lists(path):
    compare(path, "syscall", lambda text: text.split()[0] == "syscall")


@pytest.mark.slow_when("/lib/x86_64-linux-gnu/libc.so.6")
@pytest.mark.parametrize("path", FILES)
def test_lock_cmpxchg_finds_what_objdump_lists(path):
    compare(path, "lock cmpxchg *, *", lambda text: text.startswith("lock cmpxchg "))


@pytest.mark.parametrize("path", FILES)
def test_group_locked_finds_all_with_the_prefix(path):
    compare(path, "@locked", lambda text: text.startswith("lock ") or " lock " in text.split(",")[0])


@pytest.mark.slow_when("/usr/bin/git")
@pytest.mark.parametrize("path", [BASH, GIT, LIBC])
def test_group_call_finds_what_objdump_lists(path):
    compare(path, "@call", lambda text: re.match(r"(bnd |notrack |data16 |rex\.?\w* |addr32 |cs )*call\b", text))


@pytest.mark.slow_when("/usr/bin/git")
@pytest.mark.parametrize("path", [BASH, GIT])
def test_group_ret_finds_what_objdump_lists(path):
    compare(path, "@ret", lambda text: re.match(r"(rep\w* |repz |bnd )*ret\b", text))


@pytest.mark.slow_when("/usr/bin/git")
@pytest.mark.parametrize("path", [BASH, GIT])
def test_call_of_a_name_finds_the_calls_of_its_stub(path):
    name = "malloc"
    sites = compare(path, f"call {name}", lambda text: re.match(rf"call +[0-9a-f]+ <{name}@plt>$", text))
    assert len(sites) > 5


@pytest.mark.slow
@pytest.mark.parametrize("path", [BASH, GIT])
def test_operands_find_what_objdump_lists(path):
    compare(path, "mov reg64, qword ptr [rdi+8]", lambda text: re.match(r"mov +r\w+,QWORD PTR \[rdi\+0x8\]$", text))
    compare(path, "xor eax, eax", lambda text: re.match(r"xor +eax,eax$", text))
    compare(path, "lea *, [rip+*]", lambda text: re.match(r"lea +\w+,\[rip\+", text))
    compare(path, "jne *", lambda text: re.match(r"(bnd )?jne ", text))


def test_a_sequence_finds_instructions_in_a_row():
    lines = objdump(there(BASH))
    wanted = {a for (a, n, x), (b, _, y) in zip(lines, lines[1:])
              if a + n == b and re.match(r"pop +rbp$", x) and re.match(r"ret$", y)}
    sites, _ = plan(BASH, "pop rbp; ret")
    assert in_functions(sites) == wanted - gaps(BASH)
    assert in_functions(sites)


def test_bytes_find_what_the_instruction_finds():
    assert addresses(plan(LIBC, "bytes 0f 05")[0]) == addresses(plan(LIBC, "syscall")[0])
    assert addresses(plan(LIBC, "bytes 0f ?5")[0]) >= addresses(plan(LIBC, "syscall")[0])


def functions_of_readelf(path):
    """Addresses of functions by the dynamic symbols, which are all that a distribution's library has."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", there(path)], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    found = {}
    for line in text.splitlines():
        part = line.split()
        if len(part) >= 8 and part[3] in ("FUNC", "IFUNC") and part[6] not in ("UND", "ABS") and int(part[2], 0):
            found[part[7].split("@")[0]] = int(part[1], 16)
    return found


@pytest.mark.parametrize("path", FILES)
def test_entries_hold_every_function_of_readelf(path):
    found = addresses(plan(path, "entry *")[0])
    missing = {n: a for n, a in functions_of_readelf(path).items() if a not in found and a + 4 not in found}
    assert missing == {}


def test_an_entry_by_name_is_where_readelf_has_it():
    wanted = functions_of_readelf(LIBC)
    for name in ("malloc", "free", "printf", "pthread_mutex_lock"):
        assert addresses(plan(LIBC, f"entry {name}")[0]) == {wanted[name]}
    assert addresses(plan(LIBC, "malloc+0")[0]) == {wanted["malloc"]}
    assert addresses(plan(LIBC, hex(wanted["malloc"]))[0]) == {wanted["malloc"]}


def test_exits_are_returns_and_tail_calls():
    for site in plan(BASH, "exit *")[0]:
        assert re.match(r"(rep\w* |bnd |notrack )*(ret|jmp)", site["insn"])


# What is planned


@functools.lru_cache(maxsize=8)
def listing(path):
    """Of objdump's listing: where instructions begin, their lengths, and where direct jumps and calls lead."""
    starts, targets = {}, set()
    for addr, length, text in objdump(path):
        starts[addr] = length
        jump = JUMPS.match(text)
        if jump:
            targets.add(int(jump[2], 16))
    return starts, sorted(targets)


def between(values, low, high):
    return values[bisect.bisect_left(values, low):bisect.bisect_left(values, high)]


@pytest.mark.parametrize("pattern", ["entry *", "*", "@locked", "syscall"])
@pytest.mark.parametrize("path", FILES)
def test_no_direct_jump_of_objdump_leads_into_moved_bytes(path, pattern):
    starts, targets = listing(path)
    for site in plan(path, pattern)[0]:
        if site["tactic"] in ("refused", "trap"):
            continue
        start, moved = int(site["start"], 16), site["moved"]
        inside = between(targets, start + 1, start + max(moved, site["length"]))
        assert site["tactic"] == "pun" and site["length"] <= moved or not inside, (site, [hex(t) for t in inside])


@pytest.mark.parametrize("path", FILES)
def test_whole_instructions_move(path):
    starts, _ = listing(path)
    off = 0
    for site in plan(path, "entry *")[0]:
        if site["tactic"] not in ("jump", "padding", "nop"):
            continue
        at, end = int(site["start"], 16), int(site["start"], 16) + site["moved"]
        if at not in starts:
            off += 1  # data in front of the function, from which objdump goes on out of step
            continue
        while at < end:
            assert at in starts, site
            at += starts[at]
        assert at == end
        assert site["tactic"] == "padding" or site["moved"] >= 5
    assert off <= 5


@pytest.mark.parametrize("pattern", ["entry *", "*"])
@pytest.mark.parametrize("path", [LIBC, BASH])
def test_two_patches_never_overlap(path, pattern):
    taken = {}
    for site in plan(path, pattern)[0]:
        if not site.get("length"):
            continue
        key = (site["start"], site["tactic"], site.get("via"))
        places = list(range(int(site["start"], 16), int(site["start"], 16) + site["length"]))
        if "via" in site:
            places += range(int(site["via"], 16), int(site["via"], 16) + 5)
        for place in places:
            assert taken.setdefault(place, key) == key, site


@pytest.mark.slow_when("/usr/lib/x86_64-linux-gnu/libcrypto.so.3")
@pytest.mark.parametrize("path", [CRYPTO, LIBC])
def test_padding_is_what_objdump_shows_as_nothing(path):
    text = {a: t for a, _, t in objdump(path)}
    for site in plan(path, "*")[0]:
        if "via" in site:
            assert re.search(r"nop|xchg +ax,ax|int3", text[int(site["via"], 16)]), site


@pytest.mark.parametrize("path,least", [(LIBC, 99), (CRYPTO, 99), (BASH, 99), (GIT, 99), (PYTHON, 98)])
def test_entries_need_no_trap(path, least):
    total = plan(path, "entry *")[1]
    assert 100 * total["without_trap"] >= least * total["sites"], total


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_a_tenth_of_all_instructions_needs_few_traps(path, tmp_path):
    known = sorted(in_functions(plan(path, "*")[0]))
    rules = tmp_path / "rules"
    rules.write_text("".join(f"{a:#x}\n" for i, a in enumerate(known) if i * 2654435761 % 2**32 < 2**32 // 10))
    lines = watchctl("--plan", "--rules", str(rules), "--json", path).stdout.splitlines()
    total = json.loads(lines[-1])
    assert total["sites"] > len(known) / 12
    assert 100 * total["without_trap"] >= 97 * total["sites"], total


def test_the_dynamic_loader_is_refused():
    sites, total = plan("/lib64/ld-linux-x86-64.so.2", "entry *")
    assert total["refused"] == total["sites"] > 50
    assert {s["reason"] for s in sites} == {"code of the dynamic loader"}


def test_a_process_is_planned_as_its_file_is_and_nothing_changes():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        try:
            p.stdin.write(b"ready\n")
            p.stdin.flush()
            assert p.stdout.readline() == b"ready\n"
            before = open(f"/proc/{p.pid}/maps").read()
            lines = watchctl("--plan", "--at", "syscall", "--in", "libc.so.6", "--json", "-p", str(p.pid)).stdout.splitlines()
            assert open(f"/proc/{p.pid}/maps").read() == before
            assert addresses(json.loads(line) for line in lines[:-1]) == addresses(plan(LIBC, "syscall")[0])
            lines = watchctl("--plan", "--at", "entry *", "--in", "[vdso]", "--json", "-p", str(p.pid)).stdout.splitlines()
            assert {json.loads(line)["tactic"] for line in lines[:-1]} == {"refused"}
        finally:
            p.kill()


@pytest.mark.slow
def test_jump_tables_are_targets(tmp_path):
    """The cases of a switch, by the labels that the compiler leaves in its assembly."""
    (tmp_path / "s.c").write_text(
        "int f(int n, int *p) { switch (n) {" + "".join(f"case {i}: return p[{i}] * {i + 3};" for i in range(40)) + "} return *p; }\n"
        "int main(int c, char **v) { return f(c, &c); }\n")
    for flags in (["gcc", "-O2", "-fPIC"], ["gcc", "-O2", "-no-pie", "-fno-pie"], ["clang", "-O2", "-fPIC"],
                  ["clang", "-O2", "-no-pie", "-fno-pie"]):
        path = tmp_path / "s"
        subprocess.run([*flags, "-g", "-o", str(path), str(tmp_path / "s.c")], check=True, timeout=WAIT)
        plan.cache_clear()
        sites, total = plan(str(path), "*", more=("--function", "f"))
        assert total["unresolved_jumps"] == 0
        # Each case begins with a load of its element: nothing that moves may hold it but as its first instruction.
        loads = [s for s in sites if re.search(r"\[rsi\+0x", s["insn"])]
        assert len(loads) > 25
        for site in loads:
            assert site["tactic"] in ("refused", "trap") or site["start"] == site["addr"], site
    plan.cache_clear()


def test_landing_pads_are_targets(tmp_path):
    """By the labels in the tables that the compiler writes into its assembly, made symbols, which are stripped before the plan."""
    (tmp_path / "e.cc").write_text(
        '#include <stdio.h>\nvoid g(int);\nint f(int n) { try { g(n); } catch (int e) { return e; } catch (...) { puts("x"); } return n; }\n'
        "void g(int n) { if (n) throw n; }\nint main(int c, char **) { return f(c); }\n")
    subprocess.run(["g++", "-O2", "-S", "e.cc"], cwd=tmp_path, check=True, timeout=WAIT)
    text = re.sub(r"\.L(\d+)\b", r"Label\1", (tmp_path / "e.s").read_text())
    labels = set(re.findall(r"\.uleb128 (Label\d+)-", text))
    (tmp_path / "e.s").write_text(text)
    subprocess.run(["g++", "-o", "e", "e.s"], cwd=tmp_path, check=True, timeout=WAIT)
    names = subprocess.run(["nm", "e"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    pads = {int(line.split()[0], 16) for line in names.splitlines() if line.split()[-1] in labels}
    assert len(pads) >= 2
    subprocess.run(["strip", "e"], cwd=tmp_path, check=True, timeout=WAIT)
    sites = plan(str(tmp_path / "e"), "*")[0]
    assert pads <= addresses(sites)
    for site in sites:
        if "start" in site and site["tactic"] != "pun":
            start = int(site["start"], 16)
            assert not any(start < pad < start + max(site["moved"], site["length"]) for pad in pads), site


def test_a_line_of_the_source_is_a_place(tmp_path):
    (tmp_path / "line.c").write_text("__attribute__((noipa)) int f(int *p)\n{\n\treturn *p * 3;\n}\nint main(int c, char **v) { return f(&c); }\n")
    subprocess.run(["gcc", "-O1", "-g", "-o", str(tmp_path / "line"), str(tmp_path / "line.c")], check=True, timeout=WAIT)
    sites, _ = plan(str(tmp_path / "line"), "line.c:3")
    assert [s["function"] for s in sites] == ["f"]


# What it says


def test_few_sites_are_listed_with_their_reasons():
    out = watchctl("--plan", "--at", "entry malloc", LIBC).stdout
    assert re.search(r"^(jump|padding|pun|nop) +libc\.so\.6 0x[0-9a-f]+  \S*malloc  ", out, re.M)
    assert re.search(r"^1 site, 100\.00 % without a trap; ", out, re.M)


def test_many_sites_are_counted_and_listed_when_asked():
    assert "--sites lists them" in watchctl("--plan", "--at", "@call", BASH).stdout
    rows = watchctl("--plan", "--at", "@call", "--sites", BASH).stdout
    assert len(re.findall(r"^\w+ +bash 0x", rows, re.M)) == len(plan(BASH, "@call")[0])


@pytest.mark.parametrize("pattern,status,words", [
    ("mov rax,", 2, "an operand was expected"),
    ("lock", 2, "a mnemonic was expected"),
    ("mov rax, foo", 2, "is no register"),
    ("mov rax, [rdi", 2, '"]" was expected'),
    ("mov rax, [rdi*3]", 2, "a scale is 1, 2, 4 or 8"),
    ("@calls", 2, "the groups are @call"),
    ("bytes 0g", 2, "two hexadecimal digits"),
    ("", 2, "a pattern was expected"),
    ("cmpxcgh", 5, "did you mean cmpxchg?"),
    ("entry mallocc", 5, "did you mean malloc"),
    ("call mallocc", 5, "did you mean malloc"),
    ("0x1", 5, "there is no code at 0x1"),
])
def test_a_pattern_that_means_nothing_is_refused_with_a_caret(pattern, status, words):
    err = watchctl("--plan", "--at", pattern, LIBC, status=status).stderr
    assert words in err
    assert re.search(r"at column \d+ of the pattern:\n.*\n *\^$", err, re.M)


@pytest.mark.parametrize("words,status,said", [
    (["--at", "syscall", LIBC], 2, "needs a process"),
    (["--plan", LIBC], 2, "--at PATTERN"),
    (["--plan", "--at", "syscall"], 2, "a file or a process"),
    (["--plan", "--at", "syscall", "/nonexistent"], 5, "cannot open"),
    (["--plan", "--at", "syscall", "/etc/passwd"], 5, "no program or library"),
    (["--plan", "--at", "syscall", "--function", "mallocc", LIBC], 5, "did you mean malloc"),
    (["--plan", "--rules", "/nonexistent", LIBC], 2, "cannot open the file of rules"),
    (["--plan", "--at", "syscall", "-p", "1", LIBC], 2, "give one of them"),
    (["--plan", "--at", "syscall", "-p", "2147483647"], 3, "2147483647"),
])
def test_a_request_that_cannot_be_met_is_one_sentence(words, status, said):
    err = watchctl(*words, status=status).stderr
    assert said in err and len(err.splitlines()) == 1


def test_rules_are_patterns_a_line(tmp_path):
    rules = tmp_path / "rules"
    rules.write_text("# the kernel\nsyscall\n\nlock cmpxchg *, *   # and these\n")
    found = watchctl("--plan", "--rules", str(rules), "--json", LIBC).stdout.splitlines()
    assert {json.loads(line)["pattern"] for line in found[:-1]} == {"syscall", "lock cmpxchg *, *"}
    rules.write_text("syscall\nmov rax,\n")
    err = watchctl("--plan", "--rules", str(rules), LIBC, status=2).stderr
    assert f"{rules}, line 2" in err
