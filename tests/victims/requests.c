/* build: gcc -O1 -g */
/*
 * requests - a server in small, for what `watchctl step` records. It says what it did, call by call:
 *
 *	requests COUNT [hang N] [wait]	COUNT requests; request N hangs; with wait, first a line from standard
 * input
 *
 *	pid P
 *	parse_request "get 1" 5 -> 0		function, parameters, result; in the order in which they
 * return
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { KIND_NONE, KIND_GET = 5, KIND_PUT };

struct request {
	enum kind kind;
	int number;
	double weight;
	const char *text;
};

static int hang_at = -1;

__attribute__((noinline)) static long look_up(const struct request *r, double factor)
{
	long result = (long)(r->number * factor);
	int fd = open("/nonexistent/requests", O_RDONLY);

	printf("open -> %d %d\n", fd, fd < 0 ? errno : 0);
	while (r->number == hang_at)
		pause();
	printf("look_up %d %g -> %ld\n", r->number, factor, result);
	return result;
}

__attribute__((noinline)) static int send_reply(const struct request *r, long value)
{
	printf("send_reply %d %ld -> %d\n", r->number, value, (int)value % 7);
	return (int)value % 7;
}

__attribute__((noinline)) static int parse_request(const char *text, size_t len, struct request *r)
{
	r->kind = strncmp(text, "get", 3) ? KIND_PUT : KIND_GET;
	r->number = atoi(text + 4);
	r->weight = 0.5 * (double)len;
	r->text = text;
	printf("parse_request \"%s\" %zu -> %d\n", text, len, r->kind);
	return r->kind;
}

__attribute__((noinline)) static void handle(int number)
{
	struct request r = { 0 };
	char text[32];

	snprintf(text, sizeof(text), "%s %d", number % 2 ? "put" : "get", number);
	parse_request(text, strlen(text), &r);
	send_reply(&r, look_up(&r, 2.5));
	printf("handle %d\n", number);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, i;
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	for (i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "hang") && i + 1 < argc)
			hang_at = atoi(argv[++i]);
		else if (!strcmp(argv[i], "wait") && !fgets(line, sizeof(line), stdin))
			return 1;
	}
	for (i = 0; i < count; i++)
		handle(i);
	return 0;
}
