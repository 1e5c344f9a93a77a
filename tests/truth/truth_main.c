/*
 * usage: truth [TEXT | --bytes | --sample N]
 * Runs all forms, or those whose name holds TEXT; or prints the bytes of their instructions. Exit status: 0 all as it should be, 1 not, 77 cannot run
 * here.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/truth.h"

#define COMPLAINTS_SHOWN 60
#define PLACES_PER_FORM 6 /* accesses of a form that are watched each */

static unsigned long complaints, surprises, cases, runs, hits, forms_run, forms_absent;
static unsigned long idle; /* cases in which nothing was to happen, and nothing did */

void complain(const struct truth_form *f, const char *format, ...)
{
	va_list args;

	if (complaints++ >= COMPLAINTS_SHOWN)
		return;
	printf("[%s] %s: ", f->group, f->key);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void surprise(const struct truth_case *c, const char *what)
{
	surprises++;
	complain(c->form,
		 "%s (watched %u bytes at A%+ld; the manual: %u, perhaps %u; hits %u, of writes %u; %#lx -> "
		 "%#lx)",
		 what, c->watch.size, (long)(c->watch.addr - c->a), c->sure, c->maybe, c->rw.nhits,
		 c->w.nhits, (unsigned long)c->rw.before, (unsigned long)c->rw.after);
}

/* What the manual says of the watched bytes. False: something else of the form touches them too. */
static bool look_up(struct truth_case *c)
{
	const struct truth_form *f = c->form;

	for (unsigned int i = 0; i < f->naccess + f->nothers; i++) {
		const struct truth_access *x = &f->access[i];

		if (!truth_overlap(truth_at(c->a, x->off), x->len, c->watch.addr, c->watch.size))
			continue;
		if (i >= f->naccess)
			return false;
		if (x->maybe)
			c->maybe |= x->kind;
		else
			c->sure |= x->kind;
	}
	return true;
}

/* The manual against the processor. */
static bool happened_as_reported(const struct truth_case *c)
{
	const struct truth_run *rw = &c->rw, *w = &c->w;
	unsigned int reported = c->sure | c->maybe;
	unsigned long before = surprises;
	bool changed = rw->before != rw->after || w->before != w->after;

	if (c->form->flags & FORM_BY_KERNEL) {
		if (rw->nhits || w->nhits || rw->signal)
			surprise(c, "the kernel should have done it");
		return false;
	}
	if (rw->signal || w->signal) {
		surprise(c, "it died");
		return false;
	}
	if (c->sure && !rw->nhits)
		surprise(c, "accessed, and no hit");
	if ((c->sure & ACCESS_WRITE) && !w->nhits)
		surprise(c, "written, and no hit of a write");
	if (!(reported & ACCESS_WRITE) && w->nhits)
		surprise(c, "hit of a write, and not written");
	if (!reported && rw->nhits)
		surprise(c, "hit, and not accessed");
	if (changed && !w->nhits)
		surprise(c, "the bytes changed, and no hit of a write");
	if (!(c->form->flags & (FORM_REPEATED | FORM_ABSENT)) && (rw->nhits > 1 || w->nhits > 1))
		surprise(c, "several hits of one instruction");
	for (unsigned int i = 0; i < rw->nhits && i < HITS_MAX; i++)
		if (rw->hit[i].addr != c->watch.addr)
			surprise(c, "the signal names another address");
	return surprises == before;
}

static void run_case(const struct truth_form *f, uint64_t a, uint64_t addr, uint32_t size)
{
	static struct truth_case c;

	c.form = f;
	c.a = a;
	c.sure = c.maybe = 0;
	c.watch = (struct truth_watch){ addr & ~(uint64_t)(size - 1), size, ACCESS_READWRITE };
	if (!look_up(&c))
		return;
	cases++;
	runs += 2;
	if (!truth_execute(f, a, &c.watch, NULL, &c.rw)) {
		surprise(&c, "cannot be watched");
		return;
	}
	c.watch.type = ACCESS_WRITE;
	if (!truth_execute(f, a, &c.watch, NULL, &c.w)) {
		surprise(&c, "cannot be watched");
		return;
	}
	hits += c.rw.nhits + c.w.nhits;
	if (!happened_as_reported(&c))
		return;
	idle += !c.rw.nhits;
	c.kind = (c.w.nhits ? ACCESS_WRITE : 0) | (c.rw.nhits ? (c.sure | c.maybe) & ACCESS_READ : 0);
	judge_case(&c);
	values_case(&c);
}

/* An access watched at its first byte, its last, in its middle, across its ends, and beside it. */
static void run_access(const struct truth_form *f, uint64_t a, const struct truth_access *x, bool first)
{
	uint64_t start = truth_at(a, x->off), end = start + x->len;
	bool unaligned = f->align == 1 && !(f->flags & (FORM_FIXED | FORM_POINTER));

	run_case(f, a, start, 8);
	run_case(f, a, start, 4);
	if (f->flags & FORM_POINTER) {
		/* A zero tells nothing: see docs/truth.md. */
		if (!f->blob || f->blob[x->off - f->blob_off])
			run_case(f, a, start, 1);
		return;
	}
	run_case(f, a, start, 1);
	run_case(f, a, end - 1, 1);
	run_case(f, a, end - 1, 2);
	if (x->len > 8)
		run_case(f, a, start + x->len / 2, 4);
	run_case(f, a, start - 1, 1);
	run_case(f, a, end, 1);
	if (!first || !unaligned)
		return;
	run_case(f, a + 3, start + 3, 4);
	run_case(f, a + 3, end + 2, 8);
	run_case(f, a + 5, start + 5, 8);
	run_case(f, a + 5, end + 4, 1);
}

static void run_form(const struct truth_form *f)
{
	uint64_t a = (uint64_t)(uintptr_t)truth_arena + ARENA_HOME;

	if (!truth_supported(f)) {
		forms_absent++;
		return;
	}
	forms_run++;
	for (unsigned int i = 0; i < f->naccess && i < PLACES_PER_FORM; i++)
		run_access(f, a, &f->access[i], i < 2);
	if (f->flags & FORM_WATCH_A) {
		run_case(f, a, a, 8);
		run_case(f, a, a, 1);
	}
	effects_form(f);
	coverage_form(f);
}

static bool report(bool all)
{
	bool good = !surprises;

	printf("forms: %lu executed, of %lu instruction shapes; %lu more need what this processor lacks\n",
	       forms_run, (unsigned long)truth_shape_count, forms_absent);
	printf("executions: %lu under a watch, %lu hits; %lu places where nothing was to be seen, and "
	       "nothing was\n",
	       runs, hits, idle);
	printf("the manual's word on hits and misses: %lu places, %lu not as told\n", cases, surprises);
	good &= judge_report();
	good &= values_report();
	good &= effects_report();
	if (all)
		good &= coverage_report();
	return good;
}

static void print_bytes(void)
{
	for (uint64_t i = 0; i < truth_form_count; i++) {
		for (const uint8_t *b = truth_forms[i].insn; b < truth_forms[i].end; b++)
			printf("%02x", *b);
		putchar('\n');
	}
}

/* Of @n forms, evenly spread over all, whether @i is one: always the same ones. */
static bool in_sample(uint64_t i, uint64_t n)
{
	return n >= truth_form_count || i * n / truth_form_count != (i + 1) * n / truth_form_count;
}

static bool is_chosen(uint64_t i, const char *text, uint64_t sample)
{
	if (sample)
		return in_sample(i, sample);
	return !text || strstr(truth_forms[i].key, text) || strstr(truth_forms[i].group, text);
}

int main(int argc, char **argv)
{
	const uint64_t sample = argc == 3 && !strcmp(argv[1], "--sample") ? strtoull(argv[2], NULL, 10) : 0;
	const char *why;

	if (argc == 2 && !strcmp(argv[1], "--bytes")) {
		print_bytes();
		return 0;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!truth_setup(&why)) {
		printf("truth: cannot run here: %s\n", why);
		return 77;
	}
	if (!values_setup())
		return 1;
	for (uint64_t i = 0; i < truth_form_count; i++)
		if (is_chosen(i, argv[1], sample))
			run_form(&truth_forms[i]);
	if (!report(argc < 2) || complaints) {
		printf("truth: FAILED, %lu findings\n", complaints);
		return 1;
	}
	printf("truth: 0 wrong answers\n");
	return 0;
}
