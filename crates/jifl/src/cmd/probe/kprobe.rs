// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of kprobe events (Documentation/trace/kprobetrace.rst of the kernel) as places and
//! expressions: `p:name vfs_read+0x1a count=%dx pos=+0(%cx):s64`.

use crate::base::exit::Failure;
use crate::expr::Item;
use crate::kernel::symbols::Symbols;

/// A line, read.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// What records call it.
    pub event: String,
    /// The place, in this command's notation.
    pub place: String,
    /// The values.
    pub fields: Vec<Item>,
}

const FORM: &str = "a line is p[:[GROUP/]EVENT] [MODULE:]SYMBOL[+OFFSET] \
                    [NAME=FETCHARG[:TYPE] ...], or r... for returns";

/// Reads a line. symbols: for `@SYMBOL`.
///
/// # Errors
/// It is none, or it asks for what is not supported.
pub fn parse(line: &str, symbols: &Symbols) -> Result<Line, Failure> {
    let wrong = |why: &str| Failure::usage(format!("{line}: {why}"));
    let mut words = line.split_whitespace();
    let (Some(first), Some(place)) = (words.next(), words.next()) else {
        return Err(wrong(FORM));
    };
    let (kind, name) = first.split_once(':').unwrap_or((first, ""));
    // r may have a number of instances, which are not needed here.
    let returns = match kind.chars().next() {
        Some('p') if kind == "p" => false,
        Some('r') if kind[1..].chars().all(|c| c.is_ascii_digit()) => true,
        _ => return Err(wrong(FORM)),
    };
    let function = place_of(place, returns);
    let mut fields = Vec::new();
    for (at, word) in words.enumerate() {
        let (label, fetch) = match word.split_once('=') {
            Some((label, fetch)) => (label.to_owned(), fetch),
            None => (format!("arg{}", at + 1), word),
        };
        let text = argument(fetch, symbols).map_err(|why| wrong(&format!("{word}: {why}")))?;
        fields.push(Item { label, text });
    }
    let event = name.rsplit('/').next().filter(|name| !name.is_empty());
    Ok(Line {
        event: event.map_or_else(|| place.to_owned(), str::to_owned),
        place: function,
        fields,
    })
}

/// `ext4:f+4` is `fn:f@ext4+4`.
fn place_of(place: &str, returns: bool) -> String {
    let (place, returns) = match place.strip_suffix("%return") {
        Some(place) => (place, true),
        None => (place, returns),
    };
    let tail = if returns { "%return" } else { "" };
    if place.starts_with("0x") {
        return format!("{place}{tail}");
    }
    let (module, symbol) = match place.split_once(':') {
        Some((module, symbol)) => (format!("@{module}"), symbol),
        None => (String::new(), place),
    };
    match symbol.split_once('+') {
        // A kretprobe has the offset 0.
        Some((name, _)) if returns => format!("fn:{name}{module}{tail}"),
        Some((name, offset)) => format!("fn:{name}{module}+{offset}"),
        None => format!("fn:{symbol}{module}{tail}"),
    }
}

/// `FETCHARG[:TYPE]` as an expression.
fn argument(text: &str, symbols: &Symbols) -> Result<String, String> {
    // No FETCHARG has a colon.
    let (fetch, kind) = match text.rsplit_once(':') {
        Some((fetch, kind)) => (fetch, kind),
        None => (text, ""),
    };
    match kind {
        "string" | "ustring" => {
            return match address(fetch, symbols)? {
                Some(address) => Ok(format!("str({address})")),
                None if fetch == "$comm" => Ok("comm".into()),
                None => Err("a string stands in memory: +0(FETCHARG):string".into()),
            };
        }
        "" if fetch == "$comm" => return Ok("comm".into()),
        _ => {}
    }
    let kind = match kind {
        "" | "x64" | "symbol" => "u64",
        "x8" => "u8",
        "x16" => "u16",
        "x32" => "u32",
        "u8" | "u16" | "u32" | "u64" | "s8" | "s16" | "s32" | "s64" => kind,
        "char" => "char",
        _ => {
            return Err(format!(
                "the type {kind} is not supported: there are u8 to u64, s8 to s64, x8 to x64, \
                 char, string and ustring"
            ));
        }
    };
    match address(fetch, symbols)? {
        Some(address) => Ok(format!("*({kind} *)({address})")),
        None => Ok(format!("({kind})({})", value(fetch, symbols)?)),
    }
}

/// The address that a FETCHARG loads from, as an expression; `None`: it loads nothing.
fn address(fetch: &str, symbols: &Symbols) -> Result<Option<String>, String> {
    if let Some(place) = fetch.strip_prefix('@') {
        return symbol(place, symbols).map(Some);
    }
    let signed = fetch.starts_with(['+', '-']);
    let inner = fetch
        .strip_suffix(')')
        .and_then(|rest| rest.split_once('('));
    match inner {
        Some((offset, inner)) if signed => {
            let sign = &offset[..1];
            let number = offset[1..].trim_start_matches('u');
            if !is_number(number) {
                return Err(format!("{offset} is no offset"));
            }
            Ok(Some(format!("{} {sign} {number}", value(inner, symbols)?)))
        }
        _ => Ok(None),
    }
}

/// A FETCHARG as an expression of a number.
fn value(fetch: &str, symbols: &Symbols) -> Result<String, String> {
    if let Some(address) = address(fetch, symbols)? {
        return Ok(format!("*(u64 *)({address})"));
    }
    if let Some(register) = fetch.strip_prefix('%') {
        return match register {
            "ip" | "sp" | "bp" | "ax" | "bx" | "cx" | "dx" | "si" | "di" => {
                Ok(format!("r{register}"))
            }
            "flags" => Ok("rflags".into()),
            other => Ok(other.to_owned()),
        };
    }
    if let Some(number) = fetch.strip_prefix('\\') {
        return is_number(number)
            .then(|| number.to_owned())
            .ok_or_else(|| format!("{number} is no number"));
    }
    let Some(name) = fetch.strip_prefix('$') else {
        return Err("there is no such FETCHARG: a register is %di, memory is +8(%di)".into());
    };
    if name == "retval" {
        return Ok("(u64)$ret".into());
    }
    if name == "stack" {
        return Ok("rsp".into());
    }
    let digits = |prefix| {
        let digits: &str = name.strip_prefix(prefix)?;
        digits.parse::<u32>().ok()
    };
    if let Some(word) = digits("stack") {
        return Ok(format!("*(u64 *)(rsp + {})", u64::from(word) * 8));
    }
    match digits("arg") {
        Some(number @ 1..=6) => Ok(format!("$arg{}", number - 1)),
        _ => Err(format!("${name} is not supported")),
    }
}

fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).is_ok(),
        None => text.parse::<u64>().is_ok(),
    }
}

/// `SYMBOL[+-OFFSET]` or an address, as a number.
fn symbol(place: &str, symbols: &Symbols) -> Result<String, String> {
    if is_number(place) {
        return Ok(place.to_owned());
    }
    let at = place.find(['+', '-']).unwrap_or(place.len());
    let (name, offset) = place.split_at(at);
    let found = symbols.address(name).or_else(|| symbols.variable_at(name));
    let begin = found.ok_or_else(|| format!("the kernel has no symbol {name}"))?;
    match offset.get(1..).filter(|number| !is_number(number)) {
        Some(number) => Err(format!("{number} is no offset")),
        None => Ok(format!("{begin:#x}{offset}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, String> {
        let symbols = Symbols::parse("1000 T f\n2000 D jiffies\n");
        parse(line, &symbols).map_err(|failure| failure.message)
    }

    #[test]
    fn lines_of_the_kernels_documentation() {
        let line =
            read("p:myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)").unwrap();
        assert_eq!(
            (line.event.as_str(), line.place.as_str()),
            ("myprobe", "fn:do_sys_open")
        );
        let texts: Vec<&str> = line
            .fields
            .iter()
            .map(|field| field.text.as_str())
            .collect();
        assert_eq!(
            texts,
            [
                "(u64)(rax)",
                "(u64)(rdx)",
                "(u64)(rcx)",
                "*(u64 *)(rsp + 4)"
            ]
        );
        assert_eq!(line.fields[1].label, "filename");
        let line = read("r:grp/back do_sys_open $retval:s32").unwrap();
        assert_eq!(
            (line.event.as_str(), line.place.as_str()),
            ("back", "fn:do_sys_open%return")
        );
        assert_eq!(line.fields[0].text, "(s32)((u64)$ret)");
        let line =
            read("p ext4:ext4_sync_file+0x1a +0(+8(%di)):string $comm @jiffies+8:u32 $arg2 \\7:u8");
        let line = line.unwrap();
        assert_eq!(line.place, "fn:ext4_sync_file@ext4+0x1a");
        let texts: Vec<&str> = line
            .fields
            .iter()
            .map(|field| field.text.as_str())
            .collect();
        let string = "str(*(u64 *)(rdi + 8) + 0)";
        assert_eq!(
            texts,
            [
                string,
                "comm",
                "*(u32 *)(0x2000+8)",
                "(u64)($arg1)",
                "(u8)(7)"
            ]
        );
        assert_eq!(line.fields[0].label, "arg1");
    }

    #[test]
    fn what_is_not_supported_is_said() {
        for (line, hint) in [
            ("vfs_read", "a line is p"),
            ("q:x vfs_read", "a line is p"),
            (
                "p vfs_read x=%di:b4@2/32",
                "the type b4@2/32 is not supported",
            ),
            ("p vfs_read x=di", "a register is %di"),
            ("p vfs_read x=@nothing", "no symbol nothing"),
            ("p vfs_read x=%di:string", "stands in memory"),
            ("p vfs_read x=$arg7", "$arg7 is not supported"),
        ] {
            let why = read(line).unwrap_err();
            assert!(why.contains(hint), "{line}: {why}");
        }
    }
}
