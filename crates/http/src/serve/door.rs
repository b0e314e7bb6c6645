//! The door itself: its workers, its listeners, and the settings that they use.
//!
//! A new configuration is prepared outside the workers (certificates, pages, sockets) and then given to all of them
//! at once. A listener whose address stays configured is never closed, whatever else changes.

use crate::respond::Page;
use crate::serve::accept;
use crate::serve::connections::Connections;
use crate::serve::descriptors::Descriptors;
use crate::serve::health::{Ward, Watchers};
use crate::serve::log::{Log, Writer};
use crate::serve::orphans::Orphans;
use crate::serve::table::{Extras, LiveFrontend, Owner, Problem, Table};
use crate::serve::worker::{Means, Worker};
use paceline_host::{Control, DoorProblem, Snapshot};
use paceline_net::file;
use paceline_net::listen::{self, ListenPoint, Listening};
use paceline_net::tls::{ClientTls, Roots, Tls};
use paceline_routing::{Address, Backend, BackendTls, ErrorBody, Frontend};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

/// Longest page that replaces a usual body.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Delay before a failed step is retried.
const RETRY: Duration = Duration::from_secs(1);

/// The options that the door is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The access log.
    pub access_log: PathBuf,
    /// Worker threads.
    pub threads: usize,
    /// Whether the door refuses to open if a frontend cannot be opened at the start. If not, the other frontends are
    /// opened.
    pub is_strict: bool,
    /// Descriptors for client connections, and as many for connections to servers.
    pub descriptors_each: usize,
}

/// The open door.
#[derive(Debug)]
pub struct Door {
    orders: mpsc::UnboundedSender<Order>,
    log: Writer,
}

/// What the door is asked to do.
#[derive(Debug)]
enum Order {
    /// The configuration has changed.
    Follow,
    /// Read files again, such as renewed certificates.
    Reload,
    /// Accept no new connections, and report when all connections have ended.
    Drain(oneshot::Sender<()>),
}

/// What a worker is asked to do.
enum Job {
    Configure(Arc<Table>),
    Listen(Listening, Arc<ListenPoint>),
    Drain(oneshot::Sender<()>),
}

impl Door {
    /// Opens the door: listens at the addresses of all frontends, and follows configuration changes from then on.
    ///
    /// # Errors
    ///
    /// When an address cannot be bound, or a file of a frontend or backend cannot be read.
    pub async fn open(control: Arc<Control>, options: Options) -> Result<Self, String> {
        let log = Writer::start(options.access_log.clone())
            .map_err(|error| format!("cannot start the access log: {error}"))?;
        let is_strict = options.is_strict;
        let (orders, told) = mpsc::unbounded_channel();
        let (watchers, failures) = Watchers::new();
        let mut settings = control.follow();
        let mut keeper = Keeper {
            ward: Ward::new(Arc::clone(&control)),
            control,
            means: Means {
                watchers,
                orphans: Arc::new(Orphans::new(options.descriptors_each)),
                descriptors: Descriptors::new(options.descriptors_each),
                connections: Connections::new(options.descriptors_each),
                clients: Arc::default(),
            },
            options,
            log: log.clone(),
            workers: vec![],
            listeners: BTreeMap::new(),
            places: 0,
            table: Arc::default(),
            problems: vec![],
        };
        let snapshot = settings.borrow_and_update().clone();
        let problems = keeper.configure(&snapshot, true)?;
        if let (true, Some(Problem { of, message, .. })) = (is_strict, problems.first()) {
            return Err(format!("{of}: {message}"));
        }
        tokio::spawn(keeper.run(settings, told, failures));
        Ok(Self { orders, log })
    }

    /// Reads certificates and pages again, and opens the access log again.
    pub fn reload(&self) {
        self.log.reopen();
        let _ = self.orders.send(Order::Reload);
    }

    /// Stops accepting connections. Returns when all open connections have ended, each as soon as it is idle.
    pub async fn drain(&self) {
        let (sender, done) = oneshot::channel();
        if self.orders.send(Order::Drain(sender)).is_ok() {
            // The sender is dropped when the door is gone, which also counts as drained.
            let _ = done.await;
        }
    }
}

/// An address that the door listens at.
#[derive(Debug)]
struct Open {
    place: Arc<ListenPoint>,
    /// The address that was bound.
    bound: Address,
    /// The frontend that it serves; if none, it is closed.
    frontend: Option<Box<str>>,
}

/// An address as configured, the address that was bound, and its sockets.
type Opened = (Spot, Address, Vec<Listening>);

/// An address as configured. Port 0 is a different port for each frontend, so it includes the frontend's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    address: Address,
    of: Option<Box<str>>,
}

impl Spot {
    fn new(address: &Address, frontend: &str) -> Self {
        Self { address: address.clone(), of: address.is_any_port().then(|| frontend.into()) }
    }

    fn is_of(&self, frontend: &Frontend) -> bool {
        let is_named = self.of.as_ref().is_none_or(|name| *name == frontend.name);
        is_named && frontend.listen.contains(&self.address)
    }
}

/// Keeps the door in line with the configuration.
struct Keeper {
    control: Arc<Control>,
    options: Options,
    log: Writer,
    means: Means,
    ward: Ward,
    workers: Vec<mpsc::UnboundedSender<Job>>,
    listeners: BTreeMap<Spot, Open>,
    /// How many places there have ever been.
    places: u64,
    table: Arc<Table>,
    /// What could not be configured.
    problems: Vec<Problem>,
}

impl Keeper {
    async fn run(
        mut self,
        mut settings: watch::Receiver<Arc<Snapshot>>,
        mut told: mpsc::UnboundedReceiver<Order>,
        mut failures: mpsc::UnboundedReceiver<Arc<crate::serve::table::LiveServer>>,
    ) {
        loop {
            let has_problems = !self.problems.is_empty();
            let order = tokio::select! {
                // The obstacle may disappear: another process that uses the address, or a missing file.
                () = tokio::time::sleep(RETRY), if has_problems => Order::Follow,
                order = told.recv() => match order {
                    Some(order) => order,
                    None => return,
                },
                changed = settings.changed() => match changed {
                    Ok(()) => Order::Follow,
                    Err(_) => return,
                },
                Some(server) = failures.recv() => {
                    self.ward.failed(&server);
                    continue;
                }
            };
            match order {
                Order::Follow | Order::Reload => {
                    let snapshot = settings.borrow_and_update().clone();
                    let rereads = matches!(order, Order::Reload);
                    if let Err(message) = self.configure(&snapshot, rereads) {
                        tracing::error!("the HTTP door cannot open: {message}");
                        self.control.http().report_problems(vec![message.into()]);
                        self.control.http().report_done(snapshot.generation());
                    }
                }
                Order::Drain(done) => {
                    self.drain().await;
                    self.log.flush().await;
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Applies the configuration, and returns what cannot be applied. If `rereads` is set, all files are read again;
    /// otherwise only those of frontends and backends that an edit touched, because a new certificate discards the
    /// TLS sessions.
    ///
    /// # Errors
    ///
    /// When workers cannot be started.
    fn configure(&mut self, snapshot: &Snapshot, rereads: bool) -> Result<Vec<Problem>, String> {
        let is_read = |of: &Owner| {
            let failed = |problem: &Problem| problem.is_of_files && problem.of == *of;
            !rereads && !self.problems.iter().any(failed)
        };
        let extras = |spec: &Frontend, known: Option<&LiveFrontend>| {
            let is_read = is_read(&Owner::Frontend(spec.name.clone()));
            let kept = known.filter(|frontend| is_read && frontend.spec == *spec);
            kept.and_then(|frontend| frontend.extras_for(spec)).map_or_else(|| extras(spec), Ok)
        };
        let mut roots = Roots::default();
        let tls = |backend: &Backend, spec: &BackendTls, known: Option<&Arc<ClientTls>>| {
            let is_read = is_read(&Owner::Backend(backend.name.clone()));
            match known.filter(|known| is_read && known.spec == *spec) {
                Some(known) => Ok(Arc::clone(known)),
                None => ClientTls::new(spec, &mut roots, b"http/1.1").map(Arc::new),
            }
        };
        let vitals = self.means.watchers.vitals();
        let (mut table, mut problems) =
            Table::new(&self.control, snapshot, &self.table, vitals, extras, tls);
        vitals.prune(&self.control);
        let backends = snapshot.routing().backends().iter().map(|backend| backend.id);
        self.means.descriptors.share_among(backends);
        let frontends = snapshot.routing().frontends().iter().map(|spec| spec.name.clone());
        self.means.connections.share_among(frontends);
        if !table.frontends.is_empty() && self.workers.is_empty() {
            self.start_workers(self.options.threads)?;
        }
        let opened = self.open_listeners(&table, &mut problems);
        let listening = self.set_listeners(&mut table, opened, &problems);
        let table = Arc::new(table);
        self.ward.configure(&table);
        for worker in &self.workers {
            // A worker ends only together with the door.
            let _ = worker.send(Job::Configure(Arc::clone(&table)));
        }
        self.table = table;
        for (place, sockets) in listening {
            for (worker, socket) in self.workers.iter().zip(sockets) {
                let _ = worker.send(Job::Listen(socket, Arc::clone(&place)));
            }
        }
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            let message = &problem.message;
            match &problem.of {
                Owner::Frontend(frontend) => {
                    tracing::error!(%frontend, "a frontend is not as configured: {message}");
                }
                Owner::Backend(backend) => {
                    tracing::error!(%backend, "a backend is not as configured: {message}");
                }
            }
        }
        if problems.is_empty() && !self.problems.is_empty() {
            tracing::info!("all frontends and backends are as configured again");
        }
        self.show(&problems);
        self.control.http().report_done(snapshot.generation());
        self.problems.clone_from(&problems);
        Ok(problems)
    }

    fn start_workers(&mut self, count: usize) -> Result<(), String> {
        for number in 0..count.max(1) {
            let (sender, jobs) = mpsc::unbounded_channel();
            let (control, log) = (Arc::clone(&self.control), self.log.clone());
            let means = self.means.clone();
            std::thread::Builder::new()
                .name(format!("http-{number}"))
                .spawn(move || work(control, log, means, jobs))
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            self.workers.push(sender);
        }
        Ok(())
    }

    /// Opens sockets at new addresses.
    fn open_listeners(&self, table: &Table, problems: &mut Vec<Problem>) -> Vec<Opened> {
        let mut opened = vec![];
        for frontend in table.frontends.values() {
            for address in &frontend.spec.listen {
                let spot = Spot::new(address, &frontend.spec.name);
                if self.listeners.contains_key(&spot) {
                    continue;
                }
                match listen::open(address, self.workers.len(), self.overlaps(address)) {
                    Ok((bound, sockets)) => opened.push((spot, bound, sockets)),
                    Err(error) => problems.push(Problem {
                        of: Owner::Frontend(frontend.spec.name.clone()),
                        message: format!("cannot listen at {address}: {error}"),
                        is_of_files: false,
                    }),
                }
            }
        }
        opened
    }

    /// Whether a listener of this door conflicts with an address: the port is the same, and one of the two listens on
    /// all addresses of its family.
    fn overlaps(&self, address: &Address) -> bool {
        let Address::Socket(wanted) = address else { return false };
        self.listeners.values().any(|open| {
            let Address::Socket(bound) = &open.bound else { return false };
            let is_all = wanted.ip().is_unspecified() || bound.ip().is_unspecified();
            bound.port() == wanted.port() && bound.is_ipv4() == wanted.is_ipv4() && is_all
        })
    }

    /// Adds new sockets, assigns every listener to its current frontend, and closes the rest. The table records which
    /// frontend listens at each place, so that workers see all changes at once. Returns what is new to the workers.
    fn set_listeners(
        &mut self,
        table: &mut Table,
        opened: Vec<Opened>,
        problems: &[Problem],
    ) -> Vec<(Arc<ListenPoint>, Vec<Listening>)> {
        let mut new = vec![];
        for (spot, bound, sockets) in opened {
            self.places += 1;
            let place =
                Arc::new(ListenPoint { number: self.places, address: spot.address.clone() });
            new.push((Arc::clone(&place), sockets));
            self.listeners.insert(spot, Open { place, bound, frontend: None });
        }
        self.listeners.retain(|spot, open| {
            let frontend = frontend_of(spot, open, table, problems).map(Arc::clone);
            open.frontend = frontend.as_ref().map(|frontend| frontend.spec.name.clone());
            if let (None, Address::Unix(path)) = (&frontend, &spot.address) {
                let _ = std::fs::remove_file(&**path);
            }
            let is_kept = frontend.is_some();
            table.places.extend(frontend.map(|frontend| (open.place.number, frontend)));
            is_kept
        });
        new
    }

    /// Publishes the addresses it listens at, and its problems.
    fn show(&self, problems: &[Problem]) {
        let listed = self
            .listeners
            .values()
            .map(|open| (open.frontend.clone().unwrap_or_default(), open.bound.to_string().into()));
        let mut listening: Vec<(Box<str>, Box<str>)> = listed.collect();
        listening.sort();
        self.control.http().report_listening(listening);
        let told = problems.iter().map(|Problem { of, message, .. }| match of {
            Owner::Frontend(name) => {
                DoorProblem { frontend: Some(name.clone()), message: message.clone() }
            }
            Owner::Backend(_) => format!("{of}: {message}").into(),
        });
        self.control.http().report_problems(told.collect());
    }

    async fn drain(&mut self) {
        for spot in std::mem::take(&mut self.listeners).into_keys() {
            if let Address::Unix(path) = spot.address {
                let _ = std::fs::remove_file(&*path);
            }
        }
        let mut all = vec![];
        for worker in &self.workers {
            let (sender, done) = oneshot::channel();
            let _ = worker.send(Job::Drain(sender));
            all.push(done);
        }
        for done in all {
            let _ = done.await;
        }
    }
}

/// The frontend that a listener serves. A frontend that cannot get all of its addresses keeps the ones it has.
fn frontend_of<'a>(
    spot: &Spot,
    open: &Open,
    table: &'a Table,
    problems: &[Problem],
) -> Option<&'a Arc<LiveFrontend>> {
    let listens = table.frontends.values().find(|frontend| spot.is_of(&frontend.spec));
    listens.or_else(|| {
        let of = Owner::Frontend(open.frontend.clone()?);
        let fails = problems.iter().any(|problem| problem.of == of && !problem.is_of_files);
        table.frontends.get(open.frontend.as_ref()?).filter(|_| fails)
    })
}

/// Reads the files of a frontend.
fn extras(frontend: &Frontend) -> Result<Extras, String> {
    let protocols: &[&[u8]] = if frontend.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    let tls = Tls::new(&frontend.certificates, protocols)?;
    let mut pages = BTreeMap::new();
    for ErrorBody { status, file } in &frontend.errors {
        let page = page(file).map_err(|error| format!("cannot read the page {file}: {error}"))?;
        pages.insert(*status, page);
    }
    Ok(Extras { tls, pages })
}

fn page(file: &str) -> std::io::Result<Page> {
    let body = file::read(file, PAGE_BYTES_MAX)?;
    let content_type = match file.rsplit_once('.').map(|(_, end)| end) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    };
    Ok(Page { content_type, body })
}

/// The thread of a worker.
fn work(control: Arc<Control>, log: Writer, means: Means, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "a worker of the HTTP door cannot start");
            return;
        }
    };
    let local = LocalSet::new();
    local.block_on(&runtime, async move {
        let worker = Worker::new(control, Log::new(log), means);
        let own = worker.clone();
        tokio::task::spawn_local(async move { own.make_room().await });
        while let Some(job) = jobs.recv().await {
            match job {
                Job::Configure(table) => worker.configure(table),
                Job::Listen(socket, place) => {
                    worker.begin_listener();
                    let worker = worker.clone();
                    tokio::task::spawn_local(async move {
                        accept::run(worker.clone(), socket, place).await;
                        worker.end_listener();
                    });
                }
                Job::Drain(done) => {
                    worker.drain().await;
                    worker.log.flush();
                    let _ = done.send(());
                }
            }
        }
    });
    // Closes the remaining connections.
    runtime.shutdown_timeout(Duration::ZERO);
}
