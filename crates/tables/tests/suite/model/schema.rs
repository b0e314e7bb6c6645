//! Schemas of the model: plain structures and their JSON notation.

use super::value::Atom;
use paceline_tables::json::Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Boolean,
    String,
    Uuid,
}

#[derive(Clone, Debug)]
pub enum Limit {
    None,
    Integer(i64, i64),
    Real(f64, f64),
    Length(usize, usize),
    Reference { table: usize, strong: bool },
}

#[derive(Clone, Debug)]
pub struct Base {
    pub kind: Kind,
    pub allowed: Option<Vec<Atom>>,
    pub limit: Limit,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub key: Base,
    pub value: Option<Base>,
    pub min: usize,
    /// `usize::MAX` is unlimited.
    pub max: usize,
    pub mutable: bool,
    pub ephemeral: bool,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    /// `_uuid`, `_version`, then the others by name.
    pub columns: Vec<Column>,
    pub max_rows: usize,
    pub root: bool,
    pub indexes: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
pub struct Schema {
    pub tables: Vec<Table>,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }
}

impl Base {
    pub fn plain(kind: Kind) -> Self {
        Self { kind, allowed: None, limit: Limit::None }
    }

    fn to_json(&self, schema: &Schema) -> Json {
        let mut members = vec![("type", Json::string(self.kind.name()))];
        if let Some(allowed) = &self.allowed {
            let list = Json::Array(allowed.iter().map(Atom::to_json).collect());
            members.push(("enum", Json::Array(vec![Json::string("set"), list])));
        }
        match &self.limit {
            Limit::None => {}
            Limit::Integer(min, max) => {
                members.push(("minInteger", Json::Integer(*min)));
                members.push(("maxInteger", Json::Integer(*max)));
            }
            Limit::Real(min, max) => {
                members.push(("minReal", Json::Real(*min)));
                members.push(("maxReal", Json::Real(*max)));
            }
            Limit::Length(min, max) => {
                members.push(("minLength", Json::Integer(*min as i64)));
                members.push(("maxLength", Json::Integer(*max as i64)));
            }
            Limit::Reference { table, strong } => {
                members.push(("refTable", Json::string(schema.tables[*table].name.as_str())));
                let word = if *strong { "strong" } else { "weak" };
                members.push(("refType", Json::string(word)));
            }
        }
        Json::object(members)
    }
}

/// A side of a column that refers to rows.
pub struct Link {
    pub column: usize,
    pub value_side: bool,
    pub table: usize,
    pub strong: bool,
}

impl Column {
    pub fn special(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: Base::plain(Kind::Uuid),
            value: None,
            min: 1,
            max: 1,
            mutable: false,
            ephemeral: false,
        }
    }

    pub fn is_scalar(&self) -> bool {
        self.value.is_none() && (self.min, self.max) == (1, 1)
    }

    pub fn is_numeric(&self) -> bool {
        self.value.is_none() && matches!(self.key.kind, Kind::Integer | Kind::Real)
    }

    fn has_weak(&self) -> bool {
        let weak = |base: &Base| matches!(base.limit, Limit::Reference { strong: false, .. });
        weak(&self.key) || self.value.as_ref().is_some_and(weak)
    }

    /// Whether clients may change it. A weak reference is removed with its row, so it is always mutable.
    pub fn can_change(&self) -> bool {
        self.mutable || self.has_weak()
    }

    fn to_json(&self, schema: &Schema) -> Json {
        let mut ty =
            vec![("key", self.key.to_json(schema)), ("min", Json::Integer(self.min as i64))];
        ty.extend(self.value.as_ref().map(|value| ("value", value.to_json(schema))));
        ty.push(match self.max {
            usize::MAX => ("max", Json::string("unlimited")),
            max => ("max", Json::Integer(max as i64)),
        });
        Json::object([
            ("type", Json::object(ty)),
            ("mutable", Json::Bool(self.mutable)),
            ("ephemeral", Json::Bool(self.ephemeral)),
        ])
    }
}

impl Table {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            for (value_side, base) in [(false, Some(&column.key)), (true, column.value.as_ref())] {
                if let Some(Limit::Reference { table, strong }) = base.map(|base| &base.limit) {
                    links.push(Link { column: at, value_side, table: *table, strong: *strong });
                }
            }
        }
        links
    }
}

impl Schema {
    pub fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// Whether rows of a table are kept without references; without any root table, all are.
    pub fn is_root(&self, table: usize) -> bool {
        self.tables[table].root || !self.tables.iter().any(|table| table.root)
    }

    /// Whether the journal keeps a column. It keeps an ephemeral one only if rows exist by its references, or if it
    /// must hold a reference, for which there is no default.
    pub fn is_kept(&self, table: usize, column: usize) -> bool {
        let table = &self.tables[table];
        let needed = table.columns[column].min > 0;
        let lives = |link: &Link| link.strong && !self.is_root(link.table);
        let keeps = |link: &Link| link.column == column && (needed || lives(link));
        !table.columns[column].ephemeral || table.links().iter().any(keeps)
    }

    pub fn to_json(&self) -> Json {
        let tables = self.tables.iter().map(|table| {
            let columns = table.columns.iter().skip(2);
            let columns = columns.map(|column| (column.name.as_str(), column.to_json(self)));
            let name = |column: &usize| Json::string(table.columns[*column].name.as_str());
            let index = |index: &Vec<usize>| Json::Array(index.iter().map(name).collect());
            let mut members = vec![
                ("columns", Json::object(columns)),
                ("isRoot", Json::Bool(table.root)),
                ("indexes", Json::Array(table.indexes.iter().map(index).collect())),
            ];
            if table.max_rows != usize::MAX {
                members.push(("maxRows", Json::Integer(table.max_rows as i64)));
            }
            (table.name.as_str(), Json::object(members))
        });
        Json::object([("name", Json::string("model")), ("tables", Json::object(tables))])
    }
}
