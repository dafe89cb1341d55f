// SPDX-License-Identifier: MIT OR Apache-2.0
//! What another machine tells, without characters that terminals obey.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::base::exit::Failure;

/// Reads JSON whose strings, and names of fields, are on one line each.
///
/// # Errors
/// It is no JSON, or has another form.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut value: Json = serde_json::from_slice(bytes)?;
    make_plain(&mut value);
    serde_json::from_value(value)
}

/// Lines without such characters.
pub fn printable(text: &str) -> String {
    let is_plain = |letter: &char| *letter == '\n' || !letter.is_control();
    text.chars().filter(is_plain).collect()
}

/// One line without them.
pub fn in_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// The same failure, with a message that a terminal only shows.
pub fn plain(failure: Failure) -> Failure {
    Failure {
        message: in_line(&failure.message),
        ..failure
    }
}

/// Takes such characters out of all strings, and names of fields.
pub fn make_plain(value: &mut Json) {
    match value {
        Json::String(text) => *text = in_line(text),
        Json::Array(all) => all.iter_mut().for_each(make_plain),
        Json::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                make_plain(&mut value);
                fields.insert(in_line(&name), value);
            }
        }
        _ => {}
    }
}
