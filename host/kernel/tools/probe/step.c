// SPDX-License-Identifier: GPL-2.0
/*
 * The instruction beneath a breakpoint of the module's own (int3.c), executed for a thread that
 * stays native. A branch is done to the registers of the exception. Any other instruction is
 * executed from a copy in executable memory, with a jump behind it to where the original goes on.
 *
 * Why that is the same as the instruction itself:
 *
 * 1. A copy has the bytes of the original. An operand relative to rip has another displacement,
 *    and so the same address. The engine's decoder knows which instructions can be copied like
 *    that (IR_PLAIN, IR_NOP): these also run in the code cache.
 * 2. A branch reads no memory, but for the return address. It changes rip, and the stack by one
 *    word. There is room for that word: an int3 of the kernel's leaves a gap above its frame, for
 *    the kernel's own emulation of calls. A call of a thunk goes to the thunk.
 * 3. No state is left between the exception and the copy. So an interrupt, an NMI or another
 *    exception may come anywhere, and may execute the same copy.
 * 4. A fault at a copy would find no entry in the kernel's exception tables. So an instruction with
 *    an entry is not copied.
 *
 * What is none of these has a kprobe for a breakpoint. A copy is given back as int3.c says.
 *
 * Context: jifl_step_find, jifl_step_copy: process. jifl_step: an int3 exception.
 */
#include <linux/extable.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/text-patching.h>

#include "../../kernel.h"
#include "../../compat/import.h"
#include "probe.h"

/* Fills what a branch does. false: it is another instruction. */
static bool jifl_step_branch(unsigned long address, const u8 *bytes, u8 len, struct jifl_step *step)
{
	const unsigned long next = address + len;
	s32 rel;

	if (len == 1 && bytes[0] == RET_INSN_OPCODE) {
		step->kind = JIFL_STEP_RET;
		return true;
	}
	if (len == 2 && (bytes[0] == JMP8_INSN_OPCODE || (bytes[0] & 0xf0) == 0x70)) {
		step->kind = bytes[0] == JMP8_INSN_OPCODE ? JIFL_STEP_JMP : JIFL_STEP_JCC;
		step->cc = bytes[0] & 0xf;
		step->to = next + (s8)bytes[1];
		return true;
	}
	if (len < 5)
		return false;
	memcpy(&rel, bytes + len - sizeof(rel), sizeof(rel));
	step->to = next + rel;
	if (len == 5 && (bytes[0] == CALL_INSN_OPCODE || bytes[0] == JMP32_INSN_OPCODE)) {
		step->kind = bytes[0] == CALL_INSN_OPCODE ? JIFL_STEP_CALL : JIFL_STEP_JMP;
		return true;
	}
	if (len == 6 && bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80) {
		step->kind = JIFL_STEP_JCC;
		step->cc = bytes[1] & 0xf;
		return true;
	}
	return false;
}

bool jifl_step_find(unsigned long address, struct jifl_step *step)
{
	enum jifl_cause cause;
	struct ir_insn insn;
	unsigned long cookie;
	bool is_code;
	u8 byte;

	cookie = jifl_host_lock();
	is_code = jifl_host_classify(jifl_orig_at(address), &cause) == JIFL_TEXT_CODE;
	if (is_code)
		jifl_engine_insn(jifl_orig_at(address), &insn);
	jifl_host_unlock(cookie);
	/* A breakpoint of somebody else's may stand there. */
	if (!is_code || !insn.len || copy_from_kernel_nofault(&byte, (void *)address, 1) ||
	    byte != insn.bytes[0])
		return false;
	step->len = insn.len;
	step->byte = byte;
	if (jifl_step_branch(address, insn.bytes, insn.len, step))
		return true;
	step->kind = JIFL_STEP_COPY;
	return (insn.kind == IR_PLAIN || insn.kind == IR_NOP) && !insn.folded &&
	       !jifl_import(search_exception_tables)(address);
}

u32 jifl_step_size(const struct jifl_step *step)
{
	return step->kind == JIFL_STEP_COPY ? step->len + JMP32_INSN_SIZE : 0;
}

bool jifl_step_copy(unsigned long address, struct jifl_step *step, u8 *to)
{
	const unsigned long next = address + step->len;
	struct ir_insn insn;
	unsigned long cookie;
	s64 disp;
	s32 rel;

	cookie = jifl_host_lock();
	jifl_engine_insn(jifl_orig_at(address), &insn);
	jifl_host_unlock(cookie);
	if (insn.len != step->len || insn.bytes[0] != step->byte)
		return false;
	memcpy(to, insn.bytes, insn.len);
	if (insn.disp_at) {
		memcpy(&rel, to + insn.disp_at, sizeof(rel));
		disp = (s64)(address - (unsigned long)to) + rel;
		rel = disp;
		if (disp != rel)
			return false;
		memcpy(to + insn.disp_at, &rel, sizeof(rel));
	}
	to[insn.len] = JMP32_INSN_OPCODE;
	disp = (s64)(next - (unsigned long)(to + insn.len + JMP32_INSN_SIZE));
	rel = disp;
	memcpy(to + insn.len + 1, &rel, sizeof(rel));
	step->to = (unsigned long)to;
	return disp == rel;
}

void jifl_step(unsigned long address, const struct jifl_step *step, struct pt_regs *regs)
{
	const unsigned long next = address + step->len;

	switch (step->kind) {
	case JIFL_STEP_COPY:
	case JIFL_STEP_JMP:
		regs->ip = step->to;
		break;
	case JIFL_STEP_JCC:
		regs->ip = jifl_probe_branches(step->cc, regs) ? step->to : next;
		break;
	case JIFL_STEP_CALL:
		int3_emulate_push(regs, next);
		regs->ip = step->to;
		break;
	case JIFL_STEP_RET:
		regs->ip = int3_emulate_pop(regs);
		break;
	}
}
