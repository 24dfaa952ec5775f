use super::*;
use amita_backup::store::{Folder, ObjectStore};
use amita_backup::{Cost, DRAWN, Identity, Options, Volume};
use clap::Parser as _;
use std::sync::Arc;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

fn said(words: &[&str]) -> Arguments {
    let fixed = ["prune", "--repository", "/nowhere", "--key-file", "/nowhere"];
    Command::parse_from(fixed.iter().chain(words)).arguments
}

/// A vault with so many points of one volume, and a way to open it again.
fn vault(folder: &std::path::Path, points: u32) -> (Vault, impl Fn() -> Vault) {
    let store: Arc<dyn ObjectStore> = Arc::new(Folder::open(folder).unwrap());
    let key = format!("{DRAWN}{}", "5a".repeat(32));
    let made = Vault::create(
        Arc::clone(&store),
        key.as_bytes(),
        Cost::OF_RANDOM_BITS,
        Options::default(),
    );
    let mut vault = made.unwrap();
    for number in 0..points {
        let volume = Volume {
            identity: Identity {
                cluster: [1; 16],
                volume: [2; 16],
                name: "a".to_owned(),
            },
            bytes: 1 << 20,
            encrypted: false,
            snapshot: (1, u64::from(number) + 1),
            parent: None,
            compares: false,
        };
        let mut session = vault.begin("a backup").unwrap();
        let made = session
            .backup(
                &volume,
                &mut std::iter::empty::<std::io::Result<amita_backup::Change>>(),
            )
            .unwrap();
        session
            .publish("p", 1_700_000_000 + i64::from(number) * 86_400, vec![made])
            .unwrap();
        session.end().unwrap();
    }
    let id = vault.id();
    let again = move || Vault::open(Arc::clone(&store), id, key.as_bytes(), Options::default()).unwrap();
    (vault, again)
}

#[test]
fn of_two_prunings_at_one_time_a_point_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, again) = vault(folder.path(), 3);
    let all: Vec<u64> = one.state().points().keys().copied().collect();
    let newest = said(&["--keep-last", "1"]);
    let chosen_before = chosen(&newest, one.state()).unwrap();
    assert_eq!(chosen_before, all[..2]);
    let mut two = again();
    let named = said(&["--forget", &all[2].to_string()]);
    let chosen_by_name = chosen(&named, two.state()).unwrap();
    give_up(&named, &mut two, &chosen_by_name).unwrap();
    let why = give_up(&newest, &mut one, &chosen_before).unwrap_err();
    assert!(
        why.kind == Kind::Conflict && why.what.contains(&format!("point {} stays", all[1])),
        "{why:?}"
    );
    assert_eq!(again().state().points().len(), 2);
    // Chosen anew it is right.
    let chosen_anew = chosen(&newest, one.state()).unwrap();
    assert_eq!(chosen_anew, all[..1]);
    give_up(&newest, &mut one, &chosen_anew).unwrap();
    assert_eq!(again().state().points().keys().copied().collect::<Vec<_>>(), all[1..2]);
}

#[test]
fn what_is_named_goes_beside_the_rules_also_where_points_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, again) = vault(folder.path(), 4);
    let all: Vec<u64> = one.state().points().keys().copied().collect();
    let arguments = said(&["--keep-last", "3", "--forget", &all[3].to_string()]);
    let both = chosen(&arguments, one.state()).unwrap();
    assert_eq!(both, [all[0], all[3]]);
    let mut two = again();
    let session = two.begin("a backup").unwrap();
    session.end().unwrap();
    give_up(&arguments, &mut one, &both).unwrap();
    assert_eq!(again().state().points().keys().copied().collect::<Vec<_>>(), all[1..3]);
}
