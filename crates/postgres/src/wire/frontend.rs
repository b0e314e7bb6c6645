//! The messages of clients, read and written.
//!
//! There are two levels. A pooler needs the names and texts only: [`BindNames`] reads them from the start of a body that
//! is still arriving, and [`rename`] writes a message with another statement name and copies the rest. A server needs
//! all of it: [`Message::read`] and the `read` of each message. Promises that what is accepted is written again byte by
//! byte by [`Message::write`]. Never decides which message may follow which, and does not decode texts.

mod write;

pub use write::{
    bind, close, copy_data, copy_done, copy_fail, describe, execute, flush, function_call, parse,
    query, rename, sasl_initial_response, sasl_response, sync, terminate,
};

use super::body::{Body, split_text};
use super::kind::client;
use super::{BodyError, Format, Formats, Oids, TooLong, Values};
use std::ops::Range;

/// A client's message after its login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Run the statements in this text.
    Query(&'a [u8]),
    /// Prepare a statement.
    Parse(Parse<'a>),
    /// Make a portal of a prepared statement and its parameters.
    Bind(Bind<'a>),
    /// Describe a statement or a portal.
    Describe(Target<'a>),
    /// Run a portal.
    Execute(Execute<'a>),
    /// Close a statement or a portal.
    Close(Target<'a>),
    /// End a batch.
    Sync,
    /// Send what is ready.
    Flush,
    /// A piece of the data of COPY.
    CopyData(&'a [u8]),
    /// The end of the data of COPY.
    CopyDone,
    /// The data of COPY ends with this error.
    CopyFail(&'a [u8]),
    /// Call a function.
    FunctionCall(FunctionCall<'a>),
    /// End the session.
    Terminate,
}

impl<'a> Message<'a> {
    /// Reads the body of a message of this kind. The kinds are those of
    /// [`Side::client`](super::frame::Side::client); another one is an error.
    pub fn read(kind: u8, bytes: &'a [u8]) -> Result<Self, BodyError> {
        Ok(match kind {
            client::QUERY => Self::Query(query_text(bytes)?),
            client::PARSE => Self::Parse(Parse::read(bytes)?),
            client::BIND => Self::Bind(Bind::read(bytes)?),
            client::DESCRIBE => Self::Describe(Target::read("Describe", bytes)?),
            client::EXECUTE => Self::Execute(Execute::read(bytes)?),
            client::CLOSE => Self::Close(Target::read("Close", bytes)?),
            client::SYNC => nothing(Self::Sync, "Sync", bytes)?,
            client::FLUSH => nothing(Self::Flush, "Flush", bytes)?,
            client::COPY_DATA => Self::CopyData(bytes),
            client::COPY_DONE => nothing(Self::CopyDone, "CopyDone", bytes)?,
            client::COPY_FAIL => Self::CopyFail(only_text("CopyFail", bytes)?),
            client::FUNCTION_CALL => Self::FunctionCall(FunctionCall::read(bytes)?),
            client::TERMINATE => nothing(Self::Terminate, "Terminate", bytes)?,
            _ => return Err(Body::new("client", bytes).error("the kind is unknown")),
        })
    }

    /// Adds the message.
    pub fn write(self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Self::Query(text) => query(out, text),
            Self::Parse(message) => parse(out, message.name, message.query, message.types),
            Self::Bind(message) => bind(
                out,
                BindNames { portal: message.portal, statement: message.statement },
                message.formats,
                message.values,
                message.result_formats,
            ),
            Self::Describe(target) => describe(out, target),
            Self::Execute(message) => execute(out, message),
            Self::Close(target) => close(out, target),
            Self::Sync => sync(out),
            Self::Flush => flush(out),
            Self::CopyData(data) => return copy_data(out, data),
            Self::CopyDone => copy_done(out),
            Self::CopyFail(text) => copy_fail(out, text),
            Self::FunctionCall(call) => {
                function_call(out, call.function, call.formats, call.values, call.result_format);
            }
            Self::Terminate => terminate(out),
        }
        Ok(())
    }
}

/// The text of a Query.
pub fn query_text(bytes: &[u8]) -> Result<&[u8], BodyError> {
    only_text("Query", bytes)
}

/// Prepares a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The name of the new statement; empty for the unnamed one.
    pub name: &'a [u8],
    /// Its text.
    pub query: &'a [u8],
    /// The types of its first parameters; 0 for a type the client does not know.
    pub types: Oids<'a>,
}

impl<'a> Parse<'a> {
    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("Parse", bytes);
        let (name, query) = (body.text()?, body.text()?);
        let types = Oids::read(&mut body)?;
        body.end()?;
        Ok(Self { name, query, types })
    }

    /// Where the name is in the body, without its NUL.
    #[must_use]
    pub const fn name_at(&self) -> Range<usize> {
        0..self.name.len()
    }
}

/// The names in a Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindNames<'a> {
    /// The name of the new portal; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The name of the prepared statement; empty for the unnamed one.
    pub statement: &'a [u8],
}

impl<'a> BindNames<'a> {
    /// Finds the names at the start of a body of which some bytes may not have arrived. None if a name has no end:
    /// more bytes are needed, or, if all have arrived, the message is invalid.
    #[inline]
    #[must_use]
    pub fn find(bytes: &'a [u8]) -> Option<Self> {
        let (portal, rest) = split_text(bytes)?;
        let (statement, _) = split_text(rest)?;
        Some(Self { portal, statement })
    }

    /// Where the name of the statement is in the body, without its NUL.
    #[must_use]
    pub const fn statement_at(&self) -> Range<usize> {
        let start = self.portal.len() + 1;
        start..start + self.statement.len()
    }
}

/// Makes a portal of a prepared statement and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The name of the new portal; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The name of the prepared statement; empty for the unnamed one.
    pub statement: &'a [u8],
    /// The formats of the parameters.
    pub formats: Formats<'a>,
    /// The parameters.
    pub values: Values<'a>,
    /// The formats that the columns of the result shall have.
    pub result_formats: Formats<'a>,
}

impl<'a> Bind<'a> {
    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("Bind", bytes);
        let (portal, statement) = (body.text()?, body.text()?);
        let (formats, values) = formats_and_values(&mut body)?;
        let result_formats = Formats::read(&mut body)?;
        body.end()?;
        Ok(Self { portal, statement, formats, values, result_formats })
    }
}

/// A list of formats, and the list of values that they belong to.
fn formats_and_values<'a>(body: &mut Body<'a>) -> Result<(Formats<'a>, Values<'a>), BodyError> {
    let formats = Formats::read(body)?;
    let before = body.clone();
    let values = Values::read(body)?;
    match formats.len() {
        0 | 1 => Ok((formats, values)),
        len if len == values.len() => Ok((formats, values)),
        _ => Err(before.error("there are several formats, but not one for each parameter")),
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A prepared statement.
    Statement,
    /// A portal.
    Portal,
}

impl Object {
    const fn code(self) -> u8 {
        match self {
            Self::Statement => b'S',
            Self::Portal => b'P',
        }
    }
}

/// What Describe and Close are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Whether it is a statement or a portal.
    pub object: Object,
    /// Its name; empty for the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Target<'a> {
    /// Reads the body of a Describe or a Close, which `message` names in errors.
    pub fn read(message: &'static str, bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new(message, bytes);
        let object = match bytes.first() {
            Some(b'S') => Object::Statement,
            Some(b'P') => Object::Portal,
            _ => return Err(body.error("the first byte is neither S (statement) nor P (portal)")),
        };
        body.u8()?;
        let name = body.text()?;
        body.end()?;
        Ok(Self { object, name })
    }

    /// Where the name is in the body, without its NUL.
    #[must_use]
    pub const fn name_at(&self) -> Range<usize> {
        1..1 + self.name.len()
    }
}

/// Runs a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// The name of the portal; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The number on the wire; see [`Execute::rows_max`].
    pub rows: i32,
}

impl<'a> Execute<'a> {
    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("Execute", bytes);
        let message = Self { portal: body.text()?, rows: body.i32()? };
        body.end()?;
        Ok(message)
    }

    /// The maximum number of rows; none for all of them, which a client asks for with 0 or a negative number.
    #[must_use]
    pub fn rows_max(&self) -> Option<u32> {
        u32::try_from(self.rows).ok().filter(|rows| *rows > 0)
    }
}

/// Calls a function by its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCall<'a> {
    /// The function.
    pub function: u32,
    /// The formats of the arguments.
    pub formats: Formats<'a>,
    /// The arguments.
    pub values: Values<'a>,
    /// The format that the result shall have.
    pub result_format: Format,
}

impl<'a> FunctionCall<'a> {
    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("FunctionCall", bytes);
        let function = body.u32()?;
        let (formats, values) = formats_and_values(&mut body)?;
        let result_format = Format::read(&mut body)?;
        body.end()?;
        Ok(Self { function, formats, values, result_format })
    }
}

/// The client's choice of a SASL mechanism: its first message of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitialResponse<'a> {
    /// The name of the mechanism.
    pub mechanism: &'a [u8],
    /// The first data of the mechanism, if the client sends any.
    pub data: Option<&'a [u8]>,
}

impl<'a> SaslInitialResponse<'a> {
    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("SASLInitialResponse", bytes);
        let message = Self { mechanism: body.text()?, data: body.value()? };
        body.end()?;
        Ok(message)
    }
}

fn only_text<'a>(message: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], BodyError> {
    let mut body = Body::new(message, bytes);
    let text = body.text()?;
    body.end()?;
    Ok(text)
}

fn nothing<T>(message: T, name: &'static str, bytes: &[u8]) -> Result<T, BodyError> {
    Body::new(name, bytes).end().map(|()| message)
}

#[cfg(test)]
mod tests;
