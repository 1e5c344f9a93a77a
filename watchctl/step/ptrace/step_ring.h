/* step_ring - records from the tracer to the owner (step_box.h says how they lie there). */
#ifndef WATCHCTL_STEP_PTRACE_STEP_RING_H
#define WATCHCTL_STEP_PTRACE_STEP_RING_H

#include "watchctl/step/model/step_box.h"

/* Bytes that @r takes in the ring. */
uint32_t step_wire_size(const struct step_record *r);

/* Writes @r with all that its pointers lead to; @w has step_wire_size() bytes, aligned to 8. */
void step_wire_put(struct wire_step *w, const struct step_record *r);

/* Room for @size bytes; NULL: there is none now. Only the tracer writes. *@ret_at goes to step_ring_commit().
 */
struct wire_step *step_ring_room(struct step_box *box, uint32_t size, uint64_t *ret_at);
void step_ring_commit(struct step_box *box, uint64_t at, uint32_t size);

/* What a record's pointers lead to, of the one read last. */
struct step_unwired {
	struct step_record record;
	struct track_call call;
	struct fetched fetched;
	uint64_t next; /* where the ring goes on once it is not needed any more */
};

/* The next record, if there is one; its stack and sentence lie in the ring. */
bool step_ring_read(const struct step_box *box, struct step_unwired *ret);

#endif
