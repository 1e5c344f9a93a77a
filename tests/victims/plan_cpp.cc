/* What C++ adds: this, references, objects that cannot be copied bit by bit, empty ones, bases. */
#include <memory>
#include <string>

#include "plan_show.h"

namespace shapes
{

struct point {
	int x, y;
};

struct named_point : point {
	long id;
};

struct empty {
};

/* Copying it is code: it is passed by address, wherever it would fit. */
struct counted {
	long n;
	counted(long v) : n(v)
	{
	}
	counted(const counted &o) : n(o.n)
	{
		copies++;
	}
	~counted()
	{
		copies += 0;
	}
	static int copies;
};

int counted::copies;

/* Told, but trivial. */
struct plain_copy {
	long n;
	plain_copy() = default;
	plain_copy(const plain_copy &) = default;
};

struct holder {
	int a;
	counted c;
};

struct base {
	virtual ~base()
	{
	}
	virtual CASE long f_virtual(int a, double b)
	{
		return a + (long)b;
	}
	long field = 0;
};

struct derived : base {
	CASE long f_virtual(int a, double b) override
	{
		return field + a * (long)b;
	}
};

enum class mode : unsigned char { OFF, ON = 200 };

struct object {
	int a;
	long b;
	CASE long f_method(int x, const point &p)
	{
		return a + b + x + p.x;
	}
	static CASE int f_static(short s)
	{
		return s + (int)seed;
	}
};

CASE point f_point(point a, point *b)
{
	a.x += b->y;
	return a;
}

CASE named_point f_named(named_point a)
{
	a.id++;
	return a;
}

CASE long f_empty(empty, int b, empty, long c)
{
	return b + c;
}

CASE counted f_counted(counted a, int b)
{
	return counted(a.n + b);
}

CASE plain_copy f_plain_copy(plain_copy a)
{
	a.n++;
	return a;
}

CASE long f_holder(int a, holder b, int c)
{
	return a + b.a + b.c.n + c;
}

/* Six registers are taken: the address of the object lies on the stack. */
CASE long f_far(int a, int b, int c, int d, int e, int f, counted g, int h)
{
	return a + b + c + d + e + f + g.n + h;
}

CASE long f_reference(const long &a, int &&b)
{
	return a + b;
}

CASE mode f_mode(mode a)
{
	return a == mode::ON ? mode::OFF : mode::ON;
}

template <typename T> CASE T f_template(T a, T b)
{
	return a + b + (T)seed;
}

CASE size_t f_string(std::string a, const std::string &b)
{
	return a.size() + b.size();
}

CASE int f_unique(std::unique_ptr<point> a)
{
	return a->x;
}

} // namespace shapes

#define CALL1(type, name, value)         \
	do {                             \
		type result = (value);   \
		SHOW(name ".=", result); \
	} while (0)

int main()
{
	using namespace shapes;
	long n = seed;
	int i = (int)n, j = i * 3;
	point p = { i, j }, *pp = &p;
	named_point np;
	empty none;
	derived d;
	base *b = &d;
	double real = (double)n + 0.5;
	mode on = n ? mode::ON : mode::OFF;
	object o = { i, n * 100 }, *po = &o;
	plain_copy pc;
	short s = (short)(n * 9);

	np.x = i;
	np.y = j;
	np.id = n * 1000;
	pc.n = n * 5;
	d.field = n;
	SHOW("shapes::f_point.a", p), SHOW("shapes::f_point.b", pp), SHOW("shapes::f_point.b*", p);
	CALL1(point, "shapes::f_point", f_point(p, pp));
	SHOW("shapes::f_named.a", np);
	CALL1(named_point, "shapes::f_named", f_named(np));
	SHOW("shapes::f_empty.b", i), SHOW("shapes::f_empty.c", n);
	CALL1(long, "shapes::f_empty", f_empty(none, i, none, n));
	SHOW("shapes::f_counted.a", n), SHOW("shapes::f_counted.b", j);
	{
		counted r = f_counted(counted(n), j);

		SHOW("shapes::f_counted.=", r.n);
	}
	SHOW("shapes::f_plain_copy.a", pc);
	CALL1(plain_copy, "shapes::f_plain_copy", f_plain_copy(pc));
	SHOW("shapes::f_holder.a", i), SHOW("shapes::f_holder.c", j);
	CALL1(long, "shapes::f_holder", f_holder(i, holder{ i, counted(n) }, j));
	SHOW("shapes::f_far.a", i), SHOW("shapes::f_far.g", n), SHOW("shapes::f_far.h", j);
	CALL1(long, "shapes::f_far", f_far(i, i, i, i, i, i, counted(n), j));
	SHOW("shapes::f_reference.a*", n), SHOW("shapes::f_reference.b*", j);
	CALL1(long, "shapes::f_reference", f_reference(n, (int &&)j));
	SHOW("shapes::f_mode.a", on);
	CALL1(mode, "shapes::f_mode", f_mode(on));
	SHOW("shapes::derived::f_virtual.this", b), SHOW("shapes::derived::f_virtual.a", i);
	SHOW("shapes::derived::f_virtual.b", real);
	CALL1(long, "shapes::derived::f_virtual", b->f_virtual(i, real));
	SHOW("shapes::object::f_method.this", po), SHOW("shapes::object::f_method.x", j);
	SHOW("shapes::object::f_method.p", pp), SHOW("shapes::object::f_method.p*", p);
	CALL1(long, "shapes::object::f_method", po->f_method(j, p));
	SHOW("shapes::object::f_static.s", s);
	CALL1(int, "shapes::object::f_static", object::f_static(s));
	SHOW("shapes::f_template<double>.a", real), SHOW("shapes::f_template<double>.b", real);
	CALL1(double, "shapes::f_template<double>", f_template(real, real));
	{
		std::string text(n ? "a text that does not fit into the object itself" : "");
		const std::string *ps = &text;

		SHOW("shapes::f_string.b", ps);
		CALL1(size_t, "shapes::f_string", f_string("short", text));
		CALL1(int, "shapes::f_unique", f_unique(std::unique_ptr<point>(new point{ j, i })));
	}
	return 0;
}
