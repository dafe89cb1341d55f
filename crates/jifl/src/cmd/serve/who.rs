// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who a client is, as the kernel or its certificate says, and what it may do.

use std::fmt;
use std::net::SocketAddr;

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// On the Unix socket: as the kernel has noted it when the client connected.
    Local {
        /// Its user.
        uid: u32,
        /// Its process, if the kernel says so.
        pid: Option<i32>,
    },
    /// With a certificate that the daemon's authority has signed.
    Certificate {
        /// The certificate's subject.
        subject: String,
        /// Where it comes from.
        from: SocketAddr,
    },
    /// With the token of the page.
    Page {
        /// Where it comes from.
        from: SocketAddr,
    },
    /// Nobody knows: it may read what /metrics has, and no more.
    Unknown {
        /// Where it comes from.
        from: SocketAddr,
    },
}

impl Who {
    /// Is it the owner of what `other` has begun? One user's processes are the same, and so are
    /// holders of certificates with one subject.
    pub fn owns_what_is_of(&self, other: &Who) -> bool {
        match (self, other) {
            (Who::Local { uid, .. }, Who::Local { uid: other, .. }) => uid == other,
            (Who::Certificate { subject, .. }, Who::Certificate { subject: other, .. }) => {
                subject == other
            }
            (Who::Page { .. }, Who::Page { .. }) => true,
            _ => false,
        }
    }

    /// May it end what `other` has begun? The machine's root may.
    pub fn may_end_what_is_of(&self, other: &Who) -> bool {
        self.is_root() || self.owns_what_is_of(other)
    }

    /// Is it this machine's root?
    pub fn is_root(&self) -> bool {
        matches!(self, Who::Local { uid: 0, .. })
    }
}

impl fmt::Display for Who {
    /// On one line, whatever the certificate has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Local {
                uid,
                pid: Some(pid),
            } => write!(f, "uid {uid} pid {pid}"),
            Who::Local { uid, pid: None } => write!(f, "uid {uid}"),
            Who::Certificate { subject, from } => {
                write!(f, "certificate {:?} from {from}", subject)
            }
            Who::Page { from } => write!(f, "page from {from}"),
            Who::Unknown { from } => write!(f, "unknown from {from}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_owns_what() {
        let from = "127.0.0.1:1".parse().unwrap();
        let local = |uid, pid| Who::Local {
            uid,
            pid: Some(pid),
        };
        let holder = |subject: &str| Who::Certificate {
            subject: subject.into(),
            from,
        };
        assert!(local(7, 1).owns_what_is_of(&local(7, 2)));
        assert!(!local(7, 1).may_end_what_is_of(&local(8, 1)));
        assert!(local(0, 1).may_end_what_is_of(&holder("CN=a")));
        assert!(!local(0, 1).owns_what_is_of(&holder("CN=a")));
        assert!(holder("CN=a").owns_what_is_of(&holder("CN=a")));
        assert!(!holder("CN=a").may_end_what_is_of(&holder("CN=b")));
        assert!(!holder("CN=a").may_end_what_is_of(&local(0, 1)));
        let page = Who::Page { from };
        assert!(page.owns_what_is_of(&page) && !page.is_root());
        let unknown = Who::Unknown { from };
        assert!(!unknown.owns_what_is_of(&unknown));
    }

    #[test]
    fn a_subject_forges_no_line() {
        let from = "10.0.0.2:99".parse().unwrap();
        let who = Who::Certificate {
            subject: "CN=a\"\njifl serve: session 9".into(),
            from,
        };
        let line = who.to_string();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.starts_with(r#"certificate "CN=a\"\njifl"#), "{line}");
        assert_eq!(
            Who::Local {
                uid: 3,
                pid: Some(4)
            }
            .to_string(),
            "uid 3 pid 4"
        );
    }
}
