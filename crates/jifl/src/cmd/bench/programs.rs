// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are run to be measured. Their cost is the processor time of their processes, so
//! waiting, perhaps for a file system of the host, costs nothing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use jifl_sys::os;

/// A program and its arguments.
pub struct Program {
    words: Vec<String>,
}

impl Program {
    /// A program from words that contain no blanks.
    pub fn new(line: &str) -> Program {
        Program {
            words: line.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Runs the program to its end. Returns its processor time, in nanoseconds.
    ///
    /// # Errors
    /// It does not exist, or did not succeed: one line.
    pub fn cost(&self) -> Result<f64, String> {
        let name = &self.words[0];
        let before = os::children_cpu_time();
        let mut command = Command::new(name);
        command.args(&self.words[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command
            .status()
            .map_err(|error| format!("{name}: {error}"))?;
        if !status.success() {
            return Err(format!("{name}: {status}"));
        }
        Ok((os::children_cpu_time() - before) as f64)
    }
}

/// A directory for output, deleted when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in the directory for temporary files.
    pub fn new() -> Result<Scratch, String> {
        let path = std::env::temp_dir().join(format!("jifl-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.0.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A compile. It executes much kernel code, of many system calls, most of it repeatedly.
pub struct Compile {
    _scratch: Scratch,
    program: Program,
}

impl Compile {
    /// Prepares the compile.
    pub fn new() -> Result<Compile, String> {
        let scratch = Scratch::new()?;
        let text = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
        let source = scratch.write("hello.c", text)?;
        let output = scratch.path("hello");
        let line = format!("gcc -O2 -o {} {}", output.display(), source.display());
        Ok(Compile {
            _scratch: scratch,
            program: Program::new(&line),
        })
    }

    /// Runs the compile.
    pub fn cost(&self) -> Result<f64, String> {
        self.program.cost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_cost_time_or_say_why_not() {
        let line = "sh -c i=0;while[$i-lt1];do:;done";
        assert!(Program::new(line).cost().is_err());
        assert!(Program::new("true").cost().is_ok());
        assert!(Program::new("false").cost().unwrap_err().contains("false"));
        assert!(
            Program::new("/no/such")
                .cost()
                .unwrap_err()
                .contains("/no/such")
        );
    }

    #[test]
    fn scratch_goes() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.write("x", "y").unwrap();
        assert!(path.exists());
        drop(scratch);
        assert!(!path.exists());
    }
}
