//! How connections come about.

use super::listener::Reception;
use super::path::waited;
use super::*;

/// A connect that is not answered is repeated after this, and then once more after twice as long.
const REPEAT: Duration = Duration::from_secs(1);
const REPEATS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// On its way, or waiting for a link.
    Asking,
    /// Met nobody; the answer is on its way back.
    Refused,
    /// Accepted as this connection; the answer is on its way back.
    Accepted(u32),
    Over,
}

/// One connect.
pub(super) struct Attempt {
    process: Process,
    token: Token,
    address: SocketAddr,
    to: Option<u32>,
    state: State,
    held: bool,
    /// How often it was repeated.
    repeats: u32,
}

impl Net {
    pub fn connect(&mut self, engine: &mut Engine, process: Process, address: SocketAddr, token: Token) {
        let attempt = self.attempts.len() as u32;
        let to = node_at(process.node, address.ip());
        self.attempts.push(Attempt {
            process,
            token,
            address,
            to,
            state: State::Asking,
            held: false,
            repeats: 0,
        });
        let there = to.unwrap_or(process.node);
        let latency = self.latency(engine, process.node, there);
        let lost = waited(REPEAT, self.lose(engine, process.node, there, REPEATS));
        engine.at(engine.now.plus(latency + lost), Event::Connect { attempt });
        engine.at(
            engine.now.plus(self.config.connect_timeout),
            Event::ConnectTimeout { attempt },
        );
    }

    /// A connect reaches its host, if anything passes.
    pub fn connect_arrives(&mut self, engine: &mut Engine, attempt: u32) {
        let asked = &self.attempts[attempt as usize];
        if asked.state != State::Asking {
            return;
        }
        let (from, address) = (asked.process, asked.address);
        let Some(to) = asked.to else { return }; // no such host: nobody answers
        if self.is_cut(engine, from.node, to) || self.is_cut(engine, to, from.node) {
            engine.coverage.count(Fault::NetConnectHeld);
            self.attempts[attempt as usize].held = true;
            return;
        }
        let listener = self.listening.get_mut(&(to, address.port()));
        let listener = listener.filter(|listener| listener.open && engine.is_alive(listener.process));
        let state = match listener {
            None => State::Refused,
            Some(listener) => {
                let (process, token) = (listener.process, listener.token);
                match listener.receive(engine.local_time(process), node_ip(from.node)) {
                    Reception::Dropped => return self.repeat_connect(engine, attempt),
                    Reception::Taken => State::Accepted(self.accept(engine, from, process, Some(token))),
                    Reception::Refused => {
                        let connection = self.accept(engine, from, process, None);
                        self.close_end(engine, connection as usize, 1);
                        State::Accepted(connection)
                    }
                }
            }
        };
        self.attempts[attempt as usize].state = state;
        let back = self.latency(engine, to, from.node);
        let lost = waited(REPEAT, self.lose(engine, to, from.node, 1));
        engine.at(engine.now.plus(back + lost), Event::Connected { attempt });
    }

    /// Makes a connection; the acceptor is told, if by this.
    fn accept(&mut self, engine: &mut Engine, from: Process, to: Process, token: Option<Token>) -> u32 {
        let index = self.connections.len();
        let dialer = SocketAddr::new(node_ip(from.node), 32_768 + (index % 28_000) as u16);
        let end = |process| End {
            process,
            open: true,
            broken: None,
            receive: None,
            send: None,
            watch: None,
            path: Path::default(),
        };
        self.connections.push(Connection {
            ends: [end(from), end(to)],
            flows: [Flow::default(), Flow::default()],
        });
        if let Some(token) = token {
            engine.complete(
                to,
                token,
                Outcome::Accepted {
                    socket: socket_of(index, 1),
                    peer: dialer,
                },
            );
        }
        index as u32
    }

    /// Nobody answers a connect.
    fn repeat_connect(&mut self, engine: &mut Engine, attempt: u32) {
        let asked = &mut self.attempts[attempt as usize];
        if asked.repeats < REPEATS {
            let pause = REPEAT * (1 << asked.repeats);
            asked.repeats += 1;
            engine.at(engine.now.plus(pause), Event::Connect { attempt });
        }
    }

    /// The answer to a connect is back.
    pub fn connect_ends(&mut self, engine: &mut Engine, attempt: u32) {
        let asked = &mut self.attempts[attempt as usize];
        let (process, token) = (asked.process, asked.token);
        let result = match std::mem::replace(&mut asked.state, State::Over) {
            State::Accepted(connection) => Ok(socket_of(connection as usize, 0)),
            State::Refused => {
                engine.coverage.count(Fault::NetRefused);
                Err(io::Error::from(io::ErrorKind::ConnectionRefused))
            }
            State::Asking | State::Over => return,
        };
        engine.complete(process, token, Outcome::Connected { result });
    }

    pub fn connect_times_out(&mut self, engine: &mut Engine, attempt: u32) {
        let asked = &mut self.attempts[attempt as usize];
        if asked.state == State::Asking {
            asked.state = State::Over;
            engine.coverage.count(Fault::NetConnectTimeout);
            let result = Err(io::Error::from(io::ErrorKind::TimedOut));
            engine.complete(asked.process, asked.token, Outcome::Connected { result });
        }
    }

    pub(super) fn retry_connects(&mut self, engine: &mut Engine, from: u32, to: u32) {
        for attempt in 0..self.attempts.len() {
            let asked = &mut self.attempts[attempt];
            let ends = (asked.process.node, asked.to.unwrap_or(asked.process.node));
            if asked.held && asked.state == State::Asking && (ends == (from, to) || ends == (to, from)) {
                asked.held = false;
                let latency = self.latency(engine, ends.0, ends.1);
                engine.at(
                    engine.now.plus(latency),
                    Event::Connect {
                        attempt: attempt as u32,
                    },
                );
            }
        }
    }

    pub(super) fn forget_connects(&mut self, process: Process) {
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.process == process) {
            attempt.state = State::Over;
        }
    }
}
