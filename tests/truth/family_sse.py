"""SSE to SSE4.2, SSE4a, AES, PCLMULQDQ, SHA, GFNI; and their VEX forms, AVX, AVX2, FMA, F16C, VNNI."""

R, W, RW = "R", "W", "RW"

# Two-operand forms xmm, m128 (VEX: three operands, also ymm, m256).
FLOAT = """addps addpd subps subpd mulps mulpd divps divpd minps minpd maxps maxpd andps andpd andnps andnpd orps orpd
    xorps xorpd unpcklps unpcklpd unpckhps unpckhpd""".split()
FLOAT3 = "addsubps addsubpd haddps haddpd hsubps hsubpd".split()
INTEGER = """packsswb packssdw packuswb paddb paddw paddd paddq paddsb paddsw paddusb paddusw psubb psubw psubd psubq
    psubsb psubsw psubusb psubusw
    pmullw pmulhw pmulhuw pmuludq pmaddwd pand pandn por pxor pcmpeqb pcmpeqw pcmpeqd pcmpgtb
    pcmpgtw pcmpgtd punpckhbw punpckhwd punpckhdq punpckhqdq punpcklbw punpcklwd punpckldq punpcklqdq pavgb pavgw pmaxub
    pmaxsw pminub pminsw psadbw""".split()
SHIFTS = "psllw pslld psllq psrlw psrld psrlq psraw psrad".split()  # by a count in m128, ymm forms too
INTEGER_SSSE3 = """phaddw phaddd phaddsw phsubw phsubd phsubsw pmaddubsw pmulhrsw pshufb psignb psignw psignd""".split()
INTEGER_SSE41 = """packusdw pcmpeqq pmaxsb pmaxsd pmaxud pmaxuw pminsb pminsd pminud pminuw pmuldq pmulld""".split()
# One source: xmm, m128 (VEX: two operands).
ONE_FLOAT = "sqrtps sqrtpd cvtdq2ps cvtps2dq cvttps2dq".split()
ONE_FLOAT_1 = "rsqrtps rcpps".split()
ONE_SSSE3 = "pabsb pabsw pabsd".split()
# Scalars: bytes of memory.
SCALAR = {4: "addss subss mulss divss minss maxss".split(), 8: "addsd subsd mulsd divsd minsd maxsd".split()}
SCALAR_ONE = {4: "sqrtss rsqrtss rcpss".split(), 8: ["sqrtsd"]}
COMPARE = {4: ["comiss", "ucomiss"], 8: ["comisd", "ucomisd"]}
WIDENING = {"bw": 8, "bd": 4, "bq": 2, "wd": 8, "wq": 4, "dq": 8}  # pmovsx, pmovzx: bytes read for xmm


def sse(b):
    def op(*a, **k):
        k.setdefault("align", 16 if a[2] == 16 else 1)
        b.op(*a, **k)

    b.group = "SSE"
    # They use the low half; whether the high one is read is left open (Intel SDM vol. 2, PUNPCKL*, UNPCKL*, PSLL*).
    half = [(0, 8, R), (8, 8, R, True)]
    for names, feature in ((FLOAT, "sse2"), (FLOAT3, "pni"), (INTEGER + SHIFTS, "sse2"), (INTEGER_SSSE3, "ssse3"),
                           (INTEGER_SSE41, "sse4_1"), (["pcmpgtq"], "sse4_2"),
                           (ONE_FLOAT + ONE_FLOAT_1, "sse2"), (ONE_SSSE3, "ssse3")):
        for name in names:
            op(f"{name} {{xm}}, {{m}}", R, 16, 2, feature=feature,
               accesses=half if "unpckl" in name or name in SHIFTS else None)
    for table in (SCALAR, SCALAR_ONE, COMPARE):
        for size, names in table.items():
            for name in names:
                op(f"{name} {{xm}}, {{m}}", R, size, 2)
    for name, size in (("cmpps", 16), ("cmppd", 16), ("cmpss", 4), ("cmpsd", 8), ("shufps", 16), ("shufpd", 16),
                       ("pshufd", 16), ("pshufhw", 16), ("pshuflw", 16)):
        op(f"{name} {{xm}}, {{m}}, 2", R, size, 2)
    for name, size in (("roundps", 16), ("roundpd", 16), ("roundss", 4), ("roundsd", 8), ("blendps", 16),
                       ("blendpd", 16), ("pblendw", 16), ("dpps", 16), ("dppd", 16), ("mpsadbw", 16),
                       ("insertps", 4), ("pinsrb", 1), ("pinsrd", 4), ("pinsrq", 8)):
        op(f"{name} {{xm}}, {{m}}, 1", R, size, 2, feature="sse4_1")
    op("pinsrw {xm}, {m}, 1", R, 2, 2)
    op("palignr {xm}, {m}, 5", R, 16, 2, feature="ssse3")
    for name in ("blendvps", "blendvpd", "pblendvb"):
        op(f"{name} {{xm}}, {{m}}, xmm0", R, 16, 2, feature="sse4_1")
    op("ptest {xm}, {m}", R, 16, 2, feature="sse4_1")
    op("phminposuw {xm}, {m}", R, 16, 2, feature="sse4_1")
    for name, size in (("pextrb", 1), ("pextrw", 2), ("pextrd", 4), ("pextrq", 8), ("extractps", 4)):
        op(f"{name} {{m}}, {{xm}}, 1", W, size, 3, feature="sse4_1")
    for kind, size in WIDENING.items():
        for sign in "sz":
            op(f"pmov{sign}x{kind} {{xm}}, {{m}}", R, size, 2, feature="sse4_1")
    for name in ("pcmpistri", "pcmpistrm", "pcmpestri", "pcmpestrm"):
        op(f"{name} {{xm}}, {{m}}, 0", R, 16, 2, feature="sse4_2", align=1)
    conversions(op)
    moves(op)
    implicit(b)


def conversions(op):
    for text, size in (("cvtps2pd {xm}, {m}", 8), ("cvtpd2ps {xm}, {m}", 16), ("cvtdq2pd {xm}, {m}", 8),
                       ("cvtpd2dq {xm}, {m}", 16), ("cvttpd2dq {xm}, {m}", 16), ("cvtss2sd {xm}, {m}", 4),
                       ("cvtsd2ss {xm}, {m}", 8), ("cvtsi2ss {xm}, {m}", 4), ("cvtsi2ss {xm}, {m}", 8),
                       ("cvtsi2sd {xm}, {m}", 4), ("cvtsi2sd {xm}, {m}", 8)):
        op(text, R, size, 2)
    for wide in (4, 8):
        for name, size in (("cvtss2si", 4), ("cvttss2si", 4), ("cvtsd2si", 8), ("cvttsd2si", 8)):
            op(f"{name} {{r{wide}}}, {{m}}", R, size, 2)


def moves(op):
    for name in ("movaps", "movapd", "movdqa"):
        op(f"{name} {{xm}}, {{m}}", R, 16, 4)
        op(f"{name} {{m}}, {{xm}}", W, 16, 4)
    for name in ("movups", "movupd", "movdqu"):
        op(f"{name} {{xm}}, {{m}}", R, 16, 6, align=1)
        op(f"{name} {{m}}, {{xm}}", W, 16, 6, align=1)
    for name, size in (("movss", 4), ("movsd", 8), ("movd", 4), ("movq", 8), ("movlps", 8), ("movlpd", 8),
                       ("movhps", 8), ("movhpd", 8)):
        op(f"{name} {{xm}}, {{m}}", R, size, 3)
        op(f"{name} {{m}}, {{xm}}", W, size, 3)
    for name in ("movntps", "movntpd", "movntdq"):
        op(f"{name} {{m}}, {{xm}}", W, 16, 3)
    op("movntdqa {xm}, {m}", R, 16, 3, feature="sse4_1")
    op("lddqu {xm}, {m}", R, 16, 3, align=1, feature="pni")
    op("movddup {xm}, {m}", R, 8, 3, feature="pni")
    for name in ("movshdup", "movsldup"):
        op(f"{name} {{xm}}, {{m}}", R, 16, 2, feature="pni")
    op("movntss {m}, {xm}", W, 4, 3, feature="sse4a")
    op("movntsd {m}, {xm}", W, 8, 3, feature="sse4a")
    op("ldmxcsr {m}", R, 4, 3, blob=(0, [".quad 0x1f80"]))
    op("stmxcsr {m}", W, 4, 3)
    for name in "aesenc aesenclast aesdec aesdeclast aesimc".split():
        op(f"{name} {{xm}}, {{m}}", R, 16, 2, feature="aes")
    op("aeskeygenassist {xm}, {m}, 1", R, 16, 2, feature="aes")
    op("pclmulqdq {xm}, {m}, 0x10", R, 16, 2, feature="pclmulqdq")
    for name in "sha1msg1 sha1msg2 sha1nexte sha256msg1 sha256msg2".split():
        op(f"{name} {{xm}}, {{m}}", R, 16, 2, feature="sha_ni")
    op("sha1rnds4 {xm}, {m}, 1", R, 16, 2, feature="sha_ni")
    op("sha256rnds2 {xm}, {m}, xmm0", R, 16, 2, feature="sha_ni")
    op("gf2p8mulb {xm}, {m}", R, 16, 2, feature="gfni")
    for name in ("gf2p8affineqb", "gf2p8affineinvqb"):
        op(f"{name} {{xm}}, {{m}}, 1", R, 16, 2, feature="gfni")


def implicit(b):
    """Stores to [rdi] under a mask of bytes."""
    for name, feature in (("maskmovdqu", "sse2"), ("vmaskmovdqu", "avx")):
        for prefix, before in (("", ["mov rdi, rdi"]), ("addr32 ", ["btc rdi, 50"]), ("fs ", ["sub rdi, fs:[0]"]),
                               ("gs ", ["sub rdi, 0x0ffff800"])):
            mask = ["movdqu xmm2, [rip + truth_mask_bytes]"]  # bytes 1, 2, 6 and 12
            b.raw(f"{prefix}{name}", mask + before, f"{prefix}{name} xmm1, xmm2", [],
                  [(0, 1, W, True), (1, 2, W), (3, 3, W, True), (6, 1, W), (7, 5, W, True), (12, 1, W),
                   (13, 3, W, True)], feature=feature)
            b.raw(f"{prefix}{name}, nothing selected", ["pxor xmm2, xmm2"] + before, f"{prefix}{name} xmm1, xmm2", [],
                  [(0, 16, W, True)], flags=["WATCH_A"], feature=feature)


def avx(b):
    b.group = "AVX"
    for names, wide_feature in ((FLOAT + FLOAT3, "avx"), (INTEGER + INTEGER_SSSE3 + INTEGER_SSE41 + ["pcmpgtq"],
                                                          "avx2")):
        for name in names:
            b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}", R, 16, 2, feature="avx")
            b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}", R, 32, 2, feature=wide_feature)
    for name in SHIFTS:
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}", R, 16, 1, feature="avx2")
    for names, wide_feature in ((ONE_FLOAT + ONE_FLOAT_1, "avx"), (ONE_SSSE3, "avx2")):
        for name in names:
            b.op(f"v{name} {{xm}}, {{m}}", R, 16, 1, feature="avx")
            b.op(f"v{name} {{ym}}, {{m}}", R, 32, 1, feature=wide_feature)
    for table in (SCALAR, SCALAR_ONE):
        for size, names in table.items():
            for name in names:
                b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}", R, size, 2, feature="avx")
    for size, names in COMPARE.items():
        for name in names:
            b.op(f"v{name} {{xm}}, {{m}}", R, size, 1, feature="avx")
    vex_immediates(b)
    vex_moves(b)
    vex_conversions(b)
    masked(b)
    gathers(b)
    interrupted(b)
    multiply_add(b)


def vex_immediates(b):
    for name, size in (("cmpps", 16), ("cmppd", 16), ("shufps", 16), ("shufpd", 16), ("blendps", 16), ("blendpd", 16),
                       ("dpps", 16)):
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}, 3", R, size, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}, 3", R, 32, 1, feature="avx")
    for name in ("pblendw", "mpsadbw", "palignr"):
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}, 3", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}, 3", R, 32, 1, feature="avx2")
    for name in ("pshufd", "pshufhw", "pshuflw"):
        b.op(f"v{name} {{xm}}, {{m}}, 3", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{m}}, 3", R, 32, 1, feature="avx2")
    for name, size in (("roundps", 16), ("roundpd", 16), ("permilps", 16), ("permilpd", 16)):
        b.op(f"v{name} {{xm}}, {{m}}, 1", R, size, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{m}}, 1", R, 32, 1, feature="avx")
    for name, size in (("cmpss", 4), ("cmpsd", 8), ("roundss", 4), ("roundsd", 8), ("dppd", 16), ("insertps", 4),
                       ("pinsrb", 1), ("pinsrw", 2), ("pinsrd", 4), ("pinsrq", 8)):
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}, 1", R, size, 2, feature="avx")
    for name in ("permilps", "permilpd"):
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}", R, 32, 1, feature="avx")
    for name in ("blendvps", "blendvpd", "pblendvb"):
        b.op(f"v{name} {{xm}}, {{xm#2}}, {{m}}, {{xm#3}}", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}, {{ym#3}}", R, 32, 1, feature="avx2" if name[0] == "p" else "avx")
    for name in ("ptest", "testps", "testpd"):
        b.op(f"v{name} {{xm}}, {{m}}", R, 16, 1, feature="avx")
        b.op(f"v{name} {{ym}}, {{m}}", R, 32, 1, feature="avx")
    for name in ("pcmpistri", "pcmpistrm", "pcmpestri", "pcmpestrm"):
        b.op(f"v{name} {{xm}}, {{m}}, 0", R, 16, 1, feature="avx")
    b.op("vphminposuw {xm}, {m}", R, 16, 1, feature="avx")
    b.op("vperm2f128 {ym}, {ym#2}, {m}, 0x21", R, 32, 2, feature="avx")
    b.op("vperm2i128 {ym}, {ym#2}, {m}, 0x21", R, 32, 2, feature="avx2")
    b.op("vinsertf128 {ym}, {ym#2}, {m}, 1", R, 16, 2, feature="avx")
    b.op("vinserti128 {ym}, {ym#2}, {m}, 1", R, 16, 2, feature="avx2")
    b.op("vextractf128 {m}, {ym}, 1", W, 16, 3, feature="avx")
    b.op("vextracti128 {m}, {ym}, 1", W, 16, 3, feature="avx2")
    for name, size in (("pextrb", 1), ("pextrw", 2), ("pextrd", 4), ("pextrq", 8), ("extractps", 4)):
        b.op(f"v{name} {{m}}, {{xm}}, 1", W, size, 2, feature="avx")
    for name, n in (("permd", 32), ("permps", 32)):
        b.op(f"v{name} {{ym}}, {{ym#2}}, {{m}}", R, n, 2, feature="avx2")
    for name in ("permq", "permpd"):
        b.op(f"v{name} {{ym}}, {{m}}, 0x1b", R, 32, 2, feature="avx2")
    b.op("vpblendd {xm}, {xm#2}, {m}, 3", R, 16, 1, feature="avx2")
    b.op("vpblendd {ym}, {ym#2}, {m}, 3", R, 32, 1, feature="avx2")
    for name in "vpsllvd vpsllvq vpsrlvd vpsrlvq vpsravd".split():
        b.op(f"{name} {{xm}}, {{xm#2}}, {{m}}", R, 16, 1, feature="avx2")
        b.op(f"{name} {{ym}}, {{ym#2}}, {{m}}", R, 32, 1, feature="avx2")


def vex_moves(b):
    for v, size in (("xm", 16), ("ym", 32)):
        for name in ("vmovaps", "vmovapd", "vmovdqa"):
            b.op(f"{name} {{{v}}}, {{m}}", R, size, 3, align=size, feature="avx")
            b.op(f"{name} {{m}}, {{{v}}}", W, size, 3, align=size, feature="avx")
        for name in ("vmovups", "vmovupd", "vmovdqu"):
            b.op(f"{name} {{{v}}}, {{m}}", R, size, 5, feature="avx")
            b.op(f"{name} {{m}}, {{{v}}}", W, size, 5, feature="avx")
        for name in ("vmovntps", "vmovntpd", "vmovntdq"):
            b.op(f"{name} {{m}}, {{{v}}}", W, size, 2, align=size, feature="avx")
        b.op(f"vmovntdqa {{{v}}}, {{m}}", R, size, 2, align=size, feature="avx2" if size == 32 else "avx")
        b.op(f"vlddqu {{{v}}}, {{m}}", R, size, 2, feature="avx")
        for name in ("vmovshdup", "vmovsldup"):
            b.op(f"{name} {{{v}}}, {{m}}", R, size, 1, feature="avx")
        b.op(f"vmovddup {{{v}}}, {{m}}", R, 8 if size == 16 else 32, 2, feature="avx")
        b.op(f"vbroadcastss {{{v}}}, {{m}}", R, 4, 2, feature="avx")
        for name, n in (("b", 1), ("w", 2), ("d", 4), ("q", 8)):
            b.op(f"vpbroadcast{name} {{{v}}}, {{m}}", R, n, 2, feature="avx2")
        for kind, n in WIDENING.items():
            for sign in "sz":
                b.op(f"vpmov{sign}x{kind} {{{v}}}, {{m}}", R, n * size // 16, 1,
                     feature="avx2" if size == 32 else "avx")
    b.op("vbroadcastsd {ym}, {m}", R, 8, 2, feature="avx")
    b.op("vbroadcastf128 {ym}, {m}", R, 16, 2, feature="avx")
    b.op("vbroadcasti128 {ym}, {m}", R, 16, 2, feature="avx2")
    for name, size in (("vmovss", 4), ("vmovsd", 8), ("vmovd", 4), ("vmovq", 8)):
        b.op(f"{name} {{xm}}, {{m}}", R, size, 3, feature="avx")
        b.op(f"{name} {{m}}, {{xm}}", W, size, 3, feature="avx")
    for name in ("vmovlps", "vmovlpd", "vmovhps", "vmovhpd"):
        b.op(f"{name} {{xm}}, {{xm#2}}, {{m}}", R, 8, 2, feature="avx")
        b.op(f"{name} {{m}}, {{xm}}", W, 8, 2, feature="avx")
    b.op("vldmxcsr {m}", R, 4, 2, blob=(0, [".quad 0x1f80"]), feature="avx")
    b.op("vstmxcsr {m}", W, 4, 2, feature="avx")
    for name in "vmovups vmovdqu vmovss".split():
        b.op(f"{{vex3}} {name} {{m}}, {{xm}}", W, 4 if name == "vmovss" else 16, 2, feature="avx")
    for v, size, feature in (("xm", 16, "avx"), ("ym", 32, "vaes")):
        for name in "aesenc aesenclast aesdec aesdeclast".split():
            b.op(f"v{name} {{{v}}}, {{{v}#2}}, {{m}}", R, size, 1, feature=feature)
    b.op("vaesimc {xm}, {m}", R, 16, 1, feature="avx aes")
    b.op("vaeskeygenassist {xm}, {m}, 1", R, 16, 1, feature="avx aes")
    b.op("vpclmulqdq {xm}, {xm#2}, {m}, 1", R, 16, 1, feature="avx pclmulqdq")
    b.op("vpclmulqdq {ym}, {ym#2}, {m}, 1", R, 32, 1, feature="vpclmulqdq")
    for v, size in (("xm", 16), ("ym", 32)):
        b.op(f"vgf2p8mulb {{{v}}}, {{{v}#2}}, {{m}}", R, size, 1, feature="avx gfni")
        for name in ("vgf2p8affineqb", "vgf2p8affineinvqb"):
            b.op(f"{name} {{{v}}}, {{{v}#2}}, {{m}}, 1", R, size, 1, feature="avx gfni")
        for name in ("vpdpbusd", "vpdpbusds", "vpdpwssd", "vpdpwssds"):
            b.op(f"{{vex}} {name} {{{v}}}, {{{v}#2}}, {{m}}", R, size, 1, feature="avx_vnni")


def vex_conversions(b):
    for text, size in (("vcvtps2pd {xm}, {m}", 8), ("vcvtps2pd {ym}, {m}", 16), ("vcvtdq2pd {xm}, {m}", 8),
                       ("vcvtdq2pd {ym}, {m}", 16), ("vcvtpd2ps {xm}, {m}", 16), ("vcvtpd2ps {xm}, {m}", 32),
                       ("vcvtpd2dq {xm}, {m}", 16), ("vcvtpd2dq {xm}, {m}", 32), ("vcvttpd2dq {xm}, {m}", 16),
                       ("vcvttpd2dq {xm}, {m}", 32), ("vcvtss2sd {xm}, {xm#2}, {m}", 4),
                       ("vcvtsd2ss {xm}, {xm#2}, {m}", 8), ("vcvtsi2ss {xm}, {xm#2}, {m}", 4),
                       ("vcvtsi2ss {xm}, {xm#2}, {m}", 8), ("vcvtsi2sd {xm}, {xm#2}, {m}", 4),
                       ("vcvtsi2sd {xm}, {xm#2}, {m}", 8)):
        b.op(text, R, size, 1, feature="avx")
    for wide in (4, 8):
        for name, size in (("vcvtss2si", 4), ("vcvttss2si", 4), ("vcvtsd2si", 8), ("vcvttsd2si", 8)):
            b.op(f"{name} {{r{wide}}}, {{m}}", R, size, 1, feature="avx")
    b.op("vcvtph2ps {xm}, {m}", R, 8, 2, feature="f16c")
    b.op("vcvtph2ps {ym}, {m}", R, 16, 2, feature="f16c")
    b.op("vcvtps2ph {m}, {xm}, 0", W, 8, 3, feature="f16c")
    b.op("vcvtps2ph {m}, {ym}, 0", W, 16, 3, feature="f16c")


# Which elements a mask selects, first to last: no two masks alike in their ends.
SELECTED = {"some": [1, 2, 5], "the first": [0], "the last": [-1], "all": None, "none": []}


def selected(which, n):
    chosen = SELECTED[which]
    return sorted({i % n for i in (range(n) if chosen is None else chosen) if i < n})


def element_accesses(chosen, n, size, kind):
    """The selected elements for certain; the others only perhaps: processors differ."""
    return [(i * size, size, kind, i not in chosen) for i in range(n)]


def merged(accesses):
    out = []
    for a in accesses:
        if out and out[-1][0] + out[-1][1] == a[0] and out[-1][2:] == a[2:]:
            out[-1] = (out[-1][0], out[-1][1] + a[1], *a[2:])
        else:
            out.append(a)
    return out


def vector_constant(reg, size, values):
    """Lines that load a vector of 4 or 8 byte elements without touching the arena: from the constant pool."""
    load = "vmovdqu32" if "zmm" in reg else "vmovdqu"
    return [f"{load} {reg}, [rip + CONSTANT({size}: {' '.join(map(str, values))})]"]


def masked(b):
    b.group = "AVX masked moves"
    for name, size, feature in (("vmaskmovps", 4, "avx"), ("vmaskmovpd", 8, "avx"), ("vpmaskmovd", 4, "avx2"),
                                ("vpmaskmovq", 8, "avx2")):
        for v, width in (("xmm", 16), ("ymm", 32)):
            n = width // size
            for which in SELECTED:
                chosen = selected(which, n)
                mask = vector_constant(f"{v}2", size, [-1 if i in chosen else 1 for i in range(n)])
                flags = [] if chosen else ["WATCH_A"]
                for text, kind in ((f"{name} {{m}}, {v}2, {v}3", W), (f"{name} {v}3, {v}2, {{m}}", R)):
                    b.op(text, kind, width, 2 if which == "some" else 1, setup=mask, feature=feature, tag=which,
                         accesses=merged(element_accesses(chosen, n, size, kind)), flags=flags)


# Indexes of gathers and scatters: no two elements share a watch.
INDEXES = [0, 9, -7, 30, 17, -22, 44, 51, -60, 66, 75, 83, -91, 99, 107, -115]


def gathers(b):
    b.group = "AVX2 gathers"
    for name, size, index in (("vpgatherdd", 4, 4), ("vpgatherdq", 8, 4), ("vpgatherqd", 4, 8), ("vpgatherqq", 8, 8),
                              ("vgatherdps", 4, 4), ("vgatherdpd", 8, 4), ("vgatherqps", 4, 8), ("vgatherqpd", 8, 8)):
        for width in (16, 32):
            n = width // max(size, index)
            data = "ymm" if n * size > 16 else "xmm"
            vector = "ymm" if n * index > 16 else "xmm"
            for which in ("some", "the last", "all", "none"):
                chosen = selected(which, n)
                for scale, prefix in ((4, ""), (8, ""), (4, "gs "), (4, "addr32 ")):
                    if prefix and which != "some":
                        continue
                    setup = vector_constant(f"{vector}1", index, INDEXES[:n] + [0] * (2 if n * index < 16 else 0))
                    setup += vector_constant(f"{data}2", size, [-1 if i in chosen else 0 for i in range(n)] +
                                             [0] * (2 if n * size < 16 else 0))
                    base, lines = gather_base(prefix)
                    b.raw(f"{prefix}{name} {width} scale {scale}, {which}", setup + lines,
                          f"{name} {data}3, {PREFIXED[prefix]}[{base} + {vector}1 * {scale} + 0x10], {data}2", [],
                          [(INDEXES[i] * scale + 0x10, size, R) for i in chosen], feature="avx2",
                          flags=[] if chosen else ["WATCH_A"])


# What stands before a gather or scatter that is interrupted. rbx is A + 0x800, rdi A + 0x900, rax A, rcx 0.
BEFORE = ["nop", "mov eax, [rbx]", "mov [rbx], eax", "mov rax, [rax]", "rep stosb", "jmp 1f\n1:"]


def interrupted(b):
    """
    A page fault in the middle: what was accessed until then traps with rip still at the instruction. The page at
    A + 0x4000 (ARENA_ABSENT) is taken away before each run.
    """
    b.group = "interrupted gathers, scatters"
    for insn, kind, mask, feature in (("vpgatherdd ymm3, [r8 + ymm1 * 4], ymm2", R,
                                       "vpcmpeqd ymm2, ymm2, ymm2", "avx2"),
                                      ("vpscatterdd [r8 + ymm1 * 4]{k1}, ymm3", W, "kxnorb k1, k1, k1",
                                       "avx512f avx512vl avx512dq")):
        for gone in (0, 3, 7):
            index = [i * 9 for i in range(8)]
            index[gone] = 0x4000 // 4
            setup = vector_constant("ymm1", 4, index)
            setup += ["mov rax, rdi", "mov r8, rdi", "lea rbx, [rdi + 0x800]", "add rdi, 0x900", "xor ecx, ecx", mask]
            for before in BEFORE:
                own = before == "mov rax, [rax]"  # reads A itself, and cannot be recomputed
                b.raw(f"{insn}, element {gone} absent, after {before}", setup + [before], insn, [],
                      [(4 * index[i], 4, kind) for i in range(8) if i != gone], feature=feature, flags=["ABSENT"],
                      accept="at a gather" if own else "", others=[(0, 8)] if own else [])
            for before, what in (("mov eax, [rbx]", R), ("mov [rbx], eax", W)):
                b.raw(f"{before}, before {insn}, element {gone} absent", setup, before, [insn], [(0x800, 4, what)],
                      feature=feature, flags=["ABSENT"], accept="at a gather")


PREFIXED = {"": "", "gs ": "gs:", "addr32 ": ""}


def gather_base(prefix):
    if prefix == "gs ":
        return "rdi", ["sub rdi, 0x0ffff800"]
    if prefix == "addr32 ":
        return "edi", ["btc rdi, 39"]
    return "rdi", []


def multiply_add(b):
    b.group = "FMA"
    for order in ("132", "213", "231"):
        for name in ("fmadd", "fmsub", "fnmadd", "fnmsub", "fmaddsub", "fmsubadd"):
            for p in ("ps", "pd"):
                b.op(f"v{name}{order}{p} {{xm}}, {{xm#2}}, {{m}}", R, 16, 1, feature="fma")
                b.op(f"v{name}{order}{p} {{ym}}, {{ym#2}}, {{m}}", R, 32, 1, feature="fma")
            if name.endswith("sub") and "add" in name or name.endswith("add") and "sub" in name:
                continue
            b.op(f"v{name}{order}ss {{xm}}, {{xm#2}}, {{m}}", R, 4, 1, feature="fma")
            b.op(f"v{name}{order}sd {{xm}}, {{xm#2}}, {{m}}", R, 8, 1, feature="fma")


def build(b):
    sse(b)
    avx(b)
