/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Steps of a plugin that makes mistakes, each with the error that it must give. Prints
 * "PLUGIN: STEP: ERROR good" or "PLUGIN: STEP: ERROR BAD ..." for each, with
 * "PLUGIN: in a callback: " where it was.
 */
#ifndef JIFL_TESTS_STEPS_H
#define JIFL_TESTS_STEPS_H

#include <linux/printk.h>
#include <linux/string.h>

static void say(const char *where, const char *step, long got, long want)
{
	if (got == want)
		printk(KERN_INFO KBUILD_MODNAME ": %s%s: %ld good\n", where, step, got);
	else
		printk(KERN_INFO KBUILD_MODNAME ": %s%s: %ld BAD, not %ld\n", where, step, got,
		       want);
}

static void expect(const char *step, long got, long want)
{
	say("", step, got, want);
}

/* --- in callbacks, where nothing can be printed ------------------------------- */

enum { STEPS = 90 };

static struct step {
	const char *step;
	long got, want;
} steps[STEPS];
static int nsteps;

/* The first time only: callbacks run for each block. */
static void note(const char *step, long got, long want)
{
	int i;

	for (i = 0; i < nsteps; i++)
		if (!strcmp(steps[i].step, step))
			break;
	if (i == STEPS || (i < nsteps && steps[i].got != steps[i].want))
		return;
	steps[i] = (struct step){ step, got, want };
	if (i == nsteps)
		nsteps++;
}

static void forget_steps(void)
{
	nsteps = 0;
}

static void say_steps(void)
{
	int i;

	for (i = 0; i < nsteps; i++)
		say("in a callback: ", steps[i].step, steps[i].got, steps[i].want);
}

#endif
