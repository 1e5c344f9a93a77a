/* Small cores, made up as a runtime's memory lies in them: their calls come out, and damage is said or left out. */
#include "tests/unit/tracelog_fixture.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/procfs.h>

#include "calltrace/runtime/memory_layout.h"
#include "watchctl/code/elf/core_file.h"
#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/core/core_log.h"

#define PID 4711
#define BASE 0x500000000ull /* of the one segment */
#define BYTES (8u * CALLTRACE_CHUNK)
#define NFUNCTIONS 4u
#define TSC 1000000ull /* of the first point; a cycle lasts half a ns */
#define NS 7000000000ull

/* Offsets in the segment, which are addresses less BASE. */
enum {
	AT_MEMORY = 0x100,
	AT_STATE = 0x200,
	AT_FIRST = 0x208,
	AT_NMODULES = 0x210,
	AT_MODULES = 0x240,
	AT_RECORDS = 0x400, /* 4 of them */
	AT_NAMES = 0x500,   /* of 2 bytes */
	AT_THREAD = 0x1000,
	AT_PLACE = 0x2000,
	AT_OPEN = 0x4000,
	AT_PACKET = CALLTRACE_CHUNK,
	AT_SLOTS = 2 * CALLTRACE_CHUNK,
};

struct made_core {
	uint8_t *bytes; /* of the segment */
	struct calltrace_memory *memory;
	struct thread *thread;
	struct traced_module *module;
	struct calltrace_slot *slot; /* the next one */
	uint64_t tsc;
	char path[96];
	struct fixture *f;
};

static void *address(uint64_t offset)
{
	return (void *)(BASE + offset);
}

static void make_functions(struct made_core *c)
{
	struct calltrace_function *f = (struct calltrace_function *)(c->bytes + AT_RECORDS);

	for (unsigned int i = 0; i < NFUNCTIONS; i++) {
		c->bytes[AT_NAMES + 2 * i] = (uint8_t)('a' + i);
		f[i].name = (int32_t)(AT_NAMES + 2 * i) - (int32_t)((uint8_t *)&f[i].name - c->bytes);
		f[i].line = 10 + i;
	}
	c->module->size = NFUNCTIONS * sizeof(*f);
	c->module->low = (uint32_t)(BASE + AT_RECORDS);
	c->module->begin = address(AT_RECORDS);
}

/* @ring_chunks as in the descriptor: the slots have place for 3 and the slack. */
static struct made_core make(void **state, uint32_t ring_chunks)
{
	struct made_core c = { .f = *state, .bytes = calloc(1, BYTES), .tsc = TSC };
	struct output_place *place;

	assert_non_null(c.bytes);
	snprintf(c.path, sizeof(c.path), "%s/core", c.f->dir);
	c.memory = (struct calltrace_memory *)(c.bytes + AT_MEMORY);
	c.thread = (struct thread *)(c.bytes + AT_THREAD);
	c.module = (struct traced_module *)(c.bytes + AT_MODULES);
	c.slot = (struct calltrace_slot *)(c.bytes + AT_SLOTS);
	*c.memory = (struct calltrace_memory){ .magic = CALLTRACE_MEMORY_MAGIC,
					       .version = CALLTRACE_MEMORY_VERSION,
					       .thread_bytes = sizeof(struct thread),
					       .module_bytes = sizeof(struct traced_module),
					       .place_bytes = sizeof(struct output_place),
					       .self = BASE + AT_MEMORY,
					       .is_recording = BASE + AT_STATE,
					       .first_thread = BASE + AT_FIRST,
					       .modules = BASE + AT_MODULES,
					       .nmodules = BASE + AT_NMODULES,
					       .place = BASE + AT_PLACE,
					       .ring_chunks = ring_chunks,
					       .begin = { TSC, NS } };
	c.bytes[AT_STATE] = 1;
	c.bytes[AT_NMODULES] = 1;
	*(void **)(c.bytes + AT_FIRST) = address(AT_THREAD);
	place = (struct output_place *)(c.bytes + AT_PLACE);
	place->pid = PID;
	snprintf(place->path, sizeof(place->path), "%s/none", c.f->dir);
	make_functions(&c);
	*c.thread = (struct thread){ .tid = PID,
				     .comm = "made",
				     .chunk = address(AT_SLOTS),
				     .begin = address(AT_SLOTS),
				     .from = address(AT_SLOTS),
				     .ring = { .slot = address(AT_SLOTS), .chunks = ring_chunks },
				     .point = { TSC + 2000000, NS + 1000000 } };
	return c;
}

/* An event of the function @name, 2 cycles after the last one. */
static void event(struct made_core *c, enum calltrace_kind kind, char name, uint32_t frame)
{
	const uint64_t record =
		BASE + AT_RECORDS + (uint64_t)(name - 'a') * sizeof(struct calltrace_function);

	c->tsc += 2;
	*c->slot++ = (struct calltrace_slot){ .tsc = c->tsc + 2000000,
					      .what = (uint32_t)record | kind,
					      .frame = frame };
}

#define ENTER(c, name, frame) event(c, CALLTRACE_ENTRY, name, frame)
#define LEAVE(c, name, frame) event(c, CALLTRACE_EXIT, name, frame)

struct notes {
	struct {
		Elf64_Nhdr head;
		char name[8];
		struct elf_prstatus status;
	} __attribute__((packed)) status;
	struct {
		Elf64_Nhdr head;
		char name[8];
		struct elf_prpsinfo info;
	} __attribute__((packed)) info;
} __attribute__((packed));

static struct notes make_notes(void)
{
	struct notes n = {
		.status = { .head = { 5, sizeof(struct elf_prstatus), NT_PRSTATUS }, .name = "CORE" },
		.info = { .head = { 5, sizeof(struct elf_prpsinfo), NT_PRPSINFO }, .name = "CORE" }
	};

	n.status.status.pr_cursig = SIGSEGV;
	n.status.status.pr_pid = n.info.info.pr_pid = PID;
	strcpy(n.info.info.pr_fname, "made");
	return n;
}

/* Writes the core, but for its last @cut bytes; releases what it was made of. */
static void write_core(struct made_core *c, size_t cut)
{
	const struct notes notes = make_notes();
	const size_t head = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
	const Elf64_Ehdr e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			       .e_type = ET_CORE,
			       .e_machine = EM_X86_64,
			       .e_phoff = sizeof(e),
			       .e_phentsize = sizeof(Elf64_Phdr),
			       .e_phnum = 2 };
	const Elf64_Phdr p[] = { { .p_type = PT_NOTE, .p_offset = head, .p_filesz = sizeof(notes) },
				 { .p_type = PT_LOAD,
				   .p_flags = PF_R | PF_W,
				   .p_offset = head + sizeof(notes),
				   .p_vaddr = BASE,
				   .p_filesz = BYTES,
				   .p_memsz = BYTES } };
	FILE *f = fopen(c->path, "we");

	assert_non_null(f);
	fwrite(&e, sizeof(e), 1, f);
	fwrite(p, sizeof(p), 1, f);
	fwrite(&notes, sizeof(notes), 1, f);
	fwrite(c->bytes, BYTES, 1, f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(truncate(c->path, (off_t)(head + sizeof(notes) + BYTES - cut)), 0);
	free(c->bytes);
}

/* "+a -a ~a" for entries, exits and exits that were not seen, of all threads. */
static void read_calls(const char *log, char *ret, size_t cap)
{
	static const char sign[] = "+-~";
	struct call_reader *r;
	struct call_batch b;

	*ret = '\0';
	OK(call_reader_open(log, &r));
	for (size_t t = 0; t < call_reader_threads(r); t++)
		while (call_reader_next(r, t, &b))
			for (size_t i = 0; i < b.n; i++)
				snprintf(ret + strlen(ret), cap - strlen(ret), "%c%c ", sign[b.what[i]],
					 'a' + (char)b.function[i]);
	call_reader_close(r);
}

static void check_calls(struct made_core *c, const char *expected)
{
	char told[256];

	OK(core_log_write(c->path, c->f->log));
	read_calls(c->f->log, told, sizeof(told));
	assert_string_equal(told, expected);
}

/* Whether a note of the log has @part in it. */
static bool is_noted(const char *log, const char *part)
{
	enum log_outcome outcome = LOG_EVENT;
	struct tracelog_reader *r;
	struct trace_event e;
	bool ret = false;

	OK(tracelog_reader_open(log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		ret |= e.type == EVENT_NOTE && strstr(e.note.text, part);
	}
	tracelog_reader_close(r);
	return ret;
}

static void events_not_yet_written_come_out(void **state)
{
	struct made_core c = make(state, 0);

	ENTER(&c, 'a', 0x1000);
	ENTER(&c, 'b', 0x900);
	ENTER(&c, 'c', 0x800);
	LEAVE(&c, 'b', 0x900); /* c is gone: a longjmp */
	ENTER(&c, 'd', 0x900);
	write_core(&c, 0);
	check_calls(&c, "+a +b +c ~c -b +d ");
	assert_true(is_noted(c.f->log, "died of SIGSEGV, in thread 4711"));
	assert_true(is_noted(c.f->log, "which is not there"));
}

static void times_follow_from_two_points(void **state)
{
	struct made_core c = make(state, 0);
	struct call_reader *r;
	struct call_batch b;

	ENTER(&c, 'a', 0x1000);
	c.tsc += 4000;
	ENTER(&c, 'b', 0x900);
	write_core(&c, 0);
	OK(core_log_write(c.path, c.f->log));
	OK(call_reader_open(c.f->log, &r));
	assert_true(call_reader_next(r, 0, &b));
	assert_int_equal(b.time_ns[0], NS + 1000000 + 1);
	assert_int_equal(b.time_ns[1], NS + 1000000 + 2 + 2000);
	call_reader_close(r);
	assert_false(is_noted(c.f->log, "times are"));
}

static void a_rate_that_is_hardly_known_is_said(void **state)
{
	struct made_core c = make(state, 0);

	c.thread->point = (struct clock_point){ TSC + 100000, NS + 50000 };
	c.tsc += 1000000000;
	ENTER(&c, 'a', 0x1000);
	write_core(&c, 0);
	check_calls(&c, "+a ");
	assert_true(is_noted(c.f->log, "times are right to"));
}

static void a_slot_that_a_signal_left_open_is_counted(void **state)
{
	struct made_core c = make(state, 0);
	struct call_reader *r;
	struct call_batch b;
	struct call_damage d;

	ENTER(&c, 'a', 0x1000);
	c.slot++;
	c.slot++->what = CALLTRACE_KIND_MASK; /* dropped by the runtime */
	ENTER(&c, 'b', 0x900);
	write_core(&c, 0);
	check_calls(&c, "+a +b ");
	OK(call_reader_open(c.f->log, &r));
	while (call_reader_next(r, 0, &b))
		;
	call_reader_damage(r, &d);
	assert_int_equal(d.discarded, 1);
	call_reader_close(r);
}

/* The thread had a call of a open, whose entry is in a file; a packet that is not; and slots. */
static void what_was_read_before_comes_first(void **state)
{
	struct made_core c = make(state, 0);
	struct open_call *open = (struct open_call *)(c.bytes + AT_OPEN);
	struct call_packet *p = (struct call_packet *)(c.bytes + AT_PACKET);

	open[0] = (struct open_call){ .function = 0, .frame = 0x1000 };
	open[1] = (struct open_call){ .function = 2, .frame = 0x800 };
	c.thread->calls = (struct open_calls){ .call = address(AT_OPEN), .depth = 2, .cap = 8192 };
	p->event[0] = call_pack(CALL_EXIT, NS + 10, 1);
	p->event[1] = call_pack(CALL_ENTRY, NS + 20, 2);
	c.thread->out.packet = address(AT_PACKET);
	c.thread->out.begin_ns = NS + 10;
	c.thread->out.n = 2;
	LEAVE(&c, 'c', 0x800);
	LEAVE(&c, 'a', 0x1000);
	write_core(&c, 0);
	check_calls(&c, "+a +b -b +c -c -a ");
	assert_true(is_noted(c.f->log, "open already"));
}

static void a_ring_is_read_from_its_oldest_chunk_on(void **state)
{
	struct made_core c = make(state, 2);
	struct calltrace_slot *slots = c.slot;

	c.slot = slots + CHUNK_SLOTS + 5;
	LEAVE(&c, 'd', 0x2000);
	ENTER(&c, 'a', 0x1000);
	c.slot = slots;
	ENTER(&c, 'b', 0x900);
	write_core(&c, 0);
	check_calls(&c, "-d +a +b ");
	assert_true(is_noted(c.f->log, "flight recorder"));
}

static void a_ring_that_was_read_and_overrun_has_a_gap(void **state)
{
	struct made_core c = make(state, 2);
	struct open_call *open = (struct open_call *)(c.bytes + AT_OPEN);

	open[0] = (struct open_call){ .function = 0, .frame = 0x1000 };
	c.thread->calls = (struct open_calls){ .call = address(AT_OPEN), .depth = 1, .cap = 8192 };
	c.thread->was_read = true;
	c.thread->ring.overwritten = 7;
	ENTER(&c, 'b', 0x900);
	write_core(&c, 0);
	check_calls(&c, "+b ");
}

static void a_table_that_cannot_be_read_leaves_numbers(void **state)
{
	struct made_core c = make(state, 0);
	enum log_outcome outcome = LOG_EVENT;
	struct tracelog_reader *r;
	struct trace_event e;
	bool is_told = false;

	c.module->begin = (void *)((uintptr_t)c.module->begin + (1ull << 32));
	ENTER(&c, 'b', 0x1000);
	write_core(&c, 0);
	check_calls(&c, "+b ");
	assert_true(is_noted(c.f->log, "are unknown"));
	OK(tracelog_reader_open(c.f->log, &r));
	for (; outcome == LOG_EVENT; is_told |= outcome == LOG_EVENT && e.type == EVENT_FUNCTION &&
						!strcmp(e.function.name, "unknown function 1"))
		OK(tracelog_next(r, &e, &outcome));
	tracelog_reader_close(r);
	assert_true(is_told);
}

static void lists_and_numbers_are_not_believed(void **state)
{
	struct made_core c = make(state, 0);

	c.thread->next = address(AT_THREAD); /* a circle */
	c.thread->calls =
		(struct open_calls){ .call = address(AT_OPEN), .depth = 1u << 30, .is_leaving = true };
	c.thread->out.n = 1u << 30;
	ENTER(&c, 'a', 0x1000);
	LEAVE(&c, 'a', 0x1000);
	write_core(&c, 0);
	check_calls(&c, "+a -a ");
	assert_true(is_noted(c.f->log, "threads are missing"));
	assert_true(is_noted(c.f->log, "of 1 threads events are missing"));
}

static void what_points_nowhere_is_left_out(void **state)
{
	struct made_core c = make(state, 0);

	c.thread->chunk = address(AT_SLOTS + 16);
	ENTER(&c, 'a', 0x1000);
	write_core(&c, 0);
	check_calls(&c, "");
	assert_true(is_noted(c.f->log, "of 1 threads events are missing"));
}

static void each_reason_is_one_sentence(void **state)
{
	struct made_core c = make(state, 0);

	c.memory->version++;
	write_core(&c, 0);
	FAILS(core_log_write(c.path, c.f->log), "another version of libcalltrace");
	c = make(state, 0);
	c.memory->self = 0;
	write_core(&c, 0);
	FAILS(core_log_write(c.path, c.f->log), "was not recording");
	c = make(state, 0);
	c.memory->self++;
	write_core(&c, 0);
	FAILS(core_log_write(c.path, c.f->log), "not built with calltrace-cc");
	c = make(state, 0);
	c.bytes[AT_STATE] = 0;
	write_core(&c, 0);
	FAILS(core_log_write(c.path, c.f->log), "written them all");
	c = make(state, 0);
	c.memory->modules = 1;
	write_core(&c, 0);
	FAILS(core_log_write(c.path, c.f->log), "the table of modules is damaged");
	c = make(state, 0);
	c.memory->first_thread = 1;
	write_core(&c, BYTES - 0x8000);
	FAILS(core_log_write(c.path, c.f->log), "cut short");
	c = make(state, 0);
	write_core(&c, BYTES + 100);
	FAILS(core_log_write(c.path, c.f->log), "cut short");
	assert_int_equal(access(c.f->log, F_OK), -1);
}

static void a_core_is_told_from_other_files(void **state)
{
	struct made_core c = make(state, 0);

	write_core(&c, 0);
	assert_true(core_file_is(c.path));
	assert_false(core_file_is("/proc/self/exe"));
	assert_false(core_file_is("/"));
	assert_false(core_file_is("/dev/zero"));
	assert_false(core_file_is("/nowhere"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(events_not_yet_written_come_out),
		TEST(times_follow_from_two_points),
		TEST(a_rate_that_is_hardly_known_is_said),
		TEST(a_slot_that_a_signal_left_open_is_counted),
		TEST(what_was_read_before_comes_first),
		TEST(a_ring_is_read_from_its_oldest_chunk_on),
		TEST(a_ring_that_was_read_and_overrun_has_a_gap),
		TEST(a_table_that_cannot_be_read_leaves_numbers),
		TEST(lists_and_numbers_are_not_believed),
		TEST(what_points_nowhere_is_left_out),
		TEST(each_reason_is_one_sentence),
		TEST(a_core_is_told_from_other_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
