//! Stores that crash and start, links that carry, cut and come back.

use super::world::{Event, GATEWAYS, MS, STORES, World, node_of, store_id};
use amita_reactor::Time;

impl World {
    pub(super) fn after_store(&mut self, store: usize) {
        if self.stores[store].wants_flush && !self.flushing[store] {
            self.flushing[store] = true;
            let slow = self.random.percent(3);
            let ns = if slow {
                self.random.within(MS, 15 * MS)
            } else {
                self.random.within(20_000, 300_000)
            };
            let incarnation = self.stores[store].incarnation;
            self.after(ns, Event::Flush { store, incarnation });
        }
        for (link, answer, payload) in std::mem::take(&mut self.stores[store].answers) {
            let Some(gateway) = (0..GATEWAYS).find(|&gateway| self.gateways[gateway].links[store].link == link) else {
                continue;
            };
            let delay = self.delay();
            let now = self.now;
            let state = &mut self.gateways[gateway].links[store];
            let spike = state.spike_until.saturating_sub(now);
            state.to_gateway_at = (now + delay + spike).max(state.to_gateway_at + 1);
            let at = state.to_gateway_at;
            self.at(
                at,
                Event::ToGateway {
                    gateway,
                    store,
                    link,
                    answer,
                    payload,
                },
            );
        }
    }

    pub(super) fn delay(&mut self) -> u64 {
        if self.random.percent(2) {
            self.random.within(MS, 8 * MS)
        } else {
            self.random.within(20_000, 400_000)
        }
    }

    pub(super) fn cut(&mut self, gateway: usize, store: usize, ns: u64) {
        let state = &mut self.gateways[gateway].links[store];
        let link = std::mem::take(&mut state.link);
        state.blocked_until = state.blocked_until.max(self.now + ns);
        let until = state.blocked_until;
        if link != 0 {
            self.stores[store].link_closed(link);
            // Noticed late at times: what is sent meanwhile goes nowhere.
            let seen = if self.random.percent(50) {
                0
            } else {
                self.random.below(30 * MS)
            };
            self.after(seen, Event::SeenDown { gateway, store, link });
        }
        self.at(until, Event::LinkUp { gateway, store });
    }

    pub(super) fn seen_down(&mut self, gateway: usize, store: usize, link: u64) {
        if self.gateways[gateway].links[store].seen == link {
            self.say(|| format!("g{gateway} lost its link to s{store}"));
            self.gateways[gateway].links[store].seen = 0;
            for (sequencer, _) in &mut self.gateways[gateway].cores {
                sequencer.store_down(Time(self.now), store_id(store));
            }
        }
    }

    pub(super) fn link_up(&mut self, gateway: usize, store: usize) {
        let state = &self.gateways[gateway].links[store];
        if self.gateways[gateway].frozen_until > self.now {
            return self.after(0, Event::LinkUp { gateway, store });
        }
        if state.link != 0 || state.blocked_until > self.now || !self.stores[store].up {
            return;
        }
        let seen = state.seen;
        if seen != 0 {
            self.seen_down(gateway, store, seen);
        }
        self.next_link += 1;
        let state = &mut self.gateways[gateway].links[store];
        state.link = self.next_link;
        state.seen = self.next_link;
        state.to_store_at = self.now;
        state.to_gateway_at = self.now;
        for (sequencer, _) in &mut self.gateways[gateway].cores {
            sequencer.store_up(Time(self.now), store_id(store), node_of(store));
        }
    }

    pub(super) fn crash(&mut self, store: usize, ns: u64, forgets: bool) {
        if !self.stores[store].up {
            return;
        }
        self.say(|| format!("s{store} crashes"));
        let (stores, random) = (&mut self.stores, &mut self.random);
        stores[store].crash(random);
        if forgets {
            stores[store].forget(random);
        }
        self.flushing[store] = false;
        let incarnation = self.stores[store].incarnation;
        for gateway in 0..GATEWAYS {
            self.cut(gateway, store, ns);
        }
        if self.random.percent(40) {
            let after = self.random.below(20 * MS);
            self.after(after, Event::Lost { store, incarnation });
        }
        self.after(ns, Event::Restart { store });
    }

    pub(super) fn restart(&mut self, store: usize) {
        if !self.stores[store].up && !self.dead.contains(&store) {
            self.say(|| format!("s{store} starts"));
            self.stores[store].start(self.now);
            for gateway in 0..GATEWAYS {
                self.link_up(gateway, store);
            }
        }
    }

    /// Two gateways each reach their own part of the stores, and at times only the second the metadata.
    pub(super) fn split(&mut self, gateway: usize, other: usize, mask: u64, ns: u64) {
        self.say(|| format!("split: g{gateway} keeps {mask:b}, g{other} the others"));
        for store in 0..STORES {
            let theirs = mask >> store & 1 == 1;
            self.cut(if theirs { other } else { gateway }, store, ns);
        }
        self.gateways[gateway].alone_until = self.now + ns;
        if self.random.percent(60) {
            self.gateways[gateway].meta_out_until = self.now + ns;
        }
        for volume in 0..self.profile.volumes {
            self.after(MS, Event::Open { gateway: other, volume });
        }
    }
}
