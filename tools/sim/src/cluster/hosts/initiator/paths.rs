//! The paths of an initiator: discovered, logged in to, lost and logged in to again, and asked how it stands with them.

use super::super::linux::{End, HostEffect};
use super::wire::{Command, Identity, Wire};
use super::{Bio, Conn, IQN, Initiator, SECRETS, SETUP, What, name};
use amita_reactor::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// A session that was heard so shortly ago is there, whoever doubts it.
const FRESH: Duration = Duration::from_millis(500);

/// Bytes of REPORT TARGET PORT GROUPS: a few groups of one port each.
const GROUPS_BYTES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// To be logged in then.
    Away(Time),
    /// Being logged in, until then at the latest.
    Login(Time),
    Live,
}

/// A session in whose place another one logs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old {
    pub(super) conn: u64,
    pub(super) since: Time,
    /// Its connection has broken, which the target may have noticed before the login: then it has waited for nothing.
    pub(super) is_broken: bool,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) address: SocketAddr,
    /// The portal group's tag, and the target port group's.
    pub(super) tag: u16,
    pub(super) state: State,
    pub(super) conn: u64,
    /// The session that is being reinstated.
    pub(super) old: Option<Old>,
    /// Since when its session is lost, while commands wait for it.
    pub(super) lost_at: Option<Time>,
    pub(super) held: Vec<Bio>,
    /// dm-multipath uses it.
    pub(super) usable: bool,
    pub(super) access: u8,
    pub(super) nop_at: Time,
    pub(super) nop_by: Option<Time>,
    pub(super) check_at: Time,
    pub(super) reinstate_at: Option<Time>,
}

/// How it stands with a path, as its host knows.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The target port group's tag.
    pub tag: u16,
    /// Logged in, and ready.
    pub works: bool,
    /// The state of its access (SPC-4): 0 is optimized, 1 is not.
    pub access: u8,
}

impl Initiator {
    /// Its paths; none where it has not found out which there are.
    pub fn paths(&self) -> impl Iterator<Item = Standing> {
        self.paths.iter().map(|path| Standing {
            tag: path.tag,
            works: path.state == State::Live && path.usable,
            access: path.access,
        })
    }

    pub(super) fn tick_path(&mut self, now: Time, index: usize) {
        let (polling, nop) = (self.settings.polling, self.settings.nop);
        let path = &mut self.paths[index];
        match path.state {
            State::Away(until) if now >= until => self.login(now, index),
            State::Login(until) if now >= until => self.lose(now, index),
            State::Live if path.nop_by.is_some_and(|by| now >= by) => {
                self.taken.push("iscsi.nop_unanswered");
                self.lose(now, index);
            }
            State::Live => {
                let conn = path.conn;
                if path.nop_by.is_none() && now >= path.nop_at {
                    path.nop_by = Some(now.plus(nop));
                    if let Some(conn) = self.conns.get_mut(&conn) {
                        conn.wire.ping();
                    }
                }
                let path = &mut self.paths[index];
                if now >= path.check_at {
                    path.check_at = now.plus(polling);
                    self.check(index);
                }
                self.reinstate(now, index);
            }
            _ => {}
        }
        let path = &mut self.paths[index];
        if path.lost_at.is_some_and(|at| now >= at.plus(self.settings.replacement))
            && (path.usable || !path.held.is_empty())
        {
            path.usable = false;
            self.taken.push("iscsi.replaced");
            let held = std::mem::take(&mut path.held);
            self.waiting.extend(held);
            self.send_waiting(now);
        }
    }

    /// The host logs in anew, though nothing is wrong with the session: it is told to end, and the new one takes its place.
    fn reinstate(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        let (Some(at), Some(pause)) = (path.reinstate_at, self.settings.reinstates) else {
            return;
        };
        let heard_at = self.conns.get(&path.conn).map(|conn| conn.heard_at);
        if now < at {
            return;
        }
        path.reinstate_at = Some(now.plus(pause));
        if path.old.is_some() || heard_at.is_none_or(|at| now >= at.plus(FRESH)) {
            return;
        }
        path.old = Some(Old {
            conn: path.conn,
            since: now,
            is_broken: false,
        });
        self.taken.push("iscsi.reinstates");
        self.login(now, index);
    }

    fn login(&mut self, now: Time, index: usize) {
        let path = &mut self.paths[index];
        path.state = State::Login(now.plus(SETUP));
        path.nop_by = None;
        let address = path.address;
        let conn = self.connect(now, Some(index), address);
        self.paths[index].conn = conn;
    }

    pub(super) fn connect(&mut self, now: Time, path: Option<usize>, address: SocketAddr) -> u64 {
        self.next += 1;
        let conn = self.next;
        let settings = &self.settings;
        let (own, targets) = SECRETS;
        let wire = Wire::new(Identity {
            initiator: name(settings.number),
            target: path.map(|_| IQN.to_owned()),
            secrets: settings.proves.then(|| (own.to_owned(), targets.to_owned())),
            isid: path.map_or(0, |path| path as u8 + 1),
            digests: settings.digests,
            initial_r2t: settings.initial_r2t,
            first_burst: [4096, 8192, 65536][settings.number as usize % 3],
        });
        let heard_at = now;
        self.conns.insert(conn, Conn { path, wire, heard_at });
        self.acts.push_back(HostEffect::Dial { conn, address });
        conn
    }

    pub(super) fn hang_up(&mut self, conn: u64) {
        if self.conns.remove(&conn).is_some() {
            self.acts.push_back(HostEffect::Close { conn });
        }
    }

    /// A connection has ended, or broken (`is_broken`), or could not be made.
    pub fn closed(&mut self, now: Time, conn: u64, is_broken: bool) {
        let Some(known) = self.conns.get(&conn) else { return };
        let Some(index) = known.path else {
            self.hang_up(conn);
            self.discovery = self.discovery.map(|_| (0, now.plus(self.settings.reconnect)));
            return;
        };
        match &mut self.paths[index].old {
            // The target has ended the old session: the new one is let in now.
            Some(old) if old.conn == conn => {
                old.is_broken |= is_broken;
                self.hang_up(conn);
            }
            _ => self.lose(now, index),
        }
    }

    /// A session is lost. What was with it waits for it to be there again.
    pub(super) fn lose(&mut self, now: Time, index: usize) {
        let again = now.plus(self.settings.reconnect);
        let path = &mut self.paths[index];
        path.state = State::Away(again);
        path.nop_by = None;
        path.lost_at.get_or_insert(now);
        let (conn, old) = (path.conn, path.old.take());
        self.tell(|| format!("path {index} is lost, of {old:?}"));
        // Nobody but this host is the cause, where it has logged in for no reason.
        let end = if old.is_some() { End::Over } else { End::Unknown };
        self.hang_up(conn);
        if let Some(old) = old {
            self.hang_up(old.conn);
        }
        for mut bio in self.take_sent(index) {
            let id = bio.id;
            bio.without_copy();
            if bio.repeatable {
                bio.tries = 0;
                self.acts.push_back(HostEffect::Again { id, lost: true });
                self.paths[index].held.push(bio);
            } else {
                self.end(id, index, end, Vec::new());
            }
        }
        self.registrations.lost(now, index);
    }

    pub(super) fn found(&mut self, conn: u64, portals: &[(String, u16)]) {
        if portals.is_empty() {
            // The gateway knows of no target yet.
            return;
        }
        self.hang_up(conn);
        self.discovery = None;
        self.taken.push("iscsi.discovered");
        let reinstates = self.settings.reinstates;
        let number = u64::from(self.settings.number);
        for (place, (address, tag)) in portals.iter().enumerate() {
            let Ok(address) = address.parse() else {
                self.violation.get_or_insert(format!("a portal at {address}"));
                continue;
            };
            let spread = Time((number * 7 + place as u64 * 13) * 10_000_000);
            self.paths.push(Path {
                address,
                tag: *tag,
                state: State::Away(Time::default()),
                conn: 0,
                old: None,
                lost_at: None,
                held: Vec::new(),
                usable: false,
                access: 0,
                nop_at: Time::default(),
                nop_by: None,
                check_at: Time::default(),
                reinstate_at: reinstates.map(|pause| spread.plus(pause)),
            });
        }
    }

    /// A login is over: the session is there, and the one before it is not any more.
    pub(super) fn entered(&mut self, now: Time, index: usize, conn: u64) {
        let nop = self.settings.nop;
        if self.settings.proves {
            self.taken.push("iscsi.proven");
        }
        self.tell(|| format!("path {index} is there, by connection {conn}"));
        let path = &mut self.paths[index];
        path.state = State::Live;
        (path.nop_by, path.nop_at, path.check_at) = (None, now.plus(nop), now);
        path.lost_at = None;
        debug_assert_eq!(path.conn, conn, "of the newest connection");
        let held = std::mem::take(&mut path.held);
        if let Some(old) = path.old.take() {
            let of_old = self.take_sent(index);
            // Who has not said for so long that it is over may have found the old session gone for another reason.
            if !old.is_broken && now < old.since.plus(FRESH * 2) {
                self.taken.push("iscsi.reinstated");
                self.over(index, of_old);
            } else {
                for mut bio in of_old {
                    let id = bio.id;
                    bio.without_copy();
                    match bio.repeatable {
                        true => {
                            self.acts.push_back(HostEffect::Again { id, lost: true });
                            self.waiting.push_front(bio);
                        }
                        false => self.end(id, index, End::Over, Vec::new()),
                    }
                }
            }
            self.hang_up(old.conn);
        }
        self.registrations.lost(now, index);
        for bio in held {
            self.send(now, index, bio);
        }
        self.tick_path(now, index);
        self.keep_registered(now);
    }

    /// Asks how it stands with a path.
    pub(super) fn check(&mut self, index: usize) {
        let lun = self.settings.lun;
        let mut groups = [0; 16];
        (groups[0], groups[1], groups[8]) = (0xa3, 0x0a, 1);
        let command = |cdb, read| Command {
            lun,
            cdb,
            write: Vec::new(),
            read,
        };
        let conn = self.paths[index].conn;
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.wire.submit(What::Groups, command(groups, GROUPS_BYTES));
            conn.wire.submit(What::Ready, command([0; 16], 0));
        }
    }
}
