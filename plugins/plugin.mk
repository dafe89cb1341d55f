# SPDX-License-Identifier: GPL-2.0
#
# The make include of JIFL plugins. A plugin's Makefile, beside its NAME.c:
#
#	PLUGIN := NAME
#	include /path/to/jifl/plugins/plugin.mk
#
# `make` there builds NAME.ko for the running kernel, `make RELEASE=...` for another one. jifl.ko of
# that release must have been built before (scripts/build-modules, or DKMS where the package
# jifl-dev has put this file). Kbuild reads the same Makefile a second time, from a directory of
# its own: the path must be absolute.
#
# With `REPLACEMENT := y` the module is one for `jifl replace`. Its functions have the calls of the
# function tracer, so that they can be traced and replaced as others can.

JIFL := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))..)

ifneq ($(KERNELRELEASE),)

obj-m := $(PLUGIN).o
ccflags-y += -I$(JIFL)/include
ifneq ($(REPLACEMENT),y)
# Analysis functions run where the function tracer must not be called.
ccflags-remove-y += $(CC_FLAGS_FTRACE)
endif

else

RELEASE ?= $(shell uname -r)
# The headers that the set-up unpacked, those of a kernel that scripts/debug-kernel built, or else
# the installed ones.
MADE := $(wildcard $(addprefix $(JIFL)/build/,debug-kernel race-kernel))
KERNEL ?= $(firstword $(wildcard $(JIFL)/build/kernels/usr/src/linux-headers-$(RELEASE)) \
	$(foreach made,$(MADE),$(if $(filter $(RELEASE),$(file <$(made)/release)),$(made)/build)) \
	/lib/modules/$(RELEASE)/build)
# What jifl.ko exports: of this tree, of the module that an archive has beside this folder, or as
# DKMS has built it.
JIFL_SYMVERS ?= $(firstword $(wildcard $(JIFL)/build/modules/$(RELEASE)/tree/host/kernel/Module.symvers \
	$(JIFL)/module/Module.symvers \
	/var/lib/dkms/jifl/kernel-$(RELEASE)-x86_64/module/Module.symvers))

.PHONY: all clean
all:
	@[ -n "$(JIFL_SYMVERS)" ] || { echo "$(PLUGIN): jifl.ko is not built for $(RELEASE):" \
		"\`make modules\` in the source tree, or \`dkms autoinstall -k $(RELEASE)\`" >&2; exit 1; }
	@# Kbuild does not look whether these have changed, which the versions of JIFL's functions are taken from.
	@[ ! $(JIFL_SYMVERS) -nt $(PLUGIN).ko ] || rm -f Module.symvers
	$(MAKE) -C $(KERNEL) M=$(CURDIR) \
		KBUILD_EXTRA_SYMBOLS=$(JIFL_SYMVERS) modules
clean:
	$(MAKE) -C $(KERNEL) M=$(CURDIR) clean

endif
