/*
 * odd - programs that are hard to watch, one kind each. The driver (odd.py) and they share a page: it says
 * what is to happen, they account for what they have done. Whoever they have forked counts in the same page.
 * odd.py knows this layout as well: change both.
 */
#ifndef ODD_H
#define ODD_H

#include <stdbool.h>
#include <stdint.h>

#define ODD_MAGIC 0x64646full
#define ODD_FAILURE 256

/* Who writes: the program itself, descendants of the present epoch, older ones. */
enum odd_writer { WRITER_FIRST, WRITER_DESCENDANT, WRITER_OLD, WRITERS };
enum odd_beat { BEAT_ACCESSES, BEAT_BYSTANDER, BEATS };

struct odd_shared {
	uint64_t magic;
	/* The driver's. */
	uint32_t hold;	  /* no accesses; all else goes on */
	uint32_t quiet;	  /* no forks */
	uint32_t epoch;	  /* of descendants: who is forked from now on belongs to it */
	uint32_t over;	  /* all end */
	uint32_t late;	  /* dispatch: begins */
	uint32_t execute; /* executes itself, once */
	uint32_t watched; /* when it is over, it still is: what a handler shows of itself is to be seen */
	/* The program's. */
	uint32_t active;   /* accesses under way */
	uint32_t forking;  /* forks under way */
	uint32_t closed;   /* it is about to execute itself: neither accesses nor forks */
	uint32_t executed; /* how often */
	uint32_t failed;
	uint32_t tid[BEATS]; /* whose beats these are, as /proc numbers them */
	uint64_t beats[BEATS];
	uint64_t writes[WRITERS];      /* of what is watched */
	uint64_t before_exec[WRITERS]; /* the same, when it last executed itself */
	uint64_t address;
	uint64_t born, ended; /* descendants, and those of them that ended as they should */
	uint64_t faults, checks;
	char failure[ODD_FAILURE];
};

extern struct odd_shared *shared;

/* odd_main.c */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void checked(void);
void beat(enum odd_beat which);
void pause_us(unsigned int us);
bool is_over(void);
/* May what is watched be accessed? Then odd_leave() must follow. */
bool odd_enter(void);
void odd_leave(unsigned int writes);
/* The same for a fork; the child says become_descendant(). */
bool fork_enter(void);
void fork_leave(void);
void become_descendant(void);

/* What is watched. */
extern volatile long odd_flag;

/* Each does its work until it is over; it has a thread of its own. The word says in which way. */
void work_plain(const char *word);
void work_pointer(const char *word);
void work_tls(const char *word);
void work_blocked(const char *word);
void work_pages(const char *word);
void work_dispatch(const char *word);
void work_daemons(const char *word);
void work_forking(const char *word);

#endif
