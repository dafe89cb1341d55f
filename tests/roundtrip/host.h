/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A host whose original code is a kernel's image and whose code cache is never
 * executed: it lies at addresses of the kernel's module area.
 */
#ifndef JIFL_ROUNDTRIP_HOST_H
#define JIFL_ROUNDTRIP_HOST_H

#include "../../engine/engine.h"
#include "image.h"

#define HOST_CODE_BASE 0xffffffffc4000000ull
#define HOST_DISPATCH_DIRECT 0xffffffffc3ff0000ull
#define HOST_DISPATCH_INDIRECT 0xffffffffc3ff0100ull
#define HOST_COUNTERS 0x30000	/* gs-relative, like a per-CPU variable */
enum { HOST_CODE_SIZE = 32 << 20 };

/* Begins with an empty cache; module may be NULL. */
void host_begin(const struct image *kernel, const struct image *module);

/* Bytes of original code, NULL outside text. */
const u8 *host_original(u64 addr, u64 *left);
bool host_is_thunk(u64 addr);
/* The thunk whose name says what it is. */
const struct image_thunk *host_thunk(u64 addr);
/* Bytes of the code cache. */
const u8 *host_code(u32 off);

#endif
