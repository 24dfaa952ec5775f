//! Syslog: messages of RFC 5424, one for each alert that a message tells.
//!
//! In a stream each stands behind its length (RFC 6587, section 3.4.1; RFC 5425, section 4.3). No receiver of syslog answers: what was
//! written to a stream counts as taken when the receiver has closed its side after ours, or has taken all bytes; a datagram when it was sent.

use super::{Said, connect, tls};
use crate::alert::Severity;
use crate::channel::{Channel, SyslogBy, place};
use crate::delivery::Stage;
use crate::message::Message;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UdpSocket, UnixDatagram};

/// The facility: system daemons (RFC 5424, table 1).
const DAEMON: u8 = 3;
/// The longest message, in bytes: what a receiver of datagrams has to take (RFC 5424, section 6.1, "SHOULD").
const MAX_BYTES: usize = 2048;
/// A datagram that is longer is cut up on many networks.
const MAX_DATAGRAM: usize = 1400;
/// The machine's own log.
const LOCAL: &str = "/dev/log";
/// For so long a stream's receiver may take to close its side.
const LINGER: Duration = Duration::from_millis(500);

/// The severity (RFC 5424, table 2): what is over is a notice.
fn severity(severity: Severity, stage: Stage) -> u8 {
    match (stage, severity) {
        (Stage::Resolved, _) => 5,
        (Stage::Firing, Severity::Critical) => 2,
        (Stage::Firing, Severity::Warning) => 4,
        (Stage::Firing, Severity::Info) => 6,
    }
}

/// A value of structured data (RFC 5424, section 6.3.3).
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for c in text.chars() {
        if ['"', '\\', ']'].contains(&c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// Printable ASCII, as names are (RFC 5424, section 6).
fn name(text: &str, most: usize) -> String {
    let name: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

/// The time of RFC 3339, of whole seconds since 1970.
fn timestamp(seconds: u64) -> String {
    // The civil calendar, by eras of 400 years from the first of March on.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let second = seconds % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// One message of RFC 5424. Its structured data say what a program needs; `64512` stands for private use.
#[must_use]
pub fn line(message: &Message, at: Option<usize>, node: &str, now: u64) -> String {
    let told = at.and_then(|at| message.alerts.get(at));
    let level = told.map_or(6, |told| severity(told.severity, told.state));
    let priority = DAEMON * 8 + level;
    let (time, host, kind) = (
        timestamp(now),
        name(node, 255),
        name(told.map_or(message.kind, |told| &told.code), 32),
    );
    let mut line = format!("<{priority}>1 {time} {host} amita {} {kind} ", std::process::id());
    let _ = write!(
        line,
        "[alert@64512 message=\"{}\" cluster=\"{}\" channel=\"{}\"",
        message.id,
        message.cluster,
        quoted(&message.channel)
    );
    let text = match told {
        None => message.summary.clone(),
        Some(told) => {
            let state = match told.state {
                Stage::Firing => "firing",
                Stage::Resolved => "resolved",
            };
            let _ = write!(
                line,
                " id=\"{}\" state=\"{state}\" severity=\"{}\" object=\"{}\"",
                told.id,
                told.severity,
                quoted(&told.object)
            );
            match told.state {
                Stage::Firing => format!("{} {}", told.what, told.advice),
                Stage::Resolved => format!("Over: {}", told.what),
            }
        }
    };
    // The mark of UTF-8 (section 6.4).
    line.push_str("] \u{feff}");
    line.extend(text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }));
    line
}

/// As the C library writes to the machine's own log, which is not RFC 5424.
#[must_use]
pub fn local(message: &Message, at: Option<usize>) -> String {
    let told = at.and_then(|at| message.alerts.get(at));
    let level = told.map_or(6, |told| severity(told.severity, told.state));
    let text = match told {
        None => message.summary.clone(),
        Some(told) if told.state == Stage::Firing => format!(
            "alert {} {} ({}): {} {}",
            told.severity, told.code, told.object, told.what, told.advice
        ),
        Some(told) => format!("alert over, {} ({}): {}", told.code, told.object, told.what),
    };
    let text: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("<{}>amita[{}]: {text}", DAEMON * 8 + level, std::process::id())
}

fn all(message: &Message, most: usize, one: impl Fn(Option<usize>) -> String) -> Vec<String> {
    let mut lines: Vec<String> = (0..message.alerts.len()).map(|at| one(Some(at))).collect();
    // A digest says how many there are; so does a message that has none of them.
    if lines.is_empty() || message.counts.left_out > 0 {
        lines.insert(0, one(None));
    }
    lines.iter().map(|line| crate::clip(line, most)).collect()
}

/// Tells syslog.
pub(super) async fn send(channel: &Channel, by: SyslogBy, server: &str, message: &Message, node: &str) -> Said {
    let now = crate::now();
    let most = if by == SyslogBy::Udp { MAX_DATAGRAM } else { MAX_BYTES };
    let lines = all(message, most, |at| {
        if by == SyslogBy::Local {
            local(message, at)
        } else {
            line(message, at, node, now)
        }
    });
    let count = lines.len();
    if by == SyslogBy::Local {
        return to_local(&lines)
            .await
            .map(|()| format!("{count} messages are in {LOCAL}"));
    }
    let (host, port) = place(server).ok_or("the syslog server's address is no address")?;
    match by {
        SyslogBy::Udp => {
            to_datagrams(channel, &host, port, &lines).await?;
            Ok(format!("{count} datagrams were sent; nobody knows whether they arrive"))
        }
        SyslogBy::Tcp | SyslogBy::Local => {
            let stream = connect::connect(channel, &host, port).await?;
            write(stream, &lines).await?;
            Ok(format!("{count} messages were taken by the connection"))
        }
        SyslogBy::Tls => {
            let stream = connect::connect(channel, &host, port).await?;
            write(tls::wrap(channel, &host, stream).await?, &lines).await?;
            Ok(format!("{count} messages were taken by the connection"))
        }
    }
}

async fn to_local(lines: &[String]) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{LOCAL}: {why}");
    let socket = UnixDatagram::unbound().map_err(failed)?;
    socket.connect(LOCAL).map_err(failed)?;
    for line in lines {
        socket.send(line.as_bytes()).await.map_err(failed)?;
    }
    Ok(())
}

async fn to_datagrams(channel: &Channel, host: &str, port: u16, lines: &[String]) -> Result<(), String> {
    let address = connect::addresses(channel, host, port).await?[0];
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let failed = |why: std::io::Error| format!("{address}: {why}");
    let socket = UdpSocket::bind(any).await.map_err(failed)?;
    socket.connect(address).await.map_err(failed)?;
    for line in lines {
        socket.send(line.as_bytes()).await.map_err(failed)?;
    }
    Ok(())
}

/// Writes them all, ends our side, and waits a little for the receiver to end its own: one that cuts the connection has not taken them.
async fn write<S>(mut stream: S, lines: &[String]) -> Result<(), String>
where
    S: AsyncWrite + tokio::io::AsyncRead + Unpin,
{
    let failed = |why: std::io::Error| format!("the connection broke: {why}");
    let mut framed = String::new();
    for line in lines {
        let _ = write!(framed, "{} {line}", line.len());
    }
    stream.write_all(framed.as_bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    stream.shutdown().await.map_err(failed)?;
    let mut rest = [0; 64];
    match tokio::time::timeout(LINGER, stream.read(&mut rest)).await {
        Ok(Err(why)) if why.kind() == std::io::ErrorKind::ConnectionReset => Err(failed(why)),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
