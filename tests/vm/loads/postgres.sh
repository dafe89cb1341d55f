#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A postgres server with a data directory of its own, and pgbench on it. It refuses root.
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
as="setpriv --reuid=postgres --regid=postgres --clear-groups"
export LC_ALL=C PGHOST="$PWD" HOME="$PWD"
# shellcheck disable=SC2086 # a command and its options
{
	$as initdb -A trust -D db > initdb.log 2>&1
	echo "initdb $?"
	$as pg_ctl -D db -w -t 120 -l server.log -o "-h '' -k '$PWD' -c fsync=on" start > start.log 2>&1
	echo "start $?"
	$as createdb bench
	$as pgbench -q -i -s 1 bench > init.log 2>&1
	echo "init $?"
	$as pgbench -n -c 4 -j 2 -t 50 bench 2> pgbench.err |
		grep -E '^number of (transactions actually|failed)'
	$as psql -At bench <<-END
		select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history);
		select (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers);
		select count(*) from pgbench_history;
		create table t as select i, md5(i::text) m from generate_series(1, 20000) i;
		create index on t(m);
		vacuum full analyze t;
		select count(*), min(m), max(m) from t where m > '8';
	END
	$as pg_dump -t t bench | grep -v -e '^--' -e '^.\(un\)\?restrict ' | cksum
	$as pg_ctl -D db -w -t 120 -m fast stop > stop.log 2>&1
	echo "stop $?"
}
cat server.log pgbench.err >&2
