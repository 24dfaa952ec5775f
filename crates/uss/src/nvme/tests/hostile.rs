//! Bytes cut anywhere, and sessions that go wrong.
