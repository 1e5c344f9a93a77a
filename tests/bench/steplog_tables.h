/* steplog_tables - the types and functions of the program that steplog-gen makes up. */
#ifndef TESTS_BENCH_STEPLOG_TABLES_H
#define TESTS_BENCH_STEPLOG_TABLES_H

#include <stdint.h>

#include "watchctl/trace/event.h"

enum steplog_type {
	T_INT,
	T_CHAR,
	T_STRING,
	T_SIZE,
	T_VOID_POINTER,
	T_KIND,
	T_REQUEST,
	T_REQUEST_POINTER,
	T_ITEM,
	T_ITEM_POINTER,
	T_DOUBLE,
	T_CODE,
	T_COMPARE,
	T_VOID,
	T_COUNT
};

enum steplog_function {
	F_SERVE,
	F_READ_REQUEST,
	F_PARSE_REQUEST,
	F_PARSE_VALUE,
	F_LOOKUP,
	F_WEIGH,
	F_COMPARE,
	F_SEND_REPLY,
	F_LOG_EVENT, /* an extra call is one of this: nothing else calls it */
	F_MALLOC,
	F_FREE,
	F_STRLEN,
	F_READ,
	F_QSORT,
	F_COUNT
};

struct request {
	int32_t id, len;
	uint64_t name;
};

struct item {
	uint64_t next;
	int32_t key, weight;
};

/* Without their ids, which are their places; functions without all that depends on where they lie. */
extern const struct type_event steplog_types[T_COUNT];
extern const struct function_event steplog_functions[F_COUNT];

#endif
