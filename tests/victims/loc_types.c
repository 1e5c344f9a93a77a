/* Types that C functions have for themselves: see test_locate_types. */
#include "loc_show.h"

void *to_first, *to_second, *to_only, *to_outer;
void show_others(void);

struct outer {
	int id;
};
struct outer *uses_outer;

static __attribute__((noinline)) void first(int v)
{
	struct local {
		int a, b;
	};
	static struct local kept;

	kept.b = v;
	to_first = &kept;
	SHOW_AS("((struct first::local *)to_first)->b", kept.b);
	SHOW_AS("((first::local *)to_first)->b", kept.b);
	SHOW_AS("(('loc_types.c::first::local' *)to_first)->b", kept.b);
	SHOW_AS("(('first()::local' *)to_first)->b", kept.b);
}

static __attribute__((noinline)) void second(long v)
{
	if (v) {
		struct local {
			long a[2], b;
		};
		struct only {
			char text[4];
			union {
				int whole;
				short half[2];
			} u;
		};
		struct outer {
			char mine[5];
		};
		static struct local kept;
		static struct only only_kept;
		static struct outer outer_kept;

		kept.b = v;
		to_second = &kept;
		to_only = &only_kept;
		only_kept.u.half[1] = (short)v;
		SHOW_AS("((struct second::local *)to_second)->b", kept.b);
		SHOW_AS("((struct only *)to_only)->u.half[1]", only_kept.u.half[1]);
		SHOW_AS("((only *)to_only)->text[2]", only_kept.text[2]);
		to_outer = &outer_kept;
		SHOW_AS("*(struct second::outer *)to_outer", outer_kept);
		SHOW_AS("((struct second::local *)to_second)->a[1]", kept.a[1]);
	}
}

/* Another function has that name in another file. */
static __attribute__((noinline)) void same(void)
{
	struct twice {
		char first[5];
	};

	SHOW_AS("*(struct same::twice *)to_first", *(struct twice *)to_first);
	SHOW_AS("*(struct 'loc_types.c::same::twice' *)to_first", *(struct twice *)to_first);
}

int main(void)
{
	static struct outer real;

	uses_outer = &real;
	SHOW_AS("*(struct outer *)uses_outer", real);
	first(1);
	second(2);
	same();
	show_others();
	show_done();
	return 0;
}
