/*
 * The metadata file: the text that describes every byte of `events` to any CTF reader, and the
 * check that a text is ours. We do not interpret the event descriptions: the version says it all.
 */
#include "watchctl/trace/log/tracelog_format.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE "/* CTF 1.8"
#define NSEC_PER_SEC 1000000000u
#define PACKETIZED_MAGIC 0x75D11D57u

static const char head_text[] =
	SIGNATURE " */\n"
		  "\n"
		  "/* Recorded by watchctl, see watchctl-log(5). `babeltrace2 DIRECTORY` prints it. */\n"
		  "\n"
		  "typealias integer { size = 1; align = 1; signed = false; } := uint1_t;\n"
		  "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n"
		  "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
		  "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
		  "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
		  "typealias integer { size = 48; align = 8; signed = false; } := uint48_t;\n"
		  "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
		  "typealias integer { size = 32; align = 8; signed = true; } := int32_t;\n"
		  "typealias integer { size = 64; align = 8; signed = true; } := int64_t;\n"
		  "typealias integer { size = 8; align = 8; signed = false; base = 16; } := hex8_t;\n"
		  "typealias integer { size = 32; align = 8; signed = false; base = 16; } := hex32_t;\n"
		  "typealias integer { size = 64; align = 8; signed = false; base = 16; } := hex64_t;\n"
		  "\n"
		  "trace {\n"
		  "\tmajor = 1;\n"
		  "\tminor = 8;\n"
		  "\tuuid = \"%s\";\n"
		  "\tbyte_order = le;\n"
		  "\tpacket.header := struct {\n"
		  "\t\tuint32_t magic;\n"
		  "\t\tuint8_t uuid[16];\n"
		  "\t\tuint32_t stream_id;\n"
		  "\t};\n"
		  "};\n"
		  "\n"
		  "env {\n"
		  "\ttracer_name = \"watchctl\";\n"
		  "\tformat_major = %d;\n"
		  "\tformat_minor = %d;\n"
		  "\thostname = \"%s\";\n"
		  "\tdomain = \"user\";\n"
		  "};\n"
		  "\n"
		  "clock {\n"
		  "\tname = \"monotonic\";\n"
		  "\tdescription = \"CLOCK_MONOTONIC\";\n"
		  "\tfreq = 1000000000;\n"
		  "\toffset_s = %llu;\n"
		  "\toffset = %llu;\n"
		  "};\n";

static void uuid_text(const uint8_t uuid[16], char text[37])
{
	char *p = text;
	int i;

	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		p += sprintf(p, "%02x", uuid[i]);
	}
}

char *tracelog_metadata_text(const uint8_t uuid[16], uint64_t offset_ns, const char *host)
{
	char safe_host[256];
	char id[37], *head, *text;
	size_t i;
	int n;

	/* Whatever could end the TSDL string is not part of a host name. */
	for (i = 0; i < sizeof(safe_host) - 1 && host[i]; i++)
		safe_host[i] = isalnum((unsigned char)host[i]) || strchr("._-", host[i]) ? host[i] : '_';
	safe_host[i] = '\0';

	uuid_text(uuid, id);
	if (asprintf(&head, head_text, id, TRACELOG_MAJOR, TRACELOG_MINOR, safe_host,
		     (unsigned long long)(offset_ns / NSEC_PER_SEC),
		     (unsigned long long)(offset_ns % NSEC_PER_SEC)) < 0)
		return NULL;
	n = asprintf(&text, "%s%s", head, tracelog_events_text);
	free(head);
	return n < 0 ? NULL : text;
}

/*
 * The parser knows just enough TSDL to find `key = value;` directly inside a top-level block:
 * words, strings, comments, braces.
 */
struct scan {
	const char *p, *end;
};

struct word {
	const char *text;
	size_t len; /* 0: the end */
	bool quoted;
};

static void skip_blank(struct scan *s)
{
	while (s->p < s->end) {
		if (isspace((unsigned char)*s->p)) {
			s->p++;
		} else if (s->end - s->p >= 2 && s->p[0] == '/' && s->p[1] == '*') {
			const char *close = memmem(s->p + 2, s->end - s->p - 2, "*/", 2);

			s->p = close ? close + 2 : s->end;
		} else {
			return;
		}
	}
}

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static struct word next_word(struct scan *s)
{
	struct word w = { 0 };

	skip_blank(s);
	if (s->p == s->end)
		return w;
	if (*s->p == '"') {
		const char *close = memchr(s->p + 1, '"', s->end - s->p - 1);

		w = (struct word){ .text = s->p + 1, .quoted = true };
		w.len = (close ? close : s->end) - w.text;
		s->p = close ? close + 1 : s->end;
		/* An empty string is still a word; nobody looks at its text. */
		w.len = w.len ? w.len : 1;
		return w;
	}
	w.text = s->p++;
	if (is_word_char(*w.text))
		while (s->p < s->end && is_word_char(*s->p))
			s->p++;
	w.len = s->p - w.text;
	return w;
}

static bool word_is(const struct word *w, const char *text)
{
	return w->len == strlen(text) && memcmp(w->text, text, w->len) == 0;
}

/* Steps to just behind the "{" of the top-level block @name. */
static bool enter_block(struct scan *s, const char *name)
{
	struct word w, before = { 0 };
	int depth = 0;

	for (w = next_word(s); w.len; before = w, w = next_word(s)) {
		if (w.quoted)
			continue;
		if (word_is(&w, "{")) {
			if (depth == 0 && !before.quoted && before.len && word_is(&before, name))
				return true;
			depth++;
		} else if (word_is(&w, "}")) {
			depth--;
		}
	}
	return false;
}

/* The value of @key directly inside the top-level block @block. */
static bool lookup(const char *text, size_t len, const char *block, const char *key, struct word *ret)
{
	struct scan s = { .p = text, .end = text + len };
	struct word w, key_word = { 0 };
	int depth = 0;

	if (!enter_block(&s, block))
		return false;
	for (w = next_word(&s); w.len && depth >= 0; w = next_word(&s)) {
		if (!w.quoted && word_is(&w, "{"))
			depth++;
		else if (!w.quoted && word_is(&w, "}"))
			depth--;
		else if (!w.quoted && word_is(&w, "=") && depth == 0 && key_word.len &&
			 word_is(&key_word, key)) {
			*ret = next_word(&s);
			return ret->len != 0;
		}
		key_word = w;
	}
	return false;
}

static bool lookup_number(const char *text, size_t len, const char *block, const char *key,
			  unsigned long *ret)
{
	char digits[16];
	struct word w;
	size_t i;

	if (!lookup(text, len, block, key, &w) || w.quoted || w.len >= sizeof(digits))
		return false;
	for (i = 0; i < w.len; i++)
		if (!isdigit((unsigned char)w.text[i]))
			return false;
	memcpy(digits, w.text, w.len);
	digits[w.len] = '\0';
	*ret = strtoul(digits, NULL, 10);
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool parse_uuid(const struct word *w, uint8_t uuid[16])
{
	size_t i, n = 0;

	if (!w->quoted)
		return false;
	for (i = 0; i < w->len; i++) {
		int digit = hex_digit(w->text[i]);

		if (w->text[i] == '-')
			continue;
		if (digit < 0 || n == 32)
			return false;
		uuid[n / 2] = n % 2 ? uuid[n / 2] | digit : digit << 4;
		n++;
	}
	return n == 32;
}

static bool looks_like_ctf(const char *text, size_t len)
{
	uint32_t magic = 0;

	if (len >= sizeof(magic))
		memcpy(&magic, text, sizeof(magic));
	return magic == PACKETIZED_MAGIC || (len >= strlen(SIGNATURE) && !memcmp(text, "/* CTF ", 7));
}

/* The tracer's name ends up on a terminal: let nothing but plain characters through. */
static struct wc_error *foreign_trace(const char *path, const struct word *tracer)
{
	char name[32];
	size_t i, n = tracer->len < sizeof(name) - 1 ? tracer->len : sizeof(name) - 1;

	if (!tracer->len)
		return wc_error_new(WC_ELOG,
				    "%s is a CTF trace made by another tracer, not a log of watchctl "
				    "(babeltrace2 may be able to print it)",
				    path);
	for (i = 0; i < n; i++)
		name[i] = isgraph((unsigned char)tracer->text[i]) ? tracer->text[i] : '?';
	name[n] = '\0';
	return wc_error_new(WC_ELOG,
			    "%s is a CTF trace made by %s, not a log of watchctl "
			    "(babeltrace2 may be able to print it)",
			    path, name);
}

/* 0: not known. */
static uint64_t clock_offset(const char *text, size_t len)
{
	unsigned long seconds, ns;

	if (!lookup_number(text, len, "clock", "offset_s", &seconds) ||
	    !lookup_number(text, len, "clock", "offset", &ns))
		return 0;
	return seconds * NSEC_PER_SEC + ns;
}

struct wc_error *tracelog_metadata_parse(const char *path, const char *text, size_t len,
					 struct tracelog_identity *ret)
{
	struct word tracer = { 0 }, id;
	unsigned long major, minor;
	uint8_t bytes[16];

	if (len == 0)
		return wc_error_new(WC_ELOG,
				    "%s holds no recording: its metadata is empty, the recorder must have "
				    "been killed while it started",
				    path);
	if (!looks_like_ctf(text, len))
		return wc_error_new(WC_ELOG, "%s is not a log of watchctl: its metadata is not CTF 1.8",
				    path);
	if (!lookup(text, len, "env", "tracer_name", &tracer) || !tracer.quoted ||
	    !word_is(&tracer, "watchctl"))
		return foreign_trace(path, &tracer);
	if (!lookup_number(text, len, "env", "format_major", &major) ||
	    !lookup_number(text, len, "env", "format_minor", &minor) ||
	    !lookup(text, len, "trace", "uuid", &id) || !parse_uuid(&id, bytes))
		return wc_error_new(WC_ELOG, "the metadata of the log %s is damaged or incomplete", path);
	if (major > TRACELOG_MAJOR)
		return wc_error_new(WC_ELOG,
				    "%s was made by a newer version of watchctl (its format is %lu.%lu, this "
				    "program reads up to %d.x): update watchctl to read it",
				    path, major, minor, TRACELOG_MAJOR);
	if (major < 1)
		return wc_error_new(WC_ELOG, "%s has the unknown format version %lu.%lu", path, major, minor);
	memcpy(ret->uuid, bytes, sizeof(bytes));
	ret->major = major;
	ret->minor = minor;
	ret->realtime_ns = clock_offset(text, len);
	return NULL;
}
