// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/jifl: the requests of include/uapi/jifl.h. start.c and read.c have the longer ones. Context:
 * process; sleeps.
 *
 * An open file has at most one session. The session ends when the file is closed. Others may end it
 * earlier; its statistics stay readable.
 *
 * Only a task with CAP_SYS_ADMIN in the first user namespace may open the device. Sessions change
 * the kernel's text and see every task, which is more than perf_event_paranoid or CAP_PERFMON
 * allow. Each request checks the task that makes it again. So a task without the capability that
 * has the open file can only keep the session alive, end it by closing the file, and learn by
 * poll() that it has ended.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../run/codemem.h"
#include "../run/faults.h"
#include "../run/trap.h"
#include "../leave/evict.h"
#include "../session/audit.h"
#include "../session/require.h"
#include "../session/session.h"
#include "../plugin/plugins.h"
#include "../tools/replace/replace.h"
#include "control.h"
#include "dump.h"
#include "../flight/flight.h"
#include "request.h"

/* --- requests ------------------------------------------------------------------- */

static int jifl_control_info(struct jifl_file *f, void *arg)
{
	struct jifl_info *info = arg;

	info->abi_version = JIFL_ABI_VERSION;
	strscpy_pad(info->version, JIFL_VERSION, sizeof(info->version));
	info->cpus = num_possible_cpus();
	info->reserved = 0;
	return 0;
}

static int jifl_control_stop(struct jifl_file *f, void *arg)
{
	struct jifl_stop *req = arg;
	struct jifl_drain drain;
	int ret;

	if (!f->session)
		return -ENOENT;
	ret = jifl_session_stop(f->session, &drain);
	req->draining = drain.threads;
	req->drain_ns = drain.ns;
	return ret;
}

static void jifl_control_native_exits(u64 *exits)
{
	unsigned int cause;
	int cpu;

	memset(exits, 0, JIFL_CAUSES_MAX * sizeof(*exits));
	for_each_possible_cpu(cpu)
		for (cause = 0; cause < JIFL_CAUSES_MAX; cause++)
			exits[cause] += READ_ONCE(per_cpu(jifl_cpu.exits[cause], cpu));
}

static int jifl_control_status(struct jifl_file *f, void *arg)
{
	struct jifl_status *st = arg;
	struct jifl_engine_stats e;

	jifl_session_status(st);
	jifl_engine_stats(&e);
	st->blocks = e.blocks;
	st->translated_blocks = e.translated_blocks;
	st->translated_insns = e.translated_insns;
	st->translate_ns = e.translate_ns;
	st->dispatches = e.dispatches;
	st->links = e.links;
	st->code_used = e.code_used;
	st->code_size = jifl_codemem_size();
	st->code_page = jifl_codemem_page();
	st->side_used = e.side_used;
	st->side_size = jifl_main_side_size();
	st->invalidated = e.invalidated;
	st->traps = jifl_trap_count();
	st->faults = jifl_faults_count();
	jifl_control_native_exits(st->native_exits);
	return 0;
}

static int jifl_control_session_info(struct jifl_file *f, void *arg)
{
	return jifl_session_info(arg);
}

static int jifl_control_detach(struct jifl_file *f, void *arg)
{
	struct jifl_detach *req = arg;
	char plugin[JIFL_NAME_MAX];
	struct jifl_drain drain;
	int ret = -EINTR;

	req->ended = 0;
	req->drain_ns = 0;
	/* Others may start sessions meanwhile, so a fatal signal ends the loop, too. */
	while (!fatal_signal_pending(current)) {
		drain.ns = 0;
		ret = jifl_session_detach(req->id, f->session, &drain, plugin);
		if (ret == -EAGAIN) {
			ret = jifl_plugin_ctl(plugin, false);
			cond_resched();
			/* Another task has stopped the plugin: look again. */
			if (ret == -EALREADY || ret == -ENOENT)
				continue;
		}
		if (ret)
			break;
		req->ended++;
		req->drain_ns += drain.ns;
		if (req->id)
			break;
	}
	if (ret == -ENOENT && (req->ended || !req->id))
		ret = 0;
	return ret;
}

static int jifl_control_plugin_ctl(struct jifl_file *f, void *arg)
{
	struct jifl_plugin_ctl *req = arg;
	int ret;

	if (req->start > 1 || strnlen(req->name, sizeof(req->name)) == sizeof(req->name))
		return -EINVAL;
	ret = jifl_plugin_ctl(req->name, req->start);
	if (ret && req->start)
		jifl_audit_refused("plugin start", ret);
	return ret;
}

static int jifl_control_plugin(struct jifl_file *f, void *arg)
{
	struct jifl_plugin_info *req = arg;

	return jifl_plugin_info(req->index, req);
}

static int jifl_control_plugin_read(struct jifl_file *f, void *arg)
{
	struct jifl_plugin_read *req = arg;

	if (strnlen(req->name, sizeof(req->name)) == sizeof(req->name))
		return -EINVAL;
	return jifl_read_may_see("plugin read") ?: jifl_plugin_read(req);
}

static int jifl_control_routine(struct jifl_file *f, void *arg)
{
	struct jifl_routine_info *req = arg;
	struct ir_inlined found;

	if (!jifl_engine_inlined(req->index, &found))
		return -ENOENT;
	req->copies = found.copies;
	req->calls = found.calls;
	req->reason = found.reason;
	req->reserved = 0;
	memset(req->name, 0, sizeof(req->name));
	snprintf(req->name, sizeof(req->name), "%ps", (void *)(unsigned long)found.fn);
	return 0;
}

static int jifl_control_block(struct jifl_file *f, void *arg)
{
	return jifl_read_may_see("dump") ?: jifl_dump_block(arg);
}

static int jifl_control_replacement(struct jifl_file *f, void *arg)
{
	struct jifl_replacement *req = arg;

	if (req->unused || req->reserved)
		return -EINVAL;
	return jifl_read_may_see("replacement") ?: jifl_hold_info(req);
}

static int jifl_control_flight(struct jifl_file *f, void *arg)
{
	return jifl_flight_request(f, f->file, arg);
}

/* --- the device ------------------------------------------------------------------- */

struct jifl_request {
	unsigned int cmd;
	int (*fn)(struct jifl_file *f, void *arg);
	bool out_on_error;	/* the structure says more about the error */
};

static const struct jifl_request jifl_requests[] = {
	{ JIFL_IOC_START, jifl_start_request, true },
	{ JIFL_IOC_STOP, jifl_control_stop },
	{ JIFL_IOC_STAT, jifl_read_stat },
	{ JIFL_IOC_STATUS, jifl_control_status },
	{ JIFL_IOC_SESSION, jifl_control_session_info },
	{ JIFL_IOC_DETACH, jifl_control_detach, true },
	{ JIFL_IOC_PLUGIN_CTL, jifl_control_plugin_ctl },
	{ JIFL_IOC_PLUGIN, jifl_control_plugin },
	{ JIFL_IOC_ROUTINE, jifl_control_routine },
	{ JIFL_IOC_BLOCK, jifl_control_block, true },
	{ JIFL_IOC_RECORDS, jifl_read_records },
	{ JIFL_IOC_TABLE, jifl_read_table },
	{ JIFL_IOC_PLUGIN_READ, jifl_control_plugin_read },
	{ JIFL_IOC_WARM, jifl_read_warm },
	{ JIFL_IOC_IRQ, jifl_irq_request },
	{ JIFL_IOC_HITS, jifl_read_hits },
	{ JIFL_IOC_REPLACEMENT, jifl_control_replacement },
	{ JIFL_IOC_FLIGHT, jifl_control_flight },
};

/*
 * JIFL_IOC_INFO answers each version of the command. It fills the members that both sides know, and
 * returns the size that it got.
 */
static long jifl_control_any_info(void __user *arg)
{
	struct jifl_info info = {};
	u32 size;

	if (get_user(size, (u32 __user *)arg))
		return -EFAULT;
	if (size < offsetofend(struct jifl_info, abi_version))
		return -EINVAL;
	jifl_control_info(NULL, &info);
	info.size = size;
	return copy_to_user(arg, &info, min_t(size_t, size, sizeof(info))) ? -EFAULT : 0;
}

static long jifl_control_call(struct jifl_file *f, const struct jifl_request *r,
			      void __user *arg)
{
	const u32 size = _IOC_SIZE(r->cmd);
	void *buf;
	int ret;

	/* Each structure begins with its size. */
	buf = memdup_user(arg, size);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (*(u32 *)buf != size) {
		ret = -EINVAL;
		goto out;
	}
	mutex_lock(&f->lock);
	ret = r->fn(f, buf);
	mutex_unlock(&f->lock);
	*(u32 *)buf = size;
	if ((!ret || r->out_on_error) && copy_to_user(arg, buf, size))
		ret = -EFAULT;
out:
	kfree(buf);
	return ret;
}

static int jifl_control_may(const char *what)
{
	if (capable(CAP_SYS_ADMIN) || JIFL_HOST_PLANTED(capability_skipped))
		return 0;
	jifl_audit_refused(what, -EPERM);
	return -EPERM;
}

static long jifl_control_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	unsigned int i;
	int ret = jifl_control_may("request");

	if (ret)
		return ret;
	if (_IOC_TYPE(cmd) != JIFL_IOC_MAGIC)
		return -ENOTTY;
	if (_IOC_NR(cmd) == _IOC_NR(JIFL_IOC_INFO))
		return jifl_control_any_info((void __user *)arg);
	for (i = 0; i < ARRAY_SIZE(jifl_requests); i++) {
		if (cmd == jifl_requests[i].cmd)
			return jifl_control_call(file->private_data, &jifl_requests[i],
						 (void __user *)arg);
		if (_IOC_NR(cmd) == _IOC_NR(jifl_requests[i].cmd))
			return -EINVAL;
	}
	return -ENOTTY;
}

/* EPOLLHUP: the session has ended. There are no other events. Needs no capability. */
static __poll_t jifl_control_poll(struct file *file, poll_table *wait)
{
	struct jifl_file *f = file->private_data;
	__poll_t events = 0;

	poll_wait(file, &jifl_session_ended, wait);
	mutex_lock(&f->lock);
	if (f->session && !READ_ONCE(f->session->running))
		events = EPOLLHUP;
	mutex_unlock(&f->lock);
	return events;
}

static int jifl_control_open(struct inode *inode, struct file *file)
{
	struct jifl_file *f;
	int ret = jifl_control_may("open");

	if (ret)
		return ret;
	f = JIFL_ALLOC(kzalloc(sizeof(*f), GFP_KERNEL));
	if (!f)
		return -ENOMEM;
	mutex_init(&f->lock);
	f->file = file;
	file->private_data = f;
	return 0;
}

/* The session ends here, however its owner has ended. */
static int jifl_control_release(struct inode *inode, struct file *file)
{
	struct jifl_file *f = file->private_data;
	struct jifl_drain drain;

	if (f->session && !JIFL_HOST_PLANTED(owner_outlived)) {
		jifl_session_stop(f->session, &drain);
		jifl_session_free(f->session);
	}
	jifl_flight_closes(f);
	kfree(f);
	return 0;
}

static const struct file_operations jifl_control_fops = {
	.owner = THIS_MODULE,
	.open = jifl_control_open,
	.release = jifl_control_release,
	.poll = jifl_control_poll,
	.unlocked_ioctl = jifl_control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice jifl_control_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "jifl",
	.fops = &jifl_control_fops,
	.mode = 0600,
};

int jifl_control_init(void)
{
	return JIFL_TRY(misc_register(&jifl_control_device));
}

void jifl_control_exit(void)
{
	misc_deregister(&jifl_control_device);
}
