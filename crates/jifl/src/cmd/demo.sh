# SPDX-License-Identifier: MIT OR Apache-2.0
#
# `jifl demo` has a shell of the throwaway machine run this, where jifl.ko is loaded: programs that
# each machine has, and what their system calls cost.

set -eu

programs='
	ls -l /usr/bin > listing
	sort -k 5 -n listing | tail -n 3 > largest
	seq 20000 > numbers
	tar -cf numbers.tar listing numbers
	gzip -k numbers.tar
	grep -c 7 listing numbers > sevens
	for i in 1 2 3 4 5; do cat sevens > /dev/null; done
	wc numbers.tar.gz > size
'

work=$(mktemp -d)
cd "$work"
trap 'cd / && rm -rf "$work"' EXIT

echo "Linux $(uname -r), unmodified. Each system call below was executed as"
echo "instrumented copies of the kernel's own code, while these programs ran:"
echo "$programs"

jifl count insn sys:clone sys:vfork sys:execve sys:openat sys:read sys:write sys:getppid \
	sys:wait4 sys:mmap -- sh -euc "$programs"

echo
echo "The same for one call, in numbers for a program:"
echo
jifl count insn sys:getppid -f json -- sh -c true
