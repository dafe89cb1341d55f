#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# tar and gzip: pack, compare, list, unpack, append; damaged input.
export LC_ALL=C
mkdir -p in/a/b in/empty
seq 1 5000 > in/a/numbers
head -c 200000 /dev/zero > in/a/b/zeros
ln in/a/numbers in/a/hard
ln -s a/numbers in/soft
mkfifo in/fifo
chmod 600 in/a/b/zeros
for f in $(seq 30); do echo "file $f" > "in/f$f"; done
find in -exec touch -h -d @1000000000 {} +

tar --sort=name --owner=0 --group=0 --numeric-owner -cf all.tar in
sha256sum all.tar
tar -tvf all.tar --numeric-owner | cksum
mkdir out
tar -xpf all.tar -C out
(cd out && find in -printf '%p %y %m %s %T@ %l\n' | sort) | sha1sum
tar -df all.tar; echo "compare $?"
tar -rf all.tar in/f1; tar -tf all.tar | wc -l
gzip -n -9 < all.tar > all.gz; sha256sum all.gz
gzip -t all.gz; echo "test $?"
gzip -dc all.gz | cmp - all.tar; echo "same $?"
tar -czf - in | tar -tzf - | wc -l
gzip -n all.tar; ls -l all.tar.gz | cut -d' ' -f 5
head -c 500 all.gz | gzip -dc > cut 2> /dev/null; echo "cut off $?"
tar --sparse -cf sparse.tar in/a/b/zeros && tar -xOf sparse.tar | cksum
