/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The doors between kernel, code cache and C.
 *
 *   jifl_entry_stub         do_syscall_64 calls it instead of x64_sys_call
 *   jifl_chain_*            the stub's last jump, to the address in the entry table
 *   jifl_entry_slow         in the entry table if C code has to choose
 *   jifl_function_stub      fentry sites of functions call it
 *   jifl_jump_stub          gates of jumps over the beginnings of functions call it
 *   jifl_inside_stub        copies call it where a function begins that others have as a target
 *   jifl_dispatch_direct    the cache jumps here when an exit is not linked
 *   jifl_dispatch_indirect  the cache jumps here when a lookup did not find a target
 *   jifl_dispatch_call      C code calls a function on the dispatcher's stack
 *
 * No SSE or x87 register is touched: they may hold user state.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>
#include <asm/ibt.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>

#include <asm/thread_info.h>

#include "../compat/current.h"
#include "../compat/unwind_hints.h"
#include "stubs.h"

/* The registers that C may change, without rax and r10. */
.macro JIFL_PUSH_CALL
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r11
.endm

.macro JIFL_POP_CALL
	popq	%r11
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
.endm

	.text

/*
 * In: rdi registers, esi number of the system call (x64_sys_call's arguments); [rsp] return address
 * into do_syscall_64, as for x64_sys_call and for a handler. The caller has clamped the number,
 * under speculation too.
 * Out: at x64_sys_call, or at the table's address. Changes rax, rcx and flags only.
 *
 * No return address is removed, so the processor still predicts all returns up the stack. All
 * branches are direct, except the last jump after the comparisons (enter/chain.c). This jump has
 * the kernel's own form. If it is a retpoline, its one return is mispredicted by design; the
 * retpoline's own call balances it.
 */
SYM_CODE_START(jifl_entry_stub)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR		/* called directly */
	cmpl	$JIFL_ENTRY_TABLE_SIZE, %esi
	jae	.Lpass
	movl	%esi, %ecx
	movq	jifl_entry_table(, %rcx, 8), %rax
	testq	%rax, %rax
	jz	.Lpass
	jmp	JIFL_ENTRY_CHAIN
.Lpass:
	UNWIND_HINT_FUNC
	jmp	JIFL_ENTRY_PASS
SYM_CODE_END(jifl_entry_stub)

#ifdef JIFL_CALLS_MAY_BE_COUNTED
/*
 * jifl_entry_stub for kernels that count calls in the padding before the called function
 * (retbleed=stuff; arch/x86/kernel/callthunks.c). There, jifl_entry_pass leads into the padding of
 * x64_sys_call, which counts the call. This stub counts a call that does not pass.
 */
SYM_CODE_START(jifl_entry_stub_counts)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR
	cmpl	$JIFL_ENTRY_TABLE_SIZE, %esi
	jae	.Lpass_uncounted
	movl	%esi, %ecx
	movq	jifl_entry_table(, %rcx, 8), %rax
	testq	%rax, %rax
	jz	.Lpass_uncounted
	INCREMENT_CALL_DEPTH
	jmp	JIFL_ENTRY_CHAIN
.Lpass_uncounted:
	UNWIND_HINT_FUNC
	jmp	JIFL_ENTRY_PASS
SYM_CODE_END(jifl_entry_stub_counts)
#endif

/*
 * In: rax the address to jump to, ecx the call's number; all else as on entry to the stubs. Out: at
 * that address. chain.c writes comparisons over the nops, such that the last comparison ends where
 * the nops end. It has the stubs jump to the first comparison.
 */
.macro JIFL_CHAIN_CODE name, comparisons
SYM_CODE_START(\name)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR
	.fill	\comparisons * JIFL_CHAIN_BYTES, 1, 0x90
	andl	$(JIFL_CHAIN_NOTES - 1), %ecx
	incl	%gs:jifl_chain_notes + 4(, %rcx, 8)
	movl	%eax, %gs:jifl_chain_notes(, %rcx, 8)
	JMP_NOSPEC rax
SYM_CODE_END(\name)
.endm

JIFL_CHAIN_CODE jifl_chain_none, 0
JIFL_CHAIN_CODE jifl_chain_0, JIFL_CHAIN
JIFL_CHAIN_CODE jifl_chain_1, JIFL_CHAIN
JIFL_CHAIN_CODE jifl_chain_2, JIFL_CHAIN

/* Only the jump, for kernels without retpolines: processors predict it. */
SYM_CODE_START(jifl_chain_plain)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR
	JMP_NOSPEC rax
SYM_CODE_END(jifl_chain_plain)

/*
 * In: as on entry to a system call's handler, and esi the call's number. Out: at the address from
 * jifl_choose; if that is 0, at x64_sys_call.
 */
SYM_CODE_START(jifl_entry_slow)
	UNWIND_HINT_FUNC
	ENDBR
	pushq	%rdi
	pushq	%rsi
	call	jifl_choose
	popq	%rsi
	popq	%rdi
	testq	%rax, %rax
	jz	.Lresume
	movl	%esi, %ecx
	jmp	JIFL_ENTRY_CHAIN
.Lresume:
	UNWIND_HINT_FUNC
	jmp	JIFL_ENTRY_RESUME
SYM_CODE_END(jifl_entry_slow)

/*
 * The fast way of the two stubs below. In: [rsp + slot] address behind the fentry site of a
 * function, or in the gate of a jump. Out: rax the piece to which the table of doors leads this
 * call; at .Lask_\name if there is none. Changes r10 and flags. The head of enter/door_table.c says
 * when a call may go straight to a piece, and that of enter/guard.c why a stack is remembered.
 */
.macro JIFL_DOOR_LOOKUP name, slot
	testl	$jifl_preempt_interrupts, JIFL_PREEMPT_COUNT
	jnz	.Linterrupt_\name
	movq	%rsp, %rax
	xorq	PER_CPU_VAR(jifl_cpu + JIFL_CPU_STACK), %rax
	shrq	$JIFL_STACK_SHIFT, %rax
	jnz	.Lcheck_\name
.Lstraight_\name:
	movq	jifl_door_table(%rip), %rax
	addq	\slot(%rsp), %rax
	movslq	(%rax), %rax
	testq	%rax, %rax
	jz	.Lask_\name
.endm

/* A check that is left out: what follows, up to the label `to`, if the bug is planted (plant.h). */
.macro JIFL_DOOR_PLANT bug, to
#ifdef JIFL_TEST_BUILD
	cmpl	$jifl_planted_\bug, jifl_host_plant(%rip)
	je	\to
#endif
.endm

/*
 * All of guard.c's checks, at interrupts' levels and where the stack is not remembered on this CPU.
 * Stands before .Lask_\name.
 */
.macro JIFL_DOOR_CHECK name
.Linterrupt_\name:
	JIFL_DOOR_PLANT door_nmi, .Lbelow_nmi_\name
	testl	$jifl_preempt_nmi, JIFL_PREEMPT_COUNT
	jnz	.Lask_\name
.Lbelow_nmi_\name:
	JIFL_DOOR_PLANT door_own_above, .Lstraight_\name
	cmpq	$0, PER_CPU_VAR(jifl_cpu + JIFL_CPU_OWN_ABOVE)
	je	.Lstraight_\name
	jmp	.Lask_\name
.Lcheck_\name:
	JIFL_DOOR_PLANT door_own, .Lothers_\name
	cmpl	$0, PER_CPU_VAR(jifl_cpu + JIFL_CPU_OWN)
	jne	.Lask_\name
.Lothers_\name:
	movq	JIFL_CURRENT, %rax
	JIFL_DOOR_PLANT door_stack, .Lon_stack_\name
	movq	%rsp, %r10
	subq	jifl_task_stack(%rax), %r10
	cmpq	$THREAD_SIZE, %r10
	jae	.Lask_\name
.Lon_stack_\name:
	testl	$jifl_flag_thread, jifl_task_flags(%rax)
	jnz	.Lthread_\name
.Lremember_\name:
	movq	jifl_task_stack(%rax), %r10
	movq	%r10, PER_CPU_VAR(jifl_cpu + JIFL_CPU_STACK)
	jmp	.Lstraight_\name
.Lthread_\name:
	JIFL_DOOR_PLANT door_idle, .Lbusy_\name
	JIFL_DOOR_PLANT door_injected, .Lnot_injected_\name
	testl	$jifl_flag_idle, jifl_task_flags(%rax)
	jnz	.Lask_\name
.Lnot_injected_\name:
	cmpl	$0, jifl_task_pid(%rax)
	je	.Lask_\name
.Lbusy_\name:
	JIFL_DOOR_PLANT door_stopper, .Lno_stopper_\name
	movq	jifl_guard_stop_class(%rip), %r10
	cmpq	%r10, jifl_task_class(%rax)
	je	.Lask_\name
.Lno_stopper_\name:
	JIFL_DOOR_PLANT door_injects, .Lremember_\name
	cmpb	$0, jifl_guard_injects(%rip)
	jne	.Lstraight_\name
	jmp	.Lremember_\name
.endm

/*
 * In: [rsp] an address, which the C function gets with the place above it and the first argument.
 * Out: at the address that the function returns, with all registers as they were but rax and r10.
 */
.macro JIFL_DOOR_ASK choose
	JIFL_PUSH_CALL
	movq	%rdi, %rdx
	movq	(7 * 8)(%rsp), %rdi
	leaq	(8 * 8)(%rsp), %rsi
	call	\choose
	movq	%rax, (7 * 8)(%rsp)
	JIFL_POP_CALL
	xorl	%eax, %eax		/* leave/evict.c takes an address in it for a way in */
	RET
.endm

/*
 * The same behind flags, rax and r10, which were pushed, and with these as they were. The flags may
 * give access to user memory, which no C code wants.
 */
.macro JIFL_ASK_PUSHED choose
	JIFL_PUSH_CALL
	pushfq
	andl	$~(X86_EFLAGS_AC | X86_EFLAGS_DF), (%rsp)
	popfq
	movq	%rdi, %rdx
	movq	(10 * 8)(%rsp), %rdi
	leaq	(11 * 8)(%rsp), %rsi
	call	\choose
	movq	%rax, (10 * 8)(%rsp)
	JIFL_POP_CALL
	popq	%r10
	popq	%rax
	popfq
	RET
.endm

/*
 * In: [rsp] address behind the fentry site of a function, [rsp + 8] return address of its caller;
 * arguments in registers. Out: at a piece from the table of doors, or at the address from
 * jifl_choose_copy, with [rsp] return address of the caller, all registers as they were but rax
 * and r10, which have no value there, and flags.
 *
 * The stub returns to the address that replaces its own return address. So the return of the site's
 * call is mispredicted if the address is an entry piece, and the processor predicts all further
 * returns up the stack.
 */
SYM_START(jifl_function_stub, SYM_L_GLOBAL, SYM_A_ALIGN)
	ANNOTATE_NOENDBR		/* called directly: SYM_FUNC_START would add an endbr64 */
#ifdef JIFL_TEST_BUILD
	cmpl	$0, jifl_plant_door(%rip)
	jne	.Lhold_function
.Lheld_function:
#endif
#ifndef CONFIG_KASAN			/* else there is no table */
	JIFL_DOOR_LOOKUP function, 0
	movq	%rax, (%rsp)
	xorl	%eax, %eax		/* leave/evict.c takes an address in it for a way in */
	RET
	JIFL_DOOR_CHECK function
#endif
.Lask_function:
	JIFL_DOOR_ASK jifl_choose_copy
#ifdef JIFL_TEST_BUILD
.Lhold_function:
	JIFL_PUSH_CALL
	call	jifl_plant_at_door
	JIFL_POP_CALL
	jmp	.Lheld_function
#endif
SYM_FUNC_END(jifl_function_stub)

#ifdef JIFL_CALLS_MAY_BE_COUNTED
/* jifl_function_stub for kernels that count calls: the site's call is counted here. */
SYM_START(jifl_function_stub_counts, SYM_L_GLOBAL, SYM_A_ALIGN)
	ANNOTATE_NOENDBR
	INCREMENT_CALL_DEPTH
	jmp	jifl_function_stub
SYM_FUNC_END(jifl_function_stub_counts)
#endif

/*
 * The same for the gate of a jump (text/jump.h). In: [rsp] address in the gate. Out: at a piece, or
 * at that address, with all registers and flags as they were: assembly may pass anything.
 */
SYM_START(jifl_jump_stub, SYM_L_GLOBAL, SYM_A_ALIGN)
	ANNOTATE_NOENDBR		/* gates call it directly */
	pushfq
	pushq	%rax
	pushq	%r10
#ifndef CONFIG_KASAN
	JIFL_DOOR_LOOKUP jump, 24
	movq	%rax, 24(%rsp)
	popq	%r10
	popq	%rax
	popfq
	RET
	JIFL_DOOR_CHECK jump
#endif
.Lask_jump:
	JIFL_ASK_PUSHED jifl_choose_copy
SYM_FUNC_END(jifl_jump_stub)

/*
 * In: [rsp] address in a block that asks (struct jifl_config, asks), [rsp + 8] return address of
 * the function's caller; arguments in registers. Out: at the address from jifl_choose_inside, with
 * all registers and flags as they were. It is that address, behind the call, or an entry piece.
 */
SYM_START(jifl_inside_stub, SYM_L_GLOBAL, SYM_A_ALIGN)
	ANNOTATE_NOENDBR		/* called directly */
	pushfq
	pushq	%rax
	pushq	%r10
	JIFL_ASK_PUSHED jifl_choose_inside
SYM_FUNC_END(jifl_inside_stub)

/*
 * In: [rsp] number of the exit. Out: at the address that jifl_engine_dispatch puts into the frame,
 * with all registers, flags and rsp as before the exit pushed anything.
 *
 * The dispatcher leaves by IRET, the only instruction that sets flags, interrupts, rsp and rip at
 * once. A return thunk may change flags (call depth tracking): that is allowed at a function's
 * return, but not at the start of a block. A RET without a CALL would make the return predictor
 * miss all the way out.
 */
SYM_CODE_START(jifl_dispatch_direct)
	JIFL_UNWIND_HINT_NONE
	ENDBR
	pushq	(%rsp)			/* the old slot becomes frame.target */
	jmp	.Ldispatch
SYM_CODE_END(jifl_dispatch_direct)

/* In: [rsp] number of the exit, [rsp + 8] original target. Out: as of jifl_dispatch_direct. */
SYM_CODE_START(jifl_dispatch_indirect)
	JIFL_UNWIND_HINT_NONE
	ENDBR
.Ldispatch:
	/* struct jifl_frame is at rsp. Below it come the five words that IRET pops. */
	pushq	$__KERNEL_DS
	pushq	%rsp			/* corrected below, once flags are saved */
	pushfq
	pushq	$__KERNEL_CS
	pushq	$0			/* the address to leave to */
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rbx
	pushq	%rbp
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15

	/* Interrupts off, direction up, no access to user memory, no NT. */
	pushq	$X86_EFLAGS_FIXED
	popfq
	addq	$24, (15 * 8 + 24)(%rsp)	/* rsp was pushed 8 below the frame */

	leaq	(20 * 8)(%rsp), %rdi
	movq	%rsp, %rbx
	movq	%rdi, %rbp
	movq	PER_CPU_VAR(jifl_cpu + JIFL_CPU_STACK_TOP), %rsp
	call	jifl_engine_dispatch
	movq	%rbx, %rsp
	movq	8(%rbp), %rax
	movq	%rax, (15 * 8)(%rsp)

	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rbp
	popq	%rbx
	popq	%rdx
	popq	%rcx
	popq	%rax
	iretq
SYM_CODE_END(jifl_dispatch_indirect)

/*
 * In: rdi a function, rsi its argument. Interrupts are off, and nothing uses the stack of the
 * dispatcher. Calls the function there. As from the dispatcher, a walk does not come out of it.
 */
SYM_FUNC_START(jifl_dispatch_call)
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	PER_CPU_VAR(jifl_cpu + JIFL_CPU_STACK_TOP), %rsp
	CALL_NOSPEC rax
	movq	%rbp, %rsp
	popq	%rbp
	RET
SYM_FUNC_END(jifl_dispatch_call)
