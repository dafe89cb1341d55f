/* SPDX-License-Identifier: GPL-2.0 */
/* What blocks and entry pieces of a unit begin and end with, and the exits that they have. */
#ifndef JIFL_EMIT_UNIT_H
#define JIFL_EMIT_UNIT_H

#include "emit.h"

struct emit_block *emit_block_begin(struct emit_unit *u);
void emit_block_end(struct emit_unit *u, struct emit_block *eb);
/* Without a site: the caller's branch to the stub is that. */
struct emit_exit *emit_direct_exit(struct emit_unit *u, jifl_orig target);

#endif
