/* `watchctl patch --library`: a drop-in library, with the plan for it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/patch/patch_ask.h"
#include "watchctl/cli/patch/patch_print.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/patch/library/library_plan.h"
#include "watchctl/patch/library/library_source.h"
#include "watchctl/patch/library/library_write.h"
#include "watchctl/patch/plan/patch_module.h"
#include "watchctl/patch/probe/probe_build.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/view/words/json.h"

struct making {
	struct patch_ask *ask;
	struct library_source source;
	struct library_plan plan;
	struct patch_printer printer;
	size_t *sites; /* of each pattern */
	char *table;   /* what is printed when all has gone well */
	size_t table_len;
	struct patch_totals totals;
};

static void making_deinit(struct making *m)
{
	library_source_close(&m->source);
	library_plan_deinit(&m->plan);
	patch_printer_deinit(&m->printer);
	if (m->printer.out)
		fclose(m->printer.out);
	free(m->table);
	free(m->sites);
}

/* The plan for its code */

static struct wc_error *take_sites(struct making *m, struct patch_modules *modules)
{
	scoped(patch_plan_freep) struct patch_plan *plan = NULL;
	const struct patch_site *site = NULL;
	struct wc_error *err = patch_plan_make(&m->ask->query, modules, false, &plan);

	while (!err && !(err = patch_plan_next(plan, &site)) && site) {
		m->sites[site->pattern - m->ask->query.pattern]++;
		patch_print_site(&m->printer, site);
	}
	if (err)
		return err;
	m->totals = *patch_plan_totals(plan);
	patch_print_totals(&m->printer, &m->totals);
	return NULL;
}

static size_t patchable(const struct patch_totals *t)
{
	return t->tactic[TACTIC_JUMP] + t->tactic[TACTIC_PADDING] + t->tactic[TACTIC_NOP];
}

static struct wc_error *check_sites(const struct making *m)
{
	for (size_t i = 0; i < m->ask->query.npatterns; i++)
		if (!m->sites[i])
			return wc_error_new(
				WC_ENAME,
				"nothing in %s fits \"%s\"%s (watchctl patch --plan --library %s shows what does)",
				m->source.soname, m->ask->query.pattern[i].text,
				i ? ", but what patterns before it have" : "", m->source.path);
	if (!patchable(&m->totals))
		return wc_error_new(
			WC_ENOTSUP,
			"none of the %zu site%s in %s can be patched (watchctl patch --plan --library %s says why)",
			m->totals.sites, m->totals.sites == 1 ? "" : "s", m->source.soname, m->source.path);
	return NULL;
}

static struct wc_error *plan_code(struct making *m)
{
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	scoped(module_deinit) struct module file = { 0 };
	struct patch_module p;
	struct wc_error *err = patch_module_of_file(m->source.path, &file);

	if (!err)
		err = patch_module_open(&file, NULL, &p);
	if (err)
		return err;
	m->plan.build_id_len = file.build_id_len;
	memcpy(m->plan.build_id, file.build_id, sizeof(file.build_id));
	if (!vec_push(modules.v, modules.n, modules.cap, p)) {
		patch_module_deinit(&p);
		return &wc_enomem;
	}
	err = take_sites(m, &modules);
	return err ? err : check_sites(m);
}

/* What goes into the drop-in */

static struct wc_error *add_rules(struct making *m, const struct probe_image *image)
{
	const struct patch_ask *q = m->ask;
	scoped(freep) struct patch_rule *rule = calloc(q->nrules, sizeof(*rule));
	struct wc_error *err = rule ? patch_make_rules(q, image, rule) : &wc_enomem;

	for (size_t i = 0; i < q->nrules && !err; i++) {
		struct library_rule r = { q->query.pattern[i].text, rule[i].function, rule[i].when };

		if (!vec_push(m->plan.rule, m->plan.nrules, m->plan.rule_cap, r))
			err = &wc_enomem;
	}
	return err;
}

static void add_settings(struct making *m)
{
	struct patch_session_options o = { 0 };

	patch_size(m->ask, &o);
	m->plan.soname = m->source.soname;
	m->plan.size = m->source.size;
	m->plan.hash = hash_bytes(HASH_START, m->source.bytes, m->source.size);
	m->plan.only = m->ask->query.function;
	m->plan.slots = o.slots;
	m->plan.stack_bytes = o.stack_bytes;
	m->plan.frames = o.frames;
}

/* Said at the end */

static void print_made(const struct making *m)
{
	const char *dir = m->ask->output_dir;
	struct json j = { 0 };

	fflush(m->printer.out);
	fwrite(m->table, 1, m->table_len, stdout);
	if (!m->ask->json) {
		printf("%s/%s made, and the original beside it: LD_LIBRARY_PATH=%s WATCHCTL_OUTPUT=LOG PROGRAM\n",
		       dir, m->source.soname, dir);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "library");
	json_text(&j, "soname", m->source.soname);
	json_text(&j, "original", m->source.path);
	json_text(&j, "output_dir", dir);
	json_number(&j, "sites", m->totals.sites);
	json_number(&j, "patchable", patchable(&m->totals));
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

static struct wc_error *write_it(struct making *m, const struct probe_image *image)
{
	char watchctl[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", watchctl, sizeof(watchctl) - 1);
	struct wc_error *err;

	if (n < 0)
		return wc_error_new(WC_EFAIL, "cannot find out where watchctl itself is: is /proc mounted?");
	watchctl[n] = '\0';
	add_settings(m);
	err = add_rules(m, image);
	return err ? err : library_write(&m->source, &m->plan, watchctl, m->ask->output_dir);
}

static struct wc_error *make(struct making *m)
{
	const struct probe_build_request b = {
		.source = m->ask->word, .nsources = m->ask->nwords, .cc = m->ask->cc, .stderr_fd = -1
	};
	scoped(probe_image_deinit) struct probe_image image = { 0 };
	scoped(freep) uint8_t *probes = NULL;
	struct wc_error *err = library_write_check(&m->source, m->ask->output_dir);

	if (!err)
		err = probe_build_object(&b, &image, &probes, &m->plan.probes_size);
	m->plan.probes = probes;
	m->printer = (struct patch_printer){
		open_memstream(&m->table, &m->table_len), m->ask->json, m->ask->sites, 0, { 0 }
	};
	m->sites = calloc(m->ask->query.npatterns, sizeof(*m->sites));
	if (!err && (!m->printer.out || !m->sites))
		err = &wc_enomem;
	if (!err)
		err = plan_code(m);
	if (!err)
		err = write_it(m, &image);
	if (!err)
		print_made(m);
	return err;
}

/* Of the library's file alone. */
static struct wc_error *only_plan(struct making *m)
{
	const char *path = m->source.path;

	if (!vec_push(m->ask->word, m->ask->nwords, m->ask->word_cap, path))
		return &wc_enomem;
	return patch_run_plan(m->ask);
}

struct wc_error *patch_run_library(struct patch_ask *q)
{
	scoped(making_deinit) struct making m = { .ask = q };
	struct wc_error *err = library_source_open(q->library, &m.source);

	if (err)
		return err;
	return q->plan ? only_plan(&m) : make(&m);
}
