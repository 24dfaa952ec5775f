//! Volumes with snapshots, clones, reverts, new keys and erasure, played by chance against the rules of the decision: what every view
//! of every image reads is what was written there, and no tweak of a key is ever used for two contents. The store is a map, for what a
//! store does with a block is to keep it; the simulator's clusters play the rest.

use crate::*;
use amita_testkit::Random as Numbers;
use amita_types::{BLOCK_BYTES, BlockIndex, BlockRange, ChunkIndex, Generation, Version, VolumeId};
use std::collections::{BTreeMap, BTreeSet};

const CHUNKS: u64 = 2;
const BLOCKS: u16 = 4;
const UNIT: usize = BLOCK_BYTES as usize;

/// A rule that is left out, so that it shows that the checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// A clone goes on with its parent's key.
    KeysOfClones,
    /// A read takes the newest key, whatever the version says.
    KeysByVersion,
    /// An old key goes as soon as the volume itself has no block of it.
    Snapshots,
    /// A new key begins without a raise.
    Raise,
    /// A clone's own key begins with the generation that its parent's blocks may still have.
    Fork,
}

#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// One key, place and version, two contents.
    TweakTwice,
    /// A view reads something else than was written.
    Noise,
    /// A key that is still needed was destroyed.
    KeyGone,
    /// A write was refused for its era.
    Refused,
}

type Block = (u64, u16);

/// What a view has of a block: the version, the ciphertext (none: a hole), and what was written, as one number.
#[derive(Clone)]
struct Entry {
    version: Version,
    sealed: Option<Vec<u8>>,
    content: u64,
}

type View = BTreeMap<Block, Entry>;

struct Image {
    volume: VolumeId,
    generation: Generation,
    counters: BTreeMap<u64, u64>,
    ring: KeyRing,
    head: View,
    snapshots: Vec<(Generation, View)>,
    rewrite: Option<Rewrite>,
    numbers: u32,
}

struct World {
    random: Numbers,
    without: Without,
    images: BTreeMap<u64, Image>,
    next_image: u64,
    /// Data keys that were not destroyed.
    keys: BTreeSet<KeyName>,
    /// What was encrypted under which key, where, in which version: to be one content for ever.
    sealed: BTreeMap<(KeyName, Block, u64), u64>,
    contents: u64,
}

fn data_key(name: KeyName) -> DataKey {
    let mut numbers = Numbers::new(name.image.0 << 32 | u64::from(name.number.0));
    DataKey::generate(&mut |bytes: &mut [u8]| bytes.fill_with(|| numbers.bits() as u8))
}

fn bytes_of(content: u64) -> Vec<u8> {
    content.to_le_bytes().repeat(UNIT / 8)
}

fn name(volume: VolumeId, image: u64, number: u32) -> KeyName {
    KeyName {
        volume,
        image: VolumeId(image),
        number: KeyNumber(number),
    }
}

impl World {
    fn new(seed: u64, without: Without) -> World {
        let mut world = World {
            random: Numbers::new(seed),
            without,
            images: BTreeMap::new(),
            next_image: 1,
            keys: BTreeSet::new(),
            sealed: BTreeMap::new(),
            contents: 0,
        };
        let key = name(VolumeId(1), 1, 1);
        world.put(VolumeId(1), Generation(0), KeyRing::new(key), View::new());
        world
    }

    fn put(&mut self, volume: VolumeId, generation: Generation, ring: KeyRing, head: View) -> u64 {
        let image = self.next_image;
        self.next_image += 1;
        self.keys.insert(ring.newest().key);
        let counter = |chunk| {
            head.iter()
                .filter(|((of, _), _)| *of == chunk)
                .map(|(_, entry)| entry.version.counter())
                .max()
        };
        let counters = (0..CHUNKS).map(|chunk| (chunk, counter(chunk).unwrap_or(0))).collect();
        let image_is = Image {
            volume,
            generation: generation.next().unwrap(),
            counters,
            ring,
            head,
            snapshots: Vec::new(),
            rewrite: None,
            numbers: 1,
        };
        self.images.insert(image, image_is);
        image
    }

    fn keychain(&self, ring: &KeyRing) -> Result<Keychain, Wrong> {
        let there = ring
            .eras()
            .iter()
            .map(|era| era.key)
            .filter(|key| self.keys.contains(key));
        Keychain::new(ring, there.map(|key| (key, data_key(key))).collect()).map_err(|_| Wrong::KeyGone)
    }

    /// Blocks beside one another are written, or cleared, at once.
    fn write(&mut self, image: u64, chunk: u64, range: BlockRange, contents: &[Option<u64>]) -> Result<(), Wrong> {
        let of = &self.images[&image];
        let keychain = self.keychain(&of.ring)?;
        let version = Version::new(of.generation, of.counters[&chunk] + 1).unwrap();
        let key = of.ring.newest().key;
        let plain: Vec<u8> = contents
            .iter()
            .flat_map(|content| bytes_of(content.unwrap_or(0)))
            .collect();
        let mut sealed = vec![0; plain.len()];
        let at = (ChunkIndex(chunk), range);
        let is_clear = contents.iter().all(Option::is_none);
        if !is_clear {
            keychain
                .seal(at, version, &plain, &mut sealed)
                .map_err(|_| Wrong::Refused)?;
        }
        let of = self.images.get_mut(&image).unwrap();
        *of.counters.get_mut(&chunk).unwrap() += 1;
        for ((block, content), sealed) in range.iter().zip(contents).zip(sealed.chunks(UNIT)) {
            let place = (chunk, block.0);
            let content = content.unwrap_or(0);
            let entry = Entry {
                version,
                sealed: (!is_clear).then(|| sealed.to_vec()),
                content,
            };
            of.head.insert(place, entry);
            if !is_clear && *self.sealed.entry((key, place, version.0)).or_insert(content) != content {
                return Err(Wrong::TweakTwice);
            }
        }
        Ok(())
    }

    /// Everything that a view has, chunk by chunk, as one read.
    fn check(&self, ring: &KeyRing, view: &View) -> Result<(), Wrong> {
        let keychain = match self.without {
            Without::KeysByVersion => self.keychain(&KeyRing::new(ring.newest().key))?,
            _ => self.keychain(ring)?,
        };
        for chunk in 0..CHUNKS {
            let entries: Vec<Option<&Entry>> = (0..BLOCKS).map(|block| view.get(&(chunk, block))).collect();
            let data = |entry: &Option<&Entry>| entry.and_then(|entry| entry.sealed.clone());
            let sealed: Vec<u8> = entries
                .iter()
                .flat_map(|entry| data(entry).unwrap_or(vec![0; UNIT]))
                .collect();
            let version = |entry: &Option<&Entry>| match entry {
                Some(Entry {
                    version,
                    sealed: Some(_),
                    ..
                }) => *version,
                _ => Version::NONE,
            };
            let runs: Vec<Run> = entries
                .iter()
                .map(|entry| Run {
                    blocks: 1,
                    version: version(entry),
                })
                .collect();
            let mut plain = vec![1; sealed.len()];
            let at = (ChunkIndex(chunk), BlockRange::new(0, BLOCKS));
            keychain
                .open(at, &runs, &sealed, &mut plain)
                .expect("what a store says");
            let expected: Vec<u8> = entries
                .iter()
                .flat_map(|entry| bytes_of(entry.map_or(0, |entry| entry.content)))
                .collect();
            if plain != expected {
                return Err(Wrong::Noise);
            }
        }
        Ok(())
    }

    fn raise(&mut self, image: u64) {
        let of = self.images.get_mut(&image).unwrap();
        of.generation = of.generation.next().unwrap();
    }

    fn rekey(&mut self, image: u64) {
        if self.without != Without::Raise {
            self.raise(image);
        }
        let of = self.images.get_mut(&image).unwrap();
        of.numbers += 1;
        let key = name(of.volume, image, of.numbers);
        let ring = of.ring.rekeyed(of.generation, key);
        // Without the raise a second key of one generation is none; and the first may be older than it should be.
        let Ok(ring) = ring else { return };
        of.rewrite = Rewrite::begin(&ring);
        of.ring = ring;
        self.keys.insert(key);
    }

    /// One chunk further: what is stale is compared with itself and written.
    fn rewrite(&mut self, image: u64) -> Result<(), Wrong> {
        let of = &self.images[&image];
        let Some(mut rewrite) = of.rewrite else { return Ok(()) };
        if rewrite.is_done(CHUNKS) {
            return Ok(());
        }
        let chunk = rewrite.next.0;
        let version = |block| {
            of.head
                .get(&(chunk, block))
                .filter(|entry| entry.sealed.is_some())
                .map_or(Version::NONE, |entry| entry.version)
        };
        let runs: Vec<Run> = (0..BLOCKS)
            .map(|block| Run {
                blocks: 1,
                version: version(block),
            })
            .collect();
        for range in rewrite.stale(BlockIndex(0), &runs) {
            let contents: Vec<Option<u64>> = range
                .iter()
                .map(|block| Some(self.images[&image].head[&(chunk, block.0)].content))
                .collect();
            self.write(image, chunk, range, &contents)?;
        }
        assert!(rewrite.done(ChunkIndex(chunk)));
        self.images.get_mut(&image).unwrap().rewrite = Some(rewrite);
        Ok(())
    }

    /// A clone, or with `revert` what takes the volume's place: the same, by another number for hosts.
    fn make_clone(&mut self, image: u64, snapshot: usize, revert: bool) {
        let parent = &self.images[&image];
        let (sealed, view) = parent.snapshots[snapshot].clone();
        let generation = parent.generation;
        let number = self.next_image;
        let volume = if revert { parent.volume } else { VolumeId(number) };
        let key = name(volume, number, 1);
        let ring = match self.without {
            Without::KeysOfClones => parent.ring.clone(),
            Without::Fork if parent.ring.newest().from < sealed => {
                parent.ring.cloned(Generation(sealed.0 - 1), sealed, key).unwrap()
            }
            _ => parent.ring.cloned(sealed, generation.next().unwrap(), key).unwrap(),
        };
        let made = self.put(volume, generation, ring, view);
        assert_eq!(made, number);
    }

    /// Eras of which no view has a block leave the ring, and keys that no ring has are destroyed.
    fn retire(&mut self, image: u64) {
        let of = self.images.get_mut(&image).unwrap();
        let snapshots = of.snapshots.iter().map(|(_, view)| view);
        let views = snapshots
            .filter(|_| self.without != Without::Snapshots)
            .chain([&of.head]);
        let blocks = views
            .flat_map(|view| view.values())
            .filter(|entry| entry.sealed.is_some());
        let oldest = blocks
            .map(|entry| entry.version.generation())
            .min()
            .unwrap_or(of.generation);
        of.ring = of.ring.retired(oldest).0;
        self.destroy();
    }

    fn destroy(&mut self) {
        let rings = self.images.values().flat_map(|image| image.ring.eras());
        self.keys = rings.map(|era| era.key).collect();
    }

    fn step(&mut self) -> Result<(), Wrong> {
        let images: Vec<u64> = self.images.keys().copied().collect();
        let image = *self.random.pick(&images);
        let snapshots = self.images[&image].snapshots.len() as u64;
        match self.random.below(20) {
            0..=8 => {
                let chunk = self.random.below(CHUNKS);
                let first = self.random.below(BLOCKS.into()) as u16;
                let count = self.random.within(1, u64::from(BLOCKS - first)) as u16;
                let clear = self.random.percent(15);
                let contents: Vec<Option<u64>> = (0..count)
                    .map(|_| {
                        self.contents += 1;
                        (!clear).then_some(self.contents)
                    })
                    .collect();
                self.write(image, chunk, BlockRange::new(first, count), &contents)?;
            }
            9 => self.raise(image),
            10 | 11 => {
                let of = self.images.get_mut(&image).unwrap();
                of.snapshots.push((of.generation, of.head.clone()));
            }
            12 | 13 if snapshots > 0 && self.images.len() < 6 => {
                let (snapshot, revert) = (self.random.below(snapshots) as usize, self.random.percent(30));
                self.make_clone(image, snapshot, revert);
            }
            14 => self.rekey(image),
            15 | 16 => self.rewrite(image)?,
            17 => self.retire(image),
            18 if snapshots > 0 => {
                let snapshot = self.random.below(snapshots) as usize;
                self.images.get_mut(&image).unwrap().snapshots.remove(snapshot);
            }
            19 if self.images.len() > 1 => {
                self.images.remove(&image);
                self.destroy();
            }
            _ => {}
        }
        for image in self.images.values() {
            self.check(&image.ring, &image.head)?;
            for (_, view) in &image.snapshots {
                self.check(&image.ring, view)?;
            }
        }
        Ok(())
    }
}

fn play(seed: u64, without: Without) -> Result<World, Wrong> {
    let mut world = World::new(seed, without);
    for _ in 0..60 {
        world.step()?;
    }
    Ok(world)
}

#[test]
fn every_view_reads_what_was_written_and_no_tweak_is_used_twice() {
    let (mut keys, mut sealed, mut longest) = (0, 0, 0);
    for seed in 0..60 {
        let world = play(seed, Without::Nothing).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong:?}"));
        keys += world.keys.len();
        sealed += world.sealed.len();
        longest = world
            .images
            .values()
            .map(|image| image.ring.eras().len())
            .max()
            .unwrap_or(0)
            .max(longest);
    }
    assert!(
        keys > 150 && sealed > 2000 && longest > 3,
        "{keys} keys, {sealed} blocks, {longest} eras: hardly anything was played"
    );
}

/// Which rules the checks see missing, and how.
#[test]
fn a_rule_that_is_left_out_is_found() {
    for (without, finds) in [
        (Without::KeysOfClones, Wrong::TweakTwice),
        (Without::KeysByVersion, Wrong::Noise),
        (Without::Snapshots, Wrong::Noise),
        (Without::Raise, Wrong::Noise),
        (Without::Fork, Wrong::Noise),
    ] {
        let found = (0..200).any(|seed| play(seed, without).err().as_ref() == Some(&finds));
        assert!(found, "{without:?} is to be found as {finds:?}");
    }
}
