/* top_words - numbers, times and graphs as `watchctl top` writes them. */
#ifndef WATCHCTL_CLI_TOP_TOP_WORDS_H
#define WATCHCTL_CLI_TOP_TOP_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/view/table/site_stats.h"

#define TOP_WORD 64
#define TOP_GRAPH_MAX 240 /* columns */

/* "12,345,678" */
void top_count_text(uint64_t n, char *buf, size_t cap);

/* "12,345/s", "0.5/s", "0/s" */
void top_rate_text(double rate, char *buf, size_t cap);

/* "1:02:03", "2:03", "3.4 s" */
void top_elapsed_text(uint64_t ns, char *buf, size_t cap);

/* The time of day, of the local zone: "12:34:56.789"; "12.345 s" after the machine's start where it is not
 * known. */
void top_time_text(struct view_time t, char *buf, size_t cap);

/*
 * A graph of @rows (at least 1) rows, each a text of @n columns, @row 0 the uppermost; @max stands for the
 * whole height. Anything above 0 shows.
 */
void top_graph_text(const double *column, size_t n, double max, int row, int rows, bool utf8, char *buf,
		    size_t cap);

/* Text for "access", "accesses". */
const char *top_plural(uint64_t n, const char *one, const char *many);

#endif
