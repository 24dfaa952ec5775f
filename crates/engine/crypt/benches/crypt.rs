//! What encryption at rest costs: CPU of one 4 KiB block, by what it is encrypted with, and beside it by what it could have been
//! (`docs/decisions/078-blocks-are-encrypted-by-place-and-version.md`). The blocks of a MiB are gone through in turn, so that they are
//! in the second-level cache, as a host's are that were just received.
//!
//! `cargo bench -p amita-crypt [-- passphrase]`

use aegis::aegis256x2::Aegis256X2;
use aes::Aes256;
use aes::cipher::{Array, KeyInit};
use amita_crypt::{
    Binding, BlockCipher, Cost, DataKey, KeyName, KeyNumber, KeyRing, Keychain, Passphrase, Place, Provider, Run,
};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, Generation, Version, VolumeId};
use aws_lc_rs::aead::{
    AES_256_GCM, AES_256_GCM_SIV, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use std::hint::black_box;
use std::time::Instant;

const UNIT: usize = 4096;
const BLOCKS: usize = 256;
const ROUNDS: usize = 40;
/// The best of so many runs: what disturbs a run only ever makes it worse.
const RUNS: usize = 25;

fn counting(bytes: &mut [u8]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = at as u8;
    }
}

fn version() -> Version {
    Version::new(Generation(3), 7).expect("small numbers")
}

struct Bed {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Bed {
    /// Nanoseconds a block.
    fn measure(&mut self, name: &str, mut one: impl FnMut(usize, &[u8], &mut [u8])) -> f64 {
        let mut best = f64::MAX;
        for _ in 0..RUNS {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                for (at, (from, to)) in self.from.chunks(UNIT).zip(self.to.chunks_mut(UNIT)).enumerate() {
                    one(at, black_box(from), to);
                }
                black_box(&mut self.to);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / (ROUNDS * BLOCKS) as f64);
        }
        println!("{name:<44} {best:8.0} ns");
        best
    }
}

fn nonce(at: usize) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// An AEAD of aws-lc, as a block would use it: the nonce of place and version, the tag apart. It works in place, so the block is copied.
fn aead(bed: &mut Bed, name: &str, algorithm: &'static Algorithm) {
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).expect("32 bytes"));
    bed.measure(&format!("crypt.{name}.seal.4k.cpu_ns"), |at, from, to| {
        to.copy_from_slice(from);
        let tag = key
            .seal_in_place_separate_tag(nonce(at), Aad::empty(), to)
            .expect("short");
        black_box(tag.as_ref());
    });
    let mut sealed: Vec<Vec<u8>> = Vec::new();
    for (at, block) in bed.from.chunks(UNIT).enumerate() {
        let mut block = block.to_vec();
        key.seal_in_place_append_tag(nonce(at), Aad::empty(), &mut block)
            .expect("short");
        sealed.push(block);
    }
    let mut place = vec![0; UNIT + 16];
    bed.measure(&format!("crypt.{name}.open.4k.cpu_ns"), |at, _, _| {
        place.copy_from_slice(&sealed[at]);
        black_box(
            key.open_in_place(nonce(at), Aad::empty(), &mut place)
                .expect("right")
                .len(),
        );
    });
}

fn main() {
    if std::env::args().any(|argument| argument == "passphrase") {
        return passphrase();
    }
    let mut from = vec![0; UNIT * BLOCKS];
    counting(&mut from);
    let mut bed = Bed {
        from,
        to: vec![0; UNIT * BLOCKS],
    };
    println!("AES by instructions: {}", aes::hardware_accelerated());
    bed.measure("crypt.copy.4k.cpu_ns", |_, from, to| to.copy_from_slice(from));
    bed.measure("crypt.crc32c.4k.cpu_ns", |_, from, _| {
        black_box(amita_types::crc32c(from));
    });

    let key = DataKey::generate(&mut counting);
    let cipher = BlockCipher::new(&key);
    let place = |at: usize| Place::new(ChunkIndex(5), BlockIndex(at as u16)).expect("a block of a chunk");
    bed.measure("crypt.xts.encrypt.4k.cpu_ns", |at, from, to| {
        cipher.encrypt(place(at), version(), from, to)
    });
    bed.measure("crypt.xts.decrypt.4k.cpu_ns", |at, from, to| {
        cipher.decrypt(place(at), version(), from, to)
    });

    let name = KeyName {
        volume: VolumeId(1),
        image: VolumeId(1),
        number: KeyNumber(1),
    };
    let keychain = Keychain::new(&KeyRing::new(name), vec![(name, key)]).expect("its key");
    let range = |at: usize| (ChunkIndex(5), BlockRange::new(at as u16, 1));
    bed.measure("crypt.write.4k.cpu_ns", |at, from, to| {
        keychain.seal(range(at), version(), from, to).expect("whole blocks");
    });
    let run = Run {
        blocks: 1,
        version: version(),
    };
    bed.measure("crypt.read.4k.cpu_ns", |at, from, to| {
        keychain.open(range(at), &[run], from, to).expect("whole blocks");
    });

    let theirs = xts_mode::Xts128::new(Aes256::new(&[7_u8; 32].into()), Aes256::new(&[9_u8; 32].into()));
    let tweak = |at: usize| -> aes::Block { Array((at as u128).to_le_bytes()) };
    bed.measure("crypt.xts-mode.encrypt.4k.cpu_ns", |at, from, to| {
        to.copy_from_slice(from);
        theirs.encrypt_sector(to, tweak(at));
    });
    bed.measure("crypt.xts-mode.decrypt.4k.cpu_ns", |at, from, to| {
        to.copy_from_slice(from);
        theirs.decrypt_sector(to, tweak(at));
    });
    aead(&mut bed, "aes-256-gcm", &AES_256_GCM);
    aead(&mut bed, "aes-256-gcm-siv", &AES_256_GCM_SIV);
    aead(&mut bed, "chacha20-poly1305", &CHACHA20_POLY1305);
    bed.measure("crypt.aegis-256x2.seal.4k.cpu_ns", |at, from, to| {
        let mut nonce = [0; 32];
        nonce[..8].copy_from_slice(&(at as u64).to_le_bytes());
        to.copy_from_slice(from);
        black_box(Aegis256X2::<16>::new(&[7; 32], &nonce).encrypt_in_place(to, &[]));
    });
}

/// What it takes to make a key of a passphrase.
fn passphrase() {
    let binding = Binding {
        tenant: None,
        key: KeyName {
            volume: VolumeId(1),
            image: VolumeId(1),
            number: KeyNumber(1),
        },
    };
    let key = DataKey::generate(&mut counting);
    for (name, cost) in [("least", Cost::LEAST), ("recommended", Cost::RECOMMENDED)] {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let mut by = Passphrase::new("correct horse battery staple", cost, &mut counting).expect("a passphrase");
            let start = Instant::now();
            by.wrap(&binding, &key, &mut counting).expect("it wraps");
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        let name = format!("crypt.passphrase.{name}.cpu_ms");
        println!("{name:<44} {best:8.0} ms");
    }
}
