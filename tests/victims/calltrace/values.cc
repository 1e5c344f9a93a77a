// values - functions that print their parameters and results: "value FUNCTION NAME TEXT", a call's in one line each.
#include <cstdint>
#include <cstdio>
#include <pthread.h>

#define APART __attribute__((noinline))

enum color { RED, GREEN = 5, BLUE = -1 };
enum class mode : unsigned char { SLOW = 1, FAST = 200 };

struct node {
	int v;
	APART int at(long i) const;
};

struct pair {
	int a, b;
};

struct big {
	long v[9];
};

static FILE *out;
static volatile long sum; // results are wanted
static volatile int zero; // values that the compiler does not know

#define SAY(function, name, format, value) fprintf(out, "value " function " " name " " format "\n", value)

int node::at(long i) const
{
	SAY("node::at", "this", "%p", (const void *)this);
	SAY("node::at", "i", "%ld", i);
	SAY("node::at", "return", "%d", v + (int)i);
	return v + (int)i;
}

APART static long integers(int8_t a, uint8_t b, int16_t c, uint16_t d, int e, unsigned f, long g,
			   unsigned long h)
{
	SAY("integers", "a", "%d", a);
	SAY("integers", "b", "%d", b);
	SAY("integers", "c", "%d", c);
	SAY("integers", "d", "%d", d);
	SAY("integers", "e", "%d", e);
	SAY("integers", "f", "%u", f);
	SAY("integers", "g", "%ld", g);
	SAY("integers", "h", "%lu", h);
	SAY("integers", "return", "%ld", a + g);
	return a + g;
}

APART static bool truths(bool yes, bool no)
{
	SAY("truths", "yes", "%s", yes ? "true" : "false");
	SAY("truths", "no", "%s", no ? "true" : "false");
	SAY("truths", "return", "%s", yes && !no ? "true" : "false");
	return yes && !no;
}

APART static color enumerators(color c, mode m)
{
	SAY("enumerators", "c", "%s", c == GREEN ? "GREEN" : c == RED ? "RED" : "BLUE");
	SAY("enumerators", "m", "%s", m == mode::FAST ? "FAST" : "SLOW");
	SAY("enumerators", "return", "%s", c == GREEN ? "BLUE" : "RED");
	return c == GREEN ? BLUE : RED;
}

APART static double floats(float a, double b, float c)
{
	SAY("floats", "a", "%g", (double)a);
	SAY("floats", "b", "%g", b);
	SAY("floats", "c", "%g", (double)c);
	SAY("floats", "return", "%g", (double)a * b);
	return (double)a * b;
}

APART static const char *pointers(node *n, const char *text, void **p, int (*f)(int), node &r)
{
	SAY("pointers", "n", "%p", (void *)n);
	SAY("pointers", "text", "%p", (const void *)text);
	SAY("pointers", "p", "%p", (void *)p);
	SAY("pointers", "f", "%p", (void *)f);
	SAY("pointers", "r", "%p", (void *)&r);
	SAY("pointers", "return", "%p", (const void *)(text + 1));
	return text + 1;
}

/* Structs are in no register of their own, or in several: what stands beside them must not be taken for them. */
APART static pair structs(pair p, int after, big b, long last)
{
	SAY("structs", "after", "%d", after);
	SAY("structs", "last", "%ld", last);
	return { p.b + (int)b.v[3], after };
}

/* Recorded is a parameter as the function begins, and not as it becomes. */
APART static int changed(int a, int b)
{
	SAY("changed", "a", "%d", a);
	SAY("changed", "b", "%d", b);
	a = b;
	for (int i = 0; i < 3; i++)
		a += b++;
	SAY("changed", "return", "%d", a);
	return a;
}

APART static int recursive(int n)
{
	SAY("recursive", "n", "%d", n);
	const int r = n ? 1 + recursive(n - 1) : 0;
	SAY("recursive", "return", "%d", r);
	return r;
}

APART static int tail(int n)
{
	SAY("tail", "n", "%d", n);
	SAY("tail", "return", "%d", n + 3 + 2);
	return recursive(n + 2) + 3;
}

APART static int throws(int n)
{
	SAY("throws", "n", "%d", n);
	if (n > 1)
		throw n;
	SAY("throws", "return", "%d", n);
	return n;
}

static int callee(int n)
{
	return n;
}

static void *thread(void *)
{
	for (int i = 0; i < 40; i++)
		sum += changed(i, i * i);
	return nullptr;
}

int main()
{
	char *text = nullptr;
	size_t size = 0;
	pthread_t t;
	node n = { 7 };
	void *p = &n;

	out = open_memstream(&text, &size);
	sum += integers(-8 + zero, 200, -30000, 60000, -5, 4000000000u, (-1L << 40) + zero, 1ul << 63);
	sum += truths(true, false);
	sum += truths(true, true);
	sum += enumerators(zero ? RED : GREEN, mode::FAST);
	sum += enumerators(zero ? RED : BLUE, mode::SLOW);
	sum += (long)floats(1.5f + (float)zero, -2.25, 0.5f);
	sum += *pointers(&n, "hello", &p, callee, n);
	sum += *pointers(nullptr, "x", nullptr, nullptr, n);
	sum += structs({ 1, 2 }, 3, { { 4 } }, 5).a;
	sum += changed(1, 2);
	sum += tail(3);
	sum += n.at(30000000000);
	for (int i = 0; i < 3; i++) {
		try {
			sum += throws(i);
		} catch (int caught) {
			sum += changed(caught, -caught);
		}
	}
	pthread_create(&t, nullptr, thread, nullptr);
	pthread_join(t, nullptr);
	fclose(out);
	fputs(text, stdout);
}
