#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/cli/steprec/steprec.h"
#include "watchctl/trace/call_values.h"

#define STRING_DEFAULT 80u
#define POINTEE_DEFAULT 64u
#define STACK_BYTES (32u << 10)

enum option_kind {
	OPTION_TEXT,
	OPTION_PATTERN,
	OPTION_NUMBER,
	OPTION_LARGE,
	OPTION_TIME,
	OPTION_THREADS,
	OPTION_FLAG
};

/* What an option does to the struct steprec_options: kind and place. */
struct steprec_option {
	const char *name, *argument;
	enum option_kind kind;
	size_t offset;
	uint64_t min, max;
};

#define AT(member) offsetof(struct steprec_options, member)

static const struct steprec_option options[] = {
	{ "--from", "CODE", OPTION_TEXT, AT(from), 0, 0 },
	{ "--to", "CODE", OPTION_TEXT, AT(to), 0, 0 },
	{ "-o", "LOG", OPTION_TEXT, AT(log), 0, 0 },
	{ "--log", "LOG", OPTION_TEXT, AT(log), 0, 0 },
	{ "--only", "PATTERN", OPTION_PATTERN, AT(only), 0, 0 },
	{ "--module", "LIB", OPTION_PATTERN, AT(modules), 0, 0 },
	{ "--step-over", "PATTERN", OPTION_PATTERN, AT(over), 0, 0 },
	{ "--step-into", "PATTERN", OPTION_PATTERN, AT(into), 0, 0 },
	{ "--skip", "PATTERN", OPTION_PATTERN, AT(skip), 0, 0 },
	{ "--occurrence", "N", OPTION_NUMBER, AT(request.occurrence), 1, UINT32_MAX },
	{ "--count", "N", OPTION_NUMBER, AT(request.count), 0, UINT32_MAX },
	{ "--depth", "N", OPTION_NUMBER, AT(request.depth), 1, UINT32_MAX },
	{ "--events", "N", OPTION_LARGE, AT(request.events), 1, UINT64_MAX },
	{ "--string", "N", OPTION_NUMBER, AT(request.plans.string_max), 1, CALL_POINTEE_MAX },
	{ "--pointee", "N", OPTION_NUMBER, AT(request.plans.pointee_max), 0, CALL_POINTEE_MAX },
	{ "--stuck-after", "TIME", OPTION_TIME, AT(request.stuck_ns), 0, 0 },
	{ "--time", "TIME", OPTION_TIME, AT(time_ns), 0, 0 },
	{ "--threads", "WHICH", OPTION_THREADS, AT(request.threads), 0, 0 },
	{ "--every-instruction", NULL, OPTION_FLAG, AT(request.instructions), 0, 0 },
};

const char *steprec_options_help(void)
{
	return "  --from CODE          begin where CODE is reached: a function, file.c:123, 0x...\n  --to CODE        "
	       "    end where CODE is reached (default: when --from has ended)\n  -o LOG               record into "
	       "the new log LOG (default: steprec-PID.log)\n  --occurrence N       skip the range until it begins for "
	       "the Nth time (1)\n  --count N            record N times (1; 0: all)\n  --only PATTERN       only "
	       "functions whose name matches, like 'net_*'; may be repeated\n  --module LIB         only functions of "
	       "this module; may be repeated\n  --step-over PATTERN  step over this module or these functions\n  "
	       "--step-into PATTERN  record these nevertheless\n  --skip PATTERN       leave these functions "
	       "alone\n  --threads WHICH      all, range (the one that began "
	       "it, and those it creates), or one\n  --depth N            record calls up to this depth\n  --events N "
	       "          end after N calls\n  --stuck-after TIME   end when nothing has happened for this time (5s, "
	       "500ms),\n                       and record where each thread is blocked\n  --time TIME          end "
	       "after TIME\n  --every-instruction  record each instruction of the recorded functions too\n  --string "
	       "N           bytes of a string (80)\n  --pointee N          bytes of what a pointer points to (64; 0: "
	       "not followed)\n";
}

static const struct steprec_option *find_option(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].name) == len && !memcmp(options[i].name, name, len))
			return &options[i];
	return NULL;
}

static struct wc_error *take_text(const struct steprec_option *o, const char *value, char **place)
{
	if (*place)
		return wc_error_new(WC_EUSAGE, "%s was given twice", o->name);
	*place = strdup(value);
	return *place ? NULL : &wc_enomem;
}

static struct wc_error *take_pattern(const struct steprec_option *o, const char *value, char **list)
{
	size_t n = 0;

	while (list[n])
		n++;
	if (n == STEPREC_PATTERNS)
		return wc_error_new(WC_EUSAGE, "%s can be given at most %u times", o->name, STEPREC_PATTERNS);
	list[n] = strdup(value);
	return list[n] ? NULL : &wc_enomem;
}

static struct wc_error *take_number(const struct steprec_option *o, const char *value, uint64_t *ret)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(value, &end, 0);
	if (errno || end == value || *end || *value == '-' || n < o->min || n > o->max)
		return wc_error_new(WC_EUSAGE, "%s %s: give a number from %llu to %llu", o->name, value,
				    (unsigned long long)o->min, (unsigned long long)o->max);
	*ret = n;
	return NULL;
}

/* "5s", "500ms", "2min", "0.5". */
static struct wc_error *take_time(const struct steprec_option *o, const char *value, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "min", 60e9 } };
	char *end;
	double n = strtod(value, &end);
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (end != value && !strcmp(end, units[i].unit) && n > 0 && n < 1e7) {
			*ret = (uint64_t)(n * units[i].ns);
			return NULL;
		}
	return wc_error_new(WC_EUSAGE, "%s %s: give a time greater than 0, like 5s, 500ms or 2min", o->name,
			    value);
}

static struct wc_error *take_threads(const char *value, enum stepper_threads *ret)
{
	static const char *const words[] = { [STEPPER_THREADS_ALL] = "all",
					     [STEPPER_THREADS_RANGE] = "range",
					     [STEPPER_THREADS_ONE] = "one" };
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], value)) {
			*ret = (enum stepper_threads)i;
			return NULL;
		}
	return wc_error_new(WC_EUSAGE, "--threads %s: give all, range or one", value);
}

static struct wc_error *steprec_options_take(const struct steprec_option *o, const char *value,
					     struct steprec_options *ret)
{
	void *place = (char *)ret + o->offset;
	struct wc_error *err;
	uint64_t n = 0;

	switch (o->kind) {
	case OPTION_TEXT:
		return take_text(o, value, place);
	case OPTION_PATTERN:
		return take_pattern(o, value, place);
	case OPTION_TIME:
		return take_time(o, value, place);
	case OPTION_THREADS:
		return take_threads(value, place);
	case OPTION_FLAG:
		*(bool *)place = true;
		return NULL;
	case OPTION_LARGE:
		return take_number(o, value, place);
	case OPTION_NUMBER:
		break;
	}
	err = take_number(o, value, &n);
	if (!err)
		*(uint32_t *)place = (uint32_t)n;
	return err;
}

static void set_defaults(struct steprec_options *o)
{
	memset(o, 0, sizeof(*o));
	o->request.occurrence = o->request.count = 1;
	o->request.stack_bytes = STACK_BYTES;
	o->request.plans.string_max = STRING_DEFAULT;
	o->request.plans.pointee_max = POINTEE_DEFAULT;
	o->request.selection = (struct step_selection){ o->only, o->modules, o->over, o->into, o->skip };
}

/* One option, with its value in the same word or the next one; *@i is its place. */
static struct wc_error *parse_one(int argc, char *const argv[], int *i, struct steprec_options *ret)
{
	const char *word = argv[*i], *equals = strncmp(word, "--", 2) ? NULL : strchr(word, '=');
	const struct steprec_option *o = find_option(word, equals ? (size_t)(equals - word) : strlen(word));
	const char *value = equals ? equals + 1 : NULL;

	if (!o)
		return wc_error_new(WC_EUSAGE, "\"%s\" is no option of steprec start: see steprec help",
				    word);
	if (!o->argument && value)
		return wc_error_new(WC_EUSAGE, "%s takes no value", o->name);
	if (o->argument && !value) {
		if (*i + 1 >= argc)
			return wc_error_new(WC_EUSAGE, "%s needs %s", o->name, o->argument);
		value = argv[++*i];
	}
	return steprec_options_take(o, value ? value : "", ret);
}

struct wc_error *steprec_options_parse(int argc, char *const argv[], struct steprec_options *ret)
{
	struct wc_error *err = NULL;
	int i;

	set_defaults(ret);
	for (i = 0; i < argc && !err; i++)
		err = parse_one(argc, argv, &i, ret);
	ret->request.from = ret->from;
	ret->request.to = ret->to;
	if (err)
		steprec_options_deinit(ret);
	return err;
}

static void free_list(char **list)
{
	while (*list)
		free(*list++);
}

void steprec_options_deinit(struct steprec_options *o)
{
	free(o->from);
	free(o->to);
	free(o->log);
	free_list(o->only);
	free_list(o->modules);
	free_list(o->over);
	free_list(o->into);
	free_list(o->skip);
	set_defaults(o);
}
