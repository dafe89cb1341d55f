#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# stress-ng, class by class: system calls in all their variants, with what they give
# back verified. Each stressor makes so many rounds, and its class ends with status 0;
# a class that runs out of time ends with "late".
#
#	stress.sh [CLASS...]

# Not gigabytes, as some of them would like.
SIZES="--fallocate-bytes 4M --fiemap-bytes 4M --hdd-bytes 4M --iomix-bytes 2M --memfd-bytes 4M
	--memfd-fds 16 --mmap-bytes 4M --mremap-bytes 4M --msync-bytes 4M --readahead-bytes 4M --seek-size 4M
	--sendfile-size 1M --shm-bytes 1M --shm-sysv-bytes 1M --shm-sysv-segs 4 --sync-file-bytes 4M
	--vm-bytes 4M --vm-rw-bytes 4M --vm-splice-bytes 64K"

# only_killed_counting LOG: is all that LOG complains of that tlb-shootdown's counter was left half
# written? Up to 0.15.07 it ends its children with SIGKILL when the first is done, and another may
# be between the two words it writes for a round; in a class of many stressors these lie on two
# pages, with a page fault between them. Status 7 then says that the number of rounds is not to be
# trusted.
only_killed_counting() {
	[ $status = 7 ] && [ "$(grep -cE 'warn:|fail:|error:' "$1")" = 1 ] &&
		grep -q 'warn:.*tlb-shootdown: WARNING: bogo-ops counter in non-ready state' "$1"
}

# run CLASS STRESSOR:ROUNDS... : the stressors of a class work side by side
run() {
	class=$1
	shift
	words=
	for each in "$@"; do
		words="$words --${each%:*} 1 --${each%:*}-ops ${each#*:}"
	done
	began=$(date +%s)
	mkdir "$class"
	# shellcheck disable=SC2086 # words are words
	stress-ng --temp-path "$class" --seed 1 --verify --oomable --metrics-brief \
		--timeout 600 $SIZES $words > "$class.log" 2>&1
	status=$?
	[ $(($(date +%s) - began)) -lt 600 ] || status=late
	only_killed_counting "$class.log" && status=0
	echo "$class: status $status"
	[ $status = 0 ] || cat "$class.log" >&2
	for each in "$@"; do
		# A few rounds more than asked for depend on timing.
		awk -v name="${each%:*}" -v ops=${each#*:} \
			'$4 == name && $5 ~ /^[0-9]+$/ { print "  " name ($5 >= ops ? " made all its rounds" : " made " $5) }' \
			"$class.log"
	done
	rm -rf "$class" "$class.log"
}

class_files() {
	run files dir:1 dentry:50 rename:200 chmod:20 chown:200 utime:100 fallocate:2 flock:50 getdent:20 \
		access:5 open:200 seek:50 fcntl:50 lockf:10 locka:10 lockofd:10
}

class_data() {
	run data hdd:2 sendfile:10 splice:100 tee:50 iomix:5 sync-file:1 fanotify:1 file-ioctl:20 touch:100 handle:20
}

class_memory() {
	run memory mmap:1 mremap:1 brk:500 msync:10 mlock:1 mprotect:5 munmap:5 mincore:5 fault:200 \
		userfaultfd:10 memfd:1 vm:1000 shm:1 shm-sysv:1 pkey:5 tlb-shootdown:1 vm-rw:2 vm-splice:100 \
		zero:50 membarrier:10
}

class_pipes() {
	run pipes pipe:2000 fifo:300 ring-pipe:200 poll:100 epoll:20 eventfd:200 dup:2 full:20 null:50
}

class_sockets() {
	run sockets sock:2 sockpair:10 sockfd:50 udp:50 rawsock:20 netlink-task:20 netlink-proc:1 sockabuse:1
}

class_signals() {
	run signals signal:200 sigsuspend:100 sigq:200 sigfd:200 sigsegv:50 sigtrap:50 sigpipe:20 sigchld:50 \
		sigpending:50 sigfpe:50 sigabrt:5 signest:50 sigrt:50 kill:200 bad-altstack:5 ptrace:200
}

# Not resources: stress-ng 0.15.06 clears one of its array of process ids, and sends SIGALRM to
# whatever the rest of that memory names: init, kernel threads, its own main process, jifl.
class_processes() {
	run processes clone:10 fork:50 vfork:50 wait:20 daemon:5 exit-group:5 zombie:20 pthread:20 \
		pidfd:20 session:10 personality:20 prctl:5 seccomp:5 get:20 set:20 nice:5 env:2
}

class_queues() {
	# mutex says that it could make no threads when the first is done before the last is made.
	run queues futex:200 mutex:20000 sem-sysv:200 msg:200 mq:200 aio:20 io-uring:50 aiol:20
}

class_names() {
	run names unshare:2 key:2 umount:2 chroot:10 mknod:5 cap:10 kcmp:10 dnotify:2 ramfs:2
}

class_times() {
	run times timer:50 timerfd:50 itimer:50 clock:20 alarm:2 nanosleep:5 sleep:10 \
		switch:200 affinity:50 getrandom:20 urandom:5 vdso:500 sysinfo:20 \
		ioprio:10
}

# What takes long natively, too.
class_slow() {
	run slow link:1 symlink:1 inotify:2 fpunch:2 mmapfork:1 mmapfixed:2 remap:4 numa:2 pipeherd:100 close:100 \
		pty:1 sockmany:5
}

for class in "${@:-files data memory pipes sockets signals processes queues names times}"; do
	for each in $class; do
		"class_$each"
	done
done
