//! Reading records one after another, in large pieces, checking each.
//!
//! Owns a buffer over a range of one file. Promises J1: a body is returned only after its hash was
//! checked. Holds one record and at most one piece in memory, never the whole file. Reports where damage
//! begins and what it is; the caller decides what to do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::{DiskFile, read_full};
use crate::frame::{HEADER_LEN_MAX, Hash, Header, RECORD_LEN_MAX, hash, parse_header};
use crate::log::Position;
use crate::mark::Mark;

/// How much is read at once. Small enough to stay in the cache until it is hashed and parsed.
const PIECE: usize = 256 * 1024;

/// One whole record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where its header begins.
    pub offset: Position,
    /// Its JSON text, without the newline at the end.
    pub body: &'a [u8],
}

/// Damage: the bytes at this offset are not a valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where the damaged record begins.
    pub offset: Position,
    /// What is wrong with it.
    pub reason: String,
}

/// Why the next record could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be read.
    Io(io::Error),
    /// The bytes are not a valid record.
    Damage(Damage),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "cannot read: {error}"),
            ReadError::Damage(Damage { offset, reason }) => {
                write!(f, "corrupt record at offset {offset}: {reason}")
            }
        }
    }
}

impl Error for ReadError {}

/// Reads the records in a range of a file.
///
/// ```text
/// while let Some(record) = reader.next()? { ... }
/// ```
#[derive(Debug)]
pub struct Reader {
    file: Arc<dyn DiskFile>,
    /// Where the range ends in the file.
    limit: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that is filled and not yet consumed.
    filled: Range<usize>,
    /// Where `filled` starts in the file.
    offset: u64,
    /// The body of the current record in the buffer, and how long the record is in all.
    body: Range<usize>,
    len: usize,
    hash: Hash,
}

impl Reader {
    pub(crate) fn new(file: Arc<dyn DiskFile>, from: Position, to: Position) -> Self {
        Reader {
            file,
            limit: to.0,
            buffer: Vec::new(),
            filled: 0..0,
            offset: from.0,
            body: 0..0,
            len: 0,
            hash: Hash::default(),
        }
    }

    /// The next record, or `None` at the end of the range.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        Ok(if self.advance()? { Some(self.record()) } else { None })
    }

    /// Where the current record ends and the next one begins.
    pub fn position(&self) -> Position {
        Position(self.offset + self.len as u64)
    }

    /// Moves on to the next record. After an error or the end it stays where it is.
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        self.consume();
        let left = self.limit.saturating_sub(self.offset);
        if left == 0 {
            return Ok(false);
        }
        self.fill(left.min(HEADER_LEN_MAX as u64))?;
        let Some(header) = parse_header(self.ready()) else {
            return Err(self.damage("the header line is not valid".into()));
        };
        let len = self.record_len(&header, left)?;
        if !self.fill(len as u64)? {
            return Err(self.damage("the file ends within it".into()));
        }
        let body = self.filled.start + header.line_len..self.filled.start + len;
        let bytes = self.buffer.get(body.clone()).unwrap_or_default();
        if hash(bytes) != header.hash {
            return Err(self.damage("its SHA-1 hash does not match".into()));
        }
        let newline = usize::from(bytes.last() == Some(&b'\n'));
        self.body = body.start..body.end - newline;
        self.len = len;
        self.hash = header.hash;
        Ok(true)
    }

    /// The current record.
    pub(crate) fn record(&self) -> Record<'_> {
        let body = self.buffer.get(self.body.clone()).unwrap_or_default();
        Record { offset: Position(self.offset), body }
    }

    /// What identifies the current record.
    pub(crate) fn mark(&self) -> Mark {
        Mark::new(self.offset, self.position().0, &self.hash)
    }

    /// The current record with its frame, as it is in the file.
    pub(crate) fn framed(&self) -> &[u8] {
        self.ready().get(..self.len).unwrap_or_default()
    }

    fn record_len(&self, header: &Header, left: u64) -> Result<usize, ReadError> {
        if header.body_len > RECORD_LEN_MAX {
            let len = header.body_len;
            let reason =
                format!("its length of {len} bytes is over the maximum of {RECORD_LEN_MAX}");
            return Err(self.damage(reason));
        }
        let len = header.body_len + header.line_len as u64;
        if len > left {
            let reason = format!("it should have {len} bytes, but the file ends after {left}");
            return Err(self.damage(reason));
        }
        usize::try_from(len).map_err(|_| self.damage("it does not fit into memory".into()))
    }

    fn damage(&self, reason: String) -> ReadError {
        ReadError::Damage(Damage { offset: Position(self.offset), reason })
    }

    fn ready(&self) -> &[u8] {
        self.buffer.get(self.filled.clone()).unwrap_or_default()
    }

    /// Moves past the current record.
    fn consume(&mut self) {
        self.filled.start += self.len;
        self.offset += self.len as u64;
        self.len = 0;
        self.body = 0..0;
    }

    /// Reads until the next `need` bytes are in the buffer. Returns false if the file has shrunk and ends before them.
    fn fill(&mut self, need: u64) -> Result<bool, ReadError> {
        let have = self.filled.len();
        if have as u64 >= need {
            return Ok(true);
        }
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..have;
        let left = self.limit.saturating_sub(self.offset);
        let size = need.max(PIECE as u64).min(left) as usize;
        if size > self.buffer.len() {
            // More than one piece means a single large record, and `left` bounds it by the file's length.
            self.buffer
                .try_reserve_exact(size - self.buffer.len())
                .map_err(|_| ReadError::Io(io::Error::from(io::ErrorKind::OutOfMemory)))?;
            self.buffer.resize(size, 0);
        } else if size <= PIECE && self.buffer.len() > PIECE {
            self.buffer.truncate(PIECE);
            self.buffer.shrink_to_fit();
        }
        let room = self.buffer.get_mut(have..size).unwrap_or_default();
        let got = read_full(&*self.file, room, self.offset + have as u64).map_err(ReadError::Io)?;
        self.filled.end += got;
        Ok(self.filled.len() as u64 >= need)
    }
}
