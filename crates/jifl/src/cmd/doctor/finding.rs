// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a check found, and how findings are shown.

use serde::Serialize;

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

impl Finding {
    /// The same with the way out.
    pub fn mend(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = remedy.into();
        self
    }
}

/// A finding without a way out.
pub fn finding(what: &'static str, verdict: Verdict, found: impl Into<String>) -> Finding {
    Finding {
        what,
        verdict,
        found: found.into(),
        remedy: String::new(),
    }
}

/// That something is as it should be.
pub fn ok(what: &'static str, found: impl Into<String>) -> Finding {
    finding(what, Verdict::Ok, found)
}

/// Whether nothing has to be mended.
pub fn is_ready(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Bad)
}

/// A line for each finding, and one below it for the way out.
pub fn text(findings: &[Finding]) -> String {
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_has_its_remedy_below_it() {
        let bad = finding("lockdown", Verdict::Bad, "integrity").mend("turn it off");
        let findings = [ok("lockdown", "none"), bad];
        assert_eq!(
            text(&findings),
            "ok    lockdown  none\n\
             BAD   lockdown  integrity\n      \
             \x20         -> turn it off\n"
        );
        assert!(!is_ready(&findings) && is_ready(&findings[..1]));
    }
}
