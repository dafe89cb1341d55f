// SPDX-License-Identifier: GPL-2.0
/* Decoding of instructions and basic blocks; see decode.h. */
#include "decode.h"
#include "form.h"
#include "thunk.h"
#include "../base/plant.h"
#include "../host.h"

/* The instructions from an std to its cld, with some to spare. */
#define BACKWARDS_INSNS 16

#define OPCODE_POPF 0x9d

#define OPCODE_CALL 0xe8
#define OPCODE_INT3 0xcc
#define CALL_LEN 5

/* What calls in place of a nop; see struct jifl_config. */
static u64 door;

int jifl_decode_init(u64 door_address)
{
	door = door_address;
	jifl_form_memo_init();
	return jifl_form_init();
}

static void set_native(struct ir_insn *insn, enum jifl_cause cause)
{
	insn->kind = IR_NATIVE;
	insn->cause = cause;
}

/*
 * A direct branch. A branch to a thunk is treated as the branch that the thunk stands for. A
 * branch to text that is not known runs natively, because a trampoline identifies its caller by
 * the return address.
 */
static JIFL_NOINLINE void follow_direct(struct ir_insn *insn, s64 rel)
{
	enum jifl_cause cause = JIFL_CAUSE_FOREIGN;
	struct jifl_thunk thunk;
	u8 kind = insn->kind;

	insn->target = jifl_orig_at(insn->addr.v + insn->len + (u64)rel);
	switch (jifl_host_classify(insn->target, &cause)) {
	case JIFL_TEXT_CODE:
	case JIFL_TEXT_NATIVE:
		return;
	case JIFL_TEXT_FOREIGN:
		set_native(insn, cause);
		return;
	case JIFL_TEXT_THUNK:
		break;
	}
	if (kind != IR_CALL && kind != IR_JMP)
		return;
	jifl_thunk_follow(insn->target, &thunk);
	if (thunk.kind == JIFL_THUNK_INDIRECT) {
		insn->kind = kind == IR_CALL ? IR_CALL_IND : IR_JMP_IND;
		insn->type = kind == IR_CALL ? ins_call_indirect : ins_jmp_indirect;
		insn->reg = thunk.reg;
		insn->folded = thunk.insns;
	} else if (thunk.kind == JIFL_THUNK_RETURN && kind == IR_JMP) {
		insn->kind = IR_RET_THUNK;
		insn->type = ins_ret;
		insn->folded = thunk.insns;
	}
}

static s64 offset_of(const struct ir_insn *insn, const struct decode_form *f)
{
	s32 rel;

	if (f->rel_len == 1)
		return (s8)insn->bytes[f->rel_at];
	memcpy(&rel, insn->bytes + f->rel_at, sizeof(rel));
	return rel;
}

/* The bits of a shift's count that the processor uses, whatever the operand's size. */
#define COUNT_MASK 31

static void take(struct ir_insn *insn, const struct decode_form *f)
{
	insn->traits = f->traits;
	if (f->count_at && insn->bytes[f->count_at] & COUNT_MASK) {
		insn->flags_read &= ~f->flags_counted;
		insn->flags_written |= f->flags_counted;
	}
}

/*
 * True for an indirect call whose callee takes the flags that a popf restores, and gives some
 * back. KVM's emulator executes guest instructions by: popf; call *reg; pushf. The lookup of the
 * callee's block changes flags, and inserts rely on flags having no value at a call.
 */
static JIFL_NOINLINE bool gives_flags_to_call(const struct ir_insn *insn)
{
	static const u8 lfence[] = { 0x0f, 0xae, 0xe8 };
	struct ir_insn next;

	jifl_decode_insn(jifl_orig_at(insn->addr.v + insn->len), &next);
	while (next.kind == IR_NOP || !memcmp(next.bytes, lfence, sizeof(lfence)))
		jifl_decode_insn(jifl_orig_at(next.addr.v + next.len), &next);
	return next.kind == IR_CALL_IND;
}

static JIFL_NOINLINE void set_undecoded(struct ir_insn *insn)
{
	insn->traits = (struct ir_traits){ .reg = IR_REG_NONE };
	set_native(insn, JIFL_CAUSE_UNDECODED);
}

#define OPCODE_MOV_STORE 0x89
#define OPCODE_MOV_LOAD 0x8b
#define MODRM_REGISTERS 0xc0
/* REX, the opcode, ModRM. */
#define MOV_LEN 3

/*
 * The instruction may put rsp on another stack. A move between registers may also take off the
 * stack what a call was given there: gcc 14 does so.
 */
static JIFL_NOINLINE void ask_for_stack(struct ir_insn *insn)
{
	const u8 *b = insn->bytes;

	if (insn->len != MOV_LEN || (b[1] != OPCODE_MOV_STORE && b[1] != OPCODE_MOV_LOAD) ||
	    b[2] < MODRM_REGISTERS || !jifl_host_keeps_stack(insn->addr, insn->len))
		return;
	insn->kind = IR_PLAIN;
	insn->cause = JIFL_CAUSE_NONE;
}

/* Puts the nop that the kernel's functions begin with in place of a call of the door. */
static JIFL_NOINLINE void hide_door(struct ir_insn *insn)
{
	static const u8 nop[CALL_LEN] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	s32 rel;

	memcpy(&rel, insn->bytes + 1, sizeof(rel));
	if (insn->addr.v + CALL_LEN + (u64)(s64)rel == door)
		memcpy(insn->bytes, nop, sizeof(nop));
}

/* At the end of known text. */
static JIFL_NOINLINE void copy_last_bytes(struct ir_insn *insn, const u8 *p, u32 n)
{
	u32 i;

	for (i = 0; i < IR_INSN_MAX; i++)
		insn->bytes[i] = i < n ? p[i] : 0;
}

/*
 * As jifl_decode_insn, for the n bytes at p, which are the bytes at addr. Rare cases are in other
 * functions.
 */
static void decode(jifl_orig addr, const u8 *p, u32 n, struct ir_insn *insn)
{
	const struct decode_form *f;

	insn->addr = addr;
	insn->target = jifl_orig_at(0);
	insn->leaves = false;
	if (n >= IR_INSN_MAX)
		memcpy(insn->bytes, p, IR_INSN_MAX);
	else
		copy_last_bytes(insn, p, n);
	jifl_host_lift_text(addr, insn->bytes, IR_INSN_MAX);
	if (insn->bytes[0] == OPCODE_CALL && door)
		hide_door(insn);
	else if (insn->bytes[0] == OPCODE_INT3)
		jifl_host_lift_int3(addr, insn->bytes);
	f = n ? jifl_form_memo_get(insn->bytes, n) : NULL;
	if (!f) {
		set_undecoded(insn);
		return;
	}
	take(insn, f);
	if (f->rel_len && ir_kind_ends_block(insn->kind) && insn->kind != IR_NATIVE)
		follow_direct(insn, offset_of(insn, f));
	else if (insn->kind == IR_NATIVE && insn->cause == JIFL_CAUSE_STACK)
		ask_for_stack(insn);
	else if (insn->bytes[0] == OPCODE_POPF && gives_flags_to_call(insn))
		set_native(insn, JIFL_CAUSE_PRIVILEGED);
}

void jifl_decode_insn(jifl_orig addr, struct ir_insn *insn)
{
	u32 n;
	const u8 *p = jifl_host_text(addr, &n);

	decode(addr, p, n, insn);
}

/*
 * Decodes into b->insns up to the end of the block, or up to an instruction that is not
 * understood: then returns why.
 */
static enum jifl_cause decode_insns(struct ir_block *b, jifl_orig *end)
{
	struct ir_insn *insn = b->insns;
	jifl_orig addr = b->addr;
	u32 n;
	const u8 *p = jifl_host_text(addr, &n);

	for (;;) {
		decode(addr, p, n, insn);
		*end = addr;
		if (insn->kind == IR_NATIVE)
			return insn->cause;
		/*
		 * Liveness sees DF in the block that sets it: the block is not cut before DF is
		 * cleared.
		 */
		if (insn->sets_df) {
			if (insn - b->insns > IR_BLOCK_INSNS - BACKWARDS_INSNS)
				return JIFL_CAUSE_NONE;
			b->sets_df = true;
		}
		addr.v += insn->len;
		p += insn->len;
		n -= insn->len;
		b->ninsns++;
		*end = addr;
		/*
		 * Behind an instruction that counts a call a function begins, and so does a block.
		 */
		if (ir_kind_ends_block(insn->kind) || b->ninsns == IR_BLOCK_INSNS ||
		    (insn == b->insns && jifl_thunk_tracks_depth(insn->bytes) &&
		     !JIFL_PLANTED(depth_not_apart)))
			return JIFL_CAUSE_NONE;
		insn++;
	}
}

/* True when the code goes on behind this last instruction. */
static bool goes_on(const struct ir_insn *last)
{
	switch (last->kind) {
	case IR_JMP:
	case IR_JMP_IND:
	case IR_RET:
	case IR_RET_THUNK:
		return false;
	default:
		return true;
	}
}

enum jifl_cause jifl_decode_block(jifl_orig addr, struct ir_block *b)
{
	enum jifl_cause cause;
	jifl_orig end;

	b->addr = addr;
	b->next = jifl_orig_at(0);
	b->ninsns = 0;
	b->ninserts = 0;
	b->nlong = 0;
	b->count = 0;
	b->inserts_full = false;
	b->sets_df = false;
	b->asks = false;
	b->in_piece = false;
	cause = decode_insns(b, &end);
	b->src_len = end.v - addr.v;
	if (!b->ninsns) {
		b->next = end;
		return cause;
	}
	/* Only a branch can stand for other instructions, too, and a branch is last. */
	b->count = b->ninsns + b->insns[b->ninsns - 1].folded;
	if (goes_on(&b->insns[b->ninsns - 1]))
		b->next = end;
	return JIFL_CAUSE_NONE;
}

void jifl_decode_registers(struct ir_insn *insn)
{
	if (jifl_form_registers(insn->bytes, insn->len, &insn->regs_read, &insn->regs_written))
		return;
	insn->regs_read = 0xffff;
	insn->regs_written = 0;
}
