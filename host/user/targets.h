/* SPDX-License-Identifier: GPL-2.0 */
/* Tables of targets for the in-process host's lookups that jump: struct jifl_config, targets. */
#ifndef JIFL_HOST_USER_TARGETS_H
#define JIFL_HOST_USER_TARGETS_H

#include "../../engine/base/types.h"

/* A fresh table of the context's, in place of the one before; 0: there is no memory. */
u64 user_host_targets(int context);
/* Addresses below this have an entry: all of the program's, its static data with them. */
u32 user_host_targets_end(void);
/* Of all contexts. */
void user_host_targets_unmap(void);

#endif
