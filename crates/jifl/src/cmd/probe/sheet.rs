// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `jifl probe`.

use std::collections::BTreeMap;

use jifl_sys::abi::{HITS_MISSED, HITS_MOVED, HITS_NO_ROOM, HITS_SWITCHED_OFF, Hits};
use serde::Serialize;

use super::groups::Groups;
use super::place::Places;
use super::word::Word;
use crate::session::table::Rest;
use crate::show::table::table;
use crate::show::text::grouped;

/// What is shown.
#[derive(Debug, Serialize)]
pub struct Sheet<'a> {
    command: &'static str,
    places: Vec<Row<'a>>,
    /// Of those that were caught, threads that went on in the code cache.
    moved: u64,
    /// Executions that were not counted: in the handler of a kprobe.
    missed: u64,
    /// Places that some copy has no counter for.
    incomplete: u64,
    /// Places whose breakpoint was gone for a time, as kprobes were switched off.
    switched_off: u64,
    /// Functions that globs mean, and that were left out: how many for each reason.
    left_out: BTreeMap<&'a str, usize>,
    /// Executions where the condition of --if could not be told: they are not in the hits.
    untested: u64,
    /// Executions inside a program of this command's: theirs has not run.
    nested: u64,
    /// Hits for which the BPF program has not run.
    unrun: u64,
    /// What --by, --hist and --stack have.
    #[serde(flatten)]
    pub groups: Option<Groups>,
    /// Of --record.
    pub records: Option<Recorded>,
    duration_ns: u64,
}

/// How many records there were.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Recorded {
    /// Those that were written.
    pub written: u64,
    /// Those that found no room.
    pub lost: u64,
}

/// A word of the command line.
#[derive(Debug, Serialize)]
struct Row<'a> {
    place: &'a str,
    /// Instructions, or ways of branches, that it means.
    places: usize,
    hits: u64,
    caught: u64,
    each: Vec<Each<'a>>,
}

/// A place of a word.
#[derive(Debug, Serialize)]
struct Each<'a> {
    place: &'a str,
    hits: u64,
    caught: u64,
}

impl<'a> Sheet<'a> {
    /// What the module says of these words' places.
    pub fn of(
        words: &'a [Word],
        places: &'a Places,
        hits: &[Hits],
        rest: Rest,
        duration_ns: u64,
    ) -> Sheet<'a> {
        let each = |at: &usize| Each {
            place: &places.names[*at],
            hits: hits[*at].hits,
            caught: hits[*at].caught,
        };
        let row = |(word, places): (&'a Word, &Vec<usize>)| {
            let each: Vec<Each<'a>> = places.iter().map(each).collect();
            Row {
                place: &word.word,
                places: places.len(),
                hits: each.iter().map(|one| one.hits).sum(),
                caught: each.iter().map(|one| one.caught).sum(),
                each,
            }
        };
        let sum = |what: fn(&Hits) -> u64| hits.iter().map(what).sum();
        let with = |flag| hits.iter().filter(|hits| hits.flags & flag != 0).count() as u64;
        Sheet {
            command: "probe",
            places: words.iter().zip(&places.of_words).map(row).collect(),
            moved: rest[HITS_MOVED],
            missed: rest[HITS_MISSED],
            incomplete: with(HITS_NO_ROOM),
            switched_off: with(HITS_SWITCHED_OFF),
            left_out: places
                .left_out
                .iter()
                .map(|(why, all)| (*why, all.len()))
                .collect(),
            untested: sum(|hits| hits.untested),
            nested: sum(|hits| hits.nested),
            unrun: sum(|hits| hits.unrun),
            groups: None,
            records: None,
            duration_ns,
        }
    }

    /// `each`: with the places of words that mean several. bar: characters of the longest bar of a
    /// histogram.
    pub fn text(&self, each: bool, bar: usize) -> String {
        let mut lines = vec![["PLACE", "HITS", "CAUGHT"].map(str::to_owned).to_vec()];
        for row in &self.places {
            lines.push(vec![
                row.place.to_owned(),
                grouped(row.hits),
                grouped(row.caught),
            ]);
            for one in row.each.iter().filter(|_| each && row.places > 1) {
                lines.push(vec![
                    format!("  {}", one.place),
                    grouped(one.hits),
                    grouped(one.caught),
                ]);
            }
        }
        let mut text = String::new();
        if let Some(groups) = &self.groups {
            text += &groups.text(bar);
            text.push('\n');
        }
        text += &table(&lines);
        text += &format!(
            "# missed {}; threads led into the cache {}\n",
            grouped(self.missed),
            grouped(self.moved)
        );
        if self.incomplete > 0 {
            text += &format!(
                "# {} places have too few hits: a copy of their block had no room for a counter\n",
                grouped(self.incomplete)
            );
        }
        if self.switched_off > 0 {
            text += &format!(
                "# {} places may have too few hits: kprobes were switched off meanwhile; leave 1 \
                 in /sys/kernel/debug/kprobes/enabled\n",
                grouped(self.switched_off)
            );
        }
        text + &self.of_programs()
    }

    /// What programs have left out.
    fn of_programs(&self) -> String {
        let mut text = String::new();
        if let Some(Recorded { written, lost }) = self.records {
            text += &format!("# {} records", grouped(written));
            if lost > 0 {
                text += &format!(
                    "; {} hits found no room for theirs: give --ring more, or record less",
                    grouped(lost)
                );
            }
            text.push('\n');
        }
        let mut said = |number: u64, what: &str| {
            if number > 0 {
                text += &format!("# {} {what}\n", grouped(number));
            }
        };
        said(
            self.untested,
            "executions are not counted: what --if asks could not be read there",
        );
        said(
            self.nested,
            "executions were inside such a probe's own work, which was not done for them",
        );
        said(
            self.unrun,
            "hits did not run the BPF program: one ran on that processor, or a map was locked",
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_the_hits_of_all_its_places() {
        let words = ["fn:f%return", "fn:f+0x3"].map(|word| Word::parse(word).unwrap());
        let hit = |hits, caught| Hits {
            hits,
            caught,
            ..Hits::default()
        };
        let places = Places {
            of_words: vec![vec![0, 2], vec![1]],
            names: ["f+0x1", "f+0x3", "f+0x9"].map(str::to_owned).to_vec(),
            ..Places::default()
        };
        let sheet = Sheet::of(
            &words,
            &places,
            &[hit(5, 1), hit(7, 0), hit(1000, 2)],
            [3, 1, 0],
            5,
        );
        assert_eq!(
            sheet.text(false, 9),
            "PLACE         HITS  CAUGHT\n\
             fn:f%return  1,005       3\n\
             fn:f+0x3         7       0\n\
             # missed 1; threads led into the cache 3\n"
        );
        assert_eq!(
            sheet.text(true, 9),
            "PLACE         HITS  CAUGHT\n\
             fn:f%return  1,005       3\n  \
               f+0x1          5       1\n  \
               f+0x9      1,000       2\n\
             fn:f+0x3         7       0\n\
             # missed 1; threads led into the cache 3\n"
        );
    }

    #[test]
    fn what_is_not_complete_is_said() {
        let words = [Word::parse("fn:f%return").unwrap()];
        let hit = |flags| Hits {
            flags,
            ..Hits::default()
        };
        let all = [hit(HITS_NO_ROOM), hit(HITS_SWITCHED_OFF | HITS_NO_ROOM)];
        let places = Places {
            of_words: vec![vec![0, 1]],
            names: vec!["f+0x1".into(), "f+0x2".into()],
            ..Places::default()
        };
        let text = Sheet::of(&words, &places, &all, [0; 3], 5).text(false, 9);
        assert!(
            text.contains("\n# 2 places have too few hits: a copy"),
            "{text}"
        );
        assert!(
            text.contains("\n# 1 places may have too few hits: kprobes"),
            "{text}"
        );
    }
}
