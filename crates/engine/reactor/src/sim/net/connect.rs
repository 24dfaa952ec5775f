//! How connections come about.

use super::*;

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
        });
        let latency = self.latency(engine, process.node, to.unwrap_or(process.node));
        engine.at(engine.now.plus(latency), Event::Connect { attempt });
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
        let listener = self.listening.get(&(to, address.port()));
        let listener = listener.filter(|listener| listener.open && engine.is_alive(listener.process));
        let state = match listener.map(|listener| (listener.process, listener.token)) {
            None => State::Refused,
            Some((process, token)) => {
                let index = self.connections.len();
                let dialer = SocketAddr::new(node_ip(from.node), 32_768 + (index % 28_000) as u16);
                let end = |process| End {
                    process,
                    open: true,
                    broken: None,
                    receive: None,
                    send: None,
                };
                self.connections.push(Connection {
                    ends: [end(from), end(process)],
                    flows: [Flow::default(), Flow::default()],
                });
                engine.complete(
                    process,
                    token,
                    Outcome::Accepted {
                        socket: socket_of(index, 1),
                        peer: dialer,
                    },
                );
                State::Accepted(index as u32)
            }
        };
        self.attempts[attempt as usize].state = state;
        let back = self.latency(engine, to, from.node);
        engine.at(engine.now.plus(back), Event::Connected { attempt });
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
