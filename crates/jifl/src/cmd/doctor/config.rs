// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration that a kernel was built with: a file of lines like `CONFIG_SMP=y`.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::needs::versions::{self, Version};

/// A configuration has so many bytes at most. Debian's have 0.3 MB.
const LONGEST: u64 = 16 << 20;

/// A kernel's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    values: HashMap<String, String>,
    /// `x86` and 6.12 of `# Linux/x86 6.12.117 Kernel Configuration`.
    head: Option<(String, Version)>,
}

impl Config {
    /// `None`: the text has no line of a configuration.
    pub fn parse(text: &str) -> Option<Config> {
        let line = |line: &str| {
            let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
            let value = value.trim().trim_matches('"');
            Some((format!("CONFIG_{name}"), value.to_owned()))
        };
        let values: HashMap<String, String> = text.lines().filter_map(line).collect();
        let head = text.lines().take(8).find_map(|line| {
            let rest = line.strip_prefix("# Linux/")?;
            let (machine, rest) = rest.split_once(' ')?;
            Some((machine.to_owned(), versions::of(rest.split(' ').next()?)))
        });
        (!values.is_empty()).then_some(Config { values, head })
    }

    /// Reads a file, which may be compressed by gzip as /proc/config.gz is.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(path: &Path) -> Result<Config, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
        let text = if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut text = Vec::new();
            let mut packed = GzDecoder::new(bytes.as_slice()).take(LONGEST);
            packed
                .read_to_end(&mut text)
                .map_err(|error| failed(&error))?;
            text
        } else {
            bytes
        };
        let parsed = Config::parse(&String::from_utf8_lossy(&text));
        parsed.ok_or_else(|| failed(&"no configuration of a kernel"))
    }

    /// The value of an option, without quotes. The name has `CONFIG_`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Is an option `y`?
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("y")
    }

    /// Whose it is, where it says that it is another kernel's than one of this series for x86.
    pub fn stranger(&self, own: Version) -> Option<String> {
        let (machine, (major, minor)) = self.head.as_ref()?;
        let is_own = machine.starts_with("x86") && (*major, *minor) == own;
        (!is_own).then(|| format!("Linux {major}.{minor} for {machine}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#\n# Linux/x86 6.12.117 Kernel Configuration\n#\nCONFIG_SMP=y\n\
                        # CONFIG_KASAN is not set\nCONFIG_9P=m\nCONFIG_CC=\"gcc-12 (x) 12\"\n";

    #[test]
    fn lines_are_options() {
        let config = Config::parse(TEXT).unwrap();
        assert!(config.is_on("CONFIG_SMP"));
        assert!(!config.is_on("CONFIG_KASAN") && !config.is_on("CONFIG_9P"));
        assert_eq!(config.value("CONFIG_CC"), Some("gcc-12 (x) 12"));
        assert_eq!(Config::parse("# nothing\n"), None);
    }

    #[test]
    fn a_configuration_tells_whose_it_is() {
        let config = Config::parse(TEXT).unwrap();
        assert_eq!(config.stranger((6, 12)), None);
        assert_eq!(config.stranger((6, 1)).unwrap(), "Linux 6.12 for x86");
        let arm = Config::parse(&TEXT.replace("x86", "arm64")).unwrap();
        assert_eq!(arm.stranger((6, 12)).unwrap(), "Linux 6.12 for arm64");
        let without = Config::parse("CONFIG_SMP=y\n").unwrap();
        assert_eq!(without.stranger((6, 1)), None);
    }
}
