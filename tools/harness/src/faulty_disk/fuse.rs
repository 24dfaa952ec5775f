//! The kernel's side of FUSE (`include/uapi/linux/fuse.h`, version 7.31): requests out of `/dev/fuse`, replies into it.
//! One folder, in it one file of a fixed size. All numbers are in the order of the machine.
//!
//! ```text
//! request  len u32, opcode u32, unique u64, node u64, uid u32, gid u32, pid u32, more u32, then what the opcode has
//! reply    len u32, error i32 (negative, or 0), unique u64, then what the opcode returns
//! ```

use super::Disk;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The name of the file.
pub(super) const FILE_NAME: &str = "store";

const ROOT: u64 = 1;
const FILE: u64 = 2;

const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// `FUSE_ASYNC_READ`, `FUSE_BIG_WRITES`, `FUSE_ASYNC_DIO`, `FUSE_MAX_PAGES`.
const FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// `FOPEN_DIRECT_IO`: what is read and written comes here, and to no cache before.
const OPEN_DIRECT_IO: u32 = 1;

const REQUEST_HEAD: usize = 40;
const REPLY_HEAD: usize = 16;
/// The longest write that the kernel may send in one piece.
const MAX_WRITE: usize = 1 << 20;
const PAGE: usize = 4096;
/// How long the kernel may believe an attribute, in seconds: they do not change.
const VALID_S: u64 = 3600;

mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
}

const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;

/// One thread that answers.
pub(super) struct Server {
    device: Arc<File>,
    disk: Arc<Disk>,
}

/// A request, as far as all have it in common.
struct Request<'a> {
    opcode: u32,
    unique: u64,
    node: u64,
    body: &'a [u8],
}

fn half(bytes: &[u8], at: usize) -> io::Result<u32> {
    let bytes = bytes.get(at..at + 4).ok_or(io::ErrorKind::InvalidData)?;
    Ok(u32::from_ne_bytes(
        bytes.try_into().map_err(|_| io::ErrorKind::InvalidData)?,
    ))
}

fn word(bytes: &[u8], at: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + 8).ok_or(io::ErrorKind::InvalidData)?;
    Ok(u64::from_ne_bytes(
        bytes.try_into().map_err(|_| io::ErrorKind::InvalidData)?,
    ))
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> io::Result<Request<'a>> {
        Ok(Request {
            opcode: half(bytes, 4)?,
            unique: word(bytes, 8)?,
            node: word(bytes, 16)?,
            body: bytes.get(REQUEST_HEAD..).ok_or(io::ErrorKind::InvalidData)?,
        })
    }
}

/// Puts numbers one after the other.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn half(mut self, value: u32) -> Body {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn word(mut self, value: u64) -> Body {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeros(mut self, bytes: usize) -> Body {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }
}

impl Server {
    pub(super) fn new(device: Arc<File>, disk: Arc<Disk>) -> Server {
        Server { device, disk }
    }

    /// Answers until the file system is gone.
    pub(super) fn run(self) {
        let mut bytes = vec![0; MAX_WRITE + PAGE];
        loop {
            let length = match (&*self.device).read(&mut bytes) {
                Ok(length) => length,
                // ENOENT: the request was taken back before anybody read it.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Interrupted)
                        || error.kind() == io::ErrorKind::WouldBlock =>
                {
                    continue;
                }
                // ENODEV: nobody has it open any more.
                Err(_) => return,
            };
            let Ok(request) = Request::parse(&bytes[..length]) else {
                return;
            };
            if matches!(
                request.opcode,
                opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT
            ) {
                continue;
            }
            let (error, body) = match self.answer(&request) {
                Ok(body) => (0, body),
                Err(error) => (
                    -error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()),
                    Vec::new(),
                ),
            };
            let mut reply = Body::default()
                .half((REPLY_HEAD + body.len()) as u32)
                .half(error as u32)
                .word(request.unique)
                .0;
            reply.extend(body);
            // It fails where whoever asked was killed meanwhile: then nobody waits.
            let _ = (&*self.device).write(&reply);
        }
    }

    fn answer(&self, request: &Request<'_>) -> io::Result<Vec<u8>> {
        let body = request.body;
        match request.opcode {
            opcode::INIT => Ok(Body::default()
                .half(MAJOR)
                .half(MINOR)
                .half(half(body, 8)?)
                .half(half(body, 12)? & FLAGS)
                // How many requests in the background, and at how many of them it is crowded: two halves of a half.
                .half(64 | 48 << 16)
                .half(MAX_WRITE as u32)
                // Times are whole nanoseconds; the most pages of one request.
                .half(1)
                .half((MAX_WRITE / PAGE) as u32)
                .zeros(32)
                .0),
            opcode::LOOKUP if request.node == ROOT && body == format!("{FILE_NAME}\0").as_bytes() => {
                let entry = Body::default().word(FILE).word(0).word(VALID_S).word(VALID_S).word(0);
                Ok(self.attributes(entry, FILE).0)
            }
            opcode::LOOKUP => Err(rustix::io::Errno::NOENT.into()),
            opcode::GETATTR => Ok(self.attributes(Body::default().word(VALID_S).word(0), request.node).0),
            opcode::OPEN => Ok(Body::default().word(0).half(OPEN_DIRECT_IO).half(0).0),
            opcode::READ => self.disk.read(word(body, 8)?, half(body, 16)? as usize),
            opcode::WRITE => {
                let (offset, bytes) = (word(body, 8)?, half(body, 16)? as usize);
                let data = body.get(40..40 + bytes).ok_or(io::ErrorKind::InvalidData)?;
                let written = self.disk.write(offset, data)?;
                Ok(Body::default().half(written as u32).half(0).0)
            }
            // No room is left: blocks, free and free for users, files and free ones, then sizes in bytes.
            opcode::STATFS => Ok(Body::default()
                .word(self.disk.size_bytes.div_ceil(PAGE as u64))
                .zeros(4 * 8)
                .half(PAGE as u32)
                .half(255)
                .half(PAGE as u32)
                .zeros(7 * 4)
                .0),
            opcode::FSYNC => self.disk.flush().map(|()| Vec::new()),
            opcode::RELEASE | opcode::DESTROY => Ok(Vec::new()),
            // What is not there the kernel does without: extended attributes, holes, locks of others. FLUSH, which comes
            // with each close, too: it would have a dying process wait for itself.
            _ => Err(rustix::io::Errno::NOSYS.into()),
        }
    }

    /// `struct fuse_attr`: of the file or of the folder.
    fn attributes(&self, before: Body, node: u64) -> Body {
        let (mode, size) = if node == FILE {
            (S_IFREG | 0o600, self.disk.size_bytes)
        } else {
            (S_IFDIR | 0o700, 0)
        };
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        before
            .word(node)
            .word(size)
            .word(size.div_ceil(512))
            // Three times, and their nanoseconds.
            .zeros(3 * 8 + 3 * 4)
            .half(mode)
            .half(1)
            .half(user.as_raw())
            .half(group.as_raw())
            .half(0)
            .half(PAGE as u32)
            .half(0)
    }
}
