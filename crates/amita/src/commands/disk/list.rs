//! Looking at what is on disks.

use crate::admin::Admin;
use crate::cli::Endpoints;
use amita_store::format::PAGE_BYTES;
use amita_store::format::superblock::{Fault, OFFSETS, Superblock};
use amita_terminal::error::{Context, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the front of a disk holds.
#[derive(Debug)]
pub(super) enum Found {
    /// The newest whole superblock.
    Store(Box<Superblock>),
    /// A store whose superblocks are both unreadable; why the first one is.
    Damaged(String),
    /// Nothing of ours.
    Nothing,
}

impl Found {
    /// From the first bytes of a disk: at least as many as the superblocks take, or as the disk has.
    pub(super) fn in_front(front: &[u8]) -> Found {
        let pages = OFFSETS.map(|offset| front.get(offset as usize..offset as usize + PAGE_BYTES));
        let decoded: Vec<std::result::Result<Superblock, Fault>> =
            pages.into_iter().flatten().map(Superblock::decode).collect();
        let newest = decoded
            .iter()
            .filter_map(|page| page.as_ref().ok())
            .max_by_key(|found| found.generation);
        if let Some(superblock) = newest {
            return Found::Store(Box::new(*superblock));
        }
        match decoded
            .iter()
            .filter_map(|page| page.as_ref().err())
            .find(|fault| **fault != Fault::Magic)
        {
            Some(fault) => Found::Damaged(fault.to_string()),
            None => Found::Nothing,
        }
    }

    fn of(path: &Path) -> Result<Found> {
        let length = OFFSETS[OFFSETS.len() - 1] + PAGE_BYTES as u64;
        let mut front = Vec::new();
        crate::commands::store::open::refuse_to_wait(path)?;
        File::open(path)
            .and_then(|file| file.take(length).read_to_end(&mut front))
            .context(|| format!("cannot read {}", path.display()))?;
        Ok(Found::in_front(&front))
    }
}

pub(super) fn paths(paths: &[PathBuf], as_json: bool) -> Result<()> {
    let mut table = Table::new(&["path", "store", "cluster", "size", "state"]);
    let mut list = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let (row, value) = match Found::of(path)? {
            Found::Store(found) => store(&shown, &found),
            Found::Damaged(why) => {
                let state = format!("damaged superblocks: {why}");
                let value = json!({ "path": shown, "state": state });
                ([shown, String::new(), String::new(), String::new(), state], value)
            }
            Found::Nothing => {
                let value = json!({ "path": shown, "state": "no store" });
                (
                    [
                        shown,
                        String::new(),
                        String::new(),
                        String::new(),
                        "no store".to_owned(),
                    ],
                    value,
                )
            }
        };
        table.row(row);
        list.push(value);
    }
    print(as_json, &list, || table.text())
}

fn store(path: &str, found: &Superblock) -> ([String; 5], Value) {
    let size_bytes = found.geometry.size_bytes;
    let joined = found.cluster.0 != 0;
    let cluster = if joined {
        found.cluster.to_string()
    } else {
        "none yet".to_owned()
    };
    let value = json!({
        "path": path,
        "store": found.store,
        "cluster": joined.then_some(found.cluster),
        "size_bytes": size_bytes,
        "mounts": found.mount,
        "state": "ok",
    });
    (
        [
            path.to_owned(),
            found.store.to_string(),
            cluster,
            size::show(size_bytes),
            "ok".to_owned(),
        ],
        value,
    )
}

/// The stores that the cluster knows.
pub(super) fn cluster(as_json: bool, metadata: &Endpoints) -> Result<()> {
    let stores = Admin::connect(metadata)?.status()?.stores;
    print(as_json, &stores, || {
        let mut table = Table::new(&["store", "node", "alive", "size", "groups", "in sync", "path"]);
        for found in &stores {
            table.row([
                found.store.id.to_string(),
                found.node_name.clone(),
                if found.alive { "yes" } else { "NO" }.to_owned(),
                size::show(found.store.size_bytes),
                found.groups.to_string(),
                found.in_sync.to_string(),
                found.store.path.clone(),
            ]);
        }
        table.text()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_and_a_terminal_are_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("made");
        for path in [fifo.as_path(), Path::new("/dev/null")] {
            let refused = Found::of(path).expect_err("no place of a store");
            assert!(refused.what.contains("neither a file nor a block device"), "{refused}");
        }
        assert!(Found::of(&folder.path().join("missing")).is_err());
    }

    #[test]
    fn what_is_wrong_with_a_superblock_is_said_in_words() {
        let mut front = vec![0; OFFSETS[OFFSETS.len() - 1] as usize + PAGE_BYTES];
        assert!(matches!(Found::in_front(&front), Found::Nothing));
        for (fault, words) in [
            (Fault::Magic, "it does not begin as one does"),
            (Fault::Checksum, "its checksum is wrong"),
            (Fault::Newer(9), "it was written by a newer version, of format 9"),
        ] {
            assert_eq!(fault.to_string(), words);
        }
        front.truncate(0);
        assert!(matches!(Found::in_front(&front), Found::Nothing));
    }
}
