//! What outlives a process of what it knows of the metadata's past: a small file in the node's own folder.
//!
//! ```text
//! {"form":"amita-metadata-seen 3","cluster":"…","life":0,"revision":4711,"rights":{"/amita/exports/3":[40,52],…}}
//! ```
//! `rights`: of each record that gives rights the revisions of its creation and of its last change. The file is written
//! whole, under another name, and renamed: a crash leaves the one before or the new one. The form 2 is the same without
//! what is of iSCSI, the form 1 without reservations as well.

use super::{Past, Scope, Written, is_right};
use amita_types::ClusterId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FORM: &str = "amita-metadata-seen 3";
const FORM_2: &str = "amita-metadata-seen 2";
const FORM_1: &str = "amita-metadata-seen 1";
/// No name of a node makes a file that begins so.
const NEW: &str = "new-";
const MODE: u32 = 0o600;

/// Where what is known is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastFile {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    form: String,
    cluster: Option<ClusterId>,
    life: u64,
    revision: u64,
    rights: BTreeMap<String, (u64, u64)>,
}

impl PastFile {
    /// Of a node in a folder that is its own.
    #[must_use]
    pub fn in_folder(folder: &Path, node: &str) -> PastFile {
        PastFile {
            path: folder.join(format!("metadata-seen.{node}")),
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier process has known; `None`: there was none.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn load(&self) -> io::Result<Option<Past>> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        let saved: Saved = serde_json::from_slice(&text)?;
        let scope = match saved.form.as_str() {
            FORM => Scope::Rights,
            FORM_2 => Scope::GrantsAndReservations,
            FORM_1 => Scope::Grants,
            other => {
                let what = format!("it is of the form {other:?}, not {FORM:?}");
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
        };
        let rights = saved.rights.into_iter();
        Ok(Some(Past {
            cluster: saved.cluster,
            life: saved.life,
            revision: saved.revision,
            scope,
            records: rights
                .map(|(key, (created, changed))| (key, Written { created, changed }))
                .collect(),
        }))
    }

    /// Keeps what is known; durable when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, past: &Past) -> io::Result<()> {
        let rights = past.records.iter().filter(|(key, _)| is_right(key));
        let saved = Saved {
            form: FORM.to_owned(),
            cluster: past.cluster,
            life: past.life,
            revision: past.revision,
            rights: rights
                .map(|(key, written)| (key.clone(), (written.created, written.changed)))
                .collect(),
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let new = self.path.with_file_name(format!("{NEW}{name}"));
        // What a crash has left: it was never used.
        match std::fs::remove_file(&new) {
            Err(why) if why.kind() != ErrorKind::NotFound => return Err(why),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
        file.write_all(&serde_json::to_vec(&saved)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(".".as_ref()))?.sync_all()
    }
}
