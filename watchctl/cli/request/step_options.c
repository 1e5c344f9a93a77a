#include "watchctl/cli/request/step_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/output/colour.h"

#define STRING_DEFAULT 80
#define POINTEE_DEFAULT 64
#define STACK_BYTES (32u << 10)

const struct option step_options[] = {
	{ "-p", "--pid", "PID", "record in this running process", COMPLETE_PID, NULL },
	{ "--from", NULL, "CODE",
	  "begin where CODE is reached: a function, file.c:123, function+0x12, 0x... (default: at once)",
	  COMPLETE_FUNCTION, NULL },
	{ "--to", NULL, "CODE", "end where CODE is reached (default: when the function --from has ended)",
	  COMPLETE_FUNCTION, NULL },
	{ "--from-watch", NULL, "LOG",
	  "take --from from a watch log: the innermost function that all its accesses were made under",
	  COMPLETE_DIRECTORY, NULL },
	{ "--occurrence", NULL, "N", "record from the Nth time on that the range is entered (default 1)",
	  COMPLETE_NOTHING, NULL },
	{ "--count", NULL, "N", "record N times (default 1; 0: all)", COMPLETE_NOTHING, NULL },
	{ "--only", NULL, "PATTERN", "record only functions of such a name, like 'net_*'; may be repeated",
	  COMPLETE_FUNCTION, NULL },
	{ "--module", NULL, "LIB", "record only functions of this module, like libfoo.so; may be repeated",
	  COMPLETE_NOTHING, NULL },
	{ "--step-over", NULL, "PATTERN",
	  "do not look into this module or these functions: one event a call; may be repeated",
	  COMPLETE_FUNCTION, NULL },
	{ "--step-into", NULL, "PATTERN", "but look into these, like libm.so; may be repeated",
	  COMPLETE_FUNCTION, NULL },
	{ "--threads", NULL, "WHICH",
	  "all (default), range (the one that entered it, and those it makes), or one", COMPLETE_WORDS,
	  "all range one" },
	{ "--depth", NULL, "N", "record calls down to this depth", COMPLETE_NOTHING, NULL },
	{ "--events", NULL, "N", "end after N calls", COMPLETE_NOTHING, NULL },
	{ "--stuck-after", NULL, "TIME",
	  "end when nothing has happened for so long (5s, 500ms), and record where each thread stands",
	  COMPLETE_NOTHING, NULL },
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL },
	{ "--stepper", "--mover", "STEPPER",
	  "ptrace (default), or lldb: LLDB's own breakpoints and stepping, slower", COMPLETE_WORDS,
	  "ptrace lldb" },
	{ "--every-instruction", NULL, NULL, "record each instruction of the recorded functions too", 0,
	  NULL },
	{ "--string", NULL, "N", "bytes of a string, 1 to 1024 (default 80)", COMPLETE_NOTHING, NULL },
	{ "--pointee", NULL, "N",
	  "bytes of what a pointer points to, 0 to 1024 (default 64; 0: pointers are not followed)",
	  COMPLETE_NOTHING, NULL },
	{ "-o", "--log", "LOG", "record into the new log LOG; calls are then not printed", COMPLETE_DIRECTORY,
	  NULL },
	{ "--force", NULL, NULL, "with -o: replace LOG where it exists", 0, NULL },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL },
	{ "--program-output", NULL, "FILE",
	  "the standard output of a launched program goes to FILE; what is printed then has ours",
	  COMPLETE_FILE, NULL },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS },
	REDACT_OPTIONS,
	{ "-q", "--quiet", NULL, "print no calls: only the summary", 0, NULL },
	{ "--verbose", NULL, NULL, "report what is being done", 0, NULL },
	{ 0 },
};

static struct wc_error *take_pattern(char **list, const struct option_match *m)
{
	size_t n = 0;

	while (list[n])
		n++;
	if (n == STEP_PATTERNS)
		return wc_error_new(WC_EUSAGE, "%s can be given at most %u times", m->option->name,
				    STEP_PATTERNS);
	list[n] = (char *)m->value;
	return NULL;
}

#define MOST_NS 1e18 /* 31 years: still a number of nanoseconds */

/* "5s", "500ms", "2min", "0.5". */
static struct wc_error *take_time(const struct option_match *m, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "", 1e9 },     { "s", 1e9 },  { "ms", 1e6 },  { "us", 1e3 },
		      { "min", 60e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	char *end;
	double n = strtod(m->value, &end);
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]) && strcmp(end, units[i].unit) != 0; i++)
		;
	if (end == m->value || i == sizeof(units) / sizeof(units[0]) || !(n > 0) || n * units[i].ns > MOST_NS)
		return wc_error_new(WC_EUSAGE, "%s %s: give a time greater than 0, like 5s, 500ms or 2min",
				    m->option->name, m->value);
	*ret = (uint64_t)(n * units[i].ns);
	return NULL;
}

static struct wc_error *take_u32(const struct option_match *m, uint64_t min, uint64_t max, uint32_t *ret)
{
	uint64_t n;
	struct wc_error *err = option_number(m, min, max, &n);

	if (!err)
		*ret = (uint32_t)n;
	return err;
}

static struct wc_error *take_pid(struct step_command *c, const struct option_match *m)
{
	uint32_t pid = 0;
	struct wc_error *err = take_u32(m, 1, INT32_MAX, &pid);

	if (!err && c->request.pid)
		err = wc_error_new(WC_EUSAGE, "-p was given twice: one process can be recorded at a time");
	if (!err)
		c->request.pid = (pid_t)pid;
	return err;
}

static bool take_text(struct step_command *c, const struct option_match *m)
{
	const struct {
		const char *name;
		const char **text;
	} texts[] = { { "--from", &c->request.from },
		      { "--to", &c->request.to },
		      { "--from-watch", &c->from_watch },
		      { "-o", &c->output.log },
		      { "--program-output", &c->output.program_output },
		      { "--output", &c->output.file } };
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (option_is(m, texts[i].name)) {
			*texts[i].text = m->value;
			return true;
		}
	}
	return false;
}

static bool take_flag(struct step_command *c, const struct option_match *m)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = { { "--every-instruction", &c->request.instructions },
		      { "--echo", &c->echo },
		      { "--force", &c->output.force },
		      { "--json", &c->output.json },
		      { "--no-stack", &c->output.print.no_stack },
		      { "--utc", &c->output.print.utc },
		      { "-q", &c->quiet },
		      { "--verbose", &c->verbose } };
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (option_is(m, flags[i].name)) {
			*flags[i].flag = true;
			return true;
		}
	}
	return false;
}

static struct wc_error *take_choice(struct step_command *c, const struct option_match *m, bool *taken)
{
	unsigned int choice = 0;
	struct wc_error *err;

	*taken = option_is(m, "--threads") || option_is(m, "--stepper") || option_is(m, "--color");
	if (!*taken)
		return NULL;
	err = option_choice(m, &choice);
	if (err)
		return err;
	if (option_is(m, "--threads"))
		c->request.threads = (enum stepper_threads)choice;
	else if (option_is(m, "--stepper"))
		c->stepper = (enum step_stepper_choice)choice;
	else
		c->output.colour = choice;
	return NULL;
}

static struct wc_error *take_option(struct step_command *c, const struct option_match *m)
{
	bool taken;
	struct wc_error *err = take_choice(c, m, &taken);

	if (!err && !taken)
		err = redact_ask_take(&c->redact, m, &taken);
	if (err || taken || take_text(c, m) || take_flag(c, m))
		return err;
	if (option_is(m, "-p"))
		return take_pid(c, m);
	if (option_is(m, "--only"))
		return take_pattern(c->only, m);
	if (option_is(m, "--module"))
		return take_pattern(c->modules, m);
	if (option_is(m, "--step-over"))
		return take_pattern(c->over, m);
	if (option_is(m, "--step-into"))
		return take_pattern(c->into, m);
	if (option_is(m, "--occurrence"))
		return take_u32(m, 1, UINT32_MAX, &c->request.occurrence);
	if (option_is(m, "--count"))
		return take_u32(m, 0, UINT32_MAX, &c->request.count);
	if (option_is(m, "--depth"))
		return take_u32(m, 1, UINT32_MAX, &c->request.depth);
	if (option_is(m, "--events"))
		return option_number(m, 1, UINT64_MAX, &c->request.events);
	if (option_is(m, "--string"))
		return take_u32(m, 1, PLANNER_POINTEE_MAX, &c->request.plans.string_max);
	if (option_is(m, "--pointee"))
		return take_u32(m, 0, PLANNER_POINTEE_MAX, &c->request.plans.pointee_max);
	if (option_is(m, "--stuck-after"))
		return take_time(m, &c->request.stuck_ns);
	return take_time(m, &c->limits.time_ns);
}

static struct wc_error *step_options_check(const struct step_command *c)
{
	if (c->request.pid && c->argv)
		return wc_error_new(
			WC_EUSAGE,
			"-p PID records in a running process, -- PROGRAM starts one: give one of them");
	if (!c->request.pid && !c->argv)
		return wc_error_new(WC_EUSAGE,
				    "record in which process? Give -p PID, or -- PROGRAM to start one");
	if (c->request.pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", c->request.pid);
	if (c->from_watch && c->request.from)
		return wc_error_new(WC_EUSAGE,
				    "--from and --from-watch both say where the range begins: give one");
	if (c->output.program_output && !c->argv)
		return wc_error_new(WC_EUSAGE,
				    "--program-output goes with a program that is started: -- PROGRAM");
	if (c->output.force && !c->output.log)
		return wc_error_new(WC_EUSAGE, "--force goes with -o LOG, which it replaces");
	if (c->echo && !c->output.log)
		return wc_error_new(WC_EUSAGE,
				    "--echo goes with -o LOG: without it, calls are printed anyway");
	return NULL;
}

static void set_defaults(struct step_command *c)
{
	*c = (struct step_command){ .request = { .occurrence = 1,
						 .count = 1,
						 .stack_bytes = STACK_BYTES,
						 .plans = { .string_max = STRING_DEFAULT,
							    .pointee_max = POINTEE_DEFAULT } } };
	c->request.selection = (struct step_selection){ c->only, c->modules, c->over, c->into };
}

struct wc_error *step_options_parse(int argc, char **argv, struct step_command *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = step_options };
	struct option_match m;
	struct wc_error *err;

	set_defaults(ret);
	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(ret, &m);
		else if (!err && m.kind == OPTION_WORD)
			err = wc_error_new(WC_EUSAGE, "\"%s\" is no option: a program to start follows --",
					   m.value);
		if (err)
			return err;
	} while (m.kind == OPTION_FOUND);
	if (m.kind == OPTION_DASHES) {
		if (scan.next == argc)
			return wc_error_new(WC_EUSAGE, "the program to start is missing after --");
		ret->argv = argv + scan.next;
	}
	ret->output.launched = ret->argv;
	ret->output.no_events = ret->quiet || (ret->output.log && !ret->echo);
	ret->output.redact = redact_ask_rules(&ret->redact);
	return step_options_check(ret);
}
