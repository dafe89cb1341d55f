// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Attaches a BPF program to a kernel function's entry or exit, or to a hook of the security
 * modules, without any library, and counts how often this thread group's parent runs into it.
 *
 *	fentry FUNCTION entry|exit|lsm|kprobe|multi [all]
 *
 * lsm: FUNCTION is bpf_lsm_HOOK, and what the parent wants there is denied (EACCES). kprobe: at a
 * kprobe, as perf_event_open makes it; multi: at an fprobe (kprobe.multi of libbpf). all: counts
 * all processes.
 *
 * Prints "attached", or "refused ERRNO" and ends; waits for a line; detaches and
 * prints how often the process that started it executed the function.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static int bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* --- BTF: the number of a function's type ---------------------------------------- */

static char *read_btf(void)
{
	size_t room = 32 << 20, n = 0;
	char *buf = malloc(room);
	ssize_t got;
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY);

	if (fd < 0 || !buf)
		die("/sys/kernel/btf/vmlinux");
	while ((got = read(fd, buf + n, room - n)) > 0)
		n += got;
	close(fd);
	return buf;
}

/* Bytes that follow a type's common part. */
static size_t tail_of(const struct btf_type *t)
{
	unsigned int n = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return n * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return n * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return n * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return n * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return n * sizeof(struct btf_var_secinfo);
	}
	return 0;
}

static uint32_t type_of(const char *function)
{
	const char *btf = read_btf();
	const struct btf_header *h = (const void *)btf;
	const char *names = btf + h->hdr_len + h->str_off;
	const char *p = btf + h->hdr_len + h->type_off, *end = p + h->type_len;
	uint32_t id;

	for (id = 1; p < end; id++) {
		const struct btf_type *t = (const void *)p;

		if (BTF_INFO_KIND(t->info) == BTF_KIND_FUNC &&
		    !strcmp(names + t->name_off, function))
			return id;
		p += sizeof(*t) + tail_of(t);
	}
	fprintf(stderr, "%s: has no type\n", function);
	exit(2);
}

/* --- the program ------------------------------------------------------------------- */

#define INSN(c, d, s, o, i)	((struct bpf_insn){ .code = (c), .dst_reg = (d), \
						    .src_reg = (s), .off = (o), .imm = (i) })

static int new_map(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8,
				.max_entries = 1 };
	int fd = bpf(BPF_MAP_CREATE, &attr);

	if (fd < 0)
		die("BPF_MAP_CREATE");
	return fd;
}

static const struct way {
	const char *name;
	int program, attach, verdict;
} ways[] = {
	{ "entry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, 0 },
	{ "exit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, 0 },
	{ "lsm", BPF_PROG_TYPE_LSM, BPF_LSM_MAC, -EACCES },
	{ "kprobe", BPF_PROG_TYPE_KPROBE, 0, 0 },
	{ "multi", BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, 0 },
};

static const struct way *way_of(const char *name)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	return NULL;
}

/* if (all || pid of the process == this one's parent) { map[0]++; return verdict; } return 0 */
static int load(const char *function, const struct way *way, int map, bool all)
{
	static char log[65536];
	/* No process has this number. The verifier wants each instruction to be reachable. */
	const struct bpf_insn others = all ?
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 11, -1) :
		INSN(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 11, getppid());
	struct bpf_insn program[] = {
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid),
		INSN(BPF_ALU64 | BPF_RSH | BPF_K, 0, 0, 0, 32),
		others,
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, way->verdict),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = way->program,
		.expected_attach_type = way->attach,
		.insn_cnt = sizeof(program) / sizeof(program[0]),
		.insns = (uintptr_t)program,
		.license = (uintptr_t)"GPL",
		.attach_btf_id = way->program == BPF_PROG_TYPE_KPROBE ? 0 : type_of(function),
		.log_level = 1,
		.log_buf = (uintptr_t)log,
		.log_size = sizeof(log),
	};
	int fd = bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0) {
		fprintf(stderr, "%s\n", log);
		die("BPF_PROG_LOAD");
	}
	return fd;
}

/* A kprobe of perf's that calls the program. Negative: it is refused. */
static int attach_kprobe(const char *function, int program)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .sample_period = 1,
					.config1 = (uintptr_t)function };
	FILE *type = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	int fd;

	if (!type || fscanf(type, "%u", &attr.type) != 1)
		die("the type of kprobes");
	fclose(type);
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (fd >= 0 && (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) ||
			ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)))
		die("a program at a kprobe");
	return fd;
}

static int attach(const char *function, const struct way *way, int program)
{
	union bpf_attr attr = { 0 };

	if (way->attach == BPF_TRACE_KPROBE_MULTI) {
		attr.link_create.prog_fd = program;
		attr.link_create.attach_type = way->attach;
		attr.link_create.kprobe_multi.cnt = 1;
		attr.link_create.kprobe_multi.syms = (uintptr_t)&function;
		return bpf(BPF_LINK_CREATE, &attr);
	}
	if (way->program == BPF_PROG_TYPE_KPROBE)
		return attach_kprobe(function, program);
	attr.raw_tracepoint.prog_fd = program;
	return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

static uint64_t count_in(int map)
{
	uint64_t value = 0;
	uint32_t key = 0;
	union bpf_attr attr = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)&value };

	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
		die("BPF_MAP_LOOKUP_ELEM");
	return value;
}

int main(int argc, char **argv)
{
	const bool all = argc == 4 && !strcmp(argv[3], "all");
	const struct way *way = argc == 3 || all ? way_of(argv[2]) : NULL;
	int map, link;

	if (!way) {
		fprintf(stderr, "usage: fentry FUNCTION entry|exit|lsm|kprobe|multi [all]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	map = new_map();
	link = attach(argv[1], way, load(argv[1], way, map, all));
	if (link < 0) {
		printf("refused %d\n", errno);
		return 0;
	}
	printf("attached\n");
	getchar();
	close(link);
	printf("%llu\n", (unsigned long long)count_in(map));
	return 0;
}
