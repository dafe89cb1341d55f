#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# A redis server on a socket and on TCP, with a log and snapshots, and its benchmark on it.
redis-server --port 6390 --bind 127.0.0.1 --unixsocket "$PWD/socket" --dir "$PWD" --appendonly yes \
	--save '1 1' --daemonize no > server.log 2>&1 &
cli="redis-cli -s $PWD/socket"
tries=0
until [ "$($cli ping 2> /dev/null)" = PONG ] || [ $((tries += 1)) -gt 300 ]; do sleep 0.1; done
requests=2000
for where in "-s $PWD/socket" "-h 127.0.0.1 -p 6390"; do
	# shellcheck disable=SC2086 # words
	redis-benchmark $where -q -n $requests -c 10 -P 4 -r 100 -t set,get,incr,lpush,sadd,zadd,mset > bench.log 2>&1
	echo "benchmark $?, $(tr '\r' '\n' < bench.log | grep -c 'requests per second')"
done
$cli get counter:__rand_int__ > /dev/null
i=0
while [ $i -lt 200 ]; do echo "set fixed:$i value:$((i * 7))"; i=$((i + 1)); done | $cli --pipe | tail -n 1
$cli llen mylist
$cli bgsave > /dev/null
$cli mget fixed:1 fixed:77 fixed:199
$cli shutdown save
wait
echo "server $?"
redis-check-rdb dump.rdb | grep -o 'RDB looks OK!'
