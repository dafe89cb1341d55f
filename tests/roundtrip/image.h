/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A kernel or a module as it lies on disk, laid out at addresses at which it could be loaded. It
 * is not yet patched (alternatives, static calls, ftrace), because the loader does that later. A
 * module's relocations are applied.
 */
#ifndef JIFL_ROUNDTRIP_IMAGE_H
#define JIFL_ROUNDTRIP_IMAGE_H

#include "../../engine/base/types.h"

/* A section that is loaded. */
struct image_section {
	u64 addr, size;
	const u8 *bytes;	/* NULL: all zero */
	bool text;
};

/* A thunk known by its name, for a second opinion on what thunks come to. */
struct image_thunk {
	u64 addr;
	u8 reg;			/* hardware number; IMAGE_RETURN: the return thunk */
};
#define IMAGE_RETURN 0xff

struct image {
	u8 *file;
	u64 file_size;
	struct image_section *sections;
	u32 nsections;
	struct image_thunk thunks[17];
	u32 nthunks;
	u64 thunks_start, thunks_end;
	const s32 *orc;		/* .orc_unwind_ip: each place relative to itself */
	u64 orc_addr;
	u32 norc;
	/* Places that are patched when it is loaded, sorted. */
	struct image_site { u64 addr; u8 len; } *sites;
	u32 nsites;
};

#define IMAGE_MODULE_BASE 0xffffffffc0400000ull

/*
 * Reads a file (through xz when its name ends so). A module's undefined symbols
 * are looked for among the kernel's exports; those of other modules get an
 * address in reach where nothing stands. Exits when it cannot be read.
 */
void image_open(struct image *image, const char *path, const struct image *kernel);
void image_close(struct image *image);

/* Bytes at addr; *left says how many. NULL where there is no text. */
const u8 *image_text(const struct image *image, u64 addr, u64 *left);

/* True inside an instruction or more that are to be replaced by others. */
bool image_is_patched(const struct image *image, u64 addr);

/* The thunk that starts there, or NULL. */
const struct image_thunk *image_thunk_at(const struct image *image, u64 addr);

#endif
