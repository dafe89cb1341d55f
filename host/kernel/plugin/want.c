// SPDX-License-Identifier: GPL-2.0
/*
 * Turns the arguments of a plugin's insertion into an insert of the engine. insert.c puts the
 * insert to its place.
 *
 * Context: inside callbacks; interrupts are off.
 */
#include <linux/ptrace.h>
#include <linux/stdarg.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "../compat/compat.h"
#include "plugin.h"

static_assert(HIST_BUCKETS_MAX == IR_HIST_BUCKETS);
static_assert(JIFL_ARGS_MAX == IR_CALL_ARGS);

static int jifl_want_mistake(const struct jifl_wanted *w, int error, const char *mistake)
{
	if (w->mistake)
		*w->mistake = mistake;
	else
		jifl_plugin_mistake(w->plugin, error, w->what, mistake);
	return error;
}

/* --- values --------------------------------------------------------------------------- */

/* A system call's arguments are in struct pt_regs, to which rdi points in its handler. */
static const s8 jifl_syscall_args[JIFL_ARGS_MAX] = {
	offsetof(struct pt_regs, di), offsetof(struct pt_regs, si), offsetof(struct pt_regs, dx),
	offsetof(struct pt_regs, r10), offsetof(struct pt_regs, r8), offsetof(struct pt_regs, r9),
};

static bool jifl_value_is_arg(int value)
{
	return value >= VALUE_ARG0 && value <= VALUE_ARG5;
}

static bool jifl_value_is_register(int value)
{
	return value >= VALUE_RAX && value <= VALUE_R15 && value != VALUE_RAX + IR_RSP;
}

bool jifl_want_source(enum jifl_want_at at, int value, struct ir_source *s)
{
	*s = (struct ir_source){ .width = value & JIFL_VALUE_LOW ? 4 : 8 };
	value &= ~JIFL_VALUE_LOW;
	switch (at) {
	case JIFL_AT_ENTRY:
		if (!jifl_value_is_arg(value))
			return false;
		s->reg = IR_RDI;
		s->memory = true;
		s->disp = jifl_syscall_args[value - VALUE_ARG0];
		return true;
	case JIFL_AT_EXIT:
		s->reg = IR_RAX;
		return value == VALUE_RETVAL;
	case JIFL_AT_CALL:
		if (!jifl_value_is_arg(value))
			return false;
		s->reg = ir_arg_regs[value - VALUE_ARG0];
		return true;
	case JIFL_AT_ROUTINE:
		if (jifl_value_is_arg(value)) {
			s->reg = ir_arg_regs[value - VALUE_ARG0];
			return true;
		}
		break;
	case JIFL_AT_RETURN:
		if (value == VALUE_RETVAL) {
			s->reg = IR_RAX;
			return true;
		}
		break;
	case JIFL_AT_CODE:
		break;
	}
	s->reg = value - VALUE_RAX;
	return jifl_value_is_register(value);
}

/* --- arguments ------------------------------------------------------------------------- */

/* The arguments of a variadic function, read one by one. */
struct jifl_given {
	va_list ap;
};

static int jifl_given_constant(struct jifl_given *given, int type, u64 *value)
{
	switch (type) {
	case ARG_VOID_PTR:
		*value = (unsigned long)va_arg(given->ap, void *);
		return 0;
	case ARG_INT32:
		*value = (s64)va_arg(given->ap, int);
		return 0;
	case ARG_INT64:
		*value = va_arg(given->ap, long long);
		return 0;
	}
	return -EINVAL;
}

/* Reads the value of IF_EQUAL, and the type and constant to compare with. */
static int jifl_want_condition(struct jifl_wanted *w, struct jifl_given *given)
{
	int value = va_arg(given->ap, int);
	int type = va_arg(given->ap, int);

	if (!jifl_want_source(w->at, value, &w->ins.when) || w->ins.when.width == 4)
		return jifl_want_mistake(w, -EINVAL, "IF_EQUAL asks for a value that is not there");
	w->needs_return |= value == VALUE_RETVAL;
	if (jifl_given_constant(given, type, &w->ins.equals))
		return jifl_want_mistake(w, -EINVAL, "IF_EQUAL's constant is of an unknown type");
	if (type == ARG_INT32)
		w->ins.when.width = 4;
	return 0;
}

/* Reads one argument, constant or fetched. */
static int jifl_want_argument(struct jifl_wanted *w, struct jifl_given *given, int type)
{
	const char *mistake;
	u32 i = w->ins.nargs;

	if (type >= ARG_REG && type <= ARG_CONTEXT) {
		mistake = jifl_want_fetch(w, i, type, type == ARG_REG ? va_arg(given->ap, int) : 0);
		if (mistake)
			return jifl_want_mistake(w, -EINVAL, mistake);
	} else if (jifl_given_constant(given, type, &w->ins.args[i])) {
		return jifl_want_mistake(w, -EINVAL, "unknown type of argument; is ARG_END there?");
	}
	w->ins.nargs++;
	return 0;
}

/* Reads all up to ARG_END: a condition, and at most max arguments. */
static int jifl_want_given(struct jifl_wanted *w, struct jifl_given *given, unsigned int max)
{
	int type = va_arg(given->ap, int), ret;

	if (type == IF_EQUAL) {
		ret = jifl_want_condition(w, given);
		if (ret)
			return ret;
		type = va_arg(given->ap, int);
	}
	for (; type != ARG_END; type = va_arg(given->ap, int)) {
		if (w->ins.nargs == max)
			return jifl_want_mistake(w, -E2BIG, "too many arguments");
		ret = jifl_want_argument(w, given, type);
		if (ret)
			return ret;
	}
	return 0;
}

static int jifl_want_rest(struct jifl_wanted *w, va_list ap, unsigned int max)
{
	struct jifl_given given;
	int ret;

	va_copy(given.ap, ap);
	ret = jifl_want_given(w, &given, max);
	va_end(given.ap);
	return ret;
}

/* --- what is inserted -------------------------------------------------------------------- */

/*
 * True for text of the kernel, or of a live module; a call reaches both. The plugin's own module is
 * not live in plugin_init. It is when its probes start.
 */
static bool jifl_want_is_code(const struct jifl_wanted *w, const void *fn)
{
	unsigned long text, size;
	enum jifl_cause cause;

	jifl_compat_module_text(w->plugin->owner, &text, &size);
	if ((unsigned long)fn - text < size)
		return true;
	return jifl_host_classify(jifl_orig_at((unsigned long)fn), &cause) != JIFL_TEXT_FOREIGN;
}

int jifl_want_call(struct jifl_wanted *w, const void *fn, va_list ap)
{
	if (!fn)
		return jifl_want_mistake(w, -EINVAL, "no function to call");
	if (!jifl_want_is_code(w, fn))
		return jifl_want_mistake(w, -EINVAL, "the function is no code of the kernel");
	w->ins.kind = IR_INSERT_CALL;
	w->ins.fn = (unsigned long)fn;
	return jifl_want_rest(w, ap, JIFL_ARGS_MAX);
}

int jifl_want_hist(struct jifl_wanted *w, const hist_t *hist, int value, va_list ap)
{
	if (!hist || !hist->buckets || hist->nbuckets < 2 || hist->nbuckets > HIST_BUCKETS_MAX ||
	    !jifl_fits_s32((s64)(unsigned long)hist->buckets))
		return jifl_want_mistake(w, -EINVAL, "not a histogram of DEFINE_HIST");
	if (!jifl_want_source(w->at, value, &w->ins.value))
		return jifl_want_mistake(w, -EINVAL, "there is no such value there");
	w->needs_return |= (value & ~JIFL_VALUE_LOW) == VALUE_RETVAL;
	w->ins.kind = IR_INSERT_HIST;
	w->ins.buckets = hist->nbuckets;
	w->ins.cell = (struct ir_operand){ .disp = (s32)(unsigned long)hist->buckets, .gs = true };
	return jifl_want_rest(w, ap, 0);
}
