// SPDX-License-Identifier: GPL-2.0
/*
 * breakpoint: what the processor holds where the kernel comes to an instruction: registers, and the
 * functions that have called it. On request the task that came there is stopped, so that one can
 * look at it with other tools.
 *
 *	echo do_filp_open > /sys/module/breakpoint/parameters/function
 *	echo 1 > /sys/module/breakpoint/parameters/stop
 *	jifl start breakpoint; ...; jifl read breakpoint
 *	kill -CONT PID			(or wait for so many seconds as `limit` says)
 *	jifl stop breakpoint
 *
 * A probe's function must not sleep: code of the kernel may hold any lock where it is called. So
 * the task is stopped as by SIGSTOP, when it is about to go back to user space: its system call has
 * ended then, and the task holds nothing. What comes there in an interrupt, in the handler of a
 * breakpoint, or as a task of the kernel, is only recorded. One task is stopped at a time.
 */
#include <jifl.h>
#include <linux/irq_work.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/stacktrace.h>
#include <linux/workqueue.h>

enum { FRAMES = 6 };

static char function[KSYM_NAME_LEN] = "do_filp_open";
module_param_string(function, function, sizeof(function), 0644);
MODULE_PARM_DESC(function, "name of the function");
static unsigned long offset;
module_param(offset, ulong, 0644);
MODULE_PARM_DESC(offset, "of the instruction in it");
static int pid;
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "the process; 0: any, and interrupts");
static bool stop;
module_param(stop, bool, 0644);
MODULE_PARM_DESC(stop, "stop the task");
static unsigned int limit = 10;
module_param(limit, uint, 0644);
MODULE_PARM_DESC(limit, "after so many seconds it goes on");

struct record {
	struct pt_regs regs;
	pid_t pid;
	unsigned int nframes;
	unsigned long frames[FRAMES];
};

static probe_t probe;
static ring_t ring;
static struct task_struct *stopped;	/* a reference; NULL: none is */

/* --- analysis ------------------------------------------------------------------------------- */

static void go_on(struct work_struct *work)
{
	struct task_struct *task = xchg(&stopped, NULL);

	if (!task)
		return;
	send_sig(SIGCONT, task, 1);
	put_task_struct(task);
}

static DECLARE_DELAYED_WORK(going_on, go_on);

static void stop_now(struct irq_work *work)
{
	send_sig(SIGSTOP, stopped, 1);
	schedule_delayed_work(&going_on, limit * HZ);
}

static DEFINE_IRQ_WORK(stopping, stop_now);

static void may_stop(void)
{
	if (!stop || !in_task() || current->flags & PF_KTHREAD || READ_ONCE(stopped))
		return;
	if (cmpxchg(&stopped, NULL, get_task_struct(current))) {
		put_task_struct(current);
		return;
	}
	/* It runs when interrupts are on: nobody holds what a signal needs then. */
	irq_work_queue(&stopping);
}

static void hit(const struct pt_regs *regs)
{
	struct record record;

	if (pid && current->tgid != pid)
		return;
	record.regs = *regs;
	record.pid = current->pid;
	/* Without this function. */
	record.nframes = stack_trace_save(record.frames, FRAMES, 1);
	ring_put(&ring, &record);
	may_stop();
}

/* --- the plugin ------------------------------------------------------------------------------- */

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *r = data;
	const struct pt_regs *g = &r->regs;
	unsigned int i;
	int n;

	n = scnprintf(line, size, "%llu %d %pS ax %lx bx %lx cx %lx dx %lx si %lx di %lx",
		      info->ns, r->pid, (void *)g->ip, g->ax, g->bx, g->cx, g->dx, g->si, g->di);
	n += scnprintf(line + n, size - n, " bp %lx sp %lx flags %lx", g->bp, g->sp, g->flags);
	for (i = 0; i < r->nframes; i++)
		n += scnprintf(line + n, size - n, " <%pS", (void *)r->frames[i]);
}

static int plugin_init(void)
{
	return 0;
}

/* No function of the probe runs. No task stays stopped, and nothing of this file is to run. */
static void let_go(void)
{
	irq_work_sync(&stopping);
	cancel_delayed_work_sync(&going_on);
	go_on(NULL);
}

static void plugin_exit(void)
{
	let_go();
}

static int plugin_start(void)
{
	int ret = ring_init(&ring, sizeof(struct record), 1024, show);

	ret = ret ?: probe_init_name(&probe, PROBE_BEFORE, strim(function), offset);
	ret = ret ?: probe_insert_call(&probe, hit, ARG_CONTEXT, ARG_END);
	ret = ret ?: probe_start(&probe);
	/* Before it was refused the probe may have been met. */
	if (ret)
		let_go();
	return ret;
}

static void plugin_stop(void)
{
	probe_stop(&probe);
	let_go();
}
