#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/cli/steprec/steprec.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/print/printer.h"

/* The last @n lines of @text. */
static const char *tail(const char *text, unsigned int n)
{
	const char *p = text + strlen(text);

	while (p > text && n) {
		p--;
		if (p > text && p[-1] == '\n')
			n--;
	}
	return p;
}

static struct wc_error *steprec_show_print(const char *log, FILE *out)
{
	const struct print_options options = { .no_stack = true };
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, ANNOTATE_TEXT | ANNOTATE_CALLS);
	scoped(printer_freep) struct printer *p = print_text_new(out, &options);
	struct replay_ending ending;
	struct wc_error *err;

	if (!a || !p)
		return &wc_enomem;
	annotate_add_view(a, printer_view(p));
	err = replay(log, annotate_sink(a), out, &ending);
	printer_idle(p);
	return err;
}

struct wc_error *steprec_show(const char *log, unsigned int n, char **ret)
{
	scoped(freep) char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct wc_error *err;

	if (!out)
		return &wc_enomem;
	err = steprec_show_print(log, out);
	if (fclose(out) || !text)
		return wc_error_first(err, &wc_enomem);
	if (err)
		return err;
	*ret = strdup(tail(text, n));
	return *ret ? NULL : &wc_enomem;
}
