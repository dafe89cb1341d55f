// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tasks of a session as one program tells another: `jifl --host` the daemon of `jifl serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::exit::Failure;
use crate::session::scope::Tasks;

/// Which tasks a session is about; all that are given have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filters {
    /// This process, with all its threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// This thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<i32>,
    /// Tasks of this command name, or of names that match a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tasks in this cgroup or below it; relative to /sys/fs/cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl Tasks {
    /// Those of filters, for as long as the session lasts.
    pub fn of(filters: &Filters) -> Tasks {
        Tasks {
            pid: filters.pid,
            tid: filters.tid,
            comm: filters.name.as_ref().map(OsString::from),
            cgroup: filters.cgroup.clone(),
            ..Tasks::default()
        }
    }

    /// The filters that select the same tasks on another machine.
    ///
    /// # Errors
    /// They are about a command, which would run here, or the name is no text.
    pub fn filters(&self) -> Result<Filters, Failure> {
        if self.begins() {
            return Err(Failure::usage(
                "-- CMD would run here, and --host looks at another machine: leave it out, and give \
                 --for TIME, or -p, -n or --cgroup of what runs there",
            ));
        }
        let name = self.comm.as_ref().map(|name| {
            name.to_str().map(str::to_owned).ok_or_else(|| {
                Failure::usage("-n: with --host a command's name has to be text (UTF-8)")
            })
        });
        Ok(Filters {
            pid: self.pid,
            tid: self.tid,
            name: name.transpose()?,
            cgroup: self.cgroup.clone(),
        })
    }

    /// How long the session is to last, if that was said.
    pub fn time(&self) -> Option<Duration> {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::parse::parse;
    use crate::session::scope::Scope;

    #[derive(clap::Args)]
    struct Given {
        #[command(flatten)]
        tasks: Tasks,
    }

    #[test]
    fn filters_select_the_same_tasks() {
        let given: Given = parse("-p 7 -t 9 -n kworker/* --cgroup a.slice --for 2s").unwrap();
        let filters = given.tasks.filters().unwrap();
        let text = serde_json::to_string(&filters).unwrap();
        assert_eq!(
            text,
            r#"{"pid":7,"tid":9,"name":"kworker/*","cgroup":"a.slice"}"#
        );
        let again: Filters = serde_json::from_str(&text).unwrap();
        assert_eq!(Tasks::of(&again).filters().unwrap(), filters);
        assert_eq!(given.tasks.time(), Some(Duration::from_secs(2)));
        let none: Filters = serde_json::from_str("{}").unwrap();
        assert_eq!(none, Filters::default());
        assert!(serde_json::from_str::<Filters>(r#"{"pod":1}"#).is_err());
    }

    #[test]
    fn a_command_runs_nowhere_else() {
        let given: Given = parse("-n a -- ls").unwrap();
        let refused = given.tasks.filters().unwrap_err();
        assert_eq!(refused.status, crate::base::exit::USAGE);
        assert!(refused.message.contains("--for"), "{}", refused.message);
        let scope = Tasks::of(&Filters {
            name: Some("sixteen-bytes-xx".into()),
            ..Filters::default()
        });
        let scope: Scope = scope.scope();
        assert!(scope.check().is_err());
    }
}
