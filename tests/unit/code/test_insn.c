/* Expected values are Intel's manual's (SDM vol. 2), instruction by instruction; bytes are GNU as's. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <Zydis/Zydis.h>
#include <cmocka.h>

#include "watchctl/code/insn/insn.h"

#define AT 0x401000ull
#define BIT(reg) (1u << WREG_##reg)

static struct insn decode(const uint8_t *bytes, size_t len)
{
	struct insn i;

	assert_true(insn_decode(bytes, len, AT, &i));
	assert_int_equal(i.len, len);
	return i;
}

#define DECODE(...) decode(((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void assert_mem(const struct insn *i, unsigned int k, enum access_kind kind, int base, int64_t disp,
		       uint32_t size)
{
	assert_in_range(k, 0, i->nmem - 1);
	assert_int_equal(i->mem[k].kind, kind);
	assert_int_equal(i->mem[k].base, base);
	assert_int_equal(i->mem[k].disp, disp);
	assert_int_equal(i->mem[k].size, size);
}

/* The stores and loads that other decoders confuse. */
static void kinds_are_the_manuals(void **state)
{
	const struct {
		uint8_t len, bytes[12], kind, size;
	} table[] = {
		{ 3, { 0x0f, 0x11, 0x03 }, ACCESS_WRITE, 16 },		       /* movups [rbx], xmm0 */
		{ 3, { 0x0f, 0x10, 0x03 }, ACCESS_READ, 16 },		       /* movups xmm0, [rbx] */
		{ 4, { 0x66, 0x0f, 0x7f, 0x03 }, ACCESS_WRITE, 16 },	       /* movdqa [rbx], xmm0 */
		{ 4, { 0x66, 0x0f, 0xd6, 0x03 }, ACCESS_WRITE, 8 },	       /* movq [rbx], xmm0 */
		{ 4, { 0xc5, 0xfe, 0x7f, 0x03 }, ACCESS_WRITE, 32 },	       /* vmovdqu [rbx], ymm0 */
		{ 2, { 0x85, 0x03 }, ACCESS_READ, 4 },			       /* test [rbx], eax */
		{ 2, { 0x39, 0x03 }, ACCESS_READ, 4 },			       /* cmp [rbx], eax */
		{ 5, { 0xf0, 0x48, 0x0f, 0xb1, 0x0b }, ACCESS_READWRITE, 8 },  /* lock cmpxchg [rbx], rcx */
		{ 5, { 0xf0, 0x48, 0x0f, 0xc7, 0x0b }, ACCESS_READWRITE, 16 }, /* lock cmpxchg16b [rbx] */
		{ 3, { 0x83, 0x0b, 0x00 }, ACCESS_READWRITE, 4 },	       /* or dword [rbx], 0 */
		{ 2, { 0x87, 0x03 }, ACCESS_READWRITE, 4 },		       /* xchg [rbx], eax */
		{ 3, { 0x0f, 0x95, 0x03 }, ACCESS_WRITE, 1 },		       /* setne [rbx] */
		{ 2, { 0xdb, 0x3b }, ACCESS_WRITE, 10 },		       /* fstp tbyte [rbx] */
		{ 6,
		  { 0x62, 0xf1, 0x7f, 0x49, 0x7f, 0x03 },
		  ACCESS_WRITE,
		  64 }, /* vmovdqu8 [rbx]{k1}, zmm0 */
		{ 6,
		  { 0x62, 0xf1, 0x75, 0x58, 0xfe, 0x03 },
		  ACCESS_READ,
		  4 },							  /* vpaddd zmm0,zmm1,[rbx]{1to16} */
		{ 5, { 0xc4, 0xe1, 0xf8, 0x91, 0x0b }, ACCESS_WRITE, 8 }, /* kmovq [rbx], k1 */
	};

	for (size_t k = 0; k < sizeof(table) / sizeof(*table); k++) {
		struct insn i = decode(table[k].bytes, table[k].len);

		assert_int_equal(i.nmem, 1);
		assert_mem(&i, 0, table[k].kind, WREG_RBX, 0, table[k].size);
	}
}

static void naming_is_not_accessing(void **state)
{
	assert_int_equal(DECODE(0x48, 0x8d, 0x03).nmem, 0);	  /* lea rax, [rbx] */
	assert_int_equal(DECODE(0x0f, 0x1f, 0x03).nmem, 0);	  /* nop dword [rbx] */
	assert_int_equal(DECODE(0x0f, 0x0d, 0x0b).nmem, 0);	  /* prefetchw [rbx] */
	assert_int_equal(DECODE(0x0f, 0x18, 0x0b).nmem, 0);	  /* prefetcht0 [rbx] */
	assert_int_equal(DECODE(0x0f, 0x1c, 0x03).nmem, 0);	  /* cldemote [rbx] */
	assert_int_equal(DECODE(0xf3, 0x0f, 0x1e, 0xfa).nmem, 0); /* endbr64 */
	assert_true(DECODE(0x0f, 0xae, 0x3b).cond_access);	  /* clflush [rbx] */
	assert_int_equal(DECODE(0x0f, 0xae, 0x3b).mem[0].kind, ACCESS_READ);
}

static void stack_operands_are_where_the_stack_moves(void **state)
{
	struct insn i = DECODE(0x53); /* push rbx */

	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -8, 8);
	assert_int_equal(i.writes, BIT(RSP));
	i = DECODE(0x66, 0x50); /* push ax */
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -2, 2);
	i = DECODE(0xff, 0x74, 0x24, 0x08); /* push [rsp + 8] */
	assert_mem(&i, 0, ACCESS_READ, WREG_RSP, 8, 8);
	assert_mem(&i, 1, ACCESS_WRITE, WREG_RSP, -8, 8);
	i = DECODE(0x5b); /* pop rbx */
	assert_mem(&i, 0, ACCESS_READ, WREG_RSP, 0, 8);
	assert_int_equal(i.writes, BIT(RSP) | BIT(RBX));
	i = DECODE(0x8f, 0x44, 0x24, 0x08); /* pop [rsp + 8]: rsp is incremented first */
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, 16, 8);
	assert_mem(&i, 1, ACCESS_READ, WREG_RSP, 0, 8);
	i = DECODE(0xc9); /* leave */
	assert_mem(&i, 0, ACCESS_READ, WREG_RBP, 0, 8);
	i = DECODE(0xc8, 0x10, 0x00, 0x00); /* enter 16, 0 */
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -8, 8);
	i = DECODE(0xc8, 0x10, 0x00, 0x03); /* enter 16, 3: rbp, two older frame pointers, the new one */
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -32, 32);
	assert_mem(&i, 1, ACCESS_READ, WREG_RBP, -16, 16);
	i = DECODE(0xc3); /* ret */
	assert_true(i.is_ret);
	assert_mem(&i, 0, ACCESS_READ, WREG_RSP, 0, 8);
}

/* With a 16-bit prefix the stack moves by two, and a frame's pointers are as small. */
static void small_frames_are_small(void **state)
{
	struct regs after = { .r = { [WREG_RSP] = 0x1000, [WREG_RBP] = 0x2000 } }, before;
	struct insn i = DECODE(0x66, 0xc9); /* leavew */

	assert_mem(&i, 0, ACCESS_READ, WREG_RBP, 0, 2);
	insn_undo(&i, &after, &before);
	assert_int_equal(before.r[WREG_RBP], 0xffe);
	i = DECODE(0x66, 0xc8, 0x10, 0x00, 0x03); /* enterw 16, 3 */
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -8, 8);
	assert_mem(&i, 1, ACCESS_READ, WREG_RBP, -4, 4);
	insn_undo(&i, &after, &before);
	assert_int_equal(before.r[WREG_RSP], 0x1018);
}

/* Intel SDM vol. 1, 13.7: XSAVE reads XSTATE_BV of the header, and writes nothing else of it. */
static void saving_the_state_reads_one_word(void **state)
{
	struct insn i = DECODE(0x0f, 0xae, 0x63, 0x40); /* xsave [rbx + 0x40] */

	assert_int_equal(i.nmem, 3);
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RBX, 0x40, 416);
	assert_mem(&i, 1, ACCESS_READWRITE, WREG_RBX, 0x40 + 512, 8);
	assert_mem(&i, 2, ACCESS_WRITE, WREG_RBX, 0x40 + 576, 0);
	assert_true(i.cond_access);
	i = DECODE(0x0f, 0xc7, 0x23); /* xsavec [rbx] */
	assert_int_equal(i.nmem, 1);
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RBX, 0, 0);
	i = DECODE(0x0f, 0xae, 0x2b); /* xrstor [rbx] */
	assert_mem(&i, 0, ACCESS_READ, WREG_RBX, 0, 0);
}

/* Intel SDM vol. 2, PUNPCKLBW: "an implementation may fetch only the appropriate 64 bits". */
static void what_may_read_half_is_not_certain(void **state)
{
	assert_true(DECODE(0x66, 0x0f, 0x60, 0x03).cond_access);  /* punpcklbw xmm0, [rbx] */
	assert_true(DECODE(0x0f, 0x15, 0x03).cond_access);	  /* unpckhps xmm0, [rbx] */
	assert_true(DECODE(0x66, 0x0f, 0xd1, 0x03).cond_access);  /* psrlw xmm0, [rbx] */
	assert_true(DECODE(0x0f, 0xae, 0x0b).cond_access);	  /* fxrstor [rbx] */
	assert_false(DECODE(0xc5, 0xfd, 0x60, 0x03).cond_access); /* vpunpcklbw ymm0, ymm0, [rbx] */
	assert_false(DECODE(0x66, 0x0f, 0x6f, 0x03).cond_access); /* movdqa xmm0, [rbx] */
}

static void calls_and_jumps_say_where_they_go(void **state)
{
	struct insn i = DECODE(0xe8, 0x10, 0x00, 0x00, 0x00);

	assert_true(i.is_call && i.has_target);
	assert_int_equal(i.target, AT + 5 + 16);
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RSP, -8, 8);
	i = DECODE(0xff, 0x13); /* call [rbx] */
	assert_true(i.is_call && !i.has_target);
	assert_int_equal(i.target_reg, -1);
	assert_mem(&i, 0, ACCESS_READ, WREG_RBX, 0, 8);
	assert_mem(&i, 1, ACCESS_WRITE, WREG_RSP, -8, 8);
	assert_true(i.target_in_mem);
	assert_false(DECODE(0xff, 0x1b).target_in_mem); /* call far [rbx]: no address of 8 bytes */
	i = DECODE(0xff, 0xd0);				/* call rax */
	assert_int_equal(i.target_reg, WREG_RAX);
	i = DECODE(0xff, 0x25, 0x00, 0x01, 0x00, 0x00); /* jmp [rip + 0x100] */
	assert_true(i.is_jmp && !i.is_cond && !i.is_call);
	assert_mem(&i, 0, ACCESS_READ, WREG_RIP, 0x100, 8);
	i = DECODE(0x74, 0xfe); /* je to itself */
	assert_true(i.is_jmp && i.is_cond);
	assert_int_equal(i.target, AT);
}

static void string_instructions_have_both_ends(void **state)
{
	struct insn i = DECODE(0xa4); /* movsb */

	assert_true(i.is_string && !i.is_rep);
	assert_int_equal(i.nmem, 2);
	assert_mem(&i, 0, ACCESS_WRITE, WREG_RDI, 0, 1);
	assert_mem(&i, 1, ACCESS_READ, WREG_RSI, 0, 1);
	i = DECODE(0xf3, 0x48, 0xa5); /* rep movsq */
	assert_true(i.is_string && i.is_rep);
	assert_int_equal(i.writes, BIT(RSI) | BIT(RDI) | BIT(RCX));
	i = DECODE(0xf2, 0xae); /* repne scasb */
	assert_true(i.is_rep);
	assert_int_equal(i.writes & ~BIT(RFLAGS), BIT(RDI) | BIT(RCX));
	assert_mem(&i, 0, ACCESS_READ, WREG_RDI, 0, 1);
	i = DECODE(0xf3, 0xa6); /* repe cmpsb */
	assert_int_equal(i.nmem, 2);
	assert_int_equal(i.mem[0].kind | i.mem[1].kind, ACCESS_READ);
	i = DECODE(0xf3, 0xc3); /* rep ret, as old compilers write it */
	assert_true(i.is_ret && !i.is_rep && !i.is_string);
	i = DECODE(0xf2, 0x0f, 0x10, 0x03); /* movsd xmm0, [rbx] shares a name with one */
	assert_false(i.is_string);
}

static void system_calls_are_kept_apart(void **state)
{
	assert_true(DECODE(0x0f, 0x05).is_syscall && DECODE(0x0f, 0x05).keeps_rip);
	assert_false(DECODE(0xcd, 0x80).keeps_rip);
	assert_true(DECODE(0x0f, 0x34).is_syscall);
	assert_true(DECODE(0xcd, 0x80).is_syscall);
	assert_false(DECODE(0xcd, 0x81).is_syscall);
	assert_false(DECODE(0xcc).is_syscall);
}

static void assert_value(const struct insn i, int reg, unsigned int shift)
{
	assert_int_equal(i.value_reg, reg);
	assert_int_equal(i.value_shift, shift);
	assert_false(i.value_is_imm);
}

static void plain_moves_carry_their_value(void **state)
{
	struct insn i;

	assert_value(DECODE(0x48, 0x8b, 0x00), WREG_RAX, 0);		       /* mov rax, [rax] */
	assert_value(DECODE(0x44, 0x89, 0x3b), WREG_R15, 0);		       /* mov [rbx], r15d */
	assert_value(DECODE(0x88, 0x23), WREG_RAX, 8);			       /* mov [rbx], ah */
	assert_value(DECODE(0x40, 0x88, 0x33), WREG_RSI, 0);		       /* mov [rbx], sil */
	assert_value(DECODE(0x66, 0x8b, 0x0b), WREG_RCX, 0);		       /* mov cx, [rbx] */
	assert_value(DECODE(0x48, 0xa1, 8, 7, 6, 5, 4, 3, 2, 1), WREG_RAX, 0); /* movabs rax, [...] */
	i = DECODE(0xc6, 0x03, 0xfe);					       /* mov byte [rbx], -2 */
	assert_true(i.value_is_imm && i.value_reg == -1);
	assert_int_equal(i.value_imm, 0xfe);
	i = DECODE(0x48, 0xc7, 0x03, 0xfe, 0xff, 0xff, 0xff); /* mov qword [rbx], -2 */
	assert_int_equal(i.value_imm, -2);
}

static void other_moves_do_not(void **state)
{
	assert_value(DECODE(0x0f, 0xb6, 0x03), -1, 0);	     /* movzx eax, byte [rbx] */
	assert_value(DECODE(0x48, 0x63, 0x03), -1, 0);	     /* movsxd rax, [rbx] */
	assert_value(DECODE(0x87, 0x03), -1, 0);	     /* xchg [rbx], eax */
	assert_value(DECODE(0x8c, 0x23), -1, 0);	     /* mov [rbx], fs */
	assert_value(DECODE(0x8e, 0x23), -1, 0);	     /* mov fs, [rbx] */
	assert_value(DECODE(0x48, 0x89, 0xd8), -1, 0);	     /* mov rax, rbx */
	assert_value(DECODE(0x0f, 0x44, 0x03), -1, 0);	     /* cmove eax, [rbx] */
	assert_value(DECODE(0x66, 0x0f, 0x6e, 0x03), -1, 0); /* movd xmm0, [rbx] */
}

static bool mem_addr(const struct insn *i, const struct regs *regs, uint64_t *ret)
{
	return insn_mem_addr(&i->mem[0], regs, AT, i->len, ret);
}

static void addresses_follow_the_addressing_mode(void **state)
{
	struct regs regs = {
		.r = { [WREG_RBX] = 0xffffffff00001000, [WREG_RCX] = 3, [WREG_RAX] = (uint64_t)-1 }
	};
	struct insn i = DECODE(0x8b, 0x44, 0xcb, 0xf0); /* mov eax, [rbx + rcx * 8 - 16] */
	uint64_t addr;

	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0xffffffff00001008);
	i = DECODE(0x67, 0x8b, 0x44, 0xcb, 0xf0); /* the same from 32-bit registers */
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0x1008);
	i = DECODE(0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00); /* mov [rip + 0x2ee4], eax */
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, AT + 6 + 0x2ee4);
	i = DECODE(0x0f, 0xab, 0x03); /* bts [rbx], eax: the dword below */
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0xffffffff00000ffc);
	i = DECODE(0x48, 0xa1, 8, 7, 6, 5, 4, 3, 2, 1);
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0x0102030405060708);
	i = DECODE(0x0f, 0x01, 0xfc); /* clzero: the cache line that holds rax */
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0xffffffffffffffc0);
	assert_int_equal(i.mem[0].size, 64);
}

static void unknown_parts_make_no_address(void **state)
{
	struct regs regs = { 0 };
	struct insn i = DECODE(0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0); /* mov eax, fs:[0x28] */
	uint64_t addr = 1;

	assert_false(mem_addr(&i, &regs, &addr));
	regs.r[WREG_FS_BASE] = 0x7f0000000000;
	assert_true(mem_addr(&i, &regs, &addr));
	assert_int_equal(addr, 0x7f0000000028);
	i = DECODE(0x65, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0); /* gs is not recorded */
	assert_false(mem_addr(&i, &regs, &addr));
	i = DECODE(0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88); /* vpgatherdd ymm0, [rax + ymm1 * 4], ymm2 */
	assert_true(i.mem[0].vsib && i.cond_access);
	assert_false(mem_addr(&i, &regs, &addr));
	i = DECODE(0xd7); /* xlat: indexed by al */
	assert_false(mem_addr(&i, &regs, &addr));
}

static void overwritten_registers_come_back_where_they_can(void **state)
{
	struct regs after = {
		.r = { [WREG_RSP] = 0x1000, [WREG_RBP] = 0x2000, [WREG_RSI] = 0x3000, [WREG_RDI] = 0x4000 }
	};
	struct regs before;
	struct insn i = DECODE(0x53);

	assert_int_equal(insn_undo(&i, &after, &before), 0);
	assert_int_equal(before.r[WREG_RSP], 0x1008);
	i = DECODE(0x5b); /* pop rbx: rbx is gone */
	assert_int_equal(insn_undo(&i, &after, &before), BIT(RBX));
	assert_int_equal(before.r[WREG_RSP], 0xff8);
	i = DECODE(0x5c); /* pop rsp: gone */
	assert_int_equal(insn_undo(&i, &after, &before), BIT(RSP));
	i = DECODE(0xc9); /* leave */
	assert_int_equal(insn_undo(&i, &after, &before), BIT(RSP));
	assert_int_equal(before.r[WREG_RBP], 0xff8);
	i = DECODE(0x48, 0xa5); /* movsq */
	assert_int_equal(insn_undo(&i, &after, &before), 0);
	assert_int_equal(before.r[WREG_RSI], 0x2ff8);
	after.r[WREG_RFLAGS] = 0x400;
	insn_undo(&i, &after, &before);
	assert_int_equal(before.r[WREG_RDI], 0x4008);
	i = DECODE(0x48, 0x0f, 0xb1, 0x08); /* cmpxchg [rax], rcx: rax stays when it succeeds */
	assert_true(insn_undo(&i, &after, &before) & BIT(RAX));
	after.r[WREG_RFLAGS] = 0x40;
	assert_false(insn_undo(&i, &after, &before) & BIT(RAX));
	i = DECODE(0xf3, 0x48, 0xab); /* rep stosq: nobody knows how often */
	assert_true(insn_undo(&i, &after, &before) & BIT(RDI));
}

static bool exchanged(const struct insn *i, const struct regs *after, uint64_t addr, uint32_t size,
		      uint64_t *old_value, uint64_t *new_value)
{
	struct insn_exchanged x;
	bool told = insn_exchanged(i, AT, after, addr, size, &x);

	*old_value = told ? x.old_value : 0;
	*new_value = told && x.has_new ? x.new_value : 0;
	return told;
}

/* Intel SDM vol. 2, XCHG, XADD, CMPXCHG, CMPXCHG8B/16B. */
static void exchanges_tell_what_they_found(void **state)
{
	struct regs r = { .r = { [WREG_RAX] = 0x1122334455667788,
				 [WREG_RBX] = 0x5000,
				 [WREG_RCX] = 0xcafe00000000beef,
				 [WREG_RDX] = 0x99aabbccddeeff00 } };
	uint64_t was, is;
	struct insn i;

	(void)state;
	i = DECODE(0x48, 0x87, 0x0b); /* xchg [rbx], rcx */
	assert_true(exchanged(&i, &r, 0x5000, 8, &was, &is));
	assert_int_equal(was, 0xcafe00000000beef);
	assert_int_equal(is, 0);			      /* not told */
	assert_true(exchanged(&i, &r, 0x5006, 2, &was, &is)); /* a part of it */
	assert_int_equal(was, 0xcafe);
	assert_false(exchanged(&i, &r, 0x5004, 8, &was, &is)); /* not all of it */
	i = DECODE(0x86, 0x2b);				       /* xchg [rbx], ch */
	assert_true(exchanged(&i, &r, 0x5000, 1, &was, &is));
	assert_int_equal(was, 0xbe);
	i = DECODE(0xf0, 0x0f, 0xc1, 0x0b); /* lock xadd [rbx], ecx */
	assert_true(exchanged(&i, &r, 0x5000, 4, &was, &is));
	assert_int_equal(was, 0xbeef);
	i = DECODE(0x48, 0x0f, 0xc1, 0x1b); /* xadd [rbx], rbx: where was it? */
	assert_false(exchanged(&i, &r, 0x5000, 8, &was, &is));

	i = DECODE(0xf0, 0x48, 0x0f, 0xb1, 0x0b); /* lock cmpxchg [rbx], rcx */
	assert_true(exchanged(&i, &r, 0x5000, 8, &was, &is));
	assert_int_equal(was, 0x1122334455667788);
	assert_int_equal(is, 0x1122334455667788); /* it failed */
	i = DECODE(0x48, 0x0f, 0xc7, 0x0b);	  /* cmpxchg16b [rbx] */
	assert_true(exchanged(&i, &r, 0x5008, 8, &was, &is));
	assert_int_equal(was, 0x99aabbccddeeff00);
	assert_int_equal(is, 0x99aabbccddeeff00);
	r.r[WREG_RFLAGS] = 0x40;			      /* ZF */
	assert_true(exchanged(&i, &r, 0x5006, 4, &was, &is)); /* of both halves */
	assert_int_equal(was, 0xff001122);
	assert_int_equal(is, 0xbeef0000);
	i = DECODE(0x0f, 0xc7, 0x0b); /* cmpxchg8b [rbx] */
	assert_true(exchanged(&i, &r, 0x5000, 8, &was, &is));
	assert_int_equal(was, 0xddeeff0055667788);
	assert_int_equal(is, 0x0000beef00005000);
	i = DECODE(0xf0, 0x0f, 0xb1, 0x0b); /* lock cmpxchg [rbx], ecx */
	assert_true(exchanged(&i, &r, 0x5000, 4, &was, &is));
	assert_int_equal(was, 0x55667788);
	assert_int_equal(is, 0x0000beef);
	i = DECODE(0x48, 0x89, 0x0b); /* mov [rbx], rcx: no exchange */
	assert_false(exchanged(&i, &r, 0x5000, 8, &was, &is));
	i = DECODE(0x48, 0x91); /* xchg rcx, rax: no memory */
	assert_false(exchanged(&i, &r, 0x5000, 8, &was, &is));
}

static void what_does_not_decode_is_refused(void **state)
{
	const uint8_t invalid[] = { 0x06 }, cut[] = { 0x48, 0x8b },
		      prefixes[16] = { 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
				       0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90 };
	char text[64] = "x";
	struct insn i;

	assert_false(insn_decode(invalid, sizeof(invalid), AT, &i));
	assert_false(insn_decode(cut, sizeof(cut), AT, &i));
	assert_false(insn_decode(prefixes, sizeof(prefixes), AT, &i));
	insn_text(INSN_INTEL, invalid, sizeof(invalid), AT, text, sizeof(text));
	assert_string_equal(text, "");
}

/* mov ecx, 0x05c78948; the immediate holds "mov rdi, rax", which a backward scan would take. */
static void the_instruction_before_is_found_from_the_start(void **state)
{
	const uint8_t code[] = { 0x55, 0xb9, 0x48, 0x89, 0xc7, 0x05, 0xc3 };
	uint64_t at;

	assert_true(insn_before(code, sizeof(code), AT, AT + 6, &at));
	assert_int_equal(at, AT + 1);
	assert_true(insn_before(code, sizeof(code), AT, AT + 7, &at));
	assert_int_equal(at, AT + 6);
	assert_false(insn_before(code, sizeof(code), AT, AT + 5, &at));
	assert_false(insn_before(code, sizeof(code), AT, AT, &at));
	assert_false(insn_before(code, sizeof(code), AT, AT + 8, &at));
}

static void data_in_the_way_ends_the_search(void **state)
{
	const uint8_t code[] = { 0x90, 0x06, 0x90, 0x90 };
	uint64_t at;

	assert_false(insn_before(code, sizeof(code), AT, AT + 4, &at));
	assert_true(insn_before(code, sizeof(code), AT, AT + 1, &at));
}

/* mov ss, eax; mov [rbx], eax: the trap of either comes after the second (Intel SDM vol. 3, 6.8.3). */
static void behind_a_load_of_ss_nothing_is_certain(void **state)
{
	const uint8_t code[] = { 0x8e, 0xd0, 0x89, 0x03, 0x89, 0x03 };
	uint64_t at;

	assert_true(insn_before(code, sizeof(code), AT, AT + 2, &at));
	assert_false(insn_before(code, sizeof(code), AT, AT + 4, &at));
	assert_true(insn_before(code, sizeof(code), AT, AT + 6, &at));
}

static unsigned long decoded;

/* In place of the library's, for this whole program: counts. */
ZyanStatus ZydisDecoderDecodeInstruction(const ZydisDecoder *decoder, ZydisDecoderContext *context,
					 const void *buffer, ZyanUSize length,
					 ZydisDecodedInstruction *instruction)
{
	static ZyanStatus (*decode_it)(const ZydisDecoder *, ZydisDecoderContext *, const void *, ZyanUSize,
				       ZydisDecodedInstruction *);

	if (!decode_it)
		*(void **)&decode_it = dlsym(RTLD_NEXT, "ZydisDecoderDecodeInstruction");
	decoded++;
	return decode_it(decoder, context, buffer, length, instruction);
}

/* A first sight of an address in a large function must not stall the recording: each instruction is decoded once. */
static void a_large_function_takes_milliseconds_at_most(void **state)
{
	static uint8_t code[51200];
	uint64_t at;

	/* mov rax, [rsp + 8], over and over */
	for (size_t k = 0; k < sizeof(code); k++)
		code[k] = (uint8_t) "\x48\x8b\x44\x24\x08"[k % 5];
	decoded = 0;
	assert_true(insn_before(code, sizeof(code), AT, AT + sizeof(code), &at));
	assert_int_equal(decoded, sizeof(code) / 5);
}

static void assert_text(const uint8_t *bytes, size_t len, const char *expected)
{
	char text[96];

	insn_text(INSN_INTEL, bytes, len, AT, text, sizeof(text));
	assert_string_equal(text, expected);
}

#define ASSERT_TEXT(expected, ...) \
	assert_text(((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ }), expected)

static void text_is_intel_syntax_with_sizes(void **state)
{
	ASSERT_TEXT("mov dword ptr [rip+0x2ee4], eax", 0x89, 0x05, 0xe4, 0x2e, 0x00, 0x00);
	ASSERT_TEXT("lock cmpxchg qword ptr [rbx], rcx", 0xf0, 0x48, 0x0f, 0xb1, 0x0b);
	ASSERT_TEXT("mov eax, dword ptr [rbx+rcx*8-0x10]", 0x8b, 0x44, 0xcb, 0xf0);
	ASSERT_TEXT("mov eax, dword ptr fs:[0x28]", 0x64, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0);
	ASSERT_TEXT("call 0x401015", 0xe8, 0x10, 0x00, 0x00, 0x00);
	ASSERT_TEXT("mov byte ptr [rbx], 0xfe", 0xc6, 0x03, 0xfe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_are_the_manuals),
		cmocka_unit_test(naming_is_not_accessing),
		cmocka_unit_test(stack_operands_are_where_the_stack_moves),
		cmocka_unit_test(small_frames_are_small),
		cmocka_unit_test(saving_the_state_reads_one_word),
		cmocka_unit_test(what_may_read_half_is_not_certain),
		cmocka_unit_test(calls_and_jumps_say_where_they_go),
		cmocka_unit_test(string_instructions_have_both_ends),
		cmocka_unit_test(system_calls_are_kept_apart),
		cmocka_unit_test(plain_moves_carry_their_value),
		cmocka_unit_test(other_moves_do_not),
		cmocka_unit_test(addresses_follow_the_addressing_mode),
		cmocka_unit_test(unknown_parts_make_no_address),
		cmocka_unit_test(overwritten_registers_come_back_where_they_can),
		cmocka_unit_test(what_does_not_decode_is_refused),
		cmocka_unit_test(the_instruction_before_is_found_from_the_start),
		cmocka_unit_test(data_in_the_way_ends_the_search),
		cmocka_unit_test(exchanges_tell_what_they_found),
		cmocka_unit_test(behind_a_load_of_ss_nothing_is_certain),
		cmocka_unit_test(a_large_function_takes_milliseconds_at_most),
		cmocka_unit_test(text_is_intel_syntax_with_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
