use super::keys::KeyArguments;
use super::*;
use crate::cli::Cli;
use clap::Parser;
use std::path::Path;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";

fn none() -> KeyArguments {
    KeyArguments {
        dhchap_key: None,
        dhchap_controller_key: None,
        tls_key: None,
        generate_dhchap: false,
        one_way: false,
        generate_dhchap_controller: false,
        generate_tls: false,
        seal_key: None,
    }
}

fn seal_key(folder: &Path) -> (SealKey, PathBuf) {
    let path = folder.join("seal.key");
    let key = SealKey::generate();
    key.save(&path).unwrap();
    (key, path)
}

fn opened(key: &SealKey, field: &str, secret: &Secret) -> String {
    let Secret::Sealed(sealed) = secret else {
        panic!("{field} is not set")
    };
    key.unseal(NQN, field, sealed).unwrap().to_string()
}

#[test]
fn without_keys_no_sealing_key_is_needed_and_with_them_it_is_asked_for() {
    let (keys, generated) = none().sealed(NQN, false, &Endpoints::default()).unwrap();
    assert!(keys == HostKeys::default() && generated.is_empty());
    let wants = KeyArguments {
        generate_tls: true,
        ..none()
    };
    let Err(why) = wants.sealed(NQN, false, &Endpoints::default()) else {
        panic!("no key to seal with")
    };
    assert_eq!(why.kind, Kind::Usage);
    assert!(why.advice.contains("amita host seal-key"), "{why}");
}

#[test]
fn keys_are_read_made_checked_and_sealed_for_their_field() {
    let folder = tempfile::tempdir().unwrap();
    let (key, path) = seal_key(folder.path());
    let file = folder.path().join("dhchap.key");
    let text = amita_keys::DhchapSecret::generate(None, NQN, &mut amita_keys::system_random).to_text();
    std::fs::write(&file, format!("{}\n", *text)).unwrap();
    let arguments = KeyArguments {
        dhchap_key: Some(file),
        generate_dhchap_controller: true,
        generate_tls: true,
        seal_key: Some(path),
        ..none()
    };
    let (keys, generated) = arguments.sealed(NQN, false, &Endpoints::default()).unwrap();
    assert_eq!(opened(&key, "dhchap", &keys.dhchap), *text);
    assert_eq!(generated.len(), 2, "what was read is not shown");
    assert_eq!(
        opened(&key, "dhchap_controller", &keys.dhchap_controller),
        *generated[0].text
    );
    assert_eq!(opened(&key, "tls", &keys.tls), *generated[1].text);
    assert!(generated[0].text.starts_with("DHHC-1:01:") && generated[1].text.starts_with("NVMeTLSkey-1:01:"));
}

/// A host that gets a key can ask controllers for proof too, but where that is not wanted, or is there.
#[test]
fn the_key_of_a_host_comes_with_one_of_the_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = seal_key(folder.path());
    for (one_way, keeps, both) in [(false, false, true), (true, false, false), (false, true, false)] {
        let arguments = KeyArguments {
            generate_dhchap: true,
            one_way,
            seal_key: Some(path.clone()),
            ..none()
        };
        let (keys, generated) = arguments.sealed(NQN, keeps, &Endpoints::default()).unwrap();
        assert_eq!(matches!(keys.dhchap_controller, Secret::Sealed(_)), both);
        assert_eq!(generated.len(), 1 + usize::from(both));
    }
}

#[test]
fn no_message_shows_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = seal_key(folder.path());
    let text = amita_keys::DhchapSecret::generate(None, NQN, &mut amita_keys::system_random).to_text();
    let secret = &text[11..40];
    let damaged = folder.path().join("damaged");
    std::fs::write(
        &damaged,
        text.replacen(secret, &secret.chars().rev().collect::<String>(), 1),
    )
    .unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, text.as_bytes()).unwrap();
    let with = |dhchap_key: Option<PathBuf>, tls_key: Option<PathBuf>| KeyArguments {
        dhchap_key,
        tls_key,
        seal_key: Some(path.clone()),
        ..none()
    };
    for (arguments, kind) in [
        (with(Some(damaged), None), Kind::Usage),
        (with(None, Some(other)), Kind::Usage),
        (with(Some(PathBuf::from(&*text)), None), Kind::Usage),
        (with(Some(folder.path().join("absent")), None), Kind::Unreadable),
        (with(Some("-".into()), Some("-".into())), Kind::Usage),
    ] {
        let Err(why) = arguments.sealed(NQN, false, &Endpoints::default()) else {
            panic!("{arguments:?} is no good")
        };
        assert_eq!(why.kind, kind, "{why}");
        assert!(!why.to_string().contains(secret), "{why}");
    }
}

#[test]
fn a_sealing_key_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seal.key");
    make_seal_key(&file, false).unwrap();
    let before = std::fs::read(&file).unwrap();
    assert_eq!(make_seal_key(&file, false).unwrap_err().kind, Kind::Conflict);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn what_is_shown_has_no_key_and_json_makes_none() {
    let host = Host {
        nqn: NQN.to_owned(),
        dhchap: Some("sealed:1:x".to_owned()),
        dhchap_controller: None,
        tls: Some("sealed:1:y".to_owned()),
    };
    let shown = Shown::of(&host, &[]);
    assert_eq!(shown.proofs(), "CHAP, TLS");
    let json = serde_json::to_string(&shown).unwrap();
    assert!(!json.contains("sealed"), "{json}");
    for generate in ["--generate-dhchap", "--generate-tls"] {
        assert!(Cli::try_parse_from(["amita", "host", "add", NQN, generate, "--json"]).is_err());
    }
    assert!(Cli::try_parse_from(["amita", "host", "add", NQN, "--generate-dhchap", "--generate-tls"]).is_ok());
    assert!(
        Cli::try_parse_from(["amita", "host", "key", NQN]).is_err(),
        "nothing to do"
    );
    assert!(Cli::try_parse_from(["amita", "host", "key", NQN, "--remove-tls"]).is_ok());
}
