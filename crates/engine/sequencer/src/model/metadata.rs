//! The metadata: calls that fail, get lost on the way back, or are done late; and what no change may do.

use super::world::{Event, GATEWAYS, GROUPS, MS, VOLUMES, World, volume_id};
use crate::io::CallId;
use amita_metadata::{Call, Error, Op};
use amita_types::map;
use amita_types::message::{Request, RequestBody};
use amita_types::{Generation, GroupIndex, PoolId};

impl World {
    pub(super) fn meta_send(&mut self, gateway: usize, call: CallId, request: Call, by: (usize, Generation)) {
        let incarnation = self.gateways[gateway].incarnation;
        let out = self.now < self.gateways[gateway].meta_out_until;
        let delay = self.delay();
        let wait = self.random.within(MS, 20 * MS);
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
                        by,
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
                by,
            },
        );
    }

    pub(super) fn meta_call(
        &mut self,
        gateway: usize,
        incarnation: u64,
        call: CallId,
        request: &Call,
        by: (usize, Generation),
    ) {
        let reply = self.meta.txn(request).expect("the calls of sequencers are valid");
        if reply.succeeded {
            self.check_change(request, by);
        } else if request
            .then
            .iter()
            .any(|op| matches!(op, Op::Put { key, .. } if *key == map::volume_key(VOLUMES[by.0])))
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

    pub(super) fn volume(&self, volume: usize) -> map::Volume {
        self.meta
            .get(&map::volume_key(VOLUMES[volume]))
            .unwrap()
            .json()
            .unwrap()
    }

    pub(super) fn group(&self, index: u32) -> map::Group {
        self.meta
            .get(&map::group_key(PoolId(1), GroupIndex(index)))
            .unwrap()
            .json()
            .unwrap()
    }

    /// What no change of the metadata may do.
    pub(super) fn check_change(&mut self, request: &Call, (volume, generation): (usize, Generation)) {
        for op in &request.then {
            let Op::Put { key, value, .. } = op else { continue };
            if *key == map::volume_key(VOLUMES[volume]) {
                let epochs = (0..GROUPS).map(|index| self.group(index).epoch).collect();
                self.raised.insert((volume, self.volume(volume).generation), epochs);
                continue;
            }
            if *key == map::raised_key(PoolId(1)) {
                continue;
            }
            let group: map::Group = serde_json::from_slice(value).unwrap();
            self.group_changed(&group);
            if self.volume(volume).generation != generation {
                self.fail(format!(
                    "a deposed sequencer, {generation}, changed group {} (R2)",
                    group.index
                ));
            }
        }
    }

    /// A group has a new record: watches will tell of it.
    pub(super) fn group_changed(&mut self, group: &map::Group) {
        self.say(|| {
            format!(
                "group {} now {:?} and {:?} at {:?}",
                group.index, group.in_sync, group.syncing, group.epoch
            )
        });
        if group.in_sync.len() < self.profile.min_copies {
            self.fail(format!("group {} has fewer than the least copies (R10)", group.index));
        }
        if self.profile.resync {
            for gateway in 0..GATEWAYS {
                self.hint_later(gateway, group.clone());
            }
        }
    }

    pub(super) fn hint_later(&mut self, gateway: usize, group: map::Group) {
        let delay = self.delay();
        let at = (self.now + delay).max(self.gateways[gateway].meta_out_until);
        self.at(at, Event::Hint { gateway, group });
    }

    /// R6: raise the generation, then read the epoch.
    pub(super) fn check_fence(&mut self, request: &Request) {
        let volume = (0..VOLUMES.len()).find(|&volume| volume_id(volume) == request.scope.volume);
        let volume = volume.expect("one of them");
        if let RequestBody::Fence(_) = request.body
            && let Some(epochs) = self.raised.get(&(volume, request.scope.generation))
            && request.scope.epoch < epochs[request.scope.group.index.0 as usize]
        {
            self.fail("a fence with an epoch from before its generation was raised (R6)".to_owned());
        }
    }
}
