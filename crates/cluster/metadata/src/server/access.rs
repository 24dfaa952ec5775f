//! Who may what: one table of roles and one function, asked for each request with what it touches.

use crate::call::{Call, Op};
use crate::wire::convert::Span;
use amita_identity::{Name, Role};
use std::fmt;

/// The other end of a connection, as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The whole name: what is counted by.
    pub name: String,
    pub role: Role,
}

impl From<Name> for Peer {
    fn from(name: Name) -> Peer {
        Peer {
            name: name.to_string(),
            role: name.role(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What is done to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// What a request touches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Touch<'a> {
    /// A connection itself, and what says nothing of keys.
    Connect,
    /// A key, or all keys with a prefix.
    Keys(Access, &'a str),
    /// Leases of one's own.
    Leases,
    /// Leases of others.
    ForeignLeases,
    /// The history and the alarms, which are everybody's.
    Upkeep,
}

/// What a role may do to the keys with a prefix.
struct Keys {
    prefix: &'static str,
    read: bool,
    write: bool,
}

/// What a role may.
struct Rights {
    role: Role,
    keys: &'static [Keys],
    foreign_leases: bool,
    upkeep: bool,
}

const ALL_KEYS: &[Keys] = &[Keys {
    prefix: "",
    read: true,
    write: true,
}];

/// Who is not in it may nothing, not even stay connected.
const RIGHTS: &[Rights] = &[
    Rights {
        role: Role::Node,
        keys: ALL_KEYS,
        foreign_leases: false,
        upkeep: true,
    },
    Rights {
        role: Role::Gateway,
        keys: ALL_KEYS,
        foreign_leases: false,
        upkeep: true,
    },
    Rights {
        role: Role::Operator,
        keys: ALL_KEYS,
        foreign_leases: true,
        upkeep: true,
    },
];

/// The roles that may do something.
pub(super) fn roles() -> Vec<Role> {
    RIGHTS.iter().map(|rights| rights.role).collect()
}

/// May a peer do that? `None`: the network is open, and whoever is on it is not asked who they are.
pub(super) fn may(peer: Option<&Peer>, touch: Touch<'_>) -> bool {
    let Some(peer) = peer else { return true };
    let Some(rights) = RIGHTS.iter().find(|rights| rights.role == peer.role) else {
        return false;
    };
    match touch {
        Touch::Connect | Touch::Leases => true,
        Touch::ForeignLeases => rights.foreign_leases,
        Touch::Upkeep => rights.upkeep,
        // All keys with a prefix lie in those with a shorter one.
        Touch::Keys(access, touched) => rights.keys.iter().any(|keys| {
            touched.starts_with(keys.prefix)
                && match access {
                    Access::Read => keys.read,
                    Access::Write => keys.write,
                }
        }),
    }
}

/// May a peer have all of a transaction, whichever branch is taken?
pub(super) fn may_call(peer: Option<&Peer>, call: &Call) -> bool {
    let ops = call.then.iter().chain(&call.otherwise);
    let compared = call.compares.iter().map(|compare| (Access::Read, compare.key()));
    let done = ops.map(|op| match op {
        Op::Get { key } | Op::Prefix { key } => (Access::Read, key.as_str()),
        Op::Put { key, .. } | Op::Delete { key } | Op::DeletePrefix { key } => (Access::Write, key.as_str()),
    });
    compared
        .chain(done)
        .all(|(access, key)| may(peer, Touch::Keys(access, key)))
}

/// May a peer watch these keys?
pub(super) fn may_watch(peer: Option<&Peer>, span: &Span) -> bool {
    may(peer, Touch::Keys(Access::Read, span.prefix()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(role: Role) -> Peer {
        Peer {
            name: format!("amita://c/{role:?}/x"),
            role,
        }
    }

    #[test]
    fn nodes_gateways_and_operators_may_use_it_and_others_nothing() {
        let every = [
            Touch::Connect,
            Touch::Keys(Access::Read, "/amita/"),
            Touch::Keys(Access::Write, "/amita/"),
            Touch::Leases,
            Touch::ForeignLeases,
            Touch::Upkeep,
        ];
        for role in [Role::Node, Role::Gateway, Role::Operator] {
            let peer = peer(role);
            for touch in every {
                let foreign = matches!(touch, Touch::ForeignLeases);
                assert_eq!(
                    may(Some(&peer), touch),
                    !foreign || role == Role::Operator,
                    "{role:?} {touch:?}"
                );
            }
        }
        for role in [Role::Client, Role::Authority] {
            assert!(every.iter().all(|touch| !may(Some(&peer(role)), *touch)), "{role:?}");
        }
        assert!(every.iter().all(|touch| may(None, *touch)), "an open network");
    }

    #[test]
    fn both_branches_and_the_compares_of_a_call_count() {
        let call = Call::put_if("/amita/a", 0, "v");
        assert!(may_call(Some(&peer(Role::Node)), &call));
        assert!(!may_call(Some(&peer(Role::Client)), &call));
        assert!(!may_call(Some(&peer(Role::Client)), &Call::get("/amita/a")));
    }
}
