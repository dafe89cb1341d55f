/* SPDX-License-Identifier: GPL-2.0 */
/* Values of calls: durations, arguments, results. */
#ifndef JIFL_HOST_VALUE_H
#define JIFL_HOST_VALUE_H

#include <linux/types.h>
#include "../../../engine/engine.h"
#include "whose.h"

/* Are these flags of a target a type that the module knows: JIFL_TARGET_BYTES and so on? */
bool jifl_value_is_type(u32 flags);
/* The value of that type that a register has. What is above the type's bytes means nothing. */
u64 jifl_value_of(u32 type, u64 reg);
/*
 * Inserts of an entry piece; the second one also of the block in which a function begins: the call
 * begins now, for JIFL_FLAG_DURATION; its argument is added to the aim's figures, for
 * JIFL_FLAG_ARG.
 */
struct ir_insert jifl_value_begin_time(const struct jifl_session *s);
struct ir_insert jifl_value_begin_arg(const struct jifl_aim *aim);

#endif
