/* The memory of a process as text, as gdb's x lays it out. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/insn/disasm.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/monitor/inspect/inspect_expr.h"

#define STRING_MAX 200
#define TEXT 320

struct wc_error *examine_parse(const char *text, struct examine *x)
{
	struct examine y = *x;
	const char *c = text;

	y.count = 1;
	if (isdigit((unsigned char)*c)) {
		unsigned long n = strtoul(c, (char **)&c, 10);

		if (!n || n > EXAMINE_MAX)
			return wc_error_new(WC_EUSAGE, "x/%s: the count goes from 1 to %u", text,
					    EXAMINE_MAX);
		y.count = (unsigned int)n;
	}
	for (; *c; c++) {
		if (strchr("xduotacfsi", *c))
			y.format = *c;
		else if (strchr("bhwg", *c))
			y.size = *c;
		else
			return wc_error_new(
				WC_EUSAGE,
				"x/%s: '%c' is neither a format (x d u o t a c f s i) nor a size (b h w g)",
				text, *c);
	}
	if (!strpbrk(text, "bhwg")) {
		/* As gdb: an address is 8 bytes, a character 1, a floating point number 8 unless it was 4. */
		if (y.format == 'c' && strchr(text, 'c'))
			y.size = 'b';
		else if (y.format == 'a' || (y.format == 'f' && strchr(text, 'f') && x->format != 'f'))
			y.size = 'g';
	}
	*x = y;
	return NULL;
}

static unsigned int bytes_of(char size)
{
	return size == 'b' ? 1 : size == 'h' ? 2 : size == 'g' ? 8 : 4;
}

static unsigned int per_line(const struct examine *x)
{
	if (x->format == 'i' || x->format == 's')
		return 1;
	if (x->format == 'a')
		return 2;
	if (x->format == 't')
		return x->size == 'b' ? 8 : x->size == 'h' ? 8 : x->size == 'w' ? 2 : 1;
	return x->size == 'b' || x->size == 'h' ? 8 : x->size == 'w' ? 4 : 2;
}

static void put_label(FILE *f, const struct show_source *s, uint64_t addr)
{
	char symbol[TEXT];

	if (symbolizer_data_name(s->symbolizer, addr, symbol, sizeof(symbol)))
		fprintf(f, "0x%" PRIx64 " <%s>:", addr, symbol);
	else
		fprintf(f, "0x%" PRIx64 ":", addr);
}

/* One item; 0: it cannot be read. */
static size_t put_string(FILE *f, const struct show_source *s, uint64_t addr)
{
	size_t len = 0;
	scoped(freep) char *text = show_string(s->mem, addr, STRING_MAX, &len);

	if (!text)
		return 0;
	fprintf(f, "\t%s", text);
	return len;
}

static size_t put_instruction(FILE *f, const struct show_source *s, enum insn_syntax syntax, uint64_t addr)
{
	uint8_t bytes[INSN_MAX];
	char text[TEXT];
	struct insn insn;
	size_t n = INSN_MAX;

	/* The last instruction of a page may be followed by none. */
	while (n && !memory_read(s->mem, addr, bytes, n))
		n--;
	if (!n)
		return 0;
	if (!insn_decode(bytes, n, addr, &insn)) {
		fputs("\t(no instruction)", f);
		return 1;
	}
	disasm_text(syntax, bytes, insn.len, addr, text, sizeof(text));
	fprintf(f, "\t%s", text);
	return insn.len;
}

static size_t put_number(FILE *f, const struct show_source *s, const struct examine *x, uint64_t addr)
{
	unsigned int size = bytes_of(x->size);
	uint64_t raw = 0;
	char text[TEXT];

	if (!memory_read(s->mem, addr, &raw, size))
		return 0;
	show_number(s, x->format, size, raw, true, text, sizeof(text));
	fprintf(f, "\t%s", text);
	return size;
}

static size_t put_item(FILE *f, const struct show_source *s, const struct examine *x, uint64_t addr)
{
	if (x->format == 's')
		return put_string(f, s, addr);
	return x->format == 'i' ? put_instruction(f, s, x->syntax, addr) : put_number(f, s, x, addr);
}

struct wc_error *inspect_memory(const struct show_source *s, struct examine *x, uint64_t addr, char **ret)
{
	unsigned int columns = per_line(x), n;
	uint64_t at = addr;
	char *text = NULL;
	size_t len, step = 1;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return &wc_enomem;
	for (n = 0; n < x->count && step; n++) {
		char *item = NULL;
		size_t item_len;
		FILE *g = open_memstream(&item, &item_len);

		if (!g)
			break;
		step = put_item(g, s, x, at);
		if (fclose(g) || !step) {
			free(item);
			break;
		}
		if (n % columns == 0) {
			if (n)
				fputc('\n', f);
			put_label(f, s, at);
		}
		fputs(item, f);
		free(item);
		at += step;
	}
	if (n)
		fputc('\n', f);
	if (n && !step)
		fprintf(f, "the following memory, at 0x%" PRIx64 ", cannot be read\n", at);
	if (fclose(f) || (!n && step)) {
		free(text);
		return &wc_enomem;
	}
	if (!n) {
		free(text);
		return wc_error_new(
			WC_ENAME, "the memory at 0x%" PRIx64 " cannot be read: the process has not mapped it",
			addr);
	}
	x->next = at;
	x->has_next = true;
	*ret = text;
	return NULL;
}
