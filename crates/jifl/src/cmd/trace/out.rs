// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a trace to its destination: in parts, each of whole calls.

use super::form::{Form, Shown, View};
use crate::base::exit::Failure;
use crate::session::calls::losses::Losses;
use crate::show::output::Sink;

/// Size of a part. A call that is larger is written as a whole.
const PART: usize = 1 << 16;

/// A form and its destination.
pub struct Out {
    form: Box<dyn Form>,
    sink: Sink,
    part: Vec<u8>,
    /// The last part that was written: an ending may need its room.
    last: Vec<u8>,
    /// Bytes written before that one.
    settled: u64,
}

impl Out {
    /// Writes the beginning of the form at once.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(mut form: Box<dyn Form>, sink: Sink) -> Result<Out, Failure> {
        let mut part = Vec::new();
        form.begin(&mut part);
        let mut out = Out {
            form,
            sink,
            part,
            last: Vec::new(),
            settled: 0,
        };
        out.flush()?;
        out.settle();
        Ok(out)
    }

    /// Writes a call, and its shown functions.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn call(&mut self, shown: &Shown, view: &View) -> Result<(), Failure> {
        self.form.call(&mut self.part, shown, view);
        if self.part.len() < PART {
            return Ok(());
        }
        self.flush()
    }

    /// Writes the end of the form.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn close(mut self, view: &View, losses: &Losses) -> Result<(), Failure> {
        self.form.end(&mut self.part, view, losses);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let result = self.sink.write_bytes(&self.part);
        match result {
            Ok(()) => {
                self.settle();
                std::mem::swap(&mut self.last, &mut self.part);
            }
            Err(_) => self.make_whole(),
        }
        self.part.clear();
        result
    }

    /// The last part stays whatever happens.
    fn settle(&mut self) {
        self.settled += self.last.len() as u64;
        self.last.clear();
    }

    /// Completes a file that had no room for the whole of a part.
    fn make_whole(&mut self) {
        let Some(length) = self.sink.length() else {
            return;
        };
        let written = self.settled + self.last.len() as u64;
        let fitted = length.saturating_sub(written) as usize;
        let fitted = &self.part[..fitted.min(self.part.len())];
        if let Some((keep, closing)) = self.form.whole(&self.last, fitted) {
            self.sink.cut(self.settled + keep as u64, closing);
        }
    }
}
