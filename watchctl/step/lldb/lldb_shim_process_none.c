/* Without LLDB there is no process; nobody gets as far as what takes one. */
#include "watchctl/step/lldb/lldb_shim_process.h"

#include <stdlib.h>

static struct wc_error *none(void)
{
	return wc_error_new(WC_ENOTSUP,
			    "this watchctl was built without LLDB (install liblldb-19-dev and lldb-19, "
			    "and build it again)");
}

struct wc_error *lldb_process_attach(pid_t pid, struct lldb_process **ret)
{
	(void)pid;
	(void)ret;
	return none();
}

struct wc_error *lldb_process_take_over(struct tracee *held, struct lldb_process **ret)
{
	(void)held;
	(void)ret;
	return none();
}

struct wc_error *lldb_process_launch(char *const argv[], struct lldb_process **ret)
{
	(void)argv;
	(void)ret;
	return none();
}

struct wc_error *lldb_process_close(struct lldb_process *p)
{
	(void)p;
	return NULL;
}

pid_t lldb_process_pid(const struct lldb_process *p)
{
	(void)p;
	return 0;
}

bool lldb_process_is_shared(const struct lldb_process *p)
{
	(void)p;
	return false;
}

void lldb_process_borrow(struct lldb_process *p)
{
	(void)p;
}

void lldb_process_give_back(struct lldb_process *p)
{
	(void)p;
}

struct wc_error *lldb_process_go(struct lldb_process *p, const pid_t *held, size_t n)
{
	(void)p;
	(void)held;
	(void)n;
	return none();
}

struct wc_error *lldb_process_step(struct lldb_process *p, pid_t tid)
{
	(void)p;
	(void)tid;
	return none();
}

struct wc_error *lldb_process_wait(struct lldb_process *p, int timeout_ms, enum lldb_state *ret)
{
	(void)p;
	(void)timeout_ms;
	(void)ret;
	return none();
}

void lldb_process_interrupt(struct lldb_process *p)
{
	(void)p;
}

void lldb_process_ask_pause(struct lldb_process *p)
{
	(void)p;
}

bool lldb_process_take_pause(struct lldb_process *p)
{
	(void)p;
	return false;
}

int lldb_process_status(const struct lldb_process *p)
{
	(void)p;
	return 0;
}

const struct lldb_thread *lldb_process_threads(struct lldb_process *p, size_t *n)
{
	(void)p;
	*n = 0;
	return NULL;
}

bool lldb_process_regs(struct lldb_process *p, pid_t tid, struct regs *ret)
{
	(void)p;
	(void)tid;
	(void)ret;
	return false;
}

bool lldb_process_vector(struct lldb_process *p, pid_t tid, unsigned int reg, uint8_t ret[64])
{
	(void)p;
	(void)tid;
	(void)reg;
	(void)ret;
	return false;
}

bool lldb_process_x87(struct lldb_process *p, pid_t tid, unsigned int reg, uint8_t ret[10])
{
	(void)p;
	(void)tid;
	(void)reg;
	(void)ret;
	return false;
}

static bool read_nothing(void *ctx, uint64_t addr, void *buf, size_t len)
{
	(void)ctx;
	(void)addr;
	(void)buf;
	(void)len;
	return false;
}

struct memory_view lldb_process_memory(struct lldb_process *p)
{
	return (struct memory_view){ read_nothing, p };
}

struct wc_error *lldb_process_break(struct lldb_process *p, uint64_t address)
{
	(void)p;
	(void)address;
	return none();
}

void lldb_process_unbreak(struct lldb_process *p, uint64_t address)
{
	(void)p;
	(void)address;
}
