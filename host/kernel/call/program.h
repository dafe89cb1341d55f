/* SPDX-License-Identifier: GPL-2.0 */
/* Programs of user space for places, see uapi/jifl_action.h: copied and checked. */
#ifndef JIFL_HOST_PROGRAM_H
#define JIFL_HOST_PROGRAM_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct bpf_prog;

/* A checked program. */
struct jifl_program {
	const struct jifl_op *ops;
	u32 n;
	struct bpf_prog *bpf;	/* a reference; NULL: none */
};

/* Those of a session. */
struct jifl_programs {
	u32 n;
	u32 nstrings;
	bool bpf;		/* some program has a BPF program */
	bool groups, stacks, records; /* some program has names of groups; stacks; records */
	bool objects;		/* some program tells what calls are about */
	bool sums;		/* some program adds values of calls up */
	u32 ring;		/* bytes of records for each CPU */
	struct jifl_program *programs;
	struct jifl_op *ops;
	char *strings;
};

/*
 * Copies and checks the programs of a request. NULL: it has none. -EINVAL, -ENOMEM, -EFAULT;
 * -EBADRQC with req->bad_action and bad_op set; of a BPF program what the kernel says: -EBADF, or
 * -EINVAL for another type. Process context; sleeps.
 */
struct jifl_programs *jifl_programs_open(struct jifl_start *req);
/* Is it one program, a condition on registers of arguments, rsp and memory, and nothing else? */
bool jifl_programs_is_condition(const struct jifl_programs *p);
/* Takes NULL, too. When no inserted code is left that runs them. Sleeps. */
void jifl_programs_close(struct jifl_programs *p);

#endif
