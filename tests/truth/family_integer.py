"""General-register instructions: arithmetic, moves, shifts, bits, atomics, BMI, cache control, selectors."""

from x86form import FIXED, PTR, part

R, W, RW = "R", "W", "RW"
SIZES = (1, 2, 4, 8)
CONDITIONS = ("o no b ae e ne be a s ns p np l ge le g").split()


def imm(size):
    return {1: "0x15", 2: "0x1234", 4: "0x12345678", 8: "0x12345678"}[size]


def arithmetic(b):
    b.group = "arithmetic"
    for name in "add or adc sbb and sub xor cmp".split():
        kind = R if name == "cmp" else RW
        many = 6 if name in ("add", "cmp") else 2
        for s in SIZES:
            b.op(f"{name} {{m}}, {{r{s}}}", kind, s, many)
            b.op(f"{name} {{r{s}}}, {{m}}", R, s, many)
            b.op(f"{name} {{m}}, 5", kind, s, many)
            if s > 1:
                b.op(f"{name} {{m}}, {imm(s)}", kind, s, 1)
            if kind == RW:
                b.op(f"lock {name} {{m}}, {{r{s}}}", RW, s, 2)
                b.op(f"lock {name} {{m}}, 5", RW, s, 1)
        b.op(f"{name} {{m}}, {{h}}", kind, 1, 2, legacy=True)
        b.op(f"{name} {{h}}, {{m}}", R, 1, 1, legacy=True)
    for name in "inc dec neg not".split():
        for s in SIZES:
            b.op(f"{name} {{m}}", RW, s, 3)
            b.op(f"lock {name} {{m}}", RW, s, 1)
    for s in SIZES:
        b.op(f"test {{m}}, {{r{s}}}", R, s, 4)
        b.op(f"test {{m}}, {imm(s)}", R, s, 3)
        # Nothing changes: a write all the same.
        b.op("or {m}, 0", RW, s, 2)
        b.op("and {m}, -1", RW, s, 1)
        b.op("lock or {m}, 0", RW, s, 1)
    b.op("test {m}, {h}", R, 1, 2, legacy=True)


def multiply(b):
    b.group = "multiply"
    small = ["xor edx, edx", "mov eax, 100"]
    for s in SIZES:
        for name in ("mul", "imul"):
            b.op(f"{name} {{m}}", R, s, 2, avoid={"rax", "rdx"})
        for name in ("div", "idiv"):
            setup = ["mov eax, 5"] if s == 1 else small
            b.op(f"{name} {{m}}", R, s, 2, setup=setup, avoid={"rax", "rdx"})
        if s > 1:
            b.op(f"imul {{r{s}}}, {{m}}", R, s, 3)
            b.op(f"imul {{r{s}}}, {{m}}, 7", R, s, 2)
            b.op(f"imul {{r{s}}}, {{m}}, {imm(s)}", R, s, 1)


def moves(b):
    b.group = "moves"
    for s in SIZES:
        b.op(f"mov {{m}}, {{r{s}}}", W, s, 21)
        b.op(f"mov {{r{s}}}, {{m}}", R, s, 21)
        b.op(f"mov {{m}}, {imm(s)}", W, s, 8)
        acc = {1: "al", 2: "ax", 4: "eax", 8: "rax"}[s]
        for text, kind in ((f"movabs {acc}, {{o}}", R), (f"movabs {{o}}, {acc}", W)):
            line = text.replace("{o}", f"{PTR[s]}[{FIXED}]")
            b.raw(f"{line} / offset in the instruction", [], line, [], [(0, s, kind)], fixed=True)
        # Prefixes that mean nothing here, and encodings that assemblers do not choose.
        b.op(f"ds mov {{m}}, {{r{s}}}", W, s, 1, only=["base"])
        b.op(f"cs mov {{r{s}}}, {{m}}", R, s, 1, only=["sib1"])
        b.op(f"{{disp32}} mov {{m}}, {{r{s}}}", W, s, 1, only=["disp8"])
    for s in (1, 2, 4):
        b.op(f"rex.w mov {{m}}, {{r{s}}}" if s == 1 else f"rex mov {{m}}, {{r{s}}}", W, s, 1, only=["disp8"],
             legacy=True)
    b.op("mov {m}, {h}", W, 1, 6, legacy=True)
    b.op("mov {h}, {m}", R, 1, 6, legacy=True)
    for wide in (2, 4, 8):
        for s in (1, 2):
            if s < wide:
                b.op(f"movzx {{r{wide}}}, {{m}}", R, s, 3)
                b.op(f"movsx {{r{wide}}}, {{m}}", R, s, 3)
    b.op("movsxd {r8}, {m}", R, 4, 4)
    for s in (2, 4, 8):
        b.op(f"movbe {{m}}, {{r{s}}}", W, s, 4, feature="movbe")
        b.op(f"movbe {{r{s}}}, {{m}}", R, s, 4, feature="movbe")
    for s in (4, 8):
        b.op(f"movnti {{m}}, {{r{s}}}", W, s, 5)
    for c in CONDITIONS:
        for s in (2, 4, 8):
            b.op(f"cmov{c} {{r{s}}}, {{m}}", R, s, 1)
            b.op(f"cmov{c} {{r{s}}}, {{m}}", R, s, 1, setup=["cmp esp, -1"], tag="other flags")
        b.op(f"set{c} {{m}}", W, 1, 2)
    # The address is gone when the trap comes.
    for s in (1, 2, 4, 8):
        for base in ("rdi", "rbx", "r12", "rbp"):
            r = part(base, s)
            go = [] if base == "rdi" else [f"mov {base}, rdi"]
            b.raw(f"mov {r}, [{base}]", go, f"mov {r}, {PTR[s]}[{base}]", [], [(0, s, R)])
            b.raw(f"mov {r}, [rip-free + {base} * 2]", [f"mov {base}, 0x20", "sub rdi, 0x40"] if base != "rdi" else
                  ["mov rsi, rdi", "mov edi, 0x20", "sub rsi, 0x40"],
                  f"mov {r}, {PTR[s]}[{'rsi' if base == 'rdi' else 'rdi'} + {base} * 2]", [], [(0, s, R)])
            if s > 1:
                b.raw(f"xchg {r}, [{base}]", go, f"xchg {r}, {PTR[s]}[{base}]", [], [(0, s, RW)])
                b.raw(f"add {r}, [{base}]", go, f"add {r}, {PTR[s]}[{base}]", [], [(0, s, R)])
                b.raw(f"cmove {r}, [{base}]", go, f"cmove {r}, {PTR[s]}[{base}]", [], [(0, s, R)])
                b.raw(f"xadd [{base}], {r}", go, f"xadd {PTR[s]}[{base}], {r}", [], [(0, s, RW)])
    for s in (4, 8):
        for lower in (1, 2):
            b.raw(f"movzx rdi {s} from {lower}", [], f"movzx {part('rdi', s)}, {PTR[lower]}[rdi]", [], [(0, lower, R)])


def shifts(b):
    b.group = "shifts"
    for name in "shl shr sar rol ror rcl rcr".split():
        for s in SIZES:
            b.op(f"{name} {{m}}, 1", RW, s, 2)
            b.op(f"{name} {{m}}, 3", RW, s, 2)
            b.op(f"{name} {{m}}, cl", RW, s, 2, setup=["mov ecx, 3"], avoid={"rcx"})
            b.op(f"{name} {{m}}, cl", RW, s, 1, setup=["xor ecx, ecx"], avoid={"rcx"}, tag="by 0")
            b.op(f"{name} {{m}}, 0", RW, s, 1)
    for name in ("shld", "shrd"):
        for s in (2, 4, 8):
            b.op(f"{name} {{m}}, {{r{s}}}, 5", RW, s, 2)
            b.op(f"{name} {{m}}, {{r{s}}}, cl", RW, s, 2, setup=["mov ecx, 5"], avoid={"rcx"})
            b.op(f"{name} {{m}}, {{r{s}}}, cl", RW, s, 1, setup=["xor ecx, ecx"], avoid={"rcx"}, tag="by 0")


def bits(b):
    b.group = "bit tests"
    for name in ("bt", "bts", "btr", "btc"):
        kind = R if name == "bt" else RW
        for s in (2, 4, 8):
            b.op(f"{name} {{m}}, 3", kind, s, 2)
            b.op(f"{name} {{m}}, {8 * s + 5}", kind, s, 1)  # taken modulo the operand's size
            if kind == RW:
                b.op(f"lock {name} {{m}}, 9", RW, s, 2)
            for bit in (6, 1003, -1, -777, 16 * 8 * s, -16 * 8 * s, 30000, -32768, 250001 if s > 2 else 32767):
                off = bit // (8 * s) * s
                for lock in ("", "lock ") if kind == RW and bit in (1003, -777) else ("",):
                    b.op(f"{lock}{name} {{m}}, {part('rdx', s)}", kind, s, 1, setup=[f"mov rdx, {bit}"],
                         avoid={"rdx"}, accesses=[(off, s, kind)], tag=f"bit {bit}", flags=["WIDE"],
                         align=s if lock else 1)
    for s in (2, 4, 8):
        for name in ("bsf", "bsr"):
            b.op(f"{name} {{r{s}}}, {{m}}", R, s, 3)
        b.op(f"popcnt {{r{s}}}, {{m}}", R, s, 3)
        b.op(f"lzcnt {{r{s}}}, {{m}}", R, s, 3, feature="abm")
        b.op(f"tzcnt {{r{s}}}, {{m}}", R, s, 3, feature="bmi1")
    for s in (4, 8):
        b.op(f"andn {{r{s}}}, {{r{s}#2}}, {{m}}", R, s, 3, feature="bmi1")
        b.op(f"bextr {{r{s}}}, {{m}}, {{r{s}#2}}", R, s, 3, feature="bmi1")
        for name in ("blsi", "blsmsk", "blsr"):
            b.op(f"{name} {{r{s}}}, {{m}}", R, s, 3, feature="bmi1")
        b.op(f"bzhi {{r{s}}}, {{m}}, {{r{s}#2}}", R, s, 3, feature="bmi2")
        for name in ("pdep", "pext", "mulx"):
            b.op(f"{name} {{r{s}}}, {{r{s}#2}}, {{m}}", R, s, 3, feature="bmi2")
        b.op(f"rorx {{r{s}}}, {{m}}, 7", R, s, 3, feature="bmi2")
        for name in ("sarx", "shlx", "shrx"):
            b.op(f"{name} {{r{s}}}, {{m}}, {{r{s}#2}}", R, s, 3, feature="bmi2")
        for name in ("adcx", "adox"):
            b.op(f"{name} {{r{s}}}, {{m}}", R, s, 3, feature="adx")
    for s in SIZES:
        b.op(f"crc32 {{r{8 if s == 8 else 4}}}, {{m}}", R, s, 3, feature="sse4_2")


def atomics(b):
    b.group = "exchanges"
    for s in SIZES:
        acc = {1: "al", 2: "ax", 4: "eax", 8: "rax"}[s]
        b.op(f"xchg {{m}}, {{r{s}}}", RW, s, 5)
        b.op(f"lock xchg {{m}}, {{r{s}}}", RW, s, 1)
        for lock in ("", "lock "):
            b.op(f"{lock}xadd {{m}}, {{r{s}}}", RW, s, 4)
            # The pattern in memory is never 0; where it is stated, it is what the accumulator holds.
            b.op(f"{lock}cmpxchg {{m}}, {{r{s}}}", RW, s, 4, setup=["xor eax, eax"], avoid={"rax"}, tag="fails")
            b.op(f"{lock}cmpxchg {{m}}, {{r{s}}}", RW, s, 4, setup=["mov rax, 0x1122334455667788"], avoid={"rax"},
                 tag="succeeds", blob=(0, [".quad 0x1122334455667788"]))
        b.raw(f"cmpxchg {s} through rax, fails", ["mov rax, rdi", "mov rcx, rdi"],
              f"lock cmpxchg {PTR[s]}[rax], {part('rcx', s)}", [], [(0, s, RW)])
    b.op("xchg {m}, {h}", RW, 1, 2, legacy=True)
    b.op("xadd {m}, {h}", RW, 1, 2, legacy=True)
    pair = {"rax", "rdx", "rbx", "rcx"}
    for lock in ("", "lock "):
        for s in (8, 16):
            name = f"cmpxchg{s}b"
            zero = ["xor eax, eax", "xor edx, edx", "mov ebx, 7", "mov ecx, 8"]
            match = ["mov rax, 0x0123456789abcdef", "mov rdx, 0x1122334455667788", "mov ebx, 7", "mov ecx, 8"]
            if s == 8:
                match[1] = "mov edx, 0x01234567"
            more = {"align": s} if s == 16 else {}
            b.op(f"{lock}{name} {{m}}", RW, s, 4, setup=zero, avoid=pair, tag="fails", feature=f"cx{s}", **more)
            b.op(f"{lock}{name} {{m}}", RW, s, 4, setup=match, avoid=pair, tag="succeeds", feature=f"cx{s}",
                 blob=(0, [".quad 0x0123456789abcdef, 0x1122334455667788"]), **more)
    for base in ("rax", "rdx", "rbx", "rcx"):
        b.raw(f"cmpxchg16b [{base}], fails", [f"mov {base}, rdi"], f"lock cmpxchg16b xmmword ptr [{base}]", [],
              [(0, 16, RW)], align=16, feature="cx16")
        b.raw(f"cmpxchg8b [{base}], fails", [f"mov {base}, rdi"], f"lock cmpxchg8b qword ptr [{base}]", [],
              [(0, 8, RW)])
    b.group = "stores of a line or a word"
    for s in (4, 8):
        b.op(f"movdiri {{m}}, {{r{s}}}", W, s, 2, feature="movdiri", align=s)
    b.raw("movdir64b to", ["mov rax, rdi", "lea rdx, [rdi + 0x100]"], "movdir64b rax, [rdx]", [],
          [(0, 64, W), (0x100, 64, R)], align=64, feature="movdir64b")
    b.raw("movdir64b addr32", ["mov rax, rdi", "lea rdx, [rdi + 0x100]"], "movdir64b eax, [edx]", [],
          [(0, 64, W), (0x100, 64, R)], align=64, feature="movdir64b")
    b.raw("clzero", ["mov rax, rdi"], "clzero", [], [(0, 64, W)], align=64, feature="clzero")
    b.raw("clzero, from within the line", ["lea rax, [rdi + 17]"], "clzero", [], [(0, 64, W)], align=64,
          feature="clzero")
    b.raw("clzero addr32", ["lea rax, [rdi + 17]", "btc rax, 40"], "addr32 clzero", [], [(0, 64, W)], align=64,
          feature="clzero")


def named_only(b):
    b.group = "names memory, accesses none"
    for s in (2, 4, 8):
        b.op(f"lea {{r{s}}}, {{a}}", "", 0, 6, only=["base", "disp8", "sib1", "sib8 disp8", "rip", "a32 base"],
             accesses=[], flags=["WATCH_A"])
        b.op("nop {m}", "", s, 3, accesses=[], flags=["WATCH_A"])
    for name in "prefetcht0 prefetcht1 prefetcht2 prefetchnta".split():
        b.op(f"{name} {{a}}", "", 0, 4, accesses=[], flags=["WATCH_A"])
    b.op("prefetchw {a}", "", 0, 4, accesses=[], feature="3dnowprefetch", flags=["WATCH_A"])
    b.op("prefetch {a}", "", 0, 2, accesses=[], feature="3dnowprefetch", flags=["WATCH_A"])
    b.op("prefetchwt1 {a}", "", 0, 2, accesses=[], flags=["WATCH_A"])
    b.op("cldemote {a}", "", 0, 2, accesses=[], flags=["WATCH_A"])  # where absent, it is a nop
    # MPX: processors of today take it for nop.
    for text in ("bndmov bnd1, {m}", "bndmov {m}, bnd2"):
        b.op(text, "", 16, 2, accesses=[], flags=["WATCH_A"], only=["base", "disp8", "rip", "sib8 disp8"])
    for text in ("bndcl bnd1, {a}", "bndcu bnd1, {a}", "bndcn bnd0, {a}", "bndmk bnd3, {a}",
                 "bndldx bnd1, {a}", "bndstx {a}, bnd1"):
        b.op(text, "", 0, 2, accesses=[], flags=["WATCH_A"], only=["base", "disp8"])
    for name, feature in (("clflush", ""), ("clflushopt", "clflushopt"), ("clwb", "clwb")):
        b.op(f"{name} {{a}}", "", 0, 6, accesses=[(0, 1, R, True)], feature=feature, flags=["WATCH_A"])


def selectors(b):
    b.group = "selectors"
    user_data = (0, [".quad 0x2b"])
    for s in (4, 8):
        for name in ("lar", "lsl"):
            b.op(f"{name} {{r{s}}}, {{m}}", R, 2, 2, blob=user_data)
    for name in ("verr", "verw"):
        b.op(f"{name} {{m}}", R, 2, 4, blob=user_data)
    for seg in "es cs ss ds fs gs".split():
        b.op(f"mov {{m}}, {seg}", W, 2, 2)
    for seg in "es ds".split():
        b.op(f"mov {seg}, {{m}}", R, 2, 2, blob=user_data)
    b.op("mov gs, {m}", R, 2, 2, blob=(0, [".quad 0"]), only=["base", "disp8", "rip", "fs", "rsp"])
    far = (0, [".long 0x12345678", ".short 0, 0"])
    b.op("lgs {r4}, {m}", R, 6, 3, blob=far, only=["base", "disp8", "sib8 disp8", "rip"])
    b.op("lss {r4}, {m}", R, 6, 3, blob=(0, [".long 0x12345678", ".short 0x2b, 0"]),
         only=["base", "disp8", "sib8 disp8", "rip"])
    # Privileged, and done by the kernel for old programs where UMIP forbids them: not our instruction's write.
    for name, size in (("sgdt", 10), ("sidt", 10), ("sldt", 2), ("str", 2), ("smsw", 2)):
        b.op(f"{name} {{m}}" if size == 2 else f"{name} {{a}}", W, size if size == 2 else 0, 2,
             accesses=[(0, size, W)], flags=["BY_KERNEL", "WATCH_A"], only=["base", "disp8", "sib1", "rip"])


def build(b):
    arithmetic(b)
    multiply(b)
    moves(b)
    shifts(b)
    bits(b)
    atomics(b)
    named_only(b)
    selectors(b)
