/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Zydis needs from a C library, for a build without one (ZYAN_CUSTOM_LIBC). Included before
 * everything else. Zydis' own stand-in (ZYAN_NO_LIBC) clears memory byte by byte through a
 * volatile pointer, some 530 bytes an instruction: two thirds of the cost of a translation.
 */
#define ZYAN_NO_LIBC
#define ZYAN_CUSTOM_LIBC
#define ZYAN_MEMSET __builtin_memset
#define ZYAN_MEMCPY __builtin_memcpy
