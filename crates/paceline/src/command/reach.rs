//! Which daemon a command calls: the one of a data directory, or one over TCP with a token.

use super::Asker;
use crate::failure::{FAILED, Failure};
use crate::screen::Screen;
use clap::Args;
use paceline_client::{Client, Target, Token};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The longest file that is read for a token.
const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// The heading of the options that all commands have, so that a command's own options are listed first.
pub const COMMON: &str = "Common options";

/// Which daemon to ask, and how to answer. The variables are read here and not by the parser, whose
/// usage line would take whatever they set for something that must be there.
#[derive(Debug, Args)]
pub struct Reach {
    /// Directory of the daemon to ask
    /// [default: /var/lib/paceline for root, else ~/.local/state/paceline] [env: PACELINE_DATA]
    #[arg(long, global = true, value_name = "DIR", help_heading = COMMON)]
    pub data: Option<PathBuf>,

    /// Ask over TCP instead, such as http://127.0.0.1:7070 [env: PACELINE_API]
    #[arg(long, global = true, value_name = "URL", help_heading = COMMON)]
    pub api: Option<String>,

    /// File with the token for TCP [default: PACELINE_TOKEN, else DIR/token]
    #[arg(long, global = true, value_name = "FILE", help_heading = COMMON)]
    pub token_file: Option<PathBuf>,

    /// Print JSON, also for errors
    #[arg(long, global = true, help_heading = COMMON)]
    pub json: bool,
}

impl Reach {
    /// Connects to the daemon.
    pub fn open(&self) -> Result<Asker, Failure> {
        let client = Client::connect(&self.target()?)?;
        Ok(Asker { client, screen: Screen::of_stdout(), json: self.json })
    }

    /// The directory of the daemon.
    pub fn directory(&self) -> Result<PathBuf, Failure> {
        let said = || std::env::var_os("PACELINE_DATA").map(PathBuf::from);
        let data = self.data.clone().or_else(said).filter(|data| !data.as_os_str().is_empty());
        Ok(data.map_or_else(crate::serve::default_data, Ok)?)
    }

    /// Whether the daemon is called over TCP.
    pub fn is_tcp(&self) -> bool {
        self.url().is_some()
    }

    /// The URL of a daemon on TCP.
    fn url(&self) -> Option<String> {
        let said = || std::env::var("PACELINE_API").ok();
        self.api.clone().or_else(said).filter(|api| !api.is_empty())
    }

    /// The address of the daemon.
    pub fn target(&self) -> Result<Target, Failure> {
        match self.url() {
            None => Ok(Target::in_data_directory(&self.directory()?)),
            Some(api) => Ok(Target::Tcp { address: address(&api)?, token: self.token()? }),
        }
    }

    /// The address of the daemon as a text, the same for every way to give it.
    pub fn place(&self) -> Result<String, Failure> {
        if let Some(api) = self.url() {
            return Ok(format!("http://{}", address(&api)?));
        }
        let data = self.directory()?;
        let data = std::fs::canonicalize(&data).unwrap_or(data);
        Ok(format!("unix:{}", data.join("api.sock").display()))
    }

    fn token(&self) -> Result<Token, Failure> {
        let said = std::env::var("PACELINE_TOKEN").ok().filter(|token| !token.is_empty());
        let (text, place) = match (&self.token_file, said) {
            (None, Some(token)) => (token, "PACELINE_TOKEN".to_owned()),
            (file, _) => {
                let file = file.clone().map_or_else(|| Ok(self.directory()?.join("token")), Ok);
                let file: PathBuf = file.map_err(|failure: Failure| failure)?;
                (read(&file)?, file.display().to_string())
            }
        };
        let hint = "give the one of the daemon's data directory with --token-file DIR/token";
        Token::new(&text).ok_or_else(|| Failure::new(FAILED, format!("{place} has no token"), hint))
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| {
        let message = format!("cannot read the token in {}: {error}", file.display());
        Failure::new(FAILED, message, "give it with --token-file FILE or PACELINE_TOKEN")
    })?;
    Ok(text)
}

/// Host and port of a URL such as `http://127.0.0.1:7070`.
fn address(url: &str) -> Result<String, Failure> {
    let hint = "give it as http://HOST:PORT, such as http://127.0.0.1:7070";
    if url.starts_with("https:") {
        return Err(Failure::new(FAILED, "the API speaks no TLS", hint));
    }
    let address = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        let is_whole = !host.contains(':') || host.ends_with(']');
        !host.is_empty() && is_whole && port.parse::<u16>().is_ok()
    });
    match has_port && !address.contains('/') {
        true => Ok(address.to_owned()),
        false => Err(Failure::new(FAILED, format!("{url:?} is not the address of an API"), hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn urls_are_hosts_and_ports() {
        for (url, expected) in [
            ("http://127.0.0.1:7070", "127.0.0.1:7070"),
            ("http://localhost:7070/", "localhost:7070"),
            ("http://[::1]:7070", "[::1]:7070"),
            ("127.0.0.1:7070", "127.0.0.1:7070"),
        ] {
            assert_eq!(address(url).unwrap(), expected);
        }
        for url in ["https://h:1", "http://h", "http://h:x", "http://h:1/v1", "::1:7070", ":7070"] {
            assert!(address(url).is_err(), "{url}");
        }
    }
}
