/*
 * libunwind unwinds processes: it looks for the module of an address, its tables, and in them the entry. All
 * this we have done. So each step shows it a process of one function, whose table has one entry, written anew
 * from the instructions that were found:
 *
 *	BASE		the table: { where the function starts, where its FDE is }, counted from BASE
 *	BASE + 8	CIE, FDE
 *	CODE		the function, of which nothing can be read
 *
 * Addresses there belong to no program, so that whatever else it reads is the recorded stack's. Rows do not
 * depend on where a function lies: an expression with rip in it never comes here.
 *
 * What libunwind does without a table, guess by rbp and by the bytes of the code, is never wanted: it reads
 * the code first, and that is noticed.
 */
#include "watchctl/code/unwind/unwind_slice.h"

#include <stdlib.h>
#include <string.h>

#include <libunwind-x86_64.h>

#define BASE 0x7000000000000000ull
#define CODE_OFFSET 0x10000000u
#define CODE (BASE + CODE_OFFSET)
#define CODE_MAX 0x60000000u	  /* offsets have 31 bits */
#define PROGRAM_MAX (1u << 20)	  /* bytes of instructions: real ones have some thousand */
#define ACCESSES_MAX (1u << 18)	  /* of one step: it ends expressions that loop */
#define HEAD_MAX (8 + 2 * 8 + 80) /* table, what the two entries begin with, and padding */

/* libunwind exports this function to all who read tables of other processes, but no header declares it. */
int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
				       unw_proc_info_t *pi, int need_unwind_info, void *arg);

struct unwind_slice {
	unw_addr_space_t space;
	uint8_t *image; /* what lies at BASE, in whole words */
	size_t len, cap;
};

/* What the accessors work on. */
struct step {
	const struct unwind_slice *u;
	const struct memory_view *mem;
	const struct regs *regs;
	uint64_t ip, size; /* at CODE, and of the function */
	uint32_t known;	   /* registers, by number */
	unsigned int accesses;
	bool guesses; /* it has no table any more */
};

static bool spend(struct step *s)
{
	return s->accesses++ < ACCESSES_MAX;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	const struct step *s = arg;
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE,
			      .start_ip = CODE,
			      .end_ip = CODE + s->size };

	if (ip != s->ip)
		return -UNW_ENOINFO;
	di.u.rti.segbase = BASE;
	di.u.rti.table_data = BASE;
	di.u.rti.table_len = 8 / sizeof(unw_word_t);
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
}

static int get_dyn_info_list_addr(unw_addr_space_t as, unw_word_t *addr, void *arg)
{
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *word, int write, void *arg)
{
	struct step *s = arg;
	uint64_t offset = addr - BASE;

	if (write || !spend(s))
		return -UNW_EINVAL;
	if (addr >= CODE && addr - CODE < CODE_MAX)
		s->guesses = true;
	if (offset <= s->u->len - sizeof(*word)) {
		memcpy(word, s->u->image + offset, sizeof(*word));
		return 0;
	}
	return memory_read(s->mem, addr, word, sizeof(*word)) ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *word, int write, void *arg)
{
	struct step *s = arg;

	if (write || !spend(s) || reg < 0 || reg > WREG_RIP)
		return -UNW_EBADREG;
	if (reg == WREG_RIP) {
		*word = s->ip;
		return 0;
	}
	*word = s->regs->r[reg];
	return s->known >> (unsigned int)reg & 1 ? 0 : -UNW_EBADREG;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *word, int write, void *arg)
{
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t as, unw_word_t addr, char *buf, size_t len, unw_word_t *offset,
			 void *arg)
{
	return -UNW_EINVAL;
}

struct unwind_slice *unwind_slice_new(void)
{
	unw_accessors_t accessors = { .find_proc_info = find_proc_info,
				      .put_unwind_info = put_unwind_info,
				      .get_dyn_info_list_addr = get_dyn_info_list_addr,
				      .access_mem = access_mem,
				      .access_reg = access_reg,
				      .access_fpreg = access_fpreg,
				      .resume = resume,
				      .get_proc_name = get_proc_name };
	struct unwind_slice *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->space = unw_create_addr_space(&accessors, 0);
	if (!u->space) {
		free(u);
		return NULL;
	}
	/* Every step has another function at the same address. */
	unw_set_caching_policy(u->space, UNW_CACHE_NONE);
	return u;
}

void unwind_slice_free(struct unwind_slice *u)
{
	if (!u)
		return;
	unw_destroy_addr_space(u->space);
	free(u->image);
	free(u);
}

static void put(struct unwind_slice *u, const void *bytes, size_t len)
{
	if (len)
		memcpy(u->image + u->len, bytes, len);
	u->len += len;
}

static void put_u32(struct unwind_slice *u, size_t value)
{
	uint32_t v = (uint32_t)value;

	put(u, &v, sizeof(v));
}

/* Ten bytes, whatever it is. */
static void put_leb(struct unwind_slice *u, uint64_t v, bool is_signed)
{
	bool negative = is_signed && v >> 63;
	uint8_t bytes[10];

	for (unsigned int i = 0; i < 9; i++, v >>= 7)
		bytes[i] = (v & 0x7f) | 0x80;
	bytes[9] = negative ? 0x7f : (uint8_t)v;
	put(u, bytes, sizeof(bytes));
}

/* Sets the length of the entry that begins at @start and ends here. */
static void close_entry(struct unwind_slice *u, size_t start)
{
	uint32_t len = (uint32_t)(u->len - start - sizeof(len));

	memcpy(u->image + start, &len, sizeof(len));
}

/* Version 1, no augmentation; the address of the function in full. */
static bool write_image(struct unwind_slice *u, const struct unwind_program *p)
{
	const uint8_t version_and_augmentation[] = { 1, 0 }, return_address = WREG_RIP;
	const uint64_t function[] = { CODE, p->end - p->start };
	const size_t cie = 8;
	size_t fde, want;

	if (p->common_len > PROGRAM_MAX || p->own_len > PROGRAM_MAX)
		return false;
	want = HEAD_MAX + p->common_len + p->own_len;
	if (want > u->cap) {
		uint8_t *more = realloc(u->image, want);

		if (!more)
			return false;
		u->image = more;
		u->cap = want;
	}
	u->len = cie;
	put_u32(u, 0);
	put_u32(u, 0);
	put(u, version_and_augmentation, sizeof(version_and_augmentation));
	put_leb(u, p->code_align, false);
	put_leb(u, (uint64_t)p->data_align, true);
	put(u, &return_address, 1);
	put(u, p->common, p->common_len);
	close_entry(u, cie);

	fde = u->len;
	put_u32(u, 0);
	put_u32(u, u->len - cie);
	put(u, function, sizeof(function));
	put(u, p->own, p->own_len);
	close_entry(u, fde);

	memcpy(u->image, (const uint32_t[]){ CODE_OFFSET, (uint32_t)fde }, 8);
	memset(u->image + u->len, 0, 8);
	u->len = (u->len + 7) & ~(size_t)7;
	return true;
}

/* What the caller has of the frame that @cursor is at. */
static bool read_caller(unw_cursor_t *cursor, struct regs *regs)
{
	static const uint8_t given_back[] = { WREG_RBX, WREG_RBP, WREG_RSP, WREG_R12,
					      WREG_R13, WREG_R14, WREG_R15, WREG_RIP };

	for (size_t i = 0; i < sizeof(given_back); i++)
		if (unw_get_reg(cursor, given_back[i], (unw_word_t *)&regs->r[given_back[i]]) < 0)
			return false;
	return true;
}

enum unwind_step_result unwind_slice_step(struct unwind_slice *u, const struct unwind_program *p,
					  uint64_t row, bool exact, const struct memory_view *mem,
					  struct regs *regs)
{
	const uint32_t given_back = 1u << WREG_RBX | 1u << WREG_RBP | 1u << WREG_RSP | 0xfu << WREG_R12;
	struct step s = { .u = u,
			  .mem = mem,
			  .regs = regs,
			  .ip = CODE + (row - p->start),
			  .size = p->end - p->start,
			  .known = exact ? (1u << WREG_RIP) - 1 : given_back };
	struct regs caller = *regs;
	unw_cursor_t cursor;

	if (row < p->start || row >= p->end || s.size > CODE_MAX || !write_image(u, p))
		return UNWIND_STEP_NO_RULE;
	/* 0: it is said to be the outermost, for reasons that are not ours. */
	if (unw_init_remote(&cursor, u->space, &s) < 0 || unw_step(&cursor) <= 0 || s.guesses ||
	    !read_caller(&cursor, &caller) || s.accesses >= ACCESSES_MAX)
		return UNWIND_STEP_NO_RULE;
	*regs = caller;
	return UNWIND_STEP_OK;
}
