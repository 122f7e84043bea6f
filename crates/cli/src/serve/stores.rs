//! Folders of object stores: each is mounted in a mount namespace of this process's own, so that nobody else sees it and nothing is
//! left behind, and `longhaul-store` answers the kernel. This process, to which strangers talk, has no connection to the store.

use crate::config::is_url;
use crate::failure::Failure;
use crate::lab_program::places;
use crate::values::describe;
use longhaul::daemon::mounts;
use longhaul::daemon::policy::Policy;
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

/// The folders of object stores that are served.
#[derive(Default)]
pub struct Stores {
    mounted: HashMap<PathBuf, PathBuf>,
    running: Vec<Running>,
}

/// A program that answers for one of them. When its standard input ends, so does it.
struct Running {
    place: String,
    child: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Stores {
    /// Mount what a policy names. Before this process has other threads. `variables`: how the store is reached.
    pub fn mount(policy: &Policy, variables: &[(&str, String)]) -> Result<Stores, Failure> {
        let mut stores = Stores::default();
        let grants = policy.grants().map(|(_, grant)| grant);
        for place in grants.map(|grant| &grant.folder).filter(|folder| is_url(folder)) {
            if !stores.mounted.contains_key(place) {
                let (folder, device) =
                    mount_next(stores.mounted.len()).map_err(|error| no_mount(place, &error))?;
                stores.running.push(start(place, &device, variables)?);
                stores.mounted.insert(place.clone(), folder);
            }
        }
        Ok(stores)
    }

    /// Put where they are mounted in place of what a policy calls them.
    pub fn put_in_place(&self, policy: &mut Policy) -> Result<(), Failure> {
        for grant in policy.users.iter_mut().flat_map(|user| &mut user.grants) {
            if is_url(&grant.folder) {
                let folder = self.mounted.get(&grant.folder).ok_or_else(|| {
                    let place = grant.folder.display();
                    Failure::Failed(format!("{place}: another folder of an object store takes a restart"))
                })?;
                grant.folder.clone_from(folder);
            }
        }
        Ok(())
    }

    /// Call this when one of them has ended by itself.
    pub fn watch(&mut self, ended: impl Fn(&str) + Clone + Send + 'static) -> io::Result<()> {
        for running in &mut self.running {
            let (place, ended) = (running.place.clone(), ended.clone());
            let Some(mut said) = running.said.take() else { continue };
            thread::Builder::new().name("store".into()).spawn(move || {
                let _ = io::copy(&mut said, &mut io::sink());
                ended(&place);
            })?;
        }
        Ok(())
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        for running in &mut self.running {
            drop(running.child.stdin.take());
            // The sandbox may not allow to wait for it; then it ends by itself.
            let _ = running.child.wait();
        }
    }
}

/// Mount a folder that nobody answers for yet, on an empty one. This process alone sees it, so others can use that for theirs.
fn mount_next(before: usize) -> io::Result<(PathBuf, OwnedFd)> {
    if before == 0 {
        mounts::separate()?;
    }
    let state = longhaul::state_folder().ok_or(ErrorKind::NotFound)?;
    let folder = state.join("store").join("mounted").join(before.to_string());
    fs::create_dir_all(&folder)?;
    let device = mounts::mount_fuse(PROGRAM, &folder)?;
    Ok((folder, device))
}

fn no_mount(place: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!(
        "{}: cannot be mounted: {}; it takes /dev/fuse, and either root or namespaces of one's own (a container needs \
         --device /dev/fuse and --cap-add SYS_ADMIN)",
        place.display(),
        describe(error)
    ))
}

/// Start the program that answers for a mount, and wait until it does.
fn start(place: &Path, device: &OwnedFd, variables: &[(&str, String)]) -> Result<Running, Failure> {
    // It is to have this one.
    fcntl_setfd(device, FdFlags::empty()).map_err(|error| no_mount(place, &error.into()))?;
    let failed = |what: String| Failure::Failed(format!("{}: {what}", place.display()));
    for program in places(PROGRAM) {
        let started = Command::new(&program)
            .arg("mount")
            .arg("--with-parent")
            .arg(place)
            .arg(format!("/dev/fd/{}", device.as_raw_fd()))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = match started {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(format!("{}: {}", program.display(), describe(&error)))),
            Ok(child) => child,
        };
        let mut said = child.stdout.take().map(BufReader::new);
        let mut line = String::new();
        if let Some(said) = &mut said {
            let _ = said.read_line(&mut line);
        }
        if line.is_empty() {
            let _ = child.wait();
            return Err(failed(format!("{PROGRAM} could not start; it has said why")));
        }
        return Ok(Running { place: place.display().to_string(), child, said });
    }
    Err(failed(format!(
        "is served by the program {PROGRAM}, which is not installed: put it beside longhaul or on the PATH"
    )))
}

const PROGRAM: &str = "longhaul-store";
