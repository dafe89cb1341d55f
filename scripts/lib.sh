# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by the scripts beside it: the tree's root and a few helpers.
# shellcheck disable=SC2034 # used there
# shellcheck shell=bash

set -euo pipefail

JIFL_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$JIFL_ROOT/build
# depmod and friends; a user's PATH may lack these
PATH=$PATH:/usr/sbin:/sbin

say() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
}

die() {
	say "$@"
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "root is needed for: $*"
	fi
}

# Sends the command's long output to a log, and shows the end of the log when the command fails.
apt() {
	local log=$BUILD/apt.log
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
		-o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null && return
	tail -n 20 "$log" >&2
	return 1
}

# Prints the place from which apt takes a suite of Debian.
repository_of() {
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
		awk -v suite="$1" '$1 == suite && !uri { uri = $2 } END { print uri }'
}

updated=
update_lists() {
	[ -z "$updated" ] || return 0
	say "reading the package lists"
	apt update || die "apt-get update failed; its last words are above"
	updated=1
}

# install WHAT... : never removes packages of the user's (--no-remove)
install() {
	say "installing: $*"
	apt install --no-install-recommends --no-remove "$@" ||
		die "apt-get could not install $*; its last words are above"
}

is_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_lacking PACKAGE... : does nothing, fast, where no package is missing
install_lacking() {
	local package lacking=()
	for package; do
		is_installed "$package" || lacking+=("$package")
	done
	[ ${#lacking[@]} = 0 ] && return
	update_lists
	install "${lacking[@]}"
}

POLICY=/usr/sbin/policy-rc.d

# install_lacking for servers: while the file exists, Debian's scripts start no server.
install_lacking_stopped() {
	local package lacking=
	for package; do
		is_installed "$package" || lacking=1
	done
	[ -n "$lacking" ] || return 0
	mkdir -p "$BUILD"
	if [ ! -e $POLICY ]; then
		trap 'as_root rm -f $POLICY' EXIT
		printf '#!/bin/sh\nexit 101\n' | as_root tee $POLICY >/dev/null
		as_root chmod +x $POLICY
	fi
	install_lacking "$@"
}

# Prints the directory to build modules in for a release; fails without one.
kernel_build_directory() {
	local directory
	for directory in "$BUILD/debug-kernel" "$BUILD/race-kernel"; do
		[ "$1" = "$(cat "$directory/release" 2>/dev/null)" ] || continue
		echo "$directory/build"
		return
	done
	for directory in "$BUILD/kernels/usr/src/linux-headers-$1" "/lib/modules/$1/build"; do
		[ -e "$directory/Makefile" ] || continue
		echo "$directory"
		return
	done
	return 1
}

# The releases (uname -r) to build for: the fetched kernels, the debug kernels that
# have been built, and the running one where its headers are installed.
kernel_releases() {
	local directory
	{
		for directory in "$BUILD"/kernels/lib/modules/*; do
			[ ! -d "$directory" ] || basename "$directory"
		done
		cat "$BUILD"/{debug,race}-kernel/release 2>/dev/null || true
		[ ! -e "/lib/modules/$(uname -r)/build/Makefile" ] || uname -r
	} | sort -uV
}

# version_at_least HAVE WANTED
version_at_least() {
	[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}
