/*
 * event - the facts that flow from an engine to the log and to every view, once.
 *
 * One stream, in this order of dependence: a module, thread, watch, code fact or stack is told
 * before the first access that refers to it. Pointers in an event are only valid during the
 * call that delivers it; a sink copies what it keeps.
 */
#ifndef WATCHCTL_TRACE_EVENT_H
#define WATCHCTL_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "stackwalk/access.h"
#include "stackwalk/module.h"
#include "stackwalk/regs.h"
#include "stackwalk/unwind_rule.h"
#include "stackwalk/value_type.h"
#include "watchctl/base/error.h"

/* Stored in logs: never renumber. */
enum event_type {
	EVENT_PROCESS = 1,
	EVENT_THREAD = 2,
	EVENT_MODULE = 3,
	EVENT_MODULE_GONE = 4,
	EVENT_WATCH = 5,
	EVENT_CODE = 6,
	EVENT_ACCESS = 7,
	EVENT_LOST = 8,
	EVENT_NOTE = 9,
	EVENT_SUMMARY = 10,
	EVENT_TAG = 11,
	EVENT_CAPTURE = 12,
	EVENT_SYMBOL = 13,
};

/* In lost_event.watch and summary_event.watch: captures of tagged stacks, not accesses. */
#define WATCH_CAPTURES (UINT32_MAX - 1)

#define COMM_LEN 16
#define STACK_MAX 128	  /* frames an access can carry */
#define WATCH_SIZE_MAX 32 /* bytes that four registers cover at most */

struct process_event {
	int32_t pid;
	int32_t parent; /* a followed child: its parent, whose modules it starts with; 0: none */
	const char *comm;
	const char *exe;
	const char *cmdline;  /* arguments joined by spaces */
	uint64_t realtime_ns; /* CLOCK_REALTIME at the event's time_ns, which is CLOCK_MONOTONIC */
	const char *host;
};

struct thread_event {
	int32_t pid, tid;
	const char *comm;
};

struct watch_event {
	uint32_t id;	       /* 0.. in the order of the command line */
	const char *name;      /* what the user typed */
	const char *full_name; /* variable.name: "file.c:flag" */
	uint64_t addr;
	uint32_t size;	    /* 1, 2, 4, 8; more: a range that takes several registers */
	bool per_thread;    /* each thread has its own: addr is that of the first thread armed */
	const char *filter; /* the conditions under which hits are recorded; NULL: all */
	bool steps_trap;    /* this CPU traps at each step of a repeated string instruction */
	uint32_t access;    /* ACCESS_READ, _WRITE, _READWRITE (what was asked), _EXECUTE */
	const char *engine; /* "handler", "ring", "ptrace" */
	const char *why;    /* this engine, where it is not the default one; NULL */
	const char *module; /* NULL: none */
	struct value_type type;
	uint32_t threads, threads_armed;
	bool verified; /* a known access was seen */
	bool kernel;   /* accesses by the kernel are seen too */
	bool has_value;
	uint64_t value; /* when armed */
	int32_t slot;	/* explicit debug register 0..3, -1: the kernel chose */
};

struct access_event {
	uint32_t watch;
	int32_t pid, tid;
	uint64_t addr; /* of the watch, as armed when it fired */
	uint32_t size;
	bool has_old, has_new;
	bool displaced; /* SIGTRAP was blocked: registers and stack are those of a later moment */
	/*
	 * The kernel made the access on the program's behalf, seen while it did: regs and stack are the
	 * program's as it entered the kernel. False: whoever made it, regs tell.
	 */
	bool in_kernel;
	uint8_t kernel_kind; /* enum access_kind, in_kernel only */
	int32_t syscall;     /* number of the system call, in_kernel only; -1: none (a fault, a signal) */
	const char *kernel_function; /* that made the access; NULL: not known */
	uint64_t old_value, new_value;
	struct regs regs; /* after the access: rip is where execution goes on */
	uint8_t walk_end; /* enum walk_end */
	uint32_t nframes; /* >= 1, <= STACK_MAX; frame[0] == regs.rip, the others return addresses */
	const uint64_t *frame;
};

/* A tag, before the first capture under it. */
struct tag_event {
	uint32_t id;	  /* 0.., in this log */
	const char *name; /* of a named one; NULL: it is a number */
	uint64_t number;  /* otherwise */
};

/* A stack that the program itself captured, under a tag (capture/stackwalk.h). time_ns is exact. */
struct capture_event {
	uint32_t tag; /* tag_event.id */
	int32_t pid, tid;
	bool has_value;
	uint64_t value;
	uint8_t walk_end; /* enum walk_end */
	uint32_t nframes; /* >= 1, <= STACK_MAX; all are return addresses, frame[0] that of the capture itself
			   */
	const uint64_t *frame;
};

/*
 * What `watchctl symbolize` found out about an address of a module, in place of the module's files and debug
 * information. Functions come innermost first; all but the last were inlined.
 */
struct symbol_function {
	const char *name; /* demangled; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line;	  /* 0: unknown */
};

struct symbol_event {
	const char *path; /* of the module, as its event names it */
	const uint8_t *build_id;
	uint8_t build_id_len;
	uint64_t address;    /* in the file: runtime address minus bias. Of a return address, minus one */
	uint64_t start;	     /* of the function, in the file; 0: unknown */
	uint32_t nfunctions; /* >= 1, <= SYMBOL_FUNCTIONS_MAX */
	const struct symbol_function *function;
};

#define SYMBOL_FUNCTIONS_MAX 64

struct lost_event {
	uint32_t watch; /* UINT32_MAX: not known which; WATCH_CAPTURES */
	uint64_t count;
	const char *why; /* "ring full", "merged by the kernel" ... */
};

struct note_event {
	const char
		*text; /* something a reader of the log should know: "exec", "watch 0: module unloaded" ... */
};

/* One per watch, and one for captures, at the end. recorded + filtered + lost == counted, unless
 * !has_counted. */
struct summary_event {
	uint32_t watch;
	bool has_counted;
	uint64_t counted, recorded, lost, filtered;
	uint64_t duration_ns;
};

struct trace_event {
	enum event_type type;
	uint64_t time_ns;   /* CLOCK_MONOTONIC of the recording machine */
	int32_t module_pid; /* EVENT_MODULE, _GONE: whose; 0: the first process told */
	union {
		struct process_event process;
		struct thread_event thread;
		struct module module; /* EVENT_MODULE and _GONE; open_path may be NULL in a log */
		struct watch_event watch;
		struct code_fact code;
		struct access_event access;
		struct lost_event lost;
		struct note_event note;
		struct summary_event summary;
		struct tag_event tag;
		struct capture_event capture;
		struct symbol_event symbol;
	};
};

/* Where events go. An error ends the recording: the caller gets it back from whoever it asked to pump. */
struct event_sink {
	struct wc_error *(*put)(void *ctx, const struct trace_event *e);
	void *ctx;
};

#endif
