//! Files while they are being written, as the kernel sees them.

use crate::common::*;
use longhaul_testing::skip;
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: u64 = 1 << 20;
const PART: &str = ".x.0123456789abcdef.longhaul-part";

/// The bucket, mounted.
struct Mounted {
    running: Running,
    at: PathBuf,
}

impl Mounted {
    /// `None`, with a line that says why, where nothing can be mounted.
    fn start(gateway: &Gateway, state: &Path, at: &Path) -> Option<Mounted> {
        let mut command = undisturbed(Command::new(STORE));
        command.args(["mount", "s3://bucket/a"]).arg(at).arg("--state").arg(state);
        let mut running = Running::start(command.envs(gateway.environment()));
        let is_there = |running: &Running| running.said()[0].contains(" is at ");
        wait_until("it is mounted or ends", || is_there(&running) || !running.is_running());
        if is_there(&running) {
            return Some(Mounted { running, at: at.into() });
        }
        skip(running.finish().stderr.trim());
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.running.signal(Signal::KILL);
        for program in ["umount", "fusermount3", "fusermount"] {
            let flag = if program == "umount" { "-l" } else { "-uz" };
            if Command::new(program).arg(flag).arg(&self.at).status().is_ok_and(|status| status.success()) {
                return;
            }
        }
    }
}

#[test]
fn a_part_makes_room_with_the_third_sync_after_it_was_stored() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let whole = noise(20 * MIB as usize, 7);
    let name = at.path().join(PART);
    let file = File::create_new(&name).unwrap();
    file.write_all_at(&whole[..17 * MIB as usize], 0).unwrap();
    wait_until("both whole parts are stored", || gateway.parts().len() == 2);
    let kept = || fs::metadata(state.path().join("files").join(PART)).unwrap().blocks() * 512;
    // The store may have it before it is known here.
    wait_until("there is room after some syncs", || {
        file.sync_data().unwrap();
        kept() <= 2 * MIB
    });
    assert_eq!(fs::metadata(&name).unwrap().len(), 17 * MIB);
    let file = File::options().read(true).write(true).open(&name).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(file.read_at(&mut buffer, 16 * MIB).unwrap(), 100);
    assert_eq!(buffer, whole[16 * MIB as usize..][..100]);

    // Whatever happens to this program, it goes on with what it has noted.
    drop(mounted);
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let file = File::options().read(true).write(true).open(&name).unwrap();
    file.write_all_at(&whole[17 * MIB as usize..], 17 * MIB).unwrap();
    fs::rename(&name, at.path().join("x")).unwrap();
    assert!(fs::read(at.path().join("x")).unwrap() == whole);
    assert!(fs::read(gateway.file("a/x")).unwrap() == whole);
    let mut parts = gateway.parts();
    parts.sort_unstable();
    assert_eq!(parts, [1, 2, 3]);
    assert_eq!(fs::read_dir(state.path().join("files")).unwrap().count(), 0, "nothing is left here");
}

#[test]
fn a_part_that_was_changed_after_it_was_stored_is_not_gone_on_with_after_a_kill() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let mut whole = noise(17 * MIB as usize, 11);
    let name = at.path().join(PART);
    let file = File::create_new(&name).unwrap();
    file.write_all_at(&whole, 0).unwrap();
    wait_until("both whole parts are stored", || gateway.parts().len() == 2);
    drop((file, mounted));
    // As if its program had been killed before the store had what was written last.
    whole[5..15].fill(1);
    let kept = File::options().write(true).open(state.path().join("files").join(PART)).unwrap();
    kept.write_all_at(&whole[5..15], 5).unwrap();
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    fs::rename(&name, at.path().join("x")).unwrap();
    assert!(fs::read(gateway.file("a/x")).unwrap() == whole);
    let mut parts = gateway.parts();
    parts.sort_unstable();
    assert_eq!(parts, [1, 1, 2, 3], "the other one is taken as it is");
}

#[test]
fn a_name_may_be_as_long_as_names_can_be() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let long = "n".repeat(222);
    let name = at.path().join(format!(".{long}.0123456789abcdef.longhaul-part"));
    assert_eq!(name.file_name().unwrap().len(), 254);
    let whole = noise(9 * MIB as usize, 12);
    fs::write(&name, &whole).unwrap();
    // Such a name may be a cut one, so nothing leaves before it has the real one.
    fs::rename(&name, at.path().join(&long)).unwrap();
    assert!(fs::read(gateway.file(&format!("a/{long}"))).unwrap() == whole);
}

#[test]
fn who_needs_what_the_store_alone_has_begins_anew() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    for shortens in [true, false] {
        let name = at.path().join(PART);
        let file = File::options().create_new(true).read(true).write(true).open(&name).unwrap();
        file.write_all_at(&noise(9 * MIB as usize, 10), 0).unwrap();
        let kept = || fs::metadata(state.path().join("files").join(PART)).unwrap().blocks() * 512;
        wait_until("there is room after some syncs", || {
            file.sync_data().unwrap();
            kept() <= 2 * MIB
        });
        let mut buffer = [0; 100];
        assert!(file.read_at(&mut buffer, MIB).is_err(), "it is not here");
        file.sync_data().unwrap();
        let done = if shortens { file.set_len(7 * MIB) } else { file.write_all_at(&buffer, MIB) };
        assert!(done.is_err());
        assert!(file.sync_data().is_err(), "nobody is told that it is safe");
        assert!(File::open(&name).is_err(), "for the next one it is not there");
        assert!(!gateway.file("a/x").exists());
    }
}

#[test]
fn an_upload_that_the_store_gave_up_never_becomes_an_object() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let (name, file) = with_a_part_stored(&gateway, at.path());
    drop((file, mounted));
    fs::remove_dir_all(gateway.file(".sgwtmp/multipart")).unwrap();
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    assert!(fs::rename(&name, at.path().join("x")).is_err());
    assert_begins_anew(&gateway, at.path());
}

/// A file on its way, of which the store has one part.
fn with_a_part_stored(gateway: &Gateway, at: &Path) -> (PathBuf, File) {
    let name = at.join(PART);
    let file = File::create_new(&name).unwrap();
    file.write_all_at(&noise(9 * MIB as usize, 8), 0).unwrap();
    wait_until("a part is stored", || gateway.parts().len() == 1);
    (name, file)
}

/// Nothing has come of it, and something comes of the next one of its name.
fn assert_begins_anew(gateway: &Gateway, at: &Path) {
    let name = at.join(PART);
    assert!(!gateway.file("a/x").exists());
    assert!(!name.exists(), "whoever copies begins anew");
    write(&name, "short");
    fs::rename(&name, at.join("x")).unwrap();
    assert_eq!(fs::read(gateway.file("a/x")).unwrap(), b"short");
}

/// As the rules of buckets do, and stores by themselves.
#[test]
fn an_upload_that_the_store_gives_up_meanwhile_begins_anew() {
    for is_whole in [false, true] {
        let Some(gateway) = Gateway::start() else { return };
        let (state, at) = (folder(), folder());
        let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
        let (name, file) = with_a_part_stored(&gateway, at.path());
        if is_whole {
            file.write_all_at(&noise(7 * MIB as usize, 9), 9 * MIB).unwrap();
            wait_until("all is stored", || gateway.parts().len() == 2);
        }
        fs::remove_dir_all(gateway.file(".sgwtmp/multipart")).unwrap();
        assert!(fs::rename(&name, at.path().join("x")).is_err());
        assert!(file.sync_data().is_err(), "nobody is told that it is safe");
        drop(file);
        assert_begins_anew(&gateway, at.path());
    }
}

#[test]
fn what_changes_after_its_part_was_stored_is_stored_again() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    let mut whole = noise(18 * MIB as usize, 9);
    let name = at.path().join(PART);
    let file = File::create_new(&name).unwrap();
    file.write_all_at(&whole, 0).unwrap();
    wait_until("both whole parts are stored", || gateway.parts().len() == 2);
    whole[100..200].fill(1);
    file.write_all_at(&whole[100..200], 100).unwrap();
    // A hole at the end, and then less of it.
    file.set_len(30 * MIB).unwrap();
    file.set_len(17 * MIB).unwrap();
    whole.truncate(17 * MIB as usize);
    fs::rename(&name, at.path().join("x")).unwrap();
    assert!(fs::read(gateway.file("a/x")).unwrap() == whole);
    assert!(fs::read(at.path().join("x")).unwrap() == whole);
}

#[test]
fn only_what_is_on_its_way_can_be_written() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, at) = (folder(), folder());
    let Some(_mounted) = Mounted::start(&gateway, state.path(), at.path()) else { return };
    assert!(File::create_new(at.path().join("x")).is_err(), "a name that is no copy's");
    write(gateway.file("a/there"), "whole");
    wait_until("what others store is seen", || at.path().join("there").exists());
    assert!(File::options().write(true).open(at.path().join("there")).is_err());
    assert_eq!(fs::read(at.path().join("there")).unwrap(), b"whole");
    fs::create_dir(at.path().join("folder")).unwrap();
    write(gateway.file("a/folder/file"), "of others");
    assert!(fs::remove_dir(at.path().join("folder")).is_err(), "somebody has put something there");
    assert_eq!(gateway.keys("a/folder"), ["file"]);
}
