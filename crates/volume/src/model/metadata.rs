//! The metadata: calls that fail, get lost on the way back, or are done late; and what no change may do.

use super::world::{Event, MS, World};
use crate::io::CallId;
use amita_cluster::map;
use amita_cluster::message::{Request, RequestBody};
use amita_cluster::{Generation, GroupIndex, PoolId};
use amita_meta::{Call, Error, Op};

impl World {
    pub(super) fn meta_send(&mut self, gateway: usize, call: CallId, request: Call, generation: Generation) {
        let incarnation = self.gateways[gateway].incarnation;
        let out = self.now < self.gateways[gateway].meta_out_until;
        let delay = self.delay();
        let wait = self.random.between(MS, 20 * MS);
        let unknown = || Error::Unknown {
            what: "planted".to_owned(),
            endpoint: "m".to_owned(),
        };
        if out && self.random.percent(50) || (!self.settling && self.random.percent(self.profile.meta_fails_percent)) {
            let result = Err(Error::Unavailable {
                what: "planted".to_owned(),
                endpoints: "m".to_owned(),
            });
            return self.after(
                wait,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result,
                },
            );
        }
        if out || (!self.settling && self.random.percent(self.profile.meta_unknown_percent)) {
            self.seen.unknown_calls += 1;
            self.after(
                wait,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result: Err(unknown()),
                },
            );
            if !out && self.random.percent(60) {
                // Done, now or later, though nobody is told.
                let late = self.random.below(40 * MS);
                let nobody = CallId(u64::MAX);
                self.after(
                    late,
                    Event::MetaCall {
                        gateway,
                        incarnation,
                        call: nobody,
                        request,
                        generation,
                    },
                );
            }
            return;
        }
        self.after(
            delay,
            Event::MetaCall {
                gateway,
                incarnation,
                call,
                request,
                generation,
            },
        );
    }

    pub(super) fn meta_call(
        &mut self,
        gateway: usize,
        incarnation: u64,
        call: CallId,
        request: &Call,
        generation: Generation,
    ) {
        let reply = self.meta.txn(request).expect("the calls of sequencers are valid");
        if reply.succeeded {
            self.check_change(request, generation);
        } else if request
            .then
            .iter()
            .any(|op| matches!(op, Op::Put { key, .. } if *key == map::volume_key("v")))
        {
            self.seen.raise_races += 1;
        }
        if call.0 != u64::MAX {
            let delay = self.delay();
            self.after(
                delay,
                Event::MetaReply {
                    gateway,
                    incarnation,
                    call,
                    result: Ok(reply),
                },
            );
        }
    }

    pub(super) fn volume(&self) -> map::Volume {
        self.meta.get(&map::volume_key("v")).unwrap().json().unwrap()
    }

    pub(super) fn group(&self, index: u32) -> map::Group {
        self.meta
            .get(&map::group_key(PoolId(1), GroupIndex(index)))
            .unwrap()
            .json()
            .unwrap()
    }

    /// What no change of the metadata may do.
    pub(super) fn check_change(&mut self, request: &Call, generation: Generation) {
        for op in &request.then {
            let Op::Put { key, value, .. } = op else { continue };
            if *key == map::volume_key("v") {
                let epochs = (0..2).map(|index| self.group(index).epoch).collect();
                self.raised.insert(self.volume().generation, epochs);
                continue;
            }
            if *key == map::raised_key(PoolId(1)) {
                continue;
            }
            let group: map::Group = serde_json::from_slice(value).unwrap();
            self.say(|| format!("group {} now {:?} at {:?}", group.index, group.in_sync, group.epoch));
            if group.in_sync.len() < self.profile.min_copies {
                self.fail(format!("group {} has fewer than the least copies (R10)", group.index));
            }
            if self.volume().generation != generation {
                self.fail(format!(
                    "a deposed sequencer, {generation}, changed group {} (R2)",
                    group.index
                ));
            }
        }
    }

    /// R6: raise the generation, then read the epoch.
    pub(super) fn check_fence(&mut self, request: &Request) {
        if let RequestBody::Fence { .. } = request.body
            && let Some(epochs) = self.raised.get(&request.scope.generation)
            && request.scope.epoch < epochs[request.scope.group.index.0 as usize]
        {
            self.fail("a fence with an epoch from before its generation was raised (R6)".to_owned());
        }
    }
}
