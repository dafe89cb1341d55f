// SPDX-License-Identifier: GPL-2.0
/*
 * Forms that were decoded before; see form.h.
 *
 * Found by a hash of the bytes that make a form: prefixes, opcode, ModRM and SIB. Which opcodes
 * have a ModRM is learnt from what was decoded. Where these bytes are told wrongly a form is
 * not found and decoded once more, never taken for another: it is compared by
 * the bytes that its own decoding says make it.
 *
 * Which registers they are matters little to most forms, but for the form's registers. These have
 * a table of their own, which few instructions need, so that the other holds nearly all
 * forms of a kernel.
 */
#include "form.h"

#define SET_BITS	11
#define KEY_MAX		8	/* longer ones are rare, and are not remembered */
#define MIX		0x9e3779b97f4a7c15ull	/* 2^64 over the golden ratio: Knuth, vol. 3, 6.4 */

/* Two places a set, the newer first. */
static struct decode_form forms[1 << SET_BITS][2];

static struct registers {
	u64 key;
	u16 read, written;
	u8 key_len;		/* 0: none */
} registers[1 << SET_BITS][2];

/* The bytes that make a form, and what follows them. */
struct key {
	u64 bytes;
	u32 len;		/* as far as is known */
	u8 *opcode;		/* what is known of its opcode */
};

/*
 * What is known of a byte. Of one before the opcode: it is a prefix (26, 2e, 36, 3e; REX; 64 to 67; f0,
 * f2, f3), or leads to another map of opcodes. Of opcodes, those behind 0f, 0f 38 and 0f 3a for
 * themselves: a ModRM follows, which is learnt; its reg, and its rm if it is no memory, are registers
 * and decide nothing else, unless one is rsp. Of the latter those that are common are here.
 */
enum { PREFIX = 1 << 0, ESCAPE = 1 << 1, MODRM = 1 << 2, REG = 1 << 3, RM = 1 << 4 };
#define BEHIND_0F(opcode) (1 << 8 | (opcode))
static u8 known[4 << 8] = {
	[0x26] = PREFIX, [0x2e] = PREFIX, [0x36] = PREFIX, [0x3e] = PREFIX,
	[0x40 ... 0x4f] = PREFIX, [0x64 ... 0x67] = PREFIX,
	[0xf0] = PREFIX, [0xf2] = PREFIX, [0xf3] = PREFIX,
	[0x0f] = ESCAPE, [BEHIND_0F(0x38)] = ESCAPE, [BEHIND_0F(0x3a)] = ESCAPE,
	/* add, or, adc, sbb, and, sub, xor, cmp; test, xchg, mov */
	[0x00 ... 0x03] = REG | RM, [0x08 ... 0x0b] = REG | RM,
	[0x10 ... 0x13] = REG | RM, [0x18 ... 0x1b] = REG | RM,
	[0x20 ... 0x23] = REG | RM, [0x28 ... 0x2b] = REG | RM,
	[0x30 ... 0x33] = REG | RM, [0x38 ... 0x3b] = REG | RM,
	[0x84 ... 0x8b] = REG | RM,
	/* movslq, imul, lea; cmov; movz, movs; bt and its like, cmpxchg, xadd */
	[0x63] = REG | RM, [0x69] = REG | RM, [0x6b] = REG | RM, [0x8d] = REG | RM,
	[BEHIND_0F(0x40) ... BEHIND_0F(0x4f)] = REG | RM,
	[BEHIND_0F(0xb6) ... BEHIND_0F(0xb7)] = REG | RM,
	[BEHIND_0F(0xbe) ... BEHIND_0F(0xbf)] = REG | RM,
	[BEHIND_0F(0xa3)] = REG | RM, [BEHIND_0F(0xab)] = REG | RM, [BEHIND_0F(0xaf)] = REG | RM,
	[BEHIND_0F(0xb0) ... BEHIND_0F(0xb1)] = REG | RM, [BEHIND_0F(0xb3)] = REG | RM,
	[BEHIND_0F(0xbb)] = REG | RM, [BEHIND_0F(0xc0) ... BEHIND_0F(0xc1)] = REG | RM,
	/* Groups, whose reg belongs to the opcode; setcc */
	[0x80 ... 0x81] = RM, [0x83] = RM, [0xc0 ... 0xc1] = RM, [0xd0 ... 0xd3] = RM, [0xf6 ... 0xf7] = RM,
	[BEHIND_0F(0xba)] = RM, [BEHIND_0F(0x90) ... BEHIND_0F(0x9f)] = RM,
};

static u64 first(u64 bytes, u32 n)
{
	return bytes & (~0ull >> (64 - 8 * (n < KEY_MAX ? n : KEY_MAX)));
}

static u32 set_of(const struct key *k)
{
	return first(k->bytes, k->len) * MIX >> (64 - SET_BITS);
}

enum { MODRM_RM = 0x07, MODRM_REG = 0x38, REX_B = 1, REX_X = 2, REX_R = 4 };

static u64 at(u32 byte, u64 bits)
{
	return byte < KEY_MAX ? bits << 8 * byte : 0;
}

/*
 * What says which registers there are, and nothing else. ModRM is at byte n, REX before byte
 * rex; 0: there is none. Kept is whether memory has a SIB, whether a base, and whether that is rip.
 */
static u64 register_bits(u64 bytes, u8 opcode, u32 n, u32 rex)
{
	u8 modrm = (u8)(bytes >> 8 * n), sib;
	bool reg = opcode & REG && (modrm & MODRM_REG) != IR_RSP << 3, rm = modrm < 0xc0;
	u64 drop = 0;

	if (modrm >= 0xc0) {
		/* Moves into rsp and out of it are more than moves. */
		rm = opcode & RM && (modrm & MODRM_RM) != IR_RSP && (reg || !(opcode & REG));
		reg &= rm;
		drop = rm ? at(n, MODRM_RM) : 0;
	} else if ((modrm & MODRM_RM) == IR_RSP) {
		sib = n + 1 < KEY_MAX ? (u8)(bytes >> 8 * (n + 1)) : 0;
		drop = at(n + 1, (sib & 7) == IR_RBP ? 0xf8 : 0xff);
	} else if (modrm >= 0x40 || (modrm & MODRM_RM) != IR_RBP) {
		drop = at(n, MODRM_RM);
	}
	if (reg)
		drop |= at(n, MODRM_REG);
	if (rex)
		drop |= at(rex - 1, (reg ? REX_R : 0) | (rm ? REX_B | REX_X : 0));
	return drop;
}

/* Of the instruction that starts at code, where at least 8 bytes may be read. */
static struct key key_of(const u8 *code, bool with_registers)
{
	struct key k = { .opcode = &known[code[0]] };
	u32 n = 1, rex = 0;
	u64 bytes;
	u8 modrm;

	memcpy(&bytes, code, sizeof(bytes));
	k.bytes = bytes;
	for (; *k.opcode & PREFIX && n < KEY_MAX; n++) {
		rex = (bytes & 0xf0) == 0x40 ? n : 0;
		bytes >>= 8;
		k.opcode = &known[(u8)bytes];
	}
	if (*k.opcode & ESCAPE) {
		n++;
		k.opcode = &known[1 << 8 | (u8)(bytes >> 8)];
		if (*k.opcode & ESCAPE) {
			n++;
			k.opcode = &known[((u8)(bytes >> 8) == 0x38 ? 2 : 3) << 8 | (u8)(bytes >> 16)];
		}
	}
	k.len = n;
	if (!(*k.opcode & MODRM) || n >= KEY_MAX)
		return k;
	modrm = (u8)(k.bytes >> 8 * n);
	k.len += 1 + (modrm < 0xc0 && (modrm & MODRM_RM) == IR_RSP);
	if (!with_registers)
		k.bytes &= ~register_bits(k.bytes, *k.opcode, n, rex);
	return k;
}

/* What form tells of its opcode. */
static void learn(const struct key *k, const struct decode_form *f)
{
	if (f->modrm_at)
		*k->opcode |= MODRM;
	else
		*k->opcode &= ~MODRM;
}

static bool is_form(const struct decode_form *f, const struct key *k, u32 n)
{
	return f->key_len && f->len <= n && first(k->bytes, f->key_len) == f->key;
}

const struct decode_form *jifl_form_of(const u8 *bytes, u32 n)
{
	struct key k = key_of(bytes, false);
	struct decode_form *set = forms[set_of(&k)];
	const struct decode_form *f;

	if (is_form(&set[0], &k, n))
		return &set[0];
	if (is_form(&set[1], &k, n))
		return &set[1];
	f = jifl_form_decode(bytes, n, false);
	if (!f || !f->key_len || f->key_len > KEY_MAX)
		return f;
	learn(&k, f);
	k = key_of(bytes, false);
	set = forms[set_of(&k)];
	set[1] = set[0];
	set[0] = *f;
	set[0].key = first(k.bytes, f->key_len);
	return &set[0];
}

static bool is_registers(const struct registers *r, const struct key *k)
{
	return r->key_len && first(k->bytes, r->key_len) == r->key;
}

/* ... where they are remembered, or else the place for them. */
static struct registers *registers_of(const struct key *k)
{
	struct registers *set = registers[set_of(k)];

	if (is_registers(&set[1], k))
		return &set[1];
	if (!is_registers(&set[0], k)) {
		set[1] = set[0];
		set[0].key_len = 0;
	}
	return &set[0];
}

bool jifl_form_registers(const u8 *bytes, u32 n, u16 *read, u16 *written)
{
	struct key k = key_of(bytes, true);
	struct registers *r = registers_of(&k);
	const struct decode_form *f;

	if (!r->key_len) {
		f = jifl_form_decode(bytes, n, true);
		if (!f)
			return false;
		*r = (struct registers){ .read = f->regs_read, .written = f->regs_written };
		if (f->key_len && f->key_len <= KEY_MAX) {
			r->key_len = f->key_len;
			r->key = first(k.bytes, f->key_len);
		}
	}
	*read = r->read;
	*written = r->written;
	return true;
}
