/* The line that a person sees at the terminal while a long work goes on. The terminal is a pty of ours, and so is the clock. */
#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/own_clock.h"
#include "watchctl/base/progress.h"

#define SECOND 1000000000u

struct screen {
	int main, saved; /* our end; what standard error was */
};

static void resize(const struct screen *s, unsigned short columns)
{
	const struct winsize size = { .ws_row = 24, .ws_col = columns };

	assert_int_equal(ioctl(s->main, TIOCSWINSZ, &size), 0);
}

static struct screen screen_open(unsigned short columns, const char *term)
{
	struct screen s;
	int terminal;

	assert_int_equal(openpty(&s.main, &terminal, NULL, NULL, NULL), 0);
	assert_int_equal(fcntl(s.main, F_SETFL, O_NONBLOCK), 0);
	resize(&s, columns);
	s.saved = dup(STDERR_FILENO);
	assert_true(dup2(terminal, STDERR_FILENO) == STDERR_FILENO);
	close(terminal);
	setenv("TERM", term, 1);
	return s;
}

/* What was written to it since the last time. */
static const char *screen_read(const struct screen *s)
{
	static char buf[1 << 16];
	size_t n = 0;
	ssize_t got;

	while (n + 1 < sizeof(buf) && (got = read(s->main, buf + n, sizeof(buf) - 1 - n)) > 0)
		n += got;
	buf[n] = '\0';
	return buf;
}

static void screen_close(struct screen *s)
{
	dup2(s->saved, STDERR_FILENO);
	close(s->saved);
	close(s->main);
}

#define CALL_NS 1000000u

/* Works for @ns, from @from to @to, a call each millisecond. */
static void work(struct progress *p, uint64_t ns, double from, double to)
{
	uint64_t gone;

	for (gone = 0; gone < ns; gone += CALL_NS) {
		progress_at(p, from + (to - from) * (double)gone / (double)ns);
		own_clock_skip(CALL_NS);
	}
}

/* The last line that was drawn, without the control characters around it. */
static const char *last_line(const char *text)
{
	static char line[400];
	const char *at = strrchr(text, '\r'), *end;

	assert_non_null(at);
	end = strstr(at, "\033[K");
	assert_non_null(end);
	snprintf(line, sizeof(line), "%.*s", (int)(end - at - 1), at + 1);
	return line;
}

static void nothing_is_shown_before_a_second_has_gone_by(void **state)
{
	struct screen s = screen_open(80, "xterm");
	struct progress p;

	(void)state;
	progress_begin(&p, "reading the log");
	work(&p, 700 * 1000000u, 0, 0.5);
	progress_end(&p);
	assert_string_equal(screen_read(&s), "");
	screen_close(&s);
}

static void after_a_second_it_says_how_far_it_is_and_takes_the_line_away(void **state)
{
	struct screen s = screen_open(80, "xterm");
	const char *text, *line;
	struct progress p;
	int percent, draws = 0;

	(void)state;
	progress_begin(&p, "reading the log");
	work(&p, 2 * (uint64_t)SECOND, 0, 0.5);
	text = screen_read(&s);
	line = last_line(text);
	assert_int_equal(sscanf(line, "reading the log %d %% [#", &percent), 1);
	assert_in_range(percent, 45, 50);
	for (; *text; text++)
		draws += *text == '\r';
	assert_in_range(draws, 3, 12);
	progress_end(&p);
	assert_string_equal(screen_read(&s), "\r\033[K");
	progress_end(&p);
	progress_at(&p, 0.7);
	assert_string_equal(screen_read(&s), "");
	screen_close(&s);
}

/* 4 of 8 s have gone: the pace is that of the work, so the rest takes 4 more. */
static void the_time_left_is_what_the_rest_takes_at_the_pace_of_late(void **state)
{
	struct screen s = screen_open(80, "xterm");
	const char *left;
	struct progress p;
	int seconds;

	(void)state;
	progress_begin(&p, "reading");
	work(&p, 2 * (uint64_t)SECOND, 0, 0.25);
	assert_null(strstr(screen_read(&s), "left"));
	work(&p, 2 * (uint64_t)SECOND, 0.25, 0.5);
	left = strstr(last_line(screen_read(&s)), "about");
	assert_non_null(left);
	assert_int_equal(sscanf(left, "about %d s left", &seconds), 1);
	assert_in_range(seconds, 4, 6);
	progress_end(&p);
	screen_close(&s);
}

static void it_fits_the_terminal_also_when_that_is_made_narrower(void **state)
{
	struct screen s = screen_open(80, "xterm");
	struct progress p;

	(void)state;
	progress_begin(&p, "reading the log");
	work(&p, 1500 * 1000000u, 0, 0.5);
	assert_in_range(strlen(last_line(screen_read(&s))), 60, 79);
	resize(&s, 20);
	work(&p, 300 * 1000000u, 0.5, 0.5);
	screen_read(&s);
	work(&p, 300 * 1000000u, 0.5, 0.5);
	assert_string_equal(last_line(screen_read(&s)), "reading the l  50 %");
	resize(&s, 5);
	work(&p, 300 * 1000000u, 0.5, 0.5);
	screen_read(&s);
	work(&p, 300 * 1000000u, 0.5, 0.5);
	assert_string_equal(screen_read(&s), "");
	progress_end(&p);
	screen_close(&s);
}

static void what_is_not_known_is_reported_as_time_that_has_gone(void **state)
{
	struct screen s = screen_open(80, "xterm");
	struct progress p;

	(void)state;
	progress_begin(&p, "thinking");
	work(&p, 1500 * 1000000u, NAN, NAN);
	assert_string_equal(last_line(screen_read(&s)), "thinking 1 s");
	progress_phase(&p, "writing");
	work(&p, 300 * 1000000u, 0.25, 0.25);
	assert_memory_equal(last_line(screen_read(&s)), "writing  25 % [", 15);
	progress_end(&p);
	screen_close(&s);
}

static void other_output_finds_the_line_taken_away(void **state)
{
	struct screen s = screen_open(80, "xterm");
	struct progress p;

	(void)state;
	progress_begin(&p, "reading");
	work(&p, 1300 * 1000000u, 0, 0.5);
	screen_read(&s);
	progress_clear(&p);
	assert_string_equal(screen_read(&s), "\r\033[K");
	progress_clear(&p);
	assert_string_equal(screen_read(&s), "");
	work(&p, 300 * 1000000u, 0.5, 0.5);
	assert_non_null(strstr(screen_read(&s), "reading  50 %"));
	progress_end(&p);
	screen_close(&s);
}

static void where_there_is_no_terminal_that_can_do_it_nothing_is_shown(void **state)
{
	static const char *const term[] = { "dumb", "" };
	struct progress p;
	size_t i;
	int fds[2], saved;
	char c;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct screen s = screen_open(80, term[i]);

		progress_begin(&p, "reading");
		work(&p, 1300 * 1000000u, 0, 0.5);
		progress_end(&p);
		assert_string_equal(screen_read(&s), "");
		screen_close(&s);
	}
	setenv("TERM", "xterm", 1);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	saved = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	progress_begin(&p, "reading");
	work(&p, 1300 * 1000000u, 0, 0.5);
	progress_end(&p);
	dup2(saved, STDERR_FILENO);
	assert_int_equal(read(fds[0], &c, 1), -1);
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

/* A call of a million must not cost what a look at the clock does, nor may slow work show nothing. */
static void it_keeps_pace_with_fast_and_with_slow_work(void **state)
{
	const uint64_t fast_ns = 50, slow_ns = 250000000;
	struct screen s = screen_open(80, "xterm");
	uint64_t looks = own_clock_looks;
	struct progress p;
	int i;

	(void)state;
	progress_begin(&p, "reading");
	for (i = 0; i < 10000000; i++) { /* half a second */
		progress_at(&p, (double)i / 1e8);
		own_clock_skip(fast_ns);
	}
	assert_in_range(own_clock_looks - looks, 2, i / 100);
	screen_read(&s);
	for (i = 0; i < 12; i++) {
		progress_at(&p, 0.5);
		own_clock_skip(slow_ns);
	}
	/* The first ones may be within the stride of the fast work. */
	progress_end(&p);
	progress_begin(&p, "waiting");
	for (i = 0; i < 8; i++) {
		progress_at(&p, i / 8.0);
		own_clock_skip(slow_ns);
	}
	assert_non_null(strstr(screen_read(&s), "waiting  87 %"));
	progress_end(&p);
	screen_close(&s);
}

static void a_line_of_the_callers_own_is_cut_to_the_width(void **state)
{
	struct screen s = screen_open(20, "xterm");
	struct progress p;

	(void)state;
	progress_begin(&p, "recording");
	progress_line(&p, "short");
	assert_string_equal(screen_read(&s), "\rshort\033[K");
	progress_line(&p, "0123456789abcdef\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f");
	assert_string_equal(screen_read(&s), "\r0123456789abcdef\xc3\xa4\xc3\xb6\xc3\xbc\033[K");
	progress_end(&p);
	assert_string_equal(screen_read(&s), "\r\033[K");
	progress_line(&p, "late");
	assert_string_equal(screen_read(&s), "");
	screen_close(&s);
	s = screen_open(80, "dumb");
	progress_begin(&p, "recording");
	progress_line(&p, "short");
	progress_end(&p);
	assert_string_equal(screen_read(&s), "");
	screen_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_shown_before_a_second_has_gone_by),
		cmocka_unit_test(after_a_second_it_says_how_far_it_is_and_takes_the_line_away),
		cmocka_unit_test(the_time_left_is_what_the_rest_takes_at_the_pace_of_late),
		cmocka_unit_test(it_fits_the_terminal_also_when_that_is_made_narrower),
		cmocka_unit_test(what_is_not_known_is_reported_as_time_that_has_gone),
		cmocka_unit_test(other_output_finds_the_line_taken_away),
		cmocka_unit_test(where_there_is_no_terminal_that_can_do_it_nothing_is_shown),
		cmocka_unit_test(a_line_of_the_callers_own_is_cut_to_the_width),
		cmocka_unit_test(it_keeps_pace_with_fast_and_with_slow_work),
	};

	own_clock_stop();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
