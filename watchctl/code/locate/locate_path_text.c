/* What a path is called: as a person writes it, with brackets where an operator needs them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_parts.h"

static enum path_text kind_of(const struct locate_step *step)
{
	switch (step->op) {
	case LOCATE_DEREF:
		return step->behind ? TEXT_POSTFIX : TEXT_UNARY;
	case LOCATE_ADDRESS:
	case LOCATE_CAST:
	case LOCATE_NEGATE:
		return TEXT_UNARY;
	case LOCATE_SLICE:
	case LOCATE_ADD:
	case LOCATE_SUB:
	case LOCATE_MUL:
	case LOCATE_DIV:
		return TEXT_SUM;
	default:
		return TEXT_POSTFIX;
	}
}

static bool needs_brackets(const struct path_place *p, const struct locate_step *step)
{
	enum path_text kind = kind_of(step);

	if (kind == TEXT_SUM && (step->op == LOCATE_ADD || step->op == LOCATE_SUB))
		return false;
	return p->text_kind > kind || (kind == TEXT_SUM && p->text_kind == TEXT_SUM);
}

static void put_index(FILE *f, const char *path, const struct locate_step *step)
{
	fprintf(f, "%s%c", path, step->round ? '(' : '[');
	for (unsigned int i = 0; i < step->nindices; i++)
		fprintf(f, "%s%" PRId64, i ? "," : "", step->index[i]);
	fputc(step->round ? ')' : ']', f);
}

static void put_cast(FILE *f, const char *path, const struct locate_step *step)
{
	scoped(freep) char *type = locate_quote_type(step->name);

	fprintf(f, "(%s%s", type ? type : step->name, step->stars ? " " : "");
	for (unsigned int i = 0; i < step->stars; i++)
		fputc('*', f);
	fprintf(f, ")%s", path);
}

static void put_step(FILE *f, const struct path_place *p, const char *path, const struct locate_step *step)
{
	switch (step->op) {
	case LOCATE_MEMBER:
		fprintf(f, "%s%c%s", path, dtype_family(&p->type) == FAMILY_FORTRAN ? '%' : '.', step->name);
		break;
	case LOCATE_ARROW:
		fprintf(f, "%s->%s", path, step->name);
		break;
	case LOCATE_INDEX:
		put_index(f, path, step);
		break;
	case LOCATE_DEREF:
		fprintf(f, step->behind ? "%s^" : "*%s", path);
		break;
	case LOCATE_ADDRESS:
		fprintf(f, "&%s", path);
		break;
	case LOCATE_NEGATE:
		fprintf(f, "-%s", path);
		break;
	case LOCATE_CAST:
		put_cast(f, path, step);
		break;
	case LOCATE_SLICE:
		fprintf(f, "%s@%" PRId64, path, step->index[0]);
		break;
	default:
		fprintf(f, step->index[0] < 0 ? "%s%c(%" PRId64 ")" : "%s%c%" PRId64, path,
			step->op == LOCATE_ADD	 ? '+'
			: step->op == LOCATE_SUB ? '-'
			: step->op == LOCATE_MUL ? '*'
						 : '/',
			step->index[0]);
		break;
	}
}

static char *text_after(const struct path_place *p, const struct locate_step *step)
{
	scoped(freep) char *path = NULL;
	char *text = NULL;
	size_t len;
	FILE *f;

	if (asprintf(&path, needs_brackets(p, step) ? "(%s)" : "%s", p->text) < 0) {
		path = NULL;
		return NULL;
	}
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	put_step(f, p, path, step);
	return fclose(f) == 0 ? text : (free(text), NULL);
}

struct wc_error *path_add_text(struct path_place *p, const struct locate_step *step)
{
	char *text = text_after(p, step);

	if (!text)
		return &wc_enomem;
	free(p->text);
	p->text = text;
	p->text_kind = kind_of(step);
	return NULL;
}
