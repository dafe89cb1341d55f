#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Does one thing over and over until the file STOP is there, and compares what
# comes out with what came out first. Prints how often it did, and how often
# that was wrong.
#
#	worker.sh KIND STOP
export LC_ALL=C

copy() {
	dd if=/dev/zero bs=4k count=64 2>/dev/null | tr '\0' x | dd of="$STOP.copy" bs=1000 2>/dev/null
	cksum < "$STOP.copy"
}

list() {
	ls -lR /usr/lib/python3.11/asyncio /proc/sys/kernel/random | grep -v uuid | cksum
}

fork() {
	i=0
	sum=0
	while [ $i -lt 12 ]; do
		x=$(echo $i | cat)
		(exit $x) || sum=$((sum + $?))
		i=$((i + 1))
	done
	echo "sum $sum"
}

pipe() {
	seq 3000 | sort -rn | tail -n 2 | tr '\n' ' '
}

STOP=$2
want=$($1)
n=0
bad=0
while [ ! -e "$STOP" ]; do
	got=$($1)
	n=$((n + 1))
	if [ "$got" != "$want" ]; then
		bad=$((bad + 1))
		echo "$1: $got instead of $want" >&2
	fi
done
rm -f "$STOP.copy"
echo "$n $bad"
