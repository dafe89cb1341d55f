/* SPDX-License-Identifier: GPL-2.0 */
/* What sessions of the scope JIFL_SCOPE_ONLY run in the cache. */
#ifndef JIFL_HOST_LIMIT_H
#define JIFL_HOST_LIMIT_H

#include <linux/types.h>
#include "../../../engine/engine.h"

struct jifl_mix;

/* Has the mix such sessions? They are in no mix with others. */
bool jifl_limit_has(const struct jifl_mix *m);
/* The limits of such a mix's context, which is the argument: see jifl_engine_context_limit. */
bool jifl_limit_leaves(jifl_orig to, bool call, void *mix);

#endif
