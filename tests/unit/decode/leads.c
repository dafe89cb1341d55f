// SPDX-License-Identifier: GPL-2.0
/* Whether code leads back to an instruction: bytes in, yes or no out. */
#include "../../../engine/decode/decode.h"
#include "../unit.h"

/* Instructions under test stand in front, int3 behind them. */
static u8 text[1024];

#define BYTES(s) (s), sizeof(s) - 1

static const struct {
	const char *asm_text;
	const char *bytes;
	u8 n;
	u8 from, to;		/* offsets */
	bool leads;
} cases[] = {
	{ "itself", BYTES("\x90"), 0, 0, true },
	{ "1: nop; nop; jne 1b", BYTES("\x90\x90\x75\xfc"), 0, 1, true },
	{ "behind a branch that is not taken: jne 2f; 1: nop; 2: nop", BYTES("\x75\x01\x90\x90"), 0,
	  2, true },
	{ "and taken", BYTES("\x75\x01\x90\x90"), 0, 3, true },
	{ "1: nop; jmp 1b; nop", BYTES("\x90\xeb\xfd\x90"), 0, 3, false },
	{ "nop; ret; nop", BYTES("\x90\xc3\x90"), 0, 2, false },
	{ "over a call: call 1f; 1: nop", BYTES("\xe8\0\0\0\0\x90"), 0, 5, true },
	{ "over an indirect one: call *%rax; nop", BYTES("\xff\xd0\x90"), 0, 2, true },
	{ "not over an indirect jump: jmp *%rax; nop", BYTES("\xff\xe0\x90"), 0, 2, false },
	{ "not over an int3", BYTES("\x90\xcc\x90"), 0, 2, false },
	/* lockref_get() of Linux 6.1: fails at 27, goes on at 2e, begins anew at f; cmpxchg: 22. */
	{ "a loop that gives up",
	  BYTES("\x48\x8b\x07\x85\xc0\x75\x33\x48\x89\xc2\xbe\x64\0\0\0\x48\x89\xd1\x89\xd2\x48\xc1\xf9\x20"
		"\x83\xc1\x01\x48\xc1\xe1\x20\x48\x09\xca\xf0\x48\x0f\xb1\x17\x75\x05\xe9\0\x01\0\0"
		"\x48\x89\xc2\x83\xee\x01\x74\x04\x85\xc0\x74\xd5\xc3"), 0x2e, 0x22, true },
	/* What gcc 14 makes of two turns of a loop: fails at 14, goes on at 16; cmpxchg: 8. */
	{ "behind another loop",
	  BYTES("\x8d\x4a\xff\x83\xef\x01\x89\xc8\xf0\x0f\xb1\x15\0\0\0\0\x89\xc2\x39\xc1\x74\x19"
		"\x85\xff\x75\xe6\x8d\x72\x01\x89\xd1\x89\xd0\xf0\x0f\xb1\x35\0\0\0\0"
		"\x89\xc2\x39\xc8\x75\xeb\xc3"), 0x16, 8, true },
	{ "and has given up",
	  BYTES("\xf0\x48\x0f\xb1\x17\x75\x01\xc3\x48\x83\xec\x08\xc3"), 8, 0, false },
};

static jifl_orig at(u32 offset)
{
	return jifl_orig_at((u64)(unsigned long)text + offset);
}

static void begin(void)
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
}

UNIT_TEST(leads, "decode/leads: where code leads to")
{
	u32 i;

	begin();
	for (i = 0; i < JIFL_ARRAY_LEN(cases); i++) {
		memset(text, 0xcc, sizeof(text));
		memcpy(text, cases[i].bytes, cases[i].n);
		CHECK(jifl_decode_reaches(at(cases[i].from), at(cases[i].to)) == cases[i].leads,
		      "%s", cases[i].asm_text);
	}
}

/* What is too far is not looked for: no branch keeps the translator busy. */
UNIT_TEST(far, "decode/leads: what is far is not looked for")
{
	u32 i;

	begin();
	memset(text, 0x90, sizeof(text));
	CHECK(jifl_decode_reaches(at(0), at(60)), "near");
	CHECK(!jifl_decode_reaches(at(0), at(500)), "far");
	/* 1: je 1b; je 1b; ...: ways without end */
	for (i = 0; i < sizeof(text); i += 2) {
		text[i] = 0x74;
		text[i + 1] = 0xfe;
	}
	CHECK(!jifl_decode_reaches(at(0), at(800)), "nothing but branches");
}
