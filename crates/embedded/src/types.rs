//! The types that clients see: their identifiers, names and sizes, and which of them a declared type means.
//!
//! SQLite stores what it is given, so a column's declared type decides how its values are sent. Where SQLite's rules of
//! affinity would turn a text into a number, the rewriter declares the type by another name ([`Type::declared`]).

/// A type of PostgreSQL that the engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Type {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bpchar,
    Char,
    Name,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Oid,
    Regclass,
    Regtype,
    Regproc,
    Void,
    TextArray,
    BoolArray,
    Int8Array,
    Int2Vector,
    OidVector,
}

/// Identifier, size in bytes (-1 if it varies), name, name in standard SQL, letter of its category.
type Facts = (Type, u32, i16, &'static str, &'static str, char);

const TYPES: &[Facts] = &[
    (Type::Bool, 16, 1, "bool", "boolean", 'B'),
    (Type::Bytea, 17, -1, "bytea", "bytea", 'U'),
    (Type::Char, 18, 1, "char", "\"char\"", 'Z'),
    (Type::Name, 19, 64, "name", "name", 'S'),
    (Type::Int8, 20, 8, "int8", "bigint", 'N'),
    (Type::Int2, 21, 2, "int2", "smallint", 'N'),
    (Type::Int2Vector, 22, -1, "int2vector", "int2vector", 'A'),
    (Type::Int4, 23, 4, "int4", "integer", 'N'),
    (Type::Regproc, 24, 4, "regproc", "regproc", 'N'),
    (Type::Text, 25, -1, "text", "text", 'S'),
    (Type::Oid, 26, 4, "oid", "oid", 'N'),
    (Type::OidVector, 30, -1, "oidvector", "oidvector", 'A'),
    (Type::Json, 114, -1, "json", "json", 'U'),
    (Type::Float4, 700, 4, "float4", "real", 'N'),
    (Type::Float8, 701, 8, "float8", "double precision", 'N'),
    (Type::BoolArray, 1000, -1, "_bool", "boolean[]", 'A'),
    (Type::TextArray, 1009, -1, "_text", "text[]", 'A'),
    (Type::Int8Array, 1016, -1, "_int8", "bigint[]", 'A'),
    (Type::Bpchar, 1042, -1, "bpchar", "character", 'S'),
    (Type::Varchar, 1043, -1, "varchar", "character varying", 'S'),
    (Type::Date, 1082, 4, "date", "date", 'D'),
    (Type::Time, 1083, 8, "time", "time without time zone", 'D'),
    (Type::Timestamp, 1114, 8, "timestamp", "timestamp without time zone", 'D'),
    (Type::Timestamptz, 1184, 8, "timestamptz", "timestamp with time zone", 'D'),
    (Type::Interval, 1186, 16, "interval", "interval", 'T'),
    (Type::Numeric, 1700, -1, "numeric", "numeric", 'N'),
    (Type::Regclass, 2205, 4, "regclass", "regclass", 'N'),
    (Type::Regtype, 2206, 4, "regtype", "regtype", 'N'),
    (Type::Void, 2278, 4, "void", "void", 'P'),
    (Type::Uuid, 2950, 16, "uuid", "uuid", 'U'),
    (Type::Jsonb, 3802, -1, "jsonb", "jsonb", 'U'),
];

/// Other names of the types, without blanks doubled.
const ALIASES: &[(&str, Type)] = &[
    ("int", Type::Int4),
    ("mediumint", Type::Int4),
    ("tinyint", Type::Int2),
    ("serial", Type::Int4),
    ("serial4", Type::Int4),
    ("bigserial", Type::Int8),
    ("serial8", Type::Int8),
    ("smallserial", Type::Int2),
    ("decimal", Type::Numeric),
    ("dec", Type::Numeric),
    ("float", Type::Float8),
    ("double", Type::Float8),
    ("datetime", Type::Timestamp),
    ("timestamp with time zone", Type::Timestamptz),
    ("time with time zone", Type::Time),
    ("timetz", Type::Time),
    ("char varying", Type::Varchar),
    ("national character varying", Type::Varchar),
    ("nvarchar", Type::Varchar),
    ("string", Type::Text),
    ("clob", Type::Text),
    ("citext", Type::Text),
    ("blob", Type::Bytea),
    ("json_text", Type::Json),
    ("jsonb_text", Type::Jsonb),
    ("uuid_text", Type::Uuid),
    ("name_text", Type::Name),
    ("interval_text", Type::Interval),
    ("char_text", Type::Char),
    ("array_text", Type::TextArray),
    ("i2vector_text", Type::Int2Vector),
    ("oidvector_text", Type::OidVector),
    ("unknown", Type::Text),
    ("regnamespace", Type::Regtype),
    ("regrole", Type::Regtype),
    ("xid", Type::Oid),
];

impl Type {
    /// All of them, by identifier.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().map(|facts| facts.0)
    }

    fn facts(self) -> &'static Facts {
        // Every type stands in the table; a test says so.
        TYPES.iter().find(|facts| facts.0 == self).unwrap_or(&TYPES[0])
    }

    /// The identifier.
    #[must_use]
    pub fn oid(self) -> u32 {
        self.facts().1
    }

    /// The size in bytes; negative if it varies.
    #[must_use]
    pub fn size(self) -> i16 {
        self.facts().2
    }

    /// The short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().3
    }

    /// The name in standard SQL, as `format_type` writes it.
    pub(crate) fn sql_name(self) -> &'static str {
        self.facts().4
    }

    pub(crate) fn category(self) -> char {
        self.facts().5
    }

    /// The type with this identifier.
    #[must_use]
    pub fn of_oid(oid: u32) -> Option<Self> {
        TYPES.iter().find(|facts| facts.1 == oid).map(|facts| facts.0)
    }

    /// The name to declare in SQLite, so that its affinity does not change values; the word stays if none.
    pub(crate) const fn declared(self) -> Option<&'static str> {
        Some(match self {
            Self::Json => "JSON_TEXT",
            Self::Jsonb => "JSONB_TEXT",
            Self::Uuid => "UUID_TEXT",
            Self::Name => "NAME_TEXT",
            Self::Interval => "INTERVAL_TEXT",
            Self::Char => "CHAR_TEXT",
            Self::TextArray | Self::BoolArray | Self::Int8Array => "ARRAY_TEXT",
            // A name with INT in it would have the affinity of a number.
            Self::Int2Vector => "I2VECTOR_TEXT",
            Self::OidVector => "OIDVECTOR_TEXT",
            _ => return None,
        })
    }

    /// Whether its values are whole numbers.
    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    pub(crate) const fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Self::Float4 | Self::Float8 | Self::Numeric)
    }
}

/// A type and its modifier, such as a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    pub kind: Type,
    /// -1 for none.
    pub modifier: i32,
}

impl Declared {
    pub const fn of(kind: Type) -> Self {
        Self { kind, modifier: -1 }
    }

    /// The type that a text such as `character varying(20)` declares; none if it is unknown.
    pub fn read(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let (name, rest) = lower.split_once('(').unwrap_or((&lower, ""));
        let (inside, after) = rest.split_once(')').unwrap_or((rest, ""));
        let words: Vec<&str> = name.split_whitespace().chain(after.split_whitespace()).collect();
        let name = words.join(" ");
        let name = name.trim_matches('"');
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        if name.ends_with("[]") || name.ends_with(" array") {
            return Some(Self::of(Type::TextArray));
        }
        let named = TYPES.iter().find(|facts| facts.3 == name || facts.4 == name);
        let other = || ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, kind)| *kind);
        let kind = named.map(|facts| facts.0).or_else(other)?;
        // The keyword `char` is `character`; only in quotes it is the one-byte type.
        let kind = match kind {
            Type::Char if !text.contains('"') && !text.contains('_') => Type::Bpchar,
            kind => kind,
        };
        Some(Self { kind, modifier: modifier(kind, inside) })
    }

    /// The type as `format_type` writes it.
    pub fn sql_name(self) -> String {
        let name = self.kind.sql_name();
        match (self.kind, self.modifier) {
            (_, ..0) => name.to_owned(),
            (Type::Numeric, modifier) => {
                format!("numeric({},{})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff)
            }
            (Type::Varchar | Type::Bpchar, modifier) => format!("{name}({})", modifier - 4),
            _ => name.to_owned(),
        }
    }

    /// How many digits follow the point of a number of this type.
    pub const fn scale(self) -> Option<usize> {
        match (self.kind, self.modifier) {
            (Type::Numeric, 4..) => Some(((self.modifier - 4) & 0x7ff) as usize),
            _ => None,
        }
    }
}

fn modifier(kind: Type, inside: &str) -> i32 {
    let mut numbers = inside.split(',').map(|part| part.trim().parse::<i32>().ok());
    let first = numbers.next().flatten().filter(|n| (1..=10_485_760).contains(n));
    match (kind, first) {
        (Type::Varchar, Some(length)) => length + 4,
        (Type::Bpchar, length) => length.unwrap_or(1) + 4,
        (Type::Numeric, Some(precision)) => {
            let scale = numbers.next().flatten().unwrap_or(0);
            ((precision.min(1000) << 16) | (scale & 0x7ff)) + 4
        }
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::{Declared, Type};

    #[track_caller]
    fn check(text: &str, kind: Type, name: &str) {
        let declared = Declared::read(text).unwrap();
        assert_eq!((declared.kind, declared.sql_name().as_str()), (kind, name), "{text}");
    }

    #[test]
    fn declared_types_are_read() {
        check("INTEGER", Type::Int4, "integer");
        check("bigint", Type::Int8, "bigint");
        check("VARCHAR(20)", Type::Varchar, "character varying(20)");
        check("character  varying ( 20 )", Type::Varchar, "character varying(20)");
        check("char(3)", Type::Bpchar, "character(3)");
        check("char", Type::Bpchar, "character(1)");
        check("\"char\"", Type::Char, "\"char\"");
        check("numeric(10, 2)", Type::Numeric, "numeric(10,2)");
        check("numeric", Type::Numeric, "numeric");
        check("timestamp(3) with time zone", Type::Timestamptz, "timestamp with time zone");
        check("double precision", Type::Float8, "double precision");
        check("int[]", Type::TextArray, "text[]");
        check("UUID_TEXT", Type::Uuid, "uuid");
        assert_eq!(Declared::read("geometry"), None);
        assert_eq!(Declared::read("numeric(10,2)").unwrap().scale(), Some(2));
    }

    #[test]
    fn every_type_stands_in_the_table() {
        for kind in Type::all() {
            assert_eq!(Type::of_oid(kind.oid()), Some(kind));
            if let Some(name) = kind.declared().filter(|name| *name != "ARRAY_TEXT") {
                assert_eq!(Declared::read(name).map(|d| d.kind), Some(kind), "{name}");
            }
        }
    }
}
