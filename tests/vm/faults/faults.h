/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of faults share; main.c says what the program is for. */
#ifndef JIFL_FAULTS_H
#define JIFL_FAULTS_H

#include <stddef.h>

#define PAGE 4096ul

/* The parts. */
void table(void);
void sleeping(void);
void race(void);
void misc(void);

/* Says what failed, with errno, and ends the program. */
void die(const char *what);

/* Private memory of its own. */
void *map(size_t size, int prot);

/* A number that tells contents from others. */
unsigned long sum(const void *p, size_t n);

/* Opens a file without a name, of four pages: of `a`, of `b`, ... */
int make_file(void);

#endif
