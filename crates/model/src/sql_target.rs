//! Rows of the table Sql_Target.
//!
//! A row has exactly one of `upstream` and `sqlite`. Settings of connections to PostgreSQL servers are refused beside
//! `sqlite`, because they would have no effect.

use crate::error::ModelError;
use crate::frontend::{absolute, timeout};
use crate::reader::Reader;
use paceline_routing::{
    Pooling, SqlConnections, SqlEngine, SqlLogin, SqlTarget, Upstream, UpstreamUrl,
};

/// The settings of targets with `upstream`: the column, and the name of the setting.
const OF_UPSTREAM: [(&str, &str); 7] = [
    ("pooling", "pooling"),
    ("connections_max", "connections.max"),
    ("connections_min", "connections.min"),
    ("connections_idle", "connections.idle"),
    ("connections_lifetime", "connections.lifetime"),
    ("login_user", "login.user"),
    ("login_password_file", "login.password_file"),
];

/// The target that a row describes.
pub(crate) fn read(row: Reader<'_>) -> Result<SqlTarget, ModelError> {
    let engine = match (row.optional("upstream"), row.optional("sqlite")) {
        (Some(_), None) => SqlEngine::Upstream(Box::new(upstream(row)?)),
        (None, Some(file)) => sqlite(row, file)?,
        (None, None) => {
            let message = "expected upstream or sqlite, because a target has exactly one of them";
            return Err(row.error("upstream", message.into()));
        }
        (Some(_), Some(_)) => {
            let message =
                "expected none, because upstream is set; a target has exactly one of them";
            return Err(row.error("sqlite", message.into()));
        }
    };
    let plain = SqlTarget::new(row.uuid(), row.text("name"), engine);
    Ok(SqlTarget { notice: row.choice("notice").unwrap_or(plain.notice), ..plain })
}

fn sqlite(row: Reader<'_>, file: &str) -> Result<SqlEngine, ModelError> {
    if let Some((column, setting)) = OF_UPSTREAM.into_iter().find(|(column, _)| row.has(column)) {
        let message = format!(
            "{setting} is a setting of targets with upstream; this one is an embedded SQLite database"
        );
        return Err(row.error(column, message));
    }
    let file =
        file.parse().map_err(|error| row.error("sqlite", format!("{error}, found {file:?}")))?;
    Ok(SqlEngine::Sqlite { file })
}

fn upstream(row: Reader<'_>) -> Result<Upstream, ModelError> {
    let url: Option<UpstreamUrl> = row.parsed("upstream")?;
    let missing = || row.error("upstream", "expected a URL".into());
    let plain = Upstream::new(url.ok_or_else(missing)?);
    let connections = plain.connections;
    Ok(Upstream {
        pooling: match row.optional("pooling") {
            Some("session") => Pooling::Session,
            _ => plain.pooling,
        },
        connections: SqlConnections {
            max: row.number("connections_max")?.unwrap_or(connections.max),
            min: row.number("connections_min")?.unwrap_or(connections.min),
            idle: timeout(row, "connections_idle")?.unwrap_or(connections.idle),
            lifetime: timeout(row, "connections_lifetime")?.unwrap_or(connections.lifetime),
        },
        login: login(row)?,
        ..plain
    })
}

fn login(row: Reader<'_>) -> Result<SqlLogin, ModelError> {
    let file = row.optional("login_password_file").map(absolute).transpose();
    let file = file.map_err(|message| row.error("login_password_file", message))?;
    match (row.optional("login_user"), file) {
        (Some(user), password_file) => Ok(SqlLogin::User { user: user.into(), password_file }),
        (None, None) => Ok(SqlLogin::Client),
        (None, Some(_)) => Err(row.error("login_user", "expected the user of the password".into())),
    }
}

#[cfg(test)]
mod tests;
