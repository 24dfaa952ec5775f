//! What is posted by HTTP/1.1 to a receiver of a test.

use std::io::Read;
use std::net::TcpStream;

/// A request.
pub struct Posted {
    /// Its first line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Posted {
    /// The next one of a connection; none: it has ended, or what comes is no request with a length.
    pub fn read(mut stream: &TcpStream) -> Option<Posted> {
        let mut seen = Vec::new();
        let mut piece = [0; 8192];
        loop {
            let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
            seen.extend_from_slice(&piece[..read]);
            let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let mut posted = Posted {
                head: String::from_utf8_lossy(&seen[..at]).into_owned(),
                body: Vec::new(),
            };
            let end = at + 4 + posted.header("content-length")?.parse::<usize>().ok()?;
            if seen.len() >= end {
                posted.body = seen[at + 4..end].to_vec();
                return Some(posted);
            }
        }
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
    }
}
