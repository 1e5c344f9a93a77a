// Types with names that an expression reads as something else, and types that functions have for themselves.
#include "loc_show.h"

#define KEEP __attribute__((used))

namespace my
{
template <typename T, int N> struct Box {
	T item[N];
	struct Inner {
		T deep;
	} inner;
};
namespace
{
struct Hidden {
	short code;
};
} // namespace
} // namespace my

struct operator_less {
	int plain;
};
template <typename T> struct Of {
	T first;
	long second;
};
typedef unsigned short number_t;

template <typename T> struct Counted {
	static int count;
};
template <typename T> int Counted<T>::count = sizeof(T);

my::Box<int, 3> box{};
Of<my::Box<unsigned long, 2>> nested{};
Of<const my::Box<unsigned long, 2>> constant_nested{};
void *to_nested = &nested, *to_constant_nested = &constant_nested;
my::Box<char, 8> other{};
my::Hidden hidden{};
Of<const char *> text{};
Of<char> letter{};
Of<const char> constant{};
void *to_box = &box, *to_other = &other, *to_hidden = &hidden, *to_text = &text, *to_letter = &letter,
     *to_constant = &constant;
KEEP long wide = 0x10001;
int numbers[3];

/* Each function keeps its object here, for one that is nothing but an address to be cast. */
void *kept[12];

template <typename T> static T *keep(int i, T value)
{
	T *copy = new T(value);

	kept[i] = copy;
	return copy;
}

namespace fn
{
inline namespace v2
{
KEEP void over(int v)
{
	struct Local {
		int one, two;
	};
	SHOW_AS("(('fn::v2::over(int)::Local' *)kept[0])->two", keep(0, Local{ v, v })->two);
	SHOW_AS("(('over( int )::Local' *)kept[0])->one", static_cast<Local *>(kept[0])->one);
}
KEEP void over(long v)
{
	struct Local {
		long one, two, three;
	};
	SHOW_AS("(('over(long)::Local' *)kept[1])->three", keep(1, Local{ v, v, v })->three);
}
template <typename T> KEEP void from_template(T v)
{
	struct Local {
		T first, second, third, fourth;
	};
	SHOW_AS(sizeof(T) == 8 ? "((fn::from_template<long>::Local *)kept[2])->second"
			       : "(('from_template<int>::Local' *)kept[3])->second",
		keep(sizeof(T) == 8 ? 2 : 3, Local{ v, v, v, v })->second);
}
struct Class {
	void outside(int v);
	KEEP int inside(int v) const
	{
		struct InInside {
			int number, next;
		};
		SHOW_AS("((InInside *)kept[4])->next", keep(4, InInside{ v, v })->next);
		SHOW_AS("((Class::inside::InInside *)kept[4])->next", static_cast<InInside *>(kept[4])->next);
		SHOW_AS("((fn::Class::inside::InInside *)kept[4])->number",
			static_cast<InInside *>(kept[4])->number);
		return v;
	}
};
KEEP void Class::outside(int v)
{
	struct InOutside {
		struct Deeper {
			char text[3];
			int at;
		} deeper;
	};
	keep(5, InOutside{ { "no", v } });
	SHOW_AS("((InOutside *)kept[5])->deeper.at", static_cast<InOutside *>(kept[5])->deeper.at);
	SHOW_AS("((InOutside::Deeper *)kept[5])->at", static_cast<InOutside *>(kept[5])->deeper.at);
	SHOW_AS("(('fn::Class::outside::InOutside' *)kept[5])->deeper.text[1]",
		static_cast<InOutside *>(kept[5])->deeper.text[1]);
}
namespace
{
KEEP void hidden_function(int v)
{
	struct InHidden {
		int a, b;
	};
	SHOW_AS("((fn::hidden_function::InHidden *)kept[6])->b", keep(6, InHidden{ v, v })->b);
}
} // namespace
} // namespace v2
} // namespace fn

static void show_local_types()
{
	auto lambda = [](int v) {
		struct InLambda {
			short s[2];
		};
		SHOW_AS("((InLambda *)kept[7])->s[1]", keep(7, InLambda{ { 1, (short)v } })->s[1]);
	};

	fn::over(1);
	fn::over(2L);
	fn::from_template(3L);
	fn::from_template(4);
	fn::Class().inside(5);
	fn::Class().outside(6);
	fn::hidden_function(7);
	lambda(8);
}

int main()
{
	show_local_types();
	SHOW_AS("((my::Box<int, 3> *)to_box)->item[2]", box.item[2]);
	SHOW_AS("(('my::Box<int, 3>' *)to_box)->item[2]", box.item[2]);
	SHOW_AS("(( \"my::Box<int, 3>\" * const )to_box)->item[2]", box.item[2]);
	SHOW_AS("((struct 'my::Box<int, 3>' *)to_box)->item[1]", box.item[1]);
	SHOW_AS("((const 'Box<int,3>' &)*to_box).item[1]", box.item[1]);
	SHOW_AS("(('::my::Box<char, 8>' *)to_other)->item[7]", other.item[7]);
	SHOW_AS("(('my::Box<char, 8>::Inner' *)&other.inner)->deep", other.inner.deep);
	SHOW_AS("(('my::(anonymous namespace)::Hidden' *)to_hidden)->code", hidden.code);
	SHOW_AS("((my::(anonymous namespace)::Hidden *)to_hidden)->code", hidden.code);
	SHOW_AS("(('Hidden' *)to_hidden)->code", hidden.code);
	SHOW_AS("((Of<char> *)to_letter)->first", letter.first);
	SHOW_AS("(('Of<char>' *)to_letter)->second", letter.second);
	SHOW_AS("*((Of<const char> *)to_constant)", constant);
	SHOW_AS("*(('Of<char const>' *)to_constant)", constant);
	SHOW_AS("*('Of<const char*>' *)to_text", text);
	SHOW_AS("*('Of<char const *>' *)to_text", text);
	SHOW_AS("*(Of<my::Box<unsigned long, 2> > *)to_nested", nested);
	SHOW_AS("*('Of<const my::Box<long unsigned, 2>>' *)to_constant_nested", constant_nested);
	SHOW_AS("Counted<unsigned long>::count", Counted<unsigned long>::count);
	SHOW_AS("Counted<long unsigned int>::count", Counted<unsigned long>::count);
	SHOW_AS("Counted<unsigned>::count", Counted<unsigned>::count);
	SHOW_AS("Counted<const char *>::count", Counted<const char *>::count);
	SHOW_AS("Counted<char *const>::count", Counted<char *const>::count);
	SHOW_AS("Counted<signed char>::count", Counted<signed char>::count);
	SHOW_AS("Counted<long long>::count", Counted<long long>::count);
	SHOW_AS("Counted<int>::count", Counted<signed>::count);
	SHOW_AS("*('unsigned long' *)&wide", wide);
	SHOW_AS("numbers[('number_t')wide]", numbers[(number_t)wide]);
	SHOW_AS("numbers[('number_t') 65537]", numbers[1]);
	SHOW_AS("numbers[sizeof('my::Box<int, 3>') / 16]", numbers[sizeof(my::Box<int, 3>) / 16]);
	SHOW_AS("numbers[sizeof('number_t')]", numbers[sizeof(number_t)]);
	SHOW_AS("numbers[('wide') - 65536]", numbers[1]);
	SHOW_AS("numbers[('wide' * 2) / 131074]", numbers[1]);
	show_done();
	return text.first != nullptr;
}
