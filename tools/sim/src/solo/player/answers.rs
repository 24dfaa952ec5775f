//! What is checked of the store's answers.

use super::{Asked, Phase, Player};
use crate::solo::line::{list, piece_sums};
use crate::stamp::{self, SECTOR_BYTES, SECTORS_PER_BLOCK, Sector, Stamp};
use amita_reactor::{Slice, Time};
use amita_types::message::{Answer, AnswerBody, DataAnswer, OpenedAnswer, Refusal, Sums};
use amita_types::{BLOCK_BYTES, BlockRange, Generation, Version};
use std::time::Duration;

impl Player {
    /// The store answers.
    pub fn answer(&mut self, now: Time, answer: Answer, payload: Slice) -> Result<(), String> {
        self.now = now;
        self.credit += u64::from(answer.credit_blocks);
        let Some((asked_at, asked)) = self.asked.remove(&answer.id.0) else {
            // A resend is answered as well; the first answer counts.
            return match (self.ghosts.get(&answer.id.0), answer.result) {
                (Some(&(chunk, version)), Ok(AnswerBody::Done)) => self.on_written(chunk, version),
                _ => Ok(()),
            };
        };
        let lease = Duration::from_millis(u64::from(answer.lease_ms));
        let leased = asked_at.plus(lease);
        if let (Asked::Fence { generation }, Ok(AnswerBody::Fenced)) = (&asked, &answer.result)
            && *generation > self.fenced
        {
            // What an older generation was granted has gone with it.
            self.credit = u64::from(answer.credit_blocks);
        }
        let result = match (asked, answer.result) {
            (Asked::Fence { generation }, Ok(AnswerBody::Fenced)) => self.on_fenced(now, generation),
            (Asked::OldFence, Err(Refusal::Fenced { .. })) => return Ok(()),
            (Asked::OldFence, answer) => Err(format!(
                "generation {} came in after {}: {answer:?}",
                self.fenced.0 - 1,
                self.fenced
            )),
            (
                Asked::Open { chunk },
                Ok(AnswerBody::Opened(OpenedAnswer {
                    version,
                    incomplete: None,
                    ..
                })),
            ) => self.on_opened(chunk, version),
            (Asked::Write { chunk, version }, Ok(AnswerBody::Done)) => self.on_written(chunk, version),
            (
                Asked::Read {
                    chunk,
                    range,
                    least,
                    after_open,
                },
                Ok(AnswerBody::Data(DataAnswer { version, sums, .. })),
            ) => self.on_read(chunk, range, (least, after_open), version, &sums, &payload),
            (Asked::Settle, Ok(AnswerBody::Settled(_))) => Ok(()),
            (
                Asked::Gap { .. },
                Err(Refusal::WrongPredecessor { .. } | Refusal::Fenced { .. } | Refusal::NotFenced),
            ) => Ok(()),
            (Asked::Gap { chunk }, answer) => Err(format!(
                "chunk {chunk} took a write that does not follow what it holds: {answer:?}"
            )),
            // What was under way when a newer generation came.
            (
                Asked::Write { .. } | Asked::Read { .. } | Asked::Settle,
                Err(Refusal::Fenced { .. } | Refusal::NotFenced),
            ) if self.phase != Phase::Working => Ok(()),
            (asked, answer) => {
                let what = self.describe(&asked);
                Err(format!("{asked:?} ({what}) was answered {answer:?}"))
            }
        };
        self.leased_until = self.leased_until.max(leased);
        result
    }

    fn describe(&self, asked: &Asked) -> String {
        let Asked::Write { chunk, version } = asked else {
            return format!("{:?}", self.phase);
        };
        let line = &self.lines[*chunk as usize];
        let entry = line.entries.iter().find(|entry| entry.version == *version);
        let what = entry.map(|entry| format!("{} of {:?}", entry.stamp, entry.blocks()));
        format!(
            "{what:?}, {} blocks granted and not used, {} under way",
            self.credit,
            self.asked.len()
        )
    }

    fn on_fenced(&mut self, now: Time, generation: Generation) -> Result<(), String> {
        if generation > self.fenced && now < self.leased_until {
            return Err(format!(
                "generation {generation} was let in at {} us; the older one holds a lease until {} us",
                now.0 / 1000,
                self.leased_until.0 / 1000
            ));
        }
        self.fenced = generation;
        // Nothing that was asked under the older generation may change anything from here on.
        for (id, (_, asked)) in std::mem::take(&mut self.asked) {
            if let Asked::Write { chunk, version } = asked {
                self.ghosts.insert(id, (chunk, version));
            }
        }
        self.phase = Phase::Open;
        Ok(())
    }

    fn on_opened(&mut self, chunk: u64, version: Version) -> Result<(), String> {
        let keep = self.keep;
        let line = &mut self.lines[chunk as usize];
        let Some(length) = line.length_of(version) else {
            return Err(format!(
                "chunk {chunk} is at {version}, which is not of its line ({} last)",
                line.last()
            ));
        };
        if length < line.acknowledged {
            let acknowledged = line.version_at(line.acknowledged);
            return Err(format!(
                "chunk {chunk} is at {version}, but {acknowledged} was acknowledged"
            ));
        }
        let lost = line.entries.len() - length;
        if keep {
            // The sequencer is the same: what the store does not have is sent again, as it was.
            line.acknowledged = length;
            line.sent = length;
        } else {
            line.cut_to(length);
        }
        if lost > 0 {
            self.hit("solo.unacknowledged_lost");
        }
        Ok(())
    }

    fn on_written(&mut self, chunk: u64, version: Version) -> Result<(), String> {
        let line = &mut self.lines[chunk as usize];
        let Some(length) = line.length_of(version) else {
            return Err(format!(
                "{version} of chunk {chunk} is answered as done, and is no longer of the line"
            ));
        };
        // Answers come in the order of the log, so everything before it is durable too (D2).
        line.acknowledged = line.acknowledged.max(length);
        Ok(())
    }

    fn on_read(
        &mut self,
        chunk: u64,
        range: BlockRange,
        (least, after_open): (usize, Option<usize>),
        version: Version,
        sums: &Sums,
        payload: &Slice,
    ) -> Result<(), String> {
        let line = &self.lines[chunk as usize];
        let bytes = usize::from(range.count) * BLOCK_BYTES as usize;
        let read = if payload.is_empty() {
            vec![Stamp::ZERO; bytes / SECTOR_BYTES]
        } else {
            if payload.len() != bytes || piece_sums(0, payload) != *sums {
                return Err(format!(
                    "a read of {range:?} got {} bytes with sums that do not fit",
                    payload.len()
                ));
            }
            let first = Sector(u64::from(range.first.0) * SECTORS_PER_BLOCK as u64);
            stamp::parse(payload, chunk as u32, first).map_err(|corrupt| format!("chunk {chunk}: {corrupt}"))?
        };
        let agrees = |length: usize| {
            let (values, versions) = line.state(length);
            let first = usize::from(range.first.0);
            let blocks = first..range.end() as usize;
            let newest = versions[blocks.clone()].iter().max().copied().unwrap_or(Version::NONE);
            values[first * SECTORS_PER_BLOCK..blocks.end * SECTORS_PER_BLOCK] == read[..] && newest == version
        };
        let lengths = match after_open {
            Some(exactly) => exactly..=exactly,
            None => least..=line.entries.len(),
        };
        if lengths.clone().any(agrees) {
            return Ok(());
        }
        let (from, to) = (line.version_at(*lengths.start()), line.version_at(*lengths.end()));
        let (expected, _) = line.state(*lengths.end());
        let first = usize::from(range.first.0) * SECTORS_PER_BLOCK;
        Err(format!(
            "a read of chunk {chunk} {range:?} at {version} is of no state between {from} and {to}:\n  read   {}\n  newest {}",
            list(&read),
            list(&expected[first..first + read.len()]),
        ))
    }
}
