// SPDX-License-Identifier: GPL-2.0
/*
 * trouble: does what a write to /proc/trouble orders, in the context of that system call:
 * warnings, oopses, faults that an exception table mends, stack dumps, long waits. For kernels in
 * a throwaway machine only.
 *
 * A command with a result answers in the log by "trouble: NAME: RESULT". With "irq-" or "softirq-"
 * before it, it is done in a hard interrupt or a softirq, and the write returns when it is done.
 * With "!" behind it the write fails then.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/msr.h>
#include <asm/segment.h>
#include <asm/word-at-a-time.h>

#undef pr_fmt
#define pr_fmt(fmt) "trouble: " fmt

#define NOT_CANONICAL	0x8000dead00000000ul
#define NO_REGISTER	0x801	/* of the x2APIC's: reserved */

static char *page;		/* one, with nothing behind it */
static volatile int zero;

static noinline void do_warn(void)
{
	WARN(1, "as told\n");
	pr_info("after the warning\n");
}

static noinline void do_once(void)
{
	WARN_ON_ONCE(page);
}

static noinline void do_bug(void)
{
	BUG();
}

static noinline void do_null(void)
{
	*(volatile int *)(zero + 8ul) = 1;
}

static noinline void do_read_null(void)
{
	pr_info("read: %d\n", *(volatile int *)(zero + 16ul));
}

static noinline void do_user_null(void)
{
	/* What is neither mapped nor announced as user memory. */
	*(volatile int *)(0x10000ul + zero) = 1;
}

static noinline void do_divide(void)
{
	pr_info("divided: %d\n", 5 / zero);
}

static noinline void do_not_canonical(void)
{
	pr_info("loaded: %ld\n", *(volatile long *)(NOT_CANONICAL + zero));
}

static noinline void do_jump_nowhere(void)
{
	void (*volatile nowhere)(void) = (void *)(unsigned long)zero;

	nowhere();
	barrier();
}

static noinline void do_stack(void)
{
	dump_stack();
	barrier();	/* not a tail call */
}

static noinline int recurse(int depth)
{
	if (!depth)
		dump_stack();
	else
		recurse(depth - 1);
	barrier();	/* not a tail call */
	return depth;
}

static noinline void do_recurse(void)
{
	recurse(40);
}

static noinline void do_nofault(void)
{
	const unsigned long addresses[] = { NOT_CANONICAL, (unsigned long)page + PAGE_SIZE,
					    VMALLOC_START + zero, (unsigned long)page };
	int i;

	memset(page, 'n', PAGE_SIZE);
	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		unsigned long value = 77;
		int mended = 0;

		__get_kernel_nofault(&value, (void *)addresses[i], unsigned long, failed);
		pr_info("nofault %d: %ld\n", i, value);
		continue;
failed:
		mended = 1;
		pr_info("nofault %d: mended %d\n", i, mended);
	}
}

static noinline void do_put_nofault(void)
{
	long value = 5;

	__put_kernel_nofault((void *)(NOT_CANONICAL + zero), &value, long, failed);
	pr_info("put: done\n");
	return;
failed:
	pr_info("put: mended\n");
}

static noinline void do_zeropad(void)
{
	int i;

	memset(page, 'z', PAGE_SIZE);
	for (i = 1; i < 8; i++)
		pr_info("zeropad %d: %lx\n", i, load_unaligned_zeropad(page + PAGE_SIZE - i));
}

static noinline void do_msr(void)
{
	u32 low = 1, high = 0;
	int error = rdmsr_safe(NO_REGISTER, &low, &high);

	pr_info("rdmsr: %d %x %x\n", error, low, high);
	pr_info("wrmsr: %d\n", wrmsr_safe(NO_REGISTER, 1, 0));
}

static noinline void do_unsafe_msr(void)
{
	u32 low = 1, high = 0;

	rdmsr(NO_REGISTER, low, high);
	pr_info("unsafe rdmsr: %x %x\n", low, high);
	wrmsr(NO_REGISTER, 1, 0);
}

static noinline void do_segment(void)
{
	unsigned short was, is;

	savesegment(es, was);
	loadsegment(es, 0xfff8);
	savesegment(es, is);
	loadsegment(es, was);
	pr_info("segment: %x, %x again\n", is, was);
}

static noinline void do_copy_mc(void)
{
	static char to[256];

	pr_info("copy_mc: %lu left\n", copy_mc_to_kernel(to, page + PAGE_SIZE - 100, 200));
}

static noinline void do_spin(void)
{
	unsigned long flags;

	local_irq_save(flags);
	mdelay(100);
	local_irq_restore(flags);
	pr_info("spin: done\n");
}

static noinline void do_sleep(void)
{
	msleep(50);
	pr_info("sleep: done\n");
}

static noinline void do_hang(void)
{
	msleep(100 * MSEC_PER_SEC);
}

static noinline void do_triple(void)
{
	asm volatile("cli; lidt %0; int3" : : "m" ((struct desc_ptr){}) : "memory");
}

/*
 * Data that looks like the return address of a frame must outlive a session's
 * end: of a copy that runs in the code cache, its own return address is such.
 */
static bool kept_asleep;

static noinline void do_wake(void)
{
	WRITE_ONCE(kept_asleep, false);
}

static noinline void do_keep(void)
{
	static unsigned long want;
	unsigned long kept[4];
	int i, changed = 0;

	want = _RET_IP_;
	for (i = 0; i < ARRAY_SIZE(kept); i++)
		WRITE_ONCE(kept[i], want);
	WRITE_ONCE(kept_asleep, true);
	pr_info("keep: asleep\n");
	while (READ_ONCE(kept_asleep))
		msleep(10);
	for (i = 0; i < ARRAY_SIZE(kept); i++)
		changed += READ_ONCE(kept[i]) != want;
	pr_info("keep: %d changed, %s\n", changed,
		within_module(want, THIS_MODULE) ? "native" : "in a copy");
}

/* --- little stack ------------------------------------------------------------- */

#define STACK_PATTERN	0x5ac95ac95ac95ac9ul

/* Bytes above the stack's end where descend() turns back. */
static unsigned long stack_left = 400;
module_param(stack_left, ulong, 0600);

static noinline unsigned long leaf(unsigned long value)
{
	barrier();
	return value * 3;
}

static unsigned long (*volatile indirect_leaf)(unsigned long value) = leaf;
static u8 small[2][64];

/* Kinds of branches that nothing else takes, and a call of the kernel's. */
static noinline unsigned long branch(unsigned long value)
{
	value += leaf(value);
	value += indirect_leaf(value);
	memcpy(small[0], small[1], sizeof(small[0]) - (value & 1));
	if (value & 1)
		value = leaf(value);
	return value + strlen(small[0]);
}

/* Where a command's interrupt has begun: on the first page of the interrupts' stack. */
static unsigned long interrupt_sp;

static unsigned long *stack_end(void)
{
	if (in_hardirq())
		return (void *)(PAGE_ALIGN(interrupt_sp) - IRQ_STACK_SIZE);
	return end_of_stack(current) + 1;	/* past the magic number */
}

static noinline int descend(void)
{
	int depth = 0;

	if (current_stack_pointer > (unsigned long)stack_end() + stack_left)
		depth = descend() + 1;
	else
		branch(1);
	barrier();	/* not a tail call */
	return depth;
}

/* Interrupts are off: their entry takes some of a task's stack as well. */
static noinline void do_deep(void)
{
	unsigned long flags;
	int depth;

	local_irq_save(flags);
	depth = descend();
	local_irq_restore(flags);
	pr_info("deep: %s, stack's end %s\n", depth > 100 ? "deep" : "not deep",
		*end_of_stack(current) == STACK_END_MAGIC ? "intact" : "overwritten");
}

/* How many bytes of the stack branch() writes, with what is inserted, and how many are above it. */
static noinline void do_used(void)
{
	unsigned long top = (unsigned long)task_pt_regs(current);
	unsigned long *p, flags;

	local_irq_save(flags);
	for (p = stack_end(); (unsigned long)p < current_stack_pointer; p++)
		WRITE_ONCE(*p, STACK_PATTERN);
	branch(1);
	for (p = stack_end(); READ_ONCE(*p) == STACK_PATTERN; p++)
		;
	local_irq_restore(flags);
	pr_info("used: %lu below %lu\n", current_stack_pointer - (unsigned long)p,
		top - current_stack_pointer);
}

static noinline unsigned long overflow(void)
{
	volatile unsigned long room[25];

	room[0] = zero;
	return room[0] ? 0 : overflow() + room[0];
}

/* Ends the machine: the kernel panics where it finds a stack's end crossed. */
static noinline void do_overflow(void)
{
	unsigned long flags;

	local_irq_save(flags);
	overflow();
	local_irq_restore(flags);
}

static const struct {
	const char *name;
	void (*fn)(void);
} troubles[] = {
	{ "warn", do_warn }, { "once", do_once }, { "bug", do_bug }, { "null", do_null },
	{ "read_null", do_read_null }, { "user_null", do_user_null }, { "divide", do_divide },
	{ "not_canonical", do_not_canonical }, { "jump_nowhere", do_jump_nowhere },
	{ "stack", do_stack }, { "recurse", do_recurse }, { "nofault", do_nofault },
	{ "put_nofault", do_put_nofault }, { "zeropad", do_zeropad }, { "msr", do_msr },
	{ "unsafe_msr", do_unsafe_msr }, { "segment", do_segment }, { "copy_mc", do_copy_mc },
	{ "spin", do_spin }, { "sleep", do_sleep }, { "keep", do_keep }, { "wake", do_wake },
	{ "hang", do_hang }, { "triple", do_triple }, { "deep", do_deep }, { "used", do_used },
	{ "overflow", do_overflow },
};

/* What the interrupt does. */
static void (*to_do)(void);

static void trouble_irq(struct irq_work *unused)
{
	interrupt_sp = current_stack_pointer;
	to_do();
}

static void trouble_softirq(struct tasklet_struct *unused)
{
	to_do();
}

static DECLARE_TASKLET(tasklet, trouble_softirq);

static void trouble_raise(struct irq_work *unused)
{
	tasklet_schedule(&tasklet);
}

static DEFINE_IRQ_WORK(irq_work, trouble_irq);
static DEFINE_IRQ_WORK(irq_work_raise, trouble_raise);

static void do_in_irq(void (*fn)(void))
{
	to_do = fn;
	irq_work_queue(&irq_work);
	irq_work_sync(&irq_work);
}

static void do_in_softirq(void (*fn)(void))
{
	to_do = fn;
	/* It is done at the end of this interrupt, so the frames are always the same. */
	irq_work_queue(&irq_work_raise);
	irq_work_sync(&irq_work_raise);
	tasklet_kill(&tasklet);
}

static void do_here(void (*fn)(void))
{
	fn();
}

static const struct {
	const char *prefix;
	void (*run)(void (*fn)(void));
} contexts[] = {
	{ "irq-", do_in_irq }, { "softirq-", do_in_softirq }, { "", do_here },
};

static ssize_t trouble_write(struct file *file, const char __user *buf, size_t n, loff_t *pos)
{
	char name[32] = "";
	bool fails;
	int i, where;

	if (!n || n >= sizeof(name) || copy_from_user(name, buf, n))
		return -EFAULT;
	fails = name[n - 1] == '!';
	if (fails)
		name[n - 1] = '\0';
	for (where = 0; !strstarts(name, contexts[where].prefix); where++)
		;
	for (i = 0; i < ARRAY_SIZE(troubles); i++) {
		if (!strcmp(troubles[i].name, name + strlen(contexts[where].prefix))) {
			contexts[where].run(troubles[i].fn);
			return fails ? -EINVAL : n;
		}
	}
	return -EINVAL;
}

static const struct proc_ops trouble_ops = { .proc_write = trouble_write };

static int __init trouble_init(void)
{
	/* vmalloc leaves a hole behind each area. */
	page = vzalloc(PAGE_SIZE);
	if (!page || !proc_create("trouble", 0200, NULL, &trouble_ops)) {
		vfree(page);
		return -ENOMEM;
	}
	return 0;
}
module_init(trouble_init);

static void __exit trouble_exit(void)
{
	remove_proc_entry("trouble", NULL);
	irq_work_sync(&irq_work);
	irq_work_sync(&irq_work_raise);
	tasklet_kill(&tasklet);
	vfree(page);
}
module_exit(trouble_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Trouble on request, for tests");
