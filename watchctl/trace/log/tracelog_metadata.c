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

static const char events_text[] =
	"\n"
	"typealias integer {\n"
	"\tsize = 64; align = 8; signed = false; map = clock.monotonic.value;\n"
	"} := clock_t;\n"
	"\n"
	"stream {\n"
	"\tid = 0;\n"
	"\tpacket.context := struct {\n"
	"\t\tclock_t timestamp_begin;\n"
	"\t\tclock_t timestamp_end;\n"
	"\t\tuint64_t content_size;\n"
	"\t\tuint64_t packet_size;\n"
	"\t\tuint64_t events_discarded;\n"
	"\t};\n"
	"\tevent.header := struct {\n"
	"\t\tuint16_t id;\n"
	"\t\tclock_t timestamp;\n"
	"\t};\n"
	"\tevent.context := struct {\n"
	"\t\tuint32_t size;\n"
	"\t};\n"
	"};\n"
	"\n"
	"enum access_kind : uint8_t { unknown = 0, read = 1, write = 2, readwrite = 3, execute = 4 };\n"
	"enum withheld : uint8_t { nothing = 0, values = 1, registers = 2, values_and_registers = 3 };\n"
	"enum walk_end : uint8_t {\n"
	"\tcomplete = 0, depth = 1, unreadable = 2, no_rule = 3, not_ascending = 4, unknown_pc = 5\n"
	"};\n"
	"enum value_kind : uint8_t {\n"
	"\t\"unknown\" = 0, \"signed\" = 1, \"unsigned\" = 2, \"bool\" = 3, \"char\" = 4, \"float\" = 5,\n"
	"\t\"pointer\" = 6, \"enum\" = 7, \"aggregate\" = 8\n"
	"};\n"
	"\n"
	"event {\n"
	"\tname = \"process\";\n\tid = 1;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tint32_t pid;\n"
	"\t\tuint64_t realtime_ns;\n"
	"\t\tstring comm;\n"
	"\t\tstring exe;\n"
	"\t\tstring cmdline;\n"
	"\t\tstring host;\n"
	"\t\tint32_t parent;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"thread\";\n\tid = 2;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tint32_t pid;\n"
	"\t\tint32_t tid;\n"
	"\t\tstring comm;\n"
	"\t\tint32_t creator;\n"
	"\t\tuint64_t creating_call;\n"
	"\t\thex64_t stack_start;\n"
	"\t\thex64_t stack_end;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"module\";\n\tid = 3;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\thex64_t start;\n"
	"\t\thex64_t end;\n"
	"\t\thex64_t bias;\n"
	"\t\tuint8_t deleted;\n"
	"\t\tstring path;\n"
	"\t\tstring build_id;\n"
	"\t\tint32_t pid;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"module_gone\";\n\tid = 4;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\thex64_t start;\n"
	"\t\thex64_t end;\n"
	"\t\thex64_t bias;\n"
	"\t\tuint8_t deleted;\n"
	"\t\tstring path;\n"
	"\t\tstring build_id;\n"
	"\t\tint32_t pid;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"watch\";\n\tid = 5;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t watch;\n"
	"\t\thex64_t addr;\n"
	"\t\tuint32_t size;\n"
	"\t\tenum access_kind access;\n"
	"\t\tuint32_t threads;\n"
	"\t\tuint32_t threads_armed;\n"
	"\t\tuint8_t verified;\n"
	"\t\tuint8_t kernel;\n"
	"\t\tuint8_t has_value;\n"
	"\t\thex64_t value;\n"
	"\t\tint32_t slot;\n"
	"\t\tenum value_kind type_kind;\n"
	"\t\tuint8_t enum_signed;\n"
	"\t\tuint8_t bit_offset;\n"
	"\t\tuint8_t bit_size;\n"
	"\t\tstring name;\n"
	"\t\tstring full_name;\n"
	"\t\tstring engine;\n"
	"\t\tstring module;\n"
	"\t\tstring type_name;\n"
	"\t\tstring enumerators;\n"
	"\t\tuint8_t per_thread;\n"
	"\t\tstring filter;\n"
	"\t\tstring why;\n"
	"\t\tuint8_t steps_trap;\n"
	"\t\tuint8_t withheld;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"code\";\n\tid = 6;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\thex64_t pc;\n"
	"\t\thex64_t function_start;\n"
	"\t\tuint8_t before_len;\n"
	"\t\thex8_t before[before_len];\n"
	"\t\tuint8_t at_len;\n"
	"\t\thex8_t at[at_len];\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"access\";\n\tid = 7;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint64_t time;\n"
	"\t\tuint32_t watch;\n"
	"\t\tint32_t pid;\n"
	"\t\tint32_t tid;\n"
	"\t\thex64_t addr;\n"
	"\t\tuint32_t size;\n"
	"\t\tuint8_t has_old;\n"
	"\t\tuint8_t has_new;\n"
	"\t\tuint8_t displaced;\n"
	"\t\thex64_t old_value;\n"
	"\t\thex64_t new_value;\n"
	"\t\tuint32_t stack;\n"
	"\t\tstruct {\n"
	"\t\t\thex64_t rax; hex64_t rdx; hex64_t rcx; hex64_t rbx;\n"
	"\t\t\thex64_t rsi; hex64_t rdi; hex64_t rbp; hex64_t rsp;\n"
	"\t\t\thex64_t r8; hex64_t r9; hex64_t r10; hex64_t r11;\n"
	"\t\t\thex64_t r12; hex64_t r13; hex64_t r14; hex64_t r15;\n"
	"\t\t\thex64_t rip; hex64_t rflags; hex64_t fs_base;\n"
	"\t\t} regs;\n"
	"\t\tuint8_t in_kernel;\n"
	"\t\tenum access_kind kernel_kind;\n"
	"\t\tint32_t syscall;\n"
	"\t\tstring kernel_function;\n"
	"\t\tenum withheld withheld;\n"
	"\t\tenum access_kind known_kind;\n"
	"\t\tuint8_t known_in_caller;\n"
	"\t\thex64_t known_insn;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"lost\";\n\tid = 8;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t watch;\n"
	"\t\tuint64_t count;\n"
	"\t\tstring why;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"note\";\n\tid = 9;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tstring text;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"summary\";\n\tid = 10;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t watch;\n"
	"\t\tuint8_t has_counted;\n"
	"\t\tuint64_t counted;\n"
	"\t\tuint64_t recorded;\n"
	"\t\tuint64_t lost;\n"
	"\t\tuint64_t filtered;\n"
	"\t\tuint64_t duration_ns;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"tag\";\n\tid = 11;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t tag;\n"
	"\t\tuint8_t has_name;\n"
	"\t\tuint64_t number;\n"
	"\t\tstring name;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"capture\";\n\tid = 12;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t tag;\n"
	"\t\tint32_t tid;\n"
	"\t\tuint32_t stack;\n"
	"\t\tuint48_t before_ns;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"stack\";\n\tid = 256;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t stack;\n"
	"\t\tenum walk_end walk_end;\n"
	"\t\tuint32_t nframes;\n"
	"\t\thex64_t frame[nframes];\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"capture_value\";\n\tid = 257;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t tag;\n"
	"\t\tint32_t tid;\n"
	"\t\tuint32_t stack;\n"
	"\t\tuint48_t before_ns;\n"
	"\t\tuint64_t value;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"capture_withheld\";\n\tid = 266;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t tag;\n"
	"\t\tint32_t tid;\n"
	"\t\tuint32_t stack;\n"
	"\t\tuint48_t before_ns;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"thread_process\";\n\tid = 258;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tint32_t pid;\n"
	"\t\tint32_t tid;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"hit\";\n\tid = 260;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint8_t watch;\n"
	"\t\tuint1_t has_old;\n"
	"\t\tuint1_t has_new;\n"
	"\t\tuint1_t displaced;\n"
	"\t\tuint5_t offset;\n"
	"\t\tuint8_t size;\n"
	"\t\tint32_t tid;\n"
	"\t\tuint32_t stack;\n"
	"\t\tuint32_t before_ns;\n"
	"\t\thex64_t old_value;\n"
	"\t\thex64_t new_value;\n"
	"\t\tstruct {\n"
	"\t\t\thex64_t rax; hex64_t rdx; hex64_t rcx; hex64_t rbx;\n"
	"\t\t\thex64_t rsi; hex64_t rdi; hex64_t rbp; hex64_t rsp;\n"
	"\t\t\thex64_t r8; hex64_t r9; hex64_t r10; hex64_t r11;\n"
	"\t\t\thex64_t r12; hex64_t r13; hex64_t r14; hex64_t r15;\n"
	"\t\t\thex64_t rip; hex64_t rflags; hex64_t fs_base;\n"
	"\t\t} regs;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"checksum\";\n\tid = 261;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\thex32_t crc32c;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"retold\";\n\tid = 262;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tenum : uint8_t { end = 0, begin = 1 } what;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"thread_again\";\n\tid = 263;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tint32_t pid;\n"
	"\t\tint32_t tid;\n"
	"\t\tstring comm;\n"
	"\t\tint32_t creator;\n"
	"\t\tuint64_t creating_call;\n"
	"\t\thex64_t stack_start;\n"
	"\t\thex64_t stack_end;\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"code_again\";\n\tid = 264;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\thex64_t pc;\n"
	"\t\thex64_t function_start;\n"
	"\t\tuint8_t before_len;\n"
	"\t\thex8_t before[before_len];\n"
	"\t\tuint8_t at_len;\n"
	"\t\thex8_t at[at_len];\n"
	"\t};\n"
	"};\n"
	"event {\n"
	"\tname = \"tag_again\";\n\tid = 265;\n\tstream_id = 0;\n"
	"\tfields := struct {\n"
	"\t\tuint32_t tag;\n"
	"\t\tuint8_t has_name;\n"
	"\t\tuint64_t number;\n"
	"\t\tstring name;\n"
	"\t};\n"
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
	n = asprintf(&text, "%s%s%s%s%s", head, events_text, tracelog_step_events_text,
		     tracelog_probe_events_text, tracelog_symbol_event_text);
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

static bool lookup_number(const char *text, size_t len, const char *key, unsigned long *ret)
{
	char digits[16];
	struct word w;
	size_t i;

	if (!lookup(text, len, "env", key, &w) || w.quoted || w.len >= sizeof(digits))
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
	if (!lookup_number(text, len, "format_major", &major) ||
	    !lookup_number(text, len, "format_minor", &minor) || !lookup(text, len, "trace", "uuid", &id) ||
	    !parse_uuid(&id, bytes))
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
	return NULL;
}
