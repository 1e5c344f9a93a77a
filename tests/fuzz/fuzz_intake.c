/*
 * All that the controller makes of the record ring, with a target that writes there while it reads: sizes and
 * counts that were just checked are others at the next look. What comes out are events that a log can hold,
 * of the target and nobody else, and no more than there was room for.
 *
 * Input: 1 byte of flags, 2 bytes of `head`, 4 bytes that the changes come from, the rest is the ring.
 */
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "watchctl/engine/intake/intake.h"

#define RING_SIZE 4096u
#define AREA_SIZE (WIRE_CONTROL_SIZE + RING_SIZE)
#define KEY 0x1122334455667788ull
#define PASSES 4

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target's memory, and what will happen to it. */
static struct {
	uint8_t bytes[AREA_SIZE];
	uint32_t random;
	bool changes;
	uint64_t last; /* the record that was looked at last */
} target;

static struct intake
	*intake; /* lives on: a look at the target's modules for each input would take too long */
static pid_t pid;
static unsigned int accesses;

static void require(bool claim)
{
	if (!claim)
		abort();
}

static uint32_t random_number(void)
{
	target.random ^= target.random << 13;
	target.random ^= target.random >> 17;
	target.random ^= target.random << 5;
	return target.random;
}

/* Mostly where it hurts: in the head of the record that is being read. */
static void change(void)
{
	static const uint32_t values[] = {
		0, 1, 8, 16, 64, 65, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0xffffffff
	};
	uint32_t how = random_number(), value = values[how % 11];
	uint64_t at =
		how & 256 ? target.last + (how >> 9) % sizeof(struct wire_record) : (how >> 9) % AREA_SIZE;

	if (!target.changes || !(how & 0xe0) || at + sizeof(value) > AREA_SIZE)
		return;
	memcpy(target.bytes + at, &value, sizeof(value));
}

static bool read_target(void *ctx, uint64_t offset, void *buf, size_t len)
{
	(void)ctx;
	require(offset <= AREA_SIZE && len <= AREA_SIZE - offset);
	if (offset >= WIRE_CONTROL_SIZE)
		target.last = offset;
	memcpy(buf, target.bytes + offset, len);
	change();
	return true;
}

static bool write_target(void *ctx, uint64_t offset, const void *buf, size_t len)
{
	(void)ctx;
	if (offset <= AREA_SIZE && len <= AREA_SIZE - offset) /* the tables lie elsewhere */
		memcpy(target.bytes + offset, buf, len);
	return true;
}

static struct wc_error *check(void *ctx, const struct trace_event *e)
{
	const struct access_event *a = &e->access;

	(void)ctx;
	if (e->type == EVENT_THREAD)
		require(e->thread.pid == pid);
	require(e->type != EVENT_PROCESS);
	if (e->type != EVENT_ACCESS)
		return NULL;
	require(a->pid == pid && a->watch < WIRE_WATCHES && a->size >= 1 && a->size <= 8);
	require(a->nframes >= 1 && a->nframes <= STACK_MAX && a->walk_end <= WALK_END_UNKNOWN_PC);
	require(!a->in_kernel && a->kernel_kind <= ACCESS_EXECUTE);
	accesses++;
	return NULL;
}

static bool no_child(void *ctx, pid_t pid)
{
	(void)ctx;
	(void)pid;
	return false;
}

/* A process with code of its own, which ends with us. */
static pid_t start_target(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct wire_area area = { .read = read_target, .write = write_target };
	const struct wire_control layout = { .ring_offset = WIRE_CONTROL_SIZE,
					     .ring_size = RING_SIZE,
					     .commit_key = KEY };
	static const struct watchpoint watches[] = {
		{ .id = 0, .addr = 0x7f0000001000, .size = 4, .access = ACCESS_WRITE, .slot = -1 },
		{ .id = 1, .addr = 0x7f0000002000, .size = 8, .access = ACCESS_READ, .slot = -1 },
		{ .id = 2, .addr = 0x401000, .size = 1, .access = ACCESS_EXECUTE, .slot = -1 },
		{ .id = 3, .addr = 0x7f0000003000, .size = 1, .access = ACCESS_READWRITE, .slot = -1 },
	};
	unsigned int i;

	(void)argc;
	(void)argv;
	pid = start_target();
	intake = calloc(1, sizeof(*intake));
	require(pid > 0 && intake);
	require(!intake_init(intake, pid, &(struct engine_options){ .frames = 32 },
			     (struct event_sink){ check, NULL }, &area, &layout));
	intake->who.alone = true;
	intake->who.is_child = no_child;
	for (i = 0; i < sizeof(watches) / sizeof(watches[0]); i++)
		intake_arm(intake, i, &watches[i]);
	return 0;
}

/* Follows the sizes, as a handler would have laid the records. */
static void commit_all(uint8_t *ring)
{
	uint64_t position = 0, word;
	uint32_t size;

	while (position < RING_SIZE) {
		word = position ^ KEY;
		memcpy(ring + position, &word, sizeof(word));
		memcpy(&size, ring + position + offsetof(struct wire_record, size), sizeof(size));
		if (!size || size % 16 || size > RING_SIZE - position)
			return;
		position += size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t head;
	unsigned int i;
	bool any;

	if (size < 8)
		return 0;
	memset(target.bytes, 0, sizeof(target.bytes));
	head = (uint64_t)(data[1] | data[2] << 8) & ~15ull;
	memcpy(target.bytes + offsetof(struct wire_control, head), &head, sizeof(head));
	memcpy(&target.random, data + 3, sizeof(target.random));
	target.random |= 1;
	target.changes = data[0] & 1;
	memcpy(target.bytes + WIRE_CONTROL_SIZE, data + 7, size - 7 < RING_SIZE ? size - 7 : RING_SIZE);
	commit_all(target.bytes + WIRE_CONTROL_SIZE);
	intake->ring.tail = 0;
	intake->corrupt = intake->hook_hit = false;
	accesses = 0;
	for (i = 0; i < PASSES; i++)
		require(!intake_pass(intake, &any));
	require(!intake_hand_out(intake));
	require(accesses <= PASSES * RING_SIZE / sizeof(struct wire_record) + PASSES);
	return 0;
}
