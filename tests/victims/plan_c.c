/* Calls with every way of passing that C has, each of a function of its own. */
#include <complex.h>
#include <stdint.h>

#include "plan_show.h"

enum color { RED = -1, GREEN = 1, BLUE = 7 };

struct long_double_pair {
	long a;
	double b;
};

struct double_long {
	double a;
	long b;
};

struct floats2 {
	float a, b;
};

struct floats3 {
	float a, b, c;
};

struct int_float {
	int a;
	float b;
};

struct chars16 {
	char c[16];
};

struct chars17 {
	char c[17];
};

struct shorts3 {
	short s[3];
};

struct doubles2 {
	double d[2];
};

struct x87 {
	long double v;
};

struct big {
	long v[5];
};

struct bits {
	unsigned a : 3, b : 29;
	int c : 17;
	unsigned d : 15;
	long e;
};

#pragma pack(push, 1)
struct packed {
	char a;
	int b;
	short c;
};
#pragma pack(pop)

union either {
	long l;
	double d;
	char text[8];
};

struct nested {
	struct int_float a;
	union either b;
};

struct node {
	int value;
	int count;
	struct node *next;
};

struct wide {
	__int128 v;
};

typedef float vec4 __attribute__((vector_size(16)));
typedef int (*callback)(int);

CASE int f_ints(char a, signed char b, short c, int d, long e, unsigned char f, unsigned long g,
		unsigned short h)
{
	return (int)(a + b + c + d + e + f + (long)g + h);
}

CASE double f_floats(float a, double b, float c, double d, float e, double f, float g, double h, float i,
		     double j)
{
	return a + b + c + d + e + f + g + h + i + j;
}

CASE long double f_mixed(int a, double b, long double c, float d, __int128 e, long f, long g, long h,
			 __int128 i)
{
	return a + b + c + d + (long double)e + f + g + h + (long double)i;
}

CASE __int128 f_wide(__int128 a, struct wide b)
{
	return a + b.v;
}

CASE struct long_double_pair f_long_double(struct long_double_pair a, struct double_long b)
{
	a.a += b.b;
	a.b += b.a;
	return a;
}

CASE struct double_long f_double_long(struct double_long a)
{
	a.b++;
	return a;
}

CASE struct floats2 f_floats2(struct floats2 a)
{
	a.a += a.b;
	return a;
}

CASE struct floats3 f_floats3(struct floats3 a, float b)
{
	a.c += b;
	return a;
}

CASE struct int_float f_int_float(struct int_float a)
{
	a.a++;
	return a;
}

CASE struct chars16 f_chars16(struct chars16 a, int b)
{
	a.c[3] += b;
	return a;
}

CASE struct chars17 f_chars17(struct chars17 a, int b)
{
	a.c[16] += b;
	return a;
}

CASE struct shorts3 f_shorts3(struct shorts3 a)
{
	a.s[1]++;
	return a;
}

CASE struct doubles2 f_doubles2(struct doubles2 a)
{
	a.d[1] += 1;
	return a;
}

CASE struct big f_big(int a, struct big b, int c)
{
	b.v[2] += a + c;
	return b;
}

CASE struct bits f_bits(struct bits a)
{
	a.b++;
	return a;
}

CASE struct packed f_packed(struct packed a, long b)
{
	a.b += b;
	return a;
}

CASE union either f_union(union either a)
{
	a.l++;
	return a;
}

CASE struct nested f_nested(struct nested a)
{
	a.b.l++;
	return a;
}

/* No registers are left for the second struct: it goes by the stack, and the last number by a register. */
CASE long f_full(long a, long b, long c, long d, long e, struct long_double_pair f, struct chars16 g,
		 double h)
{
	return a + b + c + d + e + f.a + (long)f.b + g.c[0] + (long)h;
}

CASE _Bool f_small(_Bool a, enum color b, char c)
{
	return a && b == BLUE && c;
}

CASE enum color f_enum(enum color a)
{
	return a == BLUE ? RED : BLUE;
}

CASE float _Complex f_complex_float(float _Complex a)
{
	return a + 1;
}

CASE double _Complex f_complex_double(double _Complex a, double b)
{
	return a + b;
}

CASE vec4 f_vector(vec4 a, int b)
{
	return a + (float)b;
}

CASE const char *f_text(const char *a, char *b, int *c, struct node *d, void *e, callback f, double *g)
{
	return (*c += f(d->value) + (e != 0) + (int)*g) ? a : b;
}

CASE struct node *f_node(struct node *a)
{
	return a->next;
}

CASE int *f_null(int *a, const char *b)
{
	return b ? (int *)b : a;
}

CASE void f_void(int a)
{
	seed += a;
}

CASE int f_variadic(const char *a, int b, ...)
{
	return (int)strlen(a) + b;
}

CASE long f_stack_only(long a, long b, long c, long d, long e, long f, char g, short h, struct floats3 i,
		       struct big j)
{
	return a + b + c + d + e + f + g + h + (long)i.a + j.v[0];
}

/* Local ones, of which compilers make variants. */
static CASE int f_constant(int a, int b)
{
	return (int)(a * seed + b);
}

static CASE long f_reduced(const struct big *a, int b)
{
	return a->v[1] + b;
}

static CASE int f_unused(int a, int b, int c)
{
	return (int)(a + c + seed);
}

static int twice(int a)
{
	return 2 * a;
}

#define CALL1(type, name, value)         \
	do {                             \
		type result = (value);   \
		SHOW(name ".=", result); \
	} while (0)

static void numbers(long n)
{
	char a = (char)(n + 1);
	signed char b = (signed char)-n;
	short c = (short)(n * 1000);
	int d = (int)(n * -100000);
	long e = n * 10000000000;
	unsigned char f = (unsigned char)(n + 250);
	unsigned long g = ~0ul - (unsigned long)n;
	unsigned short h = (unsigned short)(n + 60000);
	float x = (float)n + 0.5f, x3 = x * 3, x5 = x * 5, x7 = x * 7, x9 = x * 9;
	double y = (double)n + 0.25, y4 = y * 4, y6 = y * 6, y8 = y * 8, y10 = y * 10;
	long double z = (long double)n + 0.125L;
	__int128 w = ((__int128)n << 70) + n, w2 = -w;

	SHOW("f_ints.a", a), SHOW("f_ints.b", b), SHOW("f_ints.c", c), SHOW("f_ints.d", d);
	SHOW("f_ints.e", e), SHOW("f_ints.f", f), SHOW("f_ints.g", g), SHOW("f_ints.h", h);
	CALL1(int, "f_ints", f_ints(a, b, c, d, e, f, g, h));
	SHOW("f_floats.a", x), SHOW("f_floats.b", y), SHOW("f_floats.c", x3), SHOW("f_floats.d", y4);
	SHOW("f_floats.e", x5), SHOW("f_floats.f", y6), SHOW("f_floats.g", x7), SHOW("f_floats.h", y8);
	SHOW("f_floats.i", x9), SHOW("f_floats.j", y10);
	CALL1(double, "f_floats", f_floats(x, y, x3, y4, x5, y6, x7, y8, x9, y10));
	SHOW("f_mixed.a", d), SHOW("f_mixed.b", y), show("f_mixed.c", &z, 10), SHOW("f_mixed.d", x);
	SHOW("f_mixed.e", w), SHOW("f_mixed.f", e), SHOW("f_mixed.g", e), SHOW("f_mixed.h", g);
	SHOW("f_mixed.i", w2);
	{
		long double result = f_mixed(d, y, z, x, w, e, e, (long)g, w2);

		show("f_mixed.=", &result, 10);
	}
	{
		struct wide v = { w2 };

		SHOW("f_wide.a", w), SHOW("f_wide.b", v);
		CALL1(__int128, "f_wide", f_wide(w, v));
	}
}

static void structs(long n)
{
	struct long_double_pair ld = { n, (double)n * 2 };
	struct double_long dl = { (double)n * 3, n * 4 };
	struct floats2 f2 = { (float)n, (float)n + 1 };
	struct floats3 f3 = { (float)n, (float)n + 1, (float)n + 2 };
	struct int_float fi = { (int)n, (float)n + 3 };
	struct chars16 c16 = { "0123456789abcde" };
	struct chars17 c17 = { "0123456789abcdef" };
	struct shorts3 s3 = { { (short)n, (short)(n + 1), (short)(n + 2) } };
	struct doubles2 d2 = { { (double)n, (double)n + 1 } };
	struct big big = { { n, n + 1, n + 2, n + 3, n + 4 } };
	struct bits bits = { 5, (unsigned)n, (int)-n, 7, n };
	struct packed packed = { (char)n, (int)n * 7, (short)n };
	union either u = { n * 77 };
	struct nested nested = { fi, u };
	float x = (float)n * 9;
	int i = (int)n, k = (int)n * 2;
	long l = n * 5;
	double d = (double)n * 6;

	c16.c[0] = c17.c[0] = (char)('0' + n);
	SHOW("f_long_double.a", ld), SHOW("f_long_double.b", dl);
	CALL1(struct long_double_pair, "f_long_double", f_long_double(ld, dl));
	SHOW("f_double_long.a", dl);
	CALL1(struct double_long, "f_double_long", f_double_long(dl));
	SHOW("f_floats2.a", f2);
	CALL1(struct floats2, "f_floats2", f_floats2(f2));
	SHOW("f_floats3.a", f3), SHOW("f_floats3.b", x);
	CALL1(struct floats3, "f_floats3", f_floats3(f3, x));
	SHOW("f_int_float.a", fi);
	CALL1(struct int_float, "f_int_float", f_int_float(fi));
	SHOW("f_chars16.a", c16), SHOW("f_chars16.b", i);
	CALL1(struct chars16, "f_chars16", f_chars16(c16, i));
	SHOW("f_chars17.a", c17), SHOW("f_chars17.b", i);
	CALL1(struct chars17, "f_chars17", f_chars17(c17, i));
	SHOW("f_shorts3.a", s3);
	CALL1(struct shorts3, "f_shorts3", f_shorts3(s3));
	SHOW("f_doubles2.a", d2);
	CALL1(struct doubles2, "f_doubles2", f_doubles2(d2));
	SHOW("f_big.a", i), SHOW("f_big.b", big), SHOW("f_big.c", k);
	CALL1(struct big, "f_big", f_big(i, big, k));
	SHOW("f_bits.a", bits);
	CALL1(struct bits, "f_bits", f_bits(bits));
	SHOW("f_packed.a", packed), SHOW("f_packed.b", l);
	CALL1(struct packed, "f_packed", f_packed(packed, l));
	SHOW("f_union.a", u);
	CALL1(union either, "f_union", f_union(u));
	SHOW("f_nested.a", nested);
	CALL1(struct nested, "f_nested", f_nested(nested));
	SHOW("f_full.a", l), SHOW("f_full.b", n), SHOW("f_full.c", l), SHOW("f_full.d", n);
	SHOW("f_full.e", l), SHOW("f_full.f", ld), SHOW("f_full.g", c16), SHOW("f_full.h", d);
	CALL1(long, "f_full", f_full(l, n, l, n, l, ld, c16, d));
	{
		char g = (char)n;
		short h = (short)(n * 3);

		SHOW("f_stack_only.a", l), SHOW("f_stack_only.f", n), SHOW("f_stack_only.g", g);
		SHOW("f_stack_only.h", h), SHOW("f_stack_only.i", f3), SHOW("f_stack_only.j", big);
		CALL1(long, "f_stack_only", f_stack_only(l, l, l, l, l, n, g, h, f3, big));
	}
}

static void others(long n)
{
	_Bool yes = n != 0;
	enum color blue = n ? BLUE : RED;
	char c = (char)('a' + n);
	float _Complex cf = (float)n + 2.0f * I;
	double _Complex cd = (double)n + 3.0 * I;
	vec4 v = { (float)n, 1, 2, 3 };
	int number = (int)n * 11;
	double real = (double)n * 1.5;
	struct node tail = { 8, 9, 0 }, head = { 5, 6, &tail }, *first = &head;
	const char *text = n ? "hello" : "";
	char buffer[] = "buffer";
	char *writable = buffer;
	int *pointer = &number;
	double *real_pointer = &real;
	void *untyped = &head;
	callback twice_pointer = twice;
	int *none = 0;
	int i = (int)n;

	SHOW("f_small.a", yes), SHOW("f_small.b", blue), SHOW("f_small.c", c);
	CALL1(_Bool, "f_small", f_small(yes, blue, c));
	SHOW("f_enum.a", blue);
	CALL1(enum color, "f_enum", f_enum(blue));
	SHOW("f_complex_float.a", cf);
	CALL1(float _Complex, "f_complex_float", f_complex_float(cf));
	SHOW("f_complex_double.a", cd), SHOW("f_complex_double.b", real);
	CALL1(double _Complex, "f_complex_double", f_complex_double(cd, real));
	SHOW("f_vector.a", v), SHOW("f_vector.b", i);
	CALL1(vec4, "f_vector", f_vector(v, i));
	SHOW("f_text.a", text), show("f_text.a*", text, strlen(text));
	SHOW("f_text.b", writable), show("f_text.b*", writable, strlen(writable));
	SHOW("f_text.c", pointer), SHOW("f_text.c*", number);
	SHOW("f_text.d", first), SHOW("f_text.d*", head);
	SHOW("f_text.e", untyped), SHOW("f_text.f", twice_pointer);
	SHOW("f_text.g", real_pointer), SHOW("f_text.g*", real);
	CALL1(const char *, "f_text",
	      f_text(text, writable, pointer, first, untyped, twice_pointer, real_pointer));
	show("f_text.=*", text, strlen(text));
	SHOW("f_node.a", first), SHOW("f_node.a*", head);
	CALL1(struct node *, "f_node", f_node(first));
	SHOW("f_node.=*", tail);
	{
		const char *no_text = (const char *)none;

		SHOW("f_null.a", none), SHOW("f_null.b", no_text);
		CALL1(int *, "f_null", f_null(none, no_text));
	}
	SHOW("f_void.a", i);
	f_void(i);
	SHOW("f_variadic.a", text), SHOW("f_variadic.b", i);
	CALL1(int, "f_variadic", f_variadic(text, i, 1.5, 2));
}

static void variants(long n)
{
	struct big big = { { n, n + 1, n + 2, n + 3, n + 4 } };
	int i = (int)n, seven = 7, j = (int)n * 13;
	const struct big *p = &big;

	SHOW("f_constant.a", i), SHOW("f_constant.b", seven);
	CALL1(int, "f_constant", f_constant(i, 7));
	SHOW("f_reduced.a", p), SHOW("f_reduced.a*", big), SHOW("f_reduced.b", i);
	CALL1(long, "f_reduced", f_reduced(p, i));
	SHOW("f_unused.a", i), SHOW("f_unused.b", seven), SHOW("f_unused.c", j);
	CALL1(int, "f_unused", f_unused(i, seven, j));
}

int main(void)
{
	numbers(seed);
	structs(seed);
	others(seed);
	variants(seed);
	return 0;
}
