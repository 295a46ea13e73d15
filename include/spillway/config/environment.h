// Every environment variable that Spillway reads, strictly parsed, in one place.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spillway::config {

/// Looks a variable up; null if it is not set. A function, so that tests bring their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The process's own variables.
[[nodiscard]] Environment process_environment();

/// How many processes train together, and which of them this is.
struct World {
  int size = 1;
  int rank = 0;        ///< [0, size)
  int local_size = 1;  ///< processes of this machine
  int local_rank = 0;  ///< [0, local_size)
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  std::string launcher = "none";  ///< torchrun, mpirun, slurm or none
};

/// What torchrun (WORLD_SIZE, RANK, LOCAL_WORLD_SIZE, LOCAL_RANK), mpirun (OMPI_COMM_WORLD_*, or
/// PMI_* with MPI_LOCAL*) or srun (SLURM_STEP_NUM_TASKS, SLURM_PROCID, SLURM_LOCALID,
/// SLURM_STEP_TASKS_PER_NODE) say, in that order; one process if none does. MASTER_ADDR and
/// MASTER_PORT with any of them. Throws ConfigError that names the variable.
[[nodiscard]] World read_world(const Environment& environment);

/// Where recipes are looked for: the folders of SPILLWAY_RECIPES (separated by ':') if it is set,
/// else `share/spillway/recipes` beside the executable's folder, else `recipes` in the executable's
/// folder or up to three above it (the source tree around a build folder).
[[nodiscard]] std::vector<std::filesystem::path> recipe_folders(
    const Environment& environment, const std::filesystem::path& executable);

/// The running program's file.
[[nodiscard]] std::filesystem::path this_executable();

}  // namespace spillway::config
