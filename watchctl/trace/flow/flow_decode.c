#include "watchctl/trace/flow/flow_decode.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#define KIND_SHIFT 9
#define KIND_MASK 15u
#define IS_NEW_SHIFT 4
#define CALL_MASK 511u
#define SHORT_SHIFT 13 /* of what is behind a call and a kind */
#define PORT_MASK 0xffff0000u

static uint64_t wide(const uint32_t *word)
{
	return word[0] | (uint64_t)word[1] << 32;
}

static void decode_other(uint32_t word, struct flow_event *e)
{
	e->other = (int32_t)(word & FLOW_TID_MASK);
	e->why = (uint8_t)(word >> FLOW_TID_BITS);
}

static void decode_call(uint32_t word, struct flow_event *e)
{
	e->call = (uint16_t)(word & CALL_MASK);
	e->result = (int32_t)word >> KIND_SHIFT;
}

static void decode_call_on(const uint32_t *word, struct flow_event *e)
{
	e->call = (uint16_t)(word[0] & CALL_MASK);
	e->kind = word[0] >> KIND_SHIFT & KIND_MASK;
	e->result = (int32_t)word[0] >> SHORT_SHIFT;
	e->object = word[1];
}

static void decode_futex(const uint32_t *word, struct flow_event *e)
{
	e->call = SYS_futex;
	e->op = word[0] & CALL_MASK;
	e->address = wide(word + 1);
}

static void decode_wait_futex(const uint32_t *word, struct flow_event *e)
{
	decode_futex(word, e);
	e->has_words = word[0] >> KIND_SHIFT & 1;
	if (e->has_words)
		memcpy(e->word, word + 3, sizeof(e->word));
}

static void decode_name(const uint32_t *word, struct flow_event *e)
{
	decode_other(word[0], e);
	e->pid = (int32_t)word[1];
	e->parent = (int32_t)word[2];
	memcpy(e->comm, word + 3, sizeof(e->comm) - 1);
}

static void decode_socket(const uint32_t *word, struct flow_event *e)
{
	e->kind = word[0] & KIND_MASK;
	e->why = word[0] >> IS_NEW_SHIFT & 1;
	e->object = word[1];
	e->word[0] = e->kind == FLOW_KIND_UNIX ? word[2] : word[0] >> 16 | (word[2] & PORT_MASK);
	e->word[1] = word[3];
	e->word[2] = word[4];
}

static void decode_stack(const uint32_t *word, struct flow_event *e)
{
	e->depth = word[0] & 0xff;
	for (uint32_t i = 0; i < e->depth; i++)
		e->ip[i] = wide(word + 1 + 2 * (size_t)i);
}

static void decode_wait(uint32_t id, const uint32_t *word, struct flow_event *e)
{
	decode_other(word[0], e);
	if (id == FLOW_WAIT_CALL || id == FLOW_WAIT_ON)
		e->call = (uint16_t)(word[1] & CALL_MASK);
	if (id == FLOW_WAIT_ON) {
		e->kind = word[1] >> KIND_SHIFT & KIND_MASK;
		e->op = word[1] >> SHORT_SHIFT;
		e->object = word[2];
	}
	if (id == FLOW_WAIT_FUTEX)
		decode_wait_futex(word + 1, e);
}

static void decode_signal(const uint32_t *word, struct flow_event *e)
{
	e->other = (int32_t)(word[0] & FLOW_TID_MASK);
	e->op = word[0] >> FLOW_TID_BITS;
	e->why = (uint8_t)word[1];
}

/* @word: behind the head. */
static void decode_fields(uint32_t id, const uint32_t *word, struct flow_event *e)
{
	switch (id) {
	case FLOW_SWITCH:
	case FLOW_WAIT_CALL:
	case FLOW_WAIT_ON:
	case FLOW_WAIT_FUTEX:
		decode_wait(id, word, e);
		break;
	case FLOW_WAKING:
	case FLOW_EXEC:
		decode_other(word[0], e);
		break;
	case FLOW_FORK:
		decode_other(word[0], e);
		e->why &= 1;
		break;
	case FLOW_NAME:
		decode_name(word, e);
		break;
	case FLOW_EXIT:
	case FLOW_LOST:
		e->result = word[0];
		break;
	case FLOW_CALL:
		decode_call(word[0], e);
		break;
	case FLOW_CALL_BIG:
		decode_call(word[0], e);
		e->result = (int64_t)wide(word + 1);
		break;
	case FLOW_CALL_ON:
		decode_call_on(word, e);
		break;
	case FLOW_CALL_ON_BIG:
		decode_call_on(word, e);
		e->result = (int64_t)wide(word + 2);
		break;
	case FLOW_CALL_FUTEX:
		decode_futex(word, e);
		e->result = (int32_t)word[0] >> KIND_SHIFT;
		break;
	case FLOW_SIGNAL:
		decode_signal(word, e);
		break;
	case FLOW_SIGNAL_TAKEN:
		e->op = word[0] & 0xff;
		break;
	case FLOW_SOCKET:
		decode_socket(word, e);
		break;
	case FLOW_STACK:
		decode_stack(word, e);
		break;
	default:
		e->object = word[0]; /* timer, work, request */
	}
}

static uint32_t short_id(uint32_t id)
{
	return id == FLOW_CALL_BIG ? FLOW_CALL : id == FLOW_CALL_ON_BIG ? FLOW_CALL_ON : id;
}

void flow_decode(const uint32_t *word, struct flow_event *ret)
{
	const uint32_t id = word[0] & FLOW_ID_MASK;

	/* Only a stack has addresses: the others are not cleared by the million. */
	memset(ret, 0, offsetof(struct flow_event, ip));
	ret->id = short_id(id);
	decode_fields(id, word + 1, ret);
}
