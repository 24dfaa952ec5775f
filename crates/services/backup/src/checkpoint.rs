//! Checkpoints: what a vault is after an entry, so that not all entries have to be read. They say nothing that the journal does not say; one
//! that is damaged is passed over, and told of.
//!
//! An object `states/VAULT/NUMBER`; its body is the SHA-256 of that entry's object (32), and the state.

use crate::codec::{Cursor, Malformed, Writer};
use crate::error::{Error, of};
use crate::journal::Head;
use crate::seal::{Kind, MAX_BODY_BYTES};
use crate::state::State;
use crate::store::list_all;
use crate::vault::Vault;

/// How many stay: the newest may be damaged.
const KEPT: usize = 2;

impl State {
    /// Reads the body of a checkpoint: the hash of the entry, and the state after it.
    ///
    /// # Errors
    /// What does not follow the format.
    pub fn parse(bytes: &[u8]) -> Result<([u8; 32], State), Malformed> {
        let mut cursor = Cursor(bytes);
        let hash = cursor.array()?;
        let state = State::decode(&mut cursor)?;
        cursor.end()?;
        Ok((hash, state))
    }
}

impl Vault {
    /// Puts a checkpoint of the last entry that is known. `false`: the vault is too large for one (1 GiB), or it has no entries.
    ///
    /// # Errors
    /// When it cannot be put.
    pub fn checkpoint(&mut self) -> Result<bool, Error> {
        let mut writer = Writer::default();
        writer.fixed(&self.head.hash);
        self.state.encode(&mut writer);
        if self.head.number == 0 || writer.0.len() > MAX_BODY_BYTES {
            return Ok(false);
        }
        let object = self.id.checkpoint(self.head.number);
        let bytes = self.keys.seal(Kind::Checkpoint, &object, &writer.0)?;
        // Another one of this number says the same.
        self.put(&object, &bytes)?;
        self.saved = self.head.number;
        Ok(true)
    }

    /// Puts a checkpoint where more than so many entries stand behind the newest one that is known: whoever opens the vault reads all of them.
    /// Those that later ones stand for go. Was one put?
    ///
    /// # Errors
    /// When it cannot be put, or an old one cannot be deleted.
    pub fn checkpoint_behind(&mut self, most: u64) -> Result<bool, Error> {
        let is_put = self.head.number.saturating_sub(self.saved) > most && self.checkpoint()?;
        if is_put {
            self.drop_checkpoints()?;
        }
        Ok(is_put)
    }

    /// Begins with the newest checkpoint that is whole.
    pub(crate) fn load_checkpoint(&mut self) -> Result<(), Error> {
        let prefix = self.id.checkpoints();
        let listed = list_all(&*self.store, &prefix).map_err(of(&prefix, "list it"))?;
        for object in listed.into_iter().rev().map(|listed| listed.name) {
            let Some(bytes) = self.store.get(&object).map_err(of(&object, "read it"))? else {
                continue;
            };
            let damaged = |why: Malformed| Error::Damaged {
                object: object.clone(),
                why: why.0,
            };
            let opened = self.keys.open(Kind::Checkpoint, &object, bytes);
            match opened.and_then(|body| State::parse(&body).map_err(damaged)) {
                Ok((hash, state)) if self.id.checkpoint(state.number()) == object => {
                    self.head = Head {
                        number: state.number(),
                        hash,
                    };
                    self.saved = self.head.number;
                    #[cfg(test)]
                    let switches = self.state.switches;
                    self.state = state;
                    #[cfg(test)]
                    {
                        self.state.switches = switches;
                    }
                    return Ok(());
                }
                Ok(_) => self
                    .passed_over
                    .push(damaged(Malformed("it is of another entry than its name says"))),
                Err(error) => self.passed_over.push(error),
            }
        }
        Ok(())
    }

    /// Deletes checkpoints that later ones stand for.
    pub(crate) fn drop_checkpoints(&self) -> Result<(), Error> {
        let prefix = self.id.checkpoints();
        let listed = list_all(&*self.store, &prefix).map_err(of(&prefix, "list it"))?;
        for object in listed.iter().rev().skip(KEPT) {
            match self.store.delete(&object.name) {
                Ok(()) | Err(crate::store::StoreError::Locked { .. }) => {}
                Err(error) => return Err(of(&object.name, "delete it")(error)),
            }
        }
        Ok(())
    }
}
