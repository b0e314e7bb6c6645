//! Sessions, locks and permits as rows: writing and reading them.

use super::{Key, Process, UNSYNCED_LEASE_MAX};
use crate::control::HeldPermit;
use crate::database::{Claims, OwnRow};
use paceline_engine::Places;
use paceline_tables::Row;
use paceline_tables::schema::TableSchema;
use paceline_tables::value::{Atom, Datum};
use paceline_types::{Attributes, Mode, Request, RequestId, SessionId, Span, Unknown, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSession {
    /// The name under which it is shown. It is unique.
    pub name: String,
    /// Its number.
    pub number: SessionId,
    /// The user who began it.
    pub user: String,
    /// The salt from which its secret is derived.
    pub salt: String,
    /// Its lease, unless it is bound to a connection.
    pub lease: Option<Span>,
    /// A session without a lease ends when all these processes are dead.
    pub processes: Vec<Process>,
}

/// A lock that a session owns, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLock {
    /// Its name.
    pub name: String,
    /// The name of the session.
    pub session: String,
    /// The number of the grant.
    pub fencing: u64,
}

/// A permit as it is kept.
#[derive(Clone, Debug)]
pub struct KeptPermit {
    /// Its name.
    pub name: String,
    /// The number of its request.
    pub number: RequestId,
    /// The request, without its session and what it claims.
    pub request: Request,
    /// The resources it claims, by the UUIDs of their rows.
    pub resources: Vec<(Uuid, Mode)>,
    /// The names it claims for which there is no resource.
    pub names: Vec<(Box<str>, Mode)>,
    /// The priority that the rules gave it.
    pub priority: i8,
    /// The user who asked for it.
    pub user: String,
    /// The name of its session; empty if it has none.
    pub session: String,
    /// Its own lease, if it has no session.
    pub lease: Option<Span>,
    /// Whether its lease, or that of its session, is too long to be waited for after a crash of the machine.
    pub is_long: bool,
    /// The digest of the request's body in hexadecimal digits, if the client chose the name; otherwise empty.
    pub digest: String,
    /// When it was granted: microseconds since 1970.
    pub granted_us: i64,
    /// How long it waited.
    pub waited: Span,
    /// The pool and the checkpoints that count it.
    pub places: Places,
}

/// The row of a permit.
pub(crate) struct PermitRow {
    pub(super) values: Vec<(&'static str, Datum)>,
    /// Whether it must be synced: a crash of the machine must not lose it.
    pub(super) is_synced: bool,
}

fn text(text: &str) -> Datum {
    Datum::One(Atom::string(text))
}

fn number(number: u64) -> Atom {
    Atom::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn span(span: Option<Span>) -> Datum {
    span.map_or(Datum::Empty, |span| Datum::One(number(span.0)))
}

impl KeptSession {
    pub(super) fn row(&self) -> Vec<(&'static str, Datum)> {
        let processes: BTreeSet<String> = self.processes.iter().map(Process::to_string).collect();
        let processes = processes.iter().map(|process| Atom::string(process)).collect();
        vec![
            ("name", text(&self.name)),
            ("number", Datum::One(number(self.number.0))),
            ("user", text(&self.user)),
            ("salt", text(&self.salt)),
            ("lease", span(self.lease)),
            ("processes", Datum::from_sorted(processes)),
        ]
    }

    pub(super) fn read(table: &TableSchema, row: &Row) -> Option<Self> {
        let columns = Columns { table, row };
        let processes = columns.datum("processes")?.keys();
        Some(Self {
            name: columns.text("name")?,
            number: SessionId(columns.number("number")?),
            user: columns.text("user")?,
            salt: columns.text("salt")?,
            lease: columns.number("lease").map(Span),
            processes: processes.filter_map(|atom| Process::parse(atom.as_str()?)).collect(),
        })
    }

    /// Whether its lease is too long to be waited for after a crash of the machine.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.lease.is_some_and(|lease| lease > UNSYNCED_LEASE_MAX)
    }
}

impl KeptLock {
    pub(super) fn row(name: &str, session: &str, fencing: u64) -> Vec<(&'static str, Datum)> {
        let fencing = Datum::One(number(fencing));
        vec![("name", text(name)), ("session", text(session)), ("fencing", fencing)]
    }

    pub(super) fn read(table: &TableSchema, row: &Row) -> Option<Self> {
        let columns = Columns { table, row };
        Some(Self {
            name: columns.text("name")?,
            session: columns.text("session")?,
            fencing: columns.number("fencing")?,
        })
    }
}

impl PermitRow {
    pub(crate) fn of(permit: &HeldPermit<'_>, claimed: &Claims) -> Self {
        let HeldPermit { id, terms, request, unknown, priority, granted_us, waited, .. } = permit;
        let mut attributes: Vec<(&str, &str)> = request.attributes.iter().collect();
        attributes.sort_unstable();
        let attributes = attributes.iter().map(|(name, v)| (Atom::string(name), Atom::string(v)));
        let (resources, claims) = claims_row(&claimed.resources, &claimed.names);
        let locks: BTreeSet<&str> = request.locks.iter().map(|lock| &**lock).collect();
        let unknown = match unknown {
            Unknown::Refuse => "refuse",
            Unknown::Wait => "wait",
            Unknown::Create => "create",
        };
        let checkpoints = permit.checkpoints.iter().map(|name| Atom::string(name)).collect();
        let is_synced = terms.is_long || !resources.is_empty() || !claims.is_empty();
        // Sorted by name, as the columns of a table are.
        let values = vec![
            ("attributes", Datum::from_sorted_pairs(attributes.collect())),
            ("checkpoints", Datum::from_sorted(checkpoints)),
            ("claims", claims),
            ("cost", Datum::One(number(u64::from(request.cost)))),
            ("digest", text(&terms.digest)),
            ("granted_at", Datum::One(Atom::Integer(*granted_us))),
            ("lease", span(terms.lease)),
            ("name", text(&terms.name_of(*id))),
            ("pool", text(permit.pool.unwrap_or_default())),
            ("priority", Datum::One(Atom::Integer(i64::from(*priority)))),
            ("request", Datum::One(number(id.0))),
            ("require_locks", Datum::from_sorted(locks.iter().map(|l| Atom::string(l)).collect())),
            ("resources", resources),
            ("session", text(&terms.session)),
            ("unknown", text(unknown)),
            ("user", text(&terms.user)),
            ("waited", Datum::One(number(waited.0))),
        ];
        Self { values, is_synced }
    }
}

impl KeptPermit {
    pub(super) fn read(table: &TableSchema, row: &Row) -> Option<Self> {
        let columns = Columns { table, row };
        let mut request = Request::new(Attributes::new());
        for (name, value) in columns.datum("attributes")?.pairs() {
            request.attributes.set(name.as_str()?, value.as_str()?).ok()?;
        }
        let (resources, names) = (columns.datum("resources")?, columns.datum("claims")?);
        let Claims { resources, names } = read_claims(resources, names);
        let locks = columns.datum("require_locks")?.keys();
        request.locks = locks.filter_map(|lock| lock.as_str().map(Into::into)).collect();
        request.cost = u32::try_from(columns.number("cost")?).ok()?;
        request.unknown = match columns.text("unknown")?.as_str() {
            "wait" => Unknown::Wait,
            "create" => Unknown::Create,
            _ => Unknown::Refuse,
        };
        Some(Self {
            name: columns.text("name")?,
            number: RequestId(columns.number("request")?),
            request,
            resources,
            names,
            priority: i8::try_from(columns.integer("priority")?).ok()?,
            user: columns.text("user")?,
            session: columns.text("session")?,
            lease: columns.number("lease").map(Span),
            is_long: false,
            digest: columns.text("digest")?,
            granted_us: columns.integer("granted_at")?,
            waited: Span(columns.number("waited")?),
            places: read_places(&columns)?,
        })
    }
}

fn read_places(columns: &Columns<'_>) -> Option<Places> {
    let pool = columns.text("pool").filter(|pool| !pool.is_empty()).map(Into::into);
    let names = columns.datum("checkpoints")?.keys();
    Some(Places {
        pool,
        checkpoints: names.filter_map(|name| Some(name.as_str()?.into())).collect(),
    })
}

/// The columns `resources` and `claims` of a permit. If something is claimed twice, the stronger claim counts.
pub(crate) fn claims_row(resources: &[(Uuid, Mode)], names: &[(Box<str>, Mode)]) -> (Datum, Datum) {
    let word = |mode| Atom::string(if mode == Mode::Exclusive { "exclusive" } else { "shared" });
    let column = |claims: &mut dyn Iterator<Item = (Atom, Mode)>| {
        let mut modes: BTreeMap<Atom, Mode> = BTreeMap::new();
        for (claimed, mode) in claims {
            let held = modes.entry(claimed).or_insert(mode);
            // Exclusive, the stronger mode, is the lesser of the two.
            *held = mode.min(*held);
        }
        Datum::from_sorted_pairs(modes.into_iter().map(|(at, mode)| (at, word(mode))).collect())
    };
    let resources = column(&mut resources.iter().map(|(row, mode)| (Atom::Uuid(*row), *mode)));
    (resources, column(&mut names.iter().map(|(name, mode)| (Atom::string(name), *mode))))
}

/// Reads these columns.
pub(crate) fn read_claims(resources: &Datum, names: &Datum) -> Claims {
    let mode = |word: &Atom| match word.as_str() {
        Some("shared") => Mode::Shared,
        _ => Mode::Exclusive,
    };
    let resources = resources.pairs().iter();
    let names = names.pairs().iter();
    Claims {
        resources: resources.filter_map(|(row, word)| Some((row.as_uuid()?, mode(word)))).collect(),
        names: names.filter_map(|(name, word)| Some((name.as_str()?.into(), mode(word)))).collect(),
    }
}

/// Removes permits whose name a later permit has: their release was not written before the daemon died.
pub(super) fn drop_renamed(permits: &mut Vec<KeptPermit>) -> Vec<Key> {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for permit in &*permits {
        let number = last.entry(permit.name.clone()).or_default();
        *number = permit.number.0.max(*number);
    }
    let is_last = |permit: &mut KeptPermit| last.get(&permit.name) != Some(&permit.number.0);
    permits.extract_if(.., is_last).map(|permit| Key::Permit(permit.number)).collect()
}

/// A row, by the names of its columns.
struct Columns<'a> {
    table: &'a TableSchema,
    row: &'a Row,
}

impl Columns<'_> {
    fn datum(&self, name: &str) -> Option<&Datum> {
        self.row.get(self.table.column_id(name)?.index())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.datum(name)?.single()?.as_str().map(str::to_owned)
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.datum(name)?.single()?.as_integer()
    }

    fn number(&self, name: &str) -> Option<u64> {
        u64::try_from(self.integer(name)?).ok()
    }
}

/// The daemon's own row: the machine on which rows were written and not synced, and the request numbers that are
/// reserved. A value of none leaves its column unchanged.
pub(crate) fn daemon_row(machine: Option<&str>, reserved: Option<u64>) -> OwnRow {
    let number = |number: u64| Atom::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let mut values = vec![("name", Datum::One(Atom::string("paceline")))];
    values.extend(machine.map(|machine| ("machine", Datum::One(Atom::string(machine)))));
    values.extend(reserved.map(|until| ("requests_reserved", Datum::One(number(until)))));
    OwnRow::of_text("paceline", Some(values))
}
