"""
Control transfers that go through memory: where rip then is says nothing about where it was.

The landing places (truth_land_*) are functions of their own; each pulls rsp out of the arena and goes back to
where truth_resume says. Those named after a decoy have, just before the place that is jumped to, an instruction
that would explain the trap as well: it did not run.
"""

from x86form import MODES

R, W, RW = "R", "W", "RW"
AWAY = ["mov [rip + truth_own_sp], rsp"]
BACK = ["mov rsp, [rip + truth_own_sp]"]
RESUME = ["lea rax, [rip + BACK_LABEL]", "mov [rip + truth_resume], rax"]
LAND = (0, [".quad truth_land"])
NO_RSP = [m for m in MODES if "rsp" not in m]

# What stands before a landing place, as if it had just been executed. rdi is A, rsi A + 0x40, rcx 0.
DECOYS = {
    "store": "mov qword ptr [rdi], rax",
    "byte store": "mov byte ptr [rdi], al",
    "load": "mov rax, qword ptr [rdi]",
    "load of its own address": "mov rdi, qword ptr [rdi]",
    "add": "add dword ptr [rdi + 4], eax",
    "wide store": "movups xmmword ptr [rdi - 8], xmm0",
    "push": "push rax",
    "pop": "pop rax",
    "gather": "vpgatherdd xmm0, [rdi + xmm1 * 4], xmm2",
    "xlat": "xlatb",
    "rep stos": "rep stosb",
    "stos": "stosq",
    "call": "call qword ptr [rdi]",
    "ret": "ret",
    "system call": "syscall",
    "nothing": "nop",
}


def label(decoy):
    return "truth_land_" + decoy.replace(" ", "_")


def landing_places():
    """Assembler text of the landing places."""
    out = [function("truth_land", [], "")]
    for decoy, insn in DECOYS.items():
        out.append(function(label(decoy) + "_function", [insn], label(decoy)))
    return "\n".join(out)


def function(name, lines, inner):
    body = "\n".join(lines + ([inner + ":"] if inner else []))
    return (f".type {name}, @function\n{name}:\n" + ("nop\n" if inner else "") + body +
            "\nmov rsp, [rip + truth_own_sp]\njmp [rip + truth_resume]\n.balign 16\n")


def jumps(b):
    b.group = "jumps through memory"
    b.op("jmp {m}", R, 8, NO_RSP, setup=AWAY + RESUME, after=["BACK_LABEL:"], avoid={"rax"}, blob=LAND,
         accept="control transfer")
    b.op("notrack jmp {m}", R, 8, 2, setup=AWAY + RESUME, after=["BACK_LABEL:"], avoid={"rax"}, blob=LAND,
         only=["base", "sib8 disp8"], accept="control transfer")
    b.raw("jmp [rdi], rdi is overwritten at the target", AWAY + RESUME, "jmp qword ptr [rdi]", ["BACK_LABEL:"], [(0, 8, R)],
          blob=LAND, accept="control transfer")
    for decoy in DECOYS:
        b.raw(f"jmp [rdi] to a place after {decoy}", AWAY + RESUME + ["xor ecx, ecx", "mov rbx, rdi"],
              "jmp qword ptr [rdi]", ["BACK_LABEL:"], [(0, 8, R)], blob=(0, [f".quad {label(decoy)}"]),
              accept="control transfer")
        b.raw(f"jmp [rdi + 0x40] to a place after {decoy}", AWAY + RESUME + ["xor ecx, ecx", "mov rbx, rdi"],
              "jmp qword ptr [rdi + 0x40]", ["BACK_LABEL:"], [(0x40, 8, R)], blob=(0x40, [f".quad {label(decoy)}"]),
              accept="control transfer")


def calls(b):
    b.group = "calls"
    elsewhere = AWAY + ["lea rsp, [rip + truth_stack_top]"]
    flags = ["CALL"]
    b.op("call {m}", R, 8, NO_RSP, setup=elsewhere + RESUME, after=["BACK_LABEL:"], avoid={"rax"}, blob=LAND, flags=flags,
         tag="target watched")
    # The return address goes to A; the target comes from a constant.
    on_a = AWAY + RESUME + ["lea rsp, [rdi + 8]"]
    for text, before in (("call truth_land", []), ("call rbx", ["lea rbx, [rip + truth_land]"]),
                         ("call r12", ["lea r12, [rip + truth_land]"]),
                         ("call rax", ["lea rax, [rip + truth_land]"]),
                         ("call qword ptr [rip + truth_land_pointer]", []),
                         ("call qword ptr [rbx]", ["lea rbx, [rip + truth_land_pointer]"]),
                         ("call qword ptr [rbx + rcx * 8]", ["lea rbx, [rip + truth_land_pointer - 16]",
                                                             "mov ecx, 2"]),
                         ("rex.w call qword ptr [rip + truth_land_pointer]", []),
                         ("notrack call rbx", ["lea rbx, [rip + truth_land]"]),
                         ("bnd call truth_land", [])):
        b.raw(f"{text}, return address watched", on_a + before, text, ["BACK_LABEL:"] + BACK, [(0, 8, W)], flags=flags)
    b.raw("call the next instruction", AWAY + ["lea rsp, [rdi + 8]"], "call 1f\n1:", BACK, [(0, 8, W)])
    # Target and return address side by side, and in one place.
    b.raw("call [rsp], both watched", AWAY + RESUME + ["lea rsp, [rdi + 8]"], "call qword ptr [rsp]", ["BACK_LABEL:"] + BACK,
          [(0, 8, W), (8, 8, R)], blob=(8, [".quad truth_land"]), flags=flags)
    b.raw("call [rsp - 8], one place for both", AWAY + RESUME + ["lea rsp, [rdi + 8]"], "call qword ptr [rsp - 8]",
          ["BACK_LABEL:"] + BACK, [(0, 8, RW)], blob=LAND, flags=flags)
    b.raw("call [rbx], one place for both", AWAY + RESUME + ["lea rsp, [rdi + 8]", "mov rbx, rdi"],
          "call qword ptr [rbx]", ["BACK_LABEL:"] + BACK, [(0, 8, RW)], blob=LAND, flags=flags)
    b.raw("call [rsp + rcx * 8], both watched", AWAY + RESUME + ["lea rsp, [rdi + 8]", "mov ecx, 3"],
          "call qword ptr [rsp + rcx * 8]", ["BACK_LABEL:"] + BACK, [(0, 8, W), (32, 8, R)],
          blob=(32, [".quad truth_land"]), flags=flags)
    for decoy in DECOYS:
        place = f"{label(decoy)}"
        b.raw(f"call to a place after {decoy}, return address watched", on_a + ["xor ecx, ecx", "mov rbx, rdi"],
              f"call {place}", ["BACK_LABEL:"] + BACK, [(0, 8, W)], flags=flags, accept="call into the middle")
        b.raw(f"call [rdi] to a place after {decoy}", elsewhere + RESUME + ["xor ecx, ecx", "mov rbx, rdi"],
              "call qword ptr [rdi]", ["BACK_LABEL:"], [(0, 8, R)], blob=(0, [f".quad {place}"]), flags=flags,
              accept="call into the middle")


def returns(b):
    b.group = "returns"
    for n in (0, 8, 24):
        # The call is not under test: its return address is written before, in a place that is read afterwards.
        b.raw(f"ret {n} to after a call", AWAY + ["lea rax, [rip + BACK_LABEL]", "mov rsp, rdi"],
              f"ret {n}" if n else "ret", ["call truth_land", "BACK_LABEL:"] + BACK, [(0, 8, R)],
              blob=(0, [".quad BACK_LABEL"]), accept="control transfer", flags=["RET"])
    for text in ("ret", "rep ret", "bnd ret", "ret 16"):
        for decoy in DECOYS:
            b.raw(f"{text} to a place after {decoy}", AWAY + RESUME + ["xor ecx, ecx", "mov rsp, rdi", "mov rbx, rdi"],
                  text, ["BACK_LABEL:"] + BACK, [(0, 8, R)], blob=(0, [f".quad {label(decoy)}"]), accept="control transfer")


def far(b):
    b.group = "far transfers"
    cs = ".short 0x33"
    land32 = (0, [".long truth_land", cs])
    b.raw("jmp far m16:32", AWAY + RESUME, "jmp fword ptr [rdi]", ["BACK_LABEL:"], [(0, 6, R)], blob=land32,
          accept="control transfer")
    b.raw("call far m16:32, target watched", AWAY + RESUME + ["lea rsp, [rip + truth_stack_top]"],
          "call fword ptr [rdi]", ["BACK_LABEL:"] + BACK, [(0, 6, R)], blob=land32, accept="far transfer")
    b.raw("call far m16:32, return address watched", AWAY + RESUME + ["lea rsp, [rdi + 8]"],
          "call fword ptr [rip + truth_far_pointer]", ["BACK_LABEL:"] + BACK, [(0, 8, W)], accept="far transfer")
    b.raw("retf", AWAY + RESUME + ["mov rsp, rdi"], "retf", ["BACK_LABEL:"] + BACK, [(0, 8, R)],
          blob=(0, [".long truth_land", ".long 0x33"]), accept="far transfer")
    b.raw("retf 8", AWAY + RESUME + ["mov rsp, rdi"], "retf 8", ["BACK_LABEL:"] + BACK, [(0, 8, R)],
          blob=(0, [".long truth_land", ".long 0x33"]), accept="far transfer")
    b.raw("rex.w retf", AWAY + RESUME + ["mov rsp, rdi"], "rex.w retf", ["BACK_LABEL:"] + BACK, [(0, 16, R)],
          blob=(0, [".quad truth_land, 0x33"]), accept="far transfer")
    b.raw("iretq", AWAY + RESUME + ["mov rsp, rdi"], "iretq", ["BACK_LABEL:"] + BACK, [(0, 40, R)],
          blob=(0, [".quad truth_land, 0x33, 0x202, truth_stack_top, 0x2b"]), accept="far transfer")
    b.raw("iretd", AWAY + RESUME + ["mov rsp, rdi"], "iret", ["BACK_LABEL:"] + BACK, [(0, 20, R)],
          blob=(0, [".long truth_land, 0x33, 0x202, truth_stack_top, 0x2b"]), accept="far transfer")


def held_back(b):
    """Loading ss holds debug traps back until the next instruction has run."""
    b.group = "loads of ss"
    b.raw("mov ss, [rdi]", [], "mov ss, word ptr [rdi]", ["nop"], [(0, 2, R)], blob=(0, [".quad 0x2b"]),
          accept="load of ss")
    for decoy in ("store", "load", "load of its own address", "add", "gather", "xlat", "stos"):
        b.raw(f"mov ss, [rdi], then {decoy} elsewhere", ["mov rdx, rdi", "lea rdi, [rdi + 0x200]", "mov rbx, rdi"],
              "mov ss, word ptr [rdx]", [DECOYS[decoy]], [(0, 2, R)], blob=(0, [".quad 0x2b"]), accept="load of ss")


def build(b):
    jumps(b)
    calls(b)
    returns(b)
    far(b)
    held_back(b)
