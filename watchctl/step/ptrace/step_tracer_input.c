/*
 * A thread whose inputs are recorded stops where a system call begins and where it ends, whoever makes it: the
 * program, or a library that is stepped over. Nothing of the thread is changed there, so that it goes on as it would
 * have if we are killed: the kernel sends no signal for such a stop.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include "watchctl/base/hash.h"
#include "watchctl/step/ptrace/step_input.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracing.h"

/* PTRACE_GETEVENTMSG at such a stop (linux/ptrace.h, whose names are not those of sys/ptrace.h). */
#define SYSCALL_ENDS 2u

bool step_input_wants(const struct step_tracer *k, const struct step_thread *t)
{
	if (k->leaving || k->done || k->ended || t->guest)
		return false;
	if (k->box->inputs == INPUTS_WHOLE)
		return true;
	return k->box->inputs == INPUTS_RANGE && k->recording && t->recorded;
}

static void read_arguments(const struct step_thread *t, uint64_t ret[6])
{
	ret[0] = t->user.rdi;
	ret[1] = t->user.rsi;
	ret[2] = t->user.rdx;
	ret[3] = t->user.r10;
	ret[4] = t->user.r8;
	ret[5] = t->user.r9;
}

/* Of what came before from a pipe, socket or terminal, nobody but us counts the bytes. */
static uint64_t stream_offset(struct step_tracer *k, const char *name, uint64_t size)
{
	uint64_t key = hash_text(HASH_START, name);
	uintptr_t before = (uintptr_t)map64_get(&k->streams, key);

	map64_put(&k->streams, key, (void *)(before + size)); /* no memory: later offsets are too small */
	return before;
}

static uint64_t file_offset(const struct step_thread *t, const struct input_call *c, const uint64_t arg[6],
			    uint64_t size)
{
	uint64_t pos = 0;

	if (c->pos != NO_ARG && (int64_t)arg[c->pos] >= 0)
		return arg[c->pos];
	return step_input_position(t->tid, (int)arg[c->fd], &pos) && pos >= size ? pos - size : 0;
}

/* The path that the program gave; of an empty one, as of none, what the descriptor leads to. */
static void name_it(const struct step_tracer *k, const struct input_call *c, const uint64_t arg[6],
		    struct input_source *from, bool has_source)
{
	size_t n = 0;
	char path[STEP_INPUT_NAME];

	if (c->path != NO_ARG)
		n = step_state_copy(k, arg[c->path], path, sizeof(path) - 1);
	path[n] = '\0';
	if (path[0])
		memcpy(from->name, path, strlen(path) + 1);
	else if (!has_source)
		from->name[0] = '\0';
}

/* What can be read of the file; what is behind its end, or executed, is not input. */
static bool copy_map(struct step_tracer *k, const uint64_t arg[6], const struct input_source *from,
		     struct step_record *r, size_t *copied)
{
	uint64_t left = from->size > arg[5] ? from->size - arg[5] : 0;
	uint64_t size = arg[1] < left ? arg[1] : left;

	if (from->kind != INPUT_FILE || !size || (arg[2] & (PROT_READ | PROT_EXEC)) != PROT_READ)
		return false;
	*copied = step_state_copy(k, (uint64_t)r->input.result, k->input,
				  size < INPUT_HASHED_MAX ? (size_t)size : INPUT_HASHED_MAX);
	r->input.size = size;
	return *copied > 0;
}

static void report(struct step_tracer *k, struct step_thread *t, struct step_record *r, size_t copied)
{
	const struct track_call *in = track_innermost(k->track, t->tid);
	uint64_t last_ns = k->last_ns;

	r->input.hashed = (uint32_t)copied;
	r->input.hash = hash_bytes(HASH_START, k->input, copied);
	r->stack = copied ? k->input : NULL;
	r->stack_len = (uint32_t)(copied < k->box->input_bytes ? copied : k->box->input_bytes);
	r->inside = k->recording && in ? in->call : 0;
	r->pid = t->pid;
	r->tid = t->tid;
	step_report(k, r);
	k->last_ns = last_ns; /* a program that polls for ever can still be stuck */
}

static void take_input(struct step_tracer *k, struct step_thread *t, const struct input_call *c)
{
	const struct memory_view mem = step_state_memory(k);
	struct step_record r = { .kind = STEP_INPUT, .syscall = (int32_t)t->user.orig_rax };
	struct input_source from = { .kind = c->kind };
	bool known = false;
	uint64_t arg[6];
	size_t copied = 0;

	read_arguments(t, arg);
	r.input = (struct step_input){ .kind = c->kind, .result = (int64_t)t->user.rax, .fd = -1 };
	if (c->fd != NO_ARG && (int)arg[c->fd] >= 0) {
		r.input.fd = (int)arg[c->fd];
		known = step_input_source(t->tid, r.input.fd, &from);
	}
	if (c->shape == SHAPE_MAP && (!known || r.input.result < 0 || !copy_map(k, arg, &from, &r, &copied)))
		return;
	if (c->shape != SHAPE_MAP && r.input.result >= 0)
		copied = step_input_copy(c, arg, r.input.result, &mem, k->input, INPUT_HASHED_MAX,
					 &r.input.size);
	if (c->kind == INPUT_FILE && known)
		r.input.kind = from.kind;
	name_it(k, c, arg, &from, known);
	if (r.input.kind == INPUT_STREAM)
		r.input.offset = stream_offset(k, from.name, r.input.size);
	else if (r.input.kind == INPUT_FILE || r.input.kind == INPUT_MAP)
		r.input.offset = file_offset(t, c, arg, r.input.size);
	r.why = from.name[0] ? from.name : NULL;
	report(k, t, &r, copied);
}

/* @t, registers known, has made a system call. */
static void look_at_call(struct step_tracer *k, struct step_thread *t)
{
	const struct input_call *c = step_input_call(t->user.orig_rax);

	if (!c || step_input_is_retry((int64_t)t->user.rax))
		return;
	if (!k->input)
		k->input = malloc(INPUT_HASHED_MAX);
	if (!k->input) {
		k->box->counts.lost++;
		return;
	}
	take_input(k, t, c);
}

void step_input_at_syscall(struct step_tracer *k, struct step_thread *t)
{
	unsigned long message = 0;

	t->in_syscall = true;
	if (held_ptrace(PTRACE_GETEVENTMSG, t->tid, 0, &message) || message != SYSCALL_ENDS)
		return;
	if (t->disturbed)
		tracing_undo_false_eintr(t->pid, t->tid);
	t->disturbed = t->has_regs = false;
	if (step_input_wants(k, t) && step_threads_load(t))
		look_at_call(k, t);
}

void step_input_stepped(struct step_tracer *k, struct step_thread *t)
{
	if (step_input_wants(k, t) && step_threads_load(t))
		look_at_call(k, t);
}
