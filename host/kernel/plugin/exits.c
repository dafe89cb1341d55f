// SPDX-License-Identifier: GPL-2.0
/*
 * Probes at all returns of a function (probe_init_returns of include/jifl_probe.h). In: a function,
 * and room for probes. Out: a probe at each instruction with which it returns, or jumps to another
 * function, which returns for it.
 *
 * The function is decoded from its beginning to its end, and then what the compiler has put aside
 * of it (NAME.cold). Several functions may have the name. So the part is one that a branch of the
 * function leads to, or the one of that name, if a branch in it leads back. What only a static
 * branch leads to, and what never comes back, is found by neither.
 *
 * A kprobe of somebody else's hides the instruction beneath. Where one stands the returns are not
 * known for certain, and the function is refused.
 *
 * Context: process, under the probes' mutex; sleeps.
 */
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "../text/overlay.h"
#include "../tools/probe/calls.h"
#include "plugin.h"

struct jifl_exits {
	struct jifl_plugin *plugin;
	unsigned int flags;		/* PROBE_SELDOM, or none */
	unsigned long begin, end;	/* the function */
	unsigned long cold, cold_end;	/* what was put aside of it; 0: nothing */
	probe_t *probes;
	unsigned int room, n;		/* probes, and exits so far */
};

/* What is done with each instruction. NULL, or why the function is refused. */
typedef const char *(*jifl_exits_fn)(struct jifl_exits *x, unsigned long at,
				     const struct ir_insn *insn);

/* A kprobe at a tracer's site leaves the site as it is. */
static bool jifl_exits_is_hidden(unsigned long at)
{
	bool foreign;
	u8 first, byte;

	preempt_disable();
	foreign = jifl_overlay_has(at) && !jifl_overlay_is_own(at, &byte);
	preempt_enable();
	return foreign && (copy_from_kernel_nofault(&first, (void *)at, 1) ||
			   first == INT3_INSN_OPCODE || first == JMP32_INSN_OPCODE);
}

static const char *jifl_exits_each(struct jifl_exits *x, unsigned long at, unsigned long end,
				   jifl_exits_fn fn)
{
	struct ir_insn insn;
	const char *mistake;

	for (; at < end; at += insn.len) {
		if (jifl_exits_is_hidden(at))
			return "kprobes stand in it, so its returns are not known for certain";
		if (!jifl_probe_decode(at, &insn))
			return "its code cannot be read";
		mistake = fn(x, at, &insn);
		if (mistake)
			return mistake;
		cond_resched();
	}
	return NULL;
}

static bool jifl_exits_is_branch(const struct ir_insn *insn)
{
	return insn->kind == IR_JMP || ir_kind_is_conditional(insn->kind);
}

/* --- what was put aside --------------------------------------------------------------------- */

/* If a branch leads to a cold part, that is the function's. */
static const char *jifl_exits_find_cold(struct jifl_exits *x, unsigned long at,
					const struct ir_insn *insn)
{
	unsigned long begin, end;

	if (x->cold || !jifl_exits_is_branch(insn) || insn->target.v - x->begin < x->end - x->begin)
		return NULL;
	if (jifl_plugin_probe_range(insn->target.v, &begin, &end) &&
	    jifl_plugin_probe_is_cold(begin)) {
		x->cold = begin;
		x->cold_end = end;
	}
	return NULL;
}

/* In the part of the function's name: `n` counts branches that lead back. */
static const char *jifl_exits_find_back(struct jifl_exits *x, unsigned long at,
					const struct ir_insn *insn)
{
	x->n += jifl_exits_is_branch(insn) && insn->target.v - x->begin < x->end - x->begin;
	return NULL;
}

static const char *jifl_exits_find_part(struct jifl_exits *x)
{
	const char *mistake = jifl_exits_each(x, x->begin, x->end, jifl_exits_find_cold);
	unsigned long begin, end;
	char name[KSYM_NAME_LEN];

	if (mistake || x->cold)
		return mistake;
	jifl_ksym_name(x->begin, name, sizeof(name));
	if (strlcat(name, ".cold", sizeof(name)) >= sizeof(name) ||
	    !jifl_plugin_probe_range(jifl_ksym(name), &begin, &end) ||
	    !jifl_plugin_probe_is_cold(begin))
		return NULL;
	mistake = jifl_exits_each(x, begin, end, jifl_exits_find_back);
	if (x->n) {
		x->cold = begin;
		x->cold_end = end;
	}
	x->n = 0;
	return mistake;
}

/* --- exits ---------------------------------------------------------------------------------- */

/* A jump to the function's own beginning is a call of it. */
static bool jifl_exits_stays(const struct jifl_exits *x, unsigned long to)
{
	return (to > x->begin && to < x->end) || (to >= x->cold && to < x->cold_end);
}

/* enum jifl_probe_where; negative: the instruction is no exit. *jumps: another function returns. */
static int jifl_exits_where(const struct jifl_exits *x, const struct ir_insn *insn, bool *jumps)
{
	*jumps = insn->kind != IR_RET && insn->kind != IR_RET_THUNK;
	if (!*jumps || insn->kind == IR_JMP_IND)
		return PROBE_BEFORE;
	if (!jifl_exits_is_branch(insn) || jifl_exits_stays(x, insn->target.v))
		return -1;
	return insn->kind == IR_JMP ? PROBE_BEFORE : PROBE_TAKEN;
}

static const char *jifl_exits_add(struct jifl_exits *x, unsigned long at,
				  const struct ir_insn *insn)
{
	const unsigned long part = at >= x->begin && at < x->end ? x->begin : x->cold;
	bool jumps;
	const int where = jifl_exits_where(x, insn, &jumps);

	if (where < 0)
		return NULL;
	if (x->n < x->room)
		x->probes[x->n] = (probe_t){
			.plugin = x->plugin,
			.where = where | x->flags,
			.address = at,
			.function = part,
			.jumps = jumps,
		};
	x->n++;
	return NULL;
}

static const char *jifl_exits_find(struct jifl_exits *x, unsigned long address)
{
	const char *mistake;

	if (!jifl_plugin_probe_range(address, &x->begin, &x->end) || x->begin != address)
		return "no function begins there";
	mistake = jifl_exits_find_part(x);
	if (!mistake)
		mistake = jifl_exits_each(x, x->begin, x->end, jifl_exits_add);
	if (!mistake)
		mistake = jifl_exits_each(x, x->cold, x->cold_end, jifl_exits_add);
	if (!mistake && !x->n)
		mistake = "it never returns";
	return mistake;
}

static int jifl_exits_prepare(struct jifl_exits *x, unsigned long address, const char *what)
{
	const char *mistake;
	unsigned int i;

	if (x->flags & ~PROBE_SELDOM)
		return jifl_plugin_mistake(x->plugin, -EINVAL, what,
					   "no such place: PROBE_SELDOM, or 0");
	for (i = 0; i < x->room; i++)
		if (x->probes[i].plugin == x->plugin && x->probes[i].group)
			return jifl_plugin_probe_mistake(&x->probes[i], -EBUSY, what,
							 "it is started");
	mistake = jifl_exits_find(x, address);
	/* All of them, or none. */
	for (i = 0; i < x->room; i++)
		if (mistake || x->n > x->room || i >= x->n)
			memset(&x->probes[i], 0, sizeof(x->probes[i]));
	if (!mistake)
		return x->n;
	pr_warn("plugin %s: %s: %pS: %s\n", x->plugin->name, what, (void *)address, mistake);
	return -EINVAL;
}

int jifl_plugin_probe_init_returns(struct jifl_plugin *p, probe_t *probes, unsigned int n,
				   unsigned int flags, unsigned long address)
{
	static const char what[] = "probe_init_returns";
	struct jifl_exits x = { .plugin = p, .flags = flags, .probes = probes, .room = n };
	int ret = jifl_plugin_probe_enter(p, n ? (void *)probes : p, what);

	return ret ?: jifl_plugin_probe_leave(jifl_exits_prepare(&x, address, what));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_init_returns);

int jifl_plugin_probe_init_returns_name(struct jifl_plugin *p, probe_t *probes, unsigned int n,
					unsigned int flags, const char *function)
{
	static const char what[] = "probe_init_returns_name";
	struct jifl_exits x = { .plugin = p, .flags = flags, .probes = probes, .room = n };
	int ret = jifl_plugin_probe_enter(p, n ? (void *)probes : p, what);
	unsigned long address;

	if (ret)
		return ret;
	address = jifl_plugin_probe_named(p, function, what);
	if (!address)
		return jifl_plugin_probe_leave(-EINVAL);
	return jifl_plugin_probe_leave(jifl_exits_prepare(&x, address, what));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_init_returns_name);
