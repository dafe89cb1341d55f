// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and text in the form that tables, pages and JSON have.

use serde::Serialize;

/// `38,211,348`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// For the text of HTML and SVG, and for attributes in double quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            _ => safe.push(letter),
        }
    }
    safe
}

/// The same without ends of lines and other characters that terminals obey.
pub fn one_line(text: &str) -> String {
    let one = |letter: char| match letter.is_control() {
        true => letter.escape_default().collect::<String>(),
        false => letter.to_string(),
    };
    text.chars().map(one).collect()
}

/// For a cell of CSV: in quotes where it needs them.
pub fn csv(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// `12.3%`; nothing of nothing is none.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1}%", part as f64 / whole as f64 * 100.0)
}

/// Any object as one line.
pub fn json(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("plain structures always serialize") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn shares_are_rounded() {
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(0, 0), "-");
    }
}
