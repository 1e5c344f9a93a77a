#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/diff/inputs/diff_inputs.h"
#include "watchctl/view/event/input_words.h"
#include "watchctl/view/event/step_words.h"

#define NAME_TEXT 400

const char *diff_input_what_name(enum diff_input_what what)
{
	static const char *const names[] = {
		[DIFF_INPUT_BYTES] = "bytes",	[DIFF_INPUT_END] = "end",   [DIFF_INPUT_UNSEEN] = "unseen",
		[DIFF_INPUT_RESULT] = "result", [DIFF_INPUT_SIZE] = "size", [DIFF_INPUT_MODE] = "mode",
	};

	return names[what];
}

static const char *kind_word(const struct diff_source *s)
{
	if (!strncmp(s->name, "pipe:", 5))
		return "pipe at";
	if (!strncmp(s->name, "socket:", 7))
		return "socket at";
	return s->kind == INPUT_STREAM ? "stream" : s->kind == INPUT_MAP ? "mapped file" : "file";
}

static void source_text(const struct diff_source *s, char *buf, size_t cap)
{
	char name[NAME_TEXT];

	utf8_clean(s->name, name, sizeof(name));
	if (!strncmp(s->name, "pipe:", 5) || !strncmp(s->name, "socket:", 7))
		snprintf(buf, cap, "%s descriptor %d (%s)", kind_word(s), s->fd, name);
	else
		snprintf(buf, cap, "%s %s", kind_word(s), name);
}

void diff_input_headline(const struct diff_input_difference *d, char *buf, size_t cap)
{
	const char *call = syscall_name(d->b.input->e.syscall);
	char from[NAME_TEXT + 64];

	source_text(d->b.source, from, sizeof(from));
	call = call ? call : "a system call";
	switch (d->what) {
	case DIFF_INPUT_BYTES:
		if (d->b.source->kind == INPUT_LINK)
			snprintf(buf, cap, "%s of %s", call, d->b.source->name);
		else
			snprintf(buf, cap, "%s, byte %" PRIu64, from, d->offset);
		break;
	case DIFF_INPUT_END:
		snprintf(buf, cap, "%s ends at byte %" PRIu64 " in the %s run", from, d->offset,
			 d->b.input->e.size ? "good" : "bad");
		break;
	case DIFF_INPUT_UNSEEN:
		snprintf(buf, cap, "%s, after byte %" PRIu64 " (record more with --bytes to see where)", from,
			 d->offset);
		break;
	case DIFF_INPUT_RESULT:
		snprintf(buf, cap, "%s of %s has another result", call, from);
		break;
	case DIFF_INPUT_SIZE:
		snprintf(buf, cap, "the size of %s", from);
		break;
	case DIFF_INPUT_MODE:
		snprintf(buf, cap, "the kind or permissions of %s", from);
		break;
	}
}

/* Both sides alike, so that they can be compared. */
static bool both_text(const struct diff_input_difference *d)
{
	return input_is_text(d->a.bytes, d->a.len) && input_is_text(d->b.bytes, d->b.len);
}

void diff_input_side_text(const struct diff_input_difference *d, const struct diff_input_side *s, char *buf,
			  size_t cap)
{
	char bytes[4 * (2 * DIFF_INPUT_SIDE + 1) + 16], at[24];

	if (d->what == DIFF_INPUT_SIZE) {
		snprintf(buf, cap, "%" PRId64 " bytes", s->value);
	} else if (d->what == DIFF_INPUT_MODE) {
		snprintf(buf, cap, "%" PRIo64, (uint64_t)s->value);
	} else if (s->value < 0) {
		step_error_name((int)-s->value, buf, cap);
	} else if (d->what == DIFF_INPUT_RESULT) {
		snprintf(buf, cap, "success");
	} else {
		input_bytes_text(s->bytes, s->len, both_text(d), bytes, sizeof(bytes));
		input_bytes_text(s->bytes + s->at, s->at < s->len, both_text(d), at, sizeof(at));
		snprintf(buf, cap, "%s%s%s", s->at < s->len ? at : "its end", s->len ? "  in " : "",
			 s->len ? bytes : "");
	}
}

static const char *part(const struct diff_change *c, const char *s)
{
	const char *value = !strcmp(c->what, "variable") && s ? strchr(s, '=') : NULL;

	return value ? value + 1 : s;
}

static void quoted(const char *s, char *buf, size_t cap)
{
	if (s)
		input_bytes_text((const uint8_t *)s, strlen(s), true, buf, cap);
	else
		snprintf(buf, cap, "none");
}

void diff_change_text(const struct diff_change *c, char *buf, size_t cap)
{
	const char *any = c->a ? c->a : c->b;
	char a[NAME_TEXT], b[NAME_TEXT], name[NAME_TEXT] = "";

	quoted(part(c, c->a), a, sizeof(a));
	quoted(part(c, c->b), b, sizeof(b));
	if (!strcmp(c->what, "argument"))
		snprintf(name, sizeof(name), " %zu", c->index);
	else if (!strcmp(c->what, "variable"))
		snprintf(name, sizeof(name), " %.*s", (int)strcspn(any, "="), any);
	utf8_clean(name, name, sizeof(name));
	snprintf(buf, cap, "%s%s: good %s, bad %s", c->what, name, a, b);
}
