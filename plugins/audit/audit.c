// SPDX-License-Identifier: GPL-2.0
/*
 * audit: who opens files, executes programs, changes credentials and loads modules. It shows how
 * probes at a few functions of the kernel make a security log. No rules are needed, and no task is
 * missed, a task of the kernel neither.
 *
 *	jifl start audit; jifl read audit --follow; jifl stop audit
 *
 * A line: time in ns, process, user, command, what it does, with what. An open is recorded when it
 * is tried. So is what the kernel opens for itself.
 */
#include <jifl.h>
#include <linux/binfmts.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/sched.h>

enum { OPEN, EXEC, CRED, MODULE_LOAD, KINDS };

static const char *const does[] = { "opens", "executes", "becomes", "loads" };

struct record {
	pid_t pid;
	uid_t uid, euid;
	int does;
	char comm[TASK_COMM_LEN];
	char what[96];
};

static probe_t probes[KINDS];
static ring_t ring;

/* --- analysis --------------------------------------------------------------------------- */

static void note(int kind, const char *what, const struct cred *becomes)
{
	const struct cred *cred = becomes ?: current_cred();
	struct record record = {
		.pid = current->tgid,
		.uid = __kuid_val(current_uid()),
		.euid = __kuid_val(cred->euid),
		.does = kind,
	};

	memcpy(record.comm, current->comm, sizeof(record.comm));
	if (what)
		strscpy(record.what, what, sizeof(record.what));
	ring_put(&ring, &record);
}

/* struct file *do_filp_open(int dfd, struct filename *pathname, const struct open_flags *op) */
static void on_open(const struct filename *name)
{
	note(OPEN, name->name, NULL);
}

/* int begin_new_exec(struct linux_binprm *bprm): from here on the program is another one. */
static void on_exec(const struct linux_binprm *bprm)
{
	note(EXEC, bprm->filename, NULL);
}

/* int commit_creds(struct cred *new) */
static void on_cred(const struct cred *new)
{
	note(CRED, NULL, new);
}

/* static int do_init_module(struct module *mod) */
static void on_module(const struct module *mod)
{
	note(MODULE_LOAD, mod->name, NULL);
}

/* --- what is probed ---------------------------------------------------------------------- */

static int probe_at(int kind, const char *function, void *fn, int argument)
{
	int ret = probe_init_name(&probes[kind], PROBE_BEFORE, function, 0);

	return ret ?: probe_insert_call(&probes[kind], fn, ARG_REG, argument, ARG_END);
}

static void show(const void *data, const struct ring_info *info, char *line, size_t size)
{
	const struct record *r = data;

	if (r->does == CRED)
		scnprintf(line, size, "%llu %d %u %s becomes %u", info->ns, r->pid, r->uid, r->comm,
			  r->euid);
	else
		scnprintf(line, size, "%llu %d %u %s %s %s", info->ns, r->pid, r->uid, r->comm,
			  does[r->does], r->what);
}

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	int ret = ring_init(&ring, sizeof(struct record), 8192, show);

	ret = ret ?: probe_at(OPEN, "do_filp_open", on_open, VALUE_ARG1);
	ret = ret ?: probe_at(EXEC, "begin_new_exec", on_exec, VALUE_ARG0);
	ret = ret ?: probe_at(CRED, "commit_creds", on_cred, VALUE_ARG0);
	ret = ret ?: probe_at(MODULE_LOAD, "do_init_module", on_module, VALUE_ARG0);
	return ret ?: probe_start_all(probes, KINDS);
}

static void plugin_stop(void)
{
	probe_stop_all(probes, KINDS);
}
