//! Reads too long to be gathered, answered by simple replies.

use super::request::Kind;
use super::{Cx, Session};
use amita_frontend::engine::{Protocol, Submission};
use amita_frontend::pieces::Piece;
use amita_types::io::Op;

impl Session {
    /// Submits of the first stream what its window allows. It has memory of its own, apart from that of other reads,
    /// so that it goes on when they have used up theirs and wait for the wire.
    pub(super) fn issue_stream(&mut self, cx: &mut Cx<'_>) {
        let Some(&slot) = self.streams.front() else { return };
        loop {
            let request = self.engine.request(slot);
            if request.failure.is_some() {
                request.issued = true;
                return;
            }
            let Kind::Stream { cursor } = &mut request.own.kind else {
                return;
            };
            let Some(Piece { offset, length }) = cursor.peek() else {
                request.issued = true;
                return;
            };
            let used = request.held_bytes() + cx.queued_bytes();
            if used > 0 && used + length as usize > self.stream_bytes {
                return;
            }
            if let Kind::Stream { cursor } = &mut request.own.kind {
                cursor.next();
                request.issued = cursor.is_empty();
            }
            self.submit(slot, Submission::of(Op::Read { offset, length }), cx);
        }
    }
}
