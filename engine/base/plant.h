/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Planted bugs. A test suite is worth as much as the bugs that it catches. Built with
 * -DJIFL_PLANT=name, the engine or a host has that one bug; `make planted` builds each bug and
 * demands that the tests fail. Without -DJIFL_PLANT, JIFL_PLANTED is constantly false and leaves
 * no code.
 *
 * A plant stands at the place where it breaks something: if (JIFL_PLANTED(name)) followed by the
 * bug.
 */
#ifndef JIFL_BASE_PLANT_H
#define JIFL_BASE_PLANT_H

/* X(name, what it breaks). These are the engine's bugs, which run in user space, too. */
#define JIFL_PLANTS(X) \
	X(flags_not_saved, "live flags are not saved round an insert") \
	X(flags_dead_after_shift, "a shift by cl ends the life of flags") \
	X(index_register_dead, "the index register of lea is dead before it") \
	X(register_not_saved, "r11 is not saved round a call") \
	X(saved_flags_dead, "what holds saved flags is dead where a condition holds") \
	X(direction_not_cleared, "analysis routines are called with DF set") \
	X(red_zone_not_skipped, "saved flags overwrite the red zone") \
	X(rip_operand_off_by_one, "rip-relative operands are relocated one byte too far") \
	X(where_next_insn, "an address in the cache is told to be the next instruction") \
	X(short_jump_kept, "a short conditional jump keeps its 8-bit offset") \
	X(jrcxz_never_taken, "jrcxz and loops go to what follows them") \
	X(chain_wrong_target, "an inline cache compares with another target") \
	X(lookup_unbalanced, "a lookup leaves by a return that no call goes with") \
	X(lookup_not_forgotten, "a dropped block stays in the hash lookup") \
	X(jump_scratch_lost, "an indirect jump leaves something else in the register that it works with") \
	X(jump_operand_lost, "an indirect call is looked up by a register that it has changed") \
	X(block_not_dropped, "a block stays when its source has changed") \
	X(retired_inside, "threads in a block whose inserts change leave it at once") \
	X(empty_not_trapped, "a block without code is not seen to change by who returns to it") \
	X(stray_cells_sorted, "cells of no target take part when an inline cache is ordered") \
	X(traps_not_set, "threads in a dropped block go on to its end") \
	X(falls_not_dropped, "a dropped block is still run into from the one before it") \
	X(links_not_cut, "branches to a dropped block stay") \
	X(link_crosses_words, "rel32 fields may cross 8 bytes") \
	X(link_in_two_stores, "the in-process host links in two halves") \
	X(thunk_wrong_register, "an indirect thunk is folded to another register") \
	X(depth_not_apart, "what counts a call before a function is in one block with its beginning") \
	X(long_run_unknown, "the map does not say what the beginning of long inserted code is") \
	X(hit_without_room, "a record of numbers is written where there is no room") \
	X(line_goes_on, "a line is written when lines have stopped") \
	X(hit_depth_flat, "flags that lie on the stack round a record are not in its map") \
	X(return_thunk_miscounted, "a return thunk counts one instruction less") \
	X(branch_not_turned, "a layout has the block behind a branch, and the branch as it was") \
	X(laid_beside, "a layout is made beside the blocks that exist") \
	X(leaving_landed, "a thread may go on in a block that only leaves the context") \
	X(taken_edge_exact, "a thread on a taken edge is told to be where the branch falls through") \
	X(target_not_looked_at, "what is live at a conditional branch's target is forgotten") \
	X(argument_dead_at_call, "rdi, an argument, is dead at calls of compiled code") \
	X(context_flags_late, "flags of a register context are those behind what makes it") \
	X(counter_cut, "a counter far away is looked for by 32 bits of its offset") \
	X(terms_inverted, "an insert runs where its condition does not hold") \
	X(terms_unsigned, "conditions compare signed numbers as unsigned ones") \
	X(unknown_held, "conditions go on with what could not be read") \
	X(constant_not_loaded, "an inlined routine's constants are not put into registers")

#define JIFL_PLANT_NAME(name, what) jifl_plant_##name,
enum jifl_plant {
	jifl_plant_none,
	JIFL_PLANTS(JIFL_PLANT_NAME)
};
#undef JIFL_PLANT_NAME

#ifdef JIFL_PLANT
#define JIFL_PLANT_JOIN_(a, b) a##b
#define JIFL_PLANT_JOIN(a, b) JIFL_PLANT_JOIN_(a, b)
#define JIFL_PLANT_CHOSEN JIFL_PLANT_JOIN(jifl_plant_, JIFL_PLANT)
#else
#define JIFL_PLANT_CHOSEN jifl_plant_none
#endif

#define JIFL_PLANTED(name) (JIFL_PLANT_CHOSEN == jifl_plant_##name)

#endif
