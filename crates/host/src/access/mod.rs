//! Who may do what: one check behind every door, and a record of what it refused (promise A1).
//!
//! Owns the roles that rows of the tables User and Token give, in memory, as of the last published commit
//! (`grants.rs`). The user who started the daemon and root are admin. Any other user of this machine has the role of
//! its row, or none. Promises that a refusal is always the same error, and that refusals cannot fill the disk: beyond a
//! bound they are only counted (`refusals.rs`). It never sees a token, only hashes.

mod grants;
mod refusals;

pub use grants::{Granted, SqlUser};

use crate::audit::Audit;
use crate::clock::Clock;
use crate::session::Session;
use grants::Grants;
use paceline_model::{Grant, GrantChange};
use paceline_tables::{Error, tag};
use paceline_types::Role;
use refusals::{Kind, Refusals};
use rustix::process::geteuid;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// The error of a refusal, the same at every door.
pub const REFUSED: &str = "caller does not have the necessary permission";

/// The name of user 0, whatever the system calls it.
const ROOT: &str = "root";

/// The longest text about what was refused that is recorded.
const WHAT_CHARS_MAX: usize = 200;

/// The roles of all users and tokens, and the check.
pub struct Access {
    grants: RwLock<Grants>,
    /// The user who started the daemon: number and name.
    own_user: (u32, String),
    audit: OnceLock<Arc<Audit>>,
    refusals: Mutex<Refusals>,
    clock: Clock,
}

impl Access {
    pub(crate) fn new(clock: Clock) -> Self {
        let uid = geteuid().as_raw();
        Self {
            grants: RwLock::new(Grants::new(clock)),
            own_user: (uid, system_name(uid)),
            audit: OnceLock::new(),
            refusals: Mutex::default(),
            clock,
        }
    }

    /// Sets the audit log that refusals are recorded in.
    pub(crate) fn record_in(&self, audit: &Arc<Audit>) {
        let _ = self.audit.set(Arc::clone(audit));
    }

    /// Uses the roles that these rows give.
    pub(crate) fn begin(&self, grants: Vec<Grant>) {
        self.change(grants.into_iter().map(|grant| (None, Some(grant))).collect());
    }

    /// Applies changes of the rows that give roles.
    pub(crate) fn change(&self, changes: Vec<GrantChange>) {
        let mut grants = self.grants.write().unwrap_or_else(crate::broken);
        let changes: Vec<GrantChange> = changes
            .into_iter()
            .filter(|change| match change {
                (Some(old), Some(new)) => !grants.change_role(old, new),
                _ => true,
            })
            .collect();
        // Removals first, so that a name or a hash may move from one row to another.
        changes.iter().filter_map(|(old, _)| old.as_ref()).for_each(|old| grants.remove(old));
        changes.into_iter().filter_map(|(_, new)| new).for_each(|new| grants.add(new));
    }

    /// Gives the role admin to the token with this hash, which is in no row. It replaces the previous such
    /// token.
    pub fn set_first_token(&self, hash: [u8; 32]) {
        self.grants.write().unwrap_or_else(crate::broken).set_first_token(hash);
    }

    /// When each valid token expires, in milliseconds since 1970, and the present time. Tokens without an
    /// expiry are left out.
    #[must_use]
    pub fn token_expiries(&self) -> (Vec<u64>, u64) {
        self.grants.read().unwrap_or_else(crate::broken).token_expiries()
    }

    /// What the token with this hash grants, unless it has expired.
    #[must_use]
    pub fn of_token(&self, hash: &[u8; 32]) -> Option<Arc<Granted>> {
        let granted = self.grants.read().unwrap_or_else(crate::broken).token(hash);
        granted.filter(|granted| !granted.is_over())
    }

    /// The role of a user of this machine, and the grant behind it if a row gives it.
    #[must_use]
    pub fn of_user(&self, uid: u32, name: &str) -> (Option<Role>, Option<Arc<Granted>>) {
        if self.is_owner(uid) {
            return (Some(Role::Admin), None);
        }
        self.by_row(name)
    }

    /// The same for a user known only by the name that the kernel reported in an earlier run.
    #[must_use]
    pub fn of_name(&self, name: &str) -> (Option<Role>, Option<Arc<Granted>>) {
        if name == self.own_user.1 || name == ROOT {
            return (Some(Role::Admin), None);
        }
        self.by_row(name)
    }

    fn by_row(&self, name: &str) -> (Option<Role>, Option<Arc<Granted>>) {
        let granted = self.grants.read().unwrap_or_else(crate::broken).user(name);
        (granted.as_ref().map(|granted| granted.role()), granted)
    }

    /// The user of this name as the SQL door sees it: its verifier and its role; `None` if no row names it. Only the
    /// row counts: a client that knows the password of a row is not the user of this machine that has the same name.
    #[must_use]
    pub fn sql_user(&self, name: &str) -> Option<SqlUser> {
        self.grants.read().unwrap_or_else(crate::broken).sql_user(name)
    }

    /// Whether `uid` is root or the user who runs the daemon. A name does not prove it: an admin may give a
    /// token any name.
    #[must_use]
    pub fn is_owner(&self, uid: u32) -> bool {
        uid == self.own_user.0 || uid == 0
    }

    /// The name of a user of this machine, or its number if it has none.
    #[must_use]
    pub fn user_name(&self, uid: u32) -> String {
        match uid {
            uid if uid == self.own_user.0 => self.own_user.1.clone(),
            0 => ROOT.to_owned(),
            uid => system_name(uid),
        }
    }

    /// Checks that a session has the role that `what` needs.
    ///
    /// # Errors
    ///
    /// When it does not, which is recorded.
    pub fn check(
        &self,
        session: &Session,
        need: Role,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        self.check_role(&session.name, session.role(), need, what)
    }

    /// The same for a caller with this role; `None` for a caller without one.
    pub(crate) fn check_role(
        &self,
        who: &str,
        role: Option<Role>,
        need: Role,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if role.is_some_and(|role| role >= need) {
            return Ok(());
        }
        self.refused(who, &what());
        Err(Error::new(tag::PERMISSION, REFUSED))
    }

    /// Records that a client was refused something.
    pub fn refused(&self, who: &str, what: &str) {
        self.note(Kind::Known, who, what);
    }

    /// Records that a client known only by its address was refused something.
    pub fn refused_unknown(&self, from: &str, what: &str) {
        self.note(Kind::Unknown, from, what);
    }

    fn note(&self, kind: Kind, who: &str, what: &str) {
        let Some(audit) = self.audit.get() else { return };
        let mut refusals = self.refusals.lock().unwrap_or_else(crate::broken);
        let Some(left_out) = refusals.admit(self.clock.now(), kind) else { return };
        drop(refusals);
        let what: String = what.chars().take(WHAT_CHARS_MAX).collect();
        audit.refused(who, &what, left_out);
    }

    /// Records how many refusals were only counted since the last record.
    pub(crate) fn close(&self) {
        let left_out = self.refusals.lock().unwrap_or_else(crate::broken).take_left_out();
        if let Some(audit) = self.audit.get().filter(|_| left_out > 0) {
            audit.refused("paceline", "the daemon ends", left_out);
        }
    }
}

/// The names of the users in the system's list. Other sources of users, such as a directory, are not asked.
#[must_use]
pub fn system_users() -> Vec<String> {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    list.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
}

/// The name of a user in the system's list, or the number.
fn system_name(uid: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests;
