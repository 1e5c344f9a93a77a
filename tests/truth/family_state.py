"""Instructions that save and restore the processor's extended state: areas of hundreds or thousands of bytes."""

R, W, RW = "R", "W", "RW"
PLAIN = ["base", "disp8", "rip", "sib8 disp8", "a32 base", "gs"]


def build(b):
    b.group = "state"
    b.behind_gs = "gs base"
    for w in ("", "64"):
        b.op(f"fxsave{w} {{a}}", "", 0, 4, accesses=[(0, 416, W), (416, 96, W, True)], align=16, only=PLAIN)
        b.op(f"fxrstor{w} {{a}}", "", 0, 4, accesses=[(0, 28, R), (28, 484, R, True)], align=16,
             only=PLAIN, flags=["FXSAVE_IMAGE"])
    every = ["mov eax, -1", "mov edx, -1"]
    sse = ["mov eax, 3", "xor edx, edx"]
    x87 = ["mov eax, 1", "xor edx, edx"]
    avx = ["mov eax, 4", "xor edx, edx"]
    none = ["xor eax, eax", "xor edx, edx"]
    for which, setup, parts in (("all", every, "xsa"), ("x87 and SSE", sse, "xs"), ("x87", x87, "x"), ("AVX", avx, "a"),
                                ("nothing", none, "")):
        for w in ("", "64"):
            for name, feature in (("xsave", "xsave"), ("xsaveopt", "xsaveopt"), ("xsavec", "xsavec")):
                b.op(f"{name}{w} {{a}}", "", 0, 2, setup=setup, tag=which, align=64, only=PLAIN, feature=feature,
                     avoid={"rax", "rdx"}, flags=["XSAVE_AREA", "WIDE"], accesses=saved(name, parts))
            b.op(f"xrstor{w} {{a}}", "", 0, 2, setup=setup, tag=which, align=64, only=PLAIN, feature="xsave",
                 avoid={"rax", "rdx"}, flags=["XSAVE_IMAGE", "WIDE"], accesses=restored(parts))


def saved(name, parts):
    """What must be written, and what may: components in their initial state are left out by xsaveopt and xsavec."""
    header = [(512, 8, RW)] if name != "xsavec" else [(512, 16, W)]
    maybe = name != "xsave"
    out = [(0, 416, W, True)]
    if "x" in parts:
        out += [(0, 24, W, maybe), (32, 128, W, maybe)]
    if "s" in parts or "a" in parts:
        out += [(24, 8, W, True)]
    if "s" in parts:
        out += [(160, 256, W, maybe)]
    if "a" in parts:
        out += [(576, 256, W, True), (832, 2048, W, True)]
    return out + header


def restored(parts):
    """The header; which of the states is decided by its first word."""
    out = [(512, 8, R), (0, 512, R, True), (520, 56, R, True)]
    if "a" in parts:
        out += [(576, 2304, R, True)]
    return out
