// SPDX-License-Identifier: MIT OR Apache-2.0
//! All sheets of one run, for programs: one JSON object.

use serde::{Deserialize, Serialize};

use super::sheet::Sheet;
use crate::base::environment::COMMIT;

/// The object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always `bench`.
    pub command: String,
    /// Version of this command.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// The sheets.
    pub sheets: Vec<Sheet>,
}

impl Results {
    /// Results of this command with these sheets.
    pub fn new(sheets: Vec<Sheet>) -> Results {
        Results {
            command: "bench".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: COMMIT.into(),
            sheets,
        }
    }

    /// The object as one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain structures always serialize") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::tests::sample;
    use super::*;

    #[test]
    fn json_is_one_line_and_names_what_was_measured() {
        let results = Results::new(vec![sample()]);
        let text = results.json();
        assert_eq!(text.lines().count(), 1);
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), results);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value["commit"].is_string());
        for key in ["kernel", "cpu", "cpus", "accelerator"] {
            assert!(!value["sheets"][0]["machine"][key].is_null(), "{key}");
        }
        assert_eq!(value["sheets"][0]["rows"][3]["missing"], "no BTF");
    }
}
