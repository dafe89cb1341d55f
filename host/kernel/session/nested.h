/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of functions inside the code cache. */
#ifndef JIFL_HOST_NESTED_H
#define JIFL_HOST_NESTED_H

struct ir_block;
struct jifl_mix;

/* Inserts into b, a block of the mix's context, what counts calls of functions that begin there. */
void jifl_nested_insert(struct ir_block *b, const struct jifl_mix *m);

#endif
