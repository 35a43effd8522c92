//! A file of a job, with its buffer.

/// Direction of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The drive reads, and the job takes sectors from the buffer.
    Input,
    /// The job puts sectors into the buffer, and the drive writes.
    Output,
}

/// A file and its buffer. Sizes are in sectors.
#[derive(Debug, Clone)]
pub struct File {
    direction: Direction,
    /// Sectors in the buffer.
    held: u32,
    /// Sectors that the job has yet to take from the buffer, or to put into it.
    unexchanged: u64,
    /// Sectors that the drive has yet to read or write.
    pub untransferred: u64,
    /// True from a call to its end.
    pub has_called: bool,
}

impl File {
    /// A file of `sectors` sectors, none of them transferred, with an empty buffer.
    pub const fn new(direction: Direction, sectors: u64) -> Self {
        Self { direction, held: 0, unexchanged: sectors, untransferred: sectors, has_called: false }
    }

    /// Takes a sector from the buffer, or puts one into it. Returns false if the buffer is empty, or full.
    pub fn exchange(&mut self, buffer: u32) -> bool {
        debug_assert!(self.unexchanged > 0, "a sector is due");
        match self.direction {
            Direction::Input if self.held == 0 => return false,
            Direction::Output if self.held == buffer => return false,
            Direction::Input => self.held -= 1,
            Direction::Output => self.held += 1,
        }
        self.unexchanged -= 1;
        true
    }

    /// Returns true if the job has exchanged every sector.
    pub const fn is_exchanged(&self) -> bool {
        self.unexchanged == 0
    }

    /// Sectors that the drive can transfer now.
    pub fn transferable(&self, buffer: u32) -> u32 {
        let by_buffer = match self.direction {
            Direction::Input => buffer - self.held,
            Direction::Output => self.held,
        };
        u32::try_from(self.untransferred).map_or(by_buffer, |rest| by_buffer.min(rest))
    }

    /// Returns true if the job calls the drive now: no call is under way, and the buffer has `threshold` sectors free or
    /// filled, or the last sectors of an output.
    pub fn needs_call(&self, buffer: u32, threshold: u32) -> bool {
        if self.has_called || self.untransferred == 0 {
            return false;
        }
        match self.direction {
            Direction::Input => buffer - self.held >= threshold,
            Direction::Output => self.held >= threshold || (self.is_exchanged() && self.held > 0),
        }
    }

    /// Takes over sectors that the drive has read into the buffer, or written from it.
    pub fn transferred(&mut self, sectors: u32) {
        match self.direction {
            Direction::Input => self.held += sectors,
            Direction::Output => self.held -= sectors,
        }
        self.untransferred -= u64::from(sectors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_calls_at_its_threshold_and_for_its_last_sectors() {
        let mut file = File::new(Direction::Output, 5);
        for held in 1..=3 {
            assert!(file.exchange(4));
            assert_eq!(file.needs_call(4, 3), held == 3, "{held} held");
        }
        assert!(file.exchange(4));
        assert!(!file.exchange(4), "the buffer is full");
        assert_eq!(file.transferable(4), 4);
        file.transferred(4);
        assert!(file.exchange(4) && file.is_exchanged());
        assert!(file.needs_call(4, 3), "one sector is left");
        file.transferred(1);
        assert!(!file.needs_call(4, 3));
    }

    #[test]
    fn input_calls_while_the_buffer_has_room_and_the_file_data() {
        let mut file = File::new(Direction::Input, 5);
        assert!(file.needs_call(4, 3) && !file.exchange(4), "an empty buffer");
        assert_eq!(file.transferable(4), 4);
        file.transferred(4);
        assert!(!file.needs_call(4, 3));
        assert!(file.exchange(4) && file.exchange(4));
        assert!(!file.needs_call(4, 3), "2 free");
        assert!(file.exchange(4));
        assert!(file.needs_call(4, 3), "3 free");
        assert_eq!(file.transferable(4), 1, "one sector is left");
    }
}
