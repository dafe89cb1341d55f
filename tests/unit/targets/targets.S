/* SPDX-License-Identifier: GPL-2.0 */
/* Code that compilers do not emit; see targets.h. Each function takes rdi and returns rax. */
	.text

/* jrcxz, taken and not; loop; loope and loopne */
asm_loops:
	xor	%eax, %eax
	mov	%rdi, %rcx
1:	jrcxz	2f
	lea	3(%rax,%rcx), %rax
	dec	%rcx
	jmp	1b
2:	mov	$17, %ecx
3:	add	%rcx, %rax
	loop	3b
	mov	$30, %ecx
	mov	%rdi, %rdx
4:	inc	%rax
	dec	%rdx
	cmp	$90, %rdx
	loopne	4b
	add	%rcx, %rax
	mov	$9, %ecx
5:	inc	%rax
	cmp	%rax, %rax
	loope	5b
	mov	$1, %edx
	shl	$32, %rdx
	mov	%rdx, %rcx
	jecxz	6f
	add	$1000, %rax
6:	ret

/* Flags live over a jump, a label and a nop: no counter may break them. */
asm_flags:
	xor	%eax, %eax
	mov	%rdi, %rcx
1:	add	$0x7fffffff, %edi
	jmp	2f
	.balign	16
2:	adc	$0, %rax
	nopw	0(%rax,%rax)
	mov	%rax, %rdx
	jmp	3f
3:	seto	%dl
	movzbl	%dl, %edx
	lea	(%rax,%rdx,4), %rax
	dec	%rcx
	jne	1b
	ret

/* Jumps of both lengths, forward and back, to each other's targets. */
asm_jumps:
	mov	%rdi, %rax
	jmp	3f
1:	add	$5, %rax
	test	$1, %al
	jz	4f
	.byte	0x0f, 0x85		/* jne, near */
	.long	2f - . - 4
2:	xor	$0x32, %rax
	jmp	5f
3:	test	%rdi, %rdi
	jns	1b
4:	add	$7, %rax
	jp	2b
5:	dec	%rdi
	jns	3b
	ret

/* Returns with an immediate, rep ret, push and ret to go somewhere. */
asm_returns:
	push	%rdi
	push	%rdi
	call	1f
	push	$2f
	ret
1:	mov	8(%rsp), %rax
	add	16(%rsp), %rax
	ret	$16
2:	call	3f
	inc	%rax
	rep ret
3:	add	%rax, %rax
	ret

/* Indirect branches through the stack, rip-relative memory and registers. */
asm_indirect:
	push	%rbx
	push	%rbp
	mov	%rdi, %rbx
	lea	10f(%rip), %rax
	push	%rax
	lea	11f(%rip), %rbp
	push	%rbp
	xor	%eax, %eax
1:	call	*8(%rsp)
	call	*(%rsp)
	call	*table+8(%rip)
	mov	%rbx, %rcx
	and	$1, %ecx
	call	*table(,%rcx,8)
	mov	table(,%rcx,8), %r11
	call	*%r11
	/* To what nothing else leads to. */
	mov	table+16(,%rcx,8), %r11
	call	*%r11
	lea	table+32(,%rcx,8), %r11
	call	*(%r11)
	mov	%rcx, %r11
	call	*table+48(,%r11,8)
	call	*%rbp
	dec	%rbx
	jz	2f
	lea	1b(%rip), %r10
	jmp	*%r10
2:	add	$16, %rsp
	jmp	*after(%rip)
table_after:
	pop	%rbp
	pop	%rbx
	ret
table_0:
10:	add	$3, %rax
	ret
table_1:
11:	lea	1(%rax,%rax), %rax
	and	$0xffffff, %eax
	ret

	.irp	n, 2, 3, 4, 5, 6, 7
table_\n:
	lea	\n(%rax,%rax,2), %rax
	and	$0xffffff, %eax
	ret
	.endr

/* rsp-relative with a byte, a word and no displacement; with an index; jmp *(rsp) */
asm_stack_jumps:
	sub	$0x208, %rsp
	lea	1f(%rip), %rax
	mov	%rax, 0x200(%rsp)
	jmp	*0x200(%rsp)
	int3
1:	lea	2f(%rip), %rax
	mov	%rax, 0x40(%rsp)
	mov	$8, %ecx
	jmp	*(%rsp,%rcx,8)
	int3
2:	lea	3f(%rip), %rax
	push	%rax
	jmp	*(%rsp)
	int3
3:	pop	%rax
	lea	4f(%rip), %rax
	mov	%rax, 0x200(%rsp)
	mov	$0x40, %ecx
	call	*0x0(%rsp,%rcx,8)
	add	$0x208, %rsp
	mov	%rdi, %rax
	ret
4:	add	$9, %rdi
	ret

/* Data reached from rip with and without an immediate, vectors included. */
asm_rip:
	movl	$0x12345678, data(%rip)
	addl	$0x7, data(%rip)
	movb	$0x55, data+5(%rip)
	movw	$0x6677, data+6(%rip)
	cmpl	$0x1234567f, data(%rip)
	sete	%al
	movzbl	%al, %eax
	add	data(%rip), %rax
	imul	$3, data(%rip), %rdx
	add	%rdx, %rax
	movdqu	data(%rip), %xmm0
	pshufd	$0x1b, data(%rip), %xmm1
	paddd	%xmm0, %xmm1
	movq	%xmm1, %rdx
	xor	%rdx, %rax
	xor	%rdi, %rax
	lea	asm_rip(%rip), %rdx
	sub	$asm_rip, %rdx
	add	%rdx, %rax
	movl	$0, data+4(%rip)
	ret

/* Moves backwards, flags kept on the stack, cmov, setcc, bit operations. */
asm_misc:
	push	%rbp
	mov	%rsp, %rbp
	sub	$64, %rsp
	mov	%rdi, -8(%rbp)
	mov	%rdi, -16(%rbp)
	mov	%rdi, -40(%rbp)
	lea	-8(%rbp), %rsi
	lea	-24(%rbp), %rdi
	mov	$2, %ecx
	std
	rep movsq
	cld
	mov	-32(%rbp), %rax
	mov	-24(%rbp), %rdx
	cmp	%rax, %rdx
	pushf
	add	$1, %rax
	popf
	cmovne	%rdx, %rax
	bts	$5, %rax
	adc	%rdx, %rax
	xor	%ecx, %ecx
	cmp	%rdx, %rax
	mov	$0, %ecx
	shl	%cl, %rdx		/* count 0: flags stay */
	sbb	%rcx, %rcx
	add	%rcx, %rax
	bsf	%rax, %rcx
	xadd	%rcx, %rax
	lock cmpxchg %rcx, -40(%rbp)
	leave
	ret

/* Calls out of the cache, direct, through memory and a register: see hooks.c. */
	.globl	target_hooks
target_hooks:
	push	%rbx
	push	%r12
	sub	$8, %rsp
	mov	%rdi, %rbx
	call	unit_hook
	mov	%rax, %r12
	lea	1(%rbx), %rdi
	call	*unit_hook_pointer(%rip)
	add	%rax, %r12
	lea	2(%rbx), %rdi
	mov	unit_hook_pointer(%rip), %rax
	call	*%rax
	lea	(%rax,%r12), %rax
	add	$8, %rsp
	pop	%r12
	pop	%rbx
	ret

/* Faults at the site numbered rdi, on the address in rsi: see faults.c. */
	.globl	target_faults, target_fault_sites, target_fault_fixup
target_faults:
	lea	17(%rdi), %rax
	lea	18(%rdi), %rdx
	lea	19(%rdi), %r8
	lea	20(%rdi), %r9
	cmp	$1, %edi
	je	1f
	cmp	$2, %edi
	je	2f
	cmp	$3, %edi
	je	3f
	cmp	$4, %edi
	je	4f
	/* a nop right before, like a stac that is none */
	nopl	0(%rax)
	nop
site_0:	mov	(%rsi), %rax
	ret
1:	add	$1, %rax		/* a jump that leaves no code */
	jmp	11f
	.balign	16
11:	nop
site_1:	mov	%rdx, 8(%rsi)
	ret
2:	mov	$10, %ecx		/* flags live over it */
	cmp	%rdx, %rax
site_2:	mov	(%rsi,%rcx,8), %rdx
	adc	%rdx, %rax
	ret
3:	lea	buffer(%rip), %rdi	/* in the middle of a string */
	mov	$64, %ecx
	sub	$40, %rsi
site_3:	rep movsb
	ret
4:	call	site_4			/* below a frame of the cache */
	ret
site_4:	incl	(%rsi)
	ret
target_fault_fixup:
	mov	$-14, %rax
	ret

	.section .rodata
target_fault_sites:
	.quad	site_0, site_1, site_2, site_3, site_4

	.bss
buffer:	.skip	64

	.data
	.balign	16
data:	.quad	0, 0x1122334455667788
	.quad	0, 0
table:	.quad	table_0, table_1, table_2, table_3, table_4, table_5, table_6, table_7
after:	.quad	table_after

	.section .rodata
	.balign	8
	.globl	targets_asm
targets_asm:
	.irp	name, loops, flags, jumps, returns, indirect, stack_jumps, rip, misc
	.quad	name_\name, asm_\name, 100
	.endr
	.quad	0, 0, 0
	.irp	name, loops, flags, jumps, returns, indirect, stack_jumps, rip, misc
name_\name: .asciz	"\name"
	.endr

	.section .note.GNU-stack, "", @progbits
