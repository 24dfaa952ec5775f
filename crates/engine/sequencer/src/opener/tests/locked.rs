//! Encrypted volumes, whose keys an opener must have before it asks anybody for them.

use super::*;
use amita_crypt::{DataKey, NotNow};
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use std::sync::atomic::{AtomicU32, Ordering};

/// Has the keys of this ring alone.
#[derive(Debug)]
struct Has(KeyRing);

impl Keys for Has {
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        if *ring != self.0 {
            return Err(NotNow::Missing("its key is in Vault, which is sealed".to_owned()));
        }
        let mut byte = 0;
        let keys = ring.eras().iter().map(|era| {
            let key = DataKey::generate(&mut |bytes| {
                for place in bytes {
                    (*place, byte) = (byte, byte + 1);
                }
            });
            (era.key, key)
        });
        Ok(Arc::new(Keychain::new(ring, keys.collect()).unwrap()))
    }
}

/// Has them when it was asked so often.
#[derive(Debug)]
struct Fetches(Has, AtomicU32);

impl Keys for Fetches {
    fn keychain(&self, ring: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        match self.1.load(Ordering::Relaxed) {
            0 => self.0.keychain(ring),
            left => {
                self.1.store(left - 1, Ordering::Relaxed);
                Err(NotNow::Coming)
            }
        }
    }
}

fn ring(number: u32) -> KeyRing {
    KeyRing::new(KeyName {
        volume: VolumeId(9),
        image: VolumeId(9),
        number: KeyNumber(number),
    })
}

fn encrypted(owner: Option<NodeId>, ring: KeyRing) -> State {
    let mut metadata = metadata(owner);
    let volume = map::Volume {
        keys: Some(ring),
        ..volume(owner)
    };
    put(&mut metadata, map::volume_key("v"), &volume);
    metadata
}

fn open(metadata: State, keys: Option<Arc<dyn Keys>>) -> Rig {
    let mut config = OpenerConfig::new(ME, "v");
    config.keys = keys;
    let now = Time(1_000_000);
    let mut rig = Rig {
        opener: Opener::new(config, 5 << 40, now),
        metadata,
        now,
        calls: Vec::new(),
        asked: Vec::new(),
        result: None,
    };
    rig.collect();
    rig
}

#[test]
fn who_has_the_keys_opens_and_has_them() {
    let mut rig = open(encrypted(None, ring(1)), Some(Arc::new(Has(ring(1)))));
    rig.run();
    let keys = rig.opened().keys.clone().expect("they come with it");
    assert_eq!((keys.ring(), rig.volume().keys), (&ring(1), Some(ring(1))));
    // Of a volume that is not encrypted there are none.
    let mut rig = open(metadata(None), Some(Arc::new(Has(ring(1)))));
    rig.run();
    assert_eq!(rig.opened().keys, None);
}

#[test]
fn who_has_not_takes_it_from_nobody() {
    for keys in [None, Some(Arc::new(Has(ring(2))) as Arc<dyn Keys>)] {
        let known = keys.is_some();
        let mut rig = open(encrypted(Some(OTHER), ring(1)), keys).lives(OTHER);
        rig.run();
        let OpenError::Locked { volume, why } = rig.error() else {
            panic!("{:?}", rig.error())
        };
        assert_eq!((volume.as_str(), why.contains("Vault")), ("v", known), "{why}");
        assert!(rig.asked.is_empty(), "its owner serves it");
        assert_eq!(rig.volume().generation, Generation(4), "and nobody is deposed");
    }
}

#[test]
fn keys_that_are_fetched_are_waited_for_before_anybody_is_asked() {
    let fetches = Arc::new(Fetches(Has(ring(1)), AtomicU32::new(30)));
    let mut rig = open(encrypted(Some(OTHER), ring(1)), Some(fetches.clone())).lives(OTHER);
    rig.run();
    assert!(rig.asked.is_empty() && rig.result.is_none(), "{:?}", rig.asked);
    while rig.calls.is_empty() {
        assert!(rig.opener.deadline().is_some(), "it is asked for again");
        rig.pass_ms(20);
    }
    let left = fetches.1.load(Ordering::Relaxed);
    assert_eq!(left, 0, "nothing is read of the metadata before they are there");
    rig.run();
    assert!(!rig.asked.is_empty(), "then its owner is asked");
    assert_eq!(rig.volume().generation, Generation(4), "nobody is deposed meanwhile");
    // They never come.
    let never = Arc::new(Fetches(Has(ring(1)), AtomicU32::new(u32::MAX)));
    let mut rig = open(encrypted(None, ring(1)), Some(never.clone()));
    rig.run();
    while rig.result.is_none() {
        assert!(rig.opener.deadline().is_some(), "it is asked for again");
        rig.pass_ms(20);
        rig.run();
    }
    assert!(matches!(rig.error(), OpenError::Locked { .. }), "{:?}", rig.error());
    let asked = u32::MAX - never.1.load(Ordering::Relaxed);
    assert!((10..100).contains(&asked), "{asked} times in ten seconds");
}

#[test]
fn a_key_that_no_owner_can_write_with_is_a_bad_record() {
    let own = KeyName {
        volume: VolumeId(9),
        image: VolumeId(9),
        number: KeyNumber(2),
    };
    let ring = ring(1).rekeyed(Generation(6), own).unwrap();
    let mut rig = open(encrypted(None, ring.clone()), Some(Arc::new(Has(ring))));
    rig.run();
    assert!(matches!(rig.error(), OpenError::BadRecord { .. }), "{:?}", rig.error());
}
