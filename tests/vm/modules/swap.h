/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The body of jifl_swap_a and jifl_swap_b: /proc/jifl_swap holds ANSWER, which stands in its code.
 * Each module is loaded at the address where the other was.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

/*
 * 2 KB of code in pieces of some 128 bytes: one of them has a function for each, where the other
 * is in the middle of one.
 */
#ifdef HELPED
#define PIECE(n) \
	static __attribute__((noipa)) int swap_piece_##n(void) \
	{ \
		asm volatile(".skip 112, 0x90"); \
		return 0; \
	}
PIECE(a) PIECE(b) PIECE(c) PIECE(d) PIECE(e) PIECE(f) PIECE(g) PIECE(h)
PIECE(i) PIECE(j) PIECE(k) PIECE(l) PIECE(m) PIECE(n) PIECE(o) PIECE(p)

static int swap_pieces(void)
{
	return swap_piece_a() + swap_piece_b() + swap_piece_c() + swap_piece_d() +
	       swap_piece_e() + swap_piece_f() + swap_piece_g() + swap_piece_h() +
	       swap_piece_i() + swap_piece_j() + swap_piece_k() + swap_piece_l() +
	       swap_piece_m() + swap_piece_n() + swap_piece_o() + swap_piece_p();
}
#else
static int swap_pieces(void)
{
	asm volatile(".rept 16\n jmp 1f\n .skip 126, 0x90\n1:\n .endr");
	return 0;
}
#endif

static int swap_show(struct seq_file *f, void *v)
{
	seq_printf(f, "%d\n", swap_pieces() + ANSWER);
	return 0;
}

static int __init swap_init(void)
{
	return proc_create_single("jifl_swap", 0444, NULL, swap_show) ? 0 : -ENOMEM;
}
module_init(swap_init);

static void __exit swap_exit(void)
{
	remove_proc_entry("jifl_swap", NULL);
}
module_exit(swap_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Code that takes another's place, for JIFL's tests");
