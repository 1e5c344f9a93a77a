/*
 * Compiled probes in our own memory, called as a trampoline calls them: what they record, and that nothing of the program's
 * changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/syscall.h>

#include "tests/unit/patch/probe_scene.h"
#include "watchctl/code/regs.h"
#include "watchctl/patch/probe/probe_cpu.h"

/* rflags */
#define CF 0x1u
#define PF 0x4u
#define AF 0x10u
#define ZF 0x40u
#define SF 0x80u
#define DF 0x400u
#define OF 0x800u
#define AC 0x40000u
#define FLAGS (CF | PF | AF | ZF | SF | DF | OF | AC)
#define ALWAYS 0x202u

static struct caller_regs some_regs(uint64_t flags)
{
	return (struct caller_regs){
		.rax = 0xa0a0a0a0a0a0a0a0,
		.rbx = 0xb0b0b0b0b0b0b0b0,
		.rcx = 0xc0c0c0c0c0c0c0c0,
		.rdx = 0xd0d0d0d0d0d0d0d0,
		.rsi = 0x5151515151515151,
		.rdi = 0xd1d1d1d1d1d1d1d1,
		.rbp = 0xb1b1b1b1b1b1b1b1,
		.r8 = 8,
		.r9 = 9,
		.r10 = 10,
		.r11 = 11,
		.r12 = 12,
		.r13 = 13,
		.r14 = 14,
		.r15 = 15,
		.flags = flags | ALWAYS,
	};
}

static void check_same(const struct caller_regs *in, const struct caller_regs *out)
{
	assert_memory_equal(in, out, offsetof(struct caller_regs, flags));
	assert_int_equal(out->flags & FLAGS, in->flags & FLAGS);
	assert_int_equal(out->red_zone[0], 0x1111);
	assert_int_equal(out->red_zone[1], 0x2222);
}

/* Each flag that a program may set, alone, and all at once. */
static void check_all_flags(const struct scene *s, size_t site)
{
	for (uint64_t bit = 0; bit <= 20; bit++) {
		const uint64_t flags = bit == 20 ? FLAGS : FLAGS & 1u << bit;
		struct caller_regs in = some_regs(flags), out = { 0 };

		scene_run(s, site, &in, &out);
		check_same(&in, &out);
	}
}

#define EVERYTHING                                                                           \
	HEADER "static unsigned long hits;\n"                                                \
	       "PROBE(every) {\n"                                                            \
	       "	char text[16]; char copy[300];\n"                                           \
	       "	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);\n"                          \
	       "	memset(copy, 1, sizeof(copy));\n"                                           \
	       "	probe_read(copy, (const void *)p->regs->rsp, sizeof(copy));\n"              \
	       "	probe_read_string(text, sizeof(text), \"text\");\n"                         \
	       "	probe_log(\"%lu %s %u %lx\", hits, text, probe_thread(), probe_ticks());\n" \
	       "	probe_value(p->regs->rax); probe_stack(\"here\", 3);\n"                     \
	       "	p->regs->rax = p->regs->r12 = 77;\n"                                        \
	       "}\n"

/* <string.h> is not there for a freestanding program everywhere: it declares what it uses. */
#define MEMSET "void *memset(void *, int, __SIZE_TYPE__);\n"

static void registers_and_flags_are_as_before(void **state)
{
	static const char *const cc[] = { "gcc", "clang" };

	for (size_t i = 0; i < 2; i++) {
		struct scene s;

		if (i && system("clang --version >/dev/null 2>&1") != 0)
			continue;
		scene_open_with(&s, cc[i], MEMSET EVERYTHING, 64, 64);
		check_all_flags(&s, 0);
		assert_int_equal(s.counter[0].count, 21);
		scene_close(&s);
	}
}

static void they_are_as_before_when_there_is_no_function(void **state)
{
	struct scene s;

	scene_open(&s, MEMSET EVERYTHING);
	s.site[0].function = 0;
	check_all_flags(&s, 0);
	assert_int_equal(s.counter[0].count, 21);
	scene_close(&s);
}

static void instead_of_an_instruction_they_are_what_the_probe_made_of_them(void **state)
{
	struct caller_regs in = some_regs(CF | DF), out = { 0 };
	struct scene s;

	scene_open(
		&s, HEADER
		"PROBE(nothing) {}\n"
		"PROBE(some) {\n"
		"	p->regs->rax = 1; p->regs->rcx = 2; p->regs->rbx = 3; p->regs->r15 = 4; p->regs->rbp = 5;\n"
		"	p->regs->rsp = 6; p->regs->rip = 7; p->regs->flags = 0x40 | 0x100 | 0x3000;\n"
		"}\n");
	s.site[0].flags = s.site[1].flags = PROBE_INSTEAD;
	check_all_flags(&s, 0);
	scene_run(&s, 1, &in, &out);
	in.rax = 1;
	in.rcx = 2;
	in.rbx = 3;
	in.r15 = 4;
	in.rbp = 5;
	in.flags = ZF;
	check_same(&in, &out);
	/* No trap flag, no privilege. */
	assert_int_equal(out.flags & 0x3100, 0);
	scene_close(&s);
}

static void a_value_is_recorded(void **state)
{
	struct caller_regs in = some_regs(0), out;
	struct scene_record r;
	struct scene s;

	scene_open(&s, HEADER "PROBE(a) { probe_value(p->regs->r12); }\n"
			      "PROBE(b) { probe_value((signed char)-2); }\n");
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(r.head.kind, PROBE_RECORD_VALUE);
	assert_int_equal(r.head.more, 0);
	assert_int_equal(r.head.site, 0);
	assert_int_equal(r.head.tid, syscall(SYS_gettid));
	assert_in_range(r.head.time, probe_ticks() - 10000000000u, probe_ticks());
	assert_int_equal(r.word[0], 12);
	scene_run(&s, 1, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(r.head.site, 1);
	assert_int_equal(r.word[0], (uint64_t)-2);
	scene_close(&s);
}

/* Where this C library has the thread's number; 0: that is not found. */
static int32_t own_tid_at(void)
{
	const uint32_t tid = (uint32_t)syscall(SYS_gettid);
	uint64_t fs;

	assert_return_code(syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &fs), 0);
	for (int32_t at = 8; at < 2000; at += 4)
		if (*(const uint32_t *)(fs + (uint64_t)at) == tid)
			return at;
	return 0;
}

static void the_thread_is_found_where_the_c_library_has_it(void **state)
{
	struct caller_regs in = some_regs(0), out;
	const uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct scene_record r;
	struct scene s;

	scene_open(&s, HEADER "PROBE(a) { probe_value(probe_thread()); }\n");
	s.shared->tid_at = own_tid_at();
	if (!s.shared->tid_at)
		skip();
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(r.word[0], tid);
	assert_int_equal(r.head.tid, tid);
	scene_close(&s);
}

/* Gives probe_value() all that it needs to write records without C code. */
static void be_fast(struct scene *s)
{
	s->shared->tid_at = own_tid_at();
	if (!s->shared->tid_at)
		skip();
	s->shared->flags |= PROBE_FAST_CALLS;
}

/* The ring is the CPU's, or the thread's. */
static void check_the_short_way(uint32_t ring_flag)
{
	struct caller_regs in = some_regs(CF | OF), out;
	struct scene_record r;
	struct scene s;

	scene_open(&s, HEADER "PROBE(a) { probe_value(p->regs->r12); probe_value(p->regs->r10); }\n");
	be_fast(&s);
	s.shared->flags = (s.shared->flags & ~(uint32_t)PROBE_RDPID) | ring_flag;
	check_all_flags(&s, 0);
	while (scene_next(&s, &r))
		;
	scene_run(&s, 0, &in, &out);
	check_same(&in, &out);
	for (uint64_t value = 12; value >= 10; value -= 2) {
		assert_true(scene_next(&s, &r));
		assert_int_equal(r.head.kind, PROBE_RECORD_VALUE);
		assert_int_equal(r.head.more, 0);
		assert_int_equal(r.head.nbytes, 0);
		assert_int_equal(r.head.site, 0);
		assert_int_equal(r.head.tid, syscall(SYS_gettid));
		assert_in_range(r.head.time, probe_ticks() - 10000000000u, probe_ticks());
		assert_int_equal(r.word[0], value);
	}
	assert_false(scene_next(&s, &r));
	scene_close(&s);
}

static void a_value_is_recorded_by_the_short_way_too(void **state)
{
	(void)state;
	check_the_short_way(0);
}

static void a_value_is_recorded_by_the_short_way_where_the_processor_tells_the_cpu(void **state)
{
	struct probe_shared cpu = { 0 };

	(void)state;
	probe_cpu_describe(&cpu);
	if (!(cpu.flags & PROBE_RDPID))
		skip();
	check_the_short_way(PROBE_RDPID);
}

static void the_short_way_counts_what_finds_no_room(void **state)
{
	struct caller_regs in = some_regs(0), out;
	struct scene_record r;
	unsigned int n = 0;
	struct scene s;

	scene_open_with(&s, NULL, HEADER "PROBE(a) { probe_value(p->regs->rsi); }\n", 1, 16);
	be_fast(&s);
	for (unsigned int i = 0; i < 50; i++) {
		in.rsi = i;
		scene_run(&s, 0, &in, &out);
		check_same(&in, &out);
	}
	assert_int_equal(s.counter[0].count, 50);
	assert_int_equal(s.counter[0].lost, 34);
	for (; scene_next(&s, &r); n++)
		assert_int_equal(r.word[0], n);
	assert_int_equal(n, 16);
	/* A ring that was given up is not written to. */
	s.shared->ring[0].retired = 1;
	scene_run(&s, 0, &in, &out);
	check_same(&in, &out);
	assert_false(scene_next(&s, &r));
	assert_int_equal(s.counter[0].lost, 35);
	scene_close(&s);
}

static void the_line_is(const struct scene *s, const struct scene_record *r, const char *text,
			unsigned int nargs, unsigned int strings)
{
	struct probe_image_format f;

	assert_int_equal(r->head.kind, PROBE_RECORD_LOG);
	assert_true(probe_image_format(&s->image, r->word[0] - (uint64_t)s->memory, &f));
	assert_string_equal(f.text, text);
	assert_int_equal(f.nargs, nargs);
	assert_int_equal(f.strings, strings);
	assert_int_equal(r->head.nbytes, (unsigned int)__builtin_popcount(strings) * PROBE_STRING_MAX / 8);
}

static void arguments_of_every_sort_are_64_bits(void **state)
{
	struct caller_regs in = some_regs(0), out;
	struct scene_record r;
	struct scene s;

	scene_open(
		&s, HEADER
		"enum color { RED, BLUE = 7 };\n"
		"PROBE(a) {\n"
		"	signed char sc = -3; short sh = -4; bool b = true; enum color c = BLUE; uint8_t u = 200;\n"
		"	struct { unsigned int three : 3; } bits = { 5 };\n"
		"	probe_log(\"%hhd %hd %d %d %u %u %u %p\", sc, sh, -5, b, (unsigned)c, u, bits.three,\n"
		"		  (void *)p->regs->r8);\n"
		"}\n"
		"PROBE(b) { probe_log(\"no arguments\"); }\n"
		"PROBE(c) { probe_log(\"%d%d%d%d%d%d%d\", 1, 2, 3, 4, 5, 6, 7); }\n");
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	the_line_is(&s, &r, "%hhd %hd %d %d %u %u %u %p", 8, 0);
	const uint64_t want[] = { (uint64_t)-3, (uint64_t)-4, (uint64_t)-5, 1, 7, 200, 5, 8 };
	assert_memory_equal(&r.word[1], want, sizeof(want));
	scene_run(&s, 1, &in, &out);
	scene_record(&s, &r);
	the_line_is(&s, &r, "no arguments", 0, 0);
	assert_int_equal(r.head.more, 0);
	scene_run(&s, 2, &in, &out);
	scene_record(&s, &r);
	the_line_is(&s, &r, "%d%d%d%d%d%d%d", 7, 0);
	assert_int_equal(r.word[7], 7);
	scene_close(&s);
}

static void strings_are_copied_and_unreadable_ones_are_marked(void **state)
{
	struct caller_regs in = some_regs(0), out;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct scene_record r;
	struct scene s;

	scene_open(&s, HEADER
		   "PROBE(a) {\n"
		   "	probe_log(\"%s %d %s %s %s\", (const char *)p->regs->rdi, 5, (char *)p->regs->rsi,\n"
		   "		  (const unsigned char *)p->regs->rdx, \"literal\");\n"
		   "}\n");
	/* One that ends with the last byte that is there, one that goes on where nothing is, one that is too long. */
	assert_return_code(munmap(page + 4096, 4096), 0);
	memset(page, 'x', 4096);
	strcpy(page + 4096 - 5, "last");
	in.rdi = (uint64_t)page + 4096 - 5;
	in.rsi = 0x10;
	in.rdx = (uint64_t)page;
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	the_line_is(&s, &r, "%s %d %s %s %s", 5, 0x1d);
	const char *text = (const char *)&r.word[6];
	assert_int_equal(r.word[1], in.rdi);
	assert_int_equal(r.word[2], 5);
	assert_string_equal(text, "last");
	assert_int_equal(text[64], 0);
	assert_int_equal(text[65], 1);
	assert_int_equal(strlen(text + 128), 63);
	assert_string_equal(text + 192, "literal");
	check_same(&in, &out);

	page[4095] = 'x';
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(text[0], 0);
	assert_int_equal(text[1], 1);

	s.shared->flags = PROBE_NO_SYSCALLS;
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(text[192], 0);
	assert_int_equal(text[193], 1);
	munmap(page, 4096);
	scene_close(&s);
}

static void a_stack_is_recorded_with_the_registers(void **state)
{
	const size_t nregs = sizeof(struct probe_regs) / 8, sizes[] = { 64, 4096, 20000 };
	static struct scene_record r;
	struct scene s;

	scene_open_with(&s, NULL, HEADER "PROBE(a) { probe_stack(\"tag\", 42); }\n", 1, 1024);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct caller_regs in = some_regs(CF), out;
		struct probe_image_format f;
		struct probe_regs regs;

		s.shared->stack_bytes = (uint32_t)sizes[i];
		scene_run(&s, 0, &in, &out);
		check_same(&in, &out);
		scene_record(&s, &r);
		assert_int_equal(r.head.kind, PROBE_RECORD_STACK);
		assert_true(probe_image_format(&s.image, r.word[0] - (uint64_t)s.memory, &f));
		assert_string_equal(f.text, "tag");
		assert_int_equal(f.nargs, 0);
		assert_int_equal(r.word[1], 42);
		memcpy(&regs, &r.word[3], sizeof(regs));
		assert_int_equal(regs.rax, in.rax);
		assert_int_equal(regs.rcx, in.rcx);
		assert_int_equal(regs.r15, in.r15);
		assert_int_equal(regs.rbp, in.rbp);
		assert_int_equal(regs.rip, s.site[0].rip);
		assert_int_equal(regs.flags & FLAGS, CF);
		assert_int_equal(regs.rsp, out.rsp);
		/* There may be less of it: it ends where the environment does. */
		assert_in_range(r.word[2], 64, sizes[i]);
		assert_int_equal(r.word[3 + nregs], (uint64_t)s.memory + s.image.entry_at);
		assert_int_equal(r.word[3 + nregs + 1], (uint64_t)&s.site[0]);
		assert_int_equal(r.word[3 + nregs + 2], (uint64_t)&out);
		assert_true(r.nwords >= 3 + nregs + sizes[i] / 8);
	}
	scene_close(&s);
}

static void operands_have_values_and_addresses(void **state)
{
	uint64_t memory[4] = { 0, 0x1122334455667788, 0, 0 };
	struct caller_regs in = some_regs(0), out;
	struct scene_record r;
	struct scene s;

	scene_open(&s, HEADER
		   "PROBE(a) {\n"
		   "	probe_log(\"%lx %lx %lx %p %p %lx %lx\", probe_operand(p, 0), probe_operand(p, 1),\n"
		   "		  probe_operand(p, 2), probe_address(p, 2), probe_address(p, 0),\n"
		   "		  probe_operand(p, 3), probe_operand(p, 4));\n"
		   "}\n");
	in.rbx = 0x8877;
	in.rsi = (uint64_t)memory - 16;
	in.r8 = 3;
	s.site[0].operand[0] =
		(struct probe_operand){ .kind = PROBE_REG, .size = 1, .base = WREG_RBX, .shift = 8 };
	s.site[0].operand[1] = (struct probe_operand){ .kind = PROBE_IMM, .size = 4, .disp = -1 };
	s.site[0].operand[2] = (struct probe_operand){
		.kind = PROBE_MEM, .size = 4, .base = WREG_RSI, .index = WREG_R8, .scale = 8
	};
	s.site[0].operand[3] = (struct probe_operand){
		.kind = PROBE_MEM, .size = 8, .base = PROBE_NO_REG, .index = PROBE_NO_REG, .disp = 0x20
	};
	scene_run(&s, 0, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(r.word[1], 0x88);
	assert_int_equal(r.word[2], 0xffffffff);
	assert_int_equal(r.word[3], 0x55667788);
	assert_int_equal(r.word[4], (uint64_t)&memory[1]);
	assert_int_equal(r.word[5], 0);
	assert_int_equal(r.word[6], 0);
	assert_int_equal(r.word[7], 0);
	scene_close(&s);
}

static void what_finds_no_room_is_counted(void **state)
{
	struct caller_regs in = some_regs(0), out;
	struct scene_record r;
	unsigned int n = 0;
	struct scene s;

	scene_open_with(&s, NULL,
			HEADER "PROBE(a) { probe_value(1); }\n"
			       "PROBE(b) { probe_log(\"%d %d %d %d\", 1, 2, 3, 4); }\n",
			1, 16);
	for (unsigned int i = 0; i < 15; i++)
		scene_run(&s, 0, &in, &out);
	/* Two slots do not fit into one. */
	scene_run(&s, 1, &in, &out);
	assert_int_equal(s.counter[1].lost, 1);
	for (unsigned int i = 0; i < 5; i++) {
		scene_run(&s, 0, &in, &out);
		check_same(&in, &out);
	}
	assert_int_equal(s.counter[0].count, 20);
	assert_int_equal(s.counter[0].lost, 4);
	while (scene_next(&s, &r))
		n++;
	assert_int_equal(n, 16);
	/* There is room again; and no ring is written to that was given up. */
	scene_run(&s, 1, &in, &out);
	scene_record(&s, &r);
	assert_int_equal(r.word[4], 4);
	s.shared->ring[0].retired = 1;
	scene_run(&s, 1, &in, &out);
	assert_false(scene_next(&s, &r));
	assert_int_equal(s.counter[1].lost, 2);
	scene_close(&s);
}

#define RUNS 20000u

struct runner {
	struct scene *scene;
	pthread_t thread;
	uint32_t tid;
	unsigned int number;
	bool failed;
};

static void *run_many(void *arg)
{
	struct runner *r = arg;

	r->tid = (uint32_t)syscall(SYS_gettid);
	for (unsigned int i = 0; i < RUNS && !r->failed; i++) {
		struct caller_regs in = some_regs(i & 1 ? CF | OF : DF), out;

		in.rdi = r->number;
		in.rsi = i;
		scene_run(r->scene, i & 1, &in, &out);
		r->failed = memcmp(&in, &out, offsetof(struct caller_regs, flags)) != 0 ||
			    (in.flags ^ out.flags) & FLAGS;
	}
	return NULL;
}

static void run_four(struct scene *s, struct runner r[4])
{
	for (unsigned int i = 0; i < 4; i++) {
		r[i] = (struct runner){ .scene = s, .number = i };
		assert_int_equal(pthread_create(&r[i].thread, NULL, run_many, &r[i]), 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		pthread_join(r[i].thread, NULL);
		assert_false(r[i].failed);
	}
}

static void records_of_four_threads_are_all_accounted_for(void **state)
{
	uint64_t seen[2] = { 0 }, last[4] = { 0 };
	struct runner r[4] = { 0 };
	struct scene_record rec;
	struct scene s;

	/* One ring for all of them, and one for each CPU. */
	for (uint32_t nrings = 1; nrings <= 64; nrings *= 64) {
		seen[0] = seen[1] = 0;
		memset(last, 0, sizeof(last));
		scene_open_with(
			&s, NULL,
			HEADER
			"PROBE(a) { probe_log(\"%lu %lu %s\", p->regs->rdi, p->regs->rsi, \"text\"); }\n"
			"PROBE(b) { probe_log(\"%lu %lu\", p->regs->rdi, p->regs->rsi); }\n",
			nrings, 65536);
		run_four(&s, r);
		while (scene_next(&s, &rec)) {
			assert_in_range(rec.word[1], 0, 3);
			assert_int_equal(rec.head.tid, r[rec.word[1]].tid);
			assert_int_equal(rec.word[2] & 1, rec.head.site);
			/* In one ring they are in order. */
			assert_true(nrings > 1 || rec.word[2] >= last[rec.word[1]]);
			last[rec.word[1]] = rec.word[2];
			if (!rec.head.site)
				assert_string_equal((const char *)&rec.word[4], "text");
			seen[rec.head.site]++;
		}
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(s.counter[i].count, 2 * RUNS);
			assert_int_equal(seen[i] + s.counter[i].lost, s.counter[i].count);
		}
		scene_close(&s);
	}
}

static void values_of_four_threads_are_all_accounted_for(void **state)
{
	struct runner r[4] = { 0 };
	struct scene_record rec;
	struct scene s;

	for (uint32_t nrings = 1; nrings <= 64; nrings *= 64) {
		uint64_t seen[2] = { 0 };

		scene_open_with(&s, NULL,
				HEADER "PROBE(a) { probe_value(p->regs->rdi << 32 | p->regs->rsi); }\n"
				       "PROBE(b) { probe_value(p->regs->rdi << 32 | p->regs->rsi); }\n",
				nrings, 65536);
		be_fast(&s);
		run_four(&s, r);
		while (scene_next(&s, &rec)) {
			assert_in_range(rec.word[0] >> 32, 0, 3);
			assert_int_equal(rec.head.tid, r[rec.word[0] >> 32].tid);
			assert_int_equal(rec.word[0] & 1, rec.head.site);
			seen[rec.head.site]++;
		}
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(s.counter[i].count, 2 * RUNS);
			assert_int_equal(seen[i] + s.counter[i].lost, s.counter[i].count);
		}
		scene_close(&s);
	}
}

#define TALLIES 4u

/* Of SCENE_SITES counts each; @mask chooses among them by the thread's number. */
static void have_tallies(struct scene *s, uint64_t count[TALLIES][SCENE_SITES], uint32_t mask)
{
	s->shared->tid_at = own_tid_at();
	if (!s->shared->tid_at)
		skip();
	memset(count, 0, TALLIES * sizeof(count[0]));
	for (uint32_t i = 0; i < TALLIES; i++)
		s->shared->tally[i] = (struct probe_tally){ PROBE_TALLY_FREE, (uint64_t)count[i] };
	s->shared->tally_mask = mask;
	s->shared->flags |= PROBE_TALLIED;
}

static void a_thread_counts_by_itself(void **state)
{
	const uint32_t tid = (uint32_t)syscall(SYS_gettid), mine = tid & (TALLIES - 1);
	uint64_t count[TALLIES][SCENE_SITES];
	struct caller_regs in = some_regs(0), out;
	struct scene s;

	(void)state;
	scene_open(&s, HEADER "PROBE(a) { (void)p; }\nPROBE(b) { (void)p; }\n");
	have_tallies(&s, count, TALLIES - 1);
	check_all_flags(&s, 1);
	const uint64_t before = count[mine][1];
	assert_true(before > 0);
	s.site[1].function = 0; /* it is only counted */
	check_all_flags(&s, 1);
	assert_int_equal(count[mine][1], 2 * before);
	assert_int_equal(s.shared->tally[mine].tid, tid);
	assert_int_equal(s.counter[1].count, 0);
	/* Others have them all. */
	for (uint32_t i = 0; i < TALLIES; i++)
		s.shared->tally[i].tid = tid + 1;
	scene_run(&s, 0, &in, &out);
	check_same(&in, &out);
	check_all_flags(&s, 0);
	assert_int_equal(s.counter[0].count, 1 + before);
	for (uint32_t i = 0; i < TALLIES; i++)
		assert_int_equal(count[i][0], 0);
	scene_close(&s);
}

static void threads_that_count_by_themselves_lose_none(void **state)
{
	uint64_t count[TALLIES][SCENE_SITES];
	struct runner r[4] = { 0 };
	struct scene s;

	(void)state;
	/* One for all of them, which one takes, or one for each. */
	for (uint32_t mask = 0; mask < TALLIES; mask += TALLIES - 1) {
		scene_open(&s, HEADER "PROBE(a) { (void)p; }\nPROBE(b) { (void)p; }\n");
		have_tallies(&s, count, mask);
		run_four(&s, r);
		for (size_t i = 0; i < 2; i++) {
			uint64_t n = s.counter[i].count;

			for (uint32_t k = 0; k < TALLIES; k++)
				n += count[k][i];
			assert_int_equal(n, 4 * RUNS / 2);
		}
		assert_true(mask || count[0][0]);
		scene_close(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_counts_by_itself),
		cmocka_unit_test(threads_that_count_by_themselves_lose_none),
		cmocka_unit_test(registers_and_flags_are_as_before),
		cmocka_unit_test(they_are_as_before_when_there_is_no_function),
		cmocka_unit_test(instead_of_an_instruction_they_are_what_the_probe_made_of_them),
		cmocka_unit_test(a_value_is_recorded),
		cmocka_unit_test(the_thread_is_found_where_the_c_library_has_it),
		cmocka_unit_test(a_value_is_recorded_by_the_short_way_too),
		cmocka_unit_test(a_value_is_recorded_by_the_short_way_where_the_processor_tells_the_cpu),
		cmocka_unit_test(the_short_way_counts_what_finds_no_room),
		cmocka_unit_test(values_of_four_threads_are_all_accounted_for),
		cmocka_unit_test(arguments_of_every_sort_are_64_bits),
		cmocka_unit_test(strings_are_copied_and_unreadable_ones_are_marked),
		cmocka_unit_test(a_stack_is_recorded_with_the_registers),
		cmocka_unit_test(operands_have_values_and_addresses),
		cmocka_unit_test(what_finds_no_room_is_counted),
		cmocka_unit_test(records_of_four_threads_are_all_accounted_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
