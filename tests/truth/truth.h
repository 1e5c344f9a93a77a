/*
 * truth - instructions are executed under real data breakpoints, and what the product says of each trap is
 * held against what happened. docs/truth.md tells how, and what the numbers mean.
 *
 * `generate` writes the forms: functions with one labelled instruction each, and a statement, from the
 * processors' manuals, of what it accesses. This header is the layout that both sides share.
 */
#ifndef TESTS_TRUTH_TRUTH_H
#define TESTS_TRUTH_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/ucontext.h>

#include "watchctl/code/insn/access.h"

#define ARENA_SIZE 0x30000u
#define ARENA_HOME 0x10040u /* A, where the instruction leaves a choice: a multiple of 64 */
#define ARENA_ABSENT 0x4000u
#define HITS_MAX 64u

enum truth_flags {
	FORM_WATCH_A = 1u << 0,	  /* watched at A although nothing is accessed there for certain */
	FORM_WIDE = 1u << 1,	  /* may touch all of the arena */
	FORM_REPEATED = 1u << 2,  /* rep: several hits, each of a step of it */
	FORM_CALL = 1u << 3,	  /* leads into a function that returns to `end` */
	FORM_BY_KERNEL = 1u << 4, /* the kernel may do it in the instruction's place (UMIP) */
	FORM_X87_ENV16 = 1u << 5, /* the image that A must hold */
	FORM_X87_ENV32 = 1u << 6,
	FORM_FXSAVE_IMAGE = 1u << 7,
	FORM_XSAVE_AREA = 1u << 8,
	FORM_XSAVE_IMAGE = 1u << 9,
	FORM_FIXED = 1u << 10,	 /* A stands in the instruction: it is ARENA_HOME */
	FORM_DECOY = 1u << 11,	 /* leads to behind an instruction that would explain the trap as well */
	FORM_POINTER = 1u << 12, /* A holds a pointer: watched as one, or its low bytes */
	FORM_ABSENT = 1u << 13	 /* the page at A + ARENA_ABSENT is not there at first */
};

struct truth_access {
	int32_t off; /* from A */
	uint32_t len;
	uint32_t kind;	/* enum access_kind, as the manual says */
	uint32_t maybe; /* processors differ */
};

struct truth_form {
	const char *key, *group;
	const char *feature; /* flags of /proc/cpuinfo that it needs */
	const char *accept;  /* class of what cannot be known of it, "" for none */
	const uint8_t *fn, *insn, *end;
	const uint8_t *blob; /* what memory holds at A + blob_off */
	uint64_t blob_len;
	const struct truth_access *access; /* naccess, then nothers: what other lines of it touch */
	int32_t blob_off;
	uint32_t flags, align, naccess, nothers, pad;
};

extern const struct truth_form truth_forms[];
extern const uint64_t truth_form_count, truth_shape_count;
extern const uint8_t truth_forms_begin[], truth_forms_end[];

/* truth_entry.S */
extern uint8_t truth_arena[];
extern const uint8_t truth_back[];	     /* where a form returns to */
extern uint64_t truth_in[16], truth_out[17]; /* registers in the order of x86form.GPR, rsp; then rflags */
extern uint8_t truth_xstate[16384], truth_xout[16384];
void truth_invoke(const void *fn);

/* truth_run.c */

struct truth_watch {
	uint64_t addr;
	uint32_t size;
	enum access_kind type; /* ACCESS_WRITE or ACCESS_READWRITE */
};

struct truth_hit {
	struct regs regs;
	uint64_t stack_word; /* at rsp, 0 if unreadable */
	uint64_t value;	     /* of the watched range */
	uint64_t addr;	     /* as the signal gives it */
};

struct truth_run {
	int signal; /* what ended it instead of its return; 0: nothing */
	unsigned int nhits;
	struct truth_hit hit[HITS_MAX];
	uint64_t before, after; /* the watched range */
};

/* False with a reason where this machine cannot. */
bool truth_setup(const char **why);
bool truth_supported(const struct truth_form *f);

/*
 * Runs @f with its operand at @a, armed as @w says (NULL: not at all). @flip: the access whose bytes are to
 * hold something else than usual; NULL: none. False: it could not be armed, errno says why.
 */
bool truth_execute(const struct truth_form *f, uint64_t a, const struct truth_watch *w,
		   const struct truth_access *flip, struct truth_run *ret);

/* What memory holds when such a run begins. */
void truth_fill(const struct truth_form *f, uint64_t a, const struct truth_access *flip);

/* Called in the signal handler for each trap, after the hit was noted; NULL: nobody. */
extern void (*truth_on_hit)(const siginfo_t *info, const ucontext_t *uc);

/* Executes @len bytes of code with all registers pointing into the arena. The signal it died of, or 0. */
int truth_try(const uint8_t *code, size_t len);

/* The start of the function that holds @pc, as symbols would say; 0: none of ours. */
uint64_t truth_function(uint64_t pc);

/* The facts about a hit: at its rip, and at the innermost return address, as CFI would find it. */
void truth_facts(const struct truth_hit *h, struct code_fact *pc, struct code_fact *caller);

static inline bool truth_overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
	return a < b + blen && b < a + alen;
}

static inline uint64_t truth_at(uint64_t a, int32_t off)
{
	return a + (uint64_t)(int64_t)off;
}

/* What a form did at one place of the watch, in both ways of watching. */
struct truth_case {
	const struct truth_form *form;
	uint64_t a;
	struct truth_watch watch;
	uint32_t sure, maybe;	/* enum access_kind: what the manual says of the watched bytes */
	enum access_kind kind;	/* what was done to them; ACCESS_UNKNOWN: nothing */
	struct truth_run rw, w; /* under each watch */
};

/* truth_judge.c: verdicts. Says what was wrong, on stdout. */
void judge_case(const struct truth_case *c);
bool judge_report(void);

/* truth_values.c: the handler's own code at each trap: values, and what it drops. */
bool values_setup(void);
void values_case(const struct truth_case *c);
bool values_report(void);

/* truth_effects.c: whether the statements about reads and writes are true, by their effects. */
void effects_form(const struct truth_form *f);
bool effects_report(void);

/* truth_coverage.c: whether instructions are missing. */
void coverage_form(const struct truth_form *f);
bool coverage_report(void);

/* Prints a finding, "[group] key: ...". */
void complain(const struct truth_form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
