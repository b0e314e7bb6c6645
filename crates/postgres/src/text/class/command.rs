//! The commands, by their first word.

use crate::text::cursor::Cursor;
use crate::text::token::Kind;

/// A command, named as PostgreSQL's command tag begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Command {
    Alter,
    Analyze,
    Attach,
    Begin,
    Call,
    Checkpoint,
    Close,
    Cluster,
    Comment,
    Commit,
    Copy,
    Create,
    Deallocate,
    Declare,
    Delete,
    Detach,
    Discard,
    Do,
    Drop,
    Execute,
    Explain,
    Fetch,
    Grant,
    Import,
    Insert,
    Listen,
    Load,
    Lock,
    Merge,
    Move,
    Notify,
    Pragma,
    Prepare,
    Reassign,
    Refresh,
    Reindex,
    Release,
    Replace,
    Reset,
    Revoke,
    Rollback,
    Savepoint,
    Security,
    Select,
    Set,
    Show,
    Start,
    Truncate,
    Unlisten,
    Update,
    Vacuum,
    /// `WITH` before it is resolved; no statement has it in the end.
    With,
    /// A statement without any token.
    Empty,
    /// A statement that begins with none of these words.
    Unknown,
}

impl Command {
    /// The word, in capitals; empty for [`Command::Empty`] and [`Command::Unknown`].
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, command)| *command == self).map_or("", |(name, _)| name)
    }

    /// Whether the command may change data by itself.
    pub(super) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Alter
                | Self::Call
                | Self::Cluster
                | Self::Comment
                | Self::Create
                | Self::Delete
                | Self::Do
                | Self::Drop
                | Self::Execute
                | Self::Grant
                | Self::Import
                | Self::Insert
                | Self::Merge
                | Self::Reassign
                | Self::Refresh
                | Self::Reindex
                | Self::Replace
                | Self::Revoke
                | Self::Security
                | Self::Truncate
                | Self::Update
                | Self::Vacuum
        )
    }

    /// The command that a word begins.
    pub(super) fn of(word: &str) -> Self {
        let is_word = |(name, _): &&(&str, Self)| name.eq_ignore_ascii_case(word);
        NAMES.iter().find(is_word).map_or(Self::Unknown, |(_, command)| *command)
    }
}

/// Takes the next word, and gives the command that it begins.
pub(super) fn next(cursor: &mut Cursor<'_>) -> Command {
    cursor.eat_kind(Kind::Word).map_or(Command::Unknown, Command::of)
}

/// The most frequent ones first. A command's own name is before its other names.
const NAMES: &[(&str, Command)] = &[
    ("SELECT", Command::Select),
    ("INSERT", Command::Insert),
    ("UPDATE", Command::Update),
    ("BEGIN", Command::Begin),
    ("COMMIT", Command::Commit),
    ("DELETE", Command::Delete),
    ("WITH", Command::With),
    ("ROLLBACK", Command::Rollback),
    ("SET", Command::Set),
    ("SHOW", Command::Show),
    ("END", Command::Commit),
    ("ABORT", Command::Rollback),
    ("VALUES", Command::Select),
    ("TABLE", Command::Select),
    ("ALTER", Command::Alter),
    ("ANALYZE", Command::Analyze),
    ("ANALYSE", Command::Analyze),
    ("ATTACH", Command::Attach),
    ("CALL", Command::Call),
    ("CHECKPOINT", Command::Checkpoint),
    ("CLOSE", Command::Close),
    ("CLUSTER", Command::Cluster),
    ("COMMENT", Command::Comment),
    ("COPY", Command::Copy),
    ("CREATE", Command::Create),
    ("DEALLOCATE", Command::Deallocate),
    ("DECLARE", Command::Declare),
    ("DETACH", Command::Detach),
    ("DISCARD", Command::Discard),
    ("DO", Command::Do),
    ("DROP", Command::Drop),
    ("EXECUTE", Command::Execute),
    ("EXPLAIN", Command::Explain),
    ("FETCH", Command::Fetch),
    ("GRANT", Command::Grant),
    ("IMPORT", Command::Import),
    ("LISTEN", Command::Listen),
    ("LOAD", Command::Load),
    ("LOCK", Command::Lock),
    ("MERGE", Command::Merge),
    ("MOVE", Command::Move),
    ("NOTIFY", Command::Notify),
    ("PRAGMA", Command::Pragma),
    ("PREPARE", Command::Prepare),
    ("REASSIGN", Command::Reassign),
    ("REFRESH", Command::Refresh),
    ("REINDEX", Command::Reindex),
    ("RELEASE", Command::Release),
    ("REPLACE", Command::Replace),
    ("RESET", Command::Reset),
    ("REVOKE", Command::Revoke),
    ("SAVEPOINT", Command::Savepoint),
    ("SECURITY", Command::Security),
    ("START", Command::Start),
    ("TRUNCATE", Command::Truncate),
    ("UNLISTEN", Command::Unlisten),
    ("VACUUM", Command::Vacuum),
];
