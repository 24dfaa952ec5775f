//! Limits of a tenant, which has every other volume, and of the pool, which has all.
//!
//! What passes them at all gates is poured into one leaky bucket each, whoever lends: two that lend one after the other never let more pass than the limit,
//! whether or not the one before knows.

use super::super::operator::Desk;
use super::super::{Cluster, volume_id, volume_name};
use super::{LAPSED, Leaks, passed};
use crate::faults::Member;
use crate::random::Random;
use amita_control::admin::{self, Jointly};
use amita_control::limits;
use amita_node::limits::{Counts, JointCounts};
use amita_reactor::Time;
use amita_types::map::{Limits, pool_limits, tenant_limits};
use std::collections::BTreeMap;

const TENANT: &str = "acme";

/// What is known of one.
#[derive(Debug)]
struct Watched {
    limits: amita_qos::Limits,
    volumes: Vec<u64>,
    heard: Option<Time>,
    leaks: Option<Leaks>,
}

#[derive(Debug)]
pub(super) struct Joints {
    is_played: bool,
    /// Of the tenant, or of the pool.
    of_tenant: bool,
    watched: BTreeMap<String, Watched>,
    /// Of each core of each process: what had passed when it was looked at last.
    seen: BTreeMap<(Member, u64, usize, String), JointCounts>,
}

impl Joints {
    pub fn new(is_played: bool) -> Joints {
        Joints {
            is_played,
            of_tenant: false,
            watched: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Is one of them to be limited, and not a volume?
    pub fn is_next(&mut self, random: &mut Random) -> bool {
        let is_next = self.is_played && random.percent(60);
        self.of_tenant ^= is_next;
        is_next
    }
}

/// As volumes' are counted.
fn as_counts(joint: &JointCounts) -> Counts {
    Counts {
        operations: joint.operations,
        bytes: joint.bytes,
        ..Counts::default()
    }
}

impl Cluster {
    pub(super) fn limit_jointly(&mut self, now: Time, wanted: Limits) {
        let of_tenant = self.limits.joints.of_tenant;
        let all = self.limits.volumes.len() as u64;
        let volumes: Vec<u64> = (0..all).step_by(if of_tenant { 2 } else { 1 }).collect();
        let desk = Desk::new(&mut self.metadata, now);
        let pool = admin::volume(&desk, &volume_name(0)).map(|volume| volume.pool);
        let set = pool.and_then(|pool| {
            if !of_tenant {
                let set = admin::set_joint_limits(&desk, Jointly::Pool(&pool), |limits| *limits = wanted);
                return set.map(|_| pool_limits(&pool));
            }
            for volume in &volumes {
                admin::set_tenant(&desk, &volume_name(*volume), Some(TENANT))?;
            }
            let set = admin::set_joint_limits(&desk, Jointly::Tenant(TENANT), |limits| *limits = wanted);
            set.map(|_| tenant_limits(TENANT))
        });
        let name = match set {
            Ok(name) => name,
            Err(why) => {
                let why = format!("a tenant or the pool is not limited: {why}");
                self.hosts.violation.get_or_insert(why);
                return;
            }
        };
        self.tell(|| format!("limits of {name}: {wanted:?}"));
        self.coverage.hit("limits.joint.set");
        self.limits.joints.watched.remove(&name);
        let limits = limits::read(&wanted).ok().filter(|_| !wanted.is_empty());
        let watched = limits.map(|limits| Watched {
            limits,
            volumes,
            heard: None,
            leaks: None,
        });
        self.limits
            .joints
            .watched
            .extend(watched.map(|watched| (name, watched)));
    }

    pub(super) fn unlimit_jointly(&mut self, now: Time) {
        if !self.limits.joints.is_played {
            return;
        }
        for of_tenant in [true, false] {
            self.limits.joints.of_tenant = of_tenant;
            self.limit_jointly(now, Limits::default());
        }
        self.coverage.hit("limits.joint.cleared");
    }

    /// A core has ended a pass: what has it let pass?
    pub(super) fn watch_joints(&mut self, member: Member, core: usize) -> Result<(), String> {
        if !self.limits.joints.is_played {
            return Ok(());
        }
        let Some(gate) = self.nodes[member].each_core().nth(core).map(amita_node::Core::gate) else {
            return Ok(());
        };
        let counts: Vec<(String, JointCounts)> = gate
            .joint_counts()
            .map(|(name, _, counts)| (name.to_string(), counts))
            .collect();
        let (now, fastest, process) = (self.world.now(), self.limits.fastest, self.nodes[member].process);
        for (name, counts) in counts {
            let place = (member, process, core, name.clone());
            let before = self.limits.joints.seen.insert(place, counts).unwrap_or_default();
            if !self.all_have_heard_jointly(now, &name) {
                continue;
            }
            let passed = passed(&as_counts(&before), &as_counts(&counts));
            let Some(watched) = self.limits.joints.watched.get_mut(&name) else {
                continue;
            };
            if passed.iter().all(|much| *much == 0) {
                continue;
            }
            let leaks = watched.leaks.get_or_insert_with(|| Leaks::new(now));
            let too_much = leaks.pour(now, fastest, &watched.limits, &passed);
            self.coverage.hit("limits.joint.passed");
            if let Some(at) = too_much {
                let limit = self.limits.joints.watched[&name].limits.in_order()[at];
                return Err(format!(
                    "more has passed of {name} than rate x time + burst of {:?}, with {passed:?} at node {} core {core}",
                    (limits::NAMES[at], limit),
                    member + 1,
                ));
            }
        }
        Ok(())
    }

    /// Every core that runs goes by the limits that the record has, for all volumes that are under them, and has for long enough.
    fn all_have_heard_jointly(&mut self, now: Time, name: &str) -> bool {
        let Some(watched) = self.limits.joints.watched.get(name) else {
            return false;
        };
        if watched.heard.is_none() {
            let knows = |core: &amita_node::Core| {
                let mut known = core.gate().joint_counts();
                let has_heard = known.any(|(of, limits, _)| **of == *name && *limits == watched.limits);
                let is_under = |volume: &u64| core.gate().joints_of(volume_id(*volume)).any(|of| of == name);
                has_heard && watched.volumes.iter().all(is_under)
            };
            if !self.nodes.iter().flat_map(|node| node.each_core()).all(knows) {
                return false;
            }
        }
        let heard = self.limits.joints.watched.get_mut(name);
        let heard = heard.map(|watched| *watched.heard.get_or_insert(now));
        heard.is_some_and(|heard| now >= heard.plus(LAPSED))
    }
}
