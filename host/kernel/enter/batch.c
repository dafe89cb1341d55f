// SPDX-License-Identifier: GPL-2.0
/*
 * Functions whose doors come and go together; see batch.h. The head of function.c says who can be
 * at a door meanwhile.
 */
#include <linux/ftrace.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/direct.h"
#include "batch.h"
#include "door_table.h"
#include "function.h"
#include "target.h"

static unsigned int nbatches;		/* that have doors; jifl_session_mutex */

struct jifl_function_batch *jifl_batch_make(struct jifl_target **targets, u32 n)
{
	struct jifl_function_batch *b;
	u32 i;

	b = JIFL_ALLOC(kvzalloc(struct_size(b, targets, n), GFP_KERNEL));
	if (!b)
		return NULL;
	for (i = 0; i < n; i++)
		if (!targets[i]->batch)
			b->targets[b->n++] = targets[i];
	return b;
}

static void give_doors(const struct jifl_function_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		jifl_doors_give(b->targets[i]->door);
		b->targets[i]->door = NULL;
	}
}

int jifl_batch_take_doors(const struct jifl_function_batch *b)
{
	u32 i;
	int err;

	for (i = 0; i < b->n; i++) {
		struct jifl_target *t = b->targets[i];

		err = jifl_doors_reserve(t->address);
		if (err)
			return err;
		t->door = jifl_doors_take(t->address);
		jifl_target_redirect(t, 0);
	}
	return 0;
}

void jifl_batch_drop(struct jifl_function_batch *b)
{
	give_doors(b);
	kvfree(b);
}

bool jifl_batch_any(void)
{
	return nbatches;
}

int jifl_batch_register(struct jifl_function_batch *b, u32 n)
{
	unsigned long *sites = JIFL_ALLOC(kvmalloc_array(n, sizeof(*sites), GFP_KERNEL));
	int err;
	u32 i;

	if (!sites)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		sites[i] = b->targets[i]->address - CALL_INSN_SIZE;
	memset(&b->ops, 0, sizeof(b->ops));
	err = jifl_compat_direct_room(n);
	if (!err)
		err = JIFL_TRY(ftrace_set_filter_ips(&b->ops, sites, n, 0, 1));
	if (!err)
		err = JIFL_TRY(jifl_compat_direct_register(&b->ops, jifl_function_stub_address()));
	if (err)
		ftrace_free_filter(&b->ops);
	kvfree(sites);
	return err;
}

static int nothing(void *unused)
{
	return 0;
}

void jifl_batch_stop(void)
{
	stop_machine(nothing, NULL, NULL);
}

void jifl_batch_wait(void)
{
	if (JIFL_HOST_PLANTED(doors_freed_early))
		return;
	jifl_batch_stop();
	synchronize_rcu_tasks();
}

void jifl_batch_keep_for_good(const struct jifl_function_batch *b, int err)
{
	u32 i;

	/* One that was kept has its references. */
	for (i = 0; i < b->n; i++)
		if (b->targets[i]->batch != b)
			refcount_inc(&b->targets[i]->refs);
	__module_get(THIS_MODULE);
	nbatches++;
	pr_err("ftrace did not give back %u functions (error %d): the module stays until the next boot\n",
	       b->n, err);
}

bool jifl_batch_unregister(struct jifl_function_batch *b, bool *waited)
{
	int err;

	/* For what may be freed behind it ftrace waits, too. */
	if (JIFL_HOST_PLANTED(doors_freed_early))
		b->ops.flags &= ~FTRACE_OPS_FL_DYNAMIC;
	err = jifl_compat_direct_unregister(&b->ops, jifl_function_stub_address(), waited);
	/* At foreign bytes ftrace stops for good, leaves the other sites, and tells nobody. */
	if (!err && jifl_batch_has_site(b))
		err = -EIO;
	if (err)
		jifl_batch_keep_for_good(b, err);
	return !err;
}

bool jifl_batch_has_site(const struct jifl_function_batch *b)
{
	void *const stub = (void *)jifl_function_stub_address();
	u8 call[CALL_INSN_SIZE];
	u32 i;

	for (i = 0; i < b->n; i++) {
		const unsigned long site = b->targets[i]->address - CALL_INSN_SIZE;

		if (!copy_from_kernel_nofault(call, (void *)site, sizeof(call)) &&
		    !memcmp(call, text_gen_insn(CALL_INSN_OPCODE, (void *)site, stub),
			    sizeof(call)))
			return true;
	}
	return false;
}

u32 jifl_batch_find_busy(struct jifl_function_batch *b, bool *kept)
{
	u32 good = 0, bad = b->n;
	bool waited;

	while (bad - good > 1 && !*kept) {
		u32 n = good + (bad - good) / 2;

		if (jifl_batch_register(b, n)) {
			bad = n;
		} else {
			*kept = !jifl_batch_unregister(b, &waited);
			jifl_batch_wait();
			good = n;
		}
	}
	return bad - 1;
}

void jifl_batch_keep(struct jifl_function_batch *b)
{
	u32 i;

	for (i = 0; i < b->n; i++) {
		refcount_inc(&b->targets[i]->refs);
		b->targets[i]->batch = b;
	}
	nbatches++;
}

void jifl_batch_free(struct jifl_function_batch *b)
{
	u32 i;

	give_doors(b);
	for (i = 0; i < b->n; i++) {
		b->targets[i]->batch = NULL;
		jifl_target_put(b->targets[i]);
	}
	kvfree(b);
	nbatches--;
}
