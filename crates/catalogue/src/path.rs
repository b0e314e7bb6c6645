//! How a setting is written in messages: `queue.max_len`.

use crate::setting::{Holds, Kind, Setting};

/// The setting that a column holds, with its name in the file.
#[must_use]
pub fn setting_of(kind: &Kind, column: &str) -> Option<(String, &'static Setting)> {
    kind.settings.iter().find_map(|setting| {
        if setting.column == column && !matches!(setting.holds, Holds::Table(_)) {
            return Some((setting.name.to_owned(), setting));
        }
        let inner = setting.inner().iter().find(|inner| inner.column == column)?;
        Some((format!("{}.{}", setting.name, inner.name), inner))
    })
}
