//! How permits are asked for: the request waits, the grant is written, the client is answered. Several clients may ask
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

/// A permit that no client knows of. Dropping it gives everything back, including what it spent.
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

/// How far a permit that several may wait for has come.
enum Stage {
    /// The request is not submitted yet.
    New,
    /// It waits.
    Waiting(Waiting),
    /// It was granted, and no client knows of it.
    Granted(Untold),
    /// A client has it.
    Handed(RequestId),
    /// It was turned away, for all who wait.
    Failed(AskError),
}

/// What asking for a chosen name leads to.
enum Join {
    /// It is held already.
    Held(Box<PermitView>),
    /// It is asked for, by this client alone or with others.
    Along(Along),
}

/// That a client waits for a chosen name. When the last one is dropped before the permit is given, the
/// request leaves its queue.
struct Along {
    registry: Arc<Registry>,
    name: String,
    pending: Arc<Pending>,
}

impl Registry {
    /// Asks for a permit and waits for it; `granted` is what gives the client its role, if that can be
    /// taken away.
    ///
    /// # Errors
    ///
    /// When there is none; then nothing is held.
    pub async fn ask(
        &self,
        request: Request,
        terms: &Terms,
        granted: Option<&Granted>,
    ) -> Result<PermitView, AskError> {
        let share = self.share(&request, terms, "")?;
        let admission = self.host.control().admit_kept(request, terms.kept(None)?);
        let permit = match admission.map_err(HoldError::Request)? {
            Admission::Started(permit) => permit,
            Admission::Refused(id, refusal) => return Err(AskError::Refused(id, refusal)),
            // Boxed, because most requests need not wait, and theirs is the room that it would take.
            Admission::Waiting(waiting) => Box::pin(wait(waiting, terms, granted)).await?,
        };
        let mut untold = Untold(Some(permit));
        check(granted)?;
        self.written().await?;
        Ok(self.hold(&mut untold, terms, None, share)?)
    }

    /// Asks for a permit that ends as soon as it is granted: nothing is held.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn ask_once(
        &self,
        request: Request,
        terms: &Terms,
        granted: Option<&Granted>,
    ) -> Result<PermitView, AskError> {
        let _share = self.share(&request, terms, "")?;
        let admission = self.host.control().admit_once(request).map_err(HoldError::Request)?;
        let permit = match admission {
            Admission::Started(permit) => permit,
            Admission::Refused(id, refusal) => return Err(AskError::Refused(id, refusal)),
            Admission::Waiting(waiting) => Box::pin(wait(waiting, terms, granted)).await?,
        };
        check(granted)?;
        Ok(self.describe(&permit, &terms.user))
    }

    /// Asks for a permit under a name that the client chose, together with all clients that ask for the same.
    /// The first client submits the request, and the one in front when it is decided holds the permit.
    /// Also returns whether this call granted it.
    ///
    /// # Errors
    ///
    /// When there is none.
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
        // What it asked with is kept until it is answered, also while another client waits for all.
        let mut share = Some(self.share(&request, terms, &chosen.name)?);
        let mut request = Some(request);
        // The client waits here while another one waits for all of them.
        let stage = Granted::during(granted, along.pending.stage.lock()).await;
        let mut stage = stage.ok_or(HoldError::TakenAway)?;
        let mut has_waited = false;
        loop {
            *stage = match &mut *stage {
                Stage::New => {
                    if self.host.control().is_draining() {
                        return Err(HoldError::Ending.into());
                    }
                    let kept = terms.kept(Some(chosen))?;
                    let request = request.take().ok_or(HoldError::PermitOver)?;
                    match self.host.control().admit_kept(request, kept) {
                        Ok(Admission::Started(permit)) => Stage::Granted(Untold(Some(permit))),
                        Ok(Admission::Waiting(waiting)) => Stage::Waiting(waiting),
                        Ok(Admission::Refused(id, refusal)) => {
                            Stage::Failed(AskError::Refused(id, refusal))
                        }
                        Err(error) => Stage::Failed(HoldError::Request(error).into()),
                    }
                }
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
                    // A client that leaves now leaves the permit to the next one that waits.
                    if has_waited {
                        see_who_left().await;
                    }
                    check(granted)?;
                    let written = self.written().await;
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
                    // Another one may have its name by now.
                    let view = self.permit(&chosen.name).ok().filter(|now| now.request == *request);
                    return view.map(|view| (view, false)).ok_or(HoldError::PermitOver.into());
                }
            };
        }
    }

    /// What a request takes of its user's share.
    fn share(&self, request: &Request, terms: &Terms, name: &str) -> Result<Share, HoldError> {
        self.shares.take(&terms.user, terms.is_owner, Amount::of_request(request, name))
    }

    fn join(self: &Arc<Self>, chosen: &Chosen) -> Result<Join, HoldError> {
        // A name whose lease has run out is free again.
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
    decide(id, decided)
}

/// Lets the runtime look at its sockets before a client that waited is answered: one that disconnected
/// meanwhile is then seen to have left, and what it waited for goes to the next one.
pub(super) async fn see_who_left() {
    tokio::task::yield_now().await;
}

/// Waits for a request, unless the client may no longer ask, or the session that the permit is to belong to
/// ends. The engine looks at the end of one session only, which is that of the locks.
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

/// A request that waited: its permit, or why there is none.
fn decide(id: RequestId, decided: Option<Result<Permit, Refusal>>) -> Result<Permit, AskError> {
    match decided {
        Some(Ok(permit)) => Ok(permit),
        Some(Err(refusal)) => Err(AskError::Refused(id, refusal)),
        None => Err(HoldError::SessionEnded.into()),
    }
}

/// That what a client may do has not ended.
pub(super) fn check(granted: Option<&Granted>) -> Result<(), HoldError> {
    match granted {
        Some(granted) if granted.is_over() => Err(HoldError::TakenAway),
        _ => Ok(()),
    }
}
