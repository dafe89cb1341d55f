#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Many small programs; what they print depends on nothing but their input.
export LC_ALL=C TZ=UTC
umask 022
seq 1 2000 > numbers
printf 'pear\napple\nfig\napple\n\ttab here\n' > words
say() { printf '%s: ' "$1"; shift; "$@"; echo "status $?"; }

say cat sh -c 'cat numbers words | cksum'
say sort sort -u words
say sort-n sh -c 'sort -rn numbers | head -n 3'
say uniq sh -c 'sort words | uniq -c'
say comm sh -c 'sort -u words > a; sort -u numbers > b; comm -12 a b | wc -l'
say cut cut -c 1-3 words
say paste sh -c 'paste -s -d, words'
say tr sh -c 'tr a-z A-Z < words'
say fold sh -c 'paste -s numbers | fold -w 60 | md5sum'
say fmt sh -c 'fmt -w 40 numbers | sha1sum'
say expand sh -c 'expand words | unexpand -a | cksum'
say nl nl words
say od sh -c 'od -A x -t x1z words'
say split sh -c 'split -n 7 -d numbers part. && wc -c part.* && cat part.* | cmp - numbers'
say csplit csplit -f cut. words /fig/
say tac sh -c 'tac numbers | sha256sum'
say head-tail sh -c 'head -c 100 numbers | tail -n +3'
say join sh -c 'sort -k1,1 words > j1; printf "apple 1\nfig 2\n" > j2; join j1 j2'
say tsort sh -c 'printf "a b\nb c\na d\n" | tsort'
say factor factor 1234567890 97 18446744073709551557
say expr expr 6 \* 7
say seq seq -s: 3 4 20
say numfmt numfmt --to=iec 1 2000 3000000
say date date -d @86400 +%F
say dd sh -c 'dd if=/dev/zero of=zeros bs=1000 count=77 2>/dev/null; sha512sum zeros'
say truncate sh -c 'truncate -s 123456 sparse; stat -c "%s %A" sparse; cksum sparse'
say cp sh -c 'mkdir -p tree/x/y; cp numbers tree/x/y; cp -a tree copy; diff -r tree copy; find copy | sort'
say mv sh -c 'mv copy moved; ls -R moved'
say ln sh -c 'ln numbers hard; ln -s numbers soft; readlink soft; stat -c "%h %F" hard soft; test soft -ef hard'
say install sh -c 'install -m 640 words installed; stat -c "%a %s" installed'
say chmod sh -c 'chmod u-r,g+x words; stat -c %a words; chmod 644 words'
say touch sh -c 'touch -d @1000000 words; stat -c %Y words; date -r words +%s'
say mkfifo sh -c 'mkfifo pipe; cat words > pipe & tee copy < pipe | md5sum; wait; cmp copy words'
say mktemp sh -c 'f=$(mktemp -p .); test -f "$f" && rm "$f"'
say du sh -c 'du --apparent-size -b zeros | cut -f1'
say df sh -c 'df . > /dev/null'
say rm sh -c 'rm -r tree moved; ls -d tree moved'
say rmdir rmdir nothing-there
say shuf sh -c 'shuf --random-source=zeros numbers | sha224sum'
say base64 sh -c 'base64 words | base64 -d | cmp - words'
say env sh -c 'env -i A=1 printenv A'
say nice nice -n 5 nice
say timeout timeout 0.2 sleep 10
# A child that has ended before kill does is reaped there, without a word of it: what wait says
# depends on that.
say kill sh -c 'sleep 10 & kill -TERM $!; wait $! 2> /dev/null'
say yes sh -c 'yes jifl | head -n 5000 | sha384sum'
say tee sh -c 'seq 5 | tee t1 t2 | wc -l; cmp t1 t2'
say ls-proc sh -c 'ls /proc/self > /dev/null; cat /proc/self/comm'
say pwd sh -c 'cd / && pwd && cd /usr/bin/.. && pwd -P'
say dev sh -c 'head -c 10 /dev/zero | od; : > /dev/null; echo x > /dev/full'
say sync sync words
say stat sh -c 'stat -f -c %T / > /dev/null; stat no-such-file'
ls | sort
