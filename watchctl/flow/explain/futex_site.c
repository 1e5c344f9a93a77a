/*
 * Names differ with what the C library's files tell: without debug symbols only what is exported has one
 * (pthread_mutex_lock), with them there are __GI___pthread_mutex_lock, ___pthread_mutex_lock, __futex_abstimed_wait64,
 * tcache_init.part.0. They are compared without the decoration. Frames between two named ones may have no name: they
 * belong to the C library all the same, by their module.
 */
#include "watchctl/flow/explain/futex_site.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/flow/explain/c_library.h"
#include "watchctl/flow/explain/call_target.h"
#include "watchctl/flow/explain/live_stack.h"

#define SEARCHED_WORDS 64u /* of the stack, for a return address */
#define STATIC_FRAMES 12u  /* of a program without libc.so, that are looked at for names of the C library's */

struct role_name {
	enum futex_role role;
	const char *names; /* separated by blanks */
};

static const struct role_name role_names[] = {
	{ FUTEX_MUTEX,
	  "pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_lock_full "
	  "pthread_mutex_cond_lock pthread_mutex_cond_lock_full pthread_mutex_clocklock_common mtx_lock "
	  "mtx_timedlock" },
	{ FUTEX_CONDITION, "pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait "
			   "pthread_cond_wait_common cnd_wait cnd_timedwait" },
	{ FUTEX_RDLOCK, "pthread_rwlock_rdlock pthread_rwlock_timedrdlock pthread_rwlock_clockrdlock "
			"pthread_rwlock_rdlock_full" },
	{ FUTEX_WRLOCK, "pthread_rwlock_wrlock pthread_rwlock_timedwrlock pthread_rwlock_clockwrlock "
			"pthread_rwlock_wrlock_full" },
	{ FUTEX_SEMAPHORE,
	  "sem_wait sem_timedwait sem_clockwait new_sem_wait new_sem_wait_slow sem_wait_common "
	  "new_sem_wait_fast" },
	{ FUTEX_BARRIER, "pthread_barrier_wait" },
	{ FUTEX_ONCE, "pthread_once pthread_once_slow pthread_once_full call_once" },
	{ FUTEX_JOIN, "pthread_join pthread_timedjoin_np pthread_clockjoin_np pthread_clockjoin_ex "
		      "pthread_timedjoin_ex thrd_join" },
	{ FUTEX_MALLOC,
	  "malloc free calloc realloc reallocarray memalign posix_memalign aligned_alloc valloc pvalloc "
	  "cfree libc_malloc libc_free libc_calloc libc_realloc libc_memalign libc_valloc libc_pvalloc "
	  "int_malloc int_free int_realloc int_memalign malloc_consolidate tcache_init arena_get2 "
	  "arena_get_retry ptmalloc_init malloc_trim mallinfo mallinfo2 malloc_stats malloc_info mallopt "
	  "mid_memalign malloc_usable_size tcache_malloc malloc_arena_thread_freeres" },
	{ FUTEX_STDIO,
	  "flockfile lockfile IO_flockfile fwrite fread puts fputs putc putchar putc_unlocked fputc getc getchar fgetc fgets "
	  "getline getdelim ungetc fflush fseek fseeko ftell ftello rewind fgetpos fsetpos setvbuf setbuf fclose "
	  "printf fprintf vprintf vfprintf vfprintf_internal dprintf vdprintf printf_chk fprintf_chk vprintf_chk "
	  "vfprintf_chk scanf fscanf vscanf vfscanf isoc99_scanf isoc99_fscanf isoc99_vfscanf perror fputws fputwc "
	  "putwc putwchar fgetws fgetwc getwc fwprintf wprintf vfwprintf vwprintf freopen fopen fdopen fwide "
	  "IO_fwrite IO_fread IO_puts IO_fputs IO_putc IO_getc IO_fflush IO_fclose IO_fgets IO_getline IO_ungetc "
	  "IO_ftell IO_seekoff IO_setvbuf IO_printf IO_fprintf IO_vfprintf IO_link_in IO_un_link IO_flush_all "
	  "IO_flush_all_lockp IO_cleanup IO_unbuffer_all psignal getw putw" },
};

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* The part of @name that is compared: its start, and the length in *len. */
static const char *undecorated(const char *name, size_t *len)
{
	if (starts(name, "__GI_"))
		name += strlen("__GI_");
	name += strspn(name, "_");
	*len = strcspn(name, "@.( ");
	if (*len > 2 && strncmp(name + *len - 2, "64", 2) == 0)
		*len -= 2;
	return name;
}

static bool in_list(const char *words, const char *name, size_t len)
{
	size_t n;

	for (; *words; words += n + strspn(words + n, " ")) {
		n = strcspn(words, " ");
		if (n && n == len && strncmp(words, name, n) == 0)
			return true;
	}
	return false;
}

static enum futex_role role_of_name(const char *name)
{
	size_t len;
	const char *s = undecorated(name, &len);

	for (size_t i = 0; i < sizeof(role_names) / sizeof(*role_names); i++)
		if (in_list(role_names[i].names, s, len))
			return role_names[i].role;
	return FUTEX_INTERNAL;
}

/* Name @n of frame @i: that of the frame, then those of functions inlined there. NULL: no more. */
static const char *frame_name(const struct look_thread *t, unsigned int i, size_t n)
{
	const struct location *at = i < t->nframes ? t->frame[i].at : NULL;
	const char *name;

	if (i >= t->nframes)
		return NULL;
	if (!n) {
		name = look_function(t, i);
		return name ? name : "";
	}
	if (!at || n > at->nframes)
		return NULL;
	return at->frame[n - 1].function ? at->frame[n - 1].function : "";
}

static enum futex_role frame_role(const struct look_thread *t, unsigned int i, const char **ret)
{
	const char *name;

	for (size_t n = 0; (name = frame_name(t, i, n)); n++) {
		enum futex_role role = role_of_name(name);

		if (role != FUTEX_INTERNAL) {
			*ret = name + strspn(name, "_");
			return role;
		}
	}
	return FUTEX_INTERNAL;
}

bool futex_frame_has_role(const struct look_thread *t, unsigned int i, enum futex_role role)
{
	const char *name;

	for (size_t n = 0; (name = frame_name(t, i, n)); n++)
		if (role_of_name(name) == role)
			return true;
	return false;
}

bool futex_frame_names(const struct look_thread *t, unsigned int i, const char *part)
{
	const char *name;

	for (size_t n = 0; (name = frame_name(t, i, n)); n++)
		if (strstr(name, part))
			return true;
	return false;
}

unsigned int futex_frame_find(const struct look_thread *t, unsigned int from, unsigned int end,
			      const char *const *parts)
{
	if (end > t->nframes)
		end = t->nframes;
	for (unsigned int i = from; i < end; i++)
		for (const char *const *part = parts; *part; part++)
			if (futex_frame_names(t, i, *part))
				return i;
	return t->nframes;
}

unsigned int futex_signal_frame(const struct look_thread *t)
{
	unsigned int i = 0;

	while (i < t->nframes && !t->frame[i].signal)
		i++;
	return i;
}

const char *futex_handler_name(const struct look_thread *t, unsigned int signal)
{
	const char *name = signal && signal <= t->nframes ? look_function(t, signal - 1) : NULL;

	return name ? name : "(without a name)";
}

bool futex_waits_in(const struct look_thread *t, uint64_t from, uint64_t len)
{
	return t->in_syscall && t->number == SYS_futex && t->arg[0] - from < len;
}

static bool has_c_library(const struct look_process *p)
{
	for (size_t i = 0; i < p->modules.n; i++) {
		const char *slash = p->modules.v[i].path ? strrchr(p->modules.v[i].path, '/') : NULL;

		if (slash && c_library_has(slash + 1))
			return true;
	}
	return p->modules.n == 0;
}

/* In a program that is linked statically there is no module to go by: the C library's functions are known by their names. */
static bool is_static_part(const struct look_thread *t, unsigned int i)
{
	const char *name = look_function(t, i);

	return i < STATIC_FRAMES && name &&
	       (name[0] == '_' || starts(name, "lll_") || starts(name, "futex_") || starts(name, "syscall") ||
		role_of_name(name) != FUTEX_INTERNAL);
}

static bool is_inside(const struct look_thread *t, unsigned int i, bool dynamic)
{
	if (t->frame[i].signal)
		return false;
	return c_library_has(look_module(t, i)) || (!dynamic && is_static_part(t, i));
}

/* By its module or, in a program that is linked statically, by functions that only musl has. */
static bool is_musl(const struct look_thread *t, unsigned int i)
{
	const char *module = look_module(t, i), *name = look_function(t, i);

	return (module && (starts(module, "ld-musl") || starts(module, "libc.musl") ||
			   strcmp(module, "libc.so") == 0)) ||
	       (name &&
		(starts(name, "__timedwait") || starts(name, "__syscall_cp") || starts(name, "__lockfile")));
}

/* The call before @return_address goes to a function with a role. */
static bool name_by_call(const struct look_process *p, uint64_t return_address, struct futex_site *ret)
{
	uint64_t target = call_target(&p->mem, return_address);
	const struct location *at = target ? symbolizer_lookup(p->symbolizer, target) : NULL;
	const char *name = at ? at->frame[at->nframes - 1].function : NULL;

	if (!name || role_of_name(name) == FUTEX_INTERNAL)
		return false;
	ret->role = role_of_name(name);
	ret->function = name + strspn(name, "_");
	return true;
}

/* musl has no unwind tables, so that walks end in it: the innermost return address behind a call that tells. */
static void name_by_stack(const struct look_process *p, const struct look_thread *t, struct futex_site *ret)
{
	scoped(live_stack_freep) struct live_stack *s = live_stack_read(p, t);

	for (size_t i = 0; s && i < s->n && i < SEARCHED_WORDS; i++)
		if (module_find(&p->modules, s->word[i]) && name_by_call(p, s->word[i], ret)) {
			ret->by_stack = true;
			return;
		}
}

/*
 * The function of the C library that was called from outside may have jumped on to one without a name, or the walk has not
 * come that far.
 */
static void name_without_frames(const struct look_process *p, const struct look_thread *t,
				struct futex_site *ret)
{
	if (!p->symbolizer || !ret->end)
		return;
	if (ret->end >= t->nframes)
		name_by_stack(p, t, ret);
	else if (!ret->function && !t->frame[ret->end].signal)
		name_by_call(p, t->frame[ret->end].ip, ret);
}

void futex_site_find(struct look *l, struct look_process *p, struct look_thread *t, struct futex_site *ret)
{
	bool dynamic = has_c_library(p);
	const char *name;

	*ret = (struct futex_site){ .role = FUTEX_FOREIGN };
	look_stack(l, p, t);
	for (; ret->end < t->nframes && is_inside(t, ret->end, dynamic); ret->end++) {
		const char *function = look_function(t, ret->end);

		if (is_musl(t, ret->end))
			ret->musl = true;
		if (ret->role > FUTEX_INTERNAL)
			continue;
		ret->role = frame_role(t, ret->end, &name);
		if (ret->role > FUTEX_INTERNAL)
			ret->function = name;
		else if (function && strcmp(function, "syscall") != 0)
			ret->function = function + strspn(function, "_");
	}
	if (ret->role == FUTEX_INTERNAL)
		name_without_frames(p, t, ret);
	name = t->nframes ? look_function(t, 0) : NULL;
	if (ret->role == FUTEX_INTERNAL && ret->end == 1 && name && strcmp(name, "syscall") == 0)
		ret->role = FUTEX_FOREIGN;
}

void futex_what(struct futex_call *f, const char *noun, uint64_t addr)
{
	char name[128];

	if (f->p->symbolizer && symbolizer_data_name(f->p->symbolizer, addr, name, sizeof(name)))
		snprintf(f->ret->what, sizeof(f->ret->what), "%s %s (%#llx)", noun, name,
			 (unsigned long long)addr);
	else
		snprintf(f->ret->what, sizeof(f->ret->what), "%s %#llx", noun, (unsigned long long)addr);
}

void futex_evidence(struct futex_call *f, const char *fmt, ...)
{
	size_t len = strlen(f->ret->evidence);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->ret->evidence + len, sizeof(f->ret->evidence) - len, fmt, ap);
	va_end(ap);
}
