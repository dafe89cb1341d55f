#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# gcc and make: this project's own engine for user space, whole, two jobs side by side.
cp -r "$JIFL_ROOT/engine" "$JIFL_ROOT/include" . || exit
objects=$(find engine -name '*.c' | sort | sed 's/c$/o/' | tr '\n' ' ')
cat > Makefile <<END
CFLAGS := -O2 -g0 -ffile-prefix-map=\$(CURDIR)=. -Iinclude -Iinclude/uapi -Iengine -I. \
	-I$JIFL_ROOT/build/zydis/include -I$JIFL_ROOT/build/zydis/dependencies/zycore/include
engine.a: $objects
	ar rcD \$@ \$^
END
make -k -j 2 > log 2>&1
echo "make $?"
for each in $objects; do
	echo "$each $(cksum < "$each")"
done
cksum < engine.a
