// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions about the kernel's state at a place: `file->f_inode->i_ino`, `$ret < 0`,
//! `str(name)`. The language is C's, without what changes anything. They are compiled to ops of a
//! program that the module runs (include/uapi/jifl_action.h).
//!
//! lex -> parse -> compile (with names, objects and operators, by scope and types) -> ops; show:
//! from values to text.

mod code;
mod compile;
mod lex;
mod list;
mod members;
mod names;
mod objects;
mod operators;
mod parse;
pub mod part;
mod scope;
mod show;
mod strings;
#[cfg(test)]
mod tests;
mod types;
mod written;

use jifl_sys::abi::{OP_STACK, OPS_MAX, Op};

pub use list::{Item, split};
pub use scope::{ARGUMENTS, At, Scope, Scopes};
pub use show::{Kind, Shown};
pub use strings::Strings;

use compile::Compiler;
use lex::Error;

/// Bytes of the text of an expression.
const TEXT_MAX: usize = 1024;

/// An expression that the module can evaluate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// As it was written.
    pub text: String,
    /// These leave exactly one number: the value, or the address of a string. Of
    /// [`Kind::Stack`] there are none.
    pub ops: Vec<Op>,
    /// What the number is.
    pub kind: Kind,
}

impl Expression {
    /// Compiles a text. The strings that it compares with go to `strings`.
    ///
    /// # Errors
    /// One line: what is wrong, where, and what there is instead.
    pub fn compile(text: &str, scope: &Scope, strings: &mut Strings) -> Result<Expression, String> {
        let text = text.trim();
        if text.len() > TEXT_MAX {
            return Err(format!("an expression has at most {TEXT_MAX} bytes"));
        }
        let located = |error: Error| {
            let column = text[..error.at].chars().count() + 1;
            format!("{text}: column {column}: {}", error.message)
        };
        let (ops, kind) = Compiler::new(text, scope, strings)
            .whole()
            .map_err(located)?;
        let deepest = code::deepest(&ops);
        if deepest > OP_STACK {
            return Err(format!(
                "{text}: this needs {deepest} numbers at once, and there is room for {OP_STACK}: \
                 write it with fewer parentheses"
            ));
        }
        if ops.len() > OPS_MAX {
            return Err(format!(
                "{text}: this takes {} steps, and a program has at most {OPS_MAX}",
                ops.len()
            ));
        }
        Ok(Expression {
            text: text.to_owned(),
            ops,
            kind,
        })
    }

    /// Compiles a text whose value is a number: a condition, or what is added up.
    ///
    /// # Errors
    /// As [`Expression::compile`], and if it is a string or the stack.
    pub fn number(text: &str, scope: &Scope, strings: &mut Strings) -> Result<Expression, String> {
        let compiled = Expression::compile(text, scope, strings)?;
        match compiled.kind {
            Kind::Number(_) | Kind::Code => Ok(compiled),
            Kind::String { .. } => Err(format!(
                "{}: this is a string, and a number is wanted: compare it, as in {} == \"...\"",
                compiled.text, compiled.text
            )),
            Kind::Stack => Err(format!(
                "{}: this is the stack, and a number is wanted",
                compiled.text
            )),
        }
    }

    /// Whether the value is a signed number.
    pub fn is_signed(&self) -> bool {
        self.kind.is_signed()
    }
}
