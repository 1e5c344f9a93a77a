# rooms: patch/probe probe
"""PROBE_VECTOR: vector registers as the program has them, floating point in probes, and nothing of the program's state changed by it."""
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import WAIT  # noqa: E402
from test_patch_live import of_type, patch, report  # noqa: E402

HEADER = "#include <watchctl/probe.h>\n"
COMPILERS = pytest.mark.parametrize("cc", ["gcc", "clang"])

SCALE = r"""
#include <stdio.h>
__attribute__((noinline)) double scale(double x, float y, long n) { return x * y + n; }
int main(void)
{
	for (long i = 0; i < 100; i++) {
		double x = 1.0 / (i + 1) - 0.25;
		float y = 3.7f * i;
		printf("%.17g %.9g %ld %a\n", x, y, i, scale(x, y, i));
	}
	return 0;
}
"""

# Every state component is compared with what it was before the instruction, as the processor itself writes it.
STATE = r"""
#include <cpuid.h>
#include <fenv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint8_t before[16384] __attribute__((aligned(64))), after[16384] __attribute__((aligned(64)));
static uint8_t fill[64] __attribute__((aligned(64)));
int main(int argc, char **argv)
{
	unsigned int a, b, c, d, avx, avx512 = 0;

	__get_cpuid(1, &a, &b, &c, &d);
	avx = c & bit_AVX;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
		avx512 = b & bit_AVX512F;
	for (int i = 0; i < 64; i++)
		fill[i] = (uint8_t)(i * 7 + 1);
	if (argc > 1)
		feenableexcept(FE_ALL_EXCEPT);
	for (int round = 0; round < 200; round++) {
		if (avx512 && round % 4 == 3)
			__asm__ volatile("vmovdqu64 %0, %%zmm0; vmovdqu64 %0, %%zmm15; vmovdqu64 %0, %%zmm31; kmovw %%eax, %%k1" : : "m"(fill), "a"(round));
		else if (avx && round % 4 >= 2)
			__asm__ volatile("vmovdqu %0, %%ymm0; vmovdqu %0, %%ymm7; vmovdqu %0, %%ymm15" : : "m"(fill));
		else if (round % 4 == 1)
			__asm__ volatile("movdqu %0, %%xmm0; movdqu %0, %%xmm15; movq %0, %%mm3" : : "m"(fill));
		else
			__asm__ volatile("emms; fld1; fldpi; fldl2e" : : );
		__asm__ volatile("mov $0xe7, %%eax; xor %%edx, %%edx; xsave64 (%0)\n"
				 "add $0x12345678, %%r15\n"
				 "sub $0x12345678, %%r15\n"
				 "mov $0xe7, %%eax; xor %%edx, %%edx; xsave64 (%1)\n"
				 "emms\n"
				 : : "r"(before), "r"(after) : "rax", "rdx", "r15", "memory", "cc");
		if (memcmp(before, after, sizeof(before))) {
			for (size_t i = 0; i < sizeof(before); i++)
				if (before[i] != after[i])
					printf("round %d: byte %zu is %02x, was %02x\n", round, i, after[i], before[i]);
			return 1;
		}
		if (avx)
			__asm__ volatile("vzeroall");
	}
	puts("the same");
	return 0;
}
"""


@pytest.fixture
def program(tmp_path):
    def make(text, name="program"):
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-O2", "-g", "-o", tmp_path / name, tmp_path / f"{name}.c", "-lm"], check=True, timeout=WAIT)
        return tmp_path / name
    return make


@pytest.fixture
def probe(tmp_path):
    def make(text):
        (tmp_path / "p.c").write_text(HEADER + text)
        return tmp_path / "p.c"
    return make


def texts(log):
    return [e["text"] for e in of_type(report(log), "probe")]


@COMPILERS
def test_arguments_and_results_that_are_floating_point(program, probe, tmp_path, cc):
    """The program says itself what they are."""
    path = probe('PROBE_VECTOR(in) { probe_log("in %.17g %.9g %ld", probe_double(vector, 0), probe_float(vector, 1), p->regs->rdi); }\n'
                 'PROBE_VECTOR(out) { probe_log("out %a", probe_double(vector, 0)); }\n')
    (tmp_path / "rules").write_text("entry scale => in\nexit scale => out\n")
    done = patch("--cc", cc, "--rules", tmp_path / "rules", path, "-o", tmp_path / "log", "--", program(SCALE))
    want = []
    for line in done.stdout.splitlines():
        x, y, n, result = line.split()
        want += [f"in {x} {y} {n}", f"out {result}"]
    assert texts(tmp_path / "log") == want and len(want) == 200


@COMPILERS
@pytest.mark.parametrize("trapping", [[], ["trap"]])
def test_no_state_of_the_processor_is_changed(program, probe, tmp_path, cc, trapping):
    """The probe changes all that it may, divides by zero and calls; with exceptions unmasked in the program that is no SIGFPE."""
    path = probe('PROBE_USES_VECTOR static __attribute__((noinline)) double work(volatile double *v) { double s = 0; for (int i = 0; i < 8; i++) s += v[i] / v[7]; return s; }\n'
                 'PROBE_VECTOR(busy) {\n'
                 '  volatile double v[8] = { 1, 2, 3, 4, 5, 6, 7, 0 };\n'
                 '  volatile float f = 1e30f; f = f * f;\n'
                 '  __asm__ volatile("pcmpeqd %%xmm15, %%xmm15; pcmpeqd %%xmm8, %%xmm8; fld1; fldz; fdivrp; fldpi" : : : "memory");\n'
                 '  probe_log("%g %g", work(v), f); }\n')
    done = patch("--cc", cc, "--at", "add r15, 0x12345678", path, "-o", tmp_path / "log", "--", program(STATE), *trapping)
    assert done.stdout == "the same\n"
    assert set(texts(tmp_path / "log")) <= {"inf inf", "-nan inf", "nan inf"} and len(texts(tmp_path / "log")) == 200


def test_whole_registers_as_far_as_the_processor_has_them(program, probe, tmp_path):
    flags = open("/proc/cpuinfo").read()
    width = 64 if " avx512f" in flags else 32 if " avx " in flags else 16
    path = probe('PROBE_VECTOR(whole) {\n'
                 '  unsigned char b[64]; unsigned int sum = 0, size = 64; bool more = probe_vector_read(vector, 31, b, 16);\n'
                 '  while (size && !probe_vector_read(vector, 0, b, size)) size /= 2;\n'
                 '  for (unsigned int i = 0; i < size; i++) sum += b[i] * (i + 1);\n'
                 '  bool none = probe_vector_read(vector, 32, b, 1); bool changed = probe_vector_write(p, vector, 0, b, 8);\n'
                 '  probe_log("%u %u %d %d %d", size, sum, more, none, changed); }\n')
    patch("--at", "add r15, 0x12345678", path, "-o", tmp_path / "log", "--", program(STATE))
    fill = [(i * 7 + 1) & 0xff for i in range(64)]
    held = {0: 0, 1: 16, 2: 32 if width >= 32 else 16, 3: min(width, 64)}
    want = [f"{width} {sum(fill[i] * (i + 1) for i in range(held[r % 4]))} {int(width == 64)} 0 0" for r in range(4, 200)]
    assert texts(tmp_path / "log")[4:] == want


@COMPILERS
def test_instead_a_vector_register_is_what_the_probe_makes_of_it(program, probe, tmp_path, cc):
    """One register, and of it as many bytes as were written."""
    text = r"""
#include <stdio.h>
#include <stdint.h>
int main(void)
{
	uint64_t in[4] = { 11, 12, 13, 14 }, out[4] = { 0 };

	__asm__ volatile("movdqu %2, %%xmm3; movdqu %3, %%xmm4; xor %%r15d, %%r15d; add $0x12345678, %%r15; movdqu %%xmm3, %0; movdqu %%xmm4, %1"
			 : "=m"(out), "=m"(out[2]) : "m"(in), "m"(in[2]) : "xmm3", "xmm4", "r15", "memory");
	printf("%lu %lu %lu %lu\n", out[0], out[1], out[2], out[3]);
	return 0;
}
"""
    path = probe('PROBE_VECTOR(change) { uint64_t v = 99; double d = 0.5; probe_vector_write(p, vector, 3, &v, 8); probe_vector_write(p, vector, 5, &d, 8);\n'
                 '  probe_log("%d", probe_vector_write(p, vector, 32, &v, 8)); }\n')
    done = patch("--cc", cc, "--instead", "--yes-change-the-program", "--at", "add r15, 0x12345678", path, "-o", tmp_path / "log", "--", program(text))
    assert done.stdout == "99 12 13 14\n" and texts(tmp_path / "log") == ["0"]


@COMPILERS
def test_floating_point_in_a_plain_probe_is_refused_by_the_compiler(program, probe, cc):
    done = patch("--cc", cc, "--at", "entry scale", probe('PROBE(f) { volatile double d = (double)p->regs->rdi; probe_value((uint64_t)(d * 1.5)); }\n'),
                 "--", program(SCALE), status=2)
    assert "could not be compiled" in done.stderr or "uses __" in done.stderr, done.stderr


def test_long_double_is_refused_in_a_format(program, probe):
    done = patch("--at", "entry scale", probe('PROBE_VECTOR(f) { probe_log("%Lg", (long double)1); }\n'), "--", program(SCALE), status=2)
    assert "probe_log() takes no long double" in done.stderr


@pytest.mark.slow
def test_python_computes_the_same_with_a_vector_probe_at_every_call(probe, tmp_path):
    script = "import math; print(sum(math.sin(i) * math.sqrt(i) for i in range(2000)), [x / 7 for x in range(50)])"
    plain = subprocess.run(["python3", "-S", "-c", script], capture_output=True, text=True, check=True, timeout=WAIT).stdout
    path = probe('PROBE_VECTOR(sum) { static double total; total += probe_double(vector, 0) * 1e-3 + 1; (void)p; }\n')
    done = patch("--at", "@call", "--in", "python3.11", path, "-q", "--", "/usr/bin/python3.11", "-S", "-c", script)
    assert done.stdout == plain and "0 lost" in done.stderr
