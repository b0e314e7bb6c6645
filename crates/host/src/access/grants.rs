//! The roles of users and tokens, looked up in one step.
//!
//! A token is looked up by the first half of its hash. The other half is compared in constant time, so that the
//! response time reveals nothing about a token. The holder of a [`Granted`] can wait for its end. It ends when its row
//! is deleted, when the row names another user, or when the new role may hold nothing. Any other change of role takes
//! effect at once, and what the client holds stays.

use crate::clock::Clock;
use paceline_model::{FIRST_TOKEN, Grant, SqlVerifier, TokenRow};
use paceline_types::{Role, Span};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

type Half = [u8; 16];

/// The longest time between two reads of the wall clock while waiting for an expiry.
const LOOK_MS: u64 = 60_000;

/// The role that a row grants.
#[derive(Debug)]
pub struct Granted {
    /// The name that requests carry as `user`.
    pub user: String,
    /// The number of the role.
    role: AtomicUsize,
    /// When it expires, in milliseconds since 1970; `None` for never.
    expires_ms: Option<u64>,
    clock: Clock,
    /// Closed when the row is deleted.
    ended: watch::Receiver<()>,
}

impl Granted {
    /// The present role.
    #[must_use]
    pub fn role(&self) -> Role {
        let number = self.role.load(Ordering::Relaxed);
        Role::ALL.get(number).copied().unwrap_or(Role::Viewer)
    }

    fn set_role(&self, role: Role) {
        let number = Role::ALL.iter().position(|other| *other == role);
        self.role.store(number.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Whether it has expired by the wall clock, or was revoked.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.expires_ms.is_some_and(|ms| ms <= self.clock.wall_ms())
            || self.ended.has_changed().is_err()
    }

    /// Runs `work` to its end, unless the role that `granted` gives is revoked or expires first: then returns
    /// `None`. Work that is complete is returned in any case.
    pub async fn during<T>(granted: Option<&Self>, work: impl Future<Output = T>) -> Option<T> {
        let Some(granted) = granted else { return Some(work.await) };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = granted.revoked() => None,
        }
    }

    /// Waits until the role is revoked or expires; forever, if it never does.
    pub async fn revoked(&self) {
        let mut ended = self.ended.clone();
        let deleted = async {
            // Nothing is ever sent; this waits until the sender is dropped.
            while ended.changed().await.is_ok() {}
        };
        let expired = async {
            // In steps, because the wall clock may be set meanwhile.
            while let Some(left) = self.left_ms().filter(|left| *left > 0) {
                self.clock.sleep(Span::from_ms(left.min(LOOK_MS))).await;
            }
        };
        tokio::select! {
            biased;
            () = deleted => {}
            () = expired, if self.expires_ms.is_some() => {}
        }
    }

    /// Milliseconds until it expires; `None` if it never does.
    fn left_ms(&self) -> Option<u64> {
        self.expires_ms.map(|ms| ms.saturating_sub(self.clock.wall_ms()))
    }
}

struct RowGrant {
    granted: Arc<Granted>,
    /// Dropping it ends every [`Granted`] of this row.
    _alive: watch::Sender<()>,
}

impl RowGrant {
    fn new(user: String, role: Role, expires_ms: Option<u64>, clock: Clock) -> Self {
        let (alive, ended) = watch::channel(());
        let granted = Granted { user, role: AtomicUsize::new(0), expires_ms, clock, ended };
        granted.set_role(role);
        Self { granted: Arc::new(granted), _alive: alive }
    }
}

/// A user as the SQL door sees it, as of the last published commit.
#[derive(Clone, Debug)]
pub struct SqlUser {
    /// The verifier of its password; without one, it cannot log in with a password.
    pub verifier: Option<SqlVerifier>,
    /// Its role; without one, it may only send governed statements.
    pub role: Option<Role>,
    /// What gives it the role, to learn when the role changes or is revoked.
    pub granted: Option<Arc<Granted>>,
}

/// What the row of a user gives.
struct UserRow {
    held: Option<RowGrant>,
    verifier: Option<SqlVerifier>,
}

struct HeldToken {
    name: String,
    rest: Half,
    held: RowGrant,
}

/// All roles that rows grant.
pub(super) struct Grants {
    clock: Clock,
    users: HashMap<String, UserRow>,
    /// By the first half of their hashes.
    tokens: HashMap<Half, HeldToken>,
    /// The first half of the hash of the first token.
    first: Option<Half>,
}

impl Grants {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, users: HashMap::new(), tokens: HashMap::new(), first: None }
    }

    pub(super) fn add(&mut self, grant: Grant) {
        match grant {
            Grant::User { name, role, verifier } => {
                let clock = self.clock;
                let held = role.map(|role| RowGrant::new(name.clone(), role, None, clock));
                self.users.insert(name, UserRow { held, verifier });
            }
            Grant::Token(TokenRow { name, hash, role, user, expires_ms }) => {
                let (first, rest) = halves(&hash);
                let held = RowGrant::new(user, role, expires_ms, self.clock);
                self.tokens.insert(first, HeldToken { name, rest, held });
            }
        }
    }

    /// The expiry times of the tokens that are valid now, and the present time.
    pub(super) fn token_expiries(&self) -> (Vec<u64>, u64) {
        let now = self.clock.wall_ms();
        let tokens = self.tokens.values().filter_map(|token| token.held.granted.expires_ms);
        (tokens.filter(|ms| *ms > now).collect(), now)
    }

    pub(super) fn remove(&mut self, grant: &Grant) {
        match grant {
            Grant::User { name, .. } => drop(self.users.remove(name)),
            Grant::Token(token) => {
                let (first, _) = halves(&token.hash);
                if self.tokens.get(&first).is_some_and(|held| held.name == token.name) {
                    self.tokens.remove(&first);
                }
            }
        }
    }

    /// Changes the role of a row that is otherwise the same, if its user may keep what it holds. Returns
    /// whether it did.
    pub(super) fn change_role(&mut self, old: &Grant, new: &Grant) -> bool {
        let (held, before, role) = match (old, new) {
            (
                Grant::User { name, role: before, .. },
                Grant::User { name: same, role, verifier },
            ) if name == same => {
                let Some(user) = self.users.get_mut(name) else { return false };
                user.verifier.clone_from(verifier);
                match (before, role) {
                    (Some(before), Some(role)) => (user.held.as_ref(), before, role),
                    (before, role) => return before == role,
                }
            }
            (Grant::Token(before), Grant::Token(after)) => {
                let same = TokenRow { role: before.role, ..after.clone() };
                let (first, _) = halves(&before.hash);
                let held = self.tokens.get(&first).filter(|_| same == *before);
                (held.map(|token| &token.held), &before.role, &after.role)
            }
            _ => return false,
        };
        // A viewer may continue to watch; a user that holds something must stay a client at least.
        let stays = *role >= Role::Client.min(*before);
        if let Some(held) = held.filter(|_| stays) {
            held.granted.set_role(*role);
            return true;
        }
        false
    }

    pub(super) fn set_first_token(&mut self, hash: [u8; 32]) {
        if let Some(before) = self.first.take() {
            self.tokens.remove(&before);
        }
        let (first, rest) = halves(&hash);
        let name = FIRST_TOKEN.to_owned();
        let held = RowGrant::new(name.clone(), Role::Admin, None, self.clock);
        self.tokens.insert(first, HeldToken { name, rest, held });
        self.first = Some(first);
    }

    pub(super) fn token(&self, hash: &[u8; 32]) -> Option<Arc<Granted>> {
        let (first, rest) = halves(hash);
        let token = self.tokens.get(&first)?;
        let differences = token.rest.iter().zip(&rest).fold(0, |all, (a, b)| all | (a ^ b));
        (differences == 0).then(|| Arc::clone(&token.held.granted))
    }

    pub(super) fn user(&self, name: &str) -> Option<Arc<Granted>> {
        let held = self.users.get(name).and_then(|user| user.held.as_ref());
        held.map(|held| Arc::clone(&held.granted))
    }

    pub(super) fn sql_user(&self, name: &str) -> Option<SqlUser> {
        let UserRow { held, verifier } = self.users.get(name)?;
        let granted = held.as_ref().map(|held| Arc::clone(&held.granted));
        let role = granted.as_ref().map(|granted| granted.role());
        Some(SqlUser { verifier: verifier.clone(), role, granted })
    }
}

fn halves(hash: &[u8; 32]) -> (Half, Half) {
    let (mut first, mut rest) = ([0; 16], [0; 16]);
    first.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
    rest.iter_mut().zip(hash.iter().skip(16)).for_each(|(to, from)| *to = *from);
    (first, rest)
}
