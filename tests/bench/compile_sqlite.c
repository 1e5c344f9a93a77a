/* compile_sqlite N - a load of SQLite's: N rows in memory, an index, sums, an ordering, text. Prints what it has found. */
#include <stdio.h>
#include <stdlib.h>

#include <sqlite3.h>

static sqlite3 *db;

static int print_row(void *ctx, int n, char **value, char **name)
{
	int i;

	for (i = 0; i < n; i++)
		printf("%s%s", value[i] ? value[i] : "NULL", i + 1 < n ? "|" : "\n");
	return 0;
}

static void ask(const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, print_row, NULL, &why)) {
		fprintf(stderr, "%s: %s\n", sql, why);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char sql[512];

	if (argc != 2 || sqlite3_open(":memory:", &db))
		return 2;
	ask("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL)");
	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		 "INSERT INTO t SELECT i, printf('%%08x', i * 2654435761 %% 4294967296), i * 0.5 FROM n",
		 atoi(argv[1]));
	ask(sql);
	ask("CREATE INDEX x ON t(b)");
	ask("SELECT count(*), sum(c), min(b), max(b) FROM t");
	ask("SELECT a, b FROM t WHERE b LIKE '%fff%' ORDER BY b LIMIT 5");
	ask("SELECT substr(b, 1, 1) AS d, count(*), avg(c) FROM t GROUP BY d ORDER BY 2 DESC LIMIT 3");
	ask("SELECT count(*) FROM t x JOIN t y ON x.b = y.b WHERE x.a % 3 = 0");
	ask("UPDATE t SET b = upper(b) WHERE a % 2");
	ask("DELETE FROM t WHERE a % 5 = 0");
	ask("SELECT count(*), sum(length(b)) FROM t");
	return sqlite3_close(db);
}
