//! Several devices side by side, one for each device number of a trace: alike, or each with a description of its own.
//!
//! A step costs what the device that acts costs: the next events of all devices stand in a heap, which is brought up to
//! date for the device that was handed a request or polled.

use std::any::Any;
use std::sync::Arc;

use seeklab_core::{
    Capabilities, Completion, Coverage, Criticality, Device, Event, FaultWindow, Hazards, Instant,
    Reclassification, Rejected, Request,
};

use super::events::Events;

/// Makes the device of a number.
type Make = Arc<dyn Fn(u16) -> Box<dyn Device> + Send + Sync>;

/// Index of a number without a device.
const NONE: u32 = u32::MAX;

/// Devices side by side; a request goes to the one whose number it carries.
pub struct Bank {
    /// In the order in which they were made, with their numbers.
    devices: Vec<(u16, Box<dyn Device>)>,
    /// Index of a device by its number.
    indices: Vec<u32>,
    events: Events,
    capabilities: Capabilities,
    make: Option<Make>,
    watched: bool,
}

impl Bank {
    /// Returns a bank of the given devices, numbered from zero. Requests to other numbers are rejected.
    ///
    /// # Panics
    /// If there are no devices, or more than 65,536.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Self {
        let number = |number: usize| u16::try_from(number).expect("at most 65,536 devices");
        Self::numbered(devices.into_iter().enumerate().map(|(at, device)| (number(at), device)).collect())
    }

    /// Returns a bank of the given devices with their numbers, each once. Requests to other numbers are rejected.
    ///
    /// # Panics
    /// If there are no devices.
    pub fn numbered(devices: Vec<(u16, Box<dyn Device>)>) -> Self {
        let capabilities = common(devices.iter().map(|(_, device)| device.capabilities().clone()));
        let (indices, events) = (Vec::with_capacity(devices.len()), Events::default());
        let mut bank =
            Self { devices: Vec::new(), indices, events, capabilities, make: None, watched: false };
        devices.into_iter().for_each(|(number, device)| bank.add(number, device));
        bank
    }

    /// Device 0, and others that `make` makes when a request first names them.
    pub fn growing(
        first: Box<dyn Device>,
        make: impl Fn(u16) -> Box<dyn Device> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Some(Arc::new(make)), ..Self::new(vec![first]) }
    }

    /// Returns the number of each device so far, and the blocks that it has.
    pub fn capacities(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.devices.iter().map(|(number, device)| (*number, device.capabilities().capacity_blocks))
    }

    /// Number of devices so far.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns `false`: a bank has at least one device.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    fn add(&mut self, number: u16, device: Box<dyn Device>) {
        let index = self.devices.len();
        if self.indices.len() <= usize::from(number) {
            self.indices.resize(usize::from(number) + 1, NONE);
        }
        self.indices[usize::from(number)] = index as u32;
        self.devices.push((number, device));
        if index == 1 {
            self.note_event(0);
        }
        self.note_event(index);
    }

    /// Brings the heap up to date for a device that has acted; a single device needs none.
    fn note_event(&mut self, index: usize) {
        if self.devices.len() == 1 {
            return;
        }
        let (number, device) = &self.devices[index];
        self.events.update(index, *number, device.next_event());
    }
}

/// Returns what holds for each of several devices: the smallest capacity and queue depth, a volatile cache and moving media if
/// one of them has these. The block size is that of the first.
///
/// # Panics
/// If there are none.
pub(crate) fn common(devices: impl IntoIterator<Item = Capabilities>) -> Capabilities {
    let common = devices.into_iter().reduce(|one, other| Capabilities {
        capacity_blocks: one.capacity_blocks.min(other.capacity_blocks),
        block_size: one.block_size,
        queue_depth: one.queue_depth.min(other.queue_depth),
        volatile_write_cache: one.volatile_write_cache || other.volatile_write_cache,
        rotational: one.rotational || other.rotational,
    });
    common.expect("a bank has at least one device")
}

impl Device for Bank {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        let number = request.device;
        if let Some(index) = self.indices.get(usize::from(number)).filter(|index| **index != NONE) {
            let index = *index as usize;
            self.devices[index].1.submit(now, request)?;
            self.note_event(index);
            return Ok(());
        }
        let devices = self.devices.len();
        let make = self.make.as_ref().ok_or(Rejected::NoSuchDevice { device: number, devices })?;
        let mut device = make(number);
        if self.watched {
            device.watch();
        }
        device.submit(now, request)?;
        self.add(number, device);
        Ok(())
    }

    /// A device that was never named holds no request.
    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        let index = *self.indices.get(usize::from(change.device)).filter(|index| **index != NONE)? as usize;
        let before = self.devices[index].1.reclassify(now, change);
        self.note_event(index);
        before
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if let [(_, device)] = &mut self.devices[..] {
            return device.poll(now, completions);
        }
        // One event after the other, so that completions come in order of time; at equal times by number.
        while let Some((event, index)) = self.events.first().filter(|(event, _)| *event <= now) {
            self.devices[index].1.poll(event, completions);
            self.note_event(index);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        match &self.devices[..] {
            [(_, device)] => device.next_event(),
            _ => self.events.first().map(|(event, _)| event),
        }
    }

    /// Returns the capabilities that all devices have, so that a layer in front never takes a request that one of them
    /// rejects. [`capacities`](Self::capacities) has those of each.
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn coverage(&self) -> Option<Coverage> {
        let known = self.devices.iter().filter_map(|(_, device)| device.coverage());
        known.reduce(|mut all, one| {
            all += one;
            all
        })
    }

    /// Returns the faults of the first device, which copies of it share. Faults of other descriptions are not listed.
    fn faults(&self) -> Vec<Arc<str>> {
        self.devices.first().map_or_else(Vec::new, |(_, device)| device.faults())
    }

    fn hazards(&self) -> Hazards {
        self.devices.iter().fold(Hazards::default(), |all, (_, device)| all.or(device.hazards()))
    }

    /// Returns the windows of the faults of the first device.
    fn fault_windows(&self, end: Instant) -> Vec<FaultWindow> {
        self.devices.first().map_or_else(Vec::new, |(_, device)| device.fault_windows(end))
    }

    fn watch(&mut self) {
        self.watched = true;
        self.devices.iter_mut().for_each(|(_, device)| device.watch());
    }

    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        let before = events.len();
        for (number, device) in &mut self.devices {
            let own = events.len();
            device.events(now, events);
            events[own..].iter_mut().for_each(|event| event.device = *number);
        }
        if self.devices.len() > 1 {
            events[before..].sort_by_key(|event| (event.time, event.device));
        }
    }

    fn work_ends(&self) -> Option<Instant> {
        self.devices.iter().filter_map(|(_, device)| device.work_ends()).max()
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            devices: self.devices.iter().map(|(number, device)| (*number, device.fork())).collect(),
            indices: self.indices.clone(),
            events: self.events.clone(),
            capabilities: self.capabilities.clone(),
            make: self.make.clone(),
            watched: self.watched,
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            // Where the same devices were made in the same order.
            Some(target) if target.indices == self.indices && target.devices.len() == self.devices.len() => {
                for ((_, from), (_, to)) in self.devices.iter().zip(&mut target.devices) {
                    from.fork_into(to);
                }
                target.events.copy_from(&self.events);
                target.capabilities.clone_from(&self.capabilities);
                target.make.clone_from(&self.make);
                target.watched = self.watched;
            }
            _ => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use seeklab_core::{Duration, Operation, Seed};

    use super::*;
    use crate::simple::{Server, ServerParameters};

    /// A device that counts how often it is asked for its next event or polled.
    struct Counting {
        device: Box<dyn Device>,
        asked: Arc<AtomicU64>,
    }

    impl Device for Counting {
        fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
            self.device.submit(now, request)
        }
        fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
            self.device.reclassify(now, change)
        }
        fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.device.poll(now, completions);
        }
        fn next_event(&self) -> Option<Instant> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.device.next_event()
        }
        fn capabilities(&self) -> &Capabilities {
            self.device.capabilities()
        }
        fn fork(&self) -> Box<dyn Device> {
            Box::new(Self { device: self.device.fork(), asked: Arc::clone(&self.asked) })
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    fn server(number: u16) -> Box<dyn Device> {
        let parameters = ServerParameters {
            capacity_blocks: 1000,
            block_size: "512B".parse().unwrap(),
            service_time: Duration::from_us(100),
        };
        Box::new(Server::exponential(&parameters, Seed(1), &format!("disk{number}")).unwrap())
    }

    fn request(id: u64, device: u16) -> Request {
        Request { device, ..Request::new(id, Operation::Read, 0, 8) }
    }

    #[test]
    fn step_asks_only_the_device_that_acts() {
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        let make = move |number| -> Box<dyn Device> {
            Box::new(Counting { device: server(number), asked: Arc::clone(&count) })
        };
        let mut bank = Bank::growing(make(0), make);
        let mut stream = Seed(2).stream("bank.device");
        let mut completions = Vec::new();
        let mut now = Instant::ZERO;
        const REQUESTS: u64 = 10_000;
        for id in 0..REQUESTS {
            now += Duration::from_us(1);
            bank.poll(now, &mut completions);
            bank.submit(now, request(id, stream.below(1000) as u16)).unwrap();
        }
        while let Some(event) = bank.next_event() {
            bank.poll(event, &mut completions);
        }
        assert_eq!((bank.len(), completions.len() as u64), (1000, REQUESTS));
        // One question after a submission, and a poll and a question for each completion.
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked <= 3 * REQUESTS + 1000, "{asked} calls for {REQUESTS} requests");
    }

    #[test]
    fn equal_times_complete_by_number_whatever_the_order_of_arrival() {
        let make = |_| -> Box<dyn Device> {
            let parameters = ServerParameters {
                capacity_blocks: 1000,
                block_size: "512B".parse().unwrap(),
                service_time: Duration::from_us(100),
            };
            Box::new(Server::constant(&parameters).unwrap())
        };
        let mut bank = Bank::growing(make(0), make);
        for (id, device) in [7, 3, 65_535, 0].into_iter().enumerate() {
            bank.submit(Instant::ZERO, request(id as u64, device)).unwrap();
        }
        let mut completions = Vec::new();
        bank.poll(Instant::from_ns(u64::MAX), &mut completions);
        let devices: Vec<u16> = completions.iter().map(|completion| completion.request.device).collect();
        assert_eq!(devices, [0, 3, 7, 65_535]);
    }
}
