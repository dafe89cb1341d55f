// SPDX-License-Identifier: GPL-2.0
/* Forms that are remembered say what decoding anew would. */
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

static void same_form(const struct decode_form *got, const struct decode_form *want, const u8 *bytes)
{
	struct decode_form a = *got, b = *want;

	a.key = b.key = 0;
	if (!b.has_registers) {
		a.has_registers = false;
		a.regs_read = a.regs_written = 0;
	}
	CHECK(!memcmp(&a, &b, sizeof(a)), "%s", unit_hex(bytes, 15));
}

static void compare(const u8 *bytes, u32 n, bool with_registers)
{
	struct decode_form got = { 0 };
	const struct decode_form *f = jifl_form_of(bytes, n, with_registers), *want;
	bool found = f;

	if (f)
		got = *f;
	want = jifl_form_decode(bytes, n, with_registers);
	CHECK(found == !!want, "%s", unit_hex(bytes, n));
	if (found && want)
		same_form(&got, want, bytes);
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
		compare(bytes, random_bits() % 4 ? 15 : 1 + random_bits() % 15, random_bits() % 2);
	}
}

UNIT_TEST(mnemonic_behind, "decode/memo: an opcode behind the displacement is no part of another's form")
{
	/* pfadd and pfmul 16(%rax), %mm1 */
	static const u8 pfadd[16] = "\x0f\x0f\x48\x10\x9e", pfmul[16] = "\x0f\x0f\x48\x10\xb4";

	CHECK_EQ(jifl_form_init(), 0);
	compare(pfadd, 5, true);
	compare(pfmul, 5, true);
	CHECK_EQ(jifl_form_of(pfmul, 5, false)->key_len, 0);
}
