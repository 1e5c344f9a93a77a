/*
 * library_plan - the format: a row of numbers of 8 bytes and of texts, each of which has its length in front, a 0 at its end, and is
 * filled up to 8 bytes. The order is that of write_head(), then come the rules, then the probes.
 */
#include "watchctl/patch/library/library_plan.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define MAGIC 0x3130706f7264u /* "drop01": another version has another number */
#define RULES_MAX 65536

/* Writing */

static void put_number(struct text_buf *to, uint64_t v)
{
	text_buf_put(to, &v, sizeof(v));
}

static void put_bytes(struct text_buf *to, const void *bytes, size_t n)
{
	static const uint8_t zeros[8];

	put_number(to, n);
	text_buf_put(to, bytes, n);
	text_buf_put(to, zeros, 8 - n % 8);
}

static void put_text(struct text_buf *to, const char *text)
{
	put_bytes(to, text, strlen(text));
}

static void write_head(const struct library_plan *p, struct text_buf *to)
{
	put_number(to, MAGIC);
	put_text(to, p->soname);
	put_bytes(to, p->build_id, p->build_id_len);
	put_number(to, p->size);
	put_number(to, p->hash);
	put_text(to, p->only ? p->only : "");
	put_number(to, p->slots);
	put_number(to, p->stack_bytes);
	put_number(to, p->frames);
	put_number(to, p->nrules);
}

void library_plan_write(const struct library_plan *p, struct text_buf *to)
{
	write_head(p, to);
	for (size_t i = 0; i < p->nrules; i++) {
		put_text(to, p->rule[i].pattern);
		put_text(to, p->rule[i].function);
		put_number(to, p->rule[i].when);
	}
	put_bytes(to, p->probes, p->probes_size);
}

/* Reading */

struct cursor {
	const uint8_t *at, *end;
	bool failed; /* nothing more is given then but 0 and "" */
};

static uint64_t take_number(struct cursor *c, uint64_t max)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->at) < sizeof(v)) {
		c->failed = true;
		return 0;
	}
	memcpy(&v, c->at, sizeof(v));
	c->at += sizeof(v);
	c->failed |= v > max;
	return v > max ? 0 : v;
}

static const uint8_t *take_bytes(struct cursor *c, size_t *n)
{
	uint64_t len = take_number(c, SIZE_MAX / 2), whole = len + 8 - len % 8;
	const uint8_t *at = c->at;

	*n = 0;
	if (c->failed || whole > (size_t)(c->end - c->at) || at[len]) {
		c->failed = true;
		return (const uint8_t *)"";
	}
	c->at += whole;
	*n = len;
	return at;
}

static const char *take_text(struct cursor *c)
{
	size_t n;

	return (const char *)take_bytes(c, &n);
}

static size_t read_head(struct cursor *c, struct library_plan *p)
{
	const uint8_t *id;
	size_t n;

	c->failed |= take_number(c, UINT64_MAX) != MAGIC;
	p->soname = take_text(c);
	id = take_bytes(c, &n);
	c->failed |= n > sizeof(p->build_id);
	if (!c->failed) {
		memcpy(p->build_id, id, n);
		p->build_id_len = (unsigned int)n;
	}
	p->size = take_number(c, UINT64_MAX);
	p->hash = take_number(c, UINT64_MAX);
	p->only = take_text(c);
	if (!*p->only)
		p->only = NULL;
	p->slots = (uint32_t)take_number(c, UINT32_MAX);
	p->stack_bytes = (uint32_t)take_number(c, UINT32_MAX);
	p->frames = (uint32_t)take_number(c, UINT32_MAX);
	return take_number(c, RULES_MAX);
}

static bool read_rules(struct cursor *c, size_t n, struct library_plan *p)
{
	for (size_t i = 0; i < n && !c->failed; i++) {
		struct library_rule r = { take_text(c), take_text(c), (unsigned int)take_number(c, 2) };

		if (!vec_push(p->rule, p->nrules, p->rule_cap, r))
			return false;
	}
	return true;
}

struct wc_error *library_plan_read(const uint8_t *bytes, size_t size, struct library_plan *ret)
{
	scoped(library_plan_deinit) struct library_plan p = { 0 };
	struct cursor c = { bytes, bytes + size, false };

	if (!read_rules(&c, read_head(&c, &p), &p))
		return &wc_enomem;
	p.probes = take_bytes(&c, &p.probes_size);
	if (c.failed || !p.nrules)
		return wc_error_new(
			WC_ENAME,
			"what the drop-in library is to do cannot be read: make it anew, with the watchctl "
			"that is installed now");
	*ret = p;
	p = (struct library_plan){ 0 };
	return NULL;
}

void library_plan_deinit(struct library_plan *p)
{
	free(p->rule);
	*p = (struct library_plan){ 0 };
}
