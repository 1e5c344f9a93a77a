/*
 * `watchctl patch drop-in PID ADDRESS LOG`, which nobody types: a drop-in library executes it while the dynamic loader of process PID
 * relocates it, and waits (probe/library/library.c). ADDRESS is in the drop-in, whose file has the plan. When all is patched it is
 * told so; from then on we are on our own until the process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/patch/patch_ask.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/monitor/recorder.h"
#include "watchctl/patch/library/library_elf.h"
#include "watchctl/patch/library/library_plan.h"
#include "watchctl/patch/library/library_source.h"
#include "watchctl/patch/plan/pattern.h"
#include "watchctl/patch/probe/probe_image.h"

#define NAMES_TRIED 100u

struct drop_in {
	pid_t pid;
	struct module_list modules;
	const struct module *original;
	uint8_t *bytes; /* of the plan */
	struct library_plan plan;
	struct probe_image image;
	struct patch_query query;
	struct patch_rule *rule;
	struct recorder *log;
};

static volatile sig_atomic_t stop_asked;

static void drop_in_deinit(struct drop_in *d)
{
	module_list_deinit(&d->modules);
	library_plan_deinit(&d->plan);
	probe_image_deinit(&d->image);
	patch_query_deinit(&d->query);
	free(d->bytes);
	free(d->rule);
}

/* What is to be patched */

static const struct module *by_path(const struct module_list *list, const char *path)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->v[i].path, path))
			return &list->v[i];
	return NULL;
}

/* Beside the drop-in: the loader has taken it from there, unless another of that name was found first. */
static struct wc_error *find_original(struct drop_in *d, const struct module *drop_in)
{
	const char *slash = strrchr(drop_in->path, '/');
	scoped(freep) char *path = NULL;

	if (asprintf(&path, "%.*s/%s.orig", slash ? (int)(slash - drop_in->path) : 0, drop_in->path,
		     d->plan.soname) < 0) {
		path = NULL;
		return &wc_enomem;
	}
	d->original = by_path(&d->modules, path);
	return d->original ? NULL
			   : wc_error_new(WC_ENAME, "%s, which should be loaded with %s, is not", path,
					  drop_in->path);
}

static struct wc_error *read_plan(struct drop_in *d, uint64_t addr)
{
	const struct module *m;
	struct wc_error *err = module_list_read(d->pid, &d->modules);
	size_t size;

	if (err)
		return err;
	m = module_find(&d->modules, addr);
	if (!m)
		return wc_error_new(WC_ENAME, "there is no library at 0x%llx of process %d",
				    (unsigned long long)addr, d->pid);
	err = library_source_read_plan(m->open_path ? m->open_path : m->path, &d->bytes, &size);
	if (!err)
		err = library_plan_read(d->bytes, size, &d->plan);
	return err ? err : find_original(d, m);
}

static bool has_hash(const struct drop_in *d)
{
	scoped(closep) int fd = open(d->original->open_path, O_RDONLY | O_CLOEXEC);
	uint64_t h = HASH_START;
	uint8_t bytes[65536];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0)
		h = hash_bytes(h, bytes, (size_t)n);
	return h == d->plan.hash;
}

/* The plan holds for one build only. */
static struct wc_error *check_original(const struct drop_in *d)
{
	const struct module *m = d->original;
	bool same = d->plan.build_id_len ? m->build_id_len == d->plan.build_id_len &&
						   !memcmp(m->build_id, d->plan.build_id, m->build_id_len)
					 : has_hash(d);

	return same ? NULL
		    : wc_error_new(
			      WC_ENOTSUP,
			      "%s is not the file that the drop-in was made for (another build): make the drop-in anew",
			      m->path);
}

static struct wc_error *read_rules(struct drop_in *d)
{
	d->rule = calloc(d->plan.nrules, sizeof(*d->rule));
	if (!d->rule)
		return &wc_enomem;
	for (size_t i = 0; i < d->plan.nrules; i++) {
		const struct library_rule *r = &d->plan.rule[i];
		struct wc_error *err;
		struct pattern p;

		if (!probe_image_function(&d->image, r->function))
			return wc_error_new(WC_ENAME, "there is no probe function \"%s\" in the drop-in",
					    r->function);
		err = pattern_parse(r->pattern, &p);
		if (err)
			return err;
		if (!vec_push(d->query.pattern, d->query.npatterns, d->query.pattern_cap, p)) {
			pattern_deinit(&p);
			return &wc_enomem;
		}
		d->rule[i] = (struct patch_rule){ r->function, (enum probe_when)r->when };
	}
	d->query.function = d->plan.only;
	return NULL;
}

static struct wc_error *prepare(struct drop_in *d, uint64_t addr)
{
	struct wc_error *err = read_plan(d, addr);

	if (!err)
		err = check_original(d);
	if (!err)
		err = probe_image_read(d->plan.probes, d->plan.probes_size, "what the drop-in has as probes",
				       &d->image);
	return err ? err : read_rules(d);
}

/* The log */

static struct wc_error *drop_event(void *ctx, const struct trace_event *e)
{
	return NULL;
}

/* LOG, LOG.PID, LOG.PID.2 and so on. */
static bool name_log(const struct drop_in *d, const char *log, unsigned int i, char *buf, size_t cap)
{
	int n = !i	 ? snprintf(buf, cap, "%s", log)
		: i == 1 ? snprintf(buf, cap, "%s.%d", log, d->pid)
			 : snprintf(buf, cap, "%s.%d.%u", log, d->pid, i);

	return n > 0 && (size_t)n < cap;
}

/* The first of the names that nobody has: programs that this one starts have the same environment. */
static struct wc_error *open_log(struct drop_in *d, const char *log)
{
	const struct event_sink nowhere = { .put = drop_event };
	char name[PATH_MAX];
	struct stat st;

	for (unsigned int i = 0; i < NAMES_TRIED && name_log(d, log, i, name, sizeof(name)); i++) {
		struct wc_error *err;

		if (!stat(name, &st) && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			return wc_error_new(WC_ELOG, "%s is a device, or the like: a log is a folder", name);
		if (!lstat(name, &st))
			continue;
		err = recorder_open(name, nowhere, &d->log);
		if (!err || lstat(name, &st))
			return err;
		wc_error_free(err);
	}
	return wc_error_new(WC_ELOG,
			    "there is a log %s already, and all names derived from it are taken or too long",
			    log);
}

static struct wc_error *flush(void *ctx)
{
	return recorder_flush(ctx);
}

/* The process goes on; what held it up, or could keep open what it had open, is let go. */
static void say_ready(void)
{
	const char byte = 1;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	send(LIBRARY_READY_FD, &byte, 1, MSG_NOSIGNAL);
	close(LIBRARY_READY_FD);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

static struct wc_error *run(struct drop_in *d)
{
	const struct patch_session_options o = { .pid = d->pid,
						 .in = d->original->path,
						 .query = &d->query,
						 .rule = d->rule,
						 .image = &d->image,
						 .slots = d->plan.slots,
						 .stack_bytes = d->plan.stack_bytes,
						 .frames = d->plan.frames,
						 .stop = &stop_asked };
	const struct session_limits limits = { .stop = &stop_asked, .tick = flush, .tick_ctx = d->log };
	struct patch_session *session = NULL;
	enum session_end end;
	struct wc_error *err = patch_session_open(&o, recorder_sink(d->log), &session);

	if (err) {
		recorder_discard(d->log);
		return err;
	}
	err = recorder_flush(d->log); /* whose log it is, for who reads it when the process has ended */
	say_ready();
	if (!err)
		err = patch_session_run(session, &limits, &end);
	err = wc_error_first(err, patch_session_close(session, NULL));
	return wc_error_first(err, recorder_close(d->log));
}

static bool read_number(const char *text, int base, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, base);
	return !errno && *text && !*end;
}

struct wc_error *patch_run_drop_in(const struct patch_ask *q)
{
	scoped(drop_in_deinit) struct drop_in d = { 0 };
	struct wc_error *err;
	uint64_t pid, addr;

	if (q->nwords != 3 || !read_number(q->word[0], 10, &pid) || !pid || pid > INT_MAX ||
	    !read_number(q->word[1], 16, &addr))
		return wc_error_new(WC_EUSAGE,
				    "patch drop-in is what drop-in libraries execute: nobody else needs it");
	d.pid = (pid_t)pid;
	output_catch_signals(&stop_asked);
	err = prepare(&d, addr);
	if (!err)
		err = open_log(&d, q->word[2]);
	if (!err)
		err = run(&d);
	return err ? wc_error_context(err, "%s runs as it is, unpatched, in process %d",
				      d.plan.soname ? d.plan.soname : "a library", d.pid)
		   : NULL;
}
