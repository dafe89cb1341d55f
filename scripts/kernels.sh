# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by the scripts beside it that unpack kernels, after lib.sh. build/kernels/ is laid out as
# below /: boot/, lib/modules/, usr/src/.
# shellcheck shell=bash

KERNELS=$BUILD/kernels

# Makes headers work where they are: paths in them are absolute. Removes the vmlinux that some
# headers carry: without it, Kbuild leaves out modules' BTF, for which it would need pahole.
relocate() {
	local headers=$2/usr/src/linux-headers-$1
	# shellcheck disable=SC2016 # make's own variables
	sed -i -e 's|/usr/src/\(linux-headers-\)|$(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)/\1|' \
		-e 's|^KBUILD_OUTPUT=|KBUILD_OUTPUT:=|' "$headers/Makefile"
	rm -f "$headers/vmlinux"
	rm -f "$2/lib/modules/$1/build" "$2/lib/modules/$1/source"
}

# place RELEASE ROOT: moves a kernel that is unpacked and relocated below ROOT to build/kernels
place() {
	local release=$1 root=$2
	mkdir -p "$KERNELS/boot" "$KERNELS/lib/modules" "$KERNELS/usr"
	cp -a "$root/usr/src" "$root/usr/lib" "$KERNELS/usr/"
	rm -rf "$KERNELS/lib/modules/$release"
	mv "$root/lib/modules/$release" "$KERNELS/lib/modules/"
	depmod -b "$KERNELS" "$release"
	mv "$root/boot/config-$release" "$KERNELS/boot/"
	unpack_image "$root/boot/vmlinuz-$release" "$KERNELS/boot/vmlinux-$release"
	mv "$root/boot/vmlinuz-$release" "$KERNELS/boot/"
}

# number FILE OFFSET BYTES: a little-endian number in a file
number() {
	od -A n -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '
}

# Unpacks the ELF image inside a bzImage (Documentation/arch/x86/boot.rst), so that a translated
# machine does not have to unpack it at every boot.
unpack_image() {
	local image=$1 sectors offset length start
	sectors=$(number "$image" $((0x1f1)) 1)
	offset=$(number "$image" $((0x248)) 4)
	length=$(number "$image" $((0x24c)) 4)
	start=$(((sectors + 1) * 512 + offset))
	# The last 4 bytes are the unpacked size and do not belong to the archive.
	dd status=none iflag=skip_bytes,count_bytes skip=$start count=$((length - 4)) \
		if="$image" of="$2.payload"
	case $(od -A n -t x1 -N 4 "$2.payload" | tr -d ' ') in
	fd377a58) xz -dc <"$2.payload" >"$2.new" ;;
	28b52ffd) zstd -dcq <"$2.payload" >"$2.new" ;;
	1f8b*) gzip -dc <"$2.payload" >"$2.new" ;;
	*)
		say "unknown compression of $image: it boots as it is"
		rm "$2.payload"
		return
		;;
	esac
	rm "$2.payload"
	mv "$2.new" "$2"
}
