//! What speaks against the metadata, and who is told.

use super::{AGAIN, Keeper, Level, State};
use amita_control::events::{Draft, Kind};
use amita_metadata::{Call, Op};
use amita_types::map::{self, Suspect};
use std::collections::BTreeSet;
use std::time::Instant;

/// What speaks against the metadata.
#[derive(Default)]
pub(super) struct Doubt {
    /// The records of what any node has found.
    pub(super) keys: BTreeSet<String>,
    /// The metadata is older than what was seen here; what there is to say of it, and whether it was said.
    pub(super) own: Option<String>,
    said: bool,
    /// What answers now is not believed.
    pub(super) away: bool,
    /// And that alone is what is said.
    passes: bool,
    /// It is to be taken back.
    undo: bool,
}

impl Doubt {
    /// Is the metadata older than what was seen here? What other nodes have found is theirs to tell.
    pub(super) fn is_older(&self) -> bool {
        self.own.is_some()
    }

    pub(super) fn stands(&self) -> bool {
        self.away || self.own.is_some() || !self.keys.is_empty()
    }

    /// The metadata is believed at a start, and by that record an earlier process of this node has not believed it: that is to be
    /// taken back. True if there is one.
    pub(super) fn disown(&mut self, ours: &str) -> bool {
        self.undo |= self.own.is_none() && self.keys.contains(ours);
        self.undo
    }

    /// What was said only because the metadata that answered was not believed stands no more; true if there was any.
    fn take_back(&mut self) -> bool {
        let passes = std::mem::take(&mut self.passes);
        if passes {
            (self.own, self.said) = (None, false);
        }
        passes
    }
}

impl Keeper {
    /// What answers is not what the node knows. An older copy is marked as such: who begins by it knows of nothing else.
    pub(super) fn doubt(&self, state: &mut State, why: String, is_older: bool) {
        state.doubt.away = true;
        if is_older && state.doubt.own.is_none() {
            state.doubt.passes = true;
            state.doubt.undo = false;
            let own = self.node;
            self.mark(
                state,
                format!(
                    "{why}. If that is said of the right metadata, start node {own} anew there, or run `amita node remove` for it"
                ),
            );
        } else if !is_older {
            // What else may be there is not to be marked by what could not be said before.
            state.doubt.take_back();
        }
        self.stop_holding(state);
    }

    pub(super) fn believe(&self, state: &mut State) {
        state.doubt.away = false;
        if state.doubt.take_back() {
            // What was meant for the copy may have come too late for it.
            state.doubt.undo = true;
        }
        // What is to be said, and stores that are to be compared.
        state.again = Some(Instant::now());
        state.hold_after(AGAIN);
    }

    pub(super) fn suspect(&self, state: &mut State, why: String) {
        (self.log)(Level::Error, &why);
        state.doubt.passes = false;
        self.mark(state, why);
    }

    fn mark(&self, state: &mut State, why: String) {
        if state.doubt.own.is_none() {
            self.journal.tell(Draft::new(Kind::MetadataOlder, [self.node], &why));
        }
        state.doubt.own.get_or_insert(why);
        self.say(state);
    }

    /// Tells all nodes what is found, or that it is not any more.
    pub(super) fn say(&self, state: &mut State) {
        let key = map::suspect_key(self.node);
        if state.doubt.undo {
            let delete = Call {
                then: vec![Op::Delete { key: key.clone() }],
                ..Call::default()
            };
            match self.client.txn(&delete) {
                Ok(_) => state.doubt.undo = false,
                Err(_) => state.again = Some(Instant::now() + AGAIN),
            }
        }
        let Some(why) = state.doubt.own.clone().filter(|_| !state.doubt.said) else {
            return;
        };
        let value = serde_json::to_vec(&Suspect { why }).expect("plain data");
        match self.client.txn(&Call::put(key, value)) {
            Ok(_) => state.doubt.said = true,
            Err(_) => state.again = Some(Instant::now() + AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Doubt;

    #[test]
    fn what_an_earlier_process_has_said_is_taken_back_by_who_believes_now() {
        let (ours, other) = ("/amita/suspect/1", "/amita/suspect/2");
        let mut doubt = Doubt::default();
        assert!(!doubt.disown(ours), "nobody has said anything");
        doubt.keys.insert(other.to_owned());
        assert!(!doubt.disown(ours), "what others have found is theirs");
        doubt.keys.insert(ours.to_owned());
        doubt.own = Some("the stores say so".to_owned());
        assert!(!doubt.disown(ours));
        doubt.own = None;
        assert!(doubt.disown(ours));
        assert!(doubt.stands(), "until it is gone");
    }

    #[test]
    fn a_node_tells_of_older_metadata_by_what_it_has_found_itself() {
        let mut doubt = Doubt::default();
        doubt.keys.insert("/amita/suspect/2".to_owned());
        doubt.away = true;
        assert!(doubt.stands() && !doubt.is_older());
        doubt.own = Some("the metadata went back".to_owned());
        assert!(!doubt.take_back(), "stores that say so go on to");
        assert!(doubt.is_older());
        doubt.passes = true;
        assert!(doubt.take_back());
        assert!(!doubt.is_older(), "what was said of a copy that answers no more");
    }
}
