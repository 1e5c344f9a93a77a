// Variables of templates: static members, static variables of functions, variable templates, and lambdas.
#include "loc_show.h"

namespace my
{
template <typename T, int N> struct Box {
	static T each;
	T item[N];
};
template <typename T, int N> T Box<T, N>::each = N;
} // namespace my

template <typename T> struct Counted {
	static int count;
	static thread_local int own;
	template <typename U> static int run(U by)
	{
		static int runs;

		return runs += (int)by;
	}
};
template <typename T> int Counted<T>::count = sizeof(T);
template <typename T> thread_local int Counted<T>::own = 1;

namespace
{
template <typename T> struct Hidden {
	static int inside;
};
template <typename T> int Hidden<T>::inside = 3;
} // namespace

template <typename T> int limit = sizeof(T);

template <typename T, int N> static int called(T by)
{
	static int calls;

	if (N == 1)
		SHOW_AS("called<int, 1>::calls", calls);
	else
		SHOW_AS("called<long,2>::calls", calls);
	return calls += (int)by;
}

static int with_lambda(int by)
{
	auto add = [](int n) {
		static int in_lambda;

		SHOW(in_lambda);
		return in_lambda += n;
	};

	return add(by);
}

int main()
{
	SHOW_AS("my::Box<int, 3>::each", (my::Box<int, 3>::each));
	SHOW_AS("Box<char, 4>::each", (my::Box<char, 4>::each));
	SHOW_AS("Counted<int>::count", Counted<int>::count);
	SHOW_AS("Counted<my::Box<int, 3>>::count", (Counted<my::Box<int, 3>>::count));
	SHOW_AS("Counted<const char *>::count", Counted<const char *>::count);
	SHOW_AS("Hidden<int>::inside", Hidden<int>::inside);
	SHOW_AS("(anonymous namespace)::Hidden<unsigned long>::inside", Hidden<unsigned long>::inside);
	SHOW_AS("limit<int>", limit<int>);
	SHOW_AS("limit<const char*>", limit<const char *>);
	called<int, 1>(1);
	called<long, 2>(2);
	with_lambda(3);
	Counted<int>::own++;
	Counted<int>::run(4L);
	Counted<long>::run('5');
	show_done();
	return 0;
}
