/* Expressions as people type them to gdb: casts, addresses, arithmetic, slices. */
#include <stdint.h>
#include <stdlib.h>

#include "loc_show.h"

#define KEEP __attribute__((used))

struct conn {
	struct conn *next;
	int id;
	char name[8];
	long counts[4];
	struct {
		short low, high;
	} pair;
};

typedef struct conn conn_t;

enum which { NONE, SECOND_ONE = 2 };

static struct conn conns[5] = { { .id = 10 }, { .id = 11 }, { .id = 12 }, { .id = 13 }, { .id = 14 } };
struct conn *cursor = conns;
void *opaque = &conns[1];
uintptr_t handle;
struct conn *list[3] = { &conns[4], &conns[3], &conns[2] };
struct conn **lists = list;
KEEP int i = 2;
KEEP unsigned char small = 3;
KEEP long negative = -1;
KEEP enum which which = SECOND_ONE;
KEEP struct {
	unsigned int lead : 3, field : 4;
} bits = { 1, 3 };
KEEP double real = 1;
KEEP struct conn *nothing;
static int numbers[10];
KEEP int *number = numbers;
char buffer[64];
KEEP __thread int mine[4] = { 1, 2 };
KEEP __thread struct conn *own = conns;
char *text = buffer;

int main(void)
{
	handle = (uintptr_t)&conns[3];
	SHOW(((struct conn *)opaque)->id);
	SHOW(((conn_t *)opaque)->next);
	SHOW(((const struct conn *)opaque)->counts[2]);
	SHOW(((struct conn *)handle)->pair.high);
	SHOW(((struct conn *)text)->id);
	SHOW(((struct conn *)buffer)->id);
	SHOW(*(struct conn *)opaque);
	SHOW(*(int *)opaque);
	SHOW(*(unsigned long *)opaque);
	SHOW(*(long unsigned int *)opaque);
	SHOW(*(unsigned char *)&cursor->id);
	SHOW(((struct conn *)opaque + 1)->id);
	SHOW(*((struct conn **)list + 2));
	SHOW((*((struct conn **)lists + 1))->id);
	SHOW(((struct conn **)lists)[2]->id);
	SHOW(*&i);
	SHOW(*&cursor->counts[1]);
	SHOW((&conns[1])->id);
	SHOW((&conns[1])[2].id);
	SHOW(*(cursor + 3));
	SHOW((cursor + 3)->id);
	SHOW(*(3 + numbers));
	SHOW(*(numbers + 3));
	SHOW(*(number + i));
	SHOW(*(number + i * 2 - 1));
	SHOW(*(&numbers[9] - i));
	SHOW(numbers[i]);
	SHOW(numbers[1 + 1]);
	SHOW(numbers[i + small]);
	SHOW(numbers[(i + 1) * small]);
	SHOW(numbers[2 - negative]);
	SHOW(numbers[-negative]);
	SHOW(numbers[which]);
	SHOW(numbers[bits.field]);
	SHOW(numbers[numbers[0] + 4]);
	SHOW(numbers[9 / small]);
	SHOW(cursor[i].id);
	SHOW(cursor[i].counts[small]);
	SHOW(cursor[(int)small].id);
	SHOW(buffer[sizeof(int)]);
	SHOW(buffer[sizeof(struct conn) / 8]);
	SHOW(buffer[sizeof cursor->counts]);
	SHOW(buffer[sizeof i + 1]);
	SHOW(buffer[sizeof(numbers) / sizeof(numbers[0])]);
	SHOW(buffer[sizeof(conn_t *)]);
	SHOW(conns[sizeof(conn_t) / sizeof(conns[0])].id);
	SHOW_AS("'loc_expr.c'::numbers", numbers);
	SHOW_AS("loc_expr.c::numbers[4]", numbers[4]);
	SHOW_AS("*(loc_expr.c::numbers + i)", *(numbers + i));
	SHOW_AS("*&'loc_expr.c'::numbers", numbers);
	SHOW_AS("'numbers'", numbers);
	printf("numbers[1]@4\t%#lx\t%zu\n", (unsigned long)&numbers[1], 4 * sizeof(int));
	printf("numbers[1]@i\t%#lx\t%zu\n", (unsigned long)&numbers[1], 2 * sizeof(int));
	printf("*number@3\t%#lx\t%zu\n", (unsigned long)number, 3 * sizeof(int));
	printf("cursor->counts[1]@2\t%#lx\t%zu\n", (unsigned long)&cursor->counts[1], 2 * sizeof(long));
	printf("(numbers[1]@4)[3]\t%#lx\t%zu\n", (unsigned long)&numbers[4], sizeof(int));
	printf("((int *)0x%lx)[2]\t%#lx\t%zu\n", (unsigned long)numbers, (unsigned long)&numbers[2],
	       sizeof(int));
	printf("*(int *)0x%lx\t%#lx\t%zu\n", (unsigned long)numbers, (unsigned long)numbers, sizeof(int));
	printf("*(int *)(0x%lx + 4)\t%#lx\t%zu\n", (unsigned long)numbers, (unsigned long)&numbers[1],
	       sizeof(int));
	printf("*(struct conn **)0x%lx\t%#lx\t8\n", (unsigned long)&list[1], (unsigned long)&list[1]);
	show_done();
	return 0;
}
