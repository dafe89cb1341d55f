#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# fio writes and reads back what it wrote, verified by checksums, by many ways to do I/O.
for engine in psync mmap libaio io_uring; do
	fio --name="$engine" --ioengine="$engine" --rw=randwrite --size=2M --bs=4k-64k \
		--iodepth=8 --verify=crc32c --verify_fatal=1 --do_verify=1 --fallocate=none --randseed=1 \
		--filename=data --output=report --minimal > log 2>&1
	echo "$engine: status $?, errors $(cut -d';' -f 5 report), read $(cut -d';' -f 6 report) kB," \
		"written $(cut -d';' -f 47 report) kB, $(wc -c < data) bytes"
	rm -f data report
done
