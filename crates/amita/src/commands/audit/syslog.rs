//! Records as syslog takes them (RFC 5424), and ways to a receiver: TCP with frames (RFC 6587), UDP (RFC 5426), a Unix socket.

use crate::logging::timestamp;
use amita_audit::{Line, Outcome, inert};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Facility 13: log audit (RFC 5424, section 6.2.1).
const FACILITY: u32 = 13;
/// The program's name in each message.
const APP_NAME: &str = "amita-audit";
/// Lengths of fields (RFC 5424, section 6).
const MAX_HOSTNAME: usize = 255;
const MAX_MSGID: usize = 32;
/// The last second of the year 9999: years have four digits.
const LAST_SECOND: u64 = 253_402_300_799;
/// How long a receiver may take to accept a connection, or a message.
const PATIENCE: Duration = Duration::from_secs(10);
/// And to read all that it was sent, and to end the connection.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// Where programs of this machine speak to syslog.
const LOCAL: &str = "/dev/log";

/// One message. `host` is the machine that ships it. Its text is the whole line, so that whoever receives it can check the
/// chain. (A line that a hand has written may hold what a terminal obeys: that is escaped, or becomes a space between values.)
pub(super) fn message(line: &Line, host: &str, pid: u32) -> String {
    let record = line.record();
    let severity = match record.outcome {
        Outcome::Begun => 6,
        Outcome::Done => 5,
        Outcome::Failed | Outcome::Unknown | Outcome::Refused => 4,
    };
    let seconds = (record.unix_ms / 1000).min(LAST_SECOND);
    format!(
        "<{}>1 {} {} {APP_NAME} {pid} {} - {}",
        FACILITY * 8 + severity,
        timestamp(seconds, (record.unix_ms % 1000) as u32),
        field(host, MAX_HOSTNAME),
        field(&record.action, MAX_MSGID),
        inert(&line.text()).replace(char::is_control, " ")
    )
}

/// Printable ASCII without spaces, or a dash.
fn field(text: &str, most: usize) -> String {
    let kept: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if kept.is_empty() { "-".to_owned() } else { kept }
}

/// Where to ship to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A stream over the network.
    Tcp(String),
    /// Datagrams over the network, which may be lost.
    Udp(String),
    /// A socket of this machine, of either kind.
    Unix(PathBuf),
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Receiver::Tcp(address) => write!(f, "tcp:{address}"),
            Receiver::Udp(address) => write!(f, "udp:{address}"),
            Receiver::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Receiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Receiver, String> {
        let address = |address: &str| match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(address.to_owned()),
            _ => Err(format!("{address:?} is no HOST:PORT")),
        };
        match text.split_once(':') {
            _ if text == "unix" => Ok(Receiver::Unix(PathBuf::from(LOCAL))),
            Some(("unix", path)) if !path.is_empty() => Ok(Receiver::Unix(PathBuf::from(path))),
            Some(("udp", rest)) => address(rest).map(Receiver::Udp),
            Some(("tcp", rest)) => address(rest).map(Receiver::Tcp),
            _ => address(text).map(Receiver::Tcp),
        }
    }
}

/// A way to the receiver that is open.
#[derive(Debug)]
pub(super) enum Way {
    Tcp(TcpStream),
    Udp(UdpSocket),
    UnixStream(UnixStream),
    UnixDatagram(UnixDatagram),
}

impl Way {
    pub(super) fn open(receiver: &Receiver) -> io::Result<Way> {
        match receiver {
            Receiver::Tcp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for found in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&found, PATIENCE) {
                        Ok(stream) => {
                            stream.set_write_timeout(Some(PATIENCE))?;
                            return Ok(Way::Tcp(stream));
                        }
                        Err(why) => last = why,
                    }
                }
                Err(last)
            }
            Receiver::Udp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for found in address.to_socket_addrs()? {
                    let own = if found.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    let opened = UdpSocket::bind(own).and_then(|socket| socket.connect(found).map(|()| socket));
                    match opened {
                        Ok(socket) => return Ok(Way::Udp(socket)),
                        Err(why) => last = why,
                    }
                }
                Err(last)
            }
            Receiver::Unix(path) => {
                let datagram = UnixDatagram::unbound()?;
                datagram.set_write_timeout(Some(PATIENCE))?;
                match datagram.connect(path) {
                    Ok(()) => Ok(Way::UnixDatagram(datagram)),
                    // EPROTOTYPE: it is a stream.
                    Err(why) if why.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()) => {
                        let stream = UnixStream::connect(path)?;
                        stream.set_write_timeout(Some(PATIENCE))?;
                        Ok(Way::UnixStream(stream))
                    }
                    Err(why) => Err(why),
                }
            }
        }
    }

    /// Sends one message, whole.
    pub(super) fn send(&mut self, message: &str) -> io::Result<()> {
        match self {
            Way::Tcp(stream) => stream.write_all(framed(message).as_bytes()),
            Way::UnixStream(stream) => stream.write_all(framed(message).as_bytes()),
            Way::Udp(socket) => socket.send(message.as_bytes()).map(drop),
            Way::UnixDatagram(socket) => socket.send(message.as_bytes()).map(drop),
        }
    }

    /// Nothing more is sent. Of a stream: waits until the receiver has read all of it, which is when it ends the connection in its
    /// turn. What a datagram comes to is not told.
    ///
    /// # Errors
    /// The connection broke, or was not ended in time: what was sent has perhaps not arrived.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Way::Tcp(stream) => {
                stream.shutdown(Shutdown::Write)?;
                stream.set_read_timeout(Some(END_PATIENCE))?;
                read_to_end(stream)
            }
            Way::UnixStream(stream) => {
                stream.shutdown(Shutdown::Write)?;
                stream.set_read_timeout(Some(END_PATIENCE))?;
                read_to_end(stream)
            }
            Way::Udp(_) | Way::UnixDatagram(_) => Ok(()),
        }
    }
}

/// Reads until the other side ends, for as long as there is patience; a receiver of syslog says nothing.
fn read_to_end(mut stream: impl Read) -> io::Result<()> {
    let late = || {
        let what = format!(
            "it has not ended the connection within {} s, as it would have after the last record",
            END_PATIENCE.as_secs()
        );
        io::Error::new(io::ErrorKind::TimedOut, what)
    };
    let until = Instant::now() + END_PATIENCE;
    while Instant::now() < until {
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Err(late()),
            Err(why) => return Err(why),
        }
    }
    Err(late())
}

/// The length goes before the message, in a stream (RFC 6587, section 3.4.1).
fn framed(message: &str) -> String {
    format!("{} {message}", message.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_audit::{Draft, Proof, Whence, Who};

    #[test]
    fn a_record_is_a_message_of_rfc_5424() {
        let who = Who {
            name: "eve".to_owned(),
            role: "viewer".to_owned(),
            proof: Proof::Certificate,
        };
        let mut draft = Draft::new(who, Whence::default(), "volume.create", "disk0", Outcome::Refused);
        draft.unix_ms = 1_795_168_511_123;
        let line = draft.after(None);
        let said = message(&line, "host one", 7);
        let head = "<108>1 2026-11-20T09:55:11.123Z hostone amita-audit 7 volume.create - ";
        assert_eq!(said, format!("{head}{}", line.text()));
        assert_eq!(Line::parse(&said[head.len()..]).unwrap(), line);
        assert_eq!(framed("äb"), "3 äb");
        // Written by hand, with what would end a line or be obeyed.
        let text = line.text();
        let (_, body) = text.split_once(' ').unwrap();
        let body = body.replacen('{', "{\r\n", 1);
        let body = body.replace("disk0", "disk\u{202e}\u{9b}0");
        let forged = Line::parse(&format!("{} {body}", "00".repeat(32))).unwrap();
        let said = message(&forged, "h", 7);
        assert!(
            !said.chars().any(char::is_control) && said.contains("disk\\u202e\\u009b0"),
            "{said}"
        );
        assert_eq!(message(&line, "", 7).split(' ').nth(2), Some("-"));
    }

    /// Receivers of syslog take 8 KiB by default.
    #[test]
    fn the_longest_message_is_taken_by_every_receiver() {
        let who = Who {
            name: "e".repeat(9000),
            role: "r".repeat(9000),
            proof: Proof::Certificate,
        };
        let long = "\u{1}".repeat(9000);
        let mut draft = Draft::new(who, Whence::default(), &"a".repeat(99), &long, Outcome::Refused).saying(&long);
        draft.unix_ms = u64::MAX;
        let shortest = draft.after(None);
        let rest = message(&shortest, &"h".repeat(999), u32::MAX).len() - shortest.text().len();
        assert!(rest + 65 + amita_audit::MAX_BODY_BYTES <= 8 << 10, "{rest}");
    }

    #[test]
    fn receivers_are_named() {
        for (text, receiver) in [
            ("log:514", Receiver::Tcp("log:514".to_owned())),
            ("tcp:log:514", Receiver::Tcp("log:514".to_owned())),
            ("udp:[::1]:514", Receiver::Udp("[::1]:514".to_owned())),
            ("unix", Receiver::Unix("/dev/log".into())),
            ("unix:/run/log", Receiver::Unix("/run/log".into())),
        ] {
            assert_eq!(text.parse(), Ok(receiver), "{text}");
        }
        for wrong in ["", "log", "udp:log", "tcp::1", "log:x", "unix:"] {
            assert!(wrong.parse::<Receiver>().is_err(), "{wrong}");
        }
    }
}
