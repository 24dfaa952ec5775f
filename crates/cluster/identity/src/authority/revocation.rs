//! What is revoked, and how that gets onto the list that everybody gets.
//!
//! The ledger remembers it, the list tells it: a revocation counts when both have it. The ledger comes first, since a list that
//! knew more than the ledger would forget it when it is next made; what a crash or a full disk has kept off the list is put on it
//! by whoever revokes next, the same command given again included, and by the server when it starts.

use super::ledger::{Revocation, Revoked};
use super::{Authority, MAX_LEAF_LIFE, State, read_trust};
use crate::certificate::Serial;
use crate::error::IdentityError;

impl Authority {
    /// Revokes certificates: by a name (`amita://...`, `ROLE/NAME` or `NAME`) those that the log knows, ended ones too (a
    /// connection that was made with one goes on), with the tokens that are open for it, or one by its serial number. When this
    /// returns they are on the list; given again it changes nothing.
    ///
    /// # Errors
    /// There is none; the name is of several roles; there is no room for it on the list. The folder cannot be written: then it has to be given again.
    pub fn revoke(&self, which: &str) -> Result<Revocation, IdentityError> {
        let mut state = self.state()?;
        let now = self.clock.now();
        let wanted = state.ledger.find(which, self.cluster, now, now.after(MAX_LEAF_LIFE))?;
        if !wanted.tokens.is_empty() {
            // Whoever has stolen one would have a new certificate by it, which is on no list.
            state.ledger.tokens.retain(|open| !wanted.tokens.contains(&open.id));
            state.ledger.write_tokens(&self.folder)?;
        }
        let is_new = |revoked: &&Revoked| !state.ledger.is_revoked(&revoked.serial);
        let new: Vec<Revoked> = wanted.certificates.iter().filter(is_new).cloned().collect();
        let is_changed = !new.is_empty();
        if is_changed {
            state.ledger.forget(now);
            // While nothing has changed: what is noted and fits on no list would hold up everybody.
            state.ledger.check_room(new.len())?;
            state.ledger.revoked.extend(new);
            state.ledger.write_revoked(&self.folder)?;
        }
        self.publish_missing(&mut state)?;
        // Each time: an earlier attempt may have ended before its record.
        let mut told = joined(wanted.certificates.iter().map(|revoked| &revoked.serial));
        if !wanted.tokens.is_empty() {
            let between = if told.is_empty() { "" } else { "; " };
            told.push_str(&format!("{between}tokens {}", wanted.tokens.join(", ")));
        }
        self.tell(&state, &self.actor, "cert.revoke", which, &told)?;
        if is_changed {
            // It is large, and nobody's trust depends on it: last.
            state.ledger.write(&self.folder)?;
        }
        Ok(wanted)
    }

    /// Makes the list anew if something that was revoked is not on it: a command has ended half-way.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(crate) fn mend_list(&self) -> Result<(), IdentityError> {
        let mut state = self.state()?;
        let missing = self.publish_missing(&mut state)?;
        if missing.is_empty() {
            return Ok(());
        }
        let told = joined(missing.iter());
        log::warn!(target: "authority", "these certificates were revoked and were not on the list, they are now: {told}");
        let cluster = self.cluster.to_string();
        self.tell(&state, &self.actor, "cert.revoke", &cluster, &told)
    }

    /// What was missing on the list, and is on it now.
    fn publish_missing(&self, state: &mut State) -> Result<Vec<Serial>, IdentityError> {
        let list = read_trust(&self.folder, &state.roots)?;
        let revoked = state.ledger.revoked.iter().map(|revoked| &revoked.serial);
        let missing: Vec<Serial> = revoked.filter(|serial| !list.revokes(serial)).cloned().collect();
        if !missing.is_empty() {
            self.publish(state)?;
        }
        Ok(missing)
    }
}

fn joined<'a>(serials: impl Iterator<Item = &'a Serial>) -> String {
    serials.map(Serial::to_string).collect::<Vec<_>>().join(", ")
}
