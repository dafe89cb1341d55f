// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what is true down to functions, call sites, and what calls are about.

use std::collections::BTreeMap;

use jifl_sys::abi::Time;

use super::{BELOW, PATHS, ROOTS, Walk};
use crate::cmd::search::hypotheses::Id;
use crate::cmd::search::stacks::{Frame, Stack, Ticked, hot_way, is_entry, taker};
use crate::cmd::search::tree::{Node, Unit};
use crate::cmd::stat::metric::wall;
use crate::kernel::pattern::source_name;
use crate::session::scope::Tasks;

/// A call that is part of it has at least this share of what is above it.
const MOST: f64 = 0.5;
/// Functions of a way that are tested at a time: each takes time to set up.
const TESTED: usize = 6;
/// What calls of functions are about.
const ABOUT: [(&str, &str); 10] = [
    ("vfs_read", "file->f_path"),
    ("vfs_write", "file->f_path"),
    ("vfs_fsync_range", "file->f_path"),
    ("file_write_and_wait_range", "file->f_path"),
    ("iterate_dir", "file->f_path"),
    ("do_unlinkat", "str(name->name)"),
    ("do_filp_open", "str(pathname->name)"),
    ("handle_mm_fault", "comm"),
    ("kernel_clone", "comm"),
    ("sock_sendmsg", "comm"),
];

impl Walk<'_> {
    /// Goes down from what is true, the largest first.
    pub(super) fn refine(&mut self) {
        let mut order: Vec<(Id, f64)> = Vec::new();
        for (id, node) in &self.tests {
            if node.holds() {
                order.push((*id, node.value));
            }
        }
        // What says less comes last: if the time is up, the others are done.
        order.sort_by(|(a, x), (b, y)| (*a == Id::Cpu).cmp(&(*b == Id::Cpu)).then(y.total_cmp(x)));
        for (id, _) in order {
            if let Some(why) = self.world.over() {
                let mut node = Node::new("below", "which function", Unit::Processors, 0.0);
                node.leave(why);
                self.node(id).children.push(node);
                continue;
            }
            let doing = format!("refining {}", self.node(id).name);
            self.say(&doing);
            match id {
                Id::Locks | Id::Disk | Id::Sync | Id::Network | Id::Delays => self.refine_sleep(id),
                Id::Cpu | Id::Kthread | Id::Faults | Id::Forks | Id::Spinning => {
                    self.refine_ticks(id)
                }
                Id::Interrupts => self.refine_interrupts(),
                Id::Calls | Id::Retries | Id::Idle => {}
            }
            self.finish(id);
        }
    }

    /// Down to the function that sleeps, and the place at which it does.
    pub(super) fn refine_sleep(&mut self, id: Id) {
        let mut places: BTreeMap<Frame, (f64, Stack)> = BTreeMap::new();
        for (_, stack) in self.sleeps.iter().filter(|(one, _)| *one == id) {
            if let Some(frame) = stack.frames.get(taker(&stack.frames)) {
                let place = places
                    .entry(frame.clone())
                    .or_insert_with(|| (0.0, stack.clone()));
                place.0 += stack.value;
                if stack.value > place.1.value {
                    place.1 = stack.clone();
                }
            }
        }
        let mut places: Vec<(Frame, (f64, Stack))> = places.into_iter().collect();
        places.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        let threshold = self.node(id).threshold * BELOW;
        places.retain(|(_, (value, _))| *value >= threshold);
        places.truncate(TESTED);
        // The stacks are exact, and have sleep that began before the session, too: a call that did
        // is not seen by a session of its function.
        let mut nodes = Vec::new();
        for (frame, (value, stack)) in places {
            let mut node = Node::new(&frame.name(), "tasks asleep in it", Unit::Tasks, threshold);
            node.decide(value);
            node.site = Some(frame.site());
            node.line = self.world.line(&frame);
            let at = taker(&stack.frames);
            node.path = stack.frames[at..].iter().map(Frame::site).collect();
            node.objects = vec![format!("by {}", stack.who)];
            nodes.push((node, stack));
        }
        nodes.sort_by(|(a, _), (b, _)| b.value.total_cmp(&a.value));
        if let Some((node, stack)) = nodes.first_mut() {
            let objects = self.objects(&stack.frames, |time| time.blocked_ns);
            node.objects.extend(objects);
            if id == Id::Locks {
                node.objects.extend(self.lock(&stack.frames));
            }
        }
        self.node(id).children = nodes.into_iter().map(|(node, _)| node).collect();
    }

    /// Which lock: what the function that waits for it was called with.
    pub(super) fn lock(&mut self, frames: &[Frame]) -> Option<String> {
        let slow = frames.iter().find(|frame| {
            [
                "__mutex_lock",
                "rwsem_down_",
                "__down",
                "ww_mutex_lock",
                "rt_mutex_slowlock",
            ]
            .iter()
            .any(|begin| frame.function.starts_with(begin))
        })?;
        let word = slow.word();
        let seen = self.about(&word, "$arg0", self.tasks()).ok()?;
        let (row, _) = *seen.ranked(|time| time.blocked_ns).first()?;
        let address = row.keys.values.first()?.as_u64()?;
        let name = self.world.variable(address);
        Some(format!(
            "lock {}",
            name.unwrap_or_else(|| format!("{address:#x}"))
        ))
    }

    /// What calls of the functions on a stack are about.
    pub(super) fn objects(
        &mut self,
        frames: &[Frame],
        value: impl Fn(&Time) -> u64,
    ) -> Vec<String> {
        let known = ABOUT
            .iter()
            .find(|(function, _)| frames.iter().any(|frame| frame.function == *function));
        let Some((function, by)) = known else {
            return Vec::new();
        };
        let Ok(seen) = self.about(&format!("fn:{function}"), by, self.tasks()) else {
            return Vec::new();
        };
        let ranked = seen.ranked(value);
        let named = ranked
            .iter()
            .filter(|(row, value)| *value > 0.0 && !row.keys.values.is_empty());
        let named = named.take(2).map(|(row, _)| row.keys.shown.join(" "));
        let all: Vec<String> = named.collect();
        match all.is_empty() {
            true => Vec::new(),
            false => vec![format!("{function} of {}", all.join(", "))],
        }
    }

    /// Down to the function that computes, by what the clock's interrupts have found.
    pub(super) fn refine_ticks(&mut self, id: Id) {
        let who = self.node(id).objects.first().cloned();
        let roots: Vec<&str> = ROOTS
            .iter()
            .filter(|(one, _)| *one == id)
            .map(|(_, name)| *name)
            .collect();
        let is_of = |stack: &Stack| match id {
            Id::Kthread => who
                .as_ref()
                .is_some_and(|who| who.starts_with(&format!("{} (", stack.who))),
            Id::Cpu => true,
            _ => stack
                .frames
                .iter()
                .any(|frame| roots.contains(&source_name(&frame.function))),
        };
        let ticks = self
            .ticks
            .iter()
            .filter(|(what, stack)| *what == Ticked::Task && is_of(stack));
        let ticks: Vec<Stack> = ticks.map(|(_, stack)| stack.clone()).collect();
        let mut way = hot_way(&ticks, MOST);
        if way.is_empty() {
            // Nothing has most of it: the largest of what there is.
            way = hot_way(&ticks, MOST / 3.0);
        }
        let tasks = match id {
            Id::Kthread => {
                let number = who.as_deref().and_then(|who| who.rsplit_once('('));
                let number =
                    number.and_then(|(_, number)| number.trim_end_matches(')').parse().ok());
                number.map_or_else(|| self.tasks(), Tasks::of_thread)
            }
            _ => self.tasks(),
        };
        self.refine_way(id, &way, &tasks);
    }

    /// Down from the interrupt that takes most, by its call paths.
    pub(super) fn refine_interrupts(&mut self) {
        let first = self.node(Id::Interrupts).children.first().cloned();
        let Some(root) = first else { return };
        let Ok(counts) = self.world.paths(&[format!("fn:{}", root.name)], PATHS) else {
            return;
        };
        self.ledger.spend(counts.entries, self.call_ns * 4);
        self.translation_ns += counts.translation_ns;
        self.ledger.spend(1, counts.translation_ns);
        let way = hot_way(&counts.paths, MOST);
        let below: Vec<Frame> = way.into_iter().skip(1).collect();
        self.refine_way(Id::Interrupts, &below, &Tasks::default());
    }

    /// Tests functions on a way, each a part of the one before, and finds the call site of the last
    /// that is true.
    pub(super) fn refine_way(&mut self, id: Id, way: &[Frame], tasks: &Tasks) {
        let tested = &way[way.len().saturating_sub(TESTED)..];
        let words: Vec<String> = tested.iter().map(Frame::word).collect();
        if words.is_empty() {
            return;
        }
        let threshold = self.node(id).threshold * BELOW;
        let seen = self.times(&words, tasks.clone());
        let mut nodes: Vec<Node> = Vec::new();
        let mut last = None;
        for (at, frame) in tested.iter().enumerate() {
            let mut node = Node::new(
                &frame.name(),
                "its time on processors",
                Unit::Processors,
                threshold,
            );
            let module = frame.module.as_deref();
            match &seen {
                Ok(seen) if seen.has(&frame.function, module) => {
                    node.decide(seen.of(&frame.function, module, |time| time.cpu_ns));
                }
                Ok(_) => node.leave("it cannot be looked at"),
                Err(why) => node.leave(why.clone()),
            }
            if node.holds() {
                last = Some((at, nodes.len()));
            }
            nodes.push(node);
        }
        if let Some((at, number)) = last {
            let frame = &tested[at];
            let site = self.site(frame, tasks);
            let begin = way.len() - tested.len();
            let caller = (begin + at).checked_sub(1).map(|up| way[up].clone());
            let node = &mut nodes[number];
            let site = site.or(caller.filter(|one| one.offset > 0));
            node.line = site.as_ref().and_then(|site| self.world.line(site));
            node.site = site.as_ref().map(Frame::site);
            node.path = way[..begin + at].iter().rev().map(Frame::site).collect();
            let objects = self.objects(way, |time| time.cpu_ns);
            nodes[number].objects = objects;
        }
        // Each is a part of the one before.
        let nested = nodes
            .into_iter()
            .rev()
            .fold(None, |below: Option<Node>, mut node| {
                node.children.extend(below);
                Some(node)
            });
        let Some(nested) = nested else { return };
        let is_deeper = !nested.way().is_empty();
        let node = self.node(id);
        match node.children.first_mut() {
            Some(root) if id == Id::Interrupts => root.children.push(nested),
            // Functions that are known already say more than a way on which none is true.
            Some(_) if !is_deeper => node.children.push(nested),
            _ => node.children.insert(0, nested),
        }
    }

    /// Of a function that is true and has nothing below it: its call site.
    pub(super) fn finish(&mut self, id: Id) {
        let first = self.node(id).children.first();
        let first =
            first.filter(|node| node.holds() && node.way().len() == 1 && node.site.is_none());
        let Some(frame) = first.and_then(|node| Frame::parse(&node.name)) else {
            return;
        };
        let tasks = self.tasks();
        let site = self.site(&frame, &tasks);
        let line = site.as_ref().and_then(|site| self.world.line(site));
        let node = &mut self.node(id).children[0];
        node.site = site.as_ref().map(Frame::site);
        node.line = line;
    }

    /// From where a function takes most of its time.
    pub(super) fn site(&mut self, frame: &Frame, tasks: &Tasks) -> Option<Frame> {
        let seen = self.about(&frame.word(), "caller", tasks.clone()).ok()?;
        let ranked = seen.ranked(wall);
        let named = ranked.iter().find(|(row, _)| !row.keys.values.is_empty())?;
        Frame::parse(named.0.keys.shown.first()?).filter(|site| !is_entry(site))
    }
}
