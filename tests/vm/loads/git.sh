#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# git: commits, branches and merges whose names depend only on their content; fsck, gc, clone.
export GIT_AUTHOR_DATE='@1000000000 +0000' GIT_COMMITTER_DATE='@1000000000 +0000' HOME="$PWD" LC_ALL=C
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
git init -q -b main work && cd work || exit
mkdir sub
for round in $(seq 5); do
	for file in $(seq 10); do
		seq "$round" $((round + file * 20)) > "sub/$file"
	done
	git add -A && git commit -q -m "round $round"
done
git checkout -q -b side HEAD~2 && echo side > side && git add side && git commit -q -m side
git checkout -q main && git merge -q -m merge side
git log --format='%H %s' --graph
git diff --stat HEAD~1 | tail -n 1
git fsck --full --strict 2>&1
git gc -q --aggressive --prune=now
git count-objects -v | grep -E '^(count|in-pack|packs)'
cd .. && git clone -q --no-local work copy && git -C copy rev-parse HEAD && git -C copy status --short
tar -cf - -C work .git/refs .git/packed-refs | tar -tf - | sort
