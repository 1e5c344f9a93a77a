/* Any text is a pattern, or an error that shows its place; what was parsed can be matched with any code. */
#include "tests/fuzz/fuzz.h"
#include "watchctl/patch/plan/pattern.h"

static void check_operand(const struct pattern_operand *o)
{
	require(o->kind <= OPERAND_NAME);
	fuzz_read(o->name);
	fuzz_read(o->mem.base);
	fuzz_read(o->mem.index);
	if (o->kind == OPERAND_REG || o->kind == OPERAND_CLASS || o->kind == OPERAND_NAME)
		require(o->name && *o->name);
}

static void check_pattern(const struct pattern *p)
{
	static const uint8_t code[] = { 0xf0, 0x0f, 0xb1, 0x37, 0x48, 0x8b, 0x47, 0x08, 0xe8, 0,
					0,    0,    0,	  0x0f, 0x05, 0xf3, 0xa4, 0xc3, 0x66, 0x0f };
	const char *end = p->text + strlen(p->text);
	struct insn_brief first;

	require(p->kind <= PATTERN_ADDRESS && p->nbytes <= PATTERN_BYTES);
	require((p->kind == PATTERN_CODE) == (p->nelements > 0) &&
		(p->kind == PATTERN_MASK) == (p->nbytes > 0));
	for (size_t i = 0; i < p->nelements; i++) {
		const struct pattern_element *e = &p->element[i];

		require(e->noperands <= PATTERN_OPERANDS && (!e->at || (e->at >= p->text && e->at <= end)));
		fuzz_read(e->prefix);
		fuzz_read(e->name);
		for (size_t k = 0; k < e->noperands; k++)
			check_operand(&e->operand[k]);
	}
	if (p->kind != PATTERN_CODE && p->kind != PATTERN_MASK) {
		fuzz_read(p->name);
		return;
	}
	for (size_t at = 0; at < sizeof(code); at++)
		if (insn_scan(code + at, sizeof(code) - at, 0x1000 + at, &first))
			require(pattern_match(p, NULL, code + at, sizeof(code) - at, 0x1000 + at, &first) <=
				PATTERN_DISPUTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	char *text = fuzz_text(&in);
	struct pattern p = { 0 };
	struct wc_error *err = pattern_parse(text, &p);

	if (err) {
		require(err == &wc_enomem || (err->kind == WC_EUSAGE || err->kind == WC_ENAME));
		require(err->text && *err->text);
		wc_error_free(err);
	} else {
		check_pattern(&p);
	}
	pattern_deinit(&p);
	free(text);
	return 0;
}
