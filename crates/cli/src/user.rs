//! `longhaul user`.

use crate::args::{UserArgs, UserCommand};
use crate::config::{ConfigError, Draft, load_or_make};
use crate::failure::Failure;
use crate::output::{self, Exit, say};
use longhaul::daemon::policy::Access;
use longhaul::daemon::token::UserToken;
use std::path::Path;

/// Change or show who may use a server.
pub fn run(args: &UserArgs) -> Result<Exit, Failure> {
    match &args.command {
        UserCommand::Add { name, config, folder } => add(name, config, folder)?,
        UserCommand::List { config } => list(config)?,
        UserCommand::Revoke { name, config } => {
            let mut draft = Draft::open(config)?;
            draft.revoke(name)?;
            draft.save()?;
            say(&format!("{name} is revoked {RELOAD}; copies under way go on to their end"));
        }
    }
    Ok(Exit::Done)
}

fn add(name: &str, config: &Path, folders: &[(String, Access)]) -> Result<(), ConfigError> {
    let mut draft = Draft::open(config)?;
    let identity = load_or_make(&draft.config().key_file, config)?;
    let token = UserToken::generate(*identity.public()).map_err(ConfigError::Random)?;
    draft.add(name, &token, folders)?;
    draft.save()?;
    output::result(&token.text());
    say(&format!("{name} is added {RELOAD}; the token above is shown this once"));
    Ok(())
}

fn list(config: &Path) -> Result<(), ConfigError> {
    for user in Draft::open(config)?.list() {
        output::result(&format!("{}  {}  {}", user.name, user.id, user.folders));
    }
    Ok(())
}

const RELOAD: &str = "once the server has read its configuration again (SIGHUP)";
