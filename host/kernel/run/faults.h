/* SPDX-License-Identifier: GPL-2.0 */
/* Exceptions on addresses of the code cache. */
#ifndef JIFL_HOST_FAULTS_H
#define JIFL_HOST_FAULTS_H

#include <linux/types.h>

int jifl_faults_init(void);
void jifl_faults_exit(void);
u64 jifl_faults_count(void);

#endif
