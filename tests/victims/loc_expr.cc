// Expressions as people type them to gdb: classes, and what libstdc++ has inside.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loc_show.h"

#define KEEP __attribute__((used))

struct Plain {
	long first = 1;
};
struct Base {
	virtual ~Base() = default;
	int bb = 2;
};
struct Virtual {
	int in_virtual = 3;
};
struct Derived : Plain, Base, virtual Virtual {
	int dd = 4;
};
struct Twice1 : Base {
};
struct Twice2 : Base {
};
struct Twice : Twice1, Twice2 {
	int tt = 5;
};

namespace ns
{
inline namespace v2
{
int versioned = 6;
struct Inner {
	int in = 7;
};
namespace deep
{
int below = 8;
}
} // namespace v2
namespace
{
int unnamed = 9;
}
Inner inner;
} // namespace ns

Derived derived;
Base *base = &derived;
Virtual *virt = &derived;
Derived *down = &derived;
Twice twice;
Twice1 *twice1 = &twice;
Base *twice_base = static_cast<Twice1 *>(&twice);
void *opaque = &ns::inner;
int &reference = ns::versioned;

std::vector<int> vec{ 1, 2, 3 };
std::vector<Derived> objects(3);
std::vector<std::unique_ptr<Derived>> owned;
std::string str = "short", longer = "one that has to be allocated elsewhere";
std::map<int, int> tree{ { 1, 2 } };
std::unique_ptr<Derived> up(new Derived);
std::unique_ptr<int, void (*)(int *)> with_deleter(new int(1), [](int *p) { delete p; });
std::unique_ptr<Derived> empty;
std::shared_ptr<Derived> shared = std::make_shared<Derived>();
KEEP unsigned long index_of = 1;
KEEP long double wide = 1;

int main()
{
	owned.emplace_back(new Derived);
	owned.emplace_back(new Derived);
	SHOW(((Derived *)base)->dd);
	SHOW(((Derived *)base)->first);
	SHOW(((struct Derived *)base)->bb);
	SHOW(((class Derived *)base)->bb);
	SHOW(((Derived &)*base).dd);
	SHOW(((Base *)down)->bb);
	SHOW(((Base *)&derived)->bb);
	SHOW(((Virtual *)down)->in_virtual);
	SHOW(((Twice1 *)twice_base)->bb);
	SHOW(((Twice *)twice1)->tt);
	SHOW(((ns::Inner *)opaque)->in);
	SHOW_AS("((Inner *)opaque)->in", ((ns::Inner *)opaque)->in);
	SHOW(*&reference);
	SHOW(ns::versioned);
	SHOW(ns::v2::versioned);
	SHOW(ns::deep::below);
	SHOW(ns::v2::deep::below);
	SHOW(ns::unnamed);
	SHOW_AS("ns::(anonymous namespace)::unnamed", ns::unnamed);
	SHOW_AS("'ns::versioned'", ns::versioned);
	SHOW_AS("'loc_expr.cc'::ns::unnamed", ns::unnamed);
	SHOW(vec[1]);
	SHOW(vec[index_of]);
	SHOW(vec[index_of + 1]);
	SHOW(objects[index_of].dd);
	SHOW(str[0]);
	SHOW(longer[30]);
	SHOW(*up);
	SHOW(up->dd);
	SHOW((*up).bb);
	SHOW(*with_deleter);
	SHOW(shared->dd);
	SHOW(*shared);
	SHOW(owned[1]->dd);
	SHOW(*owned[index_of]);
	show_done();
	return 0;
}
