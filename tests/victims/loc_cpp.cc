// Variables of every kind that C++ adds.
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
std::vector<int> row{ 1, 2, 3 };
std::vector<std::vector<Derived>> rows(2, std::vector<Derived>(3));
std::array<long, 4> four{ 1, 2, 3, 4 };
std::string word = "word", sentence = "one that has to be allocated elsewhere";
std::map<int, int> tree{ { 1, 2 } };
std::vector<bool> bits(9);
namespace
{
struct Secret {
	int code[3];
	struct Inner {
		short deep;
	} inner;
};
Secret secret_object;
enum Choice { FIRST, SECOND };
Choice choice = SECOND;
} // namespace
Secret *volatile secret_pointer = &secret_object;

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
	SHOW(row[2]);
	SHOW(rows[1][2].own);
	SHOW(four[3]);
	SHOW(word[1]);
	SHOW(sentence[30]);
	SHOW(secret_object);
	SHOW(secret_object.code[2]);
	SHOW(secret_object.inner.deep);
	SHOW(secret_pointer->inner.deep);
	SHOW(choice);
	Method().run();
	method_like(1);
	show_done();
	return 0;
}
