#include "watchctl/view/rewrite/snapshot.h"

#include <inttypes.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/words/json.h"

#define NSEC_PER_SEC 1000000000u
#define PLAIN_UNITS 10u /* below so many of a unit the smaller one is used */

struct wc_error *snapshot_save(const char *src, const char *dst, uint64_t last_ns, struct snapshot_info *ret)
{
	return tracelog_snapshot(src, dst, last_ns, ret);
}

static void count(struct snapshot_content *s, const struct trace_event *e)
{
	switch (e->type) {
	case EVENT_ACCESS:
		s->accesses++;
		break;
	case EVENT_CAPTURE:
		s->captures++;
		break;
	case EVENT_PROBE:
		s->probes++;
		break;
	case EVENT_CALL:
		s->calls++;
		break;
	case EVENT_PROCESS:
		if (e->process.realtime_ns > e->time_ns)
			s->realtime_ns = e->process.realtime_ns - e->time_ns;
		return;
	default:
		return;
	}
	if (!s->first_ns || e->time_ns < s->first_ns)
		s->first_ns = e->time_ns;
	if (e->time_ns > s->last_ns)
		s->last_ns = e->time_ns;
}

static struct wc_error *snapshot_put(void *ctx, const struct trace_event *e)
{
	count(ctx, e);
	return NULL;
}

struct wc_error *snapshot_count(const char *path, struct snapshot_content *ret)
{
	struct replay_ending ending;
	struct wc_error *err = replay(path, (struct event_sink){ snapshot_put, ret }, stdout, &ending);

	if (err)
		return err;
	ret->damage = ending.damage;
	/* A copy of what the log has: who reads that says so. */
	ret->damage.why_names = NULL;
	return NULL;
}

/* Printing */

static void print_bytes(uint64_t bytes, FILE *out)
{
	static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	size_t i = 0;

	while (v >= 1024.0 * (i ? 1 : PLAIN_UNITS) && i + 1 < sizeof(unit) / sizeof(unit[0])) {
		v /= 1024;
		i++;
	}
	fprintf(out, i ? "%.1f %s" : "%.0f %s", v, unit[i]);
}

static void print_time(const struct snapshot_content *s, uint64_t time_ns, FILE *out)
{
	time_t sec = (time_t)((time_ns + s->realtime_ns) / NSEC_PER_SEC);
	char text[32];
	struct tm tm;

	if (!s->realtime_ns || !localtime_r(&sec, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm)) {
		fprintf(out, "%.3f s", (double)time_ns / NSEC_PER_SEC);
		return;
	}
	fprintf(out, "%s.%03u", text, (unsigned int)((time_ns + s->realtime_ns) % NSEC_PER_SEC / 1000000));
}

static void print_counts(const struct snapshot_content *s, FILE *out)
{
	const bool only_probes = s->probes && !s->accesses && !s->captures && !s->calls;

	if (!only_probes)
		fprintf(out, "%" PRIu64 " access%s", s->accesses, s->accesses == 1 ? "" : "es");
	if (s->captures)
		fprintf(out, ", %" PRIu64 " tagged stack%s", s->captures, s->captures == 1 ? "" : "s");
	if (s->probes)
		fprintf(out, "%s%" PRIu64 " event%s of probes", only_probes ? "" : ", ", s->probes,
			s->probes == 1 ? "" : "s");
	if (s->calls)
		fprintf(out, ", %" PRIu64 " call%s", s->calls, s->calls == 1 ? "" : "s");
}

void snapshot_print_text(const struct snapshot_content *s, const struct snapshot_names *n, FILE *out)
{
	fprintf(out, "saved as %s: ", n->to);
	print_counts(s, out);
	fputs(", ", out);
	print_bytes(s->saved.bytes, out);
	fputc('\n', out);
	if (s->last_ns) {
		fputs("from ", out);
		print_time(s, s->first_ns, out);
		fputs(" to ", out);
		print_time(s, s->last_ns, out);
		fprintf(out, " (%.3f s)\n", (double)(s->last_ns - s->first_ns) / NSEC_PER_SEC);
	}
	if (n->last_ns && !s->saved.is_ring)
		fprintf(out,
			"%s is no flight recorder's log (record --ring or --keep): it was saved from its "
			"beginning\n",
			n->from);
}

struct wc_error *snapshot_print_json(const struct snapshot_content *s, const struct snapshot_names *n,
				     FILE *out)
{
	struct json j = { 0 };
	bool ok;

	json_open(&j, NULL, '{');
	json_text(&j, "type", "snapshot");
	json_text(&j, "log", n->to);
	json_text(&j, "from", n->from);
	json_bool(&j, "recording", s->saved.recording);
	json_bool(&j, "flushed", s->saved.flushed);
	json_bool(&j, "ring", s->saved.is_ring);
	json_number(&j, "accesses", s->accesses);
	json_number(&j, "captures", s->captures);
	json_number(&j, "probes", s->probes);
	json_number(&j, "calls", s->calls);
	if (s->last_ns) {
		json_number(&j, "first_ns", s->first_ns);
		json_number(&j, "last_ns", s->last_ns);
	}
	json_number(&j, "bytes", s->saved.bytes);
	json_number(&j, "files", s->saved.files);
	json_number(&j, "ignored", s->saved.ignored);
	json_number(&j, "missed", s->damage.missed);
	json_close(&j, '}');
	ok = json_end_line(&j, out);
	json_deinit(&j);
	return ok ? NULL : &wc_enomem;
}
