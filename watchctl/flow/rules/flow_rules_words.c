#include <string.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/flow/rules/flow_rules_impl.h"

static bool is_word(const char *name, const char *word, size_t len)
{
	return name && strlen(name) == len && !memcmp(name, word, len);
}

const char *flow_rules_place_name(int place)
{
	static const char *const outside[] = {
		[PLACE_FAULT - PLACE_CALLS] = "page-fault", [PLACE_BLOCKED - PLACE_CALLS] = "blocked",
		[PLACE_STOPPED - PLACE_CALLS] = "stopped",  [PLACE_NO_CALL - PLACE_CALLS] = "no-call",
		[PLACE_NO_WORK - PLACE_CALLS] = "no-work",
	};

	return place < PLACE_CALLS ? syscall_name(place) : outside[place - PLACE_CALLS];
}

int flow_rules_place(const char *word, size_t len)
{
	for (int i = 0; i < PLACES; i++)
		if (is_word(flow_rules_place_name(i), word, len))
			return i;
	return -1;
}

const char *flow_rules_column_name(int column)
{
	static const char *const name[COLUMNS] = {
		[FLOW_KIND_NONE] = "none",	  [FLOW_KIND_FILE] = "file",
		[FLOW_KIND_PIPE] = "pipe",	  [FLOW_KIND_UNIX] = "unix",
		[FLOW_KIND_INET] = "inet",	  [FLOW_KIND_SOCKET] = "socket",
		[FLOW_KIND_EVENTFD] = "eventfd",  [FLOW_KIND_EPOLL] = "epoll",
		[FLOW_KIND_TIMERFD] = "timerfd",  [FLOW_KIND_PTY_MASTER] = "pty-master",
		[FLOW_KIND_PTY] = "pty",	  [FLOW_KIND_TTY] = "tty",
		[FLOW_KIND_DEVICE] = "device",	  [FLOW_KIND_DIRECTORY] = "directory",
		[FLOW_KIND_OTHER] = "other",	  [FLOW_KIND_SEMAPHORE] = "semaphore",
		[COLUMN_MUTEX] = "mutex",	  [COLUMN_PI] = "pi",
		[COLUMN_CONTENDED] = "contended", [COLUMN_MONOTONIC] = "monotonic",
		[COLUMN_WORD] = "word",
	};

	return name[column];
}

int flow_rules_column(const char *word, size_t len)
{
	for (int i = 0; i < COLUMNS; i++)
		if (is_word(flow_rules_column_name(i), word, len))
			return i;
	return -1;
}

int flow_rules_edge(const char *word, size_t len)
{
	/* Weak ones are no connections: a thread's units follow each other. */
	for (int i = 0; i < FLOW_EDGE_WEAK; i++)
		if (is_word(flow_edge_kind_names[i], word, len))
			return i;
	return -1;
}

const char *flow_rules_call_name(int call)
{
	return flow_rules_place_name(call % PLACE_CALLS);
}

const char *flow_rules_kind_name(int object_kind)
{
	return flow_rules_column_name(object_kind);
}
