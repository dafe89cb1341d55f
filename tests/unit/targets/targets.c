// SPDX-License-Identifier: GPL-2.0
/*
 * Ordinary C functions, one kind of control flow each; see targets.h. Compiled
 * with TABLE as the name of the table, and without the sanitizers. KERNEL_LIKE:
 * no vector registers, no red zone, a stack that is aligned to 8 bytes.
 */
#include "targets.h"

#define NOINLINE static __attribute__((noinline, noclone))

NOINLINE unsigned long loop(unsigned long n)
{
	unsigned long i, sum = 0;

	for (i = 0; i < n; i++)
		sum = sum * 31 + (sum >> 7) + i;
	return sum;
}

NOINLINE unsigned long conditionals(unsigned long n)
{
	unsigned long steps = 0;

	while (n != 1 && steps < 1000) {
		if (n & 1)
			n = 3 * n + 1;
		else
			n >>= 1;
		if (n > 100 || n % 7 == 3)
			steps += 2;
		else
			steps++;
	}
	return steps;
}

/* Uses the red zone: too big for registers, and calls nothing. */
NOINLINE unsigned long leaf(unsigned long n)
{
	volatile unsigned long cells[12];
	unsigned int i;

	for (i = 0; i < 12; i++)
		cells[i] = n * (i + 1);
	for (i = 1; i < 12; i++)
		cells[i] ^= cells[i - 1] >> 3;
	return cells[11];
}

NOINLINE unsigned long calls(unsigned long n)
{
	return leaf(n) + leaf(n + 1) * loop(n & 15) + conditionals(n | 1);
}

NOINLINE unsigned long recursion(unsigned long n)
{
	return n < 2 ? n : recursion(n - 1) + recursion(n - 2);
}

NOINLINE unsigned long odd(unsigned long n);
NOINLINE unsigned long even(unsigned long n)
{
	return n ? odd(n - 1) + 1 : 7;
}

NOINLINE unsigned long odd(unsigned long n)
{
	return n ? even(n - 1) ^ 3 : 9;
}

/* A jump table: jmp *table(,%reg,8), or through a thunk. */
NOINLINE unsigned long dispatch_one(unsigned long op, unsigned long v)
{
	switch (op) {
	case 0: return v + 17;
	case 1: return v * 5;
	case 2: return v ^ 0x5a5a;
	case 3: return v >> 3;
	case 4: return loop(v & 7);
	case 5: return v - 9;
	case 6: return v << 2 | 1;
	case 7: return ~v;
	case 8: return v % 1001;
	case 9: return leaf(v);
	default: return v;
	}
}

NOINLINE unsigned long jump_table(unsigned long n)
{
	unsigned long i, v = n;

	for (i = 0; i < n; i++)
		v = dispatch_one((v ^ i) % 12, v);
	return v;
}

/* Indirect tail calls and indirect calls with few and with many targets. */
NOINLINE unsigned long f0(unsigned long v) { return v + 1; }
NOINLINE unsigned long f1(unsigned long v) { return v * 3; }
NOINLINE unsigned long f2(unsigned long v) { return v ^ 0xff; }
NOINLINE unsigned long f3(unsigned long v) { return v >> 1; }
NOINLINE unsigned long f4(unsigned long v) { return v - 5; }
NOINLINE unsigned long f5(unsigned long v) { return v << 1; }
NOINLINE unsigned long f6(unsigned long v) { return ~v; }
NOINLINE unsigned long f7(unsigned long v) { return v | 64; }
NOINLINE unsigned long f8(unsigned long v) { return v & 0xffffff; }
NOINLINE unsigned long f9(unsigned long v) { return v + 1000; }

static target_fn volatile functions[] = { f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 };

NOINLINE unsigned long tail(target_fn f, unsigned long v)
{
	return f(v);
}

NOINLINE unsigned long pointers_few(unsigned long n)
{
	unsigned long i, v = n;

	for (i = 0; i < n; i++)
		v = tail(functions[i & 1], v) + functions[i % 3](v);
	return v;
}

NOINLINE unsigned long pointers_many(unsigned long n)
{
	unsigned long i, v = n;

	for (i = 0; i < n; i++)
		v = tail(functions[v % 10], v) + functions[i % 10](v);
	return v;
}

struct object {
	struct { target_fn first, second; } *ops;
	unsigned long value;
};

/* call *8(%reg): an operand in memory */
NOINLINE unsigned long methods(unsigned long n)
{
	static const struct { target_fn first, second; } ops[2] = { { f0, f1 }, { f2, f3 } };
	struct object o[2] = { { (void *)&ops[0], n }, { (void *)&ops[1], n + 1 } };
	unsigned long i;

	for (i = 0; i < n; i++) {
		o[i & 1].value += o[i & 1].ops->first(o[i & 1].value);
		o[i & 1].value ^= o[i & 1].ops->second(o[i & 1].value);
	}
	return o[0].value + o[1].value;
}

static unsigned long global = 5;
static unsigned char buffer[512];

NOINLINE unsigned long globals(unsigned long n)
{
	unsigned long i;

	global = 5;
	for (i = 0; i < n; i++) {
		global += i * 3;
		buffer[i % sizeof(buffer)] ^= global;
		global ^= buffer[(i * 7) % sizeof(buffer)];
		buffer[i % sizeof(buffer)] = 0;
	}
	return global;
}

NOINLINE unsigned long strings(unsigned long n)
{
	unsigned char from[300], to[300];
	unsigned long i, sum = 0, c;
	void *d, *s;

	for (i = 0; i < 300; i++)
		from[i] = i * n;
	d = to;
	s = from;
	c = 300;
	asm volatile("rep movsb" : "+D" (d), "+S" (s), "+c" (c) : : "memory");
	d = to + 100;
	c = 10;
	asm volatile("rep stosq" : "+D" (d), "+c" (c) : "a" (n) : "memory");
	d = to;
	c = 300;
	asm volatile("repne scasb" : "+D" (d), "+c" (c) : "a" (n & 0xff) : "memory", "cc");
	sum = c;
	d = to;
	s = from;
	c = 300;
	asm volatile("repe cmpsb" : "+D" (d), "+S" (s), "+c" (c) : : "memory", "cc");
	for (i = 0; i < 300; i++)
		sum = sum * 3 + to[i];
	return sum + c * 1000;
}

struct big {
	unsigned long a, b, c, d, e;
};

NOINLINE struct big make(unsigned long n, struct big by)
{
	return (struct big){ n, n ^ by.a, n + by.b, n - by.c, by.e };
}

NOINLINE unsigned long structures(unsigned long n)
{
	struct big b = { 1, 2, 3, 4, 5 };
	unsigned long i;

	for (i = 0; i < n; i++)
		b = make(i, b);
	return b.a + 3 * b.b + 5 * b.c + 7 * b.d + b.e;
}

#ifndef KERNEL_LIKE
NOINLINE unsigned long floating(unsigned long n)
{
	double x = 1.0;
	unsigned long i;

	for (i = 0; i < n; i++)
		x = x * 1.0001 + (double)i / (x + 3.0);
	return (unsigned long)(x * 1000);
}
#endif

/* A stack that grows by what is asked for. */
NOINLINE unsigned long dynamic_stack(unsigned long n)
{
	volatile unsigned char *p = __builtin_alloca(n % 500 + 16);
	unsigned long i, sum = 0;

	for (i = 0; i < n % 500 + 16; i++)
		p[i] = i ^ n;
	for (i = 0; i < n % 500 + 16; i++)
		sum = sum * 17 + p[i];
	return sum;
}

NOINLINE int compare(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

/* Shell sort with a comparison by pointer. */
NOINLINE void sort(unsigned int *v, unsigned int n, int (*cmp)(const void *, const void *))
{
	unsigned int gap, i, j, t;

	for (gap = n / 2; gap; gap /= 2) {
		for (i = gap; i < n; i++) {
			t = v[i];
			for (j = i; j >= gap && cmp(&v[j - gap], &t) > 0; j -= gap)
				v[j] = v[j - gap];
			v[j] = t;
		}
	}
}

NOINLINE unsigned long sorting(unsigned long n)
{
	unsigned int v[64], i;
	unsigned long sum = 0;

	for (i = 0; i < 64; i++)
		v[i] = (i + n) * 2654435761u;
	sort(v, 64, compare);
	for (i = 0; i < 64; i++)
		sum = sum * 31 + v[i];
	return sum;
}

const struct target TABLE[] = {
	{ "loop", loop, 1000 },
	{ "conditionals", conditionals, 97 },
	{ "leaf", leaf, 12345 },
	{ "calls", calls, 123 },
	{ "recursion", recursion, 12 },
	{ "mutual recursion", even, 101 },
	{ "jump table", jump_table, 300 },
	{ "few pointers", pointers_few, 100 },
	{ "many pointers", pointers_many, 200 },
	{ "methods", methods, 100 },
	{ "globals", globals, 1000 },
	{ "strings", strings, 77 },
	{ "structures", structures, 50 },
#ifndef KERNEL_LIKE
	{ "floating point", floating, 200 },
#endif
	{ "dynamic stack", dynamic_stack, 321 },
	{ "sorting", sorting, 3 },
	{ 0, 0, 0 },
};
