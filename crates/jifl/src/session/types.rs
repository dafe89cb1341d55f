// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of the values that a session is about: what functions return, or an argument. The
//! module is told them with the targets, since the registers of values that are short have more
//! bits than the values.

use std::sync::Arc;

use jifl_sys::abi::TARGET_VOID;

use crate::base::exit::Failure;
use crate::kernel::prototypes::Prototypes;
use crate::kernel::values::{Kind, Prototype};
use crate::session::measure::Session;
use crate::session::targets::{FunctionTarget, Target};

/// A value of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// What a function returns, if it returns anything.
    AnyResult,
    /// What a function returns. Functions that return nothing are no targets.
    Result,
    /// The pointer that a function returns. Functions that return none are no targets.
    Pointer,
    /// The argument in this register, 0 to 5.
    Register(u32),
    /// The argument of this name. Functions that have none are no targets.
    Named(&'a str),
}

/// Tells the module the types of the wanted value of each function among the targets.
///
/// # Errors
/// A target has no such value.
pub fn set(session: &mut Session, wanted: Wanted<'_>) -> Result<(), Failure> {
    let functions = session.targets.iter().any(|one| one.function().is_some());
    if let (Wanted::Named(name), Some(_)) = (wanted, session.targets.iter().find_map(Target::nr)) {
        return Err(Failure::usage(format!(
            "hist:arg.{name}: arguments of system calls have no names here: give hist:ARG0 to \
             hist:ARG5, or functions only"
        )));
    }
    if wanted == Wanted::Pointer && session.targets.iter().any(|one| one.nr().is_some()) {
        return Err(Failure::usage(
            "-x NULL is about functions that return pointers: give functions only",
        ));
    }
    if !functions {
        return Ok(());
    }
    match Prototypes::of_kernel() {
        Ok(prototypes) => with(session, wanted, &prototypes),
        Err(error) => match wanted {
            Wanted::Named(name) => Err(Failure::cannot(format!(
                "hist:arg.{name}: the kernel tells no names of arguments ({error}); it needs \
                 CONFIG_DEBUG_INFO_BTF"
            ))),
            Wanted::Pointer => Err(Failure::cannot(format!(
                "-x NULL: the kernel does not tell which functions return pointers ({error}); it \
                 needs CONFIG_DEBUG_INFO_BTF"
            ))),
            // All 64 bits of the registers are the values.
            _ => Ok(()),
        },
    }
}

fn with(session: &mut Session, wanted: Wanted<'_>, from: &Prototypes) -> Result<(), Failure> {
    let mut kept = Vec::new();
    for mut target in std::mem::take(&mut session.targets) {
        if let Target::Function(one) = &mut target {
            let prototype = from.of(&one.function.shown());
            match value(wanted, prototype.as_deref()) {
                Ok(value) => Arc::make_mut(one).value = value,
                Err(why) if one.may_be_left_out => {
                    *session.unfit.entry(why).or_default() += 1;
                    continue;
                }
                Err(why) => return Err(refused(one, wanted, why, prototype.as_deref())),
            }
        }
        kept.push(target);
    }
    session.targets = kept;
    if session.targets.is_empty() {
        let why = session.unfit.keys().copied().collect::<Vec<_>>().join("; ");
        return Err(Failure::usage(format!(
            "none of these functions can be a target: {why}"
        )));
    }
    Ok(())
}

/// The type, or why the function has no such value.
fn value(wanted: Wanted<'_>, prototype: Option<&Prototype>) -> Result<u32, &'static str> {
    match (wanted, prototype) {
        (Wanted::Named(_), None) => Err("the kernel tells no names of its arguments"),
        (Wanted::Pointer, None) => Err("the kernel does not tell what it returns"),
        (Wanted::Pointer, Some(known)) => match known.result {
            Some(Kind::Pointer) => Ok(known.result_type()),
            _ => Err("it returns no pointer"),
        },
        (_, None) => Ok(0),
        (Wanted::AnyResult, Some(known)) => Ok(known.result_type()),
        (Wanted::Result, Some(known)) => match known.result_type() {
            TARGET_VOID => Err("it returns nothing"),
            value => Ok(value),
        },
        (Wanted::Register(n), Some(known)) => {
            let chosen = known.argument_type(|one| one.register == Some(n as usize));
            chosen.ok_or("it has no such argument in a register")
        }
        (Wanted::Named(name), Some(known)) => {
            let chosen = known.argument_type(|one| one.name == name);
            chosen.ok_or("it has no such argument in a register")
        }
    }
}

fn refused(
    one: &FunctionTarget,
    wanted: Wanted<'_>,
    why: &str,
    prototype: Option<&Prototype>,
) -> Failure {
    let target = one.shown();
    let mut message = format!("{target} cannot be a target: {why}");
    if let (Wanted::Named(_) | Wanted::Register(_), Some(known)) = (wanted, prototype) {
        let names = known.parameters.iter().filter(|one| one.register.is_some());
        let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        message += &format!("; it has {names}");
    }
    Failure::usage(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::tests::sample;
    use crate::kernel::syscalls::Table;
    use crate::session::targets;
    use jifl_sys::abi::{Kind as Tool, TARGET_OPTIONAL, TARGET_SIGNED, target_arg, target_bytes};

    const INT: Kind = Kind::Int {
        size: 4,
        signed: true,
    };

    fn session(words: &[&str]) -> Session {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let selected = targets::select(&words, &Table::all(), sample, false).unwrap();
        Session::of(Tool::Call, 0, selected)
    }

    fn known() -> Prototypes {
        let parameters = [("file", Kind::Pointer), ("count", INT)];
        let parameters = parameters.map(|(name, kind)| (name.to_owned(), kind));
        Prototypes::known([
            (
                "vfs_read".to_owned(),
                Prototype::new(parameters, false, Some(INT)),
            ),
            (
                "read_page [nfs]".to_owned(),
                Prototype::new([], false, None),
            ),
            (
                "twice [nfs]".to_owned(),
                Prototype::new([], false, Some(Kind::Pointer)),
            ),
        ])
    }

    fn values(session: &Session) -> Vec<u32> {
        let specs = session.targets.iter().map(Target::spec);
        specs.map(|spec| spec.flags).collect()
    }

    #[test]
    fn values_have_the_types_of_the_prototypes() {
        let int = TARGET_SIGNED | target_bytes(4);
        for (wanted, value) in [
            (Wanted::Result, int),
            (Wanted::AnyResult, int),
            (Wanted::Register(1), int | target_arg(1)),
            (Wanted::Named("count"), int | target_arg(1)),
            (Wanted::Named("file"), target_bytes(8) | target_arg(0)),
        ] {
            let mut session = session(&["fn:vfs_read"]);
            with(&mut session, wanted, &known()).unwrap();
            assert_eq!(values(&session), [value], "{wanted:?}");
        }
        let mut void = session(&["fn:read_page@nfs"]);
        with(&mut void, Wanted::AnyResult, &known()).unwrap();
        assert_eq!(values(&void), [TARGET_VOID]);
    }

    #[test]
    fn functions_without_the_value_are_refused_or_left_out() {
        for (word, wanted, hint) in [
            ("fn:read_page@nfs", Wanted::Result, "it returns nothing"),
            ("fn:vfs_read", Wanted::Named("pos"), "it has file, count"),
            ("fn:vfs_read", Wanted::Register(2), "it has file, count"),
            ("fn:vfs_write", Wanted::Named("pos"), "tells no names"),
            (
                "fn:vfs_write",
                Wanted::Pointer,
                "does not tell what it returns",
            ),
            ("fn:vfs_read", Wanted::Pointer, "it returns no pointer"),
        ] {
            let failure = with(&mut session(&[word]), wanted, &known()).unwrap_err();
            assert!(failure.message.contains(hint), "{}", failure.message);
            assert!(!failure.message.contains('\n'));
        }
        let mut several = session(&["fn:vfs_*", "mod:nfs"]);
        with(&mut several, Wanted::Named("count"), &known()).unwrap();
        assert_eq!(several.targets.len(), 1);
        assert_eq!(several.unfit.values().sum::<u64>(), 4);
        let mut pointers = session(&["fn:vfs_*", "mod:nfs"]);
        with(&mut pointers, Wanted::Pointer, &known()).unwrap();
        assert_eq!(values(&pointers), [target_bytes(8) | TARGET_OPTIONAL]);
        let both = set(&mut session(&["sys:read", "fn:vfs_read"]), Wanted::Pointer);
        assert!(both.unwrap_err().message.contains("functions only"));
        let none = with(&mut session(&["mod:nfs"]), Wanted::Named("x"), &known()).unwrap_err();
        assert!(none.message.starts_with("none of these functions"));
    }
}
