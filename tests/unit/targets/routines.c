// SPDX-License-Identifier: GPL-2.0
#include "routines.h"
#include "../../../include/uapi/jifl_inline.h"

void routine_add(unsigned long *total, int n)
{
	*total += (unsigned long)(long)n;
}

void routine_add_atomic(unsigned long *total, int n)
{
	__atomic_fetch_add(total, (unsigned long)(long)n, __ATOMIC_SEQ_CST);
}

static void add(struct routine_state *s, long a, long b, long c)
{
	s->sum += a;
}

static void add_narrow(struct routine_state *s, long a, long b, long c)
{
	s->byte += a;
	s->word -= b;
	s->next ^= (unsigned int)c;
}

static void store_all(struct routine_state *s, long a, long b, long c)
{
	s->sum = a;
	s->more = ~b;
	s->product = -c;
	s->byte = b;
	s->word = c;
	s->next = a;
}

static void branches(struct routine_state *s, long a, long b, long c)
{
	if (a > 5)
		s->sum++;
	else if (b < 0)
		s->more++;
	else
		s->least++;
	if ((unsigned long)c > 1000)
		s->most += b;
	if (a == b)
		s->product += 7;
}

static void by_state(struct routine_state *s, long a, long b, long c)
{
	if (s->sum > (unsigned long)a)
		s->sum -= b;
	else
		s->sum += c | 1;
	s->more += s->sum & 1 ? a : b;
}

static void histogram(struct routine_state *s, long a, long b, long c)
{
	s->buckets[a & 15]++;
	s->buckets[(unsigned char)b >> 4] += c;
}

static void ring(struct routine_state *s, long a, long b, long c)
{
	s->ring[s->next++ & 63] = a;
	s->ring[s->next++ & 63] = b;
}

static void loop(struct routine_state *s, long a, long b, long c)
{
	unsigned long i;

	for (i = 0; i < ((unsigned long)a & 7); i++)
		s->sum = s->sum * 3 + i + b;
}

static void through_pointer(struct routine_state *s, long a, long b, long c)
{
	s->self->self->sum += a;
	s->self->more += b;
}

static void largest(struct routine_state *s, long a, long b, long c)
{
	if ((unsigned long)a > s->most)
		s->most = a;
	s->least = (long)s->least < b ? s->least : (unsigned long)b;
}

static void shifts(struct routine_state *s, long a, long b, long c)
{
	s->sum += (a << 7) + (b >> 3) + ((unsigned long)c >> 5);
	s->more += (unsigned int)a << 3;
	s->least ^= (unsigned long)((int)b >> 2);
	s->sum = (s->sum << 13) | (s->sum >> 51);
}

static void early(struct routine_state *s, long a, long b, long c)
{
	if (s->sum & 1) {
		s->sum += 3;
		return;
	}
	s->sum += a;
	if (s->more++ & 2)
		return;
	s->least += b;
}

static void multiplies(struct routine_state *s, long a, long b, long c)
{
	s->product = s->product * a + b * c;
}

static void one_way(struct routine_state *s, long a, long b, long c)
{
	long x = 5;

	if (s->sum++ & 1)
		x = a;
	s->more += x;
}

__attribute__((noinline)) static void outer(struct routine_state *s, long a)
{
	s->sum = s->sum * 5 + a;
	/* All that a function may change. */
	__asm__ volatile("mov $0x77777777, %%eax; mov %%rax, %%rcx; mov %%rax, %%rdx; mov %%rax, %%rsi;"
			 "mov %%rax, %%rdi; mov %%rax, %%r8; mov %%rax, %%r9; mov %%rax, %%r10;"
			 "mov %%rax, %%r11" ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9",
			 "r10", "r11");
}

static void ends_in_another(struct routine_state *s, long a, long b, long c)
{
	s->more += b;
	outer(s, a);
}

static void uses_stack(struct routine_state *s, long a, long b, long c)
{
	volatile unsigned long array[4] = { 1, 2, 3, 4 };

	s->sum += array[a & 3];
}

static void indirect(struct routine_state *s, long a, long b, long c)
{
	s->sum += s->names[a & 3]();
	s->sum++;
}

/* As the kernel writes returns in place of jumps to its return thunk: int3s fill up the rest. */
static void __attribute__((naked)) padded(struct routine_state *s, long a, long b, long c)
{
	asm("test	%rsi, %rsi\n"
	    "js	1f\n"
	    "add	%rsi, (%rdi)\n"
	    "ret\n"
	    "int3\n" "int3\n" "int3\n" "int3\n"
	    "1:	sub	%rdx, 8(%rdi)\n"
	    "ret\n");
}

/* An int3 that is executed is none of these. */
static void __attribute__((naked)) traps(struct routine_state *s, long a, long b, long c)
{
	asm("cmp	$1234567, %rsi\n"
	    "je	1f\n"
	    "add	%rsi, (%rdi)\n"
	    "ret\n"
	    "int3\n"
	    "1:	int3\n"
	    "ret\n");
}

/* Runs backwards where DF is set, as it is not in a function that is called. */
static void __attribute__((naked)) clears(struct routine_state *s, long a, long b, long c)
{
	asm("xor	%eax, %eax\n"
	    "mov	$2, %ecx\n"
	    "rep stosq\n"
	    "ret\n");
}

static void too_long(struct routine_state *s, long a, long b, long c)
{
	volatile unsigned long *p = s->buckets;
	int i;

#pragma GCC unroll 16
	for (i = 0; i < 16; i++) {
		p[i] += a;
		p[i] ^= b;
		p[i] -= p[(i + 1) & 15];
	}
}

const struct routine routines_table[] = {
	{ "add", add, JIFL_INLINE_YES, 0 },
	{ "add_narrow", add_narrow, JIFL_INLINE_YES, 0 },
	{ "store_all", store_all, JIFL_INLINE_YES, 0 },
	{ "branches", branches, JIFL_INLINE_YES, 0 },
	{ "by_state", by_state, JIFL_INLINE_YES, 0 },
	{ "histogram", histogram, JIFL_INLINE_YES, 0 },
	{ "ring", ring, JIFL_INLINE_YES, 0 },
	{ "loop", loop, JIFL_INLINE_YES, 0 },
	{ "through_pointer", through_pointer, JIFL_INLINE_YES, 0 },
	{ "largest", largest, JIFL_INLINE_YES, 0 },
	{ "shifts", shifts, JIFL_INLINE_YES, 0 },
	{ "early", early, JIFL_INLINE_YES, 0 },
	{ "multiplies", multiplies, JIFL_INLINE_YES, 0 },
	{ "one_way", one_way, JIFL_INLINE_YES, 0 },
	{ "ends_in_another", ends_in_another, JIFL_INLINE_YES, 1 },
	{ "padded", padded, JIFL_INLINE_YES, 0 },
	{ "traps", traps, JIFL_INLINE_INDIRECT, 0 },
	{ "clears", clears, JIFL_INLINE_SYSTEM, 0 },
	{ "uses_stack", uses_stack, JIFL_INLINE_STACK, 0 },
	{ "indirect", indirect, JIFL_INLINE_STACK, 0 },
	{ "too_long", too_long, JIFL_INLINE_LONG, 0 },
	{ 0 },
};
