/*
 * step_pointees - what the parameters of open calls pointed to when they were entered, so that it is seen at their
 * return what has become of it.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_POINTEES_H
#define WATCHCTL_STEP_MODEL_STEP_POINTEES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/step/insn/fetch_run.h"

struct kept_pointee;

/* Zero-initialised is empty. */
struct step_pointees {
	struct kept_pointee *v; /* of open calls, in the order of their numbers */
	size_t n, cap;
};

/* Keeps what the fetches of @l that are to be made again gave at the entry of @call. False: no memory. */
bool step_pointees_keep(struct step_pointees *p, uint64_t call, const struct fetch_list *l,
			const struct fetched *f, const struct memory_view *memory);

/* A change: as RETURN_POINTEE of call_values.h, but by the number of the fetch. */
struct changed_pointee {
	uint8_t fetch, state;
	const uint8_t *bytes, *changed;
	uint32_t len;
};

/* Reads it again, tells what has changed, and forgets the call. @s NULL: only forgets it. */
void step_pointees_end(struct step_pointees *p, uint64_t call, const struct fetch_source *s,
		       void (*changed)(void *ctx, const struct changed_pointee *c), void *ctx);

/* Whether a function of that name gives back the memory that its first parameter points to. */
bool step_pointees_frees(const char *name);

/* The memory at @address has been given back: what it holds from now on is nobody's, and is forgotten. */
void step_pointees_drop(struct step_pointees *p, uint64_t address);

/* Of all calls. */
void step_pointees_forget(struct step_pointees *p);

void step_pointees_deinit(struct step_pointees *p);

#endif
