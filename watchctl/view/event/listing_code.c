#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module_code.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/insn/disasm.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/view/event/listing.h"

#define FUNCTION_BYTES ((uint64_t)1 << 20) /* a larger one is not decoded from its start */
#define NAME_BYTES 120
#define ASIDE 512 /* instructions, on either side */

static const char why_no_module[] = "no program or library is known at this address";
static const char why_jit[] = "a JIT compiler made this code: it is in no file";
static const char why_no_bytes[] = "the program's file is not here, or has been replaced";
static const char why_not_code[] = "there is no instruction at this address in the program's file";

/* The part of a function around a place. */
struct code {
	struct symbolizer *symbolizer;
	enum insn_syntax syntax;
	uint64_t start; /* of what is in @bytes: the function, or the place itself */
	uint64_t ip;
	uint8_t *bytes;
	size_t len;
	size_t cap; /* of the listing */
};

static void module_code_freep(struct module_code **c)
{
	module_code_free(*c);
}

static void cfi_freep(struct cfi **c)
{
	cfi_free(*c);
}

static bool contains(uint64_t start, uint64_t end, uint64_t ip)
{
	return start <= ip && ip < end && end - start <= FUNCTION_BYTES;
}

/* Of a stripped file the unwind table knows. */
static bool function_bounds(struct symbolizer *s, const struct module *m, uint64_t ip, uint64_t *start,
			    uint64_t *end)
{
	scoped(cfi_freep) struct cfi *cfi = NULL;

	if (symbolizer_function(s, ip, start, end) && contains(*start, *end, ip))
		return true;
	cfi = cfi_new();
	return cfi && cfi_add(cfi, m) && cfi_function(cfi, ip, start, end) && contains(*start, *end, ip);
}

static bool fetch(struct code *c, struct module_code *file, uint64_t start, size_t len)
{
	free(c->bytes);
	c->bytes = malloc(len);
	c->len = len;
	c->start = start;
	return c->bytes && module_code_read(file, start, c->bytes, len);
}

/* Reads the whole function or, where its bounds are not known, what follows the place. */
static const char *read_code(struct code *c, const struct module *m, uint32_t after)
{
	scoped(module_code_freep) struct module_code *file = module_code_new(m);
	uint64_t start, end;
	size_t len;

	if (!file)
		return why_no_bytes;
	if (function_bounds(c->symbolizer, m, c->ip, &start, &end) && fetch(c, file, start, end - start))
		return NULL;
	for (len = (size_t)after * INSN_MAX; len; len /= 2)
		if (fetch(c, file, c->ip, len))
			return NULL;
	return why_no_bytes;
}

static bool decode(const struct code *c, uint64_t addr, struct insn *ret)
{
	uint64_t at = addr - c->start;

	return at < c->len && insn_decode(c->bytes + at, c->len - at, addr, ret);
}

/* What an instruction jumps to or refers to; "" where there is no name for it. */
static void name_of(struct symbolizer *s, uint64_t addr, const struct insn *i, char *buf, size_t cap)
{
	char name[NAME_BYTES + 32] = "", clean[NAME_BYTES];
	const struct location *l;
	uint64_t target;

	buf[0] = '\0';
	if (i->has_target && (i->is_call || i->is_jmp)) {
		l = symbolizer_lookup(s, i->target);
		if (!l->frame[l->nframes - 1].function)
			return;
		utf8_clean(l->frame[l->nframes - 1].function, clean, sizeof(clean));
		if (l->offset)
			snprintf(buf, cap, " <%s+%" PRIu64 ">", clean, l->offset);
		else
			snprintf(buf, cap, " <%s>", clean);
		return;
	}
	if (!i->nmem || i->mem[0].base != WREG_RIP)
		return;
	target = addr + i->len + (uint64_t)i->mem[0].disp;
	if (symbolizer_data_name(s, target, name, sizeof(name)))
		snprintf(buf, cap, "  # %s", utf8_clean(name, clean, sizeof(clean)));
}

static bool listing_code_add(struct code *c, struct listing *l, uint64_t addr, const struct insn *i)
{
	char text[96], name[NAME_BYTES + 32];
	char *line = NULL;

	disasm_text(c->syntax, c->bytes + (addr - c->start), i->len, addr, text, sizeof(text));
	name_of(c->symbolizer, addr, i, name, sizeof(name));
	if (asprintf(&line, "%s%s", text, name) < 0)
		return false;
	if (vec_push(l->v, l->n, c->cap,
		     (struct listing_line){ .ip = addr, .here = addr == c->ip, .text = line }))
		return true;
	free(line);
	return false;
}

/*
 * Where to begin, so that @before instructions come before the place: the last ones that decoding from the
 * function's start went through. The place itself, when that did not lead to it.
 */
static uint64_t first_shown(const struct code *c, uint32_t before)
{
	uint64_t ring[ASIDE], addr = c->start;
	struct insn i;
	size_t n = 0;

	while (before && addr < c->ip && decode(c, addr, &i)) {
		ring[n++ % before] = addr;
		addr += i.len;
	}
	if (addr != c->ip || !n)
		return c->ip;
	return n < before ? c->start : ring[n % before];
}

static bool list(struct code *c, uint32_t before, uint32_t after, struct listing *ret)
{
	uint64_t addr = first_shown(c, before);
	uint32_t left = after;
	struct insn i;

	while (left && decode(c, addr, &i)) {
		if (!listing_code_add(c, ret, addr, &i))
			return false;
		left -= addr >= c->ip;
		addr += i.len;
	}
	if (left == after) {
		listing_deinit(ret);
		ret->why = why_not_code;
	}
	return true;
}

bool listing_code(struct symbolizer *s, enum insn_syntax syntax, uint64_t ip, uint32_t before, uint32_t after,
		  struct listing *ret)
{
	const struct location *l = symbolizer_lookup(s, ip);
	struct code c = { .symbolizer = s, .syntax = syntax, .ip = ip };
	struct module m = { 0 };
	bool ok = true;

	*ret = (struct listing){ 0 };
	before = before > ASIDE ? ASIDE : before;
	after = after > ASIDE ? ASIDE : after ? after : 1;
	if (!l->module || strcmp(l->module, MODULE_JIT) == 0) {
		ret->why = l->module ? why_jit : why_no_module;
		return true;
	}
	m = (struct module){ .end = UINT64_MAX, .bias = ip - l->module_offset, .path = (char *)l->module };
	m.build_id_len = l->build_id_len;
	memcpy(m.build_id, l->build_id, l->build_id_len);
	ret->why = read_code(&c, &m, after);
	if (!ret->why)
		ok = list(&c, before, after, ret);
	free(c.bytes);
	if (!ok)
		listing_deinit(ret);
	return ok;
}
