//! The handshake: from the greeting to the transmission phase ("Handshake", "Option types").
//!
//! Fixed newstyle only. One option is handled at a time; while the service is asked (which volumes there are, or to
//! open one) nothing further is read, and the client's clock stands still.

mod answer;
mod option;

use super::reply::Reply as _;
use super::wire::{
    INIT_PASSWD, MAX_STRING_BYTES, OPTION_BYTES, OPTION_MAGIC, REQUEST_MAGIC, Reader, handshake_flag, option as opt,
    reply,
};
use super::{Cx, TlsMode};
use amita_frontend::front::CloseReason;
use amita_frontend::service::{FrontId, VolumeInfo, Who, snapshot_named};
use amita_reactor::Inbox;
use amita_types::{SnapshotId, VolumeId};
use option::{Bad, Bitmaps, InfoRequest, MetaRequest};

/// The longest data of an option that is looked at, in bytes: a name of 4096 bytes and dozens of long queries.
const MAX_OPTION_BYTES: usize = 64 << 10;
/// The same of a client that has proved nothing: the longest name, and queries of some hundred bytes.
const MAX_STRANGERS_OPTION_BYTES: usize = 16 << 10;
/// The longest data of an option that is skipped to answer with an error, in bytes; more is taken for an attack.
const MAX_SKIPPED_BYTES: u32 = 1 << 20;
/// The most options of one connection: listing tools send a few for each export.
const MAX_OPTIONS: u32 = 10_000;

/// How the handshake goes on after a step.
pub(super) enum Step {
    /// There is more to do with what is in the inbox.
    Again,
    /// More input is needed, or the service's answer.
    Wait,
    /// `NBD_OPT_STARTTLS` was acknowledged: all that follows is TLS.
    StartTls,
    /// The transmission phase begins.
    Transmit(Agreed),
    /// Close when everything queued has been sent.
    End(CloseReason),
    /// Close at once.
    Close(CloseReason),
}

/// What was agreed on.
pub(super) struct Agreed {
    pub volume: VolumeInfo,
    /// Structured replies.
    pub structured: bool,
    /// The metadata contexts that were selected for this export.
    pub contexts: Vec<Context>,
}

/// A metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// Its number on the wire.
    pub id: u32,
    /// What it tells: what was changed since that snapshot; `None`: what is allocated.
    pub since: Option<SnapshotId>,
}

/// The contexts that were selected last, and for what.
struct Selected {
    export: String,
    /// The volume that the export was then, where snapshots of it were selected: their numbers are of no other one.
    volume: Option<VolumeId>,
    contexts: Vec<Context>,
}

enum State {
    /// Waits for the client's flags.
    Flags,
    /// Waits for an option.
    Option,
    /// Drops the rest of an option that was answered with an error.
    Skip(u32),
    /// Waits for the service.
    Asking(Question),
}

/// What the service was asked for.
enum Question {
    List,
    Info(InfoRequest),
    /// `NBD_OPT_INFO` of a snapshot, which no list names.
    InfoOfSnapshot(InfoRequest),
    /// Which export is the default? Then it is opened as by `Open`.
    Default(u32, InfoRequest),
    /// `NBD_OPT_GO` or `NBD_OPT_EXPORT_NAME`.
    Open(u32, InfoRequest),
    /// `NBD_OPT_LIST_META_CONTEXT` or `NBD_OPT_SET_META_CONTEXT`, with snapshots.
    Contexts(u32, MetaRequest),
}

pub(super) struct Handshake {
    front: FrontId,
    /// Who the client is, as far as it has proved that.
    who: Who,
    tls: TlsMode,
    encrypted: bool,
    state: State,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    selected: Option<Selected>,
    options: u32,
    tag: u64,
}

/// The server's greeting ("Newstyle negotiation").
pub(super) static GREETING: [u8; 18] = {
    let mut bytes = [0; 18];
    let (magic, rest) = bytes.split_at_mut(8);
    magic.copy_from_slice(&INIT_PASSWD.to_be_bytes());
    let (magic, flags) = rest.split_at_mut(8);
    magic.copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    flags.copy_from_slice(&(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes());
    bytes
};

impl Handshake {
    pub fn new(front: FrontId, who: Who, tls: TlsMode) -> Handshake {
        Handshake {
            front,
            who,
            tls,
            encrypted: false,
            state: State::Flags,
            fixed: false,
            no_zeroes: false,
            structured: false,
            selected: None,
            options: 0,
            tag: 0,
        }
    }

    /// TLS has begun: "the server MUST NOT preserve any negotiation state issued before" (`NBD_OPT_STARTTLS`).
    pub fn encrypted(&mut self) {
        self.encrypted = true;
        self.structured = false;
        self.selected = None;
    }

    /// Has the client proved who it is?
    pub fn is_proved(&self) -> bool {
        matches!(self.who, Who::Client(_))
    }

    /// Came the client over a network, and has proved nothing yet?
    pub fn is_of_stranger(&self) -> bool {
        self.who == Who::Stranger
    }

    /// The client has proved who it is.
    pub fn proved(&mut self, who: Who) {
        self.who = who;
    }

    /// Is the service being asked?
    pub fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking(_))
    }

    /// Handles the next message in the inbox.
    pub fn step(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Step {
        match self.state {
            State::Asking(_) => Step::Wait,
            State::Flags => self.client_flags(inbox),
            State::Skip(left) => {
                let now = inbox.len().min(left as usize);
                inbox.skip(now);
                let left = left - now as u32;
                self.state = if left > 0 { State::Skip(left) } else { State::Option };
                if left > 0 { Step::Wait } else { Step::Again }
            }
            State::Option => self.option(inbox, cx),
        }
    }

    fn client_flags(&mut self, inbox: &mut Inbox) -> Step {
        let Some(flags) = Reader(inbox.data()).u32() else {
            inbox.need(4);
            return Step::Wait;
        };
        inbox.skip(4);
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        if flags & !known != 0 {
            // "The server MUST drop the TCP connection if the client sets an unknown flag" ("Client flags").
            return Step::Close(CloseReason::Protocol(if flags == REQUEST_MAGIC {
                "it speaks the oldstyle protocol; only fixed newstyle is served"
            } else {
                "unknown client flags"
            }));
        }
        self.fixed = flags & u32::from(handshake_flag::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(handshake_flag::NO_ZEROES) != 0;
        self.state = State::Option;
        Step::Again
    }

    fn option(&mut self, inbox: &mut Inbox, cx: &mut Cx<'_>) -> Step {
        let mut header = Reader(inbox.data());
        let (Some(magic), Some(option), Some(length)) = (header.u64(), header.u32(), header.u32()) else {
            inbox.need(OPTION_BYTES);
            return Step::Wait;
        };
        if magic != OPTION_MAGIC {
            return Step::Close(CloseReason::Protocol("an option does not begin with IHAVEOPT"));
        }
        // Judged before anything is waited for or kept.
        if option == opt::EXPORT_NAME && length as usize > MAX_STRING_BYTES {
            return Step::Close(CloseReason::Protocol("an export's name is longer than 4096 bytes"));
        }
        if length > MAX_SKIPPED_BYTES {
            return Step::Close(CloseReason::Protocol("an option with more than 1 MiB of data"));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Step::Close(CloseReason::Protocol("more than 10000 options"));
        }
        let (most, too_much) = match self.is_of_stranger() {
            true => (MAX_STRANGERS_OPTION_BYTES, "more than 16 KiB of data"),
            false => (MAX_OPTION_BYTES, "more than 64 KiB of data"),
        };
        if length as usize > most {
            inbox.skip(OPTION_BYTES);
            cx.replies().option_error(option, reply::ERR_TOO_BIG, too_much);
            self.state = State::Skip(length);
            return Step::Again;
        }
        let whole = OPTION_BYTES + length as usize;
        if inbox.len() < whole {
            self.options -= 1;
            inbox.need(whole);
            return Step::Wait;
        }
        let data = inbox.take(whole).slice(OPTION_BYTES..);
        self.handle(option, &data, cx)
    }

    fn handle(&mut self, option: u32, data: &[u8], cx: &mut Cx<'_>) -> Step {
        if self.tls == TlsMode::Require && !self.encrypted && !matches!(option, opt::STARTTLS | opt::ABORT) {
            if option == opt::EXPORT_NAME {
                // "As this request cannot error, it MUST terminate the session" ("FORCEDTLS mode").
                return Step::Close(CloseReason::Refused("this server requires TLS".into()));
            }
            cx.replies()
                .option_error(option, reply::ERR_TLS_REQD, "this server requires TLS");
            return Step::Again;
        }
        match option {
            opt::EXPORT_NAME => match option::text(data) {
                Ok(name) => {
                    self.open(
                        option,
                        InfoRequest {
                            name: name.to_owned(),
                            ..InfoRequest::default()
                        },
                        cx,
                    );
                    Step::Wait
                }
                Err(_) => Step::Close(CloseReason::Protocol("an export's name is not UTF-8 or contains NUL")),
            },
            opt::ABORT => {
                // "A server SHOULD ignore any data sent by the client."
                cx.replies().option(option, reply::ACK, &[]);
                Step::End(CloseReason::Goodbye)
            }
            opt::LIST | opt::STARTTLS | opt::STRUCTURED_REPLY if !data.is_empty() => {
                cx.replies()
                    .option_error(option, reply::ERR_INVALID, "this option has no data");
                Step::Again
            }
            opt::LIST => {
                self.ask(Question::List, cx);
                Step::Wait
            }
            opt::STARTTLS => self.start_tls(cx),
            opt::STRUCTURED_REPLY => {
                self.structured = true;
                cx.replies().option(option, reply::ACK, &[]);
                Step::Again
            }
            opt::INFO | opt::GO => match option::info_request(data) {
                Ok(request) if option == opt::GO => {
                    self.open(option, request, cx);
                    Step::Wait
                }
                Ok(request) => {
                    match snapshot_named(&request.name) {
                        None => self.ask(Question::Info(request), cx),
                        Some(_) => self.ask_to_open(Question::InfoOfSnapshot, request, cx),
                    }
                    Step::Wait
                }
                Err(bad) => refuse(option, bad, cx),
            },
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => self.meta_context(option, data, cx),
            _ => {
                cx.replies()
                    .option_error(option, reply::ERR_UNSUP, "this server does not know this option");
                Step::Again
            }
        }
    }

    fn start_tls(&mut self, cx: &mut Cx<'_>) -> Step {
        let option = opt::STARTTLS;
        if self.encrypted {
            cx.replies()
                .option_error(option, reply::ERR_INVALID, "TLS was already started");
        } else if self.tls == TlsMode::Off || !self.fixed {
            // "The server MUST operate in NOTLS mode unless the client replied with NBD_FLAG_C_FIXED_NEWSTYLE."
            cx.replies()
                .option_error(option, reply::ERR_POLICY, "TLS is not set up on this server");
        } else {
            cx.replies().option(option, reply::ACK, &[]);
            return Step::StartTls;
        }
        Step::Again
    }

    fn meta_context(&mut self, option: u32, data: &[u8], cx: &mut Cx<'_>) -> Step {
        let listing = option == opt::LIST_META_CONTEXT;
        if !listing {
            // "Replaces all previously-set metadata contexts (including when this command fails)."
            self.selected = None;
        }
        if !self.structured {
            cx.replies()
                .option_error(option, reply::ERR_INVALID, "negotiate structured replies first");
            return Step::Again;
        }
        match option::meta_request(data, listing) {
            Ok(request) => {
                let only = match &request.bitmaps {
                    Bitmaps::All => Vec::new(),
                    Bitmaps::Of(only) if only.is_empty() => return self.tell_contexts(option, &request, None, cx),
                    Bitmaps::Of(only) => only.clone(),
                };
                self.tag += 1;
                cx.service.bases(self.front, self.tag, &request.name, only, &self.who);
                self.state = State::Asking(Question::Contexts(option, request));
                Step::Wait
            }
            Err(bad) => refuse(option, bad, cx),
        }
    }

    /// Opens the export that `NBD_OPT_GO` or `NBD_OPT_EXPORT_NAME` names. The empty name is the default export: the
    /// only one, where there is only one.
    fn open(&mut self, option: u32, request: InfoRequest, cx: &mut Cx<'_>) {
        if request.name.is_empty() {
            self.ask(Question::Default(option, request), cx);
        } else {
            self.ask_to_open(|request| Question::Open(option, request), request, cx);
        }
    }

    fn ask_to_open(&mut self, question: impl FnOnce(InfoRequest) -> Question, request: InfoRequest, cx: &mut Cx<'_>) {
        self.tag += 1;
        cx.service.open(self.front, self.tag, &request.name, &self.who);
        self.state = State::Asking(question(request));
    }

    fn ask(&mut self, question: Question, cx: &mut Cx<'_>) {
        self.tag += 1;
        cx.service.list(self.front, self.tag, &self.who);
        self.state = State::Asking(question);
    }
}

fn refuse(option: u32, bad: Bad, cx: &mut Cx<'_>) -> Step {
    let (kind, message) = match bad {
        Bad::Invalid(message) => (reply::ERR_INVALID, message),
        Bad::TooBig(message) => (reply::ERR_TOO_BIG, message),
    };
    cx.replies().option_error(option, kind, message);
    Step::Again
}
