/* SPDX-License-Identifier: GPL-2.0 */
/* Building blocks of the intermediate representation; see ir.h. */
#include "ir.h"

struct ir_insert *ir_block_insert(struct ir_block *b, enum ir_place place, u16 at)
{
	struct ir_insert *ins;

	if (b->ninserts == IR_BLOCK_INSERTS) {
		b->inserts_full = true;
		return NULL;
	}
	ins = &b->inserts[b->ninserts++];
	memset(ins, 0, sizeof(*ins));
	ins->place = place;
	ins->at = at;
	return ins;
}
