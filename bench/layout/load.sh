#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# usage: load.sh LOAD begin|once
#
# begin: what a load needs, in the current directory; a server stays. once: the load's work, always
# the same. It prints what shows that the work was done.
set -e
case "$1 $2" in
"targz begin" | "sqlite begin") ;;
"targz once")
	tar cf - /usr/share/zoneinfo/Europe /etc/ssl 2> /dev/null | gzip -1 > out.tgz
	tar tzf out.tgz | wc -l
	;;
"sqlite once")
	rm -f t.db*
	sqlite3 t.db 'create table t(a integer primary key, b text)'
	i=0
	while [ $i -lt 12 ]; do
		echo "insert into t(b) values('row $i'); select count(*) from t;"
		i=$((i + 1))
	done | sqlite3 t.db | tail -n 1
	;;
"compile begin")
	for name in a b c; do
		printf '#include <stdio.h>\n#include <stdlib.h>\nint %s_(int x) { return x * 2; }\n' $name > $name.c
	done
	echo 'int main(void) { puts("run"); return 0; }' >> c.c
	;;
"compile once")
	for name in a b c; do
		gcc -O0 -c -o $name.o $name.c
	done
	gcc -o prog a.o b.o c.o
	./prog
	;;
"redis begin")
	redis-server --port 0 --unixsocket "$PWD/socket" --dir "$PWD" --appendonly no --save '' > server.log 2>&1 &
	until [ "$(redis-cli -s "$PWD/socket" ping 2> /dev/null)" = PONG ]; do sleep 0.1; done
	;;
"redis once")
	redis-benchmark -s "$PWD/socket" -q -n 300 -c 4 -t set,get,lpush 2> /dev/null | tr '\r' '\n' | grep -c 'requests per second'
	;;
"web begin")
	mkdir files
	head -c 100 /dev/zero > files/small
	cat > nginx.conf <<-END
		user root;
		worker_processes 1;
		pid $PWD/pid;
		error_log $PWD/error.log;
		events { worker_connections 128; }
		http {
			access_log $PWD/access.log;
			client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
			uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
			server { listen 127.0.0.1:8090; root $PWD/files; }
		}
	END
	nginx -c "$PWD/nginx.conf" -e "$PWD/error.log"
	until [ -s pid ]; do sleep 0.1; done
	;;
"web once")
	for keep in "" -k; do
		# shellcheck disable=SC2086 # a word, or none
		ab -q $keep -n 150 -c 4 http://127.0.0.1:8090/small 2> /dev/null | grep '^Complete requests'
	done
	;;
*)
	echo "load.sh: no load $1, or not begin or once: $2" >&2
	exit 2
	;;
esac
