//! A small model of what Comdb2 does with a request.

/// A rule as Comdb2 has it.
#[derive(Clone, Debug)]
pub(super) struct Theirs {
    pub(super) number: u32,
    pub(super) action: &'static str,
    pub(super) pool: &'static str,
    pub(super) stop: bool,
    pub(super) disable: bool,
    pub(super) print: bool,
    pub(super) mode: &'static str,
    pub(super) nocase: bool,
    pub(super) user: Option<&'static str>,
    pub(super) sql: Option<&'static str>,
}

type Matches = fn(&str) -> bool;

/// Regular expressions in SQLite's notation that Comdb2 matches as these functions do, on texts in lower case if it
/// ignores case.
pub(super) const REGEXPS: [(&str, Matches); 8] = [
    ("a", |text| text.contains('a')),
    ("^a|b", |text| text.starts_with(['a', 'b'])),
    ("a|^b", |text| text.contains('a') || text.starts_with('b')),
    ("a.b", |text| {
        let chars: Vec<char> = text.chars().collect();
        chars.windows(3).any(|three| three[0] == 'a' && three[2] == 'b')
    }),
    ("^[^a]*$", |text| !text.contains('a')),
    (".*", |_| true),
    ("b?", |_| true),
    ("\\bb$", |text| {
        let before = text.strip_suffix('b');
        before.is_some_and(|before| !before.ends_with(|c: char| c.is_ascii_alphanumeric()))
    }),
];

/// Where Comdb2 sends a request: the pool, or `None` if it rejects it.
pub(super) fn decide(rules: &[Theirs], user: Option<&str>, sql: &str) -> Option<&'static str> {
    let mut rules: Vec<&Theirs> = rules.iter().collect();
    rules.sort_by_key(|rule| rule.number);
    // Its one result, and the pool beside it.
    let (mut action, mut pool) = ("NONE", "default");
    for rule in rules {
        if rule.disable || !rule.matches(user, sql) {
            continue;
        }
        let rejected = matches!(action, "REJECT" | "REJECT_ALL");
        match rule.action {
            "REJECT" if rejected => {}
            "REJECT" | "REJECT_ALL" => action = rule.action,
            "UNREJECT" if rejected => action = "NONE",
            "SET_POOL" => (action, pool) = ("SET_POOL", rule.pool),
            _ => {}
        }
        if rule.stop {
            break;
        }
    }
    match action {
        "REJECT" | "REJECT_ALL" => None,
        "SET_POOL" => Some(pool),
        _ => Some("default"),
    }
}

impl Theirs {
    fn matches(&self, user: Option<&str>, sql: &str) -> bool {
        let on_user = self.user.is_none_or(|p| user.is_some_and(|user| self.compare(p, user)));
        on_user && self.sql.is_none_or(|pattern| self.compare(pattern, sql))
    }

    fn compare(&self, pattern: &str, text: &str) -> bool {
        match (self.mode, self.nocase) {
            ("EXACT", false) => pattern == text,
            ("EXACT", true) => pattern.eq_ignore_ascii_case(text),
            ("GLOB", nocase) => glob(pattern, text, nocase),
            (_, nocase) => {
                let (_, matches) = REGEXPS.iter().find(|(known, _)| *known == pattern).unwrap();
                if nocase { matches(&text.to_ascii_lowercase()) } else { matches(text) }
            }
        }
    }

    /// Its lines in a file.
    pub(super) fn lines(&self) -> String {
        let Self { number, action, pool, mode, .. } = self;
        let flags = [(self.stop, "STOP"), (self.disable, "DISABLE"), (self.print, "PRINT")];
        let flags: Vec<&str> = flags.iter().filter(|flag| flag.0).map(|flag| flag.1).collect();
        let nocase = if self.nocase { " NOCASE" } else { "" };
        let mut out = format!("rule {number} action {action} mode {mode}{nocase}\n");
        if *action == "SET_POOL" {
            out.push_str(&format!("rule {number} pool {pool}\n"));
        }
        if !flags.is_empty() {
            out.push_str(&format!("rule {number} flags {{{}}}\n", flags.join(" ")));
        }
        let user = self.user.map(|user| format!("rule {number} user {user}\n"));
        let sql = self.sql.map(|sql| format!("rule {number} sql {sql}\n"));
        out + &user.unwrap_or_default() + &sql.unwrap_or_default()
    }
}

/// Whether SQLite's GLOB matches, with ASCII letters of either case outside sets if it ignores case.
pub(super) fn glob(pattern: &str, text: &str, nocase: bool) -> bool {
    let [pattern, text] = [pattern, text].map(|text| text.chars().collect::<Vec<char>>());
    glob_from(&pattern, &text, nocase)
}

fn glob_from(pattern: &[char], text: &[char], nocase: bool) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        (['*', rest @ ..], text) => {
            (0..=text.len()).any(|skipped| glob_from(rest, &text[skipped..], nocase))
        }
        (['?', rest @ ..], [_, text @ ..]) => glob_from(rest, text, nocase),
        (['[', rest @ ..], [c, text @ ..]) => match set(rest, *c) {
            Some((true, len)) => glob_from(&rest[len..], text, nocase),
            _ => false,
        },
        ([p, rest @ ..], [c, text @ ..]) if p == c || (nocase && p.eq_ignore_ascii_case(c)) => {
            glob_from(rest, text, nocase)
        }
        _ => false,
    }
}

/// Whether a set, from after its bracket, has a character, and its length; `None` if it has no end.
fn set(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = pattern.first() == Some(&'^');
    let (mut at, mut seen, mut prior) = (usize::from(negated), false, '\0');
    if pattern.get(at) == Some(&']') {
        seen = c == ']';
        at += 1;
    }
    while *pattern.get(at)? != ']' {
        let (member, next) = (pattern[at], *pattern.get(at + 1)?);
        if member == '-' && next != ']' && prior != '\0' {
            seen |= prior <= c && c <= next;
            prior = '\0';
            at += 2;
        } else {
            seen |= member == c;
            prior = member;
            at += 1;
        }
    }
    Some((seen != negated, at + 1))
}
