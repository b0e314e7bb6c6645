//! Waits on many sockets at once: epoll, with the number of a socket's owner for each event.
//!
//! Level-triggered: if a socket is not read completely, it is reported again.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::failure::Outcome;

/// Events taken at a time.
const EVENTS_MAX: usize = 256;

/// The sockets that are waited on.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// A poller without sockets.
    pub fn new() -> Outcome<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Reports readable data on `source` as `number`, until it is closed.
    pub fn add(&self, source: impl AsFd, number: usize) -> Outcome<()> {
        Ok(epoll::add(&self.epoll, source, data(number), EventFlags::IN)?)
    }

    /// Enables or disables the report of room to write.
    pub fn want_room(&self, source: impl AsFd, number: usize, wanted: bool) -> Outcome<()> {
        let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, source, data(number), flags)?)
    }

    /// Waits for events, at most until `deadline`, and stores their numbers.
    pub fn wait(&mut self, deadline: Option<Instant>, ready: &mut Vec<usize>) -> Outcome<()> {
        ready.clear();
        let left =
            deadline.map(|deadline| left(deadline.saturating_duration_since(Instant::now())));
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(|event| event.data.u64() as usize));
        Ok(())
    }
}

fn data(number: usize) -> EventData {
    EventData::new_u64(number as u64)
}

fn left(span: Duration) -> Timespec {
    // A deadline is at most minutes away.
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}
