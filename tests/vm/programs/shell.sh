#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What shells do to kernels: forks, pipes, redirections, traps, jobs, here documents.
sum=0
for i in $(seq 60); do
	x=$(echo "$i" | tr 0-9 a-j)
	(exit $((i % 7))) || sum=$((sum + $?))
	sum=$((sum + ${#x}))
done
echo "sum $sum"

trap 'echo caught TERM' TERM
kill -TERM $$
trap - TERM

cat <<END | sed 's/x/y/' | (read -r a; read -r b; echo "$b/$a")
first x
second x
END

i=0
while [ $i -lt 20 ]; do
	echo "line $i" >> file
	i=$((i + 1))
done
exec 3< file
read -r one <&3
read -r two <&3
exec 3<&-
echo "$one, $two, $(wc -l < file)"

for n in 3 1 2; do
	(sleep 0.0$n; echo "job $n" > job.$n) &
done
wait
cat job.1 job.2 job.3

echo 'a b  c' | { read -r p q; echo "[$p][$q]"; }
sh -c 'kill -KILL $$'; echo "killed: $?"
no-such-command-here 2> /dev/null; echo "missing: $?"
(cd /no/such/directory) 2> /dev/null; echo "cd: $?"
ulimit -n 64; exec 9> nine; echo nine >&9; cat nine
set -- one two three; shift; echo "$# $1"
exit 42
