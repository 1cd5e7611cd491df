//! One binary for all tests of the program: they share their helpers and link once.

mod allocation;
mod attacks;
mod basis_cli;
mod class_numbers;
mod cli;
mod corrupt;
mod duplicates;
mod errors;
mod faults;
mod forms;
mod full;
mod golden;
mod hostile;
mod id_columns;
mod kernel;
mod label_kernels;
mod many_groups;
mod memory;
mod memory_sweep;
mod options;
#[allow(dead_code)]
mod oracle;
mod partitions;
mod pipelines;
mod places;
mod planted;
mod printing;
mod races;
mod readme;
mod residuals;
mod row_nulls;
mod rules;
mod shards;
mod skips;
mod soak;
mod states;
mod supervised;
mod survival;
mod theory;
mod widths;
mod workdir;
mod writers;

#[global_allocator]
static ALLOCATOR: allocation::Watched = allocation::Watched;
