/*
 * The line is written by one write(2), over the one before it, so that it never flickers; it leaves the last
 * column free, so that no terminal wraps it. The width is asked for each time: a window that was resized
 * needs no signal handler.
 */
#include "watchctl/base/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/write_all.h"

#define SECOND_NS 1000000000u
#define FIRST_AFTER_NS SECOND_NS
#define DRAW_EVERY_NS 100000000u
#define LOOK_EVERY_NS 5000000u /* at the clock, about */
#define STRIDE_MAX 256u
#define LEFT_AFTER_NS (3ull * SECOND_NS) /* of this part, before the time left is reported */
#define BAR_MIN 10
#define BAR_MAX 40
#define COLUMNS_MIN 12
#define COLUMNS_MAX 200
#define UTF8_MAX 4
#define LINE_BYTES (UTF8_MAX * COLUMNS_MAX + UTF8_MAX)

static bool terminal_takes_it(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* A job in the background leaves the terminal to others. Where it is not our controlling one, it is free. */
static bool is_in_foreground(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group < 0 || group == getpgrp();
}

static size_t columns(void)
{
	struct winsize size;
	size_t n = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;

	return n < COLUMNS_MAX ? n : COLUMNS_MAX;
}

void progress_phase(struct progress *p, const char *what)
{
	p->what = what;
	p->nmarks = 0;
	p->stride = 1; /* it may be slower work */
}

void progress_begin(struct progress *p, const char *what)
{
	*p = (struct progress){ .begun_ns = monotonic_ns(), .shows = -1 };
	p->looked_ns = p->begun_ns;
	progress_phase(p, what);
}

static void mark(struct progress *p, uint64_t now, double done)
{
	unsigned int last = (p->nmarks + PROGRESS_MARKS - 1) % PROGRESS_MARKS;

	if (p->nmarks && now - p->mark[last].ns < SECOND_NS)
		return;
	p->mark[p->nmarks % PROGRESS_MARKS].ns = now;
	p->mark[p->nmarks % PROGRESS_MARKS].done = done;
	p->nmarks++;
}

/* Seconds that the rest takes at the pace of the oldest mark until now; -1: that cannot be known. */
static double seconds_left(const struct progress *p, uint64_t now, double done)
{
	unsigned int oldest = p->nmarks > PROGRESS_MARKS ? p->nmarks % PROGRESS_MARKS : 0;
	double gone;

	if (!p->nmarks || now - p->mark[oldest].ns < LEFT_AFTER_NS)
		return -1;
	gone = done - p->mark[oldest].done;
	if (!(gone > 0.001))
		return -1;
	return (double)(now - p->mark[oldest].ns) / SECOND_NS * (1 - done) / gone;
}

static void left_text(double seconds, char *buf, size_t cap)
{
	buf[0] = '\0';
	if (seconds < 0 || seconds > 99 * 3600.0)
		return;
	if (seconds < 99)
		snprintf(buf, cap, " about %u s left", (unsigned int)seconds + 1);
	else if (seconds < 99 * 60.0)
		snprintf(buf, cap, " about %u min left", (unsigned int)(seconds / 60) + 1);
	else
		snprintf(buf, cap, " about %u h left", (unsigned int)(seconds / 3600) + 1);
}

/* "[####      ]" into @room columns. */
static void bar_text(double done, size_t room, char *buf)
{
	size_t width = room > BAR_MAX + 2 ? BAR_MAX : room - 2;
	size_t filled = (size_t)(done * (double)width);

	*buf++ = '[';
	memset(buf, '#', filled);
	memset(buf + filled, ' ', width - filled);
	buf[width] = ']';
	buf[width + 1] = '\0';
}

/* What fits @room columns: the percentage first, then what it is of, the bar, the time left. */
static void compose(const struct progress *p, uint64_t now, double done, size_t room, char *buf, size_t cap)
{
	char share[16] = "", left[48], bar[BAR_MAX + 4] = "";
	size_t used;

	if (isnan(done)) {
		snprintf(left, sizeof(left), " %llu s",
			 (unsigned long long)((now - p->begun_ns) / SECOND_NS));
	} else {
		snprintf(share, sizeof(share), " %3d %%", (int)(done * 100));
		left_text(seconds_left(p, now, done), left, sizeof(left));
	}
	used = strlen(p->what) + strlen(share);
	if (used + strlen(left) > room)
		left[0] = '\0';
	used += strlen(left);
	if (*share && used + 1 + BAR_MIN + 2 <= room) {
		bar[0] = ' ';
		bar_text(done, room - used - 1, bar + 1);
	}
	snprintf(buf, cap, "%.*s%s%s%s", used <= room ? (int)strlen(p->what) : (int)(room - strlen(share)),
		 p->what, share, bar, left);
}

static void put_line(struct progress *p, const char *text)
{
	char line[LINE_BYTES + 16];
	int n = snprintf(line, sizeof(line), "\r%s\033[K", text);

	p->on_screen = !write_all(STDERR_FILENO, line, n);
	/* A terminal that is gone stays so. */
	if (!p->on_screen)
		p->shows = 0;
}

static void draw(struct progress *p, uint64_t now, double done)
{
	char text[COLUMNS_MAX + 1];
	size_t width = columns();

	if (width < COLUMNS_MIN || !is_in_foreground())
		return;
	compose(p, now, done, width - 1, text, sizeof(text));
	put_line(p, text);
}

/* How many bytes of @text @room columns hold. */
static size_t bytes_that_fit(const char *text, size_t room)
{
	size_t bytes = 0;

	for (; room && text[bytes] && bytes + UTF8_MAX < LINE_BYTES; room--)
		bytes += utf8_len(text + bytes) ? utf8_len(text + bytes) : 1;
	return bytes;
}

void progress_line(struct progress *p, const char *text)
{
	char fits[LINE_BYTES];
	size_t width = columns();

	if (p->shows < 0)
		p->shows = terminal_takes_it();
	if (!p->shows || width < COLUMNS_MIN || !is_in_foreground())
		return;
	snprintf(fits, sizeof(fits), "%.*s", (int)bytes_that_fit(text, width - 1), text);
	put_line(p, fits);
}

/* As often as about LOOK_EVERY_NS goes by, whatever a call's work takes. */
static void adapt(struct progress *p, uint64_t now)
{
	uint64_t took = now - p->looked_ns;

	if (took < LOOK_EVERY_NS / 2 && p->stride < STRIDE_MAX)
		p->stride *= 2;
	else if (took > LOOK_EVERY_NS * 4)
		p->stride = 1;
	else if (took > LOOK_EVERY_NS * 2 && p->stride > 1)
		p->stride /= 2;
	p->looked_ns = now;
}

void progress_at(struct progress *p, double done)
{
	uint64_t now;

	if (!p->shows || ++p->calls < p->stride)
		return;
	p->calls = 0;
	now = monotonic_ns();
	adapt(p, now);
	if (p->shows < 0)
		p->shows = terminal_takes_it();
	if (!p->shows)
		return;
	if (done < 0)
		done = 0;
	else if (done > 1)
		done = 1;
	if (!isnan(done))
		mark(p, now, done);
	if (now - p->begun_ns < FIRST_AFTER_NS || now - p->drawn_ns < DRAW_EVERY_NS)
		return;
	p->drawn_ns = now;
	draw(p, now, done);
}

void progress_clear(struct progress *p)
{
	static const char erase[] = "\r\033[K";

	if (p->on_screen && is_in_foreground())
		write_all(STDERR_FILENO, erase, sizeof(erase) - 1);
	p->on_screen = false;
	p->drawn_ns = 0;
}

void progress_end(struct progress *p)
{
	progress_clear(p);
	p->shows = 0;
}
