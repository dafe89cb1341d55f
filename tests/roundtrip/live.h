/* SPDX-License-Identifier: GPL-2.0 */
/* What liveness finds dead in a kernel's text: figures, from a sample of the blocks. */
#ifndef JIFL_ROUNDTRIP_LIVE_H
#define JIFL_ROUNDTRIP_LIVE_H

#include "../../engine/base/types.h"

/* Adds the block at addr to the figures. */
void live_add(u64 addr);
void live_report(void);

#endif
