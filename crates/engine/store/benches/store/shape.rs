//! What is asked: how large, how many at once, where.

use amita_types::layout::mix;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Else it reads.
    pub write: bool,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests under way at once.
    pub depth: usize,
    /// One after the other; else at random.
    pub sequential: bool,
}

impl Shape {
    /// Random writes.
    pub const fn write(block_bytes: u32, depth: usize) -> Shape {
        Shape {
            write: true,
            block_bytes,
            depth,
            sequential: false,
        }
    }

    /// Random reads.
    pub const fn read(block_bytes: u32, depth: usize) -> Shape {
        Shape {
            write: false,
            ..Shape::write(block_bytes, depth)
        }
    }

    /// The same, one after the other.
    pub const fn in_order(self) -> Shape {
        Shape {
            sequential: true,
            ..self
        }
    }

    /// `read` or `write`.
    pub const fn verb(self) -> &'static str {
        if self.write { "write" } else { "read" }
    }

    /// The part of a figure's name: `write.4k.qd32`, `read.128k.sequential.qd8`.
    pub fn name(self) -> String {
        let order = if self.sequential { ".sequential" } else { "" };
        let (verb, kib) = (self.verb(), self.block_bytes / 1024);
        format!("{verb}.{kib}k{order}.qd{}", self.depth)
    }

    /// For people.
    pub fn label(self) -> String {
        let order = if self.sequential { "sequential" } else { "random" };
        let (verb, kib) = (self.verb(), self.block_bytes / 1024);
        format!("{kib} KiB {order} {verb}, depth {}", self.depth)
    }
}

/// Where the next request goes.
#[derive(Debug, Default)]
pub struct Places {
    seed: u64,
    next: u64,
}

impl Places {
    /// Other places for another seed.
    pub fn new(seed: u64) -> Places {
        Places {
            seed: mix(seed),
            next: 0,
        }
    }

    /// The next place of a span: a multiple of the shape's block, in bytes.
    pub fn next(&mut self, span_bytes: u64, shape: Shape) -> u64 {
        let blocks = span_bytes / u64::from(shape.block_bytes);
        self.next += 1;
        let block = if shape.sequential {
            self.next
        } else {
            mix(self.seed.wrapping_add(self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        };
        block % blocks * u64::from(shape.block_bytes)
    }
}
