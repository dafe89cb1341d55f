/* SPDX-License-Identifier: GPL-2.0 */
/* Tables of targets for lookups of the in-process host that jump: struct jifl_config, targets. */
#ifndef JIFL_HOST_USER_TARGETS_H
#define JIFL_HOST_USER_TARGETS_H

#include "../../engine/base/types.h"

/* A fresh table for the context, in place of its old one; 0: there is no memory. */
u64 user_host_targets(int context);
/* Addresses below this have an entry: all addresses of the program, with its static data. */
u32 user_host_targets_end(void);
/* Unmaps the tables of all contexts. */
void user_host_targets_unmap(void);

#endif
