// SPDX-License-Identifier: MIT OR Apache-2.0
//! `jifl doctor`: what this machine offers, what is missing, how to mend it.

mod checks;
mod host;

use clap::Args;
use serde::Serialize;

use crate::base::exit::{CANNOT, DONE, Failure};
use crate::base::root;
use crate::show::output::{self, Format};

pub use host::Host;

/// Arguments of `jifl doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 when this machine can run JIFL on its own kernel, 3 when it cannot
(`jifl vm` may still work: see its lines).")]
pub struct DoctorArgs {
    /// How the findings are written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No problem.
    Ok,
    /// Not needed now, or unknown.
    Note,
    /// JIFL cannot work here before it is mended.
    Bad,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub what: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// How to mend it; empty where nothing is wrong.
    pub remedy: String,
}

#[derive(Serialize)]
struct Object<'a> {
    command: &'static str,
    ready: bool,
    findings: &'a [Finding],
}

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Result<u8, Failure> {
    let findings = checks::all(&Host::real(), root::find().ok().as_deref());
    let ready = is_ready(&findings);
    output::print(&match args.format {
        Format::Text => text(&findings),
        Format::Json => {
            let object = Object {
                command: "doctor",
                ready,
                findings: &findings,
            };
            serde_json::to_string(&object).expect("plain structures always serialize") + "\n"
        }
    })?;
    Ok(if ready { DONE } else { CANNOT })
}

fn is_ready(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Bad)
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Note => "note",
            Verdict::Bad => "BAD ",
        };
        text += &format!("{mark}  {:<width$}  {}\n", finding.what, finding.found);
        if !finding.remedy.is_empty() {
            text += &format!("      {:<width$}  -> {}\n", "", finding.remedy);
        }
    }
    text += if is_ready(findings) {
        "This machine can run JIFL.\n"
    } else {
        "This machine cannot run JIFL on its own kernel as it is.\n"
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_has_its_remedy_below_it() {
        let finding = |verdict, remedy: &str| Finding {
            what: "lockdown",
            verdict,
            found: "integrity".into(),
            remedy: remedy.into(),
        };
        let text = text(&[
            finding(Verdict::Ok, ""),
            finding(Verdict::Bad, "turn it off"),
        ]);
        assert_eq!(
            text,
            "ok    lockdown  integrity\n\
             BAD   lockdown  integrity\n      \
             \x20         -> turn it off\n\
             This machine cannot run JIFL on its own kernel as it is.\n"
        );
    }
}
