/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes system calls with addresses at which nothing is, and with buffers that end there: the
 * kernel's fixups run.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

int main(void)
{
	char *volatile nothing = (char *)8;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *volatile end = page + 4096 - 5;
	int zero = open("/dev/zero", O_RDONLY);
	int ends[2];

	if (page == MAP_FAILED || zero < 0 || pipe(ends) || munmap(page + 4096, 4096))
		return 1;
	page[0] = 'x';
	/* Each fails: with EFAULT, or with fewer bytes. */
	return (write(ends[1], nothing, 100) != -1) + (write(ends[1], end, 100) == 100) +
	       (read(zero, nothing, 100) != -1) + (read(zero, end, 100) == 100) +
	       (uname((struct utsname *)nothing) != -1) + (stat("/", (struct stat *)end) != -1) +
	       (access(nothing, F_OK) != -1) + (open(nothing, O_RDONLY) != -1);
}
