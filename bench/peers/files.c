// SPDX-License-Identifier: GPL-2.0
/*
 * /proc/jifl_bench_peers/, text in and out:
 *
 *  sites   what collect.c found
 *  probes  open: refused while another process has it open. Each write is a request:
 *		kprobe count|trace ADDRESS...
 *		ftrace count|trace ADDRESS...
 *		start			of the ftrace callback; probes work at once
 *		settle			waits until kprobes are optimised
 *	     reading: "hits N", "missed N", "jumps N" of optimised kprobes, and for each
 *	     address that was refused "refused ADDRESS ERROR". Closing removes everything,
 *	     so nothing stays behind when a process dies.
 */
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "peers.h"

#define REQUEST_MAX	4096
#define REFUSED_MAX	4096

static struct proc_dir_entry *directory;
static DEFINE_MUTEX(lock);	/* everything below, and the adders' data */
static bool taken;
static int nrefused;
static struct refused {
	unsigned long addr;
	int err;
} *refused;

/* --- sites ------------------------------------------------------------------------------ */

static int sites_show(struct seq_file *f, void *v)
{
	peers_sites_show(f);
	return 0;
}

/* --- requests ----------------------------------------------------------------------------- */

static void refuse(unsigned long addr, int err)
{
	if (nrefused < REFUSED_MAX)
		refused[nrefused++] = (struct refused){ addr, err };
}

static int add_all(char *addresses, int (*add)(unsigned long addr, enum peers_job job),
		   enum peers_job job)
{
	unsigned long addr;
	char *word;
	int err;

	while ((word = strsep(&addresses, " \n"))) {
		if (!*word)
			continue;
		if (kstrtoul(word, 16, &addr))
			return -EINVAL;
		err = add(addr, job);
		if (err == -ENOMEM)
			return err;
		if (err)
			refuse(addr, err);
	}
	return 0;
}

static int request(char *text)
{
	char *method = strsep(&text, " \n");
	char *job_name = strsep(&text, " \n");
	enum peers_job job = PEERS_COUNT;

	if (!strcmp(method, "start"))
		return peers_ftrace_start();
	if (!strcmp(method, "settle"))
		return peers_kprobes_settle();
	if (!job_name || !text)
		return -EINVAL;
	if (!strcmp(job_name, "trace"))
		job = PEERS_TRACE;
	else if (strcmp(job_name, "count"))
		return -EINVAL;
	if (!strcmp(method, "kprobe"))
		return add_all(text, peers_kprobe_add, job);
	if (!strcmp(method, "ftrace"))
		return add_all(text, peers_ftrace_add, job);
	return -EINVAL;
}

static ssize_t probes_write(struct file *file, const char __user *buf, size_t n, loff_t *pos)
{
	char *text;
	int err;

	if (n > REQUEST_MAX)
		return -E2BIG;
	text = memdup_user_nul(buf, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&lock);
	err = request(text);
	mutex_unlock(&lock);
	kfree(text);
	return err ?: n;
}

/* --- probes ------------------------------------------------------------------------------- */

static int probes_show(struct seq_file *f, void *v)
{
	int i;

	mutex_lock(&lock);
	seq_printf(f, "hits %lu\nmissed %lu\njumps %lu\n", peers_hits_sum(),
		   peers_kprobes_missed(), peers_kprobes_jumps());
	for (i = 0; i < nrefused; i++)
		seq_printf(f, "refused %lx %d\n", refused[i].addr, refused[i].err);
	mutex_unlock(&lock);
	return 0;
}

static int take(void)
{
	if (taken)
		return -EBUSY;
	refused = vzalloc(array_size(REFUSED_MAX, sizeof(*refused)));
	if (!refused)
		return -ENOMEM;
	taken = true;
	nrefused = 0;
	peers_hits_reset();
	return 0;
}

static void give_back(void)
{
	peers_kprobes_remove();
	peers_ftrace_remove();
	vfree(refused);
	refused = NULL;
	taken = false;
}

static int probes_open(struct inode *inode, struct file *file)
{
	int err;

	mutex_lock(&lock);
	err = take();
	if (!err) {
		err = single_open(file, probes_show, NULL);
		if (err)
			give_back();
	}
	mutex_unlock(&lock);
	return err;
}

static int probes_release(struct inode *inode, struct file *file)
{
	mutex_lock(&lock);
	give_back();
	mutex_unlock(&lock);
	return single_release(inode, file);
}

static const struct proc_ops probes_ops = {
	.proc_open = probes_open,
	.proc_read = seq_read,
	.proc_write = probes_write,
	.proc_lseek = seq_lseek,
	.proc_release = probes_release,
};

/* --- the directory ------------------------------------------------------------------------ */

int peers_files_create(void)
{
	directory = proc_mkdir("jifl_bench_peers", NULL);
	if (directory && proc_create_single("sites", 0400, directory, sites_show) &&
	    proc_create("probes", 0600, directory, &probes_ops))
		return 0;
	proc_remove(directory);
	return -ENOMEM;
}

/* A process that has a file open loses it first. */
void peers_files_remove(void)
{
	proc_remove(directory);
}
