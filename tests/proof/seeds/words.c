/* Counts words: a hash table that grows, and a sorted list. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	char *word;
	unsigned int count;
};

struct table {
	struct entry *slot;
	unsigned int cap, used;
};

static unsigned int hash_word(const char *s)
{
	unsigned int h = 5381;

	for (; *s; s++)
		h = h * 33 + (unsigned char)*s;
	return h;
}

static struct entry *find_slot(struct table *t, const char *word)
{
	unsigned int i = hash_word(word) % t->cap;

	while (t->slot[i].word && strcmp(t->slot[i].word, word) != 0)
		i = (i + 1) % t->cap;
	return &t->slot[i];
}

static int is_crowded(const struct table *t)
{
	return t->used * 4 >= t->cap * 3;
}

static void grow(struct table *t)
{
	struct table bigger = { NULL, t->cap * 2, t->used };

	bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
	for (unsigned int i = 0; i < t->cap; i++)
		if (t->slot[i].word)
			*find_slot(&bigger, t->slot[i].word) = t->slot[i];
	free(t->slot);
	*t = bigger;
}

static void add_word(struct table *t, const char *word)
{
	struct entry *e;

	if (is_crowded(t))
		grow(t);
	e = find_slot(t, word);
	if (!e->word) {
		e->word = strdup(word);
		t->used++;
	}
	e->count++;
}

static int next_word(const char **text, char *buf, int cap)
{
	int n = 0;

	while (**text && !isalpha((unsigned char)**text))
		(*text)++;
	while (isalpha((unsigned char)**text) && n < cap - 1)
		buf[n++] = (char)tolower((unsigned char)*(*text)++);
	buf[n] = '\0';
	return n;
}

static int by_count(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->word, y->word);
}

static unsigned int collect(const struct table *t, struct entry *list)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < t->cap; i++)
		if (t->slot[i].word)
			list[n++] = t->slot[i];
	return n;
}

static void print_list(const struct entry *list, unsigned int n, unsigned int least)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].count >= least)
			printf("%3u %s\n", list[i].count, list[i].word);
}

static unsigned int total(const struct entry *list, unsigned int n)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += list[i].count;
	return sum;
}

int main(void)
{
	const char *text = "The quick brown fox jumps over the lazy dog. The dog sleeps; the fox does not, "
			   "for a fox that sleeps is no fox. Over and over the quick one jumps.";
	struct table t = { calloc(8, sizeof(*t.slot)), 8, 0 };
	struct entry list[64];
	char word[32];
	unsigned int n;

	while (next_word(&text, word, sizeof(word)))
		add_word(&t, word);
	n = collect(&t, list);
	qsort(list, n, sizeof(*list), by_count);
	print_list(list, n, 2);
	printf("%u words, %u different, table of %u\n", total(list, n), n, t.cap);
	return 0;
}
