#include "watchctl/base/words/edit_distance.h"

#include <ctype.h>

static unsigned int min2(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static bool is_same(char a, char b, bool ignore_case)
{
	return a == b || (ignore_case && tolower((unsigned char)a) == tolower((unsigned char)b));
}

unsigned int edit_distance(const char *a, size_t na, const char *b, size_t nb, bool ignore_case)
{
	unsigned int row[3][EDIT_DISTANCE_MAX + 1]; /* of the last three characters of @a */
	size_t i, j;

	na = na < EDIT_DISTANCE_MAX ? na : EDIT_DISTANCE_MAX;
	nb = nb < EDIT_DISTANCE_MAX ? nb : EDIT_DISTANCE_MAX;
	for (j = 0; j <= nb; j++)
		row[0][j] = (unsigned int)j;
	for (i = 1; i <= na; i++) {
		unsigned int *at = row[i % 3];
		const unsigned int *up = row[(i + 2) % 3], *upup = row[(i + 1) % 3];

		at[0] = (unsigned int)i;
		for (j = 1; j <= nb; j++) {
			at[j] = min2(up[j - 1] + !is_same(a[i - 1], b[j - 1], ignore_case),
				     min2(up[j], at[j - 1]) + 1);
			if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2], ignore_case) &&
			    is_same(a[i - 2], b[j - 1], ignore_case))
				at[j] = min2(at[j], upup[j - 2] + 1);
		}
	}
	return row[na % 3][nb];
}
