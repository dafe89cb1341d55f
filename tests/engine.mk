# SPDX-License-Identifier: GPL-2.0
#
# What all programs of the tests that hold the engine are made of; included by
# their Makefiles, which lie two folders below the root. They set FLAGS, with
# ENGINE_FLAGS in it, and say where objects go: $(eval $(call compile,FOLDER)).

ZYDIS ?= ../../build/zydis
CC = gcc

ROOT := ../..
ENGINE := $(sort $(shell cd $(ROOT) && find engine -name '*.c'))
HOST := $(sort $(shell cd $(ROOT) && find host/user -name '*.c' -o -name '*.S'))
DECODER := $(addprefix zydis/,$(addsuffix .o,Decoder DecoderData SharedData Register Mnemonic \
	MetaInfo Utils Segment))

ENGINE_FLAGS = -std=gnu11 -g -O2 -Wall -Wextra -Wno-unused-parameter \
	-I$(ROOT)/include -I$(ROOT)/include/uapi \
	-I$(ZYDIS)/include -I$(ZYDIS)/src -I$(ZYDIS)/dependencies/zycore/include \
	-include $(ROOT)/engine/decode/zydis_libc.h -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -DZYDIS_DISABLE_FORMATTER \
	-DZYDIS_DISABLE_ENCODER -MMD -MP
# With the in-process host: what is told from what it instruments (host/user/text.lds).
HOST_FLAGS = $(ENGINE_FLAGS) -fno-pie -mno-red-zone -fcf-protection=none -Wno-format-zero-length \
	$(if $(PLANT),-DJIFL_PLANT=$(PLANT))
HOST_LINK := -no-pie -Wl,-T,$(ROOT)/host/user/text.lds -Wl,-z,noexecstack

define compile
$(1)/zydis/%.o: $(ZYDIS)/src/%.c
	@mkdir -p $$(@D)
	@echo "  CC $$@"
	@$$(CC) $$(FLAGS) $$(SANITIZE) -w -c -o $$@ $$<
$(1)/%.c.o: $(ROOT)/%.c
	@mkdir -p $$(@D)
	@echo "  CC $$@"
	@$$(CC) $$(FLAGS) $$(SANITIZE) -c -o $$@ $$<
$(1)/%.S.o: $(ROOT)/%.S
	@mkdir -p $$(@D)
	@echo "  CC $$@"
	@$$(CC) $$(FLAGS) -c -o $$@ $$<
endef
