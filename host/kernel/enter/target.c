// SPDX-License-Identifier: GPL-2.0
/*
 * Makes and frees targets. The first session that names a target makes it; the last one frees it.
 * While a target is armed its sessions hold references, so code that enters it needs none.
 *
 * In: kind and id of a target. Out: its only struct jifl_target.
 * Context: process, sleeps; jifl_target_redirect under jifl_entry_lock.
 */
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <asm/ibt.h>

#include "../kernel.h"
#include "../plant.h"
#include "function.h"
#include "target.h"

static const struct jifl_target_type * const jifl_target_types[] = {
	[JIFL_TARGET_SYSCALL] = &jifl_target_syscalls,
	[JIFL_TARGET_FUNCTION] = &jifl_target_functions,
	[JIFL_TARGET_NOTRACE] = &jifl_target_notrace,
	[JIFL_TARGET_INSIDE] = &jifl_target_inside,
};

static DEFINE_MUTEX(jifl_target_mutex);	/* guards what kinds keep */

bool jifl_target_is_kind(u32 kind)
{
	return kind == JIFL_TARGET_SYSCALL || kind == JIFL_TARGET_FUNCTION;
}

u64 jifl_target_address(u32 kind, u64 id)
{
	return jifl_target_types[kind]->address(id);
}

struct jifl_target *jifl_target_starting(unsigned long begin)
{
	return jifl_function_starting(begin) ?: jifl_notrace_starting(begin);
}

struct jifl_target *jifl_target_with_site(unsigned long site)
{
	struct jifl_target *t;

	if (!ENDBR_INSN_SIZE)
		return NULL;
	t = jifl_target_starting(site - ENDBR_INSN_SIZE);
	return t && t->address == site + CALL_INSN_SIZE ? t : NULL;
}

/* Under jifl_target_mutex. */
static struct jifl_target *jifl_target_make(u32 kind, u64 id, u64 address)
{
	struct jifl_target *t = JIFL_ALLOC(kzalloc(sizeof(*t), GFP_KERNEL));
	int err;

	if (!t)
		return ERR_PTR(-ENOMEM);
	refcount_set(&t->refs, 1);
	t->kind = kind;
	t->id = id;
	t->address = address;
	err = jifl_target_types[kind]->add(t);
	if (!err)
		return t;
	kfree(t);
	return ERR_PTR(err);
}

struct jifl_target *jifl_target_get(u32 kind, u64 id)
{
	const struct jifl_target_type *k = jifl_target_types[kind];
	const u64 address = jifl_target_address(kind, id);
	struct jifl_target *t;

	if (!address)
		return NULL;
	mutex_lock(&jifl_target_mutex);
	t = k->find(id, address);
	if (t)
		refcount_inc(&t->refs);
	else
		t = jifl_target_make(kind, id, address);
	mutex_unlock(&jifl_target_mutex);
	return t;
}

void jifl_target_put(struct jifl_target *t)
{
	if (!refcount_dec_and_mutex_lock(&t->refs, &jifl_target_mutex))
		return;
	jifl_target_types[t->kind]->drop(t);
	mutex_unlock(&jifl_target_mutex);
}

void jifl_target_redirect(const struct jifl_target *t, u64 to)
{
	jifl_target_types[t->kind]->redirect(t, to);
}
