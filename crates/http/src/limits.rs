//! Named maxima of the HTTP door (promise D2). They bound its memory.

/// Longest head of a message, including its first line.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;

/// Fields of one head, or of one set of trailers.
pub(crate) const FIELDS_MAX: usize = 100;

/// Longest target of a request.
pub(crate) const TARGET_BYTES_MAX: usize = 8 << 10;

/// Longest method.
pub(crate) const METHOD_BYTES_MAX: usize = 32;

/// Longest `Host`.
pub(crate) const HOST_BYTES_MAX: usize = 255;

/// Longest extensions of one chunk. Extensions are checked and dropped.
pub(crate) const CHUNK_EXTENSION_BYTES_MAX: usize = 1 << 10;

/// Longest trailers of one message.
pub(crate) const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Interim responses (1xx) that a server may send to one request.
pub(crate) const INTERIM_RESPONSES_MAX: u32 = 100;

/// Connection options in all `Connection` fields of one head.
pub(crate) const OPTIONS_MAX: usize = 32;
