// SPDX-License-Identifier: GPL-2.0
/* See host.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/host.h"
#include "host.h"

static u8 code[HOST_CODE_SIZE];
static u64 side[(24 << 20) / 8];
static const struct image *images[2];

void host_begin(const struct image *kernel, const struct image *module)
{
	struct jifl_config config = {
		.code_base = HOST_CODE_BASE,
		.code_size = HOST_CODE_SIZE,
		.side = side,
		.side_size = sizeof(side),
		.dispatch_direct = HOST_DISPATCH_DIRECT,
		.dispatch_indirect = HOST_DISPATCH_INDIRECT,
		.return_site = HOST_DISPATCH_DIRECT,
		.exit_counters = { .disp = HOST_COUNTERS, .gs = true },
		.lahf = true,
		.fentry = true,
	};

	images[0] = kernel;
	images[1] = module;
	if (jifl_engine_init(&config) || jifl_engine_context_create(NULL, NULL)) {
		fprintf(stderr, "the engine refuses the configuration\n");
		exit(2);
	}
}

const u8 *host_original(u64 addr, u64 *left)
{
	const u8 *p = image_text(images[0], addr, left);

	return !p && images[1] ? image_text(images[1], addr, left) : p;
}

const struct image_thunk *host_thunk(u64 addr)
{
	return image_thunk_at(images[0], addr);
}

const u8 *host_code(u32 off)
{
	return code + off;
}

bool host_is_thunk(u64 addr)
{
	return addr >= images[0]->thunks_start && addr < images[0]->thunks_end;
}

enum jifl_text jifl_host_classify(jifl_orig addr, enum jifl_cause *cause)
{
	return host_is_thunk(addr.v) ? JIFL_TEXT_THUNK : JIFL_TEXT_CODE;
}

void jifl_host_lift_int3(jifl_orig addr, u8 *byte)
{
}

void jifl_host_lift_text(jifl_orig addr, u8 *bytes, u32 n)
{
}

/* So each such move is copied somewhere. */
bool jifl_host_keeps_stack(jifl_orig addr, u32 len)
{
	return true;
}

u64 jifl_host_native(jifl_orig addr)
{
	return addr.v;
}

const u8 *jifl_host_text(jifl_orig addr, u32 *n)
{
	u64 left;
	const u8 *p = host_original(addr.v, &left);

	*n = !p ? 0 : left < ~0u ? (u32)left : ~0u;
	return p;
}

void jifl_host_code_write(jifl_pos pos, const void *src, u32 n)
{
	memcpy(code + pos.off, src, n);
}

void jifl_host_code_store32(jifl_pos pos, u32 value)
{
	memcpy(code + pos.off, &value, 4);
}

void jifl_host_code_store64(jifl_pos pos, u64 value)
{
	memcpy(code + pos.off, &value, 8);
}

unsigned long jifl_host_lock(void)
{
	return 0;
}

void jifl_host_unlock(unsigned long cookie)
{
}

u64 jifl_host_clock(void)
{
	return 0;
}

void jifl_host_count_exit(enum jifl_cause cause)
{
}

const s64 *jifl_host_training(void)
{
	return NULL;
}

void jifl_host_training_set(u32 first, u32 n, s64 value)
{
}
