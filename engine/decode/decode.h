/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From original bytes to the intermediate representation. Zydis decodes. What an instruction means
 * for translation is decided here, in one table (classify in decode.c).
 *
 * Not reentrant: works in static scratch memory, under the engine lock.
 */
#ifndef JIFL_DECODE_DECODE_H
#define JIFL_DECODE_DECODE_H

#include "../ir/ir.h"
#include "jifl_inline.h"

int jifl_decode_init(u64 door);

/*
 * Decodes one instruction at addr. Always fills *insn. An instruction that cannot be decoded or
 * read becomes an IR_NATIVE of length 0 or 1.
 */
void jifl_decode_insn(jifl_orig addr, struct ir_insn *insn);

/*
 * Decodes the basic block that starts at addr: instructions up to and with the first that
 * branches, or up to and without the first that must run natively, at most IR_BLOCK_INSNS. An
 * instruction that counts a call before a function is a block of its own. Inserts are emptied.
 * Returns the cause when the very first instruction must run natively (b->ninsns is 0 then), else
 * JIFL_CAUSE_NONE.
 */
enum jifl_cause jifl_decode_block(jifl_orig addr, struct ir_block *b);

/*
 * Fills regs_read and regs_written of a decoded instruction. A function of its own, because it
 * costs as much again as decoding, and only code that saves registers needs it.
 */
void jifl_decode_registers(struct ir_insn *insn);

/*
 * Decodes the analysis routine at fn for inlining. Returns JIFL_INLINE_YES, or why the routine
 * cannot be inlined; routine.c.
 */
struct ir_routine;
enum jifl_inline jifl_decode_routine(u64 fn, struct ir_routine *r);

/*
 * inspect.c: the operands in memory that insn accesses, up to max of them, without what push, pop,
 * call and ret do to the stack; the registers that insn names, or uses without naming them; bits
 * of enum jifl_ins_property.
 */
u32 jifl_decode_memory(const struct ir_insn *insn, struct ins_memory *m, u32 max);
/* See jifl_engine_bit_register. */
u8 jifl_decode_bit_register(const struct ir_insn *insn);
u32 jifl_decode_accesses(const struct ir_insn *insn, struct ins_memory *m, u32 max);
bool jifl_decode_stack_moves(const struct ir_insn *insn, s32 *by);
void jifl_decode_uses(const struct ir_insn *insn, u16 *reads, u16 *writes);
u32 jifl_decode_properties(const struct ir_insn *insn);

/*
 * True when the code at `from` leads to `to` within a few dozen instructions, over direct
 * branches, stepping over calls; leads.c.
 */
bool jifl_decode_reaches(jifl_orig from, jifl_orig to);

/* The class of a decoded instruction that does not branch; ins_type.c. */
struct ZydisDecodedInstruction_;
enum jifl_ins_type jifl_decode_ins_type(const struct ZydisDecodedInstruction_ *zi);

#endif
