//! The demo's daemon: inside this process, in a directory of its own that is removed with it.
//!
//! Its doors are unix sockets in that directory, so nothing else on the machine is touched, and another
//! terminal can call it. Because it is not a separate process, none can be left behind.

use paceline_config::How;
use paceline_host::{Author, Host, Policy, RealDisk, own};
use paceline_ovsdb::{DoorOptions, Remote};
use paceline_types::Role;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long the daemon may take to stop.
const END_MAX: Duration = Duration::from_secs(2);

/// Its configuration.
const CONFIG: &str = include_str!("demo.toml");

/// A directory that is removed with its content.
pub struct Directory(PathBuf);

impl Directory {
    /// A new directory, for this user only.
    pub fn new() -> Result<Self, String> {
        let id = std::process::id();
        for attempt in 0..100 {
            // Paths of sockets are limited, so the name is short.
            let path = std::env::temp_dir().join(format!("paceline-demo-{id}-{attempt}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("cannot create {}: {error}", path.display())),
            }
        }
        Err("cannot find a free name for a temporary directory; set TMPDIR to another".to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A daemon that serves.
pub struct Daemon {
    /// `None` when it has stopped.
    runtime: Option<Runtime>,
    host: Arc<Host>,
    doors: Option<(paceline_ovsdb::OvsdbDoor, paceline_api::ApiDoor)>,
}

impl Daemon {
    /// Starts it in a directory, on threads of `runtime`, which end with it.
    pub fn start(runtime: Runtime, data: &Path) -> Result<Self, String> {
        let host = Host::new(runtime.handle().clone(), Arc::new(RealDisk), Policy::default())
            .map_err(|error| error.to_string())?;
        host.open_own(&data.join("paceline.db")).map_err(|error| error.to_string())?;
        configure(&host)?;
        let doors = runtime.block_on(open(&host, data))?;
        Ok(Self { runtime: Some(runtime), host, doors: Some(doors) })
    }

    /// Stops it; clients that wait for it get an error.
    pub fn stop(&mut self) {
        drop(self.doors.take());
        if let Some(runtime) = self.runtime.take() {
            self.host.shut_down();
            runtime.shutdown_timeout(END_MAX);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn configure(host: &Host) -> Result<(), String> {
    let document = paceline_config::parse(CONFIG)
        .map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    let own = host.database(own::DATABASE).ok_or("the daemon has no database of its own")?;
    let author = Author { name: "demo", role: Role::Admin };
    own.edit(author, |store| document.apply(store, How::default()).operations)
        .map_err(|error| error.details)
}

async fn open(
    host: &Arc<Host>,
    data: &Path,
) -> Result<(paceline_ovsdb::OvsdbDoor, paceline_api::ApiDoor), String> {
    let remote = Remote::Unix(data.join("ovsdb.sock"));
    let frame_bytes_max = paceline_types::limits::FRAME_BYTES_MAX;
    let options = DoorOptions { frame_bytes_max, ..DoorOptions::default() };
    let api = paceline_api::Options::in_directory(data, paceline_api::Address::None);
    let api = paceline_api::Api::new(Arc::clone(host), api)?;
    let ovsdb = paceline_ovsdb::open(Arc::clone(host), &remote, &options).await?;
    Ok((ovsdb, api.open().await?))
}

#[cfg(test)]
mod tests {
    use super::CONFIG;

    #[test]
    fn the_sample_is_right_and_nothing_about_it_is_doubtful() {
        let document = paceline_config::parse(CONFIG).unwrap();
        assert_eq!(document.check().unwrap(), []);
    }
}
