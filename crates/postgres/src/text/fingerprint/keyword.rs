//! The keywords of Comdb2: the words that its normalised form writes in capitals.
//!
//! Every word of every statement is looked up, so the table is a hash table that is made when the program is built.

/// What a keyword does to what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// `NULL`: a value, unless it is tested for.
    Null,
    Is,
    Not,
    In,
    /// `EXEC` and `EXECUTE`.
    Exec,
    Select,
    Procedure,
    /// `FROM`, `JOIN` and `UPDATE`: a table follows.
    Table,
    /// `INTO` and `TABLE`: a table follows, and then perhaps a column.
    TableWithColumns,
    Other,
}

impl Keyword {
    /// The keyword that a word is, in capitals or not.
    pub(super) fn of(word: &str) -> Option<Self> {
        if word.len() < WORD_LEN_MIN || word.len() > WORD_LEN_MAX {
            return None;
        }
        let mut slot = hash(word.as_bytes());
        loop {
            let index = usize::from(SLOTS[slot]).checked_sub(1)?;
            if KEYWORDS.get(index)?.eq_ignore_ascii_case(word) {
                return MEANINGS.get(index).copied();
            }
            slot = (slot + 1) % SLOTS_LEN;
        }
    }
}

const WORD_LEN_MIN: usize = 2;
const WORD_LEN_MAX: usize = 17;
const SLOTS_BITS: u32 = 10;
const SLOTS_LEN: usize = 1 << SLOTS_BITS;

/// For every hash, one more than the index of a keyword; 0 if there is none. A keyword whose place is taken is in the
/// next free one.
static SLOTS: [u8; SLOTS_LEN] = slots();

const fn slots() -> [u8; SLOTS_LEN] {
    let mut slots = [0; SLOTS_LEN];
    let mut index = 0;
    while index < KEYWORDS.len() {
        let mut slot = hash(KEYWORDS[index].as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS_LEN;
        }
        slots[slot] = index as u8 + 1;
        index += 1;
    }
    slots
}

/// A number below `SLOTS_LEN` from the length of a word and three of its letters, the same in capitals or not.
const fn hash(word: &[u8]) -> usize {
    let [first, second, .., last] = word else { return 0 };
    let len = word.len() as u8;
    let key = u32::from_le_bytes([*first & 0xdf, *second & 0xdf, *last & 0xdf, len]);
    (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SLOTS_BITS)) as usize
}

/// What each of them does.
static MEANINGS: [Keyword; KEYWORDS.len()] = meanings();

const fn meanings() -> [Keyword; KEYWORDS.len()] {
    let mut meanings = [Keyword::Other; KEYWORDS.len()];
    let mut index = 0;
    while index < KEYWORDS.len() {
        meanings[index] = match KEYWORDS[index].as_bytes() {
            b"NULL" => Keyword::Null,
            b"IS" => Keyword::Is,
            b"NOT" => Keyword::Not,
            b"IN" => Keyword::In,
            b"EXEC" | b"EXECUTE" => Keyword::Exec,
            b"SELECT" => Keyword::Select,
            b"PROCEDURE" => Keyword::Procedure,
            b"FROM" | b"JOIN" | b"UPDATE" => Keyword::Table,
            b"INTO" | b"TABLE" => Keyword::TableWithColumns,
            _ => Keyword::Other,
        };
        index += 1;
    }
    meanings
}

/// All of them: Comdb2 is built with every optional one.
const KEYWORDS: [&str; 227] = [
    "ABORT",
    "ACTION",
    "ADD",
    "AFTER",
    "AGGREGATE",
    "ALIAS",
    "ALL",
    "ALTER",
    "ANALYZE",
    "ANALYZEEXPERT",
    "ANALYZESQLITE",
    "AND",
    "AS",
    "ASC",
    "ATTACH",
    "AUTHENTICATION",
    "AUTOINCREMENT",
    "BEFORE",
    "BEGIN",
    "BETWEEN",
    "BLOBFIELD",
    "BULKIMPORT",
    "BY",
    "CASCADE",
    "CASE",
    "CAST",
    "CHECK",
    "COLLATE",
    "COLUMN",
    "COLUMNS",
    "COMMIT",
    "COMMITSLEEP",
    "CONFLICT",
    "CONSTRAINT",
    "CONSUMER",
    "CONVERTSLEEP",
    "COUNTER",
    "COVERAGE",
    "CREATE",
    "CRLE",
    "CROSS",
    "CURRENT",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "DATA",
    "DATABASE",
    "DATABLOB",
    "DATACOPY",
    "DBPAD",
    "DDL",
    "DEFAULT",
    "DEFERRABLE",
    "DEFERRED",
    "DELETE",
    "DESC",
    "DETACH",
    "DETERMINISTIC",
    "DISABLE",
    "DISTINCT",
    "DISTRIBUTION",
    "DO",
    "DROP",
    "DRYRUN",
    "EACH",
    "ELSE",
    "ENABLE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "EXCLUDE",
    "EXCLUSIVE",
    "EXCLUSIVE_ANALYZE",
    "EXEC",
    "EXECUTE",
    "EXISTS",
    "EXPLAIN",
    "FAIL",
    "FILTER",
    "FOLLOWING",
    "FOR",
    "FORCE",
    "FOREIGN",
    "FROM",
    "FULL",
    "FUNCTION",
    "GENID48",
    "GET",
    "GLOB",
    "GRANT",
    "GROUP",
    "GROUPS",
    "HAVING",
    "IF",
    "IGNORE",
    "IMMEDIATE",
    "IN",
    "INCLUDE",
    "INCREMENT",
    "INDEX",
    "INDEXED",
    "INITIALLY",
    "INNER",
    "INSERT",
    "INSTEAD",
    "INTERSECT",
    "INTO",
    "IPU",
    "IS",
    "ISC",
    "ISNULL",
    "JOIN",
    "KEY",
    "KW",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LUA",
    "LZ4",
    "MANUAL",
    "MATCH",
    "MERGE",
    "NATURAL",
    "NEXTSEQUENCE",
    "NO",
    "NONE",
    "NOT",
    "NOTHING",
    "NOTNULL",
    "NULL",
    "ODH",
    "OF",
    "OFF",
    "OFFSET",
    "ON",
    "OP",
    "OPTION",
    "OPTIONS",
    "OR",
    "ORDER",
    "OTHERS",
    "OUTER",
    "OVER",
    "PAGEORDER",
    "PARTITION",
    "PARTITIONED",
    "PASSWORD",
    "PAUSE",
    "PENDING",
    "PERIOD",
    "PLAN",
    "PRAGMA",
    "PRECEDING",
    "PRIMARY",
    "PROCEDURE",
    "PUT",
    "QUERY",
    "RAISE",
    "RANGE",
    "READ",
    "READONLY",
    "REBUILD",
    "REC",
    "RECURSIVE",
    "REFERENCES",
    "REGEXP",
    "REINDEX",
    "RELEASE",
    "RENAME",
    "REPLACE",
    "RESERVED",
    "RESTRICT",
    "RESUME",
    "RETENTION",
    "RETROACTIVELY",
    "REVOKE",
    "RIGHT",
    "RLE",
    "ROLLBACK",
    "ROW",
    "ROWLOCKS",
    "ROWS",
    "SAVEPOINT",
    "SCALAR",
    "SCHEMACHANGE",
    "SELECT",
    "SELECTV",
    "SEQUENCE",
    "SET",
    "SKIPSCAN",
    "START",
    "SUMMARIZE",
    "TABLE",
    "TEMP",
    "TEMPORARY",
    "TESTDEFAULT",
    "TESTGENSHARD",
    "THEN",
    "THREADS",
    "THRESHOLD",
    "TIES",
    "TIME",
    "TO",
    "TRANSACTION",
    "TRIGGER",
    "TRUNCATE",
    "TRUNCOPLOG",
    "TUNABLE",
    "TYPE",
    "UNBOUNDED",
    "UNION",
    "UNIQUE",
    "UPDATE",
    "USERSCHEMA",
    "USING",
    "VACUUM",
    "VALUES",
    "VERSION",
    "VIEW",
    "VIRTUAL",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
    "WITHOUT",
    "WRITE",
    "ZLIB",
];

#[cfg(test)]
mod tests {
    use super::{KEYWORDS, Keyword, WORD_LEN_MAX, WORD_LEN_MIN};

    fn is_keyword(word: &str) -> bool {
        Keyword::of(word).is_some()
    }

    #[test]
    fn keywords_are_found_in_any_case_and_nothing_else_is() {
        for keyword in KEYWORDS {
            assert!((WORD_LEN_MIN..=WORD_LEN_MAX).contains(&keyword.len()), "{keyword}");
            assert!(is_keyword(keyword) && is_keyword(&keyword.to_ascii_lowercase()), "{keyword}");
            for other in
                [format!("{keyword}q"), format!("q{keyword}"), keyword.replace('E', "\u{e9}")]
            {
                assert!(KEYWORDS.contains(&other.as_str()) == is_keyword(&other), "{other}");
            }
        }
        for word in ["", "a", "selec", "returning", "ilike", "exclusive_analyze2", "lz5"] {
            assert!(!is_keyword(word), "{word}");
        }
    }
}
