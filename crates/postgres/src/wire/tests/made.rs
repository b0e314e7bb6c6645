//! Random messages of every kind, in parts that can be compared with what is read.

use super::super::frontend::Object;
use super::super::{Format, backend, frontend, kind};
use super::Lots;

type Text = Vec<u8>;
type List = Vec<Option<Text>>;

/// A message in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// One that has no body.
    Empty(u8),
    /// One whose body is a text, or the data of COPY.
    Text(u8, Text),
    Parse(Text, Text, Vec<u32>),
    Bind([Text; 2], Vec<Format>, List, Vec<Format>),
    Target(u8, Object, Text),
    Execute(Text, i32),
    FunctionCall(u32, Vec<Format>, List, Format),
    Authentication(u32, Text),
    Sasl(Vec<Text>),
    KeyData(u32, Text),
    ParameterStatus(Text, Text),
    Negotiation(u32, Vec<Text>),
    Ready(backend::Status),
    Columns(Vec<(Text, [u32; 3], [i16; 2], Format)>),
    Row(List),
    Types(Vec<u32>),
    Fields(u8, Vec<(u8, Text)>),
    Copy(u8, Format, Vec<Format>),
    Result(Option<Text>),
    Notification(u32, Text, Text),
}

/// A random message of a client.
pub fn client(lots: &mut Lots) -> Made {
    let object = if lots.is_so() { Object::Statement } else { Object::Portal };
    match lots.below(9) {
        0 => Made::Empty(b"SHcX"[lots.below(4)]),
        1 => Made::Text(b"Qf"[lots.below(2)], lots.text()),
        2 => Made::Text(kind::client::COPY_DATA, lots.bytes()),
        3 => Made::Parse(lots.text(), lots.text(), lots.list(Lots::word)),
        4 | 5 => {
            let (formats, values) = parameters(lots);
            Made::Bind([lots.text(), lots.text()], formats, values, lots.list(Lots::format))
        }
        6 => Made::Target(b"DC"[lots.below(2)], object, lots.text()),
        7 => Made::Execute(lots.text(), lots.word() as i32),
        _ => {
            let (formats, values) = parameters(lots);
            Made::FunctionCall(lots.word(), formats, values, lots.format())
        }
    }
}

/// A random message of a server.
pub fn server(lots: &mut Lots) -> Made {
    let column = |lots: &mut Lots| {
        let numbers = [lots.word() as i16, lots.word() as i16];
        (lots.text(), [lots.word(), lots.word(), lots.word()], numbers, lots.format())
    };
    match lots.below(15) {
        0 => Made::Empty(b"I123nsc"[lots.below(7)]),
        1 => Made::Text(kind::server::COMMAND_COMPLETE, lots.text()),
        2 => Made::Text(kind::server::COPY_DATA, lots.bytes()),
        3 => match [0, 3, 5, 7, 11, 12][lots.below(6)] {
            code @ (0 | 3) => Made::Authentication(code, vec![]),
            5 => Made::Authentication(5, lots.word().to_be_bytes().to_vec()),
            code => Made::Authentication(code, lots.bytes()),
        },
        4 => Made::Sasl(lots.list(name)),
        5 => Made::KeyData(lots.word(), vec![7; 4 + lots.below(20)]),
        6 => Made::ParameterStatus(lots.text(), lots.text()),
        7 => Made::Negotiation(lots.word(), lots.list(Lots::text)),
        8 => {
            use backend::Status::{Failed, Idle, InTransaction};
            Made::Ready([Idle, InTransaction, Failed][lots.below(3)])
        }
        9 => Made::Columns(lots.list(column)),
        10 => Made::Row(lots.list(Lots::value)),
        11 => Made::Types(lots.list(Lots::word)),
        12 => {
            let field = |lots: &mut Lots| (1 + lots.below(255) as u8, lots.text());
            Made::Fields(b"EN"[lots.below(2)], lots.list(field))
        }
        13 => Made::Copy(b"GHW"[lots.below(3)], lots.format(), lots.list(Lots::format)),
        _ if lots.is_so() => Made::Result(lots.value()),
        _ => Made::Notification(lots.word(), lots.text(), lots.text()),
    }
}

/// A text that is not empty.
fn name(lots: &mut Lots) -> Text {
    [lots.text(), b"x".to_vec()].concat()
}

/// Formats and values that fit each other.
fn parameters(lots: &mut Lots) -> (Vec<Format>, List) {
    let values = lots.list(Lots::value);
    let count = [0, 1, values.len()][lots.below(3)];
    ((0..count).map(|_| lots.format()).collect(), values)
}

/// The parts of a message that was read.
pub fn of_client(message: frontend::Message<'_>) -> Made {
    use frontend::Message;
    match message {
        Message::Query(text) => Made::Text(b'Q', text.into()),
        Message::Parse(parse) => {
            Made::Parse(parse.name.into(), parse.query.into(), parse.types.iter().collect())
        }
        Message::Bind(bind) => Made::Bind(
            [bind.portal.into(), bind.statement.into()],
            bind.formats.iter().collect(),
            values(bind.values),
            bind.result_formats.iter().collect(),
        ),
        Message::Describe(target) => Made::Target(b'D', target.object, target.name.into()),
        Message::Close(target) => Made::Target(b'C', target.object, target.name.into()),
        Message::Execute(execute) => Made::Execute(execute.portal.into(), execute.rows),
        Message::Sync => Made::Empty(b'S'),
        Message::Flush => Made::Empty(b'H'),
        Message::CopyData(data) => Made::Text(b'd', data.into()),
        Message::CopyDone => Made::Empty(b'c'),
        Message::CopyFail(text) => Made::Text(b'f', text.into()),
        Message::FunctionCall(call) => Made::FunctionCall(
            call.function,
            call.formats.iter().collect(),
            values(call.values),
            call.result_format,
        ),
        Message::Terminate => Made::Empty(b'X'),
    }
}

/// The parts of a message that was read.
pub fn of_server(message: backend::Message<'_>) -> Made {
    use backend::{Authentication, Message};
    let fields = |kind, fields: backend::Fields<'_>| {
        Made::Fields(kind, fields.iter().map(|(code, text)| (code, text.into())).collect())
    };
    let copy = |kind, copy: backend::CopyStart<'_>| {
        Made::Copy(kind, copy.format, copy.columns.iter().collect())
    };
    match message {
        Message::Authentication(step) => match step {
            Authentication::Ok => Made::Authentication(0, vec![]),
            Authentication::CleartextPassword => Made::Authentication(3, vec![]),
            Authentication::Md5Password(salt) => Made::Authentication(5, salt.into()),
            Authentication::Sasl(list) => Made::Sasl(texts(list)),
            Authentication::SaslContinue(data) => Made::Authentication(11, data.into()),
            Authentication::SaslFinal(data) => Made::Authentication(12, data.into()),
            Authentication::Other(code, data) => Made::Authentication(code, data.into()),
        },
        Message::BackendKeyData(key) => Made::KeyData(key.process, key.key.into()),
        Message::ParameterStatus(parameter) => {
            Made::ParameterStatus(parameter.name.into(), parameter.value.into())
        }
        Message::NegotiateProtocolVersion(negotiation) => {
            Made::Negotiation(negotiation.version.number(), texts(negotiation.options))
        }
        Message::ReadyForQuery(status) => Made::Ready(status),
        Message::RowDescription(columns) => Made::Columns(columns.iter().map(column).collect()),
        Message::DataRow(row) => Made::Row(values(row)),
        Message::ParameterDescription(types) => Made::Types(types.iter().collect()),
        Message::CommandComplete(tag) => Made::Text(b'C', tag.into()),
        Message::EmptyQueryResponse => Made::Empty(b'I'),
        Message::ErrorResponse(error) => fields(b'E', error),
        Message::NoticeResponse(notice) => fields(b'N', notice),
        Message::ParseComplete => Made::Empty(b'1'),
        Message::BindComplete => Made::Empty(b'2'),
        Message::CloseComplete => Made::Empty(b'3'),
        Message::NoData => Made::Empty(b'n'),
        Message::PortalSuspended => Made::Empty(b's'),
        Message::CopyInResponse(start) => copy(b'G', start),
        Message::CopyOutResponse(start) => copy(b'H', start),
        Message::CopyBothResponse(start) => copy(b'W', start),
        Message::CopyData(data) => Made::Text(b'd', data.into()),
        Message::CopyDone => Made::Empty(b'c'),
        Message::FunctionCallResponse(value) => Made::Result(value.map(Vec::from)),
        Message::Notification(notice) => {
            Made::Notification(notice.process, notice.channel.into(), notice.payload.into())
        }
    }
}

fn column(column: backend::Column<'_>) -> (Text, [u32; 3], [i16; 2], Format) {
    let words = [column.table, column.type_oid, column.type_modifier as u32];
    (column.name.into(), words, [column.number, column.type_size], column.format)
}

fn texts(list: backend::Texts<'_>) -> Vec<Text> {
    list.iter().map(Vec::from).collect()
}

fn values(values: super::super::Values<'_>) -> List {
    values.iter().map(|value| value.map(Vec::from)).collect()
}
