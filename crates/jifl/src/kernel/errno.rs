// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors by number and name.

use crate::base::exit::Failure;
use syscalls::Errno;

/// Negative results above the negated limit are errors (include/linux/err.h).
pub const LIMIT: i64 = 4096;

/// Errors inside the kernel, which user space never sees (include/linux/errno.h).
const INTERNAL: [(i64, &str); 6] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"),
    (517, "EPROBE_DEFER"),
];

/// True if a call's result is an error.
pub fn is_error(result: i64) -> bool {
    (1 - LIMIT..0).contains(&result)
}

/// `ENOENT`; the number if it has no name.
pub fn name(number: i64) -> String {
    if let Some((_, name)) = INTERNAL.iter().find(|known| known.0 == number) {
        return (*name).to_owned();
    }
    let known = i32::try_from(number)
        .ok()
        .and_then(|n| Errno::new(n).name());
    known.map_or_else(|| number.to_string(), str::to_owned)
}

/// A call's result as text: `3`, `-ENOENT`; an address in hexadecimal.
pub fn result(value: i64) -> String {
    if is_error(value) {
        return format!("-{}", name(-value));
    }
    if value >> 32 != 0 {
        return format!("{value:#x}");
    }
    value.to_string()
}

/// `No such file or directory`
pub fn description(number: i64) -> Option<String> {
    if INTERNAL.iter().any(|known| known.0 == number) {
        return Some("the kernel's own: the call is made again, or returns another".into());
    }
    let text = std::io::Error::from_raw_os_error(i32::try_from(number).ok()?).to_string();
    let words = text.strip_suffix(&format!(" (os error {number})"))?;
    (!words.starts_with("Unknown error")).then(|| words.to_owned())
}

/// The number of a name as C has it; `None`: there is no such error.
pub fn constant(wanted: &str) -> Option<i64> {
    let wanted = match wanted {
        "EWOULDBLOCK" => "EAGAIN",
        "EDEADLOCK" => "EDEADLK",
        "ENOTSUP" => "EOPNOTSUPP",
        other => other,
    };
    let named = |number: &i64| wanted.starts_with('E') && name(*number) == wanted;
    (1..LIMIT).find(named)
}

/// An error by number, or by name in upper or lower case.
///
/// # Errors
/// There is no such error.
pub fn parse(text: &str) -> Result<i64, Failure> {
    let known = (1..LIMIT).filter(|number| name(*number) != number.to_string());
    let found = match text.trim_start_matches('-').parse::<i64>() {
        Ok(wanted) => known.clone().find(|number| *number == wanted),
        Err(_) => constant(&text.to_ascii_uppercase()),
    };
    found.ok_or_else(|| {
        let text = text.to_ascii_uppercase();
        let near = known
            .map(name)
            .max_by(|a, b| {
                let near = |name: &str| strsim::jaro_winkler(name, &text);
                near(a).total_cmp(&near(b))
            })
            .unwrap_or_default();
        Failure::usage(format!(
            "-x {text}: no such error; give a name such as ENOENT or a number such as 2; the \
             nearest name is {near}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, number) in [
            ("ENOENT", 2),
            ("enoent", 2),
            ("2", 2),
            ("-2", 2),
            ("EWOULDBLOCK", 11),
        ] {
            assert_eq!(parse(text), Ok(number), "{text}");
        }
        assert_eq!(parse("ERESTARTSYS"), Ok(512));
        for text in ["0", "4096", "300", "EFOO", ""] {
            assert_eq!(
                parse(text).unwrap_err().status,
                crate::base::exit::USAGE,
                "{text}"
            );
        }
        assert!(parse("ENONT").unwrap_err().message.contains("ENOENT"));
        assert_eq!(name(2), "ENOENT");
        assert_eq!(name(300), "300");
        assert_eq!(description(9).as_deref(), Some("Bad file descriptor"));
        assert_eq!(description(300), None);
        assert_eq!(
            [result(3), result(-2), result(0x7fff_0000_1000)],
            ["3", "-ENOENT", "0x7fff00001000"]
        );
        assert!(is_error(-4095) && !is_error(-4096) && !is_error(0));
    }
}
