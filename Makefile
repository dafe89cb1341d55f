# JIFL. `make demo` shows what it does, `make test` tests it; both install
# what the machine lacks first. Thin: the work is done by scripts/, Kbuild and cargo.

-include build/toolchain.mk

CARGO ?= cargo
CARGO_OUT := build/cargo/x86_64-unknown-linux-gnu/release

.PHONY: all setup modules cli test unit test-rust test-unit test-roundtrip test-vm test-newest fuzz planted bench \
	bench-native bench-layout bench-gtod test-page \
	man install deb tarball test-packages demo front-end lint fmt clean help debug-kernel race-kernel soak ltp

MINUTES ?= 60
CPUS := $(shell nproc)

# The command's last crate keeps one processor busy for a minute; modules are built beside it.
all:
	@$(MAKE) --no-print-directory -j3 modules cli front-end

help:
	@echo "demo   count instructions of system calls in a throwaway machine"
	@echo "test   all suites: test-rust, test-unit, test-roundtrip, fuzz, test-vm; the last in turns"
	@echo "fuzz   the engine against native execution; SECONDS=n of CPU time"
	@echo "test-newest  the tests in machines on Debian's newest kernels, which it fetches"
	@echo "test-page  the page of jifl serve in a browser, which it installs"
	@echo "planted  each planted bug, to be caught by the tests"
	@echo "soak   MINUTES=n of loads and tests on the matrix of machines"
	@echo "ltp    LTP's tests of system calls and the kernel's selftests, natively and counted; LTP=source PART=i/n"
	@echo "debug-kernel  builds a kernel with KASAN and lock proving to test under"
	@echo "race-kernel  builds one with KCSAN"
	@echo "bench  what it costs, with charts, into build/bench"
	@echo "bench-layout  what jifl optimize does to loads; LOADS=names KERNEL=6.12"
	@echo "bench-gtod  what probes and records add to a system call, beside other tools and LTTng"
	@echo "bench-native  what the engine costs in user space, beside Frida and Valgrind"
	@echo "all    modules (for every kernel with headers) and cli, into build/"
	@echo "install  the command, its manual pages and completions, below PREFIX; man: the pages, into build/man"
	@echo "deb    Debian packages, into build/deb; tarball: one archive, for other systems"
	@echo "test-packages  installs these in throwaway roots of Debian 12 and 13; minutes, and the network"
	@echo "setup  install what is lacking;  lint, fmt, clean"

setup:
	@scripts/setup

modules:
	@scripts/build-modules

# Through a rename: a running copy of the program stays whole. Results of `jifl bench` name the
# commit, and `jifl --version` does.
cli:
	@mkdir -p build/bin
	@JIFL_COMMIT=$$(git describe --always --dirty 2>/dev/null || echo unknown) \
		JIFL_VERSION=$$(scripts/version) nice $(CARGO) build --release --locked --package jifl
	@cmp -s $(CARGO_OUT)/jifl build/bin/jifl || \
		{ cp $(CARGO_OUT)/jifl build/bin/jifl.new && mv build/bin/jifl.new build/bin/jifl; }

# The plugin of QEMU's behind `jifl bench --clock front-end`.
front-end:
	@$(MAKE) --no-print-directory -C bench/frontend

# Made by the command from its own definitions.
man: cli
	@build/bin/jifl man build/man

# DESTDIR: a directory that stands for the root of where it is installed, as packages have it.
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share

install:
	@[ -x build/bin/jifl ] || { echo "install: build/bin/jifl is not there: make builds it" >&2; exit 1; }
	@install -D build/bin/jifl "$(DESTDIR)$(PREFIX)/bin/jifl"
	@build/bin/jifl man "$(SHARE)/man/man1"
	@mkdir -p "$(SHARE)/bash-completion/completions" "$(SHARE)/zsh/site-functions" "$(SHARE)/fish/vendor_completions.d"
	@build/bin/jifl completions bash >"$(SHARE)/bash-completion/completions/jifl"
	@build/bin/jifl completions zsh >"$(SHARE)/zsh/site-functions/_jifl"
	@build/bin/jifl completions fish >"$(SHARE)/fish/vendor_completions.d/jifl.fish"

# The module's source goes into both; DKMS or `make` builds it where it is used.
deb: setup
	@$(MAKE) --no-print-directory cli
	@scripts/packages

tarball: setup
	@$(MAKE) --no-print-directory cli
	@scripts/packages --tarball

test-packages: setup
	@scripts/packages-setup
	@$(MAKE) --no-print-directory cli
	@scripts/packages
	@scripts/packages --tarball
	@tests/packages/run

# build/toolchain.mk may have come only with `setup`: a second make reads it.
demo: setup
	@$(MAKE) --no-print-directory all
	@build/bin/jifl demo

test:
	@MAKE="$(MAKE)" tests/all

test-rust:
	@nice $(CARGO) test --locked --workspace

unit test-unit:
	@$(MAKE) --no-print-directory -C tests/unit -j$(CPUS) -O

# JIFL_SOAK=seconds: with all modules of both kernels, and so long a fuzzing.
test-roundtrip:
	@$(MAKE) --no-print-directory -C tests/roundtrip -j$(CPUS) $(if $(JIFL_SOAK),all-text)

fuzz:
	@$(MAKE) --no-print-directory -C tests/fuzz -j$(CPUS) -O $(if $(JIFL_SOAK),SECONDS=$(JIFL_SOAK))

planted: test-roundtrip modules cli
	@tests/planted/run
	@tests/planted/kernel

# All of them; of `make test`, those whose turn it is.
test-vm:
	@tests/vm/run

# On the newest kernels that Debian's backports have, and on the newest of the series before. What
# does not pass there is in docs/kernels.md.
test-newest: setup
	@scripts/fetch-newest
	@$(MAKE) --no-print-directory all
	@JIFL_TEST_KERNELS="$$(xargs <build/kernels/.newest)" tests/vm/run

# The daemon's machine is made up, so that what the page must show is known.
test-page: setup
	@scripts/page-setup
	@tests/page/run "$$(nice $(CARGO) test --locked --package jifl --bin jifl --no-run --message-format=json 2>/dev/null | \
		python3 -c 'import json, sys; print([found["executable"] for found in map(json.loads, sys.stdin) \
			if found.get("executable") and found["profile"]["test"]][-1])')"

# A kernel that finds defects by itself; JIFL_TEST_KERNELS=debug tests under it.
debug-kernel race-kernel: setup
	@scripts/debug-kernel $(@:-kernel=)

# The matrix of machines, loads and tests for so many MINUTES.
soak: setup
	@scripts/soak-setup
	@scripts/fetch-newest
	@$(MAKE) --no-print-directory all
	@tests/soak/run $(MINUTES)

# LTP: a git clone or the source of the Linux Test Project (scripts/ltp-setup has the release). It
# is needed once. PART=i/n is one of n parts.
ltp: setup
	@LTP="$(LTP)" scripts/ltp-setup
	@$(MAKE) --no-print-directory all
	@tests/ltp/run $(if $(PART),--part $(PART))

# What a layout of hot code does to five loads, by the front-end clock; an hour on two idle cores.
bench-layout: setup all
	@scripts/bench-layout-setup
	@bench/layout/run $(if $(KERNEL),--kernel $(KERNEL)) $(LOADS)

# Takes about an hour on two idle cores. BENCH: more options of the first `jifl bench`.
bench: setup
	@scripts/bench-setup
	@$(MAKE) --no-print-directory all
	@mkdir -p build/bench
	@build/bin/jifl bench --kernel 6.1 --kernel 6.12 --json build/bench/results.json --svg build/bench $(BENCH)
	@build/bin/jifl bench --kernel 6.1 --kernel 6.12 --set micro --clock front-end \
		--json build/bench/front-end.json --svg build/bench

# What a handler or a record adds to a system call, on both kernels, with LTTng beside it.
bench-gtod: setup all
	@scripts/lttng-setup
	@for kernel in 6.1 6.12; do JIFL_TEST_KERNELS=$$kernel tests/vm/run -k gtod || exit; done

# No virtual machine: the in-process host.
bench-native: setup cli
	@scripts/bench-native-setup
	@$(MAKE) --no-print-directory -C bench/native
	@$(MAKE) --no-print-directory -C bench/frontend
	@bench/native/run $(if $(JSON),--json $(JSON))
	@bench/native/analysis

fmt:
	$(CARGO) fmt

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

clean:
	rm -rf build/bin build/cargo build/modules build/unit build/roundtrip build/fuzz build/planted* \
		build/bench build/native build/front-end build/man build/deb build/packages
