/*
 * Runs a plan victim (tests/victims/plan_show.h) under ptrace, stops it at each call of a function whose name
 * has "f_" in it and where that returns, carries out what the planner has planned, and compares with what the
 * program itself says that it has passed and got.
 */
#ifndef TESTS_UNIT_PLAN_VICTIM_H
#define TESTS_UNIT_PLAN_VICTIM_H

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "tests/unit/lldb_leaks.h"
#include "tests/unit/loc_victim.h"
#include "watchctl/step/insn/fetch_run.h"
#include "watchctl/step/lldb/planner_lldb.h"
#include "watchctl/trace/call_values.h"

#define FACTS_MAX 256
#define BREAKS_MAX 128

struct fact {
	char key[128];
	enum value_state state;
	char hex[2 * CALL_VALUE_MAX + 1];
};

struct call_open {
	const struct function_plan *plan;
	uint64_t sp, back;
	char name[64];
};

struct plan_run {
	pid_t pid;
	int mem, out;
	struct planner *planner;
	struct planner_list list;
	uint64_t at[BREAKS_MAX];
	uint8_t byte[BREAKS_MAX];
	size_t nbreaks;
	struct call_open open[16];
	size_t nopen;
	struct fact fact[FACTS_MAX];
	size_t nfacts;
	struct user_regs_struct regs;
	struct user_fpregs_struct fp;
};

static inline bool run_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct plan_run *r = ctx;

	return pread(r->mem, buf, len, (off_t)addr) == (ssize_t)len;
}

static inline bool run_vector(void *ctx, unsigned int reg, uint8_t ret[64])
{
	const struct plan_run *r = ctx;

	memset(ret, 0, 64);
	memcpy(ret, (const uint8_t *)r->fp.xmm_space + 16 * reg, 16);
	return true;
}

static inline bool run_x87(void *ctx, unsigned int reg, uint8_t ret[10])
{
	const struct plan_run *r = ctx;

	memcpy(ret, (const uint8_t *)r->fp.st_space + 16 * reg, 10);
	return true;
}

static inline void run_break(struct plan_run *r, uint64_t at)
{
	for (size_t i = 0; i < r->nbreaks; i++)
		if (r->at[i] == at)
			return;
	assert_true(r->nbreaks < BREAKS_MAX);
	assert_true(run_read(r, at, &r->byte[r->nbreaks], 1));
	r->at[r->nbreaks++] = at;
	assert_int_equal(pwrite(r->mem, "\xcc", 1, (off_t)at), 1);
}

/* "double ns::f_x<double>(double) [clone .isra.0]" -> "ns::f_x<double>" */
static inline bool run_name(const char *name, char ret[64])
{
	const char *end, *start, *f = name ? strstr(name, "f_") : NULL;

	if (!f || (f > name && f[-1] != ':' && f[-1] != ' '))
		return false;
	end = f + strcspn(f, "(. ");
	for (start = f; start > name && start[-1] != ' ';)
		start--;
	snprintf(ret, 64, "%.*s", (int)(end - start), start);
	return true;
}

static inline void run_add_fact(struct plan_run *r, const char *key, enum value_state state,
				const uint8_t *bytes, size_t n)
{
	struct fact *f = &r->fact[r->nfacts++];

	assert_true(r->nfacts <= FACTS_MAX);
	snprintf(f->key, sizeof(f->key), "%s", key);
	f->state = state;
	f->hex[0] = '\0';
	for (size_t i = 0; i < n; i++)
		sprintf(f->hex + 2 * i, "%02x", bytes[i]);
}

/* As a recorder does it: the pieces, one after the other, up to the type's size; then what it points to. */
static inline void run_value(struct plan_run *r, const char *key, const struct param_recipe *recipe,
			     uint32_t type_id, const struct fetched *f)
{
	const struct type_event *type = planner_lldb.type(r->planner, type_id);
	uint8_t bytes[CALL_VALUE_MAX + 64];
	enum value_state state = (enum value_state)recipe->state;
	uint32_t n = 0;
	char to[100];

	assert_non_null(type);
	if (recipe->is_constant) {
		memcpy(bytes, &recipe->constant, 8);
		n = type->size;
	}
	for (unsigned int i = recipe->first; !n && state == VALUE_OK && i < recipe->first + recipe->count;
	     i++)
		if (f->state[i] != VALUE_OK)
			state = (enum value_state)f->state[i];
	for (unsigned int i = recipe->first;
	     !recipe->is_constant && state == VALUE_OK && i < (unsigned int)recipe->first + recipe->count;
	     i++) {
		memcpy(bytes + n, f->bytes + f->at[i], f->len[i]);
		n += f->len[i];
	}
	if (state == VALUE_OK)
		assert_true(n >= type->size);
	run_add_fact(r, key, state, bytes, state == VALUE_OK ? type->size : 0);
	if (recipe->to < PLAN_FETCHES) {
		snprintf(to, sizeof(to), "%s*", key);
		run_add_fact(r, to, (enum value_state)f->state[recipe->to], f->bytes + f->at[recipe->to],
			     f->state[recipe->to] == VALUE_OK ? f->len[recipe->to] : 0);
	}
}

static inline void run_fetch(struct plan_run *r, const struct fetch_list *l, uint64_t sp, struct fetched *ret)
{
	const struct user_regs_struct *u = &r->regs;
	struct regs regs = { { u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp, u->r8, u->r9,
			       u->r10, u->r11, u->r12, u->r13, u->r14, u->r15, u->rip, u->eflags,
			       u->fs_base } };
	struct fetch_source s = { .regs = &regs,
				  .entry_sp = sp,
				  .memory = { run_read, r },
				  .vector = run_vector,
				  .x87 = run_x87,
				  .ctx = r };

	assert_int_equal(ptrace(PTRACE_GETFPREGS, r->pid, 0, &r->fp), 0);
	fetch_run(l, &s, ret);
}

static inline void run_entry(struct plan_run *r, uint64_t at, const char *name)
{
	struct call_open *c = &r->open[r->nopen++];
	static struct fetched f;
	char key[128];

	assert_true(r->nopen <= 16);
	assert_null(planner_lldb.plan(r->planner, at, false, &c->plan));
	c->sp = r->regs.rsp;
	snprintf(c->name, sizeof(c->name), "%s", name);
	assert_true(run_read(r, c->sp, &c->back, 8));
	run_fetch(r, &c->plan->plan.entry, c->sp, &f);
	for (uint32_t i = 0; i < c->plan->function.nparams; i++) {
		const struct function_param *p = &c->plan->function.param[i];

		snprintf(key, sizeof(key), "%s.%s", name, p->name ? p->name : "?");
		run_value(r, key, &c->plan->recipe[i], p->type, &f);
	}
	run_break(r, c->back);
}

static inline void run_return(struct plan_run *r)
{
	struct call_open *c = r->nopen ? &r->open[r->nopen - 1] : NULL;
	static struct fetched f;
	char key[128];

	if (!c || r->regs.rip != c->back || r->regs.rsp != c->sp + 8)
		return;
	r->nopen--;
	run_fetch(r, &c->plan->plan.leave, c->sp, &f);
	snprintf(key, sizeof(key), "%s.=", c->name);
	if (c->plan->function.return_type != NO_TYPE)
		run_value(r, key, &c->plan->result, c->plan->function.return_type, &f);
}

static inline void run_modules(struct plan_run *r, struct module_list *l)
{
	assert_null(module_list_read(r->pid, l));
	assert_null(planner_lldb.set_modules(r->planner, l));
}

/* A breakpoint was hit: its instruction is executed with the breakpoint out. */
static inline bool run_stop(struct plan_run *r)
{
	size_t i = 0, k;
	char name[64];
	int status;

	assert_int_equal(ptrace(PTRACE_GETREGS, r->pid, 0, &r->regs), 0);
	r->regs.rip--;
	while (i < r->nbreaks && r->at[i] != r->regs.rip)
		i++;
	if (i == r->nbreaks)
		return false;
	assert_int_equal(ptrace(PTRACE_SETREGS, r->pid, 0, &r->regs), 0);
	run_return(r);
	for (k = 0; k < r->list.n; k++)
		if (r->list.v[k].address == r->regs.rip && run_name(r->list.v[k].name, name))
			run_entry(r, r->regs.rip, name);
	assert_int_equal(pwrite(r->mem, &r->byte[i], 1, (off_t)r->at[i]), 1);
	assert_int_equal(ptrace(PTRACE_SINGLESTEP, r->pid, 0, 0), 0);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	if (WIFSTOPPED(status))
		assert_int_equal(pwrite(r->mem, "\xcc", 1, (off_t)r->at[i]), 1);
	return true;
}

static inline void run_start(struct plan_run *r, const char *path, const char *output)
{
	char mem[64];
	int status;

	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		if (!freopen(output, "w", stdout) || ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(126);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_true(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, r->pid, 0, PTRACE_O_EXITKILL);
	snprintf(mem, sizeof(mem), "/proc/%d/mem", r->pid);
	r->mem = open(mem, O_RDWR | O_CLOEXEC);
	assert_true(r->mem >= 0);
}

/* Runs @path to its end; what was fetched is in r->fact[]. */
static inline void run_victim(struct plan_run *r, const char *path, const char *output)
{
	struct planner_options o = { .string_max = 256, .pointee_max = 256, .memory = { run_read, r } };
	const struct module *exe;
	struct module_list l = { 0 };
	char name[64];
	int status;

	memset(r, 0, sizeof(*r));
	run_start(r, path, output);
	assert_null(planner_lldb.open(path, &o, &r->planner));
	run_modules(r, &l);
	exe = module_by_name(&l, path);
	assert_non_null(exe);
	assert_null(planner_lldb.functions(r->planner, exe, false, &r->list));
	for (size_t i = 0; i < r->list.n; i++)
		if (run_name(r->list.v[i].name, name))
			run_break(r, r->list.v[i].address);
	assert_true(r->nbreaks > 0);
	for (;;) {
		int signal = 0;

		ptrace(PTRACE_CONT, r->pid, 0, signal);
		assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
		if (WIFEXITED(status) || WIFSIGNALED(status))
			break;
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
		assert_true(run_stop(r));
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	module_list_deinit(&l);
	close(r->mem);
}

static inline void run_end(struct plan_run *r)
{
	free(r->list.v);
	planner_lldb.close(r->planner);
}

static inline const struct fact *run_find(const struct plan_run *r, const char *key)
{
	for (size_t i = 0; i < r->nfacts; i++)
		if (strcmp(r->fact[i].key, key) == 0)
			return &r->fact[i];
	return NULL;
}

struct plan_score {
	unsigned int right, wrong, optimized_out, missing;
};

/* Each line of @output against what was fetched. */
static inline struct plan_score run_compare(const struct plan_run *r, const char *output)
{
	FILE *f = fopen(output, "r");
	struct plan_score s = { 0 };
	static char line[4096], key[256], hex[4096];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const struct fact *fact;

		hex[0] = '\0';
		/* Template arguments have no blanks in these victims. */
		assert_true(sscanf(line, "%255s %4095s", key, hex) >= 1);
		fact = run_find(r, key);
		if (!fact || fact->state == VALUE_NONE || fact->state == VALUE_UNREADABLE) {
			print_message("  %s: %s\n", key, fact ? "not planned" : "no such parameter");
			s.missing++;
		} else if (fact->state == VALUE_OPTIMIZED_OUT) {
			s.optimized_out++;
		} else if (fact->state != VALUE_OK || strncmp(fact->hex, hex, strlen(hex)) != 0) {
			print_message("  %s: state %d, %s, in truth %s\n", key, fact->state, fact->hex, hex);
			s.wrong++;
		} else {
			s.right++;
		}
	}
	fclose(f);
	return s;
}

#endif
