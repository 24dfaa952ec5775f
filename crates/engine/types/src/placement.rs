//! Which stores hold a group: weighted rendezvous over failure domains.
//!
//! Each store draws a number for each group, from a hash of the two; the highest wins (Thaler and Ravishankar, 1998),
//! weighted as `weight / -ln(u)`, so that a store is chosen in proportion to its weight. No two copies lie in one failure
//! domain. A store that comes or goes changes only the groups that it wins or held: nothing is shuffled.
//!
//! Chance alone leaves a store with twenty groups a few too many or too few, so [`plan_pool`] bounds each store's share
//! ("Consistent hashing with bounded loads", Mirrokni, Thorup, Zadimoghaddam, 2016): a full store is passed over for the
//! next in the group's order.
//!
//! A pool that has groups already is planned anew by [`replan_pool`]: copies stay where they are unless their store is no
//! longer a candidate, breaks the rule, or has far too many; and a store that has far too few takes copies from those that
//! have most. What moves is what must.
//!
//! The result is stored in the metadata and is not computed by anybody else, so these functions may become better
//! without moving data; still, all arithmetic is on integers, so that every machine draws the same.

use crate::id::{GroupIndex, NodeId, PoolId, StoreId};
use crate::layout::mix;
use crate::map;
use crate::message::MAX_MEMBERS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

mod plan;

pub use plan::{Plan, is_lawful, plan_pool, replan_pool};

/// What may fail as one: no two copies of a group lie in the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A disk. Copies on disks of one host: for trials on a single machine only.
    Disk,
    /// A host.
    #[default]
    Node,
    /// A rack of hosts.
    Rack,
    /// A site of racks.
    Site,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Disk => "disk",
            Level::Node => "node",
            Level::Rack => "rack",
            Level::Site => "site",
        })
    }
}

/// Where a store stands. Racks and sites without a name are one rack and one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The site's name.
    pub site: String,
    /// The rack's name, unique in its site.
    pub rack: String,
    /// The host.
    pub node: NodeId,
}

/// A store that may hold a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The store.
    pub store: StoreId,
    /// Its relative weight; a store of weight zero is never chosen.
    pub weight: u32,
    /// Where it stands.
    pub location: Location,
    /// It keeps what it has and gets nothing new: it does not serve at present.
    pub keeps_only: bool,
}

impl Candidate {
    /// A store where its node's record says that it stands.
    #[must_use]
    pub fn new(store: &map::Store, node: Option<&map::Node>) -> Candidate {
        let location = Location {
            site: node.map(|node| node.site.clone()).unwrap_or_default(),
            rack: node.map(|node| node.rack.clone()).unwrap_or_default(),
            node: store.node,
        };
        Candidate {
            store: store.id,
            weight: store.weight,
            location,
            keeps_only: false,
        }
    }

    /// The failure domain that the store lies in.
    fn domain(&self, level: Level) -> Domain<'_> {
        let Location { site, rack, node } = &self.location;
        match level {
            Level::Disk => Domain::Disk(self.store),
            Level::Node => Domain::Node(*node),
            Level::Rack => Domain::Rack(site, rack),
            Level::Site => Domain::Site(site),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Domain<'a> {
    Disk(StoreId),
    Node(NodeId),
    Rack(&'a str, &'a str),
    Site(&'a str),
}

/// Why a group cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementError {
    /// There are fewer failure domains with stores than copies.
    TooFewDomains {
        /// Copies wanted.
        copies: usize,
        /// What each needs to itself.
        level: Level,
        /// How many of these have a store of some weight.
        found: usize,
    },
    /// No copy, or more than a group may have members.
    BadCopies {
        /// Copies wanted.
        copies: usize,
    },
    /// The number of groups is not a power of two.
    BadGroups {
        /// Groups wanted.
        groups: u32,
    },
    /// One store is listed twice.
    TwiceListed {
        /// The store.
        store: StoreId,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::TooFewDomains { copies, level, found } => {
                let (have, plural) = if *found == 1 { ("has", "") } else { ("have", "s") };
                write!(
                    f,
                    "{copies} copies need {copies} different {level}s, but only {found} {level}{plural} {have} a store"
                )?;
                f.write_str("; add stores, or take fewer copies")
            }
            PlacementError::BadCopies { copies } => {
                write!(f, "{copies} copies are not possible; choose 1 to {MAX_MEMBERS}")
            }
            PlacementError::BadGroups { groups } => {
                write!(
                    f,
                    "{groups} groups are not possible; the number of groups is a power of two"
                )
            }
            PlacementError::TwiceListed { store } => write!(f, "store {store} is listed twice"),
        }
    }
}

impl std::error::Error for PlacementError {}

/// The stores of one group, best first, no two in one domain of `level`. It depends on nothing but its arguments, and not
/// on the order of the candidates.
///
/// # Errors
/// When there are too few failure domains, or the arguments make no sense.
pub fn place(
    pool: PoolId,
    group: GroupIndex,
    candidates: &[Candidate],
    copies: usize,
    level: Level,
) -> Result<Vec<StoreId>, PlacementError> {
    check(candidates, copies, level)?;
    let mut used = BTreeSet::new();
    let members: Vec<StoreId> = ranking(pool, group, candidates)
        .into_iter()
        .filter(|&index| used.insert(candidates[index].domain(level)))
        .map(|index| candidates[index].store)
        .take(copies)
        .collect();
    assert_eq!(members.len(), copies, "the domains were counted");
    Ok(members)
}

/// Doubles the groups of a pool: group `i` keeps its chunks with the next hash bit clear, its child `i + n` gets the
/// others, and inherits members, in-sync set and epoch, since its chunks lie where they lay.
///
/// # Panics
/// When `groups` are not the `2^n` groups of a pool in their order.
#[must_use]
pub fn split(groups: &[map::Group]) -> Vec<map::Group> {
    let count = group_at(groups.len()).0;
    assert!(count.is_power_of_two() && groups.iter().map(|group| group.index.0).eq(0..count));
    let children = groups.iter().map(|parent| {
        let index = GroupIndex(parent.index.0 + count);
        map::Group {
            index,
            ..parent.clone()
        }
    });
    groups.iter().cloned().chain(children).collect()
}

/// The group at this place of a list of all groups of a pool.
fn group_at(position: usize) -> GroupIndex {
    GroupIndex(u32::try_from(position).expect("a pool has fewer than 2^32 groups"))
}

fn check(candidates: &[Candidate], copies: usize, level: Level) -> Result<(), PlacementError> {
    if copies == 0 || copies > MAX_MEMBERS {
        return Err(PlacementError::BadCopies { copies });
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = candidates.iter().find(|candidate| !seen.insert(candidate.store)) {
        return Err(PlacementError::TwiceListed { store: twice.store });
    }
    let weighty = candidates.iter().filter(|candidate| candidate.weight > 0);
    let found = weighty
        .map(|candidate| candidate.domain(level))
        .collect::<BTreeSet<_>>()
        .len();
    if found < copies {
        return Err(PlacementError::TooFewDomains { copies, level, found });
    }
    Ok(())
}

/// How much a group wants a store, apart from the store's weight: the less the more.
fn want(pool: PoolId, group: GroupIndex, store: StoreId) -> u64 {
    let seed = mix(mix(u64::from(pool.0) ^ 0x706f_6f6c_0000_0000) ^ u64::from(group.0));
    let (high, low) = halves(store.0);
    let draw = mix(mix(seed ^ high) ^ low);
    minus_log2(draw)
}

/// The upper and the lower 64 bits.
#[expect(clippy::cast_possible_truncation)]
fn halves(wide: u128) -> (u64, u64) {
    ((wide >> 64) as u64, wide as u64)
}

/// The indices of the candidates in the order in which the group wants them.
fn ranking(pool: PoolId, group: GroupIndex, candidates: &[Candidate]) -> Vec<usize> {
    let mut ranked: Vec<(u64, usize)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.weight > 0)
        .map(|(index, candidate)| (want(pool, group, candidate.store), index))
        .collect();
    // By weight / -ln(u), largest first: compared crosswise, so that nothing is divided. Equal ones by their UUID.
    ranked.sort_unstable_by(|&(a_log, a), &(b_log, b)| {
        let (a, b) = (&candidates[a], &candidates[b]);
        let a_score = u128::from(a.weight) * u128::from(b_log);
        let b_score = u128::from(b.weight) * u128::from(a_log);
        b_score.cmp(&a_score).then(a.store.cmp(&b.store))
    });
    ranked.into_iter().map(|(_, index)| index).collect()
}

/// `-log2((draw + 1) / 2^64)` with 32 binary places.
fn minus_log2(draw: u64) -> u64 {
    const PLACES: u32 = 32;
    let whole = draw.leading_zeros();
    if whole == 64 {
        return 64 << PLACES;
    }
    // The mantissa in [1, 2) with 63 places; squaring it yields the binary logarithm's places one by one.
    let mut mantissa = draw << whole;
    let mut log: u64 = 0;
    for _ in 0..PLACES {
        let square = u128::from(mantissa) * u128::from(mantissa);
        log <<= 1;
        if square >> 127 == 1 {
            log |= 1;
            mantissa = halves(square).0;
        } else {
            mantissa = halves(square << 1).0;
        }
    }
    // log2(draw / 2^64) = -whole - 1 + log2(mantissa); at least 1, so that no score is infinite.
    ((u64::from(whole) + 1) << PLACES).saturating_sub(log).max(1)
}

/// What part of a pool's groups a store should hold: `part / of`.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: u128,
    of: u128,
}

impl Share {
    /// So many of these groups, rounded down.
    fn due(self, groups: u64) -> u64 {
        whole(u128::from(groups) * self.part / self.of)
    }

    /// The most groups that the store gets: its share, and a tenth on top.
    fn limit(self, groups: u64) -> u64 {
        whole((u128::from(groups) * self.part * 11).div_ceil(self.of * 10))
    }
}

/// A number of groups.
fn whole(groups: u128) -> u64 {
    u64::try_from(groups).expect("a share is at most the whole")
}

/// The share of each store, by its weight.
///
/// A domain takes at most one copy of a group, so what a heavy domain cannot take is shared among the others.
fn shares(candidates: &[Candidate], copies: usize, level: Level) -> Vec<Share> {
    let mut weights: BTreeMap<Domain<'_>, u64> = BTreeMap::new();
    for candidate in candidates {
        *weights.entry(candidate.domain(level)).or_default() += u64::from(candidate.weight);
    }
    let mut full = BTreeSet::new();
    loop {
        let left: u64 = weights
            .iter()
            .filter(|(domain, _)| !full.contains(*domain))
            .map(|(_, weight)| weight)
            .sum();
        let places = (copies - full.len().min(copies)) as u64;
        let more: Vec<_> = weights
            .iter()
            .filter(|(domain, weight)| !full.contains(*domain) && **weight > 0 && **weight * places >= left)
            .map(|(domain, _)| *domain)
            .collect();
        if places == 0 || more.is_empty() {
            let share = |candidate: &Candidate| {
                let domain = candidate.domain(level);
                let (part, of) = if full.contains(&domain) {
                    (u128::from(candidate.weight), u128::from(weights[&domain]))
                } else {
                    (u128::from(candidate.weight) * u128::from(places), u128::from(left))
                };
                Share { part, of: of.max(1) }
            };
            return candidates.iter().map(share).collect();
        }
        full.extend(more);
    }
}

#[cfg(test)]
mod tests;
