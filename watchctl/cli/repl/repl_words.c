#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/cli/repl/repl.h"

#define BLANKS " \t\r\n"

struct splitter {
	const char *at;
	char *word;
	size_t len;
	bool quoted, closed;
};

/* One piece of a word: up to the end of a quote, or a character. */
static void take_piece(struct splitter *s)
{
	char quote = *s->at;

	if (quote == '\\' && s->at[1]) {
		s->word[s->len++] = s->at[1];
		s->at += 2;
		return;
	}
	if (quote != '\'' && quote != '"') {
		s->word[s->len++] = *s->at++;
		return;
	}
	s->quoted = true;
	for (s->at++; *s->at && *s->at != quote; s->at++) {
		if (quote == '"' && *s->at == '\\' && (s->at[1] == '"' || s->at[1] == '\\'))
			s->at++;
		s->word[s->len++] = *s->at;
	}
	if (*s->at)
		s->at++;
	else
		s->closed = false;
}

static bool repl_words_keep(struct repl_words *w, char *word, bool quoted)
{
	char *none = NULL;

	if (!vec_push(w->quoted, w->n, w->quoted_cap, quoted))
		return false;
	w->n--;
	if (!vec_push(w->v, w->n, w->cap, word))
		return false;
	if (!vec_push(w->v, w->n, w->cap, none))
		return false;
	w->n--;
	return true;
}

static struct wc_error *end_list(struct repl_words *w)
{
	if (w->n)
		return NULL;
	w->v = calloc(1, sizeof(*w->v));
	w->cap = w->v ? 1 : 0;
	return w->v ? NULL : &wc_enomem;
}

struct wc_error *repl_split(const char *line, bool open, struct repl_words *ret)
{
	struct repl_words w = { 0 };
	struct splitter s = { .at = line, .closed = true };

	for (;;) {
		s.at += strspn(s.at, BLANKS);
		if (!*s.at)
			break;
		s.word = malloc(strlen(s.at) + 1);
		s.len = 0;
		s.quoted = false;
		while (s.word && *s.at && !strchr(BLANKS, *s.at))
			take_piece(&s);
		if (s.word)
			s.word[s.len] = '\0';
		if (!s.word || !repl_words_keep(&w, s.word, s.quoted)) {
			free(s.word);
			repl_words_deinit(&w);
			return &wc_enomem;
		}
	}
	if (!s.closed && !open) {
		repl_words_deinit(&w);
		return wc_error_new(WC_EUSAGE, "a quote is not closed");
	}
	*ret = w;
	return end_list(ret);
}

void repl_words_deinit(struct repl_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	free(w->quoted);
	*w = (struct repl_words){ 0 };
}
