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
/* By opcode, those behind 0f, 0f 38 and 0f 3a for themselves. */
static bool has_modrm[4 << 8];

/* 26, 2e, 36, 3e; REX; 64 to 67; f0, f2, f3 */
static const u32 prefixes[8] = { 0, 0x40404040, 0xffff, 0xf0, 0, 0, 0, 0xd0000 };

/* Where the opcode of the instruction at these 8 bytes ends, and its number in has_modrm. */
static u32 opcode_end(u64 bytes, u32 *opcode)
{
	u32 n = 1;

	for (; prefixes[(u8)bytes >> 5] >> (bytes & 31) & 1 && n < KEY_MAX; n++)
		bytes >>= 8;
	*opcode = (u8)bytes;
	if (*opcode != 0x0f)
		return n;
	bytes >>= 8;
	*opcode = 1 << 8 | (u8)bytes;
	if ((bytes & 0xfd) != 0x38)
		return n + 1;
	*opcode = ((u8)bytes == 0x38 ? 2 : 3) << 8 | (u8)(bytes >> 8);
	return n + 2;
}

/* How many bytes make the form, as far as is known. */
static u32 key_len(u64 bytes)
{
	u32 opcode, n = opcode_end(bytes, &opcode);
	u8 modrm;

	if (!has_modrm[opcode] || n >= KEY_MAX)
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
	u32 opcode;

	if (!f->key_len || f->key_len > KEY_MAX)
		return f;
	opcode_end(bytes, &opcode);
	has_modrm[opcode] = f->modrm_at;
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
