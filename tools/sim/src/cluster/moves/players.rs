//! Movers, one by one: who begins, asks, hears, and has trouble.

use super::line::{Answer, Ask, Brought, End, Handle, Opened, Piece};
use super::mover::{self, Begins};
use super::{MS, Mover, Open, Out, RETRY, Wait, clock};
use crate::cluster::coordinator::Caller;
use crate::cluster::node::node_id;
use crate::cluster::{Cluster, records};
use crate::faults::{Fault, Member};
use amita_frontend::{Event, Who};
use amita_metadata::{Call, Error, Reply};
use amita_reactor::{Slice, Time};
use amita_types::io::{Differs, Op, Payload};
use amita_types::map::Copying;
use std::collections::BTreeMap;
use std::time::Duration;

/// An opening that has not ended after this is given up.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// And I/O that has not.
const STALL: Duration = Duration::from_secs(5);

impl Cluster {
    pub(super) fn look_for_mover(&mut self, now: Time, record: &Copying) {
        let longest = if record.ails.is_some() {
            RETRY
        } else {
            Duration::from_millis(30)
        };
        let pause = Time(now.0 + self.migrations.random.within(MS, longest.as_nanos() as u64));
        let at = *self.migrations.begins.entry(record.volume).or_insert(pause);
        if now < at {
            return;
        }
        // One takes the key at a time.
        self.migrations.begins.insert(record.volume, Time(now.0 + 40 * MS));
        let owner = self.record_of(&record.name).and_then(|target| target.owner);
        let source = self.record_of(&record.of).and_then(|source| source.owner);
        let first = self.setup.gateways();
        let may = |member: &Member| {
            self.nodes[*member].is_up()
                && self.nodes[*member].frozen_until <= now
                && owner != Some(node_id(*member))
                && self.metadata.reaches(now, node_id(*member))
        };
        let mut free: Vec<Member> = (first..self.nodes.len()).filter(may).collect();
        if free.iter().any(|member| source != Some(node_id(*member))) {
            free.retain(|member| source != Some(node_id(*member)));
        }
        if free.is_empty() {
            return;
        }
        let member = *self.migrations.random.pick(&free);
        self.migrations.serial += 1;
        let serial = self.migrations.serial;
        let begins = Begins {
            volume: record.volume,
            value: records::json(&serial),
            short_holds: self.migrations.setup.short_holds,
        };
        let handle = Handle::start(clock(now), move |line| mover::run(line, &begins));
        self.tell(|| {
            format!(
                "mover {serial} at node {} takes up volume {}",
                member + 1,
                record.volume
            )
        });
        self.migrations.movers.push(Mover {
            member,
            process: self.nodes[member].process,
            serial,
            volume: record.volume,
            handle,
            wait: Wait::Nothing,
            open: BTreeMap::new(),
        });
    }

    /// Does what is due for one; `false`: it has ended.
    pub(super) fn play_mover(&mut self, now: Time, mover: &mut Mover) -> Result<bool, String> {
        loop {
            let node = &self.nodes[mover.member];
            if node.process != mover.process || !node.is_up() {
                self.coverage.hit("migrate.mover_died");
                self.tell(|| format!("mover {} is gone with its node", mover.serial));
                return Ok(false);
            }
            if node.frozen_until > now {
                return Ok(true);
            }
            self.hear_mover(now, mover);
            let answer = match &mut mover.wait {
                Wait::Nothing => {
                    if !self.pump(now, mover)? {
                        return Ok(false);
                    }
                    continue;
                }
                Wait::Calling(at, call) if *at <= now => {
                    let call = std::mem::take(&mut **call);
                    mover.wait = Wait::Txn;
                    self.send_for_mover(now, mover, call);
                    return Ok(true);
                }
                Wait::Calling(..) | Wait::Txn | Wait::Far => return Ok(true),
                Wait::Rest(at) if *at <= now => Answer::Rested,
                Wait::Rest(_) => return Ok(true),
                Wait::Opening { until, .. } if *until <= now => {
                    Answer::Opened(Err("it was not opened in time".to_owned()))
                }
                Wait::Opening { .. } => return Ok(true),
                Wait::Io {
                    left, failed, brought, ..
                } if *left == 0 => {
                    let all = brought.drain(..).flatten().collect();
                    Answer::Io(failed.take().map_or(Ok(all), Err))
                }
                Wait::Io { until, .. } if *until <= now => Answer::Io(Err("its I/O does not end".to_owned())),
                Wait::Io { .. } => return Ok(true),
            };
            mover.handle.answer(clock(now), answer);
            if !self.pump(now, mover)? {
                return Ok(false);
            }
        }
    }

    pub(super) fn send_for_mover(&mut self, now: Time, mover: &Mover, mut call: Call) {
        self.setup.plants.metadata.strip_of_mover(&mut call);
        let serial = mover.serial;
        self.tell(|| format!("mover {serial}: {}", records::describe(&call)));
        self.metadata
            .call(now, node_id(mover.member), mover.process, Caller::Mover(serial), call);
    }

    /// The metadata has answered a mover.
    pub(in crate::cluster) fn mover_was_told(
        &mut self,
        now: Time,
        serial: u64,
        result: Result<Reply, Error>,
    ) -> Result<(), String> {
        let place = self.migrations.movers.iter().position(|mover| mover.serial == serial);
        let Some(place) = place else { return Ok(()) };
        let mut mover = self.migrations.movers.swap_remove(place);
        if let Err(why) = &result {
            self.coverage.hit("migrate.unanswered");
            self.tell(|| format!("mover {serial}: {why}"));
        }
        mover.handle.answer(clock(now), Answer::Txn(result));
        if self.pump(now, &mut mover)? {
            self.migrations.movers.push(mover);
        }
        Ok(())
    }

    /// What a mover wants next; `false`: it has ended.
    pub(super) fn pump(&mut self, now: Time, mover: &mut Mover) -> Result<bool, String> {
        loop {
            match mover.handle.next()? {
                Ask::Txn(call) => {
                    let late = self.migrations.setup.slow_calls.as_nanos() as u64;
                    let late = if late > 0 {
                        self.migrations.random.below(late)
                    } else {
                        0
                    };
                    mover.wait = Wait::Calling(Time(now.0 + late), call);
                    self.trouble_mover(now, mover);
                    return Ok(true);
                }
                Ask::Rest(time) => {
                    mover.wait = Wait::Rest(now.plus(time));
                    return Ok(true);
                }
                Ask::Open(end, name, since) => {
                    self.open_for_mover(now, mover, end, name, since);
                    return Ok(true);
                }
                Ask::Io(end, pieces) => {
                    self.ask_for_mover(now, mover, end, pieces);
                    self.trouble_mover(now, mover);
                    return Ok(true);
                }
                Ask::Close(end) => self.close_for_mover(mover, end),
                Ask::Tell(what) => self.tell(|| what),
                Ask::Hit(path) => {
                    self.coverage.hit(path);
                    if path == "migrate.held" && self.migrations.setup.hosts_go {
                        self.deafen_owner(now, mover);
                    }
                }
                Ask::WritesAll => {
                    let records = self.moving_records();
                    let record = records.iter().find(|record| record.volume == mover.volume);
                    let volume = record.and_then(|record| self.number_of(record.source));
                    self.migrations.written_anew.extend(volume);
                    self.coverage.hit("migrate.written_anew");
                }
                Ask::Far(ask) => {
                    mover.wait = Wait::Far;
                    self.migrations.outbox.push((mover.serial, now, Out::Far(ask)));
                    return Ok(true);
                }
                Ask::Did(did) => self.migrations.outbox.push((mover.serial, now, Out::Did(did))),
                Ask::Ended(why) => {
                    for end in mover.open.keys().copied().collect::<Vec<End>>() {
                        self.close_for_mover(mover, end);
                    }
                    let serial = mover.serial;
                    self.tell(|| format!("mover {serial} ends: {why:?}"));
                    match mover.is_of_mirror() {
                        true => self.migrations.outbox.push((serial, now, Out::Ended(why))),
                        false => self.coverage.add("migrate.left", u64::from(why.is_some())),
                    }
                    return Ok(false);
                }
            }
        }
    }

    pub(super) fn open_for_mover(
        &mut self,
        now: Time,
        mover: &mut Mover,
        end: End,
        name: String,
        since: Option<String>,
    ) {
        self.close_for_mover(mover, end);
        let node = &mut self.nodes[mover.member];
        mover.wait = Wait::Opening {
            end,
            name: name.clone(),
            compares: since.is_some(),
            since: None,
            until: now.plus(OPEN_PATIENCE),
        };
        let Some((front, heard)) = node.attach(0) else {
            return;
        };
        node.ask(0, front, |service| match since {
            Some(since) => service.bases(front, 0, &name, vec![since], &Who::Program),
            None => service.open(front, 0, &name, &Who::Program),
        });
        let open = Open {
            front,
            heard,
            source: None,
            tags: 1,
            lost: None,
        };
        mover.open.insert(end, open);
        // Who opens a volume may take it over.
        self.hosts.has_moved |= end == End::Target;
    }

    pub(super) fn close_for_mover(&mut self, mover: &mut Mover, end: End) {
        let Some(open) = mover.open.remove(&end) else { return };
        open.heard.borrow_mut().gone = true;
        let node = &mut self.nodes[mover.member];
        if node.process == mover.process {
            node.hang_up(0, open.front);
        }
    }

    pub(super) fn ask_for_mover(&mut self, now: Time, mover: &mut Mover, end: End, pieces: Vec<Piece>) {
        let member = mover.member;
        let count = pieces.len();
        let open = mover.open.get_mut(&end);
        let open = open.filter(|open| open.lost.is_none() && open.source.is_some());
        let Some(open) = open else {
            mover.wait = Wait::Io {
                end,
                first: 0,
                brought: Vec::new(),
                failed: Some("it was lost".to_owned()),
                left: 0,
                until: now,
            };
            return;
        };
        let first = open.tags;
        open.tags += count as u64;
        let (front, source) = (open.front, open.source.expect("it was looked at"));
        for (tag, piece) in (first..).zip(pieces) {
            let (op, data) = match piece {
                Piece::Read { offset, length } => (Op::Read { offset, length }, Slice::default()),
                Piece::Clear { offset, length } => (Op::Clear { offset, length }, Slice::default()),
                Piece::Allocation { offset } => (Op::Allocation { offset }, Slice::default()),
                Piece::Differ { offset, since } => (Op::Differ { offset, since }, Slice::default()),
                Piece::ChangedChunks { offset, since } => (Op::ChangedChunks { offset, since }, Slice::default()),
                Piece::Write { offset, data } => {
                    let length = data.len() as u32;
                    (Op::Write { offset, length }, Slice::copy_from(&data))
                }
            };
            self.nodes[member].ask(0, front, |service| service.submit(front, tag, source, op, data));
        }
        mover.wait = Wait::Io {
            end,
            first,
            brought: (0..count).map(|_| None).collect(),
            failed: None,
            left: count,
            until: now.plus(STALL),
        };
    }

    /// What has come of what it waits for.
    pub(super) fn hear_mover(&mut self, now: Time, mover: &mut Mover) {
        let (Wait::Opening { end, .. } | Wait::Io { end, .. }) = &mover.wait else {
            return;
        };
        let end = *end;
        loop {
            let open = mover.open.get_mut(&end);
            let Some(event) = open.and_then(|open| open.heard.borrow_mut().events.pop_front()) else {
                return;
            };
            match event {
                Event::Bases { result, .. } => {
                    let found = match result {
                        Ok(bases) => bases
                            .snapshots
                            .first()
                            .map(|(_, number)| *number)
                            .ok_or("no base".to_owned()),
                        Err(why) => Err(why.to_string()),
                    };
                    let Some(open) = mover.open.get(&end) else { return };
                    let front = open.front;
                    let Wait::Opening { name, since, .. } = &mut mover.wait else {
                        continue;
                    };
                    match found {
                        Ok(number) => {
                            *since = Some(number);
                            let name = name.clone();
                            self.nodes[mover.member]
                                .ask(0, front, |service| service.open(front, 0, &name, &Who::Program));
                        }
                        Err(why) => return self.opened_for_mover(now, mover, Err(why)),
                    }
                }
                Event::Opened { result, .. } => {
                    let Wait::Opening { since, compares, .. } = mover.wait else {
                        continue;
                    };
                    let opened = match result {
                        Ok(info) => {
                            if let Some(open) = mover.open.get_mut(&end) {
                                open.source = Some(info.source());
                            }
                            Ok(Opened {
                                size_bytes: info.size_bytes,
                                chunk_bytes: info.chunk_bytes.into(),
                                since: since.filter(|_| compares),
                            })
                        }
                        Err(why) => Err(why.to_string()),
                    };
                    return self.opened_for_mover(now, mover, opened);
                }
                Event::Lost { why, .. } => {
                    if let Some(open) = mover.open.get_mut(&end) {
                        open.lost = Some(why);
                    }
                }
                Event::Done { tag, result, payload } => {
                    let Wait::Io {
                        first,
                        brought,
                        failed,
                        left,
                        ..
                    } = &mut mover.wait
                    else {
                        continue;
                    };
                    let place = tag.checked_sub(*first).map(|place| place as usize);
                    let Some(slot) = place
                        .and_then(|place| brought.get_mut(place))
                        .filter(|slot| slot.is_none())
                    else {
                        continue;
                    };
                    *left -= 1;
                    *slot = Some(match payload {
                        Payload::Data(data) => Brought::Bytes(data.to_vec()),
                        Payload::Zeros(length) => Brought::Bytes(vec![0; length as usize]),
                        Payload::Differs(differs) => Brought::Differs(differs),
                        Payload::Allocation(words) => Brought::Differs(Box::new(Differs {
                            changed: *words,
                            allocated: *words,
                        })),
                        Payload::None => Brought::Nothing,
                    });
                    if let Err(why) = result {
                        failed.get_or_insert(why.to_string());
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn opened_for_mover(&mut self, now: Time, mover: &mut Mover, opened: Result<Opened, String>) {
        if let Err(why) = &opened {
            self.tell(|| format!("mover {}: {why}", mover.serial));
        }
        // Answered by who has called.
        mover.handle.answer(clock(now), Answer::Opened(opened));
        mover.wait = Wait::Nothing;
    }

    /// Something goes wrong with it, or with the owner of what it moves, in this moment.
    pub(super) fn trouble_mover(&mut self, now: Time, mover: &Mover) {
        let per_mille = self.migrations.setup.trouble_per_mille;
        let random = &mut self.migrations.random;
        if self.migrations.ended || random.below(1000) >= per_mille {
            return;
        }
        let short = random.within(5 * MS, 300 * MS);
        let long = random.within(300 * MS, 3000 * MS);
        let kind = random.below(11);
        let records = self.moving_records();
        let record = records.iter().find(|record| record.volume == mover.volume);
        let owner = record.and_then(|record| self.record_of(&record.of)?.owner);
        let owner = owner.map_or(0, |owner| owner.0 as usize - 1);
        let own = mover.member;
        let fault = match kind {
            0 | 1 => Fault::Kill {
                node: own,
                for_ns: short,
            },
            2 => Fault::Freeze {
                node: own,
                for_ns: long,
            },
            3 => Fault::MetadataCutOff {
                node: own,
                for_ns: long,
            },
            4 => Fault::Kill {
                node: owner,
                for_ns: short,
            },
            5 => Fault::PowerCut {
                node: owner,
                for_ns: short,
            },
            6 => Fault::Freeze {
                node: owner,
                for_ns: long,
            },
            7 => Fault::MetadataCutOff {
                node: owner,
                for_ns: long,
            },
            8 => Fault::WatchLate {
                node: owner,
                for_ns: long,
            },
            9 => Fault::MetadataAway { for_ns: short },
            _ => Fault::MetadataLossy {
                percent: 30,
                for_ns: short,
            },
        };
        self.coverage.hit("migrate.trouble");
        self.inject_one(now, fault);
    }

    /// Who owns what moves hears of no change for a while.
    pub(super) fn deafen_owner(&mut self, now: Time, mover: &Mover) {
        let records = self.moving_records();
        let record = records.iter().find(|record| record.volume == mover.volume);
        let owner = record.and_then(|record| self.record_of(&record.of)?.owner);
        if let Some(owner) = owner.filter(|_| !self.migrations.ended) {
            let for_ns = self.migrations.random.within(100 * MS, 600 * MS);
            let node = owner.0 as usize - 1;
            self.inject_one(now, Fault::WatchLate { node, for_ns });
        }
    }
}
