//! Outstanding requests, in slots that are reused without allocation.

/// A table whose free places are found in constant time.
#[derive(Debug)]
pub(super) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(value);
                index
            }
            None => {
                self.places.push(Some(value));
                u32::try_from(self.places.len() - 1).expect("fewer than 2^32 requests are outstanding")
            }
        }
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.places.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
