//! Who may what: one table of roles and one function, asked for each request with what it touches.

use crate::call::{Call, Op};
use crate::wire::convert::Span;
use amita_identity::{Name, OperatorRole, Role};
use std::fmt;

/// The other end of a connection, as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The whole name: what is counted by.
    pub name: String,
    pub role: Role,
    /// Of an operator.
    pub operator_role: Option<OperatorRole>,
}

impl From<Name> for Peer {
    fn from(name: Name) -> Peer {
        Peer {
            name: name.to_string(),
            role: name.role(),
            operator_role: name.operator_role(),
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
    /// Of operators: of these roles.
    operators: &'static [OperatorRole],
    keys: &'static [Keys],
    leases: bool,
    foreign_leases: bool,
    upkeep: bool,
}

const ALL_KEYS: &[Keys] = &[Keys {
    prefix: "",
    read: true,
    write: true,
}];

const READ_KEYS: &[Keys] = &[Keys {
    prefix: "",
    read: true,
    write: false,
}];

/// Who is not in it may nothing, not even stay connected: so may tenants, whose way in is the API.
const RIGHTS: &[Rights] = &[
    Rights {
        role: Role::Node,
        operators: &[],
        keys: ALL_KEYS,
        leases: true,
        foreign_leases: false,
        upkeep: true,
    },
    Rights {
        role: Role::Gateway,
        operators: &[],
        keys: ALL_KEYS,
        leases: true,
        foreign_leases: false,
        upkeep: true,
    },
    Rights {
        role: Role::Operator,
        operators: &[OperatorRole::Admin, OperatorRole::Operator],
        keys: ALL_KEYS,
        leases: true,
        foreign_leases: true,
        upkeep: true,
    },
    Rights {
        role: Role::Operator,
        operators: &[OperatorRole::Viewer, OperatorRole::Auditor],
        keys: READ_KEYS,
        leases: false,
        foreign_leases: false,
        upkeep: false,
    },
];

/// Keys that of the operators only admins write: what lies there gives roles, or has nodes connect to where it says.
const OF_ADMINS: &[&str] = &["/amita/api/tokens/", "/amita/notify/channels/"];

/// The roles that may do something.
pub(super) fn roles() -> Vec<Role> {
    let mut roles: Vec<Role> = RIGHTS.iter().map(|rights| rights.role).collect();
    roles.dedup();
    roles
}

/// May a peer do that? `None`: the network is open, and whoever is on it is not asked who they are.
pub(super) fn may(peer: Option<&Peer>, touch: Touch<'_>) -> bool {
    let Some(peer) = peer else { return true };
    let is_of = |rights: &&Rights| match peer.operator_role {
        None => rights.role == peer.role && rights.operators.is_empty(),
        Some(role) => rights.role == peer.role && rights.operators.contains(&role),
    };
    let Some(rights) = RIGHTS.iter().find(is_of) else {
        return false;
    };
    if let Touch::Keys(Access::Write, touched) = touch
        && peer.operator_role == Some(OperatorRole::Operator)
        && OF_ADMINS.iter().any(|prefix| touched.starts_with(prefix))
    {
        return false;
    }
    match touch {
        Touch::Connect => true,
        Touch::Leases => rights.leases,
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
        Peer::from(Name::new(amita_types::ClusterId(1), role, "x").unwrap())
    }

    fn operator(role: OperatorRole) -> Peer {
        Peer::from(Name::operator(amita_types::ClusterId(1), role, "x").unwrap())
    }

    const EVERY: [Touch<'_>; 6] = [
        Touch::Connect,
        Touch::Keys(Access::Read, "/amita/"),
        Touch::Keys(Access::Write, "/amita/"),
        Touch::Leases,
        Touch::ForeignLeases,
        Touch::Upkeep,
    ];

    #[test]
    fn nodes_gateways_and_operators_may_use_it_and_others_nothing() {
        for peer in [
            peer(Role::Node),
            peer(Role::Gateway),
            peer(Role::Operator),
            operator(OperatorRole::Operator),
        ] {
            for touch in EVERY {
                let foreign = matches!(touch, Touch::ForeignLeases);
                assert_eq!(
                    may(Some(&peer), touch),
                    !foreign || peer.role == Role::Operator,
                    "{peer} {touch:?}"
                );
            }
        }
        for peer in [
            peer(Role::Client),
            peer(Role::Authority),
            operator(OperatorRole::Tenant),
        ] {
            assert!(EVERY.iter().all(|touch| !may(Some(&peer), *touch)), "{peer}");
        }
        assert!(EVERY.iter().all(|touch| may(None, *touch)), "an open network");
        // Who says to be an operator of no role is none.
        let roleless = Peer {
            operator_role: None,
            ..peer(Role::Operator)
        };
        assert!(EVERY.iter().all(|touch| !may(Some(&roleless), *touch)));
    }

    #[test]
    fn viewers_and_auditors_read_and_change_nothing() {
        for peer in [operator(OperatorRole::Viewer), operator(OperatorRole::Auditor)] {
            for touch in EVERY {
                let reads = matches!(touch, Touch::Connect | Touch::Keys(Access::Read, _));
                assert_eq!(may(Some(&peer), touch), reads, "{peer} {touch:?}");
            }
            assert!(may_call(Some(&peer), &Call::prefix("/amita/")));
            for call in [Call::put("/amita/a", "v"), Call::put_if("/amita/a", 0, "v")] {
                assert!(!may_call(Some(&peer), &call), "{call:?}");
            }
        }
    }

    #[test]
    fn only_admins_write_what_gives_roles() {
        let call = Call::put("/amita/api/tokens/x", "v");
        for (peer, may) in [
            (operator(OperatorRole::Admin), true),
            (peer(Role::Node), true),
            (operator(OperatorRole::Operator), false),
            (operator(OperatorRole::Viewer), false),
        ] {
            assert_eq!(may_call(Some(&peer), &call), may, "{peer}");
            let looks = Call::prefix("/amita/api/tokens/");
            assert!(may_call(Some(&peer), &looks), "{peer}");
        }
    }

    #[test]
    fn both_branches_and_the_compares_of_a_call_count() {
        let call = Call::put_if("/amita/a", 0, "v");
        assert!(may_call(Some(&peer(Role::Node)), &call));
        assert!(!may_call(Some(&peer(Role::Client)), &call));
        assert!(!may_call(Some(&peer(Role::Client)), &Call::get("/amita/a")));
    }
}
