//! Frontends of an emulation: their options, and opening them.

use std::cmp::Reverse;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use seeklab_emulator::calibration::FrontendKind;
use seeklab_emulator::clock::Clock;
use seeklab_emulator::frontend::fuse::{self, DetachedFile, Place};
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::{self, Address, Export};
use seeklab_emulator::frontend::{ClientLimits, Endpoint, Frontend, OpenFrontend, Opening, Protocol};
use seeklab_traces::capture::criticality::ClassRule;

use crate::failure::Failure;

/// Protocol of the frontend that is opened if none is given.
pub const DEFAULT_PROTOCOL: &Protocol = &nbd::PROTOCOL;

/// Frontends that clients connect to.
#[derive(Debug, Clone, Default)]
pub struct FrontendOptions {
    /// Frontends to open, each a protocol at a place.
    pub openings: Vec<Arc<dyn Opening>>,
    /// Options of the host's queue, if the device is to be a block device of the host.
    pub block: Option<QueueOptions>,
    /// Rule by which the requests of the block device have classes. Without it, all are time-critical.
    pub criticality: Option<ClassRule>,
    /// Limits on the clients of each frontend.
    pub limits: ClientLimits,
}

/// Opened frontends.
#[derive(Default)]
pub(super) struct OpenFrontends {
    pub(super) frontends: Vec<Box<dyn Frontend>>,
    /// Endpoints of all but the block device, which is made once the frontends are served.
    pub(super) endpoints: Vec<Endpoint>,
    /// The file that a block device is made of.
    pub(super) file: Option<DetachedFile>,
}

/// Sockets that this process has named.
static SOCKETS: AtomicU32 = AtomicU32::new(0);

impl FrontendOptions {
    /// Adds a frontend, for example an NBD address.
    #[must_use]
    pub fn with(mut self, opening: impl Opening + 'static) -> Self {
        self.openings.push(Arc::new(opening));
        self
    }

    /// Returns the frontend that selects the calibration: if there are several, the frontend nearest to the
    /// kernel.
    pub fn kind(&self) -> FrontendKind {
        let block = self.block.iter().map(|_| FrontendKind::Block);
        let kinds = block.chain(self.openings.iter().map(|opening| opening.kind()));
        kinds.max().unwrap_or(FrontendKind::NbdUnix)
    }

    /// Checks that no frontend makes its file in a directory that another one serves: the process would wait for its
    /// own answer.
    ///
    /// # Errors
    /// If a path lies in a mount point, under any name, or classes are wanted without a block device.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(rule) = self.criticality.filter(|_| self.block.is_none()) {
            let option = format!("--criticality {}", rule.name());
            return Err(Failure::new(format!("{option}: the device is not served as a block device"))
                .hint("add --block, or leave out --criticality"));
        }
        for mounted in &self.openings {
            let Some(mount_point) = mounted.mount_point().map(resolved) else { continue };
            for other in &self.openings {
                if other.created_path().is_some_and(|path| resolved(path).starts_with(&mount_point)) {
                    let (option, directory) = (other.option(), mount_point.display());
                    return Err(Failure::new(format!(
                        "{option}: the path lies in {directory}, where {} serves the device",
                        mounted.option()
                    ))
                    .hint("name a path outside that directory"));
                }
            }
        }
        Ok(())
    }

    /// Opens them for `export`, the nearest to the kernel first.
    pub(super) fn open(&self, export: &Export, clock: Clock) -> Result<OpenFrontends, Failure> {
        let mut open = OpenFrontends::default();
        if self.block.is_some() {
            let server = fuse::Server::mount(export.clone(), Box::new(move || clock.now()), &Place::Detached)
                .map_err(|error| Failure::from(error).context("no block device can be made"))?;
            open.file = server.detached_file();
            open.frontends.push(Box::new(server));
        }
        let mut openings: Vec<&Arc<dyn Opening>> = self.openings.iter().collect();
        openings.sort_by_key(|opening| Reverse(opening.kind()));
        for opening in openings {
            let OpenFrontend { frontend, endpoint } = opening
                .open(export.clone(), clock, self.limits)
                .map_err(|error| Failure::from(error).context(opening.option()))?;
            open.frontends.push(frontend);
            open.endpoints.push(endpoint);
        }
        Ok(open)
    }

    /// Adds an NBD socket in the temporary folder if no frontend is given. Each call names another socket.
    ///
    /// # Errors
    /// If the path of the temporary folder is too long for a socket.
    pub(crate) fn or_own_socket(self) -> Result<Self, Failure> {
        if !self.openings.is_empty() || self.block.is_some() {
            return Ok(self);
        }
        let (process, number) = (std::process::id(), SOCKETS.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("seeklab-{process}-{number}.sock"));
        let address: Address = format!("unix:{}", path.display())
            .parse()
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(self.with(address))
    }
}

/// Returns the absolute path of a file, with the links on the way to it followed as far as they exist.
fn resolved(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    match known {
        Some((part, real)) => {
            let rest = path.strip_prefix(part).expect("it is an ancestor");
            real.components().chain(rest.components()).collect()
        }
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use seeklab_emulator::frontend::ProtocolValue;

    use super::super::Endpoints;
    use super::*;

    fn nbd(text: &str) -> Address {
        text.parse().unwrap()
    }

    /// Returns the options for these frontends.
    fn options(nbd_addresses: &[&str], has_folder: bool, has_block: bool) -> FrontendOptions {
        let mut options = nbd_addresses
            .iter()
            .fold(FrontendOptions::default(), |options, address| options.with(nbd(address)));
        let ProtocolValue::Path(read) = fuse::PROTOCOL.value else { panic!("{:?}", fuse::PROTOCOL) };
        options.openings.extend(has_folder.then(|| read("/folder".into())));
        options.block = has_block.then(QueueOptions::default);
        options
    }

    #[test]
    fn each_default_socket_has_a_name_of_its_own() {
        let default = || FrontendOptions::default().or_own_socket().unwrap().openings[0].option();
        assert_ne!(default(), default());
        for given in [options(&[], true, false), options(&[], false, true), options(&["tcp:"], false, false)]
        {
            let count = given.openings.len();
            assert_eq!(given.or_own_socket().unwrap().openings.len(), count);
        }
    }

    #[test]
    fn frontend_nearest_to_the_kernel_selects_the_calibration() {
        for (options, kind) in [
            (options(&[], false, false), FrontendKind::NbdUnix),
            (options(&["unix:/a"], false, false), FrontendKind::NbdUnix),
            (options(&["unix:/a", "tcp:"], false, false), FrontendKind::NbdTcp),
            (options(&["tcp:"], true, false), FrontendKind::Fuse),
            (options(&["tcp:"], true, true), FrontendKind::Block),
            (options(&[], false, true), FrontendKind::Block),
        ] {
            assert_eq!(options.kind(), kind, "{options:?}");
        }
    }

    #[test]
    fn frontends_open_in_the_order_of_their_endpoints() {
        let folder = tempfile::tempdir().unwrap();
        let socket = format!("unix:{}", folder.path().join("nbd").display());
        let export = Export::new("", 1 << 20, 512);
        let open = options(&[&socket, "tcp:127.0.0.1:0"], false, false);
        let open = open.open(&export, Clock::start()).map_err(|failure| failure.to_string()).unwrap();
        let endpoints = Endpoints(open.endpoints);
        let addresses: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.address.as_str()).collect();
        assert!(addresses[0].starts_with("nbd://127.0.0.1:"), "{addresses:?}");
        assert!(addresses[1].starts_with("nbd+unix:///"), "{addresses:?}");
        assert_eq!(endpoints.to_string(), addresses.join(", "));
        assert_eq!(endpoints.nbd().unwrap().to_string(), addresses[0]);
        assert_eq!((open.frontends.len(), open.file.is_none()), (2, true));
    }

    #[test]
    fn socket_in_a_served_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (served, link) = (folder.path().join("served"), folder.path().join("link"));
        std::fs::create_dir_all(served.join("inner")).unwrap();
        std::os::unix::fs::symlink("served", &link).unwrap();
        let ProtocolValue::Path(read) = fuse::PROTOCOL.value else { panic!("{:?}", fuse::PROTOCOL) };
        let check = |socket: &Path, directory: &Path| {
            let mut options = FrontendOptions::default().with(nbd(&format!("unix:{}", socket.display())));
            options.openings.push(read(directory.into()));
            options.check()
        };
        for directory in [&served, &link] {
            for socket in [
                served.join("socket"),
                link.join("socket"),
                served.join("inner/socket"),
                served.join("absent/socket"),
                folder.path().join("./link/../served/socket"),
            ] {
                let failure = check(&socket, directory).unwrap_err();
                let expected = format!("--nbd unix:{}: the path lies in ", socket.display());
                assert!(failure.to_string().starts_with(&expected), "{failure}");
                assert!(failure.to_string().ends_with("where --fuse serves the device"), "{failure}");
            }
            check(&folder.path().join("served.socket"), directory).unwrap();
            check(&served.join("inner/../../socket"), directory).unwrap();
        }
        options(&["tcp:"], true, true).check().unwrap();
    }

    #[test]
    fn error_names_the_option_of_the_frontend() {
        let options = options(&["unix:/no/such/folder/nbd"], false, false);
        let Err(failure) = options.open(&Export::new("", 1 << 20, 512), Clock::start()) else {
            panic!("it is open");
        };
        assert!(failure.to_string().starts_with("--nbd unix:/no/such/folder/nbd: "), "{failure}");
    }
}
