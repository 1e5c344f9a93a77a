"""The stack: push, pop, flags, frames. rsp points into the watched arena while they run."""

from x86form import LEGACY, MODES, PTR, part, selector

R, W, RW = "R", "W", "RW"
AWAY = ["mov [rip + truth_own_sp], rsp"]
BACK = ["mov rsp, [rip + truth_own_sp]"]
FLAGS = (0, [".quad 0x202"])


def at(offset):
    """rsp = A + offset."""
    return AWAY + [f"lea rsp, [rdi + ({offset})]"]


def plain(b):
    for reg in LEGACY + ["r8", "r9", "r12", "r13", "r15"]:
        b.raw(f"push {reg}", at(8), f"push {reg}", BACK, [(0, 8, W)])
        b.raw(f"pop {reg}", at(0), f"pop {reg}", BACK, [(0, 8, R)])
        b.raw(f"push {part(reg, 2)}", at(2), f"push {part(reg, 2)}", BACK, [(0, 2, W)])
        b.raw(f"pop {part(reg, 2)}", at(0), f"pop {part(reg, 2)}", BACK, [(0, 2, R)])
    b.raw("push rsp", at(8), "push rsp", BACK, [(0, 8, W)])
    b.raw("push sp", at(2), "push sp", BACK, [(0, 2, W)])
    b.raw("pop rsp", at(0), "pop rsp", BACK, [(0, 8, R)])
    b.raw("pop sp", at(0), "pop sp", BACK, [(0, 2, R)])
    for text, size in (("push 5", 8), ("push 0x12345678", 8), ("push -1", 8), ("pushw 5", 2), ("pushw 0x1234", 2)):
        b.raw(text, at(size), text, BACK, [(0, size, W)])
    for text in ("push fs", "push gs"):
        b.raw(text, at(8), text, BACK, [(0, 8, W)])
    b.raw("pushw fs", at(2), "data16 push fs", BACK, [(0, 2, W)])
    b.raw("pushw gs", at(2), "data16 push gs", BACK, [(0, 2, W)])
    b.raw("pop gs", at(0), "pop gs", BACK, selector(0, 8), blob=(0, [".quad 0"]))
    b.raw("popw gs", at(0), "data16 pop gs", BACK, [(0, 2, R)], blob=(0, [".quad 0"]))
    # The longer encodings, which assemblers do not choose.
    b.raw("push rbx, by ModRM", at(8), ".byte 0xff, 0xf3", BACK, [(0, 8, W)])
    b.raw("pop rbx, by ModRM", at(0), ".byte 0x8f, 0xc3", BACK, [(0, 8, R)])
    b.raw("rex.w push rbx", at(8), ".byte 0x48, 0x53", BACK, [(0, 8, W)])
    b.raw("rex.w pop rbx", at(0), ".byte 0x48, 0x5b", BACK, [(0, 8, R)])
    b.raw("rex.w push 16-bit prefix", at(8), ".byte 0x66, 0x48, 0x53", BACK, [(0, 8, W)])


def flags(b):
    b.raw("pushfq", at(8), "pushfq", BACK, [(0, 8, W)])
    b.raw("pushfw", at(2), "pushfw", BACK, [(0, 2, W)])
    b.raw("popfq", at(0), "popfq", BACK, [(0, 8, R)], blob=FLAGS)
    b.raw("popfw", at(0), "popfw", BACK, [(0, 2, R)], blob=FLAGS)


def memory(b):
    """Both sides are memory: each is watched in turn."""
    for size, suffix in ((8, ""), (2, "")):
        # The operand is A; the stack lies elsewhere in the arena.
        stack = AWAY + ["lea rsp, [rip + truth_stack_top]"]
        modes = [m for m in MODES if "rsp" not in m]
        b.op("push {m}", R, size, modes, setup=stack, after=BACK, avoid={"rsp"}, tag="elsewhere")
        b.op("pop {m}", W, size, modes, setup=stack, after=BACK, avoid={"rsp"}, tag="from elsewhere")
        p = PTR[size]
        b.raw(f"push {p}[rsp + 0x40]", at(size), f"push {p}[rsp + 0x40]", BACK, [(0, size, W), (size + 0x40, size, R)])
        b.raw(f"push {p}[rsp]", at(size), f"push {p}[rsp]", BACK, [(0, size, W), (size, size, R)])
        b.raw(f"push {p}[rsp - {size}]", at(size), f"push {p}[rsp - {size}]", BACK, [(0, size, RW)])
        b.raw(f"push {p}[rsp + rax * 2]", at(size) + ["mov eax, 0x21"], f"push {p}[rsp + rax * 2]", BACK,
              [(0, size, W), (size + 0x42, size, R)])
        b.raw(f"push {p}[rbx], the next slot", at(size) + [f"lea rbx, [rdi + {size}]"], f"push {p}[rbx]", BACK,
              [(0, size, W), (size, size, R)])
        b.raw(f"push {p}[rbx], half a slot off", at(size) + [f"lea rbx, [rdi + {size // 2}]"], f"push {p}[rbx]", BACK,
              [(0, size, W), (size // 2, size, R)])
        # pop: rsp in the operand's address is already incremented.
        b.raw(f"pop {p}[rsp + 0x20]", at(0), f"pop {p}[rsp + 0x20]", BACK, [(0, size, R), (size + 0x20, size, W)])
        b.raw(f"pop {p}[rsp]", at(0), f"pop {p}[rsp]", BACK, [(0, size, R), (size, size, W)])
        b.raw(f"pop {p}[rsp - {size}]", at(0), f"pop {p}[rsp - {size}]", BACK, [(0, size, RW)])
        b.raw(f"pop {p}[rsp + rax]", at(0) + ["mov eax, 64"], f"pop {p}[rsp + rax]", BACK,
              [(0, size, R), (size + 64, size, W)])
        b.raw(f"pop {p}[rbx], onto itself", at(0) + ["mov rbx, rdi"], f"pop {p}[rbx]", BACK, [(0, size, RW)])


def frames(b):
    keep = ["mov rcx, rbp"]
    give = ["mov rbp, rcx"]
    for size in (0, 16, 0x40, 0x200):
        b.raw(f"enter {size}, 0", at(8) + keep, f"enter {size}, 0", give + BACK,
              [(0, 8, W), (-size, 1, W, True)] if size else [(0, 8, W)])
    for level in (1, 2, 3, 5, 31):
        # rbp, level - 1 older frame pointers, the new frame pointer. rbp points to the older ones, far away.
        copies = [(0x400 - 8 * (level - 1), 8 * (level - 1), R)] if level > 1 else []
        b.raw(f"enter 0, {level}", at(8) + keep + ["lea rbp, [rdi + 0x400]"], f"enter 0, {level}", give + BACK,
              [(-8 * level, 8 * (level + 1), W)] + copies)
    b.raw("enter 32, 2", at(8) + keep + ["lea rbp, [rdi + 0x400]"], "enter 32, 2", give + BACK,
          [(-16, 24, W), (0x400 - 8, 8, R), (-48, 1, W, True)])
    b.raw("enter 8, 33 (the level is taken modulo 32)", at(8) + keep, "enter 8, 33", give + BACK,
          [(-8, 16, W), (-16, 1, W, True)])
    b.raw("enterw 16, 0", at(2) + keep, "data16 enter 16, 0", give + BACK, [(0, 2, W), (-16, 1, W, True)])
    b.raw("leave", AWAY + keep + ["mov rbp, rdi"], "leave", give + BACK, [(0, 8, R)])
    b.raw("leavew", AWAY + keep + ["mov rbp, rdi"], "data16 leave", give + BACK, [(0, 2, R)])
    b.raw("rex.w leave", AWAY + keep + ["mov rbp, rdi"], ".byte 0x48, 0xc9", give + BACK, [(0, 8, R)])


def build(b):
    b.group = "stack"
    plain(b)
    flags(b)
    memory(b)
    frames(b)
