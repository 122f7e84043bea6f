//! What writers are given to do.

use super::runs::Runs;
use longhaul_proto::session::manifest::Group;
use longhaul_proto::session::message::GroupHash;

/// Something for a writer to do.
pub(super) enum Job {
    /// Store what is in memory of a block; verify the groups that are complete.
    Block(Load),
    /// The sender's hash of a group of this writer's blocks.
    Expect(GroupHash),
    /// What is handed over of this group from now on came in after it was found to be wrong.
    BeginAnew(Group),
    /// All entries are settled: do what comes last.
    Finish,
    /// Do no more.
    Stop,
}

/// A block, or what there is of it.
pub(super) struct Load {
    pub block: u64,
    pub data: Box<[u8]>,
    /// What of `data` has come in, relative to the block.
    pub in_memory: Runs,
    /// That, and what has been stored before or is not wanted.
    pub covered: Runs,
}
