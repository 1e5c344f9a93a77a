/*
 * calltrace_stub - libcalltrace's names, and nothing behind them: what was built with the call tracer links and runs with
 * it as if no output was named. Modules are never turned on, so that a turn never comes.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "calltrace/abi.h"
#include "calltrace/calltrace.h"

#define PUBLIC __attribute__((visibility("default")))

extern __thread struct calltrace_slot *__calltrace_at PUBLIC;
__thread struct calltrace_slot *__calltrace_at __attribute__((tls_model("initial-exec")));

/* Preserves all registers, as no function of C is sure to do. */
__asm__(".pushsection .text.__calltrace_turn,\"ax\",@progbits\n"
	"\t.globl __calltrace_turn\n"
	"\t.type __calltrace_turn, @function\n"
	"__calltrace_turn:\n"
	"\tendbr64\n"
	"\tret\n"
	"\t.size __calltrace_turn, . - __calltrace_turn\n"
	".popsection");

PUBLIC void __calltrace_register(const struct calltrace_function *begin, const struct calltrace_function *end,
				 uint8_t *on, uint32_t flags)
{
	(void)begin;
	(void)end;
	(void)on;
	(void)flags;
}

PUBLIC void __calltrace_unregister(const struct calltrace_function *begin)
{
	(void)begin;
}

PUBLIC void __calltrace_memory(const struct calltrace_function *f, uint64_t at, uint32_t bytes,
			       uint32_t number)
{
	(void)f;
	(void)at;
	(void)bytes;
	(void)number;
}

PUBLIC int calltrace_initialize(void)
{
	return -ENOENT;
}

PUBLIC int calltrace_deinitialize(void)
{
	return -ENOENT;
}

PUBLIC int calltrace_enable(void)
{
	return -ENOENT;
}

PUBLIC void calltrace_disable(void)
{
}

PUBLIC int calltrace_enabled(void)
{
	return 0;
}

PUBLIC int calltrace_flush(void)
{
	return -ENOENT;
}

PUBLIC int calltrace_clear(void)
{
	return -ENOENT;
}

PUBLIC int calltrace_event_type(const char *name, const char *format)
{
	(void)format;
	return name && *name ? 0 : -EINVAL;
}

PUBLIC void calltrace_event(int type, uint64_t first, uint64_t second)
{
	(void)type;
	(void)first;
	(void)second;
}

PUBLIC int calltrace_logs(int (*each)(const char *path, uint64_t bytes, int64_t modified_s, void *ctx),
			  void *ctx)
{
	(void)each;
	(void)ctx;
	return -ENOENT;
}

PUBLIC int calltrace_delete_logs_older_than(int64_t seconds)
{
	(void)seconds;
	return -ENOENT;
}
