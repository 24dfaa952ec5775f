//! The client's end of a connection: it asks for one export, and sends requests. Without I/O of its own, as the server's.
//!
//! What it speaks is the least that the specification knows: the fixed newstyle handshake, `NBD_OPT_STARTTLS` where it is to use TLS
//! (and then nothing without), `NBD_OPT_GO`, and simple replies. What the server says is believed as little as a client is at a
//! server: lengths are checked before anything is waited for, and an answer that was not asked for ends the connection.

use crate::tls::{RECEIVE_BYTES, TlsStream};
use crate::wire::{
    INIT_PASSWD, MAX_STRING_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, Reader, SIMPLE_REPLY_MAGIC, Writer,
    command, handshake_flag, info, option as opt, reply, transmission_flag,
};
use amita_frontend::Source;
use amita_frontend::pieces::is_chunk_size;
use amita_reactor::{Inbox, Outbox, Pool, Slice};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the server's greeting, of the beginning of an option's reply, and of a simple reply.
const GREETING_BYTES: usize = 18;
const OPTION_REPLY_BYTES: usize = 20;
const REPLY_BYTES: usize = 16;
/// The longest data of an option's reply: a text, and some numbers.
const MAX_OPTION_REPLY_BYTES: u32 = MAX_STRING_BYTES as u32 + 64;
/// Replies to one option, at most: an export is described by four.
const MAX_OPTION_REPLIES: u32 = 64;

/// What a connection is made for.
#[derive(Clone, Debug)]
pub struct Dial {
    /// The export's name.
    pub export: String,
    /// What TLS is made of, and the name that the server's certificate is checked against; `None`: plain text.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// What the server has said.
#[derive(Debug)]
pub enum Word {
    /// The export is open: requests may be sent.
    Open {
        /// Bytes.
        size_bytes: u64,
        /// May it be read only?
        read_only: bool,
        /// What the server says of it, for people: of one volume always the same, of no other one that.
        description: String,
        /// Requests that stay inside so many bytes are carried out whole; `None`: it does not say.
        chunk_bytes: Option<u32>,
    },
    /// The export is not open, and the connection of no more use.
    Refused {
        /// There is none of that name, for this client.
        unknown: bool,
        /// The server's reason, as it says it.
        why: String,
    },
    /// A request has ended.
    Answer {
        /// As it was sent.
        cookie: u64,
        /// 0, or one of [`crate::wire::Errno`], or another number.
        error: u32,
        /// What a read that went well has read: just as much as was asked for.
        data: Slice,
    },
}

/// A request ("Request message").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// One of [`crate::wire::command`].
    pub command: u16,
    /// Comes back with the answer; not that of another request under way.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

enum Phase {
    Greeting,
    StartTls,
    /// With what was said of the export.
    Go {
        replies: u32,
        export: Option<(u64, u16)>,
        description: String,
    },
    Serving,
    /// Refused: nothing more is read.
    Over,
}

/// One connection.
pub struct Connection {
    dial: Dial,
    phase: Phase,
    tls: Option<Box<TlsStream>>,
    /// What is under way, and how many bytes its answer brings.
    asked: HashMap<u64, u32>,
}

impl Connection {
    /// One that was just made.
    #[must_use]
    pub fn new(dial: Dial) -> Connection {
        Connection {
            dial,
            phase: Phase::Greeting,
            tls: None,
            asked: HashMap::new(),
        }
    }

    /// Takes in what came, and appends what it says. Once more, when memory was short.
    ///
    /// # Errors
    /// The connection is of no more use; in words.
    pub fn received(
        &mut self,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        words: &mut Vec<Word>,
    ) -> Result<(), String> {
        if self.tls.is_none() {
            self.parse(inbox, outbox, pool, words)?;
        }
        let Some(mut tls) = self.tls.take() else { return Ok(()) };
        let result = self.through_tls(&mut tls, inbox, outbox, pool, words);
        // Also what says why this end gives up.
        tls.encrypt(outbox, pool);
        tls.rest();
        self.tls = Some(tls);
        result
    }

    fn through_tls(
        &mut self,
        tls: &mut TlsStream,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        words: &mut Vec<Word>,
    ) -> Result<(), String> {
        loop {
            self.parse(&mut tls.inbox, &mut tls.outbox, pool, words)?;
            tls.encrypt(outbox, pool);
            if !tls.decrypt(inbox, pool, RECEIVE_BYTES)? {
                return Ok(());
            }
        }
    }

    /// Is it memory for what has come already that [`Connection::received`] waits for?
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.tls.as_deref().is_some_and(TlsStream::is_short)
    }

    /// Is the export open: may requests be sent?
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    /// Sends a request. What it is made of goes out with [`Connection::flush`].
    ///
    /// # Panics
    /// Where nothing is open, or another one has the same cookie: callers look.
    pub fn ask(&mut self, ask: Ask, data: Slice, outbox: &mut Outbox, pool: &Pool) {
        assert!(self.is_open(), "a request to an export that is not open");
        let brings = if ask.command == command::READ { ask.length } else { 0 };
        assert!(
            self.asked.insert(ask.cookie, brings).is_none(),
            "two requests of one cookie"
        );
        let head = Writer::<28>::new().u32(REQUEST_MAGIC).u16(0).u16(ask.command);
        let head = head.u64(ask.cookie).u64(ask.offset).u32(ask.length);
        let outbox = match &mut self.tls {
            Some(tls) => &mut tls.outbox,
            None => outbox,
        };
        outbox.append(pool, head.as_bytes());
        outbox.push(data);
    }

    /// Encrypts what was asked for since the last time.
    pub fn flush(&mut self, outbox: &mut Outbox, pool: &Pool) {
        if let Some(tls) = &mut self.tls {
            tls.encrypt(outbox, pool);
        }
    }

    /// Says that nothing follows ("NBD_CMD_DISC").
    pub fn leave(&mut self, outbox: &mut Outbox, pool: &Pool) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        let head = Writer::<28>::new().u32(REQUEST_MAGIC).u16(0).u16(command::DISC);
        let head = head.u64(0).u64(0).u32(0);
        match &mut self.tls {
            Some(tls) => {
                tls.outbox.append(pool, head.as_bytes());
                tls.encrypt(outbox, pool);
            }
            None => outbox.append(pool, head.as_bytes()),
        }
        self.phase = Phase::Over;
    }

    /// Has the server shown what it has to (by TLS, where that is wanted), and is it only the export that is waited for?
    #[must_use]
    pub fn waits_for_export(&self) -> bool {
        matches!(self.phase, Phase::Go { .. }) && (self.dial.tls.is_none() || self.chain().is_some())
    }

    /// The server's certificate and those between it and an authority, once it has shown them.
    #[must_use]
    pub fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_deref()?.chain()
    }

    /// Parses plain text.
    fn parse(
        &mut self,
        inbox: &mut Inbox,
        outbox: &mut Outbox,
        pool: &Pool,
        words: &mut Vec<Word>,
    ) -> Result<(), String> {
        loop {
            let goes_on = match self.phase {
                Phase::Greeting => self.greeting(inbox, outbox, pool)?,
                Phase::StartTls | Phase::Go { .. } => self.option_reply(inbox, pool, words)?,
                Phase::Serving => self.answer(inbox, words)?,
                Phase::Over => {
                    let all = inbox.len();
                    inbox.skip(all);
                    false
                }
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// "Newstyle negotiation".
    fn greeting(&mut self, inbox: &mut Inbox, outbox: &mut Outbox, pool: &Pool) -> Result<bool, String> {
        if inbox.len() < GREETING_BYTES {
            inbox.need(GREETING_BYTES);
            return Ok(false);
        }
        let mut reader = Reader(inbox.data());
        let (password, magic, flags) = (reader.u64(), reader.u64(), reader.u16().unwrap_or(0));
        if (password, magic) != (Some(INIT_PASSWD), Some(OPTION_MAGIC)) || flags & handshake_flag::FIXED_NEWSTYLE == 0 {
            return Err("what answers there does not speak NBD (fixed newstyle)".to_owned());
        }
        inbox.skip(GREETING_BYTES);
        let ours = u32::from(handshake_flag::FIXED_NEWSTYLE | flags & handshake_flag::NO_ZEROES);
        outbox.append(pool, &ours.to_be_bytes());
        if self.dial.tls.is_some() {
            put_option(outbox, pool, opt::STARTTLS, &[]);
            self.phase = Phase::StartTls;
        } else {
            self.go(outbox, pool);
        }
        Ok(true)
    }

    fn go(&mut self, outbox: &mut Outbox, pool: &Pool) {
        let name = self.dial.export.as_bytes();
        let length = u32::try_from(name.len()).expect("callers check names");
        let wanted = [1u16, info::DESCRIPTION].map(u16::to_be_bytes);
        let parts = [&length.to_be_bytes(), name, &wanted[0], &wanted[1]];
        put_option(outbox, pool, opt::GO, &parts);
        self.phase = Phase::Go {
            replies: 0,
            export: None,
            description: String::new(),
        };
    }

    /// "Fixed newstyle negotiation".
    fn option_reply(&mut self, inbox: &mut Inbox, pool: &Pool, words: &mut Vec<Word>) -> Result<bool, String> {
        let mut reader = Reader(inbox.data());
        let (Some(magic), Some(option), Some(kind), Some(length)) =
            (reader.u64(), reader.u32(), reader.u32(), reader.u32())
        else {
            inbox.need(OPTION_REPLY_BYTES);
            return Ok(false);
        };
        let asked = match self.phase {
            Phase::StartTls => opt::STARTTLS,
            _ => opt::GO,
        };
        if magic != OPTION_REPLY_MAGIC || option != asked || length > MAX_OPTION_REPLY_BYTES {
            return Err("its reply to an option is none".to_owned());
        }
        let whole = OPTION_REPLY_BYTES + length as usize;
        if inbox.len() < whole {
            inbox.need(whole);
            return Ok(false);
        }
        let data = inbox.take(whole).slice(OPTION_REPLY_BYTES..);
        match (&mut self.phase, kind) {
            (Phase::StartTls, reply::ACK) => {
                let Some((config, name)) = self.dial.tls.clone() else {
                    return Err("it starts TLS by itself".to_owned());
                };
                // Whoever sits in between could else put words before those of the server.
                if !inbox.is_empty() {
                    return Err("it goes on in plain text after it has agreed to TLS".to_owned());
                }
                let mut tls = TlsStream::dial(config, name)?;
                self.go(&mut tls.outbox, pool);
                self.tls = Some(Box::new(tls));
                return Ok(false);
            }
            (Phase::StartTls, _) => {
                return Err(format!("it does not speak TLS: {}", said(&data)));
            }
            (
                Phase::Go {
                    replies,
                    export,
                    description,
                },
                reply::INFO,
            ) => {
                *replies += 1;
                if *replies > MAX_OPTION_REPLIES {
                    return Err("it describes the export without end".to_owned());
                }
                let mut reader = Reader(&data);
                match reader.u16() {
                    Some(info::EXPORT) => *export = reader.u64().zip(reader.u16()),
                    Some(info::DESCRIPTION) => *description = said(reader.0),
                    _ => {}
                }
            }
            (
                Phase::Go {
                    export, description, ..
                },
                reply::ACK,
            ) => {
                let Some((size_bytes, flags)) = *export else {
                    return Err("it does not say how large the export is".to_owned());
                };
                words.push(Word::Open {
                    size_bytes,
                    read_only: flags & transmission_flag::READ_ONLY != 0,
                    chunk_bytes: described_chunks(description),
                    description: std::mem::take(description),
                });
                self.phase = Phase::Serving;
            }
            (_, kind) => {
                self.phase = Phase::Over;
                words.push(Word::Refused {
                    unknown: kind == reply::ERR_UNKNOWN,
                    why: said(&data),
                });
            }
        }
        Ok(true)
    }

    /// "Simple reply message".
    fn answer(&mut self, inbox: &mut Inbox, words: &mut Vec<Word>) -> Result<bool, String> {
        let mut reader = Reader(inbox.data());
        let (Some(magic), Some(error), Some(cookie)) = (reader.u32(), reader.u32(), reader.u64()) else {
            inbox.need(REPLY_BYTES);
            return Ok(false);
        };
        let brings = self.asked.get(&cookie).copied();
        let (SIMPLE_REPLY_MAGIC, Some(brings)) = (magic, brings) else {
            return Err("it answers what was not asked".to_owned());
        };
        let brings = if error == 0 { brings as usize } else { 0 };
        if inbox.len() < REPLY_BYTES + brings {
            inbox.need(REPLY_BYTES + brings);
            return Ok(false);
        }
        inbox.skip(REPLY_BYTES);
        let data = match brings {
            0 => Slice::default(),
            brings => inbox.take(brings),
        };
        self.asked.remove(&cookie);
        words.push(Word::Answer { cookie, error, data });
        Ok(true)
    }
}

fn put_option(outbox: &mut Outbox, pool: &Pool, option: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("callers check names");
    let head = Writer::<16>::new().u64(OPTION_MAGIC).u32(option).u32(length);
    outbox.append(pool, head.as_bytes());
    for part in parts {
        outbox.append(pool, part);
    }
}

/// What a server of ours says of an open volume, or of a snapshot of one ("NBD_INFO_DESCRIPTION"): a client that connects again sees whether it is the volume that it
/// was, and where requests are cut.
pub(crate) fn description(source: Source, chunk_bytes: u32) -> String {
    let Source { volume, snapshot } = source;
    match source.is_head() {
        true => format!("volume {volume}{CHUNKS}{chunk_bytes} bytes"),
        false => format!("snapshot {snapshot} of volume {volume}{CHUNKS}{chunk_bytes} bytes"),
    }
}

fn described_chunks(description: &str) -> Option<u32> {
    let (_, chunks) = description.split_once(CHUNKS)?;
    let bytes = chunks.strip_suffix(" bytes")?.parse().ok()?;
    is_chunk_size(bytes).then_some(bytes)
}

const CHUNKS: &str = ", in chunks of ";

/// A server's words, for a log.
fn said(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
