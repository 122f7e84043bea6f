//! The scripts that are submitted to Slurm. They stay in RUN, and whoever wants to submits them by hand.

use crate::args::job::SubmitArgs;
use crate::failure::Failure;
use std::fmt::Write as _;
use std::path::Path;

/// What the scripts are made of.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// This program, as the movers have it.
    program: String,
    /// The folder of the plan.
    run: String,
    /// For both scripts: partition, time, what else the user asks for.
    options: Vec<String>,
    /// How the parts are spread.
    spread: Spread,
    /// A part that failed is tried again until its job was restarted so many times.
    requeues: u32,
}

/// How the parts are spread over movers.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Each is a task of an array, so many of which run at a time.
    Array(Option<u32>),
    /// All are processes of one step on so many movers.
    Step(u32),
}

impl Scripts {
    /// For a plan in a folder. Both paths are absolute.
    pub fn new(args: &SubmitArgs, program: &Path, run: &Path) -> Result<Scripts, Failure> {
        let time = args.time.iter().map(|time| format!("--time={time}"));
        let partition = args.partition.iter().map(|partition| format!("--partition={partition}"));
        let options: Vec<String> = partition.chain(time).chain(args.sbatch.iter().cloned()).collect();
        if let Some(odd) = options.iter().find(|option| option.contains(char::is_control)) {
            return Err(Failure::Usage(format!("{odd:?} cannot stand in a script for sbatch")));
        }
        let spread = match args.nodes {
            Some(nodes) => Spread::Step(nodes.get()),
            None => Spread::Array(args.array.and_then(|array| array.at_a_time).map(u32::from)),
        };
        Ok(Scripts {
            program: text_of(program)?,
            run: text_of(run)?,
            options,
            spread,
            requeues: args.requeues,
        })
    }

    /// The script that moves so many parts.
    pub fn parts(&self, parts: u32) -> String {
        let (what, log) = match self.spread {
            Spread::Array(_) => ("one for each task of the array", "part-%a.log"),
            Spread::Step(_) => ("all at a time on the movers of one allocation", "parts.log"),
        };
        let mut text = self.head(&format!("The parts of a copy, {what}"), "longhaul", log);
        match self.spread {
            Spread::Array(at_a_time) => {
                let at_a_time = at_a_time.map_or_else(String::new, |number| format!("%{number}"));
                directive(&mut text, &[format!("--array=0-{}{at_a_time}", parts.saturating_sub(1))]);
            }
            Spread::Step(nodes) => directive(&mut text, &[format!("--nodes={nodes}")]),
        }
        text +=
            "# Before the time limit the parts are told to stop, which takes them no more than a moment.\n";
        directive(&mut text, &[format!("--signal=TERM@{NOTICE_SECONDS}")]);
        directive(&mut text, &self.options);
        let (step, others) = match self.spread {
            Spread::Array(_) => ("--ntasks=1".into(), "LONGHAUL_PART"),
            Spread::Step(_) => (
                format!("--ntasks={parts} --overcommit --distribution=cyclic --kill-on-bad-exit=0"),
                "LONGHAUL_PART SLURM_ARRAY_TASK_ID",
            ),
        };
        let (program, run, requeues) = (shell_word(&self.program), shell_word(&self.run), self.requeues);
        write!(
            text,
            "
# The number of a part is that of the task in the array, or else in the step; what came along from elsewhere is none.
unset {others}
srun {step} {program} cp --plan {run}
status=$?

# 0: done. 2: wrong usage, which does not mend. 130: stopped before its time, and goes on in another turn, unless this one
# had no time at all. Whatever else failed is tried again until the job was restarted {requeues} times.
if [ $status = 0 ] || [ $status = 2 ]; then
    exit $status
elif [ $status = 130 ] && [ $SECONDS -ge {TURN_SECONDS_MIN} ] || [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {requeues} ]; then
    exec scontrol requeue \"$SLURM_JOB_ID\"
fi
exit $status
"
        )
        .expect("text can grow");
        text
    }

    /// The script that ends the copy when no part runs any more.
    pub fn finish(&self) -> String {
        let mut text = self.head("The last step of a copy", "longhaul-finish", "finish.log");
        directive(&mut text, &self.options);
        let (program, run) = (shell_word(&self.program), shell_word(&self.run));
        write!(text, "\nexec {program} finish {run}\n").expect("text can grow");
        text
    }

    fn head(&self, what: &str, name: &str, log: &str) -> String {
        let mut text = format!(
            "#!/bin/bash\n# {what}, as longhaul job submit gives it to Slurm. By hand: sbatch and this file.\n"
        );
        // Slurm fills in what follows a percent sign.
        let log = format!("--output={}/{LOGS}/{log}", self.run.replace('%', "%%"));
        directive(&mut text, &[format!("--job-name={name}"), log]);
        text += "# A mover that is lost has its work started elsewhere.\n";
        directive(&mut text, &["--requeue".into(), "--open-mode=append".into()]);
        text
    }
}

/// Where the jobs' output lies, below RUN.
pub const LOGS: &str = "logs";

/// A path as a script can name it.
fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.map(String::from).ok_or_else(|| {
        let path = path.display();
        Failure::Usage(format!("{path:?}: a script for sbatch cannot name this path; take one without control characters, in UTF-8"))
    })
}

/// Options on lines of their own, for sbatch to read.
fn directive(text: &mut String, options: &[String]) {
    for option in options {
        let plain = option.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=./%@:,+".contains(&byte));
        let quoted = || format!("\"{}\"", option.replace('\\', r"\\").replace('"', "\\\""));
        let option = if plain { option.clone() } else { quoted() };
        writeln!(text, "#SBATCH {option}").expect("text can grow");
    }
}

/// A word that a shell takes as it is.
fn shell_word(text: &str) -> String {
    shlex::try_quote(text).expect("no zero byte is in a path").into_owned()
}

/// For a part to write down what has come, and longer than Slurm takes to notice.
const NOTICE_SECONDS: u32 = 120;
/// Less is a time limit that is shorter than the notice: without an end, such turns would follow each other for ever.
const TURN_SECONDS_MIN: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::job::{JobArgs, JobCommand};
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn scripts(flags: &[&str], run: &str) -> Result<Scripts, Failure> {
        let line = [&["longhaul", "job", "submit", "-o", run, "src", "far:dst"], flags].concat();
        let Command::Job(JobArgs { command: JobCommand::Submit(args) }) =
            Cli::try_parse_from(line).unwrap().command
        else {
            panic!("it is submit")
        };
        Scripts::new(&args, Path::new("/opt/longhaul"), Path::new(run))
    }

    #[test]
    fn an_array_has_a_task_for_each_part() {
        let text = scripts(&["--array", "512%96", "--time=1:00:00"], "/shared/run").unwrap().parts(500);
        for line in [
            "#SBATCH --array=0-499%96",
            "#SBATCH --time=1:00:00",
            "#SBATCH --output=/shared/run/logs/part-%a.log",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
        assert!(text.contains("\nsrun --ntasks=1 /opt/longhaul cp --plan /shared/run\n"), "{text}");
        let text = scripts(&[], "/shared/run").unwrap().parts(64);
        assert!(text.contains("#SBATCH --array=0-63\n"), "{text}");
    }

    #[test]
    fn an_allocation_has_a_process_for_each_part_and_what_the_user_says_comes_last() {
        let flags = ["-N", "4", "--requeues=0", "--sbatch=--signal=TERM@60", "--sbatch", "-C big disk"];
        let text = scripts(&flags, "/shared/run").unwrap().parts(16);
        let (ours, users) = (text.find("--signal=TERM@120").unwrap(), text.find("--signal=TERM@60").unwrap());
        assert!(ours < users && text.contains("#SBATCH \"-C big disk\"\n"), "{text}");
        assert!(
            text.contains("#SBATCH --nodes=4\n") && text.contains("srun --ntasks=16 --overcommit"),
            "{text}"
        );
        assert!(text.contains("-lt 0"), "{text}");
    }

    #[test]
    fn odd_paths_are_quoted_for_sbatch_and_for_the_shell_and_others_are_refused() {
        let text = scripts(&[], "/a b/50%/it's").unwrap().finish();
        assert!(text.contains("#SBATCH \"--output=/a b/50%%/it's/logs/finish.log\"\n"), "{text}");
        assert!(text.contains("exec /opt/longhaul finish \"/a b/50%/it's\"\n"), "{text}");
        let refused = scripts(&[], "/a\nb").unwrap_err().to_string();
        assert!(refused.contains("control characters") && !refused.contains('\n'), "{refused}");
        scripts(&["--sbatch=--comment=a\nb"], "/a").unwrap_err();
    }
}
