#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# iperf3 on the loopback interface: so many bytes each way, TCP and UDP, with and without copies.
iperf3 -s -p 5290 --idle-timeout 600 > server.log 2>&1 &
sleep 1
bytes=8M
for way in "" "-R" "-P 4" "-Z" "-6 -c ::1" "-u -b 20M"; do
	# shellcheck disable=SC2086 # words
	iperf3 -c 127.0.0.1 -p 5290 -n $bytes $way > client.log 2>&1
	echo "iperf3 $way: status $?, $(grep -c 'receiver$' client.log) received"
	grep -i error client.log
done
kill $!
wait
