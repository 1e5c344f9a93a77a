#include "calltrace/pass/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/write_all.h"

uint32_t symbol_hash(const char *text, size_t len)
{
	uint32_t h = 2166136261u;

	for (; len; len--)
		h = (h ^ (unsigned char)*text++) * 16777619u;
	return h;
}

/* Bytes that are no UTF-8 become U+FFFD. */
static void put_string(struct text_buf *t, const char *s)
{
	size_t len;

	text_buf_char(t, '"');
	for (; *s; s += len ? len : 1) {
		len = utf8_len(s);
		if (!len)
			text_buf_add(t, UTF8_REPLACEMENT);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			text_buf_printf(t, "\\u%04x", (unsigned int)*s);
		else
			text_buf_printf(t, "%s%.*s", *s == '"' || *s == '\\' ? "\\" : "", (int)len, s);
	}
	text_buf_char(t, '"');
}

static void put_member(struct text_buf *t, const char *key, const char *value)
{
	text_buf_printf(t, ",\"%s\":", key);
	put_string(t, value);
}

void symbols_put(struct text_buf *t, const struct choices *c, const char *module)
{
	const uint32_t half = symbol_hash(module, strlen(module));
	size_t i;

	for (i = 0; i < c->n; i++) {
		const struct choice *f = &c->choice[i];

		text_buf_printf(t, "{\"id\":\"%016" PRIx64 "\"", symbol_id(half, f, strlen(f->linkage_name)));
		put_member(t, "module", module);
		put_member(t, "linkage_name", f->linkage_name);
		put_member(t, "demangled_name", f->name);
		if (f->file)
			put_member(t, "file", f->file);
		if (f->line)
			text_buf_printf(t, ",\"line\":%u", f->line);
		text_buf_printf(t, ",\"ir_instruction_count\":%u,\"instrumented\":%s", f->insns,
				f->is_traced ? "true" : "false");
		put_member(t, "reason", f->why);
		text_buf_add(t, "}\n");
	}
}

struct wc_error *symbols_write(const char *path, const struct text_buf *t, bool append)
{
	const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
	scoped(closep) int fd = -1;
	int number;

	if (t->failed)
		return &wc_enomem;
	fd = open(path, flags, 0666);
	number = fd < 0 ? errno : write_all(fd, t->bytes, t->len);
	return number ? wc_error_errno(WC_EFAIL, number, "cannot write the symbols file %s", path) : NULL;
}
