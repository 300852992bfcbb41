// A job of Slurm that fills one results folder. Several runners work side by side, and successively where a
// time limit cuts them off.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

struct JobScript {
  std::string program;                 // path of plumbline, the same on all hosts
  std::vector<std::string> arguments;  // of `plumbline`, as they were given
  std::string folder;                  // of the results; takes the jobs' output
  std::string working_folder;          // that relative paths are meant from
  int jobs = 1;                        // runners side by side: tasks of the array
  int ranks = 1;                       // of the largest cell
  std::vector<std::string> options;    // for sbatch, given by the user: "--time=1:00:00"
};

/// The script for sbatch. A minute before the time limit every runner stops its cell and its job is queued
/// again; a later job does the missing cells.
std::string job_script(const JobScript& job);

/// Arguments of a runner within the job: those of the command line without the ones for this start alone
/// (--launcher, --print-job, --jobs, --job-option, --out, --hostfile), then the folder, --share and
/// --launcher mpirun.
std::vector<std::string> runner_arguments(const std::vector<std::string>& arguments,
                                          const std::string& folder);

/// Writes the script to FOLDER/job.sh and submits it with sbatch; returns sbatch's output. Throws InputError
/// when there is no sbatch, and Error when it refuses.
std::string submit_job(const JobScript& job);

}  // namespace plumbline
