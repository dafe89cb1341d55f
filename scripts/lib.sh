# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by the scripts beside it: the tree's root and a few helpers.
# shellcheck shell=bash

set -euo pipefail

JIFL_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$JIFL_ROOT/build
# depmod and friends; a user's PATH may lack these
PATH=$PATH:/usr/sbin:/sbin

# The kernels: the metapackage of each one's headers.
KERNEL_HEADERS=(linux-headers-amd64 linux-headers-6.12-amd64)

say() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
}

die() {
	say "$@"
	exit 1
}

# The releases (uname -r) whose headers are installed, oldest first.
kernel_releases() {
	local directory
	for directory in /lib/modules/*/build; do
		[ -e "$directory/Makefile" ] || continue
		basename "$(dirname "$directory")"
	done | sort -V
}

# version_at_least HAVE WANTED
version_at_least() {
	[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}
