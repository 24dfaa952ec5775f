//! A node inside a guest, with its store on a SATA disk: QEMU's answers SMART commands, as no disk of most test machines does.

use crate::cluster::binary;
use crate::host::PATIENCE;
use amita_harness::guest::{Config, Guest};
use amita_harness::scratch::Scratch;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

const STORE_BYTES: u64 = 256 << 20;

/// What the node tells of its machine, from a bundle: no command shows the record itself. `BINARY` is put before it.
const SCRIPT: &str = r#"
cd /tmp
modprobe -a ahci sd_mod
for wait in $(seq 100); do [ -b /dev/sda ] && break; sleep 0.1; done
export AMITA_METADATA=http://127.0.0.1:2379
"$BINARY" meta --listen 127.0.0.1:2379 --data meta.redb >meta.log 2>&1 &
"$BINARY" disk format /dev/sda --yes >format.log 2>&1 || { cat format.log; exit 1; }
"$BINARY" serve --name n1 --store /dev/sda --fabric 127.0.0.1:7001 >n1.log 2>&1 &
for wait in $(seq 200); do
    if "$BINARY" inspect --json >inspect.json 2>inspect.log && ! grep -q 'has not told' inspect.json; then break; fi
    sleep 1
done
"$BINARY" support-bundle --output bundle.tar.gz >bundle.log 2>&1 || { cat bundle.log n1.log; exit 1; }
tar -xzOf bundle.tar.gz amita-support/records/inventories.json || { cat n1.log; exit 1; }
"#;

#[test]
#[ignore = "a whole node under emulation: for a soak"]
fn a_sata_disk_tells_its_health() {
    let scratch = Scratch::make("sata", None, None, STORE_BYTES).expect("a folder");
    let disk = scratch.folder().join("sata.img");
    File::create(&disk)
        .and_then(|file| file.set_len(STORE_BYTES))
        .expect("a disk");
    let program = Path::new(binary()).canonicalize().expect("a binary");
    let mut config = Config::new("alpha", scratch.folder());
    config.memory_mib = 2048;
    config.sata = vec![disk];
    config.shares = vec![program.parent().expect("a folder").to_owned()];
    let guest = Guest::boot(&config).expect("a guest");
    let script = format!("BINARY='{}'\n{SCRIPT}", program.display());
    let output = guest.run(&script, PATIENCE).expect("the guest answers");
    let text = output.success().expect("a node that tells").text;
    let records: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    let facts = records.as_array().expect("records").iter();
    let facts = facts
        .map(|found| &found["record"])
        .find(|record| record["disks"].is_array());
    let device = &facts.unwrap_or_else(|| panic!("{records:#}"))["disks"][0]["device"]["is"];
    let smart = &device["smart"];
    // QEMU's disk is well, has been on for an hour, has replaced nothing, and is as warm as its table says.
    assert_eq!(smart["by"], "ata", "{device:#}");
    assert_eq!(smart["failing"], false, "{device:#}");
    assert_eq!(
        (&smart["on_hours"], &smart["reallocated"], &smart["temperature_c"]),
        (&1.into(), &0.into(), &31.into()),
        "{device:#}"
    );
    // What it does not tell is not known.
    assert_eq!(
        (&smart["pending"], &smart["used_percent"]),
        (&Value::Null, &Value::Null),
        "{device:#}"
    );
}
