#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/diff/diff_impl.h"

/* The last module that is called so in both logs; NULL: none. */
static const struct diff_module *module_called(const struct diff_side *s, const char *name)
{
	const struct diff_space *space = &s->canon.space;
	size_t i;

	for (i = space->nmodules; i-- > 0;)
		if (!strcmp(diff_module_name(space->module[i].path, s->program), name))
			return &space->module[i];
	return NULL;
}

static bool same_build(const struct diff_module *a, const struct diff_module *b)
{
	return a->build_id_len == b->build_id_len && !memcmp(a->build_id, b->build_id, a->build_id_len);
}

/* "prog, libx.so": modules of one name whose files differ. */
static size_t other_builds(const struct diff_side *a, const struct diff_side *b, char *list, size_t cap)
{
	size_t i, n = 0, used = 0;

	list[0] = '\0';
	for (i = 0; i < b->canon.space.nmodules; i++) {
		const struct diff_module *m = &b->canon.space.module[i], *other;

		other = module_called(a, diff_module_name(m->path, b->program));
		if (!other || same_build(m, other) || diff_list_has(list, diff_base_name(m->path)))
			continue;
		n++;
		if (used < cap)
			used += (size_t)snprintf(list + used, cap - used, "%s%s", used ? ", " : "",
						 diff_base_name(m->path));
	}
	return n;
}

/* The program's file has another name: its build id shows that it is the same. */
static bool is_renamed(const struct diff_side *a, const struct diff_side *b)
{
	const struct diff_module *in_a = module_called(a, diff_module_name(a->exe, a->program));
	const struct diff_module *in_b = module_called(b, diff_module_name(b->exe, b->program));

	return in_a && in_b && in_a->build_id_len && same_build(in_a, in_b);
}

static struct wc_error *check_name(struct diff_result *r, const struct diff_options *o)
{
	const bool is_same = is_renamed(r->a, r->b);

	if (!o->by_name && !is_same)
		return wc_error_new(WC_EFAIL,
				    "the logs are of two programs: %s in %s, %s in %s (--by-name compares "
				    "their functions by name)",
				    r->a->exe, r->a->path, r->b->exe, r->b->path);
	return diff_note(r, "the programs have different names, %s and %s: %s", r->a->exe, r->b->exe,
			 is_same ? "their build ids are the same, and they are compared as one program"
				 : "they are compared as one program, by the names of their functions")
		       ? NULL
		       : &wc_enomem;
}

static struct wc_error *check_programs(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = r->a->program && r->b->program ? check_name(r, o) : NULL;
	char list[512];

	if (err || !other_builds(r->a, r->b, list, sizeof(list)))
		return err;
	if (!o->by_name)
		return wc_error_new(
			WC_EFAIL,
			"the build ids of these differ: %s; so their addresses cannot be compared (--by-name compares "
			"their functions by name)",
			list);
	return diff_note(r, "the build ids of these differ: %s; compared by names, without code locations",
			 list)
		       ? NULL
		       : &wc_enomem;
}

static bool differ(const char *a, const char *b)
{
	return a && b && strcmp(a, b) != 0;
}

static bool note_alone(struct diff_result *r, const struct diff_side *s, const struct diff_side *other)
{
	const uint64_t n = diff_side_alone(s);

	return !n ||
	       diff_note(r,
			 "%" PRIu64 " function%s of %s %s not recorded in %s: %s calls are left out, but not "
			 "what they call",
			 n, n == 1 ? "" : "s", s->path, n == 1 ? "is" : "are", other->path,
			 n == 1 ? "its" : "their");
}

static uint64_t without_values(const struct diff_side *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->nfunctions; i++)
		n += s->function[i].no_values && s->function[i].calls;
	return n;
}

static bool has_values(const struct diff_side *s)
{
	for (size_t i = 0; i < s->nfunctions; i++)
		if (s->function[i].calls &&
		    (s->function[i].e.nparams || s->function[i].e.return_type != NO_TYPE))
			return true;
	return false;
}

/* Of logs whose calls are in files of their own. */
static struct wc_error *check_compact(struct diff_result *r, const struct diff_options *o)
{
	const struct diff_side *rest = r->a->is_rest ? r->a : r->b->is_rest ? r->b : NULL;
	const uint64_t n = without_values(r->b);

	if (rest && !o->anyway) {
		r->incomparable = true;
		return diff_doubt(
			       r,
			       "the calls of %s begin in the middle of the run: it is of a flight recorder, or of a "
			       "recording that was begun later (--anyway compares them)",
			       rest->path)
			       ? NULL
			       : &wc_enomem;
	}
	if (!has_values(r->a) && !has_values(r->b) &&
	    !diff_note(
		    r,
		    "the logs have no values: which functions were called was compared, and how their calls "
		    "nest (\"capture\" of calltrace-opt(1) records values)"))
		return &wc_enomem;
	if (n && !diff_note(r,
			    "only one of the logs has values of %" PRIu64
			    " function%s: their parameters and results are not compared",
			    n, n == 1 ? "" : "s"))
		return &wc_enomem;
	return note_alone(r, r->a, r->b) && note_alone(r, r->b, r->a) ? NULL : &wc_enomem;
}

static struct wc_error *note_changes(struct diff_result *r, unsigned int a, unsigned int b)
{
	if (!(a & b & RECORDING_CHANGED_DATA) || !((a ^ b) & RECORDING_CHANGED_MEMBERS))
		return NULL;
	return diff_note(r,
			 "one log has what calls change in variables by words, as older versions of watchctl "
			 "record it, the other by members: that is not compared")
		       ? NULL
		       : &wc_enomem;
}

static struct wc_error *check_recordings(struct diff_result *r, const struct diff_options *o)
{
	const struct diff_side *a = r->a, *b = r->b;

	if (a->compact && b->compact)
		return check_compact(r, o);
	if (differ(a->filters, b->filters)) {
		r->incomparable = !o->anyway;
		if (r->incomparable)
			return diff_doubt(
				       r,
				       "the logs were recorded with different filters, so that calls are "
				       "missing in one that the program did make: \"%s\" in %s, \"%s\" in %s "
				       "(--anyway compares them)",
				       a->filters, a->path, b->filters, b->path)
				       ? NULL
				       : &wc_enomem;
		if (!diff_note(r, "recorded with different filters: \"%s\", \"%s\"", a->filters, b->filters))
			return &wc_enomem;
	}
	if (differ(a->range, b->range) && !o->anyway && !o->from) {
		r->incomparable = true;
		return diff_doubt(
			       r,
			       "the logs are of different parts of the program: \"%s\" in %s, \"%s\" in %s (--from "
			       "FUNC compares a part that both have, --anyway all of it)",
			       a->range, a->path, b->range, b->path)
			       ? NULL
			       : &wc_enomem;
	}
	if (differ(a->range, b->range) &&
	    !diff_note(r, "the ranges differ: \"%s\", \"%s\"", a->range, b->range))
		return &wc_enomem;
	if (differ(a->stepper, b->stepper) &&
	    !diff_note(r, "the movers differ: %s, %s", a->stepper, b->stepper))
		return &wc_enomem;
	return note_changes(r, a->own_changes, b->own_changes);
}

/* The innermost call that was open at the end, of the first thread that has one; NULL: none. */
static const char *innermost_open(const struct diff_side *s)
{
	size_t i, k;

	for (i = 0; i < s->nthreads; i++)
		for (k = s->thread[i]->n; k-- > 0;)
			if (s->thread[i]->call[k].how == RETURN_NEVER)
				return diff_function_of(s->thread[i], (uint32_t)k)->e.name;
	return NULL;
}

static bool note_stop(struct diff_result *r, const struct diff_side *s)
{
	const char *open;

	if (!diff_side_is_stopped(s))
		return true;
	open = innermost_open(s);
	return diff_note(r, "the recording of %s %s%s%s: later events are not compared", s->path,
			 s->end == RANGE_LIMIT ? "reached its limit" : "was stopped",
			 open ? ", while inside of " : "", open ? open : "");
}

static bool note_damage(struct diff_result *r, const struct diff_side *s)
{
	char text[1100];

	log_damage_text(&s->damage, text, sizeof(text));
	if (s->why && !diff_note(r, "the log %s is not whole: %s; what may have come later is not compared",
				 s->path, s->why == s->why_calls ? s->why : text))
		return false;
	if (s->why_names &&
	    !diff_note(r, "some of the names that were added to %s cannot be read, because %s", s->path,
		       s->why_names))
		return false;
	if (!note_stop(r, s))
		return false;
	return !s->lost || diff_note(r, "in %s %" PRIu64 " event%s lost in the recording", s->path, s->lost,
				     s->lost == 1 ? " was" : "s were");
}

static const char *kind_of(const struct diff_side *s)
{
	return s->compact		    ? "calls in files of their own"
	       : diff_side_is_steps(s)	    ? "steps"
	       : s->accesses && s->captures ? "accesses and captures"
	       : s->accesses		    ? "accesses"
	       : s->captures		    ? "captures"
					    : "nothing that can be compared";
}

static bool has_marks(const struct diff_side *s)
{
	return s->accesses || s->captures;
}

static struct wc_error *check_kinds(struct diff_result *r)
{
	const struct diff_side *a = r->a, *b = r->b;

	if (diff_side_is_empty(a) || diff_side_is_empty(b)) {
		r->incomparable = diff_side_is_steps(a) != diff_side_is_steps(b);
		return NULL;
	}
	if ((diff_side_is_steps(a) != diff_side_is_steps(b) || !a->compact != !b->compact) &&
	    !(has_marks(a) && has_marks(b)))
		return wc_error_new(WC_EFAIL, "there is nothing to compare: %s has %s, %s has %s", a->path,
				    kind_of(a), b->path, kind_of(b));
	if (diff_side_is_steps(a) != diff_side_is_steps(b) &&
	    !diff_note(r, "%s has %s, %s has %s: only accesses and captures are compared", a->path,
		       kind_of(a), b->path, kind_of(b)))
		return &wc_enomem;
	if (diff_side_is_steps(a) && diff_side_is_steps(b) && !a->calls && !b->calls &&
	    !diff_note(r, "neither log has a call: their ranges were never entered, or nothing in them was "
			  "recorded"))
		return &wc_enomem;
	if (a->accesses && b->captures && !a->captures && !b->accesses)
		return wc_error_new(WC_EFAIL, "there is nothing to compare: %s has accesses, %s has captures",
				    a->path, b->path);
	return NULL;
}

static bool is_one_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool note_masks(struct diff_result *r)
{
	size_t i;

	for (i = 0; i < r->masks.n; i++)
		if (!r->masks.v[i].hits && r->masks.v[i].why && !strcmp(r->masks.v[i].why, "--ignore") &&
		    !diff_note(r, "--ignore %s: it matches no function of the logs", r->masks.v[i].text))
			return false;
	return true;
}

static bool is_any_called(const struct diff_side *s, const char *pattern)
{
	size_t i;

	for (i = 0; i < s->nfunctions; i++)
		if (diff_name_matches(pattern, strlen(pattern), s->function[i].e.name))
			return true;
	return false;
}

static struct wc_error *check_scope(const struct diff_result *r, const char *option, const char *name)
{
	if (!name || is_any_called(r->a, name) || is_any_called(r->b, name))
		return NULL;
	return wc_error_new(WC_ENAME, "%s %s: neither log has a function of that name", option, name);
}

struct wc_error *diff_check_sides(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err;

	if (is_one_file(r->a->path, r->b->path) &&
	    !diff_note(r, "both are the same log: it cannot differ from itself"))
		return &wc_enomem;
	err = check_kinds(r);
	if (!err && !r->incomparable)
		err = check_programs(r, o);
	if (!err)
		err = r->incomparable ? NULL : check_recordings(r, o);
	if (!err)
		err = check_scope(r, "--from", o->from);
	if (!err)
		err = check_scope(r, "--to", o->to);
	if (err)
		return err;
	return note_damage(r, r->a) && note_damage(r, r->b) && note_masks(r) ? NULL : &wc_enomem;
}
