// SPDX-License-Identifier: GPL-2.0
/* The parameters of a module built for tests; see plant.h. */
#ifdef JIFL_TEST_BUILD
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "kernel.h"
#include "plant.h"

static char *plant = "";
module_param(plant, charp, 0444);
MODULE_PARM_DESC(plant, "bug to plant, see plant.h");

/* Counted down by allocations: the one that finds 1 fails. */
static atomic_t fail_nth = ATOMIC_INIT(0);
module_param_named(fail_nth, fail_nth.counter, int, 0644);
MODULE_PARM_DESC(fail_nth, "let the nth allocation from here on fail");

static unsigned int failed;
module_param(failed, uint, 0444);
MODULE_PARM_DESC(failed, "allocations that were made to fail");

/* What the parameter door says. The stub of doors asks whether it is FREE. */
enum { FREE, WANTED, CLOSES, HELD };
atomic_t jifl_plant_door = ATOMIC_INIT(FREE);
module_param_named(door, jifl_plant_door.counter, int, 0644);
MODULE_PARM_DESC(door, "1: keep a thread at the next door that goes, until this is 0");

static atomic_t plant_front = ATOMIC_INIT(0);
module_param_named(front, plant_front.counter, int, 0644);
MODULE_PARM_DESC(front, "keep this thread at the front of the flight recorder, until this is 0");

enum jifl_host_plant jifl_host_plant;

#define NAME(name, what) #name,
static const char * const names[] = { "", JIFL_HOST_PLANTS(NAME) };
#undef NAME

bool jifl_plant_fails(void)
{
	if (atomic_read(&fail_nth) <= 0 || atomic_dec_return(&fail_nth))
		return false;
	failed++;
	return true;
}

void jifl_plant_close_door(void)
{
	if (atomic_cmpxchg(&jifl_plant_door, WANTED, CLOSES) != WANTED)
		return;
	while (atomic_read(&jifl_plant_door) == CLOSES)
		msleep(1);
}

void jifl_plant_at_door(void)
{
	if (!preemptible() || atomic_cmpxchg(&jifl_plant_door, CLOSES, HELD) != CLOSES)
		return;
	/* For RCU tasks this is a preemption, wherever the kernel preempts (rcu_tasks_qs). */
	while (atomic_read(&jifl_plant_door) == HELD)
		cond_resched();
}

void jifl_plant_at_front(void)
{
	const int thread = current->pid;

	if (atomic_cmpxchg(&plant_front, thread, -thread) != thread)
		return;
	while (atomic_read(&plant_front) == -thread)
		cond_resched();
}

int jifl_plant_init(void)
{
	int i = match_string(names, ARRAY_SIZE(names), plant);

	if (i < 0) {
		pr_err("no plant is called %s\n", plant);
		return -EINVAL;
	}
	jifl_host_plant = i;
	return 0;
}
#endif
