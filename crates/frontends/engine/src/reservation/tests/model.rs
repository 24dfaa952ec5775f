//! Any commands of any hosts, against a plain table: what the specification says of each command, row by row.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) const HOSTS: u8 = 4;

/// Hosts and their keys; the type of the reservation and its holder, if one host holds it.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub keys: BTreeMap<u8, u64>,
    pub held: Option<(u8, Option<u8>)>,
    pub generation: u32,
    told: BTreeMap<u8, Vec<Notice>>,
}

/// A command in the plainest form: what, by whom, with which keys and type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub host: u8,
    what: u8,
    key: u64,
    other: u64,
    kind: u8,
    ignore: bool,
}

const REGISTER: u8 = 0;
const UNREGISTER: u8 = 1;
const REPLACE: u8 = 2;
const ACQUIRE: u8 = 3;
const PREEMPT: u8 = 4;
const RELEASE: u8 = 5;
const CLEAR: u8 = 6;

impl Model {
    fn tell(&mut self, hosts: impl IntoIterator<Item = u8>, by: u8, notice: Notice) {
        for host in hosts.into_iter().filter(|host| *host != by) {
            self.told.entry(host).or_default().push(notice);
        }
    }

    fn everybody(&self) -> Vec<u8> {
        self.keys.keys().copied().collect()
    }

    pub fn step(&mut self, step: Step) -> Result<(), Refusal> {
        let Step {
            host,
            what,
            key,
            other,
            kind,
            ignore,
        } = step;
        let own = self.keys.get(&host).copied();
        // Rows that only look at the host and its key.
        match (what, own) {
            (REGISTER, None) if key == 0 => return Err(Refusal::Invalid),
            (REGISTER, Some(own)) if own != key && (!ignore || key == 0) => return Err(Refusal::Conflict),
            (REPLACE, _) if other == 0 => return Err(Refusal::Invalid),
            (REGISTER, _) => {}
            (REPLACE, None) if ignore => {}
            (_, None) => return Err(Refusal::Conflict),
            (UNREGISTER | REPLACE, Some(_)) if ignore => {}
            (_, Some(own)) if own != key => return Err(Refusal::Conflict),
            _ => {}
        }
        let all = |kind: u8| kind >= 5;
        let for_registrants = |kind: u8| kind >= 3;
        match what {
            REGISTER => {
                self.keys.insert(host, key);
            }
            REPLACE => {
                self.keys.insert(host, other);
            }
            UNREGISTER => {
                self.keys.remove(&host);
                match self.held {
                    Some((kind, Some(holder))) if holder == host => {
                        self.held = None;
                        if for_registrants(kind) {
                            self.tell(self.everybody(), host, Notice::ReservationReleased);
                        }
                    }
                    Some((_, None)) if self.keys.is_empty() => self.held = None,
                    _ => {}
                }
            }
            ACQUIRE => match self.held {
                None => self.held = Some((kind, (!all(kind)).then_some(host))),
                Some((now, None)) if now == kind => {}
                Some((now, Some(holder))) if now == kind && holder == host => {}
                Some(_) => return Err(Refusal::Conflict),
            },
            RELEASE => match self.held {
                None => {}
                Some((_, Some(holder))) if holder != host => {}
                Some((now, _)) if now != kind => return Err(Refusal::Invalid),
                Some(_) => {
                    self.held = None;
                    if for_registrants(kind) {
                        self.tell(self.everybody(), host, Notice::ReservationReleased);
                    }
                }
            },
            CLEAR => {
                let everybody = self.everybody();
                self.keys.clear();
                self.held = None;
                self.tell(everybody, host, Notice::ReservationPreempted);
            }
            PREEMPT => {
                let with_key: Vec<u8> = self.everybody().into_iter().filter(|h| self.keys[h] == other).collect();
                let wins = match self.held {
                    None => false,
                    Some((_, None)) => other == 0,
                    Some((_, Some(holder))) => self.keys[&holder] == other,
                };
                if wins {
                    let (old, holder) = self.held.unwrap();
                    let mut victims = if holder.is_none() { self.everybody() } else { with_key };
                    victims.retain(|victim| *victim != host);
                    self.keys.retain(|host, _| !victims.contains(host));
                    self.held = Some((kind, (!all(kind)).then_some(host)));
                    self.tell(victims, host, Notice::RegistrationPreempted);
                    if old != kind {
                        self.tell(self.everybody(), host, Notice::ReservationReleased);
                    }
                } else {
                    if other == 0 && self.held.is_some() {
                        return Err(Refusal::Invalid);
                    }
                    if with_key.is_empty() {
                        return Err(Refusal::Conflict);
                    }
                    self.keys.retain(|host, _| !with_key.contains(host));
                    self.tell(with_key, host, Notice::RegistrationPreempted);
                    if self.keys.is_empty() {
                        self.held = None;
                    }
                }
            }
            _ => unreachable!("seven commands"),
        }
        if !matches!(what, ACQUIRE | RELEASE) {
            self.generation += 1;
        }
        Ok(())
    }

    pub fn allows(&self, host: u8, access: Access) -> bool {
        let Some((kind, holder)) = self.held else {
            return true;
        };
        let registered = self.keys.contains_key(&host);
        match (kind, access) {
            (1, Access::Read) | (3, Access::Read) | (5, Access::Read) => true,
            (1 | 2, _) => holder == Some(host),
            _ => registered,
        }
    }
}

pub(super) fn command(step: Step) -> Command {
    let kind = Kind::ALL[usize::from(step.kind) - 1];
    let (host_id, ignore_key, persist) = (id(step.host), step.ignore, None);
    let (key, other) = (step.key, step.other);
    match step.what {
        REGISTER => Command::Register {
            host_id,
            key,
            ignore_key,
            persist,
        },
        UNREGISTER => Command::Unregister {
            key,
            ignore_key,
            persist,
        },
        REPLACE => Command::Replace {
            host_id,
            key,
            new_key: other,
            ignore_key,
            persist,
        },
        ACQUIRE => Command::Acquire { key, kind },
        PREEMPT => Command::Preempt {
            key,
            victim: other,
            kind,
            abort: step.ignore,
        },
        RELEASE => Command::Release { key, kind },
        _ => Command::Clear { key },
    }
}

/// Keys are few, so that they match often; 0 is none.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let kinds = [
        REGISTER, REGISTER, UNREGISTER, REPLACE, ACQUIRE, ACQUIRE, PREEMPT, PREEMPT, RELEASE, CLEAR,
    ];
    let what = proptest::sample::select(kinds.to_vec());
    (1..=HOSTS, what, 0..4u64, 0..4u64, 1..=6u8, any::<bool>()).prop_map(|(host, what, key, other, kind, ignore)| {
        Step {
            host,
            what,
            key,
            other,
            kind,
            ignore,
        }
    })
}

/// Half of the keys that hosts give are their own.
pub(super) fn with_own_key(model: &Model, step: Step, index: usize) -> Step {
    match model.keys.get(&step.host) {
        Some(own) if index.is_multiple_of(2) && step.what != REGISTER => Step { key: *own, ..step },
        _ => step,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_commands_do_what_the_table_says(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut model, mut state) = (Model::default(), State::default());
        let mut told: BTreeMap<u8, Vec<Notice>> = BTreeMap::new();
        for (index, step) in steps.into_iter().enumerate() {
            let step = with_own_key(&model, step, index);
            let (before, seen) = (state.clone(), state.last_notice);
            let expected = {
                let mut next = model.clone();
                let result = next.step(step);
                if result.is_ok() {
                    model = next;
                }
                result
            };
            let result = state.apply(key(step.host), &command(step));
            prop_assert_eq!(&result, &expected, "{:?} of {:?}", step, before);
            if result.is_err() {
                prop_assert_eq!(&state, &before, "what is refused changes nothing");
            }
            for host in 1..=HOSTS {
                let new: Vec<_> = state.notices_after(seen, key(host)).collect();
                if !new.is_empty() {
                    told.entry(host).or_default().extend(new);
                }
                for access in [Access::Read, Access::Write] {
                    prop_assert_eq!(state.allows(key(host), access), model.allows(host, access));
                }
                prop_assert_eq!(state.registrant(key(host)).map(|r| r.key), model.keys.get(&host).copied());
                let holds = match model.held {
                    Some((_, None)) => model.keys.contains_key(&host),
                    Some((_, holder)) => holder == Some(host),
                    None => false,
                };
                prop_assert_eq!(state.is_holder(key(host)), holds);
            }
            prop_assert_eq!(state.held.map(|held| held.kind as u8), model.held.map(|held| held.0));
            prop_assert_eq!(state.generation, model.generation);
            prop_assert_eq!(&told, &model.told);
        }
    }
}
