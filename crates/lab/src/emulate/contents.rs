//! The contents of an emulated device: where its bytes live, what they are at first, and saving them at the end.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use seeklab_core::ByteSize;
use seeklab_emulator::store::{Access, Store};

use crate::failure::Failure;

/// The place where the bytes of the device live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChoice {
    /// Memory, up to a limit. The default limit is half of the available memory.
    Ram(Option<ByteSize>),
    /// A sparse file or a block device, which keeps them.
    File(PathBuf),
}

/// The contents that a device begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Place of the bytes.
    pub store: StoreChoice,
    /// A raw image to begin with. By default a store in memory begins with zeroes, a file with what it holds.
    pub image: Option<PathBuf>,
    /// The file of the store, named again, to let the image overwrite what it holds.
    pub destroy: Option<PathBuf>,
    /// Refuse writes.
    pub read_only: bool,
}

impl Default for Contents {
    /// Zeroes in memory.
    fn default() -> Self {
        Self { store: StoreChoice::Ram(None), image: None, destroy: None, read_only: false }
    }
}

impl Contents {
    /// Opens the store for a device of `size` and fills it from the image, if there is one.
    ///
    /// # Errors
    /// A store that holds something which the image would overwrite without leave; as [`Store::in_ram`],
    /// [`Store::in_file`] and [`Store::load_image`].
    pub fn open(&self, size: ByteSize) -> Result<Store, Failure> {
        self.check_overwrite()?;
        let store = match &self.store {
            StoreChoice::Ram(limit) => Store::in_ram(size, *limit)?,
            StoreChoice::File(path) => {
                let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
                Store::in_file(path, size, access)?
            }
        };
        if let Some(image) = &self.image {
            store.load_image(image)?;
        }
        Ok(store.with_pages_ready())
    }

    fn check_overwrite(&self) -> Result<(), Failure> {
        let (path, image) = match (&self.store, &self.image) {
            (StoreChoice::File(path), Some(image)) => (path, image),
            _ if self.destroy.is_some() => {
                return Err(Failure::new("--destroy: nothing would be overwritten")
                    .hint("it goes with --image and --store file:PATH"));
            }
            _ => return Ok(()),
        };
        match &self.destroy {
            Some(named) if named == path => return Ok(()),
            Some(named) => {
                return Err(Failure::new(format!(
                    "--destroy `{}`: the store is `{}`",
                    named.display(),
                    path.display()
                ))
                .hint("write the name of the store as in --store, without `file:`"));
            }
            None => {}
        }
        if !holds_something(path) {
            return Ok(());
        }
        let (path, image) = (path.display(), image.display());
        Err(Failure::new(format!("{path}: holds data, which the image {image} would overwrite")).hint(
            format!(
                "leave out --image to continue with its contents, or add --destroy {path} to overwrite them"
            ),
        ))
    }
}

/// True of a block device and of a file that is not empty.
fn holds_something(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| {
        metadata.file_type().is_block_device() || (metadata.is_file() && metadata.len() > 0)
    })
}

/// Saves the contents as a raw image at `path`. If that fails, saves them in the temporary folder instead.
///
/// # Errors
/// If the image could not be written at `path`; the message names the file that holds the contents instead, if any.
pub(super) fn save(store: &Store, path: &Path) -> Result<(), Failure> {
    let Err(error) = store.save_image(path) else { return Ok(()) };
    let failure = Failure::from(error);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let instead = std::env::temp_dir().join(format!("seeklab-{}-{name}", std::process::id()));
    Err(match store.save_image(&instead) {
        Ok(()) => failure.hint(format!("the contents were saved as {} instead", instead.display())),
        Err(second) => {
            let second = Failure::from(second);
            Failure::new(format!("{failure}; nor could they be saved as {}: {second}", instead.display()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ByteSize = ByteSize::from_bytes(1 << 20);

    #[test]
    fn image_overwrites_a_store_only_if_its_name_is_typed_again() {
        let folder = tempfile::tempdir().unwrap();
        let (image, path) = (folder.path().join("image"), folder.path().join("store"));
        fs::write(&image, vec![1; 4096]).unwrap();
        let open = |image: Option<&Path>, destroy: Option<&Path>| {
            Contents {
                store: StoreChoice::File(path.clone()),
                image: image.map(Path::to_owned),
                destroy: destroy.map(Path::to_owned),
                read_only: false,
            }
            .open(SIZE)
        };
        let first_byte = |store: &Store| {
            let mut byte = [0];
            store.read(0, &mut byte).unwrap();
            byte[0]
        };
        let store = open(Some(&image), None).unwrap();
        store.write(0, &[7; 512]).unwrap();
        store.flush().unwrap();
        drop(store);
        let failure = open(Some(&image), None).unwrap_err();
        assert!(failure.to_string().contains("holds data"), "{failure}");
        let hint = failure.advice().unwrap();
        assert!(hint.contains("leave out --image") && hint.contains("--destroy"), "{hint}");
        assert!(open(Some(&image), Some(&image)).unwrap_err().to_string().contains("the store is"));
        assert_eq!(first_byte(&open(None, None).unwrap()), 7, "the data are still there");
        assert!(open(None, Some(&path)).is_err(), "there is nothing to overwrite with");
        assert_eq!(first_byte(&open(Some(&image), Some(&path)).unwrap()), 1);
    }

    #[test]
    fn image_that_cannot_be_saved_is_saved_in_the_temporary_folder() {
        let store = Store::in_ram(SIZE, None).unwrap();
        store.write(0, &[7; 512]).unwrap();
        let failure = save(&store, Path::new("/no/such/folder/contents.img")).unwrap_err();
        let hint = failure.advice().unwrap();
        let saved = hint.split("saved as ").nth(1).unwrap().trim_end_matches(" instead");
        assert_eq!(fs::read(saved).unwrap()[..512], [7; 512]);
        fs::remove_file(saved).unwrap();
    }
}
