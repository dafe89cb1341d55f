// SPDX-License-Identifier: GPL-2.0
/*
 * Round trip of whole kernels: the engine decodes and emits every instruction of their text. The
 * result is decoded again, and compared. Prints figures, and each difference.
 *
 * usage: roundtrip [-f FORMS] KERNEL [MODULE ...]; a MODULE of - reads names from standard input.
 * -f writes the forms met, for the fuzzer.
 *
 * The text is walked straight on from the start of each section. The unwinder's table (ORC) shows
 * that the walk meets the starts of instructions: all places in this table are starts of
 * instructions, either of these or of those that replace them when the kernel is loaded.
 */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../engine/cache/cache.h"
#include "check.h"
#include "forms.h"
#include "live.h"

static const char *const cause_names[] = {
#define NAME(id, name) name,
	JIFL_CAUSES(NAME)
};

static struct {
	u64 images, bytes, insns, padding, undecoded;
	u64 native[JIFL_NR_CAUSES];
	u64 orc, orc_missed;
} total;

static ZydisDecoder decoder;

/* A bit for each byte of the section that is walked: an instruction starts there. */
static u8 *starts;

static void flush(void)
{
	check_blocks();
	jifl_engine_reset();
}

/* The cause in a native block: its counter's displacement. */
static enum jifl_cause cause_of(const struct cache_block *b)
{
	u32 disp;

	memcpy(&disp, host_code(b->start + 6), 4);
	return (disp - HOST_COUNTERS) / 8;
}

/* The block at addr, CACHE_NONE with the cause where there can be none. */
static u32 block_at(u64 addr, enum jifl_cause *cause)
{
	if (!jifl_engine_enter(0, jifl_orig_at(addr), cause) && *cause == JIFL_CAUSE_MEMORY) {
		flush();
		jifl_engine_enter(0, jifl_orig_at(addr), cause);
	}
	return jifl_cache_find(0, jifl_orig_at(addr));
}

/* Counts the instructions in [addr, end), which one block holds. */
static void note_insns(u64 addr, u64 end, const struct image_section *s)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;

	while (addr < end) {
		const u8 *bytes = s->bytes + (addr - s->addr);

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, end - addr, &insn, ops)))
			return;
		starts[(addr - s->addr) / 8] |= 1 << (addr - s->addr) % 8;
		total.insns++;
		form_add(&insn, ops, bytes);
		addr += insn.length;
	}
}

static u32 length_at(const u8 *bytes, u64 left)
{
	ZydisDecodedInstruction insn;

	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, left, &insn)) ?
	       insn.length : 0;
}

static u64 step(u64 addr, const struct image_section *s)
{
	const u8 *bytes = s->bytes + (addr - s->addr);
	u32 len = length_at(bytes, s->addr + s->size - addr), block;
	enum jifl_cause cause = JIFL_CAUSE_NONE;

	if (*bytes == 0xcc) {
		total.padding++;
		return addr + 1;
	}
	if (!len) {
		if (total.undecoded++ < 20)
			printf("  not decoded at %#llx\n", addr);
		return addr + 1;
	}
	block = block_at(addr, &cause);
	if (block == CACHE_NONE) {
		total.native[cause]++;
	} else if (cache.blocks[block].flags & CACHE_BLOCK_NATIVE) {
		total.native[cause_of(&cache.blocks[block])]++;
	} else {
		note_insns(addr, addr + cache.blocks[block].src_len, s);
		live_add(addr);
		return addr + cache.blocks[block].src_len;
	}
	note_insns(addr, addr + len, s);
	return addr + len;
}

static bool is_start(u64 addr, const struct image_section *s)
{
	return s->bytes[addr - s->addr] == 0xcc ||
	       starts[(addr - s->addr) / 8] & 1 << (addr - s->addr) % 8;
}

/* The next place of the unwinder's table in the section, from *i on; 0: no more. */
static u64 next_orc(const struct image *image, const struct image_section *s, u32 *i)
{
	u64 at;

	for (; *i < image->norc; ++*i) {
		at = image->orc_addr + *i * 4ull + (s64)image->orc[*i];
		if (at - s->addr < s->size &&
		    (at < image->thunks_start || at >= image->thunks_end))
			return at;
	}
	return 0;
}

static void compare_with_orc(const struct image *image, const struct image_section *s)
{
	u32 i = 0;
	u64 at;

	while ((at = next_orc(image, s, &i))) {
		total.orc++;
		if (!is_start(at, s) && !image_is_patched(image, at) && total.orc_missed++ < 20)
			printf("  the walk went across %#llx\n", at);
		i++;
	}
}

static void walk(const struct image *image, const struct image_section *s)
{
	u64 addr = s->addr;

	starts = calloc(s->size / 8 + 1, 1);
	while (addr < s->addr + s->size) {
		if (addr >= image->thunks_start && addr < image->thunks_end)
			addr = image->thunks_end;
		else
			addr = step(addr, s);
	}
	compare_with_orc(image, s);
	total.bytes += s->size;
	free(starts);
}

static void walk_image(const struct image *image, const struct image *kernel)
{
	u32 i;

	host_begin(kernel, image == kernel ? NULL : image);
	for (i = 0; i < image->nsections; i++)
		if (image->sections[i].text && image->sections[i].bytes)
			walk(image, &image->sections[i]);
	check_blocks();
	total.images++;
}

static void walk_module(const char *path, const struct image *kernel)
{
	struct image module;

	image_open(&module, path, kernel);
	walk_image(&module, kernel);
	image_close(&module);
}

static void walk_modules_from(FILE *f, const struct image *kernel)
{
	char path[4096];

	while (fgets(path, sizeof(path), f)) {
		path[strcspn(path, "\n")] = 0;
		walk_module(path, kernel);
	}
}

static int report(void)
{
	const struct check_stats *c = &check_stats;
	bool good = !c->differences && !total.orc_missed && c->copied && c->linked;
	u32 i;

	printf("%llu images, %llu bytes of text: %llu instructions of %u forms; "
	       "%llu bytes int3, %llu not decoded\n", total.images, total.bytes, total.insns,
	       form_total(), total.padding, total.undecoded);
	printf("compared: %llu copies (%llu rip-relative), %llu left out (%llu blocks are a "
	       "nop), %llu direct branches (%llu linked), %llu loops, %llu thunks, %llu indirect, "
	       "%llu returns\n", c->copied, c->relocated, c->left_out, c->places, c->direct,
	       c->linked, c->loops, c->thunks, c->indirect, c->returns);
	printf("left to native:");
	for (i = 0; i < JIFL_NR_CAUSES; i++)
		if (total.native[i])
			printf(" %s %llu", cause_names[i], total.native[i]);
	printf("\n%llu places of the unwinder's table, %llu missed; %llu differences\n", total.orc,
	       total.orc_missed, c->differences);
	live_report();
	return !good;
}

int main(int argc, char **argv)
{
	const char *forms = NULL;
	struct image kernel;

	if (argc > 2 && !strcmp(argv[1], "-f")) {
		forms = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: roundtrip [-f FORMS] KERNEL [MODULE ... | -]\n");
		return 2;
	}
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	check_init();
	image_open(&kernel, argv[1], NULL);
	walk_image(&kernel, &kernel);
	for (argv += 2; *argv; argv++) {
		if (!strcmp(*argv, "-"))
			walk_modules_from(stdin, &kernel);
		else
			walk_module(*argv, &kernel);
	}
	if (forms)
		form_write(forms);
	return report();
}
