// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ways into a QEMU that runs: its monitor (QMP), which reads the state of the machine while
//! the machine goes on, and its gdbstub, which alone can write memory. Both are sockets that QEMU
//! inherits.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

/// The gdbstub starts with this chardev when it is first needed (docs of QEMU: `gdbserver`).
pub(crate) const STUB: &str = "stub";

/// QEMU's monitor.
pub(crate) struct Monitor {
    reader: BufReader<UnixStream>,
}

impl Monitor {
    /// Waits for QEMU's greeting.
    pub(crate) fn open(stream: UnixStream) -> io::Result<Self> {
        let mut monitor = Self {
            reader: BufReader::new(stream),
        };
        monitor.receive()?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// One command of QMP; gives what it returns.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        self.reader
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())?;
        loop {
            // Events come between, too.
            let mut answer = self.receive()?;
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(io::Error::other(format!("{command}: {error}")));
            }
        }
    }

    /// One command of the monitor that people use, on this CPU; gives what it prints.
    pub(crate) fn print(&mut self, cpu: usize, line: &str) -> io::Result<String> {
        let arguments = json!({ "command-line": line, "cpu-index": cpu });
        let printed = self.execute("human-monitor-command", arguments)?;
        Ok(printed.as_str().unwrap_or_default().to_owned())
    }

    fn receive(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

/// QEMU's gdbstub. It answers only while the machine is stopped: a byte that it receives while the
/// machine runs stops it.
pub(crate) struct Stub<S> {
    stream: S,
}

impl<S: Read + Write> Stub<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream }
    }

    /// Writes the byte at this address of this CPU as it is, and the next one.
    pub(crate) fn rewrite(&mut self, cpu: usize, address: u64) -> io::Result<()> {
        // The stub counts CPUs from 1.
        self.ask(&format!("Hg{:x}", cpu + 1), |answer| answer == "OK")?;
        let bytes = self.ask(&format!("m{address:x},2"), |answer| {
            answer.len() == 4 && u16::from_str_radix(answer, 16).is_ok()
        })?;
        self.ask(&format!("M{address:x},2:{bytes}"), |answer| answer == "OK")?;
        Ok(())
    }

    /// Sends a request; the answer must be good.
    fn ask(&mut self, request: &str, good: impl Fn(&str) -> bool) -> io::Result<String> {
        self.stream.write_all(packet(request).as_bytes())?;
        let answer = self.receive()?;
        if good(&answer) {
            return Ok(answer);
        }
        Err(io::Error::other(format!("{request}: {answer:?}")))
    }

    /// The next packet's text. Acknowledgements are skipped: on a socket nothing gets lost.
    fn receive(&mut self) -> io::Result<String> {
        while self.byte()? != b'$' {}
        let mut text = Vec::new();
        loop {
            match self.byte()? {
                b'#' => break,
                byte => text.push(byte),
            }
        }
        let sum = [self.byte()?, self.byte()?];
        self.stream.write_all(b"+")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if packet(&text).as_bytes().ends_with(&sum) {
            return Ok(text);
        }
        Err(io::Error::other(format!("checksum of {text:?}")))
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

/// The form of a packet of the gdb remote protocol.
fn packet(text: &str) -> String {
    let sum = text.bytes().fold(0u8, u8::wrapping_add);
    format!("${text}#{sum:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what QEMU sends; keeps what it is sent.
    struct Script<'a> {
        answers: &'a [u8],
        requests: Vec<u8>,
    }

    impl Read for Script<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.answers.read(buffer)
        }
    }

    impl Write for Script<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.requests.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn rewritten(answers: &[u8]) -> (io::Result<()>, String) {
        let mut stub = Stub::new(Script {
            answers,
            requests: Vec::new(),
        });
        let result = stub.rewrite(1, 0xffff_ffff_81a5_a000);
        let requests = String::from_utf8(stub.stream.requests).unwrap();
        (result, requests)
    }

    #[test]
    fn the_same_byte_is_written() {
        let (result, requests) = rewritten(b"+$OK#9a+$e81f#34+$OK#9a");
        result.unwrap();
        assert_eq!(
            requests,
            "$Hg2#e1+$mffffffff81a5a000,2#eb+$Mffffffff81a5a000,2:e81f#39+"
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_written() {
        for answer in ["+$E14#aa", "+$#00", "+$e8#9d", "+$e81f#00", ""] {
            let (result, requests) = rewritten(format!("+$OK#9a{answer}").as_bytes());
            assert!(result.is_err(), "{answer}");
            assert!(!requests.contains('M'), "{requests}");
        }
    }

    #[test]
    fn events_are_no_answers() {
        let (mut qemu, ours) = UnixStream::pair().unwrap();
        let lines = [
            r#"{"QMP": {"capabilities": []}}"#,
            r#"{"return": {}}"#,
            r#"{"event": "STOP"}"#,
            r#"{"return": "RIP=1\r\n"}"#,
            r#"{"error": {"class": "GenericError", "desc": "no"}}"#,
        ];
        qemu.write_all((lines.join("\r\n") + "\r\n").as_bytes())
            .unwrap();
        let mut monitor = Monitor::open(ours).unwrap();
        assert_eq!(monitor.print(1, "info registers").unwrap(), "RIP=1\r\n");
        assert!(
            monitor
                .print(1, "x 0")
                .unwrap_err()
                .to_string()
                .contains("no")
        );
        drop(qemu);
        assert!(monitor.print(0, "x 0").is_err());
    }
}
