//! Tenants' volume keys: one line of the file for each of two tenants, and the cluster's.

use super::*;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

const ACME: &str = "acme-db";
const ZETA: &str = "zeta-db";

impl Sealed {
    /// A line with a new key.
    fn new_line(&self, name: &str) -> String {
        let file = self.world.file(name);
        let path = file.to_str().expect("a path of ours");
        self.world.amita_done(&["volume", "key", "init", path]);
        let text = std::fs::read_to_string(&file).expect("it is read");
        let line = text.lines().find(|line| line.starts_with("amita-seal-1:"));
        line.expect("a key").to_owned()
    }

    /// The file with these lines, from one moment on.
    fn has_lines(&self, lines: &[&str]) {
        let new = self.world.file("lines.new");
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        file.expect("it is made")
            .write_all(text.as_bytes())
            .expect("it is written");
        std::fs::rename(new, &self.keys).expect("it takes the place");
    }

    fn make(&self, volume: &str, more: &[&str]) {
        let command = [
            "volume",
            "create",
            volume,
            "--pool",
            "demo",
            "--size",
            "64M",
            "--encrypted",
        ];
        self.with_keys(&[&command[..], more].concat());
        self.world.cluster.offer_by_nbd(volume).expect("it is exported");
    }

    fn restarted(&mut self) {
        for node in 0..3 {
            self.world.cluster.kill_node(node);
        }
        self.world.cluster.start_nodes().expect("nodes start");
    }
}

#[test]
fn a_tenants_volumes_are_closed_without_its_line_and_all_others_serve() {
    let mut sealed = Sealed::new();
    let clusters = std::fs::read_to_string(&sealed.keys).expect("it is read");
    let clusters = clusters
        .lines()
        .find(|line| line.starts_with("amita-seal-1:"))
        .expect("a key")
        .to_owned();
    let [acme, zeta] = ["acme", "zeta"].map(|tenant| format!("tenant={tenant} {}", sealed.new_line(tenant)));
    sealed.make(SECRET, &[]);
    // Whatever the order: what is a tenant's wraps for nobody else.
    sealed.has_lines(&[&acme, &zeta, &clusters]);
    for tenant in ["acme", "zeta"] {
        let set = sealed.with_keys(&["tenant", "key", "set", tenant]);
        assert_eq!(
            (&set["wrapped"], &set["failed"]),
            (&0.into(), &Value::Array(Vec::new())),
            "{set}"
        );
    }
    sealed.make(ACME, &["--tenant", "acme"]);
    sealed.make(ZETA, &["--tenant", "zeta"]);
    let texts = [SECRET, ACME, ZETA].map(|volume| (volume, text(volume)));
    for (volume, text) in &texts {
        sealed.write(0, volume, text);
    }
    let by = |volume: &str| {
        let keys = sealed.world.json(&["volume", "key", "list", volume]);
        (
            keys[0]["wrapped_by"].clone(),
            keys[0]["tenant"].clone(),
            keys[0]["to_be_wrapped_by"].clone(),
        )
    };
    let [own, first, second] = [SECRET, ACME, ZETA].map(by);
    assert_eq!(
        [&own.1, &first.1, &second.1],
        [&Value::Null, &"acme".into(), &"zeta".into()]
    );
    assert!(
        own.0 != first.0 && first.0 != second.0 && own.0 != second.0,
        "{own:?} {first:?} {second:?}"
    );

    // One line is withdrawn.
    sealed.has_lines(&[&zeta, &clusters]);
    sealed.restarted();
    for (volume, text) in texts.iter().filter(|(volume, _)| *volume != ACME) {
        sealed.expect(1, volume, text);
    }
    eventually("the tenant's volume says that it waits, and for whose key", || {
        sealed.try_open(1, ACME).expect_err("its line was taken away");
        let shown = sealed.world.json(&["volume", "show", ACME]);
        shown["locked"].as_str().is_some_and(|why| why.contains("tenant acme"))
    });
    let file = sealed.keys.to_str().expect("a path of ours").to_owned();
    let status = sealed.world.amita(&["volume", "key", "status", "--volume-keys", &file]);
    assert!(
        status.text.contains("volume keys of these tenants: acme"),
        "{}",
        status.text
    );
    let status = sealed
        .world
        .amita(&["tenant", "key", "show", "acme", "--volume-keys", &file]);
    assert!(status.text.contains("NO: no line"), "{}", status.text);
    let refused = sealed.world.amita(&[
        "volume",
        "create",
        "more",
        "--pool",
        "demo",
        "--size",
        "64M",
        "--encrypted",
        "--tenant",
        "acme",
        "--volume-keys",
        &file,
    ]);
    assert!(refused.text.contains("tenant acme"), "{}", refused.text);
    sealed.has_lines(&[&zeta, &clusters, &acme]);
    for (volume, text) in &texts {
        sealed.expect(1, volume, text);
    }

    // It is given to the other tenant: that is seen, and once it is wrapped again the line of before opens nothing of it.
    let given = sealed.world.json(&["tenant", "add", "zeta", ACME]);
    assert_eq!(given["to_be_wrapped"], true, "{given}");
    let keys = sealed.world.json(&["volume", "key", "list", ACME]);
    assert!(
        keys[0]["to_be_wrapped_by"]
            .as_str()
            .is_some_and(|by| by.contains("tenant zeta")),
        "{keys}"
    );
    let done = sealed.with_keys(&["volume", "key", "rewrap"]);
    assert_eq!((&done["wrapped"], &done["same"]), (&1.into(), &2.into()), "{done}");
    let keys = sealed.world.json(&["volume", "key", "list", ACME]);
    assert_eq!(
        (&keys[0]["wrapped_by"], &keys[0]["tenant"]),
        (&second.0, &"zeta".into()),
        "{keys}"
    );
    sealed.has_lines(&[&zeta, &clusters]);
    sealed.restarted();
    for (volume, text) in &texts {
        sealed.expect(2, volume, text);
    }
    let expected = [A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat();
    let expected = [&expected[..], &["waits for its keys", "--volume-keys"]].concat();
    sealed.world.end(&expected);
}
