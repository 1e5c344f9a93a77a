"""
Control transfers that go through memory: where rip then is says nothing about where it was.

The landing places (truth_land_*) are functions of their own; each pulls rsp out of the arena and goes back to
where truth_resume says. Those named after a decoy have, just before the place that is jumped to, an instruction
that would explain the trap as well: it did not run.
"""

from x86form import MODES, selector

R, W, RW = "R", "W", "RW"
AWAY = ["mov [rip + truth_own_sp], rsp"]
BACK = ["mov rsp, [rip + truth_own_sp]"]
RESUME = ["lea rax, [rip + BACK_LABEL]", "mov [rip + truth_resume], rax"]
HERE = "BACK_LABEL:"
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
    out = [function("truth_nobody", ["nop"], ""), ".globl truth_land", function("truth_land", [], "")]
    for decoy, insn in DECOYS.items():
        out.append(function(label(decoy) + "_function", [insn], label(decoy)))
    return "\n".join(out)


def function(name, lines, inner):
    body = "\n".join(lines + ([inner + ":"] if inner else []))
    return (f".type {name}, @function\n{name}:\n" + ("nop\n" if inner else "") + body +
            "\nmov rsp, [rip + truth_own_sp]\njmp [rip + truth_resume]\n.balign 16\n")


def points_to(decoy, at=0):
    return (at, [f".quad {label(decoy)}"])


def jumps(b):
    b.group = "jumps through memory"
    enter = AWAY + RESUME
    b.op("jmp {m}", R, 8, NO_RSP, setup=enter, after=[HERE], avoid={"rax"}, blob=LAND, accept="control transfer")
    b.op("notrack jmp {m}", R, 8, 2, setup=enter, after=[HERE], avoid={"rax"}, blob=LAND,
         only=["base", "sib8 disp8"], accept="control transfer")
    enter = enter + ["xor ecx, ecx", "mov rbx, rdi"]
    for decoy in DECOYS:
        b.raw(f"jmp [rdi] to a place after {decoy}", enter, "jmp qword ptr [rdi]", [HERE], [(0, 8, R)],
              blob=points_to(decoy), accept="control transfer", flags=["DECOY", "POINTER"])
        b.raw(f"jmp [rdi + 0x40] to a place after {decoy}", enter, "jmp qword ptr [rdi + 0x40]", [HERE],
              [(0x40, 8, R)], blob=points_to(decoy, 0x40), accept="control transfer", flags=["DECOY", "POINTER"])


def calls(b):
    b.group = "calls"
    elsewhere = AWAY + ["lea rsp, [rip + truth_stack_top]"] + RESUME
    b.behind_gs = "gs base"
    b.op("call {m}", R, 8, NO_RSP, setup=elsewhere, after=[HERE], avoid={"rax"}, blob=LAND, flags=["CALL"],
         tag="target watched")
    b.behind_gs = ""
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
        b.raw(f"{text}, return address watched", on_a + before, text, [HERE] + BACK, [(0, 8, W)], flags=["CALL"])
    b.raw("call the next instruction", AWAY + ["lea rsp, [rdi + 8]"], "call 1f\n1:", BACK, [(0, 8, W)])
    # Target and return address side by side, and in one place.
    for text, before, target in (("call qword ptr [rsp]", [], 8),
                                 ("call qword ptr [rsp + rcx * 8]", ["mov ecx, 3"], 32)):
        b.raw(f"{text}, both watched", on_a + before, text, [HERE] + BACK, [(0, 8, W), (target, 8, R)],
              blob=(target, [".quad truth_land"]), flags=["CALL"])
    for text, before in (("call qword ptr [rsp - 8]", []), ("call qword ptr [rbx]", ["mov rbx, rdi"])):
        b.raw(f"{text}, one place for both", on_a + before, text, [HERE] + BACK, [(0, 8, RW)], blob=LAND,
              flags=["CALL"])
    more = ["xor ecx, ecx", "mov rbx, rdi"]
    for decoy in DECOYS:
        b.raw(f"call to a place after {decoy}, return address watched", on_a + more, f"call {label(decoy)}",
              [HERE] + BACK, [(0, 8, W)], flags=["CALL", "DECOY", "POINTER"])
        b.raw(f"call [rdi] to a place after {decoy}", elsewhere + more, "call qword ptr [rdi]", [HERE], [(0, 8, R)],
              blob=points_to(decoy), flags=["CALL", "DECOY", "POINTER"])


def returns(b):
    b.group = "returns"
    for n in (0, 8, 24):
        # The call is never made: what it stands for is the place behind it.
        b.raw(f"ret {n} to after a call", AWAY + ["mov rsp, rdi"], f"ret {n}" if n else "ret",
              ["call truth_land", HERE] + BACK, [(0, 8, R)], blob=(0, [".quad BACK_LABEL"]), accept="control transfer")
    enter = AWAY + RESUME + ["xor ecx, ecx", "mov rsp, rdi", "mov rbx, rdi"]
    for text in ("ret", "rep ret", "bnd ret", "ret 16"):
        for decoy in DECOYS:
            b.raw(f"{text} to a place after {decoy}", enter, text, [HERE] + BACK, [(0, 8, R)], blob=points_to(decoy),
                  accept="control transfer", flags=["DECOY", "POINTER"])


def far(b):
    b.group = "far transfers"
    cs = ".short 0x33"
    land32 = (0, [".long truth_land", cs])
    b.raw("jmp far m16:32", AWAY + RESUME, "jmp fword ptr [rdi]", [HERE], [(0, 6, R)], blob=land32,
          accept="control transfer")
    b.raw("call far m16:32, target watched", AWAY + RESUME + ["lea rsp, [rip + truth_stack_top]"],
          "call fword ptr [rdi]", [HERE] + BACK, [(0, 6, R)], blob=land32, accept="far transfer")
    b.raw("call far m16:32, return address watched", AWAY + RESUME + ["lea rsp, [rdi + 8]"],
          "call fword ptr [rip + truth_far_pointer]", [HERE] + BACK, [(0, 8, W)], accept="far transfer")
    b.raw("retf", AWAY + RESUME + ["mov rsp, rdi"], ".byte 0xcb", [HERE] + BACK, [(0, 4, R), *selector(4, 4)],
          blob=(0, [".long truth_land", ".long 0x33"]), accept="far transfer")
    b.raw("retf 8", AWAY + RESUME + ["mov rsp, rdi"], ".byte 0xca, 8, 0", [HERE] + BACK, [(0, 4, R), *selector(4, 4)],
          blob=(0, [".long truth_land", ".long 0x33"]), accept="far transfer")
    b.raw("rex.w retf", AWAY + RESUME + ["mov rsp, rdi"], ".byte 0x48, 0xcb", [HERE] + BACK, [(0, 8, R), *selector(8, 8)],
          blob=(0, [".quad truth_land, 0x33"]), accept="far transfer")
    b.raw("iretq", AWAY + RESUME + ["mov rsp, rdi"], "iretq", [HERE] + BACK, [(0, 8, R), *selector(8, 8), (16, 16, R), *selector(32, 8)],
          blob=(0, [".quad truth_land, 0x33, 0x202, truth_stack_top, 0x2b"]), accept="far transfer")
    b.raw("iretd", AWAY + RESUME + ["mov rsp, rdi"], ".byte 0xcf", [HERE] + BACK, [(0, 4, R), *selector(4, 4), (8, 8, R), *selector(16, 4)],
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
