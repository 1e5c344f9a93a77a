/* The part of probe_image.h that looks at what probe_log() is given. */
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/words/format_spec.h"
#include "watchctl/patch/probe/probe_image_impl.h"

#define SYMBOL "probe_format_" /* of probe_log() in probe/probe.h */

static struct wc_error *bad(const char *name, const char *text, const char *at, int len, const char *why)
{
	return wc_error_new(WC_EUSAGE, "%s: probe_log(\"%s\") cannot print \"%.*s\": %s", name, text, len, at,
			    why);
}

static struct wc_error *check(const char *name, const struct probe_image_format *f)
{
	unsigned int n = 0;

	for (const char *p = strchr(f->text, '%'), *end; p; p = strchr(end, '%')) {
		struct format_spec spec;

		end = format_spec_read(p, &spec);
		if (spec.conversion == '%')
			continue;
		if (spec.conversion == '*')
			return bad(name, f->text, p, (int)(end - p),
				   "width and precision must be numbers, not \"*\"");
		if (!format_spec_is_known(&spec))
			return bad(
				name, f->text, p, (int)(end - p),
				"it has d, i, u, x, X, o, c, p, s, and e, f, g and a of a double; a \"%\" itself is \"%%\"");
		if (n < f->nargs && format_spec_is_float(&spec) != (f->doubles >> n & 1))
			return bad(name, f->text, p, (int)(end - p),
				   format_spec_is_float(&spec) ? "its argument is no double"
							       : "its argument is a double");
		n++;
	}
	if (n == f->nargs)
		return NULL;
	return wc_error_new(WC_EUSAGE, "%s: probe_log(\"%s\") is given %u argument%s for %u conversion%s",
			    name, f->text, f->nargs, f->nargs == 1 ? "" : "s", n, n == 1 ? "" : "s");
}

struct wc_error *probe_formats_check(const struct probe_elf *e, const struct probe_image *i)
{
	struct wc_error *err = NULL;
	struct probe_symbols s;

	if (!probe_elf_symbols(e, SHT_SYMTAB, &s))
		return NULL;
	for (size_t k = 1; k < s.n && !err; k++) {
		struct probe_image_format f;

		/* gcc's name, and clang's, have something before or behind it. */
		if (ELF64_ST_TYPE(s.v[k].st_info) == STT_OBJECT &&
		    strstr(probe_elf_symbol_name(&s, &s.v[k]), SYMBOL) &&
		    probe_image_format(i, s.v[k].st_value, &f))
			err = check(e->name, &f);
	}
	return err;
}
