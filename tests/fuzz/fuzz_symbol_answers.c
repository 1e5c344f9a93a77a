/*
 * A process that resolves symbols reads files that may be damaged, and may say anything when they have
 * damaged it: what it says is taken or left, and the answers that are taken are whole.
 */
#include "watchctl/code/symbols/symbol_workers.c" /* what it hears is its own business */

#include "tests/fuzz/fuzz.h"
#include "watchctl/code/strings.h"

#define JOBS 6

static void check_answer(const struct symbol_answer *a)
{
	require(a->nframes > 0);
	for (uint32_t i = 0; i < a->nframes; i++) {
		fuzz_read(a->frame[i].function);
		fuzz_read(a->frame[i].file);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct module m = { .start = 0x1000, .end = 0x2000, .path = (char *)"/nowhere/at/all" };
	struct symbol_file *file = symbol_file_new(&m, NULL);
	struct symbol_job job[JOBS] = { { .file = file } };
	struct strings pool = { 0 };
	struct round r = { .job = job, .njobs = JOBS, .pool = &pool };
	struct worker w = { .fd = -1 };
	size_t at = 0, answered = 0;

	require(file);
	for (size_t i = 0; i < JOBS; i++)
		job[i] = (struct symbol_job){ .file = file, .vaddr = 0x1000 + i };
	/* In pieces, as a pipe gives them. */
	while (at < size && !r.no_memory) {
		size_t n = data[at] ? data[at] : 200;

		n = n < size - at ? n : size - at;
		require(vec_reserve((void **)&w.buf, &w.cap, w.len + n, 1));
		memcpy(w.buf + w.len, data + at, n);
		w.len += n;
		at += n;
		take_messages(&r, &w);
	}
	for (size_t i = 0; i < JOBS; i++)
		if (job[i].answer) {
			check_answer(job[i].answer);
			answered++;
		}
	require(answered == r.done);
	free(w.buf);
	strings_deinit(&pool);
	symbol_file_free(file);
	return 0;
}
