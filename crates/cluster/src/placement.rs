//! Which stores hold a group: weighted rendezvous over failure domains.
