#include "watchctl/cli/report_html.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/private_file.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/view/callpage/callpage.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/page/page.h"

/* Two views collect; which of them the log is for is known at its end. */
struct pages {
	struct page *watches;
	struct callpage *calls;
};

static struct wc_error *write_page(const struct pages *p, const struct replay_ending *ending, FILE *out,
				   const char *file)
{
	struct wc_error *err = callpage_has_calls(p->calls) ? callpage_write(p->calls, ending, out)
							    : page_write(p->watches, ending, out);

	if (err)
		return err;
	if (fflush(out) || ferror(out))
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	return NULL;
}

/* A new file takes the place of an old one when it is whole. */
static struct wc_error *replace(const struct pages *page, const struct replay_ending *ending,
				const char *file)
{
	scoped(freep) char *fresh = NULL;
	scoped(fclosep) FILE *out = NULL;
	struct wc_error *err;
	int fd;

	if (asprintf(&fresh, "%s.XXXXXX", file) < 0) {
		fresh = NULL;
		return &wc_enomem;
	}
	/* For its owner alone: values are in it. */
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	out = fdopen(fd, "w");
	if (!out)
		close(fd);
	err = out ? write_page(page, ending, out, file)
		  : wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	if (!err && rename(fresh, file) < 0)
		err = wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	if (err)
		unlink(fresh);
	return err;
}

/* Devices, pipes and links are written to; only what is a file of its own, or nothing yet, is replaced. */
static struct wc_error *write_to(const struct pages *page, const struct replay_ending *ending,
				 const char *file)
{
	scoped(fclosep) FILE *out = NULL;
	struct stat st;

	if (strcmp(file, "-") == 0)
		return write_page(page, ending, stdout, "the page");
	if (lstat(file, &st) < 0 || S_ISREG(st.st_mode))
		return replace(page, ending, file);
	out = private_file_fopen(file);
	if (!out)
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	return write_page(page, ending, out, file);
}

struct wc_error *report_html(const char *log, const char *file, bool no_source, enum insn_syntax syntax,
			     const struct redact_ask *redact)
{
	struct redact_rules rules = redact_ask_rules(redact);
	scoped(annotate_freep) struct annotate *a =
		annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_CALLS);
	const char *name = log_operand_name(log);
	struct page_options o = { .log = name, .no_source = no_source };
	struct callpage_options of_calls = { .log = name };
	scoped(page_freep) struct page *page = a ? page_new(a, &o) : NULL;
	scoped(callpage_freep) struct callpage *calls = a ? callpage_new(a, &of_calls) : NULL;
	scoped(reorder_freep) struct reorder *order = a ? reorder_new(annotate_sink(a)) : NULL;
	scoped(progress_end) struct progress progress;
	struct replay_ending ending = { 0 };
	struct wc_error *err;

	progress_begin(&progress, "reading the log");
	if (!page || !calls || !order)
		return &wc_enomem;
	annotate_set_syntax(a, syntax);
	/* Nothing is printed while it is read. */
	err = replay_redacted(log, &rules, reorder_sink(order), stderr, &progress, &ending);
	progress_end(&progress);
	if (!err)
		err = reorder_flush(order);
	if (err)
		return err;
	annotate_finish(a);
	redact_ask_warn(ending.unused);
	err = write_to(&(struct pages){ page, calls }, &ending, file);
	if (!err)
		err = end_of_log(name, &ending.damage);
	return err && log_damage_is(&ending.damage) ? wc_error_hint(err, "the page says so") : err;
}
