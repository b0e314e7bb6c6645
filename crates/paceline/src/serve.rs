//! The daemon: opens databases, opens doors, waits for a signal, shuts down in order.

use crate::cli::{RemoteOrNone, Serve};
use crate::config::Given;
use crate::notify::notify;
use paceline_host::{Capacity, Host, Policy, own};
use paceline_journal::disk::{Death, Disk, FaultyDisk, RealDisk};
use paceline_ovsdb::{DoorOptions, OvsdbDoor, Remote, TlsFiles};
use paceline_tables::Snapshot;
use std::cell::Cell;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long clients may take to read the last answers.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// Threads in addition to the workers of the runtime, which take over for a worker that blocks. This many
/// clients may wait for one database while clients of others are served.
const SPARE_THREADS_MAX: usize = 512;

/// How long an idle thread of these stays. Each has its own memory, which is freed with it.
const SPARE_THREAD_IDLE_MAX: Duration = Duration::from_secs(1);

/// Where SQL clients log in with a password, if `--sql` does not say otherwise.
const SQL_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5_433);

/// Runs the daemon until a signal ends it.
pub fn run(options: Serve) -> Result<(), String> {
    let data = options.data.clone().filter(|data| !data.as_os_str().is_empty());
    let data = data.map_or_else(default_data, Ok)?;
    let remotes = remotes(&options, &data)?;
    create(&data, options.socket_mode)?;
    warn_if_shared(&data);
    raise_file_limit();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // If one worker waits for the disk, another is left.
        .worker_threads(cores.max(2))
        .enable_all()
        .thread_name("paceline")
        .max_blocking_threads(SPARE_THREADS_MAX)
        .thread_keep_alive(SPARE_THREAD_IDLE_MAX)
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    // A worker of the runtime that blocks in place leaves its tasks to another thread. One is started now and
    // stays: if there were none, and the system refused one, that would be a panic. It ends when the sender is
    // dropped.
    let (stays, ends) = std::sync::mpsc::channel::<()>();
    drop(runtime.spawn_blocking(move || ends.recv()));
    // A file that grows past a limit counts as a full disk, not as a reason to die.
    let xfsz = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let _xfsz = runtime.block_on(async { signal(xfsz) }).map_err(|error| error.to_string())?;
    let mut requests = runtime.block_on(async { Requests::listen() })?;
    let host = open_databases(&options, &data, runtime.handle())?;
    let given = Arc::new(Given::new(&options));
    let applied = configure(&host, &given)?;
    let is_strict = applied.is_some();
    let applied = Cell::new(applied);
    let settings =
        Settings { options: &options, data: &data, given: &given, is_strict, applied: &applied };
    let served = runtime.block_on(serve(host.clone(), &remotes, settings, &mut requests));
    if let Some(applied) = applied.take() {
        given.take_back(&host, &applied);
    }
    host.shut_down();
    drop(stays);
    runtime.shutdown_timeout(Duration::from_secs(2));
    served
}

/// Applies the files of `--config`, if any. Returns the rows before and after that, if the files are new to this
/// database. Files that were applied before and cannot be applied now do not stop the daemon: it serves their earlier
/// content, as after a SIGHUP. Otherwise an edit that was fine while it ran would make the next start fail.
fn configure(host: &Host, given: &Given) -> Result<Option<(Snapshot, Snapshot)>, String> {
    if given.is_empty() {
        return Ok(None);
    }
    let is_known = given.is_known(host);
    let rows = || {
        let own = host.database(own::DATABASE).filter(|_| !is_known);
        own.map(|own| own.written().map_err(|error| error.details)).transpose()
    };
    let before = rows()?;
    match given.apply(host) {
        Err(message) if is_known => {
            tracing::error!(
                "the configuration is as it was before the start; correct the files and send SIGHUP:\n{message}"
            );
            notify("STATUS=the files of --config were not applied; see: paceline doctor");
        }
        applied => applied?,
    }
    Ok(before.zip(rows()?))
}

/// Creates the data directory, if it is missing. Users that may use the sockets in it may pass through it; its
/// files are protected by modes of their own.
fn create(data: &Path, socket_mode: u32) -> Result<(), String> {
    let is_new = !data.exists();
    let failed = |error: std::io::Error| match data.exists() && !data.is_dir() {
        true => format!("{} is not a directory; give another one with --data DIR", data.display()),
        false => format!("cannot create the directory {}: {error}", data.display()),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
    let mode = match socket_mode {
        _ if socket_mode & 0o006 != 0 => 0o711,
        _ if socket_mode & 0o060 != 0 => 0o750,
        _ => return Ok(()),
    };
    if is_new {
        std::fs::set_permissions(data, PermissionsExt::from_mode(mode)).map_err(failed)?;
    }
    Ok(())
}

fn open_databases(
    options: &Serve,
    data: &Path,
    runtime: &tokio::runtime::Handle,
) -> Result<Arc<Host>, String> {
    let mut disk: Arc<dyn Disk> = Arc::new(RealDisk);
    if let Some(faults) = &options.journal_faults {
        disk = Arc::new(FaultyDisk::new(disk, faults.clone(), Death::Real));
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), data = %data.display(), "starting");
    let host =
        Host::new(runtime.clone(), disk, policy_of(options)).map_err(|error| error.to_string())?;
    host.open_own(&data.join("paceline.db")).map_err(|error| error.to_string())?;
    for file in &options.database {
        host.open(file).map_err(|error| match error {
            paceline_host::OpenDatabaseError::Duplicate(name) => {
                format!("{}: a database named {name} is served already", file.display())
            }
            error => error.to_string(),
        })?;
    }
    Ok(host)
}

/// Signals that request an action. They are received from the start: a signal that arrives while databases are
/// read is handled when they are served, and does not end the daemon.
struct Requests {
    hangup: Signal,
    compact: Signal,
}

impl Requests {
    /// Must be called inside a runtime.
    fn listen() -> Result<Self, String> {
        let hangup = listen(SignalKind::hangup())?;
        Ok(Self { hangup, compact: listen(SignalKind::user_defined1())? })
    }
}

fn listen(kind: SignalKind) -> Result<Signal, String> {
    signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))
}

/// The settings of the daemon.
#[derive(Clone, Copy)]
struct Settings<'s> {
    options: &'s Serve,
    data: &'s Path,
    given: &'s Arc<Given>,
    /// Whether a frontend that cannot be opened ends the start, because the files are new.
    is_strict: bool,
    /// The rows before and after new files were applied; dropped when all doors are open.
    applied: &'s Cell<Option<(Snapshot, Snapshot)>>,
}

async fn serve(
    host: Arc<Host>,
    remotes: &[Remote],
    settings: Settings<'_>,
    requests: &mut Requests,
) -> Result<(), String> {
    let Settings { options, data, given, .. } = settings;
    let (door_options, policy) = (door_options(options), policy_of(options));
    let address = options.api.parse().map_err(|error| format!("--api: {error}"))?;
    let mut api = paceline_api::Options::in_directory(&absolute(data), address);
    api.socket_mode = options.socket_mode;
    api.reload = Arc::clone(given.reload());
    api.limits.connections = api.limits.connections.at_most(part_of_files(3, 5));
    let Requests { hangup, compact } = requests;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    if !wait_for_leases(&host, &mut terminate, &mut interrupt).await {
        return Ok(());
    }
    let sql = open_sql(&host, settings)?;
    api.warnings.extend(sql.problem.clone().map(|problem| {
        format!(
            "{problem}; SQL clients connect at {}; give another address with --sql ADDR",
            sql.socket.display()
        )
    }));
    api.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let api = paceline_api::Api::new(host.clone(), api)?;
    let mut doors: Vec<OvsdbDoor> = Vec::new();
    for remote in remotes {
        doors.push(paceline_ovsdb::open(host.clone(), remote, &door_options).await?);
    }
    let http = open_http(&host, settings).await?;
    let api = api.open().await?;
    drop(settings.applied.take());
    announce(&host, &doors, (&api, &sql), (policy, given));
    notify("READY=1");
    tokio::select! {
        _ = terminate.recv() => tracing::info!("received SIGTERM: draining"),
        _ = interrupt.recv() => tracing::info!("received SIGINT: draining"),
        () = reload_when_asked(&host, &http, given, hangup) => {}
        () = compact_when_asked(&host, compact) => {}
    }
    notify("STOPPING=1");
    tokio::select! {
        () = drain(&host, &api, (&http, &sql), options.drain_max) => {}
        _ = terminate.recv() => tracing::info!("received a second signal, SIGTERM: exiting"),
        _ = interrupt.recv() => tracing::info!("received a second signal, SIGINT: exiting"),
    }
    host.retire();
    Ok(())
}

/// Opens the HTTP door, which listens wherever the configuration has frontends.
async fn open_http(
    host: &Host,
    Settings { data, is_strict, .. }: Settings<'_>,
) -> Result<paceline_http::Door, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = host.http_threads().unwrap_or(cpus);
    let access_log = absolute(data).join("access.log");
    // The author of a new file can correct it at once. A later edit must not make locks and permits
    // unavailable.
    let descriptors_each = part_of_files(1, 6);
    let options = paceline_http::Options { access_log, threads, is_strict, descriptors_each };
    paceline_http::Door::open(Arc::clone(host.control()), options).await
}

/// Opens the SQL door.
fn open_sql(
    host: &Arc<Host>,
    Settings { options, data, .. }: Settings<'_>,
) -> Result<paceline_sql::Door, String> {
    let address = match options.sql.as_deref() {
        Some("none") => None,
        Some(text) => Some(text.parse().map_err(|_| {
            format!("--sql {text}: expected an address such as {SQL_DEFAULT}, or none")
        })?),
        None => Some(SQL_DEFAULT),
    };
    let is_strict = options.sql.is_some();
    let options = paceline_sql::Options {
        address,
        is_strict,
        socket: absolute(data).join(".s.PGSQL.5433"),
        socket_mode: options.socket_mode,
        capacity: Capacity::default().at_most(part_of_files(1, 6)),
    };
    paceline_sql::Door::open(Arc::clone(host), &options)
}

/// After a crash of the machine, waits until the leases that it may have lost have expired; false if a signal
/// asked to end meanwhile.
async fn wait_for_leases(host: &Host, terminate: &mut Signal, interrupt: &mut Signal) -> bool {
    let closed = host.keeper().map_or(Duration::ZERO, |keeper| keeper.closed_for());
    if closed.is_zero() {
        return true;
    }
    let seconds = closed.as_secs_f64().ceil();
    tracing::warn!(
        seconds,
        "the machine stopped while leases were held; the doors open when they have expired"
    );
    notify(&format!("STATUS=waits {seconds} s for leases from before the machine stopped"));
    tokio::select! {
        () = tokio::time::sleep(closed) => true,
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
    }
}

/// Refuses new requests, lets waiting ones continue for as long as they may, and sends the last answers.
/// Clients keep what they hold in the next run.
async fn drain(
    host: &Host,
    api: &paceline_api::ApiDoor,
    (http, sql): (&paceline_http::Door, &paceline_sql::Door),
    drain_max: Duration,
) {
    let control = host.control();
    control.begin_ending();
    // Requests on open connections are served first; only then nothing new is accepted.
    let drained = async {
        tokio::join!(http.drain(), sql.drain());
        control.drain().await;
    };
    if tokio::time::timeout(drain_max, drained).await.is_err() {
        let (requests, connections) = (control.unfinished(), control.http().connections());
        let sessions = host.locking().passing_sessions();
        tracing::warn!(
            requests,
            sessions,
            connections,
            "--drain-max has passed: disconnected the remaining requests, sessions and HTTP connections"
        );
        // The timeout may have expired before that: accept nothing new from here on.
        let _ = tokio::time::timeout(Duration::ZERO, control.drain()).await;
        control.stop();
    }
    host.retire();
    if tokio::time::timeout(CLOSE_MAX, api.close()).await.is_err() {
        tracing::warn!("some clients did not read their answers in time");
    }
}

/// On each SIGHUP, reopens the logs and applies the changes in the configuration files.
async fn reload_when_asked(
    host: &Arc<Host>,
    http: &paceline_http::Door,
    given: &Arc<Given>,
    asked: &mut Signal,
) {
    while asked.recv().await.is_some() {
        host.reopen_audit();
        if given.is_empty() {
            tracing::info!("reopened the logs; there is no --config to apply");
        } else {
            let (host, given) = (host.clone(), Arc::clone(given));
            let applied = tokio::task::spawn_blocking(move || given.apply(&host));
            match applied.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(()) => notify("STATUS="),
                Err(message) => {
                    tracing::error!("the configuration is unchanged:\n{message}");
                    notify("STATUS=the files of --config were not applied; see: paceline doctor");
                }
            }
        }
        // Certificates and pages may be new although their names are not.
        http.reload();
    }
}

fn policy_of(options: &Serve) -> Policy {
    let Serve { read_only, durable, list_own, .. } = *options;
    Policy { read_only, durable, list_own }
}

async fn compact_when_asked(host: &Arc<Host>, asked: &mut Signal) {
    while asked.recv().await.is_some() {
        for database in host.databases() {
            database.compact();
        }
    }
}

/// The one line that reports that the daemon is ready, and where it listens.
fn announce(
    host: &Host,
    doors: &[OvsdbDoor],
    (api, sql): (&paceline_api::ApiDoor, &paceline_sql::Door),
    (policy, given): (Policy, &Given),
) {
    let mut doors: Vec<String> =
        doors.iter().map(|door| format!("ovsdb {}", door.remote)).collect();
    doors.push(format!("api unix:{}", api.socket.display()));
    doors.extend(api.tcp.map(|address| format!("api http://{address}")));
    doors.push(format!("sql unix:{}", sql.socket.display()));
    doors.extend(sql.address.map(|address| format!("sql {address}")));
    doors.extend(
        host.control()
            .http()
            .state()
            .listening
            .into_iter()
            .map(|(name, address)| format!("http {name} {address}")),
    );
    let doors = doors.join(", ");
    let names: Vec<String> = host.databases().iter().map(|db| db.name.clone()).collect();
    let mut policies = String::new();
    if policy.read_only {
        policies.push_str("; read-only");
    }
    if policy.durable {
        policies.push_str("; every transaction durable");
    }
    if !given.is_empty() && !given.is_applied() {
        policies.push_str("; the files of --config are not applied, see: paceline doctor");
    }
    let mut out = std::io::stdout().lock();
    // A closed stdout is not a reason not to serve.
    let _ = writeln!(out, "paceline ready: {doors}; databases {}{policies}", names.join(", "));
    let _ = out.flush();
}

fn remotes(options: &Serve, data: &Path) -> Result<Vec<Remote>, String> {
    if options.ovsdb.is_empty() {
        return Ok(vec![Remote::Unix(absolute(&data.join("ovsdb.sock")))]);
    }
    let mut remotes = Vec::new();
    for remote in &options.ovsdb {
        let remote = match remote {
            RemoteOrNone::None if options.ovsdb.len() == 1 => return Ok(remotes),
            RemoteOrNone::None => {
                return Err("--ovsdb none cannot be combined with other remotes".into());
            }
            // Clients resolve a relative path against a directory of their own.
            RemoteOrNone::Remote(Remote::Unix(path)) => &Remote::Unix(absolute(path)),
            RemoteOrNone::Remote(remote) => remote,
        };
        if remote.is_open() && !options.allow_unauthenticated_remote {
            return Err(format!(
                "{remote}: any client that reaches this address could read and change everything; use \
                 pssl: with client certificates, or give --allow-unauthenticated-remote"
            ));
        }
        remotes.push(remote.clone());
    }
    Ok(remotes)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn door_options(options: &Serve) -> DoorOptions {
    let tls = match (&options.private_key, &options.certificate, &options.ca_cert) {
        (Some(private_key), Some(certificate), Some(ca_cert)) => Some(TlsFiles {
            private_key: private_key.clone(),
            certificate: certificate.clone(),
            ca_cert: ca_cert.clone(),
        }),
        _ => None,
    };
    let probe = (options.probe_interval > 0).then(|| Duration::from_secs(options.probe_interval));
    let frame_bytes_max = usize::try_from(options.frame_max).unwrap_or(usize::MAX);
    let (role, socket_mode) = (options.remote_role, options.socket_mode);
    let capacity = DoorOptions::default().capacity.at_most(part_of_files(3, 5));
    DoorOptions { frame_bytes_max, probe, tls, role, socket_mode, capacity }
}

/// The default data directory.
pub fn default_data() -> Result<PathBuf, String> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/paceline".into());
    }
    let directory =
        |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = directory("XDG_STATE_HOME");
    let home = directory("HOME").map(|home| home.join(".local/state"));
    state
        .or(home)
        .map(|state| state.join("paceline"))
        .ok_or_else(|| "there is no home directory; say where with --data DIR".to_owned())
}

/// Warns if other users could replace the daemon's files.
fn warn_if_shared(data: &Path) {
    let mode = std::fs::metadata(data).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o022 != 0 {
        let data = data.display();
        tracing::warn!("other users can write to {data}; close it with: chmod go-w {data}");
    }
}

/// Raises the limit on open files as far as the system allows.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// A part of the files that may be open. Clients of frontends, which may be unauthenticated, have a sixth, and
/// connections to servers another. Each socket of the API and of OVSDB has three fifths, which its users share.
/// So none of them alone takes the files that the others and the databases need.
fn part_of_files(parts: u64, of: u64) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |files| usize::try_from(files / of * parts).unwrap_or(usize::MAX))
}
