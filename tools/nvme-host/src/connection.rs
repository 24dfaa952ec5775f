//! One connection: bytes out, PDUs in.

use crate::wire::{Digests, Pdu, Spoil, icreq, kind};
use crate::{Error, Stream};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What a connection asks for when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialize {
    /// The digests asked for; the target may decline.
    pub digests: Digests,
    /// How the target shall align data: (this + 1) times four bytes.
    pub alignment: u8,
    /// R2Ts that may be outstanding for one command, less one.
    pub max_r2t: u32,
}

impl Default for Initialize {
    fn default() -> Self {
        Initialize {
            digests: Digests::NONE,
            alignment: 0,
            max_r2t: 0,
        }
    }
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialized {
    pub digests: Digests,
    /// The alignment that the target wants, in bytes.
    pub alignment: usize,
    /// The most data in one H2CData.
    pub max_h2c_data: u32,
}

/// A connection to a target.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// What was received and not yet taken: `inbox[taken..]`.
    inbox: Vec<u8>,
    taken: usize,
    digests: Digests,
    /// Alignment in bytes of the data sent, and of the data received.
    to_target: usize,
    to_host: usize,
    timeout: Duration,
}

impl Connection {
    /// Connects by TCP. `timeout` is how long it waits for anything, later too.
    ///
    /// # Errors
    /// When the target cannot be reached in time.
    pub fn connect(address: SocketAddr, timeout: Duration) -> Result<Connection, Error> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection::over(Box::new(stream), timeout))
    }

    /// A connection over a stream that is already there, TLS for example.
    #[must_use]
    pub fn over(stream: Box<dyn Stream>, timeout: Duration) -> Connection {
        Connection {
            stream,
            inbox: Vec::new(),
            taken: 0,
            digests: Digests::NONE,
            to_target: 4,
            to_host: 4,
            timeout,
        }
    }

    /// How long it waits for anything.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Says what is wanted, and learns what was agreed on (TCP Transport 1.1, 3.4).
    ///
    /// # Errors
    /// When the target ends the connection, or answers what the specification forbids.
    pub fn initialize(&mut self, wish: Initialize) -> Result<Initialized, Error> {
        let digests = u8::from(wish.digests.header) | u8::from(wish.digests.data) << 1;
        self.send(&icreq(0, wish.alignment, digests, wish.max_r2t).encode(Digests::NONE, 4))?;
        self.to_host = (usize::from(wish.alignment) + 1) * 4;
        let answer = self.next()?;
        if answer.kind != kind::IC_RESP {
            return Err(Error::Malformed(format!("it answered ICReq with {answer:?}")));
        }
        self.initialized(&answer, wish)
    }

    /// Takes over what an ICResp says.
    ///
    /// # Errors
    /// When it says what was not asked for.
    pub fn initialized(&mut self, answer: &Pdu, wish: Initialize) -> Result<Initialized, Error> {
        let format = answer.u16_at(8);
        let (alignment, digests) = (answer.specific[2], answer.specific[3]);
        let max_h2c_data = answer.u32_at(12);
        let agreed = Digests {
            header: digests & 1 != 0,
            data: digests & 2 != 0,
        };
        if format != 0 || alignment > 31 || digests > 3 {
            return Err(Error::Malformed(format!(
                "its ICResp has PFV {format}, CPDA {alignment}, DGST {digests:#x}"
            )));
        }
        if agreed.header && !wish.digests.header || agreed.data && !wish.digests.data {
            return Err(Error::Malformed(
                "its ICResp enables a digest that was not asked for".into(),
            ));
        }
        // TCP Transport 1.1, 3.6.2.3: at least 4,096, and a multiple of dwords.
        if max_h2c_data < 4096 || !max_h2c_data.is_multiple_of(4) {
            return Err(Error::Malformed(format!("MAXH2CDATA of its ICResp is {max_h2c_data}")));
        }
        if answer.specific[8..].iter().any(|&byte| byte != 0) {
            return Err(Error::Malformed("reserved bytes of its ICResp are not zero".into()));
        }
        self.digests = agreed;
        self.to_target = (usize::from(alignment) + 1) * 4;
        Ok(Initialized {
            digests: agreed,
            alignment: self.to_target,
            max_h2c_data,
        })
    }

    /// The digests in use.
    #[must_use]
    pub fn digests(&self) -> Digests {
        self.digests
    }

    /// Sends any bytes.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout("the target to take what is sent"),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Error::Closed,
            _ => Error::Io(error),
        })
    }

    /// Sends a PDU, encoded as the connection has it.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send_pdu(&mut self, pdu: &Pdu) -> Result<(), Error> {
        self.send_spoilt(pdu, Spoil::default())
    }

    /// Sends a PDU with something made wrong.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send_spoilt(&mut self, pdu: &Pdu, spoil: Spoil) -> Result<(), Error> {
        let bytes = self.encode(pdu, spoil);
        self.send(&bytes)
    }

    /// The bytes of a PDU as the connection has them.
    #[must_use]
    pub fn encode(&self, pdu: &Pdu, spoil: Spoil) -> Vec<u8> {
        pdu.encode_spoilt(self.digests, self.to_target, spoil)
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn finish(&mut self) -> Result<(), Error> {
        Ok(self.stream.finish()?)
    }

    /// The next PDU, decoded and checked.
    ///
    /// # Errors
    /// [`Error::Terminated`] for a C2HTermReq, [`Error::Closed`] and [`Error::Timeout`], [`Error::Malformed`] for what a
    /// target may not send.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Pdu, Error> {
        let deadline = Instant::now() + self.timeout;
        self.next_until(deadline)
    }

    /// The next PDU, if it comes until then.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn next_until(&mut self, deadline: Instant) -> Result<Pdu, Error> {
        loop {
            if let Some(length) = Pdu::length(&self.inbox[self.taken..])?
                && self.inbox.len() - self.taken >= length
            {
                let bytes = &self.inbox[self.taken..self.taken + length];
                let pdu = Pdu::decode(bytes, self.digests, self.to_host)?;
                self.taken += length;
                if self.taken == self.inbox.len() {
                    self.inbox.clear();
                    self.taken = 0;
                }
                if pdu.kind == kind::C2H_TERM_REQ {
                    return Err(Error::Terminated {
                        fatal: pdu.u16_at(8),
                        field: pdu.u32_at(10),
                        header: pdu.data,
                    });
                }
                return Ok(pdu);
            }
            self.receive(deadline)?;
        }
    }

    /// Waits for the connection's end, passing over what still comes.
    ///
    /// # Errors
    /// [`Error::Timeout`] when the target does not close in time.
    pub fn wait_closed(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.receive(deadline) {
                Ok(()) => self.inbox.clear(),
                Err(Error::Closed) => return Ok(()),
                Err(Error::Timeout(_)) => return Err(Error::Timeout("the target to close the connection")),
                Err(other) => return Err(other),
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), Error> {
        /// Bytes of one read: a command's data come in a few.
        const READ_BYTES: usize = 256 << 10;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout("a PDU"));
        }
        self.stream.set_read_timeout(left)?;
        if self.taken > 0 {
            self.inbox.drain(..self.taken);
            self.taken = 0;
        }
        let old = self.inbox.len();
        self.inbox.resize(old + READ_BYTES, 0);
        let outcome = self.stream.read(&mut self.inbox[old..]);
        self.inbox.truncate(old + *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) => Err(Error::Closed),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(Error::Timeout("a PDU")),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Err(Error::Closed),
                ErrorKind::Interrupted => Ok(()),
                _ => Err(Error::Io(error)),
            },
        }
    }
}
