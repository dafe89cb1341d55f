// SPDX-License-Identifier: GPL-2.0
/*
 * What may be trusted where liveness does not look, and why; see conventions.h.
 *
 *   where			flags		registers
 *   call, direct		no value	all live but rax, r10, r11 [1]
 *   call, indirect		no value	all live [2]
 *   return			no value [3]	all live [4]
 *   jump, indirect		no value [5]	all live
 *   jump, direct		as at its target; registers too, with [6]
 *   conditional jump		as on both sides; registers too, with [6]
 *   nop of 2 or 5 bytes	as behind it [7] all live [6]
 *   what runs natively	all live	all live
 *   user space, where lookups jump: a call through a register or memory changes r11 [8]
 *
 * Flags: System V ABI 3.2.1 gives them no value at calls and returns. Kernel assembly keeps to
 * that, with these exceptions:
 *	this_cpu_cmpxchg16b_emu	(6.12; processors without cmpxchg16b) returns ZF: popfq; ret.
 *				6.1's returns al, cmpxchg8b_emu is 32-bit code. Hence [3]
 *	em_*, the fastops of KVM's emulator, take flags and return them: push; popf;
 *				call *reg; pushf. Such calls and the functions that they
 *				call run natively: decode/decode.c
 *	rethooks, ftrace's and kprobes' trampolines give back flags of their own: they are
 *				not known text, or they are return_to_handler and similar code
 * Both kernels' text was searched for flags that are read behind a call, or at the beginning of
 * a called function. On 6.1 nine places are left, which are taken for code behind calls that do
 * not return. On 6.12 one place in a module was not explained.
 *
 * Registers: compiled code (Debian's is gcc with -mfentry, which rules out -fipa-ra) keeps to the
 * ABI, and an inserted function changes no callee-saved register. But these functions keep, or
 * take, more than the ABI says. They are called from inline assembly that says so:
 *	__get_user_*, __put_user_*	all but rax, rcx, rdx (rbx in 6.1)
 *	__sw_hweight32, __sw_hweight64	all but rax; called where there is no popcnt
 *	copy_user_*, rep_movs_alternative, rep_stos_alternative, clear_user_*, __clear_user
 *				all but rcx, rdi, rsi, rax: in place of rep movsb, rep stosb
 *	clear_page_*		all but rax, rcx, rdi
 *	this_cpu_cmpxchg16b_emu	all but rax, rdx
 *	__raw_callee_save_*, pv_native_*, xen_*_direct (paravirt operations)	all but rax
 *	preempt_schedule_thunk, preempt_schedule_notrace_thunk, __preempt_schedule	all
 *	hypercall pages		those of the hypervisor
 *	__x86_indirect_thunk_*, __x86_return_thunk, call depth tracking	all
 *	entry code, clear_bhb_loop, entry_ibpb	their own
 *	crypto and RAID assembly	internal calls with their own registers
 *	__fentry__ and tracers behind it	all arguments
 *	local functions of files that are compiled without -mfentry, as those of lib/
 *				whatever they do not change: there gcc has -fipa-ra
 * So nothing is concluded at a return, because it may be the return of such a function. At a call
 * something is concluded only about registers that are no arguments and that no such function uses:
 *
 * [1] rax, r10 and r11 are dead where the callee is compiled code, which begins with the
 *     five bytes for tracers. (rax counts the vector arguments of variadic functions;
 *     kernel code has none.) Elsewhere all are live.
 * [2] Thunks and paravirt operations are called in this way.
 * [3] Not right behind a popf, which is there to give flags back.
 * [4] See above: it is not known which function returns there.
 * [5] Jump tables are only in assembly (-fno-jump-tables with retpolines).
 * [6] The kernel changes text while it runs, and only a change of a block's own bytes drops it.
 *	jump labels	nop <-> jmp, 2 or 5 bytes: the target that a nop hides is not known;
 *			the code that a jmp hides may lie behind it, so the instruction behind
 *			the jmp counts, too
 *	static calls	call, jmp, jcc of 5 or 6 bytes get other targets, with other
 *			arguments; or become a nop, ret, or xor %eax, %eax of 5 bytes
 *	fentry sites	nop <-> call, 5 bytes
 *	kprobes		int3, which runs natively, or jmp to text that is not known; both do
 *			what the original instruction does. A probe that looks at a dead
 *			register there sees another value
 *	lock prefixes	change nothing of this
 * [7] Each of these nops is an asm statement, or a call. gcc assumes that every asm statement
 *     changes flags. So flags are dead there, whatever instruction stands there.
 * [8] System V ABI 3.2.1: the caller saves r11, r11 is no argument, and linkers' stubs change it on
 *     the way. Not trusted where the host says otherwise (jifl_config.keeps_r11), and not at
 *     jumps, which may stay in a function. See emit/jump.c.
 */
#include "conventions.h"
#include "../base/plant.h"

#define NO_ARGUMENT (1u << IR_RAX | 1u << IR_R10 | 1u << IR_R11)

static bool is_popf(const struct ir_insn *insn)
{
	return insn->bytes[insn->len - 1] == 0x9d && insn->len <= 2;
}

bool jifl_convention_ends_flags(const struct ir_insn *insn, const struct ir_insn *before)
{
	switch (insn->kind) {
	case IR_RET:
	case IR_RET_THUNK:
		return !before || !is_popf(before);
	case IR_CALL:
	case IR_CALL_IND:
	case IR_JMP_IND:
		return true;
	default:
		return false;
	}
}

u16 jifl_convention_keeps(const struct ir_insn *insn)
{
	switch (insn->kind) {
	case IR_JMP:
	case IR_JCC:
		return insn->len < 5 ? 0 : (u16)~NO_ARGUMENT;
	case IR_JCXZ:
		return 0;
	case IR_CALL:
		return (u16)~(NO_ARGUMENT | JIFL_PLANTED(argument_dead_at_call) << IR_RDI);
	default:
		return 0xffff;
	}
}

bool jifl_convention_may_change(const struct ir_insn *insn)
{
	static const u8 xor_eax[] = { 0x2e, 0x2e, 0x2e, 0x31, 0xc0 };

	return (insn->kind == IR_NOP && (insn->len == 2 || insn->len == 5)) ||
	       (insn->len == sizeof(xor_eax) && !memcmp(insn->bytes, xor_eax, sizeof(xor_eax)));
}
