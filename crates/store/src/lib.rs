//! One disk: format, log, index, allocator; a pure state machine.
