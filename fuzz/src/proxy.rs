//! The PROXY header: how much of it has come decides only whether it is all there, not what it says.

use crate::http_wire::read_proxy_header;

/// Beginnings longer than this are not tried one by one.
const BEGINNINGS_MAX: usize = 300;

/// Reads `data` and each of its beginnings.
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
