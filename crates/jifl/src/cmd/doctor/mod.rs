// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl doctor`: what this machine offers, or another kernel, what is missing, how to mend it.

mod checks;
mod config;
mod finding;
mod host;
mod needs;
mod offline;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::base::exit::{CANNOT, DONE, Failure};
use crate::base::root;
use crate::show::output::{self, Format};

use finding::Finding;
pub use host::Host;

/// Arguments of `jifl doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --kernel it is about this machine and the kernel that runs on it. With --kernel nothing of
this machine counts but its compiler: the answer is about that kernel, which does not have to run.

Examples:
  jifl doctor
  jifl doctor --kernel 6.12.117+deb12-amd64
  jifl doctor --kernel ./vmlinuz --config ./config

Exit status: 0 when this machine can run JIFL on its own kernel, or JIFL can work on the kernel that
--kernel names; 3 when not (`jifl vm` may still work: see its lines); 1 when the file is no kernel or
cannot be read.")]
pub struct DoctorArgs {
    /// How the findings are written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Be about this kernel: a release as under /lib/modules, a vmlinuz or a vmlinux; in a source
    /// tree also a series in build/kernels, as 6.12
    #[arg(long, value_name = "FILE|RELEASE")]
    kernel: Option<String>,
    /// The configuration that the kernel was built with, where it is neither in the kernel nor
    /// beside it
    #[arg(long, value_name = "FILE", requires = "kernel")]
    config: Option<PathBuf>,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a offline::Kernel>,
    ready: bool,
    findings: &'a [Finding],
}

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    let tree = root::find().ok();
    let (kernel, findings) = match &args.kernel {
        None => (None, checks::all(&Host::real(), tree.as_deref())),
        Some(word) => {
            let (kernel, findings) =
                offline::examine(word, args.config.as_deref(), tree.as_deref())?;
            (Some(kernel), findings)
        }
    };
    let ready = finding::is_ready(&findings);
    output::print(&match args.format {
        Format::Text => finding::text(&findings) + &conclusion(kernel.as_ref(), ready),
        Format::Json => {
            let object = Object {
                command: "doctor",
                kernel: kernel.as_ref(),
                ready,
                findings: &findings,
            };
            serde_json::to_string(&object).expect("plain structures always serialize") + "\n"
        }
    })?;
    Ok(if ready { DONE } else { CANNOT })
}

/// The last line.
fn conclusion(kernel: Option<&offline::Kernel>, ready: bool) -> String {
    match (kernel, ready) {
        (None, true) => "This machine can run JIFL.\n".into(),
        (None, false) => "This machine cannot run JIFL on its own kernel as it is.\n".into(),
        (Some(kernel), true) => format!("JIFL can work on {}.\n", kernel.release),
        (Some(kernel), false) => format!("JIFL cannot work on {} as it is.\n", kernel.release),
    }
}
