/*
 * Any text is a condition of --if or an error that shows its place, for a variable of any type; what was
 * compiled refers to earlier results alone, and the opposite of a condition has the opposite answer. The
 * evaluator, which runs in the traced program and in the kernel, ends on any bytes.
 */
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/engine/plan/filter.h"

static struct enumerator colours[] = { { (char *)"RED", 0 },
				       { (char *)"GREEN", -1 },
				       { (char *)"ns::BLUE", INT64_MAX } };

/* Types come from the debug information of the program: the numbers in them may be anything. */
static void take_type(struct fuzz_input *in, struct value_type *ret, uint32_t *size)
{
	static const uint32_t sizes[] = { 0, 1, 2, 4, 8, 10, 16, 32 };
	uint8_t how = fuzz_take_byte(in);

	*ret = (struct value_type){ .kind = (enum value_kind)(fuzz_take_byte(in) % (VALUE_ENUM + 1)) };
	*size = sizes[how % 8];
	if (ret->kind == VALUE_ENUM) {
		ret->enumerators = colours;
		ret->nenumerators = 3;
		ret->enum_signed = how & 8;
	}
	if (how & 16) {
		ret->bit_size = fuzz_take_byte(in);
		ret->bit_offset = fuzz_take_byte(in);
	}
	if (how & 32)
		ret->name = (char *)"some type";
}

static enum filter_answer answer(const struct wire_filter *f, unsigned int i)
{
	static const uint64_t values[] = { 0, 1, 0xff, 0x80000000, 0x7ff0000000000001, UINT64_MAX };
	int64_t scratch[FILTER_OPS];
	const struct filter_input input = { .known = f->needs,
					    .size = 1u << (i % 4),
					    .old_value = values[i % 6],
					    .new_value = values[(i / 6) % 6],
					    .tid = i,
					    .name = "worker" };

	/* As in the handler: nothing has set it. */
	memset(scratch, 0x5a, sizeof(scratch));
	return filter_condition(f, &input, scratch);
}

static void check_program(const struct wire_filter *f)
{
	require(f->n <= FILTER_OPS);
	for (unsigned int i = 0; i < f->n; i++) {
		const struct filter_op *op = &f->op[i];

		require(op->code < FILTER_OP_CODES);
		if (op->code == FILTER_NAME_IS)
			require(op->imm >= 0 && op->imm < FILTER_NAMES);
		if (op->code == FILTER_REG)
			require(op->imm >= 0 && op->imm < FILTER_REGS);
		else if (op->code > FILTER_NAME_IS)
			require(op->a < i);
		if (op->code >= FILTER_ADD && op->code != FILTER_NOT && op->code != FILTER_REG)
			require(op->b < i);
	}
}

static bool compile(const struct filter_spec *spec, const struct value_type *type, uint32_t size,
		    struct wire_filter *ret)
{
	struct wc_error *err = filter_compile(spec, type, size, ret);

	if (!err) {
		check_program(ret);
		return true;
	}
	require(err == &wc_enomem || (err->kind == WC_EUSAGE && err->text && *err->text));
	wc_error_free(err);
	return false;
}

static void compile_text(struct fuzz_input *in)
{
	uint8_t how = fuzz_take_byte(in);
	struct filter_spec spec = { .has_value = !(how & 1), .changes = how & 2 };
	struct wire_filter f, opposite;
	struct value_type type;
	char *text, *negated;
	uint32_t size;

	take_type(in, &type, &size);
	if (how & 4)
		fuzz_take(in, &spec.rate, sizeof(spec.rate));
	if (how & 8)
		fuzz_take(in, &spec.sample, sizeof(spec.sample));
	text = fuzz_text(in);
	if (how & 16)
		spec.thread = text;
	else
		spec.condition = text;
	if (compile(&spec, &type, size, &f))
		for (unsigned int i = 0; i < 36; i++)
			require(answer(&f, i) <= FILTER_UNDECIDED);
	require(asprintf(&negated, "!(%s)", text) >= 0);
	if (spec.condition && !spec.changes && compile(&spec, &type, size, &f)) {
		spec.condition = negated;
		if (compile(&spec, &type, size, &opposite)) /* else it is too long now */
			for (unsigned int i = 0; i < 36; i++)
				require(answer(&f, i) != answer(&opposite, i));
	}
	free(negated);
	free(text);
}

static void run_any(struct fuzz_input *in)
{
	struct wire_filter f;

	fuzz_take(in, &f, sizeof(f));
	for (unsigned int i = 0; i < 36; i++) {
		const struct filter_input nothing = { .tid = i };
		unsigned int bits = filter_caller_bits(&f, f.callers[i % FILTER_RANGES].start);
		int64_t scratch[FILTER_OPS] = { 0 };

		require(bits <= 3);
		require(answer(&f, i) <= FILTER_UNDECIDED);
		require(filter_condition(&f, &nothing, scratch) <= FILTER_UNDECIDED);
		require(filter_callers(&f, bits, i & 1) <= FILTER_UNDECIDED);
	}
	filter_has_work(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	if (fuzz_take_byte(&in) & 1)
		compile_text(&in);
	else
		run_any(&in);
	return 0;
}
