// SPDX-License-Identifier: MIT OR Apache-2.0
//! The protocol of the one port between host and guest: frames of a kind, a length and that many
//! bytes. One ordered stream carries everything. So output that was written before the command
//! ended arrives before the frame that reports the end.

use std::io::{self, Read, Write};

/// The longest payload; a longer one means that the stream is out of step.
const MAX: usize = 1 << 20;

/// The meaning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Guest: init runs; the frames up to `Go` may be sent.
    Hello = 1,
    /// Host: one argument of the command, in order.
    Arg,
    /// Host: one `NAME=value` of its environment.
    Env,
    /// Host: the directory it starts in.
    Cwd,
    /// Host: a writable directory. Its number is its place among these frames.
    Writable,
    /// Host: directory of the kernel's modules.
    ModuleDir,
    /// Host: a module to insert.
    Module,
    /// Host: standard error goes where standard output goes.
    Merge,
    /// Host: the job is complete, start.
    Go,
    /// Guest: the machine is set up, the command starts.
    Ready,
    /// Guest: set-up failed; the payload says why.
    Failed,
    /// Host: bytes for the command's standard input; empty: its end.
    Stdin,
    /// Guest: bytes from standard output.
    Stdout,
    /// Guest: bytes from standard error.
    Stderr,
    /// Guest: the command ended, with this one byte as its status.
    Exit,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Hello,
        Kind::Arg,
        Kind::Env,
        Kind::Cwd,
        Kind::Writable,
        Kind::ModuleDir,
        Kind::Module,
        Kind::Merge,
        Kind::Go,
        Kind::Ready,
        Kind::Failed,
        Kind::Stdin,
        Kind::Stdout,
        Kind::Stderr,
        Kind::Exit,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Writes one frame with a single `write_all`.
pub fn send(to: &mut impl Write, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.push(kind as u8);
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(payload);
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads one frame; `None` at the end of the stream, also in the midst of a frame
/// (a machine that is gone cuts off where it stood).
pub fn receive(from: &mut impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0; 5];
    if !read_full(from, &mut head)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let kind = Kind::from_byte(head[0]).filter(|_| length <= MAX);
    let Some(kind) = kind else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not a frame: {head:02x?}"),
        ));
    };
    let mut payload = vec![0; length];
    if !read_full(from, &mut payload)? {
        return Ok(None);
    }
    Ok(Some((kind, payload)))
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let mut stream = Vec::new();
        for kind in Kind::ALL {
            send(&mut stream, kind, format!("{kind:?}").as_bytes()).unwrap();
        }
        let mut from = stream.as_slice();
        for kind in Kind::ALL {
            let frame = receive(&mut from).unwrap().unwrap();
            assert_eq!(frame, (kind, format!("{kind:?}").into_bytes()));
        }
        assert_eq!(receive(&mut from).unwrap(), None);
    }

    #[test]
    fn a_cut_frame_is_an_end_and_noise_an_error() {
        let mut stream = Vec::new();
        send(&mut stream, Kind::Stdout, b"12345").unwrap();
        assert_eq!(receive(&mut &stream[..7]).unwrap(), None);
        assert!(receive(&mut &b"\xff\0\0\0\0"[..]).is_err());
        assert!(receive(&mut &b"\x01\xff\xff\xff\xff"[..]).is_err());
    }
}
