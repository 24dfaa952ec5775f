//! The mapping beneath a pool and its free lists.

use super::block::{Block, BufMut, Slice};
use super::{BLOCK_ALIGNMENT, MAX_ZEROS_BYTES};
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Block size in bytes (a multiple of [`BLOCK_ALIGNMENT`]) and number of blocks, smallest size first.
    pub classes: Vec<(usize, usize)>,
    /// The same for a zone of its own in the same mapping ([`Pool::hosts`]), whose blocks never serve for the others; empty:
    /// there is none.
    pub hosts: Vec<(usize, usize)>,
    /// Ask for huge pages: fewer misses of the address cache, and memory becomes resident 2 MiB at a time.
    pub huge_pages: bool,
}

impl PoolConfig {
    /// About `bytes` of memory, divided as a storage node uses it: answers and log pages (4 and 16 KiB), payloads of
    /// up to 128 KiB, the receive blocks of connections (256 KiB), and a few runs of 1 MiB for checkpoints.
    #[must_use]
    pub fn with_total(bytes: usize) -> PoolConfig {
        const EIGHTHS: [(usize, usize); 6] = [
            (4 << 10, 1),
            (16 << 10, 1),
            (64 << 10, 1),
            (128 << 10, 1),
            (256 << 10, 3),
            (1 << 20, 1),
        ];
        PoolConfig {
            classes: divided(bytes, &EIGHTHS),
            hosts: Vec::new(),
            huge_pages: false,
        }
    }

    /// About `bytes` of memory for a node that hosts connect to: a quarter of them is for what is received from hosts and
    /// said to them, and only for that, so that hosts that hold all they can hold up nobody but hosts.
    #[must_use]
    pub fn with_hosts(bytes: usize) -> PoolConfig {
        const EIGHTHS: [(usize, usize); 5] = [(4 << 10, 2), (16 << 10, 1), (64 << 10, 1), (256 << 10, 3), (1 << 20, 1)];
        let hosts = bytes / 4;
        PoolConfig {
            hosts: divided(hosts, &EIGHTHS),
            ..PoolConfig::with_total(bytes - hosts)
        }
    }
}

/// What hosts take of up to so many bytes ...
const SMALL_BYTES: usize = 16 << 10;
/// ... is not found in blocks from this size on: those who hold much of little would keep large pieces from all others.
const LARGE_BYTES: usize = 256 << 10;

/// Classes of these sizes, each with so many eighths of the memory.
fn divided(bytes: usize, eighths: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let class = |&(size, share): &(usize, usize)| (size, (bytes / 8 * share / size).max(1));
    eighths.iter().map(class).collect()
}

impl Default for PoolConfig {
    /// 128 MiB of address space; what is not used is never resident.
    fn default() -> PoolConfig {
        PoolConfig::with_total(128 << 20)
    }
}

/// One free list, alone in its cache line.
#[repr(align(64))]
struct Class {
    bytes: usize,
    /// Low half: position + 1 of the first free block, 0 if there is none. High half: counts the changes, so that a
    /// list that was changed and changed back is not mistaken for the one that was read.
    head: AtomicU64,
}

/// A mapping cut into blocks.
pub(super) struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    blocks: Box<[Block]>,
    /// Those of both zones, one zone after the other.
    classes: Box<[Class]>,
    /// How many of them are the first zone's.
    first_zone: usize,
}

impl Arena {
    fn map(config: &PoolConfig) -> io::Result<NonNull<Arena>> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let mut total = 0usize;
        let mut count = 0usize;
        let first_zone = config.classes.len();
        let all = || config.classes.iter().chain(&config.hosts);
        let mut before = 0;
        for (at, &(bytes, blocks)) in all().enumerate() {
            if bytes == 0 || bytes % BLOCK_ALIGNMENT != 0 {
                return invalid(format!(
                    "pool: a block of {bytes} bytes is no multiple of {BLOCK_ALIGNMENT}"
                ));
            }
            if at != first_zone && before >= bytes {
                return invalid("pool: block sizes must rise from class to class".into());
            }
            before = bytes;
            let sum = bytes.checked_mul(blocks).and_then(|bytes| bytes.checked_add(total));
            let Some(sum) = sum else {
                return invalid("pool: larger than the address space".into());
            };
            total = sum;
            count += blocks;
        }
        if total == 0 || count >= u32::MAX as usize {
            return invalid(format!("pool: {count} blocks; there must be some, and fewer than 2^32"));
        }
        // Miri knows mappings, and no advice about them.
        let no_reserve = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | no_reserve;
        // SAFETY: a fresh private mapping, no address asked for.
        let base = unsafe { libc::mmap(ptr::null_mut(), total, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if config.huge_pages && !cfg!(miri) {
            // SAFETY: the mapping that was just made. A refusal costs speed only.
            unsafe { libc::madvise(base, total, libc::MADV_HUGEPAGE) };
        }
        if !cfg!(miri) {
            // SAFETY: the mapping that was just made. Hosts' data has no place in a core dump; a refusal costs that only.
            unsafe { libc::madvise(base, total, libc::MADV_DONTDUMP) };
        }
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is never at address 0");
        let mut blocks = Vec::with_capacity(count);
        let mut classes = Vec::with_capacity(first_zone + config.hosts.len());
        let mut offset = 0;
        for (class, &(bytes, number)) in all().enumerate() {
            let first = blocks.len();
            for position in 0..number {
                let next = if position + 1 < number {
                    (first + position + 2) as u32
                } else {
                    0
                };
                blocks.push(Block {
                    refs: AtomicU32::new(0),
                    next: AtomicU32::new(next),
                    class: class as u32,
                    // SAFETY: the sum of all blocks is the mapping's length.
                    start: unsafe { base.add(offset) },
                    bytes,
                    arena: ptr::null(),
                });
                offset += bytes;
            }
            let head = if number > 0 { first as u64 + 1 } else { 0 };
            classes.push(Class {
                bytes,
                head: AtomicU64::new(head),
            });
        }
        assert_eq!(offset, total, "the blocks cover the mapping");
        let arena = Box::new(Arena {
            base,
            bytes: total,
            blocks: blocks.into_boxed_slice(),
            classes: classes.into_boxed_slice(),
            first_zone,
        });
        let arena = Box::into_raw(arena);
        // SAFETY: the arena is still ours alone; from here on its blocks point to it.
        unsafe {
            let blocks = &mut (*arena).blocks;
            for block in blocks.iter_mut() {
                block.arena = arena;
            }
            Ok(NonNull::new_unchecked(arena))
        }
    }

    fn take(&self, zone: Zone, bytes: usize) -> Option<BufMut> {
        let (others, hosts) = self.classes.split_at(self.first_zone);
        let (classes, most) = match zone {
            Zone::Hosts if !hosts.is_empty() && bytes <= SMALL_BYTES => (hosts, LARGE_BYTES - 1),
            Zone::Hosts if !hosts.is_empty() => (hosts, usize::MAX),
            _ => (others, usize::MAX),
        };
        let fits = classes.iter().filter(|class| (bytes..=most).contains(&class.bytes));
        let block = fits.filter_map(|class| self.pop(class)).next()?;
        let before = block.refs.swap(1, Ordering::Relaxed);
        assert_eq!(before, 0, "a block in the free list has views");
        Some(BufMut::of_block(NonNull::from(block), bytes))
    }

    fn pop(&self, class: &Class) -> Option<&Block> {
        let mut head = class.head.load(Ordering::Acquire);
        loop {
            let position = (head as u32).checked_sub(1)?;
            let block = &self.blocks[position as usize];
            // Another thread may have taken this block meanwhile; then the head has changed and `next` is not used.
            let next = block.next.load(Ordering::Relaxed);
            let changed = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
            match class
                .head
                .compare_exchange_weak(head, changed, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(block),
                Err(current) => head = current,
            }
        }
    }

    /// Puts a block without views into its free list. Touches nothing of the arena after the list has it: when the
    /// last block is back, the arena may be unmapped by another thread.
    pub fn give_back(&self, block: &Block) {
        let position = (ptr::from_ref(block).addr() - self.blocks.as_ptr().addr()) / size_of::<Block>();
        let class = &self.classes[block.class as usize];
        let mut head = class.head.load(Ordering::Relaxed);
        loop {
            block.next.store(head as u32, Ordering::Relaxed);
            let changed = (head >> 32).wrapping_add(1) << 32 | (position as u64 + 1);
            match class
                .head
                .compare_exchange_weak(head, changed, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// Blocks in the free lists, each list cut off as it is counted.
    fn claim_free(&self) -> usize {
        let mut count = 0;
        for class in &self.classes {
            let mut next = class.head.swap(0, Ordering::Acquire) as u32;
            while let Some(position) = next.checked_sub(1) {
                count += 1;
                next = self.blocks[position as usize].next.load(Ordering::Relaxed);
            }
        }
        count
    }
}

/// The owner of an arena.
struct Owner(NonNull<Arena>);

// SAFETY: an arena is shared between threads by design; its free lists are atomic.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    /// Unmaps, unless blocks are still in use: then the arena stays until the process ends. That keeps a count of
    /// users off the path of an I/O, and a process makes one pool per core, once.
    fn drop(&mut self) {
        // SAFETY: the arena lives until here.
        let arena = unsafe { self.0.as_ref() };
        if arena.claim_free() == arena.blocks.len() {
            // SAFETY: every block is back and no pool is left to take one, so nobody can reach the arena any more.
            unsafe {
                libc::munmap(arena.base.as_ptr().cast(), arena.bytes);
                drop(Box::from_raw(self.0.as_ptr()));
            }
        }
    }
}

/// Where payload memory comes from. Cheap to clone; any thread may take and give back.
#[derive(Clone)]
pub struct Pool(Option<Arc<Owner>>, Zone);

/// Which blocks of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zone {
    All,
    Hosts,
}

impl Pool {
    /// Maps the memory. What is never taken is never resident.
    pub fn new(config: PoolConfig) -> io::Result<Pool> {
        Ok(Pool(Some(Arc::new(Owner(Arena::map(&config)?))), Zone::All))
    }

    /// A pool without bound on the allocator's heap, zeroed: for tests and the simulation.
    #[must_use]
    pub fn heap() -> Pool {
        Pool(None, Zone::All)
    }

    /// The blocks that are for hosts alone ([`PoolConfig::hosts`]); where there are none, all.
    #[must_use]
    pub fn hosts(&self) -> Pool {
        Pool(self.0.clone(), Zone::Hosts)
    }

    /// A buffer of exactly `bytes`, at a multiple of [`BLOCK_ALIGNMENT`]; None when nothing that large is free. The
    /// contents are whatever was there before.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<BufMut> {
        if bytes == 0 {
            return Some(BufMut::empty());
        }
        match &self.0 {
            // SAFETY: the owner keeps the arena alive.
            Some(owner) => unsafe { owner.0.as_ref() }.take(self.1, bytes),
            None => {
                let size = bytes.next_multiple_of(BLOCK_ALIGNMENT);
                Some(BufMut::of_block(Block::on_heap(size, BLOCK_ALIGNMENT), bytes))
            }
        }
    }

    /// Shared zeros, at most [`MAX_ZEROS_BYTES`]; they take nothing from the pool.
    #[must_use]
    pub fn zeros(&self, bytes: usize) -> Slice {
        assert!(
            bytes <= MAX_ZEROS_BYTES,
            "{bytes} zeros asked for, {MAX_ZEROS_BYTES} are there"
        );
        Slice::from_static(&ZEROS.0[..bytes])
    }

    /// Address and length of the mapping, for its registration with the kernel.
    pub(crate) fn mapping(&self) -> Option<(usize, usize)> {
        // SAFETY: the owner keeps the arena alive.
        self.0
            .as_ref()
            .map(|owner| unsafe { owner.0.as_ref() })
            .map(|arena| (arena.base.addr().get(), arena.bytes))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mapping() {
            Some((_, bytes)) => write!(f, "Pool({bytes} bytes)"),
            None => write!(f, "Pool(heap)"),
        }
    }
}

#[repr(align(4096))]
struct Zeros([u8; MAX_ZEROS_BYTES]);

static ZEROS: Zeros = Zeros([0; MAX_ZEROS_BYTES]);
