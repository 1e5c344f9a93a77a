/* build: gcc -O0 -g members_other.c */
/* build members_plain: gcc -O0 members_other.c */
/*
 * Functions that change members of variables of many types. At the end, standard output has what each has changed, as
 * "FUNCTION PATH VALUE"; what is stored without being changed is not said. $FAULT names a path whose value is another
 * one then.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "members.h"

enum mode { IDLE, RED = 5, BLUE = 9 };

struct entry {
	char tag;
	int count; /* behind three bytes of padding */
	struct {
		double ratio;
		short grid[2][3];
	} inner;
};

struct state {
	char name[24];
	char letter;
	bool done;
	enum mode mode;
	unsigned int low : 3, high : 7;
	int negative : 5;
	float share;
	long double wide;
	struct entry *head;
	const char *text;
};

union either {
	int number;
	float real;
};

struct holder {
	int before;
	union either either;
	struct {
		int nameless;
	};
};

static struct entry table[4];
static struct state state, second = { .name = "0123456789abcdefgh-jkl" };
static struct holder holder;
static double total;
static char line[600];
static int many[500];
static const char *const faults[] = { "none", "table[2].count", "state.mode", "second.name", "many[499]" };
enum { NONE, COUNT, MODE, NAME, MANY, FAULTS };
static int fault;
static short *counts; /* of a static variable of a function; and the other */
static double *ratio;

__attribute__((noinline)) void set_table(void)
{
	table[1].count = 0; /* as it was */
	table[2].count = 6 + (fault == COUNT);
	table[3].inner.ratio = 0.25;
	table[3].inner.grid[1][2] = -7;
}

__attribute__((noinline)) void set_state(void)
{
	for (int i = 0; i < 3; i++)
		state.name[i] = (char)('a' + i);
	state.done = true;
	state.mode = fault == MODE ? BLUE : RED;
}

__attribute__((noinline)) void set_numbers(void)
{
	state.share = 3.5f;
	state.wide = 1.25L;
	total = 3.5;
}

/* Neighbours in one byte, of which one is not changed. */
__attribute__((noinline)) void set_bits(void)
{
	state.high = 77;
	state.negative = -3;
}

__attribute__((noinline)) void set_pointers(void)
{
	state.head = &table[2];
	state.text = "in the program";
}

/* Only the end of a text that is longer than a word; the rest of it is as it was. */
__attribute__((noinline)) void set_end(void)
{
	second.name[18] = fault == NAME ? 'Z' : 'z';
}

__attribute__((noinline)) void set_padding(void)
{
	for (char *p = &table[0].tag + 1; p < (char *)&table[0].count; p++)
		*p = 0x55;
}

__attribute__((noinline)) void set_holder(void)
{
	holder.before = 8;
	holder.either.number = 21;
	holder.nameless = 33;
}

/* More than what is changed otherwise takes. */
__attribute__((noinline)) void set_many(void)
{
	for (int i = 0; i < 500; i++)
		many[i] = i + 1 + (fault == MANY && i == 499);
}

/* Of functions; the second one is in a block of its own, and has the name of the first. */
__attribute__((noinline)) void set_statics(void)
{
	static struct {
		float ratio;
		short counts[2];
	} local;

	local.counts[1] = -2;
	counts = local.counts;
	{
		static struct {
			double ratio;
		} local;

		local.ratio = 1.5;
		ratio = &local.ratio;
	}
}

/* Too long for one text: only the words that are changed. */
__attribute__((noinline)) void set_line(void)
{
	for (int i = 0; i < 3; i++)
		line[304 + i] = (char)('x' + i);
}

__attribute__((noinline)) void watched(void)
{
	set_table();
	set_state();
	set_numbers();
	set_bits();
	set_pointers();
	set_end();
	set_padding();
	set_holder();
	set_line();
	set_statics();
	set_many();
	set_mine();
	set_theirs();
}

static struct {
	short first;
	char second[4];
} twin;

__attribute__((noinline)) void set_mine(void)
{
	twin.first = 12;
	twin.second[0] = 'm';
	twin.second[1] = 'e';
}

static void say(void)
{
	printf("set_table table[2].count %d\n", table[2].count);
	printf("set_table table[3].inner.ratio %g\n", table[3].inner.ratio);
	printf("set_table table[3].inner.grid[1][2] %d\n", table[3].inner.grid[1][2]);
	printf("set_state state.name \"%s\"\n", state.name);
	printf("set_state state.done %s\n", state.done ? "true" : "false");
	printf("set_state state.mode %s\n", state.mode == RED ? "RED" : "BLUE");
	printf("set_numbers state.share %g\n", (double)state.share);
	printf("set_numbers state.wide %Lg\n", state.wide);
	printf("set_numbers total %g\n", total);
	printf("set_bits state.high %u\n", state.high);
	printf("set_bits state.negative %d\n", state.negative);
	printf("set_pointers state.head %p\n", (void *)state.head);
	printf("set_pointers state.text %p\n", (const void *)state.text);
	printf("set_end second.name \"%s\"\n", second.name);
	printf("set_holder holder.before %d\n", holder.before);
	printf("set_holder holder.either %d\n", holder.either.number);
	printf("set_holder holder.nameless %d\n", holder.nameless);
	printf("set_line line+304 %d\n", 'x' | 'y' << 8 | 'z' << 16);
	printf("set_statics local.counts[1] %d\n", counts[1]);
	printf("set_statics local.ratio %g\n", *ratio);
	printf("set_statics counts %p\n", (void *)counts);
	printf("set_statics ratio %p\n", (void *)ratio);
	printf("set_many many[499] %d\n", many[499]);
	printf("set_mine twin.first %d\n", twin.first);
	printf("set_mine twin.second \"%s\"\n", twin.second);
	say_theirs();
}

int main(void)
{
	const char *name = getenv("FAULT");

	for (int i = 0; name && i < FAULTS; i++)
		if (!strcmp(name, faults[i]))
			fault = i;
	watched();
	say();
	return 0;
}
