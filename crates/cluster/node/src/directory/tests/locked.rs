//! Encrypted volumes whose keys are not here.

use super::super::openers::{MAX_OPENERS, MAX_WAITING};
use super::*;
use amita_crypt::{Keychain, Keys, NotNow};
use amita_types::condition::Failing;
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fetches keys for ever; or has found that they are not to be had.
#[derive(Debug)]
struct Lacks(Option<&'static str>);

impl Keys for Lacks {
    fn keychain(&self, _: &KeyRing) -> Result<Arc<Keychain>, NotNow> {
        Err(self.0.map_or(NotNow::Coming, |why| NotNow::Missing(why.to_owned())))
    }

    fn missing(&self, _: &KeyRing) -> Option<String> {
        self.0.map(str::to_owned)
    }
}

fn encrypted(rig: &Rig, id: u64) -> map::Volume {
    let reply = rig.metadata.clone().txn(&Call::get(map::volume_key("v"))).unwrap();
    map::Volume {
        id: VolumeId(id),
        name: format!("e{id}"),
        owner: None,
        keys: Some(KeyRing::new(KeyName {
            volume: VolumeId(id),
            image: VolumeId(id),
            number: KeyNumber(1),
        })),
        ..reply.value(0).unwrap().json().unwrap()
    }
}

fn with_keys(rig: &mut Rig, keys: Option<Lacks>) {
    let mut config = OpenerConfig::new(NodeId(1), "");
    config.keys = keys.map(|keys| Arc::new(keys) as Arc<dyn Keys>);
    rig.directory = Directory::new(NodeId(1), CORES, config);
}

/// What fronts are told, by their tags, and how many calls of the metadata were made for that.
fn told(rig: &mut Rig) -> (BTreeMap<u64, Result<(), String>>, usize) {
    let (mut told, mut calls) = (BTreeMap::new(), 0);
    while let Some(effect) = rig.directory.next() {
        match effect {
            Effect::Call { call, request } => {
                calls += 1;
                let reply = rig.metadata.txn(&request).unwrap();
                rig.directory.metadata(rig.now, call, Ok(reply));
            }
            Effect::MakeShards { opened } => {
                for _ in 0..CORES {
                    rig.directory.shard_made(opened.volume.id, opened.generation);
                }
            }
            Effect::Opened { origin, result } => {
                let said = result.map(drop).map_err(|why| format!("{why:?}"));
                told.insert(origin.tag, said);
            }
            other => panic!("{other:?}"),
        }
    }
    (told, calls)
}

#[test]
fn volumes_that_wait_for_keys_keep_no_other_closed() {
    let mut rig = Rig::new();
    with_keys(&mut rig, Some(Lacks(None)));
    let many = (MAX_WAITING + MAX_OPENERS + 10) as u64;
    for number in 0..many {
        let volume = encrypted(&rig, 100 + number);
        let put = Call::put(map::volume_key(&volume.name), serde_json::to_vec(&volume).unwrap());
        rig.metadata.txn(&put).unwrap();
        let mut origin = rig.origin;
        origin.tag = number + 10;
        rig.directory.open(rig.now, origin, &volume.name);
        let (said, _) = told(&mut rig);
        // Too many wait: it is told at once, and holds nothing.
        let refused = number as usize >= MAX_WAITING;
        assert_eq!(said.len(), usize::from(refused), "{number}: {said:?}");
        assert!(
            said.values()
                .all(|said| said.as_ref().is_err_and(|why| why.contains("encrypted")))
        );
    }
    rig.directory.open(rig.now, rig.origin, "v");
    let (said, _) = told(&mut rig);
    assert_eq!(said.into_values().collect::<Vec<_>>(), [Ok(())]);
    // They end when keys were waited for long enough.
    let mut ended = 0;
    while ended < MAX_WAITING {
        let due = rig.directory.deadline().expect("they wait");
        rig.now = rig.now.max(due);
        rig.directory.tick(rig.now, &View::default());
        ended += told(&mut rig).0.len();
    }
    assert_eq!(rig.directory.take_unopened().len() as u64, many);
}

#[test]
fn one_whose_keys_have_come_goes_on_when_there_is_room() {
    let mut rig = Rig::new();
    with_keys(&mut rig, Some(Lacks(None)));
    let volume = encrypted(&rig, 100);
    let put = Call::put(map::volume_key(&volume.name), serde_json::to_vec(&volume).unwrap());
    rig.metadata.txn(&put).unwrap();
    rig.directory.open(rig.now, rig.origin, &volume.name);
    told(&mut rig);
    for number in 0..MAX_OPENERS {
        rig.directory.open(rig.now, rig.origin, &format!("slow{number}"));
    }
    assert_eq!(rig.directory.deadline(), None, "nothing is to be done for it");
    rig.now = rig.now.plus(Duration::from_secs(60));
    rig.directory.tick(rig.now, &View::default());
    let (said, calls) = told(&mut rig);
    assert_eq!((said.len(), calls), (1, MAX_OPENERS), "the others are not there");
    assert!(
        rig.directory.deadline().is_some_and(|due| due <= rig.now),
        "there is room"
    );
}

#[test]
fn who_comes_again_by_himself_costs_nothing_while_the_keys_are_away() {
    for (keys, why) in [(Some(Lacks(Some("Vault is sealed"))), "Vault"), (None, "--volume-keys")] {
        let mut rig = Rig::new();
        with_keys(&mut rig, keys);
        let volume = encrypted(&rig, 100);
        let mut view = View::default();
        view.apply(&Record {
            key: map::volume_key(&volume.name),
            value: Some(serde_json::to_vec(&volume).unwrap()),
            revision: 1,
            created: 1,
        });
        for _ in 0..10 {
            rig.directory.seek(rig.now, 0, (volume.id, false), &[], &view);
            let Some(Effect::VolumeRoute { way, .. }) = rig.directory.next() else {
                panic!("it is told");
            };
            assert!(matches!(way, VolumeRoute::Locked), "{way:?}");
            assert!(rig.directory.next().is_none(), "and nothing is begun");
        }
        let said = rig.directory.take_unopened();
        assert_eq!(said.len(), 10);
        for (name, failing, said) in said {
            assert_eq!((name.as_str(), failing), ("e100", Failing::Locked));
            assert!(said.contains(why), "{said}");
        }
    }
}
