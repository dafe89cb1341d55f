// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A second decoder, Zydis, for ../decoders.rs: the direct branches in runs of code.
 *
 * usage: branches RUNS BRANCHES
 *
 * RUNS: of each run its address, its length, and its bytes, without padding. BRANCHES gets for each
 * direct branch its address, its target and its kind, and for each run its last decoded byte's
 * end, how many instructions were decoded, and RUN. All numbers have 64 bits. A run is decoded to
 * its end, or to what is no instruction.
 */
#include <stdio.h>
#include <stdlib.h>

#include <Zydis/Zydis.h>

enum kind { CALL = 1, JUMP = 2, BRANCH = 3, RUN = 4 };

static FILE *in, *out;

static void put(ZyanU64 first, ZyanU64 second, ZyanU64 kind)
{
	const ZyanU64 words[] = { first, second, kind };

	fwrite(words, sizeof(words), 1, out);
}

/* The kind of a direct branch; 0: it is none. */
static enum kind kind_of(const ZydisDecodedInstruction *insn)
{
	if (!insn->raw.imm[0].is_relative)
		return 0;
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return CALL;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return JUMP;
	case ZYDIS_CATEGORY_COND_BR:
		return BRANCH;
	default:
		return 0;
	}
}

static void decode_run(const ZydisDecoder *decoder, ZyanU64 address, const ZyanU8 *bytes, ZyanU64 length)
{
	ZydisDecodedInstruction insn;
	ZyanU64 at = 0, number = 0;

	while (at < length && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, bytes + at, length - at, &insn))) {
		enum kind kind = kind_of(&insn);

		if (kind)
			put(address + at, address + at + insn.length + insn.raw.imm[0].value.s, kind);
		at += insn.length;
		number++;
	}
	put(address + at, number, RUN);
}

int main(int argc, char **argv)
{
	ZydisDecoder decoder;
	ZyanU64 head[2];
	ZyanU8 *bytes;

	if (argc != 3)
		return 2;
	in = fopen(argv[1], "rb");
	out = fopen(argv[2], "wb");
	if (!in || !out)
		return 2;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (fread(head, sizeof(head), 1, in) == 1) {
		bytes = malloc(head[1] + 1);
		if (!bytes || fread(bytes, 1, head[1], in) != head[1])
			return 2;
		decode_run(&decoder, head[0], bytes, head[1]);
		free(bytes);
	}
	return fclose(out) ? 2 : 0;
}
