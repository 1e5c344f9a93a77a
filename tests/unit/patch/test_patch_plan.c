/* The planner on hand-made code: what patterns fit, where jump tables lead, which tactic is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/patch/plan/code_map.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/plan/near_name.h"
#include "watchctl/patch/plan/patch_landings.h"
#include "watchctl/patch/plan/patch_tactic.h"
#include "watchctl/patch/plan/pattern.h"

#define BASE 0x1000u
#define CODE(...) ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ })

/* Patterns */

static bool fits_code(const char *text, const uint8_t *code, size_t len)
{
	struct insn_brief first;
	struct pattern p;
	bool ret;

	assert_null(pattern_parse(text, &p));
	assert_true(insn_scan(code, len, BASE, &first));
	ret = pattern_match(&p, NULL, code, len, BASE, &first) == PATTERN_FITS;
	pattern_deinit(&p);
	return ret;
}

static void a_mnemonic_alone_fits_any_operands(void **state)
{
	assert_true(fits_code("syscall", CODE(0x0f, 0x05)));
	assert_true(fits_code("mov", CODE(0x48, 0x89, 0xc3)));
	assert_true(fits_code("cmov*", CODE(0x0f, 0x44, 0xc1)));
	assert_false(fits_code("syscall", CODE(0x0f, 0x34)));
}

static void both_names_of_a_condition_fit(void **state)
{
	assert_true(fits_code("je *", CODE(0x74, 0x10)));
	assert_true(fits_code("jz *", CODE(0x74, 0x10)));
	assert_true(fits_code("jnae *", CODE(0x72, 0x10)));
	assert_false(fits_code("jne *", CODE(0x74, 0x10)));
}

static void a_prefix_is_wanted_where_it_is_named(void **state)
{
	assert_true(fits_code("lock cmpxchg *, *", CODE(0xf0, 0x0f, 0xb1, 0x37)));
	assert_false(fits_code("lock cmpxchg *, *", CODE(0x0f, 0xb1, 0x37)));
	assert_true(fits_code("cmpxchg *, *", CODE(0xf0, 0x0f, 0xb1, 0x37)));
	assert_true(fits_code("rep movsb", CODE(0xf3, 0xa4)));
	assert_false(fits_code("rep movsb", CODE(0xa4)));
}

static void operands_are_told_apart(void **state)
{
	/* mov rax, qword ptr [rdi + 8] */
	assert_true(fits_code("mov rax, [rdi+8]", CODE(0x48, 0x8b, 0x47, 0x08)));
	assert_true(fits_code("mov reg64, qword ptr [rdi+*]", CODE(0x48, 0x8b, 0x47, 0x08)));
	assert_true(fits_code("mov *, mem", CODE(0x48, 0x8b, 0x47, 0x08)));
	assert_false(fits_code("mov rax, [rdi]", CODE(0x48, 0x8b, 0x47, 0x08)));
	assert_false(fits_code("mov reg32, *", CODE(0x48, 0x8b, 0x47, 0x08)));
	assert_false(fits_code("mov *, dword ptr mem", CODE(0x48, 0x8b, 0x47, 0x08)));
	/* add eax, 5; lea rax, [rbx + rcx*4 - 0x10]; movaps xmm1, xmm2 */
	assert_true(fits_code("add eax, imm", CODE(0x83, 0xc0, 0x05)));
	assert_true(fits_code("add eax, 5", CODE(0x83, 0xc0, 0x05)));
	assert_false(fits_code("add eax, 6", CODE(0x83, 0xc0, 0x05)));
	assert_true(fits_code("lea *, [rbx+rcx*4-0x10]", CODE(0x48, 0x8d, 0x44, 0x8b, 0xf0)));
	assert_false(fits_code("lea *, [rbx+rcx*8-0x10]", CODE(0x48, 0x8d, 0x44, 0x8b, 0xf0)));
	assert_true(fits_code("movaps xmm, vec", CODE(0x0f, 0x28, 0xca)));
	assert_false(fits_code("add *", CODE(0x83, 0xc0, 0x05)));
}

static void accesses_are_those_of_the_manual(void **state)
{
	/* mov dword ptr [rip + 0x10], eax; mov eax, ebx; xor eax, eax */
	assert_true(fits_code("writes [rip+*]", CODE(0x89, 0x05, 0x10, 0, 0, 0)));
	assert_false(fits_code("reads [rip+*]", CODE(0x89, 0x05, 0x10, 0, 0, 0)));
	assert_true(fits_code("reads rax", CODE(0x89, 0x05, 0x10, 0, 0, 0)));
	assert_true(fits_code("writes rax", CODE(0x89, 0xd8)));
	assert_false(fits_code("reads rax", CODE(0x31, 0xc0)));
	/* addsd xmm2, xmm1; movapd xmm2, xmm1; movsd qword ptr [rax], xmm3; vaddpd ymm9, ymm1, [rax] */
	assert_true(fits_code("reads xmm2", CODE(0xf2, 0x0f, 0x58, 0xd1)));
	assert_true(fits_code("writes zmm2", CODE(0xf2, 0x0f, 0x58, 0xd1)));
	assert_true(fits_code("reads ymm1", CODE(0xf2, 0x0f, 0x58, 0xd1)));
	assert_false(fits_code("writes xmm1", CODE(0xf2, 0x0f, 0x58, 0xd1)));
	assert_false(fits_code("reads xmm2", CODE(0x66, 0x0f, 0x28, 0xd1)));
	assert_true(fits_code("writes xmm2", CODE(0x66, 0x0f, 0x28, 0xd1)));
	assert_true(fits_code("reads xmm3", CODE(0xf2, 0x0f, 0x11, 0x18)));
	assert_false(fits_code("writes xmm3", CODE(0xf2, 0x0f, 0x11, 0x18)));
	assert_true(fits_code("writes xmm9", CODE(0xc5, 0x75, 0x58, 0x08)));
	assert_false(fits_code("reads xmm9", CODE(0xc5, 0x75, 0x58, 0x08)));
	assert_true(fits_code("@store", CODE(0x89, 0x05, 0x10, 0, 0, 0)));
	assert_false(fits_code("@store", CODE(0x55)));
}

static void sequences_are_in_a_row(void **state)
{
	assert_true(fits_code("pop rbp; ret", CODE(0x5d, 0xc3)));
	assert_true(fits_code("*; @ret", CODE(0x5d, 0xc3)));
	assert_false(fits_code("pop rbp; ret", CODE(0x5d, 0x90, 0xc3)));
	assert_false(fits_code("pop rbp; ret", CODE(0x5d)));
}

static void bytes_have_a_mask(void **state)
{
	assert_true(fits_code("bytes 0f 05", CODE(0x0f, 0x05)));
	assert_true(fits_code("bytes ?f0?", CODE(0x0f, 0x05)));
	assert_false(fits_code("bytes 0f 06", CODE(0x0f, 0x05)));
}

/* The pattern knows no module: the same one is bound to several. */
static void a_name_stands_for_what_it_is_bound_to(void **state)
{
	static const uint8_t call[] = { 0xe8, 0x0b, 0, 0, 0 }; /* to BASE + 0x10 */
	uint64_t here[] = { BASE, BASE + 0x10 }, elsewhere[] = { BASE + 0x11 };
	struct bound_name name[] = { { .addr = here, .n = 2 }, { .addr = elsewhere, .n = 1 } };
	const struct pattern_binding one = { .name = &name[0], .nnames = 1 };
	const struct pattern_binding other = { .name = &name[1], .nnames = 1 };
	struct insn_brief first;
	struct pattern p;

	assert_null(pattern_parse("call malloc", &p));
	name[0].operand = name[1].operand = &p.element[0].operand[0];
	assert_true(insn_scan(call, sizeof(call), BASE, &first));
	assert_int_equal(pattern_match(&p, &one, call, sizeof(call), BASE, &first), PATTERN_FITS);
	assert_int_equal(pattern_match(&p, &other, call, sizeof(call), BASE, &first), PATTERN_NO);
	assert_int_equal(pattern_match(&p, NULL, call, sizeof(call), BASE, &first), PATTERN_NO);
	pattern_deinit(&p);
}

static void places_are_recognised(void **state)
{
	static const struct {
		const char *text;
		enum pattern_kind kind;
	} places[] = { { "entry ns::f(int)", PATTERN_ENTRY },
		       { "exit *", PATTERN_EXIT },
		       { "a.c:12", PATTERN_LINE },
		       { "malloc+0x1c", PATTERN_OFFSET },
		       { "0x1234", PATTERN_ADDRESS } };

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct pattern p;

		assert_null(pattern_parse(places[i].text, &p));
		assert_int_equal(p.kind, places[i].kind);
		pattern_deinit(&p);
	}
}

static void errors_point_at_the_place(void **state)
{
	struct pattern p;
	struct wc_error *err = pattern_parse("mov rax, foo", &p);

	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_non_null(strstr(err->text, "at column 10 of the pattern:\n  mov rax, foo\n           ^"));
	wc_error_free(err);
	err = pattern_parse("writes k1", &p);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_non_null(strstr(err->text, "at column 8 of the pattern:"));
	wc_error_free(err);
	err = pattern_parse("sycsall", &p);
	assert_int_equal(err->kind, WC_ENAME);
	assert_non_null(strstr(err->text, "did you mean syscall?"));
	wc_error_free(err);
}

static void near_names_are_sorted_and_few(void **state)
{
	struct near_names near = { .query = "malloc" };
	char text[100];

	near_names_offer(&near, "calloc");
	near_names_offer(&near, "mallloc");
	near_names_offer(&near, "something");
	near_names_text(&near, text, sizeof(text));
	assert_string_equal(text, "; did you mean calloc or mallloc?");
}

/* Tactics */

/* One function at BASE, of all of the code but @padding bytes at its end. */
static void make_map(struct code_map *m, const uint8_t *code, size_t len, size_t padding)
{
	*m = (struct code_map){ .start = BASE, .end = BASE + 0x10000 };
	code_map_add_part(m, BASE, code, len, false);
	code_map_add_function(m, BASE, BASE + len - padding, "f");
	assert_true(code_map_scan(m));
}

static struct tactic_choice choose(struct code_map *m, uint64_t offset)
{
	const uint64_t addr = BASE + offset;
	const struct tactic_sites only = { &addr, 1 };
	struct tactic_choice ret;

	tactic_choose(m, addr, &only, NULL, &ret);
	return ret;
}

/* The choice for the only site, at @offset. */
static struct tactic_choice choose_in(size_t padding, uint64_t offset, const uint8_t *code, size_t len)
{
	struct tactic_choice ret;
	struct code_map m;

	make_map(&m, code, len, padding);
	ret = choose(&m, offset);
	code_map_deinit(&m);
	return ret;
}

static void a_long_instruction_moves_alone(void **state)
{
	struct tactic_choice c = choose_in(0, 0, CODE(0xb8, 1, 0, 0, 0, 0xc3));

	assert_int_equal(c.tactic, TACTIC_JUMP);
	assert_int_equal(c.why, WHY_WHOLE);
	assert_int_equal(c.moved, 5);
}

static void short_instructions_move_together(void **state)
{
	/* push rbp; mov rbp, rsp; push rbx; ret */
	struct tactic_choice c = choose_in(0, 0, CODE(0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3));

	assert_int_equal(c.tactic, TACTIC_JUMP);
	assert_int_equal(c.nmoved, 3);
	assert_int_equal(c.start, BASE);
}

static void the_ones_before_move_too(void **state)
{
	/* mov eax, 1; ret */
	struct tactic_choice c = choose_in(0, 5, CODE(0xb8, 1, 0, 0, 0, 0xc3));

	assert_int_equal(c.tactic, TACTIC_JUMP);
	assert_int_equal(c.start, BASE);
	assert_int_equal(c.moved, 6);
}

static void a_jump_target_inside_forbids_to_move(void **state)
{
	/* push rbp; 1: mov rbp, rsp; push rbx; jmp 1b: the byte behind has to stay */
	struct tactic_choice c = choose_in(0, 0, CODE(0x55, 0x48, 0x89, 0xe5, 0x53, 0xeb, 0xfa));

	assert_int_not_equal(c.tactic, TACTIC_JUMP);
}

static void the_last_bytes_may_be_padding(void **state)
{
	/* xor eax, eax; ret; nop; nop */
	struct tactic_choice c = choose_in(2, 0, CODE(0x31, 0xc0, 0xc3, 0x90, 0x90));

	assert_int_equal(c.tactic, TACTIC_PADDING);
	assert_int_equal(c.why, WHY_TAIL);
	assert_int_equal(c.len, 5);
	assert_int_equal(c.moved, 3);
}

static void a_short_jump_leads_to_padding(void **state)
{
	/* 1: xor eax, eax; jmp 1b; and ten bytes of padding behind a jump, of which the tail is not enough: 2: ret; jne 2b */
	static const uint8_t code[] = { 0x31, 0xc0, 0xc3, 0x75, 0xfd, 0xc3, 0x66, 0x0f,
					0x1f, 0x84, 0,	  0,	0,    0,    0 };
	struct tactic_choice c = choose_in(9, 0, code, sizeof(code));

	assert_int_equal(c.tactic, TACTIC_PADDING);
	assert_int_equal(c.why, WHY_SHORT);
	assert_int_equal(c.via, BASE + 6);
	assert_int_equal(tactic_cost(&c), COST_TWO_JUMPS);
}

/* As the one above, but that the function's last instruction, in front of the padding, is another one than ret. */
#define SHORT_BEFORE(...) \
	CODE(0x31, 0xc0, 0xc3, 0x75, 0xfd, __VA_ARGS__, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0)

/* glibc's __memcpy_chk ends so: what aligns memcpy behind it is executed. */
static void what_a_function_falls_through_to_is_no_padding(void **state)
{
	/* clc; call rax */
	struct tactic_choice fallen = choose_in(9, 0, SHORT_BEFORE(0xf8));
	struct tactic_choice returned = choose_in(9, 0, SHORT_BEFORE(0xff, 0xd0));

	assert_int_equal(choose_in(9, 0, SHORT_BEFORE(0xc3)).why, WHY_SHORT);
	assert_int_not_equal(fallen.tactic, TACTIC_PADDING);
	assert_int_not_equal(returned.tactic, TACTIC_PADDING);
}

static void nops_give_way(void **state)
{
	struct tactic_choice c = choose_in(0, 0, CODE(0x0f, 0x1f, 0x44, 0, 0, 0xc3));

	assert_int_equal(c.tactic, TACTIC_NOP);
}

static void a_pun_keeps_the_bytes_behind(void **state)
{
	/* mov rbp, rsp; 1: mov eax, ebx; jmp 1b: e9, two bytes of one's own, 89 d8 */
	struct tactic_choice c = choose_in(0, 0, CODE(0x48, 0x89, 0xe5, 0x89, 0xd8, 0xeb, 0xfc));

	assert_int_equal(c.tactic, TACTIC_PUN);
	assert_int_equal(c.len, 3);
	assert_true(c.pun_low == BASE + 5 + 0xffffffffd8890000u);
	assert_true(c.pun_high == c.pun_low + 0xffff);
}

/* 1: inc eax; inc eax; 2: dec ecx; jns 1b; je 2b: four bytes between two targets */
#define PUN_OF_TWO CODE(0xff, 0xc0, 0xff, 0xc0, 0xff, 0xc9, 0x79, 0xf8, 0x74, 0xfa)

static void a_punned_jump_takes_all_that_can_move(void **state)
{
	struct tactic_choice first = choose_in(0, 0, PUN_OF_TWO), second = choose_in(0, 2, PUN_OF_TWO);

	assert_int_equal(first.tactic, TACTIC_PUN);
	assert_int_equal(first.nmoved, 2);
	assert_int_equal(first.len, 4);
	assert_true(first.pun_low == BASE + 5 + 0xffffffffff000000u);
	assert_true(first.pun_high == first.pun_low + 0xffffff);
	assert_int_equal(second.tactic, TACTIC_PUN);
	assert_int_equal(second.start, BASE);
	assert_int_equal(second.pun_low, first.pun_low);
}

static void two_sites_choose(uint64_t one, uint64_t two, struct tactic_choice ret[2])
{
	const uint64_t at[] = { BASE + one, BASE + two };
	const struct tactic_sites both = { at, 2 };
	struct code_map m;

	make_map(&m, PUN_OF_TWO, 0);
	tactic_choose(&m, at[0], &both, NULL, &ret[0]);
	tactic_choose(&m, at[1], &both, &ret[0], &ret[1]);
	code_map_deinit(&m);
}

static void sites_share_a_punned_jump(void **state)
{
	struct tactic_choice c[2];

	two_sites_choose(0, 2, c);
	assert_int_equal(c[0].tactic, TACTIC_PUN);
	assert_int_equal(c[1].tactic, TACTIC_PUN);
	assert_int_equal(c[1].why, WHY_SHARED);
}

/* What would be written there would be another displacement. */
static void no_site_may_be_in_the_bytes_behind_a_pun(void **state)
{
	struct tactic_choice c[2];

	two_sites_choose(0, 4, c);
	assert_int_equal(c[0].tactic, TACTIC_TRAP);
	two_sites_choose(2, 4, c);
	assert_int_equal(c[0].tactic, TACTIC_TRAP);
}

/* A later site's patch does not take them either: of jns alone, the instructions in front of it would move too. */
static void the_bytes_behind_a_pun_are_taken(void **state)
{
	struct tactic_choice c[2];

	two_sites_choose(0, 6, c);
	assert_int_equal(c[0].tactic, TACTIC_PUN);
	assert_true(c[1].start >= BASE + 5);
}

static void a_pun_goes_where_something_is_free(void **state)
{
	const uint64_t far = 0x7f0000000000u;
	struct free_span span = { far + BASE - 0x1000, far + BASE };
	const struct free_space room = { .v = &span, .n = 1 };
	struct tactic_choice c;
	struct code_map m;

	make_map(&m, PUN_OF_TWO, 0);
	m.bias = far;
	m.room = &room;
	c = choose(&m, 0);
	assert_int_equal(c.tactic, TACTIC_PUN);
	code_map_deinit(&m);
	span = (struct free_span){ far + BASE + 0x1000, far + BASE + 0x2000 };
	make_map(&m, PUN_OF_TWO, 0);
	m.bias = far;
	m.room = &room;
	c = choose(&m, 0);
	assert_int_equal(c.tactic, TACTIC_TRAP);
	code_map_deinit(&m);
}

static void a_pun_below_a_fixed_program_is_no_tactic(void **state)
{
	struct tactic_choice c;
	struct code_map m;

	make_map(&m, CODE(0x48, 0x89, 0xe5, 0x89, 0xd8, 0xeb, 0xfc), 0);
	m.is_fixed = true;
	c = choose(&m, 0);
	/* A prefix before the jump makes the highest byte eb: also below. */
	assert_int_equal(c.tactic, TACTIC_TRAP);
	assert_int_equal(c.why, WHY_TARGET);
	assert_int_equal(c.len, 1);
	code_map_deinit(&m);
}

static void a_call_of_the_next_instruction_stays(void **state)
{
	struct tactic_choice c = choose_in(0, 0, CODE(0xe8, 0, 0, 0, 0, 0x58, 0xc3));

	assert_int_equal(c.tactic, TACTIC_TRAP);
}

/* Keeps in place where it returns to: a jmp_buf or a suspended coroutine may hold its address, where nobody can look for it. */
static void what_follows_a_call_moves_in_front_only(void **state)
{
	/* call rax; xor eax, eax; xor edx, edx; xor ecx, ecx; ret */
	static const uint8_t code[] = { 0xff, 0xd0, 0x31, 0xc0, 0x31, 0xd2, 0x31, 0xc9, 0xc3 };
	struct tactic_choice call = choose_in(0, 0, code, sizeof(code));
	struct tactic_choice next = choose_in(0, 2, code, sizeof(code));
	struct tactic_choice third = choose_in(0, 6, code, sizeof(code));

	assert_true(call.start == BASE && call.len <= 2 && call.moved <= 2);
	assert_int_equal(next.tactic, TACTIC_JUMP);
	assert_int_equal(next.start, BASE + 2);
	assert_true(third.start >= BASE + 2);
}

/* It does not return, so that what is behind it may be padding; but it pushes the address of that. */
static void padding_behind_a_call_is_none(void **state)
{
	/* call rax; and then: nop; nop; nop */
	struct tactic_choice c = choose_in(3, 0, CODE(0xff, 0xd0, 0x90, 0x90, 0x90));

	assert_int_not_equal(c.tactic, TACTIC_PADDING);
	assert_true(c.len <= 2);
}

static void what_is_read_is_refused(void **state)
{
	/* mov eax, [rip - 6]: itself */
	struct tactic_choice c = choose_in(0, 0, CODE(0x8b, 0x05, 0xfa, 0xff, 0xff, 0xff, 0xc3));

	assert_int_equal(c.tactic, TACTIC_REFUSED);
	assert_int_equal(c.why, WHY_READ);
}

static void what_belongs_to_no_function_is_refused(void **state)
{
	struct tactic_choice c = choose_in(5, 1, CODE(0xc3, 0xb8, 1, 0, 0, 0));

	assert_int_equal(c.tactic, TACTIC_REFUSED);
	assert_int_equal(c.why, WHY_UNKNOWN_CODE);
}

static void a_lock_that_is_jumped_over_gets_a_trap(void **state)
{
	/* je 1f; lock; 1: cmpxchg [rdi], esi; ret */
	struct tactic_choice c = choose_in(0, 2, CODE(0x74, 0x01, 0xf0, 0x0f, 0xb1, 0x37, 0xc3));

	assert_int_equal(c.tactic, TACTIC_TRAP);
	assert_int_equal(c.why, WHY_MIDDLE);
}

static void two_sites_share_a_jump(void **state)
{
	const uint64_t at[] = { BASE, BASE + 1 };
	const struct tactic_sites both = { at, 2 };
	struct tactic_choice a, b;
	struct code_map m;

	make_map(&m, CODE(0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3), 0);
	tactic_choose(&m, BASE, &both, NULL, &a);
	tactic_choose(&m, BASE + 1, &both, &a, &b);
	assert_int_equal(b.why, WHY_SHARED);
	assert_int_equal(b.start, BASE);
	code_map_deinit(&m);
}

/* Where a call returns to shortly before the end: alone, the return would have no room. */
static void a_short_end_moves_with_the_site_before_it(void **state)
{
	const uint64_t at[] = { BASE, BASE + 8 };
	const struct tactic_sites both = { at, 2 };
	struct tactic_choice a, b;
	struct code_map m;

	/* add rsp, 8; mov eax, ebx; pop rbx; pop rbp; ret */
	make_map(&m, CODE(0x48, 0x83, 0xc4, 0x08, 0x89, 0xd8, 0x5b, 0x5d, 0xc3), 0);
	tactic_choose(&m, at[0], &both, NULL, &a);
	tactic_choose(&m, at[1], &both, &a, &b);
	assert_int_equal(a.tactic, TACTIC_JUMP);
	assert_int_equal(a.moved, 9);
	assert_int_equal(b.why, WHY_SHARED);
	code_map_deinit(&m);
}

/* Landings */

#define LANDINGS_MOST 4u

struct found_landings {
	uint64_t at[LANDINGS_MOST];
	size_t n;
};

static void find_landing(void *ctx, uint64_t addr)
{
	struct found_landings *f = ctx;

	assert_true(f->n < LANDINGS_MOST);
	f->at[f->n++] = addr;
}

/* A caller at BASE whose first call is of BASE + 0x20, its second by a pointer, and that function. */
static void check_landings(const uint8_t *callee, size_t len, bool direct)
{
	static const uint8_t caller[] = { 0xe8, 0x1b, 0,    0, 0, /* call BASE + 0x20 */
					  0x90, 0xff, 0xd0,	  /* nop; call rax */
					  0x90, 0xc3 };
	uint8_t code[0x40];
	struct found_landings found = { 0 };
	struct code_map m = { .start = BASE, .end = BASE + 0x10000 };

	memset(code, 0xcc, sizeof(code));
	memcpy(code, caller, sizeof(caller));
	memcpy(code + 0x20, callee, len);
	code_map_add_part(&m, BASE, code, sizeof(code), false);
	code_map_add_function(&m, BASE, BASE + sizeof(caller), "caller");
	code_map_add_function(&m, BASE + 0x20, BASE + 0x20 + len, "callee");
	code_map_add_function(&m, BASE + 0x20 + len, BASE + 0x40, "next");
	assert_true(code_map_scan(&m));
	assert_true(patch_landings_find(&m, find_landing, &found));
	assert_int_equal(found.n, direct ? 2 : 1);
	if (direct)
		assert_int_equal(found.at[0], BASE + 5);
	assert_int_equal(found.at[found.n - 1], BASE + 8);
	code_map_deinit(&m);
}

static void calls_land_where_the_end_of_a_function_is_not_seen(void **state)
{
	/* mov eax, 1; ret */
	check_landings(CODE(0xb8, 1, 0, 0, 0, 0xc3), false);
	/* lea eax, [rdi + rdi]; ret */
	check_landings(CODE(0x8d, 0x04, 0x3f, 0xc3), true);
	/* mov eax, 1; jmp far outside */
	check_landings(CODE(0xb8, 1, 0, 0, 0, 0xe9, 0, 0, 0x10, 0), true);
	/* mov eax, 1; jmp rax */
	check_landings(CODE(0xb8, 1, 0, 0, 0, 0xff, 0xe0), true);
}

static void a_function_whose_symbol_has_no_size_ends_where_its_code_does(void **state)
{
	/* test edi, edi; je 1f; ret; 1: mov eax, 1; ret; nops */
	static const uint8_t code[] = {
		0x85, 0xff, 0x74, 0x01, 0xc3, 0xb8, 1, 0, 0, 0, 0xc3, 0x90, 0x90, 0x90
	};
	struct code_map m = { .start = BASE, .end = BASE + 0x10000 };

	code_map_add_part(&m, BASE, code, sizeof(code), false);
	code_map_add_function(&m, BASE, BASE, "unsized");
	assert_true(code_map_scan(&m));
	assert_int_equal(m.nfunctions, 1);
	assert_int_equal(m.function[0].end, BASE + 11);
	code_map_deinit(&m);
}

#define ENDBR64 0xf3, 0x0f, 0x1e, 0xfa

static void the_patch_of_an_endbr64_is_behind_it(void **state)
{
	/* endbr64; mov eax, 1; ret */
	struct tactic_choice c = choose_in(0, 0, CODE(ENDBR64, 0xb8, 1, 0, 0, 0, 0xc3));

	assert_int_equal(c.tactic, TACTIC_JUMP);
	assert_int_equal(c.why, WHY_BEHIND_ENDBR);
	assert_int_equal(c.start, BASE + 4);
	assert_int_equal(c.moved, 5);
}

static void an_endbr64_shares_the_patch_of_what_is_behind_it(void **state)
{
	const uint64_t at[] = { BASE, BASE + 4, BASE + 5 };
	const struct tactic_sites all = { at, 3 };
	struct tactic_choice c[3];
	struct code_map m;

	/* endbr64; push rbp; mov rbp, rsp; push rbx; ret */
	make_map(&m, CODE(ENDBR64, 0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3), 0);
	for (size_t i = 0; i < 3; i++)
		tactic_choose(&m, at[i], &all, i ? &c[i - 1] : NULL, &c[i]);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(c[i].tactic, TACTIC_JUMP);
		assert_int_equal(c[i].start, BASE + 4);
	}
	assert_int_equal(c[1].why, WHY_SHARED);
	assert_int_equal(c[2].why, WHY_SHARED);
	code_map_deinit(&m);
}

/* What is behind it is then reached without it. */
static void an_endbr64_that_is_jumped_behind_gets_a_trap(void **state)
{
	/* endbr64; 1: dec ecx; mov eax, 1; jns 1b; ret */
	struct tactic_choice c =
		choose_in(0, 0, CODE(ENDBR64, 0xff, 0xc9, 0xb8, 1, 0, 0, 0, 0x79, 0xf7, 0xc3));

	assert_int_equal(c.tactic, TACTIC_TRAP);
	assert_int_equal(c.why, WHY_ENDBR);
}

static void an_endbr64_at_the_end_of_a_function_gets_a_trap(void **state)
{
	struct tactic_choice c = choose_in(6, 0, CODE(ENDBR64, 0xb8, 1, 0, 0, 0, 0xc3));

	assert_int_equal(c.tactic, TACTIC_TRAP);
	assert_int_equal(c.why, WHY_ENDBR);
}

/* Jump tables */

#define TABLE 0x2000u

static int32_t table[3];

static const uint8_t *table_bytes(void *ctx, uint64_t vaddr, size_t *len)
{
	if (vaddr - TABLE >= sizeof(table))
		return NULL;
	*len = sizeof(table) - (vaddr - TABLE);
	return (const uint8_t *)table + (vaddr - TABLE);
}

static const uint8_t switch_code[] = {
	0x48, 0x8d, 0x1d, 0xf9, 0x0f, 0, 0, /* lea rbx, [rip + 0xff9]: TABLE */
	0x48, 0x63, 0x04, 0x83,		    /* movsxd rax, [rbx + rax*4] */
	0x48, 0x01, 0xd8,		    /* add rax, rbx */
	0xff, 0xe0,			    /* jmp rax */
	0x55, 0x55, 0xc3,		    /* 16: 17: 18: */
};

static void relative_tables_mark_their_cases(void **state)
{
	const struct code_data data = { table_bytes, NULL };
	struct code_map m;

	make_map(&m, switch_code, sizeof(switch_code), 0);
	for (int i = 0; i < 3; i++)
		table[i] = (int32_t)(BASE + 16 + (unsigned int)i) - (int32_t)TABLE;
	code_map_read_tables(&m, &data);
	assert_int_equal(m.ntables, 1);
	assert_int_equal(m.nunresolved, 0);
	for (int i = 0; i < 3; i++)
		assert_true(code_map_marks(&m, BASE + 16 + (unsigned int)i) & MARK_TAKEN);
	code_map_deinit(&m);
}

static void a_computed_jump_without_a_table_is_unresolved(void **state)
{
	const struct code_data data = { table_bytes, NULL };
	struct tactic_choice c;
	struct code_map m;

	make_map(&m, switch_code, sizeof(switch_code), 0);
	memset(table, 0x7f, sizeof(table));
	code_map_read_tables(&m, &data);
	assert_int_equal(m.nunresolved, 1);
	/* One long instruction may move still, several may not. */
	c = choose(&m, 0);
	assert_int_equal(c.tactic, TACTIC_JUMP);
	assert_int_equal(c.nmoved, 1);
	c = choose(&m, 7);
	assert_int_not_equal(c.tactic, TACTIC_JUMP);
	code_map_deinit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mnemonic_alone_fits_any_operands),
		cmocka_unit_test(both_names_of_a_condition_fit),
		cmocka_unit_test(a_prefix_is_wanted_where_it_is_named),
		cmocka_unit_test(operands_are_told_apart),
		cmocka_unit_test(accesses_are_those_of_the_manual),
		cmocka_unit_test(sequences_are_in_a_row),
		cmocka_unit_test(bytes_have_a_mask),
		cmocka_unit_test(a_name_stands_for_what_it_is_bound_to),
		cmocka_unit_test(places_are_recognised),
		cmocka_unit_test(errors_point_at_the_place),
		cmocka_unit_test(near_names_are_sorted_and_few),
		cmocka_unit_test(a_long_instruction_moves_alone),
		cmocka_unit_test(short_instructions_move_together),
		cmocka_unit_test(the_ones_before_move_too),
		cmocka_unit_test(a_jump_target_inside_forbids_to_move),
		cmocka_unit_test(the_last_bytes_may_be_padding),
		cmocka_unit_test(a_short_jump_leads_to_padding),
		cmocka_unit_test(what_a_function_falls_through_to_is_no_padding),
		cmocka_unit_test(nops_give_way),
		cmocka_unit_test(a_pun_keeps_the_bytes_behind),
		cmocka_unit_test(a_punned_jump_takes_all_that_can_move),
		cmocka_unit_test(sites_share_a_punned_jump),
		cmocka_unit_test(no_site_may_be_in_the_bytes_behind_a_pun),
		cmocka_unit_test(the_bytes_behind_a_pun_are_taken),
		cmocka_unit_test(a_pun_goes_where_something_is_free),
		cmocka_unit_test(a_pun_below_a_fixed_program_is_no_tactic),
		cmocka_unit_test(a_call_of_the_next_instruction_stays),
		cmocka_unit_test(what_follows_a_call_moves_in_front_only),
		cmocka_unit_test(padding_behind_a_call_is_none),
		cmocka_unit_test(what_is_read_is_refused),
		cmocka_unit_test(what_belongs_to_no_function_is_refused),
		cmocka_unit_test(a_lock_that_is_jumped_over_gets_a_trap),
		cmocka_unit_test(two_sites_share_a_jump),
		cmocka_unit_test(the_patch_of_an_endbr64_is_behind_it),
		cmocka_unit_test(a_short_end_moves_with_the_site_before_it),
		cmocka_unit_test(calls_land_where_the_end_of_a_function_is_not_seen),
		cmocka_unit_test(a_function_whose_symbol_has_no_size_ends_where_its_code_does),
		cmocka_unit_test(an_endbr64_shares_the_patch_of_what_is_behind_it),
		cmocka_unit_test(an_endbr64_that_is_jumped_behind_gets_a_trap),
		cmocka_unit_test(an_endbr64_at_the_end_of_a_function_gets_a_trap),
		cmocka_unit_test(relative_tables_mark_their_cases),
		cmocka_unit_test(a_computed_jump_without_a_table_is_unresolved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
