//! Gateways: they open the volume, run its sequencers, are asked to release it, and die.

use super::world::{Event, GATEWAYS, MS, STORES, VOLUME, World, store_id};
use crate::io::{Effect, Opened, StopReason};
use crate::{Config, Counters, OpenError, Opener, OpenerConfig, OpenerEffect, OwnerReply, Sequencer};
use amita_cluster::{ChunkId, ChunkIndex, Generation, NodeId};
use amita_reactor::Time;
use std::time::Duration;

impl World {
    pub(super) fn open(&mut self, gateway: usize) {
        if self.gateways[gateway].opener.is_some() {
            return;
        }
        let base = self.base();
        let mut config = OpenerConfig::new(NodeId(gateway as u32), "v");
        config.planted = self.planted;
        config.release_timeout = Duration::from_millis(30);
        let opener = Opener::new(config, base, Time(self.now));
        self.gateways[gateway].opener = Some((opener, base));
    }

    pub(super) fn base(&mut self) -> u64 {
        self.next_base += 1;
        self.next_base << 40
    }

    pub(super) fn asked(&mut self, from: usize, incarnation: u64, to: usize, generation: Generation) {
        let owner = &mut self.gateways[to];
        let owns = owner
            .cores
            .first()
            .is_some_and(|(sequencer, _)| !sequencer.is_stopped() && sequencer.generation() == generation);
        let reply = if !owns {
            OwnerReply::NotOwner
        } else if self.random.percent(50) {
            self.seen.busy_owners += 1;
            OwnerReply::Busy
        } else {
            self.seen.released += 1;
            for (sequencer, _) in &mut owner.cores {
                sequencer.release();
            }
            OwnerReply::Released
        };
        let delay = self.delay();
        self.after(
            delay,
            Event::OwnerReply {
                gateway: from,
                incarnation,
                reply,
            },
        );
    }

    pub(super) fn kill(&mut self, gateway: usize) {
        self.say(|| format!("g{gateway} dies"));
        let state = &mut self.gateways[gateway];
        state.incarnation += 1;
        state.opener = None;
        for (sequencer, _) in std::mem::take(&mut state.cores) {
            add(&mut self.counters, sequencer.counters());
        }
        state.client.died(&mut self.clock);
        for store in 0..STORES {
            self.cut(gateway, store, MS);
        }
    }

    pub(super) fn opened(&mut self, gateway: usize, opened: &Opened) {
        self.say(|| format!("g{gateway} owns generation {}", opened.generation));
        self.seen.takeovers += 1;
        for (mut sequencer, base) in std::mem::take(&mut self.gateways[gateway].cores) {
            sequencer.release();
            self.sequencer_effects(gateway, base, &mut sequencer);
            add(&mut self.counters, sequencer.counters());
        }
        for core in 0..self.profile.cores {
            let config = Config {
                core: core as u16,
                cores: self.profile.cores as u16,
                local_stores: vec![store_id(gateway)],
                store_timeout: Duration::from_millis(150),
                hedge_ms: 12,
                busy_pause: Duration::from_millis(1),
                meta_pause: Duration::from_millis(5),
                meta_pause_most: Duration::from_millis(40),
                planted: self.planted,
            };
            let base = self.base();
            let mut sequencer = Sequencer::new(config, opened.clone(), base, Time(self.now));
            for store in 0..STORES {
                if self.gateways[gateway].links[store].seen != 0 {
                    sequencer.store_up(Time(self.now), store_id(store));
                }
            }
            self.gateways[gateway].cores.push((sequencer, base));
        }
        self.after(0, Event::Client { gateway });
    }

    pub(super) fn core_of(&self, chunk: u64) -> usize {
        let id = ChunkId {
            volume: VOLUME,
            index: ChunkIndex(chunk),
        };
        id.core(self.profile.cores)
    }

    /// Carries out what the sequencers and openers want.
    pub(super) fn drain(&mut self) {
        for gateway in 0..GATEWAYS {
            if let Some((mut opener, base)) = self.gateways[gateway].opener.take() {
                self.opener_effects(gateway, &mut opener);
                if !opener.is_done() {
                    self.gateways[gateway].opener = Some((opener, base));
                }
            }
            let mut cores = std::mem::take(&mut self.gateways[gateway].cores);
            for (sequencer, base) in &mut cores {
                self.sequencer_effects(gateway, *base, sequencer);
            }
            self.gateways[gateway].cores = cores;
        }
    }

    pub(super) fn opener_effects(&mut self, gateway: usize, opener: &mut Opener) {
        let effects: Vec<OpenerEffect> = opener.effects().collect();
        for effect in effects {
            match effect {
                OpenerEffect::Meta { call, request } => self.meta_send(gateway, call, request, Generation(0)),
                OpenerEffect::AskOwner { node, generation, .. } => {
                    let incarnation = self.gateways[gateway].incarnation;
                    let to = node.0 as usize;
                    // During a split or an outage the owner cannot be reached.
                    if self.now >= self.gateways[to].alone_until.max(self.gateways[to].meta_out_until) {
                        let delay = self.delay();
                        self.after(
                            delay,
                            Event::AskOwner {
                                from: gateway,
                                incarnation,
                                to,
                                generation,
                            },
                        );
                    }
                }
                OpenerEffect::Opened(result) => match *result {
                    Ok(opened) => self.opened(gateway, &opened),
                    Err(OpenError::Busy { .. } | OpenError::Metadata { .. } | OpenError::Contended) => {}
                    Err(error) => self.fail(format!("opening failed: {error}")),
                },
            }
        }
    }

    pub(super) fn sequencer_effects(&mut self, gateway: usize, _base: u64, sequencer: &mut Sequencer) {
        let generation = sequencer.generation();
        let mut stopped = false;
        let effects: Vec<Effect> = sequencer.effects().collect();
        for effect in effects {
            match effect {
                Effect::Send {
                    store,
                    request,
                    payload,
                } => {
                    let store = (store.0 - 0x1000) as usize;
                    let delay = self.delay();
                    let now = self.now;
                    let link = &mut self.gateways[gateway].links[store];
                    assert_ne!(link.seen, 0, "nothing is sent without a link");
                    if link.link == link.seen {
                        let spike = link.spike_until.saturating_sub(now);
                        link.to_store_at = (now + delay + spike).max(link.to_store_at + 1);
                        let (at, link) = (link.to_store_at, link.link);
                        self.at(
                            at,
                            Event::ToStore {
                                gateway,
                                store,
                                link,
                                request,
                                payload,
                            },
                        );
                    }
                }
                Effect::Meta { call, request } => self.meta_send(gateway, call, request, generation),
                Effect::Done { io, result, payload } => {
                    if stopped && result.is_ok() {
                        self.fail("a sequencer that has stopped acknowledges".to_owned());
                    }
                    self.done(gateway, io, result, &payload);
                }
                Effect::Whole { .. } => self.fail("nobody is brought up to date here".to_owned()),
                Effect::Scrubbed { .. } => {}
                Effect::Warn(warning) => self.say(|| format!("g{gateway} warns: {warning}")),
                Effect::Stop { reason } => {
                    self.say(|| format!("g{gateway} stops: {reason}"));
                    stopped = true;
                    match reason {
                        StopReason::Deposed { .. } => self.seen.deposed += 1,
                        StopReason::Released => {}
                        StopReason::Metadata { .. } => self.fail(format!("stopped: {reason}")),
                    }
                }
            }
        }
    }
}

pub fn add(total: &mut Counters, more: &Counters) {
    let Counters {
        writes,
        reads,
        opened,
        rolled,
        evicted,
        adopted,
        resent,
        held,
        unpromised,
        confirms,
        credit_waits,
        hedged,
        stale_epochs,
        not_fenced,
        unknown,
        lost_races,
        damaged,
        repaired,
        differing,
        sync_started,
        sync_dropped,
        sync_whole,
        sync_promoted,
        joined,
        mended,
        mended_blocks,
        mend_skipped,
        mend_restarts,
        mend_held,
    } = more;
    total.writes += writes;
    total.reads += reads;
    total.opened += opened;
    total.rolled += rolled;
    total.evicted += evicted;
    total.adopted += adopted;
    total.resent += resent;
    total.held += held;
    total.unpromised += unpromised;
    total.confirms += confirms;
    total.credit_waits += credit_waits;
    total.hedged += hedged;
    total.stale_epochs += stale_epochs;
    total.not_fenced += not_fenced;
    total.unknown += unknown;
    total.lost_races += lost_races;
    total.damaged += damaged;
    total.repaired += repaired;
    total.differing += differing;
    total.sync_started += sync_started;
    total.sync_dropped += sync_dropped;
    total.sync_whole += sync_whole;
    total.sync_promoted += sync_promoted;
    total.joined += joined;
    total.mended += mended;
    total.mended_blocks += mended_blocks;
    total.mend_skipped += mend_skipped;
    total.mend_restarts += mend_restarts;
    total.mend_held += mend_held;
}
