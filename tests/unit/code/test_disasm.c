/* Bytes are GNU as's; texts are what objdump -M intel means by them, in our spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/code/insn/disasm.h"

#define AT 0x401000ull

static void assert_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, const char *expected)
{
	char text[96];

	disasm_text(syntax, bytes, len, AT, text, sizeof(text));
	assert_string_equal(text, expected);
}

#define ASSERT_TEXT_IN(syntax, expected, ...)                                                             \
	assert_text(syntax, ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ }), \
		    expected)
#define ASSERT_TEXT(expected, ...) ASSERT_TEXT_IN(INSN_INTEL, expected, __VA_ARGS__)
#define ASSERT_ATT(expected, ...) ASSERT_TEXT_IN(INSN_ATT, expected, __VA_ARGS__)

static void text_is_intel_syntax_with_sizes(void **state)
{
	ASSERT_TEXT("mov dword ptr [rip+0x2ee4], eax", 0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00);
	ASSERT_TEXT("lock cmpxchg qword ptr [rbx], rcx", 0xf0, 0x48, 0x0f, 0xb1, 0x0b);
	ASSERT_TEXT("mov eax, dword ptr [rbx+rcx*8-0x10]", 0x8b, 0x44, 0xcb, 0xf0);
	ASSERT_TEXT("mov eax, dword ptr fs:[0x28]", 0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0);
	ASSERT_TEXT("ret", 0xc3);
}

static void small_numbers_are_hexadecimal_too(void **state)
{
	ASSERT_TEXT("add dword ptr [rax+0x8], 0x1", 0x83, 0x40, 0x08, 0x01);
	ASSERT_TEXT("fld st(1)", 0xd9, 0xc1);
}

static void att_syntax_has_suffixes_and_its_order_of_operands(void **state)
{
	ASSERT_ATT("movl %eax, 0x2ee4(%rip)", 0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00);
	ASSERT_ATT("lock cmpxchgq %rcx, (%rbx)", 0xf0, 0x48, 0x0f, 0xb1, 0x0b);
	ASSERT_ATT("movl -0x10(%rbx,%rcx,8), %eax", 0x8b, 0x44, 0xcb, 0xf0);
	ASSERT_ATT("movl %fs:0x28, %eax", 0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0);
	ASSERT_ATT("addl $0x1, 0x8(%rax)", 0x83, 0x40, 0x08, 0x01);
	ASSERT_ATT("movl $0xfffffff7, -0x8(%rsp)", 0xc7, 0x44, 0x24, 0xf8, 0xf7, 0xff, 0xff, 0xff);
	ASSERT_ATT("callq *0x8(%rip)", 0xff, 0x15, 8, 0, 0, 0);
	ASSERT_ATT("fld %st(1)", 0xd9, 0xc1);
	ASSERT_ATT("vmovdqu32 %zmm0, (%rax) {%k1}", 0x62, 0xf1, 0x7e, 0x49, 0x7f, 0x00);
}

/* Capstone 4 has [r11+0x4] for the second: what a program executed has Zydis' text. */
static void avx512_is_left_to_zydis(void **state)
{
	ASSERT_TEXT("vmovdqu32 zmmword ptr [rax] {k1}, zmm0", 0x62, 0xf1, 0x7e, 0x49, 0x7f, 0x00);
	ASSERT_TEXT("vaddpd xmm10, xmm11, qword ptr fs:[r11+0x8] {1to2}", 0x64, 0x62, 0x51, 0xa5, 0x18, 0x58,
		    0x53, 0x01);
}

static void what_does_not_decode_has_no_text(void **state)
{
	ASSERT_TEXT("", 0x06);
	ASSERT_TEXT("", 0x48, 0x8b);
}

static void a_short_buffer_is_kept_to(void **state)
{
	const uint8_t store[] = { 0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00 };
	char text[8] = "xxxxxxx";

	disasm_text(INSN_INTEL, store, sizeof(store), AT, text, 6);
	assert_string_equal(text, "mov d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_intel_syntax_with_sizes),
		cmocka_unit_test(small_numbers_are_hexadecimal_too),
		cmocka_unit_test(att_syntax_has_suffixes_and_its_order_of_operands),
		cmocka_unit_test(avx512_is_left_to_zydis),
		cmocka_unit_test(what_does_not_decode_has_no_text),
		cmocka_unit_test(a_short_buffer_is_kept_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
