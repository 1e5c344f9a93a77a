#include "watchctl/view/page/page_tables.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

static uint64_t page_tables_mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static void *number(size_t i)
{
	return (void *)(uintptr_t)(i + 1);
}

/* What map64_get() gave is not NULL. */
static uint32_t index_of(const void *number)
{
	return (uint32_t)((uintptr_t)number - 1);
}

static void set_comm(struct page_thread *t, const char *comm, bool *ok)
{
	if (!comm || (t->comm && strcmp(t->comm, comm) == 0))
		return;
	free(t->comm);
	t->comm = strdup(comm);
	*ok &= t->comm != NULL;
}

uint32_t page_thread(struct page_tables *t, int32_t pid, int32_t tid, const char *comm, bool *ok)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	void *known = map64_get(&t->thread_index, key);
	struct page_thread fresh = { .pid = pid, .tid = tid };

	if (!known) {
		if (t->nthreads >= PAGE_THREADS) {
			t->threads_left_out++;
			return PAGE_REST;
		}
		if (!vec_push(t->thread, t->nthreads, t->thread_cap, fresh) ||
		    !map64_put(&t->thread_index, key, known = number(t->nthreads - 1))) {
			*ok = false;
			return PAGE_REST;
		}
	}
	set_comm(&t->thread[index_of(known)], comm, ok);
	return index_of(known);
}

static bool same_frame(const struct view_frame *a, const struct view_frame *b)
{
	return a->ip == b->ip && a->function == b->function && a->file == b->file && a->line == b->line &&
	       a->module == b->module && a->module_offset == b->module_offset && a->inlined == b->inlined &&
	       a->after == b->after && a->signal == b->signal;
}

static uint64_t frame_hash(const struct view_frame *f)
{
	uint64_t h = page_tables_mix(f->ip, (uintptr_t)f->function);

	return page_tables_mix(h, (uint64_t)f->line << 3 | f->inlined << 2 | f->after << 1 | f->signal);
}

static uint32_t add_frame(struct page_tables *t, const struct view_frame *f, bool *ok)
{
	uint64_t h;
	void *known;

	for (h = frame_hash(f); (known = map64_get(&t->frame_index, h)); h++)
		if (same_frame(&t->frame[index_of(known)], f))
			return index_of(known);
	if (t->nframes >= PAGE_FRAMES)
		return PAGE_REST;
	if (vec_push(t->frame, t->nframes, t->frame_cap, *f) &&
	    map64_put(&t->frame_index, h, number(t->nframes - 1)))
		return (uint32_t)t->nframes - 1;
	*ok = false;
	return PAGE_REST;
}

static bool same_stack(const struct page_tables *t, const struct page_stack *s, const uint32_t *frame,
		       size_t n, enum walk_end end)
{
	return s->n == n && s->end == end &&
	       memcmp(&t->frame_of_stack[s->first], frame, n * sizeof(*frame)) == 0;
}

static uint32_t find_stack(struct page_tables *t, const uint32_t *frame, size_t n, enum walk_end end,
			   uint64_t *hash)
{
	uint64_t h = page_tables_mix(n, end);
	void *known;
	size_t i;

	for (i = 0; i < n; i++)
		h = page_tables_mix(h, frame[i]);
	for (; (known = map64_get(&t->stack_index, h)); h++)
		if (same_stack(t, &t->stack[index_of(known)], frame, n, end))
			return index_of(known);
	*hash = h;
	return PAGE_REST;
}

uint32_t page_stack(struct page_tables *t, const struct view_frame *frame, size_t n, enum walk_end end,
		    bool *ok)
{
	struct page_stack fresh = { .first = (uint32_t)t->nstack_frames, .n = (uint32_t)n, .end = end };
	uint64_t hash = 0;
	uint32_t known, *id;
	bool fits = true;
	size_t i;

	if (t->nstack_frames + n > PAGE_STACK_FRAMES ||
	    !vec_reserve((void **)&t->frame_of_stack, &t->stack_frames_cap, t->nstack_frames + n + 1,
			 sizeof(uint32_t))) {
		*ok &= t->nstack_frames + n > PAGE_STACK_FRAMES;
		t->stacks_left_out++;
		return PAGE_REST;
	}
	id = t->frame_of_stack + t->nstack_frames;
	for (i = 0; i < n; i++) {
		id[i] = add_frame(t, &frame[i], ok);
		fits &= id[i] != PAGE_REST;
	}
	known = fits ? find_stack(t, id, n, end, &hash) : PAGE_REST;
	if (known != PAGE_REST)
		return known;
	if (!fits || t->nstacks >= PAGE_STACKS) {
		t->stacks_left_out++;
		return PAGE_REST;
	}
	if (!vec_push(t->stack, t->nstacks, t->stack_cap, fresh) ||
	    !map64_put(&t->stack_index, hash, number(t->nstacks - 1))) {
		*ok = false;
		return PAGE_REST;
	}
	t->nstack_frames += n;
	return (uint32_t)t->nstacks - 1;
}

/* Exact while there are less than 2^20 threads and stacks and 2^22 places; the bounds are below that. */
static uint64_t combo_key(const struct page_combo *c)
{
	return (uint64_t)c->capture << 62 | (uint64_t)(c->place & 0x3fffff) << 40 |
	       (uint64_t)(c->thread & 0xfffff) << 20 | (c->stack & 0xfffff);
}

uint32_t page_combo(struct page_tables *t, const struct page_combo *c, bool *ok)
{
	struct page_combo fresh = *c;
	void *known = map64_get(&t->combo_index, combo_key(c));

	if (!known && t->ncombos >= PAGE_COMBOS) {
		fresh.thread = fresh.stack = PAGE_REST;
		t->combos_left_out++;
		known = map64_get(&t->combo_index, combo_key(&fresh));
	}
	if (!known) {
		if (!vec_push(t->combo, t->ncombos, t->combo_cap, fresh) ||
		    !map64_put(&t->combo_index, combo_key(&fresh), known = number(t->ncombos - 1))) {
			*ok = false;
			return PAGE_REST;
		}
	}
	t->combo[index_of(known)].n++;
	return index_of(known);
}

void page_tables_deinit(struct page_tables *t)
{
	size_t i;

	for (i = 0; i < t->nthreads; i++)
		free(t->thread[i].comm);
	free(t->thread);
	free(t->frame);
	free(t->stack);
	free(t->frame_of_stack);
	free(t->combo);
	map64_deinit(&t->thread_index);
	map64_deinit(&t->frame_index);
	map64_deinit(&t->stack_index);
	map64_deinit(&t->combo_index);
	*t = (struct page_tables){ 0 };
}
