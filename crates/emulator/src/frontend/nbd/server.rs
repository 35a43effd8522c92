//! Many connections over one listening socket, driven by one thread.
//!
//! Sockets never block; one epoll descriptor tells of all of them. Each readable connection is read once
//! per call of [`Server::receive`], so that none starves another. The `supervisor` module says which clients must go
//! and which may have more replies prepared.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use seeklab_core::Instant;

use super::address::Address;
use super::connection::{Connection, Event, Limits};
use super::export::Export;
use super::listener::Listener;
use super::supervisor::{Expulsion, Supervisor};
use super::uri::Uri;
use super::wire::Violation;
use crate::frontend::{Command, Departure, Frontend, Reply, Tag};

/// Options of a [`Server`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Clients at a time. A further one takes the place of the one that has negotiated longest, if that is more than a
    /// second; otherwise it waits to be accepted.
    pub connection_count_max: usize,
    /// Bytes of replies to all clients that wait to leave, counting what outstanding commands will need.
    pub reply_bytes_max: usize,
    /// Limits of each client.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { connection_count_max: 64, reply_bytes_max: 256 << 20, limits: Limits::default() }
    }
}

/// Statistics of a [`Server`] so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Clients that connected.
    pub connected_count: u64,
    /// Clients that requested to disconnect.
    pub disconnected_count: u64,
    /// Clients that vanished without saying goodbye.
    pub vanished_count: u64,
    /// Clients that broke the protocol.
    pub violation_count: u64,
    /// Last violation of the protocol.
    pub last_violation: Option<Violation>,
    /// Replies to clients that had gone.
    pub orphan_count: u64,
    /// Clients that were dropped because they were in the way of others.
    pub expelled_count: u64,
    /// Reason of the last of them.
    pub last_expulsion: Option<Expulsion>,
}

#[derive(Debug)]
struct Client {
    stream: OwnedFd,
    connection: Connection,
    /// Events that epoll watches for.
    interest: EventFlags,
    /// True if the client is in the list of those with something to send.
    dirty: bool,
    /// True if the connection is in the list of those whose arrived requests are tried again.
    retried: bool,
}

#[derive(Debug, Default)]
struct Place {
    /// Number of clients that had this place before.
    generation: u32,
    client: Option<Client>,
}

/// An NBD server for one export.
pub struct Server {
    export: Arc<Export>,
    options: ServerOptions,
    clock: Box<dyn Fn() -> Instant>,
    epoll: OwnedFd,
    listener: Listener,
    accepting: bool,
    shutting_down: bool,
    /// The device is not there.
    away: bool,
    places: Vec<Place>,
    free: Vec<u32>,
    dirty: Vec<u32>,
    /// Clients whose arrived requests waited for replies to leave, some of which have.
    retried: Vec<u32>,
    /// Answers that will never leave.
    dropped: Vec<Tag>,
    supervisor: Supervisor,
    /// Time at which a muted listener accepts again, because a client yields its place.
    listen_again: Option<Instant>,
    events: Vec<epoll::Event>,
    statistics: Statistics,
}

const LISTENER: u64 = u64::MAX;
const EVENT_COUNT: usize = 64;

impl Server {
    /// Listens at `address`. Deadlines and arrival times are those of `clock`, in real nanoseconds.
    pub fn bind(
        address: &Address,
        export: Export,
        options: ServerOptions,
        clock: Box<dyn Fn() -> Instant>,
    ) -> io::Result<Self> {
        export.check();
        assert!(options.connection_count_max > 0, "a server without connections serves nobody");
        let listener = Listener::bind(address)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            export: Arc::new(export),
            options,
            clock,
            epoll,
            listener,
            accepting: true,
            shutting_down: false,
            away: false,
            places: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            retried: Vec::new(),
            dropped: Vec::new(),
            supervisor: Supervisor::new(options.reply_bytes_max),
            listen_again: None,
            events: Vec::with_capacity(EVENT_COUNT),
            statistics: Statistics::default(),
        })
    }

    /// Returns the address at which the server listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Returns the URI with which clients connect.
    pub fn uri(&self) -> Uri {
        Uri::of(self.address(), &self.export.name)
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns the number of connected clients.
    pub fn connection_count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Bytes that replies to all clients occupy: those that wait to leave, and those that outstanding commands need.
    pub const fn owed_bytes(&self) -> usize {
        self.supervisor.owed_bytes()
    }

    fn accept(&mut self) -> io::Result<()> {
        while !self.shutting_down {
            let full = self.connection_count() >= self.options.connection_count_max;
            let yielding = if full { self.supervisor.yielding((self.clock)()) } else { None };
            if full && yielding.is_none() {
                // A client that waits in vain does not keep the loop awake.
                self.listen_again = self.supervisor.next_yielding();
                break;
            }
            match self.listener.accept() {
                Ok(stream) => {
                    if let Some(index) = yielding {
                        self.expel(index, Expulsion::Place)?;
                    }
                    self.connect(stream)?;
                }
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Out of descriptors or memory: clients wait until one leaves.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                    if self.connection_count() > 0 =>
                {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.listen(false)
    }

    fn listen(&mut self, accepting: bool) -> io::Result<()> {
        if self.accepting != accepting {
            let flags = if accepting { EventFlags::IN } else { EventFlags::empty() };
            epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), flags)?;
            self.accepting = accepting;
        }
        if accepting {
            self.listen_again = None;
        }
        Ok(())
    }

    fn connect(&mut self, stream: OwnedFd) -> io::Result<()> {
        if self.away {
            // It closes.
            return Ok(());
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        let name = u64::from(place.generation) << 32 | u64::from(index);
        let interest = EventFlags::IN;
        if let Err(error) = epoll::add(&self.epoll, &stream, EventData::new_u64(name), interest) {
            self.free.push(index);
            return Err(error.into());
        }
        let connection = Connection::new(Arc::clone(&self.export), self.options.limits, name);
        place.client = Some(Client { stream, connection, interest, dirty: true, retried: false });
        self.dirty.push(index);
        self.supervisor.connected(index, (self.clock)());
        self.statistics.connected_count += 1;
        Ok(())
    }

    /// Forgets a client, whatever it has outstanding.
    fn remove(&mut self, index: u32) -> io::Result<()> {
        let place = &mut self.places[index as usize];
        // Closing the descriptor, the only one, also takes it out of epoll.
        if let Some(client) = place.client.take() {
            let name = u64::from(place.generation) << 32 | u64::from(index);
            let tags = client.connection.leaving().map(|command| Tag { frontend: 0, client: name, command });
            self.dropped.extend(tags);
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
            self.supervisor.removed(index, (self.clock)());
            self.retry_held_back();
        }
        if self.shutting_down { Ok(()) } else { self.listen(true) }
    }

    /// Drops a client that is in the way.
    fn expel(&mut self, index: u32, expulsion: Expulsion) -> io::Result<()> {
        self.statistics.expelled_count += 1;
        self.statistics.last_expulsion = Some(expulsion);
        self.remove(index)
    }

    /// Drops the clients that must go now.
    fn expel_overdue(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        let Some(deadline) = self.deadline() else { return Ok(()) };
        let now = (self.clock)();
        if now < deadline {
            return Ok(());
        }
        while let Some((index, expulsion)) = self.supervisor.overdue(now) {
            self.expel(index, expulsion)?;
            // What was held back may fit now, and nobody else needs to go.
            self.parse_retried(commands)?;
        }
        if self.listen_again.is_some_and(|time| time <= now) && !self.shutting_down {
            self.listen(true)?;
        }
        Ok(())
    }

    /// Looks again at what has arrived from a client, if it waits for replies to leave.
    fn retry(&mut self, index: u32) {
        if let Some(client) = self.places[index as usize].client.as_mut()
            && client.connection.is_stalled()
            && !client.retried
        {
            client.retried = true;
            self.retried.push(index);
        }
    }

    /// As [`retry`](Self::retry), of all clients, if some wait for the replies to others.
    fn retry_held_back(&mut self) {
        if self.supervisor.is_pressed() {
            (0..self.places.len() as u32).for_each(|index| self.retry(index));
        }
    }

    /// Tells the supervisor how a client stands.
    fn supervise(&mut self, index: u32, took: bool, now: Instant) {
        let Some(client) = &self.places[index as usize].client else { return };
        let owed_bytes = self.supervisor.owed_bytes();
        self.supervisor.observe(index, client.connection.standing(), took, now);
        if self.supervisor.owed_bytes() < owed_bytes {
            self.retry_held_back();
        }
    }

    /// Forgets a client that hung up.
    fn lose(&mut self, index: u32) -> io::Result<()> {
        let client = self.places[index as usize].client.as_ref();
        if client.is_some_and(|client| !client.connection.is_closing()) {
            self.statistics.vanished_count += 1;
        }
        self.remove(index)
    }

    /// Reads once from a client and hands over what that completes.
    fn read(&mut self, index: u32, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        let Some(client) = self.places[index as usize].client.as_mut() else { return Ok(()) };
        if !client.connection.wants_input() {
            return Ok(());
        }
        match rustix::io::read(&client.stream, client.connection.space()) {
            Ok(0) => self.lose(index),
            Ok(count) => {
                let now = (self.clock)();
                client.connection.received(count, now);
                self.parse(index, now, commands)
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(()),
            Err(_) => self.lose(index),
        }
    }

    /// Hands over what has arrived from a client.
    fn parse(&mut self, index: u32, now: Instant, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        let Some(client) = self.places[index as usize].client.as_mut() else { return Ok(()) };
        client.connection.allow(self.supervisor.debt_max(index));
        while let Some(event) = client.connection.next_event() {
            match event {
                Event::Command(command) => commands(command),
                Event::Disconnected => self.statistics.disconnected_count += 1,
                Event::ProtocolError(violation) => {
                    self.statistics.violation_count += 1;
                    self.statistics.last_violation = Some(violation);
                }
            }
        }
        let leaves = client.connection.is_finished() || !client.connection.output().is_empty();
        if leaves && !client.dirty {
            client.dirty = true;
            self.dirty.push(index);
        }
        self.supervise(index, false, now);
        self.watch(index)
    }

    /// Hands over what had arrived from clients before replies left.
    fn parse_retried(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        let mut retried = std::mem::take(&mut self.retried);
        for index in retried.drain(..) {
            if let Some(client) = self.places[index as usize].client.as_mut() {
                client.retried = false;
                let now = (self.clock)();
                self.parse(index, now, commands)?;
            }
        }
        // The empty list's memory is used again, unless clients were added meanwhile.
        if self.retried.is_empty() {
            self.retried = retried;
        }
        Ok(())
    }

    /// Sends a client what it takes; closes what is over.
    fn write(&mut self, index: u32, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()> {
        let place = &mut self.places[index as usize];
        let Some(client) = place.client.as_mut() else { return Ok(()) };
        client.dirty = false;
        let name = u64::from(place.generation) << 32 | u64::from(index);
        let (mut now, mut took) = ((self.clock)(), false);
        while !client.connection.output().is_empty() {
            match send(&client.stream, client.connection.output(), SendFlags::NOSIGNAL) {
                Ok(count) => {
                    client.connection.consume_output(count, &mut |command| {
                        left(Tag { frontend: 0, client: name, command }, Departure::Taken(now));
                    });
                    took = true;
                    if !client.connection.output().is_empty() {
                        now = (self.clock)();
                    }
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.lose(index),
            }
        }
        if client.connection.is_finished() || (self.away && client.connection.is_drained()) {
            return self.remove(index);
        }
        if took {
            self.retry(index);
        }
        self.supervise(index, took, now);
        self.watch(index)
    }

    /// Updates the events that epoll watches for, if they changed. A client that is neither read nor written is
    /// still watched for hanging up.
    fn watch(&mut self, index: u32) -> io::Result<()> {
        let place = &mut self.places[index as usize];
        let Some(client) = place.client.as_mut() else { return Ok(()) };
        let mut interest = EventFlags::empty();
        if client.connection.wants_input() {
            interest |= EventFlags::IN;
        }
        if !client.dirty && !client.connection.output().is_empty() {
            interest |= EventFlags::OUT;
        }
        if interest != client.interest {
            let name = u64::from(place.generation) << 32 | u64::from(index);
            epoll::modify(&self.epoll, &client.stream, EventData::new_u64(name), interest)?;
            client.interest = interest;
        }
        Ok(())
    }

    fn is_current(&self, name: u64) -> bool {
        self.places
            .get(name as u32 as usize)
            .is_some_and(|place| place.client.is_some() && u64::from(place.generation) == name >> 32)
    }
}

impl Frontend for Server {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn is_busy(&self) -> bool {
        !self.retried.is_empty() || !self.dirty.is_empty() || !self.dropped.is_empty()
    }

    fn receive(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.parse_retried(commands)?;
        self.expel_overdue(commands)?;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&NOW)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (name, flags) = (event.data.u64(), event.flags);
            match name {
                LISTENER => self.accept()?,
                name if self.is_current(name) => {
                    let index = name as u32;
                    let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
                    if flags.contains(EventFlags::IN) {
                        self.read(index, commands)?;
                    } else if gone {
                        self.lose(index)?;
                    }
                    if flags.contains(EventFlags::OUT)
                        && let Some(client) = self.places[index as usize].client.as_mut()
                        && !client.dirty
                    {
                        client.dirty = true;
                        self.dirty.push(index);
                    }
                }
                _ => {}
            }
        }
        self.events = events;
        Ok(())
    }

    fn reply(&mut self, tag: Tag, reply: Reply<'_>) {
        if !self.is_current(tag.client) {
            self.statistics.orphan_count += 1;
            self.dropped.push(tag);
            return;
        }
        let index = tag.client as u32;
        let Some(client) = self.places[index as usize].client.as_mut() else { return };
        client.connection.reply(tag.command, reply);
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(index);
        }
        self.retry(index);
    }

    fn send(&mut self, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.write(index, left)?;
        }
        self.dirty = dirty;
        self.dropped.drain(..).for_each(|tag| left(tag, Departure::Dropped));
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.supervisor.deadline().into_iter().chain(self.listen_again).min()
    }

    fn set_away(&mut self, away: bool) -> io::Result<()> {
        self.away = away;
        for index in 0..self.places.len() as u32 {
            let Some(client) = self.places[index as usize].client.as_mut() else { continue };
            if !away {
                // It has not taken its last answers.
                self.remove(index)?;
                continue;
            }
            client.connection.shut_down();
            if !client.dirty {
                client.dirty = true;
                self.dirty.push(index);
            }
        }
        Ok(())
    }

    fn shut_down(&mut self) {
        self.shutting_down = true;
        // A listener that cannot be muted is only heard in vain.
        let _ = self.listen(false);
        for place in &mut self.places {
            if let Some(client) = place.client.as_mut() {
                client.connection.shut_down();
            }
        }
    }

    fn is_drained(&self) -> bool {
        let mut clients = self.places.iter().filter_map(|place| place.client.as_ref());
        clients.all(|client| client.connection.is_drained())
    }
}
