#include "watchctl/cli/flow/graph/flow_graph_words.h"

#include <stdio.h>
#include <sys/syscall.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/trace/flow/flow_format.h"
#include "watchctl/view/words/view_words.h"

static const char *object_name(int kind)
{
	static const char *const name[] = {
		[FLOW_KIND_FILE] = "file inode",
		[FLOW_KIND_PIPE] = "pipe",
		[FLOW_KIND_UNIX] = "unix socket",
		[FLOW_KIND_INET] = "inet socket",
		[FLOW_KIND_SOCKET] = "socket",
		[FLOW_KIND_EVENTFD] = "eventfd",
		[FLOW_KIND_EPOLL] = "epoll",
		[FLOW_KIND_TIMERFD] = "timerfd",
		[FLOW_KIND_PTY_MASTER] = "pty master",
		[FLOW_KIND_PTY] = "pty",
		[FLOW_KIND_TTY] = "tty inode",
		[FLOW_KIND_DEVICE] = "device inode",
		[FLOW_KIND_DIRECTORY] = "directory inode",
		[FLOW_KIND_OTHER] = "object",
		[FLOW_KIND_SEMAPHORE] = "eventfd",
	};

	return (size_t)kind < sizeof(name) / sizeof(name[0]) ? name[kind] : NULL;
}

static void call_words(int call, int kind, uint32_t object, char *buf, size_t cap)
{
	const char *name = syscall_name(call), *what = object_name(kind);
	char number[32];

	snprintf(number, sizeof(number), "system call %d", call);
	if (what)
		snprintf(buf, cap, "%s on %s %u", name ? name : number, what, object);
	else
		snprintf(buf, cap, "%s", name ? name : number);
}

static void timer_words(const struct flow_edge *e, char *buf)
{
	char took[32];

	text_duration(e->to_ns - e->from_ns, took, sizeof(took));
	snprintf(buf, FLOW_WORDS, "%s %s, timer 0x%x",
		 e->flags & FLOW_EDGE_OWN ? "its own timeout of" : "a timer set", took, e->object);
}

static void wait_words(const struct flow_edge *e, char *buf)
{
	const char *how = e->flags & FLOW_EDGE_FAULT	 ? "page fault"
			  : e->flags & FLOW_EDGE_BLOCKED ? "uninterruptible sleep"
							 : "sleep in the kernel";

	if (e->has_call && e->call == SYS_futex)
		snprintf(buf, FLOW_WORDS, "%s 0x%llx", e->flags & FLOW_EDGE_OWNER ? "lock" : "futex",
			 (unsigned long long)e->address);
	else if (e->has_call && !(e->flags & FLOW_EDGE_FAULT))
		call_words(e->call, e->object_kind, e->object, buf, FLOW_WORDS);
	else
		snprintf(buf, FLOW_WORDS, "%s", how);
}

static void wakeup_words(const struct flow_edge *e, char *buf)
{
	char call[96] = "";

	if (e->has_call)
		call_words(e->call, e->object_kind, e->object, call, sizeof(call));
	if (e->signal)
		snprintf(buf, FLOW_WORDS, "signal %u%s%s", e->signal, *call ? ", " : "", call);
	else if (e->flags & FLOW_EDGE_BLOCKED)
		snprintf(buf, FLOW_WORDS, "out of an uninterruptible sleep");
	else
		snprintf(buf, FLOW_WORDS, "%s", *call ? call : "it woke it");
}

static void message_words(const struct flow_edge *e, char *buf)
{
	char call[96];

	if (e->has_call)
		call_words(e->call, e->object_kind, e->object, call, sizeof(call));
	else
		snprintf(call, sizeof(call), "a packet for %s %u", object_name(e->object_kind), e->object);
	if (e->bytes)
		snprintf(buf, FLOW_WORDS, "%s, %llu bytes", call, (unsigned long long)e->bytes);
	else
		snprintf(buf, FLOW_WORDS, "%s", call);
}

static void data_words(const struct flow_shown *s, const struct flow_edge *e, char *buf)
{
	if (e->has_call)
		wakeup_words(e, buf); /* by a rule */
	else
		snprintf(buf, FLOW_WORDS, "%s was written",
			 e->object < s->attached.nvariables ? s->attached.variable[e->object] : "a variable");
}

void flow_edge_words(const struct flow_shown *s, const struct flow_edge *e, char *buf)
{
	switch (e->kind) {
	case FLOW_EDGE_DATA:
		data_words(s, e, buf);
		break;
	case FLOW_EDGE_TIMER:
		timer_words(e, buf);
		break;
	case FLOW_EDGE_LOCK:
		snprintf(buf, FLOW_WORDS, "futex 0x%llx woken", (unsigned long long)e->address);
		break;
	case FLOW_EDGE_WORK:
		snprintf(buf, FLOW_WORDS, "work 0x%x queued", e->object);
		break;
	case FLOW_EDGE_IO:
		snprintf(buf, FLOW_WORDS, "I/O request 0x%x done", e->object);
		break;
	case FLOW_EDGE_SPAWN:
		snprintf(buf, FLOW_WORDS, "created thread %u", e->object);
		break;
	case FLOW_EDGE_EXIT:
		snprintf(buf, FLOW_WORDS, "it exited");
		break;
	case FLOW_EDGE_WAIT_FOR:
		wait_words(e, buf);
		break;
	case FLOW_EDGE_MESSAGE:
		message_words(e, buf);
		break;
	default:
		wakeup_words(e, buf);
	}
}

void flow_node_words(const struct flow_node *n, char *buf)
{
	char call[96];

	if (!n->has_call) {
		snprintf(buf, FLOW_WORDS, "runs");
		return;
	}
	call_words(n->call, n->object_kind, n->object, call, sizeof(call));
	snprintf(buf, FLOW_WORDS, "after %s", call);
}
