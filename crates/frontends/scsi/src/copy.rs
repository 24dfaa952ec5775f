//! Third-party copies (SPC-4, "Third-party copies"): EXTENDED COPY with list identifiers of one byte, as SPC-3 has it and ESXi sends it, and what
//! RECEIVE COPY RESULTS tells of that. Blocks are copied from any logical unit that the initiator may use to any other, or to the same.

mod list;
mod results;
#[cfg(test)]
mod tests;

pub(crate) use list::extended;
pub(crate) use results::results;

use crate::device::{Scope, gather};
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Place, Plan, Segment};
use crate::sense::{Key, Sense, Status, code};
use crate::token::{Sum, Summer, TokenRest};
use crate::unit::{Catalog, Unit};
use amita_types::io::IoError;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// The most descriptors of what is copied from and to: MAXIMUM CSCD DESCRIPTOR COUNT.
pub const MAX_TARGETS: u16 = 16;
/// The most segments: MAXIMUM SEGMENT DESCRIPTOR COUNT.
pub const MAX_SEGMENTS: u16 = 64;
/// The longest of both together: MAXIMUM DESCRIPTOR LIST LENGTH.
pub const MAX_DESCRIPTOR_BYTES: u32 = MAX_TARGETS as u32 * 32 + MAX_SEGMENTS as u32 * 28;
/// The longest segment, in bytes: MAXIMUM SEGMENT LENGTH.
pub const MAX_SEGMENT_BYTES: u32 = 256 << 20;
/// Outcomes of copies that a nexus keeps, the last ones.
const MAX_KEPT: usize = 16;

/// Asks for the parameter list of a copy, or of one by token.
pub(crate) fn begin(scope: &Scope<'_>) -> Result<Plan, Answer> {
    gather(scope, u64::from(scope.cdb.u32(10)), 10)
}

/// By what the host names a copy: one of a byte, and the same number in four, are the same name (SPC-4 5.17.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListId(pub u32);

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The service action of the command that asked for it.
    pub action: u8,
    pub segments: u16,
    pub bytes: u64,
    /// Why it ended before its end.
    pub failure: Option<Sense>,
    /// Bytes of a logical block, in which the count is told.
    pub block_bytes: u32,
    /// What a POPULATE TOKEN has made.
    pub token: Option<Box<[u8; crate::token::TOKEN_BYTES]>>,
}

/// How it stands with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    /// Asked for by that service action.
    UnderWay(u8),
    Ended(&'a Outcome),
}

/// A copy that was begun.
#[derive(Clone, Debug)]
struct Begun {
    id: ListId,
    /// The service action of the command that asked for it.
    action: u8,
    /// Somebody has the rest of it to do.
    held: Weak<()>,
}

/// The outcomes that a nexus keeps, oldest first; and its copies that are under way, as long as somebody has the rest of them to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    ended: VecDeque<(ListId, Outcome)>,
    begun: Vec<Begun>,
}

impl Copies {
    /// One begins, and is under way for as long as what is returned is held. What is known of an earlier one of that name is told no more.
    ///
    /// # Errors
    /// OPERATION IN PROGRESS: another one of that name, of the same nexus, is under way (SPC-4 5.17.4.2).
    pub fn begin(&mut self, id: ListId, action: u8) -> Result<Arc<()>, Sense> {
        self.check_free(id)?;
        self.ended.retain(|known| known.0 != id);
        self.begun.retain(|begun| begun.held.strong_count() > 0);
        let held = Arc::new(());
        self.begun.push(Begun {
            id,
            action,
            held: Arc::downgrade(&held),
        });
        Ok(held)
    }

    /// Refuses a name that is that of a copy which is under way.
    ///
    /// # Errors
    /// See [`Copies::begin`].
    pub fn check_free(&self, id: ListId) -> Result<(), Sense> {
        match self.under_way(id) {
            Some(_) => Err(Sense::new(Key::IllegalRequest, code::OPERATION_IN_PROGRESS)),
            None => Ok(()),
        }
    }

    fn under_way(&self, id: ListId) -> Option<&Begun> {
        let mut under_way = self.begun.iter().filter(|begun| begun.held.strong_count() > 0);
        under_way.find(|begun| begun.id == id)
    }

    /// Keeps the outcome of one that has ended; of the same name, only the last.
    pub fn keep(&mut self, id: ListId, outcome: Outcome) {
        self.begun.retain(|begun| begun.id != id);
        self.ended.retain(|known| known.0 != id);
        if self.ended.len() == MAX_KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back((id, outcome));
    }

    pub fn find(&self, id: ListId) -> Option<Known<'_>> {
        let under_way = self.under_way(id).map(|begun| Known::UnderWay(begun.action));
        let ended = || self.ended.iter().find(|known| known.0 == id);
        under_way.or_else(|| ended().map(|known| Known::Ended(&known.1)))
    }
}

/// What is left to do when the segments of a copy are through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRest {
    /// `None`: nothing is kept of it.
    pub(crate) id: Option<ListId>,
    /// The bytes of each segment, by which it is found how far a copy has come.
    pub(crate) lengths: Vec<u64>,
    pub(crate) block_bytes: u32,
    /// Of copies by token.
    pub(crate) token: Option<Box<TokenRest>>,
    /// It is [under way](Copies::begin), if it has a name.
    pub(crate) held: Option<Arc<()>>,
}

impl CopyRest {
    pub(crate) fn of(id: Option<ListId>, lengths: Vec<u64>, block_bytes: u32) -> CopyRest {
        CopyRest {
            id,
            lengths,
            block_bytes,
            token: None,
            held: None,
        }
    }

    /// What sums up what is read of segments that are [to be summed](crate::plan::Segment::summed_at), by [`CopyRest::section`].
    #[must_use]
    pub fn summer(&self) -> Option<Summer> {
        self.token.as_ref().map(|token| token.summer)
    }

    /// The section of what a token represents in which that byte of it lies: below [`MAX_SECTIONS`](crate::token::MAX_SECTIONS).
    #[must_use]
    pub fn section(at: u64) -> usize {
        (at / crate::token::SECTION_BYTES) as usize
    }

    /// How many segments lie before that byte of all of them, and how many bytes of the one that does not.
    fn position(&self, mut bytes: u64) -> (u16, u64) {
        let mut whole = 0;
        for length in &self.lengths {
            if bytes < *length {
                break;
            }
            bytes -= length;
            whole += 1;
        }
        (whole, bytes)
    }
}

/// The answer to a copy. `copied_bytes`: so many are copied for certain, from the begin of the first segment on; `sums`: of each section what
/// was summed; `result`: why it went no further.
pub fn copied(
    then: &CopyRest,
    copied_bytes: u64,
    sums: &[Sum],
    result: Result<(), IoError>,
    nexus: &mut Nexus,
) -> Answer {
    if let (Some(token), Some(id)) = (&then.token, then.id) {
        return token.end(id, then.block_bytes, sums, result, nexus);
    }
    let (segments, rest) = then.position(copied_bytes);
    let (answer, failure) = match result {
        Ok(()) => (Answer::good(), None),
        Err(IoError::Reserved) => (Answer::of(Status::ReservationConflict), Some(conflict())),
        Err(error) => {
            let mut sense = Sense::new(Key::CopyAborted, code_of(error));
            // SPC-4, "Errors detected during processing of segment descriptors": which segment it is in the third and fourth byte of
            // COMMAND-SPECIFIC INFORMATION, how many blocks of it are left in INFORMATION.
            let length = then.lengths.get(usize::from(segments)).copied().unwrap_or(rest);
            sense.command_specific = Some(u64::from(segments));
            sense.information = Some((length - rest) / u64::from(then.block_bytes));
            (Answer::check(sense), Some(sense))
        }
    };
    let Some(id) = then.id else { return answer };
    let outcome = Outcome {
        action: action::EXTENDED_COPY,
        segments,
        bytes: copied_bytes,
        failure,
        block_bytes: then.block_bytes,
        token: None,
    };
    nexus.copies.keep(id, outcome);
    answer
}

/// May a copy of that nexus go on, now that the settings are these? Of what is left of it nothing may be read that the initiator may not read any
/// more, nor be written: who has that volume now may be another one. (What a token stands for, whoever was given it may read, as long as it
/// is a logical unit.)
#[must_use]
pub fn may_go_on(left: &[Segment], then: &CopyRest, catalog: &Catalog, nexus: &Nexus) -> bool {
    let mut checked: Vec<(Place, bool)> = Vec::new();
    left.iter().all(|segment| {
        let written = segment.is_written.then_some((segment.to, true));
        let places = [Some((segment.from, then.token.is_none())), written];
        places.into_iter().flatten().all(|(place, is_own)| {
            if checked.contains(&(place, is_own)) {
                return true;
            }
            checked.push((place, is_own));
            let is_meant = |unit: &Unit| place.is_still_of(unit);
            match is_own {
                true => list::targets_of(catalog, nexus).any(|target| list::usable(target, nexus, is_meant).is_some()),
                false => {
                    let mut units = catalog.targets.iter().flat_map(|target| &target.units);
                    units.any(|unit| unit.is_sound() && is_meant(unit))
                }
            }
        })
    })
}

/// What is kept of a copy that has met with another host's reservation: it did not go to its end.
pub(crate) fn conflict() -> Sense {
    Sense::new(Key::CopyAborted, code::THIRD_PARTY_DEVICE_FAILURE)
}

fn code_of(error: IoError) -> crate::sense::Code {
    match error {
        IoError::NoSpace => code::SPACE_ALLOCATION_FAILED,
        IoError::ReadOnly => code::WRITE_PROTECTED,
        IoError::Damaged => code::UNRECOVERED_READ_ERROR,
        IoError::Lost | IoError::Unavailable => code::COPY_TARGET_NOT_REACHABLE,
        _ => code::THIRD_PARTY_DEVICE_FAILURE,
    }
}
