// build step_shapes_cpp: g++ -O2 -g
/* Calls in the shapes that C++ adds. usage: step_shapes_cpp SHAPE. See step_account.h for what it prints. */
#include <cstring>
#include <stdexcept>
#include <string>

#include "step_account.h"

struct Shape {
	virtual ~Shape() = default;
	virtual int area(int scale) const = 0;
};

struct Square : Shape {
	int side;

	explicit Square(int side) : side(side)
	{
	}
	KEEP int area(int scale) const override
	{
		ENTERED("Square::area", "scale=%d", scale);
		RETURNS("Square::area", side * side * scale);
		return side * side * scale;
	}
};

/* A second base: calls through it go by a thunk. */
struct Named {
	virtual ~Named() = default;
	virtual int weight(int n) const = 0;
};

struct Circle : Shape, Named {
	KEEP int area(int scale) const override
	{
		ENTERED("Circle::area", "scale=%d", scale);
		RETURNS("Circle::area", 3 * scale);
		return 3 * scale;
	}
	KEEP int weight(int n) const override
	{
		ENTERED("Circle::weight", "n=%d", n);
		RETURNS("Circle::weight", n + 1);
		return n + 1;
	}
};

KEEP int weigh(const Named &named, int n)
{
	ENTERED("weigh", "n=%d", n);
	int r = named.weight(n) + 1;
	RETURNS("weigh", r);
	return r;
}

KEEP int total(const Shape &first, const Shape &second, int scale)
{
	ENTERED("total", "scale=%d", scale);
	int r = first.area(scale) + second.area(scale + 1);
	RETURNS("total", r);
	return r;
}

static void virtuals()
{
	Square square(4);
	Circle circle;

	total(square, circle, 2);
	total(circle, square, 3);
	weigh(circle, 5);
}

struct Guard {
	int n;

	explicit Guard(int n) : n(n)
	{
	}
	KEEP ~Guard()
	{
		ENTERED("Guard::~Guard", "");
		RETURNS_NOTHING("Guard::~Guard");
	}
};

KEEP int thrower(int n)
{
	ENTERED("thrower", "n=%d", n);
	if (n > 2) {
		ENDS("thrower", "exception");
		throw std::runtime_error("too large");
	}
	RETURNS("thrower", n);
	return n;
}

/* Cleans up while it is unwound. */
KEEP int guarded(int n)
{
	ENTERED("guarded", "n=%d", n);
	Guard guard(n);
	if (n > 2)
		ENDS("guarded", "exception");
	int r = thrower(n) + 1;
	RETURNS("guarded", r);
	return r;
}

KEEP int plain(int n)
{
	ENTERED("plain", "n=%d", n);
	if (n > 2)
		ENDS("plain", "exception");
	int r = guarded(n) + 1;
	RETURNS("plain", r);
	return r;
}

KEEP int rethrows(int n)
{
	ENTERED("rethrows", "n=%d", n);
	try {
		int r = plain(n);
		RETURNS("rethrows", r);
		return r;
	} catch (const std::runtime_error &) {
		ENDS("rethrows", "exception");
		throw;
	}
}

KEEP int catches(int n)
{
	int r;

	ENTERED("catches", "n=%d", n);
	try {
		r = rethrows(n);
	} catch (const std::exception &e) {
		r = -(int)strlen(e.what());
	}
	RETURNS("catches", r);
	return r;
}

static void exceptions()
{
	for (int i = 1; i < 5; i++)
		catches(i);
}

/* The C++ library throws. */
KEEP int out_of_range(const std::string &text, unsigned long at)
{
	ENTERED("out_of_range", "at=%lu", at);
	if (at > text.size())
		ENDS("out_of_range", "exception");
	int r = text.at(at);
	RETURNS("out_of_range", r);
	return r;
}

KEEP int tries(unsigned long at)
{
	int r = -1;

	ENTERED("tries", "at=%lu", at);
	try {
		r = out_of_range("hello", at);
	} catch (const std::out_of_range &) {
	}
	RETURNS("tries", r);
	return r;
}

static void library()
{
	tries(1);
	tries(100);
	tries(2);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "virtuals"))
		virtuals();
	else if (argc == 2 && !strcmp(argv[1], "exceptions"))
		exceptions();
	else if (argc == 2 && !strcmp(argv[1], "library"))
		library();
	else
		return 2;
	return 0;
}
