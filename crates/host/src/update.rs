//! What a monitor sends to a client: a text, changes that are combined until the client reads, or a text that
//! is still being made.

use crate::budget::{Budget, Part};
use crate::outbox::{ITEM_BYTES, Ticket};
use paceline_tables::monitor::{Monitor, Net, Telling};
use paceline_tables::schema::Schema;
use paceline_types::Uuid;
use std::sync::{Arc, OnceLock};

/// Changes that a monitor reports, encoded once for all clients that watch the same.
///
/// An update keeps no row: it is a text. A client that reads slowly gets the changes that pile up combined. Of
/// those only the net effect on what its monitor sees is kept, and counted for its size.
#[derive(Debug)]
pub struct Update {
    /// The id the client gave to its monitor.
    pub id: Ticket,
    /// The last transaction in it.
    pub transaction: Uuid,
    /// What the client monitors.
    pub monitor: Arc<Monitor>,
    /// The schema of the changes.
    schema: Arc<Schema>,
    pub(crate) told: Told,
}

#[derive(Debug)]
pub(crate) enum Told {
    /// The `<table-updates>` object of one commit.
    Body(Arc<Body>),
    /// Several commits, to be encoded when the client is ready for them.
    Net(Net),
    /// A text that is still being made. It keeps its place; the connection takes it, and the items behind it,
    /// when it is complete.
    Later(Arc<LaterBody>),
}

/// The place of a text that is still being made; filled with `None` if there is nothing to send.
pub(crate) type LaterBody = OnceLock<Option<Arc<Body>>>;

/// The `<table-updates>` object of an update.
#[derive(Debug)]
pub enum UpdateText {
    /// There is nothing to send.
    Nothing,
    /// A complete text.
    Ready(SharedText),
    /// A text that is to be made in pieces.
    Long(Box<Telling>),
}

/// A text that may be shared with other clients.
#[derive(Debug)]
pub struct SharedText(Arc<Body>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        &self.0.text
    }
}

/// The text of an update, which counts once in the budget for all clients that receive it.
#[derive(Debug)]
pub(crate) struct Body {
    text: Box<[u8]>,
    _part: Part,
}

impl Body {
    pub(crate) fn new(text: &[u8], budget: &Arc<Budget>) -> Arc<Self> {
        let mut part = budget.part();
        part.set(text.len());
        Arc::new(Self { text: text.into(), _part: part })
    }
}

impl Update {
    pub(crate) fn new(
        (id, transaction): (Ticket, Uuid),
        body: Arc<Body>,
        monitor: Arc<Monitor>,
        schema: Arc<Schema>,
    ) -> Self {
        Self { id, transaction, monitor, schema, told: Told::Body(body) }
    }

    /// An update whose text is still being made.
    pub(crate) fn later(
        (id, transaction): (Ticket, Uuid),
        place: Arc<LaterBody>,
        monitor: Arc<Monitor>,
        schema: Arc<Schema>,
    ) -> Self {
        Self { id, transaction, monitor, schema, told: Told::Later(place) }
    }

    /// The `<table-updates>` object.
    #[must_use]
    pub fn into_text(self) -> UpdateText {
        let ready = |body| UpdateText::Ready(SharedText(body));
        match self.told {
            Told::Body(body) => ready(body),
            Told::Later(place) => {
                place.get().and_then(Clone::clone).map_or(UpdateText::Nothing, ready)
            }
            Told::Net(net) => {
                let changes = Arc::new(net.changes());
                UpdateText::Long(Box::new(Telling::new(self.monitor, self.schema, changes)))
            }
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        !matches!(&self.told, Told::Later(place) if place.get().is_none())
    }

    /// Bytes that this keeps in memory, or takes to send.
    pub(crate) fn cost(&self) -> usize {
        let told = match &self.told {
            Told::Body(body) => body.text.len(),
            Told::Net(net) => net.memory(),
            Told::Later(place) => match place.get() {
                Some(Some(body)) => body.text.len(),
                _ => ITEM_BYTES,
            },
        };
        self.id.len() + told + 128
    }

    pub(crate) fn own(&self) -> usize {
        match &self.told {
            Told::Body(_) | Told::Later(_) => self.id.len() + ITEM_BYTES,
            Told::Net(_) => self.cost(),
        }
    }

    pub(crate) fn is_of_monitor_of(&self, other: &Self) -> bool {
        self.id == other.id
            && Arc::ptr_eq(&self.monitor, &other.monitor)
            && Arc::ptr_eq(&self.schema, &other.schema)
    }
}
