//! Roles: the least role that a change needs, and the rows that give roles to users and tokens.
//!
//! A change is judged by its effect, not by its form, so every door gets the same answer. A change that is unknown
//! here needs admin.

use crate::error::ModelError;
use crate::model::{Model, Tables};
use crate::reader::Reader;
use paceline_pools::DEFAULT_NAME;
use paceline_postgres::scram::{Verifier, VerifierError};
use paceline_tables::schema::TableId;
use paceline_tables::{Changes, Row, RowChange, Store};
use paceline_types::Role;
use std::fmt;
use std::sync::Arc;

/// The name of the first token, which is in a file and not in a row.
pub const FIRST_TOKEN: &str = "admin";

/// How many characters of a row's name a message shows.
const SHOWN_CHARS_MAX: usize = 64;

/// A row that gives a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A user of this machine, or of SQL clients.
    User {
        /// Its name: that in the system's list, or the one that SQL clients log in with.
        name: String,
        /// Its role; without one, it may only send governed requests.
        role: Option<Role>,
        /// The verifier of its password at the SQL door.
        verifier: Option<SqlVerifier>,
    },
    /// The bearer of a token.
    Token(TokenRow),
}

/// A token of the API, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its name.
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: [u8; 32],
    /// The role of its bearer.
    pub role: Role,
    /// The name that the bearer's requests have as `user`.
    pub user: String,
    /// When it expires, in milliseconds since 1970; `None` for never.
    pub expires_ms: Option<u64>,
}

/// What is stored of the password of an SQL client. It never appears in `Debug`.
#[derive(Clone)]
pub struct SqlVerifier(Arc<(Box<str>, Verifier)>);

impl SqlVerifier {
    /// The verifier of this text: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    ///
    /// # Errors
    ///
    /// When the text does not have that form.
    pub fn parse(text: &str) -> Result<Self, VerifierError> {
        Ok(Self(Arc::new((text.into(), Verifier::parse(text)?))))
    }

    /// The verifier, to check a login with.
    #[must_use]
    pub fn verifier(&self) -> &Verifier {
        &self.0.1
    }
}

impl PartialEq for SqlVerifier {
    fn eq(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }
}

impl Eq for SqlVerifier {}

impl fmt::Debug for SqlVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqlVerifier(..)")
    }
}

/// A row that gives a role, before and after a change.
pub type GrantChange = (Option<Grant>, Option<Grant>);

impl Model {
    /// The least role that may make these changes, and the change that needs it.
    #[must_use]
    pub fn least_role(&self, changes: &Changes) -> (Role, String) {
        let needs = changes.rows.iter().map(|change| (self.change_needs(change), change));
        // The first of the changes that need the highest role, because the message names it.
        let most = needs.reduce(|most, next| if next.0 > most.0 { next } else { most });
        most.map_or((Role::Viewer, String::new()), |(role, change)| (role, self.told(change)))
    }

    /// The row and the column of the first change that names a file, which needs admin, as an error.
    #[must_use]
    pub fn named_file(&self, changes: &Changes) -> Option<ModelError> {
        changes.rows.iter().find_map(|change| {
            let read = |row| Reader::new(self.schema.table(change.table), row);
            let new = change.new.as_ref().map(read)?;
            let column = names_file(change.old.as_ref().map(read), new)?;
            Some(
                new.error(column, "it names a file or a socket, which needs the role admin".into()),
            )
        })
    }

    /// The row whose change needs the highest role, and that role, as an error.
    #[must_use]
    pub fn needed_role(&self, changes: &Changes) -> Option<ModelError> {
        let needs = changes.rows.iter().map(|change| (self.change_needs(change), change));
        let (need, change) =
            needs.reduce(|most, next| if next.0 > most.0 { next } else { most })?;
        let read = |row| Reader::new(self.schema.table(change.table), row);
        let (old, new) = (change.old.as_ref().map(read), change.new.as_ref().map(read));
        let kept = |row: Option<Reader<'_>>| row.is_some_and(|row| row.flag("persistent"));
        let what = match (old, new) {
            (_, Some(_)) if kept(new) && !kept(old) => "keeping it across restarts",
            (None, _) => "creating it",
            (Some(_), None) => "deleting it",
            (Some(_), Some(_)) if kept(old) && !kept(new) => "making it transient",
            _ => "changing it",
        };
        let row = new.or(old)?.title();
        let table = self.schema.table(change.table).name.to_string();
        let message = format!("{what} needs the role {need}");
        Some(ModelError { table, row: Some(row), column: None, message })
    }

    fn change_needs(&self, change: &RowChange) -> Role {
        let tables = &self.tables;
        let Tables { pool, rule, checkpoint, resource, frontend, backend, server, .. } = *tables;
        let work = [pool, rule, checkpoint, resource, tables.file];
        let for_operators = [&work[..], &[frontend, backend, server, tables.sql_target]].concat();
        if !for_operators.contains(&change.table) {
            return Role::Admin;
        }
        let read = |row| Reader::new(self.schema.table(change.table), row);
        let (old, new) = (change.old.as_ref().map(read), change.new.as_ref().map(read));
        // The default pool exists even without a row, so its first row creates nothing.
        let is_default = [old, new].iter().flatten().any(|row| row.text("name") == DEFAULT_NAME);
        let comes_or_goes = old.is_none() || new.is_none();
        let makes_pool = change.table == tables.pool && comes_or_goes && !is_default;
        let is_target = change.table == tables.sql_target;
        let leads_elsewhere = is_target && leads_elsewhere(old, new);
        let kept = |row: Option<Reader<'_>>| row.is_some_and(|row| row.flag("persistent"));
        // Objects of the files that the daemon was started with are deleted when it is started without them.
        let serves = |row: Option<Reader<'_>>| row.is_some_and(|row| row.flag("served"));
        // An object of a file is deleted when the file no longer names it. A user that may not delete a row may
        // neither have it deleted this way nor protect it from that.
        let is_moved =
            old.zip(new).is_some_and(|(old, new)| old.optional("file") != new.optional("file"));
        let is_guarded = kept(old) || is_target || (change.table == tables.pool && !is_default);
        let names_file = new.is_some_and(|new| names_file(old, new).is_some());
        let trusts = change.table == backend && new.is_some_and(|new| trusts_more(old, new));
        let needs_admin = names_file
            || trusts
            || makes_pool
            || leads_elsewhere
            || kept(old) != kept(new)
            || serves(old) != serves(new)
            || (is_moved && is_guarded);
        if needs_admin { Role::Admin } else { Role::Operator }
    }

    /// A change in words: the operation, table and row.
    fn told(&self, change: &RowChange) -> String {
        let word = match (&change.old, &change.new) {
            (None, _) => "insert",
            (_, None) => "delete",
            _ => "update",
        };
        let table = self.schema.table(change.table);
        let row = change.new.as_ref().or(change.old.as_ref());
        let title = row.map_or_else(String::new, |row| Reader::new(table, row).title());
        let title: String = title.chars().take(SHOWN_CHARS_MAX).collect();
        format!("{word} {} {title}", table.name)
    }

    /// Whether these changes give or revoke roles.
    #[must_use]
    pub fn concerns_grants(&self, changes: &Changes) -> bool {
        changes.by_table().filter_map(<[_]>::first).any(|change| self.gives_roles(change.table))
    }

    fn gives_roles(&self, table: TableId) -> bool {
        [self.tables.user, self.tables.token].contains(&table)
    }

    /// All rows that give roles.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn grants(&self, store: &Store) -> Result<Vec<Grant>, ModelError> {
        let rows = [self.tables.user, self.tables.token]
            .into_iter()
            .flat_map(|table| store.rows(table).map(move |row| (table, row)));
        rows.map(|(table, row)| self.grant(table, row, Some(store))).collect()
    }

    /// The changes of the rows that give roles, after which the rows are those of `store`.
    ///
    /// # Errors
    ///
    /// When the new version of a row cannot be read.
    pub fn grant_changes(
        &self,
        changes: &Changes,
        store: &Store,
    ) -> Result<Vec<GrantChange>, ModelError> {
        let ours = changes.rows.iter().filter(|change| self.gives_roles(change.table));
        ours.map(|change| {
            // The password of an old row may be deleted.
            let old = change.old.as_ref().and_then(|row| self.grant(change.table, row, None).ok());
            let new = change.new.as_ref().map(|row| self.grant(change.table, row, Some(store)));
            Ok((old, new.transpose()?))
        })
        .collect()
    }

    /// What a row gives. The password of a user is in another row, which is read from `store`.
    fn grant(&self, table: TableId, row: &Row, store: Option<&Store>) -> Result<Grant, ModelError> {
        let row = Reader::new(self.schema.table(table), row);
        let name = row.text("name").to_owned();
        let role = row.parsed("role")?;
        if table == self.tables.user {
            let verifier = store.map_or(Ok(None), |store| self.verifier(row, store))?;
            return Ok(Grant::User { name, role, verifier });
        }
        let missing = || row.error("role", "expected a role".to_owned());
        let role = role.ok_or_else(missing)?;
        if name == FIRST_TOKEN {
            let message = "this name is reserved for the first token, which is in the file token";
            return Err(row.error("name", message.to_owned()));
        }
        let wrong = || row.error("hash", "expected 64 hexadecimal digits in lower case".to_owned());
        let hash = parse_hash(row.text("hash")).ok_or_else(wrong)?;
        let (user, expires_ms) = (row.text("user").to_owned(), row.number("expires")?);
        Ok(Grant::Token(TokenRow { name, hash, role, user, expires_ms }))
    }
}

impl Model {
    /// The verifier that a user refers to.
    fn verifier(&self, user: Reader<'_>, store: &Store) -> Result<Option<SqlVerifier>, ModelError> {
        let table = self.tables.sql_password;
        let row = user.uuids("sql_password").next().and_then(|row| store.row(table, row));
        let Some(row) = row else { return Ok(None) };
        let text = Reader::new(self.schema.table(table), row).text("verifier");
        let wrong = |error: VerifierError| {
            let form = "SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>";
            user.error("sql_password", format!("expected a verifier such as {form}: {error}"))
        };
        SqlVerifier::parse(text).map(Some).map_err(wrong)
    }
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().map(digit).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |all, d| all << 4 | d)).collect();
    bytes.try_into().ok().filter(|_| text.len() == 64)
}

/// Whether a change of a backend stops verifying a certificate that was verified, or that is verified by default.
fn trusts_more(old: Option<Reader<'_>>, new: Reader<'_>) -> bool {
    let says_no = |row: Reader<'_>| row.choice("tls_verify") == Some(false);
    let verifies = |row: Reader<'_>| row.flag("tls") && !says_no(row);
    let had_said = old.is_some_and(says_no);
    (says_no(new) && !had_said) || (old.is_some_and(verifies) && !verifies(new))
}

/// The columns of a target that say which database its clients reach, and with which password.
const OF_TARGETS: [&str; 5] = ["name", "upstream", "sqlite", "login_user", "login_password_file"];

/// Whether a change creates or deletes a target, or leads its clients, with their passwords, to another database.
fn leads_elsewhere(old: Option<Reader<'_>>, new: Option<Reader<'_>>) -> bool {
    let columns = |row: Reader<'_>| OF_TARGETS.map(|column| row.owned(column));
    old.map(columns) != new.map(columns)
}

/// The columns of a frontend that name files, each by a number.
const PAGES_AND_KEYS: [&str; 3] = ["errors", "tls_certificate", "tls_key"];

/// The columns of a backend that name files.
const OF_SERVERS: [&str; 3] = ["tls_ca", "tls_certificate", "tls_key"];

/// The column in which a change names a file that the row did not name before. The content of a page is sent to all
/// clients. A certificate is served with a key that only the daemon may read. A socket is connected to or created
/// with the daemon's own permissions: through the socket of its own API, every client would be admin.
fn names_file(old: Option<Reader<'_>>, new: Reader<'_>) -> Option<&'static str> {
    // Each column by itself: a file that may be served as a key must not be sent as a page.
    let names_numbered = |column: &&str| {
        let had = |file| old.is_some_and(|old| old.numbered(column).any(|own| own == file));
        new.numbered(column).any(|file| !had(file))
    };
    // The content of these is never sent, but servers learn whether it fits, and identify the daemon by it.
    let names_other = |column: &&str| {
        let file = new.optional(column);
        file.is_some() && file != old.and_then(|old| old.optional(column))
    };
    let file = PAGES_AND_KEYS.into_iter().find(names_numbered);
    let file = file.or_else(|| OF_SERVERS.into_iter().find(names_other));
    if file.is_some() {
        return file;
    }
    let sockets = |row: Reader<'_>| {
        let address = row.optional("address").into_iter().map(|text| ("address", text.to_owned()));
        let listen = row.texts("listen").map(|text| ("listen", text.to_owned()));
        let own = address.chain(listen).filter(|(_, text)| text.starts_with("unix:"));
        own.collect::<Vec<_>>()
    };
    let had = old.map_or_else(Vec::new, sockets);
    sockets(new).into_iter().find(|socket| !had.contains(socket)).map(|(column, _)| column)
}

#[cfg(test)]
mod tests;
