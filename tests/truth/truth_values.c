/*
 * The injected handler's own code, compiled for this process, takes the same traps: once at first sight, when
 * it knows nothing of the place, and once more with the fact about it that the controller publishes. What it
 * records as the values before and after must be the bytes that were there; and what it drops where only
 * reads are wanted must have been a pure write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handler/handler.c"
#include "handler/hold.c"
#include "handler/peek.c"
#include "tests/truth/truth.h"
#include "watchctl/engine/intake/access_fact.h"

#define RING (64u << 10)
#define COOKIE 0x1234567890abcd00ull
#define COMMIT_KEY 0x5555aaaa5555aaaaull

static struct wire_control *control;
static unsigned long records, with_fact, from_insn, wrong_values, lost, dropped, wrongly_dropped, kept,
	certain, wrongly_certain;

bool values_setup(void)
{
	control = mmap(NULL, WIRE_RING_OFFSET + RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (control == MAP_FAILED) {
		perror("truth: mmap");
		return false;
	}
	control->target_pid = getpid();
	control->cookie = COOKIE;
	control->commit_key = COMMIT_KEY;
	control->flags = WIRE_USE_TSC | WIRE_HAVE_FSGSBASE;
	control->max_frames = 1;
	control->facts_offset = WIRE_FACTS_OFFSET;
	control->rules_offset = WIRE_RULES_OFFSET;
	control->ring_offset = WIRE_RING_OFFSET;
	control->ring_size = RING;
	control->wake = 1;
	control->nwatches = 1;
	return true;
}

static void on_hit(const siginfo_t *info, const ucontext_t *uc)
{
	struct trap_info trap = { .code = TRAP_CODE_PERF, .perf_data = COOKIE };

	trap.addr = (uint64_t)(uintptr_t)info->si_addr;
	/* The frame begins with the address to return to, right below the ucontext. */
	handler_record(control, 0, &trap, (const uint64_t *)uc->uc_mcontext.gregs,
		       (uint64_t)(uintptr_t)uc - 8);
}

static struct wire_access_fact *fact_slot(uint64_t pc)
{
	struct wire_access_fact *table = (void *)((char *)control + WIRE_FACTS_OFFSET);

	return &table[wire_hash(pc) & (WIRE_ACCESS_FACTS - 1)];
}

static void watch(const struct truth_case *c, const struct truth_watch *w, uint32_t flags)
{
	control->watch[0] = (struct wire_watch){
		.addr = w->addr,
		.size = w->size,
		.flags = flags | (w->type == ACCESS_WRITE ? 0 : WIRE_WATCH_READS),
		.shadow = c->rw.before,
		.want_size = w->size,
	};
	control->head = control->tail = 0;
}

static const struct wire_record *next_record(uint64_t *at)
{
	const struct wire_record *r = (const void *)((const char *)control + WIRE_RING_OFFSET + *at);

	if (*at >= control->head || r->commit != (*at ^ COMMIT_KEY))
		return NULL;
	*at += r->size;
	return r;
}

static void check_values(const struct truth_case *c, const struct truth_run *run)
{
	uint64_t at = 0, before = run->before;

	for (unsigned int i = 0; i < run->nhits && i < HITS_MAX; i++) {
		const struct wire_record *r = next_record(&at);

		if (!r) {
			lost++;
			complain(c->form, "the handler recorded %u of %u hits", i, run->nhits);
			return;
		}
		records++;
		if (r->new_value != run->hit[i].value || r->old_value != before ||
		    (r->flags & (WIRE_HAS_OLD | WIRE_HAS_NEW)) != (WIRE_HAS_OLD | WIRE_HAS_NEW)) {
			wrong_values++;
			complain(c->form, "values: recorded %#lx -> %#lx, are %#lx -> %#lx; flags %#x",
				 (unsigned long)r->old_value, (unsigned long)r->new_value,
				 (unsigned long)before, (unsigned long)run->hit[i].value, r->flags);
		}
		before = run->hit[i].value;
	}
}

static void run_recorded(const struct truth_case *c, const struct truth_watch *w, uint32_t flags,
			 struct truth_run *ret)
{
	watch(c, w, flags);
	truth_on_hit = on_hit;
	truth_execute(c->form, c->a, w, NULL, ret);
	truth_on_hit = NULL;
}

/* The fact about the place where this form's traps arrive, if they all arrive at its end. */
static struct wire_access_fact *publish(const struct truth_case *c, const struct truth_run *seen)
{
	struct wire_access_fact *slot = fact_slot((uintptr_t)c->form->end), fact;
	struct code_fact pc, caller;

	if (!seen->nhits || seen->hit[0].regs.r[WREG_RIP] != (uintptr_t)c->form->end)
		return NULL;
	truth_facts(&seen->hit[0], &pc, &caller);
	if (!access_fact_make(&pc, &fact))
		return NULL;
	*slot = fact;
	return slot;
}

static bool manual_is_certain(const struct truth_form *f)
{
	for (unsigned int i = 0; i < f->naccess; i++)
		if (f->access[i].maybe)
			return false;
	return true;
}

static void check_dropping(const struct truth_case *c)
{
	static struct truth_run run;
	struct truth_watch w = c->watch;

	w.type = ACCESS_READWRITE;
	run_recorded(c, &w, WIRE_WATCH_READS_ONLY, &run);
	if (control->watch[0].filtered) {
		dropped++;
		if (c->kind != ACCESS_WRITE) {
			wrongly_dropped++;
			complain(c->form, "dropped as a pure write, but it is kind %d", c->kind);
		}
	} else {
		kept++;
	}
}

void values_case(const struct truth_case *c)
{
	static struct truth_run run;
	struct truth_watch w = c->watch;
	struct wire_access_fact *slot;

	/*
	 * Where another instruction than the one before rip made the access, the fact is not about it. Four
	 * and two bytes are as eight: half the time is enough.
	 */
	if (c->form->flags & FORM_DECOY || !c->rw.nhits || c->watch.size == 4 || c->watch.size == 2)
		return;
	for (unsigned int k = 0; k < 2; k++) {
		const struct truth_run *seen = k ? &c->w : &c->rw;

		w.type = k ? ACCESS_WRITE : ACCESS_READWRITE;
		run_recorded(c, &w, 0, &run);
		check_values(c, &run);
		slot = publish(c, seen);
		if (!slot)
			continue;
		with_fact += run.nhits;
		from_insn += slot->value_from != WIRE_VALUE_MEMORY;
		certain += slot->certain;
		if (slot->certain && !manual_is_certain(c->form)) {
			wrongly_certain++;
			complain(c->form, "said to access all of its operand, each time");
		}
		run_recorded(c, &w, 0, &run);
		check_values(c, &run);
		if (!k)
			check_dropping(c);
		*slot = (struct wire_access_fact){ 0 };
	}
}

bool values_report(void)
{
	printf("\nvalues recorded by the handler: %lu hits, %lu of them at known places (%lu values taken "
	       "from the "
	       "instruction); %lu wrong, %lu lost\n",
	       records, with_fact, from_insn, wrong_values, lost);
	printf("where only reads are wanted, at known places: %lu pure writes dropped, %lu others dropped, "
	       "%lu kept\n",
	       dropped, wrongly_dropped, kept);
	printf("operands said to be accessed whole, each time: %lu, %lu of them not so by the manual\n",
	       certain, wrongly_certain);
	return !wrong_values && !lost && !wrongly_dropped && !wrongly_certain;
}
