//! What a connection travels on.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A stream of bytes with a limit on how long a read may take: TCP, or TLS over it.
pub trait Stream: Read + Write + Send {
    /// Sets how long one read may take; what exceeds that ends with [`io::ErrorKind::WouldBlock`] or
    /// [`io::ErrorKind::TimedOut`].
    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()>;

    /// Says that no more will be written, and goes on reading.
    fn finish(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        TcpStream::set_read_timeout(self, Some(timeout))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}
