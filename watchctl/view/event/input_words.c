#include "watchctl/view/event/input_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/event/step_words.h"

#define BYTES_SHOWN 160
#define CELL 400

const char *input_kind_name(enum input_kind kind)
{
	static const char *const names[] = {
		[INPUT_ARGUMENTS] = "arguments", [INPUT_ENVIRONMENT] = "environment",
		[INPUT_DIRECTORY] = "directory", [INPUT_FILE] = "file",
		[INPUT_STREAM] = "stream",	 [INPUT_MAP] = "map",
		[INPUT_OPEN] = "open",		 [INPUT_STATUS] = "status",
		[INPUT_LINK] = "link",		 [INPUT_ENTRIES] = "entries",
		[INPUT_CLOCK] = "clock",	 [INPUT_RANDOM] = "random",
	};

	return names[kind];
}

bool input_is_text(const uint8_t *bytes, size_t n)
{
	size_t i, odd = 0;

	for (i = 0; i < n; i++)
		odd += (bytes[i] < ' ' && !strchr("\t\n\r\f\033", bytes[i])) || !bytes[i] || bytes[i] == 0x7f;
	return odd * 16 <= n;
}

static int escape(uint8_t c, char *buf, size_t cap)
{
	static const char from[] = "\n\t\r\"\\", to[] = "ntr\"\\";
	const char *at = c ? strchr(from, c) : NULL;

	if (at)
		return snprintf(buf, cap, "\\%c", to[at - from]);
	return snprintf(buf, cap, c >= ' ' && c < 0x7f ? "%c" : "\\x%02x", c);
}

void input_bytes_text(const uint8_t *bytes, size_t n, bool as_text, char *buf, size_t cap)
{
	static const char cut[] = "...";
	size_t len = 0, i;
	char one[8];

	buf[0] = '\0';
	if (as_text)
		len += (size_t)snprintf(buf, cap, "\"");
	for (i = 0; i < n; i++) {
		int more = as_text ? escape(bytes[i], one, sizeof(one))
				   : snprintf(one, sizeof(one), "%s%02x", i ? " " : "", bytes[i]);

		if (len + (size_t)more + sizeof(cut) + 2 > cap)
			break;
		memcpy(buf + len, one, (size_t)more + 1);
		len += (size_t)more;
	}
	snprintf(buf + len, cap - len, "%s%s", as_text ? "\"" : "", i < n ? cut : "");
}

static void add(char *buf, size_t cap, const char *text)
{
	size_t n = strlen(buf);

	snprintf(buf + n, cap - n, "%s", text);
}

static void add_bytes(const struct input_event *e, char *buf, size_t cap)
{
	char bytes[BYTES_SHOWN], text[BYTES_SHOWN + 64];

	input_bytes_text(e->bytes, e->len, input_is_text(e->bytes, e->len), bytes, sizeof(bytes));
	snprintf(text, sizeof(text), "%" PRIu64 " byte%s%s%s%s", e->size, e->size == 1 ? "" : "s",
		 e->withheld ? ", withheld" : "", e->len ? ", " : "", e->len ? bytes : "");
	add(buf, cap, text);
}

static void add_status(const struct input_event *e, char *buf, size_t cap)
{
	struct stat s;
	char text[80];

	if (e->syscall == SYS_statx || e->len < sizeof(s)) {
		add_bytes(e, buf, cap);
		return;
	}
	memcpy(&s, e->bytes, sizeof(s));
	snprintf(text, sizeof(text), "mode %o, %" PRId64 " bytes", s.st_mode, (int64_t)s.st_size);
	add(buf, cap, text);
}

static void add_words(const struct input_event *e, char *buf, size_t cap)
{
	char text[CELL], clean[CELL];
	size_t i, n = e->len < sizeof(text) - 1 ? e->len : sizeof(text) - 1;

	if (e->withheld) {
		add(buf, cap, "withheld");
		return;
	}
	for (i = 0; i < n; i++)
		text[i] = e->bytes[i] ? (char)e->bytes[i] : ' ';
	text[n && !e->bytes[n - 1] ? n - 1 : n] = '\0';
	add(buf, cap, utf8_clean(text, clean, sizeof(clean)));
}

/* The environment is long, and each variable of it is in the form for programs. */
static void add_variables(const struct input_event *e, char *buf, size_t cap)
{
	char text[80];
	uint32_t i;
	size_t n = 0;

	for (i = 0; i < e->len; i++)
		n += !e->bytes[i];
	if (e->withheld)
		snprintf(text, sizeof(text), "withheld");
	else
		snprintf(text, sizeof(text), "%zu variable%s", n, n == 1 ? "" : "s");
	add(buf, cap, text);
}

static void add_result(const struct input_event *e, char *buf, size_t cap)
{
	char text[64];

	if (e->result < 0)
		step_error_name((int)-e->result, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%" PRId64, e->result);
	add(buf, cap, text);
}

static void add_what(const struct input_event *e, char *buf, size_t cap)
{
	if (e->result < 0 || e->kind == INPUT_OPEN)
		add_result(e, buf, cap);
	else if (e->kind == INPUT_STATUS && !e->withheld)
		add_status(e, buf, cap);
	else if (e->kind == INPUT_ARGUMENTS)
		add_words(e, buf, cap);
	else if (e->kind == INPUT_ENVIRONMENT)
		add_variables(e, buf, cap);
	else if ((e->kind == INPUT_FILE || e->kind == INPUT_STREAM) && !e->size)
		add(buf, cap, "its end");
	else
		add_bytes(e, buf, cap);
}

void input_text(const struct input_event *e, char *buf, size_t cap)
{
	const char *call = e->syscall >= 0 ? syscall_name(e->syscall) : input_kind_name(e->kind);
	bool has_offset = e->kind == INPUT_FILE || e->kind == INPUT_STREAM || e->kind == INPUT_MAP;
	char name[300], at[40] = "";

	utf8_clean(e->name ? e->name : "", name, sizeof(name));
	if (e->kind == INPUT_DIRECTORY) {
		snprintf(buf, cap, "directory: %s", name);
		return;
	}
	if (has_offset && e->result >= 0)
		snprintf(at, sizeof(at), " at %" PRIu64, e->offset);
	snprintf(buf, cap, "%s%s%s%s: ", call ? call : "system call", name[0] ? " of " : "", name, at);
	add_what(e, buf, cap);
}
