/* The script's data. Rows are arrays, to be small: what each number is, calls_data.js says, which reads them. */
#include <inttypes.h>

#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/view/callpage/callpage_impl.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/event/step_words.h"
#include "watchctl/view/words/json.h"

static void put_head(const struct callpage *p, const struct replay_ending *ending, struct json *j)
{
	json_text(j, "version", WATCHCTL_VERSION);
	json_text(j, "log", p->opt.log);
	page_clock_json(&p->clock, j);
	json_text_if(j, "cmdline", p->cmdline);
	json_text_if(j, "host", p->host);
	json_signed(j, "pid", p->pid);
	json_number(j, "processes", p->processes);
	json_text_if(j, "range", p->range);
	json_text_if(j, "filters", p->filters);
	json_text_if(j, "stepper", p->stepper);
	page_ending_json(ending, j);
}

static void put_counts(const struct callpage *p, struct json *j)
{
	json_number(j, "all_calls", p->calls);
	json_number(j, "calls", p->kept.n);
	json_number(j, "calls_left_out", p->kept.left_out);
	json_number(j, "texts_left_out", p->texts.left_out);
	json_number(j, "marks_left_out", p->marks_left_out);
	json_number(j, "notes_left_out", p->notes_left_out);
	json_number(j, "steps", p->steps);
	json_number(j, "texts", p->texts.n);
}

static void put_threads(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, "threads", '[');
	for (i = 0; i < p->tables.nthreads; i++) {
		const struct page_thread *t = &p->tables.thread[i];

		json_open(j, NULL, '[');
		json_signed(j, NULL, t->pid);
		json_signed(j, NULL, t->tid);
		json_text(j, NULL, t->comm ? t->comm : "");
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_params(const struct callpage_function *f, struct json *j)
{
	const struct function_event *e = &f->f->e;
	uint32_t i;

	json_open(j, "params", '[');
	for (i = 0; i < e->nparams; i++) {
		json_open(j, NULL, '[');
		json_text(j, NULL, e->param[i].name ? e->param[i].name : "");
		json_number(j, NULL, i < f->param_types ? f->param_type[i] : CALLPAGE_NO_TEXT);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_function(const struct callpage_function *f, struct json *j)
{
	const struct function_event *e = &f->f->e;
	char bare[512];

	json_open(j, NULL, '{');
	json_text(j, "name", bare_name(f->f->text, bare, sizeof(bare)));
	json_text_if(j, "full", f->f->text);
	json_text_if(j, "module", e->module);
	json_text_if(j, "file", e->file);
	if (e->line)
		json_number(j, "line", e->line);
	if (e->flags & FUNCTION_OVER)
		json_bool(j, "over", true);
	if (e->flags & FUNCTION_NO_TYPES)
		json_bool(j, "untyped", true);
	put_params(f, j);
	json_number(j, "type", f->return_type);
	json_number(j, "calls", f->calls);
	json_close(j, '}');
}

static void put_functions(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, "functions", '[');
	for (i = 0; i < p->nfunctions; i++)
		put_function(&p->function[i], j);
	json_close(j, ']');
}

static void put_marks(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, "marks", '[');
	for (i = 0; i < p->nmarks; i++) {
		json_open(j, NULL, '[');
		json_number(j, NULL, p->mark[i].thread);
		json_number(j, NULL, p->mark[i].ns);
		json_number(j, NULL, p->mark[i].call);
		json_number(j, NULL, p->mark[i].text);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_notes(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, "notes", '[');
	for (i = 0; i < p->nnotes; i++) {
		json_open(j, NULL, '{');
		json_number(j, "ns", p->note[i].ns);
		json_text(j, "text", p->note[i].text);
		if (p->note[i].lost)
			json_number(j, "lost", p->note[i].lost);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* [call, text, call, text ...] */
static void put_outer(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, "outer", '[');
	for (i = 0; i < p->nouter; i++) {
		json_number(j, NULL, p->outer[i].call);
		json_number(j, NULL, p->outer[i].text);
	}
	json_close(j, ']');
}

/* How calls end: nothing for those that returned. */
static void put_ends(struct json *j)
{
	int how;

	json_open(j, "ends", '[');
	json_text(j, NULL, "the log does not have its end");
	for (how = RETURN_RETURNED; how <= RETURN_UNKNOWN; how++)
		json_text(j, NULL,
			  step_how_text((enum return_how)how) ? step_how_text((enum return_how)how) : "");
	json_close(j, ']');
}

bool callpage_json(const struct callpage *p, const struct replay_ending *ending,
		   const size_t column[CALLPAGE_COLUMNS], struct json *j)
{
	int i;

	json_open(j, NULL, '{');
	put_head(p, ending, j);
	put_counts(p, j);
	put_threads(p, j);
	put_functions(p, j);
	put_marks(p, j);
	put_notes(p, j);
	put_outer(p, j);
	put_ends(j);
	json_open(j, "columns", '{');
	for (i = 0; i < CALLPAGE_COLUMNS; i++)
		json_number(j, callpage_column_name[i], column[i]);
	json_close(j, '}');
	json_close(j, '}');
	return !j->line.failed;
}

bool callpage_texts_json(const struct callpage *p, struct json *j)
{
	size_t i;

	json_open(j, NULL, '[');
	for (i = 0; i < p->texts.n; i++)
		json_text(j, NULL, callpage_text_at(&p->texts, i));
	json_close(j, ']');
	return !j->line.failed;
}
