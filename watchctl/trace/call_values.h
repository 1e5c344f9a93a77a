/*
 * call_values - the bytes of parameters and results in call and return events.
 *
 * One value after the other, in the order of the function's parameters:
 *
 *	u8 state			enum value_state
 *	VALUE_OK: the bytes of the value, as many as its type's size
 *	if its type is a pointer or string, and VALUE_OK:
 *		u8 state		of what it points to
 *		VALUE_OK, _CUT: u16 n, then n bytes: of a string without its NUL byte
 *
 * A type without a size (TYPE_UNKNOWN, size 0) has no value: VALUE_NONE.
 *
 * A return event has the result's value, or none, and then what else is known at that moment, in any order:
 *
 *	u8 RETURN_UNUSED		nobody reads the result, and it may be left over from something else
 *	u8 RETURN_POINTEE		what a parameter points to has changed since the entry:
 *		u8			the parameter, from 0
 *		u8 state, u16 n, bytes	as after a pointer's value; n is 0 in other states than VALUE_OK and _CUT
 *		n / 8 + 1 bytes		a bit for each of them, and for the NUL byte behind a string: it has changed
 *	u8 RETURN_DATA			the function itself, not one that it called, has changed data of a module:
 *		u32			where in the object they are
 *		u8 n, then n bytes	the object's name
 *		u16 n, then n bytes	as they were after its last change there
 *	u8 RETURN_MEMBER		the same of a member of such an object, whose type is known:
 *		u32			the type
 *		u8 n, then n bytes	its path: "table[2].count"
 *		u16 n, then n bytes	its value, as large as its type: of a bit field, too
 *	u8 RETURN_DATA_LEFT_OUT		it may have changed more, which was not looked at
 */
#ifndef WATCHCTL_TRACE_CALL_VALUES_H
#define WATCHCTL_TRACE_CALL_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

#define CALL_VALUE_MAX 1024u   /* bytes of one value: larger structs are VALUE_NONE */
#define CALL_POINTEE_MAX 1024u /* bytes that a pointer shows: more are VALUE_CUT */
#define CALL_VALUES_MAX 65535u /* bytes of all values of an event */

/* Stored in logs: never renumber. */
enum value_state {
	VALUE_OK = 0,
	VALUE_OPTIMIZED_OUT = 1, /* the compiler has left the parameter out */
	VALUE_UNREADABLE = 2,	 /* the memory it lies in, or points to, cannot be read */
	VALUE_CUT = 3,		 /* of what a pointer points to: there is more */
	VALUE_NONE = 4,		 /* not recorded: no such type, or too large */
	VALUE_NULL = 5,		 /* of what a pointer points to: it is 0 */
	VALUE_WITHHELD = 6, /* kept back before it was recorded, see redact.h; never of a pointee alone */
};

/* Stored in logs: never renumber. No value begins like that. */
enum return_extra_kind {
	RETURN_UNUSED = 0x80,
	RETURN_POINTEE = 0x81,
	RETURN_DATA = 0x82,
	RETURN_DATA_LEFT_OUT = 0x83,
	RETURN_MEMBER = 0x84,
};

struct return_extra {
	enum return_extra_kind kind;
	uint8_t param;		/* RETURN_POINTEE */
	enum value_state state; /* RETURN_POINTEE: as call_value's to_state */
	const uint8_t *changed; /* RETURN_POINTEE: RETURN_CHANGED_BYTES(len) of them, the lowest bit first */
	uint32_t offset;	/* RETURN_DATA */
	uint32_t type;		/* RETURN_MEMBER */
	const char *name;	/* RETURN_DATA, RETURN_MEMBER: @name_len characters */
	uint8_t name_len;
	const uint8_t *bytes; /* RETURN_POINTEE, RETURN_DATA, RETURN_MEMBER */
	uint32_t len;
};

#define RETURN_CHANGED_BYTES(len) ((len) / 8u + 1u)

struct call_value {
	enum value_state state;
	const uint8_t *bytes; /* VALUE_OK: @size of them */
	uint32_t size;
	enum value_state to_state; /* of pointers; else VALUE_NONE */
	const uint8_t *to;
	uint32_t to_len;
};

/* Types by id, as their events told them. */
struct type_lookup {
	const struct type_event *(*find)(void *ctx, uint32_t id); /* NULL: not reported */
	void *ctx;
};

/* Iterates; zero-initialise with the event's bytes. */
struct call_values_reader {
	const uint8_t *at, *end;
};

/*
 * The next value, whose type is @type (NULL: not known, then nothing more can be read). False: there is none,
 * or the bytes make no sense.
 */
bool call_values_next(struct call_values_reader *r, const struct type_event *type, struct call_value *ret);

/* Appends @v, whose type has the kind @kind, to @buf of which *len of cap bytes are used. False: no room, and
 * nothing was appended. */
bool call_values_put(uint8_t *buf, size_t cap, size_t *len, enum type_kind kind, const struct call_value *v);

/*
 * The value at the beginning of a return event's bytes, if there is one (*@has); @r is behind it. Without the
 * type of a value that is there, nothing more can be read.
 */
void call_result_read(struct call_values_reader *r, const struct type_event *type, struct call_value *ret,
		      bool *has);

/* After call_result_read(). False: there is no more, or the bytes make no sense. */
bool return_extra_next(struct call_values_reader *r, struct return_extra *ret);

/* Whether a return event's bytes, the result's type being @type, say that nobody reads the result. */
bool call_result_is_unused(const uint8_t *bytes, size_t len, const struct type_event *type);

/* As call_values_put(). */
bool return_extra_put(uint8_t *buf, size_t cap, size_t *len, const struct return_extra *e);

#endif
