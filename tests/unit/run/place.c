// SPDX-License-Identifier: GPL-2.0
/* See place.h. */
#include <sys/mman.h>

#include "../inserts.h"
#include "../unit.h"
#include "place.h"

u8 place_text[4096] __attribute__((aligned(4096)));
u64 place_flags;

void place_begin(bool kernel)
{
	struct jifl_config config;

	if (kernel) {
		config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, NULL);
		REQUIRE(!jifl_engine_init(&config));
	} else {
		user_host_init(UNIT_CODE, UNIT_SIDE);
	}
	user_host_set_text(place_text, sizeof(place_text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	REQUIRE(!mprotect(place_text, sizeof(place_text), PROT_READ | PROT_WRITE | PROT_EXEC));
}

/* pushf; pop place_flags; ret */
void place_write(const struct place *p)
{
	u8 tail[] = { 0x9c, 0x8f, 0x04, 0x25, 0, 0, 0, 0, 0xc3 };
	u32 cell = (u32)(unsigned long)&place_flags;

	memcpy(tail + 4, &cell, 4);
	memcpy(place_text, p->bytes, p->len);
	memcpy(place_text + p->len, tail, sizeof(tail));
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)place_text), sizeof(place_text));
}
