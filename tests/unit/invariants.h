/* SPDX-License-Identifier: GPL-2.0 */
/* What holds for the code cache whenever no thread is in the engine. */
#ifndef JIFL_UNIT_INVARIANTS_H
#define JIFL_UNIT_INVARIANTS_H

#include "../../engine/base/types.h"

/* Where a branch leads; site: cache offset of its rel32. */
u32 goes_to(u32 site);
/* Checks all of it; `when` goes into the messages. */
void check_cache(const char *when);

#endif
