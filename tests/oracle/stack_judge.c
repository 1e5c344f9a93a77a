/*
 * stack_judge - is told of stops of a program, with registers and the stack that a debugger shows there, and
 * compares it with cfi_walk()'s, and that with libunwind's.
 *
 *	stack_judge NAME RESULT		questions on stdin, each answered by a '.' on stdout
 *
 * A question is four 32-bit numbers (kind, process, argument, bytes that follow), then those bytes:
 *
 *	1	modules may have come or gone
 *	2	send SIGINT to the process in @argument microseconds
 *	3	a stop: 17 registers as DWARF numbers them, then @argument frames, 64 bits each
 *
 * It also walks by rules alone, without libunwind's help where they end: no frame of that walk may be another in
 * cfi_walk()'s.
 *
 * The rules of all frames that are met, as eh_frame_rule() has them from the process's memory, are compared
 * with those that libdw has from its files.
 *
 * At the end it adds to the file RESULT one line of JSON with the counts, and prints every kind of
 * disagreement once, by the last frame on which the walks agree, to stderr: with libdwfl's opinion.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "tests/oracle/eh_images.h"
#include "tests/oracle/libdw_rule.h"
#include "tests/oracle/walkers.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/cfi.h"

#define LINES_MAX 512

/* What makes a stop interesting. A stop may be of several kinds. */
enum trait {
	TRAIT_PROLOGUE,
	TRAIT_EPILOGUE,
	TRAIT_PLT,
	TRAIT_STRING,
	TRAIT_SIGNAL,
	TRAIT_VDSO,
	TRAIT_LOADER,
	TRAIT_LEAF, /* the return address is where rsp points to, outside prologues and epilogues */
	TRAITS
};

static const char *const trait_name[TRAITS] = { "prologue", "epilogue", "plt",	  "string_function",
						"signal",   "vdso",	"loader", "leaf" };

static const char *const end_name[] = { "complete", "depth",	     "unreadable",
					"no rule",  "not ascending", "unknown pc" };

struct judge {
	pid_t pid;
	struct memory_view mem;
	struct module_list modules;
	struct cfi *cfi, *rules_only;
	struct symbolizer *symbols;
	unsigned long no_rule_alone, changed; /* by rules alone: ended so, had another frame */
	unsigned long stops, frames, as_debugger, as_libunwind, as_dwfl, trait[TRAITS];
	unsigned long end[WALK_END_UNKNOWN_PC + 1];
	struct map64 seen; /* the innermost addresses */
	unsigned long distinct;
	struct eh_images images;
	Dwfl *dwfl;	    /* NULL: to be opened */
	struct map64 ruled; /* addresses whose rules were compared */
	unsigned long rules, rules_differ;
	uint64_t reported[LINES_MAX]; /* below these frames a disagreement has been printed */
	unsigned int nreported;
};

static void refresh(struct judge *j)
{
	struct module_list now = { 0 };
	struct wc_error *err = module_list_read(j->pid, &now);

	if (err) {
		wc_error_free(err);
		return;
	}
	for (size_t i = 0; i < j->modules.n; i++) {
		const struct module *old = &j->modules.v[i], *new = module_find(&now, old->start);

		if (!new || new->start != old->start || strcmp(new->path, old->path) != 0) {
			cfi_remove(j->cfi, old->start, old->end);
			cfi_remove(j->rules_only, old->start, old->end);
			symbolizer_remove(j->symbols, old->start, old->end);
		}
	}
	for (size_t i = 0; i < now.n; i++) {
		cfi_add(j->cfi, &now.v[i]);
		cfi_add(j->rules_only, &now.v[i]);
		symbolizer_add(j->symbols, &now.v[i]);
	}
	if (now.n != j->modules.n) {
		walkers_unwind_forget();
		eh_images_deinit(&j->images);
		map64_deinit(&j->ruled);
		dwfl_end(j->dwfl);
		j->dwfl = NULL;
	}
	module_list_deinit(&j->modules);
	j->modules = now;
}

static bool in_section(const struct module *m, uint64_t pc, const char *prefix)
{
	FILE *f = fopen(m->open_path, "re");
	Elf *elf = f ? elf_begin(fileno(f), ELF_C_READ_MMAP, NULL) : NULL;
	Elf_Scn *scn = NULL;
	bool found = false;
	GElf_Shdr shdr;
	size_t names;

	if (elf && elf_getshdrstrndx(elf, &names) == 0)
		while (!found && (scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &shdr)) {
			const char *name = elf_strptr(elf, names, shdr.sh_name);

			found = name && strncmp(name, prefix, strlen(prefix)) == 0 &&
				pc - m->bias >= shdr.sh_addr && pc - m->bias < shdr.sh_addr + shdr.sh_size;
		}
	elf_end(elf);
	if (f)
		fclose(f);
	return found;
}

/* Nothing but pops, moves of rsp and jumps out stands between @pc and the return. */
static bool in_epilogue(struct judge *j, uint64_t pc)
{
	uint8_t code[64];
	size_t at = 0;

	if (!memory_read(&j->mem, pc, code, sizeof(code)))
		return false;
	while (at < sizeof(code) - INSN_MAX) {
		struct insn i;

		if (!insn_decode(code + at, sizeof(code) - at, pc + at, &i))
			return false;
		if (i.is_ret)
			return true;
		if (i.is_call || i.is_jmp || !(i.writes & 1u << WREG_RSP))
			return false;
		at += i.len;
	}
	return false;
}

static bool is_string_function(const char *name)
{
	static const char *const prefix[] = { "__mem",	"mem",	 "__str", "str",
					      "__wmem", "__wcs", "__stp", "__raw" };

	for (size_t i = 0; name && i < sizeof(prefix) / sizeof(*prefix); i++)
		if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

static void note_traits(struct judge *j, const struct regs *regs, const struct walk *w)
{
	uint64_t pc = regs->r[WREG_RIP], start, end, word;
	const struct module *m = module_find(&j->modules, pc);
	bool prologue, epilogue = in_epilogue(j, pc), signal = false;
	const struct location *where;

	if (!m)
		return;
	where = symbolizer_lookup(j->symbols, pc);
	prologue = cfi_function(j->cfi, pc, &start, &end) && pc - start < 12;
	for (unsigned int i = 1; i < w->n && !signal; i++) {
		struct unwind_rule rule;

		cfi_rule(j->cfi, w->frame[i], &rule);
		signal = rule.kind == UNWIND_SIGFRAME;
	}
	j->trait[TRAIT_PROLOGUE] += prologue;
	j->trait[TRAIT_EPILOGUE] += epilogue;
	j->trait[TRAIT_PLT] += in_section(m, pc, ".plt");
	j->trait[TRAIT_STRING] +=
		strstr(m->path, "libc.") && is_string_function(where->frame[where->nframes - 1].function);
	j->trait[TRAIT_SIGNAL] += signal;
	j->trait[TRAIT_VDSO] += strcmp(m->path, "[vdso]") == 0;
	j->trait[TRAIT_LOADER] += strstr(m->path, "/ld-linux") != NULL;
	j->trait[TRAIT_LEAF] += !prologue && !epilogue && w->n > 1 &&
				memory_read(&j->mem, regs->r[WREG_RSP], &word, 8) && word == w->frame[1];
}

static Dwfl *open_dwfl(pid_t pid)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_linux_proc_find_elf,
						  .find_debuginfo = dwfl_standard_find_debuginfo };
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (dwfl && (dwfl_linux_proc_report(dwfl, pid) != 0 || dwfl_report_end(dwfl, NULL, NULL) != 0)) {
		dwfl_end(dwfl);
		return NULL;
	}
	return dwfl;
}

/* False: libdw knows no row there. */
static bool rule_of_libdw(struct judge *j, uint64_t pc, struct unwind_rule *ret)
{
	Dwfl_Module *m;
	Dwarf_CFI *cfi;
	Dwarf_Addr bias;
	Dwarf_Frame *frame;

	*ret = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
	if (!j->dwfl)
		j->dwfl = open_dwfl(j->pid);
	m = j->dwfl ? dwfl_addrmodule(j->dwfl, pc) : NULL;
	cfi = m ? dwfl_module_eh_cfi(m, &bias) : NULL;
	if (!cfi || dwarf_cfi_addrframe(cfi, pc - bias, &frame) != 0)
		return false;
	libdw_rule(frame, ret);
	free(frame);
	return true;
}

/* At the address of a row. */
static void compare_rules(struct judge *j, uint64_t row)
{
	const struct module *m = module_find(&j->modules, row);
	const struct eh_image *image = m ? eh_images_of(&j->images, m, &j->mem) : NULL;
	struct unwind_rule libdw, eh;

	if (!image || map64_get(&j->ruled, row) || !map64_put(&j->ruled, row, j))
		return;
	eh_frame_rule(image, row, &eh);
	if (!rule_of_libdw(j, row, &libdw) && eh.kind == UNWIND_NO_RULE)
		return;
	j->rules++;
	if (memcmp(&libdw, &eh, sizeof(eh)) == 0)
		return;
	j->rules_differ++;
	fprintf(stderr, "rules part at %s+0x%" PRIx64 ": libdw %u, eh_frame %u\n", m->path, row - m->bias,
		libdw.kind, eh.kind);
}

static void compare_all_rules(struct judge *j, const struct walk *w)
{
	bool exact = true;

	for (unsigned int i = 0; i < w->n; i++) {
		struct unwind_rule rule;

		compare_rules(j, w->frame[i] - !exact);
		cfi_rule(j->cfi, w->frame[i] - !exact, &rule);
		exact = rule.kind == UNWIND_SIGFRAME;
	}
}

static void print_frame(const struct judge *j, uint64_t pc)
{
	const struct module *m = module_find(&j->modules, pc);
	const char *base = m ? strrchr(m->path, '/') : NULL;
	const struct location *where = m ? symbolizer_lookup(j->symbols, pc) : NULL;
	const char *name = where ? where->frame[where->nframes - 1].function : NULL;

	if (!m)
		fprintf(stderr, "0x%" PRIx64, pc);
	else if (name)
		fprintf(stderr, "%s+0x%" PRIx64 " (%s+0x%" PRIx64 ")", name, where->offset,
			base ? base + 1 : m->path, pc - m->bias);
	else
		fprintf(stderr, "%s+0x%" PRIx64, base ? base + 1 : m->path, pc - m->bias);
}

static void print_next(const struct judge *j, const char *who, const struct walk *w, unsigned int k)
{
	fprintf(stderr, "; %s (%u): ", who, w->n);
	if (k < w->n)
		print_frame(j, w->frame[k]);
	else
		fprintf(stderr, "ends");
}

/* One line for each address below which the walks part, and party, so that a loop does not fill the screen.
 */
static void report(struct judge *j, const char *who, const struct walk *ours, const struct walk *other,
		   const struct walk *dwfl, enum walk_end why)
{
	unsigned int k = walk_common(ours, other);
	uint64_t last = ours->frame[k ? k - 1 : 0] ^ (uint64_t)who[0] << 56;

	for (unsigned int i = 0; i < j->nreported; i++)
		if (j->reported[i] == last)
			return;
	if (j->nreported < LINES_MAX)
		j->reported[j->nreported++] = last;
	fprintf(stderr, "parts from %s below frame %u, ", who, k ? k - 1 : 0);
	print_frame(j, ours->frame[k ? k - 1 : 0]);
	print_next(j, "ours", ours, k);
	print_next(j, who, other, k);
	print_next(j, "libdwfl", dwfl, k);
	fprintf(stderr, "; ours: %s; at ", end_name[why]);
	print_frame(j, ours->frame[0]);
	fprintf(stderr, "\n");
}

static void judge_by_rules_alone(struct judge *j, const struct regs *regs, const struct walk *ours,
				 enum walk_end end)
{
	struct walk alone = { .n = 0 };
	enum walk_end why;

	alone.n = cfi_walk(j->rules_only, regs, &j->mem, alone.frame, DEPTH, &why);
	j->no_rule_alone += why == WALK_END_NO_RULE;
	if (walk_common(&alone, ours) == alone.n &&
	    (why == WALK_END_NO_RULE || (alone.n == ours->n && why == end)))
		return;
	j->changed++;
	report(j, "rules alone", ours, &alone, &alone, end);
}

static void judge_stop(struct judge *j, const struct regs *regs, const struct walk *debugger)
{
	struct walk ours = { .n = 0 }, unwind = { .n = 0 }, dwfl = { .n = 0 };
	bool as_debugger, as_libunwind;
	enum walk_end why;

	if (!module_find(&j->modules, regs->r[WREG_RIP]))
		refresh(j);
	ours.n = cfi_walk(j->cfi, regs, &j->mem, ours.frame, DEPTH, &why);
	judge_by_rules_alone(j, regs, &ours, why);
	walkers_unwind(j->pid, regs, &unwind);
	as_debugger = walk_same(&ours, debugger);
	as_libunwind = walk_same(&ours, &unwind);
	if (!as_debugger || !as_libunwind)
		walkers_dwfl(j->pid, regs, &dwfl);
	j->stops++;
	if (!map64_get(&j->seen, regs->r[WREG_RIP]) && map64_put(&j->seen, regs->r[WREG_RIP], j))
		j->distinct++;
	j->frames += ours.n;
	j->end[why]++;
	j->as_debugger += as_debugger;
	j->as_libunwind += as_libunwind;
	j->as_dwfl += !as_libunwind && walk_same(&ours, &dwfl);
	note_traits(j, regs, &ours);
	compare_all_rules(j, &ours);
	if (!as_debugger)
		report(j, "gdb", &ours, debugger, &dwfl, why);
	if (!as_libunwind)
		report(j, "libunwind", &ours, &unwind, &dwfl, why);
}

static void send_later(pid_t pid, int microseconds)
{
	if (fork() == 0) {
		usleep((unsigned int)microseconds);
		kill(pid, SIGINT);
		_exit(0);
	}
}

static void print_result(const struct judge *j, const char *name, FILE *out)
{
	fprintf(out,
		"{\"program\": \"%s\", \"stops\": %lu, \"places\": %lu, \"frames\": %lu, \"as_gdb\": %lu, "
		"\"as_libunwind\": "
		"%lu, "
		"\"as_libdwfl_else\": %lu, \"rules\": %lu, \"rules_differ\": %lu, \"no_rule_alone\": %lu, "
		"\"changed\": %lu",
		name, j->stops, j->distinct, j->frames, j->as_debugger, j->as_libunwind, j->as_dwfl, j->rules,
		j->rules_differ, j->no_rule_alone, j->changed);
	for (unsigned int i = 0; i < TRAITS; i++)
		fprintf(out, ", \"%s\": %lu", trait_name[i], j->trait[i]);
	fprintf(out, ", \"ends\": {");
	for (unsigned int i = 0; i <= WALK_END_UNKNOWN_PC; i++)
		fprintf(out, "%s\"%s\": %lu", i ? ", " : "", end_name[i], j->end[i]);
	fprintf(out, "}}\n");
}

enum question_kind { QUESTION_MODULES = 1, QUESTION_INTERRUPT = 2, QUESTION_STOP = 3 };

struct question {
	int32_t kind, pid, argument, bytes;
};

static void answer(struct judge *j, const struct question *q, const uint64_t *payload)
{
	const size_t nregs = WREG_RIP + 1;
	struct regs regs = { { 0 } };
	struct walk debugger;

	j->pid = q->pid;
	switch ((enum question_kind)q->kind) {
	case QUESTION_MODULES:
		refresh(j);
		break;
	case QUESTION_INTERRUPT:
		send_later(q->pid, q->argument);
		break;
	case QUESTION_STOP:
		if ((size_t)q->bytes != 8 * (nregs + (size_t)q->argument))
			exit(2);
		debugger.n = (unsigned int)q->argument;
		memcpy(regs.r, payload, 8 * nregs);
		memcpy(debugger.frame, payload + nregs, 8 * (size_t)q->argument);
		judge_stop(j, &regs, &debugger);
		break;
	}
}

int main(int argc, char **argv)
{
	struct judge j = { .cfi = cfi_new(), .rules_only = cfi_new(), .symbols = symbolizer_new() };
	uint64_t payload[WREG_RIP + 1 + DEPTH];
	struct question q;
	FILE *out;

	if (argc != 3 || !j.cfi || !j.rules_only || !j.symbols) {
		fprintf(stderr, "usage: %s NAME RESULT\n", argv[0]);
		return 2;
	}
	cfi_use_rules_only(j.rules_only);
	elf_version(EV_CURRENT);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	j.mem = walkers_memory(&j.pid);
	while (fread(&q, sizeof(q), 1, stdin) == 1) {
		if (q.bytes < 0 || (size_t)q.bytes > sizeof(payload) ||
		    fread(payload, 1, (size_t)q.bytes, stdin) != (size_t)q.bytes)
			return 2;
		answer(&j, &q, payload);
		if (write(STDOUT_FILENO, ".", 1) != 1)
			return 2;
	}
	out = fopen(argv[2], "ae");
	if (!out) {
		perror(argv[2]);
		return 2;
	}
	print_result(&j, argv[1], out);
	fclose(out);
	walkers_unwind_forget();
	map64_deinit(&j.seen);
	map64_deinit(&j.ruled);
	eh_images_deinit(&j.images);
	dwfl_end(j.dwfl);
	module_list_deinit(&j.modules);
	symbolizer_free(j.symbols);
	cfi_free(j.cfi);
	cfi_free(j.rules_only);
	return 0;
}
