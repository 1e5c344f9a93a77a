/* The facts of one trap, made by hand, for the tests of access_resolve(). */
#ifndef TESTS_UNIT_ACCESS_SCENE_H
#define TESTS_UNIT_ACCESS_SCENE_H

#include <stdint.h>
#include <string.h>

#include "watchctl/code/insn/access.h"

/* The facts of one trap, as code bytes and registers. */
struct scene {
	struct regs regs;
	struct code_fact pc, caller;
	struct access_query q;
};

#define BYTES(...) ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ })

static inline void set_before(struct code_fact *f, const uint8_t *bytes, size_t len)
{
	memcpy(f->before, bytes, len);
	f->before_len = (uint8_t)len;
}

static inline void set_at(struct code_fact *f, const uint8_t *bytes, size_t len)
{
	memcpy(f->at, bytes, len);
	f->at_len = (uint8_t)len;
}

/* rip 0x401000, watching 8 bytes at 0x7000. */
static inline struct scene *scene(void)
{
	static struct scene s;

	s = (struct scene){ .regs.r[WREG_RIP] = 0x401000, .regs.r[WREG_RSP] = 0x9000 };
	s.pc.pc = 0x401000;
	s.caller.pc = 0x402000;
	s.q = (struct access_query){
		.regs = &s.regs, .addr = 0x7000, .size = 8, .pc = &s.pc, .caller = &s.caller
	};
	return &s;
}

static inline struct access_verdict resolve(const struct scene *s)
{
	struct access_verdict v;

	access_resolve(&s->q, &v);
	return v;
}

#endif
