//! How bytes move along a connection.

use super::*;

/// A piece that arrives by itself has at most this many bytes, in half of the cuts: small enough to split headers.
const SMALL_PIECE_BYTES: u64 = 128;

/// How often the other end is asked within the patience that there is with it.
const QUESTIONS: u32 = 4;

impl Net {
    pub fn send(&mut self, engine: &mut Engine, process: Process, socket: SocketId, data: Segments, token: Token) {
        let Some((index, end)) = self.end_of(process, socket) else {
            let result = Err(io::Error::from(io::ErrorKind::NotConnected));
            return engine.complete(process, token, Outcome::Sent { data, result });
        };
        let this = &mut self.connections[index].ends[end];
        if let Some(kind) = this.broken {
            return engine.complete(
                process,
                token,
                Outcome::Sent {
                    data,
                    result: Err(kind.into()),
                },
            );
        }
        assert!(this.send.is_none(), "one send per socket at a time");
        this.send = Some(Send {
            data,
            token,
            segment: 0,
            offset: 0,
        });
        self.pump(engine, index, end);
    }

    pub fn receive(&mut self, engine: &mut Engine, process: Process, socket: SocketId, buffer: BufMut, token: Token) {
        let Some((index, end)) = self.end_of(process, socket) else {
            let result = Err(io::Error::from(io::ErrorKind::NotConnected));
            return engine.complete(process, token, Outcome::Received { buffer, result });
        };
        let this = &mut self.connections[index].ends[end];
        assert!(this.receive.is_none(), "one receive per socket at a time");
        this.receive = Some((buffer, token));
        self.try_receive(engine, index, end);
    }

    pub fn close(&mut self, engine: &mut Engine, process: Process, socket: SocketId) {
        if let Some((index, end)) = self.end_of(process, socket) {
            self.close_end(engine, index, end);
        }
    }

    /// As [`Net::close`], but this kernel repeats nothing any more: what a cut link holds never arrives.
    pub fn abort(&mut self, engine: &mut Engine, process: Process, socket: SocketId) {
        let Some((index, end)) = self.end_of(process, socket) else {
            return;
        };
        let [from, to] = [end, 1 - end].map(|end| self.connections[index].ends[end].process.node);
        if self.is_cut(engine, from, to) {
            self.connections[index].flows[end].transit.clear();
        }
        self.close_end(engine, index, end);
        // What the end was for, where bytes were left unread, is said already; twice does no harm.
        self.put(engine, index, end, Piece::Reset, true);
    }

    /// Closes from this end: its operations are aborted, its peer hears of it in order.
    pub(super) fn close_end(&mut self, engine: &mut Engine, index: usize, end: usize) {
        self.fail(engine, index, end, io::ErrorKind::ConnectionAborted);
        let connection = &mut self.connections[index];
        let was_broken = connection.ends[end]
            .broken
            .is_some_and(|kind| kind != io::ErrorKind::ConnectionAborted);
        connection.ends[end].open = false;
        let unread = std::mem::take(&mut connection.flows[1 - end].arrived);
        connection.flows[1 - end].arrived_bytes = 0;
        if was_broken {
            return; // this kernel has forgotten the connection already
        }
        if unread.is_empty() {
            self.put(engine, index, end, Piece::End, true);
        } else {
            engine.coverage.count(Fault::NetUnreadClosed);
            self.put(engine, index, end, Piece::Reset, true);
        }
    }

    /// Ends what is under way at this end; nothing starts there any more.
    fn fail(&mut self, engine: &mut Engine, index: usize, end: usize, kind: io::ErrorKind) {
        let this = &mut self.connections[index].ends[end];
        if this.broken.is_none() {
            this.broken = Some(kind);
        }
        let process = this.process;
        if let Some(Send { data, token, .. }) = this.send.take() {
            engine.complete(
                process,
                token,
                Outcome::Sent {
                    data,
                    result: Err(kind.into()),
                },
            );
        }
        if kind == io::ErrorKind::ConnectionAborted {
            if let Some((buffer, token)) = this.receive.take() {
                engine.complete(
                    process,
                    token,
                    Outcome::Received {
                        buffer,
                        result: Err(kind.into()),
                    },
                );
            }
        } else {
            self.try_receive(engine, index, end);
        }
    }

    /// Moves bytes of the send at this end into the flow, as far as the window goes.
    fn pump(&mut self, engine: &mut Engine, index: usize, end: usize) {
        let mut apart = true;
        loop {
            let window = self.config.window_bytes;
            let small_pieces = self.config.small_pieces;
            let connection = &mut self.connections[index];
            let flow = &mut connection.flows[end];
            let process = connection.ends[end].process;
            let Some(send) = &mut connection.ends[end].send else {
                return;
            };
            let Some(segment) = send.data.get(send.segment) else {
                let Some(Send { mut data, token, .. }) = connection.ends[end].send.take() else {
                    return;
                };
                data.clear();
                return engine.complete(process, token, Outcome::Sent { data, result: Ok(()) });
            };
            let room = window - flow.window_used.min(window);
            if room == 0 {
                engine.coverage.count(Fault::NetWindowFull);
                return;
            }
            let mut length = (segment.len() - send.offset).min(room);
            let cut = length > 1 && engine.random.permille(small_pieces);
            if cut {
                let most = if engine.random.below(2) == 0 {
                    SMALL_PIECE_BYTES
                } else {
                    length as u64
                };
                length = 1 + engine.random.below(most.min(length as u64)) as usize;
                engine.coverage.count(Fault::NetSmallPiece);
            }
            let piece = segment.slice(send.offset..send.offset + length);
            send.offset += length;
            if send.offset == segment.len() {
                send.segment += 1;
                send.offset = 0;
            }
            flow.window_used += length;
            self.put(engine, index, end, Piece::Data(piece), apart);
            apart = cut;
        }
    }

    /// Puts a piece on the way; `apart` from the one before, or in its company.
    fn put(&mut self, engine: &mut Engine, index: usize, end: usize, piece: Piece, apart: bool) {
        let [from, to] = [end, 1 - end].map(|end| self.connections[index].ends[end].process.node);
        let bandwidth = self.config.bandwidth;
        let takes = match &piece {
            Piece::Data(data) if bandwidth > 0 => Duration::from_secs_f64(data.len() as f64 / bandwidth as f64),
            _ => Duration::ZERO,
        };
        let latency = apart.then(|| self.latency(engine, from, to));
        let lost = match &piece {
            Piece::Data(data) => self.carry(engine, (index, end), data.len(), latency),
            Piece::End | Piece::Reset => Duration::ZERO,
        };
        let last = self.connections[index].flows[end].last;
        // What is sent again waits for nothing but its own time-out.
        let at = last.max(engine.now.plus(latency.unwrap_or_default() + lost));
        let at = at.plus(takes);
        let flow = &mut self.connections[index].flows[end];
        let alone = apart || at != last || flow.transit.is_empty();
        flow.last = at;
        flow.transit.push_back((at, piece));
        if alone {
            engine.at(
                at,
                Event::Arrive {
                    connection: index as u32,
                    from: end as u8,
                },
            );
        }
    }

    /// What is due arrives at the other end, unless the link is cut.
    pub fn arrive(&mut self, engine: &mut Engine, index: usize, from: usize) {
        let to = 1 - from;
        let [sender, receiver] = [from, to].map(|end| self.connections[index].ends[end].process.node);
        let mut arrived = false;
        while let Some((at, _)) = self.connections[index].flows[from].transit.front()
            && *at <= engine.now
        {
            if self.is_cut(engine, sender, receiver) {
                engine.coverage.count(Fault::NetHeld);
                self.stall(engine, index, from);
                break;
            }
            let connection = &mut self.connections[index];
            let Some((_, piece)) = connection.flows[from].transit.pop_front() else {
                break;
            };
            let usable = connection.ends[to].is_usable();
            match piece {
                Piece::Data(data) if usable => {
                    connection.flows[from].arrived_bytes += data.len();
                    connection.flows[from].arrived.push_back(data);
                    arrived = true;
                }
                Piece::Data(_) => {
                    // Nobody knows this stream here (any more).
                    engine.coverage.count(Fault::NetResetByPeer);
                    connection.flows[from].transit.clear();
                    self.put(engine, index, to, Piece::Reset, true);
                }
                Piece::End => {
                    connection.flows[from].ended = true;
                    arrived = true;
                }
                Piece::Reset if usable => self.fail(engine, index, to, io::ErrorKind::ConnectionReset),
                Piece::Reset => {}
            }
        }
        if arrived {
            if self.is_cut(engine, receiver, sender) {
                self.stall(engine, index, from);
            }
            self.try_receive(engine, index, to);
        }
    }

    /// Completes a receive that waits at this end, if there is something to tell.
    fn try_receive(&mut self, engine: &mut Engine, index: usize, end: usize) {
        let connection = &mut self.connections[index];
        let flow = &mut connection.flows[1 - end];
        let this = &mut connection.ends[end];
        let Some((mut buffer, token)) = this.receive.take() else {
            return;
        };
        let process = this.process;
        let mut length = buffer.len().min(flow.arrived_bytes);
        let result = match (length, this.broken, flow.ended) {
            (0, Some(kind), _) => Err(kind.into()),
            (0, None, true) => Ok(0),
            (0, None, false) => {
                this.receive = Some((buffer, token));
                return;
            }
            _ => {
                if length > 1 && engine.random.permille(self.config.short_receives) {
                    engine.coverage.count(Fault::NetShortReceive);
                    length = 1 + engine.random.below(length as u64 - 1) as usize;
                }
                let mut done = 0;
                while done < length
                    && let Some(piece) = flow.arrived.front_mut()
                {
                    let part = piece.len().min(length - done);
                    buffer[done..done + part].copy_from_slice(&piece[..part]);
                    done += part;
                    piece.skip(part);
                    if piece.is_empty() {
                        flow.arrived.pop_front();
                    }
                }
                assert_eq!(done, length, "the count of arrived bytes is right");
                flow.arrived_bytes -= length;
                Ok(length)
            }
        };
        engine.complete(process, token, Outcome::Received { buffer, result });
        if length > 0 {
            self.acknowledge(engine, index, 1 - end, length);
        }
    }

    /// The sender at `from` hears that bytes were taken, if anything passes back.
    fn acknowledge(&mut self, engine: &mut Engine, index: usize, from: usize, bytes: usize) {
        let [sender, receiver] = [from, 1 - from].map(|end| self.connections[index].ends[end].process.node);
        let flow = &mut self.connections[index].flows[from];
        flow.unheard += bytes;
        if self.is_cut(engine, receiver, sender) {
            engine.coverage.count(Fault::NetAckHeld);
            return self.stall(engine, index, from);
        }
        let flow = &mut self.connections[index].flows[from];
        flow.window_used -= std::mem::take(&mut flow.unheard).min(flow.window_used);
        self.pump(engine, index, from);
    }

    /// What `from` has sent is not acknowledged: from now on its patience runs out.
    fn stall(&mut self, engine: &mut Engine, index: usize, from: usize) {
        let flow = &mut self.connections[index].flows[from];
        if !flow.stalled {
            flow.stalled = true;
            flow.stalled_at = engine.now;
            flow.stall += 1;
            let event = Event::GiveUp {
                connection: index as u32,
                from: from as u8,
                stall: flow.stall,
            };
            engine.at(engine.now.plus(self.config.unacknowledged_timeout), event);
        }
    }

    pub fn give_up(&mut self, engine: &mut Engine, index: usize, from: usize, stall: u32) {
        let connection = &mut self.connections[index];
        let flow = &mut connection.flows[from];
        if flow.stalled && flow.stall == stall {
            flow.stalled = false;
            // The sender stops repeating it; an end (of a closed stream) dies with that too.
            flow.transit.clear();
            if connection.ends[from].is_usable() {
                engine.coverage.count(Fault::NetBroken);
                self.fail(engine, index, from, io::ErrorKind::TimedOut);
            }
        }
    }

    /// From now on the other end is asked whether it is there.
    pub fn watch(&mut self, engine: &mut Engine, process: Process, socket: SocketId, patience: Duration) {
        let Some((index, end)) = self.end_of(process, socket) else {
            return;
        };
        let this = &mut self.connections[index].ends[end];
        if this.watch.replace((patience, None)).is_none() {
            self.ask_again(engine, index, end, patience);
        }
    }

    fn ask_again(&self, engine: &mut Engine, index: usize, end: usize, patience: Duration) {
        let event = Event::Ask {
            connection: index as u32,
            end: end as u8,
        };
        engine.at(engine.now.plus(patience / QUESTIONS), event);
    }

    /// One end's kernel asks whether the other one is there, and hears that it is, or that it knows of no such stream, or nothing.
    pub fn ask(&mut self, engine: &mut Engine, index: usize, end: usize) {
        let other = 1 - end;
        let [near, far] = [end, other].map(|end| self.connections[index].ends[end].process.node);
        let is_silent = self.is_cut(engine, near, far) || self.is_cut(engine, far, near);
        let connection = &mut self.connections[index];
        let is_known = connection.ends[other].is_usable();
        let comes = connection.flows[other].ended || !connection.flows[other].transit.is_empty();
        let this = &mut connection.ends[end];
        let (true, Some((patience, since))) = (this.is_usable(), &mut this.watch) else {
            return;
        };
        let patience = *patience;
        let broken = if is_silent {
            let since = *since.get_or_insert(engine.now);
            (engine.now.since(since) >= patience).then_some(io::ErrorKind::TimedOut)
        } else {
            *since = None;
            // What says so by itself may be under way.
            (!is_known && !comes).then_some(io::ErrorKind::ConnectionReset)
        };
        match broken {
            None => self.ask_again(engine, index, end, patience),
            Some(kind) => {
                engine.coverage.count(Fault::NetBroken);
                connection.flows[end].transit.clear();
                self.fail(engine, index, end, kind);
            }
        }
    }

    /// A link of this flow may have healed.
    pub(super) fn resume(&mut self, engine: &mut Engine, index: usize, from: usize) {
        let [sender, receiver] = [from, 1 - from].map(|end| self.connections[index].ends[end].process.node);
        let (there, back) = (
            !self.is_cut(engine, sender, receiver),
            !self.is_cut(engine, receiver, sender),
        );
        if there && back {
            let flow = &mut self.connections[index].flows[from];
            if std::mem::take(&mut flow.stalled) {
                let length = engine.now.since(flow.stalled_at);
                let is_held = flow.transit.front().is_some_and(|(at, _)| *at <= engine.now);
                self.count_stall(index, from, length, !is_held);
            }
            self.acknowledge(engine, index, from, 0);
        }
        if there && !self.connections[index].flows[from].transit.is_empty() {
            let latency = self.latency(engine, sender, receiver);
            let at = engine.now.plus(latency);
            let flow = &mut self.connections[index].flows[from];
            for (due, _) in flow.transit.iter_mut() {
                if *due < at {
                    *due = at;
                } else {
                    break;
                }
            }
            flow.last = flow.last.max(at);
            engine.at(
                at,
                Event::Arrive {
                    connection: index as u32,
                    from: from as u8,
                },
            );
        }
    }

    /// Takes a connection down from outside: of what is under way a first part arrives, then both ends are reset.
    pub fn reset(&mut self, engine: &mut Engine, index: usize) {
        engine.coverage.count(Fault::NetReset);
        for from in 0..2 {
            let flow = &mut self.connections[index].flows[from];
            let transit = std::mem::take(&mut flow.transit);
            let total: usize = transit.iter().map(|(_, piece)| piece.len()).sum();
            let mut left = engine.random.below(total as u64 + 1) as usize;
            if left < total {
                engine.coverage.count(Fault::NetCutFrame);
            }
            for (_, piece) in transit {
                if let Piece::Data(data) = piece
                    && left > 0
                {
                    let part = data.slice(..data.len().min(left));
                    left -= part.len();
                    flow.arrived_bytes += part.len();
                    flow.arrived.push_back(part);
                }
            }
        }
        for end in 0..2 {
            if self.connections[index].ends[end].is_usable() {
                self.fail(engine, index, end, io::ErrorKind::ConnectionReset);
            }
        }
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Data(data) => data.len(),
            Piece::End | Piece::Reset => 0,
        }
    }
}
