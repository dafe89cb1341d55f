// SPDX-License-Identifier: GPL-2.0
/*
 * The targets of a session: makes an aim for each entry of the list in the request. The place in
 * the list is the number by which inserted code, records and requests name a target.
 *
 * Context: process, sleeps. Code at the entry of a target uses the aim from jifl_mix_arm until
 * jifl_evict has returned after jifl_mix_disarm. The aim is freed later, with its session.
 */
#include <linux/align.h>
#include <linux/cache.h>
#include <linux/err.h>
#include <linux/lockdep.h>
#include <linux/moduleparam.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../call/count.h"
#include "../call/returns.h"
#include "../call/tool.h"
#include "../enter/function.h"
#include "../enter/entry.h"
#include "../enter/target.h"
#include "aim.h"
#include "session.h"

/* A session may have tens of thousands of aims: so many have a piece of memory together. */
#define JIFL_AIMS_A_PIECE	256u

/* Each CPU writes into some of them: none shares a line with another. */
static size_t jifl_aim_bytes(void)
{
	return ALIGN(struct_size((struct jifl_aim *)NULL, cpu, nr_cpu_ids), SMP_CACHE_BYTES);
}

static u32 jifl_aim_npieces(const struct jifl_session *s)
{
	return DIV_ROUND_UP(s->ntargets, JIFL_AIMS_A_PIECE);
}

/* Memory for the aim in that place, filled with 0; NULL: there is none. */
static struct jifl_aim *jifl_aim_place(struct jifl_session *s, u32 index)
{
	const u32 first = rounddown(index, JIFL_AIMS_A_PIECE);
	const u32 n = min(s->ntargets - first, JIFL_AIMS_A_PIECE);
	void **piece;

	if (!s->aim_pieces)
		s->aim_pieces = JIFL_ALLOC(kvcalloc(jifl_aim_npieces(s), sizeof(*s->aim_pieces),
						    GFP_KERNEL));
	if (!s->aim_pieces)
		return NULL;
	piece = &s->aim_pieces[first / JIFL_AIMS_A_PIECE];
	if (!*piece)
		*piece = JIFL_ALLOC(kvcalloc(n, jifl_aim_bytes(), GFP_KERNEL));
	return *piece ? *piece + (index - first) * jifl_aim_bytes() : NULL;
}

static void jifl_aim_free_places(struct jifl_session *s)
{
	u32 i;

	for (i = 0; s->aim_pieces && i < jifl_aim_npieces(s); i++)
		kvfree(s->aim_pieces[i]);
	kvfree(s->aim_pieces);
}

int jifl_aim_add(struct jifl_session *s, u32 index, u32 kind, u64 id)
{
	struct jifl_target *t = jifl_target_get(kind, id);
	struct jifl_aim *aim;

	if (IS_ERR_OR_NULL(t))
		return PTR_ERR(t);
	aim = jifl_aim_place(s, index);
	if (!aim) {
		jifl_target_put(t);
		return -ENOMEM;
	}
	aim->target = t;
	aim->session = s;
	aim->index = index;
	aim->way.target = t;
	aim->way.mix = &s->alone;
	s->aims[index] = aim;
	s->naims++;
	/* All that may be entered by doors of functions. */
	s->nfunctions += kind == JIFL_TARGET_FUNCTION || kind == JIFL_TARGET_NOTRACE;
	s->nsyscalls += kind == JIFL_TARGET_SYSCALL;
	return 0;
}

static bool sites_wanted = true;
module_param_named(sites, sites_wanted, bool, 0644);
MODULE_PARM_DESC(sites, "functions are entered at their ftrace sites, not behind them");

/*
 * What is replaced has its site, or has none. Behind a site the caller may be a tracer: conditions
 * would not be about the call.
 */
static u32 jifl_aim_kind(const struct jifl_session *s, bool conditional,
			 enum jifl_refusal *refused)
{
	/* Places need no door. */
	const bool left = *refused == JIFL_REFUSED_NO && !s->tool->places &&
			  !READ_ONCE(sites_wanted);
	const bool behind = !conditional && (left || *refused == JIFL_REFUSED_TAKEN);

	if (s->tool->replaces || (*refused != JIFL_REFUSED_SITE && !behind))
		return JIFL_TARGET_FUNCTION;
	*refused = JIFL_REFUSED_NO;
	return JIFL_TARGET_NOTRACE;
}

int jifl_aim_add_function(struct jifl_session *s, u32 index, unsigned long begin,
			  const struct jifl_condition *condition, enum jifl_refusal *refused)
{
	u32 kind;
	int ret;

	*refused = jifl_function_refusal(begin);
	kind = jifl_aim_kind(s, condition, refused);
	if (*refused)
		return -EOPNOTSUPP;
	ret = jifl_aim_add(s, index, kind, begin);
	/* Another session has it by its other door. */
	kind = kind == JIFL_TARGET_FUNCTION ? JIFL_TARGET_NOTRACE : JIFL_TARGET_FUNCTION;
	if (ret == -EBUSY && !s->tool->replaces && !condition)
		ret = jifl_aim_add(s, index, kind, begin);
	if (ret == -EBUSY)
		*refused = JIFL_REFUSED_TAKEN;
	else if (ret == -ENOENT || (!ret && !s->aims[index]))
		*refused = JIFL_REFUSED_UNKNOWN;
	if (*refused)
		return -EOPNOTSUPP;
	if (!ret)
		s->aims[index]->condition = condition;
	return ret;
}

static void jifl_aim_drop(struct jifl_session *s, struct jifl_aim *aim)
{
	const u32 kind = aim->target->kind;

	s->aims[aim->index] = NULL;
	s->naims--;
	s->nfunctions -= kind == JIFL_TARGET_FUNCTION || kind == JIFL_TARGET_NOTRACE;
	s->nsyscalls -= kind == JIFL_TARGET_SYSCALL;
	jifl_target_put(aim->target);
	/* Another may come in its place. */
	memset(aim, 0, jifl_aim_bytes());
}

/* What was learned of jumps is not asked for any more. */
static void jifl_aim_forget_looked(struct jifl_session *s)
{
	kvfree(s->looked);
	s->looked = NULL;
}

/* Those that are entered by jumps. Returns how many there are. */
static u32 jifl_aim_find_notrace(const struct jifl_session *s, unsigned long *begins)
{
	struct jifl_aim *aim;
	u32 i, n = 0;

	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_NOTRACE)
			begins[n++] = aim->target->id;
	return n;
}

/*
 * No jump can be at the function: the aim goes. If its site was left to others, and nobody has it,
 * an aim at the site comes in its place. Has one come?
 */
static bool jifl_aim_move_to_site(struct jifl_session *s, struct jifl_aim *aim)
{
	const struct jifl_condition *condition = aim->condition;
	const u32 index = aim->index, value = aim->value;
	const u64 id = aim->target->id;

	/* Before the other comes: a function is a target of one kind. */
	jifl_aim_drop(s, aim);
	if (jifl_function_refusal(id) != JIFL_REFUSED_NO ||
	    jifl_aim_add(s, index, JIFL_TARGET_FUNCTION, id) || !s->aims[index])
		return false;
	s->aims[index]->condition = condition;
	s->aims[index]->value = value;
	return true;
}

int jifl_aim_refuse_notrace(struct jifl_session *s, bool *refused)
{
	unsigned long *begins;
	struct jifl_aim *aim;
	bool *may;
	u32 i, n = 0;
	int ret = -ENOMEM;

	begins = JIFL_ALLOC(kvmalloc_array(s->ntargets, sizeof(*begins), GFP_KERNEL));
	may = JIFL_ALLOC(kvmalloc_array(s->ntargets, sizeof(*may), GFP_KERNEL));
	if (begins && may) {
		n = jifl_aim_find_notrace(s, begins);
		jifl_aim_forget_looked(s);
		ret = n ? jifl_notrace_may(begins, n, may, &s->looked) : 0;
	}
	n = 0;
	for (i = 0; i < s->ntargets && !ret; i++) {
		aim = s->aims[i];
		refused[i] = aim && aim->target->kind == JIFL_TARGET_NOTRACE && !may[n++] &&
			     !jifl_aim_move_to_site(s, aim);
	}
	kvfree(may);
	kvfree(begins);
	return ret;
}

/* Each list has a number of its own, which marks the targets that stand in the list. */
int jifl_aim_check(const struct jifl_session *s)
{
	static u64 last;	/* jifl_session_mutex */
	struct jifl_aim *aim;
	u32 i;

	lockdep_assert_held(&jifl_session_mutex);
	last++;
	for_each_aim(aim, s, i) {
		if (aim->target->list == last)
			return -EINVAL;
		aim->target->list = last;
	}
	return s->naims ? 0 : -EINVAL;
}

/* Of the session's n-th function, its place in the list. */
static u32 jifl_aim_index(const struct jifl_session *s, u32 n)
{
	struct jifl_aim *aim;
	u32 i;

	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_FUNCTION && !n--)
			break;
	return i;
}

/* Lists the targets that are functions: those with sites, then the others. 0; -ENOMEM. */
static int jifl_aim_list(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i, n = 0;

	s->doors = JIFL_ALLOC(kvmalloc_array(s->naims, sizeof(*s->doors), GFP_KERNEL));
	s->jumps = JIFL_ALLOC(kvmalloc_array(s->naims, sizeof(*s->jumps), GFP_KERNEL));
	if (!s->doors || !s->jumps)
		return -ENOMEM;
	for_each_aim(aim, s, i)
		if (aim->target->kind == JIFL_TARGET_FUNCTION)
			s->doors[n++] = aim->target;
	s->nsites = n;
	for_each_aim(aim, s, i)
		if (aim->target->kind != JIFL_TARGET_FUNCTION &&
		    aim->target->kind != JIFL_TARGET_SYSCALL)
			s->doors[n++] = aim->target;
	s->ndoors = n;
	return 0;
}

static void jifl_aim_unlist(struct jifl_session *s)
{
	kvfree(s->jumps);
	kvfree(s->doors);
	s->jumps = NULL;
	s->doors = NULL;
}

/* What stands in the text may have changed since jifl_aim_refuse_notrace has asked. */
static bool jifl_aim_all_have_doors(struct jifl_session *s, u32 *busy_target)
{
	struct jifl_aim *aim;

	for_each_aim(aim, s, *busy_target)
		if (aim->target->kind == JIFL_TARGET_NOTRACE && !aim->target->jump)
			break;
	if (*busy_target == s->ntargets)
		return true;
	s->refused = jifl_function_without_door(aim->target->id);
	return false;
}

/* Nobody comes to the doors of what is listed any more: to those without sites, ... */
static void jifl_aim_close_listed_jumps(struct jifl_session *s)
{
	s->closed = (struct jifl_closed){ .batches = LIST_HEAD_INIT(s->closed.batches) };
	if (s->ndoors > s->nsites)
		jifl_notrace_close(s->doors + s->nsites, s->jumps, s->ndoors - s->nsites,
				   &s->closed);
}

/* ... and to those with sites. As jifl_function_close. */
static bool jifl_aim_close_listed_sites(struct jifl_session *s)
{
	return s->nsites && jifl_function_close(s->doors, s->nsites, &s->closed);
}

/* No thread is there either. */
static void jifl_aim_free_listed(struct jifl_session *s)
{
	if (s->ndoors > s->nsites)
		jifl_notrace_closed(s->doors + s->nsites, s->jumps, &s->closed);
	if (s->nsites)
		jifl_function_closed(&s->closed);
}

/* Of a session that has not come to run. */
static void jifl_aim_undo_listed(struct jifl_session *s)
{
	jifl_aim_close_listed_jumps(s);
	jifl_aim_close_listed_sites(s);
	jifl_function_wait();
	jifl_aim_free_listed(s);
}

/* The doors of all that is listed. As jifl_aim_attach. */
static int jifl_aim_attach_listed(struct jifl_session *s, u32 *busy_target)
{
	int ret = 0;
	u32 i;

	if (s->nsites)
		ret = jifl_function_attach(s->doors, s->nsites, &i);
	if (ret == -EBUSY) {
		*busy_target = jifl_aim_index(s, i);
		return -EOPNOTSUPP;
	}
	if (ret || s->ndoors == s->nsites)
		return ret;
	ret = jifl_notrace_attach(s->doors + s->nsites, s->ndoors - s->nsites, s->looked);
	if (ret)
		s->ndoors = s->nsites;
	else if (!s->tool->places && !jifl_aim_all_have_doors(s, busy_target))
		ret = -EOPNOTSUPP;
	if (ret)
		jifl_aim_undo_listed(s);
	return ret;
}

/* Does anything end where calls of the session's functions return? */
static bool jifl_aim_hooks_returns(const struct jifl_session *s)
{
	return s->nfunctions && jifl_count_follows(s);
}

static int jifl_aim_attach_functions(struct jifl_session *s, u32 *busy_target)
{
	int ret;

	if (s->naims == s->nsyscalls)
		return 0;
	ret = jifl_aim_list(s);
	if (!ret && jifl_aim_hooks_returns(s))
		ret = jifl_returns_open();
	if (!ret) {
		ret = jifl_aim_attach_listed(s, busy_target);
		if (ret && jifl_aim_hooks_returns(s))
			jifl_returns_close();
	}
	if (ret)
		jifl_aim_unlist(s);
	return ret;
}

int jifl_aim_attach(struct jifl_session *s, u32 *busy_target)
{
	/* Without a session about them no system call pays for their door. */
	int ret = s->nsyscalls ? jifl_entry_attach() : 0;

	if (ret)
		return ret;
	ret = jifl_aim_attach_functions(s, busy_target);
	jifl_aim_forget_looked(s);
	if (ret && s->nsyscalls)
		jifl_entry_detach();
	return ret;
}

void jifl_aim_close_jumps(struct jifl_session *s)
{
	if (s->doors)
		jifl_aim_close_listed_jumps(s);
}

bool jifl_aim_close_sites(struct jifl_session *s)
{
	return s->doors && jifl_aim_close_listed_sites(s);
}

void jifl_aim_detach(struct jifl_session *s)
{
	if (s->nsyscalls)
		jifl_entry_detach();
	if (!s->doors)
		return;
	jifl_aim_free_listed(s);
	jifl_aim_unlist(s);
	if (jifl_aim_hooks_returns(s))
		jifl_returns_close();
}

void jifl_aim_undo(struct jifl_session *s)
{
	jifl_aim_close_jumps(s);
	jifl_aim_close_sites(s);
	if (s->doors)
		jifl_function_wait();
	jifl_aim_detach(s);
}

void jifl_aim_free(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	for_each_aim(aim, s, i)
		jifl_target_put(aim->target);
	jifl_aim_free_places(s);
	jifl_aim_forget_looked(s);
}
