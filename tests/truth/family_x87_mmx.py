"""x87 and MMX."""

R, W, RW = "R", "W", "RW"
DONE = ["fninit"]
PLAIN = ["base", "disp8", "rip", "sib8 disp8", "fs", "a32 base", "disp8 negative", "rsp", "gs"]


def x87(b):
    b.group = "x87"
    two = ["fld1", "fldpi"]
    for s in (4, 8):
        for name in "fadd fmul fcom fcomp fsub fsubr fdiv fdivr".split():
            b.op(f"{name} {{m}}", R, s, 2, setup=two, after=DONE)
        b.op("fld {m}", R, s, 4, after=DONE)
        b.op("fst {m}", W, s, 4, setup=two, after=DONE)
        b.op("fstp {m}", W, s, 4, setup=two, after=DONE)
        b.op("fst {m}", W, s, 1, setup=["fninit"], after=DONE, tag="of an empty stack")
    b.op("fld {m}", R, 10, 6, after=DONE)
    b.op("fstp {m}", W, 10, 6, setup=two, after=DONE)
    for s in (2, 4):
        for name in "fiadd fimul ficom ficomp fisub fisubr fidiv fidivr".split():
            b.op(f"{name} {{m}}", R, s, 2, setup=two, after=DONE)
        b.op("fist {m}", W, s, 3, setup=two, after=DONE)
    for s in (2, 4, 8):
        b.op("fild {m}", R, s, 3, after=DONE)
        b.op("fistp {m}", W, s, 3, setup=two, after=DONE)
        b.op("fisttp {m}", W, s, 3, setup=two, after=DONE)
    b.op("fbld {m}", R, 10, 4, after=DONE, blob=(0, [".quad 0x1234567890123456", ".short 0x12"]))
    b.op("fbstp {m}", W, 10, 4, setup=two, after=DONE)
    b.op("fldcw {m}", R, 2, 4, after=DONE, blob=(0, [".quad 0x37f"]))
    for name in ("fnstcw", "fnstsw"):
        b.op(f"{name} {{m}}", W, 2, 4)
    # The waiting forms: fwait is an instruction of its own.
    b.op("fnstcw {m}", W, 2, 2, setup=["fwait"], tag="waiting")
    for prefix, size, registers in (("", 28, 80), ("data16 ", 14, 80)):
        name = "16 bits" if prefix else "32 bits"
        environment = "X87_ENV16" if prefix else "X87_ENV32"
        b.op(f"{prefix}fnstenv {{a}}", "", 0, 3, setup=two, after=DONE, accesses=[(0, size, W)], tag=name, only=PLAIN)
        b.op(f"{prefix}fldenv {{a}}", "", 0, 3, after=DONE, accesses=[(0, size, R)], tag=name, flags=[environment],
             only=PLAIN)
        b.op(f"{prefix}fnsave {{a}}", "", 0, 3, setup=two, after=DONE, accesses=[(0, size + registers, W)], tag=name,
             only=PLAIN)
        b.op(f"{prefix}frstor {{a}}", "", 0, 3, after=DONE, accesses=[(0, size + registers, R)], tag=name,
             flags=[environment], only=PLAIN)


def mmx(b):
    b.group = "MMX"
    done = ["emms"]
    names = """packsswb packssdw packuswb paddb paddw paddd paddq paddsb paddsw paddusb paddusw psubb psubw psubd psubq
        psubsb psubsw psubusb psubusw pmullw pmulhw pmulhuw pmuludq pmaddwd pand pandn por pxor pcmpeqb pcmpeqw pcmpeqd
        pcmpgtb pcmpgtw pcmpgtd punpckhbw punpckhwd punpckhdq psllw pslld psllq psrlw psrld psrlq psraw psrad pavgb
        pavgw pmaxub pmaxsw pminub pminsw psadbw""".split()
    ssse3 = """pabsb pabsw pabsd phaddw phaddd phaddsw phsubw phsubd phsubsw pmaddubsw pmulhrsw pshufb psignb psignw
        psignd""".split()
    for name in names:
        b.op(f"{name} {{mm}}, {{m}}", R, 8, 2, after=done)
    for name in ssse3:
        b.op(f"{name} {{mm}}, {{m}}", R, 8, 2, after=done, feature="ssse3")
    b.op("palignr {mm}, {m}, 3", R, 8, 2, after=done, feature="ssse3")
    for name in ("punpcklbw", "punpcklwd", "punpckldq"):
        # The manual gives 32 bits of memory (SDM vol. 2, PUNPCKL*): what is read beyond is the processor's.
        b.op(f"{name} {{mm}}, {{m}}", R, 4, 2, after=done)
    b.op("movd {mm}, {m}", R, 4, 3, after=done)
    b.op("movd {m}, {mm}", W, 4, 3, after=done)
    b.op("movq {mm}, {m}", R, 8, 3, after=done)
    b.op("movq {m}, {mm}", W, 8, 3, after=done)
    b.op("movntq {m}, {mm}", W, 8, 3, after=done)
    b.op("pshufw {mm}, {m}, 0x1b", R, 8, 2, after=done)
    b.op("pinsrw {mm}, {m}, 1", R, 2, 2, after=done)
    b.op("cvtpi2ps {xm}, {m}", R, 8, 2, after=done)
    b.op("cvtpi2pd {xm}, {m}", R, 8, 2, after=done)
    b.op("cvtps2pi {mm}, {m}", R, 8, 2, after=done)
    b.op("cvttps2pi {mm}, {m}", R, 8, 2, after=done)
    b.op("cvtpd2pi {mm}, {m}", R, 16, 2, after=done, align=16)
    b.op("cvttpd2pi {mm}, {m}", R, 16, 2, after=done, align=16)
    for prefix, before in (("", ["mov rdi, rdi"]), ("addr32 ", ["btc rdi, 50"]), ("fs ", ["sub rdi, fs:[0]"]),
                           ("gs ", ["sub rdi, 0x0ffff800"])):
        mask = ["movq mm2, [rip + truth_mask_bytes]"]  # bytes 1, 2 and 6
        b.raw(f"{prefix}maskmovq", mask + before, f"{prefix}maskmovq mm1, mm2", done,
              [(0, 1, W, True), (1, 2, W), (3, 3, W, True), (6, 1, W), (7, 1, W, True)])
        b.raw(f"{prefix}maskmovq, nothing selected", ["pxor mm2, mm2"] + before, f"{prefix}maskmovq mm1, mm2", done,
              [(0, 8, W, True)], flags=["WATCH_A"])


def build(b):
    x87(b)
    mmx(b)
