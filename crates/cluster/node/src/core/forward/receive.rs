//! The owner's side of forwarding: what other gateways send, and what it is answered.

use super::receiving::{Known, Receiving, Sender, WindowSlot};
use super::wire::{checksum, code, error_to_wire, form, words_to_wire, work_from_wire};
use crate::core::context::Context;
use crate::core::forward::Forwarding;
use crate::core::{CoreConfig, route};
use crate::faults::Fault;
use crate::forwarder::{FORWARDED, FORWARDS, Work, is_host};
use crate::limits::{Answer, write_answer};
use crate::mail::Origin;
use crate::token;
use amita_fabric::{Forward, ForwardOp, Forwarded, Link, Message};
use amita_frontend::HostKey;
use amita_frontend::reservation::{self, Refusal};
use amita_reactor::Slice;
use amita_reactor::driver::Time;
use amita_types::io::{IoError, Payload};
use amita_types::{Generation, TraceId};
use std::collections::VecDeque;

/// Why a forwarded request is not carried out.
enum Refused {
    /// It is under way already, and answered when that ends.
    UnderWay,
    /// It is answered so.
    With(u8),
}

impl Forwarding {
    /// Another gateway forwards what a host has asked it for.
    pub(in crate::core) fn on_forward(
        &mut self,
        cx: &mut Context,
        now: Time,
        link: Link,
        request: Forward,
        payload: Slice,
    ) {
        self.receiving.note_link(link);
        let Some(tag) = self.receiving.put(Sender {
            link,
            tag: request.tag,
            window: None,
        }) else {
            return send(cx, now, link, request.tag, code::BUSY, Payload::None);
        };
        match self.receiving.judge(cx, now, link, &request, &payload) {
            Ok((work, window)) => {
                if let Some(at) = window {
                    self.receiving.take_on(tag, at);
                }
                self.carry_out(cx, now, tag, work, &request, payload);
            }
            Err(Refused::UnderWay) => drop(self.receiving.take(tag, code::BUSY)),
            Err(Refused::With(code)) => self.receiving.answer(cx, now, tag, code, Payload::None),
        }
    }

    /// A forwarded request goes where a host's of this core would.
    fn carry_out(&mut self, cx: &mut Context, now: Time, tag: u64, work: Work, request: &Forward, payload: Slice) {
        let generation = match cx.config.faults.has(Fault::AnyGeneration) {
            true => Generation(0),
            false => request.generation,
        };
        let origin = Origin {
            core: cx.config.core as u16,
            front: FORWARDED,
            tag,
            arrived: cx.clock.began(),
            parsed: now,
            kept: cx.clock.began(),
            trace: TraceId::NONE,
            host: HostKey::from(request.host),
            generation,
            snapshot: request.snapshot,
        };
        match work {
            Work::Io(op) => route::route(cx, self, now, origin, request.volume, op, payload),
            work @ (Work::Reserve | Work::Lend | Work::GiveBack) => {
                self.wait(cx, now, request.volume, origin, work, payload)
            }
        }
    }
}

impl Receiving {
    /// Is a forwarded request to be carried out (R9)? What it asks for, and where its end is to be noted, if it writes.
    fn judge(
        &mut self,
        cx: &Context,
        now: Time,
        link: Link,
        request: &Forward,
        payload: &Slice,
    ) -> Result<(Work, Option<WindowSlot>), Refused> {
        let faults = cx.config.faults;
        let sender = self.peers.get(&link);
        let known = sender.is_some_and(|(node, _)| cx.view.session(*node) == Some(request.session));
        if !known && !faults.has(Fault::AnySession) {
            return Err(Refused::With(code::NOT_LIVING));
        }
        // What is kept of a process is kept for each of its cores: tags of anything else would have it kept without end.
        if token::id_shard(request.tag) != FORWARDS {
            return Err(Refused::With(code::INVALID));
        }
        let writes = matches!(
            request.op,
            ForwardOp::Write | ForwardOp::Clear | ForwardOp::CompareAndWrite
        );
        let open = cx.shards.generation(request.volume);
        let mut window = None;
        if writes && !faults.has(Fault::NoWindow) {
            window = Some(self.judge_write(cx, link, request, open)?);
        }
        let stale_after = cx.config.stale_after.as_nanos() as u64;
        let is_fresh = request.as_of > 0 && request.as_of.abs_diff(now.0) <= stale_after;
        if !is_fresh && !faults.has(Fault::AnyAge) {
            // "Stale" says that it was not carried out, which only the owner under that generation knows.
            let knows = !writes || open == Some(request.generation);
            return Err(Refused::With(if knows { code::STALE } else { code::BUSY }));
        }
        if checksum(payload) != request.crc {
            return Err(Refused::With(code::CHECKSUM));
        }
        let work = work_from_wire(request).filter(|_| request.generation > Generation(0));
        Ok((work.ok_or(Refused::With(code::INVALID))?, window))
    }

    /// Was a write carried out before, or is it about to be? Else where its end is to be noted.
    fn judge_write(
        &mut self,
        cx: &Context,
        link: Link,
        request: &Forward,
        open: Option<Generation>,
    ) -> Result<WindowSlot, Refused> {
        let view = &cx.view;
        let lives = |session| view.living().any(|node| view.session(node) == Some(session));
        let at = match self.look_up(link, request.session, request.tag, lives) {
            Known::New(at) => at,
            Known::UnderWay => return Err(Refused::UnderWay),
            Known::Ended(code) => return Err(Refused::With(code)),
        };
        // Of another generation nothing is known here: not even that it was not carried out.
        let other = open.is_some_and(|ours| ours != request.generation);
        if other && !cx.config.faults.has(Fault::AnyGeneration) {
            return Err(Refused::With(code::BUSY));
        }
        Ok(at)
    }

    /// Ends a forwarded command about a reservation.
    pub(in crate::core) fn reserved(
        &mut self,
        cx: &mut Context,
        now: Time,
        tag: u64,
        result: &Result<reservation::State, Refusal>,
    ) {
        let Some(Sender { link, tag, .. }) = self.take(tag, code::DONE) else {
            return;
        };
        match result {
            Err(Refusal::Unavailable) => return send(cx, now, link, tag, code::NOT_OWNER, Payload::None),
            Err(Refusal::Unknown) => return send(cx, now, link, tag, code::LOST, Payload::None),
            _ => {}
        }
        // Whoever asks reads none of the notices, for which there is no room (`RESERVATION_CHARGE_BYTES`).
        let told = result.clone().map(|state| reservation::State {
            notices: VecDeque::new(),
            ..state
        });
        let text = serde_json::to_vec(&told).expect("numbers and names");
        let data = Slice::copy_from(&text);
        send_answer(cx, now, link, tag, code::DONE, (form::RESERVATION, 0, data));
    }

    /// Ends forwarded asks for tokens.
    pub(in crate::core) fn lent(&mut self, cx: &mut Context, now: Time, tag: u64, result: Result<Answer, IoError>) {
        let Some(Sender { link, tag, .. }) = self.take(tag, code::DONE) else {
            return;
        };
        match result {
            Ok(answer) => send_answer(cx, now, link, tag, code::DONE, (form::TOKENS, 0, write_answer(&answer))),
            Err(IoError::Invalid) => send(cx, now, link, tag, code::INVALID, Payload::None),
            Err(_) => send(cx, now, link, tag, code::NOT_OWNER, Payload::None),
        }
    }

    /// Ends a forwarded request that came in here.
    pub(in crate::core) fn done(
        &mut self,
        cx: &mut Context,
        now: Time,
        tag: u64,
        result: Result<(), IoError>,
        payload: Payload,
    ) {
        let code = match result {
            Ok(()) => code::DONE,
            Err(why) => error_to_wire(why),
        };
        self.answer(cx, now, tag, code, payload);
    }

    fn answer(&mut self, cx: &mut Context, now: Time, tag: u64, code: u8, payload: Payload) {
        if let Some(Sender { link, tag, .. }) = self.take(tag, code) {
            send(cx, now, link, tag, code, payload);
        }
    }

    /// Was it forwarded by a link that is gone? Then it comes again by the next.
    pub(super) fn is_orphan(&self, config: &CoreConfig, origin: &Origin) -> bool {
        let is_ours = !is_host(origin.front) && usize::from(origin.core) == config.core;
        is_ours && !self.is_connected(origin.tag)
    }
}

fn send(cx: &mut Context, now: Time, link: Link, tag: u64, code: u8, payload: Payload) {
    let (form, value, data) = match payload {
        Payload::None => (form::NONE, 0, Slice::default()),
        Payload::Zeros(bytes) => (form::ZEROS, bytes, Slice::default()),
        Payload::Data(data) => (form::DATA, 0, data),
        Payload::Allocation(words) => (form::ALLOCATION, 0, words_to_wire(words.iter())),
        Payload::Differs(differs) => {
            let words = differs.changed.iter().chain(&differs.allocated);
            (form::DIFFERS, 0, words_to_wire(words))
        }
    };
    send_answer(cx, now, link, tag, code, (form, value, data));
}

fn send_answer(cx: &mut Context, now: Time, link: Link, tag: u64, code: u8, (form, value, data): (u8, u32, Slice)) {
    let answer = Forwarded {
        tag,
        code,
        form,
        value,
        crc: checksum(&data),
        clock: now.0,
    };
    cx.peers.answer(link, Message::Forwarded(answer), data, &mut cx.control);
}
