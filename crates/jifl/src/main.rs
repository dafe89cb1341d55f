// SPDX-License-Identifier: MIT OR Apache-2.0
//! The jifl command. docs/command.md describes it; each subcommand has a module.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod base;
mod cmd;
mod expr;
mod kernel;
#[cfg(test)]
mod order;
mod session;
mod show;

use base::exit::Failure;
use cmd::{
    analyze, bench, branch, cfg, count, cover, demo, diff, doctor, dump, flight, generate, list,
    lock, mem, merge, optimize, plugin, probe, prof, read, record, remote, replace, report,
    restore, search, serve, stat, status, top, trace, vm, why,
};
use show::output;

/// The analysis of a kernel allocates half a million times on all processors.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// JIT instrumentation of a live Linux kernel
#[derive(Debug, Parser)]
#[command(
    name = "jifl",
    version = base::environment::VERSION,
    max_term_width = 100,
    after_help = "\
Exit status: 0 done, 1 failed, 2 usage, 3 this machine cannot (`jifl doctor` says why),
4 stopped by a limit. With -- CMD: CMD's own."
)]
struct Cli {
    #[command(flatten)]
    host: remote::host::HostArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count what system calls execute
    Count(count::CountArgs),
    /// Show which functions system calls enter
    Trace(trace::TraceArgs),
    /// Show which branch led to the error of a system call that failed
    Why(why::WhyArgs),
    /// Show which code system calls execute, for coverage tools too
    Cover(cover::CoverArgs),
    /// Show where system calls execute instructions, exactly
    Prof(prof::ProfArgs),
    /// Count executions of places in the kernel's code
    Probe(probe::ProbeArgs),
    /// Show how often functions are called, and how long tasks are in them
    Stat(stat::StatArgs),
    /// Show live in which functions tasks are
    Top(top::TopArgs),
    /// Search for the bottleneck of the machine, a process or a command
    Search(search::SearchArgs),
    /// Serve what stat and top show: to other users, other machines, a page, metrics
    Serve(serve::ServeArgs),
    /// Show which way conditional branches go
    Branch(branch::BranchArgs),
    /// Show which locks system calls wait for, and which cmpxchg they retry
    Lock(lock::LockArgs),
    /// Show what system calls load and store, by cache line and object, or as a trace
    Mem(mem::MemArgs),
    /// Count now, so that `report` can show it later, elsewhere, without privileges
    Record(record::RecordArgs),
    /// Show a recording, as prof, cover, branch or count
    Report(report::ReportArgs),
    /// Compare two recordings, by function
    Diff(diff::DiffArgs),
    /// Add up recordings of the same kernel build
    Merge(merge::MergeArgs),
    /// Record what the kernel does all the time, and read it: live, after a crash, after a restart
    Flight(flight::FlightArgs),
    /// Show the code cache: blocks beside the original, inserted code, liveness
    Dump(dump::DumpArgs),
    /// Show what a kernel's machine code consists of
    Analyze(analyze::AnalyzeArgs),
    /// Show the control flow graph of a function
    Cfg(cfg::CfgArgs),
    /// Show which functions call a function
    Callers(analyze::CallersArgs),
    /// Show which functions a function calls
    Callees(analyze::CallersArgs),
    /// Show by which calls one function can come to call another
    Path(analyze::PathArgs),
    /// Have calls of a function go to a function of a module; show the replacements there are
    Replace(replace::ReplaceArgs),
    /// Lay the kernel's hot code anew, in the order in which it runs
    Optimize(optimize::OptimizeArgs),
    /// Have the kernel run its own code again: replacements and layouts end
    Restore(restore::RestoreArgs),
    /// List targets
    List(list::ListArgs),
    /// Show the module's sessions, its cache, and what ran natively
    Status(status::StatusArgs),
    /// End sessions
    Detach(status::DetachArgs),
    /// Show what this machine or another kernel offers, what is missing, and how to mend it
    Doctor(doctor::DoctorArgs),
    /// Load JIFL's kernel module or a plugin
    Load(plugin::LoadArgs),
    /// Start a loaded plugin
    Start(plugin::NameArgs),
    /// Stop a plugin
    Stop(plugin::NameArgs),
    /// Show the records of a plugin
    Read(read::ReadArgs),
    /// Unload a plugin, or JIFL's module
    Unload(plugin::NameArgs),
    /// Measure what instrumentation costs
    Bench(bench::BenchArgs),
    /// Show a first result in a throwaway machine: what system calls of programs execute
    Demo(demo::DemoArgs),
    /// Run a command in a throwaway machine with the module loaded
    Vm(vm::VmArgs),
    /// Write what a shell needs to complete this command's lines
    Completions(generate::CompletionsArgs),
    /// Write the manual pages, one for each subcommand
    Man(generate::ManArgs),
    /// What each peer of the benchmark costs on one operation
    #[command(hide = true)]
    BenchPeers(bench::PeersArgs),
    /// Whether what sessions have seen is in the structure of a kernel's code
    #[command(hide = true)]
    CheckStructure(analyze::CheckArgs),
    /// What is dead at places of a kernel, for tests that overwrite it
    #[command(hide = true)]
    DeadPlaces(analyze::DeadArgs),
}

fn main() -> ExitCode {
    if jifl_sys::micro::exits_at_once() {
        return ExitCode::SUCCESS;
    }
    // Process 1 named /init is the init of a machine that `jifl vm` made. In a container, this
    // program can be process 1 under its own name.
    if std::process::id() == 1 && std::env::args_os().next().is_some_and(|arg| arg == "/init") {
        jifl_vm::guest::main();
    }
    let cli = Cli::parse();
    let result = match cli.host.host() {
        Ok(Some(host)) => run_on(host, cli.command),
        Ok(None) => run(cli.command),
        Err(failure) => Err(failure),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            output::note(&format!("jifl: {}", failure.message));
            ExitCode::from(failure.status)
        }
    }
}

/// Runs a command that is about a daemon's machine.
fn run_on(host: remote::host::Host, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Stat(args) => stat::run(&args, Some(&host)),
        Command::Top(args) => top::run(&args, Some(host)),
        Command::Search(args) => search::run(&args, Some(&host)),
        _ => Err(Failure::usage(
            "--host goes with stat, top and search: all else is about the machine it runs on (ssh)",
        )),
    }
}

fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Count(args) => count::run(args),
        Command::Trace(args) => trace::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Cover(args) => cover::run(&args),
        Command::Prof(args) => prof::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Stat(args) => stat::run(&args, None),
        Command::Top(args) => top::run(&args, None),
        Command::Search(args) => search::run(&args, None),
        Command::Serve(args) => serve::run(&args),
        Command::Branch(args) => branch::run(&args),
        Command::Lock(args) => lock::run(&args),
        Command::Mem(args) => mem::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Flight(args) => flight::run(&args),
        Command::Dump(args) => dump::run(args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Cfg(args) => cfg::run(&args),
        Command::Callers(args) => analyze::run_calls(&args, true),
        Command::Callees(args) => analyze::run_calls(&args, false),
        Command::Path(args) => analyze::run_path(&args),
        Command::Replace(args) => replace::run(&args),
        Command::Optimize(args) => optimize::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::List(args) => list::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Detach(args) => status::run_detach(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Load(args) => plugin::run_load(&args),
        Command::Start(args) => plugin::run_switch(&args, true),
        Command::Stop(args) => plugin::run_switch(&args, false),
        Command::Read(args) => read::run(&args),
        Command::Unload(args) => plugin::run_unload(&args),
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Vm(args) => vm::run(args),
        Command::Completions(args) => generate::run_completions(&args, Cli::command()),
        Command::Man(args) => generate::run_man(&args, Cli::command()),
        Command::BenchPeers(args) => bench::run_peers(&args),
        Command::CheckStructure(args) => analyze::run_check(&args),
        Command::DeadPlaces(args) => analyze::run_dead(&args),
    }
}
