// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a verdict rests on: what was not looked at is not ruled out, and no time counts twice.

use super::*;

/// The calls were not looked at, so nothing says that they do not fail.
#[test]
fn failures_that_were_not_counted_rule_nothing_out() {
    let found = search(State {
        does: vec![WALK],
        syscalls: 50_000,
        failing: 40_000.0,
        is_blind: true,
        ..State::default()
    });
    let why = Verdict::NotTested("fn:vfs_read is taken".into());
    assert_eq!(of(&found, Id::Retries).verdict, why);
    assert!(of(&found, Id::Calls).holds());
}

const SPIN: Does = Does {
    stack: "native_queued_spin_lock_slowpath+0x5;queued_write_lock_slowpath+0x20;do_exit+0x9",
    processors: 0.1,
    asleep: 0.0,
    rate: 1000.0,
};

#[test]
fn time_inside_counts_once() {
    for (stack, id) in [
        (SPIN.stack, Id::Spinning),
        (
            "exit_mmap+0x5;bprm_execve+0x20;do_syscall_64+0x9",
            Id::Forks,
        ),
        (
            "__flush_smp_call_function_queue+0x5;generic_smp_call_function_single_interrupt+0x2",
            Id::Interrupts,
        ),
    ] {
        let value = |processors| {
            let does = vec![Does {
                stack,
                processors,
                ..SPIN
            }];
            let found = search(State {
                does,
                ..State::default()
            });
            let node = of(&found, id);
            (format!("{:.2}", node.value), node.holds())
        };
        assert_eq!(value(0.1), ("0.10".into(), false), "{stack}");
        assert_eq!(value(0.2), ("0.20".into(), true), "{stack}");
    }
}

#[test]
fn a_guest_spins_elsewhere() {
    let found = search(State {
        does: vec![Does {
            stack: "__pv_queued_spin_lock_slowpath+0x5;take+0x11 [m];do_syscall_64+0x5",
            processors: 0.6,
            ..SPIN
        }],
        ..State::default()
    });
    assert_eq!(found.finding().unwrap().name, "spinning");
}

#[test]
fn what_cannot_be_looked_at_is_not_ruled_out() {
    let does = vec![Does {
        stack: "handle_mm_fault+0x5;exc_page_fault+0x5",
        processors: 0.9,
        ..SPIN
    }];
    let found = search(State {
        does: does.clone(),
        refused: vec!["handle_mm_fault", "exit_mmap"],
        ..State::default()
    });
    let why = Verdict::NotTested("its functions cannot be looked at".into());
    assert_eq!(of(&found, Id::Faults).verdict, why);
    assert!(
        found.sentence().contains("not tested: faults"),
        "{}",
        found.sentence()
    );
    // Others of its functions were looked at.
    assert_eq!(of(&found, Id::Forks).verdict, Verdict::False);
}

#[test]
fn what_a_compiler_has_made_of_a_function_counts_for_it() {
    let found = search(State {
        does: vec![Does {
            stack: "copy+0x3;kernel_clone.isra.0+0x5;do_syscall_64+0x5",
            processors: 0.9,
            ..SPIN
        }],
        is_other: vec!["kernel_clone"],
        ..State::default()
    });
    let node = of(&found, Id::Forks);
    assert!(
        node.holds() && format!("{:.2}", node.value) == "0.90",
        "{node:?}"
    );
    let names: Vec<&str> = node.way().iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains(&"kernel_clone.isra.0"), "{names:?}");
}

/// What /proc counts needs no session.
#[test]
fn processors_are_looked_at_although_the_clock_cannot_be() {
    let state = |end| State {
        does: vec![WALK, LOCK],
        syscalls: 150_000,
        refused: vec!["update_process_times"],
        end,
        ..State::default()
    };
    let made = Made(Arc::new(state(None)));
    let found = search_of(&made);
    assert_eq!(format!("{:.2}", of(&found, Id::Cpu).value), "0.90");
    assert!(of(&found, Id::Calls).holds());
    let share = |found: &Found, name: &str| {
        let tests = found.json()["tests"].as_array().unwrap().clone();
        let own = tests.into_iter().find(|one| one["name"] == name);
        own.unwrap()["share"].clone()
    };
    assert!(share(&found, "cpu").is_number() && share(&found, "locks").is_number());
    // There is no time for that: nothing is said that rests on it.
    let said = made.0.said.lock().unwrap();
    let at = said.iter().find(|one| one["doing"] == "where tasks run");
    let at = at.unwrap()["elapsed_ns"].as_u64().unwrap();
    let found = search(state(Some(at + SECOND / 10)));
    let verdict = |id| of(&found, id).verdict.clone();
    let not_tested = |why: &str| Verdict::NotTested(why.into());
    assert_eq!(verdict(Id::Cpu), not_tested("the time was up"));
    for id in [Id::Calls, Id::Retries] {
        assert_eq!(verdict(id), not_tested("cpu was not tested"));
    }
    assert!(share(&found, "locks").is_null());
}
