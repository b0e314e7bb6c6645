//! A host in a temporary directory with its API open.

use crate::client::{Client, Events};
use paceline_api::{Address, Api, ApiDoor, Limits, Options};
use paceline_host::{Host, Policy, RealDisk};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Everything a test needs; removed when dropped.
pub struct World {
    pub door: Option<ApiDoor>,
    pub host: Arc<Host>,
    pub token: String,
    pub directory: PathBuf,
    runtime: Option<tokio::runtime::Runtime>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        Self::start(scratch(), limits)
    }

    /// The next run of this daemon, as if it had been killed now. It has a copy of the files, because a process
    /// cannot open them twice.
    pub fn next_run(&self) -> Self {
        let directory = scratch();
        for file in std::fs::read_dir(&self.directory).unwrap().map(Result::unwrap) {
            let name = file.file_name();
            if file.file_type().unwrap().is_file() && !name.to_string_lossy().contains('~') {
                std::fs::copy(file.path(), directory.join(name)).unwrap();
            }
        }
        Self::start(directory, Limits::default())
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(future)
    }

    fn start(directory: PathBuf, limits: Limits) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let host =
            Host::new(runtime.handle().clone(), Arc::new(RealDisk), Policy::default()).unwrap();
        host.open_own(&directory.join("paceline.db")).unwrap();
        let tcp = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let options = Options { limits, ..Options::in_directory(&directory, tcp) };
        let door = runtime.block_on(Api::new(Arc::clone(&host), options).unwrap().open()).unwrap();
        let token = std::fs::read_to_string(directory.join("token")).unwrap().trim().to_owned();
        Self { door: Some(door), host, token, directory, runtime: Some(runtime) }
    }

    pub fn socket(&self) -> &Path {
        &self.door.as_ref().unwrap().socket
    }

    /// A client on the unix socket.
    pub fn unix(&self) -> Client {
        Client::unix(self.socket())
    }

    /// A client on TCP that has the token.
    pub fn tcp(&self) -> Client {
        self.tcp_with(Some(&self.token))
    }

    pub fn tcp_with(&self, token: Option<&str>) -> Client {
        Client::tcp(self.door.as_ref().unwrap().tcp.unwrap(), token)
    }

    /// A client that follows the events, from now on.
    pub fn events(&self) -> Events {
        let mut client = self.unix();
        client.send("GET", "/v1/events", None);
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        let stream = ("content-type".to_owned(), "text/event-stream".to_owned());
        assert!(headers.contains(&stream), "{headers:?}");
        Events(client)
    }

    /// Creates a checkpoint of the API.
    pub fn checkpoint(&self, name: &str, mut members: Value) {
        members["at"] = "frontend api".into();
        self.unix().put(&format!("/v1/checkpoints/{name}"), members).expect(201);
    }

    /// Opens a second door, which must fail.
    pub fn open_again(&self, options: &Options) -> String {
        let runtime = self.runtime.as_ref().unwrap();
        match Api::new(Arc::clone(&self.host), options.clone()) {
            Ok(api) => runtime.block_on(api.open()).err().unwrap(),
            Err(error) => error,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.door.take());
        self.host.shut_down();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn scratch() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("paceline-api-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).unwrap();
    directory
}
