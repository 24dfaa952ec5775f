//! Texts of keys out of any bytes: those that are handed over, sealed ones as they stand in the metadata, files of sealing keys.
//! Used by `tests/fuzz.rs` on stable, and under libFuzzer by the target in `fuzz/`.
//!
//! What must hold: nothing panics, what is taken for a key has one text that gives the same key again, no refusal repeats more
//! than a few characters of the text, and nothing that was not sealed here opens.

use amita_keys::{DhchapSecret, SealKey, TlsKey};
use std::cell::OnceCell;
use std::os::unix::fs::OpenOptionsExt;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11";
const FIELD: &str = "dhchap";
/// A refusal may show so many characters of what was wrong in a row: a hash identifier, a key's id.
const MAX_SHOWN: usize = 16;

thread_local! {
    static SEAL: OnceCell<SealKey> = const { OnceCell::new() };
}

/// Texts of each kind: seeds, behind the byte that says what they are.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:01:g4kkvxqM6SdtUwrTyVkfWRy564Zlg0uT2QlShmui4OMtmQLp:",
        "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "sealed:1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v",
        "# of the cluster\namita-seal-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Does what was said show a long piece of the text?
fn shows(said: &str, text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    let mut pieces = characters
        .windows(MAX_SHOWN + 1)
        .map(|piece| piece.iter().collect::<String>());
    pieces.any(|piece| said.contains(&piece))
}

/// A text as each kind of key.
pub fn keys(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match DhchapSecret::parse(&text) {
        Ok(secret) => {
            let again = DhchapSecret::parse(&secret.to_text()).expect("its own text");
            assert!(again == secret && !format!("{secret:?}").contains(text.trim()));
            assert!(!secret.key_for(NQN).is_empty());
        }
        Err(why) => assert!(!shows(&why.to_string(), &text), "{why}"),
    }
    match TlsKey::parse(&text) {
        Ok(key) => {
            let again = TlsKey::parse(&key.to_text()).expect("its own text");
            assert!(again == key && again.cipher_hash() == key.cipher_hash());
        }
        Err(why) => assert!(!shows(&why.to_string(), &text), "{why}"),
    }
    SEAL.with(|seal| {
        let seal = seal.get_or_init(SealKey::generate);
        if let Err(why) = seal.unseal(NQN, FIELD, &text) {
            assert!(!shows(&why.to_string(), &text), "{why}");
        } else {
            panic!("something opens that was not sealed");
        }
        // What was sealed here opens; with anything changed it does not.
        if let Ok(sealed) = seal.seal(NQN, FIELD, &text) {
            let opened = seal.unseal(NQN, FIELD, &sealed).expect("it was sealed here");
            assert_eq!(*opened, *text);
            let mut changed = sealed.into_bytes();
            let at = input
                .iter()
                .fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            let at = at % changed.len();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(seal.unseal(NQN, FIELD, &changed).is_err(), "changed at {at}");
        }
    });
}

/// A text as a file of sealing keys.
pub fn file(input: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    }
    FOLDER.with(|folder| {
        let path = folder.path().join("seal");
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        std::io::Write::write_all(&mut file.expect("a file"), input).expect("written");
        match SealKey::load(&path) {
            Ok(key) => {
                let sealed = key.seal(NQN, FIELD, "text").expect("short enough");
                assert_eq!(*key.unseal(NQN, FIELD, &sealed).expect("its own"), "text");
            }
            Err(why) => assert!(
                !shows(
                    &why.to_string().replace(&path.display().to_string(), ""),
                    &String::from_utf8_lossy(input)
                ),
                "{why}"
            ),
        }
    });
}
