// SPDX-License-Identifier: GPL-2.0
/* See forms.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"

const char *const form_use_names[FORM_USES] = {
	"used", "branches", "system", "stack", "varying", "addresses", "lacking",
};

struct fuzz_form *fuzz_forms;
u32 fuzz_nforms;
u32 form_uses[FORM_USES];

static u64 *keys;
static u32 nkeys;

bool insn_decode(const u8 *bytes, u32 len, struct insn *i)
{
	static ZydisDecoder decoder;

	if (decoder.machine_mode != ZYDIS_MACHINE_MODE_LONG_64 || !decoder.stack_width)
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	memset(i, 0, sizeof(*i));
	memcpy(i->bytes, bytes, len);
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, i->bytes, len, &i->zi, i->ops));
}

static bool is_system(const struct insn *i)
{
	if (i->zi.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
		return true;
	switch (i->zi.meta.category) {
	case ZYDIS_CATEGORY_IO:
	case ZYDIS_CATEGORY_IOSTRINGOP:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_SYSTEM:
	case ZYDIS_CATEGORY_SEGOP:
	case ZYDIS_CATEGORY_SGX:
	case ZYDIS_CATEGORY_SMAP:
	case ZYDIS_CATEGORY_VTX:
	case ZYDIS_CATEGORY_RDWRFSGS:
	case ZYDIS_CATEGORY_XSAVE:
	case ZYDIS_CATEGORY_XSAVEOPT:
	case ZYDIS_CATEGORY_CET:
	case ZYDIS_CATEGORY_PKU:
	case ZYDIS_CATEGORY_PCONFIG:
	case ZYDIS_CATEGORY_UINTR:
	case ZYDIS_CATEGORY_WAITPKG:
	case ZYDIS_CATEGORY_AMX_TILE:
	case ZYDIS_CATEGORY_ENQCMD:
		return true;
	default:
		break;
	}
	switch (i->zi.mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_FXSAVE:
	case ZYDIS_MNEMONIC_FXSAVE64:
	case ZYDIS_MNEMONIC_FXRSTOR:
	case ZYDIS_MNEMONIC_FXRSTOR64:
	case ZYDIS_MNEMONIC_FNSAVE:
	case ZYDIS_MNEMONIC_FNSTENV:
	case ZYDIS_MNEMONIC_FLDENV:
	case ZYDIS_MNEMONIC_LDMXCSR:
	case ZYDIS_MNEMONIC_STD:	/* a shape: it must not stay set */
	case ZYDIS_MNEMONIC_POPFQ:	/* it restores the trap flag */
	case ZYDIS_MNEMONIC_POPF:
		return true;
	default:
		return false;
	}
}

static bool writes_segment(const struct insn *i)
{
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++)
		if (i->ops[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (i->ops[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    ZydisRegisterGetClass(i->ops[k].reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return true;
	return false;
}

static bool varies(const struct insn *i)
{
	switch (i->zi.mnemonic) {
	case ZYDIS_MNEMONIC_RDTSC:
	case ZYDIS_MNEMONIC_RDTSCP:
	case ZYDIS_MNEMONIC_RDPMC:
	case ZYDIS_MNEMONIC_RDPID:
	case ZYDIS_MNEMONIC_RDRAND:
	case ZYDIS_MNEMONIC_RDSEED:
	case ZYDIS_MNEMONIC_CPUID:
		return true;
	default:
		return false;
	}
}

static bool is_push_or_pop(const struct insn *i)
{
	return i->zi.meta.category == ZYDIS_CATEGORY_PUSH ||
	       i->zi.meta.category == ZYDIS_CATEGORY_POP;
}

/* rsp may only be moved by 8-byte pushes and pops, which are counted. */
static bool replaces_stack(const struct insn *i)
{
	u32 k;

	for (k = 0; k < i->zi.operand_count; k++) {
		const ZydisDecodedOperand *op = &i->ops[k];

		if (op->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
		    ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, op->reg.value) !=
		    ZYDIS_REGISTER_RSP)
			continue;
		if (!is_push_or_pop(i) || op->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN ||
		    i->zi.operand_width != 64)
			return true;
	}
	return i->zi.mnemonic == ZYDIS_MNEMONIC_ENTER || i->zi.mnemonic == ZYDIS_MNEMONIC_LEAVE;
}

static bool has_strange_address(const struct insn *i)
{
	u32 k;

	if (i->zi.address_width != 64)
		return true;
	for (k = 0; k < i->zi.operand_count; k++) {
		const ZydisDecodedOperand *op = &i->ops[k];

		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		if (op->mem.type != ZYDIS_MEMOP_TYPE_MEM && op->mem.type != ZYDIS_MEMOP_TYPE_AGEN)
			return true;
		if (op->mem.segment == ZYDIS_REGISTER_FS)
			return true;
		/* a table's index in al */
		if (i->zi.mnemonic == ZYDIS_MNEMONIC_XLAT)
			return true;
	}
	return false;
}

enum form_use insn_use(const struct insn *i)
{
	if (i->zi.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE)
		return FORM_BRANCH;
	if (is_system(i) || writes_segment(i))
		return FORM_SYSTEM;
	if (replaces_stack(i))
		return FORM_STACK;
	if (varies(i))
		return FORM_VARIES;
	return has_strange_address(i) ? FORM_ADDRESS : FORM_USED;
}

static bool is_known(u64 key)
{
	u32 i;

	for (i = 0; i < nkeys; i++)
		if (keys[i] == key)
			return true;
	keys = realloc(keys, (nkeys + 1) * sizeof(*keys));
	keys[nkeys++] = key;
	return false;
}

static void add(const struct form *f)
{
	enum form_use use;
	struct insn i;

	if (is_known(f->key) || !insn_decode(f->bytes, f->len, &i))
		return;
	use = insn_use(&i);
	form_uses[use]++;
	if (use != FORM_USED)
		return;
	fuzz_forms = realloc(fuzz_forms, (fuzz_nforms + 1) * sizeof(*fuzz_forms));
	fuzz_forms[fuzz_nforms++] = (struct fuzz_form){ .insn = i };
}

void forms_read(const char *path)
{
	FILE *f = fopen(path, "r");
	struct form form;

	if (!f) {
		perror(path);
		exit(2);
	}
	while (fread(&form, sizeof(form), 1, f) == 1)
		add(&form);
	fclose(f);
}

void form_set_aside(u32 form, enum form_use use)
{
	form_uses[FORM_USED]--;
	form_uses[use]++;
	fuzz_forms[form] = fuzz_forms[--fuzz_nforms];
}
