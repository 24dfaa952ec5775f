//! A small S3: it keeps the contract as far as the store here needs it, and fails as it is told to.

use crate::store::memory::Memory;
use crate::store::{ObjectStore, Put, Retention};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends, and nothing is done.
    Cut,
    /// It is done, and the connection ends.
    Lost,
    /// Nothing is done, and that is answered.
    Status(u16),
    /// The same, with a code.
    Error(u16, &'static str),
    /// It is done, and the answer ends before its end.
    Half,
}

#[derive(Default)]
struct Shared {
    objects: Memory,
    faults: Mutex<VecDeque<Option<Fault>>>,
    heads: Mutex<Vec<String>>,
    asked: AtomicUsize,
    overwrites: AtomicBool,
    has_no_locks: AtomicBool,
    ends: AtomicBool,
}

/// It ends with this.
pub struct Server {
    endpoint: String,
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
}

struct Asked {
    method: String,
    name: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

fn error(status: u16, code: &str) -> Answer {
    let body = match code {
        "" => "gone".to_owned(),
        code => format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>so it is</Message></Error>"),
    };
    Answer {
        status,
        body: body.into_bytes(),
    }
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if all.ends.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, all) = (stream.unwrap(), Arc::clone(&all));
                std::thread::spawn(move || serve(&stream, &all));
            }
        });
        Server {
            endpoint: format!("http://{address}"),
            shared,
            address,
        }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn names(&self) -> Vec<String> {
        self.shared.objects.names("")
    }

    pub fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().unwrap().clone()
    }

    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// What becomes of the next requests.
    pub fn fail(&self, faults: &[Fault]) {
        self.shared
            .faults
            .lock()
            .unwrap()
            .extend(faults.iter().copied().map(Some));
    }

    /// The same, with good ones in between.
    pub fn sprinkle(&self, faults: &[Fault]) {
        let mut all = self.shared.faults.lock().unwrap();
        all.extend(faults.iter().flat_map(|fault| [None, Some(*fault), None]));
    }

    pub fn set_overwrites(&self, overwrites: bool) {
        self.shared.overwrites.store(overwrites, Ordering::SeqCst);
    }

    pub fn set_locks(&self, has: bool) {
        self.shared.has_no_locks.store(!has, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            byte => byte,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).unwrap()
}

fn read(reader: &mut BufReader<&TcpStream>, all: &Shared) -> Option<Asked> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    all.heads.lock().unwrap().push(head.clone());
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let name = path.strip_prefix("/vaults").unwrap().trim_start_matches('/').to_owned();
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query = pairs.map(|(key, value)| (decoded(key), decoded(value))).collect();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut asked = Asked {
        method,
        name,
        query,
        headers,
        body: Vec::new(),
    };
    let length = asked
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    asked.body.resize(length, 0);
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}

fn serve(stream: &TcpStream, all: &Shared) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader, all) {
        all.asked.fetch_add(1, Ordering::SeqCst);
        let fault = all.faults.lock().unwrap().pop_front().flatten();
        let answer = match fault {
            Some(Fault::Cut) => break,
            Some(Fault::Status(status)) => error(status, "SlowDown"),
            Some(Fault::Error(status, code)) => error(status, code),
            _ => done(&asked, all),
        };
        if fault == Some(Fault::Lost) {
            break;
        }
        let length = answer.body.len() + usize::from(fault == Some(Fault::Half));
        let head = format!("HTTP/1.1 {} x\r\ncontent-length: {length}\r\n\r\n", answer.status);
        let mut out = stream;
        if out
            .write_all(head.as_bytes())
            .and_then(|()| out.write_all(&answer.body))
            .is_err()
            || fault == Some(Fault::Half)
        {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn seconds(text: &str) -> Retention {
    Retention(super::super::request::seconds(text).unwrap())
}

fn done(asked: &Asked, all: &Shared) -> Answer {
    let (objects, name) = (&all.objects, asked.name.as_str());
    let ok = |body: Vec<u8>| Answer { status: 200, body };
    let has_locks = !all.has_no_locks.load(Ordering::SeqCst);
    if asked.query("retention").is_some() {
        if !has_locks {
            return error(400, "InvalidRequest");
        }
        if asked.method == "PUT" {
            let text = String::from_utf8(asked.body.clone()).unwrap();
            let date = text
                .split("<RetainUntilDate>")
                .nth(1)
                .unwrap()
                .split('<')
                .next()
                .unwrap();
            objects.retain(name, seconds(date)).unwrap();
            return ok(Vec::new());
        }
        let held = objects.with(|objects| objects.get(name).map(|(_, held)| held.0));
        return match held {
            Some(held) if held > 0 => {
                let date = jiff::Timestamp::from_second(held as i64).unwrap();
                ok(
                    format!("<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>{date}</RetainUntilDate></Retention>")
                        .into_bytes(),
                )
            }
            _ => error(400, "NoSuchObjectLockConfiguration"),
        };
    }
    match asked.method.as_str() {
        "PUT" => {
            if all.overwrites.load(Ordering::SeqCst) || asked.header("if-none-match") != Some("*") {
                objects.delete(name).unwrap();
            }
            let retain = asked.header("x-amz-object-lock-retain-until-date").map(seconds);
            match objects.put(name, &asked.body, retain).unwrap() {
                Put::New => ok(Vec::new()),
                Put::Exists => error(412, "PreconditionFailed"),
            }
        }
        "DELETE" => {
            objects.with(|objects| objects.remove(name));
            Answer {
                status: 204,
                body: Vec::new(),
            }
        }
        _ if asked.query("list-type").is_some() => {
            let most = asked.query("max-keys").unwrap().parse().unwrap();
            let listed = objects.list(
                asked.query("prefix").unwrap(),
                asked.query("start-after").unwrap_or(""),
                most,
            );
            let contents = listed.unwrap().into_iter().map(|object| {
                format!(
                    "<Contents><Key>{}</Key><Size>{}</Size></Contents>",
                    object.name, object.bytes
                )
            });
            let head = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
            let text = format!(
                "{head}<MaxKeys>{most}</MaxKeys>{}</ListBucketResult>",
                contents.collect::<String>()
            );
            ok(text.into_bytes())
        }
        _ => {
            let Some(bytes) = objects.get(name).unwrap() else {
                return error(404, "NoSuchKey");
            };
            let Some(range) = asked.header("range") else {
                return ok(bytes);
            };
            let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            if first >= bytes.len() as u64 {
                return error(416, "InvalidRange");
            }
            let last = last.min(bytes.len() as u64 - 1);
            Answer {
                status: 206,
                body: bytes[first as usize..=last as usize].to_vec(),
            }
        }
    }
}
