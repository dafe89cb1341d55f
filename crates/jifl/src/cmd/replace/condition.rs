// SPDX-License-Identifier: MIT OR Apache-2.0
//! The condition of a replacement: calls for which it does not hold run the original.

use jifl_sys::abi::{Action, Code, Get, OPS_MAX, Op};

use crate::base::exit::Failure;
use crate::expr::{ARGUMENTS, Expression, Scope, Strings};
use crate::session::measure::Programs;

/// The register of the stack pointer: later arguments lie on the stack.
const RSP: u32 = 4;

/// The program of the condition, at the entry of the replaced function.
///
/// # Errors
/// One line: the expression means nothing there, or asks for what is not known there.
pub fn program(text: &str, scope: &Scope) -> Result<Programs, Failure> {
    let about = |why: String| Failure::usage(format!("--if: {why}"));
    let mut strings = Strings::default();
    let compiled = Expression::number(text, scope, &mut strings).map_err(about)?;
    if !compiled.ops.iter().all(is_known) {
        return Err(about(format!(
            "{text}: of a call that may be replaced the arguments are known, as they were \
             passed, and memory; not `caller`, and no other registers"
        )));
    }
    let mut ops = compiled.ops;
    ops.push(Op::of(Code::If));
    if ops.len() > OPS_MAX {
        return Err(about(format!(
            "{text}: this takes {} steps, and a program has at most {OPS_MAX}",
            ops.len()
        )));
    }
    Ok(Programs {
        actions: vec![Action::of(0, ops.len() as u32)],
        ops,
        strings: strings.bytes().to_vec(),
        ring: 0,
    })
}

/// Is what the op reads known before the function has executed anything?
fn is_known(op: &Op) -> bool {
    let is = |code: Code| op.code == Op::of(code).code;
    if is(Code::Reg) {
        return op.arg == RSP || ARGUMENTS.contains(&op.arg);
    }
    !(is(Code::Get) && op.arg == Get::Caller as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{At, Scopes};

    fn of(text: &str) -> Result<Programs, String> {
        let scopes = Scopes::by(Err("there is none".into()));
        let made = program(text, &scopes.of("f", At::Entry));
        made.map_err(|failure| failure.message)
    }

    #[test]
    fn a_condition_is_one_program_that_ends_with_it() {
        let made = of("$arg0 > 4096 && comm == \"cat\"").unwrap();
        assert_eq!(made.actions.len(), 1);
        assert_eq!(made.ops.last(), Some(&Op::of(Code::If)));
        assert_eq!(made.strings, b"cat");
        assert_eq!(made.ring, 0);
    }

    #[test]
    fn what_is_not_known_at_the_door_is_refused() {
        for text in ["rbx == 1", "eax", "caller == 1", "$arg0 >", "stack"] {
            let why = of(text).unwrap_err();
            assert!(why.contains("--if: "), "{text}: {why}");
            assert!(!why.contains('\n'), "{why}");
        }
        assert!(of("rdi == 1 || r9d == 2 || pid == 3").is_ok());
    }
}
