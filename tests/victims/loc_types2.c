/* The other file of loc_types.c: a static function called as one there, with a type called as one there. */
#include "loc_show.h"

extern void *neutral;
void *to_third, *to_twice;
void show_others(void);

static __attribute__((noinline)) void first(void)
{
	struct mine {
		int a, b, c;
	};
	static struct mine kept;

	to_third = &kept;
	SHOW_AS("((struct first::mine *)to_third)->c", kept.c);
}

static __attribute__((noinline)) void same(void)
{
	struct twice {
		char first[3];
	};
	static struct twice kept;

	neutral = &kept;
	to_twice = &kept;
	SHOW_AS("*(struct same::twice *)to_twice", kept);
	SHOW_AS("*(struct 'loc_types2.c::same::twice' *)neutral", kept);
}

void show_others(void)
{
	first();
	same();
}
