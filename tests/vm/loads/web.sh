#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# nginx with two workers on the loopback interface, and ApacheBench on it.
mkdir files
head -c 100 /dev/zero > files/small
head -c 1000000 /dev/zero > files/large
cat > nginx.conf <<END
user root;
worker_processes 2;
pid $PWD/pid;
error_log $PWD/error.log;
events { worker_connections 128; }
http {
	access_log $PWD/access.log;
	sendfile on; tcp_nopush on;
	client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
	uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
	server { listen 127.0.0.1:8090; root $PWD/files; keepalive_requests 50; }
}
END
nginx -c "$PWD/nginx.conf" -e "$PWD/error.log"
echo "start $?"
for what in "small 400 -k" "small 200" "large 20 -k" "missing 20"; do
	# shellcheck disable=SC2086 # words
	set -- $what
	ab $3 -q -n $(($2)) -c 8 "http://127.0.0.1:8090/$1" 2> ab.err |
		grep -E '^(Complete requests|Failed requests|Non-2xx|HTML transferred)'
done
kill -QUIT "$(cat pid)"
while [ -e pid ]; do sleep 0.1; done
wc -l < access.log
cut -d'"' -f 3 access.log | cut -d' ' -f 2 | sort | uniq -c
