/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every file of the kernel host begins with. What a file offers to others is in the header
 * of its own name.
 *
 * Locks, outermost first:
 *   jifl_session_mutex   sessions come, go, flush; sleeps
 *   jifl_entry_lock      raw; the entry table and what it points to; any
 *                        context but NMI, interrupts off while held
 *   engine lock          raw; the code cache; everything but NMI
 */
#ifndef JIFL_HOST_KERNEL_H
#define JIFL_HOST_KERNEL_H

#include <linux/types.h>
#include "../../include/uapi/jifl.h"
#include "../../engine/engine.h"
#include "../../engine/host.h"

#undef pr_fmt
#define pr_fmt(fmt) "jifl: " fmt

#ifndef JIFL_VERSION	/* packages give their own, which has the commit (Kbuild) */
#define JIFL_VERSION	"0.1.0"
#endif

/* main.c */
u64 jifl_main_side_size(void);	/* bytes of the engine's side tables */

#endif
