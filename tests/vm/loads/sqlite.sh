#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# sqlite3: transactions with a journal and with a log, two writers, a check of the file.
rows=2000
for mode in delete wal; do
	sqlite3 $mode.db <<-END
		pragma journal_mode=$mode;
		create table t(a integer primary key, b text, c real);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < $rows)
		insert into t select i, printf('row %d', i), i / 7.0 from n;
		create index i on t(b);
		begin; update t set b = b || '!' where a % 3 = 0; rollback;
		begin; delete from t where a % 5 = 0; commit;
		vacuum;
		select count(*), sum(a), max(b), round(sum(c), 3) from t;
	END
	for writer in 1 2; do
		i=0
		while [ $i -lt 10 ]; do
			echo ".timeout 60000"
			echo "insert into t(b) values('writer $writer, $i');"
			i=$((i + 1))
		done | sqlite3 $mode.db &
	done
	wait
	sqlite3 $mode.db "select b from t where b like 'writer%' order by b" | cksum
	sqlite3 $mode.db 'pragma integrity_check'
	sqlite3 $mode.db .dump | wc -l
done
