//! One JSON-RPC 1.0 message: a request, a notification, or a reply to the server's own request.

use paceline_tables::json::{self, Json};
use std::fmt;

/// The id of the echo request that probes a silent client.
pub const PROBE_ID: &str = "echo";

/// A message from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A request, to be answered with its id.
    Request {
        /// The id, as JSON text.
        id: Vec<u8>,
        /// The method.
        method: Box<str>,
        /// The parameters.
        params: Vec<Json>,
    },
    /// A notification, which gets no response.
    Notification {
        /// The method.
        method: Box<str>,
        /// The parameters.
        params: Vec<Json>,
    },
    /// The reply to the only request that the server sends, the probe's echo.
    ProbeReply,
}

/// Why a message is not JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageError(String);

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MessageError {}

impl Message {
    /// Parses one message.
    pub fn parse(text: &[u8], depth_max: usize) -> Result<Self, MessageError> {
        let fail = |reason: &str| Err(MessageError(reason.to_owned()));
        let json = json::parse(text, depth_max).map_err(|error| MessageError(error.to_string()))?;
        let Json::Object(mut object) = json else { return fail("message is not a JSON object") };
        let known = ["error", "id", "method", "params", "result"];
        if let Some((name, _)) = object.iter().find(|(name, _)| !known.contains(name)) {
            return Err(MessageError(format!("message has unexpected member \"{name}\"")));
        }
        let mut member = |name: &str| object.take(name).filter(|value| *value != Json::Null);
        let (id, method, params) = (member("id"), member("method"), member("params"));
        let (result, error) = (member("result"), member("error"));
        let Some(method) = method else {
            return match (id, result.or(error), params) {
                (Some(id), Some(_), None) if id.as_str() == Some(PROBE_ID) => Ok(Self::ProbeReply),
                (Some(_), Some(_), None) => fail("a reply to a request that was not made"),
                _ => fail("message is neither a request nor a reply"),
            };
        };
        let Json::String(method) = method else { return fail("method is not a JSON string") };
        let Some(Json::Array(params)) = params else {
            return fail("\"params\" must be a JSON array");
        };
        if result.is_some() || error.is_some() {
            return fail("a request must not have \"result\" or \"error\"");
        }
        Ok(match id {
            Some(id) => {
                let mut text = Vec::new();
                id.write(&mut text);
                Self::Request { id: text, method, params }
            }
            None => Self::Notification { method, params },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let parse = |text: &str| Message::parse(text.as_bytes(), 10);
        assert_eq!(
            parse(r#"{"id":1,"method":"echo","params":[]}"#).unwrap(),
            Message::Request { id: b"1".to_vec(), method: "echo".into(), params: vec![] }
        );
        assert_eq!(
            parse(r#"{"id":null,"method":"cancel","params":[7]}"#).unwrap(),
            Message::Notification { method: "cancel".into(), params: vec![Json::Integer(7)] }
        );
        assert_eq!(
            parse(r#"{"id":"echo","result":[],"error":null}"#).unwrap(),
            Message::ProbeReply
        );
    }

    #[test]
    fn what_is_not_json_rpc_is_refused_with_a_reason() {
        for (text, reason) in [
            ("{", "byte 1: expected a member name"),
            (r#"{"id":1,"result":[],"error":null}"#, "a reply to a request that was not made"),
            (r#"{"id":1}"#, "message is neither a request nor a reply"),
            (r#"{"id":1,"method":2,"params":[]}"#, "method is not a JSON string"),
            (r#"{"id":1,"method":"echo","params":{}}"#, "\"params\" must be a JSON array"),
            (r#"{"id":1,"method":"echo"}"#, "\"params\" must be a JSON array"),
            (r#"{"id":1,"method":"x","params":[],"y":1}"#, "message has unexpected member \"y\""),
        ] {
            assert_eq!(
                Message::parse(text.as_bytes(), 10).unwrap_err().to_string(),
                reason,
                "{text}"
            );
        }
    }
}
