"""Command lines and files for the programs of the corpus of Unix tools, which has none of its own."""
import gzip
import os
import random
import shlex

PAST = 1_000_000_000  # the time of all files: gzip writes it into what it makes

WORDS = "alpha beta gamma delta foo bar hello world the quick brown fox 42 1999 x_1 foo.bar [set] a*b C:\\dir Zebra".split()

LEX = {
    "words.l": '%%\n[a-z]+  printf("<%s>", yytext);\n[0-9]+  { printf("#"); }\n\\n  ;\n.  ECHO;\n%%\n',
    "calc.l": '%{\n#include <stdio.h>\nint sum;\n%}\nDIGIT [0-9]\nID [a-z][a-z0-9_]*\n%option noyywrap\n%%\n'
              '{DIGIT}+"."{DIGIT}*  { sum++; }\n{DIGIT}+  sum += 1;\nif|then|begin|end  { printf("key"); }\n'
              '{ID}  printf("id");\n"+"|"-"|"*"|"/"  printf("op");\n"{"[^}\\n]*"}"  /* comment */\n[ \\t\\n]+  ;\n.  ;\n'
              '%%\nint main() { yylex(); return 0; }\n',
    "states.l": '%x COMMENT STRING\n%s LINE\n%%\n"/*"  BEGIN(COMMENT);\n<COMMENT>"*/"  BEGIN(INITIAL);\n'
                '<COMMENT>[^*\\n]+  ;\n<COMMENT>\\n  ;\n<COMMENT>"*"+[^*/\\n]*  ;\n\\"  BEGIN(STRING);\n'
                '<STRING>\\"  BEGIN(0);\n<STRING>\\\\.  ;\n<STRING>[^\\\\"\\n]+  ;\n^"#"  BEGIN(LINE);\n<LINE>a{2,4}b?  ;\n'
                '<LINE>\\n  BEGIN(0);\n<<EOF>>  yyterminate();\n.|\\n  ;\n%%\n',
    "trail.l": '%%\nabc/def  printf("t");\nab+/c  printf("v");\na.*$  printf("eol");\n^x  printf("bol");\n(a|b)*c  |\n'
               'd{3}  printf("r");\n[^a-c\\]x-z]  REJECT;\n[\\x41-\\103]  yymore();\n\\a\\t\\101  yyless(1);\n(?)  ;\n%%\n',
    "bad.l": '%%\n[a-  printf("x");\n"open  ;\n{NONE}  ;\na{4,2}  ;\n(  ;\n%%\n',
    "defs.l": 'A a+\nB {A}|b\nC [^\\n]\nUNUSED zz\n%p 3000\n%n 600\n%%\n{A}{B}?  ;\n{B}/{A}  ;\n{C}  ;\n'
              '    /* indented */\n%{\nint code;\n%}\n\\n  return 1;\n%%\n',
    "case.l": '%%\nSelect  ;\nselect  ;\nFROM|where  ;\nselect[a-z]  ;\nnever  ;\nnever  ;\n.  ;\n%%\n',
}

SED = {
    "a.sed": "1{\nh\nd\n}\n/foo/{\nG\ns/\\n/+/\n}\n$!N\nP\nD\n",
    "b.sed": ":top\ns/o\\(.\\)/\\1o/\nttop\n/x/bend\ny/abc/xyz/\n:end\n",
    "c.sed": "2i\\\nbefore\n3a\\\nafter\\\nmore\n4c\\\nchanged\n$r short\nw out1\n",
    "d.sed": "# comment\n/alpha/,/delta/!s/[aeiou]/<&>/2g\n5q\n=\nl\n",
    "bad.sed": "s/a/b\n}\n",
}


def text(seed, lines):
    """Lines of words, some of them empty."""
    r = random.Random(seed)
    return "".join(" ".join(r.choices(WORDS, k=r.randrange(8))) + "\n" for _ in range(lines))


def write_files(folder):
    """The files that the command lines name."""
    folder.mkdir(parents=True)
    (folder / "dir").mkdir()
    r = random.Random(1)
    data = {"short": text(1, 3), "text": text(2, 25), "long": text(3, 120), "empty": "", "noeol": "one\nlast foo",
            "patterns": "foo\nbar\n[0-9]+\n", "dir/inside": text(4, 10), "runs": "a" * 900 + "b" * 70 + "ab" * 300,
            **LEX, **SED}
    binary = {"bytes": r.randbytes(700), "mixed": b"foo\0bar\n" + r.randbytes(50)}
    binary |= {"text.gz": gzip.compress(data["text"].encode(), mtime=PAST), "runs.gz": gzip.compress(b"ab" * 2000, 1, mtime=PAST),
               "bytes.gz": gzip.compress(binary["bytes"], mtime=PAST), "cut.gz": gzip.compress(data["long"].encode(), mtime=PAST)[:200],
               "stored.gz": gzip.compress(binary["bytes"], 0, mtime=PAST)}
    binary |= {"wrong.gz": binary["text.gz"][:-6] + b"\1\2" + binary["text.gz"][-4:], "two.gz": binary["text.gz"] + binary["runs.gz"]}
    for name, content in {**{n: t.encode() for n, t in data.items()}, **binary}.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (PAST, PAST))


class Scene:
    """How a program is compiled, and its command lines: words, < file."""

    def __init__(self, main, lines, flags=(), header="", only=None):
        self.main, self.flags, self.header = main, list(flags), header
        self.only = only or {}  # flags of single versions
        self.lines = []
        for line in filter(None, lines.strip().splitlines()):
            words, _, stdin = line.partition(" < ")
            self.lines.append((shlex.split(words), stdin.strip() or None))


GREP = """
foo text
-n foo text short
-c foo text long
-v foo short
-i ZEBRA text
-l foo text short empty long
-L foo text short empty
-w foo text
-x hello short noeol
-h foo text long
-H foo text
-q foo text
-s foo none text
foo none
-b foo text
-o foo text
-e foo -e bar text
-f patterns text
-E -f patterns long
-F -f patterns text
-F foo.bar text
-F -i zebra text
-F -x "one" noeol
-F -w fox long
-E "foo|bar" text
-E "(a|b)+c?" text
-E "[0-9]{2,4}" text
-E "x{1}|y{0,}|(z)*" text
-E "^(foo|hello).*(bar|world)$" long
-E "a+b*" runs
-G "a\\*b" text
"f.x" text
"^$" text
"^[[:upper:]][[:lower:]]*" long
"[[:digit:][:space:]]$" text
"[^a-z ]" short
"\\(a\\).*\\1" text
"\\(.\\)\\1" long
"\\<foo\\>" text
"\\bfox\\B" text
"\\w\\W\\w" short
"fo\\{1,2\\}" text
"[]x]" text
"[a-" text
"\\(" text
"*a" text
"" short
-A1 foo text
-B2 brown text
-C1 fox long
-2 hello text
-n -A1 -B1 quick long
-c "" text short
-y delta text
-U foo mixed
-a foo mixed
foo mixed
--binary-files=text foo mixed
-r foo dir
--count alpha text
--regexp=alpha --line-number text
--context=1 beta short
--help
-V
-E
-X none foo text
-m 2 foo text
-z foo mixed
-n alpha < text
-vc alpha < long
-i -E "THE|QUICK" < long
-nb "x_1" < text
-E "()" < short
-E "a||b" < short
-ix HELLO < noeol
"""

GZIP = """
-c text
-c long
-1 -c long
-9 -c long
-5 -c runs
-c bytes
-c empty
-v text
-v -9 runs
text short
-n -c text
-N -c text
text
-k text
-f text
-S .z text
-r dir
-rv dir
-d text.gz
-dc text.gz
-dc runs.gz
-dc bytes.gz
-dc stored.gz
-dc two.gz
-dc cut.gz
-dc wrong.gz
-dv text.gz
-dfc text
-dN text.gz
-dn text.gz
-t text.gz
-tv two.gz
-t wrong.gz
-t cut.gz
-tq wrong.gz
-l text.gz runs.gz
-lv text.gz
-lq text.gz bytes.gz
-l cut.gz
-d text
-d none.gz
none
dir
-h
-L
-V
-X text
-S
-S "" text
-b 12 text
-a -c text
--fast -c text
--best -c runs
--decompress --stdout text.gz
--test text.gz
--list text.gz
--quiet text
--suffix=.foo text
text.gz
-f text.gz
-c < text
-3 < long
-d < text.gz
-dc < runs.gz
-t < text.gz
-l < text.gz
-d < text
-df < text
-c < empty
-d < empty
-9v < runs
-c text short bytes
-cd text.gz runs.gz
"""

SEDS = """
-n s/foo/X/p text
s/foo/X/g text
s/o/0/2 text
s/[aeiou]/<&>/g short
"s/\\([a-z]*\\) \\([a-z]*\\)/\\2 \\1/" text
y/abc/xyz/ text
-n /foo/p text
/foo/d long
-n /alpha/,/delta/p long
2,4d text
-n $p text
-n $= long
"3,/fox/s/^/> /" long
-n "/foo/!p" text
5q text
-n l mixed
=  short
1!G;h;$!d text
"$!N;s/\\n/ /" text
N;P;D text
-e s/a/b/ -e s/b/c/g text
-f a.sed text
-f b.sed text
-f c.sed text
-f d.sed text
-n -f d.sed long
-f bad.sed text
-f none.sed text
s/a/b text
s/a/b/k text
y/ab/c/ text
"/[a/d" text
p;p short
"1~2d" text
-n 2{p;q} text
"/^$/d" long
"s/^[ ]*//;s/ *$//" text
"s/\\(foo\\|bar\\)/[\\1]/g" text
"s/o\\{1,2\\}/0/g" text
"s/x*/-/g" short
"s/a.*e//" text
-n "/a/{/b/{/c/p}}" long
"{s/a/A/;t;s/b/B/}" text
":a;s/^\\(.\\{1,20\\}\\)$/ \\1/;ta" short
"2r short" text
"w out" text
"s/foo/bar/w out" text
"x;p;x" short
"g;n;G" short
"H;$!d;x;s/\\n/,/g" text
"s/A/b/i" text
"s/foo/X/I" text
"/FOO/Id" text
--quiet -e p short
--help
--version
-V
-z p short
-s p short none
p none short
p none
$d noeol short
s/last/first/ noeol
p empty
s/foo/\\n/ text
"s,/,|,g" text
"\\,foo,d" text
"0,/foo/d" text
"2,+2d" text
d
p < text
-n "$=" < long
s/foo/bar/gp < noeol
"s/\\(.\\)\\(.\\)/\\2\\1/g" < text
"/quick/,$d" < long
y/o\\n/0X/ < text
"""

# The first word is the file that the program of this corpus writes its messages to.
OPTIONS = ["", "-t", "-i", "-I", "-B", "-8", "-7", "-C", "-Ce", "-Cm", "-Cf", "-CF", "-Cfe", "-Ca", "-Cr", "-d", "-s", "-v", "-p",
           "-pp", "-b", "-L", "-Pzz", "-l", "-+", "-T", "-w", "-f", "-F", "-c", "-n", "-ofoo.c"]


def flex_lines():
    """Each option with two of the sources, and each source with some options."""
    names = list(LEX)
    pairs = [(o, names[(i * 2 + k) % len(names)]) for i, o in enumerate(OPTIONS) for k in range(2)]
    pairs += [(o, n) for n in names for o in ("-t", "-Cfe -t", "-v -t", "-i -Cem -t")]
    return "\n".join(f"messages {o} {n}" for o, n in dict.fromkeys(pairs)) + "\nmessages -t < words.l\nmessages none.l\nmessages -h\n" \
        "messages -V\nmessages -Q words.l\nmessages -t words.l calc.l\nmessages -t empty\nmessages -Cfm words.l\nmessages -t noeol\n"


SYSTEM = ["-DSTDC_HEADERS=1", "-DHAVE_UNISTD_H=1", "-DDIRENT=1", "-DHAVE_ALLOCA_H=1"]

SCENES = {
    "flex": Scene("flex.c", flex_lines(), SYSTEM),
    "grep": Scene("grep.c", GREP),
    "gzip": Scene("allfile.c", GZIP, SYSTEM),
    # Its own getline() is not the one of today's stdio.h. In v2, functions without a prototype return pointers.
    "sed": Scene("sed.c", SEDS, header="#include <stdio.h>\n#define getline own_getline\n", only={"v2": ["-no-pie"]}),
}
