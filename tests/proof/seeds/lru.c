/* A cache that forgets what was not used for longest: a list, an index, and a slow function behind it. */
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 7

struct node {
	int key;
	long value;
	struct node *before, *after; /* in the list of use */
	struct node *chain;
};

struct cache {
	struct node *first, *last; /* last used is first */
	struct node *bucket[BUCKETS];
	int n, cap, hits, misses;
};

static unsigned int bucket_of(int key)
{
	return (unsigned int)(key * 31 + 7) % BUCKETS;
}

static struct node *look_up(struct cache *c, int key)
{
	struct node *n = c->bucket[bucket_of(key)];

	while (n && n->key != key)
		n = n->chain;
	return n;
}

static void unlink_node(struct cache *c, struct node *n)
{
	if (n->before)
		n->before->after = n->after;
	else
		c->first = n->after;
	if (n->after)
		n->after->before = n->before;
	else
		c->last = n->before;
}

static void push_first(struct cache *c, struct node *n)
{
	n->before = NULL;
	n->after = c->first;
	if (c->first)
		c->first->before = n;
	else
		c->last = n;
	c->first = n;
}

static void remove_from_bucket(struct cache *c, struct node *n)
{
	struct node **at = &c->bucket[bucket_of(n->key)];

	while (*at != n)
		at = &(*at)->chain;
	*at = n->chain;
}

static void evict(struct cache *c)
{
	struct node *n = c->last;

	unlink_node(c, n);
	remove_from_bucket(c, n);
	free(n);
	c->n--;
}

static struct node *insert(struct cache *c, int key, long value)
{
	struct node *n = calloc(1, sizeof(*n));

	if (c->n >= c->cap)
		evict(c);
	n->key = key;
	n->value = value;
	n->chain = c->bucket[bucket_of(key)];
	c->bucket[bucket_of(key)] = n;
	push_first(c, n);
	c->n++;
	return n;
}

static long steps_to_one(long n)
{
	long steps = 0;

	while (n > 1) {
		n = n % 2 ? n * 3 + 1 : n / 2;
		steps++;
	}
	return steps;
}

static long get(struct cache *c, int key)
{
	struct node *n = look_up(c, key);

	if (n) {
		c->hits++;
		unlink_node(c, n);
		push_first(c, n);
	} else {
		c->misses++;
		n = insert(c, key, steps_to_one(key));
	}
	return n->value;
}

static int next_key(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return (int)(*seed >> 16) % 12 + 1;
}

static long walk(const struct cache *c)
{
	long sum = 0;
	int place = 1;

	for (const struct node *n = c->first; n; n = n->after)
		sum += n->value * place++;
	return sum;
}

int main(void)
{
	struct cache c = { .cap = 5 };
	unsigned int seed = 42;
	long sum = 0;

	for (int i = 0; i < 60; i++)
		sum += get(&c, next_key(&seed));
	printf("sum %ld, %d hits, %d misses, %d kept, weight %ld\n", sum, c.hits, c.misses, c.n, walk(&c));
	return 0;
}
