"""Programs that do the same in every run, each with the module whose instructions it is made to execute."""
import os
import shutil
import subprocess
from pathlib import Path

import programs
import proof

LIBRARIES = Path("/lib/x86_64-linux-gnu")


class Workload:
    """What is run in the work folder.

    @single is what can be counted: the same command (True) or another, in one thread and without children that run in its memory, so
    that gdb and strace see all of it. @threads: there are some, which nobody waits for, and system calls are not compared.
    No argument has a blank or a quotation mark: gdb, told to start programs without a shell, passes them wrongly.
    """

    def __init__(self, name, module, *argv, single=None, env=None, stdin=None, asked=(), threads=False):
        self.threads = threads
        self.name, self.module, self.argv, self.env, self.stdin, self.asked = name, module, list(argv), env or {}, stdin, list(asked)
        self.single = single if isinstance(single, list) else (self.argv if single else None)

    @property
    def path(self):
        """The module's file; None: not installed. Programs are those of the system, not what a user's PATH has before them."""
        found = LIBRARIES / self.module if ".so" in self.module else shutil.which(self.module, path="/usr/bin:/bin")
        return Path(os.path.realpath(found)) if found and os.path.exists(found) else None

    @property
    def missing(self):
        """Why it cannot be run; None: it can."""
        if not self.path:
            return f"{self.module} is not installed"
        if not self.argv[0].startswith("./") and not shutil.which(self.argv[0], path=proof.BASE_ENV["PATH"]):
            return f"{self.argv[0]} is not installed"
        return None

    def open_stdin(self, folder):
        return open(folder / self.stdin, "rb") if self.stdin else subprocess.DEVNULL


PYTHON = """
import collections, json, re, itertools, string, datetime, decimal, zlib, hashlib
class Tree:
    def __init__(self, depth):
        self.below = [Tree(depth - 1) for _ in range(3)] if depth else []
    def count(self):
        return 1 + sum(t.count() for t in self.below)
def numbers(n):
    a, b = 0, 1
    for _ in range(n):
        yield a
        a, b = b, a + b
words = ["".join(p) for p in itertools.product("abcde", repeat=5)]
seen = collections.Counter(w[1:3] for w in words)
text = json.dumps({w: [i, i / 7, None, w.upper()] for i, w in enumerate(words)}, sort_keys=True)
again = json.loads(text)
found = re.findall(r"(a+)(b|c)\\w*?d", text)
errors = 0
for i in range(2000):
    try:
        int("x" * (i % 3) + str(i))
    except ValueError as e:
        errors += len(str(e))
print(Tree(6).count(), sum(numbers(400)) % 10**9, seen.most_common(3), len(found), errors)
print(hashlib.sha256(text.encode()).hexdigest(), len(zlib.compress(text.encode())), again == json.loads(json.dumps(again)))
print(decimal.Decimal(2).sqrt(), datetime.date(2020, 2, 29).strftime("%A"), sorted(words, key=lambda w: w[::-1])[7], f"{3.14159:>10.3f}")
raise SystemExit(5)
"""

BASH = """
declare -A table
f() { local n=$1; (( n < 2 )) && { echo $n; return; }; echo $(( $(f $((n - 1))) + $(f $((n - 2))) )); }
for ((i = 0; i < 3000; i++)); do table[k$((i % 37))]=$((table[k$((i % 37))] + i * i)); words+=("w$((i * 7919 % 1000))"); done
for k in "${!table[@]}"; do printf '%s=%s\\n' "$k" "${table[$k]}"; done | sort
s=${words[*]}; s=${s//w1/W}; echo ${#s} ${s:100:30}; [[ $s =~ (w[0-9]+9)\\ W ]] && echo "${BASH_REMATCH[1]}"
trap 'echo got' USR1; kill -USR1 $$
while read -r a b; do case $a in a*) echo "$b-${a^^}";; *) : ;; esac; done <<< $'ab 1\\ncd 2\\nae 3'
[ "$1" = one ] && exit 6
f 6; (echo sub; exit 3); echo $?; echo hello | tr a-z A-Z
exit 6
"""

PERL = r"""
my %h; $h{"k" . ($_ * 7919 % 1009)} += $_ for 1 .. 20000;
my $text = join ",", map {"$_=$h{$_}"} sort keys %h;
my $n = 0; $n++ while $text =~ /k(\d)(\d*)\1=/g;
my @sorted = sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h;
sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) } 
eval { die { code => 7 } }; print $@->{code}, "\n";
(my $copy = $text) =~ tr/0-9/a-j/; print length($copy), " ", substr($copy, 50, 20), " $n $sorted[3] ", fib(15), "\n";
printf "%s %.3f %s\n", join("", reverse split //, "abc"), 22 / 7, unpack("H*", pack("NnC*", 1, 2, 3, 4));
my $s = 0; for my $i (1 .. 3000) { my @a = map { $_ * $i } 1 .. 5; $s += $a[-1]; } print "$s\n"; exit 7;
"""

NODE = r"""
class Shape { constructor(n) { this.n = n; } area() { return this.n * this.n; } }
const shapes = Array.from({ length: 5000 }, (_, i) => new Shape(i % 97));
let sum = 0; for (let r = 0; r < 40; r++) for (const s of shapes) sum += s.area();
const text = JSON.stringify(Object.fromEntries(shapes.map((s, i) => ["k" + i, { n: s.n, t: "x".repeat(s.n) }])));
const back = JSON.parse(text), m = new Map(Object.entries(back));
console.log(sum, text.length, m.size, (text.match(/k\d+5":\{"n":(\d)\d,/g) || []).length);
function* gen() { for (let i = 0; i < 3000; i++) yield i % 7; }
console.log([...gen()].sort((a, b) => a - b).slice(1000, 1005), BigInt(2) ** 200n, new Intl.NumberFormat("en").format(1234567.891));
console.log(require("zlib").deflateSync(text).length, require("crypto").createHash("sha256").update(text).digest("hex"));
try { null.x } catch (e) { console.log(e.message) }
const turn = i => new Promise(r => setImmediate(() => r(i)));
(async () => { let t = 0; for (let i = 0; i < 200; i++) t += await turn(i); console.log(t); process.exitCode = 9; })();
"""

SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
insert into t select i, printf('%05d-%s', i * 7919 % 4001, hex(i)), i / 7.0 from n;
create index by_b on t(b);
begin; update t set c = c * 2 where b like '01%'; delete from t where a % 11 = 0; commit;
select count(*), sum(a), round(total(c), 3), min(b), max(b) from t;
select b, c from t order by b desc limit 5;
select x.a % 10 as k, count(*), group_concat(distinct substr(y.b, 1, 1)) from t x join t y on y.a = x.a + 1 group by k having k > 6 order by k;
select json_extract('{"a":[1,2,{"b":3}]}', '$.a[2].b'), upper('abc'), date('2020-02-28', '+1 day'), abs(-5);
select a, row_number() over (partition by a % 3 order by b) from t where a < 12;
select nothing from t;
"""

GDB = """set debuginfod enabled off
maint set worker-threads 0
file gdb_victim
info line deep
info functions deep
disassemble sum
ptype struct pair
print 6 * 7 + sizeof(struct pair)
"""
GDB_LIVE = GDB + """break deep if n == 2
run
bt
info locals
print *p
finish
delete
continue
"""

VICTIM = """#include <stdio.h>
struct pair { int a; const char *text; struct pair *next; };
__attribute__((noinline)) int sum(const struct pair *p) { int s = 0; for (; p; p = p->next) s += p->a; return s; }
__attribute__((noinline)) int deep(int n, const struct pair *p) { int here = n * 3; return n ? deep(n - 1, p) + here : sum(p); }
int main(void) { struct pair two = { 2, "two", 0 }, one = { 1, "one", &two }; printf("%d\\n", deep(9, &one)); return 0; }
"""

HASHES = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PYTHONHASHSEED": "0"}

WORKLOADS = [
    Workload("c", "libc.so.6", "./patch_work_c", single=["./patch_work_c", "one"],
             asked=["qsort", "regexec", "fgets", "siglongjmp", "gmtime_r", "tmpfile"]),
    Workload("openssl-sign", "libcrypto.so.3", "openssl", "dgst", "-sha256", "-sign", "key.pem", "-hex", "data",
             single=["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", "ed25519.pem", "-in", "data"],  # RSA is blinded by random numbers
             asked=["EVP_DigestSign", "BIO_read", "OPENSSL_sk_push", "PEM_read_bio", "EVP_PKEY_free", "ASN1_STRING_free", "d2i_PKCS8_PRIV_KEY_INFO"]),
    Workload("openssl-enc", "libcrypto.so.3", "openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-S", "0011223344556677", "-pass",
             "pass:word", "-in", "data", "-base64", single=True,
             asked=["EVP_CipherUpdate", "EVP_CipherInit_ex", "PKCS5_PBKDF2_HMAC", "EVP_EncodeUpdate", "HMAC_Update"]),
    Workload("sqlite", "libsqlite3.so.0", "sqlite3", "-batch", "-init", "/dev/null", ":memory:", single=True, stdin="in.sql",
             asked=["sqlite3_prepare_v2", "sqlite3_step", "sqlite3_column_text", "sqlite3_finalize", "sqlite3_mprintf"]),
    Workload("c++", "libstdc++.so.6", "./patch_work_cc", single=["./patch_work_cc", "one"],
             asked=["_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm", "_ZSt20__throw_out_of_rangePKc", "_ZSt11_Hash_bytesPKvmm",
                    "_ZNKSt5ctypeIcE13_M_widen_initEv", "_ZNSt12out_of_rangeC2EPKc", "_ZNSt11logic_errorC2EPKc"]),
    Workload("python", "python3", "/usr/bin/python3", "-S", "in.py", single=True, env=HASHES,
             asked=["PyErr_SetObject", "PyLong_FromString", "PyObject_Repr", "PyDict_New", "PyList_Sort", "PyImport_ImportModuleLevelObject"]),
    Workload("bash", "bash", "/bin/bash", "in.bash", single=["/bin/bash", "in.bash", "one"],
             asked=["execute_command_internal", "expand_string", "find_variable", "parse_command", "assoc_insert", "strsub", "run_pending_traps"]),
    Workload("git-log", "git", "git", "-C", "repo", "--no-pager", "log", "-p", "--stat", single=True),
    Workload("git-fsck", "git", "git", "-C", "repo", "fsck", "--full", "--no-progress", single=True),
    Workload("node", "node", "node", "in.js"),
    Workload("gdb", "gdb", "gdb", "-q", "-nx", "-batch", "-x", "live.gdb", single=["gdb", "-q", "-nx", "-batch", "-x", "in.gdb"], threads=True),
    Workload("perl", "perl", "perl", "in.pl", single=True, env=HASHES,
             asked=["Perl_pp_entersub", "Perl_pp_match", "Perl_hv_common", "Perl_die_unwind", "Perl_sv_setpvn", "Perl_av_push"]),
]


def prepare(folder):
    """Puts there what the workloads read, and compiles the programs of their own."""
    files = {"in.py": PYTHON, "in.bash": BASH, "in.pl": PERL, "in.js": NODE, "in.sql": SQL, "victim.c": VICTIM,
             "in.gdb": GDB, "live.gdb": GDB_LIVE,
             "probes.c": "#include <watchctl/probe.h>\nPROBE(hit) { (void)p; }\nPROBE(value) { probe_value(p->regs->rdi); }\n"
                         "PROBE(stack) { probe_stack(\"here\", p->regs->rsp); }\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "data").write_bytes(bytes(i * i * 7919 >> 7 & 255 for i in range(200000)))
    victims = proof.HERE.parent / "victims"
    for words in (["gcc", "-O2", "-pthread", str(proof.HERE / "patch_work.c"), "-o", "patch_work_c"],
                  ["g++", "-O2", "-pthread", str(proof.HERE / "patch_work.cc"), "-o", "patch_work_cc"],
                  ["gcc", "-O1", "-g", "victim.c", "-o", "gdb_victim"],
                  ["gcc", "-O2", "-g", "-pthread", str(victims / "patch_hammer.c"), "-o", "patch_hammer"]):
        subprocess.run(words, cwd=folder, check=True)
    if shutil.which("openssl"):
        subprocess.run(["openssl", "genrsa", "-out", "key.pem", "2048"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "ed25519.pem"], cwd=folder, check=True)
    if shutil.which("git"):
        make_repository(folder / "repo")


def make_repository(repo):
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for i in range(1, 8):
        (repo / "long").write_text("".join(f"line {n * i % 50} of {i}\n" for n in range(300)))
        programs.commit(repo, i)
    subprocess.run(["git", "-C", str(repo), "repack", "-q", "-a", "-d"], check=True)
