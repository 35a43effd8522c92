//! Several frontends to one device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use seeklab_core::Instant;

use super::{Command, Departure, Frontend, Reply, Tag};

/// Serves one device over several protocols at a time.
pub struct Frontends {
    members: Vec<Box<dyn Frontend>>,
    epoll: OwnedFd,
}

impl Frontends {
    /// All of `members` as one.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(members: Vec<Box<dyn Frontend>>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, member) in members.iter().enumerate() {
            epoll::add(&epoll, member.descriptor(), EventData::new_u64(index as u64), EventFlags::IN)?;
        }
        Ok(Self { members, epoll })
    }
}

impl Frontend for Frontends {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.is_busy())
    }

    fn receive(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        for (member, frontend) in self.members.iter_mut().zip(0..) {
            member.receive(&mut |command| {
                commands(Command { tag: Tag { frontend, ..command.tag }, ..command });
            })?;
        }
        Ok(())
    }

    fn reply(&mut self, tag: Tag, reply: Reply<'_>) {
        self.members[usize::from(tag.frontend)].reply(Tag { frontend: 0, ..tag }, reply);
    }

    fn send(&mut self, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()> {
        for (member, frontend) in self.members.iter_mut().zip(0..) {
            member.send(&mut |tag, departure| left(Tag { frontend, ..tag }, departure))?;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.deadline()).min()
    }

    fn set_away(&mut self, away: bool) -> io::Result<()> {
        self.members.iter_mut().try_for_each(|member| member.set_away(away))
    }

    fn shut_down(&mut self) {
        for member in &mut self.members {
            member.shut_down();
        }
    }

    fn is_drained(&self) -> bool {
        self.members.iter().all(|member| member.is_drained())
    }
}
