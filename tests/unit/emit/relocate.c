// SPDX-License-Identifier: GPL-2.0
/*
 * All of this program's text, libraries included: every instruction is decoded, copied to another
 * address, and decoded there with the same result.
 */
#include <Zydis/Zydis.h>

#include "../../../engine/decode/decode.h"
#include "../../../engine/emit/x86_enc.h"
#include "../unit.h"

extern const char user_host_own_start[], etext[];

enum { FAR = 0x60001238, MOVED = 136 };

static ZydisDecoder decoder;

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const u8 *bytes, u32 n, struct decoded *d)
{
	memset(d, 0, sizeof(*d));
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, n, &d->insn, d->ops));
}

/* Memory operands: same registers; same address, or displacement moved by so much. */
static bool same_memory(const struct decoded *a, u64 at_a, const ZydisDecodedOperand *x,
			const struct decoded *b, u64 at_b, const ZydisDecodedOperand *y, s64 moved)
{
	s64 dx = x->mem.disp.value, dy = y->mem.disp.value;

	if (x->mem.base != y->mem.base || x->mem.index != y->mem.index ||
	    x->mem.scale != y->mem.scale || x->mem.segment != y->mem.segment)
		return false;
	if (x->mem.base == ZYDIS_REGISTER_RIP)
		return at_a + a->insn.length + dx == at_b + b->insn.length + dy;
	return dx + (x->mem.base == ZYDIS_REGISTER_RSP ? moved : 0) == dy;
}

static bool same_operand(const struct decoded *a, u64 at_a, const ZydisDecodedOperand *x,
			 const struct decoded *b, u64 at_b, const ZydisDecodedOperand *y)
{
	if (x->type != y->type || x->size != y->size || x->actions != y->actions)
		return false;
	switch (x->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return x->reg.value == y->reg.value;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return same_memory(a, at_a, x, b, at_b, y, 0);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return x->imm.value.u == y->imm.value.u;
	default:
		return true;
	}
}

static bool same(const struct decoded *a, u64 at_a, const struct decoded *b, u64 at_b)
{
	u32 i;

	if (a->insn.mnemonic != b->insn.mnemonic || a->insn.length != b->insn.length ||
	    a->insn.attributes != b->insn.attributes)
		return false;
	for (i = 0; i < a->insn.operand_count; i++)
		if (!same_operand(a, at_a, &a->ops[i], b, at_b, &b->ops[i]))
			return false;
	return true;
}

static struct x86_writer writer(u8 *buf, u32 cap)
{
	return (struct x86_writer){ .buf = buf, .cap = cap, .start = 8, .code_base = FAR - 8 };
}

static void check_copy(const struct ir_insn *insn, const struct decoded *original)
{
	struct x86_writer w;
	struct decoded copy;
	u8 buf[32];

	w = writer(buf, sizeof(buf));
	x86_copy(&w, insn);
	CHECK(!w.full && decode(buf, w.len, &copy) &&
	      same(original, insn->addr.v, &copy, FAR), "at %#llx: %s became %s", insn->addr.v,
	      unit_hex(insn->bytes, insn->len), unit_hex(buf, w.len));
}

static void check_push(const struct ir_insn *insn, const struct decoded *original)
{
	struct x86_writer w;
	struct decoded push;
	u8 buf[32];

	w = writer(buf, sizeof(buf));
	x86_push_operand_of(&w, insn, MOVED);
	CHECK(!w.full && decode(buf, w.len, &push) &&
	      push.insn.mnemonic == ZYDIS_MNEMONIC_PUSH && push.insn.length == w.len &&
	      same_memory(original, insn->addr.v, &original->ops[0], &push, FAR, &push.ops[0],
			  MOVED),
	      "at %#llx: %s became %s", insn->addr.v, unit_hex(insn->bytes, insn->len),
	      unit_hex(buf, w.len));
}

UNIT_TEST(all, "emit/relocate: every instruction of this program is the same elsewhere")
{
	u64 at = (u64)(unsigned long)user_host_own_start, end = (u64)(unsigned long)etext;
	u32 step = UNIT_SANITIZED ? 10 : 1, n = 0, relocated = 0, pushed = 0;
	struct decoded original;
	struct ir_insn insn;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (; at < end; at += insn.len ? insn.len : 1) {
		jifl_decode_insn(jifl_orig_at(at), &insn);
		if (insn.kind == IR_NATIVE || n++ % step)
			continue;
		REQUIRE(decode(insn.bytes, insn.len, &original), "at %#llx", at);
		if (insn.kind == IR_PLAIN) {
			check_copy(&insn, &original);
			relocated += insn.disp_at != 0;
		} else if ((insn.kind == IR_JMP_IND || insn.kind == IR_CALL_IND) &&
			   insn.reg == IR_REG_NONE) {
			check_push(&insn, &original);
			pushed++;
		}
	}
	CHECK(relocated > 100 && pushed > 10, "%u, %u of %u", relocated, pushed, n);
}
