/* Numbers: matrices, and the usual statistics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZE 3

struct matrix {
	double v[SIZE][SIZE];
};

struct summary {
	double mean, variance, median, largest;
	int n;
};

static double cell(const struct matrix *a, const struct matrix *b, int row, int column)
{
	double sum = 0;

	for (int k = 0; k < SIZE; k++)
		sum += a->v[row][k] * b->v[k][column];
	return sum;
}

static void multiply(const struct matrix *a, const struct matrix *b, struct matrix *ret)
{
	struct matrix out;

	for (int row = 0; row < SIZE; row++)
		for (int column = 0; column < SIZE; column++)
			out.v[row][column] = cell(a, b, row, column);
	*ret = out;
}

static double minor(const struct matrix *m, int row, int column)
{
	int r0 = row == 0 ? 1 : 0, r1 = row == 2 ? 1 : 2, c0 = column == 0 ? 1 : 0, c1 = column == 2 ? 1 : 2;

	return m->v[r0][c0] * m->v[r1][c1] - m->v[r0][c1] * m->v[r1][c0];
}

static double determinant(const struct matrix *m)
{
	double sum = 0, sign = 1;

	for (int column = 0; column < SIZE; column++) {
		sum += sign * m->v[0][column] * minor(m, 0, column);
		sign = -sign;
	}
	return sum;
}

static double trace(const struct matrix *m)
{
	double sum = 0;

	for (int i = 0; i < SIZE; i++)
		sum += m->v[i][i];
	return sum;
}

static void power(const struct matrix *m, int n, struct matrix *ret)
{
	*ret = *m;
	for (int i = 1; i < n; i++)
		multiply(ret, m, ret);
}

static double mean_of(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

static double variance_of(const double *v, int n, double mean)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (v[i] - mean) * (v[i] - mean);
	return sum / (n - 1);
}

static void sort(double *v, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && v[k - 1] > v[k]; k--) {
			double t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
}

static double median_of(const double *v, int n)
{
	double copy[32];

	memcpy(copy, v, (size_t)n * sizeof(*v));
	sort(copy, n);
	return n % 2 ? copy[n / 2] : (copy[n / 2 - 1] + copy[n / 2]) / 2;
}

static double largest_of(const double *v, int n)
{
	double best = v[0];

	for (int i = 1; i < n; i++)
		if (v[i] > best)
			best = v[i];
	return best;
}

static struct summary summarize(const double *v, int n)
{
	struct summary s = { .n = n };

	s.mean = mean_of(v, n);
	s.variance = variance_of(v, n, s.mean);
	s.median = median_of(v, n);
	s.largest = largest_of(v, n);
	return s;
}

static int count_outliers(const double *v, const struct summary *s)
{
	double limit = 1.5 * sqrt(s->variance);
	int n = 0;

	for (int i = 0; i < s->n; i++)
		if (fabs(v[i] - s->mean) > limit)
			n++;
	return n;
}

static void report(const char *name, const double *v, int n)
{
	struct summary s = summarize(v, n);

	printf("%s: mean %.4f variance %.4f median %.2f largest %.2f outliers %d\n", name, s.mean, s.variance,
	       s.median, s.largest, count_outliers(v, &s));
}

int main(void)
{
	const double heights[] = { 1.82, 1.65, 1.71, 1.9, 1.58, 2.12, 1.77 },
		     times[] = { 12, 15, 11, 19, 90, 14 };
	const struct matrix m = { { { 2, 1, 0 }, { 1, 3, 1 }, { 0, 1, 4 } } };
	struct matrix p;

	power(&m, 4, &p);
	printf("determinant %.1f trace %.1f, of the fourth power %.1f\n", determinant(&m), trace(&m),
	       trace(&p));
	report("heights", heights, 7);
	report("times", times, 6);
	return 0;
}
