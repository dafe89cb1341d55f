// SPDX-License-Identifier: MIT OR Apache-2.0
//! Globs that users type for names: `*`, `?`, and nothing else; in paths also `**`.

/// Whether `text` matches `pattern` as a whole.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on in pattern and text when the part after the last star does not match.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether a path matches `pattern`, folder by folder: `*` and `?` stand for nothing beyond a slash,
/// the folder `**` for any number of folders.
pub fn matches_path(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    matches_folders(&pattern, &path)
}

fn matches_folders(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        (["**", rest @ ..], _) => (0..=path.len()).any(|n| matches_folders(rest, &path[n..])),
        ([first, rest @ ..], [own, others @ ..]) => {
            matches(first, own) && matches_folders(rest, others)
        }
        _ => pattern.is_empty() && path.is_empty(),
    }
}

/// Whether the pattern has wildcards at all.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_globs() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "read", true),
            ("read", "read", true),
            ("read", "readv", false),
            ("read*", "readv", true),
            ("*at", "openat", true),
            ("*at", "openat2", false),
            ("p*64", "pread64", true),
            ("p?ead64", "pread64", true),
            ("?", "", false),
            ("*a*b*c", "xxaxxbxxabc", true),
            ("*a*b*c", "xxaxxbxxab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_table_of_paths() {
        for (pattern, path, expected) in [
            ("fs/open.c", "fs/open.c", true),
            ("open.c", "fs/open.c", false),
            ("fs/*.c", "fs/open.c", true),
            ("fs/*.c", "fs/ext4/inode.c", false),
            ("fs/*/inode.c", "fs/ext4/inode.c", true),
            ("*", "fs/open.c", false),
            ("**", "fs/ext4/inode.c", true),
            ("**/*.c", "fs/ext4/inode.c", true),
            ("fs/**/*.c", "fs/open.c", true),
            ("fs/**", "mm/fs/open.c", false),
            ("**/open.c", "/tree/fs/open.c", true),
            ("**/pen.c", "fs/open.c", false),
            ("", "fs", false),
        ] {
            assert_eq!(matches_path(pattern, path), expected, "{pattern} {path}");
        }
    }
}
