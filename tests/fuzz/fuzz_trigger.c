/*
 * Any text is a trigger or an error that shows its place; one that is accepted can be looked at with any
 * access, and when it fires, its negation does not.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/view/trigger/trigger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct enumerator names_of[] = { { (char *)"RED", 0 }, { (char *)"BLUE", 7 } };
static struct view_watch watches[] = {
	{ .e = { .id = 0, .name = "flag", .size = 4, .type = { .kind = VALUE_SIGNED }, .has_value = true } },
	{ .e = { .id = 1, .name = "*p", .size = 8, .type = { .kind = VALUE_FLOAT } } },
	{ .e = { .id = 2,
		 .name = "state",
		 .size = 4,
		 .type = { .kind = VALUE_ENUM, .enumerators = names_of, .nenumerators = 2 } } },
};

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void fire(void *ctx, const struct view_access *a)
{
	require(a);
	++*(unsigned int *)ctx;
}

static unsigned int fired(struct trigger *t)
{
	static const struct view_frame stack[] = { { .function = "set" },
						   { .function = "ns::f(int)" },
						   { 0 } };
	static const uint64_t values[] = { 0, 1, 7, 0xffffffff, 0x7ff8000000000000 };
	unsigned int n = 0;
	struct view v = trigger_view(t, fire, &n);

	for (size_t i = 0; i < 3; i++)
		v.ops->armed(v.ctx, &watches[i], (struct view_time){ 0 });
	for (size_t i = 0; i < 3 * sizeof(values) / sizeof(values[0]); i++) {
		struct access_event raw = { .watch = (uint32_t)(i % 3),
					    .tid = 42,
					    .size = watches[i % 3].e.size,
					    .has_old = i & 1,
					    .has_new = i % 5,
					    .old_value = values[(i + 1) % 5],
					    .new_value = values[i % 5] };
		struct view_access a = { .raw = &raw,
					 .watch = &watches[i % 3],
					 .comm = i & 2 ? "worker" : NULL,
					 .kind = (enum access_kind)(i % 5),
					 .frame = stack,
					 .nframes = i % 4,
					 .walk_end = i & 1 ? WALK_END_COMPLETE : WALK_END_NO_RULE };

		v.ops->access(v.ctx, &a);
	}
	return n;
}

static struct trigger *compile(const char *text)
{
	static const char *const names[] = { "flag", "*p", "state" };
	struct trigger *t = NULL;
	struct wc_error *err = trigger_compile(text, names, 3, &t);

	require(!err == !!t);
	if (err)
		require(err->kind == WC_EUSAGE || err->kind == WC_ENAME || err == &wc_enomem);
	wc_error_free(err);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *both = NULL;
	struct trigger *t = compile(text), *never;

	if (t) {
		fired(t);
		/* A condition and its opposite never hold together, whatever is known. */
		require(asprintf(&both, "(%s) && !(%s)", text, text) >= 0);
		never = compile(both);
		if (never) /* else nested too deeply now */
			require(fired(never) == 0);
		trigger_free(never);
	}
	trigger_free(t);
	free(both);
	free(text);
	return 0;
}
