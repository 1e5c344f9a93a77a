"""String instructions: plain and repeated, both directions, counts of 0 and early ends."""

from x86form import PTR, part

R, W, RW = "R", "W", "RW"
SUFFIX = {1: "b", 2: "w", 4: "d", 8: "q"}
FAR = 0x800  # from one string to the other: so far apart that no watch sees both
ACC = {1: "al", 2: "ax", 4: "eax", 8: "rax"}


def pattern(size, values):
    directive = {1: ".byte", 2: ".short", 4: ".long", 8: ".quad"}[size]
    return [f"{directive} " + ", ".join(str(v) for v in values)]


class Way:
    """How the pointers move: forwards or backwards, 64 or 32 bits of them used."""

    def __init__(self, down, addr32):
        self.down, self.addr32 = down, addr32
        self.name = ("down" if down else "up") + (" a32" if addr32 else "")

    def start(self, reg, at, count, size):
        """@reg such that @count steps cover [A + at, A + at + count * size); the register may be rdi last."""
        first = at + (max(count, 1) - 1) * size if self.down else at
        lines = [f"lea {reg}, [rdi + {first}]"]
        if self.addr32:
            lines += [f"btc {reg}, 41", f"btc {reg}, 33"]
        return lines

    def insn(self, text):
        return ("addr32 " if self.addr32 else "") + text

    def span(self, at, done, count, size, kind):
        """What @done of @count steps access."""
        begin = at + (count - done) * size if self.down else at
        return (begin, done * size, kind)


WAYS = [Way(False, False), Way(True, False), Way(False, True), Way(True, True)]


def one(b, way, name, size, rep, count, done, setup=(), blob=None, tag=""):
    """@done: how many of @count steps it makes (1 without a prefix)."""
    suffix = SUFFIX[size]
    source = name in ("movs", "lods", "cmps")
    dest = name != "lods"
    before, accesses = list(setup), []
    if rep:
        # The upper half of the count is no count with a 32-bit address size.
        before.append(f"mov rcx, {count + (1 << 35 if way.addr32 else 0)}")
    if source:
        before += way.start("rsi", FAR if dest else 0, count, size)
        if done:
            accesses.append(way.span(FAR if dest else 0, done, count, size, R))
    if dest:
        before += way.start("rdi", 0, count, size)
        if done:
            accesses.append(way.span(0, done, count, size, R if name in ("scas", "cmps") else W))
    if way.down:
        before.append("std")
    flags = ["WATCH_A"] if not done else []
    if rep:
        flags.append("REPEATED")
    b.raw(f"{rep + ' ' if rep else ''}{name}{suffix} {way.name}{' x ' + str(count) if rep else ''}"
          f"{', ' + tag if tag else ''}", before, way.insn(f"{rep} {name}{suffix}".strip()), ["cld"], accesses,
          flags=flags, blob=blob)


def build(b):
    b.group = "strings"
    for way in WAYS:
        for size in (1, 2, 4, 8):
            for name in ("movs", "stos", "lods", "scas", "cmps"):
                one(b, way, name, size, "", 1, 1)
            for name in ("movs", "stos", "lods"):
                for count in (0, 1, 3, 40 // size if size < 8 else 5, 1000 // size):
                    one(b, way, name, size, "rep", count, count)
            # The string at A repeats the one at A + FAR (both come from one pattern): all steps are made ...
            for count in (0, 1, 9, 700 // size):
                one(b, way, "cmps", size, "repe", count, count)
            one(b, way, "cmps", size, "repne", 9, 1, tag="ends at once")
            one(b, way, "cmps", size, "repne", 0, 0)
            # ... unless they differ somewhere.
            n, stop = 20, 13
            values = [7] * n
            values[n - stop if way.down else stop - 1] = 9
            differs = (0, pattern(size, values) + [f".zero {FAR - n * size}"] + pattern(size, [7] * n))
            one(b, way, "cmps", size, "repe", n, stop, blob=differs, tag=f"ends after {stop}")
            find = (0, pattern(size, values))
            acc = ACC[size]
            one(b, way, "scas", size, "repe", n, stop, setup=[f"mov {acc}, 7"], blob=find, tag=f"ends after {stop}")
            one(b, way, "scas", size, "repne", n, stop, setup=[f"mov {acc}, 9"], blob=find, tag=f"ends after {stop}")
            one(b, way, "scas", size, "repne", n, n, setup=[f"mov {acc}, 8"], blob=find, tag="finds nothing")
            for rep in ("repe", "repne"):
                one(b, way, "scas", size, rep, 0, 0)
    segments(b)
    overlaps(b)
    companions(b)


def segments(b):
    """A segment override moves the source alone."""
    for size in (1, 2, 4, 8):
        s = SUFFIX[size]
        for prefix, fix in (("fs", "sub rsi, fs:[0]"), ("gs", "sub rsi, 0x0ffff800")):
            behind = "gs base" if prefix == "gs" else ""
            b.raw(f"{prefix} movs{s}", ["lea rsi, [rdi + 0x800]", fix], f"{prefix} movs{s}", [],
                  [(0, size, W), (0x800, size, R)], accept=behind)
            b.raw(f"{prefix} lods{s}", ["mov rsi, rdi", fix], f"{prefix} lods{s}", [], [(0, size, R)])
            b.raw(f"{prefix} cmps{s}", ["lea rsi, [rdi + 0x800]", fix], f"{prefix} cmps{s}", [],
                  [(0, size, R), (0x800, size, R)])
            b.raw(f"{prefix} rep movs{s}", ["lea rsi, [rdi + 0x800]", fix, "mov ecx, 11"], f"{prefix} rep movs{s}",
                  [], [(0, 11 * size, W), (0x800, 11 * size, R)], flags=["REPEATED"],
                  accept=behind)
    for al in (0, 2, 0xff):
        b.raw(f"xlat, al {al}", [f"mov eax, {al}", "mov rbx, rdi"], "xlatb", [], [(al, 1, R)])
        b.raw(f"gs xlat, al {al}", [f"mov eax, {al}", "lea rbx, [rdi - 0x0ffff800]"], "gs xlatb", [], [(al, 1, R)])
        b.raw(f"xlat a32, al {al}", [f"mov eax, {al}", "mov rbx, rdi", "btc rbx, 44"], "addr32 xlatb", [],
              [(al, 1, R)])


def overlaps(b):
    """Source and destination share the watched bytes: read and written."""
    for size in (1, 2, 4, 8):
        s = SUFFIX[size]
        b.raw(f"movs{s} onto itself", ["mov rsi, rdi"], f"movs{s}", [], [(0, size, RW)])
        b.raw(f"cmps{s} with itself", ["mov rsi, rdi"], f"cmps{s}", [], [(0, size, R)])
        b.raw(f"rep movs{s} onto itself", ["mov rsi, rdi", "mov ecx, 6"], f"rep movs{s}", [], [(0, 6 * size, RW)],
              flags=["REPEATED"], accept="block of a rep")
        b.raw(f"rep movs{s} from one behind", [f"lea rsi, [rdi - {size}]", "mov ecx, 6"], f"rep movs{s}", [],
              [(-size, size, R), (0, 5 * size, RW), (5 * size, size, W)], flags=["REPEATED"], accept="block of a rep")
        b.raw(f"rep movs{s} from one ahead", [f"lea rsi, [rdi + {size}]", "mov ecx, 6"], f"rep movs{s}", [],
              [(0, size, W), (size, 5 * size, RW), (6 * size, size, R)], flags=["REPEATED"], accept="block of a rep")
        b.raw(f"movs{s}, halves overlap", [f"lea rsi, [rdi - {size // 2 or 1}]"], f"movs{s}", [],
              [(-(size // 2 or 1), size, R), (0, size, W)])


def companions(b):
    """Another instruction accesses the place just before or after a repeated one does."""
    for size in (1, 4, 8):
        s, acc, m = SUFFIX[size], ACC[size], PTR[size]
        # Where rip is at the rep before it has begun, and after it has ended.
        b.raw(f"store before rep stos{s} elsewhere", ["mov rbx, rdi", "lea rdi, [rdi + 0x400]", "mov ecx, 16"],
              f"mov {m}[rbx], {acc}", [f"rep stos{s}"], [(0, size, W)])
        b.raw(f"store before rep stos{s} next to it", ["mov rbx, rdi", f"lea rdi, [rdi + {size}]", "mov ecx, 16"],
              f"mov {m}[rbx], {acc}", [f"rep stos{s}"], [(0, size, W)], accept="beside a rep",
              others=[(size, 16 * size)])
        b.raw(f"store before rep stos{s} of nothing", ["mov rbx, rdi", f"lea rdi, [rdi + {size}]", "xor ecx, ecx"],
              f"mov {m}[rbx], {acc}", [f"rep stos{s}"], [(0, size, W)])
        b.raw(f"load before rep movs{s} to the next", ["mov rbx, rdi", f"lea rdi, [rdi + {size}]",
                                                     "lea rsi, [rdi + 0x400]", "mov ecx, 16"],
              f"mov {part('rax', size)}, {m}[rbx]", [f"rep movs{s}"], [(0, size, R)], accept="beside a rep",
              others=[(size, 16 * size)])
        b.raw(f"rep stos{s} before a store elsewhere", ["mov ecx, 4", "lea rbx, [rdi + 0x300]"], f"rep stos{s}",
              [f"mov {m}[rbx], {acc}"], [(0, 4 * size, W)], flags=["REPEATED"])
        b.raw(f"load before repe scas{s} elsewhere", ["mov rbx, rdi", "lea rdi, [rdi + 0x400]", "mov ecx, 16"],
              f"mov {part('rdx', size)}, {m}[rbx]", [f"repe scas{s}"], [(0, size, R)])
