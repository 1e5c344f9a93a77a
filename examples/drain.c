/*
 * drain - sends twelve items in batches and waits until all are sent: on some days for ever. For "why does it
 * hang sometimes?".
 *
 *	cc -g -O1 -fno-inline -o drain drain.c
 *	echo 4 > batch; ./drain
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct queue {
	int left;
	int batch;
	int done;
};

static int read_batch(const char *path)
{
	char line[32] = "1";
	FILE *f = fopen(path, "r");

	if (f) {
		if (!fgets(line, sizeof(line), f))
			line[0] = '1';
		fclose(f);
	}
	return atoi(line);
}

static void finish(struct queue *q)
{
	q->done = 1;
}

static int send_batch(struct queue *q)
{
	q->left -= q->batch;
	if (q->left == 0)
		finish(q);
	return q->left;
}

static void wait_for_all(const struct queue *q)
{
	while (!*(volatile const int *)&q->done)
		pause();
}

int main(void)
{
	struct queue q = { .left = 12, .batch = read_batch("batch") };

	while (send_batch(&q) > 0)
		;
	wait_for_all(&q);
	puts("all sent");
	return 0;
}
