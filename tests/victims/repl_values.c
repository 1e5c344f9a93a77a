/* Values of every kind that C has, for a debugger to print: prints "pid N" and waits until its input ends. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum color { RED, GREEN = 5, BLUE = -3 };
enum flags { FLAG_A = 1, FLAG_B = 2, FLAG_C = 4 };

struct node {
	struct node *next;
	int len;
	char name[12];
};

struct bits {
	unsigned int low : 3;
	int middle : 7;
	unsigned int high : 22;
	unsigned long across : 40;
	bool on : 1;
};

union either {
	uint32_t whole;
	uint8_t byte[4];
	float real;
};

struct mixed {
	int id;
	struct {
		short x, y;
	};
	union {
		uint64_t wide;
		uint32_t half[2];
	};
	enum color color;
	double ratio;
	const char *text;
	int (*call)(int);
	struct node *list;
	bool yes;
	unsigned char small;
	signed char tiny;
};

static int twice(int x)
{
	return 2 * x;
}

volatile int number = -42;
volatile unsigned int positive = 4000000000u;
volatile short brief = -7;
volatile unsigned short brief_positive = 65535;
volatile long long wide = -123456789012345;
volatile unsigned long wide_positive = 0xfedcba9876543210;
volatile char letter = 'w';
volatile char bell = '\a';
volatile uint8_t octet = 200;
volatile bool truth = true;
volatile float real = 0.1f;
volatile double precise = -2.5e10;
volatile long double extended = 1.5L;
volatile __int128 huge = -((__int128)1 << 100);
enum color color = BLUE, strange = (enum color)9;
enum flags flags = FLAG_A | FLAG_C;
struct node second = { NULL, 20, "second" }, first = { &second, 10, "first" };
struct node *head = &first, *nowhere;
struct node **indirect = &head;
struct node table[3] = { { NULL, 1, "one" }, { &first, 2, "two" }, { NULL, 3, "three" } };
struct bits bits = { 5, -2, 1000, 123456789, true };
union either either = { 0x41424344 };
struct mixed mixed = {
	7, { -1, 2 }, { 0x100000002 }, GREEN, 0.25, "tab\there \"quoted\"", twice, &second, true, 250, -3
};
int grid[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
int zeros[40] = { 1, [39] = 2 };
short longer[250] = { 1, 2, 3 };
double doubles[3] = { 1, 0.5, -1e-300 };
char chars[16] = "characters";
char exact[4] = { 'f', 'u', 'l', 'l' };
unsigned char raw[4] = { 1, 2, 0xfe, 0xff };
const char *words[3] = { "zero", NULL, "two" };
const char *text = "hello";
void *anything = &first;
int (*function_pointer)(int) = twice;
_Atomic int atomic_count = 77;
__thread int per_thread = 4;

int main(void)
{
	char c;

	printf("pid %d\n", getpid());
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		number += per_thread;
	return twice(number) == 1;
}
