/* Writes the page: edges, stacks and texts come behind the script, which paints the units before they are there. */
#include "watchctl/cli/flow/page/flow_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/cli/flow/page/flow_page_impl.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/cli/output/page_file.h"
#include "watchctl/view/page/page_shell.h"

struct blocks {
	const struct flow_page *p;
	struct json data, texts;
};

static void put_title(const struct flow_page *p, FILE *out)
{
	char clean[200];

	page_shell_text(utf8_clean(log_operand_name(p->ask->log), clean, sizeof(clean)), out);
	page_shell_text(" - what led to what - watchctl", out);
}

static struct wc_error *put_page(const void *ctx, FILE *out)
{
	const struct blocks *b = ctx;

	page_shell_begin(&page_shell_flow, out);
	put_title(b->p, out);
	page_shell_body(&page_shell_flow, out);
	page_shell_json("data", &b->data, out);
	page_shell_bytes("units", &b->p->unit_bytes, out);
	page_shell_script(&page_shell_flow, out);
	page_shell_bytes("edges", &b->p->edge_bytes, out);
	page_shell_bytes("stacks", &b->p->stack_bytes, out);
	page_shell_json("texts", &b->texts, out);
	page_shell_end(out);
	return NULL;
}

/* The first thing that is in the page: what went before the recording may be a unit's begin. */
static uint64_t first_ns(const struct flow_page *p)
{
	size_t i = 0;

	while (i < p->s->nnodes && !p->chosen[i])
		i++;
	return i < p->s->nnodes && p->s->node[i].begin_ns < p->s->span.begin_ns ? p->s->node[i].begin_ns
										: p->s->span.begin_ns;
}

static bool prepare(struct flow_page *p)
{
	const size_t bytes = (p->s->threads->n + 1) * sizeof(*p->lane);

	p->texts.max = FLOW_PAGE_TEXT_BYTES;
	p->chosen = flow_choice_nodes(&p->choice);
	p->lane = malloc(bytes);
	if (!p->chosen || !p->lane)
		return false;
	memset(p->lane, 0xff, bytes); /* FLOW_NONE */
	p->begin_ns = first_ns(p);
	return true;
}

static void flow_page_deinit(struct flow_page *p)
{
	free(p->chosen);
	free(p->lane);
	free(p->thread);
	free(p->unit_bytes.v);
	free(p->edge_bytes.v);
	free(p->stack_bytes.v);
	free(p->stack);
	callpage_texts_deinit(&p->texts);
}

struct wc_error *flow_page_put(const struct flow_shown *s, const struct flow_graph_ask *ask,
			       struct flow_page_start start, const char *file)
{
	struct flow_page p = { .s = s, .ask = ask, .start = start };
	struct blocks b = { .p = &p };
	const struct page_writer writer = { put_page, &b };
	struct wc_error *err = flow_choice_make(s, ask, &p.choice);

	if (!err && !(prepare(&p) && flow_page_encode(&p) && flow_page_json(&p, &b.data) &&
		      flow_page_texts_json(&p, &b.texts)))
		err = &wc_enomem;
	if (!err)
		err = page_file_write(&writer, file);
	json_deinit(&b.data);
	json_deinit(&b.texts);
	flow_page_deinit(&p);
	return err;
}

struct wc_error *flow_page_write(const struct flow_graph_ask *ask, const char *file)
{
	struct flow_shown s = { 0 };
	struct wc_error *err = flow_shown_read(ask->log, ask->rules, ask->nrules, &s);

	if (!err)
		err = flow_page_put(&s, ask, (struct flow_page_start){ .node = FLOW_NONE }, file);
	flow_shown_deinit(&s);
	return err;
}
