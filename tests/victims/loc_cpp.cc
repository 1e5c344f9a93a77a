// Variables of every kind that C++ adds.
#include <atomic>
#include <cstdint>

#include "loc_show.h"

namespace ns
{
int plain = 1;
namespace inner
{
int deep = 2;
}
class Counted
{
      public:
	static int instances;
	inline static long inline_static = 7;
	int value = 3;
};
int Counted::instances = 4;
template <typename T, int N> struct Box {
	static T count;
	T item[N];
};
template <typename T, int N> T Box<T, N>::count = 5;
} // namespace ns

namespace
{
int hidden = 6;
}
namespace other
{
namespace
{
int hidden_too = 8;
}
int same = 1;
} // namespace other
namespace third
{
int same = 2;
}

struct Base {
	int in_base = 10;
};
struct Second {
	virtual ~Second() = default;
	int in_second = 11;
};
struct Virtual {
	int in_virtual = 12;
};
struct Derived : Base, Second, virtual Virtual {
	int own = 13;
	Base *link = this;
};

Derived derived;
Derived *pointer = &derived;
int &reference = ns::plain;
struct Holder {
	Derived &to;
} holder{ derived };
ns::Box<int, 3> box;
std::atomic<int> atomic{ 42 };
enum class Mode : uint8_t { Idle, Busy = 200 };
Mode mode = Mode::Busy;

static int method_like(int by)
{
	static int calls = 20;
	SHOW_AS("method_like::calls", calls);
	return calls += by;
}

struct Method {
	int run()
	{
		static int runs = 30;
		SHOW_AS("Method::run::runs", runs);
		return ++runs;
	}
};

int main()
{
	SHOW(ns::plain);
	SHOW_AS("plain", ns::plain);
	SHOW(ns::inner::deep);
	SHOW_AS("inner::deep", ns::inner::deep);
	SHOW_AS("deep", ns::inner::deep);
	SHOW(ns::Counted::instances);
	SHOW_AS("Counted::instances", ns::Counted::instances);
	SHOW(ns::Counted::inline_static);
	SHOW_AS("ns::Box<int, 3>::count", (ns::Box<int, 3>::count));
	SHOW_AS("(anonymous namespace)::hidden", hidden);
	SHOW(hidden);
	SHOW(other::hidden_too);
	SHOW(other::same);
	SHOW(third::same);
	SHOW(derived.in_base);
	SHOW(derived.in_second);
	SHOW(derived.in_virtual);
	SHOW(derived.own);
	SHOW(pointer->in_second);
	SHOW(pointer->in_virtual);
	SHOW(pointer->link->in_base);
	SHOW(reference);
	SHOW(holder.to.own);
	SHOW(box.item[2]);
	SHOW(atomic);
	SHOW(mode);
	Method().run();
	method_like(1);
	show_done();
	return 0;
}
