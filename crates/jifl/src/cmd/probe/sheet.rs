// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `jifl probe`.

use std::collections::BTreeMap;

use jifl_sys::abi::{HITS_MISSED, HITS_MOVED, HITS_NO_ROOM, HITS_SWITCHED_OFF, Hits};
use serde::Serialize;
use serde_json::Value;

use super::Format;
use super::groups::Groups;
use super::place::Places;
use super::word::Word;
use crate::base::duration;
use crate::session::report::Report;
use crate::session::table::Rest;
use crate::show::table::table;
use crate::show::text::{csv, grouped, json};

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
    /// What the session took.
    #[serde(flatten)]
    pub cost: Cost,
    duration_ns: u64,
}

/// What a session took.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    /// Until all places had their breakpoints.
    start_ns: u64,
    /// Until all of them were gone, and no thread was in inserted code.
    end_ns: u64,
    /// Of the module, to translate blocks.
    translate_ns: u64,
    /// Blocks that were translated.
    blocks: u64,
}

impl Cost {
    /// That of a session with this report.
    pub fn of(report: &Report) -> Cost {
        Cost {
            start_ns: report.start_ns,
            end_ns: report.end_ns,
            translate_ns: report.cost.translate_ns,
            blocks: report.cost.blocks,
        }
    }

    fn text(self) -> String {
        format!(
            "# set up in {}, taken away in {}; translation {}, {} blocks\n",
            duration::show(self.start_ns),
            duration::show(self.end_ns),
            duration::show(self.translate_ns),
            grouped(self.blocks)
        )
    }
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
pub struct Row<'a> {
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

impl<'a> Row<'a> {
    /// Names, hits and how often a breakpoint was met: of the word, and with `each` of its places,
    /// if it means several.
    pub fn lines(&self, each: bool) -> impl Iterator<Item = (&'a str, u64, u64)> {
        let places = self.each.iter().filter(move |_| each && self.places > 1);
        let places = places.map(|one| (one.place, one.hits, one.caught));
        [(self.place, self.hits, self.caught)]
            .into_iter()
            .chain(places)
    }
}

/// The rows of words, by the counts of all places.
pub fn rows<'a>(words: &'a [Word], places: &'a Places, hits: &[Hits]) -> Vec<Row<'a>> {
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
    words.iter().zip(&places.of_words).map(row).collect()
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
        let sum = |what: fn(&Hits) -> u64| hits.iter().map(what).sum();
        let with = |flag| hits.iter().filter(|hits| hits.flags & flag != 0).count() as u64;
        Sheet {
            command: "probe",
            places: rows(words, places, hits),
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
            cost: Cost::default(),
            duration_ns,
        }
    }

    /// `each`: with the places of words that mean several. bar: characters of the longest bar of a
    /// histogram.
    pub fn text(&self, each: bool, bar: usize) -> String {
        let mut lines = vec![["PLACE", "HITS", "CAUGHT"].map(str::to_owned).to_vec()];
        for row in &self.places {
            for (at, (place, hits, caught)) in row.lines(each).enumerate() {
                let indent = if at > 0 { "  " } else { "" };
                lines.push(vec![
                    format!("{indent}{place}"),
                    grouped(hits),
                    grouped(caught),
                ]);
            }
        }
        let mut text = String::new();
        if let Some(groups) = &self.groups {
            text += &groups.text(bar);
            text.push('\n');
        }
        text += &table(&lines);
        text + &self.notes()
    }

    /// In this form, which is none for people.
    pub fn render(&self, format: Format, each: bool) -> String {
        match (format, &self.groups) {
            (Format::Csv, Some(groups)) => groups.csv(),
            (Format::Csv, None) => {
                let mut text = "place,hits,caught\n".to_owned();
                for (place, hits, caught) in self.places.iter().flat_map(|row| row.lines(each)) {
                    text += &format!("{},{hits},{caught}\n", csv(place));
                }
                text
            }
            _ => json(self),
        }
    }

    /// As one object.
    pub fn object(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Lines that begin with `#`: what was missed, and what the session took.
    pub fn notes(&self) -> String {
        let mut text = format!(
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
        text += &self.of_programs();
        text + &self.cost.text()
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
             # missed 1; threads led into the cache 3\n\
             # set up in 0 ns, taken away in 0 ns; translation 0 ns, 0 blocks\n"
        );
        assert_eq!(
            sheet.text(true, 9),
            "PLACE         HITS  CAUGHT\n\
             fn:f%return  1,005       3\n  \
               f+0x1          5       1\n  \
               f+0x9      1,000       2\n\
             fn:f+0x3         7       0\n\
             # missed 1; threads led into the cache 3\n\
             # set up in 0 ns, taken away in 0 ns; translation 0 ns, 0 blocks\n"
        );
    }

    #[test]
    fn spreadsheets_have_the_places_alone() {
        let words = [Word::parse("fn:f%return").unwrap()];
        let hit = |hits| Hits {
            hits,
            ..Hits::default()
        };
        let places = Places {
            of_words: vec![vec![0, 1]],
            names: vec!["f+0x1".into(), "f+0x2".into()],
            ..Places::default()
        };
        let sheet = Sheet::of(&words, &places, &[hit(5), hit(7)], [0; 3], 5);
        let title = "place,hits,caught\nfn:f%return,12,0\n";
        assert_eq!(sheet.render(Format::Csv, false), title);
        assert_eq!(
            sheet.render(Format::Csv, true),
            title.to_owned() + "f+0x1,5,0\nf+0x2,7,0\n"
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
