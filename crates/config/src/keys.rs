//! The keys of the file: which settings of the catalogue are allowed where.

pub(crate) use paceline_catalogue::{
    API, BACKENDS, CHECKPOINTS, Each, FRONTENDS, HTTP, Holds, Kind, POOLS, RESOURCES, RULES,
    SERVERS, SQL_TARGETS, Setting as Key, USERS,
};

/// All kinds that are lists of tables, in the order of an export. Tokens are not among them, because they are
/// secrets.
pub(crate) const KINDS: [&Kind; 8] =
    [&FRONTENDS, &BACKENDS, &SQL_TARGETS, &POOLS, &RULES, &CHECKPOINTS, &RESOURCES, &USERS];

/// All kinds with at most one object, in the order of an export.
pub(crate) const SINGLE: [&Kind; 2] = [&API, &HTTP];

/// The kind whose rows are in this table.
pub(crate) fn kind_of(table: &str) -> Option<&'static Kind> {
    KINDS.into_iter().chain(SINGLE).chain([&SERVERS]).find(|kind| kind.table == table)
}

/// The settings of a kind that are allowed in the file.
pub(crate) fn keys(kind: &Kind) -> impl Iterator<Item = &'static Key> + use<> {
    kind.settings.iter().filter(|key| key.is_in_file())
}

/// The key of a column in the file: `queue.max_len` for `queue_max_len`.
pub(crate) fn path_of(kind: &Kind, column: &str) -> Option<String> {
    if kind.table == FRONTENDS.table
        && let Some(part) = column.strip_prefix("tls_")
    {
        return Some(format!("tls.{part}"));
    }
    keys(kind).find_map(|key| {
        if key.column == column {
            return Some(key.name.to_owned());
        }
        let inner = key.inner().iter().find(|inner| inner.column == column)?;
        Some(format!("{}.{}", key.name, inner.name))
    })
}
