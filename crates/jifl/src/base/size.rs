// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes as users type them.

/// Parses `64K`, `1M`, `2G`, or a plain number of bytes.
///
/// # Errors
/// It is none of these, or too large.
pub fn parse(text: &str) -> Result<u32, String> {
    let (number, scale) = match text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']) {
        digits if digits.len() + 1 >= text.len() => (digits, &text[digits.len()..]),
        _ => (text, ""),
    };
    let shift = match scale {
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => 0,
    };
    let bytes = number.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
    bytes
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "a size is a number of bytes below 4G, such as 64K or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse("1"), Ok(1));
        assert_eq!(parse("64K"), Ok(64 << 10));
        assert_eq!(parse("1m"), Ok(1 << 20));
        for wrong in ["", "0", "K", "1KK", "4G", "1T", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
