//! Keys and secrets by the API: sent over HTTPS alone, shown once, and kept nowhere as they are.

use super::Workstation;
use crate::page::{end, gateway};
use crate::world::World;
use serde_json::Value;

const HOST: &str = "nqn.2026-01.io.amita:by-api";
const SECRET: &str = "correct-horse-battery";

#[test]
fn keys_and_secrets_are_sealed_by_the_node_and_kept_nowhere_else() {
    let world = World::metadata_only(1);
    let seal = world.file("seal.key").display().to_string();
    world.amita_done(&["host", "seal-key", &seal]);
    let (node, url) = gateway(&world, &["--seal-key", &seal]);
    let work = Workstation {
        by_api: url,
        identity: world.operator(),
        world: &world,
    };
    // What is made is shown once; what was made can be given again, from a file of the workstation.
    let said = work.done(&["host", "add", HOST, "--generate-dhchap", "--one-way", "--generate-tls"]);
    let word = |form: &str| {
        let mut words = said.split_whitespace().filter(|word| word.starts_with(form));
        words.next().unwrap_or_else(|| panic!("{form}: {said}")).to_owned()
    };
    let (chap, tls) = (word("DHHC-1:"), word("NVMeTLSkey-1:"));
    let file = world.file("chap.key").display().to_string();
    std::fs::write(&file, format!("{chap}\n")).expect("written");
    let changed = work.json(&["host", "key", HOST, "--dhchap-key", &file, "--remove-tls"]);
    assert_eq!(
        (&changed["dhchap"], &changed["tls"]),
        (&true.into(), &false.into()),
        "{changed}"
    );
    // Those of initiators, likewise.
    let initiator = "iqn.1993-08.org.debian:01:by-api";
    let said = work.done(&["initiator", "key", initiator, "--generate-chap", "--one-way"]);
    let line = said.lines().find(|line| line.contains("chap-secret"));
    let iscsi = line.and_then(|line| line.split_whitespace().last());
    let iscsi = iscsi.unwrap_or_else(|| panic!("{said}"));
    let file = world.file("chap.secret").display().to_string();
    std::fs::write(&file, format!("{iscsi}\n")).expect("written");
    let changed = work.json(&["initiator", "key", initiator, "--chap-secret", &file]);
    assert_eq!(changed["chap"], Value::Bool(true), "{changed}");
    let misplaced = work.run(&["initiator", "key", initiator, "--chap-secret", iscsi]);
    assert_eq!(misplaced.status.code(), Some(2), "{}", misplaced.text);
    let secret = world.file("secret").display().to_string();
    std::fs::write(&secret, SECRET).expect("written");
    let add = [
        "notify",
        "add",
        "webhook",
        "pager",
        "--url",
        "https://127.0.0.1:1/x",
        "--allow-loopback",
    ];
    let made = work.json(&[&add[..], &["--severity", "critical", "--secret-file", &secret]].concat());
    assert_eq!(made["has_secret"], Value::Bool(true), "{made}");
    // Another time the same is refused as by the metadata, and says nothing of what was sent.
    let again = work.run(&[&add[..], &["--secret-file", &secret]].concat());
    assert_eq!(again.status.code(), Some(5), "{}", again.text);
    let missing = work.run(&["host", "key", HOST, "--dhchap-key", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(2), "{}", missing.text);
    assert!(missing.text.contains("/no/such/file"), "{}", missing.text);
    let given = work.run(&["host", "key", HOST, "--dhchap-key", &chap]);
    assert!(
        given.text.contains("not the key itself") && !given.text.contains(&chap),
        "{}",
        given.text
    );
    let secrets = [chap.as_str(), tls.as_str(), iscsi, SECRET];
    let told = [
        again.text,
        world.amita_done(&["audit", "list", "--json"]),
        misplaced.text,
        world.amita_done(&["host", "list", "--json"]),
        world.amita_done(&["initiator", "list", "--json"]),
        world.amita_done(&["notify", "list", "--json"]),
        std::fs::read_to_string(node.log()).expect("a log"),
    ];
    for text in &told {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is told: {text}");
        }
    }
    // What the metadata has on its disk has none of them either.
    let mut looked_at = 0;
    let mut folders = vec![world.folder().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry"))
        {
            let kind = entry.file_type().expect("a kind");
            let path = entry.path();
            let is_metadata = path
                .components()
                .any(|part| part.as_os_str().to_string_lossy().contains("metadata"));
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_metadata {
                let bytes = std::fs::read(&path).expect("it is read");
                looked_at += bytes.len();
                for secret in secrets {
                    let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                    assert!(!found, "{secret} is in {}", path.display());
                }
            }
        }
    }
    assert!(looked_at > 0, "the metadata lies elsewhere");
    end(node);
    world.end(&[]);
}

#[test]
fn where_others_could_read_it_no_secret_is_sent() {
    let world = World::plain();
    let (node, url) = gateway(&world, &[]);
    assert!(url.starts_with("http://"), "{url}");
    let key = world.file("key").display().to_string();
    std::fs::write(&key, SECRET).expect("written");
    let by = |arguments: &[&str]| world.tool(crate::world::binary(), &[arguments, &["--by-api", &url]].concat());
    for arguments in [
        &["host", "add", HOST, "--dhchap-key", &key][..],
        &["host", "add", HOST, "--generate-tls"],
        &[
            "notify",
            "add",
            "webhook",
            "w",
            "--url",
            "https://127.0.0.1:1/x",
            "--secret-file",
            &key,
        ],
    ] {
        let refused = by(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", refused.text);
        assert!(
            refused.text.contains("by HTTPS only") && !refused.text.contains(SECRET),
            "{}",
            refused.text
        );
    }
    // The node refuses it as well, whoever sends it.
    let body = format!(r#"{{"arguments":["host","add","{HOST}","--dhchap-key","k"],"files":{{"k":"{SECRET}"}}}}"#);
    let commands = format!("{url}/api/v1/commands");
    let json = "Content-Type: application/json";
    let said = world
        .tool("curl", &["--silent", "--header", json, "--data", &body, &commands])
        .text;
    assert!(said.contains("HTTPS only") && !said.contains(SECRET), "{said}");
    assert!(
        by(&["host", "list"])
            .success()
            .is_ok_and(|said| !said.text.contains(HOST))
    );
    end(node);
    world.end(&[]);
}
