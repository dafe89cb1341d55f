// SPDX-License-Identifier: GPL-2.0
/*
 * Forms that were decoded before; see form.h.
 *
 * A form is found by a hash of the bytes that make it: prefixes, opcode, ModRM and SIB. The table
 * learns from decoded instructions which opcodes have a ModRM. A key with the wrong bytes never
 * finds another form: the form is not found and is decoded once more, because the decoding of a
 * form says how many bytes make it.
 *
 * For most forms it does not matter which registers an instruction names; for the form's registers
 * it does. Registers have a table of their own, which few instructions need, so that the table of
 * forms holds nearly all forms of a kernel.
 */
#include "form.h"

#define SET_BITS	11
#define NOT_A_LENGTH	0xff
#define MIX		0x9e3779b97f4a7c15ull	/* 2^64 over the golden ratio: Knuth, vol. 3, 6.4 */

/* Two places in a set, the newer first. */
static struct decode_form forms[1 << SET_BITS][2];

static struct registers {
	u64 key;
	u16 read, written;
	u8 key_len;		/* 0: none */
} registers[1 << SET_BITS][2];

/* The bytes that make a form. */
struct key {
	u64 bytes;
	u32 len;		/* as far as it is known; NOT_A_LENGTH: too long, not remembered */
	u8 *opcode;		/* what is known of its opcode */
};

/*
 * What is known about a byte.
 *
 * - A byte before the opcode: it is a prefix (26, 2e, 36, 3e; REX; 64 to 67; f0, f2, f3), or it
 *   leads to another map of opcodes.
 * - An opcode (opcodes behind 0f, 0f 38 and 0f 3a have entries of their own): a ModRM follows,
 *   which is learnt; or the reg field, and the rm field if it is no memory, are registers and
 *   decide nothing else, unless one of them is rsp. Common opcodes of the second kind are in this
 *   table.
 */
enum { REG = 1 << 0, RM = 1 << 1, REG_RM = REG | RM, PREFIX = 1 << 2, ESCAPE = 1 << 3,
       MODRM = 1 << 4 };
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
	/* Groups, whose reg field belongs to the opcode; setcc */
	[0x80 ... 0x81] = RM, [0x83] = RM, [0xc0 ... 0xc1] = RM, [0xd0 ... 0xd3] = RM,
	[0xf6 ... 0xf7] = RM,
	[BEHIND_0F(0xba)] = RM, [BEHIND_0F(0x90) ... BEHIND_0F(0x9f)] = RM,
};

enum { MODRM_RM = 0x07, MODRM_REG = 0x38, REX_B = 1, REX_X = 2, REX_R = 4 };

/*
 * The bits that say which registers an instruction names, and nothing else, by what is known about
 * the opcode (REG, RM) and by ModRM. The key keeps whether a memory operand has a SIB, whether it
 * has a base, and whether that base is rip.
 */
static struct which {
	u8 modrm, rex;		/* bits of these bytes */
	u8 has_sib;
	u8 unused;		/* makes four bytes: found by a scaled index */
} which[1 << 2][1 << 8];

static struct which which_of(u8 opcode, u8 modrm)
{
	bool reg = opcode & REG && (modrm & MODRM_REG) != IR_RSP << 3, rm = modrm < 0xc0;
	struct which w = { 0 };

	if (modrm >= 0xc0) {
		/* A move into rsp or out of rsp is more than a move. */
		rm = opcode & RM && (modrm & MODRM_RM) != IR_RSP && (reg || !(opcode & REG));
		reg &= rm;
		w.modrm = rm ? MODRM_RM : 0;
	} else if ((modrm & MODRM_RM) == IR_RSP) {
		w.has_sib = true;
	} else if (modrm >= 0x40 || (modrm & MODRM_RM) != IR_RBP) {
		w.modrm = MODRM_RM;
	}
	w.modrm |= reg ? MODRM_REG : 0;
	w.rex = (reg ? REX_R : 0) | (rm ? REX_B | REX_X : 0);
	return w;
}

void jifl_form_memo_init(void)
{
	u32 opcode, modrm;

	for (opcode = 0; opcode < JIFL_ARRAY_LEN(which); opcode++)
		for (modrm = 0; modrm < JIFL_ARRAY_LEN(which[0]); modrm++)
			which[opcode][modrm] = which_of(opcode, modrm);
}

enum { KEY_MAX = 8, MODRM_MAX = KEY_MAX - 2 };	/* a SIB may follow ModRM */

/* The mask of the first n bytes of 8. */
static const u64 first[KEY_MAX + 1] = {
	0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff,
	~0ull,
};

/*
 * The key of the instruction that starts at code, where at least 8 bytes may be read. Runs for
 * each instruction that is decoded, so what varies with ModRM comes from a table.
 */
static JIFL_ALWAYS_INLINE struct key key_of(const u8 *code, bool with_registers)
{
	const u8 *at = code;
	struct key k = { .opcode = &known[*at++] };
	u32 rex = KEY_MAX;	/* where the REX prefix is, if there is one */
	u64 drop = 0;
	struct which w;

	memcpy(&k.bytes, code, sizeof(k.bytes));
	k.len = NOT_A_LENGTH;
	for (; *k.opcode & PREFIX && at < code + MODRM_MAX; k.opcode = &known[*at++])
		rex = (at[-1] & 0xf0) == 0x40 ? at - 1 - code : KEY_MAX;
	if (*k.opcode & ESCAPE) {
		k.opcode = &known[1 << 8 | *at++];
		if (*k.opcode & ESCAPE) {
			k.opcode = &known[(at[-1] == 0x38 ? 2 : 3) << 8 | *at];
			at++;
		}
	}
	if (at > code + MODRM_MAX)
		return k;
	if (*k.opcode & MODRM) {
		w = which[*k.opcode & REG_RM][*at];
		drop = (u64)w.modrm << 8 * (at++ - code);
		if (rex < KEY_MAX)
			drop |= (u64)w.rex << 8 * rex;
		if (w.has_sib) {
			drop |= ((*at & 7) == IR_RBP ? 0xf8ull : 0xffull) << 8 * (at - code);
			at++;
		}
	}
	k.len = at - code;
	k.bytes &= first[k.len];
	if (!with_registers)
		k.bytes &= ~drop;
	return k;
}

static inline u32 set_of(const struct key *k)
{
	return k->bytes * MIX >> (64 - SET_BITS);
}

/* Notes what form f tells about its opcode. */
static void learn(const u8 *bytes, const struct decode_form *f)
{
	struct key k = key_of(bytes, true);

	if (f->modrm_at)
		*k.opcode |= MODRM;
	else
		*k.opcode &= ~MODRM;
}

static inline bool is_form(const struct decode_form *f, const struct key *k, u32 n)
{
	return f->key == k->bytes && f->key_len == k->len && f->len <= n;
}

/* Decodes a form that is not remembered. */
static JIFL_NOINLINE const struct decode_form *form_anew(const u8 *bytes, u32 n)
{
	const struct decode_form *f = jifl_form_decode(bytes, n < IR_INSN_MAX ? n : IR_INSN_MAX,
						       false);
	struct decode_form *set;
	struct key k;

	if (!f || !f->key_len)
		return f;
	learn(bytes, f);
	k = key_of(bytes, false);
	if (k.len != f->key_len)
		return f;
	set = forms[set_of(&k)];
	set[1] = set[0];
	set[0] = *f;
	set[0].key = k.bytes;
	return &set[0];
}

const struct decode_form *jifl_form_memo_get(const u8 *bytes, u32 n)
{
	struct key k = key_of(bytes, false);
	const struct decode_form *set = forms[set_of(&k)];

	if (is_form(&set[0], &k, n))
		return &set[0];
	if (is_form(&set[1], &k, n))
		return &set[1];
	return form_anew(bytes, n);
}

static bool is_registers(const struct registers *r, const struct key *k)
{
	return r->key == k->bytes && r->key_len == k->len;
}

/* The place where the registers are remembered, or else the place for them. */
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
		if (f->key_len == k.len) {
			r->key_len = f->key_len;
			r->key = k.bytes;
		}
	}
	*read = r->read;
	*written = r->written;
	return true;
}
