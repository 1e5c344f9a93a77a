/* The plan in a drop-in library, the loader's cache, and libraries that are read: what is written comes back, and no bytes do harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/patch/library/library_elf.h"
#include "watchctl/patch/library/library_find.h"
#include "watchctl/patch/library/library_plan.h"
#include "watchctl/patch/library/library_source.h"

static struct library_rule rules[] = { { "entry crc32", "on_crc32", 0 },
				       { "lock cmpxchg *, *", "on_cas", 2 } };
static const uint8_t probes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static void write_plan(struct text_buf *to)
{
	const struct library_plan p = { .soname = "libz.so.1",
					.build_id = { 0xab, 0xcd },
					.build_id_len = 2,
					.size = 12345,
					.hash = 77,
					.slots = 1024,
					.stack_bytes = 4096,
					.frames = 64,
					.rule = rules,
					.nrules = 2,
					.probes = probes,
					.probes_size = sizeof(probes) };

	library_plan_write(&p, to);
	assert_false(to->failed);
}

static void a_plan_comes_back(void **state)
{
	scoped(text_buf_deinit) struct text_buf t = { 0 };
	struct library_plan p;

	write_plan(&t);
	assert_null(library_plan_read((const uint8_t *)t.bytes, t.len, &p));
	assert_string_equal(p.soname, "libz.so.1");
	assert_int_equal(p.build_id_len, 2);
	assert_int_equal(p.build_id[1], 0xcd);
	assert_int_equal(p.size, 12345);
	assert_null(p.only);
	assert_int_equal(p.nrules, 2);
	assert_string_equal(p.rule[1].pattern, "lock cmpxchg *, *");
	assert_string_equal(p.rule[1].function, "on_cas");
	assert_int_equal(p.rule[1].when, 2);
	assert_int_equal(p.probes_size, sizeof(probes));
	assert_memory_equal(p.probes, probes, sizeof(probes));
	assert_int_equal((uintptr_t)p.probes % 8, 0);
	library_plan_deinit(&p);
}

/* Whatever is read of a plan that is cut off or changed is read within it; the copies are as long as what is read. */
static void a_damaged_plan_is_refused_or_sound(void **state)
{
	scoped(text_buf_deinit) struct text_buf t = { 0 };

	write_plan(&t);
	for (size_t n = 0; n < t.len; n++) {
		scoped(freep) uint8_t *cut = malloc(n + 1);
		struct library_plan p;
		struct wc_error *err;

		memcpy(cut, t.bytes, n);
		err = library_plan_read(cut, n, &p);
		assert_non_null(err);
		assert_int_equal(err->kind, WC_ENAME);
		wc_error_free(err);
	}
	for (size_t i = 0; i < t.len * 8; i++) {
		scoped(freep) uint8_t *changed = malloc(t.len);
		struct library_plan p = { 0 };

		memcpy(changed, t.bytes, t.len);
		changed[i / 8] ^= 1u << i % 8;
		wc_error_free(library_plan_read(changed, t.len, &p));
		for (size_t k = 0; k < p.nrules; k++)
			assert_true(strlen(p.rule[k].pattern) < t.len && strlen(p.rule[k].function) < t.len);
		library_plan_deinit(&p);
	}
}

/* Two entries: of another architecture, and ours. */
static size_t write_cache(uint8_t *at)
{
	static const char texts[] = "libz.so.1\0/lib32/libz.so.1\0/lib/libz.so.1";
	const uint32_t text_at = 48 + 2 * 24;
	const uint32_t entry[2][6] = { { 0x0003, text_at, text_at + 10 }, { 0x0303, text_at, text_at + 27 } };
	const uint32_t sizes[2] = { 2, sizeof(texts) };

	memset(at, 0, text_at);
	memcpy(at, "glibc-ld.so.cache1.1", 20);
	memcpy(at + 20, sizes, sizeof(sizes));
	memcpy(at + 48, entry, sizeof(entry));
	memcpy(at + text_at, texts, sizeof(texts));
	return text_at + sizeof(texts);
}

static void the_cache_gives_the_path_for_this_architecture(void **state)
{
	uint8_t cache[512];
	size_t n = write_cache(cache);

	assert_string_equal(library_find_in_cache(cache, n, "libz.so.1"), "/lib/libz.so.1");
	assert_null(library_find_in_cache(cache, n, "libz.so"));
	for (size_t i = 0; i < n * 8; i++) {
		scoped(freep) uint8_t *changed = malloc(n);
		const char *path;

		memcpy(changed, cache, n);
		changed[i / 8] ^= 1u << i % 8;
		path = library_find_in_cache(changed, n, "libz.so.1");
		assert_true(!path || strlen(path) < n);
	}
	for (size_t len = 0; len < n - 1; len++) {
		scoped(freep) uint8_t *cut = malloc(len + 1);

		memcpy(cut, cache, len);
		library_find_in_cache(cut, len, "libz.so.1");
	}
}

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void read_and_replace(const char *path)
{
	scoped(text_buf_deinit) struct text_buf written = { 0 }, plan = { 0 };
	struct library_source s;
	struct wc_error *err = library_source_open(path, &s);
	const struct library_elf l = { &s, "x.orig", "/bin/watchctl", &plan };

	if (err) {
		wc_error_free(err);
		return;
	}
	write_plan(&plan);
	library_elf_write(&l, &written);
	assert_true(written.failed || written.len > plan.len);
	library_source_close(&s);
}

/* The head and the tables of a library, changed at random: it is refused, or a drop-in is made; nothing is read beyond its end. */
static void a_damaged_library_does_no_harm(void **state)
{
	char path[] = "/tmp/watchctl-library-XXXXXX";
	int fd = mkstemp(path);
	struct library_source s;
	unsigned int seed = 1;

	assert_true(fd >= 0);
	close(fd);
	assert_null(library_source_open("libz.so.1", &s));
	for (unsigned int round = 0; round < 300; round++) {
		scoped(freep) uint8_t *bytes = malloc(s.size);
		const size_t tables = s.head->e_shoff,
			     n = round % 3 ? s.size : (size_t)rand_r(&seed) % s.size;

		memcpy(bytes, s.bytes, s.size);
		for (unsigned int i = 0; i < 1 + round % 5; i++) {
			size_t at = round % 2 ? (size_t)rand_r(&seed) % 0x2000
					      : tables + (size_t)rand_r(&seed) % (s.size - tables);

			bytes[at] = (uint8_t)rand_r(&seed);
		}
		write_file(path, bytes, n);
		read_and_replace(path);
	}
	read_and_replace(s.path);
	library_source_close(&s);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_comes_back),
		cmocka_unit_test(a_damaged_plan_is_refused_or_sound),
		cmocka_unit_test(the_cache_gives_the_path_for_this_architecture),
		cmocka_unit_test(a_damaged_library_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
