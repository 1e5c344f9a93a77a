/*
 * Damaged files: cut, and with bytes changed where it hurts (headers, abbreviations, entries, lines,
 * symbols). Whatever libdw and libelf make of them, the caller of symbolizer_resolve() lives on, gets an
 * answer for each address, and does not wait for ever.
 */
#include "tests/unit/loc_victim.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "watchctl/code/symbols/symbol_workers.h"
#include "watchctl/code/symbols/symbolizer.h"

#define ADDRESSES 400
#define BIAS 0x10000000u

struct image {
	uint8_t *bytes;
	size_t size;
	uint64_t text, text_size; /* addresses */
};

static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static struct image load(const char *name)
{
	struct image img = { 0 };
	const Elf64_Ehdr *h;
	char path[512];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", victim_dir, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	img.size = (size_t)st.st_size;
	img.bytes = malloc(img.size);
	assert_int_equal(read(fd, img.bytes, img.size), img.size);
	close(fd);
	h = (const Elf64_Ehdr *)img.bytes;
	for (unsigned int i = 0; i < h->e_shnum; i++) {
		const Elf64_Shdr *sh = (const Elf64_Shdr *)(img.bytes + h->e_shoff) + i;

		if (sh->sh_flags & SHF_EXECINSTR && sh->sh_size > img.text_size) {
			img.text = sh->sh_addr;
			img.text_size = sh->sh_size;
		}
	}
	return img;
}

/* Changes some bytes of the headers or of one section without code. */
static void damage(struct image *img)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)img->bytes;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(img->bytes + h->e_shoff);
	size_t start = 0, len = sizeof(*h);
	unsigned int pick = dice(h->e_shnum + 2u), n = 1 + dice(12);

	if (pick < h->e_shnum && sh[pick].sh_type != SHT_NOBITS && sh[pick].sh_size) {
		start = sh[pick].sh_offset;
		len = sh[pick].sh_size;
	} else if (pick == h->e_shnum) {
		start = h->e_shoff;
		len = h->e_shnum * sizeof(*sh);
	}
	for (unsigned int i = 0; i < n; i++) {
		static const uint8_t cruel[] = { 0, 1, 0x7f, 0x80, 0xff };
		size_t at = start + dice((uint32_t)len);

		/* The first bytes make it an ELF file: others are for another test. */
		if (at >= 24 && at < img->size)
			img->bytes[at] = dice(2) ? cruel[dice(sizeof(cruel))] : (uint8_t)dice(256);
	}
}

static void save(const struct image *img, const char *path, size_t size)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(img->bytes, 1, size, f), size);
	fclose(f);
}

/* Resolves addresses all over the code of the file at @path. */
static void resolve(const char *path, const struct image *img)
{
	struct module m = { .start = BIAS, .end = BIAS + 0x10000000, .bias = BIAS, .path = (char *)path };
	struct symbolizer *s = symbolizer_new();
	const struct location *l[ADDRESSES];

	assert_true(symbolizer_add(s, &m));
	symbolizer_defer(s);
	for (unsigned int i = 0; i < ADDRESSES; i++)
		l[i] = symbolizer_lookup(s, BIAS + img->text + i * (img->text_size / ADDRESSES + 1));
	assert_true(symbolizer_resolve(s, NULL));
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		assert_string_equal(l[i]->module, path);
		assert_true(l[i]->nframes >= 1);
		for (size_t k = 0; k < l[i]->nframes; k++)
			if (l[i]->frame[k].function)
				assert_true(strlen(l[i]->frame[k].function) < 100000);
	}
	symbolizer_free(s);
}

static unsigned int rounds(void)
{
	const char *wish = getenv("SYMBOL_DAMAGE_ROUNDS");

	return wish ? (unsigned int)atoi(wish) : 60;
}

static void mutate(const char *build, uint64_t first_seed)
{
	struct image whole, img;
	char path[512];

	victim_build(build);
	whole = load("prog");
	img = whole;
	img.bytes = malloc(whole.size);
	snprintf(path, sizeof(path), "%s/damaged", victim_dir);
	for (unsigned int i = 0; i < rounds(); i++) {
		seed = first_seed + i;
		memcpy(img.bytes, whole.bytes, whole.size);
		damage(&img);
		save(&img, path, img.size);
		resolve(path, &whole);
	}
	free(img.bytes);
	free(whole.bytes);
}

static void changed_bytes_of_a_c_program_do_no_harm(void **state)
{
	mutate("gcc -O2 -g -o @/prog tests/victims/loc_calls.c", 1000);
}

static void changed_bytes_of_a_cxx_program_do_no_harm(void **state)
{
	mutate("g++ -O1 -g -gdwarf-4 -fdebug-types-section -o @/prog tests/victims/loc_cpp.cc", 2000);
}

static void changed_bytes_of_compressed_sections_do_no_harm(void **state)
{
	mutate("gcc -O2 -g -gz -o @/prog tests/victims/loc_calls.c", 3000);
}

static void cut_files_do_no_harm(void **state)
{
	struct image whole;
	char path[512];

	victim_build("gcc -O2 -g -o @/prog tests/victims/loc_calls.c");
	whole = load("prog");
	snprintf(path, sizeof(path), "%s/damaged", victim_dir);
	seed = 4000;
	for (unsigned int i = 0; i < 40; i++) {
		save(&whole, path, i < 4 ? i * 32u : dice((uint32_t)whole.size));
		resolve(path, &whole);
	}
	free(whole.bytes);
}

/*
 * With no patience at all, a file that takes a moment to read takes too long. It is tried again with less
 * of it read, and then not at all: there is an answer in the end, without a name, and the file is said to be
 * damaged.
 */
static void a_file_that_takes_too_long_is_given_up(void **state)
{
	struct strings pool = { 0 };
	char path[512];
	struct module m = { .path = path };
	struct symbol_job job = { 0 };
	struct image img;

	victim_build("seq 400000 | sed 's/.*/.globl function&\\nfunction&: nop/' >@/big.s && "
		     "gcc -nostdlib -static -Wl,-e,function1 -o @/prog @/big.s");
	img = load("prog");
	snprintf(path, sizeof(path), "%s/prog", victim_dir);
	job.file = symbol_file_new(&m, NULL);
	job.vaddr = img.text + 100;
	assert_true(symbol_workers_run(&job, 1, &pool, 0, NULL));
	assert_non_null(job.answer);
	assert_null(job.answer->frame[0].function);
	assert_true(symbol_file_facts(job.file)->damaged);
	symbol_file_free(job.file);
	strings_deinit(&pool);
	free(img.bytes);
}

/* A file that is cut while it is mapped: reading on is deadly (SIGBUS), for a worker. */
static void a_worker_that_dies_takes_nobody_along(void **state)
{
	struct strings pool = { 0 };
	char cut_path[512], good_path[512];
	struct module cut = { .path = cut_path }, good = { .path = good_path };
	struct symbol_job job[6] = { 0 };
	struct symbol_file *cut_file, *good_file;
	struct image img;

	victim_build("gcc -O2 -g -o @/prog tests/victims/loc_calls.c && cp @/prog @/cut");
	img = load("prog");
	snprintf(good_path, sizeof(good_path), "%s/prog", victim_dir);
	snprintf(cut_path, sizeof(cut_path), "%s/cut", victim_dir);
	good_file = symbol_file_new(&good, NULL);
	cut_file = symbol_file_new(&cut, NULL);
	assert_int_equal(symbol_file_facts(cut_file)->detail, SYMBOL_DETAIL_LINES);
	assert_int_equal(truncate(cut_path, 0), 0);
	for (int i = 0; i < 6; i++) {
		job[i].file = i % 2 ? cut_file : good_file;
		job[i].vaddr = img.text + 0x20 + (uint64_t)i;
	}
	assert_true(symbol_workers_run(job, 6, &pool, 60000, NULL));
	for (int i = 0; i < 6; i++) {
		assert_non_null(job[i].answer);
		if (job[i].file == cut_file)
			assert_null(job[i].answer->frame[0].function);
		else
			assert_non_null(job[i].answer->frame[0].function);
	}
	assert_true(symbol_file_facts(cut_file)->damaged);
	assert_false(symbol_file_facts(good_file)->damaged);
	symbol_file_free(cut_file);
	symbol_file_free(good_file);
	strings_deinit(&pool);
	free(img.bytes);
}

/* What is left alone after the first and after the second time. */
static void only_the_file_that_did_harm_goes_without_names(void **state)
{
	struct strings pool = { 0 };
	char good_path[512];
	struct module good = { .path = good_path };
	struct symbol_job job[2] = { 0 };
	struct symbol_file *bad_file, *good_file;
	struct image img;

	victim_build("gcc -O2 -g -o @/prog tests/victims/loc_calls.c");
	img = load("prog");
	snprintf(good_path, sizeof(good_path), "%s/prog", victim_dir);
	good_file = symbol_file_new(&good, NULL);
	bad_file = symbol_file_new(&good, NULL);
	symbol_file_did_harm(bad_file);
	assert_true(symbol_file_facts(bad_file)->damaged);
	assert_int_equal(symbol_file_facts(bad_file)->detail, SYMBOL_DETAIL_SYMBOLS);
	symbol_file_did_harm(bad_file);
	assert_int_equal(symbol_file_facts(bad_file)->detail, SYMBOL_DETAIL_NONE);
	job[0] = (struct symbol_job){ .file = bad_file, .vaddr = img.text + 0x20 };
	job[1] = (struct symbol_job){ .file = good_file, .vaddr = img.text + 0x20 };
	assert_true(symbol_workers_run(job, 2, &pool, 60000, NULL));
	for (int i = 0; i < 2; i++) {
		assert_non_null(job[i].answer);
		if (job[i].file == bad_file)
			assert_null(job[i].answer->frame[0].function);
		else
			assert_non_null(job[i].answer->frame[0].function);
	}
	symbol_file_free(bad_file);
	symbol_file_free(good_file);
	strings_deinit(&pool);
	free(img.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_bytes_of_a_c_program_do_no_harm),
		cmocka_unit_test(changed_bytes_of_a_cxx_program_do_no_harm),
		cmocka_unit_test(changed_bytes_of_compressed_sections_do_no_harm),
		cmocka_unit_test(cut_files_do_no_harm),
		cmocka_unit_test(a_file_that_takes_too_long_is_given_up),
		cmocka_unit_test(a_worker_that_dies_takes_nobody_along),
		cmocka_unit_test(only_the_file_that_did_harm_goes_without_names),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
