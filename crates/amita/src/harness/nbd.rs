//! A small blocking NBD client at depth 1, for the probe that measures how long writes pause. It speaks the fixed
//! newstyle handshake and simple replies (the NBD protocol, "Newstyle negotiation" and "Transmission phase").

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
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
/// An answer to an option longer than this is not believed.
const MAX_OPTION_REPLY: usize = 64 * 1024;

/// An open export.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    size_bytes: u64,
    next_handle: u64,
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
        let mut client = Client {
            stream,
            size_bytes: 0,
            next_handle: 1,
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

    /// Writes, and waits for the answer.
    ///
    /// # Errors
    /// When the server answers with an error, or the connection breaks: then nothing is known of the write.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let handle = self.request(CMD_WRITE, offset, data.len() as u32, data)?;
        self.reply(handle)
    }

    /// Reads into `buffer`.
    ///
    /// # Errors
    /// When the server answers with an error, or the connection breaks.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let handle = self.request(CMD_READ, offset, buffer.len() as u32, &[])?;
        self.reply(handle)?;
        self.stream.read_exact(buffer)
    }

    /// Says good-bye.
    pub fn close(mut self) {
        // The server may be gone already; then there is nobody to say it to.
        let _ = self.request(CMD_DISC, 0, 0, &[]);
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

    fn reply(&mut self, handle: u64) -> io::Result<()> {
        let (magic, error, of) = (self.u32()?, self.u32()?, self.u64()?);
        if magic != REPLY_MAGIC || of != handle {
            return Err(refused(format!(
                "a reply with magic {magic:#x} for handle {of} where {handle} was asked"
            )));
        }
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error as i32));
        }
        Ok(())
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
