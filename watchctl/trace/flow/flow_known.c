#include "watchctl/trace/flow/flow_known.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

#define SOCKET_KIND_MASK 15u

struct flow_known_entry {
	uint32_t word[FLOW_WORDS_MAX];
	uint32_t generation; /* that a socket was last seen in */
	bool has_ended;
	uint64_t ended_ns;
};

static bool is_thread(const struct flow_known_entry *e)
{
	return (e->word[0] & FLOW_ID_MASK) == FLOW_NAME;
}

static bool put_entry(struct flow_known *k, struct flow_known_entry *e)
{
	return is_thread(e) ? id_map_put(&k->thread, e->word[1] & FLOW_TID_MASK, e)
			    : map64_put(&k->socket, e->word[2], e);
}

static bool add_entry(struct flow_known *k, const uint32_t *word, uint32_t generation)
{
	struct flow_known_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	memcpy(e->word, word, flow_words(word[0], word[1]) * sizeof(*word));
	e->generation = generation;
	if (!vec_push(k->all, k->n, k->cap, e)) {
		free(e);
		return false;
	}
	return put_entry(k, e);
}

static bool note_name(struct flow_known *k, const uint32_t *word)
{
	struct flow_known_entry *e = id_map_get(&k->thread, word[1] & FLOW_TID_MASK);

	if (!e)
		return add_entry(k, word, 0);
	memcpy(e->word, word, FLOW_WORDS_MAX * sizeof(*word));
	e->has_ended = false;
	return true;
}

static bool note_socket(struct flow_known *k, const uint32_t *word, uint32_t generation)
{
	struct flow_known_entry *e = map64_get(&k->socket, word[2]);

	if (!e)
		return add_entry(k, word, generation);
	memcpy(e->word, word, flow_words(word[0], 0) * sizeof(*word));
	e->generation = generation;
	return true;
}

static void note_object(struct flow_known *k, uint32_t kind, uint32_t object, uint32_t generation)
{
	struct flow_known_entry *e = NULL;

	if (kind == FLOW_KIND_UNIX || kind == FLOW_KIND_INET)
		e = map64_get(&k->socket, object);
	if (e)
		e->generation = generation;
}

static void note_end(struct flow_known *k, uint32_t tid, uint64_t time_ns)
{
	struct flow_known_entry *e = tid == UINT32_MAX ? NULL : id_map_get(&k->thread, tid);

	if (!e)
		return;
	e->has_ended = true;
	e->ended_ns = time_ns;
}

bool flow_known_note(struct flow_known *k, const uint32_t *word, uint32_t tid, uint64_t time_ns,
		     uint32_t generation)
{
	switch (word[0] & FLOW_ID_MASK) {
	case FLOW_NAME:
		return note_name(k, word);
	case FLOW_SOCKET:
		return note_socket(k, word, generation);
	case FLOW_EXIT:
		note_end(k, tid, time_ns);
		return true;
	case FLOW_WAIT_ON:
		note_object(k, word[2] >> 9 & SOCKET_KIND_MASK, word[3], generation);
		return true;
	case FLOW_CALL_ON:
	case FLOW_CALL_ON_BIG:
		note_object(k, word[1] >> 9 & SOCKET_KIND_MASK, word[2], generation);
		return true;
	default:
		return true;
	}
}

static bool is_needed(const struct flow_known_entry *e, uint64_t time_ns, uint32_t generation)
{
	return is_thread(e) ? !e->has_ended || e->ended_ns >= time_ns : e->generation >= generation;
}

bool flow_known_forget(struct flow_known *k, uint64_t time_ns, uint32_t generation)
{
	struct flow_known kept = { 0 };
	bool ok = true;

	for (size_t i = 0; i < k->n && ok; i++)
		if (is_needed(k->all[i], time_ns, generation))
			ok = vec_push(kept.all, kept.n, kept.cap, k->all[i]) && put_entry(&kept, k->all[i]);
	if (ok)
		for (size_t i = 0; i < k->n; i++)
			if (!is_needed(k->all[i], time_ns, generation))
				free(k->all[i]);
	if (!ok) {
		struct flow_known swap = *k;

		*k = kept;
		kept = swap;
	}
	id_map_deinit(&k->thread);
	map64_deinit(&k->socket);
	free(k->all);
	*k = kept;
	return ok;
}

const uint32_t *flow_known_event(const struct flow_known *k, size_t i, uint32_t *words)
{
	const struct flow_known_entry *e = k->all[i];

	*words = flow_words(e->word[0], e->word[1]);
	return e->word;
}

void flow_known_deinit(struct flow_known *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->all[i]);
	free(k->all);
	id_map_deinit(&k->thread);
	map64_deinit(&k->socket);
	*k = (struct flow_known){ 0 };
}
