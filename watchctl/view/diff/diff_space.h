/*
 * diff_space - what the addresses of a recorded process are: places that mean the same in another run,
 * wherever its libraries, heap and stacks lie there.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_SPACE_H
#define WATCHCTL_VIEW_DIFF_DIFF_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

enum place_kind {
	PLACE_NONE,   /* no address: 0, small numbers, -1 */
	PLACE_STATIC, /* in a module: code or data */
	PLACE_STACK,
	PLACE_DYNAMIC, /* heap, other mappings, and whatever the log has not reported about */
};

struct diff_span {
	uint64_t start, end;
	enum place_kind kind;
	uint64_t bias;	 /* PLACE_STATIC */
	uint64_t module; /* hash of its diff_module_name() */
	uint32_t name;	 /* index of its path; PLACE_STATIC */
};

struct diff_module {
	char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
};

#define SPACE_CACHE 4096 /* a power of 2 */
#define SPACE_HINTS 64u	 /* likewise */
#define SPACE_SMALL_NUMBERS 0x10000u
#define SPACE_USER_END (1ull << 47)

/* Zero-initialised is empty. */
struct diff_space {
	struct diff_span *v; /* by start, without overlaps */
	size_t n, cap;
	uint32_t hint[SPACE_HINTS]; /* the span of the last answer in that part of the addresses */
	struct diff_module *module;
	size_t nmodules, modules_cap;
	bool no_offsets;     /* the files differ: offsets in modules mean nothing */
	const char *program; /* as of diff_module_name(); not owned */
	struct {
		uint64_t addr, site;
	} cache[SPACE_CACHE];
};

struct diff_place {
	enum place_kind kind;
	uint64_t module, offset; /* PLACE_STATIC */
};

/* What is mapped from now on, in place of what overlaps it. False: no memory. */
bool diff_space_add_module(struct diff_space *s, const struct module *m);
bool diff_space_add_region(struct diff_space *s, const struct region_event *r);
bool diff_space_add_stack(struct diff_space *s, uint64_t start, uint64_t end);

/* Few numbers may, and diff_space_find() says PLACE_NONE of the others. */
static inline bool diff_space_may_be_address(uint64_t v)
{
	return v >= SPACE_SMALL_NUMBERS && v < SPACE_USER_END;
}

/* Which hint is that of @addr. */
static inline size_t diff_space_hint(uint64_t addr)
{
	return (addr >> 21) & (SPACE_HINTS - 1);
}

/* Of diff_space_find(): what the hints do not know. */
struct diff_place diff_space_search(struct diff_space *s, uint64_t addr, bool typed);

/* @typed: the value is known to be a pointer; else it must lie in something known, or look much like one. */
static inline struct diff_place diff_space_find(struct diff_space *s, uint64_t addr, bool typed)
{
	const uint32_t hint = s->hint[diff_space_hint(addr)];
	const struct diff_span *span = &s->v[hint];

	if (!diff_space_may_be_address(addr))
		return (struct diff_place){ PLACE_NONE, 0, 0 };
	if (hint < s->n && addr >= span->start && addr < span->end)
		return (struct diff_place){ span->kind, span->module, addr - span->bias };
	return diff_space_search(s, addr, typed);
}

static inline enum place_kind diff_space_kind(struct diff_space *s, uint64_t addr, bool typed)
{
	return diff_space_find(s, addr, typed).kind;
}

/* A number for a code address, the same in every run of the same files; 0: unknown, or they differ. */
uint64_t diff_space_site(struct diff_space *s, uint64_t addr);

/* The last part of a path. */
const char *diff_base_name(const char *path);

/*
 * The name of the module of that path in both logs: by the last part of the path; the program's, by a name that no
 * file has, if @program is the last part of its path. NULL: the program's file has one name in both.
 */
const char *diff_module_name(const char *path, const char *program);

void diff_space_deinit(struct diff_space *s);

#endif
