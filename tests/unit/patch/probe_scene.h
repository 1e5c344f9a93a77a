/* probe_scene - probes that are compiled, put into our own memory, and called there; and what they have recorded. */
#ifndef TESTS_UNIT_PATCH_PROBE_SCENE_H
#define TESTS_UNIT_PATCH_PROBE_SCENE_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/probe.h"
#include "probe/wire.h"
#include "tests/unit/patch/probe_caller.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_build.h"
#include "watchctl/patch/probe/probe_image.h"

#define HEADER "#include <watchctl/probe.h>\n"
#define SCENE_SITES 8
#define SCENE_WORDS 4200

/* A folder of our own, which is $TMPDIR, too. */
struct work {
	char dir[64];
};

static void work_open(struct work *w)
{
	strcpy(w->dir, "/tmp/test_probe_build-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	setenv("TMPDIR", w->dir, 1);
}

static int work_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void work_close(struct work *w)
{
	unsetenv("TMPDIR");
	nftw(w->dir, work_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static void work_write(const struct work *w, const char *name, const char *text, char *path)
{
	sprintf(path, "%s/%s", w->dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* The compiler's words go to the file "words". */
static struct wc_error *work_build(const struct work *w, const char *name, const char *text, const char *cc,
				   struct probe_image *ret)
{
	char path[128], words[128];
	const char *source = path;

	work_write(w, name, text, path);
	sprintf(words, "%s/words", w->dir);
	int fd = open(words, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	const struct probe_build_request q = { &source, 1, cc, fd };
	struct wc_error *err = probe_build(&q, ret);
	close(fd);
	return err;
}

static char *work_words(const struct work *w)
{
	static char text[8192];
	char path[128];

	sprintf(path, "%s/words", w->dir);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

struct scene {
	struct work work;
	struct probe_image image;
	uint8_t *memory;
	struct probe_shared *shared;
	struct probe_counter *counter;
	struct probe_site site[SCENE_SITES]; /* of the functions, by name */
	size_t size, shared_size;
};

static void scene_open_with(struct scene *s, const char *cc, const char *text, uint32_t nrings,
			    uint32_t slots)
{
	memset(s, 0, sizeof(*s));
	work_open(&s->work);
	struct wc_error *err = work_build(&s->work, "p.c", text, cc, &s->image);
	if (err)
		fail_msg("%s\n%s", err->text, work_words(&s->work));
	assert_string_equal(work_words(&s->work), "");

	s->size = s->image.code_size + s->image.data_size;
	s->memory = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->shared_size =
		sizeof(*s->shared) + SCENE_SITES * sizeof(*s->counter) + (size_t)nrings * slots * PROBE_SLOT;
	s->shared = mmap(NULL, s->shared_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(s->memory != MAP_FAILED && s->shared != MAP_FAILED);
	probe_image_relocate(&s->image, (uint64_t)s->memory, s->memory);
	memcpy(s->memory + s->image.shared_at, &s->shared, sizeof(s->shared));
	assert_return_code(mprotect(s->memory, s->image.code_size, PROT_READ | PROT_EXEC), 0);

	s->counter = (struct probe_counter *)(s->shared + 1);
	s->shared->nrings = nrings;
	s->shared->slots = slots;
	s->shared->stack_bytes = 64;
	s->shared->pid = getpid();
	s->shared->counter_at = (uint64_t)s->counter;
	s->shared->counters = SCENE_SITES;
	s->shared->slot_at = (uint64_t)(s->counter + SCENE_SITES);
	assert_true(s->image.nfunctions <= SCENE_SITES);
	for (uint32_t i = 0; i < s->image.nfunctions; i++)
		s->site[i] = (struct probe_site){ .addr = 0x401000,
						  .rip = 0x401000 + i,
						  .function = (uint64_t)s->memory + s->image.function[i].at,
						  .counter = (uint64_t)&s->counter[i],
						  .id = i };
}

__attribute__((unused)) static void scene_open(struct scene *s, const char *text)
{
	scene_open_with(s, NULL, text, 64, 64);
}

__attribute__((unused)) static void scene_close(struct scene *s)
{
	munmap(s->memory, s->size);
	munmap(s->shared, s->shared_size);
	probe_image_deinit(&s->image);
	work_close(&s->work);
}

__attribute__((unused)) static void scene_run(const struct scene *s, size_t site,
					      const struct caller_regs *in, struct caller_regs *out)
{
	caller_run(in, out, &s->site[site], s->memory + s->image.entry_at);
}

/* A record, as wire.h has it. */
struct scene_record {
	struct probe_slot head;
	size_t nwords;
	uint64_t word[SCENE_WORDS];
};

static const struct probe_slot *scene_slot(const struct scene *s, size_t ring, uint64_t i)
{
	const uint64_t at = ring * s->shared->slots + (i & (s->shared->slots - 1));

	return (const struct probe_slot *)(s->shared->slot_at + at * PROBE_SLOT);
}

/* The next one of any ring, which is given back. False: there is none. */
static bool scene_next(struct scene *s, struct scene_record *ret)
{
	for (size_t k = 0; k < s->shared->nrings; k++) {
		struct probe_ring *r = &s->shared->ring[k];
		if (r->head == r->tail)
			continue;
		ret->head = *scene_slot(s, k, r->tail);
		assert_int_equal(ret->head.seq, (uint32_t)(r->tail + 1));
		assert_true(r->head - r->tail > ret->head.more);
		memcpy(ret->word, ret->head.word, sizeof(ret->head.word));
		ret->nwords = PROBE_HEAD_WORDS;
		for (uint16_t i = 1; i <= ret->head.more; i++) {
			const struct probe_more *m = (const struct probe_more *)scene_slot(s, k, r->tail + i);
			assert_int_equal(m->seq, (uint32_t)(r->tail + i + 1));
			assert_int_equal(m->part, i);
			assert_true(ret->nwords + PROBE_MORE_WORDS <= SCENE_WORDS);
			memcpy(&ret->word[ret->nwords], m->word, sizeof(m->word));
			ret->nwords += PROBE_MORE_WORDS;
		}
		r->tail += 1u + ret->head.more;
		return true;
	}
	return false;
}

/* The only one. */
__attribute__((unused)) static void scene_record(struct scene *s, struct scene_record *ret)
{
	static struct scene_record more;

	assert_true(scene_next(s, ret));
	assert_false(scene_next(s, &more));
}

#endif
