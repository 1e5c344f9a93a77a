/*
 * A binary heap of threads, the one whose next event is earliest first. The reader has room for one batch: each thread
 * keeps a copy of its own, which it has only from when its time comes until it ends. So threads that do not overlap
 * cost no more than one.
 */
#include "watchctl/trace/calls/call_merge_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"

/* The heap */

static bool is_before(const struct heap_entry *a, const struct heap_entry *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->thread < b->thread;
}

/* The first entry has got another time. */
static void sift_down(struct call_merge *m)
{
	const struct heap_entry e = m->heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < m->n) {
		if (child + 1 < m->n && is_before(&m->heap[child + 1], &m->heap[child]))
			child++;
		if (!is_before(&m->heap[child], &e))
			break;
		m->heap[i] = m->heap[child];
		i = child;
	}
	m->heap[i] = e;
}

static void go_on_at(struct call_merge *m, uint64_t time_ns)
{
	/* A clock that goes back, in a file that somebody has made, must not. */
	if (time_ns <= m->heap[0].time_ns)
		return;
	m->heap[0].time_ns = time_ns;
	if (m->n > 1)
		sift_down(m);
}

static int by_time(const void *a, const void *b)
{
	return is_before(a, b) ? -1 : 1;
}

/* Batches */

static void thread_deinit(struct merge_thread *t)
{
	free(t->event);
	free(t->open);
	free(t->value);
	free(t->bytes);
	free(t->result_to);
	t->event = NULL;
	t->open = NULL;
	t->value = NULL;
	t->bytes = NULL;
	t->result_to = NULL;
}

static enum call_word kind_of(const struct merge_value *v)
{
	return v->word & 0xff;
}

static uint32_t count_of(uint64_t word)
{
	return word >> CALL_BYTES_COUNT_SHIFT & CALL_BYTES_COUNT_MASK;
}

static enum value_state state_of(uint64_t word)
{
	return word >> CALL_BYTES_STATE_SHIFT & 0xf;
}

static uint32_t values_of(uint64_t word)
{
	return word >> CALL_VALUES_COUNT_SHIFT & CALL_VALUES_COUNT_MASK;
}

/* How many bytes are behind the first word; false: it makes no sense. */
static bool has_bytes(uint64_t word, size_t *ret)
{
	const enum value_state state = state_of(word);

	*ret = (word & 0xff) == CALL_WORD_VALUES ? values_of(word) : count_of(word);
	return (word & 0xff) == CALL_WORD_VALUES ||
	       (*ret <= CALL_BYTES_MAX &&
		(state == VALUE_OK || state == VALUE_CUT || state == VALUE_UNREADABLE));
}

/* False: no memory. */
static bool keep_bytes(struct merge_thread *t, const struct call_more *more)
{
	const uint64_t word = more->word[0];
	const struct merge_value v = { .at = more->at, .word = word, .value = t->nbytes };
	size_t words;

	if (!has_bytes(word, &words))
		return true;
	words = (words + 7) / 8;
	if (more->n < 1 + words)
		return true;
	for (size_t i = 0; i < words; i++)
		if (!vec_push(t->bytes, t->nbytes, t->bytes_cap, more->word[1 + i]))
			return false;
	return vec_push(t->value, t->nvalues, t->value_cap, v);
}

static bool keep_values(struct merge_thread *t, const struct call_batch *b)
{
	t->value_at = t->nvalues = t->nbytes = 0;
	t->with.word = 0; /* they are in the packet of their event */
	for (size_t i = 0; i < b->nmore; i++) {
		const struct call_more *more = &b->more[i];
		const struct merge_value v = { more->at, more->word[0], more->n > 1 ? more->word[1] : 0,
					       more->n > 2 ? more->word[2] : 0 };

		if (kind_of(&v) == CALL_WORD_BYTES || kind_of(&v) == CALL_WORD_VALUES) {
			if (!keep_bytes(t, more))
				return false;
			continue;
		}
		if ((more->n > 1 || kind_of(&v) == CALL_WORD_MARK) &&
		    !vec_push(t->value, t->nvalues, t->value_cap, v))
			return false;
	}
	return true;
}

bool call_merge_keep_batch(struct merge_thread *t, const struct call_batch *b)
{
	if (b->n > t->event_cap) {
		struct merge_event *bigger = reallocarray(t->event, b->n, sizeof(*bigger));

		if (!bigger)
			return false;
		t->event = bigger;
		t->event_cap = b->n;
	}
	for (size_t i = 0; i < b->n; i++)
		t->event[i] = (struct merge_event){ b->time_ns[i], b->function[i], b->what[i] };
	t->at = 0;
	t->n = b->n;
	return keep_values(t, b);
}

static const uint8_t *bytes_of(const struct merge_thread *t, const struct merge_value *v)
{
	return count_of(v->word) ? (const uint8_t *)(t->bytes + v->value) : NULL;
}

/* Its target comes behind a result. False: no memory. */
static bool keep_result_to(struct merge_thread *t, const struct merge_value *v)
{
	const uint8_t *bytes = bytes_of(t, v);

	if (!t->result_to)
		t->result_to = malloc(sizeof(*t->result_to));
	if (!t->result_to)
		return false;
	t->result_to->word = v->word;
	if (bytes)
		memcpy(t->result_to->bytes, bytes, count_of(v->word));
	return true;
}

static uint32_t number_of(const struct merge_value *v)
{
	return v->word >> CALL_WORD_NUMBER_SHIFT & 0xff;
}

void call_merge_forget_result(struct merge_thread *t)
{
	t->result.word = t->mark = t->with.word = 0;
	if (t->result_to)
		t->result_to->word = 0;
}

uint8_t call_merge_mark(const struct merge_thread *t, uint32_t function)
{
	return t->mark && call_word_function(t->mark) == function
		       ? (uint8_t)(t->mark >> CALL_WORD_NUMBER_SHIFT)
		       : 0;
}

/* How many calls inside of the one of @function that ends next stay open. */
static size_t stay_open(const struct merge_thread *t, uint32_t function)
{
	const size_t n = t->mark >> CALL_MARK_INSIDE_SHIFT & CALL_MARK_INSIDE_MAX;

	return t->mark && call_word_function(t->mark) == function && n < t->nopen ? n : 0;
}

bool call_merge_take_values(struct merge_thread *t)
{
	for (; t->value_at < t->nvalues && t->value[t->value_at].at <= t->at; t->value_at++) {
		const struct merge_value *v = &t->value[t->value_at];

		if (kind_of(v) == CALL_WORD_RESULT) {
			t->result = *v;
			if (t->result_to)
				t->result_to->word = 0;
		} else if (kind_of(v) == CALL_WORD_MARK) {
			t->mark = v->word;
		} else if (kind_of(v) == CALL_WORD_VALUES) {
			t->with = *v;
		} else if (kind_of(v) == CALL_WORD_EVENT) {
			t->own = *v;
		} else if (kind_of(v) == CALL_WORD_BYTES && number_of(v) == CALL_BYTES_RESULT &&
			   !keep_result_to(t, v)) {
			return false;
		}
	}
	return true;
}

/* The next batch of the thread, or its end. */
static struct wc_error *load(struct call_merge *m, struct merge_thread *t)
{
	struct call_damage before, after;
	struct call_batch b;
	bool more, torn;

	if (!call_merge_take_values(t))
		return &wc_enomem;
	call_reader_damage(m->reader, &before);
	more = call_reader_next(m->reader, (size_t)(t - m->thread), &b);
	call_reader_damage(m->reader, &after);
	m->packets_read++;
	t->lost = after.discarded - before.discarded;
	torn = more ? b.torn : t->lost || after.packets != before.packets;
	if (t->lost)
		t->pending |= PENDING_LOST;
	if (torn && (!t->lost || after.packets != before.packets))
		t->pending |= PENDING_NOTE | PENDING_MISSING;
	t->follows_gap |= torn;
	t->ended = !more;
	t->ending = torn ? RETURN_UNKNOWN : more ? 0 : RETURN_NEVER;
	t->before += t->n;
	t->at = t->n = 0;
	if (!more)
		return NULL;
	if (!call_merge_keep_batch(t, &b) || !call_merge_keep_packet(m, t, b.packet))
		return &wc_enomem;
	go_on_at(m, t->event[0].time_ns);
	return NULL;
}

/* Events */

static const struct trace_event *tell_pending(struct call_merge *m, struct merge_thread *t, uint64_t time_ns)
{
	struct call_damage d;

	call_reader_damage(m->reader, &d);
	m->other = (struct trace_event){ .time_ns = time_ns };
	if (t->pending & PENDING_LOST) {
		t->pending &= ~(unsigned int)PENDING_LOST;
		m->other.type = EVENT_LOST;
		m->other.lost =
			(struct lost_event){ WATCH_CALLS, t->lost, "discarded by what recorded the calls" };
	} else if (t->pending & PENDING_NOTE) {
		t->pending &= ~(unsigned int)PENDING_NOTE;
		snprintf(m->text, sizeof(m->text), "calls of thread %d are missing here: %s", t->is.tid,
			 d.why ? d.why : "a packet is not there");
		m->other.type = EVENT_NOTE;
		m->other.note.text = m->text;
	} else {
		t->pending = 0;
		m->other.type = EVENT_MISSING;
		m->other.missing = (struct missing_event){ .from_ns = t->last_ns,
							   .to_ns = t->ended ? 0 : time_ns,
							   .why = d.why ? d.why : "a packet is not there" };
	}
	return &m->other;
}

uint32_t call_merge_shown_id(const struct call_merge *m, uint32_t function)
{
	const struct merge_function *f = id_map_get(&m->functions, function);

	return f ? f->id : function;
}

/* Values */

static void *of_type(const struct type_event *t)
{
	return (void *)(((uintptr_t)t->size << 8 | (uintptr_t)t->kind) + 1);
}

/* Appends @value, or that there is none, of the type @id. @to: what it points to, whose bytes are @bytes; 0: not known. */
static void put_value(struct call_merge *m, uint32_t id, const uint64_t *value, uint64_t to,
		      const uint8_t *bytes, size_t *len)
{
	const uintptr_t type = (uintptr_t)id_map_get(&m->types, id);
	const enum type_kind kind = type ? (enum type_kind)((type - 1) & 0xff) : TYPE_UNKNOWN;
	const uint32_t size = type ? (uint32_t)((type - 1) >> 8) : 0;
	struct call_value v = { .state = VALUE_NONE, .to_state = VALUE_NONE };

	if (value && size && size <= sizeof(*value)) {
		v.state = VALUE_OK;
		v.bytes = (const uint8_t *)value;
		v.size = size;
		if ((kind == TYPE_POINTER || kind == TYPE_STRING) && !*value) {
			v.to_state = VALUE_NULL;
		} else if (to) {
			v.to_state = state_of(to);
			v.to = bytes;
			v.to_len = count_of(to);
		}
	}
	call_values_put(m->values, CALL_VALUES_MAX, len, kind, &v);
}

static const struct merge_function *typed_function(const struct call_merge *m, uint32_t function)
{
	const struct merge_function *f = id_map_get(&m->functions, function);

	return f && m->values ? f : NULL;
}

static uint32_t function_of(const struct merge_value *v)
{
	return call_word_function(v->word);
}

static bool has_values(const struct merge_thread *t)
{
	return t->value_at < t->nvalues && t->value[t->value_at].at == t->at;
}

static void put_parameters(struct call_merge *m, struct merge_thread *t, struct call_event *c)
{
	const struct merge_function *f = typed_function(m, c->function);
	const uint64_t *value[FUNCTION_PARAMS_MAX] = { 0 };
	const struct merge_value *to[FUNCTION_PARAMS_MAX] = { 0 };
	size_t len = 0, n = 0;

	for (; has_values(t); t->value_at++) {
		const struct merge_value *v = &t->value[t->value_at];
		const uint32_t number = number_of(v);

		if (kind_of(v) != CALL_WORD_VALUE &&
		    (kind_of(v) != CALL_WORD_BYTES || number == CALL_BYTES_RESULT))
			break;
		if (!f || call_merge_shown_id(m, function_of(v)) != c->function || number >= f->nparams)
			continue;
		if (kind_of(v) == CALL_WORD_BYTES) {
			to[number] = v;
		} else {
			value[number] = &v->value;
			n++;
		}
	}
	for (uint32_t i = 0; n && i < f->nparams; i++)
		put_value(m, f->param[i], value[i], to[i] ? to[i]->word : 0,
			  to[i] ? bytes_of(t, to[i]) : NULL, &len);
	if (n) {
		c->values = m->values;
		c->values_len = (uint32_t)len;
	}
}

/* Those that came in one piece; false: none did. *@ret: @len bytes, the first of which may be errno. */
static bool whole_values(const struct call_merge *m, const struct merge_thread *t, uint32_t function,
			 const uint8_t **ret, uint32_t *len)
{
	if (!t->with.word || call_merge_shown_id(m, function_of(&t->with)) != function)
		return false;
	*len = values_of(t->with.word);
	*ret = (const uint8_t *)(t->bytes + t->with.value);
	return *len;
}

void call_merge_put_parameters(struct call_merge *m, struct merge_thread *t, struct call_event *c)
{
	c->values = NULL;
	c->values_len = 0;
	if (whole_values(m, t, c->function, &c->values, &c->values_len))
		return;
	if (has_values(t))
		put_parameters(m, t, c);
}

/* The first of the values is errno, if @has_errno. */
static void put_errno(bool has_errno, struct return_event *r)
{
	r->has_error = has_errno && r->values_len >= sizeof(r->error);
	if (!r->has_error)
		return;
	memcpy(&r->error, r->values, sizeof(r->error));
	r->values += sizeof(r->error);
	r->values_len -= (uint32_t)sizeof(r->error);
}

void call_merge_put_result(struct call_merge *m, struct merge_thread *t, struct return_event *r)
{
	const struct merge_pointee *to = t->result_to;
	const struct merge_function *f;
	size_t len = 0;

	r->values = NULL;
	r->values_len = 0;
	r->has_error = false;
	if (whole_values(m, t, r->function, &r->values, &r->values_len)) {
		put_errno(number_of(&t->with) == CALL_VALUES_ERRNO, r);
		return;
	}
	if (r->how != RETURN_RETURNED || kind_of(&t->result) != CALL_WORD_RESULT)
		return;
	f = typed_function(m, r->function);
	if (!f || call_merge_shown_id(m, function_of(&t->result)) != r->function)
		return;
	if (to && call_merge_shown_id(m, (uint32_t)(to->word >> CALL_WORD_FUNCTION_SHIFT)) != r->function)
		to = NULL;
	put_value(m, f->return_type, &t->result.value, to ? to->word : 0, to ? to->bytes : NULL, &len);
	r->values = m->values;
	r->values_len = (uint32_t)len;
}

/* The innermost open call ends, but for @inside. NULL: it was left out. */
static const struct trace_event *end_call(struct call_merge *m, struct merge_thread *t, size_t inside,
					  enum return_how how, uint64_t time_ns)
{
	const size_t i = t->nopen - 1 - inside;
	const struct merge_open o = t->open[i];

	memmove(&t->open[i], &t->open[i + 1], inside * sizeof(o));
	t->nopen--;
	if (o.left_out)
		return NULL;
	t->nshown--;
	m->ret.time_ns = time_ns;
	m->ret.ret.call = o.call;
	m->ret.ret.pid = t->is.pid;
	m->ret.ret.tid = t->is.tid;
	m->ret.ret.function = o.function;
	m->ret.ret.how = how;
	call_merge_put_result(m, t, &m->ret.ret);
	return &m->ret;
}

/* *@ret is NULL: the call is left out. False: no memory. */
static bool begin_call(struct call_merge *m, struct merge_thread *t, uint32_t function, uint64_t time_ns,
		       const struct trace_event **ret)
{
	const struct merge_function *f = id_map_get(&m->functions, function);
	const uint64_t parent = t->nopen ? t->open[t->nopen - 1].call : 0;
	struct merge_open o = { parent, f ? f->id : function, !f };
	struct call_event *c = &m->call.call;

	if (!o.left_out)
		o.call = m->sums.calls + 1;
	if (!vec_push(t->open, t->nopen, t->open_cap, o))
		return false;
	*ret = NULL;
	if (o.left_out) {
		if (!m->sums.unknown++)
			m->sums.unknown_function = function;
		return true;
	}
	m->sums.calls++;
	m->call.time_ns = time_ns;
	c->call = o.call;
	c->parent = parent;
	c->pid = t->is.pid;
	c->tid = t->is.tid;
	c->function = o.function;
	c->depth = t->nshown < UINT16_MAX ? (uint16_t)t->nshown : UINT16_MAX;
	c->flags = (parent ? 0 : CALL_FIRST) | call_merge_mark(t, function);
	t->nshown++;
	call_merge_put_parameters(m, t, c);
	*ret = &m->call;
	return true;
}

/* One of a type that was not told has the format of those that name none. */
static const struct trace_event *own_event(struct call_merge *m, const struct merge_thread *t,
					   uint64_t time_ns)
{
	const uint32_t type = function_of(&t->own);
	const char *format = map64_get(&m->formats, type);

	m->own.time_ns = time_ns;
	m->own.probe = (struct probe_event){
		.site = type,
		.pid = t->is.pid,
		.tid = t->is.tid,
		.kind = PROBE_KIND_LOG,
		.format = format ? format : PROBE_SOURCE_FORMAT,
		.nargs = 2,
		.arg = { t->own.value, t->own.second },
	};
	return &m->own;
}

enum return_how call_merge_how(const struct merge_thread *t, const struct merge_event *e)
{
	const uint8_t how = call_merge_mark(t, e->function);

	if (e->what == CALL_EXIT)
		return RETURN_RETURNED;
	return how && how <= RETURN_UNKNOWN ? how : RETURN_UNKNOWN;
}

/* The next event of the batch; *@ret is NULL: it is none for others. */
static struct wc_error *take_event(struct call_merge *m, struct merge_thread *t, uint64_t time_ns,
				   const struct trace_event **ret)
{
	const struct merge_event e = t->event[t->at];

	if (!call_merge_take_values(t))
		return &wc_enomem;
	t->at++;
	t->last_ns = m->sums.last_ns = time_ns;
	*ret = NULL;
	if (e.what == CALL_MORE) {
		*ret = own_event(m, t, time_ns);
	} else if (e.what == CALL_ENTRY) {
		if (!begin_call(m, t, e.function, time_ns, ret))
			return &wc_enomem;
	} else if (t->nopen) {
		*ret = end_call(m, t, stay_open(t, e.function), call_merge_how(t, &e), time_ns);
	} else if (t->follows_gap) {
		m->sums.exits_behind_gap++;
	} else {
		m->sums.exits_before++;
	}
	if (e.what != CALL_MORE)
		call_merge_forget_result(t); /* it was of this event, or of one that is missing */
	if (*ret && !call_merge_keep_position(m, t, t->before + t->at - 1, 0))
		return &wc_enomem;
	if (t->at < t->n)
		go_on_at(m, t->event[t->at].time_ns);
	return NULL;
}

/* Ends the open calls, one each time; then removes a thread that has ended. *@ret is NULL: none was passed on. */
static struct wc_error *end_open(struct call_merge *m, struct merge_thread *t, uint64_t time_ns,
				 const struct trace_event **ret)
{
	*ret = NULL;
	while (!*ret && t->nopen)
		*ret = end_call(m, t, 0, t->ending, time_ns);
	if (*ret)
		return call_merge_keep_position(m, t, t->before, t->ending) ? NULL : &wc_enomem;
	t->ending = 0;
	if (!t->ended)
		return NULL;
	thread_deinit(t);
	m->heap[0] = m->heap[--m->n];
	if (m->n)
		sift_down(m);
	return NULL;
}

struct wc_error *call_merge_next(struct call_merge *m, uint64_t before_ns, const struct trace_event **ret)
{
	struct wc_error *err = NULL;

	*ret = NULL;
	while (!err && !*ret && m->n && (m->heap[0].time_ns < before_ns || before_ns == UINT64_MAX)) {
		struct merge_thread *t = &m->thread[m->heap[0].thread];
		const uint64_t time_ns = m->heap[0].time_ns;

		if (t->pending)
			*ret = tell_pending(m, t, time_ns);
		else if (t->ending)
			err = end_open(m, t, time_ns, ret);
		else if (t->at < t->n)
			err = take_event(m, t, time_ns, ret);
		else
			err = load(m, t);
	}
	return err;
}

/* @text may be NULL; one that ends is another than one that goes on. */
static uint64_t hash_part(uint64_t h, const char *text)
{
	return hash_bytes(hash_text(h, text ? text : ""), "", 1);
}

/* A function that a compiler has inlined into several files is told for each of them, without code. */
static bool find_same(struct call_merge *m, const struct function_event *e, struct merge_function *f)
{
	const uint64_t place = hash_bytes(HASH_START, &e->line, sizeof(e->line));
	const uint64_t hash = hash_part(hash_part(hash_part(place, e->name), e->file), e->module);
	const struct merge_function *same = map64_get(&m->named, hash);

	if (!e->name || !e->file || !e->line)
		return true;
	if (same && (!same->has_code || !f->has_code)) {
		f->id = same->id;
		return true;
	}
	return same || map64_put(&m->named, hash, f);
}

static bool tell_function(struct call_merge *m, const struct function_event *e)
{
	struct merge_function *f, *old = id_map_get(&m->functions, e->id);
	const uint32_t n = e->nparams < FUNCTION_PARAMS_MAX ? e->nparams : FUNCTION_PARAMS_MAX;
	const bool has_types = n || e->return_type != NO_TYPE;

	f = malloc(sizeof(*f) + n * sizeof(f->param[0]));
	if (!f)
		return false;
	f->id = e->id;
	f->has_code = e->address;
	f->nparams = n;
	f->return_type = e->return_type;
	for (uint32_t i = 0; i < n; i++)
		f->param[i] = e->param[i].type;
	if (has_types && !m->values)
		m->values = malloc(CALL_VALUES_MAX);
	if (old || (has_types && !m->values) || !id_map_put(&m->functions, e->id, f)) {
		free(f);
		return old; /* what was told first holds */
	}
	return find_same(m, e, f);
}

static bool tell_own_event(struct call_merge *m, const struct probe_site_event *e)
{
	char *format;

	if (e->tactic != PROBE_TACTIC_SOURCE || !e->pattern || map64_get(&m->formats, e->id))
		return true;
	format = strdup(e->pattern);
	if (format && map64_put(&m->formats, e->id, format))
		return true;
	free(format);
	return false;
}

bool call_merge_tell(struct call_merge *m, const struct trace_event *e)
{
	if (e->type == EVENT_FUNCTION)
		return tell_function(m, &e->function);
	if (e->type == EVENT_PROBE_SITE)
		return tell_own_event(m, &e->probe_site);
	return e->type != EVENT_TYPE || id_map_put(&m->types, e->type_info.id, of_type(&e->type_info));
}

/* All of it */

static void add_thread(struct call_merge *m, size_t i)
{
	struct merge_thread *t = &m->thread[i];

	call_reader_thread(m->reader, i, &t->is);
	m->packets += t->is.packets;
	m->heap[m->n++] = (struct heap_entry){ t->is.begin_ns, i };
}

struct wc_error *call_merge_open(const char *path, struct call_merge **ret)
{
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(call_merge_closep) struct call_merge *m = NULL;
	struct wc_error *err = call_reader_open(path, &r);
	size_t n;

	*ret = NULL;
	if (err)
		return err;
	n = call_reader_threads(r);
	if (!n)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return &wc_enomem;
	m->reader = take_ptr(r);
	m->thread = calloc(n, sizeof(*m->thread));
	m->heap = calloc(n, sizeof(*m->heap));
	if (!m->thread || !m->heap)
		return &wc_enomem;
	m->nthreads = n;
	m->call = (struct trace_event){ .type = EVENT_CALL };
	m->ret = (struct trace_event){ .type = EVENT_RETURN };
	m->own = (struct trace_event){ .type = EVENT_PROBE };
	for (size_t i = 0; i < n; i++)
		add_thread(m, i);
	qsort(m->heap, n, sizeof(*m->heap), by_time); /* what is sorted is a heap */
	*ret = take_ptr(m);
	return NULL;
}

void call_merge_close(struct call_merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nthreads; i++) {
		thread_deinit(&m->thread[i]);
		free(m->thread[i].packet);
	}
	thread_deinit(&m->again);
	free(m->thread);
	call_runs_deinit(&m->runs);
	free(m->heap);
	id_map_deinit_values(&m->functions, free);
	map64_deinit(&m->named);
	id_map_deinit(&m->types);
	map64_deinit_values(&m->formats, free);
	free(m->values);
	call_reader_close(m->reader);
	free(m);
}

void call_merge_closep(struct call_merge **m)
{
	call_merge_close(*m);
}

void call_merge_sums(const struct call_merge *m, struct call_merge_sums *ret)
{
	*ret = m->sums;
}

void call_merge_damage(const struct call_merge *m, struct call_damage *ret)
{
	call_reader_damage(m->reader, ret);
}

double call_merge_progress(const struct call_merge *m)
{
	return m->packets_read < m->packets ? (double)m->packets_read / (double)m->packets : 1;
}

uint64_t call_merge_last_time(const struct call_merge *m)
{
	uint64_t last = 0;

	for (size_t i = 0; i < m->nthreads; i++)
		if (m->thread[i].is.end_ns > last)
			last = m->thread[i].is.end_ns;
	return last;
}
