// SPDX-License-Identifier: GPL-2.0
/* Remembered forms say the same as decoding anew. */
#include "../../../engine/decode/form.h"
#include "../../../engine/decode/decode.h"
#include "../unit.h"

#define ROUNDS 300000

static u64 random_state = 1;

static u64 random_bits(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 16;
}

static void compare_registers(const u8 *bytes, u32 n)
{
	u16 read = 0, written = 0;
	bool found = jifl_form_registers(bytes, n, &read, &written);
	const struct decode_form *want = jifl_form_decode(bytes, n, true);

	CHECK(found == !!want, "%s", unit_hex(bytes, n));
	if (found && want)
		CHECK(read == want->regs_read && written == want->regs_written, "%s",
		      unit_hex(bytes, 15));
}

static void compare_forms(const u8 *bytes, u32 n)
{
	struct decode_form got = { 0 }, want = { 0 };
	const struct decode_form *f = jifl_form_memo_get(bytes, n);
	bool found = f;

	if (f)
		got = *f;
	f = jifl_form_decode(bytes, n, false);
	CHECK(found == !!f, "%s", unit_hex(bytes, n));
	if (!found || !f)
		return;
	want = *f;
	got.key = want.key = 0;
	CHECK(!memcmp(&got, &want, sizeof(got)), "%s", unit_hex(bytes, 15));
}

/* Code that compilers make, with other displacements, immediates and ends than it has. */
UNIT_TEST(remembered, "decode/memo: remembered forms are what decoding gives")
{
	const u8 *text = (const u8 *)jifl_decode_block;
	u8 bytes[16];
	u32 i;

	CHECK_EQ(jifl_form_init(), 0);
	for (i = 0; i < ROUNDS / (UNIT_SANITIZED ? 10 : 1); i++) {
		memcpy(bytes, text + random_bits() % 4096, sizeof(bytes));
		if (random_bits() % 2)
			bytes[random_bits() % 15] = (u8)random_bits();
		if (random_bits() % 2)
			compare_forms(bytes, random_bits() % 4 ? 15 : 1 + random_bits() % 15);
		else
			compare_registers(bytes, 15);
	}
}

/* Random bytes for prefix, opcode, ModRM and SIB: all opcodes, which compilers do not make. */
UNIT_TEST(all_opcodes, "decode/memo: remembered forms of any opcode are what decoding gives")
{
	static const u8 prefix[] = { 0x66, 0xf2, 0xf3, 0xf0, 0x65, 0x67 };
	u8 bytes[16] = { 0 };
	u32 i, k, n;

	CHECK_EQ(jifl_form_init(), 0);
	for (i = 0; i < 10 * ROUNDS / (UNIT_SANITIZED ? 30 : 1); i++) {
		n = 0;
		if (random_bits() % 4 == 0)
			bytes[n++] = prefix[random_bits() % sizeof(prefix)];
		if (random_bits() % 2)
			bytes[n++] = 0x40 | (random_bits() & 15);
		if (random_bits() % 2)
			bytes[n++] = 0x0f;
		if (n && bytes[n - 1] == 0x0f && random_bits() % 8 == 0)
			bytes[n++] = random_bits() % 2 ? 0x38 : 0x3a;
		for (k = 0; k < 4; k++)
			bytes[n++] = (u8)random_bits();
		compare_forms(bytes, 15);
		if (i % 4 == 0)
			compare_registers(bytes, 15);
	}
}

UNIT_TEST(mnemonic_behind,
	  "decode/memo: an opcode behind the displacement is no part of another's form")
{
	/* pfadd and pfmul 16(%rax), %mm1 */
	static const u8 pfadd[16] = "\x0f\x0f\x48\x10\x9e", pfmul[16] = "\x0f\x0f\x48\x10\xb4";

	CHECK_EQ(jifl_form_init(), 0);
	compare_forms(pfadd, 5);
	compare_forms(pfmul, 5);
	CHECK_EQ(jifl_form_memo_get(pfmul, 5)->key_len, 0);
}
