/* LOG/symbols: what was put comes back, it replaces the old as a whole or not at all, and no damage does
 * harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_symbols.h"

#define MANY 5000

static char dir[64], path[80];

static void ok(struct wc_error *err)
{
	if (err)
		fail_msg("%s", err->text);
}

static int setup(void **state)
{
	struct tracelog_writer *w;

	strcpy(dir, "/tmp/test_symbols.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	ok(tracelog_writer_open(path, &w));
	ok(tracelog_writer_close(w));
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct symbol_event sample(uint64_t address, const struct symbol_function *f, uint32_t n)
{
	static const uint8_t id[] = { 0xde, 0xad, 0x00, 0xef };

	return (struct symbol_event){ .path = "/usr/bin/app",
				      .build_id = id,
				      .build_id_len = sizeof(id),
				      .address = address,
				      .start = address - 5,
				      .nfunctions = n,
				      .function = f };
}

static const struct symbol_function functions[] = { { "inner", "in.h", 3 },
						    { NULL, NULL, 0 },
						    { "real", "app.c", 17 } };

static void write_many(uint64_t first, size_t n)
{
	struct tracelog_symbols *s;

	ok(tracelog_symbols_create(path, 1000, &s));
	for (size_t i = 0; i < n; i++) {
		struct symbol_event e = sample(first + i, functions, 3);

		ok(tracelog_symbols_put(s, &e));
	}
	ok(tracelog_symbols_commit(s));
}

struct seen {
	uint64_t next;
	size_t n;
};

static struct wc_error *see(void *ctx, const struct trace_event *e)
{
	struct seen *seen = ctx;
	const struct symbol_event *s = &e->symbol;

	assert_int_equal(e->type, EVENT_SYMBOL);
	assert_int_equal(e->time_ns, 1000);
	assert_int_equal(s->address, seen->next + seen->n++);
	assert_int_equal(s->start, s->address - 5);
	assert_string_equal(s->path, "/usr/bin/app");
	assert_int_equal(s->build_id_len, 4);
	assert_memory_equal(s->build_id, "\xde\xad\0\xef", 4);
	assert_int_equal(s->nfunctions, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(s->function[i].line, functions[i].line);
		assert_true(!s->function[i].name == !functions[i].name);
		if (functions[i].name) {
			assert_string_equal(s->function[i].name, functions[i].name);
			assert_string_equal(s->function[i].file, functions[i].file);
		}
	}
	return NULL;
}

static size_t read_all(uint64_t first, const char **why)
{
	struct seen seen = { .next = first };

	ok(tracelog_symbols_read(path, (struct event_sink){ see, &seen }, why));
	return seen.n;
}

static size_t files_in_log(void)
{
	DIR *d = opendir(path);
	size_t n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void what_was_put_comes_back_and_is_replaced_as_a_whole(void **state)
{
	const char *why;

	assert_int_equal(read_all(0x1000, &why), 0);
	assert_null(why);
	write_many(0x1000, MANY);
	assert_int_equal(read_all(0x1000, &why), MANY);
	assert_null(why);
	write_many(0x9000, 3);
	assert_int_equal(read_all(0x9000, &why), 3);
	assert_int_equal(files_in_log(), 3);
}

static void what_was_given_up_leaves_the_old_ones(void **state)
{
	struct symbol_event e = sample(0x5000, functions, 3);
	struct tracelog_symbols *s;
	const char *why;

	write_many(0x1000, 10);
	ok(tracelog_symbols_create(path, 1000, &s));
	ok(tracelog_symbols_put(s, &e));
	tracelog_symbols_discard(s);
	tracelog_symbols_discard(NULL);
	assert_int_equal(read_all(0x1000, &why), 10);
	assert_int_equal(files_in_log(), 3);
}

static void damage_ends_the_names_with_a_reason(void **state)
{
	char file[128];
	const char *why;
	struct stat st;
	size_t n;

	write_many(0x1000, MANY);
	snprintf(file, sizeof(file), "%s/symbols", path);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(truncate(file, st.st_size - 100), 0);
	n = read_all(0x1000, &why);
	assert_true(n < MANY && n > MANY / 2);
	assert_non_null(why);
	assert_int_equal(truncate(file, 10), 0);
	assert_int_equal(read_all(0x1000, &why), 0);
	assert_non_null(why);
}

static void names_of_another_log_are_not_taken(void **state)
{
	char command[256];
	const char *why;
	struct tracelog_writer *w;
	char other[96];

	write_many(0x1000, 10);
	snprintf(other, sizeof(other), "%s/other", dir);
	ok(tracelog_writer_open(other, &w));
	ok(tracelog_writer_close(w));
	snprintf(command, sizeof(command), "mv %s/symbols %s/", path, other);
	assert_int_equal(system(command), 0);
	strcpy(path, other);
	assert_int_equal(read_all(0x1000, &why), 0);
	assert_non_null(strstr(why, "another log"));
}

/* Bytes that no reader should believe: the events of the file, one by one changed. */
static void changed_bytes_do_no_harm(void **state)
{
	static uint8_t bytes[1 << 16];
	char metadata[TRACELOG_PACKET_SIZE], file[128];
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	ssize_t len, meta_len;
	int fd;

	write_many(0x1000, 4);
	snprintf(file, sizeof(file), "%s/symbols", path);
	fd = open(file, O_RDONLY);
	len = read(fd, bytes, sizeof(bytes));
	close(fd);
	snprintf(file, sizeof(file), "%s/metadata", path);
	fd = open(file, O_RDONLY);
	meta_len = read(fd, metadata, sizeof(metadata));
	close(fd);
	assert_true(len > TRACELOG_PACKET_HEAD && meta_len > 0);
	for (ssize_t i = TRACELOG_PACKET_HEAD; i < len; i++) {
		uint8_t *copy = malloc((size_t)len);

		memcpy(copy, bytes, (size_t)len);
		copy[i] = (uint8_t)(copy[i] ^ (1u << i % 8) ^ 0xff * (i % 3 == 0));
		ok(tracelog_reader_open_memory(metadata, (size_t)meta_len, copy, (size_t)len, &r));
		do
			ok(tracelog_next(r, &e, &outcome));
		while (outcome == LOG_EVENT);
		tracelog_reader_close(r);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_put_comes_back_and_is_replaced_as_a_whole, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_was_given_up_leaves_the_old_ones, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_ends_the_names_with_a_reason, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_another_log_are_not_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(changed_bytes_do_no_harm, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
