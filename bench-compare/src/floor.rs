//! What the machine itself allows: bare round trips over a unix socket.
//!
//! One thread sends a small message and another thread returns it unread. No server can answer a client that waits
//! for each reply faster than this, so it puts the lines "one at a time" in proportion.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use crate::failure::{Failure, Outcome};

const MESSAGE_LEN: usize = 100;
const TRIPS: u32 = 20_000;

/// Round trips a second.
pub fn round_trips_per_second() -> Outcome<f64> {
    let (mut near, mut far) = UnixStream::pair()?;
    let answering = thread::spawn(move || -> std::io::Result<()> {
        let mut message = [0; MESSAGE_LEN];
        for _ in 0..TRIPS {
            far.read_exact(&mut message)?;
            far.write_all(&message)?;
        }
        Ok(())
    });
    let mut message = [0; MESSAGE_LEN];
    let start = Instant::now();
    for _ in 0..TRIPS {
        near.write_all(&message)?;
        near.read_exact(&mut message)?;
    }
    let elapsed = start.elapsed();
    answering.join().map_err(|_| Failure::new("the answering thread panicked"))??;
    Ok(f64::from(TRIPS) / elapsed.as_secs_f64())
}
