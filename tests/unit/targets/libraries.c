// SPDX-License-Identifier: GPL-2.0
/* Real libraries at work: zlib and SQLite, statically linked; see targets.h. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "targets.h"

static unsigned long hash(unsigned long h, const void *p, unsigned long n)
{
	const unsigned char *b = p;

	while (n--)
		h = (h ^ *b++) * 1099511628211ul;
	return h;
}

/* Text of words that recur, and noise. */
static void fill(unsigned char *p, unsigned long n, unsigned long seed)
{
	static const char *const words[] = {
		"block ", "cache ", "kernel ", "link ", "\n", "trace ",
	};
	unsigned long i = 0;
	const char *w;

	while (i < n) {
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
		if (seed >> 61 == 0) {
			p[i++] = seed >> 40;
			continue;
		}
		for (w = words[(seed >> 33) % 6]; *w && i < n; w++)
			p[i++] = *w;
	}
}

/* Packs and unpacks n bytes at all levels; a hash of all that came out. */
unsigned long library_zlib(unsigned long n)
{
	static unsigned char in[65536], packed[80000], out[65536];
	unsigned long h = 14695981039346656037ul;
	uLongf packed_len, out_len;
	int level;

	if (n > sizeof(in))
		return 0;
	for (level = 0; level <= 9; level += 3) {
		fill(in, n, level);
		packed_len = sizeof(packed);
		if (compress2(packed, &packed_len, in, n, level) != Z_OK)
			return 1;
		out_len = sizeof(out);
		memset(out, 0, sizeof(out));
		if (uncompress(out, &out_len, packed, packed_len) != Z_OK)
			return 2;
		if (out_len != n || memcmp(in, out, n))
			return 3;
		h = hash(h, packed, packed_len);
		h = hash(h, out, out_len) ^ crc32(0, out, out_len) ^ adler32(1, in, n);
	}
	return h;
}

static int add_row(void *arg, int columns, char **values, char **names)
{
	unsigned long *h = arg;
	int i;

	for (i = 0; i < columns; i++)
		*h = hash(*h, values[i] ? values[i] : "-", values[i] ? strlen(values[i]) : 1);
	return 0;
}

static int run(sqlite3 *db, unsigned long *h, const char *sql)
{
	return sqlite3_exec(db, sql, add_row, h, NULL);
}

static int insert_rows(sqlite3 *db, unsigned long n)
{
	unsigned long i, v = 1;
	sqlite3_stmt *s;
	char name[40];
	int err = 0;

	if (sqlite3_prepare_v2(db, "insert into t values(?, ?, ?, ?)", -1, &s, NULL))
		return 1;
	for (i = 0; i < n && !err; i++) {
		v = v * 6364136223846793005ul + 1442695040888963407ul;
		snprintf(name, sizeof(name), "name %lu of %lx", i % 37, v >> 40);
		sqlite3_bind_int64(s, 1, (long)i);
		sqlite3_bind_text(s, 2, name, -1, SQLITE_TRANSIENT);
		sqlite3_bind_double(s, 3, (double)(v >> 44) / 7.0);
		sqlite3_bind_int(s, 4, (int)(v >> 50));
		err = sqlite3_step(s) != SQLITE_DONE;
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
	return err;
}

/* A database in memory with n rows, and what it answers; a hash of that. */
unsigned long library_sqlite(unsigned long n)
{
	static const char *const statements[] = {
		"create index by_name on t(name)",
		"select count(*), sum(k), avg(x), min(name), max(name) from t",
		"select name, count(*) c from t group by substr(name, 1, 7) order by c, name",
		"update t set x = x * 2, name = upper(name) where id % 3 = 0",
		"select id, name from t where name like 'name 1%' order by x desc limit 50",
		"delete from t where k between 1000 and 3000",
		"select a.id, b.id from t a join t b on a.id = b.id * 2 where a.k > b.k limit 99",
		"with recursive c(i) as (select 1 union all select i + 1 from c where i < 99) "
		"select group_concat(i * i % 101) from c",
		"select printf('%.3f %08x %s', x, k, hex(name)) from t limit 40",
		"select json_extract('{\"a\": [1, 2, {\"b\": 3}]}', '$.a[2].b'), round(sum(x), 2) from t",
		"rollback to s",
		"select count(*), total(x) from t",
		"pragma integrity_check",
	};
	unsigned long h = 14695981039346656037ul;
	sqlite3 *db;
	unsigned int i;

	if (sqlite3_open(":memory:", &db))
		return 1;
	if (run(db, &h, "create table t(id integer primary key, name text, x real, k int)") ||
	    run(db, &h, "begin") || insert_rows(db, n) || run(db, &h, "savepoint s"))
		return 2;
	for (i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
		if (run(db, &h, statements[i]))
			return 3 + i;
	if (run(db, &h, "commit; drop table t"))
		return 100;
	if (sqlite3_close(db))
		return 101;
	return h;
}
