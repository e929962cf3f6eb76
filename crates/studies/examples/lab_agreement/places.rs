//! The two places in which a job runs over emulated links.

use gridspan_studies::gridctl;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Two sites with one host each, as a shorthand, and the grid file of these hosts for a job in the
/// lab. The file has no links, because the lab emulates them.
const SHAPE: &str = "2x1";
const HOSTS: &str = "[site.a]\nhosts = [\"a1\"]\n\n[site.b]\nhosts = [\"b1\"]\n";
/// The host to which datagrams are sent.
const OTHER: &str = "b1";

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With `gridctl run --emulate`.
    Emulated,
    /// On the hosts of a lab.
    Lab,
}

/// `gridctl` and the grid file. The file is removed at the end.
pub(crate) struct Places {
    gridctl: PathBuf,
    hosts: PathBuf,
}

impl Places {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let gridctl = gridctl()?;
        let name = format!("gridspan-lab-agreement-{}.toml", std::process::id());
        let hosts = std::env::temp_dir().join(name);
        fs::write(&hosts, HOSTS)?;
        Ok(Self { gridctl, hosts })
    }

    /// Returns the reason if there can be no lab here.
    pub(crate) fn missing_lab(&self) -> Result<Option<String>, Box<dyn Error>> {
        let mut command = self.lab("wan=5ms");
        let output = command.arg("true").output()?;
        match output.status.code() {
            Some(0) => Ok(None),
            Some(1) => Ok(Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
            _ => Err(failure(&command, &output).into()),
        }
    }

    /// The shorthand of the grid with a link.
    pub(crate) fn spec(&self, link: &str) -> String {
        format!("{SHAPE},{link}")
    }

    /// Runs a job, and returns its output.
    pub(crate) fn run(
        &self,
        place: Place,
        link: &str,
        job: &[String],
    ) -> Result<String, Box<dyn Error>> {
        let mut command = match place {
            Place::Emulated => {
                let mut command = Command::new(&self.gridctl);
                command.args(["run", "--driver", "cluster", "--emulate", &self.spec(link)]);
                command
            }
            Place::Lab => {
                let mut command = self.lab(link);
                command.arg(&self.gridctl).args(["run", "--grid"]).arg(&self.hosts);
                command
            }
        };
        printed(command.args(job))
    }

    /// Sends datagrams from one host of a lab to the other. Returns how many were lost.
    pub(crate) fn lost_in_lab(&self, link: &str, datagrams: u32) -> Result<u32, Box<dyn Error>> {
        let mut command = self.lab(link);
        command.arg(std::env::current_exe()?).args(["--probe", OTHER]);
        let text = printed(command.args(["--datagrams", &datagrams.to_string()]))?;
        let arrived: u32 = text.trim().parse()?;
        Ok(datagrams.saturating_sub(arrived))
    }

    /// The command line of `gridctl lab` with a link, up to the command that the lab runs.
    fn lab(&self, link: &str) -> Command {
        let mut command = Command::new(&self.gridctl);
        command.args(["lab", "--emulate", &self.spec(link), "--"]);
        command
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_file(&self.hosts);
    }
}

/// Runs a command to its end, and passes on its warnings, such as that packets of a lab were late.
fn printed(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(failure(command, &output).into());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    errors.lines().filter(|line| line.contains("warning")).for_each(|line| eprintln!("{line}"));
    Ok(String::from_utf8(output.stdout)?)
}

fn failure(command: &Command, output: &Output) -> String {
    let [text, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{command:?}: {}\n{text}{errors}", output.status)
}
