//! Bytes on their way to the server: those that the socket does not take at once wait here.
//!
//! # Scope and limits
//! Nothing here waits for the server. While the socket takes everything, nothing is copied. What waits is at most the
//! requests that are outstanding.

use std::collections::VecDeque;

use super::transport::Transport;
use crate::client::ClientError;

/// The bytes that wait for room in the socket, in order.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<u8>,
}

impl Outgoing {
    /// Sends what waits and then both parts. Keeps what the socket does not take.
    ///
    /// # Errors
    /// If the connection ends.
    pub(super) fn send(
        &mut self,
        socket: &mut Transport,
        mut parts: [&[u8]; 2],
        outstanding: usize,
    ) -> Result<(), ClientError> {
        self.go_on(socket, outstanding)?;
        while self.waiting.is_empty() {
            let count = socket.send(parts, outstanding)?;
            let of_first = count.min(parts[0].len());
            parts = [&parts[0][of_first..], &parts[1][count - of_first..]];
            if parts[0].is_empty() {
                parts = [parts[1], &[]];
            }
            match (parts[0].is_empty(), count) {
                (true, _) => return Ok(()),
                (false, 0) => break,
                (false, _) => {}
            }
        }
        parts.into_iter().for_each(|part| self.waiting.extend(part));
        Ok(())
    }

    /// Sends of what waits as much as the socket takes. Returns true if there was room for some of it.
    ///
    /// # Errors
    /// If the connection ends.
    pub(super) fn go_on(&mut self, socket: &mut Transport, outstanding: usize) -> Result<bool, ClientError> {
        let mut has_sent = false;
        while !self.is_empty(socket) {
            let (first, second) = self.waiting.as_slices();
            let was_sent = socket.is_sent();
            let count = socket.send([first, second], outstanding)?;
            self.waiting.drain(..count);
            let is_progress = count > 0 || socket.is_sent() && !was_sent;
            if !is_progress {
                break;
            }
            has_sent = true;
        }
        Ok(has_sent)
    }

    /// Returns true if the socket has taken everything.
    pub(super) fn is_empty(&self, socket: &Transport) -> bool {
        self.waiting.is_empty() && socket.is_sent()
    }

    /// The connection has ended: nothing more is sent.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
