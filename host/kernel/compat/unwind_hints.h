/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of objtool's hints, for assembly.
 */
#ifndef JIFL_HOST_COMPAT_UNWIND_HINTS_H
#define JIFL_HOST_COMPAT_UNWIND_HINTS_H

#include <linux/version.h>
#include <asm/unwind_hints.h>

/* From here on the stack is not described. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define JIFL_UNWIND_HINT_NONE	UNWIND_HINT_UNDEFINED
#else
#define JIFL_UNWIND_HINT_NONE	UNWIND_HINT_EMPTY
#endif

#endif
