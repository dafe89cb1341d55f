/* SPDX-License-Identifier: GPL-2.0 */
/* See state.h. Offsets are those of struct fuzz_state. */
#include "../unit/run/gprs.inc"
#define XSTATE	192

	.text
	.globl	fuzz_run, fuzz_leave
fuzz_run:
	gprs_enter
	mov	fuzz_components, %eax
	xor	%edx, %edx
	xrstor64 XSTATE(%rdi)
	gprs_call
	mov	fuzz_components, %eax
	xor	%edx, %edx
	xsave64	XSTATE(%rdi)
fuzz_leave:
	/* As C expects to find it. */
	fninit
	vzeroupper
	ldmxcsr	mxcsr
	gprs_leave

	.data
mxcsr:	.long	0x1f80
	gprs_data
	.section .note.GNU-stack, "", @progbits
