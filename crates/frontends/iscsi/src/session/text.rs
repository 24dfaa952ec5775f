//! Text requests: what there is to discover, and what may be agreed on anew (RFC 7143, 11.10 and 11.11; appendix C).
//!
//! An answer that is longer than the initiator takes in one PDU goes out in parts, each when it is asked for. The targets are told one
//! after the other, as the settings have them at that moment, so that nothing is kept but what of one target did not fit.

use super::Session;
use crate::Cx;
use crate::catalog::{Catalog, target_address};
use crate::negotiation::Phase;
use crate::text::{Gathered, NOT_UNDERSTOOD, Pair, Text, find, parse};
use crate::wire::{Header, NO_TAG, flag, opcode, reject};
use amita_scsi::Target;
use amita_types::iscsi_name;
use std::sync::Arc;

/// How often one session may ask for all targets: each time all of them are looked through, which anybody may ask for, and initiators ask
/// once and leave.
const MAX_LISTINGS: u32 = 64;

/// What is still to be told.
#[derive(Debug, Default)]
enum Listing {
    #[default]
    Nothing,
    /// The targets behind that name; empty: all.
    Behind(String),
}

/// An exchange of texts.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The initiator's and the target's tag, while it goes on.
    open: Option<(u32, u32)>,
    /// What has come of a text that is in parts.
    gathered: Gathered,
    /// What is to be sent.
    answer: Vec<u8>,
    listing: Listing,
}

/// Takes a text request.
pub(super) fn request(session: &mut Session, header: &Header, data: &[u8], cx: &mut Cx<'_>) {
    let (is_last, continues) = (header.has(flag::FINAL), header.has(flag::CONTINUE));
    let tags = (header.task_tag(), header.target_tag());
    let is_begin = header.target_tag() == NO_TAG;
    // What goes on is not the last (11.10.2).
    let is_wrong = (is_last && continues) || header.task_tag() == NO_TAG;
    if is_wrong || (!is_begin && session.text.open != Some(tags)) {
        session.text = Exchange::default();
        return session.reject(header, reject::PROTOCOL, cx);
    }
    if is_begin {
        session.text = Exchange::default();
    }
    let asks_for_more = !session.text.answer.is_empty() || !matches!(session.text.listing, Listing::Nothing);
    if asks_for_more && data.is_empty() && !continues {
        return answer(session, header, is_last, cx);
    }
    if asks_for_more || session.text.gathered.add(data).is_err() {
        session.text = Exchange::default();
        return session.reject(header, reject::PROTOCOL, cx);
    }
    if !continues {
        let text = session.text.gathered.take();
        let taken = parse(&text).and_then(|pairs| take(session, &pairs));
        if taken.is_err() {
            session.text = Exchange::default();
            return session.reject(header, reject::PROTOCOL, cx);
        }
    }
    answer(session, header, is_last && !continues, cx);
}

/// Takes keys.
///
/// A text of nothing but keys that nobody knows is refused as a whole: libiscsi's suite wants it so, and who speaks what is newer than
/// this sees as much by that. (Private keys, and unknown ones beside known ones, are "NotUnderstood".)
fn take(session: &mut Session, pairs: &[Pair<'_>]) -> Result<(), &'static str> {
    let mut answer = Text::new();
    if let Some(value) = find(pairs, "SendTargets") {
        targets(session, value, &mut answer)?;
    }
    let rest: Vec<Pair<'_>> = pairs.iter().filter(|pair| pair.0 != "SendTargets").copied().collect();
    let before = answer.len();
    session.negotiation.take(&rest, Phase::FullFeature, &mut answer)?;
    let answered = parse(&answer.as_bytes()[before..])?;
    let is_unknown = |pair: &Pair<'_>| pair.1 == NOT_UNDERSTOOD && !pair.0.starts_with("X-");
    if !pairs.is_empty() && answered.len() == pairs.len() && answered.iter().all(is_unknown) {
        return Err("a text of unknown keys");
    }
    session.text.answer = answer.into_bytes();
    Ok(())
}

/// Begins to tell of targets (appendix C): of all in a discovery session, and else of the one that the session is with.
///
/// "All" is for discovery sessions only; a normal one that asks so (libiscsi's suite) is told what it may know: its own target.
fn targets(session: &mut Session, value: &str, answer: &mut Text) -> Result<(), &'static str> {
    let own = session.names.target.as_deref();
    let named = match (value, own) {
        ("All", None) => {
            session.listings += 1;
            if session.listings > MAX_LISTINGS {
                return Err("all targets are asked for more often than anybody needs");
            }
            session.text.listing = Listing::Behind(String::new());
            return Ok(());
        }
        ("", None) => return Err("a discovery session has no target of its own"),
        ("All" | "", Some(own)) => own.to_owned(),
        (name, _) => iscsi_name::canonical(name).map_err(|_| "SendTargets with what is no name")?,
    };
    // Another target than its own is not told of in a normal session; what it may not use, in none.
    let is_told = own.is_none_or(|own| own == named);
    let catalog = &session.catalog;
    let target = catalog.scsi.target(&named).filter(|_| is_told);
    if let Some(target) = target.filter(|target| target.admits(&session.names.initiator)) {
        tell(catalog, target, answer);
    }
    Ok(())
}

/// Tells of one target: its name, and where it is. Its alias a login tells: libiscsi, and QEMU with it, gives up a discovery at any other key.
fn tell(catalog: &Catalog, target: &Target, answer: &mut Text) {
    answer.push("TargetName", &target.name);
    for (portal, tag) in catalog.portals_of(target) {
        answer.push("TargetAddress", &target_address(portal, Some(tag)));
    }
}

/// Adds targets to what is to be sent, until a PDU is full.
fn list(session: &mut Session, most: usize) {
    let catalog: Arc<Catalog> = session.catalog.clone();
    let text = &mut session.text;
    while let Listing::Behind(last) = &mut text.listing
        && text.answer.len() < most
    {
        let next = catalog.scsi.targets.partition_point(|target| target.name <= *last);
        let rest = &catalog.scsi.targets[next.min(catalog.scsi.targets.len())..];
        match rest.iter().find(|target| target.admits(&session.names.initiator)) {
            Some(target) => {
                let mut one = Text::new();
                tell(&catalog, target, &mut one);
                last.clone_from(&target.name);
                text.answer.extend_from_slice(one.as_bytes());
            }
            None => text.listing = Listing::Nothing,
        }
    }
}

/// Sends the next part of the answer. `is_last`: the initiator has said all that it has to say.
fn answer(session: &mut Session, header: &Header, is_last: bool, cx: &mut Cx<'_>) {
    let most = session.link.max_send;
    list(session, most);
    let text = &mut session.text;
    let mut end = text.answer.len().min(most);
    let has_more = text.answer.len() > most || !matches!(text.listing, Listing::Nothing);
    if has_more && let Some(null) = text.answer[..end].iter().rposition(|byte| *byte == 0) {
        // Behind a whole pair, where there is one.
        end = null + 1;
    }
    let part: Vec<u8> = text.answer.drain(..end).collect();
    let is_end = is_last && !has_more;
    let (flags, tag) = match (is_end, has_more) {
        (true, _) => (flag::FINAL, NO_TAG),
        (false, true) => (flag::CONTINUE, session.next_transfer_tag()),
        (false, false) => (0, session.next_transfer_tag()),
    };
    session.text.open = (!is_end).then_some((header.task_tag(), tag));
    let answer = Header::new(opcode::TEXT_RESPONSE, flags)
        .with_lun(header.lun())
        .with_task_tag(header.task_tag())
        .with_target_tag(tag);
    session.send(answer, &part, cx);
    // What the initiator takes has effect behind what has been agreed on.
    session.agreed = session.negotiation.agreed().clone();
    session.link.max_send = session.agreed.max_send as usize;
}
