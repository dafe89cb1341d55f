// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page: three files, which are in this program.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, header};

use super::http::{Answer, plain};

const INDEX: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/page.js");
const CURVES: &str = include_str!("page/curves.js");
const STYLE: &str = include_str!("page/page.css");

/// Nothing but these files and this daemon.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The page itself.
pub fn index() -> Answer {
    plain(StatusCode::OK, "text/html; charset=utf-8", INDEX)
}

/// A file of the page that holds no secret: everybody may have it.
pub fn file(path: &str) -> Option<Answer> {
    let (kind, text) = match path {
        "/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/curves.js" => ("text/javascript; charset=utf-8", CURVES),
        "/page.css" => ("text/css; charset=utf-8", STYLE),
        _ => return None,
    };
    Some(plain(StatusCode::OK, kind, text))
}

/// Headers of all answers: what a browser must not do with them.
pub fn guard(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_needs_nobody_else() {
        let all = [INDEX, SCRIPT, CURVES, STYLE];
        assert!(all.iter().map(|one| one.len()).sum::<usize>() < 300_000);
        for text in all {
            // The policy would stop these, and the page would not work.
            for foreign in [
                "http://", "https://", "<script>", "style=", "onclick=", "eval(",
            ] {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
        for name in ["page.js", "curves.js", "page.css"] {
            assert!(INDEX.contains(name) && file(&format!("/{name}")).is_some());
        }
    }
}
