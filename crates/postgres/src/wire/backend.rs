//! The messages of servers, read and written.
//!
//! A relay reads what it must understand: the login, ParameterStatus, ReadyForQuery, CommandComplete, errors and
//! notices. [`Message::read`] reads all of them. Promises that what is accepted is written again byte by byte by
//! [`Message::write`]. Never decides which message may follow which, and does not decode texts.

mod fields;
mod login;
mod rows;
mod write;

pub use fields::{Fields, FieldsIter};
pub use login::{Authentication, Negotiation, Texts, TextsIter};
pub use rows::{Column, Columns, ColumnsIter, DataRow, RowDescription};
pub use write::{
    authentication, authentication_sasl, bind_complete, close_complete, command_complete,
    copy_data, copy_done, copy_in_response, copy_out_response, empty_query_response,
    function_call_response, key_data, negotiate_protocol_version, no_data, notification,
    parameter_description, parameter_status, parse_complete, portal_suspended, ready_for_query,
};

use super::body::Body;
use super::kind::server;
use super::startup::CancelKey;
use super::values::NO_FORMAT;
use super::{BodyError, Format, Formats, Oids, TooLong, Values};
use write::copy_response;

/// A server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A step of the login.
    Authentication(Authentication<'a>),
    /// What a cancel request must contain.
    BackendKeyData(CancelKey<'a>),
    /// The value of a parameter of the session.
    ParameterStatus(Parameter<'a>),
    /// The version and the options that the server does not support.
    NegotiateProtocolVersion(Negotiation<'a>),
    /// The server waits for a query or the next batch.
    ReadyForQuery(Status),
    /// The columns of the rows to come.
    RowDescription(Columns<'a>),
    /// A row.
    DataRow(Values<'a>),
    /// The types of a statement's parameters.
    ParameterDescription(Oids<'a>),
    /// A statement has ended; this is its command tag.
    CommandComplete(&'a [u8]),
    /// The query text was empty.
    EmptyQueryResponse,
    /// An error.
    ErrorResponse(Fields<'a>),
    /// A notice.
    NoticeResponse(Fields<'a>),
    /// A Parse was done.
    ParseComplete,
    /// A Bind was done.
    BindComplete,
    /// A Close was done.
    CloseComplete,
    /// The statement or the portal returns no rows.
    NoData,
    /// The maximum number of rows of an Execute was reached.
    PortalSuspended,
    /// The server waits for the data of COPY.
    CopyInResponse(CopyStart<'a>),
    /// The server begins to send the data of COPY.
    CopyOutResponse(CopyStart<'a>),
    /// Both at once, for replication.
    CopyBothResponse(CopyStart<'a>),
    /// A piece of the data of COPY.
    CopyData(&'a [u8]),
    /// The end of the data of COPY.
    CopyDone,
    /// The result of a FunctionCall.
    FunctionCallResponse(Option<&'a [u8]>),
    /// A notification of a channel that the session listens to.
    Notification(Notification<'a>),
}

impl<'a> Message<'a> {
    /// Reads the body of a message of this kind. The kinds are those of
    /// [`Side::SERVER`](super::frame::Side::SERVER); another one is an error.
    pub fn read(kind: u8, bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new(super::kind::server_name(kind).unwrap_or("server"), bytes);
        let message = match kind {
            server::AUTHENTICATION => Self::Authentication(Authentication::parse(&mut body)?),
            server::BACKEND_KEY_DATA => Self::BackendKeyData(CancelKey::parse(&mut body)?),
            server::PARAMETER_STATUS => {
                Self::ParameterStatus(Parameter { name: body.text()?, value: body.text()? })
            }
            server::NEGOTIATE_PROTOCOL_VERSION => {
                Self::NegotiateProtocolVersion(Negotiation::parse(&mut body)?)
            }
            server::READY_FOR_QUERY => Self::ReadyForQuery(Status::parse(&mut body)?),
            server::ROW_DESCRIPTION => Self::RowDescription(Columns::parse(&mut body)?),
            server::DATA_ROW => Self::DataRow(Values::read(&mut body)?),
            server::PARAMETER_DESCRIPTION => Self::ParameterDescription(Oids::read(&mut body)?),
            server::COMMAND_COMPLETE => Self::CommandComplete(body.text()?),
            server::EMPTY_QUERY_RESPONSE => Self::EmptyQueryResponse,
            server::ERROR_RESPONSE => Self::ErrorResponse(Fields::parse(&mut body)?),
            server::NOTICE_RESPONSE => Self::NoticeResponse(Fields::parse(&mut body)?),
            server::PARSE_COMPLETE => Self::ParseComplete,
            server::BIND_COMPLETE => Self::BindComplete,
            server::CLOSE_COMPLETE => Self::CloseComplete,
            server::NO_DATA => Self::NoData,
            server::PORTAL_SUSPENDED => Self::PortalSuspended,
            server::COPY_IN_RESPONSE => Self::CopyInResponse(CopyStart::parse(&mut body)?),
            server::COPY_OUT_RESPONSE => Self::CopyOutResponse(CopyStart::parse(&mut body)?),
            server::COPY_BOTH_RESPONSE => Self::CopyBothResponse(CopyStart::parse(&mut body)?),
            server::COPY_DATA => Self::CopyData(body.all()),
            server::COPY_DONE => Self::CopyDone,
            server::FUNCTION_CALL_RESPONSE => Self::FunctionCallResponse(body.value()?),
            server::NOTIFICATION_RESPONSE => Self::Notification(Notification {
                process: body.u32()?,
                channel: body.text()?,
                payload: body.text()?,
            }),
            _ => return Err(body.error("the kind is unknown")),
        };
        body.end()?;
        Ok(message)
    }

    /// Adds the message.
    pub fn write(self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match self {
            Self::Authentication(step) => authentication(out, step),
            Self::BackendKeyData(key) => key_data(out, key),
            Self::ParameterStatus(Parameter { name, value }) => parameter_status(out, name, value),
            Self::NegotiateProtocolVersion(Negotiation { version, options }) => {
                negotiate_protocol_version(out, version, options);
            }
            Self::ReadyForQuery(status) => ready_for_query(out, status),
            Self::RowDescription(columns) => {
                let mut description = RowDescription::begin(out);
                columns.iter().for_each(|column| description.column(column));
                return description.finish();
            }
            Self::DataRow(values) => {
                let mut row = DataRow::begin(out);
                values.iter().for_each(|value| row.value(value));
                return row.finish();
            }
            Self::ParameterDescription(types) => parameter_description(out, types),
            Self::CommandComplete(tag) => command_complete(out, tag),
            Self::EmptyQueryResponse => empty_query_response(out),
            Self::ErrorResponse(fields) => fields.write(out, server::ERROR_RESPONSE),
            Self::NoticeResponse(fields) => fields.write(out, server::NOTICE_RESPONSE),
            Self::ParseComplete => parse_complete(out),
            Self::BindComplete => bind_complete(out),
            Self::CloseComplete => close_complete(out),
            Self::NoData => no_data(out),
            Self::PortalSuspended => portal_suspended(out),
            Self::CopyInResponse(copy) => {
                copy_response(out, server::COPY_IN_RESPONSE, copy.format, copy.columns);
            }
            Self::CopyOutResponse(copy) => {
                copy_response(out, server::COPY_OUT_RESPONSE, copy.format, copy.columns);
            }
            Self::CopyBothResponse(copy) => {
                copy_response(out, server::COPY_BOTH_RESPONSE, copy.format, copy.columns);
            }
            Self::CopyData(data) => return copy_data(out, data),
            Self::CopyDone => copy_done(out),
            Self::FunctionCallResponse(value) => function_call_response(out, value),
            Self::Notification(notice) => notification(out, notice),
        }
        Ok(())
    }
}

/// Whether a session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is in none.
    Idle,
    /// It is in a transaction block.
    InTransaction,
    /// It is in a transaction block that has failed.
    Failed,
}

impl Status {
    /// Reads the body of a ReadyForQuery.
    pub fn read(bytes: &[u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("ReadyForQuery", bytes);
        let status = Self::parse(&mut body)?;
        body.end()?;
        Ok(status)
    }

    /// The byte on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }

    fn parse(body: &mut Body<'_>) -> Result<Self, BodyError> {
        let before = body.clone();
        match body.u8()? {
            b'I' => Ok(Self::Idle),
            b'T' => Ok(Self::InTransaction),
            b'E' => Ok(Self::Failed),
            _ => {
                Err(before.error("the status is neither I (idle), T (transaction) nor E (failed)"))
            }
        }
    }
}

/// The command tag in the body of a CommandComplete.
pub fn command_tag(bytes: &[u8]) -> Result<&[u8], BodyError> {
    let mut body = Body::new("CommandComplete", bytes);
    let tag = body.text()?;
    body.end()?;
    Ok(tag)
}

/// A parameter of the session, such as `TimeZone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Parameter<'a> {
    /// Reads the body of a ParameterStatus.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("ParameterStatus", bytes);
        let parameter = Self { name: body.text()?, value: body.text()? };
        body.end()?;
        Ok(parameter)
    }
}

/// How the data of COPY is represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStart<'a> {
    /// The format of the whole.
    pub format: Format,
    /// The format of each column.
    pub columns: Formats<'a>,
}

impl<'a> CopyStart<'a> {
    fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let before = body.clone();
        let format = Format::of_code(body.u8()?.into()).ok_or_else(|| before.error(NO_FORMAT))?;
        Ok(Self { format, columns: Formats::read(body)? })
    }
}

/// A notification of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The process identifier of the session that sent it.
    pub process: u32,
    /// The channel.
    pub channel: &'a [u8],
    /// What was sent.
    pub payload: &'a [u8],
}

#[cfg(test)]
mod tests;
