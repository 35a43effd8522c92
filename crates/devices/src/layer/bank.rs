//! Several devices side by side, one for each device number of a trace.

use std::any::Any;
use std::sync::Arc;

use seeklab_core::{Capabilities, Completion, Coverage, Device, Instant, Rejected, Request};

/// Makes the device of a number.
type Make = Arc<dyn Fn(u16) -> Box<dyn Device> + Send + Sync>;

/// Devices of one kind side by side; a request goes to the one whose number it carries.
pub struct Bank {
    /// By number, ascending.
    devices: Vec<(u16, Box<dyn Device>)>,
    capabilities: Capabilities,
    make: Option<Make>,
}

impl Bank {
    /// Returns a bank of the given devices, numbered from zero. Requests to other numbers are rejected.
    ///
    /// # Panics
    /// If there are no devices, or more than 65,536.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Self {
        let capabilities = devices.first().expect("a bank has at least one device").capabilities().clone();
        let numbered = devices
            .into_iter()
            .enumerate()
            .map(|(number, device)| (u16::try_from(number).expect("at most 65,536 devices"), device));
        Self { devices: numbered.collect(), capabilities, make: None }
    }

    /// Device 0, and others that `make` makes when a request first names them.
    pub fn growing(
        first: Box<dyn Device>,
        make: impl Fn(u16) -> Box<dyn Device> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Some(Arc::new(make)), ..Self::new(vec![first]) }
    }

    /// Returns the number of devices so far.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns true if there are no devices, which never holds.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

impl Device for Bank {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        let devices = self.devices.len();
        let place = match self.devices.binary_search_by_key(&request.device, |(number, _)| *number) {
            Ok(place) => return self.devices[place].1.submit(now, request),
            Err(place) => place,
        };
        let make = self.make.as_ref().ok_or(Rejected::NoSuchDevice { device: request.device, devices })?;
        let mut device = make(request.device);
        device.submit(now, request)?;
        self.devices.insert(place, (request.device, device));
        Ok(())
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        if let [(_, device)] = &mut self.devices[..] {
            return device.poll(now, completions);
        }
        // One event after the other, so that completions come in order of time; at equal times by number.
        while let Some((event, device)) = self
            .devices
            .iter_mut()
            .filter_map(|(_, device)| device.next_event().map(|event| (event, device)))
            .min_by_key(|(event, _)| *event)
            .filter(|(event, _)| *event <= now)
        {
            device.poll(event, completions);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.devices.iter().filter_map(|(_, device)| device.next_event()).min()
    }

    /// Returns the capabilities of one device, because a request addresses blocks of one device.
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

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            devices: self.devices.iter().map(|(number, device)| (*number, device.fork())).collect(),
            capabilities: self.capabilities.clone(),
            make: self.make.clone(),
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target)
                if target
                    .devices
                    .iter()
                    .map(|(number, _)| number)
                    .eq(self.devices.iter().map(|(number, _)| number)) =>
            {
                for ((_, from), (_, to)) in self.devices.iter().zip(&mut target.devices) {
                    from.fork_into(to);
                }
                target.capabilities.clone_from(&self.capabilities);
                target.make.clone_from(&self.make);
            }
            _ => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
