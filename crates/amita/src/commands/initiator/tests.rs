use super::keys::{Removes, SecretArguments};
use super::*;
use crate::cli::Cli;
use amita_control::admin::{Secret, chap_field};
use amita_keys::SealKey;
use amita_terminal::error::Kind;
use amita_types::map::IscsiAccess;
use clap::Parser;
use std::path::{Path, PathBuf};

const NAME: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";

fn none() -> SecretArguments {
    SecretArguments {
        chap_secret: None,
        chap_target_secret: None,
        generate_chap: false,
        one_way: false,
        generate_chap_target: false,
        seal_key: None,
    }
}

struct Ground {
    folder: tempfile::TempDir,
    key: SealKey,
    seal: PathBuf,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let seal = folder.path().join("seal.key");
        let key = SealKey::generate();
        key.save(&seal).unwrap();
        Ground { folder, key, seal }
    }

    fn file(&self, name: &str, text: &str) -> Option<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    }

    fn with(&self, chap_secret: Option<PathBuf>, chap_target_secret: Option<PathBuf>) -> SecretArguments {
        SecretArguments {
            chap_secret,
            chap_target_secret,
            seal_key: Some(self.seal.clone()),
            ..none()
        }
    }

    fn opened(&self, field: &str, secret: &Secret) -> String {
        let Secret::Sealed(sealed) = secret else {
            panic!("{field} is not set")
        };
        self.key.unseal(NAME, field, sealed).unwrap().to_string()
    }

    /// An initiator that has this secret, or whose targets have.
    fn known(&self, chap: Option<&str>, chap_target: Option<&str>) -> IscsiInitiator {
        let sealed = |field: &str, text: Option<&str>| text.map(|text| self.key.seal(NAME, field, text).unwrap());
        IscsiInitiator {
            name: NAME.to_owned(),
            chap_user: None,
            chap_target_user: None,
            chap: sealed(chap_field::INITIATOR, chap),
            chap_target: sealed(chap_field::TARGET, chap_target),
        }
    }
}

fn refused(arguments: &SecretArguments, known: Option<&IscsiInitiator>) -> amita_terminal::error::Failure {
    match arguments.sealed(NAME, known, Removes::default(), &Endpoints::default()) {
        Err(why) => why,
        Ok(_) => panic!("{arguments:?} is no good"),
    }
}

#[test]
fn secrets_are_read_made_checked_and_sealed_for_their_field() {
    let ground = Ground::new();
    let arguments = SecretArguments {
        generate_chap_target: true,
        ..ground.with(ground.file("one", "secret-of-mine\n"), None)
    };
    let (keys, generated) = arguments
        .sealed(NAME, None, Removes::default(), &Endpoints::default())
        .unwrap();
    assert_eq!(ground.opened("chap", &keys.chap), "secret-of-mine");
    assert_eq!(generated.len(), 1, "what was read is not shown");
    assert_eq!(
        ground.opened("chap_target", &keys.chap_target),
        generated[0].secret.text()
    );
    // Sealed for its field alone.
    let Secret::Sealed(sealed) = &keys.chap else {
        panic!("it is set")
    };
    assert!(ground.key.unseal(NAME, "chap_target", sealed).is_err());
    // Without secrets no sealing key is needed.
    let (keys, generated) = none()
        .sealed(NAME, None, Removes::default(), &Endpoints::default())
        .unwrap();
    assert!(keys == InitiatorKeys::default() && generated.is_empty());
    let wants = SecretArguments {
        generate_chap: true,
        ..none()
    };
    let why = refused(&wants, None);
    assert_eq!(why.kind, Kind::Usage);
    assert!(why.advice.contains("amita host seal-key"), "{why}");
}

#[test]
fn a_secret_that_is_made_comes_with_the_targets_but_where_that_is_not_wanted() {
    let ground = Ground::new();
    for (one_way, keeps, both) in [(false, false, true), (true, false, false), (false, true, false)] {
        let arguments = SecretArguments {
            generate_chap: true,
            one_way,
            ..ground.with(None, None)
        };
        let removes = Removes {
            chap: false,
            chap_target: keeps,
        };
        let (keys, generated) = arguments.sealed(NAME, None, removes, &Endpoints::default()).unwrap();
        assert_eq!(matches!(keys.chap_target, Secret::Sealed(_)), both);
        assert_eq!(generated.len(), 1 + usize::from(both));
    }
}

/// RFC 7143, 9.2.1: whoever is asked to prove something could have the other side say it.
#[test]
fn both_sides_never_have_the_same_secret_also_where_one_is_there_already() {
    let ground = Ground::new();
    let same = || ground.file("same", "the-same-secret");
    let why = refused(&ground.with(same(), same()), None);
    assert!(
        why.kind == Kind::Usage && why.to_string().contains("choose another"),
        "{why}"
    );
    let known = ground.known(Some("the-same-secret"), None);
    let why = refused(&ground.with(None, same()), Some(&known));
    assert!(why.to_string().contains("choose another"), "{why}");
    let both = ground.known(Some("something-other"), Some("the-same-secret"));
    let why = refused(&ground.with(same(), None), Some(&both));
    assert!(why.to_string().contains("choose another"), "{why}");
    // It is taken away at the same time.
    let removes = Removes {
        chap: false,
        chap_target: true,
    };
    let (keys, _) = ground
        .with(same(), None)
        .sealed(NAME, Some(&both), removes, &Endpoints::default())
        .unwrap();
    assert!(matches!(
        (&keys.chap, &keys.chap_target),
        (Secret::Sealed(_), Secret::Remove)
    ));
    // What is there cannot be opened: nothing is known of it, and nothing is done.
    let foreign = IscsiInitiator {
        chap: Some(SealKey::generate().seal(NAME, "chap", "the-same-secret").unwrap()),
        ..known
    };
    let why = refused(&ground.with(None, same()), Some(&foreign));
    assert!(why.to_string().contains("sealed with another key"), "{why}");
}

#[test]
fn no_message_shows_a_secret() {
    let ground = Ground::new();
    let secret = "hidden\tsecret-of-mine";
    let absent = |name: &str| Some(Path::new(name).to_owned());
    for (arguments, kind) in [
        (ground.with(ground.file("tab", secret), None), Kind::Usage),
        (ground.with(ground.file("short", "hidden"), None), Kind::Usage),
        (
            ground.with(None, ground.file("long", &"hidden".repeat(100))),
            Kind::Usage,
        ),
        (ground.with(absent("hidden-secret-of-mine"), None), Kind::Unreadable),
        (ground.with(absent("-"), absent("-")), Kind::Usage),
    ] {
        let why = refused(&arguments, None);
        assert_eq!(why.kind, kind, "{why}");
        assert!(!format!("{why} {}", why.advice).contains("hidden"), "{why}");
    }
}

#[test]
fn what_is_shown_has_no_secret_and_json_makes_none() {
    let known = IscsiInitiator {
        name: NAME.to_owned(),
        chap_user: Some("esx".to_owned()),
        chap_target_user: None,
        chap: Some("sealed:1:AAAA".to_owned()),
        chap_target: None,
    };
    let target = |name: &str, luns: Option<Vec<u16>>| IscsiTarget {
        name: name.to_owned(),
        iqn: format!("iqn.2026-11.io.amita:test:{name}"),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: vec![IscsiAccess {
            initiator: NAME.to_owned(),
            luns,
        }],
        luns: Vec::new(),
    };
    let shown = Shown::of(&known, &[target("a", None), target("b", Some(vec![1, 3]))]);
    let json = serde_json::to_string(&shown).unwrap();
    assert!(!json.contains("sealed") && json.contains("\"chap\":true"), "{json}");
    assert_eq!(shown.proofs(), "CHAP as esx");
    assert_eq!(shown.allowed(), "a, b (LUNs 1, 3)");
    for line in [
        "amita initiator key iqn.2014-08.org.example:i --generate-chap --json",
        "amita initiator key iqn.2014-08.org.example:i --one-way --remove-chap",
        "amita initiator key iqn.2014-08.org.example:i --remove-chap --generate-chap",
        "amita initiator allow t iqn.2014-08.org.example:i --lun 16384",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}
