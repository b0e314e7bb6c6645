//! The parameters of a session (`SET`, `SHOW`), and what becomes of them when a transaction ends.

use super::SessionInfo;
use crate::failure::Failure;
use paceline_postgres::wire::SqlState;
use std::collections::BTreeMap;
use std::time::Duration;

/// The parameters that exist: name, default, and whether changes are reported to the client.
const PARAMETERS: &[(&str, &str, bool)] = &[
    ("application_name", "", true),
    ("bytea_output", "hex", false),
    ("check_function_bodies", "on", false),
    ("client_encoding", "UTF8", true),
    ("client_min_messages", "notice", false),
    ("DateStyle", "ISO, MDY", true),
    ("default_transaction_deferrable", "off", false),
    ("default_transaction_isolation", "serializable", false),
    ("default_transaction_read_only", "off", true),
    ("enable_seqscan", "on", false),
    ("extra_float_digits", "1", false),
    ("idle_in_transaction_session_timeout", "0", false),
    ("in_hot_standby", "off", true),
    ("integer_datetimes", "on", true),
    ("IntervalStyle", "postgres", true),
    ("is_superuser", "off", true),
    ("jit", "off", false),
    ("lock_timeout", "0", false),
    ("max_identifier_length", "63", false),
    ("max_index_keys", "32", false),
    ("row_security", "on", false),
    ("search_path", "\"$user\", public", false),
    ("server_encoding", "UTF8", true),
    ("server_version", crate::functions::VERSION, true),
    ("server_version_num", "150000", false),
    ("session_authorization", "", true),
    ("standard_conforming_strings", "on", true),
    ("statement_timeout", "0", false),
    ("synchronous_commit", "on", false),
    ("TimeZone", "UTC", true),
    ("transaction_isolation", "serializable", false),
    ("transaction_read_only", "off", false),
    ("work_mem", "4096", false),
];

/// Parameters that only the server sets.
const FIXED: &[&str] = &[
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "max_identifier_length",
    "max_index_keys",
    "server_encoding",
    "server_version",
    "server_version_num",
];

/// The most parameters of a client's own, with a dot in their names.
const OWN_MAX: usize = 100;

/// A session's parameters.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// Values at the start of the session, for RESET.
    defaults: BTreeMap<String, String>,
    /// Values before the transaction, for ROLLBACK.
    before: Option<BTreeMap<String, String>>,
    /// Values before `SET LOCAL`, for COMMIT.
    local: Vec<(String, Option<String>)>,
    time_max: Option<Duration>,
}

impl Settings {
    pub fn new(info: &SessionInfo) -> Self {
        let mut values: BTreeMap<String, String> = PARAMETERS
            .iter()
            .map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        values.insert("application_name".into(), info.application_name.clone());
        values.insert("session_authorization".into(), info.user.clone());
        Self { values, ..Self::default() }
    }

    /// What is set now is what RESET returns to.
    pub fn make_default(&mut self) {
        self.defaults = self.values.clone();
    }

    /// The value of a parameter.
    pub fn show(&self, name: &str) -> Result<String, Failure> {
        let name = canonical(name);
        self.values.get(&name).cloned().ok_or_else(|| unknown(&name))
    }

    /// All parameters, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Those that are reported to the client.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = PARAMETERS.iter().filter(|(_, _, is_reported)| *is_reported);
        let value = |name: &str| self.values.get(name).cloned().unwrap_or_default();
        reported.map(|(name, ..)| (*name, value(name))).collect()
    }

    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let name = canonical(name);
        if FIXED.contains(&name.as_str()) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(Failure::new(crate::failure::state(b"55P02"), message));
        }
        let is_known = PARAMETERS.iter().any(|(own, ..)| *own == name);
        let is_own = name.contains('.') && self.values.len() < PARAMETERS.len() + OWN_MAX;
        if !is_known && !is_own {
            return Err(unknown(&name));
        }
        let value = checked(&name, value)?;
        self.values.insert(name, value);
        Ok(())
    }

    /// `SET LOCAL`.
    pub fn set_local(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let key = canonical(name);
        let before = self.values.get(&key).cloned();
        self.set(name, value)?;
        self.local.push((key, before));
        Ok(())
    }

    pub fn reset(&mut self, name: &str) -> Result<(), Failure> {
        let name = canonical(name);
        match self.defaults.get(&name).cloned() {
            Some(value) => drop(self.values.insert(name, value)),
            None if name.contains('.') => drop(self.values.remove(&name)),
            None => return Err(unknown(&name)),
        }
        Ok(())
    }

    pub fn reset_all(&mut self) {
        self.values = self.defaults.clone();
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        self.before = Some(self.values.clone());
    }

    pub fn commit(&mut self) {
        self.before = None;
        for (name, value) in std::mem::take(&mut self.local).into_iter().rev() {
            match value {
                Some(value) => drop(self.values.insert(name, value)),
                None => drop(self.values.remove(&name)),
            }
        }
    }

    pub fn rollback(&mut self) {
        self.local.clear();
        if let Some(before) = self.before.take() {
            self.values = before;
        }
    }

    pub fn set_time_max(&mut self, max: Option<Duration>) {
        self.time_max = max;
    }

    /// How long a statement may run.
    pub fn statement_time(&self) -> Option<Duration> {
        let own = self.duration("statement_timeout");
        own.into_iter().chain(self.time_max).min()
    }

    /// How long a statement may wait for a writer.
    pub fn lock_time(&self) -> Option<Duration> {
        self.duration("lock_timeout")
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        let millis = self.values.get(name).and_then(|value| millis(value));
        millis.filter(|millis| *millis > 0).map(Duration::from_millis)
    }
}

/// The name as it is listed: PostgreSQL compares names without case.
fn canonical(name: &str) -> String {
    let listed = PARAMETERS.iter().find(|(own, ..)| own.eq_ignore_ascii_case(name));
    listed.map_or_else(|| name.to_ascii_lowercase(), |(own, ..)| (*own).to_owned())
}

fn unknown(name: &str) -> Failure {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Failure::new(SqlState::UNDEFINED_OBJECT, message)
}

/// The value, if the engine can honour it.
fn checked(name: &str, value: &str) -> Result<String, Failure> {
    let refused = || {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        Failure::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    match name {
        "client_encoding" => {
            let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            let is_utf8 = ["utf8", "unicode"].contains(&plain.to_ascii_lowercase().as_str());
            if is_utf8 { Ok("UTF8".into()) } else { Err(refused().hint("Only UTF8 is supported.")) }
        }
        "standard_conforming_strings" if crate::values::is_true(value) != Some(true) => {
            Err(refused().hint("Only on is supported."))
        }
        "TimeZone" => {
            let is_utc = ["utc", "gmt", "etc/utc", "z", "+00", "0", "+00:00", "00:00"];
            match is_utc.contains(&value.to_ascii_lowercase().as_str()) {
                true => Ok("UTC".into()),
                // Moments are shown in UTC whatever the client asks for; drivers send their own zone at connect.
                false => Ok("UTC".into()),
            }
        }
        "statement_timeout" | "lock_timeout" | "idle_in_transaction_session_timeout" => {
            millis(value).map(|_| value.to_owned()).ok_or_else(refused)
        }
        _ => Ok(value.to_owned()),
    }
}

/// `1500`, `1500ms`, `2s`, `5min`, `1h`.
fn millis(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(digits)?;
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::{SessionInfo, Settings, millis};

    #[test]
    fn transactions_keep_or_undo_settings() {
        let mut settings = Settings::new(&SessionInfo::default());
        settings.make_default();
        settings.begin();
        settings.set("search_path", "a").unwrap();
        settings.rollback();
        assert_eq!(settings.show("SEARCH_PATH").unwrap(), "\"$user\", public");
        settings.begin();
        settings.set_local("my.own", "1").unwrap();
        settings.set("extra_float_digits", "3").unwrap();
        settings.commit();
        assert!(settings.show("my.own").is_err());
        assert_eq!(settings.show("extra_float_digits").unwrap(), "3");
        settings.reset_all();
        assert_eq!(settings.show("extra_float_digits").unwrap(), "1");
        assert!(settings.set("server_version", "1").is_err());
        assert!(settings.set("client_encoding", "LATIN1").is_err());
        assert!(settings.set("no_such", "1").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(millis("1500"), Some(1500));
        assert_eq!(millis("2s"), Some(2000));
        assert_eq!(millis("1x"), None);
    }
}
