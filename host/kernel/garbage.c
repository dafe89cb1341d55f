// SPDX-License-Identifier: GPL-2.0
/*
 * Only in a module built for tests: garbage in what a list calls dead.
 *
 * The parameter `garbage` names a file. It has a word of 64 bits for each place, in the order of
 * addresses: the low half of an instruction's address, and above it the registers and flags that
 * are dead before that instruction, as IR_INSERT_GARBAGE has them. In all copies that are made
 * from then on they are overwritten there. So the machine works as before only if they are dead:
 * tests/vm/test_garbage.py. The parameter `garbage_put` says how many places copies have.
 *
 * It is written when the module is loaded, before sessions start, and stays until it is written
 * again.
 */
#ifdef JIFL_TEST_BUILD
#include <linux/kernel_read_file.h>
#include <linux/limits.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "kernel.h"
#include "plant.h"
#include "search.h"

/* All under the engine lock. */
static u64 *jifl_garbage_rows;
static u32 jifl_garbage_nrows;
static jifl_instrument_fn jifl_garbage_next;

static unsigned int garbage_put;
module_param(garbage_put, uint, 0444);
MODULE_PARM_DESC(garbage_put, "places of the parameter garbage in copies that were made");

/* The first row from this address on. */
static u32 jifl_garbage_first(u32 address)
{
	return jifl_first(i, jifl_garbage_nrows, (u32)jifl_garbage_rows[i] < address);
}

/* As jifl_instrument_fn. */
static void jifl_garbage_instrument(struct ir_block *b, void *unused)
{
	u32 row = jifl_garbage_first(b->addr.v);
	struct ir_insert *ins;
	u16 at;

	for (at = 0; at < b->ninsns; at++) {
		const u32 address = b->insns[at].addr.v;

		while (row < jifl_garbage_nrows && (u32)jifl_garbage_rows[row] < address)
			row++;
		if (row == jifl_garbage_nrows)
			break;
		if ((u32)jifl_garbage_rows[row] != address)
			continue;
		ins = ir_block_insert(b, IR_BEFORE, at);
		if (!ins)
			break;
		ins->kind = IR_INSERT_GARBAGE;
		ins->imm = jifl_garbage_rows[row] >> 32;
		garbage_put++;
	}
	if (jifl_garbage_next)
		jifl_garbage_next(b, unused);
}

void jifl_garbage_everywhere(jifl_instrument_fn fn)
{
	const unsigned long cookie = jifl_host_lock();
	const bool has_rows = jifl_garbage_nrows;

	jifl_garbage_next = fn;
	jifl_host_unlock(cookie);
	jifl_engine_everywhere(has_rows ? jifl_garbage_instrument : fn);
}

static int jifl_garbage_set(const char *value, const struct kernel_param *unused)
{
	char path[NAME_MAX];
	unsigned long cookie;
	void *data = NULL;
	ssize_t size;
	u64 *old;

	if (strscpy(path, value, sizeof(path)) < 0)
		return -ENAMETOOLONG;
	/* 6.12's IPE warns of a file that is read for an unknown purpose. */
	size = kernel_read_file_from_path(strim(path), 0, &data, INT_MAX, NULL, READING_FIRMWARE);
	if (size < 0)
		return size;
	cookie = jifl_host_lock();
	old = jifl_garbage_rows;
	jifl_garbage_rows = data;
	jifl_garbage_nrows = size / sizeof(u64);
	garbage_put = 0;
	jifl_host_unlock(cookie);
	vfree(old);
	jifl_garbage_everywhere(jifl_garbage_next);
	return 0;
}

/* The module goes. */
static void jifl_garbage_free(void *unused)
{
	vfree(jifl_garbage_rows);
}

static const struct kernel_param_ops jifl_garbage_ops = {
	.set = jifl_garbage_set,
	.free = jifl_garbage_free,
};

module_param_cb(garbage, &jifl_garbage_ops, NULL, 0200);
MODULE_PARM_DESC(garbage, "a file: what is dead at places, and is overwritten there");
#endif
