/*
 * What access_resolve() makes of several explanations, or of half an explanation. Each case is a state that
 * executed code can produce (tests/truth produces most of them); what would be wrong to say is the point.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/access_scene.h"

static void set_value(struct scene *s, uint64_t value)
{
	s->q.has_old = s->q.has_new = true;
	s->q.old_value = s->q.new_value = value;
}

static void assert_verdict(const struct scene *s, enum access_kind kind, uint64_t insn)
{
	struct access_verdict v = resolve(s);

	assert_int_equal(v.kind, kind);
	assert_int_equal(v.insn, insn);
}

/* movsb from the watched bytes to elsewhere: not what a watch of writes saw. */
static void a_watch_of_writes_saw_no_read(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0xa4));
	s->regs.r[WREG_RSI] = 0x7002;
	s->regs.r[WREG_RDI] = 0x8000;
	assert_verdict(s, ACCESS_READ, 0x400fff);
	s->q.armed = ACCESS_READWRITE;
	assert_verdict(s, ACCESS_READ, 0x400fff);
	s->q.armed = ACCESS_WRITE;
	assert_verdict(s, ACCESS_WRITE, 0); /* somebody wrote */
	s->regs.r[WREG_RDI] = 0x7005;
	assert_verdict(s, ACCESS_READWRITE, 0x400fff); /* the read came along */
}

/* mov rax, [rax] cannot be checked; but it is a load. */
static void a_watch_of_writes_saw_no_unchecked_load(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x48, 0x8b, 0x00));
	assert_verdict(s, ACCESS_READ, 0x400ffd);
	s->q.armed = ACCESS_WRITE;
	assert_verdict(s, ACCESS_WRITE, 0);
}

/* jmp [rbx] to a place behind mov [rbx], eax: the pointer is still there, and it is rip. */
static void a_jump_to_behind_a_store_leaves_a_doubt(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x89, 0x03));
	s->regs.r[WREG_RBX] = 0x7000;
	set_value(s, 0x401000);
	assert_verdict(s, ACCESS_UNKNOWN, 0);
	s->q.armed = ACCESS_WRITE; /* no jump is a write */
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
	s->q.armed = 0;
	set_value(s, 0x401001);
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
	/* What both do is known. */
	set_before(&s->pc, BYTES(0x8b, 0x03));
	set_value(s, 0x401000);
	assert_verdict(s, ACCESS_READ, 0);
}

/* The same seen through one byte of the pointer: rip's, by chance or not. Zeros are everywhere. */
static void one_byte_of_rip_leaves_a_doubt_and_a_zero_none(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x89, 0x03));
	s->regs.r[WREG_RBX] = 0x7000;
	s->q.size = 1;
	s->q.addr = 0x7001;
	set_value(s, 0x10);
	assert_verdict(s, ACCESS_UNKNOWN, 0);
	set_value(s, 0x11);
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
	s->q.addr = 0x7003;
	set_value(s, 0);
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
}

/* call [rbx] to the middle of a function, behind a store: the call is there, and leads to rip. */
static void a_call_that_leads_to_rip_beats_the_instruction_before(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x89, 0x03));
	set_before(&s->caller, BYTES(0xff, 0x13));
	s->regs.r[WREG_RBX] = 0x7000;
	set_value(s, 0x401000);
	assert_verdict(s, ACCESS_READ, 0x401ffe);
	assert_true(resolve(s).in_caller);
	/* Its return address watched, the call direct. */
	set_before(&s->caller, BYTES(0xe8, 0x00, 0xf0, 0xff, 0xff));
	s->regs.r[WREG_RSP] = 0x7000;
	set_value(s, 0x402000);
	assert_verdict(s, ACCESS_WRITE, 0x401ffb);
}

/* call [rsp - 8]: the return address came to lie on the target, which can be checked no more. */
static void a_call_may_overwrite_its_own_target(void **state)
{
	struct scene *s = scene();

	set_before(&s->caller, BYTES(0xff, 0x54, 0x24, 0xf8));
	s->regs.r[WREG_RSP] = 0x7000;
	set_value(s, 0x402000);
	assert_verdict(s, ACCESS_READWRITE, 0x401ffc);
	assert_true(resolve(s).confirmed);
}

/* call gs:[rbx]: where that is cannot be computed, but what is watched holds rip. */
static void a_target_behind_gs_is_known_by_its_value(void **state)
{
	struct scene *s = scene();

	set_before(&s->caller, BYTES(0x65, 0xff, 0x13));
	set_value(s, 0x401000);
	assert_verdict(s, ACCESS_READ, 0x401ffd);
}

/* jmp [rbx] to behind "call [rbx]": nothing was pushed. */
static void a_call_to_the_next_instruction_must_have_pushed_its_address(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0xff, 0x13));
	s->regs.r[WREG_RBX] = 0x7000;
	set_value(s, 0x401000);
	assert_verdict(s, ACCESS_READ, 0);
}

/* After syscall, rcx is rip (Intel SDM vol. 2). If it is not, a jump through the watch came here. */
static void a_system_call_leaves_rip_in_rcx(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x0f, 0x05));
	set_value(s, 0x401000);
	s->regs.r[WREG_RCX] = 7;
	assert_verdict(s, ACCESS_READ, 0);
	s->q.size = 4;
	set_value(s, 1);
	s->regs.r[WREG_RCX] = 0x401000;
	assert_verdict(s, ACCESS_UNKNOWN, 0x400ffe);
	assert_true(resolve(s).confirmed);
	s->q.armed = ACCESS_WRITE; /* same value, but written */
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
}

/* rip at vpgatherdd ymm3, [r8 + ymm1 * 4], ymm2: it was interrupted, or has not begun. */
static void an_interrupted_gather_traps_where_it_is(void **state)
{
	struct scene *s = scene();

	set_at(&s->pc, BYTES(0xc4, 0xc2, 0x6d, 0x90, 0x1c, 0x88));
	set_before(&s->pc, BYTES(0x89, 0x03)); /* mov [rbx], eax */
	s->regs.r[WREG_RBX] = 0x8000;
	assert_verdict(s, ACCESS_READ, 0x401000);
	assert_false(resolve(s).confirmed);
	s->regs.r[WREG_RBX] = 0x7000;
	assert_verdict(s, ACCESS_UNKNOWN, 0);
	s->q.armed = ACCESS_WRITE;
	assert_verdict(s, ACCESS_WRITE, 0x400ffe);
}

/* fs: rep movsb: the segment moves the source, and the source alone. */
static void a_segment_moves_the_source_of_a_rep(void **state)
{
	struct scene *s = scene();

	set_at(&s->pc, BYTES(0x64, 0xf3, 0xa4));
	set_before(&s->pc, BYTES(0x90));
	s->regs.r[WREG_RCX] = 3;
	s->regs.r[WREG_RDI] = 0x9000;
	s->regs.r[WREG_RSI] = 0x7003;
	s->regs.r[WREG_FS_BASE] = 0x10000;
	assert_verdict(s, ACCESS_UNKNOWN, 0);
	s->regs.r[WREG_RSI] = 0x7003 - 0x10000;
	assert_verdict(s, ACCESS_READ, 0x401000);
}

/* rep stosq that traps 128 bytes after it wrote the watch, as processors with fast short rep movs do; what is further away did not. */
static void a_rep_that_traps_late_wrote_the_block_behind_it(void **state)
{
	struct scene *s = scene();

	set_at(&s->pc, BYTES(0xf3, 0x48, 0xab));
	set_before(&s->pc, BYTES(0x90));
	s->regs.r[WREG_RCX] = 3;
	s->regs.r[WREG_RDI] = 0x7000 + 128;
	assert_verdict(s, ACCESS_WRITE, 0x401000);
	assert_false(resolve(s).confirmed);
	s->regs.r[WREG_RDI] = 0x7000 + 128 + 8;
	assert_verdict(s, ACCESS_UNKNOWN, 0);
}

/*
 * rep movsb that reads one byte ahead of where it writes: the last step read the first byte behind the watch
 * and wrote the watch's last. Whether that step raised the trap is only known where each one would.
 */
static void steps_that_trap_one_by_one_distinguish_reads_from_writes(void **state)
{
	struct scene *s = scene();

	set_at(&s->pc, BYTES(0xf3, 0xa4));
	set_before(&s->pc, BYTES(0x90));
	s->regs.r[WREG_RCX] = 3;
	s->regs.r[WREG_RDI] = 0x7008;
	s->regs.r[WREG_RSI] = 0x7009;
	assert_verdict(s, ACCESS_UNKNOWN, 0x401000);
	s->q.steps_trap = true;
	assert_verdict(s, ACCESS_WRITE, 0x401000);
	assert_true(resolve(s).has_range);
	assert_int_equal(resolve(s).range_addr, 0x7007);
	assert_int_equal(resolve(s).range_len, 1);
	/* Both in the watch: that step did both. */
	s->regs.r[WREG_RDI] = 0x7004;
	s->regs.r[WREG_RSI] = 0x7005;
	assert_verdict(s, ACCESS_READWRITE, 0x401000);
	assert_false(resolve(s).has_range);
	/* It passed the watch a while ago, and would have trapped then. */
	s->regs.r[WREG_RDI] = 0x7010;
	s->regs.r[WREG_RSI] = 0x9000;
	assert_verdict(s, ACCESS_UNKNOWN, 0);
}

static void the_accessed_bytes_are_reported_where_they_are_certain(void **state)
{
	struct scene *s = scene();
	struct access_verdict v;

	set_before(&s->pc, BYTES(0x48, 0x89, 0x03)); /* mov [rbx], rax */
	s->regs.r[WREG_RBX] = 0x7005;
	v = resolve(s);
	assert_true(v.has_range);
	assert_int_equal(v.range_addr, 0x7005);
	assert_int_equal(v.range_len, 8);
	set_before(&s->pc, BYTES(0xa4)); /* movsb within the watch: two places */
	s->regs.r[WREG_RSI] = 0x7002;
	s->regs.r[WREG_RDI] = 0x7006;
	assert_false(resolve(s).has_range);
	s->regs.r[WREG_RSI] = 0x9000;
	assert_true(resolve(s).has_range);
	set_before(&s->pc,
		   BYTES(0xc4, 0xe2, 0x75, 0x2e, 0x03)); /* vmaskmovps [rbx], ymm1, ymm0: which of them? */
	v = resolve(s);
	assert_int_equal(v.kind, ACCESS_WRITE);
	assert_false(v.has_range);
	set_before(&s->pc, BYTES(0x48, 0x8b, 0x1b)); /* mov rbx, [rbx]: where was that? */
	v = resolve(s);
	assert_int_equal(v.insn, 0x400ffd);
	assert_false(v.has_range);
}

/* xsave [rbx]: the header is read and written, the areas around it are only written. */
static void the_parts_of_a_saved_state_differ(void **state)
{
	struct scene *s = scene();

	set_before(&s->pc, BYTES(0x0f, 0xae, 0x23));
	s->regs.r[WREG_RBX] = 0x7000 - 512;
	assert_verdict(s, ACCESS_READWRITE, 0x400ffd);
	s->regs.r[WREG_RBX] = 0x7000 - 64;
	assert_verdict(s, ACCESS_WRITE, 0x400ffd);
	s->regs.r[WREG_RBX] = 0x7000 - 576;
	assert_verdict(s, ACCESS_WRITE, 0x400ffd);
	assert_false(resolve(s).confirmed);
	s->regs.r[WREG_RBX] = 0x7000 - 416; /* the unused end of the legacy region */
	assert_verdict(s, ACCESS_UNKNOWN, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_of_writes_saw_no_read),
		cmocka_unit_test(a_watch_of_writes_saw_no_unchecked_load),
		cmocka_unit_test(a_jump_to_behind_a_store_leaves_a_doubt),
		cmocka_unit_test(one_byte_of_rip_leaves_a_doubt_and_a_zero_none),
		cmocka_unit_test(a_call_that_leads_to_rip_beats_the_instruction_before),
		cmocka_unit_test(a_call_may_overwrite_its_own_target),
		cmocka_unit_test(a_target_behind_gs_is_known_by_its_value),
		cmocka_unit_test(a_call_to_the_next_instruction_must_have_pushed_its_address),
		cmocka_unit_test(a_system_call_leaves_rip_in_rcx),
		cmocka_unit_test(an_interrupted_gather_traps_where_it_is),
		cmocka_unit_test(a_segment_moves_the_source_of_a_rep),
		cmocka_unit_test(a_rep_that_traps_late_wrote_the_block_behind_it),
		cmocka_unit_test(steps_that_trap_one_by_one_distinguish_reads_from_writes),
		cmocka_unit_test(the_accessed_bytes_are_reported_where_they_are_certain),
		cmocka_unit_test(the_parts_of_a_saved_state_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
