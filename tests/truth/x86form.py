"""One form to execute: an instruction, how its operand is addressed, what to set up, what it must touch.

A form becomes a function of its own. It is entered with the address A of its memory operand in rdi; its first
lines compute whatever registers the addressing form wants from it; `insn_N` labels the instruction under test.
What the instruction touches is stated here from the manuals (Intel SDM vol. 2, AMD APM vol. 3-5), as ranges
relative to A. No decoder is asked.
"""

import re

GPR = ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]
LEGACY = GPR[:7]
PTR = {1: "byte ptr ", 2: "word ptr ", 4: "dword ptr ", 6: "fword ptr ", 8: "qword ptr ", 10: "tbyte ptr ",
       16: "xmmword ptr ", 32: "ymmword ptr ", 64: "zmmword ptr "}

# The memory that forms access, at an address that fits in 31 bits; the linker defines truth_arena as this.
ARENA = 0x10000000
# Where A is when the instruction's own bytes say it.
FIXED_OFFSET = 0x10040
FIXED = ARENA + FIXED_OFFSET
# What the gs base is while a form runs.
GS_BASE = ARENA - 0x800


def part(reg, size):
    """The name of the low @size bytes of a general register."""
    if size == 8:
        return reg
    if reg[1:].isdigit():
        return reg + {4: "d", 2: "w", 1: "b"}[size]
    if size == 4:
        return "e" + reg[1:]
    if size == 2:
        return reg[1:]
    return reg[1] + "l" if reg[2] == "x" else reg[1:] + "l"


def selector(at, size):
    """A selector that is popped from a slot of @size bytes: it has two, and processors differ about the rest (AMD reads it, Intel does not)."""
    return [(at, 2, "R"), (at + 2, size - 2, "R", True)]


class Form:
    def __init__(self, key, group, before, insn, after, accesses, **more):
        self.key = key  # names the form: no two have the same
        self.group = group
        self.before, self.insn, self.after = before, insn, after
        self.accesses = accesses  # (offset from A, bytes, kind "R" "W" "RW", may be left out)
        self.align = more.get("align", 1)
        self.fixed = more.get("fixed", False)
        self.feature = more.get("feature", "")
        self.flags = more.get("flags", [])
        self.blob = more.get("blob")  # (offset from A, assembler data lines)
        self.accept = more.get("accept", "")
        self.shape = more.get("shape", key)  # without what only its setup differs in
        self.others = more.get("others", [])  # what other lines of it access: no watch goes there


class Address:
    """An addressing form with its registers chosen: text of the operand and the lines before."""

    def __init__(self, text, before, regs, fixed=False, after=()):
        self.text, self.before, self.regs, self.fixed, self.after = text, before, regs, fixed, list(after)


def _lea(base, minus):
    return f"lea {base}, [rdi - ({minus})]"


# Each takes registers (base, index) and returns an Address. All of them make A.
def _base(b, i):
    return Address(f"[{b}]", [_lea(b, 0)], {b})


def _disp8(b, i):
    return Address(f"[{b} + 0x40]", [_lea(b, 0x40)], {b})


def _disp8_negative(b, i):
    return Address(f"[{b} - 0x23]", [_lea(b, -0x23)], {b})


def _disp32(b, i):
    return Address(f"[{b} - 0x12345]", [_lea(b, -0x12345)], {b})


def _sib(scale, disp):
    def make(b, i):
        n = {1: -77, 2: 33, 4: -19, 8: 5}[scale]
        return Address(f"[{b} + {i} * {scale} + {disp}]", [_lea(b, n * scale + disp), f"mov {i}, {n}"], {b, i})
    return make


def _index_only(b, i):
    return Address(f"[{i} * 2 + {FIXED - 0x246}]", [f"mov {i}, 0x123"], {i}, fixed=True)


def _rsp(b, i):
    return Address("[rsp + 0x18]", ["mov [rip + truth_own_sp], rsp", "lea rsp, [rdi - 0x18]"], {"rsp"},
                   after=["mov rsp, [rip + truth_own_sp]"])


def _rsp_index(b, i):
    return Address(f"[rsp + {i} * 4 - 4]",
                   ["mov [rip + truth_own_sp], rsp", "lea rsp, [rdi - 0x20]", f"mov {i}, 9"], {"rsp", i},
                   after=["mov rsp, [rip + truth_own_sp]"])


def _rip(b, i):
    return Address(f"[rip + truth_arena + {FIXED_OFFSET}]", [], set(), fixed=True)


def _absolute(b, i):
    return Address(f"ds:[{FIXED}]", [], set(), fixed=True)


def _fs(b, i):
    return Address(f"fs:[{b} + 8]", [_lea(b, 8), f"sub {b}, fs:[0]"], {b})


def _gs(b, i):
    return Address(f"gs:[{b} + {i} + 4]", [_lea(b, GS_BASE + 104), f"mov {i}, 100"], {b, i})


def _gs_absolute(b, i):
    return Address(f"gs:[{FIXED - GS_BASE}]", [], set(), fixed=True)


def _spoil(r):
    """The upper half that a 32-bit address must ignore."""
    return [f"btc {r}, 37", f"btc {r}, 63"]


def _a32_base(b, i):
    return Address(f"[{part(b, 4)} + 0x10]", [_lea(b, 0x10)] + _spoil(b), {b})


def _a32_sib(b, i):
    return Address(f"[{part(b, 4)} + {part(i, 4)} * 4 + 7]",
                   [_lea(b, 7 - 4 * 3), f"mov {i}, -3"] + _spoil(b) + _spoil(i), {b, i})


def _a32_wraps(b, i):
    """The sum needs 33 bits: only its low 32 are used."""
    return Address(f"[{part(b, 4)} + {part(i, 4)}]", [f"mov {i}, 0xfffffff0", f"lea {b}, [rdi + 0x10]"], {b, i})


def _a32_rip(b, i):
    return Address(f"[eip + truth_arena + {FIXED_OFFSET}]", [], set(), fixed=True)


def _gs_a32(b, i):
    """The segment's base is added after the cut to 32 bits."""
    return Address(f"gs:[{part(b, 4)}]", [_lea(b, GS_BASE)] + _spoil(b), {b})


MODES = {
    "base": _base,
    "disp8": _disp8,
    "sib1": _sib(1, 0),
    "rip": _rip,
    "disp32": _disp32,
    "sib8 disp8": _sib(8, 0x20),
    "fs": _fs,
    "a32 base": _a32_base,
    "sib4 disp32": _sib(4, -0x54321),
    "rsp": _rsp,
    "gs": _gs,
    "disp8 negative": _disp8_negative,
    "index only": _index_only,
    "a32 sib": _a32_sib,
    "absolute": _absolute,
    "rsp index": _rsp_index,
    "sib2": _sib(2, 0),
    "a32 rip": _a32_rip,
    "gs absolute": _gs_absolute,
    "a32 wraps": _a32_wraps,
    "gs a32": _gs_a32,
}
MODE_NAMES = list(MODES)


class Rotation:
    """Hands out registers and addressing forms in turn, so that all of them meet all kinds of instructions."""

    def __init__(self):
        self.at = {}

    def next(self, name, choices, taken=()):
        choices = list(choices)
        n = self.at.get(name, 0)
        for step in range(len(choices)):
            c = choices[(n + step) % len(choices)]
            if c not in taken:
                self.at[name] = n + step + 1
                return c
        raise ValueError(f"no {name} left")


class Book:
    """Collects forms. The families (family_*.py) describe them through its methods."""

    def __init__(self):
        self.forms = []
        self.keys = set()
        self.rotation = Rotation()
        self.group = ""
        self.feature = ""
        self.behind_gs = ""  # class of what cannot be known of an operand behind gs

    def add(self, form):
        if form.key in self.keys:
            raise ValueError(f"twice: {form.key}")
        self.keys.add(form.key)
        self.forms.append(form)

    def raw(self, key, before, insn, after=(), accesses=(), **more):
        """A form with an address of its own making."""
        more.setdefault("feature", self.feature)
        self.add(Form(f"{key}", self.group, list(before), insn, list(after),
                      [a if len(a) == 4 else (*a, False) for a in accesses], **more))

    def op(self, text, kind, size, modes=3, setup=(), after=(), avoid=(), accesses=None, evex=False, tag="",
           legacy=False, only=None, **more):
        """
        One instruction in several addressing forms. In @text {m} is the operand with its size, {a} without;
        {r1} {r2} {r4} {r8} {h} {mm} {xm} {ym} {zm} {k} are registers, {xm#2} another one of the kind.
        """
        if accesses is None:
            accesses = [(0, size, kind)] if kind else []
        for _ in range(modes if isinstance(modes, int) else len(modes)):
            names = MODE_NAMES if isinstance(modes, int) else modes
            mode = self.rotation.next("mode" + repr(only), [n for n in names if not only or n in only])
            self.one(text, mode, size, setup, after, set(avoid), accesses, evex, tag, legacy, dict(more))

    def one(self, text, mode, size, setup, after, avoid, accesses, evex, tag, legacy, more):
        pool = LEGACY if legacy or "{h}" in text else GPR
        # Registers that hold something of their own meanwhile: A itself, until it has been used.
        base = self.rotation.next("base", pool, avoid)
        index = self.rotation.next("index", pool, avoid | {base, "rdi"})
        address = MODES[mode](base, index)
        taken = avoid | address.regs
        chosen = {}

        def fill(match):
            what = match.group(1)
            if match.group(0) not in chosen:
                chosen[match.group(0)] = self.register(what, pool, taken, evex)
            return chosen[match.group(0)]

        operand = PTR.get(size, "") + address.text
        insn = text.replace("{m}", operand).replace("{a}", address.text)
        insn = re.sub(r"\{(r[1248]|h|k|mm|[xyz]m)(#\d)?\}", fill, insn)
        key = f"{text}{' ' + tag if tag else ''} / {size} / {mode}"
        more.setdefault("feature", self.feature)
        more["shape"] = f"{text} / {size} / {mode}"
        if mode.startswith("gs"):
            more.setdefault("accept", self.behind_gs)
        self.add(Form(key, self.group, address.before + list(setup), insn, list(after) + address.after,
                      [a if len(a) == 4 else (*a, False) for a in accesses], fixed=address.fixed, **more))

    def register(self, what, pool, taken, evex):
        if what == "h":
            return self.rotation.next("h", [h for h in ("ah", "ch", "dh", "bh")
                                            if "r" + h[0] + "x" not in taken])
        if what[0] == "r":
            reg = self.rotation.next("gpr", pool, taken | {"rdi"})
            taken.add(reg)
            return part(reg, int(what[1:]))
        if what == "mm":
            return "mm%d" % self.rotation.next("mm", range(8))
        if what == "k":
            return "k%d" % self.rotation.next("k", range(2, 8))
        number = self.rotation.next("vector", range(1, 32 if evex else 16))
        return f"{what}m{number}"
