// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl demo`: the first result, in a throwaway machine.

use std::path::Path;

use clap::Args;

use super::vm;
use crate::base::exit::Failure;
use crate::base::root;

/// What the machine runs.
const SCRIPT: &str = include_str!("demo.sh");

/// Arguments of `jifl demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
It needs QEMU (qemu-system-x86) and JIFL's module for that kernel. This machine's own kernel is left
alone. Exit status: as of `jifl vm`.")]
pub struct DemoArgs {
    /// The path of a kernel image, or, in a source tree, a series among build/kernels [default:
    /// the kernel that runs here; in a source tree 6.1]
    #[arg(long, value_name = "6.1|6.12|PATH")]
    kernel: Option<String>,
}

/// Runs the command; the result is the exit status.
pub fn run(args: DemoArgs) -> Result<u8, Failure> {
    let kernel = match args.kernel {
        Some(kernel) => Some(kernel),
        None if root::find().is_ok() => None,
        None => {
            let name = rustix::system::uname();
            Some(image(Path::new("/"), &name.release().to_string_lossy())?)
        }
    };
    vm::run(vm::arguments(kernel.as_deref(), &["sh", "-c", SCRIPT]))
}

/// The image of the kernel `release`, as distributions install it. `top`: the machine's root
/// directory.
fn image(top: &Path, release: &str) -> Result<String, Failure> {
    let places = [
        format!("boot/vmlinuz-{release}"),
        format!("lib/modules/{release}/vmlinuz"),
    ];
    let found = places.iter().map(|place| top.join(place));
    let found = found.filter(|image| image.exists()).find_map(|image| {
        let image = image.into_os_string();
        image.into_string().ok()
    });
    found.ok_or_else(|| {
        Failure::cannot(format!(
            "the kernel that runs here, {release}, has no image in /boot or /lib/modules/{release}: \
             name one with --kernel PATH"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_image_is_where_distributions_put_it() {
        const RELEASE: &str = "7.3.4-amd64";
        let top = std::env::temp_dir().join(format!("jifl-demo-{}", std::process::id()));
        for directory in ["boot", "lib/modules/7.3.4-amd64"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        let refused = image(&top, RELEASE).unwrap_err().message;
        assert!(refused.contains("7.3.4-amd64, has no image"), "{refused}");
        assert!(refused.ends_with("--kernel PATH"), "{refused}");
        for place in [
            "lib/modules/7.3.4-amd64/vmlinuz",
            "boot/vmlinuz-7.3.4-amd64",
        ] {
            fs::write(top.join(place), "").unwrap();
            assert!(image(&top, RELEASE).unwrap().ends_with(place));
        }
        fs::remove_dir_all(&top).unwrap();
    }
}
