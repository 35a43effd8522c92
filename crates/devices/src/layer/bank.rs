//! Several devices side by side, one for each device number of a trace.

use std::any::Any;

use seeklab_core::{Capabilities, Completion, Device, Instant, Rejected, Request};

/// Devices of one kind side by side; a request goes to the one whose number it carries.
pub struct Bank {
    devices: Vec<Box<dyn Device>>,
}

impl Bank {
    /// Those devices, numbered from zero.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(devices: Vec<Box<dyn Device>>) -> Self {
        assert!(!devices.is_empty(), "a bank has at least one device");
        Self { devices }
    }
}

impl Device for Bank {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        let devices = self.devices.len();
        self.devices
            .get_mut(usize::from(request.device))
            .ok_or(Rejected::NoSuchDevice { device: request.device, devices })?
            .submit(now, request)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        // One event after the other, so that completions come in order of time; at equal times by number.
        while let Some((event, device)) = self
            .devices
            .iter_mut()
            .filter_map(|device| device.next_event().map(|event| (event, device)))
            .min_by_key(|(event, _)| *event)
            .filter(|(event, _)| *event <= now)
        {
            device.poll(event, completions);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.devices.iter().filter_map(|device| device.next_event()).min()
    }

    /// Those of one device: requests address blocks of one.
    fn capabilities(&self) -> &Capabilities {
        self.devices[0].capabilities()
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self { devices: self.devices.iter().map(|device| device.fork()).collect() })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) if target.devices.len() == self.devices.len() => {
                for (from, to) in self.devices.iter().zip(&mut target.devices) {
                    from.fork_into(to);
                }
            }
            _ => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
