//! Many connections over one listening socket, driven by one thread.
//!
//! Sockets never block; one epoll descriptor tells of all of them. Each readable connection is read once
//! per call of [`Server::receive`], so that none starves another.

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
use super::uri::Uri;
use super::wire::Violation;
use crate::frontend::{Command, Frontend, Reply, Tag};

/// How a [`Server`] treats its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Clients at a time; further ones wait to be accepted.
    pub connection_count_max: usize,
    /// What each may occupy.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { connection_count_max: 64, limits: Limits::default() }
    }
}

/// What has happened at a [`Server`] so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Clients that connected.
    pub connected_count: u64,
    /// Clients that said goodbye.
    pub disconnected_count: u64,
    /// Clients that vanished without saying goodbye.
    pub vanished_count: u64,
    /// Clients that broke the protocol.
    pub violation_count: u64,
    /// How the last of them did.
    pub last_violation: Option<Violation>,
    /// Replies to clients that had gone.
    pub orphan_count: u64,
}

#[derive(Debug)]
struct Client {
    stream: OwnedFd,
    connection: Connection,
    /// What epoll watches for.
    interest: EventFlags,
    /// Whether it is in the list of those with something to send.
    dirty: bool,
    /// Commands whose answers were prepared since the last sending.
    prepared: Vec<u32>,
    /// Whether it is in the list of those with requests waiting for replies to leave.
    stalled: bool,
}

#[derive(Debug, Default)]
struct Place {
    /// How many clients had this place before.
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
    places: Vec<Place>,
    free: Vec<u32>,
    dirty: Vec<u32>,
    stalled: Vec<u32>,
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
            places: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            stalled: Vec::new(),
            events: Vec::with_capacity(EVENT_COUNT),
            statistics: Statistics::default(),
        })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// What clients connect with.
    pub fn uri(&self) -> Uri {
        Uri::of(self.address(), &self.export.name)
    }

    /// What has happened so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// How many clients are connected.
    pub fn connection_count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn accept(&mut self) -> io::Result<()> {
        while !self.shutting_down && self.connection_count() < self.options.connection_count_max {
            match self.listener.accept() {
                Ok(stream) => self.connect(stream)?,
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
        Ok(())
    }

    fn connect(&mut self, stream: OwnedFd) -> io::Result<()> {
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
        place.client =
            Some(Client { stream, connection, interest, dirty: true, prepared: Vec::new(), stalled: false });
        self.dirty.push(index);
        self.statistics.connected_count += 1;
        Ok(())
    }

    /// Forgets a client, whatever it has outstanding.
    fn remove(&mut self, index: u32) -> io::Result<()> {
        let place = &mut self.places[index as usize];
        // Closing the descriptor, the only one, also takes it out of epoll.
        if place.client.take().is_some() {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
        }
        if self.shutting_down { Ok(()) } else { self.listen(true) }
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
                client.connection.received(count, (self.clock)());
                self.parse(index, commands)
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(()),
            Err(_) => self.lose(index),
        }
    }

    /// Hands over what has arrived from a client.
    fn parse(&mut self, index: u32, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        let Some(client) = self.places[index as usize].client.as_mut() else { return Ok(()) };
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
        if client.connection.is_stalled() && !client.stalled {
            client.stalled = true;
            self.stalled.push(index);
        }
        let leaves = client.connection.is_finished() || !client.connection.output().is_empty();
        if leaves && !client.dirty {
            client.dirty = true;
            self.dirty.push(index);
        }
        self.watch(index)
    }

    /// Sends a client what it takes; closes what is over.
    fn write(&mut self, index: u32, leaving: &mut dyn FnMut(Tag)) -> io::Result<()> {
        let place = &mut self.places[index as usize];
        let Some(client) = place.client.as_mut() else { return Ok(()) };
        client.dirty = false;
        let name = u64::from(place.generation) << 32 | u64::from(index);
        for command in client.prepared.drain(..) {
            leaving(Tag { frontend: 0, client: name, command });
        }
        while !client.connection.output().is_empty() {
            match send(&client.stream, client.connection.output(), SendFlags::NOSIGNAL) {
                Ok(count) => client.connection.consume_output(count),
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.lose(index),
            }
        }
        if client.connection.is_finished() {
            return self.remove(index);
        }
        self.watch(index)
    }

    /// Tells epoll what to watch for, where that changed. A client that is neither read nor written is
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
        !self.stalled.is_empty() || !self.dirty.is_empty()
    }

    fn receive(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        for _ in 0..self.stalled.len() {
            let index = self.stalled.remove(0);
            if let Some(client) = self.places[index as usize].client.as_mut() {
                client.stalled = false;
                self.parse(index, commands)?;
            }
        }
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
            return;
        }
        let index = tag.client as u32;
        let Some(client) = self.places[index as usize].client.as_mut() else { return };
        client.connection.reply(tag.command, reply);
        client.prepared.push(tag.command);
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(index);
        }
    }

    fn send(&mut self, leaving: &mut dyn FnMut(Tag)) -> io::Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.write(index, leaving)?;
        }
        self.dirty = dirty;
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
        self.places.iter().filter_map(|place| place.client.as_ref()).all(|client| {
            client.connection.outstanding() == 0
                && client.connection.output().is_empty()
                && !client.connection.is_stalled()
        })
    }
}
