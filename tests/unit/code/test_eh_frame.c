/*
 * Sections made here, byte by byte, whose rules follow from the format: what no library on this machine has,
 * and what none should have. What is read lies at the end of a page, with nothing behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "watchctl/code/unwind/eh_frame.h"

#define SAME UNWIND_SAME
#define SAVES(...) .save = { __VA_ARGS__ }
#define LEAF_SAVES SAVES(SAME, SAME, SAME, SAME, SAME, SAME, -1)

/*
 * A section made by hand. The bytes end where the page does; the next one cannot be read.
 */
#define FRAMES 0x50000u
#define HDR 0x40000u
#define CODE 0x10000u
#define ROOM 4096u

struct maker {
	uint8_t b[ROOM];
	size_t n;
	size_t length_at, cie;
};

static void put(struct maker *m, uint64_t v, unsigned int size)
{
	memcpy(m->b + m->n, &v, size);
	m->n += size;
}

static void put_bytes(struct maker *m, const void *bytes, size_t n)
{
	memcpy(m->b + m->n, bytes, n);
	m->n += n;
}

static void begin_entry(struct maker *m, bool wide)
{
	if (wide)
		put(m, 0xffffffff, 4);
	m->length_at = m->n;
	put(m, 0, wide ? 8 : 4);
}

static void end_entry(struct maker *m)
{
	uint64_t size = m->n - m->length_at - 4;

	memcpy(m->b + m->length_at, &size, 4);
}

static void end_wide_entry(struct maker *m)
{
	uint64_t size = m->n - m->length_at - 8;

	memcpy(m->b + m->length_at, &size, 8);
}

/* DW_EH_PE_absptr addresses. @augmentation_data with its length first; the CFA is rsp + 8, RA below it. */
static void put_cie(struct maker *m, const char *augmentation, const void *data, size_t len)
{
	m->cie = m->n;
	begin_entry(m, false);
	put(m, 0, 4);
	put(m, 1, 1);
	put_bytes(m, augmentation, strlen(augmentation) + 1);
	put(m, 1, 1);	 /* code alignment */
	put(m, 0x78, 1); /* data alignment -8 */
	put(m, 16, 1);
	put_bytes(m, data, len);
	put_bytes(m, "\x0c\x07\x08\x90\x01", 5);
	end_entry(m);
}

static void put_fde(struct maker *m, uint64_t start, uint64_t size, const void *program, size_t len)
{
	begin_entry(m, false);
	put(m, m->n - m->cie, 4);
	put(m, start, 8);
	put(m, size, 8);
	put_bytes(m, program, len);
	end_entry(m);
}

struct made {
	uint8_t *page[2];
	struct eh_image image;
};

/* @bytes, the last of them the last of a page. */
static void place(struct eh_range *range, uint64_t addr, const void *bytes, size_t n, uint8_t **page)
{
	*page = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(*page, MAP_FAILED);
	assert_int_equal(mprotect(*page + ROOM, ROOM, PROT_NONE), 0);
	memcpy(*page + ROOM - n, bytes, n);
	*range = (struct eh_range){ addr, addr + n, *page + ROOM - n };
}

/* With a header that has no table. */
static void make(struct made *to, const struct maker *m)
{
	struct maker hdr = { .n = 0 };

	put_bytes(&hdr, "\x01\x04\xff\xff", 4); /* udata8, absolute; no table */
	put(&hdr, FRAMES, 8);
	place(&to->image.hdr, HDR, hdr.b, hdr.n, &to->page[0]);
	place(&to->image.frames, FRAMES, m->b, m->n, &to->page[1]);
}

static void unmake(struct made *m)
{
	munmap(m->page[0], 2 * ROOM);
	munmap(m->page[1], 2 * ROOM);
}

static struct unwind_rule rule_of(const struct maker *m, uint64_t pc)
{
	struct unwind_rule rule;
	struct made made = { 0 };

	make(&made, m);
	eh_frame_rule(&made.image, pc, &rule);
	unmake(&made);
	return rule;
}

static struct unwind_rule rule_of_program(const void *program, size_t len, uint64_t pc)
{
	struct maker m = { .n = 0 };

	put_cie(&m, "", "", 0);
	put_fde(&m, CODE, 0x100, program, len);
	return rule_of(&m, pc);
}

#define RULE(text, pc) rule_of_program(text, sizeof(text) - 1, pc)

static void assert_rule(struct unwind_rule ours, struct unwind_rule expected)
{
	assert_memory_equal(&ours, &expected, sizeof(ours));
}

static const struct unwind_rule leaf = {
	.kind = UNWIND_CFA_REG, .cfa_reg = WREG_RSP, .cfa_off = 8, LEAF_SAVES
};

static void instructions_make_rows(void **state)
{
	struct unwind_rule r = leaf;

	assert_rule(RULE("", CODE), leaf);
	assert_rule(RULE("", CODE + 0xff), leaf);
	assert_int_equal(RULE("", CODE + 0x100).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("", CODE - 1).kind, UNWIND_NO_RULE);

	/* advance 1; def_cfa_offset 16; advance1 3; offset rbp 2; advance2; def_cfa_register rbp; advance4, 8
	 */
#define ROWS                                                                                       \
	"\x41\x0e\x10\x02\x03\x86\x02\x03\x10\x00\x0d\x06\x04\x10\x00\x00\x00\x0c\x07\x08\xc6\x1d" \
	"\x10\x00\x00\x00\x00\x00\x00\x00\x08\x10"
	assert_rule(RULE(ROWS, CODE), leaf);
	r.cfa_off = 16;
	assert_rule(RULE(ROWS, CODE + 1), r);
	assert_rule(RULE(ROWS, CODE + 3), r);
	r.save[UNWIND_SAVE_RBP] = -2;
	assert_rule(RULE(ROWS, CODE + 4), r);
	r.cfa_reg = WREG_RBP;
	assert_rule(RULE(ROWS, CODE + 0x14), r);
	assert_rule(RULE(ROWS, CODE + 0x23), r);
	assert_rule(RULE(ROWS, CODE + 0x24), leaf);
	/* The return address as the same value: that is none. */
	assert_int_equal(RULE(ROWS, CODE + 0x34).kind, UNWIND_NO_RULE);
	/* set_loc, absolute */
	r = leaf;
	r.cfa_off = 24;
	assert_rule(RULE("\x01\x08\x00\x01\x00\x00\x00\x00\x00\x0e\x18", CODE + 7), leaf);
	assert_rule(RULE("\x01\x08\x00\x01\x00\x00\x00\x00\x00\x0e\x18", CODE + 8), r);
}

static void registers_of_every_form(void **state)
{
	struct unwind_rule r = leaf;

	/* offset_extended r15 4; offset_extended_sf rbx -5 (cfa + 40); negative_offset_extended r12 6 (cfa +
	 * 48) */
	r.save[UNWIND_SAVE_R15] = -4;
	r.save[UNWIND_SAVE_RBX] = 5;
	r.save[UNWIND_SAVE_R12] = 6;
	assert_rule(RULE("\x05\x0f\x04\x11\x03\x7b\x2f\x0c\x06", CODE), r);
	/* Taken back: restore_extended, same_value, undefined. args_size and nop change nothing. */
	assert_rule(
		RULE("\x05\x0f\x04\x11\x03\x7b\x2f\x0c\x06\x06\x0f\x08\x03\x07\x0c\x2e\x80\x01\x00", CODE),
		leaf);
	/* def_cfa_sf rbp -3 (24); def_cfa_offset_sf -4 (32) */
	r = leaf;
	r.cfa_reg = WREG_RBP;
	r.cfa_off = 24;
	assert_rule(RULE("\x12\x06\x7d", CODE), r);
	r.cfa_off = 32;
	assert_rule(RULE("\x12\x06\x7d\x13\x7c", CODE), r);
	/* Other registers, xmm1 and the flags: of no interest. */
	assert_rule(RULE("\x85\x04\x05\x12\x03\x05\x31\x04\x09\x0a\x05\x16\x32\x01\x70\x14\x31\x02", CODE),
		    leaf);
	/* No rule says val_offset, val_expression, register. rsp has a value, and it is the CFA. */
	assert_int_equal(RULE("\x14\x03\x02", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x15\x06\x7e", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x16\x03\x02\x77\x08", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x09\x10\x02", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x87\x02", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x14\x07\x01", CODE).kind, UNWIND_NO_RULE);
	assert_rule(RULE("\x14\x07\x00", CODE), leaf);
	assert_int_equal(RULE("\x07\x10", CODE).kind, UNWIND_OUTERMOST);
	/* A CFA from rip or xmm0, or far away, that nobody has. */
	assert_int_equal(RULE("\x0d\x10", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0d\x11", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0e\x80\x80\x80\x80\x10", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x83\x80\x80\x80\x80\x10", CODE).kind, UNWIND_NO_RULE);
}

static void states_nest(void **state)
{
	struct unwind_rule r = leaf;

	r.cfa_off = 16;
	/* remember; 16; remember; 24; restore: 16; restore: 8 */
	assert_rule(RULE("\x0a\x0e\x10\x0a\x0e\x18\x0b", CODE), r);
	assert_rule(RULE("\x0a\x0e\x10\x0a\x0e\x18\x0b\x0b", CODE), leaf);
	assert_int_equal(RULE("\x0b", CODE).kind, UNWIND_NO_RULE);
	/* Too deep is not understood, it does not go wrong. */
	assert_rule(RULE("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", CODE), leaf);
	assert_int_equal(RULE("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", CODE).kind, UNWIND_NO_RULE);
}

static void expressions_of_the_known_shapes(void **state)
{
	struct unwind_rule r = leaf;

	/* gcc's realigned stack: CFA = *(rbp - 8), rbp at rbp, rbx at rbp - 16 */
	r = (struct unwind_rule){ .kind = UNWIND_CFA_DEREF,
				  .cfa_reg = WREG_RBP,
				  .cfa_off = -8,
				  .from_rbp = 1 << UNWIND_SAVE_RBX | 1 << UNWIND_SAVE_RBP,
				  SAVES(-2, 0, SAME, SAME, SAME, SAME, -1) };
	assert_rule(RULE("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00\x10\x03\x02\x76\x70", CODE), r);
	/* OpenSSL: *(rsp + 152) + 8, bregx as well */
	r = (struct unwind_rule){
		.kind = UNWIND_CFA_DEREF, .cfa_reg = WREG_RSP, .cfa_off = 152, .cfa_off2 = 8, LEAF_SAVES
	};
	assert_rule(RULE("\x0f\x06\x77\x98\x01\x06\x23\x08", CODE), r);
	assert_rule(RULE("\x0f\x07\x92\x07\x98\x01\x06\x23\x08", CODE), r);
	/* and *(rsp + 8 + r9 * 8) + 8; the same with lit4 is no array of words, and no rule */
	r = (struct unwind_rule){ .kind = UNWIND_CFA_DEREF,
				  .cfa_reg = WREG_RSP,
				  .cfa_off = 8,
				  .cfa_off2 = 8,
				  .cfa_index = WREG_R9 + 1,
				  LEAF_SAVES };
	assert_rule(RULE("\x0f\x0a\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08", CODE), r);
	assert_int_equal(RULE("\x0f\x0a\x77\x08\x79\x00\x34\x1e\x22\x06\x23\x08", CODE).kind, UNWIND_NO_RULE);
	r = (struct unwind_rule){ .kind = UNWIND_PLT, .cfa_off = 8, .cfa_off2 = 11, LEAF_SAVES };
	assert_rule(RULE("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", CODE), r);
	/* A plain register; rbx by plus_uconst, at the CFA itself, from the CFA's register. */
	r = leaf;
	r.cfa_off = 32;
	r.save[UNWIND_SAVE_RBX] = -4;
	assert_rule(RULE("\x0f\x02\x77\x20\x10\x03\x02\x77\x00", CODE), r);
	r.save[UNWIND_SAVE_RBX] = 2;
	assert_rule(RULE("\x0e\x20\x10\x03\x02\x23\x10", CODE), r);
	r.save[UNWIND_SAVE_RBX] = 0;
	assert_rule(RULE("\x0e\x20\x10\x03\x00", CODE), r);
	/* A definition by register ends the expression's; an offset alone does not fit it. */
	assert_rule(RULE("\x0f\x03\x76\x78\x06\x0c\x07\x08", CODE), leaf);
	assert_int_equal(RULE("\x0f\x03\x76\x78\x06\x0e\x08", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0f\x03\x76\x78\x06\x0d\x07", CODE).kind, UNWIND_NO_RULE);
	/* Shapes that nobody is known to use. */
	assert_int_equal(RULE("\x0f\x05\x77\x00\x73\x00\x22", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0f\x04\x76\x78\x06\x06", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0f\x00", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x10\x03\x02\x77\x04", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x10\x03\x02\x73\x00", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x30\x2a\x33\x24\x22", CODE).kind,
			 UNWIND_NO_RULE);
}

static void a_signal_frame_is_the_kernels_or_none(void **state)
{
	struct maker m = { .n = 0 };

	put_cie(&m, "zS", "\x00", 1);
	/* augmentation data: none; the return address at rsp + 168 */
	put_fde(&m, CODE, 0x10, "\x00\x10\x10\x03\x77\xa8\x01", 7);
	put_fde(&m, CODE + 0x10, 0x10, "\x00\x10\x10\x03\x77\xb0\x01", 7);
	put_fde(&m, CODE + 0x20, 0x10, "\x00", 1);
	assert_int_equal(rule_of(&m, CODE).kind, UNWIND_SIGFRAME);
	assert_int_equal(rule_of(&m, CODE + 0x10).kind, UNWIND_NO_RULE);
	assert_int_equal(rule_of(&m, CODE + 0x20).kind, UNWIND_NO_RULE);
}

static void augmentations_are_understood_or_refused(void **state)
{
	struct maker m = { .n = 0 };
	uint64_t at;

	/* "zPLR": personality indirect pcrel sdata4, LSDA absptr, addresses pcrel sdata4 */
	put_cie(&m, "zPLR", "\x07\x9b\x11\x22\x33\x44\x00\x1b", 8);
	begin_entry(&m, false);
	put(&m, m.n - m.cie, 4);
	at = CODE - (FRAMES + m.n);
	put(&m, at, 4);
	put(&m, 0x20, 4);
	put_bytes(&m, "\x08\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\x0e\x18", 11);
	end_entry(&m);
	assert_int_equal(rule_of(&m, CODE).cfa_off, 24);
	assert_int_equal(rule_of(&m, CODE + 0x1f).cfa_off, 24);
	assert_int_equal(rule_of(&m, CODE + 0x20).kind, UNWIND_NO_RULE);

	static const char *const strange[] = { "eh", "zX", "zRX", "S", "zzzzzzzzzzzzzzzzzzzz" };

	for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
		m.n = 0;
		put_cie(&m, strange[i], "\x01\x00\x00\x00\x00\x00\x00\x00\x00", 9);
		put_fde(&m, CODE, 0x10, "\x00", 1);
		assert_int_equal(rule_of(&m, CODE).kind, UNWIND_NO_RULE);
	}
	/* Addresses through the GOT, and relative to it: nobody here knows it. */
	m.n = 0;
	put_cie(&m, "zR", "\x01\x80", 2);
	put_fde(&m, CODE, 0x10, "\x00", 1);
	assert_int_equal(rule_of(&m, CODE).kind, UNWIND_NO_RULE);
	m.n = 0;
	put_cie(&m, "zR", "\x01\x30", 2);
	put_fde(&m, CODE, 0x10, "\x00", 1);
	assert_int_equal(rule_of(&m, CODE).kind, UNWIND_NO_RULE);
}

static void lengths_of_64_bits(void **state)
{
	struct maker m = { .n = 0 };

	m.cie = 0;
	begin_entry(&m, true);
	put(&m, 0, 8);
	put_bytes(&m, "\x04\x00\x08\x00\x01\x78\x10\x0c\x07\x08\x90\x01", 12); /* version 4 */
	end_wide_entry(&m);
	begin_entry(&m, true);
	put(&m, m.n - m.cie, 8);
	put(&m, CODE, 8);
	put(&m, 0x10, 8);
	put_bytes(&m, "\x0e\x30", 2);
	end_wide_entry(&m);
	assert_int_equal(rule_of(&m, CODE + 1).cfa_off, 48);
}

static void code_and_data_factors_count(void **state)
{
	struct maker m = { .n = 0 };

	begin_entry(&m, false);
	put(&m, 0, 4);
	put_bytes(&m, "\x03\x00\x04\x08\x10\x0c\x07\x08\x11\x10\x7f", 11); /* factors 4, 8; RA by _sf -1 */
	end_entry(&m);
	put_fde(&m, CODE, 0x100, "\x42\x0e\x10\x11\x03\x7d", 6);
	assert_rule(rule_of(&m, CODE + 7), leaf);
	assert_int_equal(rule_of(&m, CODE + 8).cfa_off, 16);
	assert_int_equal(rule_of(&m, CODE + 8).save[UNWIND_SAVE_RBX], -3);
}

/* 16 functions, found by the table; one of them points out of the section, one into the middle of nowhere. */
static void the_table_finds_the_function(void **state)
{
	struct maker m = { .n = 0 }, hdr = { .n = 0 };
	uint64_t fde[16];
	struct made made = { 0 };

	put_cie(&m, "", "", 0);
	for (unsigned int i = 0; i < 16; i++) {
		uint8_t program[] = { 0x0e, (uint8_t)(8 * i) };

		fde[i] = FRAMES + m.n;
		put_fde(&m, CODE + 0x40 * i, 0x20, program, 2);
	}
	fde[5] = FRAMES + 0x100000;
	fde[7] += 3;
	put_bytes(&hdr, "\x01\x1b\x03\x3b", 4);
	put(&hdr, FRAMES - (HDR + 4), 4);
	put(&hdr, 16, 4);
	for (unsigned int i = 0; i < 16; i++) {
		put(&hdr, CODE + 0x40 * i - HDR, 4);
		put(&hdr, fde[i] - HDR, 4);
	}
	place(&made.image.hdr, HDR, hdr.b, hdr.n, &made.page[0]);
	place(&made.image.frames, FRAMES, m.b, m.n, &made.page[1]);
	for (unsigned int i = 0; i < 16; i++) {
		bool good = i != 5 && i != 7;
		struct unwind_rule r;
		uint64_t start, end;

		eh_frame_rule(&made.image, CODE + 0x40 * i + 0x1f, &r);
		assert_int_equal(r.kind, good ? UNWIND_CFA_REG : UNWIND_NO_RULE);
		assert_int_equal(r.cfa_off, good ? 8 * i : 0);
		eh_frame_rule(&made.image, CODE + 0x40 * i + 0x20, &r);
		assert_int_equal(r.kind, UNWIND_NO_RULE);
		assert_int_equal(eh_frame_function(&made.image, CODE + 0x40 * i, &start, &end), good);
		if (good) {
			assert_int_equal(start, CODE + 0x40 * i);
			assert_int_equal(end, start + 0x20);
		}
	}
	unmake(&made);
}

/* Cut anywhere: a rule that is right, or none. The page behind is not touched, or this would crash. */
static void a_section_that_is_cut_short(void **state)
{
	struct maker m = { .n = 0 }, cut;
	unsigned int none = 0;

	put_cie(&m, "zPLR", "\x07\x9b\x11\x22\x33\x44\x00\x00", 8);
	put_fde(&m, CODE, 0x100, "\x00\x41\x0e\x10\x86\x02\x0a\x0b\x10\x03\x02\x77\x00", 13);
	for (size_t n = 0; n <= m.n; n++) {
		struct unwind_rule r;

		cut = m;
		cut.n = n;
		r = rule_of(&cut, CODE + 8);
		none += r.kind == UNWIND_NO_RULE;
		assert_true(r.kind == UNWIND_NO_RULE || n == m.n);
	}
	assert_int_equal(none, m.n);
	assert_int_equal(rule_of(&m, CODE + 8).cfa_off, 16);
	/* The instructions end in the middle of one. */
	assert_int_equal(RULE("\x0c\x07", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", CODE).kind,
			 UNWIND_NO_RULE);
	assert_int_equal(RULE("\x10\x03\x7f\x77", CODE).kind, UNWIND_NO_RULE);
	assert_int_equal(RULE("\x3c", CODE).kind, UNWIND_NO_RULE);
	/* Not forwards. */
	assert_int_equal(RULE("\x44\x01\x02\x00\x01\x00\x00\x00\x00\x00", CODE + 8).kind, UNWIND_NO_RULE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_make_rows),
		cmocka_unit_test(registers_of_every_form),
		cmocka_unit_test(states_nest),
		cmocka_unit_test(expressions_of_the_known_shapes),
		cmocka_unit_test(a_signal_frame_is_the_kernels_or_none),
		cmocka_unit_test(augmentations_are_understood_or_refused),
		cmocka_unit_test(lengths_of_64_bits),
		cmocka_unit_test(code_and_data_factors_count),
		cmocka_unit_test(the_table_finds_the_function),
		cmocka_unit_test(a_section_that_is_cut_short),
	};

	return cmocka_run_group_tests_name("eh_frame", tests, NULL, NULL);
}
