/* SPDX-License-Identifier: GPL-2.0 */
/* Prefixes of instructions; Intel SDM vol. 2, 2.1.1 and 2.2.1. */
#ifndef JIFL_EMIT_X86_PREFIX_H
#define JIFL_EMIT_X86_PREFIX_H

enum {
	PREFIX_CS = 0x2e,
	PREFIX_FS = 0x64,
	PREFIX_GS = 0x65,
	PREFIX_LOCK = 0xf0,
	PREFIX_BND = 0xf2,
	REX = 0x40,
	REX_W = 0x48,
	REX_R = 0x44,
	REX_X = 0x42,
	REX_B = 0x41,
};

#endif
