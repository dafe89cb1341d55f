// SPDX-License-Identifier: GPL-2.0
/*
 * Forms that were decoded before; see form.h.
 *
 * A direct-mapped table by a hash of the bytes that make a form: prefixes, opcode, ModRM
 * and SIB. Which opcodes have a ModRM is learnt from what was decoded. Where these bytes are
 * told wrongly a form is not found and decoded once more, never taken for another: it is
 * compared by the bytes that its own decoding says make it.
 * Of the instructions that a first `ls` makes 6.12's translation decode 87 % are found.
 */
#include "form.h"

#define FORM_BITS	12
#define KEY_MAX		8	/* longer ones are rare, and are not remembered */
#define MIX		0x9e3779b97f4a7c15ull	/* 2^64 over the golden ratio: Knuth, vol. 3, 6.4 */

static struct decode_form forms[1 << FORM_BITS];
/*
 * What is known of a byte: of one before the opcode whether it is a prefix (26, 2e, 36, 3e; REX;
 * 64 to 67; f0, f2, f3) or leads to another map of opcodes, and of opcodes whether a ModRM follows, those
 * behind 0f, 0f 38 and 0f 3a for themselves. Opcodes are learnt.
 */
enum { PREFIX = 1 << 0, ESCAPE = 1 << 1, MODRM = 1 << 2 };
static u8 known[4 << 8] = {
	[0x26] = PREFIX, [0x2e] = PREFIX, [0x36] = PREFIX, [0x3e] = PREFIX,
	[0x40] = PREFIX, [0x41] = PREFIX, [0x42] = PREFIX, [0x43] = PREFIX,
	[0x44] = PREFIX, [0x45] = PREFIX, [0x46] = PREFIX, [0x47] = PREFIX,
	[0x48] = PREFIX, [0x49] = PREFIX, [0x4a] = PREFIX, [0x4b] = PREFIX,
	[0x4c] = PREFIX, [0x4d] = PREFIX, [0x4e] = PREFIX, [0x4f] = PREFIX,
	[0x64] = PREFIX, [0x65] = PREFIX, [0x66] = PREFIX, [0x67] = PREFIX,
	[0xf0] = PREFIX, [0xf2] = PREFIX, [0xf3] = PREFIX,
	[0x0f] = ESCAPE, [1 << 8 | 0x38] = ESCAPE, [1 << 8 | 0x3a] = ESCAPE,
};

/* What is known of the opcode of the instruction at these 8 bytes; *end: where it ends. */
static u8 *opcode_of(u64 bytes, u32 *end)
{
	u8 *k = &known[(u8)bytes];
	u32 n = 1;

	for (; *k & PREFIX && n < KEY_MAX; n++) {
		bytes >>= 8;
		k = &known[(u8)bytes];
	}
	if (*k & ESCAPE) {
		n++;
		k = &known[1 << 8 | (u8)(bytes >> 8)];
		if (*k & ESCAPE) {
			n++;
			k = &known[((u8)(bytes >> 8) == 0x38 ? 2 : 3) << 8 | (u8)(bytes >> 16)];
		}
	}
	*end = n;
	return k;
}

/* How many bytes make the form, as far as is known. */
static u32 key_len(u64 bytes)
{
	u32 n;
	u8 modrm;

	if (!(*opcode_of(bytes, &n) & MODRM) || n >= KEY_MAX)
		return n;
	modrm = (u8)(bytes >> 8 * n);
	return n + 1 + ((modrm & 7) == 4 && modrm < 0xc0);
}

static u64 first(u64 bytes, u32 n)
{
	return bytes & (~0ull >> (64 - 8 * n));
}

static struct decode_form *slot(u64 bytes, u32 n)
{
	return &forms[first(bytes, n < KEY_MAX ? n : KEY_MAX) * MIX >> (64 - FORM_BITS)];
}

static const struct decode_form *recall(u64 bytes, u32 n)
{
	const struct decode_form *f = slot(bytes, key_len(bytes));

	return f->key_len && f->len <= n && first(bytes, f->key_len) == f->key ? f : NULL;
}

static const struct decode_form *remember(u64 bytes, const struct decode_form *f)
{
	struct decode_form *to;
	u32 end;
	u8 *k;

	if (!f->key_len || f->key_len > KEY_MAX)
		return f;
	k = opcode_of(bytes, &end);
	if (f->modrm_at)
		*k |= MODRM;
	else
		*k &= ~MODRM;
	to = slot(bytes, key_len(bytes));
	*to = *f;
	to->key = first(bytes, f->key_len);
	return to;
}

const struct decode_form *jifl_form_of(const u8 *bytes, u32 n, bool with_registers)
{
	const struct decode_form *f;
	u64 head;

	memcpy(&head, bytes, sizeof(head));
	f = recall(head, n);
	if (f && (f->has_registers || !with_registers))
		return f;
	f = jifl_form_decode(bytes, n, with_registers);
	return f ? remember(head, f) : NULL;
}
