// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page: its files, which are in this program.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, header};

use super::http::{Answer, plain};

const INDEX: &str = include_str!("page/index.html");
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, kind and text of all others.
const FILES: [(&str, &str, &str); 8] = [
    ("/daemon.js", SCRIPT, include_str!("page/daemon.js")),
    ("/curves.js", SCRIPT, include_str!("page/curves.js")),
    ("/functions.js", SCRIPT, include_str!("page/functions.js")),
    ("/heat.js", SCRIPT, include_str!("page/heat.js")),
    ("/flame.js", SCRIPT, include_str!("page/flame.js")),
    ("/search.js", SCRIPT, include_str!("page/search.js")),
    ("/views.js", SCRIPT, include_str!("page/views.js")),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("page/page.css"),
    ),
];

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
    let (_, kind, text) = FILES.iter().find(|(own, ..)| *own == path)?;
    Some(plain(StatusCode::OK, kind, *text))
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
        let texts = FILES.iter().map(|(.., text)| *text);
        let all: Vec<&str> = texts.chain([INDEX]).collect();
        assert!(all.iter().map(|one| one.len()).sum::<usize>() < 300_000);
        for text in all {
            // The policy would stop these, and the page would not work.
            for foreign in [
                "http://", "https://", "<script>", "style=", "onclick=", "eval(",
            ] {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
        for (path, ..) in FILES {
            assert!(INDEX.contains(&format!("\"{}\"", &path[1..])) && file(path).is_some());
        }
        assert!(file("/").is_none() && file("/page/index.html").is_none());
    }
}
