/* What the words of a trigger stand for, and whether it can ever hold. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/view/trigger/trigger_impl.h"

size_t trigger_watch(const struct trigger *t, const char *start, size_t n)
{
	size_t i;

	for (i = 0; i < t->nnames; i++)
		if (strlen(t->name[i]) == n && !memcmp(t->name[i], start, n))
			break;
	return i;
}

static bool is_watch(void *ctx, const char *start, size_t n)
{
	const struct trigger *t = ctx;

	return trigger_watch(t, start, n) < t->nnames;
}

/* Meanings */

static struct meaning meaning_of(const struct trigger *t, const char *word)
{
	static const struct {
		const char *word;
		struct meaning means;
	} words[] = {
		{ "new", { .kind = MEANS_NEW } },
		{ "old", { .kind = MEANS_OLD } },
		{ "size", { .kind = MEANS_SIZE } },
		{ "thread", { .kind = MEANS_THREAD } },
		{ "watch", { .kind = MEANS_HIT } },
		{ "kernel", { .kind = MEANS_KERNEL } },
		{ "read", { .kind = MEANS_KIND, .index = ACCESS_READ } },
		{ "write", { .kind = MEANS_KIND, .index = ACCESS_WRITE } },
		{ "execute", { .kind = MEANS_KIND, .index = ACCESS_EXECUTE } },
		{ "true", { .kind = MEANS_NUMBER, .number = 1 } },
		{ "false", { .kind = MEANS_NUMBER } },
		{ "NULL", { .kind = MEANS_NUMBER } },
		{ "nullptr", { .kind = MEANS_NUMBER } },
		{ "nil", { .kind = MEANS_NUMBER } },
	};
	size_t i = trigger_watch(t, word, strlen(word));

	if (i < t->nnames)
		return (struct meaning){ .kind = MEANS_WATCH, .index = i };
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].word, word))
			return words[i].means;
	return (struct meaning){ .kind = MEANS_ENUMERATOR };
}

static struct wc_error *set_meaning(struct trigger *t, size_t i)
{
	const struct condition_node *n = &t->tree.v[i];
	struct meaning *m = &t->means[i];

	switch (n->kind) {
	case CONDITION_CALLER:
		t->of_access = t->stack = true;
		break;
	case CONDITION_WORD:
		*m = meaning_of(t, n->text);
		t->of_access |=
			m->kind != MEANS_WATCH && m->kind != MEANS_ENUMERATOR && m->kind != MEANS_NUMBER;
		break;
	case CONDITION_NAME:
		*m = (struct meaning){ .kind = MEANS_WATCH,
				       .index = trigger_watch(t, n->text, strlen(n->text)) };
		if (m->index == t->nnames)
			return condition_error(&t->tree, WC_ENAME, n->at, "There is no watch of that name");
		break;
	case CONDITION_REGISTER:
		m->kind = MEANS_REGISTER;
		t->of_access = true;
		if (!reg_by_name(n->text, &m->reg))
			return condition_error(
				&t->tree, WC_EUSAGE, n->at,
				"Unknown register \"$%s\": expected $rax .. $r15, $rip, $rsp, $rbp, $eflags, or a "
				"lower half like $eax",
				n->text);
		break;
	default:
		break;
	}
	return NULL;
}

/* What can never be compared is found here, not when it happens. */

static bool is_truth(const struct trigger *t, size_t i)
{
	switch (t->tree.v[i].kind) {
	case CONDITION_EITHER:
	case CONDITION_BOTH:
	case CONDITION_NOT:
	case CONDITION_COMPARE:
	case CONDITION_IN:
	case CONDITION_CALLER:
		return true;
	default:
		return trigger_means(t, i, MEANS_KIND) || trigger_means(t, i, MEANS_KERNEL);
	}
}

static bool has_enumerators(const struct trigger *t, size_t i)
{
	return trigger_means(t, i, MEANS_WATCH) || trigger_means(t, i, MEANS_NEW) ||
	       trigger_means(t, i, MEANS_OLD);
}

static struct wc_error *unknown_word(const struct trigger *t, size_t i)
{
	const struct condition_node *n = &t->tree.v[i];

	return condition_error(
		&t->tree, WC_ENAME, n->start,
		"\"%s\" is neither a watch nor an enumerator that can be used here (the name of a watch is the "
		"text after its -v)",
		n->text);
}

/* One side of a comparison; the other one is @with. */
static struct wc_error *check_side(const struct trigger *t, const struct condition_node *n, size_t i,
				   size_t with)
{
	bool is_name = trigger_means(t, with, MEANS_THREAD) || trigger_means(t, with, MEANS_HIT);
	bool equality = n->op == CONDITION_EQUAL || n->op == CONDITION_NOT_EQUAL;

	if (condition_is(&t->tree, i, CONDITION_TEXT) && !is_name)
		return condition_error(&t->tree, WC_EUSAGE, n->at,
				       "A text can only be compared with thread and watch");
	if (trigger_means(t, i, MEANS_HIT) && !condition_is(&t->tree, with, CONDITION_TEXT))
		return condition_error(&t->tree, WC_EUSAGE, n->at,
				       "The watch that was hit can only be compared with a \"name\"");
	if (trigger_means(t, i, MEANS_HIT)) {
		const struct condition_node *text = &t->tree.v[with];

		if (trigger_watch(t, text->text, strlen(text->text)) == t->nnames)
			return condition_error(&t->tree, WC_ENAME, text->at,
					       "There is no watch of that name");
	}
	if ((trigger_means(t, i, MEANS_HIT) || trigger_means(t, i, MEANS_THREAD)) && !equality)
		return condition_error(&t->tree, WC_EUSAGE, n->at, "Names can only be compared by == and !=");
	if (is_truth(t, i))
		return condition_error(&t->tree, WC_EUSAGE, n->at, "Only values can be compared");
	return trigger_means(t, i, MEANS_ENUMERATOR) && !has_enumerators(t, with) ? unknown_word(t, i) : NULL;
}

/* Part of a sum, or an end of a range. */
static struct wc_error *check_number(const struct trigger *t, const struct condition_node *n, size_t i)
{
	if (is_truth(t, i) || condition_is(&t->tree, i, CONDITION_TEXT) ||
	    trigger_means(t, i, MEANS_THREAD) || trigger_means(t, i, MEANS_HIT))
		return condition_error(&t->tree, WC_EUSAGE, n->at, "Only numbers can be calculated with");
	return trigger_means(t, i, MEANS_ENUMERATOR) ? unknown_word(t, i) : NULL;
}

/* An end of a range of what @n->a is. */
static struct wc_error *check_end(const struct trigger *t, const struct condition_node *n, size_t i)
{
	return trigger_means(t, i, MEANS_ENUMERATOR) && has_enumerators(t, n->a) ? NULL
										 : check_number(t, n, i);
}

static struct wc_error *check_divisor(const struct trigger *t, const struct condition_node *n)
{
	const struct condition_node *b = &t->tree.v[n->b];

	if ((n->op != CONDITION_DIV && n->op != CONDITION_MOD) || b->kind != CONDITION_INTEGER || b->integer)
		return NULL;
	return condition_error(&t->tree, WC_EUSAGE, n->at, "Nothing can be divided by 0");
}

/* A condition by itself: a truth, or a value that is not 0. */
static struct wc_error *check_truth(const struct trigger *t, size_t i)
{
	const struct condition_node *n = &t->tree.v[i];

	if (is_truth(t, i) || has_enumerators(t, i) || n->kind == CONDITION_CALCULATE ||
	    n->kind == CONDITION_MINUS || n->kind == CONDITION_REGISTER)
		return NULL;
	if (trigger_means(t, i, MEANS_ENUMERATOR))
		return condition_error(&t->tree, WC_ENAME, n->start,
				       "\"%s\" is not a watch (the name of a watch is the text after its -v)",
				       n->text);
	return condition_error(&t->tree, WC_EUSAGE, n->start, "Expected a comparison, like == 0");
}

static struct wc_error *check(const struct trigger *t, size_t i)
{
	const struct condition_node *n = &t->tree.v[i];
	struct wc_error *err = NULL;

	switch (n->kind) {
	case CONDITION_EITHER:
	case CONDITION_BOTH:
		err = check_truth(t, n->a);
		return err ? err : check_truth(t, n->b);
	case CONDITION_NOT:
		return check_truth(t, n->a);
	case CONDITION_COMPARE:
		err = check_side(t, n, n->a, n->b);
		return err ? err : check_side(t, n, n->b, n->a);
	case CONDITION_IN:
		err = check_number(t, n, n->a);
		err = err ? err : check_end(t, n, n->b);
		return err ? err : check_end(t, n, n->c);
	case CONDITION_CALCULATE:
		err = check_number(t, n, n->a);
		err = err ? err : check_number(t, n, n->b);
		return err ? err : check_divisor(t, n);
	case CONDITION_MINUS:
		return check_number(t, n, n->a);
	default:
		return NULL;
	}
}

void trigger_free(struct trigger *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nnames; i++)
		free(t->name[i]);
	free(t->means);
	condition_deinit(&t->tree);
	free(t);
}

void trigger_freep(struct trigger **t)
{
	trigger_free(*t);
}

struct wc_error *trigger_compile(const char *text, const char *const *watches, unsigned int nwatches,
				 struct trigger **ret)
{
	scoped(trigger_freep) struct trigger *t = calloc(1, sizeof(*t));
	struct wc_error *err;

	if (!t)
		return &wc_enomem;
	for (unsigned int i = 0; i < nwatches && i < WATCHES_MAX; i++) {
		t->name[i] = strdup(watches[i]);
		if (!t->name[i])
			return &wc_enomem;
		t->nnames++;
	}
	err = condition_parse(text, "trigger", &(struct condition_names){ is_watch, t }, &t->tree);
	if (err)
		return err;
	t->means = calloc(t->tree.n, sizeof(*t->means));
	if (!t->means)
		return &wc_enomem;
	for (size_t i = 0; i < t->tree.n && !err; i++)
		err = set_meaning(t, i);
	for (size_t i = 0; i < t->tree.n && !err; i++)
		err = check(t, i);
	if (!err)
		err = check_truth(t, t->tree.root);
	if (!err)
		*ret = take_ptr(t);
	return err;
}
