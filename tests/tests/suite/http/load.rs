//! Generates requests while something else happens, and checks each response.

use paceline_tests::{Web, until};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The results of the clients of a load.
#[derive(Debug, Default)]
pub struct Load {
    answered: AtomicUsize,
    is_over: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Runs `clients` against `address`, half of them with a new connection for each request, during `meanwhile`.
    /// Panics if any request was not answered with 200.
    #[track_caller]
    pub fn run<T>(address: &str, clients: usize, meanwhile: impl FnOnce(&Self) -> T) -> T {
        let load = Self::default();
        let done = thread::scope(|scope| {
            for number in 0..clients {
                let load = &load;
                scope.spawn(move || load.client(address, number % 2 == 0));
            }
            load.more(clients);
            // This also ends the load if something fails meanwhile, so that the failure is reported.
            let ends = Ends(&load);
            let done = meanwhile(&load);
            drop(ends);
            done
        });
        let failures = load.failures.into_inner().unwrap();
        assert!(
            failures.is_empty(),
            "{} failed: {:?}",
            failures.len(),
            &failures[..failures.len().min(5)]
        );
        done
    }

    /// Waits until `count` more requests were answered.
    #[track_caller]
    pub fn more(&self, count: usize) {
        let before = self.answered.load(Ordering::SeqCst);
        let now = || (self.answered.load(Ordering::SeqCst), self.failures.lock().unwrap().len());
        let _ = until(now, |(answered, failed)| *answered >= before + count || *failed > 0);
    }

    fn client(&self, address: &str, keeps: bool) {
        let mut kept = None;
        while !self.is_over.load(Ordering::SeqCst) {
            if let Err(error) = self.request(address, &mut kept) {
                self.failures.lock().unwrap().push(error.to_string());
                return;
            }
            if !keeps {
                kept = None;
            }
        }
    }

    fn request(&self, address: &str, kept: &mut Option<Web>) -> io::Result<()> {
        let mut web = match kept.take() {
            Some(web) => web,
            None => Web::try_connect(address)?,
        };
        web.send("GET /load HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let answer = web.try_answer(false)?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("{} {}", answer.status, answer.text())));
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        // A connection that the daemon closes in order is not used again.
        if answer.field("connection") != Some("close") {
            *kept = Some(web);
        }
        Ok(())
    }
}

/// Ends the load when it is dropped.
struct Ends<'a>(&'a Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}
