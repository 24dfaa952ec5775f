//! The little of HTTP/1.1 (RFC 9112) that is wanted: one request, one answer, bodies of a told length. Everything else is
//! refused, and everything has a limit.

use std::io::{self, Read};
use zeroize::Zeroizing;

/// The longest head: ours have some 200 bytes.
const MAX_HEAD: usize = 4 << 10;
/// The longest body of a request: a signing request has 350 bytes.
pub(super) const MAX_REQUEST: usize = 8 << 10;
/// The longest body of an answer: a list of some thousand revoked certificates.
pub(super) const MAX_ANSWER: usize = 1 << 20;

/// Why a message is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadHttp {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("not the HTTP that is spoken here: {0}")]
    Form(&'static str),
    #[error("longer than {0} bytes")]
    Long(usize),
}

/// A request. It may hold a token: it is wiped.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// What stands behind `Bearer`.
    pub(super) token: Option<Zeroizing<String>>,
    pub(super) body: Zeroizing<String>,
}

/// The first line, the fields that count, and what was already read of the body.
struct Head {
    first: String,
    length: usize,
    token: Option<Zeroizing<String>>,
    begun: Zeroizing<Vec<u8>>,
}

fn read_head(from: &mut impl Read, longest: usize) -> Result<Head, BadHttp> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_HEAD));
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() == MAX_HEAD {
            return Err(BadHttp::Long(MAX_HEAD));
        }
        let read = from
            .take((MAX_HEAD - bytes.len()) as u64)
            .read_to_end_once(&mut bytes)?;
        if read == 0 {
            return Err(BadHttp::Form("it ends in its head"));
        }
    };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| BadHttp::Form("its head is not text"))?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let (mut length, mut token) = (None, None);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(BadHttp::Form("a field without a colon"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            // Digits only: a sign or two lengths are how messages are smuggled in.
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || length.is_some() {
                return Err(BadHttp::Form("its length"));
            }
            length = Some(value.parse().map_err(|_| BadHttp::Long(longest))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(BadHttp::Form("an encoding of the body"));
        } else if name.eq_ignore_ascii_case("authorization") {
            token = value
                .strip_prefix("Bearer ")
                .map(|token| Zeroizing::new(token.to_owned()));
        }
    }
    let length = length.unwrap_or(0);
    if length > longest {
        return Err(BadHttp::Long(longest));
    }
    Ok(Head {
        first,
        length,
        token,
        begun: Zeroizing::new(bytes[end + 4..].to_vec()),
    })
}

trait ReadOnce: Read {
    /// One read, added to what is there: never more than the vector has room for, so that it does not move.
    fn read_to_end_once(&mut self, into: &mut Vec<u8>) -> io::Result<usize>;
}

impl<R: Read> ReadOnce for io::Take<R> {
    fn read_to_end_once(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let begin = into.len();
        let room = usize::try_from(self.limit()).unwrap_or(usize::MAX);
        into.resize(begin + room, 0);
        let read = self.read(&mut into[begin..]);
        into.truncate(begin + *read.as_ref().unwrap_or(&0));
        read
    }
}

fn read_body(from: &mut impl Read, head: &Head) -> Result<Zeroizing<String>, BadHttp> {
    if head.begun.len() > head.length {
        return Err(BadHttp::Form("more than its length"));
    }
    let mut body = Zeroizing::new(vec![0; head.length]);
    body[..head.begun.len()].copy_from_slice(&head.begun);
    from.read_exact(&mut body[head.begun.len()..])?;
    let text = std::str::from_utf8(&body).map_err(|_| BadHttp::Form("its body is not text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

pub(super) fn read_request(from: &mut impl Read) -> Result<Request, BadHttp> {
    let mut head = read_head(from, MAX_REQUEST)?;
    let mut words = head.first.split(' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(path), Some("HTTP/1.1"), None) = (method, path, version, words.next()) else {
        return Err(BadHttp::Form("its first line"));
    };
    let (method, path) = (method.to_owned(), path.to_owned());
    let body = read_body(from, &head)?;
    Ok(Request {
        method,
        path,
        token: head.token.take(),
        body,
    })
}

/// The status and the body of an answer.
pub(super) fn read_answer(from: &mut impl Read) -> Result<(u16, String), BadHttp> {
    let head = read_head(from, MAX_ANSWER)?;
    let status = head.first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    let status = status.ok_or(BadHttp::Form("its first line"))?;
    Ok((status, read_body(from, &head)?.to_string()))
}

pub(super) fn request(method: &str, path: &str, token: Option<&str>, body: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(body.len() + 512));
    for part in [
        method,
        " ",
        path,
        " HTTP/1.1\r\nhost: authority\r\nconnection: close\r\n",
    ] {
        text.push_str(part);
    }
    if let Some(token) = token {
        for part in ["authorization: Bearer ", token, "\r\n"] {
            text.push_str(part);
        }
    }
    for part in ["content-length: ", &body.len().to_string(), "\r\n\r\n", body] {
        text.push_str(part);
    }
    text
}

pub(super) fn answer(status: u16, body: &str) -> String {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        _ => "Internal Server Error",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
