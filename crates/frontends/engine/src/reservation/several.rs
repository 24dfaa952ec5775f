//! What hosts of SCSI do to others than themselves: registering several nexuses at once, and handing a reservation over.

use super::{Held, MAX_NAMES_BYTES, MAX_REGISTRANTS, PortName, Refusal, Registrant, State};
use crate::service::HostKey;

/// Can so many be registered, with such names?
pub(super) fn is_room_for(registrants: &[Registrant]) -> bool {
    let names = registrants.iter().filter_map(|registrant| registrant.port.as_ref());
    let bytes: usize = names.map(|name| name.initiator.len()).sum();
    registrants.len() <= MAX_REGISTRANTS && bytes <= MAX_NAMES_BYTES
}

/// Can it be registered at all?
fn is_sound(one: &Registrant) -> bool {
    one.key != 0 && one.host != HostKey::NONE && one.port.as_ref().is_none_or(PortName::is_sound)
}

fn is_same(one: &Registrant, other: &Registrant) -> bool {
    one.host == other.host || one.host_id == other.host_id
}

/// In the place of what is known of it, or behind the others.
fn put(registrants: &mut Vec<Registrant>, new: &Registrant) {
    match registrants.iter_mut().find(|known| known.host == new.host) {
        Some(known) => known.clone_from(new),
        None => registrants.push(new.clone()),
    }
}

impl State {
    /// Is one of these two registered, and the other one not, or another one? Hosts are told apart by both.
    fn is_mistaken(&self, one: &Registrant) -> bool {
        let mut known = self.registrants.iter().filter(|known| is_same(known, one));
        known.any(|known| known.host != one.host || known.host_id != one.host_id)
    }

    /// REGISTER, and REGISTER AND IGNORE EXISTING KEY (`ignore_key`), of one nexus or of several: "[...] as an uninterrupted series of actions".
    pub(super) fn register_all(
        &mut self,
        host: HostKey,
        registrants: &[Registrant],
        ignore_key: bool,
    ) -> Result<(), Refusal> {
        let Some((own, others)) = registrants.split_first() else {
            return Err(Refusal::Invalid);
        };
        let is_fit = |(at, one): (usize, &Registrant)| {
            is_sound(one) && one.key == own.key && !registrants[..at].iter().any(|other| is_same(one, other))
        };
        if own.host != host || registrants.len() > MAX_REGISTRANTS || !registrants.iter().enumerate().all(is_fit) {
            return Err(Refusal::Invalid);
        }
        // Its key is not the 0 that it has said.
        if self.registrant(host).is_some() && !ignore_key {
            return Err(Refusal::Conflict);
        }
        let initiator = |one: &Registrant| one.port.as_ref().map(|port| port.initiator.clone());
        let may_be = |other: &Registrant| match ignore_key {
            // Nobody's key is replaced but the initiator port's own.
            true => initiator(other).is_some() && initiator(other) == initiator(own),
            false => self.registrant(other.host).is_none(),
        };
        if !others.iter().all(may_be) {
            return Err(Refusal::Invalid);
        }
        if registrants.iter().any(|one| self.is_mistaken(one)) {
            return Err(Refusal::Conflict);
        }
        let mut all = self.registrants.clone();
        registrants.iter().for_each(|one| put(&mut all, one));
        self.replace_registrants(all)
    }

    /// REGISTER AND MOVE, of a registrant whose key is right.
    pub(super) fn hand_over(&mut self, host: HostKey, to: &Registrant, unregister: bool) -> Result<(), Refusal> {
        let Some(held) = self.held else {
            return Err(Refusal::Invalid);
        };
        // What all registrants hold nobody can give away.
        if held.holder != Some(host) {
            return Err(Refusal::Conflict);
        }
        if to.host == host || !is_sound(to) {
            return Err(Refusal::Invalid);
        }
        if self.is_mistaken(to) {
            return Err(Refusal::Conflict);
        }
        let mut all = self.registrants.clone();
        if unregister {
            all.retain(|registrant| registrant.host != host);
        }
        put(&mut all, to);
        self.replace_registrants(all)?;
        self.held = Some(Held {
            holder: Some(to.host),
            ..held
        });
        Ok(())
    }

    fn replace_registrants(&mut self, all: Vec<Registrant>) -> Result<(), Refusal> {
        if !is_room_for(&all) {
            return Err(Refusal::Full);
        }
        self.registrants = all;
        Ok(())
    }
}
