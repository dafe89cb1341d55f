// SPDX-License-Identifier: GPL-2.0
/*
 * Probes of plugins (include/jifl_probe.h): where they stand, and what they call. group.c starts
 * and stops them.
 *
 * A probe's call is made at once, of the instruction that stands there. It is kept in the probe_t
 * itself, so nothing is allocated. When the probe is started the instruction is compared.
 *
 * The beginning of a function. A door skips the endbr64 and the site, and no breakpoint can stand
 * there. A call of the function executes them, and then the instruction behind them. Therefore a
 * probe there is moved behind them. That is the same place as long as the function does not come
 * back to that instruction, which no branch in it may do (jifl_probe_comes_back).
 *
 * Context: process, under jifl_plugin_probe_mutex, which is taken after jifl_plugin_mutex and
 * before jifl_session_mutex.
 */
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/stdarg.h>
#include <linux/string.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "../tools/probe/calls.h"
#include "plugin.h"

#define JIFL_PROBE_ENDBR_SIZE	4

static DEFINE_MUTEX(jifl_plugin_probe_mutex);	/* every probe_t, and each plugin's groups */

static_assert(sizeof(struct jifl_probe_call) <= sizeof_field(probe_t, call));

struct jifl_probe_call *jifl_plugin_probe_call(probe_t *probe)
{
	return (struct jifl_probe_call *)probe->call;
}

int jifl_plugin_probe_mistake(const probe_t *probe, int error, const char *what,
			      const char *mistake)
{
	pr_warn("plugin %s: %s: %pS: %s\n", probe->plugin->name, what, (void *)probe->address,
		mistake);
	return error;
}

int jifl_plugin_probe_enter(struct jifl_plugin *p, const probe_t *probe, const char *what)
{
	int ret = jifl_event_may_sleep(p, what);

	if (ret)
		return ret;
	if (!probe)
		return jifl_plugin_mistake(p, -EINVAL, what, "NULL instead of a probe_t");
	mutex_lock(&jifl_plugin_probe_mutex);
	return 0;
}

void jifl_plugin_probe_lock(void)
{
	mutex_lock(&jifl_plugin_probe_mutex);
}

int jifl_plugin_probe_leave(int ret)
{
	mutex_unlock(&jifl_plugin_probe_mutex);
	return ret;
}

/* --- places --------------------------------------------------------------------------------- */

bool jifl_plugin_probe_range(unsigned long address, unsigned long *begin, unsigned long *end)
{
	unsigned long flags, size;
	bool found;

	local_irq_save(flags);
	found = jifl_ksym_range(address, begin, &size);
	local_irq_restore(flags);
	*end = found ? *begin + size : 0;
	return found;
}

/* Where the code of the function begins behind its endbr64 and its site. */
static unsigned long jifl_probe_behind_entry(unsigned long begin)
{
	const unsigned long site = jifl_ksym_fentry(begin);
	struct ir_insn insn;
	static const u8 endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	if (site)
		return site + CALL_INSN_SIZE;
	if (jifl_probe_decode(begin, &insn) && insn.len == JIFL_PROBE_ENDBR_SIZE &&
	    !memcmp(insn.bytes, endbr, sizeof(endbr)))
		return begin + JIFL_PROBE_ENDBR_SIZE;
	return begin;
}

static bool jifl_probe_leads_to(const struct ir_insn *insn, unsigned long to)
{
	return (insn->kind == IR_JMP || ir_kind_is_conditional(insn->kind)) && insn->target.v == to;
}

/* Does a branch of this code lead to the instruction? No data stand between instructions. */
static bool jifl_probe_comes_back(unsigned long at, unsigned long end, unsigned long to)
{
	struct ir_insn insn;

	while (at < end) {
		if (!jifl_probe_decode(at, &insn))
			return true;
		if (jifl_probe_leads_to(&insn, to))
			return true;
		at += insn.len;
		cond_resched();
	}
	return false;
}

bool jifl_plugin_probe_is_cold(unsigned long begin)
{
	char name[KSYM_NAME_LEN];

	jifl_ksym_name(begin, name, sizeof(name));
	return strstr(name, ".cold");
}

/* Does a branch of the function's part at `at` come back, if it is one? */
static bool jifl_probe_part_comes_back(unsigned long at, unsigned long to)
{
	unsigned long begin, end;

	return at && jifl_plugin_probe_range(at, &begin, &end) &&
	       jifl_plugin_probe_is_cold(begin) && jifl_probe_comes_back(begin, end, to);
}

/*
 * Does a branch of what the compiler has put aside of the function? Several functions may have the
 * name. So it is also looked at where the function's own branches lead. What only a static branch
 * leads to is found by the name alone.
 */
static bool jifl_probe_cold_comes_back(unsigned long begin, unsigned long end, unsigned long to)
{
	char name[KSYM_NAME_LEN];
	struct ir_insn insn;
	unsigned long at;

	jifl_ksym_name(begin, name, sizeof(name));
	if (strlcat(name, ".cold", sizeof(name)) < sizeof(name) &&
	    jifl_probe_part_comes_back(jifl_ksym(name), to))
		return true;
	for (at = to; at < end; at += insn.len) {
		if (!jifl_probe_decode(at, &insn))
			return true;
		if ((insn.kind == IR_JMP || ir_kind_is_conditional(insn.kind)) &&
		    (insn.target.v < begin || insn.target.v >= end) &&
		    jifl_probe_part_comes_back(insn.target.v, to))
			return true;
		cond_resched();
	}
	return false;
}

/* NULL, or why there can be no probe. */
static const char *jifl_probe_find(probe_t *probe, unsigned long address)
{
	unsigned long begin, end, behind;

	if (!jifl_plugin_probe_range(address, &begin, &end))
		return "no function is there";
	probe->function = begin;
	behind = jifl_probe_behind_entry(begin);
	/* Whether an instruction begins there is asked by the kernel, at the start. */
	if (address >= behind)
		return NULL;
	if (address != begin && address != behind - CALL_INSN_SIZE)
		return "no instruction begins there";
	probe->address = behind;
	return jifl_probe_comes_back(behind, end, behind) ||
	       jifl_probe_cold_comes_back(begin, end, behind) ?
	       "the function comes back to the instruction behind the tracer's site" : NULL;
}

static int jifl_probe_prepare(struct jifl_plugin *p, probe_t *probe, unsigned int where,
			      unsigned long address, const char *what)
{
	const char *mistake;

	if (probe->plugin == p && probe->group)
		return jifl_plugin_probe_mistake(probe, -EBUSY, what, "it is started");
	memset(probe, 0, sizeof(*probe));
	probe->plugin = p;
	probe->where = where;
	probe->address = address;
	mistake = (where & ~PROBE_SELDOM) > PROBE_NOT_TAKEN ?
		  "no such place: see enum jifl_probe_where" : jifl_probe_find(probe, address);
	if (!mistake)
		return 0;
	probe->plugin = NULL;
	pr_warn("plugin %s: %s: %pS: %s\n", p->name, what, (void *)address, mistake);
	return -EINVAL;
}

int jifl_plugin_probe_init(struct jifl_plugin *p, probe_t *probe, unsigned int where,
			   unsigned long address)
{
	static const char what[] = "probe_init";
	const int ret = jifl_plugin_probe_enter(p, probe, what);

	return ret ?: jifl_plugin_probe_leave(jifl_probe_prepare(p, probe, where, address, what));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_init);

unsigned long jifl_plugin_probe_named(const struct jifl_plugin *p, const char *function,
				      const char *what)
{
	const unsigned long begin = function && *function ? jifl_ksym(function) : 0;

	if (!begin)
		pr_warn("plugin %s: %s: the kernel has no function %s\n", p->name, what,
			function ?: "NULL");
	return begin;
}

int jifl_plugin_probe_init_name(struct jifl_plugin *p, probe_t *probe, unsigned int where,
				const char *function, unsigned long offset)
{
	static const char what[] = "probe_init_name";
	unsigned long begin;
	int ret = jifl_plugin_probe_enter(p, probe, what);

	if (ret)
		return ret;
	begin = jifl_plugin_probe_named(p, function, what);
	if (!begin)
		return jifl_plugin_probe_leave(-EINVAL);
	return jifl_plugin_probe_leave(jifl_probe_prepare(p, probe, where, begin + offset, what));
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_init_name);

/* --- calls ---------------------------------------------------------------------------------- */

static enum ir_place jifl_probe_ir_place(const probe_t *probe)
{
	switch (probe->where & ~PROBE_SELDOM) {
	case PROBE_TAKEN:
		return IR_TAKEN;
	case PROBE_NOT_TAKEN:
		return IR_AFTER;
	default:
		return IR_BEFORE;
	}
}

/* Makes the insert of what the arguments in ap say. NULL, or what is wrong; *error: its code. */
static const char *jifl_probe_want(probe_t *probe, const void *fn, va_list ap, int *error)
{
	struct jifl_probe_call *call = jifl_plugin_probe_call(probe);
	const char *mistake = NULL;
	struct jifl_wanted w = {
		.plugin = probe->plugin,
		.at = JIFL_AT_CODE,
		.place = jifl_probe_ir_place(probe),
		.insn = &call->insn,
		.address = probe->address,
		.nr = -1,
		.after = probe->where & ~PROBE_SELDOM,
		.mistake = &mistake,
	};
	unsigned long cookie;

	/* Nobody calls what was put aside. */
	if (probe->address == jifl_probe_behind_entry(probe->function) &&
	    !jifl_plugin_probe_is_cold(probe->function))
		w.at = JIFL_AT_ROUTINE;
	*error = -EINVAL;
	if (!jifl_probe_decode(probe->address, &call->insn))
		return "no instruction is there that can be read";
	if (w.at != JIFL_AT_ROUTINE &&
	    (call->insn.kind == IR_RET || call->insn.kind == IR_RET_THUNK))
		w.at = JIFL_AT_RETURN;
	if (w.after && !ir_kind_is_conditional(call->insn.kind))
		return "no branch on a condition stands there";
	cookie = jifl_host_lock();
	*error = jifl_want_call(&w, fn, ap);
	jifl_host_unlock(cookie);
	call->insert = w.ins;
	call->taken = w.taken;
	call->fn = 0;
	return *error ? mistake : NULL;
}

int jifl_plugin_probe_insert(struct jifl_plugin *p, probe_t *probe, void *fn, ...)
{
	static const char what[] = "probe_insert_call";
	int ret = jifl_plugin_probe_enter(p, probe, what);
	const char *mistake;
	va_list ap;

	if (ret)
		return ret;
	if (probe->plugin != p)
		ret = jifl_plugin_mistake(p, -EINVAL, what, "the probe_t was not initialised");
	else if (probe->group)
		ret = jifl_plugin_probe_mistake(probe, -EBUSY, what, "it is started");
	if (ret)
		return jifl_plugin_probe_leave(ret);
	probe->has_call = false;
	va_start(ap, fn);
	mistake = jifl_probe_want(probe, fn, ap, &ret);
	va_end(ap);
	if (mistake)
		return jifl_plugin_probe_leave(jifl_plugin_probe_mistake(probe, ret, what,
									 mistake));
	probe->has_call = true;
	return jifl_plugin_probe_leave(0);
}
EXPORT_SYMBOL_GPL(jifl_plugin_probe_insert);
