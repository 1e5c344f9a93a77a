#include "watchctl/base/time/tsc_usable.h"

#include <cpuid.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/time/tsc_usable_impl.h"

#define SAMPLES 20
#define SPAN_NS 2000000	  /* between two readings on one CPU: enough to know the rate by */
#define SKEW_NS 500	  /* what CPUs may differ by, besides the width of the readings */
#define WIDTH_MAX_NS 5000 /* readings that are wider say nothing */

static const char *unusable = "it was not looked at";

#define MASK_BITS (8 * sizeof(unsigned long))

/* False: the thread may not run there. Without glibc's CPU_ALLOC(), which programs of other C libraries lack. */
static bool go_to(unsigned long *mask, size_t words, size_t cpu)
{
	long ret;

	mask[cpu / MASK_BITS] = 1ul << cpu % MASK_BITS;
	ret = syscall(SYS_sched_setaffinity, 0, words * sizeof(*mask), mask);
	mask[cpu / MASK_BITS] = 0;
	return !ret;
}

static double distance(double a, double b)
{
	return a > b ? a - b : b - a;
}

const char *tsc_readings_judge(const struct tsc_reading *r, size_t n, const struct tsc_reading *last)
{
	const struct tsc_reading *first = r;
	double rate; /* nanoseconds a tick */

	while (first < r + n && !first->width)
		first++;
	if (first == r + n)
		return "its CPUs cannot be visited to compare it";
	if (last->tsc <= first->tsc || last->ns <= first->ns)
		return "it does not go forward";
	rate = (double)(last->ns - first->ns) / (double)(last->tsc - first->tsc);
	for (size_t i = 0; i < n; i++) {
		const double told = (double)(int64_t)(r[i].tsc - first->tsc) * rate;
		const double width = (double)r[i].width * rate;

		if (!r[i].width)
			continue;
		if (width > WIDTH_MAX_NS)
			return "reading the kernel's clock takes too long to compare it";
		if (distance(told, (double)(int64_t)(r[i].ns - first->ns)) > SKEW_NS + width)
			return "it is not the same on all CPUs";
	}
	return NULL;
}

/* Visits the CPUs in turn, and the first one again. */
static const char *compare(size_t ncpus, unsigned long *mask, size_t words, struct tsc_reading *r)
{
	size_t first = ncpus;
	struct tsc_reading last;

	for (size_t i = 0; i < ncpus; i++) {
		if (!go_to(mask, words, i))
			continue;
		r[i] = tsc_read(SAMPLES);
		if (first == ncpus)
			first = i;
	}
	if (first == ncpus || !go_to(mask, words, first))
		return "its CPUs cannot be visited to compare it";
	while (monotonic_ns() - r[first].ns < SPAN_NS)
		nanosleep(&(struct timespec){ .tv_nsec = SPAN_NS / 4 }, NULL);
	last = tsc_read(SAMPLES);
	return tsc_readings_judge(r, ncpus, &last);
}

static void *measure(void *ret)
{
	const long n = sysconf(_SC_NPROCESSORS_CONF);
	const size_t ncpus = n > 0 ? (size_t)n : 1, words = (ncpus + MASK_BITS - 1) / MASK_BITS;
	scoped(freep) struct tsc_reading *r = calloc(ncpus, sizeof(*r));
	scoped(freep) unsigned long *mask = calloc(words, sizeof(*mask));

	*(const char **)ret = r && mask ? compare(ncpus, mask, words, r) : "there is no memory to compare it";
	return NULL;
}

/* In a thread of its own: what it is allowed to run on is changed. It takes no signal that is for another. */
static const char *measure_apart(void)
{
	const char *why = NULL;
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, measure, &why);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return "no thread can be started to compare it on all CPUs";
	pthread_join(thread, NULL);
	return why;
}

/* CPUID 80000007h, EDX bit 8 */
static bool is_invariant(void)
{
	unsigned int a, b, c, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
}

static const char *look(void)
{
	static const char *const made_of_it[] = { "kvm-clock", "hyperv_clocksource_tsc_page", "xen" };
	char name[64] = "";
	scoped(fclosep) FILE *f =
		fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	if (!f || !fgets(name, sizeof(name), f))
		return "the kernel does not say what its clock source is (/sys/devices/system/clocksource)";
	name[strcspn(name, "\n")] = 0;
	if (!strcmp(name, "tsc"))
		return NULL;
	for (size_t i = 0; i < sizeof(made_of_it) / sizeof(made_of_it[0]); i++)
		if (!strcmp(name, made_of_it[i]))
			return is_invariant() ? measure_apart()
					      : "the processor does not say that it is invariant";
	return "the kernel does not trust it as its clock source (see /sys/devices/system/clocksource)";
}

static void look_once(void)
{
	unusable = look();
}

const char *tsc_unusable_why(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, look_once);
	return unusable;
}

bool tsc_usable(void)
{
	return !tsc_unusable_why();
}
