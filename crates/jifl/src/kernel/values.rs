// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments and results of functions, by their types: from registers to text and to JSON.

use jifl_sys::abi::{TARGET_SIGNED, TARGET_VOID, target_arg, target_bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::errno;

/// The type of a value in a register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number of this many bytes.
    Int {
        /// 1, 2, 4 or 8.
        size: usize,
        /// Whether it is signed.
        signed: bool,
    },
    /// A number of this many bytes, with names for some values.
    Enum {
        /// 1, 2, 4 or 8.
        size: usize,
        /// Whether it is signed.
        signed: bool,
        /// The first name of a value is the one that is shown.
        names: Vec<(i64, String)>,
    },
    /// An address, or a negated error.
    Pointer,
    /// Not a single number of 64 bits: a structure or a union of this many bytes.
    Whole(usize),
}

/// An argument of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in the source.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Which of the six registers it is passed in; `None` if on the stack.
    pub register: Option<usize>,
}

/// The arguments and the result of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prototype {
    /// Arguments, in their order.
    pub parameters: Vec<Parameter>,
    /// Whether there are more arguments, of unknown types.
    pub variadic: bool,
    /// `None`: nothing is returned.
    pub result: Option<Kind>,
}

impl Prototype {
    /// Gives arguments their registers, by the System V ABI (section 3.2.3).
    pub fn new(
        parameters: impl IntoIterator<Item = (String, Kind)>,
        variadic: bool,
        result: Option<Kind>,
    ) -> Prototype {
        // If a structure is returned in memory, the first register holds its address.
        let mut used = usize::from(matches!(result, Some(Kind::Whole(17..))));
        let mut next = |kind: &Kind| {
            let words = match kind {
                Kind::Whole(size @ 1..=16) => size.div_ceil(8),
                Kind::Whole(_) => return None,
                _ => 1,
            };
            let first = used;
            (first + words <= 6).then(|| {
                used += words;
                first
            })
        };
        Prototype {
            parameters: parameters
                .into_iter()
                .map(|(name, kind)| Parameter {
                    register: next(&kind),
                    name,
                    kind,
                })
                .collect(),
            variadic,
            result,
        }
    }

    /// The type of the result, in the module's form.
    pub fn result_type(&self) -> u32 {
        self.result.as_ref().map_or(TARGET_VOID, Kind::layout)
    }

    /// The register and the type of an argument, in the module's form; `None`: no argument is
    /// chosen, or it is in no register.
    pub fn argument_type(&self, chosen: impl Fn(&Parameter) -> bool) -> Option<u32> {
        let parameter = self.parameters.iter().find(|one| chosen(one))?;
        Some(parameter.kind.layout() | target_arg(parameter.register? as u32))
    }

    /// `(name=value, ...)`
    pub fn arguments(&self, registers: &[u64; 6]) -> String {
        let mut all: Vec<String> = self
            .parameters
            .iter()
            .map(|parameter| {
                let value = parameter
                    .value(registers)
                    .and_then(|value| parameter.kind.text(value));
                format!("{}={}", parameter.name, value.as_deref().unwrap_or("..."))
            })
            .collect();
        if self.variadic {
            all.push("...".into());
        }
        format!("({})", all.join(", "))
    }

    /// Arguments by name; unknown ones are null.
    pub fn arguments_json(&self, registers: &[u64; 6]) -> Value {
        let each = self.parameters.iter().map(|parameter| {
            let value = parameter.value(registers);
            (
                parameter.name.clone(),
                value.map_or(Value::Null, |value| parameter.kind.json(value)),
            )
        });
        Value::Object(each.collect())
    }
}

impl Parameter {
    fn value(&self, registers: &[u64; 6]) -> Option<u64> {
        Some(registers[self.register?])
    }
}

impl Kind {
    /// The bytes of the value and whether it is signed, in the module's form.
    fn layout(&self) -> u32 {
        let (size, signed) = match self {
            Kind::Bool => (1, false),
            Kind::Int { size, signed } | Kind::Enum { size, signed, .. } => (*size, *signed),
            Kind::Pointer => (8, false),
            Kind::Whole(size) => (*size, false),
        };
        let size = if matches!(size, 1 | 2 | 4) { size } else { 8 };
        target_bytes(size as u32) | if signed { TARGET_SIGNED } else { 0 }
    }

    /// A value as an argument; `None` if it is no number.
    pub fn text(&self, register: u64) -> Option<String> {
        Some(match self {
            Kind::Whole(_) => return None,
            Kind::Pointer if register == 0 => "NULL".into(),
            Kind::Pointer => format!("{register:#x}"),
            Kind::Bool => (register as u8 != 0).to_string(),
            Kind::Int { size, signed } => match number(register, *size, *signed) {
                value if value > i128::from(u32::MAX) && !signed => format!("{value:#x}"),
                value => value.to_string(),
            },
            Kind::Enum {
                size,
                signed,
                names,
            } => {
                let value = number(register, *size, *signed);
                let named = names.iter().find(|(known, _)| i128::from(*known) == value);
                named.map_or_else(|| value.to_string(), |(_, name)| name.clone())
            }
        })
    }

    /// A value as a result, with an error's name.
    pub fn result(&self, register: u64) -> Option<String> {
        match (self, self.error(register)) {
            (Kind::Pointer, Some(error)) => Some(format!("ERR_PTR(-{})", errno::name(-error))),
            (_, Some(error)) => Some(format!("{error} ({})", errno::name(-error))),
            (_, None) => self.text(register),
        }
    }

    /// A value for JSON: null if it is no number. An address is text, but 0 and errors are numbers.
    pub fn json(&self, register: u64) -> Value {
        match self {
            Kind::Whole(_) => Value::Null,
            Kind::Bool => json!(register as u8 != 0),
            Kind::Pointer if register == 0 => json!(0),
            Kind::Int { size, signed: true } => {
                json!(number(register, *size, true) as i64)
            }
            Kind::Int { size, .. } => json!(number(register, *size, false) as u64),
            _ => self
                .error(register)
                .map_or_else(|| json!(self.text(register)), |error| json!(error)),
        }
    }

    /// The negated error in a result, if it is one: of an int, a long or a pointer.
    fn error(&self, register: u64) -> Option<i64> {
        let value = match self {
            Kind::Int {
                size: size @ 4..,
                signed: true,
            } => number(register, *size, true) as i64,
            Kind::Pointer => register as i64,
            _ => return None,
        };
        errno::is_error(value).then_some(value)
    }
}

/// The low bytes of a register: the others mean nothing.
fn number(register: u64, size: usize, signed: bool) -> i128 {
    let above = 64 - 8 * size.clamp(1, 8) as u32;
    let raised = register << above;
    if signed {
        i128::from(raised as i64 >> above)
    } else {
        i128::from(raised >> above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Kind = Kind::Int {
        size: 4,
        signed: true,
    };
    const ULONG: Kind = Kind::Int {
        size: 8,
        signed: false,
    };

    #[test]
    fn values_are_shown_by_their_types() {
        let text = |kind: &Kind, register| kind.text(register).unwrap();
        assert_eq!(text(&INT, 0xdead_beef_ffff_ff9c), "-100");
        assert_eq!(text(&ULONG, 4096), "4096");
        assert_eq!(text(&ULONG, 0x1_0000_0000), "0x100000000");
        assert_eq!(text(&Kind::Bool, 0x1200), "false");
        assert_eq!(text(&Kind::Pointer, 0), "NULL");
        assert_eq!(
            text(&Kind::Pointer, 0xffff_8880_0000_1000),
            "0xffff888000001000"
        );
        let names = vec![(0, "PIDTYPE_PID".to_owned()), (-1, "NONE".to_owned())];
        let kind = Kind::Enum {
            size: 4,
            signed: true,
            names,
        };
        assert_eq!(text(&kind, 0), "PIDTYPE_PID");
        assert_eq!(text(&kind, 0xffff_ffff), "NONE");
        assert_eq!(text(&kind, 7), "7");
    }

    #[test]
    fn errors_are_named_where_one_can_be_returned() {
        let result = |kind: &Kind, value: i64| kind.result(value as u64).unwrap();
        assert_eq!(result(&INT, 0xffff_fffe), "-2 (ENOENT)");
        assert_eq!(result(&INT, 18), "18");
        assert_eq!(result(&Kind::Pointer, -2), "ERR_PTR(-ENOENT)");
        assert_eq!(result(&ULONG, -2), "0xfffffffffffffffe");
        assert_eq!(INT.json(0xffff_fffe), json!(-2));
        assert_eq!(Kind::Pointer.json(-2i64 as u64), json!(-2));
        assert_eq!(Kind::Pointer.json(4096), json!("0x1000"));
    }

    #[test]
    fn structures_take_registers_but_are_not_shown() {
        let parameters = [
            ("a", Kind::Whole(16)),
            ("b", INT),
            ("c", Kind::Whole(24)),
            ("d", ULONG),
            ("e", Kind::Whole(8)),
            ("f", Kind::Bool),
            ("g", Kind::Pointer),
            ("h", Kind::Pointer),
        ];
        let parameters = parameters.map(|(name, kind)| (name.to_owned(), kind));
        let prototype = Prototype::new(parameters, true, None);
        assert_eq!(
            prototype.arguments(&[9, 9, 2, 3, 4, 1]),
            "(a=..., b=2, c=..., d=3, e=..., f=true, g=..., h=..., ...)"
        );
        let value = prototype.arguments_json(&[9, 9, 2, 3, 4, 1]);
        assert_eq!((&value["b"], &value["h"]), (&json!(2), &Value::Null));
    }
}
