/* SPDX-License-Identifier: GPL-2.0 */
/* What sessions of each kind insert into blocks. */
#ifndef JIFL_HOST_BLOCKS_H
#define JIFL_HOST_BLOCKS_H

struct ir_block;

/*
 * Instruments a block for JIFL_KIND_INSN (_repeats: with JIFL_FLAG_REPEATS) or
 * JIFL_KIND_BLOCK; arg: the session.
 */
void jifl_count_insns(struct ir_block *b, void *arg);
void jifl_count_repeats(struct ir_block *b, void *arg);
void jifl_count_blocks(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_TRACE */
void jifl_count_functions(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_PATH */
void jifl_count_path(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_PROFILE */
void jifl_count_profile(struct ir_block *b, void *arg);
/* ... for JIFL_KIND_MEM */
void jifl_count_mem(struct ir_block *b, void *arg);

#endif
