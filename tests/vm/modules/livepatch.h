/* SPDX-License-Identifier: GPL-2.0 */
/* The rest of a livepatch of functions of the kernel itself: `funcs`, before this, are which. */
static struct klp_object objects[] = {
	{ .funcs = funcs },	/* the kernel itself */
	{ }
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objects,
};

static void __exit patch_exit(void)
{
}
module_exit(patch_exit);

MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
