/*
 * chaos - what the self-checking program shares with the driver, chaos.py: one page that both map.
 *
 * The driver says what is to rest and what it does to the program; the program says how far each thread is,
 * what each has accessed, and the first thing that was not as it should be. target.py knows this layout as
 * well: change both.
 */
#ifndef CHAOS_H
#define CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#define CHAOS_MAGIC 0x736f616863ull
#define CHAOS_VARIABLES 4
#define CHAOS_THREADS 40
#define CHAOS_NAME 16
#define CHAOS_FAILURE 512

/* What lets a thread rest. */
#define REST_HOLD 1u
#define REST_QUIET 2u

enum chaos_traps { TRAPS_DEFAULT, TRAPS_OWN, TRAPS_IGNORED };

/* What a thread has done to one watched variable; only this thread writes it. */
struct chaos_account {
	uint64_t writes, exchanges, reads; /* an exchange reads and writes, by one instruction */
};

struct chaos_thread {
	char name[CHAOS_NAME];
	uint64_t beats;	  /* turns: one that stands still has been harmed */
	uint32_t obeys;	  /* REST_ bits */
	uint32_t resting; /* what it obeys is said, and nothing it does can be seen from outside */
	uint64_t calls;	  /* of chaos_function() */
	struct chaos_account variable[CHAOS_VARIABLES];
};

struct chaos_shared {
	uint64_t magic;
	/* The driver's. */
	uint32_t hold;	       /* no accesses of variables, no calls of chaos_function() */
	uint32_t quiet;	       /* no threads, children and mappings come and go */
	uint32_t stops;	       /* odd: the driver stops the program just now; changes: it has done so */
	uint32_t code_changes; /* breakpoints may be in the code: watchctl step */
	uint32_t losing;       /* a tracer is killed that may just have taken a signal for the program */
	uint32_t pause_us;     /* of writers, between two accesses; 0: none */
	uint32_t over;
	/* The program's. */
	uint32_t threads; /* entries of thread[] in use */
	uint32_t failed;
	char failure[CHAOS_FAILURE];
	uint64_t checks, traps, ticks, queued, born, children, mappings;
	struct chaos_thread thread[CHAOS_THREADS];
};

/* Watched. Each has one thread that writes it, counting up by one; others may read it. */
struct chaos_variable {
	volatile uint64_t value;
	uint64_t padding[7];
};
extern struct chaos_variable chaos_alpha, chaos_beta, chaos_gamma, chaos_delta;
extern struct chaos_variable chaos_quiet; /* nobody touches it */
void chaos_function(void);

extern struct chaos_shared *shared;
extern enum chaos_traps chaos_own_traps;
extern __thread struct chaos_thread *self;

/* chaos_main.c */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void checked(void);
uint64_t next_random(uint64_t *state);
uint64_t now_ns(void);
struct chaos_variable *variable_number(unsigned int i);
/* Between two turns of a thread: beats, looks at what is the thread's own, rests while that is asked for.
 * False: it is over. */
bool turn(void);
/* Has the driver stopped the program since @before = shared->stops? Then some calls end with EINTR by
 * themselves. */
bool stopped_since(uint32_t before);

/* What threads do. chaos_access.c: accesses between checks of registers, vectors, errno, flags, red zone */
void write_and_check(unsigned int variable);
void read_and_check(unsigned int unused);
/* chaos_calls.c: system calls that end by their time-out, the bytes of a pipe */
void calls_init(void);
unsigned int calls_number(void);
const char *call_name(unsigned int call);
void sleep_and_check(unsigned int call);
void feed_stream(unsigned int unused);
void read_stream(unsigned int unused);
/* chaos_signals.c: a timer's ticks, queued signals, SIGTRAP; mask and alternate stack of each thread */
void signals_init(void);
void signals_thread_init(unsigned int number);
void signals_thread_check(void);
void signals_process_check(void);
void receive_signals(unsigned int unused);
void queue_signals(unsigned int unused);
void trap_and_check(unsigned int unused);
/* chaos_births.c: threads, children and mappings that come and go */
void make_threads(unsigned int number);
void make_children(unsigned int how);
void make_mappings(unsigned int unused);
int child_main(int code);
/* chaos_process.c: descriptors, code, limits, timers */
void process_init(void);
void look_at_process(unsigned int unused);

#endif
