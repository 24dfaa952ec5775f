//! What becomes of an option when the service has answered.

use super::{Agreed, Context, Handshake, InfoRequest, MetaRequest, Question, Selected, State, Step};
use crate::reply::Replies;
use crate::reply::Reply as _;
use crate::wire::{BASE_ALLOCATION, BASE_ALLOCATION_ID, DIRTY_BITMAP, Writer, info, option as opt, reply};
use crate::{Cx, MAX_BLOCK_BYTES, MIN_BLOCK_BYTES, PREFERRED_BLOCK_BYTES, transmission_flags};
use amita_frontend::front::CloseReason;
use amita_frontend::pieces::is_chunk_size;
use amita_frontend::service::{Bases, Event, Export, OpenError, VolumeInfo};

/// The most exports that one `NBD_OPT_LIST` answers with: about a megabyte of names.
const MAX_LISTED: usize = 10_000;

/// What is said of an export before and when it is opened.
struct About<'a> {
    name: &'a str,
    description: &'a str,
    size_bytes: u64,
    read_only: bool,
}

impl<'a> About<'a> {
    fn export(export: &'a Export) -> About<'a> {
        About {
            name: &export.name,
            description: &export.description,
            size_bytes: export.size_bytes,
            read_only: export.read_only,
        }
    }

    fn opened(volume: &'a VolumeInfo, description: &'a str) -> About<'a> {
        About {
            name: &volume.name,
            description,
            size_bytes: volume.size_bytes,
            read_only: volume.read_only,
        }
    }
}

impl Handshake {
    /// Takes the service's answer, if it is the one that is waited for.
    pub fn event(&mut self, event: Event, cx: &mut Cx<'_>) -> Step {
        let tag = match &event {
            Event::Listed { tag, .. } | Event::Opened { tag, .. } | Event::Bases { tag, .. } => *tag,
            _ => return Step::Wait,
        };
        if tag != self.tag || !self.is_asking() {
            return Step::Wait;
        }
        let State::Asking(question) = std::mem::replace(&mut self.state, State::Option) else {
            return Step::Wait;
        };
        match (question, event) {
            (Question::List, Event::Listed { result, .. }) => list(result, &mut cx.replies()),
            (Question::Info(request), Event::Listed { result, .. }) => self.info(&request, result, cx),
            (Question::InfoOfSnapshot(request), Event::Opened { result, .. }) => match result {
                Ok(volume) => {
                    // Only looked at: that keeps no volume open, and was judged as opening it is.
                    cx.service.close(self.front, volume.source());
                    let description = crate::client::description(volume.source(), volume.chunk_bytes);
                    let about = About::opened(&volume, &description);
                    self.describe(opt::INFO, &request, &about, &mut cx.replies());
                    Step::Again
                }
                Err(error) => fail(opt::INFO, &error, &request.name, &mut cx.replies()),
            },
            (Question::Default(option, request), Event::Listed { result, .. }) => {
                match result.and_then(|exports| find(&exports, "").map(|export| export.name.clone())) {
                    Ok(name) => {
                        self.tag += 1;
                        cx.service.open(self.front, self.tag, &name, &self.who);
                        self.state = State::Asking(Question::Open(option, request));
                        Step::Wait
                    }
                    Err(error) => fail(option, &error, &request.name, &mut cx.replies()),
                }
            }
            (Question::Open(option, request), Event::Opened { result, .. }) => match result {
                Ok(volume) => self.opened(option, &request, volume, cx),
                Err(error) => fail(option, &error, &request.name, &mut cx.replies()),
            },
            (Question::Contexts(option, request), Event::Bases { result, .. }) => match result {
                Ok(bases) => self.tell_contexts(option, &request, Some(bases), cx),
                // What is not there has no contexts of snapshots.
                Err(OpenError::NotFound) => self.tell_contexts(option, &request, None, cx),
                Err(error) => fail(option, &error, &request.name, &mut cx.replies()),
            },
            (question, _) => {
                self.state = State::Asking(question);
                Step::Wait
            }
        }
    }

    /// Answers `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`, which selects what it names.
    pub(super) fn tell_contexts(
        &mut self,
        option: u32,
        request: &MetaRequest,
        bases: Option<Bases>,
        cx: &mut Cx<'_>,
    ) -> Step {
        let listing = option == opt::LIST_META_CONTEXT;
        let volume = bases.as_ref().map(|bases| bases.volume);
        let allocation = request.allocation.then(|| (BASE_ALLOCATION.to_owned(), None));
        let snapshots = bases.into_iter().flat_map(|bases| bases.snapshots);
        let bitmaps = snapshots.map(|(name, number)| (format!("{DIRTY_BITMAP}{name}"), Some(number)));
        let mut contexts = Vec::new();
        for ((name, since), id) in allocation.into_iter().chain(bitmaps).zip(BASE_ALLOCATION_ID..) {
            let told = if listing { 0 } else { id };
            let parts: [&[u8]; 2] = [&told.to_be_bytes(), name.as_bytes()];
            cx.replies().option(option, reply::META_CONTEXT, &parts);
            contexts.push(Context { id, since });
        }
        if !listing {
            self.selected = Some(Selected {
                export: request.name.clone(),
                volume,
                contexts,
            });
        }
        cx.replies().option(option, reply::ACK, &[]);
        Step::Again
    }

    fn info(&mut self, request: &InfoRequest, result: Result<Vec<Export>, OpenError>, cx: &mut Cx<'_>) -> Step {
        let replies = &mut cx.replies();
        match result
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|exports| find(exports, &request.name))
        {
            Ok(export) => {
                self.describe(opt::INFO, request, &About::export(export), replies);
                Step::Again
            }
            Err(error) => fail(opt::INFO, &error, &request.name, replies),
        }
    }

    /// The replies of a successful `NBD_OPT_INFO` or `NBD_OPT_GO`.
    fn describe(&self, option: u32, request: &InfoRequest, about: &About<'_>, replies: &mut Replies<'_>) {
        let flags = transmission_flags(about.read_only, self.structured);
        let export = Writer::<12>::new().u16(info::EXPORT).u64(about.size_bytes).u16(flags);
        replies.option(option, reply::INFO, &[export.as_bytes()]);
        if request.wants_name || request.name != about.name {
            replies.option(option, reply::INFO, &[&info::NAME.to_be_bytes(), about.name.as_bytes()]);
        }
        if request.wants_description && !about.description.is_empty() {
            replies.option(
                option,
                reply::INFO,
                &[&info::DESCRIPTION.to_be_bytes(), about.description.as_bytes()],
            );
        }
        if request.wants_block_size {
            let sizes = Writer::<14>::new().u16(info::BLOCK_SIZE);
            let sizes = sizes
                .u32(MIN_BLOCK_BYTES)
                .u32(PREFERRED_BLOCK_BYTES)
                .u32(MAX_BLOCK_BYTES);
            replies.option(option, reply::INFO, &[sizes.as_bytes()]);
        }
        replies.option(option, reply::ACK, &[]);
    }

    fn opened(&mut self, option: u32, request: &InfoRequest, volume: VolumeInfo, cx: &mut Cx<'_>) -> Step {
        if !is_chunk_size(volume.chunk_bytes) {
            cx.service.close(self.front, volume.source());
            let why = OpenError::Refused(format!(
                "its chunk size of {} bytes is not supported",
                volume.chunk_bytes
            ));
            return fail(option, &why, &request.name, &mut cx.replies());
        }
        let description = crate::client::description(volume.source(), volume.chunk_bytes);
        let about = About::opened(&volume, &description);
        if option == opt::GO {
            self.describe(option, request, &about, &mut cx.replies());
        } else {
            let flags = transmission_flags(volume.read_only, self.structured);
            let head = Writer::<10>::new().u64(volume.size_bytes).u16(flags);
            cx.outbox.append(cx.pool, head.as_bytes());
            if !self.no_zeroes {
                cx.outbox.append(cx.pool, &[0; 124]);
            }
        }
        let selected = self.selected.take().filter(|selected| {
            let is_it = selected.volume.is_none_or(|of| of == volume.id);
            self.structured && selected.export == request.name && is_it
        });
        Step::Transmit(Agreed {
            volume,
            structured: self.structured,
            contexts: selected.map_or_else(Vec::new, |selected| selected.contexts),
        })
    }
}

/// The export of that name; of the empty name the only one ("special, empty, name": the default export).
fn find<'a>(exports: &'a [Export], name: &str) -> Result<&'a Export, OpenError> {
    match exports {
        [only] if name.is_empty() => Ok(only),
        _ => exports
            .iter()
            .find(|export| export.name == name && !name.is_empty())
            .ok_or(OpenError::NotFound),
    }
}

fn list(result: Result<Vec<Export>, OpenError>, replies: &mut Replies<'_>) -> Step {
    let option = opt::LIST;
    match result {
        Ok(exports) => {
            for export in exports.iter().take(MAX_LISTED) {
                let length = (export.name.len() as u32).to_be_bytes();
                let parts: [&[u8]; 3] = [&length, export.name.as_bytes(), export.description.as_bytes()];
                replies.option(option, reply::SERVER, &parts);
            }
            if exports.len() > MAX_LISTED {
                replies.option_error(option, reply::ERR_TOO_BIG, "there are more exports than can be listed");
            } else {
                replies.option(option, reply::ACK, &[]);
            }
            Step::Again
        }
        Err(error) => fail(option, &error, "", replies),
    }
}

/// An error answer; where the option knows none, the end of the connection.
fn fail(option: u32, error: &OpenError, name: &str, replies: &mut Replies<'_>) -> Step {
    let message = match error {
        OpenError::NotFound if name.is_empty() => {
            "name an export: there is no default, as there is not exactly one volume".to_owned()
        }
        _ => format!("export {name:?}: {error}"),
    };
    if option == opt::EXPORT_NAME {
        // "If the chosen export does not exist [...] the server MUST terminate the session."
        return Step::Close(CloseReason::Refused(message));
    }
    let kind = match error {
        OpenError::NotFound => reply::ERR_UNKNOWN,
        OpenError::ShuttingDown => reply::ERR_SHUTDOWN,
        // "Server-side policy forbids" comes closest to both: the text tells which it is.
        OpenError::Unavailable(_) | OpenError::Refused(_) => reply::ERR_POLICY,
    };
    replies.option_error(option, kind, &message);
    Step::Again
}
