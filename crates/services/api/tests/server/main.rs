//! The API as clients meet it: its own server on a socket, and a real metadata server behind it.

mod browsers;
mod histories;
mod priorities;
mod repeats;
mod shares;
mod tokens;
mod watches;
mod world;
