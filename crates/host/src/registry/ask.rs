//! Asking for permits: the request waits, the grant is written, the client is answered. Several clients may ask
//! for one permit under one name.
//!
//! A name that a client chose is first pending. All clients that ask for it with the same body wait for one request.
//! When the last of them leaves, the request leaves its queue. Dropping one of these futures leaves nothing behind.

use super::permits::{PermitView, Slot, Terms};
use super::shares::{Amount, Share};
use super::{AskError, HoldError, Registry};
use crate::access::Granted;
use crate::control::{Admission, Permit, Waiting};
use paceline_types::{Refusal, Request, RequestId};
use std::sync::Arc;

/// A name that a client chose, and the digest of what it asked for under it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The name.
    pub name: String,
    /// The digest.
    pub digest: [u8; 32],
}

/// A permit that no client knows of. Dropping it releases everything, including what it spent.
pub(super) struct Untold(pub(super) Option<Permit>);

impl Drop for Untold {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Permit::withdraw);
    }
}

/// A permit that several clients may wait for.
pub(super) struct Pending {
    digest: [u8; 32],
    /// The client that holds this mutex waits for all of them; the next one continues where it left off.
    stage: tokio::sync::Mutex<Stage>,
}

/// The progress of a permit that several clients may wait for.
enum Stage {
    /// The request is not submitted yet.
    New,
    /// It waits.
    Waiting(Waiting),
    /// It was granted, and no client knows of it yet.
    Granted(Untold),
    /// A client received it.
    Handed(RequestId),
    /// It was refused, for all clients that wait.
    Failed(AskError),
}

/// The outcome of asking for a chosen name.
enum Join {
    /// A permit of this name is held already.
    Held(Box<PermitView>),
    /// This client asks for it, alone or with others.
    Along(Along),
}

/// A client that waits for a chosen name. When the last one is dropped before the permit is granted, the
/// request leaves its queue.
struct Along {
    registry: Arc<Registry>,
    name: String,
    pending: Arc<Pending>,
}

impl Registry {
    /// Asks for a permit and waits for it; `granted` is the grant of the client's role, if that can be revoked.
    ///
    /// # Errors
    ///
    /// When no permit is granted; then nothing is held.
    pub async fn ask(
        &self,
        request: Request,
        terms: &Terms,
        granted: Option<&Granted>,
    ) -> Result<PermitView, AskError> {
        let share = self.share(&request, terms, "")?;
        let admission = self.host.control().admit_kept(request, terms.kept(None)?);
        let (permit, has_waited) = match admission.map_err(HoldError::Request)? {
            Admission::Started(permit) => (permit, false),
            Admission::Refused(id, refusal) => return Err(AskError::Refused(id, refusal)),
            // Boxed, because most requests need not wait, and their futures should not contain its room.
            Admission::Waiting(waiting) => (Box::pin(wait(waiting, terms, granted)).await?, true),
        };
        let mut untold = Untold(Some(permit));
        check(granted)?;
        self.written().await?;
        if has_waited {
            terms.check_here()?;
        }
        Ok(self.hold(&mut untold, terms, None, share)?)
    }

    /// Asks for a permit that ends as soon as it is granted: nothing is held.
    ///
    /// # Errors
    ///
    /// When no permit is granted.
    pub async fn ask_once(
        &self,
        request: Request,
        terms: &Terms,
        granted: Option<&Granted>,
    ) -> Result<PermitView, AskError> {
        let _share = self.share(&request, terms, "")?;
        let admission = self.host.control().admit_once(request, terms.place);
        let permit = match admission.map_err(HoldError::Request)? {
            Admission::Started(permit) => permit,
            Admission::Refused(id, refusal) => return Err(AskError::Refused(id, refusal)),
            Admission::Waiting(waiting) => Box::pin(wait(waiting, terms, granted)).await?,
        };
        check(granted)?;
        Ok(self.describe(&permit, &terms.user))
    }

    /// Asks for a permit under a name that the client chose, together with all clients that ask for the same.
    /// The first client submits the request, and the client in front when it is decided holds the permit. Also
    /// returns whether this call granted it.
    ///
    /// # Errors
    ///
    /// When no permit is granted.
    pub async fn ask_by_name(
        self: &Arc<Self>,
        request: Request,
        terms: &Terms,
        chosen: &Chosen,
        granted: Option<&Granted>,
    ) -> Result<(PermitView, bool), AskError> {
        let along = match self.join(chosen)? {
            Join::Held(view) => return Ok((*view, false)),
            Join::Along(along) => along,
        };
        // The share of the request is kept until it is answered, also while another client waits for all.
        let mut share = Some(self.share(&request, terms, &chosen.name)?);
        let mut request = Some(request);
        // The client waits here while another one waits for all of them.
        let stage = Granted::during(granted, along.pending.stage.lock()).await;
        let mut stage = stage.ok_or(HoldError::TakenAway)?;
        let mut has_waited = false;
        loop {
            *stage = match &mut *stage {
                Stage::New => self.submit(request.take(), terms, chosen)?,
                Stage::Waiting(waiting) => {
                    has_waited = true;
                    let id = waiting.id();
                    let decided = Box::pin(during(granted, terms, waiting)).await?;
                    match decide(id, decided) {
                        Ok(permit) => Stage::Granted(Untold(Some(permit))),
                        Err(error) => Stage::Failed(error),
                    }
                }
                Stage::Granted(untold) => {
                    // A client that leaves now leaves the permit to the next waiting client.
                    if has_waited {
                        see_who_left().await;
                    }
                    check(granted)?;
                    let written = self.written().await;
                    if has_waited {
                        terms.check_here()?;
                    }
                    let share = share.take().ok_or(HoldError::PermitOver)?;
                    match written.and_then(|()| self.hold(untold, terms, Some(chosen), share)) {
                        Ok(view) => {
                            *stage = Stage::Handed(view.request);
                            return Ok((view, true));
                        }
                        Err(error) => Stage::Failed(error.into()),
                    }
                }
                Stage::Failed(error) => return Err(error.clone()),
                Stage::Handed(request) => {
                    check(granted)?;
                    // Another permit may have this name by now.
                    let view = self.permit(&chosen.name).ok().filter(|now| now.request == *request);
                    return view.map(|view| (view, false)).ok_or(HoldError::PermitOver.into());
                }
            };
        }
    }

    /// Submits the request of the first client that asks under a name.
    fn submit(
        &self,
        request: Option<Request>,
        terms: &Terms,
        chosen: &Chosen,
    ) -> Result<Stage, AskError> {
        if self.host.control().is_draining() {
            return Err(HoldError::Ending.into());
        }
        let kept = terms.kept(Some(chosen))?;
        let request = request.ok_or(HoldError::PermitOver)?;
        Ok(match self.host.control().admit_kept(request, kept) {
            Ok(Admission::Started(permit)) => Stage::Granted(Untold(Some(permit))),
            Ok(Admission::Waiting(waiting)) => Stage::Waiting(waiting),
            Ok(Admission::Refused(id, refusal)) => Stage::Failed(AskError::Refused(id, refusal)),
            Err(error) => Stage::Failed(HoldError::Request(error).into()),
        })
    }

    /// The share of its user that a request takes.
    fn share(&self, request: &Request, terms: &Terms, name: &str) -> Result<Share, HoldError> {
        self.shares.take(&terms.user, terms.is_owner, Amount::of_request(request, name))
    }

    fn join(self: &Arc<Self>, chosen: &Chosen) -> Result<Join, HoldError> {
        // A name whose lease has expired is free again.
        self.end_due();
        let Chosen { name, digest } = chosen;
        let mut state = self.state();
        if let Some(Slot::Held(held)) = state.permits.get(name)
            && held.digest == Some(*digest)
        {
            return Ok(Join::Held(Box::new(state.view(held))));
        }
        let pending = match state.permits.get_mut(name) {
            Some(Slot::Pending(pending, clients)) if pending.digest == *digest => {
                *clients += 1;
                Arc::clone(pending)
            }
            Some(_) => return Err(HoldError::OtherBody),
            None => {
                let stage = tokio::sync::Mutex::new(Stage::New);
                let pending = Arc::new(Pending { digest: *digest, stage });
                state.permits.insert(name.clone(), Slot::Pending(Arc::clone(&pending), 1));
                pending
            }
        };
        Ok(Join::Along(Along { registry: Arc::clone(self), name: name.clone(), pending }))
    }
}

impl Drop for Along {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let Some(Slot::Pending(pending, clients)) = state.permits.get_mut(&self.name) else {
            return;
        };
        if !Arc::ptr_eq(pending, &self.pending) {
            return;
        }
        *clients -= 1;
        let last = if *clients == 0 { state.permits.remove(&self.name) } else { None };
        drop(state);
        // The waiter in it leaves its queue, which must not happen under the lock.
        drop(last);
    }
}

async fn wait(
    waiting: Waiting,
    terms: &Terms,
    granted: Option<&Granted>,
) -> Result<Permit, AskError> {
    let id = waiting.id();
    let decided = during(granted, terms, waiting).await?;
    see_who_left().await;
    let permit = decide(id, decided)?;
    match terms.check_here() {
        Ok(()) => Ok(permit),
        Err(left) => {
            permit.withdraw();
            Err(left.into())
        }
    }
}

/// Lets the runtime poll its sockets before a client that waited is answered: a client that disconnected
/// meanwhile is then seen to have left, and its permit is passed on to the next one.
pub(super) async fn see_who_left() {
    tokio::task::yield_now().await;
}

/// Waits for a request, unless the client's role is revoked, or the session that the permit is to belong to
/// ends. The engine notices only the end of the session that owns the locks.
async fn during<T>(
    granted: Option<&Granted>,
    terms: &Terms,
    waiting: impl Future<Output = T>,
) -> Result<T, HoldError> {
    let ended = async {
        match (&terms.session, &terms.locks_of) {
            (Some(session), Some(_)) => session.ended().await,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        decided = Granted::during(granted, waiting) => decided.ok_or(HoldError::TakenAway),
        () = ended => Err(HoldError::SessionEnded),
    }
}

/// The permit of a request that waited, or why there is none.
fn decide(id: RequestId, decided: Option<Result<Permit, Refusal>>) -> Result<Permit, AskError> {
    match decided {
        Some(Ok(permit)) => Ok(permit),
        Some(Err(refusal)) => Err(AskError::Refused(id, refusal)),
        None => Err(HoldError::SessionEnded.into()),
    }
}

/// Checks that the client's role has not ended.
pub(super) fn check(granted: Option<&Granted>) -> Result<(), HoldError> {
    match granted {
        Some(granted) if granted.is_over() => Err(HoldError::TakenAway),
        _ => Ok(()),
    }
}
