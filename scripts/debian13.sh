# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by the scripts beside it that take packages of Debian 13, after kernels.sh. Nothing is
# installed, and no root is needed. apt checks the packages' signatures, with lists and a cache of
# their own.
# shellcheck shell=bash

SUITE=trixie
APT=$KERNELS/apt

# apt for another release of Debian: its own lists, and no package is installed for it.
apt_there() {
	local command=$1
	shift
	"$command" -q -o Acquire::Retries=3 -o APT::Sandbox::User=root -o Acquire::Languages=none \
		-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$APT/sources" \
		-o Dir::State="$APT/state" -o Dir::State::status="$APT/status" -o Dir::Cache="$APT/cache" \
		"$@"
}

read_lists() {
	local uri
	uri=$(repository_of bookworm)
	[ -n "$uri" ] || die "no source of bookworm in apt's configuration to take $SUITE from"
	mkdir -p "$APT"/{sources,state/lists/partial,cache/archives/partial}
	: >"$APT/status"
	cat >"$APT/sources/debian.sources" <<-END
		Types: deb
		URIs: $uri
		Suites: $SUITE $SUITE-backports
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
	say "reading the package lists of $SUITE"
	apt_there apt-get update >"$APT/log" 2>&1 || die "$(tail -n 5 "$APT/log")"
}

# unpack DIRECTORY PACKAGE...
unpack() {
	local directory=$1 deb
	shift
	rm -rf "$directory"
	mkdir -p "$directory/debs"
	(cd "$directory/debs" && apt_there apt-get download "$@" >"$APT/log" 2>&1) ||
		die "$* cannot be fetched: $(tail -n 3 "$APT/log")"
	for deb in "$directory"/debs/*.deb; do
		dpkg-deb -x "$deb" "$directory"
	done
	rm -rf "$directory/debs"
}
