//! Data that was asked for, and what comes of it.

use super::{End, Queue, Work};
use crate::Cx;
use crate::wire::{Fatal, Link, fatal, status};
use amita_frontend::Protocol as _;
use amita_frontend::engine::{Engine, Step};
use amita_frontend::slots::SlotId;
use amita_reactor::{BufMut, Slice};

/// The header of an H2CData.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub id: u16,
    pub tag: u16,
    pub offset: u32,
    pub length: u32,
    pub last: bool,
}

/// An R2T that is not answered to its end.
#[derive(Debug)]
struct Asked {
    slot: SlotId,
    id: u16,
    /// Of the command's data.
    offset: u32,
    length: u32,
    received: u32,
    /// Where PDUs are put together, when there is more than one.
    buffer: Option<BufMut>,
}

/// The outstanding R2Ts, by their tags.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    asked: Vec<Option<Asked>>,
    free: Vec<u16>,
}

impl Transfers {
    fn begin(&mut self, asked: Asked) -> u16 {
        match self.free.pop() {
            Some(tag) => {
                self.asked[usize::from(tag)] = Some(asked);
                tag
            }
            None => {
                // Bounded by the commands of a queue and the pieces of a command.
                self.asked.push(Some(asked));
                (self.asked.len() - 1) as u16
            }
        }
    }

    fn end(&mut self, tag: u16) -> Option<Asked> {
        let asked = self.asked.get_mut(usize::from(tag))?.take()?;
        self.free.push(tag);
        Some(asked)
    }

    /// Is this data that was asked for, and in order? ("TCP", 3.3.2.1 and H2CData.)
    pub fn check(&self, header: &Header) -> Result<(), Fatal> {
        let Some(Some(asked)) = self.asked.get(usize::from(header.tag)) else {
            return Err(Fatal::field(10, "data for a transfer tag that is not in use"));
        };
        if asked.id != header.id {
            return Err(Fatal::field(8, "data for another command than its transfer tag's"));
        }
        let (start, end) = (
            u64::from(asked.offset),
            u64::from(asked.offset) + u64::from(asked.length),
        );
        let (from, to) = (
            u64::from(header.offset),
            u64::from(header.offset) + u64::from(header.length),
        );
        if from < start || to > end {
            let at = if from < start || from >= end { 12 } else { 16 };
            return Err(Fatal::new(
                fatal::OUT_OF_RANGE,
                at,
                "data outside the range that was asked for",
            ));
        }
        if from != start + u64::from(asked.received) {
            return Err(Fatal::new(fatal::OUT_OF_RANGE, 12, "data out of its order"));
        }
        if header.length == 0 {
            return Err(Fatal::field(16, "a data PDU without data"));
        }
        if header.last != (to == end) {
            return Err(Fatal::field(
                1,
                "the last data PDU of a transfer, and only that, is marked so",
            ));
        }
        Ok(())
    }

    /// Asks for `length` bytes of a command's data, `offset` into it.
    fn ask(
        &mut self,
        engine: &mut Engine<Queue>,
        link: &mut Link,
        slot: SlotId,
        offset: u32,
        length: u32,
        cx: &mut Cx<'_>,
    ) {
        engine.charge(slot, length as usize);
        let request = engine.request(slot);
        request.owed += 1;
        let id = request.own.id;
        let tag = self.begin(Asked {
            slot,
            id,
            offset,
            length,
            received: 0,
            buffer: None,
        });
        link.ask(id, tag, offset, length, cx.outbox, cx.pool);
    }
}

/// Asks for data of the host.
pub(crate) fn step(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Step {
    let max_r2t = queue.capsules.link.max_r2t;
    let request = queue.engine.request(slot);
    let (start, work) = (request.offset, request.own.work);
    let (cursor, piece) = match work {
        Work::Write { mut cursor } | Work::Compare { mut cursor } => {
            let Some(piece) = cursor.next() else {
                request.issued = true;
                return Step::Through;
            };
            if request.owed >= max_r2t {
                // The answer to one of them goes on with it: nothing has to wait for room.
                return Step::Through;
            }
            (cursor, piece)
        }
        Work::Gather { what, .. } => {
            let length = request.own.length;
            if !queue.engine.may_write(length as usize, cx) {
                return Step::Full;
            }
            queue.engine.request(slot).own.work = Work::Gather { what, asked: true };
            queue
                .transfers
                .ask(&mut queue.engine, &mut queue.capsules.link, slot, 0, length, cx);
            return Step::Through;
        }
        _ => return Step::Through,
    };
    if !queue.engine.may_write(piece.length as usize, cx) {
        return Step::Full;
    }
    let request = queue.engine.request(slot);
    request.issued = cursor.is_empty();
    request.own.work = match work {
        Work::Write { .. } => Work::Write { cursor },
        _ => Work::Compare { cursor },
    };
    queue.transfers.ask(
        &mut queue.engine,
        &mut queue.capsules.link,
        slot,
        (piece.offset - start) as u32,
        piece.length,
        cx,
    );
    Step::Again
}

/// Takes data that was asked for; `data` is `None` when its digest was wrong. The header has been checked.
pub(super) fn incoming(queue: &mut Queue, header: &Header, data: Option<Slice>, cx: &mut Cx<'_>) -> Result<(), End> {
    let Some(Some(asked)) = queue.transfers.asked.get_mut(usize::from(header.tag)) else {
        return Ok(());
    };
    let slot = asked.slot;
    let first = asked.received == 0;
    asked.received += header.length;
    let whole = asked.received == asked.length;
    let at = (header.offset - asked.offset) as usize;
    let request = queue.engine.request(slot);
    let data = match data {
        // "[...] the controller shall [...] complete the command with Transient Transport Error."
        None => {
            request.fail(status::TRANSIENT_TRANSPORT, None);
            None
        }
        Some(data) if whole && first => Some(data),
        Some(_) if request.failure.is_some() => None,
        Some(data) => {
            if first {
                asked.buffer = cx.pool.take(asked.length as usize);
            }
            match &mut asked.buffer {
                Some(buffer) => buffer[at..at + data.len()].copy_from_slice(&data),
                // Memory is short; the host may try again.
                None => request.fail(status::INTERNAL, None),
            }
            None
        }
    };
    if !whole {
        return Ok(());
    }
    let Some(asked) = queue.transfers.end(header.tag) else {
        return Ok(());
    };
    let request = queue.engine.request(slot);
    request.owed -= 1;
    let data = data.or(asked.buffer.map(BufMut::freeze));
    match (request.failure, data) {
        (None, Some(data)) => {
            queue.arrived(slot, asked.offset, data, cx)?;
            // The R2T that is answered makes room for the next.
            if let Some(request) = queue.engine.busy(slot)
                && !request.issued
                && matches!(request.own.work, Work::Write { .. } | Work::Compare { .. })
                && !queue.engine.is_waiting(slot)
                && !queue.issue(slot, cx)
            {
                queue.engine.wait(slot);
            }
        }
        _ => queue.engine.release(slot, asked.length as usize),
    }
    queue.finish_if_complete(slot, cx)
}
