//! A small blocking NBD client, for the probe that measures how long writes pause and for tests. It speaks the fixed
//! newstyle handshake and simple replies (the NBD protocol, "Newstyle negotiation" and "Transmission phase").
//!
//! Whoever wants one thing at a time calls [`Client::read`] and [`Client::write`]. Whoever wants more under way begins
//! with [`Client::ask`] and takes the answers, in the order in which they come, with [`Client::answer`].

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_ERROR: u32 = 1 << 31;
const INFO_EXPORT: u16 = 0;
const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_TRIM: u16 = 4;
const CMD_WRITE_ZEROES: u16 = 6;
/// An answer to an option longer than this is not believed.
const MAX_OPTION_REPLY: usize = 64 * 1024;

/// What a client may ask of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdRequest<'a> {
    /// Read so many bytes.
    Read {
        /// From here on.
        offset: u64,
        bytes: u32,
    },
    /// Write these bytes.
    Write {
        /// From here on.
        offset: u64,
        data: &'a [u8],
    },
    /// These bytes are not needed any more.
    Trim {
        /// From here on.
        offset: u64,
        bytes: u32,
    },
    /// Make zeros of these bytes.
    WriteZeroes {
        /// From here on.
        offset: u64,
        bytes: u32,
    },
    /// Make everything durable that was acknowledged.
    Flush,
}

/// The number of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(u64);

/// What the server said to a request: what was read (nothing otherwise), or its error.
#[derive(Debug)]
pub struct Answered {
    /// Which request.
    pub handle: Handle,
    pub result: io::Result<Vec<u8>>,
}

/// What a client speaks over.
#[derive(Debug)]
enum Stream {
    Network(TcpStream),
    Local(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Network(stream) => stream.read(bytes),
            Stream::Local(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Network(stream) => stream.write(bytes),
            Stream::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open export.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    /// Where it was opened, what, and with which patience; none: by a Unix socket.
    origin: Option<(SocketAddr, String, Duration)>,
    size_bytes: u64,
    next_handle: u64,
    /// What is under way, with the bytes that follow a good answer.
    under_way: BTreeMap<u64, usize>,
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl Client {
    /// Connects and opens an export. `patience` bounds the connect and every later wait for the server.
    ///
    /// # Errors
    /// When there is no server, it does not have the export, or it does not speak the protocol.
    pub fn open(server: SocketAddr, export: &str, patience: Duration) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&server, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut client = Client::negotiate(Stream::Network(stream), &server.to_string(), export)?;
        client.origin = Some((server, export.to_owned(), patience));
        Ok(client)
    }

    /// Opens the same export at the same server, in place of a connection that has ended.
    ///
    /// # Errors
    /// As for [`Client::open`]; and where it was opened by a Unix socket.
    pub fn reopen(&mut self) -> io::Result<()> {
        let (server, export, patience) = self.origin.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        *self = Client::open(*server, export, *patience)?;
        Ok(())
    }

    /// The same by a Unix socket.
    ///
    /// # Errors
    /// When nobody serves there, or the file may not be opened; as for [`Client::open`].
    pub fn open_socket(path: &Path, export: &str, patience: Duration) -> io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Client::negotiate(Stream::Local(stream), &path.display().to_string(), export)
    }

    fn negotiate(stream: Stream, server: &str, export: &str) -> io::Result<Client> {
        let mut client = Client {
            stream,
            origin: None,
            size_bytes: 0,
            next_handle: 1,
            under_way: BTreeMap::new(),
        };
        if client.u64()? != NBDMAGIC || client.u64()? != IHAVEOPT {
            return Err(refused(format!("{server} is no NBD server of the newstyle")));
        }
        let flags = client.u16()?;
        // Fixed newstyle and no padding: the client echoes what both know.
        client.stream.write_all(&u32::from(flags & 3).to_be_bytes())?;
        let mut option = Vec::with_capacity(32 + export.len());
        option.extend(IHAVEOPT.to_be_bytes());
        option.extend(OPT_GO.to_be_bytes());
        option.extend((export.len() as u32 + 6).to_be_bytes());
        option.extend((export.len() as u32).to_be_bytes());
        option.extend(export.as_bytes());
        option.extend(0u16.to_be_bytes());
        client.stream.write_all(&option)?;
        loop {
            let (magic, _option, kind, length) = (client.u64()?, client.u32()?, client.u32()?, client.u32()? as usize);
            if magic != OPTION_REPLY_MAGIC || length > MAX_OPTION_REPLY {
                return Err(refused(format!(
                    "{server} answers an option with magic {magic:#x}, length {length}"
                )));
            }
            let mut data = vec![0; length];
            client.stream.read_exact(&mut data)?;
            match kind {
                REP_ACK => return Ok(client),
                REP_INFO if data.len() >= 12 && u16::from_be_bytes([data[0], data[1]]) == INFO_EXPORT => {
                    let mut size = [0; 8];
                    size.copy_from_slice(&data[2..10]);
                    client.size_bytes = u64::from_be_bytes(size);
                }
                REP_INFO => {}
                error if error & REP_ERROR != 0 => {
                    let words = String::from_utf8_lossy(&data).into_owned();
                    return Err(io::Error::other(format!(
                        "{server} refuses export {export:?}: {error:#x} {words}"
                    )));
                }
                other => return Err(refused(format!("{server} answers an option with {other:#x}"))),
            }
        }
    }

    /// Bytes of the export.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Writes, and waits for the answer. Nothing else may be under way.
    ///
    /// # Errors
    /// When the server answers with an error, or the connection breaks: then nothing is known of the write.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let handle = self.ask(NbdRequest::Write { offset, data })?;
        self.only(handle).map(drop)
    }

    /// Reads into `buffer`. Nothing else may be under way.
    ///
    /// # Errors
    /// When the server answers with an error, or the connection breaks.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = buffer.len() as u32;
        let handle = self.ask(NbdRequest::Read { offset, bytes })?;
        buffer.copy_from_slice(&self.only(handle)?);
        Ok(())
    }

    /// Sends a request, and does not wait for its answer.
    ///
    /// # Errors
    /// When the connection breaks: then nothing is known of anything that is under way.
    pub fn ask(&mut self, ask: NbdRequest<'_>) -> io::Result<Handle> {
        let none: &[u8] = &[];
        let (handle, answer_bytes) = match ask {
            NbdRequest::Read { offset, bytes } => (self.request(CMD_READ, offset, bytes, none)?, bytes as usize),
            NbdRequest::Write { offset, data } => (self.request(CMD_WRITE, offset, data.len() as u32, data)?, 0),
            NbdRequest::Trim { offset, bytes } => (self.request(CMD_TRIM, offset, bytes, none)?, 0),
            NbdRequest::WriteZeroes { offset, bytes } => (self.request(CMD_WRITE_ZEROES, offset, bytes, none)?, 0),
            NbdRequest::Flush => (self.request(CMD_FLUSH, 0, 0, none)?, 0),
        };
        self.under_way.insert(handle, answer_bytes);
        Ok(Handle(handle))
    }

    /// How many requests are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Waits for the next answer, whichever request it is for.
    ///
    /// # Errors
    /// When the connection breaks, the server says nothing for longer than the client's patience, or what it says is no
    /// answer to anything.
    pub fn answer(&mut self) -> io::Result<Answered> {
        // Magic, error and handle, by one call of the system.
        let head = u128::from_be_bytes(self.bytes()?);
        let (magic, error, handle) = ((head >> 96) as u32, (head >> 64) as u32, head as u64);
        let bytes = self.under_way.remove(&handle);
        let (REPLY_MAGIC, Some(bytes)) = (magic, bytes) else {
            return Err(refused(format!(
                "a reply with magic {magic:#x} for handle {handle}, which nobody has asked"
            )));
        };
        let result = if error == 0 {
            let mut data = vec![0; bytes];
            self.stream.read_exact(&mut data)?;
            Ok(data)
        } else {
            Err(io::Error::from_raw_os_error(error as i32))
        };
        let handle = Handle(handle);
        Ok(Answered { handle, result })
    }

    /// Says good-bye.
    pub fn close(mut self) {
        // The server may be gone already; then there is nobody to say it to.
        let _ = self.request(CMD_DISC, 0, 0, &[]);
    }

    /// The answer to the only request under way.
    fn only(&mut self, handle: Handle) -> io::Result<Vec<u8>> {
        let answered = self.answer()?;
        if answered.handle != handle {
            return Err(refused("an answer to an earlier request".to_owned()));
        }
        answered.result
    }

    fn request(&mut self, command: u16, offset: u64, length: u32, payload: &[u8]) -> io::Result<u64> {
        let handle = self.next_handle;
        self.next_handle += 1;
        let mut frame = Vec::with_capacity(28 + payload.len());
        frame.extend(REQUEST_MAGIC.to_be_bytes());
        frame.extend(0u16.to_be_bytes());
        frame.extend(command.to_be_bytes());
        frame.extend(handle.to_be_bytes());
        frame.extend(offset.to_be_bytes());
        frame.extend(length.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)?;
        Ok(handle)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u16(&mut self) -> io::Result<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.bytes().map(u64::from_be_bytes)
    }
}
