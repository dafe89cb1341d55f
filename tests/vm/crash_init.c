// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * init of a crash kernel: prints on the console what the dump of the panicked kernel holds, and
 * ends the machine.
 *
 *	crash kernel: N CPUs, vmcoreinfo of N bytes, N MiB
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

static char notes[1 << 20];

#define PADDED(size) (((size) + 3) & ~3u)

static void describe(int core)
{
	unsigned int cpus = 0, info = 0;
	unsigned long memory = 0;
	Elf64_Ehdr head;
	Elf64_Phdr part;
	size_t i, at, size = 0;

	if (pread(core, &head, sizeof(head), 0) != sizeof(head))
		return;
	for (i = 0; i < head.e_phnum; i++) {
		if (pread(core, &part, sizeof(part),
			  head.e_phoff + i * sizeof(part)) != sizeof(part))
			return;
		if (part.p_type == PT_LOAD)
			memory += part.p_memsz;
		else if (part.p_type == PT_NOTE && part.p_filesz <= sizeof(notes))
			size = pread(core, notes, part.p_filesz, part.p_offset);
	}
	for (at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
		Elf64_Nhdr *note = (Elf64_Nhdr *)(notes + at);
		const char *name = (const char *)(note + 1);

		if (!note->n_namesz)
			break;
		cpus += !strcmp(name, "CORE") && note->n_type == NT_PRSTATUS;
		if (!strcmp(name, "VMCOREINFO"))
			info = note->n_descsz;
		at += sizeof(*note) + PADDED(note->n_namesz) + PADDED(note->n_descsz);
	}
	printf("crash kernel: %u CPUs, vmcoreinfo of %u bytes, %lu MiB\n", cpus, info,
	       memory >> 20);
}

int main(void)
{
	mkdir("/proc", 0755);
	if (mount("proc", "/proc", "proc", 0, NULL))
		perror("crash kernel: /proc");
	describe(open("/proc/vmcore", O_RDONLY));
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
