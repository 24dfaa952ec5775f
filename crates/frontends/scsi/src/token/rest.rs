//! What is done for a token, and how it ends.

use super::form::{TOKEN_BYTES, invalid};
use super::sealed::{Contents, RANDOM_BYTES, SECTION_BYTES, SEED_BYTES, TokenKeys};
use super::sum::{Sum, Summer};
use super::{MAX_SECTIONS, TokenWork};
use crate::copy::{CopyRest, ListId, Outcome, conflict};
use crate::nexus::Nexus;
use crate::opcodes::action;
use crate::plan::{Answer, Extent, Place, Plan, Segment, failed};
use crate::sense::{Key, Sense, Status, code};
use crate::unit::{Catalog, Unit};
use amita_types::io::IoError;
use std::sync::Arc;

/// What is left to do when all that a token needs was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenRest {
    pub summer: Summer,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The token is made.
    Made {
        keys: Arc<TokenKeys>,
        unit: [u8; 16],
        contents: Contents,
        random: [u8; RANDOM_BYTES],
    },
    /// What was copied is compared with the token.
    Written {
        place: Place,
        /// There is no other logical unit than that.
        of_zeros: bool,
        /// Of each section: its bytes that are written, and the sum of all of it, if it was summed.
        sections: Vec<(u64, Option<[u8; super::sum::SUM_BYTES]>)>,
    },
}

/// Begins with a token. `now`: seconds since 1970, as far as this gateway knows; `random` fills with random bytes. The copy that is planned may
/// write nothing.
pub fn begun(
    work: TokenWork,
    catalog: &Catalog,
    now: u64,
    random: &mut dyn FnMut(&mut [u8]),
    nexus: &mut Nexus,
) -> Plan {
    let Some(keys) = &catalog.tokens else {
        return invalid(code::TOKEN_UNKNOWN).into();
    };
    match work {
        TokenWork::Create {
            list,
            unit,
            place,
            extents,
            inactivity_seconds,
        } => {
            let mut bytes = [0; RANDOM_BYTES];
            random(&mut bytes);
            let mut seed = [0; SEED_BYTES];
            seed.copy_from_slice(&bytes[RANDOM_BYTES - SEED_BYTES..]);
            let contents = Contents {
                place,
                extents,
                until: now.saturating_add(inactivity_seconds.into()),
                seed,
                sums: Vec::new(),
            };
            create(ListId(list), keys.clone(), unit, contents, bytes, nexus)
        }
        TokenWork::Redeem {
            list,
            token,
            place,
            extents,
            skip_bytes,
        } => {
            let id = ListId(list);
            let opened = open(keys, &token, catalog, now).and_then(|contents| check(contents, place, &extents));
            match opened {
                Ok(contents) => redeem(id, &contents, place, &extents, skip_bytes, nexus),
                Err(sense) => {
                    let outcome = Outcome::failed(action::WRITE_USING_TOKEN, place.block_bytes, sense);
                    nexus.copies.keep(id, outcome);
                    sense.into()
                }
            }
        }
    }
}

fn create(
    id: ListId,
    keys: Arc<TokenKeys>,
    unit: [u8; 16],
    contents: Contents,
    random: [u8; RANDOM_BYTES],
    nexus: &mut Nexus,
) -> Plan {
    let block_bytes = contents.place.block_bytes;
    let segments = match contents.can_change() {
        true => only_summed(&contents, 0, contents.bytes()),
        // A snapshot stays as it is.
        false => Vec::new(),
    };
    let rest = TokenRest {
        summer: Summer::new(contents.seed),
        end: End::Made {
            keys,
            unit,
            contents,
            random,
        },
    };
    if segments.is_empty() {
        return rest.end(id, block_bytes, &[], Ok(()), nexus).into();
    }
    plan(id, segments, block_bytes, rest, nexus)
}

fn plan(id: ListId, segments: Vec<Segment>, block_bytes: u32, rest: TokenRest, nexus: &mut Nexus) -> Plan {
    let action = match rest.end {
        End::Made { .. } => action::POPULATE_TOKEN,
        End::Written { .. } => action::WRITE_USING_TOKEN,
    };
    let held = match nexus.copies.begin(id, action) {
        Ok(held) => held,
        Err(sense) => return sense.into(),
    };
    let lengths = segments.iter().map(|segment| segment.length).collect();
    let mut then = CopyRest::of(Some(id), lengths, block_bytes);
    (then.token, then.held) = (Some(Box::new(rest)), Some(held));
    Plan::Copy { segments, then }
}

/// What a token of zeros represents, written: of zeros there is no end, wherever they begin.
pub(super) fn zeros(id: ListId, place: Place, extents: &[Extent], nexus: &mut Nexus) -> Plan {
    let bytes: u64 = extents.iter().map(|extent| extent.length).sum();
    if bytes == 0 {
        let outcome = Outcome::of(action::WRITE_USING_TOKEN, 0, 0, place.block_bytes);
        nexus.copies.keep(id, outcome);
        return Answer::good().into();
    }
    let segments = extents.iter().map(|extent| Segment {
        from: place,
        from_offset: extent.offset,
        to: place,
        to_offset: extent.offset,
        length: extent.length,
        summed_at: None,
        is_zero: true,
        is_written: true,
    });
    let sections = vec![(bytes, None)];
    let rest = TokenRest {
        summer: Summer::default(),
        end: End::Written {
            place,
            of_zeros: true,
            sections,
        },
    };
    plan(id, segments.collect(), place.block_bytes, rest, nexus)
}

/// What a token stands for, if it still does.
fn open(keys: &TokenKeys, token: &[u8; TOKEN_BYTES], catalog: &Catalog, now: u64) -> Result<Contents, Sense> {
    let mut contents = keys.open(token)?;
    if now >= contents.until {
        return Err(invalid(code::TOKEN_EXPIRED));
    }
    // What is no logical unit any more, or not as it was, nobody may read by a token either.
    let Place {
        source,
        chunk_bytes,
        block_bytes,
        ..
    } = contents.place;
    let is_it = |unit: &Unit| (unit.source(), unit.chunk_bytes, unit.block_bytes) == (source, chunk_bytes, block_bytes);
    let mut units = catalog.targets.iter().flat_map(|target| &target.units);
    let unit = units.find(|unit| unit.is_sound() && is_it(unit));
    let unit = unit.filter(|unit| contents.extents.iter().all(|extent| extent.end() <= unit.size_bytes));
    contents.place = Place::of(unit.ok_or(invalid(code::TOKEN_REVOKED))?);
    Ok(contents)
}

/// What would be written over what the token stands for ends it before all of that was read.
fn check(contents: Contents, place: Place, extents: &[Extent]) -> Result<Contents, Sense> {
    let is_over_itself = place.source == contents.place.source
        && extents
            .iter()
            .any(|extent| contents.extents.iter().any(|source| source.overlaps(extent)));
    match is_over_itself {
        true => Err(invalid(code::TOKEN_REVOKED)),
        false => Ok(contents),
    }
}

/// The copy that writes what a token represents. Where it represents less than is to be written, less is written, as "WRITE USING TOKEN command" has
/// it: the transfer count tells how much.
fn redeem(
    id: ListId,
    contents: &Contents,
    place: Place,
    extents: &[Extent],
    skip_bytes: u64,
    nexus: &mut Nexus,
) -> Plan {
    let written = paired(contents, skip_bytes, place, extents);
    let bytes: u64 = written.iter().map(|segment| segment.length).sum();
    if written.is_empty() {
        let outcome = Outcome::of(action::WRITE_USING_TOKEN, 0, 0, place.block_bytes);
        nexus.copies.keep(id, outcome);
        return Answer::good().into();
    }
    let mut summed = vec![(0, None); MAX_SECTIONS];
    let segments = match contents.sums.is_empty() {
        true => {
            summed[0].0 = bytes;
            written
                .into_iter()
                .map(|segment| Segment {
                    summed_at: None,
                    ..segment
                })
                .collect()
        }
        // The rest of the sections is read as well, for they are summed as a whole.
        false => {
            let (begin, end) = (skip_bytes, skip_bytes + bytes);
            let first = begin / SECTION_BYTES * SECTION_BYTES;
            let last = end.next_multiple_of(SECTION_BYTES).min(contents.bytes());
            let before = only_summed(contents, first, begin - first);
            let after = only_summed(contents, end, last - end);
            let segments = [before, by_sections(written), after].concat();
            for segment in &segments {
                let section = segment.summed_at.map_or(0, CopyRest::section);
                if let Some(known) = summed.get_mut(section) {
                    known.0 += if segment.is_written { segment.length } else { 0 };
                    known.1 = contents.sums.get(section).copied();
                }
            }
            segments
        }
    };
    let rest = TokenRest {
        summer: Summer::new(contents.seed),
        end: End::Written {
            place,
            of_zeros: false,
            sections: summed,
        },
    };
    plan(id, segments, place.block_bytes, rest, nexus)
}

/// Pairs what is represented, but for its first bytes, with where it goes.
pub(super) fn paired(contents: &Contents, skip: u64, to: Place, targets: &[Extent]) -> Vec<Segment> {
    let (mut segments, mut begin) = (Vec::new(), 0_u64);
    let mut targets = targets.iter().copied();
    let mut target = targets.next();
    for source in &contents.extents {
        let skipped = skip.saturating_sub(begin).min(source.length);
        let (mut offset, end) = (source.offset + skipped, source.end());
        while let Some(wanted) = target.filter(|_| offset < end) {
            let length = wanted.length.min(end - offset);
            segments.push(Segment {
                from: contents.place,
                from_offset: offset,
                to,
                to_offset: wanted.offset,
                length,
                summed_at: Some(begin + (offset - source.offset)),
                is_zero: false,
                is_written: true,
            });
            offset += length;
            let rest = Extent {
                offset: wanted.offset + length,
                length: wanted.length - length,
            };
            target = if rest.length > 0 { Some(rest) } else { targets.next() };
        }
        begin += source.length;
    }
    segments
}

/// Segments that are only read: so many bytes from that one on of what is represented.
fn only_summed(contents: &Contents, at: u64, length: u64) -> Vec<Segment> {
    let nowhere = Extent { offset: 0, length };
    let read = match length {
        0 => Vec::new(),
        _ => paired(contents, at, contents.place, &[nowhere]),
    };
    let read = read.into_iter().map(|segment| Segment {
        to_offset: segment.from_offset,
        is_written: false,
        ..segment
    });
    by_sections(read.collect())
}

/// The same, cut where a section ends.
fn by_sections(segments: Vec<Segment>) -> Vec<Segment> {
    let mut cut = Vec::with_capacity(segments.len());
    for mut segment in segments {
        while segment.length > 0 {
            let at = segment.summed_at.unwrap_or_default();
            let length = segment.length.min(SECTION_BYTES - at % SECTION_BYTES);
            cut.push(Segment { length, ..segment });
            segment.from_offset += length;
            segment.to_offset += length;
            segment.length -= length;
            segment.summed_at = Some(at + length);
        }
    }
    cut
}

impl TokenRest {
    /// The answer, when all was read and written, or not.
    pub fn end(
        &self,
        id: ListId,
        block_bytes: u32,
        sums: &[Sum],
        result: Result<(), IoError>,
        nexus: &mut Nexus,
    ) -> Answer {
        let (answer, outcome) = match &self.end {
            End::Made {
                keys,
                unit,
                contents,
                random,
            } => match result {
                Ok(()) => {
                    let token = keys.seal(*unit, &contents.clone().with_sums(sums), random);
                    let segments = contents.extents.len() as u16;
                    let mut outcome = Outcome::of(action::POPULATE_TOKEN, segments, contents.bytes(), block_bytes);
                    outcome.token = Some(Box::new(token.encode()));
                    (Answer::good(), outcome)
                }
                Err(error) => refused(action::POPULATE_TOKEN, &contents.place, true, error),
            },
            End::Written {
                place,
                of_zeros,
                sections,
            } => match result.map(|()| verified(sections, sums)) {
                // What was not read to its end is not known to be what it was: none of it counts.
                Err(error) => refused(action::WRITE_USING_TOKEN, place, *of_zeros, error),
                Ok((bytes, true)) => {
                    let outcome = Outcome::of(action::WRITE_USING_TOKEN, 0, bytes, block_bytes);
                    (Answer::good(), outcome)
                }
                Ok((bytes, false)) => {
                    let sense = invalid(code::TOKEN_REVOKED);
                    let mut outcome = Outcome::failed(action::WRITE_USING_TOKEN, block_bytes, sense);
                    outcome.bytes = bytes;
                    (Answer::check(sense), outcome)
                }
            },
        };
        nexus.copies.keep(id, outcome);
        answer
    }
}

/// The answer to I/O that has failed, and what is told of it later; `is_alone`: it was of that logical unit, for there is no other.
fn refused(action: u8, place: &Place, is_alone: bool, error: IoError) -> (Answer, Outcome) {
    let answer = match error {
        IoError::Reserved => Answer::of(Status::ReservationConflict),
        // Which of the two logical units it was is not known.
        IoError::OutOfRange | IoError::Invalid if !is_alone => invalid(code::TOKEN_REVOKED).into(),
        _ => failed(place, error, None),
    };
    let busy = || Sense::new(Key::CopyAborted, code::COPY_TARGET_NOT_REACHABLE);
    let why = match answer.status {
        Status::ReservationConflict => conflict(),
        _ => answer.sense.unwrap_or_else(busy),
    };
    (answer, Outcome::failed(action, place.block_bytes, why))
}

/// Of a copy that went to its end: how many bytes are written as they were represented, from the first on; and whether those are all.
fn verified(sections: &[(u64, Option<[u8; super::sum::SUM_BYTES]>)], sums: &[Sum]) -> (u64, bool) {
    let mut bytes = 0;
    for (index, (written, expected)) in sections.iter().enumerate() {
        let found = sums.get(index).copied().unwrap_or_default().encode();
        if expected.is_some_and(|expected| expected != found) {
            return (bytes, false);
        }
        bytes += written;
    }
    (bytes, true)
}
