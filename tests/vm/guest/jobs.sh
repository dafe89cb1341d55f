#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Ordinary programs with deterministic output, run by the tests with and without
# instrumentation. usage: jobs.sh JOB

set -e -o pipefail
work=$(mktemp -d /tmp/jobs.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
export LC_ALL=C

files() { # a tree of known content
	mkdir -p tree/a/b tree/c
	for i in $(seq 40); do
		seq "$i" "$((i * 37))" >"tree/a/f$i"
	done
	cp tree/a/f1? tree/a/b
	ln -s ../a/f7 tree/c/link
	ln tree/a/f9 tree/c/hard
}

case $1 in
coreutils)
	files
	ls -R tree
	stat -c '%n %s %h %F' tree/a/f9 tree/c/link
	find tree -type f | sort | xargs md5sum | md5sum
	sort -rn tree/a/f40 | uniq | head -n 3
	cut -c1-2 tree/a/f20 | tr 1 x | tail -n 2
	dd if=/dev/zero bs=4096 count=100 2>/dev/null | wc -c
	cp -a tree copy && diff -r tree copy && echo equal
	mv copy moved && rm -r moved && test ! -e moved && echo gone
	touch t && chmod 640 t && stat -c %a t
	mkfifo p && (seq 3 >p &) && cat p
	;;
sh)
	i=0
	while [ $i -lt 100 ]; do
		i=$((i + 1))
		x=$(echo $i)
	done
	echo "$x"
	(exit 3) || echo "status $?"
	trap 'echo caught' USR1
	kill -USR1 $$
	sleep 0.1 &
	wait $! && echo waited
	;;
tar)
	files
	tar -cf t.tar --sort=name --mtime=@0 tree
	mkdir out && tar -xf t.tar -C out && diff -r tree out/tree && echo equal
	tar -tf t.tar | md5sum
	;;
gzip)
	seq 200000 >numbers
	gzip -9 -n -k numbers && gzip -t numbers.gz && stat -c %s numbers.gz
	gunzip -c numbers.gz | cmp - numbers && echo equal
	;;
python3)
	/usr/bin/python3 - <<-'END'
		import hashlib, mmap, os, signal, socket, subprocess, tempfile, threading, time

		area = mmap.mmap(-1, 1 << 20)
		area[4094:4102] = b"boundary"
		print(area[4094:4102])
		ours, theirs = socket.socketpair()
		sender = threading.Thread(target=lambda: (theirs.sendall(b"x" * 300000), theirs.close()))
		sender.start()
		total = 0
		while part := ours.recv(65536):
		    total += len(part)
		sender.join()
		print(total)
		print(subprocess.run(["cat"], input=b"through a pipe", stdout=subprocess.PIPE).stdout)
		with tempfile.TemporaryFile() as f:
		    f.write(bytes(range(256)) * 1000)
		    f.seek(1000)
		    print(hashlib.sha256(f.read(77777)).hexdigest())
		pid = os.fork()
		if not pid:
		    os._exit(17)
		print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
		for name in ("/nonexistent", "/proc/self/mem"):
		    try:
		        os.write(os.open(name, os.O_RDWR), b"x")
		    except OSError as e:
		        print(name, e.errno)
		signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
		signal.setitimer(signal.ITIMER_REAL, 0.05)
		time.sleep(0.2)
		server = socket.create_server(("127.0.0.1", 0))
		client = socket.create_connection(server.getsockname())
		client.sendall(b"tcp")
		print(server.accept()[0].recv(10))
	END
	;;
gcc)
	cat >prog.c <<-'END'
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>
		static int by_value(const void *a, const void *b) { return *(int *)a - *(int *)b; }
		int main(void)
		{
			int v[1000];
			unsigned x = 1;
			for (int i = 0; i < 1000; i++) v[i] = (int)((x = x * 1103515245 + 12345) >> 8 & 0xffff);
			qsort(v, 1000, sizeof(v[0]), by_value);
			printf("%d %d %d\n", v[0], v[500], v[999]);
			return 0;
		}
	END
	gcc -O2 -Wall -g -o prog prog.c
	./prog
	objdump -d --no-show-raw-insn prog | grep -c call
	;;
esac
