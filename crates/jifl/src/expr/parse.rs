// SPDX-License-Identifier: MIT OR Apache-2.0
//! From tokens to a tree, with C's precedence.

use std::ops::Range;

use super::lex::{Error, Token, tokens};
use super::written::{Base, TypeName, integer, is_word_of_types, of_words};

/// A part of an expression, and its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// What it is.
    pub form: Form,
}

/// The forms of expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// An integer.
    Number(u64),
    /// A string.
    Text(Vec<u8>),
    /// A name.
    Name(String),
    /// What stands behind `$`.
    Dollar(String),
    /// `base.name` or `base->name`.
    Member {
        /// What has the member.
        base: Box<Node>,
        /// Whether it is `->`.
        arrow: bool,
        /// The member.
        name: String,
        /// Where its name stands.
        at: usize,
    },
    /// `base[index]`
    Index(Box<Node>, Box<Node>),
    /// One of `-`, `!`, `~`, `*` and `&`.
    Unary(&'static str, Box<Node>),
    /// Left and right of a sign.
    Binary(&'static str, Box<Node>, Box<Node>),
    /// `(type)node`
    Cast(TypeName, Box<Node>),
    /// `sizeof(type)`
    SizeOfType(TypeName),
    /// `sizeof(node)`
    SizeOf(Box<Node>),
    /// `name(arguments)`
    Call(String, Vec<Node>),
}

/// Parentheses in parentheses.
const DEEPEST: usize = 64;
/// Tokens of an expression. What follows the tree takes some of our own stack for each of its
/// levels, and no more than one in two tokens makes a level, but for those that nest.
const TOKENS_MAX: usize = 256;

/// Signs with two sides, from those that bind least.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// The tree of a text. `is_typedef` tells of a name that is no variable whether it is a type.
///
/// # Errors
/// The text is no expression.
pub fn parse(text: &str, is_typedef: &dyn Fn(&str) -> bool) -> Result<Node, Error> {
    let tokens = tokens(text)?;
    if tokens.len() > TOKENS_MAX {
        let why = format!("the expression has more than {TOKENS_MAX} words and signs");
        return Err(Error::new(tokens[TOKENS_MAX].1.start, why));
    }
    let mut parser = Parser {
        tokens,
        next: 0,
        depth: 0,
        is_typedef,
    };
    let node = parser.binary(0)?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("the expression has an end before")),
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, Range<usize>)>,
    next: usize,
    depth: usize,
    is_typedef: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn place(&self) -> Range<usize> {
        self.tokens[self.next].1.clone()
    }

    /// Takes a token. The last one stays.
    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// Where the token that was taken last ends.
    fn end(&self) -> usize {
        self.tokens[self.next.saturating_sub(1)].1.end
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        let there = *self.peek() == Token::Sign(sign);
        if there {
            self.take();
        }
        there
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Error> {
        match self.takes(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}` is missing before"))),
        }
    }

    /// `what` and the next token.
    fn unexpected(&self, what: &str) -> Error {
        let token = match self.peek() {
            Token::End => "the end".into(),
            Token::Number(_) => "a number".into(),
            Token::Text(_) => "a string".into(),
            Token::Name(name) => format!("`{name}`"),
            Token::Dollar(name) => format!("`${name}`"),
            Token::Sign(sign) => format!("`{sign}`"),
        };
        Error::new(self.place().start, format!("{what} {token}"))
    }

    fn binary(&mut self, level: usize) -> Result<Node, Error> {
        let Some(signs) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            let sign = match self.peek() {
                Token::Sign(sign) if signs.contains(sign) => *sign,
                _ => return Ok(left),
            };
            self.take();
            let right = self.binary(level + 1)?;
            left = Node {
                span: left.span.start..right.span.end,
                form: Form::Binary(sign, Box::new(left), Box::new(right)),
            };
        }
    }

    /// Counts what nests, as each level takes some of our own stack.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return Err(Error::new(
                self.place().start,
                "the expression nests too deep",
            ));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn unary(&mut self) -> Result<Node, Error> {
        self.deeper(Self::unary_inside)
    }

    fn unary_inside(&mut self) -> Result<Node, Error> {
        let start = self.place().start;
        let form = match self.peek().clone() {
            Token::Sign(sign @ ("-" | "!" | "~" | "*" | "&")) => {
                self.take();
                Form::Unary(sign, Box::new(self.unary()?))
            }
            Token::Sign("+") => {
                self.take();
                return self.unary();
            }
            Token::Sign("(") if self.is_type(self.next + 1) => {
                self.take();
                let to = self.type_name()?;
                self.expect(")")?;
                Form::Cast(to, Box::new(self.unary()?))
            }
            Token::Name(name) if name == "sizeof" => {
                self.take();
                self.expect("(")?;
                let form = if self.is_type(self.next) {
                    Form::SizeOfType(self.type_name()?)
                } else {
                    Form::SizeOf(Box::new(self.binary(0)?))
                };
                self.expect(")")?;
                form
            }
            _ => return self.postfix(),
        };
        let span = start..self.end();
        Ok(Node { span, form })
    }

    fn postfix(&mut self) -> Result<Node, Error> {
        let mut node = self.primary()?;
        loop {
            let start = node.span.start;
            let form = match self.peek() {
                Token::Sign(sign @ ("." | "->")) => {
                    let arrow = *sign == "->";
                    self.take();
                    let at = self.place().start;
                    let Token::Name(name) = self.peek().clone() else {
                        return Err(self.unexpected("a member is missing before"));
                    };
                    self.take();
                    Form::Member {
                        base: Box::new(node),
                        arrow,
                        name,
                        at,
                    }
                }
                Token::Sign("[") => {
                    self.take();
                    let index = self.binary(0)?;
                    self.expect("]")?;
                    Form::Index(Box::new(node), Box::new(index))
                }
                _ => return Ok(node),
            };
            let span = start..self.end();
            node = Node { span, form };
        }
    }

    fn primary(&mut self) -> Result<Node, Error> {
        let start = self.place().start;
        let form = match self.peek().clone() {
            Token::Number(number) => Form::Number(number),
            Token::Text(text) => Form::Text(text),
            Token::Dollar(name) => Form::Dollar(name),
            Token::Name(name) => {
                self.take();
                let form = match self.takes("(") {
                    true => Form::Call(name, self.arguments()?),
                    false => Form::Name(name),
                };
                let span = start..self.end();
                return Ok(Node { span, form });
            }
            Token::Sign("(") => {
                self.take();
                let mut node = self.binary(0)?;
                self.expect(")")?;
                node.span = start..self.end();
                return Ok(node);
            }
            _ => return Err(self.unexpected("a value is missing before")),
        };
        self.take();
        let span = start..self.end();
        Ok(Node { span, form })
    }

    /// What stands behind `(` up to its `)`.
    fn arguments(&mut self) -> Result<Vec<Node>, Error> {
        let mut all = Vec::new();
        if self.takes(")") {
            return Ok(all);
        }
        loop {
            all.push(self.binary(0)?);
            if !self.takes(",") {
                self.expect(")")?;
                return Ok(all);
            }
        }
    }

    /// Whether a type begins at this token.
    fn is_type(&self, token: usize) -> bool {
        let Some((Token::Name(name), _)) = self.tokens.get(token) else {
            return false;
        };
        is_word_of_types(name) || integer(name).is_some() || (self.is_typedef)(name)
    }

    fn type_name(&mut self) -> Result<TypeName, Error> {
        let start = self.place().start;
        let mut words: Vec<String> = Vec::new();
        let mut base = None;
        while let Token::Name(name) = self.peek().clone() {
            match &name[..] {
                "const" | "volatile" => {}
                _ if base.is_some() => break,
                "struct" | "union" | "enum" => {
                    self.take();
                    let Token::Name(tag) = self.peek().clone() else {
                        return Err(self.unexpected(&format!("{name}: a name is missing before")));
                    };
                    let tags = ["struct", "union", "enum"];
                    let which = tags.into_iter().find(|known| *known == name);
                    base = which.map(|which| Base::Tagged(which, tag));
                }
                _ if is_word_of_types(&name) => words.push(name),
                _ if !words.is_empty() => break,
                _ => base = Some(integer(&name).unwrap_or(Base::Named(name))),
            }
            self.take();
        }
        let base = match base {
            Some(base) if words.is_empty() => base,
            None => of_words(&words)
                .ok_or_else(|| Error::new(start, format!("`{}` is no type", words.join(" "))))?,
            Some(_) => return Err(Error::new(start, "these words are no type")),
        };
        let mut pointers = 0;
        loop {
            match self.peek() {
                Token::Sign("*") => pointers += 1,
                Token::Name(name) if name == "const" || name == "volatile" => {}
                _ => break,
            }
            self.take();
        }
        let span = start..self.end();
        Ok(TypeName {
            span,
            base,
            pointers,
        })
    }
}
