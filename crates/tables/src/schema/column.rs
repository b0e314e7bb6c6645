//! One column of a table: its type, whether it can be changed, and whether it is kept.

use crate::error::Error;
use crate::json::Json;
use crate::members::{Kinds, Members};
use crate::schema::Type;
use crate::value::Datum;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name.
    pub name: Box<str>,
    /// Its type.
    pub ty: Type,
    /// Whether it can change after the row was inserted.
    pub mutable: bool,
    /// Whether it is not ephemeral.
    pub persistent: bool,
    /// Whether it is written to the journal: it is persistent, or replaying would fail without it.
    pub journaled: bool,
    /// The value when none is given.
    pub default: Datum,
}

impl Column {
    /// A column of the given type.
    #[must_use]
    pub fn new(name: &str, ty: Type, mutable: bool, persistent: bool) -> Self {
        let default = Datum::default_of(&ty);
        Self { name: name.into(), ty, mutable, persistent, journaled: persistent, default }
    }

    /// Parses the schema of column `name`.
    pub fn parse(json: &Json, name: &str) -> Result<Self, Error> {
        let called = format!("schema for column {name}");
        let mut members = Members::new(json, &called);
        let mutable = members.bool_or("mutable", true);
        let ephemeral = members.bool_or("ephemeral", false);
        let ty = members.required("type", Kinds::STRING | Kinds::OBJECT);
        members.finish()?;
        let ty = Type::parse(ty.unwrap_or(json))?;
        // A weak reference must be removable together with its row.
        let weak = |base: &crate::schema::BaseType| base.reference().is_some_and(|r| !r.strong);
        let mutable = mutable || weak(&ty.key) || ty.value.as_ref().is_some_and(weak);
        Ok(Self::new(name, ty, mutable, !ephemeral))
    }

    /// The JSON notation.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut members = vec![("type", self.ty.to_json())];
        members.extend((!self.mutable).then_some(("mutable", Json::Bool(false))));
        members.extend((!self.persistent).then_some(("ephemeral", Json::Bool(true))));
        Json::object(members)
    }
}
