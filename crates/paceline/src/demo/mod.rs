//! `paceline demo`: a daemon with a sample of everything and simulated users, shown live.
//!
//! The daemon, its directory and the users end with this, however it ends: at the time given, on q, Ctrl-C,
//! Ctrl-\ or SIGTERM, or when the output is closed; `rescue` ends it if the output is stuck. The daemon is
//! queried once per frame; what happens in between is taken from its events and from the users themselves.

mod daemon;
mod draw;
mod rescue;
mod terminal;
mod traffic;
mod view;

use crate::command::{duration, print};
use crate::failure::Failure;
use crate::screen::Screen;
use clap::Args;
use daemon::Daemon;
use paceline_client::{Client, Error, Kind, Method, Target};
use rescue::Rescue;
use serde_json::Value;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use terminal::Terminal;
use tokio::runtime::Runtime;
use traffic::Traffic;
use view::{Decision, Verdict, View};

pub const HELP: &str = "\
Nothing is installed and nothing stays behind: the daemon runs inside this command, without network, with its files and sockets \
in a temporary directory that is deleted at the end. q or Ctrl-C quits. If standard output is not a terminal, each decision is \
printed as one line, and the demo ends after 10 s unless --for is given.

Example:
  paceline demo
  paceline demo --for 5s | cat";

#[derive(Debug, Args)]
pub struct Demo {
    /// Quit after this time, such as 30s
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    end: Option<Duration>,

    /// Seed for the made-up users
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The time between two frames.
const FRAME: Duration = Duration::from_millis(200);

/// How long it runs if no key can stop it.
const END_DEFAULT: Duration = Duration::from_secs(10);

/// The most waiting requests that are queried in one frame.
const WHYS_MAX: usize = 4;

/// What reaches the demo between two frames.
enum Input {
    /// A key or a signal asked it to end.
    Stop,
    /// A request arrived and waits.
    Waiting(u64),
}

pub fn run(demo: &Demo) -> Result<(), Failure> {
    let (inputs, input) = channel();
    let runtime = runtime()?;
    // Before there is anything that a signal could leave behind.
    let rescue = Arc::new(Rescue::default());
    listen_for_signals(&runtime, &inputs, &rescue)?;
    let directory = rescue.directory()?;
    let mut daemon = Daemon::start(runtime, directory.path())?;
    let client = Client::connect(&Target::in_data_directory(directory.path()))?;
    follow(&client, inputs.clone())?;
    let (tell, told) = channel();
    let traffic = Traffic::start(&client, demo.seed, &tell)?;
    drop(tell);
    let mut show = Show::new(demo, client, directory.path().display().to_string(), &rescue);
    if show.terminal.is_some() {
        Terminal::listen(inputs, || Input::Stop);
    }
    let shown = show.run(&input, &told);
    show.terminal = None;
    traffic.ring();
    daemon.stop();
    traffic.join();
    drop(directory);
    shown?;
    print(&farewell(&show.view, show.screen))
}

fn runtime() -> Result<Runtime, Failure> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let built = threads.worker_threads(2).enable_all().thread_name("demo-daemon").build();
    built.map_err(|error| format!("cannot start: {error}").into())
}

fn listen_for_signals(
    runtime: &Runtime,
    inputs: &Sender<Input>,
    rescue: &Arc<Rescue>,
) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let _inside = runtime.enter();
    for kind in
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()]
    {
        let mut signal =
            signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))?;
        let inputs = inputs.clone();
        let rescue = Arc::clone(rescue);
        runtime.spawn(async move {
            while signal.recv().await.is_some() {
                let _ = inputs.send(Input::Stop);
                rescue.begin();
            }
        });
    }
    Ok(())
}

/// Passes on which requests wait, as the daemon reports them.
fn follow(client: &Client, inputs: Sender<Input>) -> Result<(), Failure> {
    let events = client.events()?;
    let pass_on = move || {
        for event in events.map_while(Result::ok).filter(|event| event.kind == "waiting") {
            let request = event.data.get("request").and_then(Value::as_u64);
            if request.is_some_and(|id| inputs.send(Input::Waiting(id)).is_err()) {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("events".into()).spawn(pass_on);
    thread.map(drop).map_err(|error| format!("cannot start: {error}").into())
}

/// What is shown, and where.
struct Show {
    view: View,
    client: Client,
    terminal: Option<Terminal>,
    screen: Screen,
    started: Instant,
    end: Option<Duration>,
    /// Requests that arrived and wait, to be queried.
    waiting: Vec<u64>,
}

impl Show {
    fn new(demo: &Demo, client: Client, data: String, rescue: &Rescue) -> Self {
        let terminal = Terminal::take(|keyboard| rescue.keep(keyboard));
        let end = demo.end.or(terminal.is_none().then_some(END_DEFAULT));
        Self {
            view: View { data, ..View::default() },
            client,
            terminal,
            screen: Screen::of_stdout(),
            started: Instant::now(),
            end,
            waiting: vec![],
        }
    }

    /// Shows frames until the end.
    fn run(&mut self, input: &Receiver<Input>, told: &Receiver<Decision>) -> Result<(), Failure> {
        loop {
            let next = Instant::now() + FRAME;
            if self.wait(input, next) || self.end.is_some_and(|end| self.started.elapsed() >= end) {
                return Ok(());
            }
            let mut news: Vec<Decision> = self.reasons()?;
            news.extend(told.try_iter());
            news.sort_by_key(|decision| decision.at);
            if self.show(news)? == Seen::Nobody {
                return Ok(());
            }
        }
    }

    /// Waits for the next frame; true if the user asked to quit.
    fn wait(&mut self, input: &Receiver<Input>, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match input.recv_timeout(left) {
                Ok(Input::Stop) => return true,
                Ok(Input::Waiting(id)) => self.waiting.push(id),
                Err(RecvTimeoutError::Timeout) => return false,
                // The daemon has stopped.
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    /// Why the requests wait that arrived since the last frame; of many, some.
    fn reasons(&mut self) -> Result<Vec<Decision>, Failure> {
        let came = std::mem::take(&mut self.waiting);
        let mut decisions = vec![];
        let requests = self.client.requests()?;
        let skip = came.len().saturating_sub(WHYS_MAX);
        self.view.waited += skip as u64;
        for id in came.iter().skip(skip) {
            let who = requests.iter().find(|request| request.request == *id);
            match (self.client.why(*id), who) {
                (Ok(why), Some(who)) if why.state == "waiting" => decisions.push(Decision {
                    at: self.started.elapsed(),
                    verdict: Verdict::Waits,
                    who: who.text.clone(),
                    text: view::reason(&why),
                }),
                // It no longer waits.
                (Ok(_) | Err(Error::NotFound(_)), _) => self.view.waited += 1,
                (Err(error), _) => return Err(error.into()),
            }
        }
        self.refresh(&requests)?;
        Ok(decisions)
    }

    fn refresh(&mut self, requests: &[paceline_client::Listed]) -> Result<(), Failure> {
        if self.terminal.is_none() {
            return Ok(());
        }
        let pools = self.client.objects(Kind::Pools)?;
        self.view.show_pools(&pools, requests);
        let checkpoints = self.client.objects(Kind::Checkpoints)?;
        self.view.show_checkpoints(&checkpoints, requests);
        let locks = self.client.objects(Kind::Locks)?;
        let tree = self.client.call(Method::Get, "/v1/tree", None)?;
        self.view.show_held(&locks, tree.as_array().map_or(&[], Vec::as_slice), requests);
        Ok(())
    }

    /// Shows the new decisions: as a frame, or as lines.
    fn show(&mut self, news: Vec<Decision>) -> Result<Seen, Failure> {
        self.view.elapsed = self.started.elapsed();
        let mut lines = String::new();
        for decision in news {
            if self.terminal.is_none() {
                let unbroken = Screen { width: usize::MAX, ..self.screen };
                lines.extend(draw::lines(&decision, unbroken));
                lines.push('\n');
            }
            self.view.note(decision);
        }
        let written = match self.terminal {
            Some(_) => {
                self.screen = Screen::of_stdout();
                Terminal::draw(&draw::draw(&self.view, self.screen, Terminal::rows()))
            }
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(lines.as_bytes()).and_then(|()| out.flush())
            }
        };
        // A closed pipe is not a failure.
        Ok(if written.is_ok() { Seen::BySomebody } else { Seen::Nobody })
    }
}

/// Whether the output is still read.
#[derive(PartialEq, Eq)]
enum Seen {
    BySomebody,
    Nobody,
}

/// A summary, and what to do next.
fn farewell(view: &View, screen: Screen) -> String {
    let View { admitted, waited, refused, .. } = view;
    let seconds = view.elapsed.as_secs_f64().round();
    let mut out = screen.wrap(
        &format!(
            "In {seconds} s {admitted} were admitted, {waited} had to wait and {refused} were \
             refused. Nothing is left behind."
        ),
        0,
    );
    out.push_str("Go on with:\n");
    for (command, what) in [
        ("paceline serve", "a daemon of your own; in another terminal then"),
        ("paceline apply FILE", "what it shall do, see examples/paceline.toml"),
        ("paceline permit -- CMD", "runs CMD when it may"),
    ] {
        out.push_str(&screen.wrap(&format!("  {command:24}{what}"), 6));
    }
    out.push_str(&screen.wrap("docs/getting-started.md goes through it in ten minutes.", 0));
    out
}
