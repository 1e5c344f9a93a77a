#include "watchctl/patch/plan/pattern.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/reg_names.h"
#include "watchctl/patch/plan/pattern_impl.h"

struct parser {
	struct pattern *p;
	const char *at;
	struct wc_error *err; /* the first; what is parsed after it nobody looks at */
};

static struct wc_error *make_error(const struct pattern *p, enum wc_kind kind, const char *at,
				   const char *fmt, va_list ap)
{
	scoped(freep) char *what = NULL;
	int column = (int)(at - p->text);

	if (vasprintf(&what, fmt, ap) < 0) {
		what = NULL;
		return &wc_enomem;
	}
	return wc_error_new(kind, "%s, at column %d of the pattern:\n  %s\n  %*s^", what, column + 1, p->text,
			    column, "");
}

struct wc_error *pattern_error(const struct pattern *p, enum wc_kind kind, const char *at, const char *fmt,
			       ...)
{
	struct wc_error *err;
	va_list ap;

	va_start(ap, fmt);
	err = make_error(p, kind, at, fmt, ap);
	va_end(ap);
	return err;
}

static void fail(struct parser *s, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct parser *s, const char *at, const char *fmt, ...)
{
	va_list ap;

	if (s->err)
		return;
	va_start(ap, fmt);
	s->err = make_error(s->p, WC_EUSAGE, at, fmt, ap);
	va_end(ap);
}

static char *keep(struct parser *s, const char *start, size_t len)
{
	char *copy = strndup(start, len);

	if (!copy && !s->err)
		s->err = &wc_enomem;
	return copy;
}

/* Words */

static void skip_blanks(struct parser *s)
{
	while (isspace((unsigned char)*s->at))
		s->at++;
}

/* What a mnemonic, a register, a name or a group is made of: names of C++ with parameters are not. */
static size_t word_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]) || (at[n] && strchr("_.$@?*:~", at[n])))
		n++;
	return n;
}

static bool is_word(const char *at, size_t len, const char *word)
{
	return strlen(word) == len && !strncasecmp(at, word, len);
}

static bool take_char(struct parser *s, char c)
{
	skip_blanks(s);
	if (*s->at != c)
		return false;
	s->at++;
	return true;
}

static bool take_word(struct parser *s, const char *word)
{
	size_t n;

	skip_blanks(s);
	n = word_length(s->at);
	if (!is_word(s->at, n, word))
		return false;
	s->at += n;
	return true;
}

static bool at_end(struct parser *s)
{
	skip_blanks(s);
	return !*s->at;
}

/* Decimal or 0x. False: there is none. */
static bool take_number(struct parser *s, uint64_t *ret)
{
	bool hex = s->at[0] == '0' && (s->at[1] == 'x' || s->at[1] == 'X');
	char *end;

	if (!isdigit((unsigned char)*s->at) || (hex && !isxdigit((unsigned char)s->at[2])))
		return false;
	*ret = strtoull(s->at, &end, hex ? 16 : 10);
	if (isalnum((unsigned char)*end) || *end == '_')
		return false;
	s->at = end;
	return true;
}

/* Registers */

static bool fits_any(const char *const *globs, const char *name)
{
	for (; *globs; globs++)
		if (!fnmatch(*globs, name, 0))
			return true;
	return false;
}

bool pattern_is_register(const char *name)
{
	static const char *const globs[] = { "[re][abcd]x",	 "[abcd][xlh]",	 "[re][sd]i",
					     "[re][sb]p",	 "[sd]i",	 "[sb]p",
					     "[sd]il",		 "[sb]pl",	 "[re]ip",
					     "[cdefgs]s",	 "r[89]",	 "r1[0-5]",
					     "r[89][bwd]",	 "r1[0-5][bwd]", "[xyz]mm[0-9]",
					     "[xyz]mm[12][0-9]", "[xyz]mm3[01]", "k[0-7]",
					     "mm[0-7]",		 "[cd]r[0-9]",	 NULL };

	return fits_any(globs, name);
}

bool pattern_is_vector(const char *name)
{
	return pattern_is_register(name) && !strncmp(name + 1, "mm", 2);
}

/* Memory */

static uint8_t size_by_word(const char *at, size_t len)
{
	static const struct {
		const char *word;
		uint8_t size;
	} sizes[] = { { "byte", 1 },   { "word", 2 },	  { "dword", 4 },    { "qword", 8 },
		      { "tbyte", 10 }, { "xmmword", 16 }, { "ymmword", 32 }, { "zmmword", 64 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (is_word(at, len, sizes[i].word))
			return sizes[i].size;
	return 0;
}

static void lower(char *s)
{
	for (; s && *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

static void put_register(struct parser *s, struct pattern_memory *mem, const char *at, size_t len)
{
	scoped(freep) char *name = keep(s, at, len);
	uint64_t scale = 1;
	bool scaled;

	lower(name);
	if (name && !pattern_is_register(name))
		fail(s, at, "\"%s\" is no register", name);
	scaled = take_char(s, '*');
	skip_blanks(s);
	if (scaled && (!take_number(s, &scale) || !scale || scale > 8 || scale & (scale - 1)))
		fail(s, s->at, "a scale is 1, 2, 4 or 8");
	if (!scaled && !mem->base) {
		mem->base = take_ptr(name);
	} else if (!mem->index) {
		mem->index = take_ptr(name);
		mem->scale = (uint8_t)scale;
	} else {
		fail(s, at, "an address has one base and one index");
	}
}

/* Of a register the name alone: "*" behind it begins a scale. */
static size_t register_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]))
		n++;
	return n;
}

static void parse_term(struct parser *s, struct pattern_memory *mem, bool negative)
{
	uint64_t number;
	size_t n;

	skip_blanks(s);
	n = register_length(s->at);
	if (take_char(s, '*')) {
		mem->rest = true;
	} else if (take_number(s, &number)) {
		mem->disp += negative ? -(int64_t)number : (int64_t)number;
	} else if (n && !negative) {
		const char *at = s->at;

		s->at += n;
		put_register(s, mem, at, n);
	} else {
		fail(s, s->at, "a register, a number or * was expected");
	}
}

static void parse_brackets(struct parser *s, struct pattern_memory *mem)
{
	bool negative = false;

	do {
		parse_term(s, mem, negative);
		skip_blanks(s);
		negative = *s->at == '-';
	} while (!s->err && (take_char(s, '+') || take_char(s, '-')));
	if (!take_char(s, ']'))
		fail(s, s->at, "\"]\" was expected");
}

/* False: there is none. */
static bool parse_memory(struct parser *s, struct pattern_memory *mem)
{
	const char *start;
	size_t n;

	skip_blanks(s);
	start = s->at;
	n = word_length(s->at);
	mem->size = size_by_word(s->at, n);
	if (mem->size) {
		s->at += n;
		if (!take_word(s, "ptr"))
			fail(s, s->at, "\"ptr\" was expected behind the size");
	}
	if (take_word(s, "mem")) {
		mem->rest = true;
		return true;
	}
	if (take_char(s, '[')) {
		parse_brackets(s, mem);
		return true;
	}
	if (mem->size)
		fail(s, s->at, "\"[\" was expected");
	s->at = start;
	return false;
}

/* Operands */

static bool is_class(const char *at, size_t len)
{
	static const char *const classes[] = { "reg", "reg8", "reg16", "reg32", "reg64",
					       "xmm", "ymm",  "zmm",   "vec" };

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (is_word(at, len, classes[i]))
			return true;
	return false;
}

static bool goes_somewhere(const struct pattern_element *e)
{
	return e->kind == ELEMENT_CALL || e->kind == ELEMENT_BRANCH ||
	       (e->kind == ELEMENT_INSN &&
		(e->name[0] == 'j' || e->name[0] == '*' || !fnmatch(e->name, "call", 0)));
}

static void parse_word_operand(struct parser *s, const struct pattern_element *e, struct pattern_operand *o)
{
	size_t n = word_length(s->at);
	scoped(freep) char *small = keep(s, s->at, n);

	lower(small);
	if (!small)
		return;
	if (is_word(s->at, n, "*"))
		o->kind = OPERAND_ANY;
	else if (is_word(s->at, n, "imm"))
		o->kind = OPERAND_IMM;
	else if (is_class(s->at, n))
		o->kind = OPERAND_CLASS;
	else if (pattern_is_register(small))
		o->kind = OPERAND_REG;
	else
		o->kind = OPERAND_NAME;
	o->name = o->kind == OPERAND_NAME ? keep(s, s->at, n) : take_ptr(small);
	if (!n)
		fail(s, s->at,
		     "an operand was expected: *, a register, reg64, mem, [rdi+*], imm or a number");
	else if (o->kind == OPERAND_NAME && !goes_somewhere(e))
		fail(s, s->at, "\"%s\" is no register, and no class of operands", o->name ? o->name : "");
	s->at += n;
}

static void parse_operand(struct parser *s, const struct pattern_element *e, struct pattern_operand *o)
{
	uint64_t number = 0;
	bool negative;

	skip_blanks(s);
	o->at = s->at;
	if (parse_memory(s, &o->mem)) {
		o->kind = OPERAND_MEM;
		return;
	}
	negative = take_char(s, '-');
	if (take_number(s, &number)) {
		o->kind = OPERAND_NUMBER;
		o->number = negative ? -(int64_t)number : (int64_t)number;
	} else if (negative) {
		fail(s, s->at, "a number was expected behind \"-\"");
	} else {
		parse_word_operand(s, e, o);
	}
}

static void parse_operands(struct parser *s, struct pattern_element *e)
{
	if (at_end(s) || *s->at == ';')
		return;
	do {
		if (e->noperands == PATTERN_OPERANDS) {
			fail(s, s->at, "no instruction has more than %d operands", PATTERN_OPERANDS);
			return;
		}
		parse_operand(s, e, &e->operand[e->noperands++]);
	} while (!s->err && take_char(s, ','));
}

/* Elements */

static bool is_prefix(const char *at, size_t len)
{
	static const char *const prefixes[] = { "lock",	 "rep",	  "repe", "repz",
						"repne", "repnz", "bnd",  "notrack" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (is_word(at, len, prefixes[i]))
			return true;
	return false;
}

static void parse_group(struct parser *s, struct pattern_element *e)
{
	static const struct {
		const char *word;
		enum pattern_element_kind kind;
	} groups[] = { { "@call", ELEMENT_CALL },	{ "@branch", ELEMENT_BRANCH },
		       { "@syscall", ELEMENT_SYSCALL }, { "@locked", ELEMENT_LOCKED },
		       { "@store", ELEMENT_STORE },	{ "@ret", ELEMENT_RET } };

	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		if (!take_word(s, groups[i].word))
			continue;
		e->kind = groups[i].kind;
		return;
	}
	fail(s, s->at, "the groups are @call, @branch, @syscall, @locked, @store and @ret");
}

static void parse_access(struct parser *s, struct pattern_element *e)
{
	struct pattern_operand *o = &e->operand[0];
	struct reg_name reg;

	e->noperands = 1;
	parse_operand(s, e, o);
	if (!s->err && o->kind != OPERAND_MEM && o->kind != OPERAND_REG)
		fail(s, o->at,
		     "a register or memory was expected, as in \"reads rax\" and \"writes [rip+*]\"");
	else if (!s->err && o->kind == OPERAND_REG && !reg_by_name(o->name, &reg) &&
		 !pattern_is_vector(o->name))
		fail(s, o->at,
		     "what reads and writes it is known of general registers, and of xmm0 to zmm31");
}

static void parse_insn(struct parser *s, struct pattern_element *e)
{
	size_t n = word_length(s->at);

	e->kind = ELEMENT_INSN;
	if (is_prefix(s->at, n)) {
		e->prefix = keep(s, s->at, n);
		lower(e->prefix);
		s->at += n;
		skip_blanks(s);
		n = word_length(s->at);
	}
	if (!n)
		fail(s, s->at, "a mnemonic was expected");
	e->at = s->at;
	e->name = keep(s, s->at, n);
	lower(e->name);
	s->at += n;
	if (!s->err)
		parse_operands(s, e);
}

static void parse_element(struct parser *s, struct pattern_element *e)
{
	size_t n;

	skip_blanks(s);
	n = word_length(s->at);
	if (*s->at == '@') {
		parse_group(s, e);
		if (!s->err)
			parse_operands(s, e);
	} else if (take_word(s, "reads")) {
		e->kind = ELEMENT_READS;
		parse_access(s, e);
	} else if (take_word(s, "writes")) {
		e->kind = ELEMENT_WRITES;
		parse_access(s, e);
	} else if (is_word(s->at, n, "*")) {
		e->kind = ELEMENT_ANY;
		s->at += n;
	} else {
		parse_insn(s, e);
	}
}

static void parse_elements(struct parser *s)
{
	struct pattern *p = s->p;

	p->kind = PATTERN_CODE;
	do {
		if (!vec_push(p->element, p->nelements, p->element_cap, (struct pattern_element){ 0 })) {
			s->err = s->err ? s->err : &wc_enomem;
			return;
		}
		parse_element(s, &p->element[p->nelements - 1]);
	} while (!s->err && take_char(s, ';'));
	if (!s->err && !at_end(s))
		fail(s, s->at, "\";\", \",\" or the end was expected");
}

/* The other kinds */

static void parse_nibble(struct parser *s, uint8_t *byte, uint8_t *mask)
{
	char c = *s->at;

	*byte = (uint8_t)(*byte << 4);
	*mask = (uint8_t)(*mask << 4);
	if (isxdigit((unsigned char)c)) {
		*byte |=
			(uint8_t)(isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10);
		*mask |= 0x0f;
	} else if (c != '?') {
		fail(s, s->at, "two hexadecimal digits, or ?, were expected");
		return;
	}
	s->at++;
}

static void parse_bytes(struct parser *s)
{
	struct pattern *p = s->p;

	p->kind = PATTERN_MASK;
	do {
		if (p->nbytes == PATTERN_BYTES) {
			fail(s, s->at, "a pattern has at most %d bytes", PATTERN_BYTES);
			return;
		}
		skip_blanks(s);
		parse_nibble(s, &p->byte[p->nbytes], &p->mask[p->nbytes]);
		if (!s->err)
			parse_nibble(s, &p->byte[p->nbytes], &p->mask[p->nbytes]);
		p->nbytes++;
	} while (!s->err && !at_end(s));
}

/* The rest is one name: of C++ with parameters and blanks. */
static void parse_function(struct parser *s, enum pattern_kind kind)
{
	struct pattern *p = s->p;
	size_t n;

	p->kind = kind;
	skip_blanks(s);
	n = strlen(s->at);
	while (n && isspace((unsigned char)s->at[n - 1]))
		n--;
	if (!n)
		fail(s, s->at, "the name of a function was expected; * stands for all of them");
	p->name_at = s->at;
	p->name = keep(s, s->at, n);
}

/* "file.c:412" and "malloc+0x1c": no instruction is written so. */
static bool parse_place(struct parser *s)
{
	struct pattern *p = s->p;
	const char *start = s->at, *colon = strrchr(start, ':'), *plus = strrchr(start, '+');
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;

	if (strpbrk(start, " ;,[")) {
		return false;
	}
	if (take_number(s, &p->number) && !*s->at) {
		p->kind = PATTERN_ADDRESS;
		return true;
	}
	s->at = start;
	p->name_at = start;
	if (digits && !colon[1 + digits] && colon > start) {
		p->kind = PATTERN_LINE;
		p->name = keep(s, start, strlen(start));
		return true;
	}
	if (!plus || plus == start)
		return false;
	s->at = plus + 1;
	p->kind = PATTERN_OFFSET;
	p->name = keep(s, start, (size_t)(plus - start));
	if (!take_number(s, &p->number) || *s->at)
		fail(s, plus + 1, "an offset like 28 or 0x1c was expected");
	return true;
}

static void parse_all(struct parser *s)
{
	if (at_end(s))
		fail(s, s->at, "a pattern was expected, like \"syscall\" or \"entry malloc\"");
	else if (take_word(s, "bytes"))
		parse_bytes(s);
	else if (take_word(s, "entry"))
		parse_function(s, PATTERN_ENTRY);
	else if (take_word(s, "exit"))
		parse_function(s, PATTERN_EXIT);
	else if (!parse_place(s))
		parse_elements(s);
}

/* Without blanks at its end, which would stand below the caret's line. */
static char *trimmed(const char *text)
{
	size_t n = strlen(text);

	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	return strndup(text, n);
}

struct wc_error *pattern_parse(const char *text, struct pattern *ret)
{
	struct pattern p = { .text = trimmed(text) };
	struct parser s = { &p, p.text, NULL };

	if (!p.text)
		return &wc_enomem;
	parse_all(&s);
	for (size_t i = 0; i < p.nelements && !s.err; i++)
		s.err = pattern_find_names(&p, &p.element[i]);
	if (s.err) {
		pattern_deinit(&p);
		return s.err;
	}
	*ret = p;
	return NULL;
}

struct wc_error *pattern_of_kind(enum pattern_kind kind, struct pattern *ret)
{
	*ret = (struct pattern){ .kind = kind,
				 .text = strdup(kind == PATTERN_STUB	  ? "stub *"
						: kind == PATTERN_LANDING ? "landing *"
									  : "address") };
	return ret->text ? NULL : &wc_enomem;
}

static void operand_deinit(struct pattern_operand *o)
{
	free(o->name);
	free(o->mem.base);
	free(o->mem.index);
}

void pattern_deinit(struct pattern *p)
{
	for (size_t i = 0; i < p->nelements; i++) {
		for (size_t k = 0; k < p->element[i].noperands; k++)
			operand_deinit(&p->element[i].operand[k]);
		free(p->element[i].prefix);
		free(p->element[i].name);
		free(p->element[i].may);
	}
	free(p->element);
	free(p->name);
	free(p->text);
	*p = (struct pattern){ 0 };
}
