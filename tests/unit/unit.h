/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The frame of the unit tests. A test is a function in a file of the folder that mirrors the
 * engine's. It registers itself and runs in a child process of its own. It fails by a check that
 * does not hold, a signal, or its time limit.
 */
#ifndef JIFL_UNIT_H
#define JIFL_UNIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../host/user/user.h"

struct unit_test {
	const char *name;	/* folder/file: what holds */
	void (*run)(void);
	struct unit_test *next;
};

void unit_register(struct unit_test *test);

#define UNIT_TEST(fn, what) \
	static void fn(void); \
	static struct unit_test fn##_test = { .name = what, .run = fn }; \
	__attribute__((constructor)) static void fn##_register(void) \
	{ \
		unit_register(&fn##_test); \
	} \
	static void fn(void)

/* Says that a check failed: what was to hold, and by printf arguments what was seen. */
void unit_fail(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define CHECK(condition, ...) \
	do { \
		if (!(condition)) \
			unit_fail(__FILE__, __LINE__, #condition, "" __VA_ARGS__); \
	} while (0)

#define CHECK_EQ(a, b) CHECK_EQ_IN("", a, b)
/* The same, with a name of what is checked. */
#define CHECK_EQ_IN(name, a, b) \
	do { \
		unsigned long long a_ = (unsigned long long)(a); \
		unsigned long long b_ = (unsigned long long)(b); \
		if (a_ != b_) \
			unit_fail(__FILE__, __LINE__, #a " is " #b, "%#llx, %#llx %s", \
				  a_, b_, (name)); \
	} while (0)

/* Ends the test: the rest makes no sense. */
#define REQUIRE(condition, ...) \
	do { \
		if (!(condition)) { \
			unit_fail(__FILE__, __LINE__, #condition, "" __VA_ARGS__); \
			exit(1); \
		} \
	} while (0)

/* True in a build with sanitizers: what is slow is done less often. */
#if defined(__SANITIZE_ADDRESS__)
#define UNIT_SANITIZED 1
#else
#define UNIT_SANITIZED 0
#endif

/* Bytes of hex, for messages; static storage. */
const char *unit_hex(const void *bytes, u32 n);

/* Cache sizes that are plenty for most tests. */
enum { UNIT_CODE = 4 << 20, UNIT_SIDE = 4 << 20 };

#endif
