#include "stackwalk/own_modules.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/build_id_notes.h"

struct look {
	struct module *v;
	size_t n, cap;
	unsigned long long adds, subs, seen_adds, seen_subs;
	bool looked, no_memory;
};

static void own_module_deinit(struct module *m)
{
	free(m->path);
}

static void drop(struct module *v, size_t n)
{
	while (n--)
		own_module_deinit(&v[n]);
	free(v);
}

/* NULL: no memory. */
static char *program_path(bool *deleted)
{
	static const char suffix[] = " (deleted)";
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return strdup(program_invocation_name);
	path[n] = '\0';
	if ((size_t)n > sizeof(suffix) && !strcmp(path + n - (sizeof(suffix) - 1), suffix)) {
		path[(size_t)n - (sizeof(suffix) - 1)] = '\0';
		*deleted = true;
	}
	return strdup(path);
}

static char *path_of(const struct dl_phdr_info *info, uint64_t start, uint64_t end, bool *deleted)
{
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);

	if (vdso && vdso >= start && vdso < end)
		return strdup("[vdso]");
	/* The program itself: glibc has no name for it, musl this one. */
	if (!info->dlpi_name || !info->dlpi_name[0] || !strcmp(info->dlpi_name, "/proc/self/exe"))
		return program_path(deleted);
	return strdup(info->dlpi_name);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct look *l = ctx;
	struct module m = { .bias = info->dlpi_addr, .start = UINT64_MAX };
	unsigned int i;

	l->adds = info->dlpi_adds;
	l->subs = info->dlpi_subs;
	if (l->looked && l->adds == l->seen_adds && l->subs == l->seen_subs)
		return 1;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD) {
			m.start = (at & ~4095ull) < m.start ? at & ~4095ull : m.start;
			m.end = at + p->p_memsz > m.end ? (at + p->p_memsz + 4095) & ~4095ull : m.end;
		} else if (p->p_type == PT_NOTE && !m.build_id_len) {
			m.build_id_len = build_id_in_notes((const char *)at, (const char *)at + p->p_memsz,
							   m.build_id);
		}
	}
	if (m.end <= m.start)
		return 0;
	m.path = path_of(info, m.start, m.end, &m.deleted);
	if (!m.path || !vec_reserve((void **)&l->v, &l->cap, l->n + 1, sizeof(*l->v))) {
		free(m.path);
		l->no_memory = true;
		return 1;
	}
	l->v[l->n++] = m;
	return 0;
}

static bool same(const struct module *a, const struct module *b)
{
	return a->start == b->start && a->end == b->end && a->bias == b->bias && !strcmp(a->path, b->path) &&
	       a->build_id_len == b->build_id_len && !memcmp(a->build_id, b->build_id, a->build_id_len);
}

/* Those of @v that are not in @other. */
static struct wc_error *report_difference(const struct module *v, size_t n, const struct module *other,
					  size_t nother, enum event_type type, struct event_sink sink,
					  uint64_t now_ns)
{
	struct trace_event e = { .type = type, .time_ns = now_ns, .module_pid = getpid() };
	struct wc_error *err = NULL;
	size_t i, k;

	for (i = 0; i < n && !err; i++) {
		for (k = 0; k < nother && !same(&v[i], &other[k]); k++)
			;
		e.module = v[i];
		if (k == nother)
			err = sink.put(sink.ctx, &e);
	}
	return err;
}

struct wc_error *own_modules_refresh(struct own_modules *m, struct event_sink sink, uint64_t now_ns,
				     bool *changed)
{
	struct look l = { .looked = m->n > 0, .seen_adds = m->adds, .seen_subs = m->subs };
	struct wc_error *err;

	dl_iterate_phdr(look_at, &l);
	*changed = l.n && !l.no_memory;
	if (!l.n || l.no_memory) { /* nothing has changed, or it cannot be known */
		drop(l.v, l.n);
		return l.no_memory ? &wc_enomem : NULL;
	}
	err = report_difference(m->v, m->n, l.v, l.n, EVENT_MODULE_GONE, sink, now_ns);
	if (!err)
		err = report_difference(l.v, l.n, m->v, m->n, EVENT_MODULE, sink, now_ns);
	drop(m->v, m->n);
	*m = (struct own_modules){ .v = l.v, .n = l.n, .cap = l.cap, .adds = l.adds, .subs = l.subs };
	return err;
}

void own_modules_deinit(struct own_modules *m)
{
	drop(m->v, m->n);
	*m = (struct own_modules){ 0 };
}
