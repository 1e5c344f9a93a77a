"""AVX-512: masked, zeroing and broadcast operands, gathers, scatters, compressing and narrowing stores, mask moves."""

from family_sse import (INDEXES, INTEGER, INTEGER_SSE41, SCALAR, WIDENING, element_accesses, gather_base,
                        merged, PREFIXED, selected, vector_constant)

R, W, RW = "R", "W", "RW"
WIDTHS = (("xm", 16, "avx512vl"), ("ym", 32, "avx512vl"), ("zm", 64, ""))


def mask(chosen):
    """k1 selects these elements."""
    return [f"mov rax, {sum(1 << i for i in chosen)}", "kmovq k1, rax"]


class Wide:
    """A family of instructions with a full-width source, in all the forms that EVEX gives it."""

    def __init__(self, book):
        self.b = book

    def op(self, text, kind, size, feature, modes=1, **more):
        more.setdefault("avoid", {"rax"})
        self.b.op(text, kind, size, modes, evex=True, feature=f"avx512f avx512bw {feature}".strip(), **more)

    def full(self, name, elt, sources=2, tail="", feature="", broadcast=None, dest="", widths=WIDTHS, masks=True,
             suffix=("", "", ""), align=False):
        """name dest, src, m[, tail]. @elt: bytes of an element, or 0 where masks do not apply."""
        if broadcast is None:
            broadcast = elt in (4, 8)
        for (v, size, vl) in widths:
            need = f"{feature} {vl}"
            d = "{k}" if dest == "k" else f"{{{v}}}"
            src = f", {{{v}#2}}" if sources == 2 else ""
            name_v = name + suffix[(16, 32, 64).index(size)]
            more = {"align": size} if align else {}
            self.op(f"{{evex}} {name_v} {d}{src}, {{m}}{tail}", R, size, need, **more)
            if masks and elt:
                chosen = selected("some", size // elt)
                around = merged(element_accesses(chosen, size // elt, elt, R))
                zeroing = "" if dest == "k" else "{z}"
                self.op(f"{name_v} {d}{{k1}}{src}, {{m}}{tail}", R, size, need, setup=mask(chosen), accesses=around,
                        **more)
                if zeroing:
                    self.op(f"{name_v} {d}{{k1}}{zeroing}{src}, {{m}}{tail}", R, size, need, setup=mask(chosen),
                            accesses=around, **more)
            if broadcast:
                n = size // elt
                self.op(f"{name_v} {d}{src}, {{m}}{{1to{n}}}{tail}", R, elt, need)
                if masks:
                    self.op(f"{name_v} {d}{{k1}}{src}, {{m}}{{1to{n}}}{tail}", R, elt, need,
                            setup=mask(selected("some", n)))


def float_arithmetic(w):
    for p, elt in (("ps", 4), ("pd", 8)):
        for name in "add sub mul div min max unpckl unpckh".split():
            w.full(f"v{name}{p}", elt)
        for name in "and andn or xor".split():
            w.full(f"v{name}{p}", elt, feature="avx512dq")
        for name in "permil scalef blendm permi2 permt2".split():
            w.full(f"v{name}{p}", elt)
        w.full(f"vperm{p}", elt, widths=WIDTHS[1:])
        for name in "sqrt getexp rcp14 rsqrt14".split():
            w.full(f"v{name}{p}", elt, sources=1)
        for name in "rndscale getmant permil".split():
            w.full(f"v{name}{p}", elt, sources=1, tail=", 1")
        w.full(f"vreduce{p}", elt, sources=1, tail=", 1", feature="avx512dq")
        w.full(f"vrange{p}", elt, tail=", 1", feature="avx512dq")
        for name in "shuf fixupimm".split():
            w.full(f"v{name}{p}", elt, tail=", 1")
        w.full(f"vcmp{p}", elt, tail=", 2", dest="k")
        w.full(f"vfpclass{p}", elt, sources=1, tail=", 0x11", dest="k", feature="avx512dq", suffix=("x", "y", "z"))
        for order in ("132", "213", "231"):
            for name in ("fmadd", "fmsub", "fnmadd", "fnmsub", "fmaddsub", "fmsubadd"):
                w.full(f"v{name}{order}{p}", elt)
    w.full("vpermpd", 8, sources=1, tail=", 0x1b", widths=WIDTHS[1:])
    w.full("vdbpsadbw", 2, tail=", 1", broadcast=False)
    w.full("vdpbf16ps", 4, feature="avx512_bf16")
    w.full("vcvtne2ps2bf16", 2, feature="avx512_bf16", masks=False)


def integer_arithmetic(w):
    element = {"b": 1, "w": 2, "d": 4, "q": 8}
    for name in INTEGER + INTEGER_SSE41 + ["pcmpgtq", "pmaddubsw", "pmulhrsw", "pshufb"]:
        if name in ("pand", "pandn", "por", "pxor"):
            for t in "dq":
                w.full(f"v{name}{t}", element[t])
        elif name.startswith("pcmp"):
            w.full(f"v{name}", element[name[-1]], dest="k")
        else:
            elt = result_element(name)
            w.full(f"v{name}", elt, broadcast=name in BROADCAST, masks=name != "psadbw")
    for t in "bwdq":
        w.full(f"vpabs{t}", element[t], sources=1)
        w.full(f"vptestm{t}", element[t], dest="k")
        w.full(f"vptestnm{t}", element[t], dest="k")
        w.full(f"vpblendm{t}", element[t])
        w.full(f"vpopcnt{t}", element[t], sources=1,
               feature="avx512_bitalg" if t in "bw" else "avx512_vpopcntdq")
        for sign in ("", "u"):
            w.full(f"vpcmp{sign}{t}", element[t], tail=", 5", dest="k")
        for name in ("ermi2", "ermt2", "erm"):
            feature = "avx512_vbmi" if t == "b" else ""
            widths = WIDTHS[1:] if name == "erm" and t in "dq" else WIDTHS
            w.full(f"vp{name}{t}", element[t], feature=feature.replace("avx512_vbmi", "avx512vbmi"), widths=widths)
    for t in "dq":
        w.full(f"vpternlog{t}", element[t], tail=", 0x96")
        w.full(f"valign{t}", element[t], tail=", 1")
        w.full(f"vpconflict{t}", element[t], sources=1, feature="avx512cd")
        w.full(f"vplzcnt{t}", element[t], sources=1, feature="avx512cd")
        for v, size, vl in WIDTHS:  # two masks, of which the even one is named
            feature = f"avx512_vp2intersect {vl}"
            w.op(f"vp2intersect{t} k2, {{{v}}}, {{m}}", R, size, feature)
            w.op(f"vp2intersect{t} k2, {{{v}}}, {{m}}{{1to{size // element[t]}}}", R, element[t], feature)
        for name in ("prol", "pror", "psll", "psrl", "psra"):
            w.full(f"v{name}{t}", element[t], sources=1, tail=", 3")
        for name in ("prolv", "prorv"):
            w.full(f"v{name}{t}", element[t])
    for name in ("psll", "psrl", "psra"):
        w.full(f"v{name}w", 2, sources=1, tail=", 3")
        for t in "wdq":
            w.full(f"v{name}v{t}", element[t])
            for v, size, vl in WIDTHS:  # by a count in 128 bits
                w.op(f"{{evex}} v{name}{t} {{{v}}}, {{{v}#2}}, {{m}}", R, 16, vl, tag="by a count")
    for name in ("pslldq", "psrldq"):
        w.full(f"v{name}", 0, sources=1, tail=", 3")
    w.full("vpermq", 8, sources=1, tail=", 0x1b", widths=WIDTHS[1:])
    w.full("vpshufd", 4, sources=1, tail=", 0x1b")
    w.full("vpshufhw", 2, sources=1, tail=", 0x1b")
    w.full("vpshuflw", 2, sources=1, tail=", 0x1b")
    w.full("vpalignr", 1, tail=", 3")
    w.full("vpmullq", 8, feature="avx512dq")
    for name in ("pmaxs", "pmaxu", "pmins", "pminu"):
        w.full(f"v{name}q", 8)
    extensions(w)


BROADCAST = set("""paddd paddq psubd psubq pmuludq punpckhdq punpckhqdq punpckldq punpcklqdq packssdw packusdw pmuldq
    pmulld pmaxsd pmaxud pminsd pminud pcmpeqd pcmpeqq pcmpgtd pcmpgtq""".split())


def result_element(name):
    """Bytes of the memory's elements: what a broadcast repeats, and about what mask bits stand for."""
    if name in ("pmuludq", "pmuldq", "punpckhqdq", "punpcklqdq"):
        return 8
    if name in ("packssdw", "packusdw", "punpckhdq", "punpckldq", "pmaddwd"):
        return 4
    last = name.rstrip("0123456789")[-1]
    return {"b": 1, "w": 2, "d": 4, "q": 8}[last]


def extensions(w):
    w.full("vpshufbitqmb", 1, dest="k", feature="avx512_bitalg", masks=False)
    w.full("vpmultishiftqb", 1, feature="avx512vbmi", masks=False)
    for t, elt in (("w", 2), ("d", 4), ("q", 8)):
        for name in ("shld", "shrd"):
            w.full(f"vp{name}{t}", elt, tail=", 3", feature="avx512_vbmi2")
            w.full(f"vp{name}v{t}", elt, feature="avx512_vbmi2")
    for name in ("vpdpbusd", "vpdpbusds", "vpdpwssd", "vpdpwssds"):
        w.full(name, 4, feature="avx512_vnni")
    for name in ("vpmadd52luq", "vpmadd52huq"):
        w.full(name, 8, feature="avx512ifma")
    for name in ("vgf2p8affineqb", "vgf2p8affineinvqb"):
        w.full(name, 8, tail=", 1", feature="gfni", masks=False)
    w.full("vgf2p8mulb", 1, feature="gfni")
    for name in "vaesenc vaesenclast vaesdec vaesdeclast".split():
        w.full(name, 0, feature="vaes")
    w.full("vpclmulqdq", 0, tail=", 1", feature="vpclmulqdq")
    for name, elt in (("f32x4", 4), ("f64x2", 8), ("i32x4", 4), ("i64x2", 8)):
        w.full(f"vshuf{name}", elt, tail=", 1", widths=WIDTHS[1:])


def moves(w):
    for name, elt, align in (("vmovaps", 4, True), ("vmovapd", 8, True), ("vmovdqa32", 4, True), ("vmovdqa64", 8, True),
                             ("vmovups", 4, False), ("vmovupd", 8, False), ("vmovdqu8", 1, False),
                             ("vmovdqu16", 2, False), ("vmovdqu32", 4, False), ("vmovdqu64", 8, False)):
        w.full(name, elt, sources=1, broadcast=False, align=align)
        for v, size, vl in WIDTHS:
            more = {"align": size} if align else {}
            w.op(f"{{evex}} {name} {{m}}, {{{v}}}", W, size, vl, modes=2, **more)
            for which in ("some", "the first", "the last", "all", "none"):
                chosen = selected(which, size // elt)
                w.op(f"{name} {{m}}{{k1}}, {{{v}}}", W, size, vl, setup=mask(chosen), tag=which,
                     accesses=merged(element_accesses(chosen, size // elt, elt, W)),
                     flags=[] if chosen else ["WATCH_A"], **more)
                if which in ("the last", "none"):
                    w.op(f"{name} {{{v}}}{{k1}}, {{m}}", R, size, vl, setup=mask(chosen), tag=which,
                         accesses=merged(element_accesses(chosen, size // elt, elt, R)),
                         flags=[] if chosen else ["WATCH_A"], **more)
    for name in ("vmovntps", "vmovntpd", "vmovntdq"):
        for v, size, vl in WIDTHS:
            w.op(f"{{evex}} {name} {{m}}, {{{v}}}", W, size, vl, align=size)
    for v, size, vl in WIDTHS:
        w.op(f"{{evex}} vmovntdqa {{{v}}}, {{m}}", R, size, vl, align=size)
        w.op(f"{{evex}} vmovddup {{{v}}}, {{m}}", R, 8 if size == 16 else size, vl)
    w.full("vmovshdup", 4, sources=1, broadcast=False)
    w.full("vmovsldup", 4, sources=1, broadcast=False)
    broadcasts(w)
    parts(w)


def broadcasts(w):
    for v, size, vl in WIDTHS:
        for name, n in (("vpbroadcastb", 1), ("vpbroadcastw", 2), ("vpbroadcastd", 4), ("vpbroadcastq", 8),
                        ("vbroadcastss", 4)) + ((("vbroadcastsd", 8),) if size > 16 else ()):
            w.op(f"{{evex}} {name} {{{v}}}, {{m}}", R, n, vl)
            w.op(f"{name} {{{v}}}{{k1}}{{z}}, {{m}}", R, n, vl, setup=mask([0, 1]))
        w.op(f"vbroadcasti32x2 {{{v}}}, {{m}}", R, 8, f"avx512dq {vl}")
        for kind, n in WIDENING.items():
            for sign in "sz":
                w.op(f"{{evex}} vpmov{sign}x{kind} {{{v}}}, {{m}}", R, n * size // 16, vl)
        w.op(f"{{evex}} vcvtph2ps {{{v}}}, {{m}}", R, size // 2, vl)
        w.op(f"{{evex}} vcvtps2ph {{m}}, {{{v}}}, 0", W, size // 2, vl)
        chosen = selected("some", size // 4)
        w.op(f"vcvtps2ph {{m}}{{k1}}, {{{v}}}, 0", W, size // 2, vl, setup=mask(chosen),
             accesses=merged(element_accesses(chosen, size // 4, 2, W)))
        if size > 16:
            w.op(f"vbroadcastf32x2 {{{v}}}, {{m}}", R, 8, f"avx512dq {vl}")
            for t, n, feature in (("32x4", 16, ""), ("64x2", 16, "avx512dq")):
                for f in "fi":
                    w.op(f"vbroadcast{f}{t} {{{v}}}, {{m}}", R, n, f"{feature} {vl}")
    for t, feature in (("32x8", "avx512dq"), ("64x4", "")):
        for f in "fi":
            w.op(f"vbroadcast{f}{t} {{zm}}, {{m}}", R, 32, feature)


def parts(w):
    for f in "fi":
        for t, n, feature in (("32x4", 16, ""), ("64x2", 16, "avx512dq"), ("32x8", 32, "avx512dq"), ("64x4", 32, "")):
            for v, size, vl in WIDTHS[1:]:
                if size <= n:
                    continue
                elt = int(t[:2]) // 8
                w.op(f"vinsert{f}{t} {{{v}}}, {{{v}#2}}, {{m}}, 1", R, n, f"{feature} {vl}")
                w.op(f"vextract{f}{t} {{m}}, {{{v}}}, 1", W, n, f"{feature} {vl}", modes=2)
                chosen = selected("some", n // elt)
                w.op(f"vextract{f}{t} {{m}}{{k1}}, {{{v}}}, 1", W, n, f"{feature} {vl}", setup=mask(chosen),
                     accesses=merged(element_accesses(chosen, n // elt, elt, W)))
    for name, n in (("pextrb", 1), ("pextrw", 2), ("pextrd", 4), ("pextrq", 8), ("extractps", 4)):
        w.op(f"{{evex}} v{name} {{m}}, {{xm}}, 1", W, n, "avx512dq avx512vl")
    for name, n in (("pinsrb", 1), ("pinsrw", 2), ("pinsrd", 4), ("pinsrq", 8), ("insertps", 4)):
        w.op(f"{{evex}} v{name} {{xm}}, {{xm#2}}, {{m}}, 1", R, n, "avx512dq avx512vl")
    for name in ("vmovlps", "vmovlpd", "vmovhps", "vmovhpd"):
        w.op(f"{{evex}} {name} {{xm}}, {{xm#2}}, {{m}}", R, 8, "")
        w.op(f"{{evex}} {name} {{m}}, {{xm}}", W, 8, "")
    for name, n in (("vmovd", 4), ("vmovq", 8), ("vmovss", 4), ("vmovsd", 8)):
        w.op(f"{{evex}} {name} {{xm}}, {{m}}", R, n, "")
        w.op(f"{{evex}} {name} {{m}}, {{xm}}", W, n, "", modes=2)


def scalars(w):
    for letter, n in (("s", 4), ("d", 8)):
        for name in SCALAR[n]:
            w.op(f"{{evex}} v{name} {{xm}}, {{xm#2}}, {{m}}", R, n, "")
            w.op(f"v{name} {{xm}}{{k1}}, {{xm#2}}, {{m}}", R, n, "", setup=mask([0]))
            w.op(f"v{name} {{xm}}{{k1}}{{z}}, {{xm#2}}, {{m}}", R, n, "", setup=mask([]), tag="masked off",
                 accesses=[(0, n, R, True)])
        for bit, off in ((1, False), (0, True)):
            tag = "masked off" if off else ""
            accesses = [(0, n, R, off)]
            w.op(f"vmovs{letter} {{xm}}{{k1}}, {{m}}", R, n, "", setup=mask([0] * bit), tag=tag, accesses=accesses,
                 flags=["WATCH_A"] if off else [])
            w.op(f"vmovs{letter} {{m}}{{k1}}, {{xm}}", W, n, "", setup=mask([0] * bit), tag=tag,
                 accesses=[(0, n, W, off)], flags=["WATCH_A"] if off else [])
        for name in ("getexp", "scalef", "rcp14", "rsqrt14", "sqrt"):
            w.op(f"{{evex}} v{name}s{letter} {{xm}}, {{xm#2}}, {{m}}", R, n, "")
        for name, feature in (("getmant", ""), ("rndscale", ""), ("fixupimm", ""), ("range", "avx512dq"),
                              ("reduce", "avx512dq")):
            w.op(f"{{evex}} v{name}s{letter} {{xm}}, {{xm#2}}, {{m}}, 1", R, n, feature)
        w.op(f"{{evex}} vcmps{letter} {{k}}, {{xm}}, {{m}}, 2", R, n, "")
        w.op(f"vfpclasss{letter} {{k}}, {{m}}, 0x11", R, n, "avx512dq")
        for name in ("vcomis", "vucomis"):
            w.op(f"{{evex}} {name}{letter} {{xm}}, {{m}}", R, n, "")
        for order in ("132", "213", "231"):
            for name in ("fmadd", "fmsub", "fnmadd", "fnmsub"):
                w.op(f"{{evex}} v{name}{order}s{letter} {{xm}}, {{xm#2}}, {{m}}", R, n, "")
        for wide in (4, 8):
            for name in ("2si", "2usi"):
                for t in ("", "t"):
                    w.op(f"{{evex}} vcvt{t}s{letter}{name} {{r{wide}}}, {{m}}", R, n, "")
            for sign in ("", "u"):
                w.op(f"{{evex}} vcvt{sign}si2s{letter} {{xm}}, {{xm#2}}, {{m}}", R, wide, "")


def conversions(w):
    """dest and source of one width, or source half or twice as wide: the memory is named by its own size."""
    for name, elt, feature in (("vcvtdq2ps", 4, ""), ("vcvtps2dq", 4, ""), ("vcvttps2dq", 4, ""), ("vcvtudq2ps", 4, ""),
                               ("vcvtps2udq", 4, ""), ("vcvttps2udq", 4, ""), ("vcvtpd2qq", 8, "avx512dq"),
                               ("vcvtpd2uqq", 8, "avx512dq"), ("vcvttpd2qq", 8, "avx512dq"),
                               ("vcvttpd2uqq", 8, "avx512dq"), ("vcvtqq2pd", 8, "avx512dq"),
                               ("vcvtuqq2pd", 8, "avx512dq")):
        w.full(name, elt, sources=1, feature=feature)
    for name, feature in (("vcvtps2pd", ""), ("vcvtdq2pd", ""), ("vcvtudq2pd", ""), ("vcvtps2qq", "avx512dq"),
                          ("vcvtps2uqq", "avx512dq"), ("vcvttps2qq", "avx512dq"), ("vcvttps2uqq", "avx512dq")):
        for v, size, vl in WIDTHS:
            w.op(f"{{evex}} {name} {{{v}}}, {{m}}", R, size // 2, f"{feature} {vl}")
            w.op(f"{name} {{{v}}}, {{m}}{{1to{size // 8}}}", R, 4, f"{feature} {vl}", tag=v)
    for name, feature in (("vcvtpd2ps", ""), ("vcvtpd2dq", ""), ("vcvttpd2dq", ""), ("vcvtpd2udq", ""),
                          ("vcvttpd2udq", ""), ("vcvtqq2ps", "avx512dq"), ("vcvtuqq2ps", "avx512dq")):
        for v, size, vl in (("xm", 16, "avx512vl"), ("xm", 32, "avx512vl"), ("ym", 64, "")):
            w.op(f"{{evex}} {name} {{{v}}}, {{m}}", R, size, f"{feature} {vl}")
            w.op(f"{name} {{{v}}}, {{m}}{{1to{size // 8}}}", R, 8, f"{feature} {vl}", tag=str(size))
    for v, size, vl in (("xm", 16, "avx512vl"), ("xm", 32, "avx512vl"), ("ym", 64, "")):
        w.op(f"vcvtneps2bf16 {{{v}}}, {{m}}", R, size, f"avx512_bf16 {vl}")


def narrowing(w):
    size_of = {"b": 1, "w": 2, "d": 4, "q": 8}
    for pair in ("qb", "qw", "qd", "db", "dw", "wb"):
        wide, narrow = size_of[pair[0]], size_of[pair[1]]
        for sign in ("", "s", "us"):
            for v, size, vl in WIDTHS:
                n = size // wide
                w.op(f"vpmov{sign}{pair} {{m}}, {{{v}}}", W, n * narrow, vl)
                chosen = selected("some", n)
                w.op(f"vpmov{sign}{pair} {{m}}{{k1}}, {{{v}}}", W, n * narrow, vl, setup=mask(chosen),
                     accesses=merged(element_accesses(chosen, n, narrow, W)))


def compressing(w):
    for name, elt, feature in (("ps", 4, ""), ("pd", 8, ""), ("d", 4, ""), ("q", 8, ""), ("b", 1, "avx512_vbmi2"),
                               ("w", 2, "avx512_vbmi2")):
        p = "" if name in ("ps", "pd") else "p"
        for v, size, vl in WIDTHS:
            n = size // elt
            for which in ("some", "the last", "all", "none"):
                chosen = selected(which, n)
                used = len(chosen) * elt
                accesses = [(0, used, None)] if used else []
                accesses += [(used, size - used, None, True)] if used < size else []
                for text, kind in ((f"v{p}compress{name} {{m}}{{k1}}, {{{v}}}", W),
                                   (f"v{p}expand{name} {{{v}}}{{k1}}{{z}}, {{m}}", R)):
                    w.op(text, kind, size, f"{feature} {vl}", setup=mask(chosen), tag=which,
                         accesses=[(a[0], a[1], kind, *a[3:]) for a in accesses],
                         flags=[] if chosen else ["WATCH_A"])
            w.op(f"v{p}compress{name} {{m}}, {{{v}}}", W, size, f"{feature} {vl}")
            w.op(f"v{p}expand{name} {{{v}}}, {{m}}", R, size, f"{feature} {vl}")


def scattered(w):
    for name, size, index in (("pXdd", 4, 4), ("pXdq", 8, 4), ("pXqd", 4, 8), ("pXqq", 8, 8), ("Xdps", 4, 4),
                              ("Xdpd", 8, 4), ("Xqps", 4, 8), ("Xqpd", 8, 8)):
        for width in (16, 32, 64):
            n = width // max(size, index)
            data, vector = kind_of(n * size), kind_of(n * index)
            vl = "" if width == 64 else "avx512vl"
            for which in ("some", "the last", "all", "none"):
                chosen = selected(which, n)
                for scale, prefix in ((4, ""), (8, ""), (4, "gs "), (4, "addr32 ")):
                    if prefix and which != "some":
                        continue
                    for move, kind in (("gather", R), ("scatter", W)):
                        scatter_one(w, "v" + name.replace("X", move), kind, size, index, n, data, vector, vl, which,
                                    chosen, scale, prefix)


def kind_of(size):
    return "xmm" if size <= 16 else "ymm" if size == 32 else "zmm"


def scatter_one(w, name, kind, size, index, n, data, vector, vl, which, chosen, scale, prefix):
    setup = vector_constant(f"{vector}1", index, INDEXES[:n] + [0] * (2 if n * index < 16 else 0)) + mask(chosen)
    base, lines = gather_base(prefix)
    operand = f"{PREFIXED[prefix]}[{base} + {vector}1 * {scale} + 0x10]"
    text = f"{name} {operand}{{k1}}, {data}3" if kind == W else f"{name} {data}3{{k1}}, {operand}"
    w.b.raw(f"{prefix}{name} {data} {vector} evex, scale {scale}, {which}", setup + lines, text, [],
            [(INDEXES[i] * scale + 0x10, size, kind) for i in chosen], feature=f"avx512f avx512bw {vl}".strip(),
            flags=[] if chosen else ["WATCH_A"])


def mask_moves(w):
    for t, n, feature in (("b", 1, "avx512dq"), ("w", 2, ""), ("d", 4, ""), ("q", 8, "")):
        w.op(f"kmov{t} {{k}}, {{m}}", R, n, feature, modes=4)
        w.op(f"kmov{t} {{m}}, {{k}}", W, n, feature, modes=4)


def build(b):
    w = Wide(b)
    for group, part in (("AVX-512 floating point", float_arithmetic), ("AVX-512 integer", integer_arithmetic),
                        ("AVX-512 moves", moves), ("AVX-512 scalars", scalars),
                        ("AVX-512 conversions", conversions), ("AVX-512 narrowing stores", narrowing),
                        ("AVX-512 compress, expand", compressing), ("AVX-512 gathers, scatters", scattered),
                        ("mask registers", mask_moves)):
        b.group = group
        part(w)
