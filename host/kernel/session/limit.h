/* SPDX-License-Identifier: GPL-2.0 */
/* What sessions of the scope JIFL_SCOPE_ONLY run in the cache. */
#ifndef JIFL_HOST_LIMIT_H
#define JIFL_HOST_LIMIT_H

#include <linux/types.h>
#include "../../../engine/engine.h"

struct jifl_mix;

/*
 * As jifl_engine_context_create with the mix as the argument. The context is limited if the mix's
 * sessions are of that scope. They are in no mix with others.
 */
int jifl_limit_context_create(jifl_instrument_fn fn, struct jifl_mix *m);

#endif
