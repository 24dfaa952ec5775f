//! Any commands of hosts of both protocols, against the plain table of NVMe's with what SCSI adds beside it.

use super::model::{HOSTS, Model, Step, command, step, with_own_key};
use super::*;
use proptest::prelude::*;

/// A command of a host of either protocol.
#[derive(Clone, Debug)]
enum Asked {
    Plain(Step),
    /// Of `host`, for itself and for these.
    Several {
        host: u8,
        others: Vec<u8>,
        key: u64,
        ignore: bool,
    },
    Move {
        host: u8,
        key: u64,
        to: u8,
        new_key: u64,
        unregister: bool,
    },
    Lock {
        host: u8,
        front: u64,
    },
    Unlock(u8),
    Reset(u8),
    /// The connection of that number is gone, by which that host may have locked.
    Gone {
        host: u8,
        front: u64,
    },
}

fn asked() -> impl Strategy<Value = Asked> {
    let host = || 1..=HOSTS;
    let key = || 0..4u64;
    prop_oneof![
        6 => step().prop_map(Asked::Plain),
        3 => (host(), proptest::collection::vec(1..=HOSTS, 0..3), key(), any::<bool>())
            .prop_map(|(host, others, key, ignore)| Asked::Several { host, others, key, ignore }),
        3 => (host(), key(), host(), key(), any::<bool>())
            .prop_map(|(host, key, to, new_key, unregister)| Asked::Move { host, key, to, new_key, unregister }),
        2 => (host(), 0..2u64).prop_map(|(host, front)| Asked::Lock { host, front }),
        1 => host().prop_map(Asked::Unlock),
        1 => host().prop_map(Asked::Reset),
        2 => (host(), 0..2u64).prop_map(|(host, front)| Asked::Gone { host, front }),
    ]
}

/// The table of NVMe, and who has locked the volume by which connection.
#[derive(Clone, Debug, Default)]
struct Table {
    plain: Model,
    locked: Option<(u8, u64)>,
}

/// Two hosts of each initiator port.
fn initiator(host: u8) -> u8 {
    host.div_ceil(2)
}

impl Table {
    fn step(&mut self, asked: &Asked) -> Result<(), Refusal> {
        let of_lock = matches!(
            asked,
            Asked::Lock { .. } | Asked::Unlock(_) | Asked::Reset(_) | Asked::Gone { .. }
        );
        if self.locked.is_some() && !of_lock {
            return Err(Refusal::Conflict);
        }
        match *asked {
            Asked::Plain(step) => self.plain.step(step),
            Asked::Several {
                host,
                ref others,
                key,
                ignore,
            } => self.several(host, others, key, ignore),
            Asked::Move {
                host,
                key,
                to,
                new_key,
                unregister,
            } => self.hand_over(host, key, to, new_key, unregister),
            Asked::Lock { host, front } => {
                if self.is_of_registrants(host)? {
                    return Ok(());
                }
                match self.locked {
                    Some((other, _)) if other != host => Err(Refusal::Conflict),
                    _ => {
                        self.locked = Some((host, front));
                        Ok(())
                    }
                }
            }
            Asked::Unlock(host) => {
                if !self.is_of_registrants(host)? && self.locked.is_some_and(|(other, _)| other == host) {
                    self.locked = None;
                }
                Ok(())
            }
            Asked::Reset(_) => {
                self.locked = None;
                Ok(())
            }
            Asked::Gone { host, front } => {
                if self.locked == Some((host, front)) {
                    self.locked = None;
                }
                Ok(())
            }
        }
    }

    /// Are RESERVE and RELEASE good, and nothing, since others are registered?
    fn is_of_registrants(&self, host: u8) -> Result<bool, Refusal> {
        if self.plain.keys.is_empty() {
            return Ok(false);
        }
        let shares = match self.plain.held {
            None => false,
            Some((1 | 2, holder)) => holder == Some(host),
            Some(_) => self.plain.keys.contains_key(&host),
        };
        if shares { Ok(true) } else { Err(Refusal::Conflict) }
    }

    fn several(&mut self, host: u8, others: &[u8], key: u64, ignore: bool) -> Result<(), Refusal> {
        let mut named = others.to_vec();
        named.push(host);
        named.sort_unstable();
        named.dedup();
        if key == 0 || named.len() != others.len() + 1 {
            return Err(Refusal::Invalid);
        }
        let is_known = |host: &u8| self.plain.keys.contains_key(host);
        if is_known(&host) && !ignore {
            return Err(Refusal::Conflict);
        }
        let may_be = |other: &u8| match ignore {
            true => initiator(*other) == initiator(host),
            false => !is_known(other),
        };
        if !others.iter().all(may_be) {
            return Err(Refusal::Invalid);
        }
        self.plain.keys.extend(named.into_iter().map(|host| (host, key)));
        self.plain.generation += 1;
        Ok(())
    }

    fn hand_over(&mut self, host: u8, key: u64, to: u8, new_key: u64, unregister: bool) -> Result<(), Refusal> {
        if self.plain.keys.get(&host) != Some(&key) {
            return Err(Refusal::Conflict);
        }
        let Some((kind, holder)) = self.plain.held else {
            return Err(Refusal::Invalid);
        };
        if holder != Some(host) {
            return Err(Refusal::Conflict);
        }
        if to == host || new_key == 0 {
            return Err(Refusal::Invalid);
        }
        if unregister {
            self.plain.keys.remove(&host);
        }
        self.plain.keys.insert(to, new_key);
        self.plain.held = Some((kind, Some(to)));
        self.plain.generation += 1;
        Ok(())
    }

    fn allows(&self, host: u8, access: Access) -> bool {
        match self.locked {
            Some((other, _)) => other == host,
            None => self.plain.allows(host, access),
        }
    }
}

fn registrant(host: u8, new_key: u64) -> Registrant {
    Registrant {
        host: key(host),
        host_id: id(host),
        key: new_key,
        port: Some(PortName {
            initiator: format!("port-{}", initiator(host)),
            tag: u16::from(host),
        }),
    }
}

fn connection(front: u64) -> Connection {
    Connection { run: 1, core: 0, front }
}

/// Who asks, and what.
fn to_engine(asked: &Asked) -> (u8, Command) {
    match *asked {
        Asked::Plain(step) => (step.host, command(step)),
        Asked::Several {
            host,
            ref others,
            key,
            ignore,
        } => {
            let named = std::iter::once(&host).chain(others);
            let command = Command::RegisterAll {
                registrants: named.map(|host| registrant(*host, key)).collect(),
                ignore_key: ignore,
                persist: None,
            };
            (host, command)
        }
        Asked::Move {
            host,
            key,
            to,
            new_key,
            unregister,
        } => {
            let command = Command::Move {
                key,
                to: Box::new(registrant(to, new_key)),
                unregister,
                persist: None,
            };
            (host, command)
        }
        Asked::Lock { host, front } => (host, Command::Lock { by: connection(front) }),
        Asked::Unlock(host) => (host, Command::Unlock),
        Asked::Reset(host) => (host, Command::Reset),
        Asked::Gone { host, front } => {
            let lock = Lock {
                host: key(host),
                by: connection(front),
            };
            (host, Command::Expire(lock))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn both_protocols_have_one_truth(commands in proptest::collection::vec(asked(), 1..60)) {
        let (mut table, mut state) = (Table::default(), State::default());
        for (index, asked) in commands.into_iter().enumerate() {
            let asked = match asked {
                Asked::Plain(step) => Asked::Plain(with_own_key(&table.plain, step, index)),
                // Half of those that could hand over do.
                Asked::Move { host, to, new_key, unregister, .. } if index.is_multiple_of(2) => {
                    let host = table.plain.held.and_then(|held| held.1).unwrap_or(host);
                    let key = table.plain.keys.get(&host).copied().unwrap_or_default();
                    Asked::Move { host, key, to, new_key, unregister }
                }
                asked => asked,
            };
            let before = state.clone();
            let expected = {
                let mut next = table.clone();
                let result = next.step(&asked);
                if result.is_ok() {
                    table = next;
                }
                result
            };
            let (host, command) = to_engine(&asked);
            let result = state.apply(key(host), &command);
            prop_assert_eq!(&result, &expected, "{:?} of {:?}", asked, before);
            if result.is_err() {
                prop_assert_eq!(&state, &before, "what is refused changes nothing");
            }
            for host in 1..=HOSTS {
                for access in [Access::Read, Access::Write] {
                    prop_assert_eq!(state.allows(key(host), access), table.allows(host, access));
                }
                let known = state.registrant(key(host)).map(|registrant| registrant.key);
                prop_assert_eq!(known, table.plain.keys.get(&host).copied());
            }
            let held = state.held.map(|held| (held.kind as u8, held.holder));
            let expected = table.plain.held.map(|(kind, holder)| (kind, holder.map(key)));
            prop_assert_eq!(held, expected);
            let locked = state.locked.map(|lock| (lock.host, lock.by.front));
            prop_assert_eq!(locked, table.locked.map(|(host, front)| (key(host), front)));
            prop_assert_eq!(state.generation, table.plain.generation);
            // What is kept is read as it was, whichever commands have brought it about.
            let text = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state.clone());
        }
    }
}
