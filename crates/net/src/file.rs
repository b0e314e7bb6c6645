//! Reads files that frontends and backends name: as a whole, up to a maximum size.
//!
//! Promises that a path other than a regular file causes no delay: a pipe, a device or a directory is refused, not
//! read.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Reads a file of at most `bytes_max` bytes.
pub fn read(name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would block until a process opens it for writing.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(name)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = vec![];
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::Error::other(format!("it has more than {bytes_max} bytes"))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn only_files_of_a_bearable_size_are_read() {
        let name = std::env::temp_dir().join(format!("paceline-file-{}", std::process::id()));
        let name = name.to_str().unwrap();
        std::fs::write(name, "1234").unwrap();
        assert_eq!(read(name, 4).unwrap(), b"1234");
        assert_eq!(read(name, 3).unwrap_err().to_string(), "it has more than 3 bytes");
        std::fs::remove_file(name).unwrap();
        for other in ["/dev/zero", "/dev", "/dev/null"] {
            assert!(read(other, 4).is_err(), "{other}");
        }
        // A pipe that no process writes to.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            name,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(read(name, 4).unwrap_err().to_string(), "it is not a regular file");
        std::fs::remove_file(name).unwrap();
    }
}
