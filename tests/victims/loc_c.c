/* Variables of every kind that C has. Linked with loc_c2.c, which has statics of the same names. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "loc_show.h"

#define KEEP __attribute__((used))

enum color { RED, GREEN = 5, BLUE = -3 };
enum flags { FLAG_A = 1, FLAG_B = 2, FLAG_C = 4 };

struct node {
	struct node *next;
	int len;
	struct {
		short x, y;
	};
	union {
		uint64_t wide;
		uint32_t half[2];
	};
};

struct bits {
	unsigned int low : 3;
	int middle : 7;
	unsigned int high : 22;
	unsigned long across : 40;
};

struct __attribute__((packed)) packed_bits {
	char c;
	unsigned int a : 5;
	unsigned int b : 14;
};

struct opaque; /* defined in loc_c2.c */

int flag = 1;
static int twin = 2; /* another one in loc_c2.c */
static volatile int only_here = 3;
struct node first = { .len = 10, .half = { 7, 8 } }, second = { .len = 20 };
struct node *head = &first, *nowhere, *wild = (struct node *)0x1000;
struct node table[3] = { { .len = 1 }, { .len = 2 }, { .len = 3 } };
int grid[4][5][6];
struct bits bits = { 5, -2, 1000, 123456789 };
struct packed_bits packed = { 'c', 17, 9000 };
enum color color = BLUE;
enum flags flags = FLAG_A | FLAG_C;
bool truth = true;
char letter = 'a';
double ratio = 3.25;
float small = 0.1f;
uint8_t byte = 200;
const char *text = "hello";
int (*function_pointer)(void);
_Atomic int atomic_count = 77;
__thread int per_thread = 4;
long double wide_float = 1.5L;
KEEP struct node **indirect = &head;
extern struct opaque *hidden;
extern int never_defined __attribute__((weak));
extern int elsewhere; /* defined in loc_c2.c */

void second_file(void);

static int counter(void)
{
	static int calls = 100;

	SHOW_AS("counter::calls", calls);
	SHOW_AS("counter()::calls", calls);
	SHOW_AS("loc_c.c:counter::calls", calls);
	return ++calls;
}

static int other_counter(void)
{
	static int calls = 200;
	static int unique_local = 5;

	SHOW_AS("other_counter::calls", calls);
	SHOW(unique_local);
	return calls += unique_local;
}

static void show_plain(void)
{
	SHOW(flag);
	SHOW(first);
	SHOW(head);
	SHOW(color);
	SHOW(letter);
	SHOW(ratio);
	SHOW(text);
	SHOW(function_pointer);
	SHOW(atomic_count);
	SHOW(wide_float);
	SHOW(nowhere);
	SHOW(wild);
	SHOW(indirect);
	SHOW(elsewhere);
	SHOW(only_here);
	SHOW_AS("loc_c.c:twin", twin);
	SHOW_AS("victims/loc_c.c:twin", twin);
	SHOW_AS("loc_c.c:flag", flag);
	SHOW_AS("loc_c:flag", flag);
	SHOW_AS("::flag", flag);
}

static void show_paths(void)
{
	SHOW(first.len);
	SHOW(first.x);
	SHOW(first.y);
	SHOW(first.wide);
	SHOW(first.half[1]);
	SHOW(head->len);
	SHOW(head->next);
	SHOW(head->next->len);
	SHOW(head->next->half[0]);
	SHOW(*head);
	SHOW((*head).len);
	SHOW(**indirect);
	SHOW((*indirect)->y);
	SHOW(head[0].len);
	SHOW(indirect[0]->len);
	SHOW(table[2]);
	SHOW(table[2].len);
	SHOW(table->len);
	SHOW(*table);
	SHOW(grid);
	SHOW(grid[3]);
	SHOW(grid[3][4]);
	SHOW(grid[3][4][5]);
	SHOW(**grid[1]);
	SHOW(*text);
	SHOW(text[4]);
	SHOW_AS(" table [ 1 ] . len ", table[1].len);
}

int main(int argc, char **argv)
{
	int on_the_stack = argc;

	first.next = &second;
	function_pointer = counter;
	counter();
	other_counter();
	show_plain();
	show_paths();
	second_file();
	show_done();
	return on_the_stack + twin + only_here + per_thread + (argv == NULL);
}
