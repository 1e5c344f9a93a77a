/*
 * event - the facts that flow from an engine to the log and to every view, once.
 *
 * One stream, in this order of dependence: a module, thread, watch, code fact or stack is reported
 * before the first access that refers to it. Pointers in an event are only valid during the
 * call that delivers it; a sink copies what it keeps.
 */
#ifndef WATCHCTL_TRACE_EVENT_H
#define WATCHCTL_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/insn/access.h"
#include "watchctl/code/regs.h"
#include "watchctl/code/unwind/unwind_rule.h"

/* Traits that every event of a type has, for readers and writers. */
enum event_traits {
	EVENT_HAPPENS = 1, /* the program did it, at its time */
	EVENT_RECORDED =
		2,	 /* ... and it is what a recording is made for: the first one ends its introduction */
	EVENT_STAYS = 4, /* it holds until another says otherwise: a flight recorder re-emits it */
	EVENT_LATE = 8,	 /* it may be reported later than others that happened after it */
	EVENT_AHEAD = 16, /* it may go ahead of what waits to be put in order: its id was never another's */
};

/*
 * T(NAME, number, traits): the types of events. The numbers are stored in logs: never renumber. What an event has in a
 * log is in tracelog_rows.h.
 */
/* A type a line. */
/* clang-format off */
#define EVENT_TYPES(T) \
	T(PROCESS, 1, EVENT_STAYS) \
	T(THREAD, 2, EVENT_STAYS) \
	T(MODULE, 3, EVENT_STAYS) \
	T(MODULE_GONE, 4, 0) \
	T(WATCH, 5, EVENT_STAYS) \
	T(CODE, 6, EVENT_STAYS) \
	T(ACCESS, 7, EVENT_HAPPENS | EVENT_RECORDED | EVENT_LATE) \
	T(LOST, 8, EVENT_STAYS | EVENT_LATE) \
	T(NOTE, 9, EVENT_LATE) \
	T(SUMMARY, 10, 0) \
	T(TAG, 11, EVENT_STAYS | EVENT_AHEAD) \
	T(CAPTURE, 12, EVENT_HAPPENS | EVENT_RECORDED | EVENT_LATE) \
	T(SYMBOL, 13, EVENT_AHEAD) \
	/* Of the step recorder */ \
	T(RECORDING, 14, EVENT_STAYS) \
	T(TYPE, 15, EVENT_STAYS) \
	T(FUNCTION, 16, EVENT_STAYS) \
	T(REGION, 17, EVENT_STAYS) \
	T(RANGE, 18, EVENT_HAPPENS) \
	T(CALL, 19, EVENT_HAPPENS | EVENT_RECORDED) \
	T(RETURN, 20, EVENT_HAPPENS) \
	T(STEP, 21, EVENT_HAPPENS) \
	T(SIGNAL, 22, EVENT_HAPPENS) \
	T(BLOCKED, 23, EVENT_HAPPENS) \
	T(INPUT, 24, EVENT_HAPPENS) \
	/* Of probes */ \
	T(PROBE_SITE, 25, EVENT_STAYS | EVENT_AHEAD) \
	T(PROBE, 26, EVENT_HAPPENS | EVENT_RECORDED | EVENT_LATE) \
	T(PROBE_TOTAL, 27, 0) \
	/* Never in a log: of who reads one, about what is missing in it */ \
	T(MISSING, 0xffff, EVENT_LATE)
/* clang-format on */

#define EVENT_TYPE_NUMBER(name, number, traits) EVENT_##name = (number),
enum event_type { EVENT_TYPES(EVENT_TYPE_NUMBER) };

#define EVENT_TYPE_TRAITS(name, number, traits) \
	case EVENT_##name:                      \
		return traits;

/* enum event_traits, or'ed. */
static inline unsigned int event_traits(enum event_type type)
{
	switch (type) {
		EVENT_TYPES(EVENT_TYPE_TRAITS) /* NOLINT(bugprone-branch-clone): a line a type */
	}
	return 0;
}

static inline bool event_is(enum event_type type, enum event_traits trait)
{
	return event_traits(type) & trait;
}

/* In lost_event.watch and summary_event.watch: captures of tagged stacks, not accesses. */
#define WATCH_CAPTURES (UINT32_MAX - 1)

/* In lost_event.watch: calls, returns and instructions of a step recording. */
#define WATCH_CALLS (UINT32_MAX - 2)

/* In lost_event.watch and summary_event.watch: what probes have recorded. */
#define WATCH_PROBES (UINT32_MAX - 3)

#define COMM_LEN 16
#define STACK_MAX 128	  /* frames an access can carry */
#define WATCH_SIZE_MAX 32 /* bytes that four registers cover at most */

/* What was kept back from an event before it was recorded, see redact.h. Stored in logs: never renumber. */
#define WITHHELD_VALUES 1u /* values of the program's memory */
#define WITHHELD_REGS 2u   /* registers, but for rip */

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
	/* Of a step recording; else 0: */
	int32_t creator;		 /* the thread that made it; 0: not known */
	uint64_t creating_call;		 /* call_event.call that was innermost there; 0: none */
	uint64_t stack_start, stack_end; /* the mapping its stack lies in; 0: not known */
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
	bool withheld;	/* of what it watches, no values are recorded */
};

struct access_event {
	uint32_t watch;
	int32_t pid, tid;
	uint64_t addr; /* of the watch, as armed when it fired */
	uint32_t size;
	bool has_old, has_new;
	bool old_uncertain; /* has_old: it is the value seen last, and another may have been written since, unseen */
	bool old_told;	/* has_old: the instruction itself told it; live only, not in a log */
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
	uint8_t withheld; /* WITHHELD_ */
	/* With WITHHELD_REGS, what they said about the access while they were there: struct access_verdict.
	 */
	uint8_t known_kind; /* enum access_kind */
	bool known_in_caller;
	uint64_t known_insn;
};

/* A tag, before the first capture under it. */
struct tag_event {
	uint32_t id;	  /* 0.., in this log */
	const char *name; /* of a named one; NULL: it is a number */
	uint64_t number;  /* otherwise */
};

/* A stack that the program itself captured, under a tag (stackwalk/stackwalk.h). time_ns is exact. */
struct capture_event {
	uint32_t tag; /* tag_event.id */
	int32_t pid, tid;
	bool has_value;
	bool withheld; /* it has a value, which is not recorded; has_value is false */
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

/* Texts of ranges that are all of the program. */
#define RECORDING_FROM_START "from the start"
#define RECORDING_ALL_CALLS "all calls"

/*
 * What a step recorder was asked for, first of its events. Two logs whose `filters` differ cannot be compared
 * call by call: diff says so.
 */
struct recording_event {
	const char *stepper; /* "ptrace", "lldb" */
	const char *planner; /* "LLDB 19.1.7" */
	const char *range;   /* in words: "from parse_request to send_reply" */
	const char *
		filters; /* canonical text of what is recorded: functions, modules, stepped over, depth ... */
	bool instructions; /* each instruction is recorded too */
	uint8_t withheld;  /* enum recording_withheld */
	uint8_t inputs;	   /* enum recording_inputs */
	uint8_t changes;   /* RECORDING_CHANGED_ */
};

/* Which inputs are in the log. Stored in logs: never renumber. */
/* Tells what a return event says of the memory that the call has changed. */
#define RECORDING_CHANGED_POINTEES 1u
#define RECORDING_CHANGED_DATA 2u
#define RECORDING_CHANGED_MEMBERS 4u /* ... of variables, member by member where the type is known */

enum recording_inputs {
	INPUTS_NONE = 0,  /* logs from before they were recorded, too */
	INPUTS_START = 1, /* arguments, environment and working directory alone */
	INPUTS_RANGE = 2, /* and what system calls deliver while the range lasts */
	INPUTS_WHOLE = 3, /* ... from the program's first instruction on */
};

/* Of parameters and results. Stored in logs: never renumber. */
enum recording_withheld {
	RECORDING_WHOLE = 0,
	RECORDING_WITHHELD_SOME = 1, /* those of some functions */
	RECORDING_WITHHELD_ALL = 2,
};

/* Stored in logs: never renumber. */
enum type_kind {
	TYPE_UNKNOWN = 0, /* bytes, shown as hex */
	TYPE_VOID = 1,
	TYPE_SIGNED = 2,
	TYPE_UNSIGNED = 3,
	TYPE_BOOL = 4,
	TYPE_CHAR = 5,
	TYPE_FLOAT = 6, /* 4 and 8 bytes: IEEE 754; 16 bytes: the 10 of an x87 long double and 6 of padding */
	TYPE_ENUM = 7,
	TYPE_POINTER = 8, /* references too */
	TYPE_STRING = 9,  /* a pointer to characters that end with a NUL byte */
	TYPE_STRUCT = 10, /* class too */
	TYPE_UNION = 11,
	TYPE_ARRAY = 12,
	TYPE_CODE = 13, /* what a pointer to a function points to */
	/* An argument register, or its low 4 bytes: how the function takes its arguments is not known. */
	TYPE_REGISTER = 14,
};

#define NO_TYPE UINT32_MAX
#define TYPE_MEMBERS_MAX 256u

struct type_member {
	const char *name; /* "" : none, as of anonymous unions and base classes */
	uint32_t type;
	uint32_t offset;	      /* bytes from the start of the struct */
	uint8_t bit_offset, bit_size; /* as in struct value_type, from @offset on; bit_size 0: no bit field */
};

/* The type of a parameter or result, before the first event that refers to it; its parts come before it, but
 * for what pointers point to. */
struct type_event {
	uint32_t id; /* 0.., in this log */
	enum type_kind kind;
	uint32_t size;	  /* bytes; 0: not known, or none */
	const char *name; /* "struct node *", "unsigned int"; NULL: unknown */
	bool is_signed;	  /* TYPE_ENUM */
	uint32_t target;  /* TYPE_POINTER, _STRING: what it points to; TYPE_ARRAY: an element; NO_TYPE */
	uint32_t nmembers;
	const struct type_member *member; /* TYPE_STRUCT, _UNION: in order; at most TYPE_MEMBERS_MAX */
	uint32_t nenumerators;
	const struct enumerator *enumerator;
};

struct function_param {
	const char *name; /* NULL: not known; of a register: "rdi" */
	uint32_t type;
};

#define FUNCTION_OVER 1u      /* stepped over: what it calls is not recorded */
#define FUNCTION_NO_TYPES 2u  /* no debug information: its parameters are registers */
#define FUNCTION_PROTOTYPE 4u /* its types are known from a built-in list, not from debug information */
#define FUNCTION_PARAMS_MAX 64u

/* A function, before its first call. (module, address) is the same in every run of the same file. */
struct function_event {
	uint32_t id;	    /* 0.., in this log */
	uint32_t flags;	    /* FUNCTION_ */
	const char *name;   /* demangled; NULL: not known */
	const char *module; /* path; NULL: none, as of JIT code */
	const uint8_t *build_id;
	uint8_t build_id_len;
	uint64_t address; /* of its first instruction in the file (runtime address minus bias); 0: not known,
			     as of one that is called through a stub before its library is found */
	uint64_t size;	  /* bytes; 0: not known */
	const char *file; /* NULL: not known */
	uint32_t line;	  /* 0: not known */
	uint32_t return_type; /* NO_TYPE: not known */
	uint32_t nparams;
	const struct function_param *param;
};

/* Stored in logs: never renumber. */
enum region_kind {
	REGION_OTHER = 0,
	REGION_HEAP = 1,
	REGION_STACK = 2,
	REGION_ANONYMOUS = 3,
	REGION_FILE = 4
};

/* A mapping of the process, as it was once: what values that look like pointers may point to. */
struct region_event {
	int32_t pid;
	enum region_kind kind;
	uint64_t start, end;
	const char *name; /* path, "[heap]"; NULL: none */
};

/* Stored in logs: never renumber. */
enum range_what {
	RANGE_BEGIN = 1,
	RANGE_REACHED = 2,  /* its end was reached */
	RANGE_RETURNED = 3, /* the function that it began with has ended, and its end was not reached */
	RANGE_LIMIT = 4,    /* the limit of events */
	RANGE_STUCK = 5,    /* nothing more happened for --stuck-after; stood events follow */
	RANGE_EXITED = 6,   /* the process, or the thread of a range that follows one thread */
	RANGE_EXECED = 7,
	RANGE_STOPPED = 8, /* the user had enough, or the time was over */
};

/* An occurrence of the range begins or ends. */
struct range_event {
	uint32_t occurrence; /* 1.., entries of the range are counted also when they are not recorded */
	enum range_what what;
	int32_t pid, tid; /* in which it began, or which ended it */
};

#define CALL_TAIL 1u	 /* in place of its parent, which jumped to it: they share the return address */
#define CALL_CALLBACK 2u /* from a function that is stepped over: its parent is that one's call */
#define CALL_SIGNAL 4u	 /* by the kernel, a signal handler */
#define CALL_FIRST 8u	 /* the first function of a new thread, or where a range begins */

/*
 * A function was entered. Calls of a thread nest: its parent is open, and the innermost open one of the
 * thread. The whole stack is frame[] and then that of its parent's entry, without that one's first frame if
 * CALL_TAIL is set: frame[] has the return addresses from this call's own out to, not including, that of its
 * parent; with parent 0 all there are.
 */
struct call_event {
	uint64_t call;	 /* 1.., counts up in this log */
	uint64_t parent; /* 0: none */
	int32_t pid, tid;
	uint32_t function;
	uint16_t depth;	  /* of its parent plus 1; 0 without parent; more than fit: UINT16_MAX */
	uint8_t flags;	  /* CALL_ */
	uint64_t sp;	  /* at entry: where its return address lies */
	uint8_t walk_end; /* enum walk_end, with parent 0 or CALL_CALLBACK or _SIGNAL */
	uint32_t
		nframes; /* <= STACK_MAX; 0: CALL_TAIL, or no address is known, as of calls.N: sp is 0 then */
	const uint64_t *frame;
	const uint8_t *values; /* of the parameters in order: see call_values.h */
	uint32_t values_len;
};

/* Stored in logs: never renumber. */
enum return_how {
	RETURN_RETURNED = 1,
	RETURN_EXCEPTION = 2, /* left by an exception */
	RETURN_LONGJMP = 3,
	RETURN_THREAD_EXIT = 4, /* its thread ended itself */
	RETURN_CANCELLED = 5,	/* its thread was cancelled, or killed */
	RETURN_PROCESS_EXIT = 6,
	RETURN_EXEC = 7,
	RETURN_NEVER = 8,   /* still open when the recording ended */
	RETURN_UNKNOWN = 9, /* it is gone, and how was not seen */
};

struct return_event {
	uint64_t call;
	int32_t pid, tid;
	uint32_t function;
	enum return_how how;
	bool has_error;
	int32_t error;	       /* errno, when the function has failed by its result and sets errno */
	const uint8_t *values; /* of its result: one value, or none, and more; see call_values.h */
	uint32_t values_len;
};

/* One instruction is about to be executed. */
struct step_event {
	int32_t pid, tid;
	uint64_t call; /* innermost open one; 0: none */
	uint64_t ip;
};

/* A signal is delivered to the program. */
struct signal_event {
	int32_t pid, tid;
	int32_t signal, code; /* siginfo_t */
	uint64_t ip;	      /* where it was */
	uint64_t call;	      /* innermost open one; 0: none */
};

/* Where a thread stands when a recording gives up on waiting. */
struct blocked_event {
	int32_t pid, tid;
	uint64_t call;	 /* innermost open one; 0: none */
	int32_t syscall; /* it is in that system call; -1: in none */
	uint8_t walk_end;
	uint32_t nframes; /* >= 1, as those of access_event */
	const uint64_t *frame;
};

/* Of `watchctl patch --plan` too. Stored in logs: never renumber. */
enum probe_tactic {
	PROBE_TACTIC_JUMP = 0,
	PROBE_TACTIC_PADDING = 1,
	PROBE_TACTIC_NOP = 2,
	PROBE_TACTIC_PUN = 3,
	PROBE_TACTIC_TRAP = 4,
	PROBE_TACTIC_REFUSED = 5,
	PROBE_TACTIC_SOURCE = 6, /* none: the program's own source records there, an event of its type @id */
};

#define PROBE_SOURCE_FORMAT "%lu %lu" /* of a record of PROBE_TACTIC_SOURCE that names none */

/* Stored in logs: never renumber. */
enum probe_when { PROBE_BEFORE = 0, PROBE_AFTER_IT = 1, PROBE_IN_PLACE = 2 };

/* A place where a probe function runs, or was refused, before the first event of it. */
struct probe_site_event {
	uint32_t id; /* 0.., in this log */
	int32_t pid;
	const char *probe;   /* name of the function */
	const char *pattern; /* what the user typed; of _SOURCE, the format of its records */
	uint64_t ip;	     /* of the instruction; of _SOURCE 0, it is not known */
	enum probe_when when;
	enum probe_tactic tactic;
	const char *why; /* of a refusal, or of the tactic; NULL: nothing to be said */
	uint8_t ninsn;	 /* bytes of the instruction, as they were; 0: not known */
	uint8_t insn[16];
};

/* Stored in logs: never renumber. */
enum probe_kind { PROBE_KIND_LOG = 1, PROBE_KIND_VALUE = 2, PROBE_KIND_STACK = 3 };

#define PROBE_EVENT_ARGS 8
#define PROBE_EVENT_STRING 63 /* bytes of a string at most */

/* What a probe function has recorded. time_ns is exact. */
struct probe_event {
	uint32_t site; /* probe_site_event.id */
	int32_t pid, tid;
	enum probe_kind kind;
	const char *format; /* _LOG: the format, _STACK: the tag; _VALUE: NULL */
	uint8_t nargs;	    /* _LOG: arguments, <= PROBE_EVENT_ARGS; else 1: the value */
	uint8_t strings;    /* bit n: argument n is a string */
	uint8_t unread;	    /* bit n: ... that could not be read */
	uint64_t arg[PROBE_EVENT_ARGS];
	const char *string[PROBE_EVENT_ARGS]; /* of those that are strings and could be read; else NULL */
	bool withheld;			      /* arguments and value are not recorded: nargs is 0 */
	uint8_t walk_end;		      /* enum walk_end; _STACK */
	uint32_t nframes; /* as those of access_event; 0: no stack was asked for. frame[0]: the instruction */
	const uint64_t *frame;
};

/*
 * At the end: how often a site was reached, and how many of its records found no room. A probe may record nothing, or
 * several times, each time it is reached: @count is not the sum of what was recorded and what was lost. A lost_event of
 * WATCH_PROBES, if there is one, reports the same losses as they happen.
 */
struct probe_total_event {
	uint32_t site;
	uint64_t count, lost;
};

/* Stored in logs: never renumber. */
enum input_kind {
	INPUT_ARGUMENTS = 1,   /* at the beginning: each ends with a NUL byte */
	INPUT_ENVIRONMENT = 2, /* at the beginning: each variable ends with a NUL byte */
	INPUT_DIRECTORY = 3,   /* at the beginning: @name is the working directory */
	INPUT_FILE = 4,	       /* read of a regular file, at @offset; @result 0: its end */
	INPUT_STREAM = 5,      /* of a pipe, socket, terminal: @offset counts what came of it before */
	INPUT_MAP = 6,	       /* a file that was mapped, from @offset on */
	INPUT_OPEN = 7,	       /* opened, or asked whether it may be: only @result */
	INPUT_STATUS = 8,      /* struct stat, or struct statx where @syscall is statx */
	INPUT_LINK = 9,	       /* readlink(), getcwd() */
	INPUT_ENTRIES = 10,    /* struct linux_dirent64 */
	INPUT_CLOCK = 11,      /* by a system call; the vDSO makes none */
	INPUT_RANDOM = 12,
};

#define INPUT_HASHED_MAX (1u << 20) /* bytes of an input that its hash covers at most */
#define INPUT_BYTES_MAX (1u << 20)  /* ... and that are stored */

/* What the program got from outside: a system call has returned, or the program has started. */
struct input_event {
	int32_t pid, tid;
	uint64_t call; /* innermost open one; 0: none */
	enum input_kind kind;
	bool withheld;	  /* bytes and hash were not recorded on purpose */
	int32_t syscall;  /* its number; -1: none */
	int32_t fd;	  /* -1: none */
	int64_t result;	  /* of the system call: -errno if it has failed */
	uint64_t offset;  /* INPUT_FILE, _STREAM, _MAP */
	uint64_t size;	  /* bytes delivered */
	uint32_t hashed;  /* the first so many of them are in: */
	uint64_t hash;	  /* FNV-1a */
	const char *name; /* path; "pipe:[1234]"; "socket:[1234] 10.0.0.1:80", with its peer; NULL: none */
	const uint8_t *bytes; /* the first @len of them */
	uint32_t len;
};

struct lost_event {
	uint32_t watch; /* UINT32_MAX: not known which; WATCH_CAPTURES */
	uint64_t count;
	const char *why; /* "ring full", "merged by the kernel" ... */
};

struct note_event {
	const char
		*text; /* something a reader of the log should know: "exec", "watch 0: module unloaded" ... */
};

/*
 * What of the log cannot be read, or cannot be understood without what cannot be read. Of neither any: the log is the
 * rest of a flight recorder's, and said nothing yet.
 */
struct missing_event {
	uint64_t bytes;		 /* about; 0: it can be read */
	uint64_t events;	 /* that can be read, and are left out: what they refer to is missing */
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC; 0: not known */
	const char *why;	 /* lives for ever */
};

/* One per watch, and one for captures, at the end; for probes, probe_total_event is enough.
 * recorded + filtered + lost == counted, unless !has_counted. */
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
		struct missing_event missing;
		struct summary_event summary;
		struct tag_event tag;
		struct capture_event capture;
		struct symbol_event symbol;
		struct recording_event recording;
		struct type_event type_info;
		struct function_event function;
		struct region_event region;
		struct range_event range;
		struct call_event call;
		struct return_event ret;
		struct step_event step;
		struct signal_event signal;
		struct blocked_event blocked;
		struct input_event input;
		struct probe_site_event probe_site;
		struct probe_event probe;
		struct probe_total_event probe_total;
	};
};

/* Where events go. An error ends the recording: the caller gets it back from whoever it asked to pump. */
struct event_sink {
	struct wc_error *(*put)(void *ctx, const struct trace_event *e);
	void *ctx;
};

#endif
