//! Flags that say what is kept of files beyond contents, permissions and times.

use super::FILES;
use clap::Args;
use longhaul::Preserve;

/// What is kept of files beyond contents, permissions and times.
#[derive(Args, Debug)]
pub struct KeepArgs {
    /// Keep all that can be kept: -H -X -A --owner --group --devices --specials
    #[arg(short = 'a', long, help_heading = FILES)]
    pub archive: bool,
    /// Keep several names of one file as that; without it each becomes a file
    #[arg(short = 'H', long, help_heading = FILES)]
    pub hard_links: bool,
    /// Keep extended attributes; those of security. and trusted. take root there
    #[arg(short = 'X', long, help_heading = FILES)]
    pub xattrs: bool,
    /// Keep POSIX ACLs
    #[arg(short = 'A', long, help_heading = FILES)]
    pub acls: bool,
    /// Keep owners, and with them set-user-ID and sticky bits; takes root there
    #[arg(long, help_heading = FILES)]
    pub owner: bool,
    /// Keep groups, and with them set-group-ID bits
    #[arg(long, help_heading = FILES)]
    pub group: bool,
    /// Copy character and block devices as such; takes root there
    #[arg(long, help_heading = FILES)]
    pub devices: bool,
    /// Copy named pipes and sockets as such
    #[arg(long, help_heading = FILES)]
    pub specials: bool,
    /// Owners and groups by number, not by name
    #[arg(long, help_heading = FILES)]
    pub numeric_ids: bool,
}

impl KeepArgs {
    /// What they say.
    pub fn preserve(&self) -> Preserve {
        Preserve {
            hard_links: self.archive || self.hard_links,
            xattrs: self.archive || self.xattrs,
            acls: self.archive || self.acls,
            owner: self.archive || self.owner,
            group: self.archive || self.group,
            devices: self.archive || self.devices,
            specials: self.archive || self.specials,
            numeric_ids: self.numeric_ids,
            confined: false,
        }
    }
}
