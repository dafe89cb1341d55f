/* SPDX-License-Identifier: GPL-2.0 */
/* See state.h. Offsets are those of struct state. */
#include "gprs.inc"
#define XMM	(GPRS_FLAGS + 16)

	.text
	.globl	state_run
state_run:
	gprs_enter
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movdqa	(XMM + 16 * \n)(%rdi), %xmm\n
	.endr
	gprs_call
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movdqa	%xmm\n, (XMM + 16 * \n)(%rdi)
	.endr
	gprs_leave
	gprs_data
	.section .note.GNU-stack, "", @progbits
