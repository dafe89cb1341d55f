// SPDX-License-Identifier: MIT OR Apache-2.0
//! JIFL's module where no source tree is: as packages install it, and what to do without one.

use std::fs;
use std::path::{Path, PathBuf};

use jifl_code::packed;

/// The module that is installed for the kernel `release`, as modprobe(8) finds it, by
/// modules.dep. `top` is the machine's root directory. The file may be compressed.
pub fn installed(top: &Path, release: &str) -> Option<PathBuf> {
    let modules = top.join("lib/modules").join(release);
    let list = fs::read_to_string(modules.join("modules.dep")).ok()?;
    list.lines()
        .filter_map(|line| line.split(':').next())
        .find(|file| {
            let name = file.rsplit('/').next().unwrap_or(file);
            name == "jifl.ko" || name.starts_with("jifl.ko.")
        })
        .map(|file| modules.join(file))
}

/// Whether a module's file has a signature, behind which the kernel's builds put this line
/// (linux/module_signature.h). Only the kernel knows whether it trusts the key.
pub fn is_signed(file: &Path) -> bool {
    let bytes = fs::read(file).unwrap_or_default();
    packed::unpack(&bytes).is_ok_and(|module| module.ends_with(b"~Module signature appended~\n"))
}

/// How a machine gets the module that it lacks for the kernel `release`: words for a message.
pub fn remedy(top: &Path, release: &str) -> String {
    let headers = format!("linux-headers-{release}");
    if !top.join("var/lib/dkms/jifl").exists() {
        return format!(
            "`apt-get install jifl-dkms {headers}` builds one; or `make modules` in a source tree, \
             which JIFL_ROOT names"
        );
    }
    let build = top.join("lib/modules").join(release).join("build/Makefile");
    if build.exists() {
        format!("`dkms autoinstall -k {release}` builds one, or says why it cannot")
    } else {
        format!(
            "the kernel's headers are missing: `apt-get install {headers}`; DKMS then builds one"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASE: &str = "6.1.0-9-amd64";

    /// A root directory that is deleted at the end of the test.
    struct Top(PathBuf);

    impl Top {
        fn new(name: &str) -> Top {
            let top = std::env::temp_dir().join(format!("jifl-{name}-{}", std::process::id()));
            fs::create_dir_all(top.join("lib/modules").join(RELEASE)).unwrap();
            Top(top)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Top {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_module_is_where_modules_dep_says() {
        let top = Top::new("installed");
        let dep = format!("lib/modules/{RELEASE}/modules.dep");
        assert_eq!(installed(&top.0, RELEASE), None);
        top.write(
            &dep,
            "kernel/fs/xjifl.ko:\nkernel/x.ko: updates/dkms/jifl.ko\n",
        );
        assert_eq!(installed(&top.0, RELEASE), None);
        for file in ["updates/dkms/jifl.ko", "updates/dkms/jifl.ko.xz"] {
            top.write(&dep, &format!("kernel/fs/9p.ko: kernel/net.ko\n{file}:\n"));
            let found = installed(&top.0, RELEASE).unwrap();
            assert!(found.ends_with(format!("lib/modules/{RELEASE}/{file}")));
        }
    }

    #[test]
    fn each_lack_has_its_own_remedy() {
        let top = Top::new("remedy");
        assert!(remedy(&top.0, RELEASE).contains("install jifl-dkms linux-headers-6.1.0-9-amd64"));
        top.write("var/lib/dkms/jifl/1/source/dkms.conf", "");
        let headers = remedy(&top.0, RELEASE);
        assert!(headers.contains("headers are missing: `apt-get install linux-headers-6.1.0-9"));
        top.write(&format!("lib/modules/{RELEASE}/build/Makefile"), "");
        assert!(remedy(&top.0, RELEASE).contains("dkms autoinstall -k 6.1.0-9-amd64"));
    }
}
