// SPDX-License-Identifier: GPL-2.0
/*
 * Memory and time of the in-process host: the code cache in two mappings of one
 * file, side tables, the engine lock, calls into the cache, and traps in it.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../../engine/base/plant.h"
#include "targets.h"
#include "user.h"

/* --- dispatch.S --- */
extern const char user_host_dispatch_direct_red_zone[], user_host_dispatch_indirect_red_zone[];
extern const char user_host_dispatch_direct_no_red_zone[];
extern const char user_host_dispatch_indirect_no_red_zone[];
extern const char user_host_return_site[];
extern const char user_host_trap_red_zone[], user_host_trap_no_red_zone[];
/* What those stubs push, for the thread that has trapped. */
__thread struct jifl_frame user_host_trap_frame;
bool user_host_has_xsave;

u64 user_host_exits[JIFL_CAUSES_MAX];
u32 user_host_training_hits = JIFL_TRAINING_HITS;
/* Of all threads. Lost counts do not matter. */
static s64 training[JIFL_TRAINING_CELLS];

enum { INT3 = 0xcc };

static u8 *executable, *writable;
static u32 code_bytes;
static void *side;
static u64 side_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *trap_stub;
u64 user_host_traps;

/* For the code cache; see thread_words in struct jifl_config. */
static __thread u64 thread_words[2];

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static u64 address(const void *p)
{
	return (u64)(unsigned long)p;
}

static void unmap(void)
{
	user_host_targets_unmap();
	if (!code_bytes)
		return;
	munmap(executable, code_bytes);
	munmap(writable, code_bytes);
	munmap(side, side_bytes);
}

static void map_code(u32 size)
{
	int fd = memfd_create("jifl-code-cache", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size))
		die("user host: memory for the code cache");
	writable = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	executable = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_32BIT, fd, 0);
	if (writable == MAP_FAILED || executable == MAP_FAILED)
		die("user host: mapping the code cache");
	close(fd);
	memset(writable, INT3, size);
	code_bytes = size;
}

static void map_side(u64 size)
{
	side = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (side == MAP_FAILED)
		die("user host: memory for the side tables");
	side_bytes = size;
}

/* rip points behind the int3 already. */
static void on_trap(int sig, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (jifl_engine_trap((u64)*rip - 1, &user_host_trap_frame) == JIFL_TRAP_NONE) {
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	*rip = (greg_t)address(trap_stub);
	__atomic_fetch_add(&user_host_traps, 1, __ATOMIC_RELAXED);
}

static void catch_traps(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGTRAP, &action, NULL))
		die("user host: SIGTRAP");
}

bool user_host_poison;

/* A whole run of tests is repeated with this setting. */
__attribute__((constructor))
static void poison_from_environment(void)
{
	user_host_poison = getenv("JIFL_POISON");
}

static bool has_xsave(void)
{
	u32 a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE);
}

struct ir_operand user_host_operand(const void *cell)
{
	u64 at = address(cell);

	if (!jifl_fits_s32((s64)at)) {
		fprintf(stderr, "user host: a cell at %llx is out of reach\n", at);
		exit(2);
	}
	return (struct ir_operand){ .disp = (s32)at };
}

struct jifl_config user_host_config(u32 code_size, u64 side_size)
{
	unmap();
	map_code(code_size);
	map_side(side_size);
	memset(user_host_exits, 0, sizeof(user_host_exits));
	user_host_has_xsave = has_xsave();
	catch_traps();
	trap_stub = user_host_trap_red_zone;
	user_host_traps = 0;
	return (struct jifl_config){
		.code_base = address(executable),
		.code_size = code_size,
		.side = side,
		.side_size = side_size,
		.dispatch_direct = address(user_host_dispatch_direct_red_zone),
		.dispatch_indirect = address(user_host_dispatch_indirect_red_zone),
		.return_site = address(user_host_return_site),
		.exit_counters = user_host_operand(user_host_exits),
		.training = user_host_operand(training),
		.training_hits = user_host_training_hits,
		.red_zone = 128,
		.align_stack = true,
		.lahf = true,
		.poison = user_host_poison,
	};
}

struct jifl_config user_host_kernel_config(u32 code_size, u64 side_size, const void *return_thunk)
{
	struct jifl_config config = user_host_config(code_size, side_size);

	config.dispatch_direct = address(user_host_dispatch_direct_no_red_zone);
	config.dispatch_indirect = address(user_host_dispatch_indirect_no_red_zone);
	config.return_thunk = address(return_thunk);
	config.retpoline_return = config.return_thunk;
	config.indirect_jumps = !return_thunk;
	trap_stub = user_host_trap_no_red_zone;
	config.red_zone = 0;
	config.align_stack = false;
	config.endbr = true;
	return config;
}

static void init(const struct jifl_config *config)
{
	if (jifl_engine_init(config)) {
		fprintf(stderr, "user host: the engine refuses the configuration\n");
		exit(2);
	}
}

void user_host_init(u32 code_size, u64 side_size)
{
	struct jifl_config config = user_host_config(code_size, side_size);

	init(&config);
}

/* The result is the same for all threads: this program's own TLS block lies at a fixed distance. */
static s32 from_fs(const void *p)
{
	u64 fs;

	asm("mov %%fs:0, %0" : "=r" (fs));
	return (s32)(address(p) - fs);
}

void user_host_init_jumping(u32 code_size, u64 side_size, bool compiled)
{
	struct jifl_config config = user_host_config(code_size, side_size);

	config.thread_words = from_fs(thread_words);
	config.targets = user_host_targets;
	config.targets_end = user_host_targets_end();
	config.keeps_r11 = !compiled;
	init(&config);
}

u64 user_host_call_args(int context, const void *fn, const u64 args[6])
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u64 (*enter)(u64, u64, u64, u64, u64, u64);
	u64 at = address(fn);

	if (context != USER_HOST_NATIVE)
		at = jifl_engine_enter(context, jifl_orig_at(at), &cause);
	if (!at) {
		fprintf(stderr, "user host: cannot enter %p, cause %d\n", fn, cause);
		exit(2);
	}
	enter = (u64 (*)(u64, u64, u64, u64, u64, u64))(unsigned long)at;
	return enter(args[0], args[1], args[2], args[3], args[4], args[5]);
}

u64 user_host_exits_total(void)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < JIFL_CAUSES_MAX; i++)
		sum += user_host_exits[i];
	return sum;
}

const u8 *user_host_code(void)
{
	return executable;
}

void jifl_host_code_write(jifl_pos pos, const void *src, u32 n)
{
	memcpy(writable + pos.off, src, n);
}

/* A planted bug: stores half a link, and leaves it long enough for another thread to take it. */
static void store_halves(u8 *p, u32 value)
{
	u32 i;

	memcpy(p, &value, 2);
	for (i = 0; i < 100; i++)
		__builtin_ia32_pause();
	memcpy(p + 2, (u8 *)&value + 2, 2);
}

void jifl_host_code_store32(jifl_pos pos, u32 value)
{
	/* Not always 4-aligned, but never across an 8-byte boundary: one store all the same. */
	struct __attribute__((packed)) { u32 v; } *p = (void *)(writable + pos.off);

	if (JIFL_PLANTED(link_in_two_stores))
		store_halves(writable + pos.off, value);
	else
		asm volatile("movl %1, %0" : "=m" (p->v) : "r" (value));
}

void jifl_host_code_store64(jifl_pos pos, u64 value)
{
	__atomic_store_n((u64 *)(writable + pos.off), value, __ATOMIC_RELEASE);
}

unsigned long jifl_host_lock(void)
{
	pthread_mutex_lock(&lock);
	return 0;
}

void jifl_host_unlock(unsigned long cookie)
{
	(void)cookie;
	pthread_mutex_unlock(&lock);
}

u64 jifl_host_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

void jifl_host_count_exit(enum jifl_cause cause)
{
	__atomic_fetch_add(&user_host_exits[cause], 1, __ATOMIC_RELAXED);
}

const s64 *jifl_host_training(void)
{
	return training;
}

void jifl_host_training_set(u32 first, u32 n, s64 value)
{
	u32 i;

	for (i = first; i < first + n; i++)
		__atomic_store_n(&training[i], value, __ATOMIC_RELAXED);
}
