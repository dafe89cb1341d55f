// SPDX-License-Identifier: MIT OR Apache-2.0
//! The strings that the programs of a session compare with.

use jifl_sys::abi::{STRING_MAX, STRINGS_MAX};

/// The bytes of all strings, each of them once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
}

impl Strings {
    /// Where a string stands among the bytes.
    ///
    /// # Errors
    /// It is too long, or there are too many.
    pub fn add(&mut self, string: &[u8]) -> Result<u64, String> {
        if string.len() >= STRING_MAX {
            return Err(format!(
                "strings are compared up to {} bytes, and this one has {}",
                STRING_MAX - 1,
                string.len()
            ));
        }
        if string.contains(&0) {
            return Err("a string ends before its first \\0, so this one is never found".into());
        }
        let mut known = self.bytes.windows(string.len().max(1));
        if let Some(at) = known.position(|known| known == string) {
            return Ok(at as u64);
        }
        if self.bytes.len() + string.len() > STRINGS_MAX {
            return Err(format!(
                "all strings together have more than {STRINGS_MAX} bytes"
            ));
        }
        self.bytes.extend_from_slice(string);
        Ok((self.bytes.len() - string.len()) as u64)
    }

    /// The bytes for the module.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
