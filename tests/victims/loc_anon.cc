// Namespaces without a name: what is in them belongs to this file, whatever another one has under the same
// names.
#include "loc_show.h"

struct Outer {
	struct Impl;
	Impl *impl;
};
namespace
{
struct Secret {
	int code;
	struct {
		short deep;
	} inner;
};
Secret table[3];
struct Later;
Later *later;
class Klass
{
      public:
	static int count;
};
int Klass::count = 5;
template <class T> struct Box {
	T v;
};
Box<Secret> boxed;
} // namespace
namespace ns
{
namespace
{
struct Deep {
	int pad, w;
} deep;
} // namespace
} // namespace ns
namespace
{
struct Later {
	int x;
	long y;
};
} // namespace
struct Outer::Impl {
	int secret;
};
Outer outer = { new Outer::Impl };
Secret *volatile to_table = table;
Later *volatile other_later;

int main()
{
	later = new Later();
	other_later = later;
	ns::deep.w = ++Klass::count;
	boxed.v.code = table[1].inner.deep = 3;
	SHOW(other_later->y);
	SHOW(boxed.v.inner.deep);
	SHOW(Klass::count);
	SHOW(ns::deep.w);
	SHOW(to_table->inner.deep);
	SHOW(outer.impl->secret);
	SHOW_AS("loc_anon.cc:table[1].inner.deep", table[1].inner.deep);
	SHOW_AS("loc_anon.cc:(anonymous namespace)::table[2].code", table[2].code);
	show_done();
	return 0;
}
