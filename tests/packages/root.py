# SPDX-License-Identifier: MIT OR Apache-2.0
"""Throwaway root directories with a release of Debian in them, and commands in these.

A root is unpacked from an archive that mmdebstrap makes once (build/packages/SUITE.tar). Commands
run in it by chroot, in mount and process namespaces of their own, so that nothing is left mounted
and nothing goes on. Needs root; sudo is asked for it.
"""

import os
import shutil
import subprocess
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PLACE = TREE / "build/packages"
AS_ROOT = [] if os.geteuid() == 0 else ["sudo"]
# What a machine with DKMS has; openssl, so that DKMS makes its key and signs.
PACKAGES = "dkms,openssl,kmod,man-db,bash-completion,file"
ENTER = """
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" /usr/bin/env -i DEBIAN_FRONTEND=noninteractive LC_ALL=C \\
	PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "$1"
"""


def host(*words, **more):
    """Runs a command on this machine; its output, if it succeeds."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def mirror(suite):
    """From where this machine takes a suite of Debian; None if it does not."""
    listed = host("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
    uris = [line.split()[1] for line in listed.splitlines() if line.split()[0] == suite]
    return uris[0] if uris else None


def sources(suite):
    """Lines for apt, from the places where this machine takes its own packages."""
    main = mirror("bookworm")
    security = mirror("bookworm-security")
    if not main:
        raise RuntimeError("apt on this machine has no source of bookworm: apt-get update")
    lines = [f"deb {main} {suite} main", f"deb {main} {suite}-updates main"]
    return lines + ([f"deb {security} {suite}-security main"] if security else [])


class Root:
    """A root of a suite. Its life is that of a `with`."""

    def __init__(self, suite):
        self.suite = suite
        self.path = PLACE / suite

    def __enter__(self):
        archive = PLACE / f"{self.suite}.tar"
        PLACE.mkdir(parents=True, exist_ok=True)
        self.remove()
        if not archive.exists():
            made = archive.with_suffix(".new.tar")
            host(*AS_ROOT, "mmdebstrap", "--variant=apt", f"--include={PACKAGES}", self.suite, made,
                 *sources(self.suite))
            host(*AS_ROOT, "mv", made, archive)
        host(*AS_ROOT, "mkdir", self.path)
        host(*AS_ROOT, "tar", "-C", self.path, "-xf", archive)
        self.put("/etc/resolv.conf", "/etc/")
        self.run("apt-get update -q")
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        """Nothing of it is mounted on this side."""
        host(*AS_ROOT, "rm", "-rf", "--one-file-system", self.path)

    def put(self, file, directory):
        """Copies a file of this machine into the root."""
        host(*AS_ROOT, "cp", "-L", file, f"{self.path}{directory}")

    def run(self, command, status=0):
        """What a command of sh's prints, standard output and error."""
        words = [*AS_ROOT, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER,
                 str(self.path), command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False, timeout=1800)
        if done.returncode != status:
            raise RuntimeError(f"in {self.suite}: {command}: status {done.returncode}, not {status}\n"
                               f"{done.stdout[-6000:]}")
        return done.stdout

    def install(self, *packages):
        """By apt, without what is only recommended."""
        return self.run(f"apt-get install -y -q --no-install-recommends {' '.join(packages)}")

    def files(self):
        """All paths, but for those of the kernel's file systems."""
        return set(self.run("find / -xdev -path /proc -prune -o -path /dev -prune -o -print").splitlines())

    def image(self, release):
        """A directory with a kernel's image and modules, as below /; it is the caller's."""
        kernel = PLACE / f"kernel-{release}"
        if not (kernel / "boot").exists():
            shutil.rmtree(kernel, ignore_errors=True)
            self.run(f"cd /var/tmp && apt-get download -q linux-image-{release}")
            deb = next((self.path / "var/tmp").glob("linux-image-*.deb"))
            host("dpkg-deb", "-x", deb, kernel)
            self.run("rm /var/tmp/linux-image-*.deb")
            if not (kernel / "lib").exists():
                (kernel / "lib").symlink_to("usr/lib")
        return kernel
