/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For modules whose functions replace others (`jifl replace`). A replacement that calls the
 * function that it replaces by its name comes to that function's door again, and so to itself,
 * without end. This is how it calls the original:
 *
 *	static int my_show(struct seq_file *m, void *v);
 *	JIFL_ORIGINAL(show, my_show);
 *
 *	static int my_show(struct seq_file *m, void *v)
 *	{
 *		return jifl_original(show)(m, v);
 *	}
 *
 *	init:	err = jifl_original_init(show, "cmdline_proc_show");
 *	exit:	jifl_original_exit(show);
 *
 * A call of the original is a direct call of the address behind the function's fentry site. It
 * costs what a call of the function costs natively, less the site's instruction. Whatever other
 * tracers and live patches have at the site does not see it.
 *
 * A module that does not call originals needs nothing of this header.
 */
#ifndef JIFL_REPLACE_H
#define JIFL_REPLACE_H

#include <linux/errno.h>
#include <linux/static_call.h>

/* At file level: `name` becomes an original with the prototype of `function`. */
#define JIFL_ORIGINAL(name, function) \
	DEFINE_STATIC_CALL_NULL(jifl_original_##name, function)

/*
 * In the module's init: `symbol` is the original's name in kallsyms, or MODULE:NAME if it is a
 * module's function, which keeps that module until jifl_original_exit. 0; -ENOENT: there is no
 * such function, or it has no fentry site.
 */
#define jifl_original_init(name, symbol) ({ \
	void *jifl_behind = jifl_original_get(symbol); \
	if (jifl_behind) \
		static_call_update(jifl_original_##name, jifl_behind); \
	jifl_behind ? 0 : -ENOENT; \
})

/* In its exit, if jifl_original_init has returned 0. */
#define jifl_original_exit(name) jifl_original_put(static_call_query(jifl_original_##name))

/* jifl_original(name)(arguments). Any context in which the function may be called. */
#define jifl_original(name) static_call(jifl_original_##name)

/* The address behind the fentry site of a function; NULL: none. Process context; sleeps. */
void *jifl_original_get(const char *symbol);
void jifl_original_put(void *behind);

#endif
