// SPDX-License-Identifier: GPL-2.0
/* Steps of analysis routines are encoded as they are decoded. */
#include "../../../engine/decode/decode.h"
#include "../../../engine/emit/x86_enc.h"
#include "../unit.h"

#define ROUNDS 200000

static u8 text[32];
static u64 random_state = 7;

static u32 draw(u32 n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(random_state >> 33) % n;
}

static u8 some_register(void)
{
	u8 reg = (u8)draw(16);

	return reg == IR_RSP ? IR_RAX : reg;
}

static s64 some_displacement(void)
{
	static const s64 each[] = { 0, 1, -1, 127, 128, -128, -129, 0x12345678, -0x12345678 };

	return each[draw(JIFL_ARRAY_LEN(each))];
}

static struct ir_value some_memory(void)
{
	struct ir_value v = { .kind = IR_VALUE_MEM, .reg = IR_REG_NONE, .index = IR_REG_NONE,
			      .scale = 1, .value = some_displacement() };

	if (draw(3))
		v.reg = some_register();
	if (draw(2)) {
		v.index = some_register();
		v.scale = (u8)(1 << draw(4));
	}
	return v;
}

static struct ir_value some_immediate(u8 width)
{
	s64 value = some_displacement();

	if (width == 1)
		value = (s8)value;
	if (width == 2)
		value = (s16)value;
	return (struct ir_value){ .kind = IR_VALUE_IMM, .value = value };
}

static struct ir_value some_register_value(void)
{
	return (struct ir_value){ .kind = IR_VALUE_REG, .reg = some_register() };
}

/* One that specialisation may make, of what it can change. */
static struct ir_step some_step(void)
{
	struct ir_step s = { .op = (u8)draw(IR_OP_OTHER), .width = (u8)(1 << draw(4)),
			     .changed = true };
	bool memory_first = draw(2);

	s.src_width = s.width;
	if (s.op >= IR_OP_INC) {
		s.dst = draw(2) ? some_memory() : some_register_value();
		if (s.op >= IR_OP_SHL) {
			s.src = (struct ir_value){ .kind = IR_VALUE_IMM, .value = 1 + draw(31) };
			s.src_width = 1;
		}
	} else if (s.op == IR_OP_LEA || s.op == IR_OP_MOVZX || s.op == IR_OP_MOVSX) {
		s.dst = some_register_value();
		s.src = some_memory();
		s.width = draw(2) ? 4 : 8;
		if (s.op == IR_OP_LEA)
			s.src_width = s.width;
		else
			s.src_width = (u8)(1 << draw(s.op == IR_OP_MOVSX && s.width == 8 ? 3 : 2));
	} else {
		s.dst = memory_first ? some_memory() : some_register_value();
		if (draw(2) && !(s.op == IR_OP_MOV && !memory_first))
			s.src = some_immediate(s.width);
		else if (memory_first || s.op == IR_OP_TEST)
			s.src = some_register_value();
		else
			s.src = some_memory();
	}
	s.lock = s.dst.kind == IR_VALUE_MEM && s.op <= IR_OP_XOR && draw(2);
	if (s.dst.kind == IR_VALUE_MEM || s.src.kind == IR_VALUE_MEM)
		s.segment = draw(3) ? 0 : 0x65;
	if (s.op == IR_OP_LEA)
		s.segment = 0;
	return s;
}

static bool same_value(const struct ir_value *a, const struct ir_value *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == IR_VALUE_REG)
		return a->reg == b->reg;
	if (a->kind == IR_VALUE_IMM)
		return a->value == b->value;
	return a->reg == b->reg && a->value == b->value && a->index == b->index &&
	       (a->index == IR_REG_NONE || a->scale == b->scale);
}

UNIT_TEST(both_ways, "emit/x86_op: what is encoded is decoded")
{
	static struct ir_routine r;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	for (i = 0; i < ROUNDS / (UNIT_SANITIZED ? 10 : 1); i++) {
		struct x86_writer w = { .buf = text, .cap = sizeof(text) };
		struct ir_step s = some_step();
		const struct ir_step *d = &r.steps[0];

		x86_op(&w, &s);
		x86_ret(&w);
		REQUIRE(!w.full);
		CHECK_EQ_IN(unit_hex(text, w.len),
			    jifl_decode_routine((u64)(unsigned long)text, &r), JIFL_INLINE_YES);
		CHECK(r.nsteps == 2 && d->op == s.op && d->width == s.width && d->lock == s.lock &&
		      d->segment == s.segment && d->insn.len + 1 == (u8)w.len &&
		      same_value(&d->dst, &s.dst) && same_value(&d->src, &s.src) &&
		      (s.src.kind != IR_VALUE_MEM || d->src_width == s.src_width ||
		       s.op == IR_OP_LEA),
		      "op %u, width %u, src width %u: %s", s.op, s.width, s.src_width,
		      unit_hex(text, w.len));
	}
}
