// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a program's work (program.h) in turn in several ways, and prints how long each way took.
 *
 * usage: PROGRAM ROUNDS WAY[,WAY...]...
 *
 * The ways of one argument take turns, ROUNDS times, after one round of each to warm up. plain:
 * natively. none, block, insn: through the engine, which inserts nothing, counts blocks, or counts
 * instructions. tool: natively, between tool_begin and tool_end, where a tool outside the program
 * begins and ends; the tool may count in tool_count.
 *
 * Prints `program VERSION`, for each round `round WAY SECONDS HASH COUNT`, and at the end `engine
 * KEY VALUE` of the engine's statistics. Time is the thread's own on the CPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../host/user/user.h"
#include "program.h"
#include "tool.h"

enum { CODE_SIZE = 32 << 20, SIDE_SIZE = 64 << 20, WAYS_MAX = 8 };

static u64 counter;

static void add(struct ir_block *b, s32 n)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(&counter);
	ins->imm = n;
}

static void count_blocks(struct ir_block *b, void *arg)
{
	add(b, 1);
}

static void count_insns(struct ir_block *b, void *arg)
{
	add(b, (s32)b->count);
}

static const struct way {
	const char *name;
	bool native;
	jifl_instrument_fn fn;
	u64 *count;		/* the counter, NULL: nothing is counted */
} ways[] = {
	{ "plain", true, NULL, NULL },
	{ "none", false, NULL, NULL },
	{ "block", false, count_blocks, &counter },
	{ "insn", false, count_insns, &counter },
	{ "tool", true, NULL, &tool_count },
};
enum { TOOL = JIFL_ARRAY_LEN(ways) - 1 };

static int contexts[JIFL_ARRAY_LEN(ways)];

static u32 way_of(const char *name)
{
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(ways); i++)
		if (!strcmp(ways[i].name, name))
			return i;
	fprintf(stderr, "no way is called %s\n", name);
	exit(2);
}

static void init_engine(void)
{
	u32 i;

	user_host_init_jumping(CODE_SIZE, SIDE_SIZE, true);
	for (i = 0; i < JIFL_ARRAY_LEN(ways); i++)
		contexts[i] = ways[i].native ? USER_HOST_NATIVE :
					       jifl_engine_context_create(ways[i].fn, NULL);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_round(u32 way, bool shown)
{
	const struct way *w = &ways[way];
	u64 before = w->count ? *w->count : 0;
	double start = now();
	u64 hash = user_host_call(contexts[way], program_work);
	double end = now();

	if (shown)
		printf("round %s %.6f %llx %llu\n", w->name, end - start, hash,
		       w->count ? *w->count - before : 0);
	fflush(stdout);
}

static void run_in_turn(char *names, int rounds)
{
	u32 chosen[WAYS_MAX], n = 0, i;
	int round;

	for (names = strtok(names, ","); names && n < WAYS_MAX; names = strtok(NULL, ","))
		chosen[n++] = way_of(names);
	for (round = 0; round <= rounds; round++) {
		for (i = 0; i < n; i++) {
			if (chosen[i] == TOOL && !round)
				tool_begin();
			run_round(chosen[i], round > 0);
			if (chosen[i] == TOOL && round == rounds)
				tool_end();
		}
	}
}

static void print_engine(void)
{
	struct jifl_engine_stats st;

	jifl_engine_stats(&st);
	printf("engine blocks %llu\n", st.blocks);
	printf("engine translate_ns %llu\n", st.translate_ns);
	printf("engine dispatches %llu\n", st.dispatches);
	printf("engine code_used %llu\n", st.code_used);
	printf("engine side_used %llu\n", st.side_used);
	printf("engine exits %llu\n", user_host_exits_total());
	printf("engine full %llu\n", st.full);
}

int main(int argc, char **argv)
{
	int i;

	if (argc < 3) {
		fprintf(stderr, "usage: %s ROUNDS WAY[,WAY...]...\n", argv[0]);
		return 2;
	}
	printf("program %s\n", program_version());
	init_engine();
	program_prepare();
	for (i = 2; i < argc; i++)
		run_in_turn(argv[i], atoi(argv[1]));
	print_engine();
	return 0;
}
