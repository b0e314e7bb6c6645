//! JSON bodies, which must not have a member twice or a NUL in a string.
//!
//! Programs differ in which of two members of the same name counts. So a body with both can mean different things to
//! its author, to a proxy that checked it, and to the daemon. The database stores no string with a NUL.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A JSON text as a value.
///
/// # Errors
///
/// When it is not JSON, an object has two members of one name, or a text has a NUL; the error says where.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Once>(bytes).map(|once| once.0)
}

/// A value whose objects have every member once.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        checked(text).map(Value::String)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Once(element)) = list.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let name = checked::<A::Error>(name)?;
            if members.contains_key(&name) {
                let name = crate::respond::shown(&name);
                return Err(A::Error::custom(format_args!("the member {name:?} is given twice")));
            }
            members.insert(name, object.next_value::<Once>()?.0);
        }
        Ok(Value::Object(members))
    }
}

fn checked<E: Error>(text: String) -> Result<String, E> {
    if text.contains('\0') { Err(E::custom("a text with the character NUL")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use serde_json::{Value, json};

    #[test]
    fn a_value_is_read_as_it_is() {
        let value = json!({"a": [1, -1, 1.5, true, null, "t\n", {}], "b": {"a": u64::MAX}});
        assert_eq!(parse(value.to_string().as_bytes()).unwrap(), value);
        assert_eq!(parse(b" 5 ").unwrap(), json!(5));
        assert!(parse(b"1e999").is_err() && parse(b"{} x").is_err());
    }

    #[test]
    fn a_nul_is_told_with_its_place() {
        for text in [r#"{"a": ["\u0000"]}"#, r#"{"a\u0000": 1}"#] {
            let told = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(told.starts_with("a text with the character NUL at line 1 column"), "{told}");
        }
    }

    #[test]
    fn a_member_that_is_given_twice_is_told_with_its_place() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"{"x": [{"a": 1, "b": 2, "\u0061": 3}]}"#] {
            assert!(serde_json::from_str::<Value>(text).is_ok());
            let told = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(told.starts_with("the member \"a\" is given twice at line 1 column"), "{told}");
        }
    }
}
