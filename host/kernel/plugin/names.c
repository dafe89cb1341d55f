// SPDX-License-Identifier: GPL-2.0
/*
 * The functions that a plugin names. In: a name or a pattern. Out: where the functions begin.
 * kinds.c has other names of functions, and names of some of their calls.
 *
 * The kernel's list of symbols is walked by addresses: each answer says where the next symbol
 * begins. So several functions of one name are all found. Of several names of one function the
 * kernel gives one, so a name without a pattern is asked for itself, too. What is found may be no
 * function that can be entered: jifl_function_refusal says so.
 *
 * Context: process; sleeps.
 */
#include <linux/glob.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../enter/function.h"
#include "kinds.h"
#include "names.h"
#include "plugin.h"

#define JIFL_NAMES_ROOM	64	/* at first */

/* What is looked for, and what was found. */
struct jifl_names_search {
	char pattern[sizeof_field(target_t, named)];
	const char *module;	/* NULL: the kernel itself and all modules; else part of pattern */
	struct jifl_names names;
	bool module_found;
	int ret;
};

static const char jifl_names_forms[] =
	"a target is fn:NAME, fn:NAME@MODULE, mod:MODULE, softirq:NAME, irq:NR, work:NAME or timer:NAME";

/* False: the text has no such form. */
static bool jifl_names_parse(const char *named, struct jifl_names_search *search)
{
	char *at;

	if (str_has_prefix(named, "mod:")) {
		strscpy(search->pattern + 2, named + 4, sizeof(search->pattern) - 2);
		memcpy(search->pattern, "*", 2);
		search->module = search->pattern + 2;
		return *search->module;
	}
	if (!str_has_prefix(named, "fn:"))
		return false;
	strscpy(search->pattern, named + 3, sizeof(search->pattern));
	at = strchr(search->pattern, '@');
	if (at) {
		*at = '\0';
		search->module = at + 1;
	}
	return *search->pattern && (!at || *search->module);
}

static bool jifl_names_is_pattern(const char *name)
{
	return strpbrk(name, "*?[");
}

/* --- the list ------------------------------------------------------------------------------ */

static int jifl_names_grow(struct jifl_names *names)
{
	const u32 room = max_t(u32, names->room * 2, JIFL_NAMES_ROOM);
	unsigned long *begins;

	begins = JIFL_ALLOC(kvmalloc_array(room, sizeof(*begins), GFP_KERNEL));
	if (!begins)
		return -ENOMEM;
	memcpy(begins, names->begins, names->n * sizeof(*begins));
	kvfree(names->begins);
	names->begins = begins;
	names->room = room;
	return 0;
}

int jifl_names_add(struct jifl_names *names, unsigned long begin)
{
	/* The first was asked for by its name. */
	if (names->n && names->begins[0] == begin)
		return 0;
	if (names->n == JIFL_TARGETS_MAX)
		return -E2BIG;
	if (names->n == names->room && jifl_names_grow(names))
		return -ENOMEM;
	names->begins[names->n++] = begin;
	return 0;
}

void jifl_names_free(struct jifl_names *names)
{
	kvfree(names->begins);
	*names = (struct jifl_names){};
}

/* --- the walk ------------------------------------------------------------------------------ */

/* With and without what a compiler has appended. */
static bool jifl_names_fit(const char *pattern, char *name)
{
	if (glob_match(pattern, name))
		return true;
	*strchrnul(name, '.') = '\0';
	return glob_match(pattern, name);
}

/* The symbol at an address. False: there is none. */
static bool jifl_names_symbol(unsigned long address, unsigned long *begin, unsigned long *end)
{
	unsigned long flags, size;
	bool found;

	local_irq_save(flags);
	found = jifl_ksym_range(address, begin, &size);
	local_irq_restore(flags);
	*end = found ? *begin + size : 0;
	return found && *end > address;
}

static bool jifl_names_is_meant(const struct jifl_names_search *search, unsigned long begin)
{
	char name[KSYM_NAME_LEN];
	unsigned long flags;

	local_irq_save(flags);
	jifl_ksym_name(begin, name, sizeof(name));
	local_irq_restore(flags);
	/* The padding before functions, and what compilers put aside of them, are none. */
	return jifl_names_fit(search->pattern, name) &&
	       (!jifl_names_is_pattern(search->pattern) ||
		(strncmp(name, "__pfx_", 6) && !strstr(name, ".cold")));
}

void jifl_names_walk(unsigned long at, unsigned long end,
		     bool (*each)(unsigned long begin, unsigned long end, void *arg), void *arg)
{
	/* Code may begin with filling, of which nobody has a name. */
	static const unsigned long step = 16;
	unsigned long begin, next;

	while (at < end) {
		if (!jifl_names_symbol(at, &begin, &next))
			next = ALIGN(at + 1, step);
		else if (begin == at && !each(begin, next, arg))
			return;
		at = next;
		cond_resched();
	}
}

static bool jifl_names_look_at(unsigned long begin, unsigned long end, void *arg)
{
	struct jifl_names_search *search = arg;

	if (jifl_names_is_meant(search, begin))
		search->ret = jifl_names_add(&search->names, begin);
	return !search->ret;
}

/* --- modules ------------------------------------------------------------------------------- */

/*
 * The modules that are there. One may go while it is walked. Then its symbols are not found, or the
 * start refuses what was found.
 */
struct jifl_names_modules {
	struct jifl_names_module {
		char name[MODULE_NAME_LEN];
		unsigned long text, size;
	} *of;
	u32 n, room;
};

static void jifl_names_note(const struct module_event *module, void *arg)
{
	struct jifl_names_modules *modules = arg;

	if (modules->n < modules->room) {
		struct jifl_names_module *m = &modules->of[modules->n];

		strscpy(m->name, module->name, sizeof(m->name));
		m->text = module->text;
		m->size = module->size;
	}
	modules->n++;
}

/* Notes the modules; to be freed, also after -ENOMEM. */
static int jifl_names_list(struct jifl_names_modules *modules)
{
	*modules = (struct jifl_names_modules){};
	do {
		kvfree(modules->of);
		modules->room = modules->n + 8;
		modules->of = JIFL_ALLOC(kvcalloc(modules->room, sizeof(*modules->of), GFP_KERNEL));
		if (!modules->of)
			return -ENOMEM;
		modules->n = 0;
		jifl_event_modules(jifl_names_note, modules);
	} while (modules->n > modules->room);
	return 0;
}

static unsigned long jifl_names_exact_in(const char *module, const char *name)
{
	char symbol[MODULE_NAME_LEN + 1 + sizeof_field(struct jifl_names_search, pattern)];

	scnprintf(symbol, sizeof(symbol), "%s:%s", module, name);
	return jifl_ksym(symbol);
}

static void jifl_names_in_module(struct jifl_names_search *search,
				 const struct jifl_names_module *m)
{
	unsigned long begin;

	if (search->module && strcmp(search->module, m->name))
		return;
	search->module_found = true;
	if (search->module || jifl_names_is_pattern(search->pattern)) {
		jifl_names_walk(m->text, m->text + m->size, jifl_names_look_at, search);
		return;
	}
	/* Each module's own symbols are looked through for each answer: walking takes long. */
	begin = jifl_names_exact_in(m->name, search->pattern);
	if (begin)
		search->ret = jifl_names_add(&search->names, begin);
}

static void jifl_names_in_modules(struct jifl_names_search *search)
{
	struct jifl_names_modules modules;
	u32 i;

	search->ret = jifl_names_list(&modules);
	for (i = 0; i < modules.n && !search->ret; i++)
		jifl_names_in_module(search, &modules.of[i]);
	kvfree(modules.of);
}

/* --- all of it ----------------------------------------------------------------------------- */

/* The function of just this name; 0: there is none. */
static unsigned long jifl_names_exact(const struct jifl_names_search *search)
{
	unsigned long begin;

	if (jifl_names_is_pattern(search->pattern))
		return 0;
	begin = search->module ? jifl_names_exact_in(search->module, search->pattern) :
				 jifl_ksym(search->pattern);
	return jifl_function_refusal(begin) == JIFL_REFUSED_UNKNOWN ? 0 : begin;
}

static int jifl_names_search(struct jifl_names_search *search, const char **mistake)
{
	const unsigned long exact = jifl_names_exact(search);

	if (exact)
		search->ret = jifl_names_add(&search->names, exact);
	if (!search->module && !search->ret)
		jifl_names_walk(jifl_ksym("_stext"), jifl_ksym("_etext"), jifl_names_look_at,
				search);
	if (!search->ret)
		jifl_names_in_modules(search);
	if (search->ret) {
		*mistake = "it names more functions than a session can have";
		return search->ret;
	}
	if (search->names.n)
		return 0;
	*mistake = search->module && !search->module_found ? "no such module" : "no such function";
	return -ENOENT;
}

int jifl_names_find_functions(const char *named, struct jifl_names *names, const char **mistake)
{
	struct jifl_names_search search = { .names = *names };
	int ret = -EINVAL;

	*mistake = jifl_names_forms;
	if (jifl_names_parse(named, &search))
		ret = jifl_names_search(&search, mistake);
	*names = search.names;
	return ret;
}

int jifl_names_find(const char *named, struct jifl_names *names, const char **mistake)
{
	int ret;

	*names = (struct jifl_names){};
	if (!jifl_kinds_find(named, names, mistake, &ret))
		ret = jifl_names_find_functions(named, names, mistake);
	if (ret)
		jifl_names_free(names);
	return ret;
}

int jifl_names_check(const char *named, const char **mistake)
{
	struct jifl_names_search search = {};
	struct jifl_names names;
	int ret;

	if (jifl_names_parse(named, &search) && jifl_names_exact(&search))
		return 0;
	ret = jifl_names_find(named, &names, mistake);
	if (!ret)
		jifl_names_free(&names);
	return ret;
}
