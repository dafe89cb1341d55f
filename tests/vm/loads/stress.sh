#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# stress-ng, class by class: system calls in all their variants, with what they give
# back verified. Each stressor makes so many rounds, times SCALE, and its class ends
# with status 0; a class that runs out of time ends with "late".
#
#	stress.sh [CLASS...]

# run CLASS STRESSOR:ROUNDS... : the stressors of a class work side by side
run() {
	class=$1
	shift
	words=
	for each in "$@"; do
		words="$words --${each%:*} 1 --${each%:*}-ops $((${each#*:} * ${SCALE:-1}))"
	done
	began=$(date +%s)
	mkdir "$class"
	# shellcheck disable=SC2086 # words are words
	stress-ng --temp-path "$class" --seed 1 --verify --oomable --metrics-brief \
		--timeout $((120 * ${SCALE:-1})) $words > "$class.log" 2>&1
	status=$?
	[ $(($(date +%s) - began)) -lt $((120 * ${SCALE:-1})) ] || status=late
	echo "$class: status $status"
	[ $status = 0 ] || cat "$class.log" >&2
	for each in "$@"; do
		# A few rounds more than asked for depend on timing.
		awk -v name="${each%:*}" -v ops=$((${each#*:} * ${SCALE:-1})) \
			'$4 == name && $5 ~ /^[0-9]+$/ { print "  " name ($5 >= ops ? " made all its rounds" : " made " $5) }' \
			"$class.log"
	done
	rm -rf "$class" "$class.log"
}

files() {
	run files dir:2 dentry:100 rename:200 link:1 symlink:1 chmod:20 chown:200 utime:100 \
		fallocate:2 flock:50 getdent:20 access:5 open:200 seek:50 fcntl:50 lockf:50 locka:50 lockofd:50
	run data hdd:10 copy-file:5 sendfile:50 splice:200 tee:200 iomix:50 sync-file:2 xattr:5 readahead:10 \
		inotify:2 fanotify:2 file-ioctl:20 touch:100 fpunch:2 handle:20 fiemap:20
}

memory() {
	run memory mmap:5 mremap:5 madvise:10 brk:500 msync:20 mlock:5 mprotect:20 munmap:5 mincore:50 \
		mmapfork:1 mmapfixed:100 mmapmany:1 fault:200 userfaultfd:20 memfd:2 vm:2000 remap:20 \
		shm:2 shm-sysv:2 pkey:10 tlb-shootdown:2 vm-rw:10 vm-splice:200 zero:50 numa:5 membarrier:20
}

pipes() {
	run pipes pipe:2000 pipeherd:500 fifo:500 ring-pipe:200 poll:100 epoll:50 eventfd:200 dup:5 close:500 \
		pty:1 full:100 null:500
}

sockets() {
	run sockets sock:20 sockpair:50 sockfd:200 udp:100 sockdiag:50 sockmany:5 ping-sock:50 rawsock:50 \
		netlink-task:50 netlink-proc:2 sockabuse:2
}

signals() {
	run signals signal:200 sigsuspend:100 sigq:200 sigfd:200 sigsegv:50 sigtrap:50 sigpipe:20 sigchld:50 \
		sigpending:50 sigio:20 sigfpe:50 sigabrt:5 signest:50 sigrt:50 kill:200 bad-altstack:5 ptrace:200
}

processes() {
	run processes fork:50 vfork:50 clone:10 exec:10 wait:20 daemon:5 exit-group:5 zombie:20 pthread:20 spawn:5 \
		pidfd:20 session:10 resources:1 personality:20 prctl:5 seccomp:5 get:20 set:20 nice:5 env:2
}

queues() {
	run queues futex:200 mutex:200 sem:200 sem-sysv:200 msg:200 mq:200 aio:20 io-uring:50 aiol:20
}

names() {
	run names unshare:2 key:2 bind-mount:5 umount:2 chroot:10 mknod:5 cap:10 kcmp:10 dnotify:2 ramfs:2 tmpfs:2
}

times() {
	run times timer:50 timerfd:50 itimer:50 hrtimers:50 clock:20 alarm:2 nanosleep:5 sleep:10 yield:500 \
		switch:200 affinity:50 schedpolicy:20 rseq:500 getrandom:20 urandom:5 vdso:500 resched:20 sysinfo:20 \
		cyclic:50 ioprio:10
}

for class in "${@:-files memory pipes sockets signals processes queues names times}"; do
	for each in $class; do
		$each
	done
done
