// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * init of a crash kernel: runs /program with the arguments that the kernel gives init, which is
 * what stands behind `--` in its command line, and ends the machine. On the console each run ends
 * with a line
 *
 *	crash kernel: status N
 */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = -1;
	pid_t child;

	mkdir("/proc", 0755);
	if (mount("proc", "/proc", "proc", 0, NULL))
		perror("crash kernel: /proc");
	argv[0] = "/program";
	child = fork();
	if (!child) {
		execv(argv[0], argv);
		perror("crash kernel: /program");
		_exit(127);
	}
	if (child > 0)
		waitpid(child, &status, 0);
	printf("crash kernel: status %d\n", WEXITSTATUS(status));
	fflush(stdout);
	sync();
	/* The console's last bytes are on their way. */
	sleep(2);
	reboot(RB_AUTOBOOT);
	return 0;
}
