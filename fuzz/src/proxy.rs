//! The PROXY header: a prefix of a header may be incomplete, but never has another meaning.

use crate::http_wire::read_proxy_header;

/// Longer prefixes are not tried one by one.
const BEGINNINGS_MAX: usize = 300;

/// Parses `data` and each of its prefixes.
pub fn check(data: &[u8]) {
    let whole = read_proxy_header(data);
    if let Ok(Some(header)) = whole {
        assert!(header.len <= data.len());
        assert_eq!(read_proxy_header(&data[..header.len]), whole, "what follows is not looked at");
    }
    for len in 0..data.len().min(BEGINNINGS_MAX) {
        match read_proxy_header(&data[..len]) {
            Ok(None) => {}
            decided => assert_eq!(decided, whole, "more bytes change nothing once it is decided"),
        }
    }
}
