//! What cryptsetup makes of the disk, and what the disk shows of that.

use super::{DISK, Host, State, ran};
use crate::node::copied::Copied;
use crate::node::machine::Ran;
use crate::parameters::LUKS_BYTES;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

/// Before the number of a copy.
const HEADS: &str = "/proc/1/fd/";
const CIPHER: &str = "aes-xts-plain64";

/// A disk of LUKS: the passphrases that open it, and what is on it behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Luks {
    pub passphrases: BTreeSet<String>,
    pub content: Option<String>,
    pub cipher: &'static str,
}

/// A mapping of dm-crypt above the disk, or above one that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub name: String,
    pub bytes: u64,
    pub is_read_only: bool,
    pub cipher: &'static str,
}

/// A copy of what the disk has shown.
struct Head(Host, usize);

impl Copied for Head {
    fn path(&self) -> String {
        format!("{HEADS}{}", self.1)
    }

    fn write_back(&self, _: &str, pieces: &[Range<u64>]) -> io::Result<()> {
        self.0.act(|state| {
            assert!(state.pins > 0 && !state.is_read_only);
            assert_eq!(pieces, [32768..LUKS_BYTES, 0..16384, 16384..32768]);
            state.luks = Some(state.heads[self.1].clone());
            Ok(())
        })
    }
}

pub fn copy(host: &Host, bytes: u64) -> io::Result<Box<dyn Copied>> {
    let mut state = host.state();
    assert!(state.pins > 0 && bytes == LUKS_BYTES);
    let shown = state.luks.clone().unwrap_or_default();
    if let Some(lie) = state.lies.take() {
        state.luks = Some(lie);
    }
    state.heads.push(shown);
    Ok(Box::new(Head(host.clone(), state.heads.len() - 1)))
}

impl State {
    /// As cryptsetup(8) does it; what is written by it is on standard input.
    pub(super) fn cryptsetup(&mut self, words: &[&str], input: &str) -> Ran {
        let device = format!("/dev/{DISK}");
        let has = |word: &str| words.contains(&word);
        if let Some(secret) = input.lines().find(|line| !line.is_empty()) {
            assert!(
                !words.iter().any(|word| word.contains(secret)),
                "a passphrase is no argument"
            );
        }
        let is_by_disk = words.contains(&device.as_str());
        assert!(!is_by_disk || self.pins > 0, "another disk may have the name by now");
        match words[0] {
            what if self.cryptsetup_fails.is_some_and(|(fails, _)| fails == what) => {
                ran(self.cryptsetup_fails.map_or(0, |(_, code)| code), "it says why")
            }
            "luksFormat" => {
                let is_empty = self.content.is_none() && !self.has_data;
                assert!(
                    is_empty || self.is_making(),
                    "what holds something is not encrypted anew"
                );
                assert!(!self.is_read_only && self.mapping.is_none() && words.last() == Some(&device.as_str()));
                if std::mem::take(&mut self.is_luks_format_killed) {
                    (self.content, self.luks, self.has_data) = (None, None, true);
                    return ran(-1, "killed");
                }
                let passphrases = BTreeSet::from([input.to_owned()]);
                self.luks = Some(Luks {
                    passphrases,
                    content: None,
                    cipher: CIPHER,
                });
                (self.content, self.has_data) = (Some("crypto_LUKS".to_owned()), false);
                ran(0, "")
            }
            "close" => {
                if self
                    .mapping
                    .as_ref()
                    .is_none_or(|mapping| Some(&mapping.name.as_str()) != words.last())
                {
                    return ran(4, "not active");
                }
                // As 2.7.5, which has no head to look at.
                if has("--deferred") && self.is_mapping_dead() {
                    return ran(-1, "");
                }
                if self.is_text_in_use() {
                    return ran(5, "in use");
                }
                self.mapping = None;
                ran(0, "")
            }
            "resize" => {
                let bytes = self.bytes - LUKS_BYTES;
                self.mapping.as_mut().expect("it is open").bytes = bytes;
                ran(0, "")
            }
            what => {
                let place = words
                    .iter()
                    .find_map(|word| word.strip_prefix(HEADS)?.parse::<usize>().ok());
                let bytes = self.bytes - LUKS_BYTES;
                let shown = match place {
                    Some(place) => self.heads.get_mut(place),
                    None => self.luks.as_mut(),
                };
                let Some(luks) = shown else {
                    return ran(1, "is not a valid LUKS device");
                };
                // One that reads the disk once more reads whatever that shows by then.
                assert!(place.is_some(), "{what} goes by a copy that was looked at");
                match what {
                    "luksDump" => ran(
                        0,
                        &format!(
                            "Metadata area: \t16384 [bytes]\nKeyslots area: \t16744448 [bytes]\n  0: crypt\n\tcipher: {}\n  0: luks2\n\tCipher:     aes-xts-plain64",
                            luks.cipher
                        ),
                    ),
                    "luksAddKey" => {
                        let (old, new) = input.trim_end().split_once('\n').expect("two lines");
                        if !luks.passphrases.contains(old) {
                            return ran(2, "No key available with this passphrase.");
                        }
                        luks.passphrases.insert(new.to_owned());
                        ran(0, "")
                    }
                    "luksRemoveKey" => match luks.passphrases.remove(input) {
                        true => {
                            assert!(!luks.passphrases.is_empty(), "the last one stays");
                            ran(0, "")
                        }
                        false => ran(2, "No key available with this passphrase."),
                    },
                    "open" if !luks.passphrases.contains(input) && luks.cipher == CIPHER => {
                        ran(2, "No key available with this passphrase.")
                    }
                    "open" => {
                        assert!(self.mapping.is_none(), "it is open already");
                        assert!(has("--readonly") || !self.is_read_only);
                        self.mapping = Some(Mapped {
                            name: (*words.last().expect("a name")).to_owned(),
                            bytes,
                            cipher: luks.cipher,
                            is_read_only: has("--readonly"),
                        });
                        ran(0, "")
                    }
                    other => panic!("nobody runs {other}"),
                }
            }
        }
    }
}
