//! A key that several servers of one KMIP line have, as far as transactions go.

use super::*;
use amita_types::map::KMIP_SINCE;
use std::cell::RefCell;

/// Two servers of a KMIP line, of which one answers at a time; each has a key of its own under the same identifier.
#[derive(Debug, Default)]
struct OfTwo {
    /// Which one answers.
    at: Cell<usize>,
    /// From one to the other behind so many questions.
    turns: Cell<Option<usize>>,
    proofs: Cell<u64>,
    /// By which one a record was wrapped.
    by: RefCell<BTreeMap<String, usize>>,
}

impl OfTwo {
    fn asked(&self) {
        match self.turns.get() {
            Some(0) => {
                self.turns.set(None);
                self.at.set(1 - self.at.get());
                self.proofs.set(self.proofs.get() + 1);
            }
            left => self.turns.set(left.map(|left| left - 1)),
        }
    }

    fn record(&self, of: &WrappedKey) -> WrappedKey {
        let mut record: serde_json::Value = serde_json::from_str(&of.to_text()).unwrap();
        let (nonce, wrapped) = ("00".repeat(12), "00".repeat(80));
        record["by"] = serde_json::json!({"kmip": {"key": "1", "nonce": nonce, "wrapped": wrapped}});
        let made = WrappedKey::parse(&record.to_string()).unwrap();
        self.by.borrow_mut().insert(made.to_text(), self.at.get());
        made
    }
}

impl DataKeys for OfTwo {
    fn make(
        &self,
        cluster: ClusterId,
        by: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String> {
        Ok(self.record(&Maker::default().make(cluster, by, binding)?))
    }
}

impl Rewrap for OfTwo {
    fn to(&self, _: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        Ok(serde_json::from_str(r#"{"kmip": {"key": "1"}}"#).unwrap())
    }

    fn rewrap(
        &self,
        _: ClusterId,
        _: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        self.asked();
        Ok(self.record(wrapped))
    }

    fn proves(&self, _: ClusterId, _: &WrappingKey, wrapped: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        self.asked();
        match self.by.borrow().get(&wrapped.to_text()) {
            Some(by) if *by == self.at.get() => Ok(()),
            _ => Err(KeyTrouble::Key("the record was changed".to_owned())),
        }
    }

    fn proofs(&self) -> u64 {
        self.proofs.get()
    }
}

/// What was wrapped at one server is no proof at the next one: else half of it would open at either, and all would be well.
#[test]
fn what_was_proven_at_one_server_is_not_at_the_next_one() {
    for turns in 0..6 {
        let meta = cluster_with_pool();
        for name in ["a", "b", "c", "d"] {
            encrypted(&meta, name);
        }
        let two = OfTwo::default();
        two.turns.set(Some(turns));
        let done = rewrap_keys(&meta, &two).unwrap();
        let of_first = two.by.borrow().values().filter(|at| **at == 0).count();
        assert_eq!(done.failed.is_empty(), turns <= 1 || turns > 4, "{turns}: {done:?}");
        assert!(of_first > 0 || turns <= 1, "{turns}");
    }
}

#[test]
fn an_older_cluster_has_no_keys_of_kmip_servers() {
    let meta = cluster_with_pool();
    encrypted(&meta, "db");
    let now = cluster(&meta).unwrap();
    let older = Cluster {
        version: KMIP_SINCE - 1,
        ..now.clone()
    };
    let before = wrapping_key(&meta).unwrap();
    meta.txn(&Call::put(map::cluster_key(), json(&older))).unwrap();
    let why = rewrap_keys(&meta, &OfTwo::default()).unwrap_err().to_string();
    assert!(why.contains("finalize"), "{why}");
    assert_eq!(wrapping_key(&meta).unwrap(), before);
    // Nor is one made by it.
    let why = make_encrypted_volume(&meta, "log", "main", 1 << 30, None, &OfTwo::default()).unwrap_err();
    assert!(why.to_string().contains("finalize"), "{why}");
    meta.txn(&Call::put(map::cluster_key(), json(&now))).unwrap();
    assert_eq!(rewrap_keys(&meta, &OfTwo::default()).unwrap().failed.len(), 0);
}
