// SPDX-License-Identifier: GPL-2.0
/*
 * Forms that were decoded before; see form.h.
 *
 * A direct-mapped table by a hash of the bytes that make a form. How many these
 * are is only known once it is decoded, so the first two bytes lead to a guess:
 * the most that was seen behind such. A wrong guess misses, and is decoded.
 * Two thirds of the instructions of a random walk through vmlinux are found.
 */
#include "form.h"

#define FORM_BITS	11
#define GUESS_BITS	10
#define KEY_MAX		8	/* longer ones are rare, and are not remembered */
#define MIX		0x9e3779b97f4a7c15ull	/* 2^64 over the golden ratio: Knuth, vol. 3, 6.4 */

static struct decode_form forms[1 << FORM_BITS];
static u8 guesses[1 << GUESS_BITS];

static u64 first(u64 bytes, u32 n)
{
	return bytes & (~0ull >> (64 - 8 * n));
}

static struct decode_form *slot(u64 bytes, u32 n)
{
	return &forms[first(bytes, n) * MIX >> (64 - FORM_BITS)];
}

static u8 *guess(u64 bytes)
{
	return &guesses[first(bytes, 2) * MIX >> (64 - GUESS_BITS)];
}

static struct decode_form *recall(u64 bytes, u32 n, u8 len)
{
	struct decode_form *f = slot(bytes, len ? len : 1);

	return f->key_len && f->len <= n && first(bytes, f->key_len) == f->key ? f : NULL;
}

static const struct decode_form *remember(u64 bytes, const struct decode_form *f, u8 *len)
{
	struct decode_form *to;

	if (!f->key_len || f->key_len > KEY_MAX)
		return f;
	if (*len < f->key_len)
		*len = f->key_len;
	to = slot(bytes, *len);
	*to = *f;
	to->key = first(bytes, f->key_len);
	return to;
}

const struct decode_form *jifl_form_of(const u8 *bytes, u32 n, bool with_registers)
{
	const struct decode_form *f;
	u64 head;
	u8 *len;

	memcpy(&head, bytes, sizeof(head));
	len = guess(head);
	f = recall(head, n, *len);
	if (f && (f->has_registers || !with_registers))
		return f;
	f = jifl_form_decode(bytes, n, with_registers);
	return f ? remember(head, f, len) : NULL;
}
