//! The store's answers are compared with what the model allows.

use super::super::Told;
use super::game::{Asked, Game, Key, What};
use super::question::{Ask, Question, Said};
use amita_types::message::{AnswerBody, DataAnswer, MendedAnswer, Problem, Refusal};
use amita_types::{Generation, Version, VolumeId};
use std::time::Duration;

impl Game {
    /// Hears all that the store has said.
    pub fn listen(&mut self) {
        for told in std::mem::take(&mut self.rig.told) {
            let Some(asked) = self.asked.remove(&(told.link, told.answer.id)) else {
                continue;
            };
            self.say(|| format!("    {:?} is told {}: {}", told.link, told.answer.id, brief(&told)));
            let volume = asked.volume;
            self.hear(asked, &told);
            self.hear_rights(volume, &told);
        }
    }

    /// What comes with every answer: a lease (R4) and credits (R7).
    fn hear_rights(&mut self, volume: VolumeId, told: &Told) {
        let lease = Duration::from_millis(u64::from(told.answer.lease_ms));
        let until = self.rig.now.plus(lease);
        let volume = self.volume(volume);
        if !lease.is_zero() {
            volume.leased_until = volume.leased_until.max(until);
        }
        if told.link == volume.owner.link {
            volume.credits += u64::from(told.answer.credit_blocks);
        }
    }

    fn hear(&mut self, asked: Asked, told: &Told) {
        let result = &told.answer.result;
        if let Err(Refusal::Fenced { generation }) = result
            && self.is_deposed(&asked, *generation)
        {
            if let What::Deed {
                key,
                number,
                again: false,
                ..
            } = asked.what
            {
                self.chunk(key).drop_from(number);
            }
            if let What::RetainSnapshots(key) = asked.what {
                self.chunk(key).end_retain(false);
            }
            return;
        }
        match (asked.what, result) {
            (What::Deed { key, number, .. }, Ok(AnswerBody::Done)) => {
                let chunk = self.chunk(key);
                if chunk.acknowledge(number) {
                    chunk.made |= chunk.held.exists();
                    self.score.writes_acknowledged += 1;
                }
            }
            (
                What::Deed {
                    key,
                    number,
                    again,
                    blocks,
                    covered,
                },
                Err(refusal),
            ) => {
                if self.is_spoiled(refusal) {
                    self.chunk(key).drop_from(number);
                    return;
                }
                assert!(
                    !again,
                    "what was accepted is refused when it is sent again: {refusal:?}"
                );
                match refusal {
                    Refusal::NoSpace => {
                        assert!(
                            covered < blocks || blocks == 0,
                            "no space for {blocks} blocks of {key:?}, which were granted (rule R7)"
                        );
                        self.score.no_space += 1;
                    }
                    Refusal::Busy => self.score.busy += 1,
                    _ => panic!("{key:?}: what is right is refused: {refusal:?}"),
                }
                assert!(
                    self.chunk(key).drop_from(number),
                    "{key:?}: it was refused before, or is done"
                );
                self.volume(key.0).credits += covered;
            }
            (
                What::Question {
                    key,
                    question,
                    turns,
                    accepted,
                },
                _,
            ) => self.hear_answer(key, &question, turns, accepted, told),
            (What::RetainSnapshots(key), Ok(AnswerBody::Done)) => self.chunk(key).end_retain(true),
            // There is always room to delete.
            (What::RetainSnapshots(key), Err(refusal)) => {
                assert!(
                    *refusal == Refusal::Busy || self.is_spoiled(refusal),
                    "{key:?}: {refusal:?}"
                );
                self.score.busy += 1;
                self.chunk(key).end_retain(false);
            }
            (What::NothingToMake(key), Ok(AnswerBody::Done)) => self.chunk(key).made = true,
            (What::Invalid(what, chunk), Err(refusal)) if *refusal == (Refusal::Invalid { what }) => {
                self.score.refused_rightly += 1;
                if let Some(key) = chunk {
                    self.hear_unmakable(key, what);
                }
            }
            (What::Restore, Ok(AnswerBody::Mended(MendedAnswer { skipped }))) => match skipped.is_empty() {
                true => self.score.restored += 1,
                false => self.score.restore_skipped += 1,
            },
            // The snapshot, or the volume, is not kept any more.
            (
                What::Restore,
                Err(
                    Refusal::Busy
                    | Refusal::Invalid {
                        what: Problem::Snapshot,
                    },
                ),
            ) => self.score.busy += 1,
            (What::WrongPredecessor, Err(Refusal::WrongPredecessor { .. })) => self.score.refused_rightly += 1,
            (What::Busy, Err(Refusal::Busy)) => self.score.refused_rightly += 1,
            (What::Fence, Ok(AnswerBody::Fenced)) => self.taken_over(asked.volume),
            (What::Fence, Err(Refusal::Busy | Refusal::NoSpace)) => self.volume(asked.volume).next = None,
            (What::Part, Ok(AnswerBody::Done)) | (What::RenewLease, Ok(AnswerBody::LeaseRenewed)) => {}
            // What is wrong may also meet a store that is full.
            (
                What::Part | What::NothingToMake(_) | What::Invalid(..) | What::WrongPredecessor,
                Err(Refusal::Busy | Refusal::NoSpace | Refusal::WrongPredecessor { .. }),
            ) => self.score.busy += 1,
            (what, result) => panic!("{what:?} is answered with {result:?}"),
        }
    }

    /// Was it asked by somebody who is, or is about to be, no owner any more?
    fn is_deposed(&mut self, asked: &Asked, generation: Generation) -> bool {
        let volume = self.volume(asked.volume);
        let next = volume.next.as_ref().map(|(asker, _)| asker.generation);
        asked.generation < generation && (Some(generation) == next || generation <= volume.owner.generation)
    }

    /// A change that was accepted and cannot be done, because what it is merged with is rotten; or one behind it.
    fn is_spoiled(&self, refusal: &Refusal) -> bool {
        self.rots() && matches!(refusal, Refusal::Damaged { .. } | Refusal::WrongPredecessor { .. })
    }

    fn hear_answer(&mut self, key: Key, question: &Question, turns: usize, accepted: Version, told: &Told) {
        let result = &told.answer.result;
        match result {
            Err(Refusal::Busy) => {
                self.score.busy += 1;
                return;
            }
            Err(Refusal::Damaged { .. }) if self.rots() => return,
            // A version that nobody has sent, or that was dropped with rotten blocks before it.
            Err(Refusal::Behind { .. }) if question.least > accepted || self.rots() => return,
            _ => {}
        }
        let said = Said {
            result,
            payload: &told.payload,
        };
        let rots = self.rots();
        let chunk = self.chunk(key);
        let Some(mut states) = chunk.since(turns).map(Iterator::collect::<Vec<_>>) else {
            self.score.answers_too_late += 1;
            return;
        };
        // What was accepted when it was asked is waited for.
        let waits = matches!(question.ask, Ask::Open | Ask::Changes { .. }) && question.snapshot == 0 && !rots;
        let fits = states.drain(..).any(|held| {
            let drained = !waits || held.version() >= accepted || held.head.is_none();
            drained && question.fits(held, &said)
        });
        assert!(
            fits,
            "{key:?}: {question:?} is answered with {}: that was never so, or is older than it may be",
            brief(told)
        );
        self.score.answers_compared += 1;
    }

    /// A clone's chunk cannot be made: what it is to be made of is not kept any more, or belongs to a newer owner.
    fn hear_unmakable(&mut self, key: Key, what: Problem) {
        match what {
            Problem::Snapshot => self.chunk(key).made = true,
            _ => self.fence(key.0),
        }
    }

    /// The fence of a volume's next owner was answered.
    fn taken_over(&mut self, id: VolumeId) {
        let now = self.rig.now;
        let volume = self.volume(id);
        let Some((next, _)) = volume.next.take() else {
            return;
        };
        assert!(
            now >= volume.leased_until,
            "the old owner of {id} had a lease for longer (rule R4)"
        );
        let again = next.generation == volume.owner.generation;
        volume.owned_by(next);
        self.score.takeovers += 1;
        // Rule R6: all that was accepted earlier is durable, and was answered before.
        for ((_, index), chunk) in self.chunks.range((id, 0)..=(id, u64::MAX)) {
            assert!(
                again || chunk.is_idle(),
                "chunk {index} of {id} was not drained before the fence was answered"
            );
        }
    }
}

/// An answer as people read it.
fn brief(told: &Told) -> String {
    match &told.answer.result {
        Ok(AnswerBody::Data(DataAnswer { version, sums, .. })) => {
            format!("data of {version}, {} bytes, sums {sums:x?}", told.payload.len())
        }
        other => format!("{other:?}"),
    }
}
