#include "tests/oracle/walkers.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include <elfutils/libdwfl.h>
#include <libunwind-ptrace.h>

unsigned int walk_common(const struct walk *a, const struct walk *b)
{
	unsigned int k = 0;

	while (k < a->n && k < b->n && a->frame[k] == b->frame[k])
		k++;
	return k;
}

bool walk_same(const struct walk *a, const struct walk *b)
{
	return a->n == b->n && walk_common(a, b) == a->n;
}

static bool read_process(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct iovec local = { buf, len };
	struct iovec remote = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(*(pid_t *)ctx, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

struct memory_view walkers_memory(pid_t *pid)
{
	return (struct memory_view){ read_process, pid };
}

/* libunwind */

/*
 * _UPT_find_proc_info() reads the files of the process, and the vdso is none. Its table is read from the
 * process's memory instead, as perf does it: this function of libunwind's is exported, not declared.
 */
int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *arg);

/* What the accessors work on: libunwind hands them back its own argument only. */
struct unwind_state {
	pid_t pid;
	void *upt; /* finds the unwind tables of the process in its files */
	unw_addr_space_t space;
	const struct regs *regs;
	uint64_t vdso, vdso_end, vdso_header; /* of .eh_frame_hdr; 0: none */
};

static struct unwind_state unwind;

/* Where the vdso's first segment is linked to lie is 0. */
static void find_vdso(struct unwind_state *u, uint64_t start, uint64_t end)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	u->vdso = start;
	u->vdso_end = end;
	if (!read_process(&u->pid, start, &e, sizeof(e)))
		return;
	for (unsigned int i = 0; i < e.e_phnum; i++)
		if (read_process(&u->pid, start + e.e_phoff + i * sizeof(p), &p, sizeof(p)) &&
		    p.p_type == PT_GNU_EH_FRAME)
			u->vdso_header = start + p.p_vaddr;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE,
			      .start_ip = unwind.vdso,
			      .end_ip = unwind.vdso_end };
	/* version, three encodings, where .eh_frame is, how many entries, then those: sorted, relative to
	 * here */
	const uint32_t usual = 0x3b031b01;
	uint32_t header[3];

	if (!unwind.vdso_header || ip < unwind.vdso || ip >= unwind.vdso_end)
		return _UPT_find_proc_info(as, ip, pi, need, arg);
	if (!read_process(&unwind.pid, unwind.vdso_header, header, sizeof(header)) || header[0] != usual)
		return -UNW_ENOINFO;
	di.u.rti.segbase = unwind.vdso_header;
	di.u.rti.table_data = unwind.vdso_header + sizeof(header);
	di.u.rti.table_len = header[2] * 8 / sizeof(unw_word_t);
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *word, int write, void *arg)
{
	return !write && read_process(&unwind.pid, addr, word, sizeof(*word)) ? 0 : -UNW_EUNSPEC;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *word, int write, void *arg)
{
	if (write || reg < 0 || reg > WREG_RIP)
		return -UNW_EBADREG;
	*word = unwind.regs->r[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *word, int write, void *arg)
{
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EUNSPEC;
}

void walkers_unwind_forget(void)
{
	if (unwind.upt)
		_UPT_destroy(unwind.upt);
	if (unwind.space)
		unw_destroy_addr_space(unwind.space);
	unwind = (struct unwind_state){ 0 };
}

static void vdso_of(struct unwind_state *u)
{
	char line[512], path[32];
	unsigned long start, end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", u->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
			find_vdso(u, start, end);
	if (f)
		fclose(f);
}

static bool unwind_open(pid_t pid)
{
	static unw_accessors_t accessors = { .find_proc_info = find_proc_info,
					     .put_unwind_info = _UPT_put_unwind_info,
					     .get_dyn_info_list_addr = _UPT_get_dyn_info_list_addr,
					     .access_mem = access_mem,
					     .access_reg = access_reg,
					     .access_fpreg = no_fpreg,
					     .resume = no_resume,
					     .get_proc_name = _UPT_get_proc_name };

	if (unwind.pid != pid)
		walkers_unwind_forget();
	if (!unwind.space) {
		unwind.pid = pid;
		vdso_of(&unwind);
		unwind.space = unw_create_addr_space(&accessors, 0);
		unwind.upt = _UPT_create(pid);
		if (unwind.space)
			unw_set_caching_policy(unwind.space, UNW_CACHE_GLOBAL);
	}
	return unwind.space && unwind.upt;
}

void walkers_unwind(pid_t pid, const struct regs *regs, struct walk *ret)
{
	unw_cursor_t cursor;

	ret->n = 0;
	if (!unwind_open(pid))
		return;
	unwind.regs = regs;
	if (unw_init_remote(&cursor, unwind.space, unwind.upt) < 0)
		return;
	do {
		unw_word_t ip;

		if (unw_get_reg(&cursor, UNW_REG_IP, &ip) < 0 || !ip)
			break;
		ret->frame[ret->n++] = ip;
	} while (ret->n < DEPTH && unw_step(&cursor) > 0);
}

/* libdwfl */

struct dwfl_state {
	pid_t pid;
	const struct regs *regs;
	struct walk *walk;
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	const struct dwfl_state *s = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = arg;
	return s->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool dwfl_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *word, void *arg)
{
	return read_process(&((struct dwfl_state *)arg)->pid, addr, word, sizeof(*word));
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct dwfl_state *s = arg;

	return dwfl_thread_state_registers(thread, 0, WREG_RIP + 1, (const Dwarf_Word *)s->regs->r);
}

static int add_frame(Dwfl_Frame *state, void *arg)
{
	struct walk *w = ((struct dwfl_state *)arg)->walk;
	Dwarf_Addr pc;

	if (w->n >= DEPTH || !dwfl_frame_pc(state, &pc, NULL))
		return DWARF_CB_ABORT;
	w->frame[w->n++] = pc;
	return DWARF_CB_OK;
}

void walkers_dwfl(pid_t pid, const struct regs *regs, struct walk *ret)
{
	static char *no_debug_files = (char *)"";
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_linux_proc_find_elf,
						  .find_debuginfo = dwfl_standard_find_debuginfo,
						  .debuginfo_path = &no_debug_files };
	static const Dwfl_Thread_Callbacks threads = { .next_thread = next_thread,
						       .get_thread = get_thread,
						       .memory_read = dwfl_read,
						       .set_initial_registers = set_registers };
	struct dwfl_state state = { pid, regs, ret };
	Dwfl *dwfl = dwfl_begin(&callbacks);

	ret->n = 0;
	if (!dwfl)
		return;
	if (dwfl_linux_proc_report(dwfl, pid) == 0 && dwfl_report_end(dwfl, NULL, NULL) == 0 &&
	    dwfl_attach_state(dwfl, NULL, pid, &threads, &state))
		dwfl_getthread_frames(dwfl, pid, add_frame, &state);
	dwfl_end(dwfl);
}
