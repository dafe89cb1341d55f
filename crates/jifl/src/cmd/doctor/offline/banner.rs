// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's words about itself, as /proc/version has them:
//! `Linux version RELEASE (BUILDER) (COMPILER, LINKER) #1 SMP PREEMPT_DYNAMIC ...`

/// What they say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Banner {
    /// `uname -r`.
    pub release: String,
    /// The compiler, in its own words; empty where there is none.
    pub compiler: String,
    /// `#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)`: `uname -v`.
    pub build: String,
}

impl Banner {
    /// `None`: it says no release.
    pub fn parse(text: &str) -> Option<Banner> {
        let mut words = text.strip_prefix("Linux version ")?.splitn(2, ' ');
        let release = words.next().filter(|word| !word.is_empty())?.to_owned();
        let rest = words.next().unwrap_or_default();
        let build = rest.find('#').map_or("", |at| &rest[at..]).to_owned();
        // Behind the builder: up to the linker, which is behind a comma outside of parentheses.
        let behind = rest.split_once(") (").map_or("", |(_, behind)| behind);
        let mut depth = 0;
        let end = behind.find(|letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth < 0 || depth == 0 && letter == ','
        });
        Some(Banner {
            release,
            compiler: behind[..end.unwrap_or(0)].to_owned(),
            build,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let banner = Banner::parse(
            "Linux version 6.12.117+deb12-amd64 (debian-kernel@lists.debian.org) \
             (x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld (GNU Binutils) 2.40) \
             #1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-14)",
        );
        let banner = banner.unwrap();
        assert_eq!(banner.release, "6.12.117+deb12-amd64");
        assert_eq!(
            banner.compiler,
            "x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14) 12.2.0"
        );
        assert!(banner.build.starts_with("#1 SMP PREEMPT_DYNAMIC Debian"));
        let short = Banner::parse("Linux version 6.1.0").unwrap();
        assert_eq!((short.compiler.as_str(), short.build.as_str()), ("", ""));
        assert_eq!(Banner::parse("Linux version "), None);
        assert_eq!(Banner::parse("NetBSD 10"), None);
    }
}
