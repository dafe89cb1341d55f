// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `abi` with the sizes, offsets and constants that the C compiler computes from
//! include/uapi/jifl.h.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::abi::*;

/// One line for each fact; C prints the same lines.
fn facts_of_rust() -> (BTreeSet<String>, String) {
    let mut facts = BTreeSet::new();
    let mut c = String::from(
        "#include <linux/types.h>\n#include <stdio.h>\n#include <stddef.h>\n\
         #include <uapi/jifl.h>\nint main(void)\n{\n",
    );
    let mut layout = |name: &str, members: Vec<(&'static str, usize, usize)>| {
        let mut end = 0;
        for (member, offset, size) in members {
            if member.is_empty() {
                assert_eq!(end, size, "padding at the end of {name}");
                facts.insert(format!("{name} {size}"));
                let _ = writeln!(c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
                continue;
            }
            assert_eq!(end, offset, "padding before {name}.{member}");
            end = offset + size;
            facts.insert(format!("{name}.{member} {offset} {size}"));
            let _ = writeln!(
                c,
                "printf(\"{name}.{member} %zu %zu\\n\", offsetof(struct {name}, {member}), \
                 sizeof(((struct {name} *)0)->{member}));"
            );
        }
    };
    layout("jifl_info", Info::layout());
    layout("jifl_start", Start::layout());
    layout("jifl_target_spec", target_layout());
    layout("jifl_condition", condition_layout());
    layout("jifl_irq", Irq::layout());
    layout("jifl_thread", thread_layout());
    layout("jifl_replacement", Replacement::layout());
    layout("jifl_flight", Flight::layout());
    layout("jifl_flight_head", FlightHead::layout());
    layout("jifl_flight_event", FlightEvent::layout());
    layout("jifl_flight_image", FlightImage::layout());
    layout("jifl_flight_ring", FlightRing::layout());
    layout("jifl_flight_record", FlightRecord::layout());
    layout("jifl_stop", Stop::layout());
    layout("jifl_stat", Stat::layout());
    layout("jifl_status", Status::layout());
    layout("jifl_session_info", SessionInfo::layout());
    layout("jifl_detach", Detach::layout());
    layout("jifl_plugin_ctl", PluginCtl::layout());
    layout("jifl_plugin_info", PluginInfo::layout());
    layout("jifl_plugin_read", PluginRead::layout());
    layout("jifl_routine_info", RoutineInfo::layout());
    layout("jifl_block", Block::layout());
    layout("jifl_segment", segment_layout());
    layout("jifl_records", Records::layout());
    layout("jifl_count", count_layout());
    layout("jifl_table_read", TableRead::layout());
    layout("jifl_warm_block", warm_block_layout());
    layout("jifl_warm", Warm::layout());
    layout("jifl_access", access_layout());
    layout("jifl_key", key_layout());
    layout("jifl_lock", lock_layout());
    layout("jifl_splice", splice_layout());
    layout("jifl_hits", hits_layout());
    layout("jifl_time", time_layout());
    layout("jifl_object", object_layout());
    layout("jifl_distribution", distribution_layout());
    layout("jifl_path", path_layout());
    layout("jifl_counter", counter_layout());
    layout("jifl_op", op_layout());
    layout("jifl_action", action_layout());
    layout("jifl_hit", hit_layout());
    layout("jifl_hit_read", HitRead::layout());
    layout("jifl_group", group_layout());
    layout("jifl_frames", frames_layout());

    let numbers = [
        ("JIFL_ABI_VERSION", u64::from(ABI_VERSION)),
        ("JIFL_NR_MAX", NR_MAX as u64),
        ("JIFL_TARGETS_MAX", TARGETS_MAX as u64),
        ("JIFL_TARGET_SYSCALL", u64::from(TARGET_SYSCALL)),
        ("JIFL_TARGET_FUNCTION", u64::from(TARGET_FUNCTION)),
        ("JIFL_TARGET_OPTIONAL", u64::from(TARGET_OPTIONAL)),
        ("JIFL_TARGET_SIGNED", u64::from(TARGET_SIGNED)),
        ("JIFL_TARGET_VOID", u64::from(TARGET_VOID)),
        ("JIFL_TARGET_BYTES(4)", u64::from(target_bytes(4))),
        ("JIFL_TARGET_ARG(5)", u64::from(target_arg(5))),
        ("JIFL_NR_REFUSALS", REFUSALS.len() as u64),
        ("JIFL_SCOPE_UNDER", u64::from(SCOPE_UNDER)),
        ("JIFL_SCOPE_ONLY", u64::from(SCOPE_ONLY)),
        ("JIFL_NAME_MAX", NAME_MAX as u64),
        ("JIFL_SYMBOL_MAX", SYMBOL_MAX as u64),
        ("JIFL_NR_CAUSES", CAUSES.len() as u64),
        ("JIFL_NR_INLINES", INLINES.len() as u64),
        ("JIFL_CAUSES_MAX", CAUSES_MAX as u64),
        ("JIFL_NR_MISSES", MISSES.len() as u64),
        ("JIFL_MISSES_MAX", MISSES_MAX as u64),
        ("JIFL_NR_LEFT", LEFT.len() as u64),
        ("JIFL_LEFT_MAX", LEFT_MAX as u64),
        ("JIFL_FLAG_ADOPT", u64::from(FLAG_ADOPT)),
        ("JIFL_LOCK_SPIN", lock_type("spinlock")),
        ("JIFL_LOCK_RWLOCK_READ", lock_type("rwlock:R")),
        ("JIFL_LOCK_RWLOCK_WRITE", lock_type("rwlock:W")),
        ("JIFL_LOCK_MUTEX", lock_type("mutex")),
        ("JIFL_LOCK_RWSEM_READ", lock_type("rwsem:R")),
        ("JIFL_LOCK_RWSEM_WRITE", lock_type("rwsem:W")),
        ("JIFL_LOCK_SEMAPHORE", lock_type("semaphore")),
        ("JIFL_LOCK_RT_MUTEX", lock_type("rt-mutex")),
        ("JIFL_LOCK_PERCPU_RWSEM", lock_type("pcpu-sem")),
        ("JIFL_LOCK_CMPXCHG", u64::from(LOCK_CMPXCHG)),
        ("JIFL_FLAG_BRANCHES", u64::from(FLAG_BRANCHES)),
        ("JIFL_FLAG_VALUES", u64::from(FLAG_VALUES)),
        ("JIFL_FLAG_CLOCK", u64::from(FLAG_CLOCK)),
        ("JIFL_FLAG_WAIT", u64::from(FLAG_WAIT)),
        ("JIFL_FLAG_BY_COMM", u64::from(FLAG_BY_COMM)),
        ("JIFL_FLAG_BY_PID", u64::from(FLAG_BY_PID)),
        ("JIFL_FLAG_BY_CPU", u64::from(FLAG_BY_CPU)),
        ("JIFL_FLAG_BY_LEVEL", u64::from(FLAG_BY_LEVEL)),
        ("JIFL_FILTER_LEVELS", u64::from(FILTER_LEVELS)),
        ("JIFL_NR_LEVELS", LEVELS.len() as u64),
        ("JIFL_FLAG_DURATION", u64::from(FLAG_DURATION)),
        ("JIFL_FLAG_RETVAL", u64::from(FLAG_RETVAL)),
        ("JIFL_FLAG_ARG(0)", u64::from(flag_arg(0))),
        ("JIFL_FLAG_ARG(5)", u64::from(flag_arg(5))),
        ("JIFL_HIST_NEGATIVE", HIST_NEGATIVE as u64),
        ("JIFL_TABLE_KEYS", u64::from(TABLE_KEYS)),
        ("JIFL_COUNT_REFUSED", COUNT_REFUSED as u64),
        ("JIFL_KEY_OTHER_CALLS", KEY_OTHER_CALLS as u64),
        ("JIFL_KEY_OTHER_SUM", KEY_OTHER_SUM as u64),
        ("JIFL_KEY_OTHER_ADOPTED", KEY_OTHER_ADOPTED as u64),
        ("JIFL_LOCK_OTHER_CONTENDED", LOCK_OTHER_CONTENDED as u64),
        ("JIFL_LOCK_OTHER_WAIT_NS", LOCK_OTHER_WAIT_NS as u64),
        ("JIFL_LOCK_UNTIMED", LOCK_UNTIMED as u64),
        ("JIFL_ACCESS_PERCPU_BASE", ACCESS_PERCPU_BASE as u64),
        ("JIFL_ACCESS_REFUSED", ACCESS_REFUSED as u64),
        ("JIFL_COUNT_NO_BRANCH", u64::from(NO_BRANCH)),
        ("JIFL_RECORD_TYPE", u64::from(RECORD_TYPE)),
        ("JIFL_RECORD_BEGIN", u64::from(RECORD_BEGIN)),
        ("JIFL_RECORD_RESUME", u64::from(RECORD_RESUME)),
        ("JIFL_RECORD_END", u64::from(RECORD_END)),
        ("JIFL_RECORD_RETURN", u64::from(RECORD_RETURN)),
        ("JIFL_RECORD_LEVEL_SHIFT", u64::from(RECORD_LEVEL_SHIFT)),
        ("JIFL_RECORD_ADOPTED", u64::from(RECORD_ADOPTED)),
        ("JIFL_RECORD_CUT", u64::from(RECORD_CUT)),
        ("JIFL_RECORD_TIME", u64::from(RECORD_TIME)),
        ("JIFL_RECORD_RESULT", u64::from(RECORD_RESULT)),
        ("JIFL_RECORD_HIGH", u64::from(RECORD_HIGH)),
        ("JIFL_RECORD_TOP", u64::from(RECORD_TOP)),
        ("JIFL_RECORD_FAULT", u64::from(RECORD_FAULT)),
        ("JIFL_RECORD_STACK", u64::from(RECORD_STACK)),
        ("JIFL_RECORD_ARGUMENTS", u64::from(RECORD_ARGUMENTS)),
        ("JIFL_RECORD_RETURNED", u64::from(RECORD_RETURNED)),
        ("JIFL_RECORD_ENTERED", u64::from(RECORD_ENTERED)),
        ("JIFL_RECORD_LEFT", u64::from(RECORD_LEFT)),
        ("JIFL_RECORD_JUMPED", u64::from(RECORD_JUMPED)),
        ("JIFL_RECORD_CLOCK", u64::from(RECORD_CLOCK)),
        ("JIFL_RECORD_ACCESS", u64::from(RECORD_ACCESS)),
        ("JIFL_RECORD_NUMBER(~0u)", u64::from(RECORD_NUMBER)),
        (
            "JIFL_RECORD_WORDS(0x7c000001u)",
            record_words(0x7c00_0001) as u64,
        ),
        ("JIFL_RECORD_WORDS(0x5c000001u)", 0),
        ("JIFL_ACCESS_LOAD", u64::from(ACCESS_LOAD)),
        ("JIFL_ACCESS_STORE", u64::from(ACCESS_STORE)),
        ("JIFL_ACCESS_PERCPU", u64::from(ACCESS_PERCPU)),
        ("JIFL_ACCESS_BACKWARDS", u64::from(ACCESS_BACKWARDS)),
        ("JIFL_ACCESS_BITS", u64::from(ACCESS_BITS)),
        ("JIFL_ACCESS_NO_WORD", u64::from(ACCESS_NO_WORD)),
        ("JIFL_ACCESS_STACK", u64::from(ACCESS_STACK)),
        ("JIFL_FILTER_PID", u64::from(FILTER_PID)),
        ("JIFL_FILTER_TGID", u64::from(FILTER_TGID)),
        ("JIFL_FILTER_COMM", u64::from(FILTER_COMM)),
        ("JIFL_FILTER_CGROUP", u64::from(FILTER_CGROUP)),
        ("JIFL_FILTER_CHILDREN", u64::from(FILTER_CHILDREN)),
        ("JIFL_FLAG_REPEATS", u64::from(FLAG_REPEATS)),
        ("JIFL_FLAG_FUNCTION", u64::from(FLAG_FUNCTION)),
        ("JIFL_FLAG_NO_LIVENESS", u64::from(FLAG_NO_LIVENESS)),
        ("JIFL_FLAG_NO_INLINING", u64::from(FLAG_NO_INLINING)),
        ("JIFL_HIST_SUB_BITS", u64::from(HIST_SUB_BITS)),
        ("JIFL_HIST_SUB", HIST_SUB),
        ("JIFL_HIST_EXACT", HIST_EXACT),
        ("JIFL_HIST_BUCKETS", HIST_BUCKETS as u64),
        ("JIFL_BLOCK_DEAD", u64::from(BLOCK_DEAD)),
        ("JIFL_BLOCK_NATIVE", u64::from(BLOCK_NATIVE)),
        ("JIFL_BLOCK_ENTRY", u64::from(BLOCK_ENTRY)),
        ("JIFL_BLOCK_FALLS", u64::from(BLOCK_FALLS)),
        ("JIFL_BLOCK_LIVENESS", u64::from(BLOCK_LIVENESS)),
        ("JIFL_BLOCK_SESSIONS", BLOCK_SESSIONS as u64),
        ("JIFL_SEGMENT_ORIGINAL", u64::from(SEGMENT_ORIGINAL)),
        ("JIFL_SEGMENT_INSERTED", u64::from(SEGMENT_INSERTED)),
        ("JIFL_SEGMENT_INLINED", u64::from(SEGMENT_INLINED)),
        ("JIFL_SEGMENT_ONWARD", u64::from(SEGMENT_ONWARD)),
        ("JIFL_LIVE_CF", live('C')),
        ("JIFL_LIVE_PF", live('P')),
        ("JIFL_LIVE_AF", live('A')),
        ("JIFL_LIVE_ZF", live('Z')),
        ("JIFL_LIVE_SF", live('S')),
        ("JIFL_LIVE_OF", live('O')),
        ("JIFL_LIVE_DF", live('D')),
        ("JIFL_IOC_INFO", req::<Info>(0)),
        ("JIFL_IOC_START", req::<Start>(1)),
        ("JIFL_IOC_STOP", req::<Stop>(2)),
        ("JIFL_IOC_STAT", req::<Stat>(3)),
        ("JIFL_IOC_STATUS", req::<Status>(4)),
        ("JIFL_IOC_SESSION", req::<SessionInfo>(5)),
        ("JIFL_IOC_DETACH", req::<Detach>(6)),
        ("JIFL_IOC_PLUGIN_CTL", req::<PluginCtl>(7)),
        ("JIFL_IOC_PLUGIN", req::<PluginInfo>(8)),
        ("JIFL_IOC_ROUTINE", req::<RoutineInfo>(9)),
        ("JIFL_IOC_BLOCK", req::<Block>(10)),
        ("JIFL_IOC_RECORDS", req::<Records>(11)),
        ("JIFL_IOC_TABLE", req::<TableRead>(12)),
        ("JIFL_IOC_PLUGIN_READ", req::<PluginRead>(13)),
        ("JIFL_IOC_WARM", req::<Warm>(14)),
        ("JIFL_IOC_IRQ", req::<Irq>(15)),
        ("JIFL_IOC_REPLACEMENT", req::<Replacement>(17)),
        ("JIFL_IOC_FLIGHT", req::<Flight>(18)),
        ("JIFL_FLIGHT_PAGE", FLIGHT_PAGE as u64),
        ("JIFL_FLIGHT_VERSION", u64::from(FLIGHT_VERSION)),
        ("JIFL_FLIGHT_ARGS", FLIGHT_ARGS as u64),
        ("JIFL_FLIGHT_TABLE_MAX", FLIGHT_TABLE_MAX as u64),
        ("JIFL_FLIGHT_EVENTS_MAX", FLIGHT_EVENTS_MAX as u64),
        ("JIFL_THREADS_MAX", THREADS_MAX as u64),
        ("JIFL_CALLERS_MAX", CALLERS_MAX as u64),
        ("JIFL_VALUES_MAX", VALUES_MAX as u64),
        ("JIFL_CONDITIONS_MAX", CONDITIONS_MAX as u64),
        ("JIFL_UNDER_MAX", UNDER_MAX as u64),
        ("JIFL_WARM_MAX", WARM_MAX as u64),
        ("JIFL_WARM_LAY", u64::from(WARM_LAY)),
        ("JIFL_WARM_FOLLOWS", u64::from(WARM_FOLLOWS)),
        ("JIFL_PLUGIN_LINE_MAX", PLUGIN_LINE_MAX as u64),
        ("JIFL_SPLICES_MAX", SPLICES_MAX as u64),
        ("JIFL_SPLICE_BEFORE", u64::from(SPLICE_BEFORE)),
        ("JIFL_SPLICE_TAKEN", u64::from(SPLICE_TAKEN)),
        ("JIFL_SPLICE_NOT_TAKEN", u64::from(SPLICE_NOT_TAKEN)),
        ("JIFL_SPLICE_BOUNDARY", u64::from(SPLICE_BOUNDARY)),
        ("JIFL_SPLICE_OWNED", u64::from(SPLICE_OWNED)),
        ("JIFL_SPLICE_OWN", u64::from(SPLICE_OWN)),
        ("JIFL_SPLICE_SITE", u64::from(SPLICE_SITE)),
        ("JIFL_REFUSED_SCHEDULE", u64::from(REFUSED_SCHEDULE)),
        ("JIFL_REFUSED_IDLE", u64::from(REFUSED_IDLE)),
        ("JIFL_REFUSED_PATCHING", u64::from(REFUSED_PATCHING)),
        ("JIFL_REFUSED_STOP", u64::from(REFUSED_STOP)),
        ("JIFL_REFUSED_RCU_TASKS", u64::from(REFUSED_RCU_TASKS)),
        ("JIFL_REFUSED_OWN", u64::from(REFUSED_OWN)),
        ("JIFL_NR_SPLICE_REFUSALS", SPLICE_REFUSALS.len() as u64),
        ("JIFL_TIMES_ENTER", u64::from(TIMES_ENTER)),
        ("JIFL_TIMES_LEAVE", u64::from(TIMES_LEAVE)),
        ("JIFL_TIMES_JUMP", u64::from(TIMES_JUMP)),
        ("JIFL_TIMES_PROGRAM", u64::from(TIMES_PROGRAM)),
        ("JIFL_OBJECT_OTHERS", u64::from(OBJECT_OTHERS)),
        ("JIFL_OBJECT_REFUSED", OBJECT_REFUSED as u64),
        ("JIFL_TABLE_OBJECTS", u64::from(TABLE_OBJECTS)),
        ("JIFL_TABLE_DISTRIBUTIONS", u64::from(TABLE_DISTRIBUTIONS)),
        ("JIFL_TIMES_ELAPSED", TIMES_ELAPSED as u64),
        ("JIFL_TIMES_UNWATCHED", TIMES_UNWATCHED as u64),
        ("JIFL_TIMES_MISSED", TIMES_MISSED as u64),
        ("JIFL_PATH_REFUSED", PATH_REFUSED as u64),
        ("JIFL_COUNTERS_MAX", COUNTERS_MAX as u64),
        ("JIFL_COUNTER_NAME_MAX", COUNTER_NAME_MAX as u64),
        ("JIFL_COUNTER_TRACEPOINT", u64::from(COUNTER_TRACEPOINT)),
        ("JIFL_COUNTER_VARIABLE", u64::from(COUNTER_VARIABLE)),
        ("JIFL_COUNTER_PROCESSOR", u64::from(COUNTER_PROCESSOR)),
        ("JIFL_COUNTER_VMSTAT", u64::from(COUNTER_VMSTAT)),
        ("JIFL_COUNTER_SNMP", u64::from(COUNTER_SNMP)),
        ("JIFL_COUNTER_PERF", u64::from(COUNTER_PERF)),
        ("JIFL_COUNTER_VALUE", u64::from(COUNTER_VALUE)),
        ("JIFL_COUNTER_INTERRUPTS", u64::from(COUNTER_INTERRUPTS)),
        ("JIFL_COUNTER_DISTRIBUTION", u64::from(COUNTER_DISTRIBUTION)),
        ("JIFL_DISTRIBUTION_VALUE", u64::from(DISTRIBUTION_VALUE)),
        ("JIFL_DISTRIBUTION_WALL", u64::from(DISTRIBUTION_WALL)),
        ("JIFL_DISTRIBUTION_CPU", u64::from(DISTRIBUTION_CPU)),
        ("JIFL_DISTRIBUTION_BLOCKED", u64::from(DISTRIBUTION_BLOCKED)),
        (
            "JIFL_DISTRIBUTION_RUNNABLE",
            u64::from(DISTRIBUTION_RUNNABLE),
        ),
        ("JIFL_COUNTER_IP", u64::from(COUNTER_IP)),
        ("JIFL_COUNTER_TCP", u64::from(COUNTER_TCP)),
        ("JIFL_COUNTER_TCP_EXT", u64::from(COUNTER_TCP_EXT)),
        ("JIFL_COUNTER_UDP", u64::from(COUNTER_UDP)),
        ("JIFL_COUNTER_UDP_LITE", u64::from(COUNTER_UDP_LITE)),
        ("JIFL_COUNTED_UNKNOWN", COUNTED_UNKNOWN),
        ("JIFL_PATH_STRAYS", PATH_STRAYS as u64),
        ("JIFL_PATH_UNTIMED", PATH_UNTIMED as u64),
        ("JIFL_HITS_MOVED", HITS_MOVED as u64),
        ("JIFL_HITS_MISSED", HITS_MISSED as u64),
        ("JIFL_HITS_NO_ROOM", u64::from(HITS_NO_ROOM)),
        ("JIFL_HITS_SWITCHED_OFF", u64::from(HITS_SWITCHED_OFF)),
        ("JIFL_IOC_HITS", req::<HitRead>(16)),
        ("JIFL_OPS_MAX", OPS_MAX as u64),
        ("JIFL_OP_STACK", OP_STACK as u64),
        ("JIFL_ACTIONS_MAX", ACTIONS_MAX as u64),
        ("JIFL_STRINGS_MAX", STRINGS_MAX as u64),
        ("JIFL_STRING_MAX", STRING_MAX as u64),
        ("JIFL_GROUP_MAX", GROUP_MAX as u64),
        ("JIFL_FRAMES_MAX", FRAMES_MAX as u64),
        ("JIFL_HIT_MAX", HIT_MAX as u64),
        ("JIFL_RING_MAX", RING_MAX.into()),
        ("JIFL_OP_SIGNED", u64::from(OP_SIGNED)),
        ("JIFL_OP_CUT", u64::from(OP_CUT)),
        ("JIFL_NR_GETS", Get::ALL.len() as u64),
        ("JIFL_TABLE_GROUPS", u64::from(TABLE_GROUPS)),
        ("JIFL_TABLE_STACKS", u64::from(TABLE_STACKS)),
        ("JIFL_GROUP_OTHER", GROUP_OTHER as u64),
        ("JIFL_GROUP_BUCKETS", GROUP_BUCKETS as u64),
        ("JIFL_GROUP_NEGATIVE", GROUP_NEGATIVE as u64),
        ("JIFL_FLIGHT_FACTOR", FLIGHT_FACTOR),
        ("JIFL_FLIGHT_IMAGES", FLIGHT_IMAGES as u64),
        ("JIFL_FLIGHT_SOFTIRQ", FLIGHT_SOFTIRQ.into()),
        ("JIFL_FLIGHT_IRQ", FLIGHT_IRQ.into()),
        ("JIFL_FLIGHT_NMI", FLIGHT_NMI.into()),
    ];
    for (name, value) in numbers {
        facts.insert(format!("{name} {value}"));
        let _ = writeln!(c, "printf(\"{name} %llu\\n\", (unsigned long long){name});");
    }
    let ops = FlightOp::ALL.iter().map(|op| (op.name(), *op as u32));
    let stops = FlightStop::ALL.iter().map(|why| (why.name(), *why as u32));
    let keys = FlightKey::ALL.iter().map(|key| (key.name(), *key as u32));
    for (name, value) in ops.chain(stops).chain(keys) {
        facts.insert(format!("{name} {value}"));
        let _ = writeln!(c, "printf(\"{name} %d\\n\", {name});");
    }
    facts.insert(format!("magic {}", String::from_utf8_lossy(FLIGHT_MAGIC)));
    c.push_str("printf(\"magic %s\\n\", JIFL_FLIGHT_MAGIC);\n");
    for get in Get::ALL {
        let (name, value) = (get.name(), *get as u32);
        facts.insert(format!("get {value} {name}"));
        let _ = writeln!(c, "printf(\"get %d {name}\\n\", JIFL_GET_{name});");
    }
    for code in Code::ALL {
        facts.insert(format!("op {} {}", *code as u8, code.name()));
    }
    for kind in Kind::ALL {
        facts.insert(format!("kind {} {}", *kind as u32, kind.name()));
    }
    for (index, name) in CAUSES.iter().enumerate() {
        facts.insert(format!("cause {index} {name}"));
    }
    for (index, reason) in REFUSALS.iter().enumerate() {
        facts.insert(format!("refusal {index} {reason}"));
    }
    for (index, reason) in SPLICE_REFUSALS.iter().enumerate() {
        facts.insert(format!("splice refusal {index} {reason}"));
    }
    for (index, reason) in INLINES.iter().enumerate() {
        facts.insert(format!("inline {index} {reason}"));
    }
    facts.insert(format!("device {DEVICE}"));
    c.push_str(
        "#define TOOL(kind, tool, number) printf(\"kind %d %s\\n\", JIFL_KIND_##kind, #tool);\n\
         JIFL_TOOLS(TOOL)\nTOOL(PLUGIN, plugin, 4)\n\
         #define OP(name, number) printf(\"op %d %s\\n\", number, #name);\n\
         JIFL_OPS(OP)\n\
         #define CAUSE(id, name) printf(\"cause %d %s\\n\", id, name);\n\
         JIFL_CAUSES(CAUSE)\n\
         #define REFUSAL(id, text) printf(\"refusal %d %s\\n\", id, text);\n\
         JIFL_REFUSALS(REFUSAL)\n\
         #define SPLICE(id, text) printf(\"splice refusal %d %s\\n\", id, text);\n\
         JIFL_SPLICE_REFUSALS(SPLICE)\n\
         #define INLINE(id, reason) printf(\"inline %d %s\\n\", id, reason);\n\
         JIFL_INLINES(INLINE)\nprintf(\"device %s\\n\", JIFL_DEVICE);\nreturn 0;\n}\n",
    );
    (facts, c)
}

fn req<T>(nr: u32) -> u64 {
    u64::from(request(nr, size_of::<T>()))
}

/// The bit of a flag.
fn live(name: char) -> u64 {
    1 << LIVE_FLAGS.iter().position(|flag| *flag == name).unwrap()
}

/// Members as `abi_struct!` lists them; this structure does not begin with its size.
fn target_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("kind", offset_of!(TargetSpec, kind), 4),
        ("scope", offset_of!(TargetSpec, scope), 4),
        ("id", offset_of!(TargetSpec, id), 8),
        ("address", offset_of!(TargetSpec, address), 8),
        ("name", offset_of!(TargetSpec, name), SYMBOL_MAX),
        ("flags", offset_of!(TargetSpec, flags), 4),
        ("refused", offset_of!(TargetSpec, refused), 4),
        ("condition", offset_of!(TargetSpec, condition), 4),
        ("reserved", offset_of!(TargetSpec, reserved), 4),
        ("", 0, size_of::<TargetSpec>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn thread_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("pid", offset_of!(Thread, pid), 4),
        ("comm", offset_of!(Thread, comm), COMM_MAX),
        ("", 0, size_of::<Thread>()),
    ]
}

fn splice_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("address", offset_of!(Splice, address), 8),
        ("target", offset_of!(Splice, target), 4),
        ("where", offset_of!(Splice, where_), 4),
        ("refused", offset_of!(Splice, refused), 4),
        ("action", offset_of!(Splice, action), 4),
        ("", 0, size_of::<Splice>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn time_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("calls", offset_of!(Time, calls), 8),
        ("adopted", offset_of!(Time, adopted), 8),
        ("inside", offset_of!(Time, inside), 8),
        ("died", offset_of!(Time, died), 8),
        ("jumped", offset_of!(Time, jumped), 8),
        ("strays", offset_of!(Time, strays), 8),
        ("cpu_ns", offset_of!(Time, cpu_ns), 8),
        ("blocked_ns", offset_of!(Time, blocked_ns), 8),
        ("runnable_ns", offset_of!(Time, runnable_ns), 8),
        ("elapsed_ns", offset_of!(Time, elapsed_ns), 8),
        ("counted", offset_of!(Time, counted), 8 * COUNTERS_MAX),
        ("", 0, size_of::<Time>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn object_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("target", offset_of!(Object, target), 4),
        ("unknown", offset_of!(Object, unknown), 4),
        ("name", offset_of!(Object, name), GROUP_MAX),
        ("time", offset_of!(Object, time), size_of::<Time>()),
        ("", 0, size_of::<Object>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn distribution_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("row", offset_of!(Distribution, row), 4),
        ("counter", offset_of!(Distribution, counter), 4),
        (
            "bucket",
            offset_of!(Distribution, bucket),
            GROUP_BUCKETS * 8,
        ),
        ("", 0, size_of::<Distribution>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn counter_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        (
            "tracepoint",
            offset_of!(Counter, tracepoint),
            COUNTER_NAME_MAX,
        ),
        ("kind", offset_of!(Counter, kind), 4),
        ("type", offset_of!(Counter, type_), 4),
        ("value", offset_of!(Counter, value), 8),
        ("", 0, size_of::<Counter>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn path_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("function", offset_of!(CallPath, function), 8),
        ("calls", offset_of!(CallPath, calls), 8),
        ("insns", offset_of!(CallPath, insns), 8),
        ("wall_ns", offset_of!(CallPath, wall_ns), 8),
        ("blocked_ns", offset_of!(CallPath, blocked_ns), 8),
        ("runnable_ns", offset_of!(CallPath, runnable_ns), 8),
        ("parent", offset_of!(CallPath, parent), 4),
        ("reserved", offset_of!(CallPath, reserved), 4),
        ("", 0, size_of::<CallPath>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn hits_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("hits", offset_of!(Hits, hits), 8),
        ("caught", offset_of!(Hits, caught), 8),
        ("flags", offset_of!(Hits, flags), 4),
        ("reserved", offset_of!(Hits, reserved), 4),
        ("untested", offset_of!(Hits, untested), 8),
        ("nested", offset_of!(Hits, nested), 8),
        ("unrun", offset_of!(Hits, unrun), 8),
        ("", 0, size_of::<Hits>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn op_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("code", offset_of!(Op, code), 1),
        ("width", offset_of!(Op, width), 1),
        ("flags", offset_of!(Op, flags), 1),
        ("reserved", offset_of!(Op, reserved), 1),
        ("arg", offset_of!(Op, arg), 4),
        ("imm", offset_of!(Op, imm), 8),
        ("", 0, size_of::<Op>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn action_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("from", offset_of!(Action, from), 4),
        ("n", offset_of!(Action, n), 4),
        ("bpf", offset_of!(Action, bpf), 4),
        ("reserved", offset_of!(Action, reserved), 4),
        ("", 0, size_of::<Action>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn hit_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("size", offset_of!(Hit, size), 4),
        ("place", offset_of!(Hit, place), 4),
        ("time", offset_of!(Hit, time), 8),
        ("cpu", offset_of!(Hit, cpu), 4),
        ("level", offset_of!(Hit, level), 4),
        ("pid", offset_of!(Hit, pid), 4),
        ("tid", offset_of!(Hit, tid), 4),
        ("unknown", offset_of!(Hit, unknown), 8),
        ("comm", offset_of!(Hit, comm), COMM_MAX),
        ("", 0, size_of::<Hit>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn group_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("place", offset_of!(Group, place), 4),
        ("unknown", offset_of!(Group, unknown), 4),
        ("name", offset_of!(Group, name), GROUP_MAX),
        ("hits", offset_of!(Group, hits), 8),
        ("sum", offset_of!(Group, sum), 8),
        ("known", offset_of!(Group, known), 8),
        ("bucket", offset_of!(Group, bucket), GROUP_BUCKETS * 8),
        ("", 0, size_of::<Group>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn frames_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("address", offset_of!(Frames, address), FRAMES_MAX * 8),
        ("", 0, size_of::<Frames>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn condition_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("callers", offset_of!(Condition, callers), 4),
        ("values", offset_of!(Condition, values), 4),
        (
            "caller",
            offset_of!(Condition, caller),
            CALLERS_MAX * size_of::<Caller>(),
        ),
        ("value", offset_of!(Condition, value), VALUES_MAX * 8),
        ("", 0, size_of::<Condition>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn segment_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("code_len", offset_of!(Segment, code_len), 2),
        ("src_len", offset_of!(Segment, src_len), 1),
        ("kind", offset_of!(Segment, kind), 1),
        ("pushed", offset_of!(Segment, pushed), 1),
        ("live_flags", offset_of!(Segment, live_flags), 1),
        ("live_regs", offset_of!(Segment, live_regs), 2),
        ("", 0, size_of::<Segment>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn count_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("orig", offset_of!(Count, orig), 8),
        ("executed", offset_of!(Count, executed), 8),
        ("taken", offset_of!(Count, taken), 8),
        ("target", offset_of!(Count, target), 8),
        ("src_len", offset_of!(Count, src_len), 4),
        ("insns", offset_of!(Count, insns), 4),
        ("branch", offset_of!(Count, branch), 4),
        ("hash", offset_of!(Count, hash), 4),
        ("", 0, size_of::<Count>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn warm_block_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("orig", offset_of!(WarmBlock, orig), 8),
        ("src_len", offset_of!(WarmBlock, src_len), 4),
        ("insns", offset_of!(WarmBlock, insns), 4),
        ("hash", offset_of!(WarmBlock, hash), 4),
        ("flags", offset_of!(WarmBlock, flags), 4),
        ("", 0, size_of::<WarmBlock>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn access_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("insn", offset_of!(Access, insn), 8),
        ("disp", offset_of!(Access, disp), 8),
        ("block", offset_of!(Access, block), 4),
        ("record", offset_of!(Access, record), 4),
        ("repeats_record", offset_of!(Access, repeats_record), 4),
        ("left_record", offset_of!(Access, left_record), 4),
        ("size", offset_of!(Access, size), 2),
        ("base", offset_of!(Access, base), 1),
        ("flags", offset_of!(Access, flags), 1),
        ("repeats", offset_of!(Access, repeats), 1),
        ("left", offset_of!(Access, left), 1),
        ("insn_len", offset_of!(Access, insn_len), 2),
        ("", 0, size_of::<Access>()),
    ]
}

/// Members as `abi_struct!` lists them.
fn key_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("cpu", offset_of!(Key, cpu), 4),
        ("tgid", offset_of!(Key, tgid), 4),
        ("comm", offset_of!(Key, comm), COMM_MAX),
        ("calls", offset_of!(Key, calls), 8),
        ("sum", offset_of!(Key, sum), 8),
        ("level", offset_of!(Key, level), 4),
        ("adopted", offset_of!(Key, adopted), 4),
        ("", 0, size_of::<Key>()),
    ]
}

/// Members as `abi_struct!` lists them. The type's name differs from C, as Rust reserves `type`.
fn lock_layout() -> Vec<(&'static str, usize, usize)> {
    use std::mem::offset_of;
    vec![
        ("lock", offset_of!(Lock, lock), 8),
        ("percpu", offset_of!(Lock, percpu), 8),
        ("caller", offset_of!(Lock, caller), 8),
        ("site", offset_of!(Lock, site), 8),
        ("contended", offset_of!(Lock, contended), 8),
        ("ended", offset_of!(Lock, ended), 8),
        ("wait_ns", offset_of!(Lock, wait_ns), 8),
        ("max_ns", offset_of!(Lock, max_ns), 8),
        ("type", offset_of!(Lock, kind), 4),
        ("cpu", offset_of!(Lock, cpu), 4),
        ("", 0, size_of::<Lock>()),
    ]
}

/// Index of a name.
fn lock_type(name: &str) -> u64 {
    LOCK_TYPES.iter().position(|known| *known == name).unwrap() as u64
}

#[test]
fn rust_and_c_agree() {
    let (rust, program) = facts_of_rust();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let dir = std::env::temp_dir().join(format!("jifl-abi-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (source, binary) = (dir.join("abi.c"), dir.join("abi"));
    fs::write(&source, program).unwrap();
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-I"])
        .arg(include)
        .arg("-o")
        .args([&binary, &source])
        .status()
        .expect("cc");
    assert!(built.success());
    let output = Command::new(&binary).output().unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let c: BTreeSet<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let only_rust: Vec<_> = rust.difference(&c).collect();
    let only_c: Vec<_> = c.difference(&rust).collect();
    assert!(
        only_rust.is_empty() && only_c.is_empty(),
        "Rust says {only_rust:#?}, C says {only_c:#?}"
    );
}
