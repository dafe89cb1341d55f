// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether JIFL can work on a kernel that does not run here, from its files.

mod banner;
mod checks;
mod find;

use std::fs;
use std::path::Path;

use jifl_code::kernel_file::{self, KernelFile, Refusal};
use serde::Serialize;

use super::config::Config;
use super::finding::{Finding, Verdict, finding};
use super::needs::versions;
use crate::base::exit::Failure;
use banner::Banner;

/// The kernel that the answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// `uname -r` under it.
    pub release: String,
    /// /proc/version under it.
    pub version: String,
    /// The file.
    pub image: String,
    /// Where its configuration was found.
    pub configuration: Option<String>,
}

/// A kernel's configuration, and where it stands; or the finding that says why there is none.
type Configuration = Result<(Config, String), Finding>;

/// Examines what `--kernel` and `--config` name. `tree`: the source tree, if there is one.
///
/// # Errors
/// There is no such kernel; the file is no kernel, for another architecture, or cannot be read.
pub fn examine(
    word: &str,
    config: Option<&Path>,
    tree: Option<&Path>,
) -> Result<(Kernel, Vec<Finding>), Failure> {
    let top = Path::new("/");
    let image = find::image(word, top, tree)?;
    let shown = image.display().to_string();
    let file = fs::read(&image).map_err(|error| Failure::failed(format!("{shown}: {error}")))?;
    let file = kernel_file::read(&file).map_err(|refusal| refused(&shown, refusal))?;
    let banner = Banner::parse(&file.banner)
        .ok_or_else(|| Failure::failed(format!("{shown}: its version is not understood")))?;
    let tops = find::tops(&image, top);
    let configuration = configuration(config, &file, &image, &banner, &tops)?;
    let kernel = Kernel {
        release: banner.release.clone(),
        version: file.banner.clone(),
        image: shown,
        configuration: configuration.as_ref().ok().map(|(_, from)| from.clone()),
    };
    let findings = checks::all(&checks::Subject {
        file: &file,
        banner: &banner,
        configuration,
        tops: &tops,
        tree,
    });
    Ok((kernel, findings))
}

fn refused(image: &str, refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Machine(name) => Failure::cannot(format!(
            "{image}: a kernel or program for {name}; JIFL translates 64-bit x86 code only"
        )),
        Refusal::File(why) => Failure::failed(format!("{image}: {why}")),
    }
}

/// That of the option, that in the kernel, or that beside it: the first there is.
fn configuration(
    named: Option<&Path>,
    file: &KernelFile,
    image: &Path,
    banner: &Banner,
    tops: &[std::path::PathBuf],
) -> Result<Configuration, Failure> {
    let own = versions::of(&banner.release);
    let parsed = file.config.as_deref().and_then(Config::parse);
    let (config, from) = if let Some(path) = named {
        let config = Config::read(path).map_err(Failure::failed)?;
        (config, path.display().to_string())
    } else if let Some(config) = parsed {
        (config, "in the kernel itself".into())
    } else {
        match find::config(image, &banner.release, tops) {
            Some(path) => match Config::read(&path) {
                Ok(config) => (config, path.display().to_string()),
                Err(why) => return Ok(Err(none(why))),
            },
            None => {
                return Ok(Err(none(format!(
                    "none: not in the kernel (CONFIG_IKCONFIG), and no config-{} beside it",
                    banner.release
                ))));
            }
        }
    };
    Ok(match config.stranger(own) {
        Some(whose) => Err(none(format!("{from} is that of {whose}"))),
        None => Ok((config, from)),
    })
}

/// That there is no configuration to look into.
fn none(why: String) -> Finding {
    finding("configuration", Verdict::Note, why).mend(
        "--config FILE names the right one. Without it the symbols below show what is there; what \
         the kernel demands of modules is not known",
    )
}

#[cfg(test)]
mod tests;
