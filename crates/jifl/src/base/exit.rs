// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the command ends: exit statuses, and the one line that gives the reason.

/// An error of the command: one line for the user and the status to end with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// One line: the cause and the way out.
    pub message: String,
}

/// All done.
pub const DONE: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// The arguments make no sense.
pub const USAGE: u8 = 2;
/// This machine cannot do it: no privilege, no module, wrong kernel.
pub const CANNOT: u8 = 3;

/// Stopped by a limit, or by someone else, before its own end.
pub const LIMIT: u8 = 4;

impl Failure {
    /// Something failed.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(FAILED, message)
    }

    /// The arguments make no sense.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(USAGE, message)
    }

    /// This machine cannot do it.
    pub fn cannot(message: impl Into<String>) -> Failure {
        Failure::new(CANNOT, message)
    }

    fn new(status: u8, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: message.into(),
        }
    }
}
