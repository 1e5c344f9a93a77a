/* The words and numbers that every view shows alike. */
#include "watchctl/view/words/view_words.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/event/view.h"

const char view_withheld[] = "(withheld)";

const char *text_kind(enum access_kind kind)
{
	switch (kind) {
	case ACCESS_READ:
		return "read";
	case ACCESS_WRITE:
		return "write";
	case ACCESS_READWRITE:
		return "rw";
	case ACCESS_EXECUTE:
		return "exec";
	case ACCESS_UNKNOWN:
		break;
	}
	return "?";
}

const char *text_kind_name(enum access_kind kind)
{
	static const char *const name[] = {
		[ACCESS_UNKNOWN] = "unknown",	  [ACCESS_READ] = "read",	[ACCESS_WRITE] = "write",
		[ACCESS_READWRITE] = "readwrite", [ACCESS_EXECUTE] = "execute",
	};

	return name[kind];
}

const char *text_access(uint32_t access)
{
	switch (access) {
	case ACCESS_READ:
		return "reads";
	case ACCESS_WRITE:
		return "writes";
	case ACCESS_EXECUTE:
		return "executions";
	default:
		return "reads and writes";
	}
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void text_place(const char *module, uint64_t module_offset, const char *function, uint64_t offset,
		uint64_t ip, char *buf, size_t cap)
{
	char clean[CELL_TEXT - 32];

	if (function) {
		utf8_clean(function, clean, sizeof(clean));
		snprintf(buf, cap, offset ? "%s+%llu" : "%s", clean, (unsigned long long)offset);
	} else if (module) {
		utf8_clean(text_base_name(module), clean, sizeof(clean));
		snprintf(buf, cap, "%s+0x%llx", clean, (unsigned long long)module_offset);
	} else {
		snprintf(buf, cap, "0x%llx", (unsigned long long)ip);
	}
}

void text_source(const char *file, unsigned int line, char *buf, size_t cap)
{
	char clean[256];

	buf[0] = '\0';
	if (!file)
		return;
	utf8_clean(text_base_name(file), clean, sizeof(clean));
	if (line)
		snprintf(buf, cap, "%s:%u", clean, line);
	else
		snprintf(buf, cap, "%s", clean);
}

enum text_step text_step_of(const struct value_type *t, unsigned int size, bool has_both, bool uncertain,
			    uint64_t old_value, uint64_t new_value)
{
	if (uncertain)
		return STEP_UNCERTAIN;
	return has_both && value_is_same(t, size, old_value, new_value) ? STEP_SAME : STEP_CHANGES;
}

void text_change(enum access_kind kind, const char *old_text, const char *new_text, enum text_step step,
		 char *buf, size_t cap)
{
	char was[200], is[200];

	utf8_clean(old_text ? old_text : "?", was, sizeof(was));
	utf8_clean(new_text ? new_text : "?", is, sizeof(is));
	if (kind == ACCESS_EXECUTE)
		buf[0] = '\0';
	else if (new_text == view_withheld)
		snprintf(buf, cap, "%s", view_withheld);
	else if (kind == ACCESS_READ || (kind == ACCESS_UNKNOWN && step == STEP_SAME) ||
		 (!old_text && !new_text))
		snprintf(buf, cap, "%s", is);
	else if (step == STEP_SAME)
		snprintf(buf, cap, "%s (same)", is);
	else
		snprintf(buf, cap, "%s%s -> %s", step == STEP_UNCERTAIN ? "~" : "", was, is);
}

void text_number(uint64_t v, char *buf, size_t cap)
{
	snprintf(buf, cap, v < (uint64_t)1 << 40 ? "%llu" : "0x%llx", (unsigned long long)v);
}

void text_duration(uint64_t ns, char *buf, size_t cap)
{
	if (ns < 1000)
		snprintf(buf, cap, "%llu ns", (unsigned long long)ns);
	else if (ns < 1000000)
		snprintf(buf, cap, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(buf, cap, "%.1f ms", (double)ns / 1e6);
	else
		snprintf(buf, cap, "%.1f s", (double)ns / 1e9);
}

const char *text_walk_end(enum walk_end why)
{
	switch (why) {
	case WALK_END_COMPLETE:
		return NULL;
	case WALK_END_DEPTH:
		return "more frames were not recorded";
	case WALK_END_UNREADABLE:
		return "the stack could not be read further";
	case WALK_END_NO_RULE:
		return "no unwind information for the code of the last frame";
	case WALK_END_NOT_ASCENDING:
		return "the next frame is below this one: another stack, or a corrupted one";
	case WALK_END_UNKNOWN_PC:
		return "the code of the last frame was not known when it was recorded";
	case WALK_END_LOST:
		return "the rest of the stack was in a part of the log that is missing";
	}
	return "for a reason this version does not know";
}

const char *text_walk_end_name(enum walk_end why)
{
	static const char *const name[] = {
		[WALK_END_COMPLETE] = "complete",
		[WALK_END_DEPTH] = "depth",
		[WALK_END_UNREADABLE] = "unreadable",
		[WALK_END_NO_RULE] = "no_rule",
		[WALK_END_NOT_ASCENDING] = "not_ascending",
		[WALK_END_UNKNOWN_PC] = "unknown_pc",
		[WALK_END_LOST] = "lost",
	};

	return name[why];
}

static const char *const reg_names[WREG_COUNT] = {
	[WREG_RAX] = "rax", [WREG_RDX] = "rdx",	      [WREG_RCX] = "rcx",	  [WREG_RBX] = "rbx",
	[WREG_RSI] = "rsi", [WREG_RDI] = "rdi",	      [WREG_RBP] = "rbp",	  [WREG_RSP] = "rsp",
	[WREG_R8] = "r8",   [WREG_R9] = "r9",	      [WREG_R10] = "r10",	  [WREG_R11] = "r11",
	[WREG_R12] = "r12", [WREG_R13] = "r13",	      [WREG_R14] = "r14",	  [WREG_R15] = "r15",
	[WREG_RIP] = "rip", [WREG_RFLAGS] = "rflags", [WREG_FS_BASE] = "fs_base",
};

const char *text_reg_name(enum reg r)
{
	return reg_names[r];
}
