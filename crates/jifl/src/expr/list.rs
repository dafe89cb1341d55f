// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of expressions: `pid, size=count, str(name)`.

/// An expression of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is called: as given by `label=`, or the text itself.
    pub label: String,
    /// The expression.
    pub text: String,
}

/// The expressions of a list, which commas separate. Commas in parentheses, brackets and quotes do
/// not.
///
/// # Errors
/// An expression is empty.
pub fn split(list: &str) -> Result<Vec<Item>, String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote, mut escaped) = (0i32, None, false);
    for c in list.chars() {
        match (quote, c) {
            (Some(open), _) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped;
            }
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, ',') if depth <= 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let items: Option<Vec<Item>> = parts.iter().map(|part| item(part.trim())).collect();
    items
        .ok_or_else(|| format!("{list}: an expression is empty: write them as pid,comm,size=count"))
}

fn item(part: &str) -> Option<Item> {
    let labelled = part.split_once('=').filter(|(label, text)| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let label = label.trim_end();
        !label.is_empty() && label.chars().all(word) && !text.starts_with('=')
    });
    let (label, text) = match labelled {
        Some((label, text)) => (label.trim_end(), text.trim()),
        None => (part, part),
    };
    (!text.is_empty()).then(|| Item {
        label: label.to_owned(),
        text: text.to_owned(),
    })
}
