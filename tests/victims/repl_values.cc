// Values of C++ for a debugger to print: prints "pid N" and waits until its input ends.
#include <cstdio>
#include <unistd.h>

namespace shop
{
struct base {
	int id = 3;
};

struct item : base {
	int &price;
	bool sold = false;
	static int made;

	explicit item(int &p) : price(p)
	{
		made++;
	}
};

int item::made = 10;
int price = 99;
item one(price);
enum class state : unsigned char { open, closed = 7 };
state now = state::closed;
} // namespace shop

struct shape {
	virtual ~shape() = default;
	int sides = 4;
};

int plain = 5;
int &reference = plain;
shape square;
template <class T> struct pair_of {
	T a, b;
};
pair_of<double> twins = { 1.5, 2.5 };
wchar_t wide_letter = L'w';
char16_t utf16_letter = u'x';

int main()
{
	char c;

	printf("pid %d\n", getpid());
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		reference += shop::one.price;
	return 0;
}
