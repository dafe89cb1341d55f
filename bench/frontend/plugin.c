// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A plugin of QEMU's that counts front-end events (model.h) of one CPU between marks (marks.h).
 *
 * arguments: out=DIRECTORY	the n-th MARK_WRITE writes DIRECTORY/n, beginning with 0: for each
 *				round a line of the events in the order of enum event
 *
 * The model sees all that executes from the first MARK_BEGIN to MARK_STOP: user space and kernel,
 * inside the marks and outside of them. Only events inside the marks are counted, and only those
 * of kernel addresses unless the mark says otherwise. The first and the last event of a round
 * depend on nothing but what executes, so the same machine with -icount gives the same counts.
 *
 * What calls the model: the first instruction of a block that QEMU has translated, each instruction
 * that begins or crosses into another line, and each control transfer. Other instructions are in
 * the line that was accessed last. Interrupts and exceptions begin a block.
 *
 * Control transfers: near calls push; near returns pop, and go to what they have loaded. IRET,
 * SYSRET, SYSCALL and far transfers do neither, and are no taken branches. A conditional branch is
 * taken if the next block begins at its target; one that is interrupted before is not counted.
 *
 * Instructions of a block that an exception or an interrupt ends early are counted up to the next
 * place where the model is called.
 *
 * Page sizes are read from the page tables, at a page's first execution since the model began. The
 * kernel's direct map must be where it is without KASLR. User space counts as 4 KiB pages.
 *
 * One CPU only: there is no lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "model.h"
#include "plugin_api.h"

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_VERSION;

enum kind { STRAIGHT, JUMP, BRANCH, CALL, RETURN };

/* What an instruction does to the model. Sites live as long as QEMU's blocks may: for ever. */
struct site {
	uint64_t addr, end, target;
	enum kind kind;
	uint32_t mark;
	uint32_t insns;		/* it, and those behind it that are no sites */
};

static const char *directory;
static unsigned int written;
static qemu_plugin_u64 running;
static struct qemu_plugin_register *cr3, *cr4;
static GByteArray *bytes;

static bool is_running, counting, everything;
static uint64_t counts[EVENTS];
static uint64_t (*rounds)[EVENTS];
static size_t round_count, round_room;

/* The conditional branch that executed last, until the next callback says where it went. */
static const struct site *pending;

static bool is_kernel(uint64_t addr)
{
	return addr >> 63;
}

static void add(enum event event, uint64_t addr, uint64_t n)
{
	if (counting && (everything || is_kernel(addr)))
		counts[event] += n;
}

static void count(enum event event, uint64_t addr)
{
	add(event, addr, 1);
}

/* --- sizes of pages ---------------------------------------------------------------------- */

enum { KNOWN = 1 << 16 };

/*
 * Found by a hash of the page's number. A page whose place is taken by another is looked up each
 * time.
 */
static struct {
	uint64_t page;
	unsigned int shift;
} known[KNOWN];

static uint64_t read_register(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (handle && qemu_plugin_read_register(handle, bytes) > 0)
		memcpy(&value, bytes->data, bytes->len < 8 ? bytes->len : 8);
	return value;
}

static bool read_entry(uint64_t direct_map, uint64_t table, uint64_t index, uint64_t *entry)
{
	g_byte_array_set_size(bytes, 0);
	if (!qemu_plugin_read_memory_vaddr(direct_map + table + 8 * index, bytes, 8) ||
	    bytes->len != 8)
		return false;
	memcpy(entry, bytes->data, 8);
	return *entry & 1;
}

/* 0: not found. */
static unsigned int walk(uint64_t addr)
{
	const uint64_t physical = 0xffffffffff000, large = 1 << 7, la57 = 1 << 12;
	bool five = read_register(cr4) & la57;
	uint64_t direct_map = five ? 0xff11000000000000 : 0xffff888000000000;
	uint64_t entry = read_register(cr3);
	unsigned int shift;

	for (shift = five ? 48 : 39; shift >= PAGE_SHIFT; shift -= 9) {
		if (!read_entry(direct_map, entry & physical, addr >> shift & 511, &entry))
			return 0;
		if (shift == PAGE_SHIFT || (shift <= HUGE_SHIFT && entry & large))
			return shift;
	}
	return 0;
}

static unsigned int page_shift(uint64_t addr)
{
	uint64_t page = addr >> PAGE_SHIFT;
	uint64_t at = page * 0x9e3779b97f4a7c15 >> 48;

	if (!is_kernel(addr))
		return PAGE_SHIFT;
	if (known[at].page != page) {
		known[at].page = page;
		known[at].shift = walk(addr);
	}
	if (!known[at].shift)
		count(EVENT_UNSIZED, addr);
	return known[at].shift ? known[at].shift : PAGE_SHIFT;
}

/* --- what executes ----------------------------------------------------------------------- */

static void access_line(uint64_t addr)
{
	if (model_page(addr, page_shift(addr)))
		count(EVENT_ITLB, addr);
	if (model_line(addr))
		count(EVENT_ICACHE, addr);
}

static void on_execute(unsigned int vcpu, void *data)
{
	const struct site *s = data;

	if (pending) {
		if (s->addr == pending->target && pending->target != pending->end)
			count(EVENT_BRANCHES, pending->addr);
		pending = NULL;
	}
	add(EVENT_INSTRUCTIONS, s->addr, s->insns);
	access_line(s->addr);
	if ((s->end - 1) >> LINE_SHIFT != s->addr >> LINE_SHIFT)
		access_line(s->end - 1);
	switch (s->kind) {
	case CALL:
		model_call(s->end);
		/* fall through */
	case JUMP:
	case RETURN:
		count(EVENT_BRANCHES, s->addr);
		break;
	case BRANCH:
		pending = s;
		break;
	case STRAIGHT:
		break;
	}
}

/* A return has loaded where it goes. */
static void on_return(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t addr, void *data)
{
	const struct site *s = data;
	bool wrong_16, wrong_32;

	if (!is_running)
		return;
	model_return(qemu_plugin_mem_get_value(info).data.u64, &wrong_16, &wrong_32);
	if (wrong_16)
		count(EVENT_RETURNS_16, s->addr);
	if (wrong_32)
		count(EVENT_RETURNS_32, s->addr);
}

/* --- marks ------------------------------------------------------------------------------- */

static void keep_round(void)
{
	if (round_count == round_room) {
		round_room = round_room ? 2 * round_room : 1024;
		rounds = realloc(rounds, round_room * sizeof(*rounds));
		if (!rounds)
			abort();
	}
	memcpy(rounds[round_count++], counts, sizeof(counts));
	memset(counts, 0, sizeof(counts));
}

static void write_rounds(void)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u", directory, written++);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		return;
	}
	for (size_t i = 0; i < round_count; i++)
		for (int event = 0; event < EVENTS; event++)
			fprintf(file, "%" PRIu64 "%c", rounds[i][event],
				event + 1 < EVENTS ? ' ' : '\n');
	if (fclose(file))
		perror(path);
	round_count = 0;
}

static void on_mark(unsigned int vcpu, void *data)
{
	const struct site *s = data;

	switch (s->mark) {
	case MARK_BEGIN:
	case MARK_BEGIN_ALL:
		qemu_plugin_u64_set(running, vcpu, 1);
		is_running = true;
		everything = s->mark == MARK_BEGIN_ALL;
		memset(counts, 0, sizeof(counts));
		counting = true;
		break;
	case MARK_END:
		counting = false;
		keep_round();
		break;
	case MARK_WRITE:
		write_rounds();
		break;
	case MARK_STOP:
		qemu_plugin_u64_set(running, vcpu, 0);
		is_running = false;
		counting = false;
		pending = NULL;
		model_reset();
		memset(known, 0, sizeof(known));
		break;
	}
}

/* --- translation ------------------------------------------------------------------------- */

static int64_t relative(const uint8_t *at, unsigned int size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)*at;
	memcpy(&wide, at, 4);
	return wide;
}

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: case 0x66: case 0x67:
	case 0xf0: case 0xf2: case 0xf3:
		return true;
	}
	return (byte & 0xf0) == 0x40;
}

/* Of 64-bit code. */
static void classify(struct site *s, const uint8_t *code, size_t size)
{
	const uint8_t *p = code, *end = code + size;

	while (p < end && is_prefix(*p))
		p++;
	if (p == end)
		return;
	if ((*p >= 0x70 && *p <= 0x7f) || (*p >= 0xe0 && *p <= 0xe3)) {
		s->kind = BRANCH;
		s->target = s->end + relative(end - 1, 1);
	} else if (*p == 0x0f && p + 1 < end && (p[1] & 0xf0) == 0x80) {
		s->kind = BRANCH;
		s->target = s->end + relative(end - 4, 4);
	} else if (*p == 0xe8) {
		s->kind = CALL;
	} else if (*p == 0xe9 || *p == 0xeb) {
		s->kind = JUMP;
	} else if (*p == 0xc3 || *p == 0xc2) {
		s->kind = RETURN;
	} else if (*p == 0xff && p + 1 < end && (p[1] >> 3 & 7) == 2) {
		s->kind = CALL;
	} else if (*p == 0xff && p + 1 < end && (p[1] >> 3 & 7) == 4) {
		s->kind = JUMP;
	}
}

static uint32_t mark_of(const uint8_t *code, size_t size)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0x00 };
	uint32_t mark;

	if (size != 8 || memcmp(code, nop, sizeof(nop)))
		return 0;
	memcpy(&mark, code + 4, 4);
	return mark >= MARK_BEGIN && mark <= MARK_STOP ? mark : 0;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct site *kept = NULL;
	uint64_t line = 0;

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		size_t size = qemu_plugin_insn_size(insn);
		uint8_t code[16] = { 0 };
		struct site s = { .addr = qemu_plugin_insn_vaddr(insn), .insns = 1 };

		s.end = s.addr + size;
		qemu_plugin_insn_data(insn, code, size < sizeof(code) ? size : sizeof(code));
		classify(&s, code, size);
		s.mark = mark_of(code, size);
		if (i && s.kind == STRAIGHT && !s.mark && (s.end - 1) >> LINE_SHIFT == line) {
			kept->insns++;
			continue;
		}
		line = (s.end - 1) >> LINE_SHIFT;
		kept = malloc(sizeof(s));
		if (!kept)
			abort();
		*kept = s;
		qemu_plugin_register_vcpu_insn_exec_cond_cb(insn, on_execute, QEMU_PLUGIN_CB_R_REGS,
							    QEMU_PLUGIN_COND_NE, running, 0, kept);
		if (s.kind == RETURN)
			qemu_plugin_register_vcpu_mem_cb(insn, on_return, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_R, kept);
		if (s.mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark,
							       QEMU_PLUGIN_CB_NO_REGS, kept);
	}
}

static void on_vcpu(qemu_plugin_id_t id, unsigned int vcpu)
{
	GArray *all = qemu_plugin_get_registers();
	qemu_plugin_reg_descriptor *registers = (void *)all->data;

	for (unsigned int i = 0; i < all->len; i++) {
		if (!strcmp(registers[i].name, "cr3"))
			cr3 = registers[i].handle;
		if (!strcmp(registers[i].name, "cr4"))
			cr4 = registers[i].handle;
	}
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
				      char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			directory = strdup(argv[i] + 4);
	if (!directory || argc != 1) {
		fprintf(stderr, "front-end: its argument is out=DIRECTORY\n");
		return -1;
	}
	if (strcmp(info->target_name, "x86_64") ||
	    (info->system_emulation && info->system.max_vcpus != 1)) {
		fprintf(stderr, "front-end: only for x86_64 machines with one CPU\n");
		return -1;
	}
	bytes = g_byte_array_new();
	running = (qemu_plugin_u64){ qemu_plugin_scoreboard_new(sizeof(uint64_t)), 0 };
	model_reset();
	qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
