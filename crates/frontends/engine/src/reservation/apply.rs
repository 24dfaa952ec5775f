//! What the commands do (NVM Express Base 2.1, 8.1.24.4 to 8.1.24.8; those of SCSI alone are in modules beside this one). A command that is
//! refused changes nothing.

use super::several::is_room_for;
use super::{
    Command, Held, Kind, Lock, MAX_NAMES_BYTES, MAX_NOTICES, MAX_REGISTRANTS, Notice, Notification, PortName, Refusal,
    Registrant, State,
};
use crate::service::HostKey;

impl State {
    /// Carries out a host's command.
    pub fn apply(&mut self, host: HostKey, command: &Command) -> Result<(), Refusal> {
        // A host without a name can neither be told apart nor hold anything.
        let is_anybodys = matches!(command, Command::Report | Command::Persist(_) | Command::Expire(_));
        if host == HostKey::NONE && !is_anybodys {
            return Err(Refusal::Conflict);
        }
        if self.is_kept_by_lock(command) {
            return Err(Refusal::Conflict);
        }
        match *command {
            Command::Report => {}
            Command::Lock { by } => self.lock(Lock { host, by })?,
            Command::Unlock => self.unlock(host)?,
            Command::Reset => {
                self.locked = None;
                self.resets = self.resets.saturating_add(1);
            }
            Command::Expire(lock) => self.expire(lock),
            Command::RegisterAll {
                ref registrants,
                ignore_key,
                persist,
            } => {
                self.register_all(host, registrants, ignore_key)?;
                self.registered(persist);
            }
            Command::Move {
                key,
                ref to,
                unregister,
                persist,
            } => {
                self.check(host, key)?;
                self.hand_over(host, to, unregister)?;
                self.registered(persist);
            }
            Command::Register {
                host_id,
                key,
                ignore_key,
                persist,
            } => {
                let new = Registrant {
                    host,
                    host_id,
                    key,
                    port: None,
                };
                match self.registrant(host) {
                    None => self.add(new)?,
                    Some(old) if old.host_id != host_id => return Err(Refusal::Conflict),
                    Some(old) if old.key == key => {}
                    Some(_) if ignore_key && key != 0 => self.set_key(host, key),
                    Some(_) => return Err(Refusal::Conflict),
                }
                self.registered(persist);
            }
            Command::Replace {
                host_id,
                key,
                new_key,
                ignore_key,
                persist,
            } => {
                if new_key == 0 {
                    return Err(Refusal::Invalid);
                }
                match self.registrant(host) {
                    Some(old) if old.host_id != host_id => return Err(Refusal::Conflict),
                    Some(old) if ignore_key || old.key == key => self.set_key(host, new_key),
                    // "Without regard to its registration status."
                    None if ignore_key => self.add(Registrant {
                        host,
                        host_id,
                        key: new_key,
                        port: None,
                    })?,
                    _ => return Err(Refusal::Conflict),
                }
                self.registered(persist);
            }
            Command::Unregister {
                key,
                ignore_key,
                persist,
            } => {
                match self.registrant(host) {
                    Some(old) if ignore_key || old.key == key => self.remove_one(host),
                    _ => return Err(Refusal::Conflict),
                }
                self.registered(persist);
            }
            Command::Acquire { key, kind } => {
                self.check(host, key)?;
                match self.held {
                    None => self.hold(host, kind),
                    Some(held) if held.kind == kind && self.is_holder(host) => {}
                    Some(_) => return Err(Refusal::Conflict),
                }
            }
            Command::Preempt { key, victim, kind, .. } => {
                self.check(host, key)?;
                self.preempt(host, victim, kind)?;
                self.changed();
            }
            Command::Release { key, kind } => {
                self.check(host, key)?;
                self.release(host, kind)?;
            }
            Command::Clear { key } => {
                self.check(host, key)?;
                let others = self.others(host);
                self.registrants.clear();
                self.held = None;
                self.tell(Notice::ReservationPreempted, others);
                self.changed();
            }
            Command::Persist(persist) => self.persist = persist,
        }
        self.assert_sound();
        Ok(())
    }

    /// The host is a registrant, with that key.
    fn check(&self, host: HostKey, key: u64) -> Result<(), Refusal> {
        match self.registrant(host) {
            Some(registrant) if registrant.key == key => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    fn add(&mut self, new: Registrant) -> Result<(), Refusal> {
        if new.key == 0 {
            return Err(Refusal::Invalid);
        }
        // Reports name hosts by their identifier: who registers first has it, and no host of another name.
        if self.registrants.iter().any(|known| known.host_id == new.host_id) {
            return Err(Refusal::Conflict);
        }
        if self.registrants.len() >= MAX_REGISTRANTS {
            return Err(Refusal::Full);
        }
        self.registrants.push(new);
        Ok(())
    }

    fn set_key(&mut self, host: HostKey, key: u64) {
        let found = self.registrants.iter_mut().find(|registrant| registrant.host == host);
        found.expect("a registrant").key = key;
    }

    fn registered(&mut self, persist: Option<bool>) {
        self.persist = persist.unwrap_or(self.persist);
        self.changed();
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn hold(&mut self, host: HostKey, kind: Kind) {
        let holder = (!kind.is_held_by_all()).then_some(host);
        self.held = Some(Held { kind, holder });
    }

    /// The host gives its registration up, and what it holds with it.
    fn remove_one(&mut self, host: HostKey) {
        let held = self.held.filter(|held| held.holder == Some(host));
        self.registrants.retain(|registrant| registrant.host != host);
        if let Some(held) = held {
            self.held = None;
            if held.kind.is_for_registrants() {
                let rest = self.others(host);
                self.tell(Notice::ReservationReleased, rest);
            }
        }
        // What all registrants hold is released with the last of them.
        if self.registrants.is_empty() {
            self.held = None;
        }
    }

    fn preempt(&mut self, host: HostKey, victim: u64, kind: Kind) -> Result<(), Refusal> {
        let Some(held) = self.held else {
            return self.unregister_all(host, victim);
        };
        let takes_over = match held.holder {
            None => victim == 0,
            Some(holder) => self.registrant(holder).is_some_and(|holder| holder.key == victim),
        };
        if takes_over {
            let all = held.holder.is_none();
            let lost = self.take(|registrant| registrant.host != host && (all || registrant.key == victim));
            self.hold(host, kind);
            self.tell(Notice::RegistrationPreempted, lost);
            if held.kind != kind {
                let rest = self.others(host);
                self.tell(Notice::ReservationReleased, rest);
            }
            return Ok(());
        }
        if victim == 0 {
            return Err(Refusal::Invalid);
        }
        self.unregister_all(host, victim)
    }

    /// Removes the registrations with that key, that of the host itself too if it is among them; the reservation stays.
    fn unregister_all(&mut self, host: HostKey, victim: u64) -> Result<(), Refusal> {
        let mut lost = self.take(|registrant| registrant.key == victim);
        if lost.is_empty() {
            return Err(Refusal::Conflict);
        }
        lost.retain(|other| *other != host);
        self.tell(Notice::RegistrationPreempted, lost);
        if self.registrants.is_empty() {
            self.held = None;
        }
        Ok(())
    }

    fn release(&mut self, host: HostKey, kind: Kind) -> Result<(), Refusal> {
        let Some(held) = self.held else {
            return Ok(());
        };
        // "When the host is not the reservation holder, the command completes successfully and has no effect."
        if !self.is_holder(host) {
            return Ok(());
        }
        if held.kind != kind {
            return Err(Refusal::Invalid);
        }
        self.held = None;
        if kind.is_for_registrants() {
            let rest = self.others(host);
            self.tell(Notice::ReservationReleased, rest);
        }
        Ok(())
    }

    /// Removes registrants; tells whom.
    fn take(&mut self, which: impl Fn(&Registrant) -> bool) -> Vec<HostKey> {
        let taken = self.registrants.iter().filter(|registrant| which(registrant));
        let taken = taken.map(|registrant| registrant.host).collect();
        self.registrants.retain(|registrant| !which(registrant));
        taken
    }

    fn others(&self, host: HostKey) -> Vec<HostKey> {
        let hosts = self.registrants.iter().map(|registrant| registrant.host);
        hosts.filter(|other| *other != host).collect()
    }

    fn tell(&mut self, notice: Notice, hosts: Vec<HostKey>) {
        if hosts.is_empty() {
            return;
        }
        if self.notices.len() >= MAX_NOTICES {
            self.notices.pop_front();
        }
        self.last_notice += 1;
        self.notices.push_back(Notification {
            number: self.last_notice,
            notice,
            hosts,
        });
    }

    /// A reservation has a holder that is registered; registrants are told apart, and are as many as there is room for.
    pub(super) fn check_sound(&self) -> Result<(), String> {
        if !is_room_for(&self.registrants) || self.notices.len() > MAX_NOTICES {
            return Err(format!(
                "{} registrants and {} notices, where {MAX_REGISTRANTS} (with {MAX_NAMES_BYTES} bytes of names) and {MAX_NOTICES} are \
                 the most",
                self.registrants.len(),
                self.notices.len()
            ));
        }
        if let Some(lock) = self.locked
            && (lock.host == HostKey::NONE || !self.registrants.is_empty())
        {
            return Err("it is locked, and by nobody, or others are registered".to_owned());
        }
        for (at, one) in self.registrants.iter().enumerate() {
            let is_same = |other: &Registrant| other.host == one.host || other.host_id == one.host_id;
            let is_named = one.port.as_ref().is_none_or(PortName::is_sound);
            if one.key == 0 || one.host == HostKey::NONE || !is_named || self.registrants[..at].iter().any(is_same) {
                return Err(format!("registrant {at} is nobody, or another one as well"));
            }
        }
        match self.held {
            None => Ok(()),
            Some(held) if held.holder.is_none() != held.kind.is_held_by_all() => Err(format!("who holds {held:?}?")),
            Some(held) => match held.holder {
                Some(holder) if self.registrant(holder).is_none() => Err(format!("{held:?} is held by a stranger")),
                None if self.registrants.is_empty() => Err(format!("{held:?} is held by nobody")),
                _ => Ok(()),
            },
        }
    }

    fn assert_sound(&self) {
        if let Err(why) = self.check_sound() {
            panic!("{why}");
        }
    }
}
