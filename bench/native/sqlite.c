// SPDX-License-Identifier: GPL-2.0
/* SQLite: fills, indexes, queries and changes a database in memory; see program.h. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { ROWS = 60000 };

static const char *const statements[] = {
	"create index by_name on t(name)",
	"select count(*), sum(k), avg(x), min(name), max(name) from t",
	"select substr(name, 1, 7) n, count(*) c from t group by n order by c, n",
	"update t set x = x * 2, name = upper(name) where id % 3 = 0",
	"select id, name from t where name like 'name 1%' order by x desc limit 50",
	"select count(*), sum(a.k) from t a join t b on a.id = b.id * 2 where a.k > b.k",
	"select count(*) from t a, t b where b.name = a.name and a.id < 15000",
	"with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000) "
	"select sum(i * i % 101) from c",
	"select sum(length(printf('%.3f %08x %s', x, k, hex(name)))) from t",
	"delete from t where k between 1000 and 3000",
	"select count(*), total(x) from t",
	"pragma integrity_check",
};

const char *program_version(void)
{
	return "SQLite " SQLITE_VERSION;
}

void program_prepare(void)
{
	sqlite3_initialize();
}

static int add_row(void *arg, int columns, char **values, char **names)
{
	unsigned long *h = arg;
	int i;

	for (i = 0; i < columns; i++)
		*h = program_hash(*h, values[i] ? values[i] : "-",
				  values[i] ? strlen(values[i]) : 1);
	return 0;
}

static void run(sqlite3 *db, unsigned long *h, const char *sql)
{
	if (!sqlite3_exec(db, sql, add_row, h, NULL))
		return;
	fprintf(stderr, "sqlite: %s: %s\n", sql, sqlite3_errmsg(db));
	exit(2);
}

static void insert_rows(sqlite3 *db)
{
	unsigned long seed = 1, v;
	sqlite3_stmt *s;
	char name[40];
	int i;

	sqlite3_prepare_v2(db, "insert into t values(?, ?, ?, ?)", -1, &s, NULL);
	for (i = 0; i < ROWS; i++) {
		v = program_random(&seed);
		snprintf(name, sizeof(name), "name %d of %lx", i % 37, v % 5000);
		sqlite3_bind_int(s, 1, i);
		sqlite3_bind_text(s, 2, name, -1, SQLITE_TRANSIENT);
		sqlite3_bind_double(s, 3, (double)v / 7.0);
		sqlite3_bind_int(s, 4, (int)(v >> 17));
		if (sqlite3_step(s) != SQLITE_DONE)
			exit(2);
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
}

unsigned long program_work(void)
{
	unsigned long h = PROGRAM_HASH;
	unsigned int i;
	sqlite3 *db;

	if (sqlite3_open(":memory:", &db))
		exit(2);
	run(db, &h, "create table t(id integer primary key, name text, x real, k int); begin");
	insert_rows(db);
	for (i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
		run(db, &h, statements[i]);
	run(db, &h, "commit; drop table t");
	sqlite3_close(db);
	return h;
}
