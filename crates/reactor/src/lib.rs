//! Cores, drivers, timers, buffers and mailboxes.
