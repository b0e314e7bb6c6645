//! The keys of the file: which of the catalogue's settings may stand where.

pub(crate) use paceline_catalogue::{
    API, BACKENDS, CHECKPOINTS, Each, FRONTENDS, HTTP, Holds, Kind, POOLS, RESOURCES, RULES,
    SERVERS, Setting as Key, USERS,
};

/// All kinds that are lists of tables, in the order of an export. There are no tokens among them: they
/// are secrets.
pub(crate) const KINDS: [&Kind; 7] =
    [&FRONTENDS, &BACKENDS, &POOLS, &RULES, &CHECKPOINTS, &RESOURCES, &USERS];

/// All kinds of which there is one object at most, in the order of an export.
pub(crate) const SINGLE: [&Kind; 2] = [&API, &HTTP];

/// The kind whose rows are in this table.
pub(crate) fn kind_of(table: &str) -> Option<&'static Kind> {
    KINDS.into_iter().chain(SINGLE).chain([&SERVERS]).find(|kind| kind.table == table)
}

/// The settings of a kind that may stand in the file.
pub(crate) fn keys(kind: &Kind) -> impl Iterator<Item = &'static Key> + use<> {
    kind.settings.iter().filter(|key| key.is_in_file())
}

/// How the file writes a column: `queue.max_len` for `queue_max_len`.
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
