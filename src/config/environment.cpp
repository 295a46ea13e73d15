#include "spillway/config/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "spillway/core/error.h"

namespace spillway::config {
namespace {

constexpr int kMostRanks = 1 << 20;

/// Names of one launcher's variables.
struct Launcher {
  const char* name;
  const char* size;
  const char* rank;
  const char* local_size;  ///< null: cannot be known
  const char* local_rank;
};

constexpr Launcher kLaunchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    // SLURM_NTASKS is also there in a job's own shell, where one process runs: only srun sets
    // these.
    {"slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
};

/// A number in [low, high] written in digits only. Slurm writes "8(x2)": 8 on each of 2 nodes.
int parse(const std::string& name, const std::string& text, int low, int high) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool slurm_list =
      name == "SLURM_STEP_TASKS_PER_NODE" && stop != end && (*stop == '(' || *stop == ',');
  if (error != std::errc() || (stop != end && !slurm_list) || number < low || number > high) {
    throw ConfigError(
        fmt::format("{}='{}' is not a whole number in [{}, {}]; set or unset all "
                    "variables of the launcher together",
                    name, text.substr(0, 60), low, high));
  }
  return number;
}

std::optional<int> read_number(const Environment& environment, const char* name, int low,
                               int high) {
  if (name == nullptr) return std::nullopt;
  const auto text = environment(name);
  if (!text) return std::nullopt;
  return parse(name, *text, low, high);
}

World read_launcher(const Environment& environment, const Launcher& launcher) {
  World world;
  world.launcher = launcher.name;
  const auto size = read_number(environment, launcher.size, 1, kMostRanks);
  const auto rank = read_number(environment, launcher.rank, 0, size.value_or(kMostRanks) - 1);
  if (!size || !rank) {
    throw ConfigError(fmt::format("{} is set but {} is not; set both or neither",
                                  size ? launcher.size : launcher.rank,
                                  size ? launcher.rank : launcher.size));
  }
  world.size = *size;
  world.rank = *rank;
  world.local_size =
      read_number(environment, launcher.local_size, 1, world.size).value_or(world.size);
  world.local_rank = read_number(environment, launcher.local_rank, 0, world.local_size - 1)
                         .value_or(world.rank % world.local_size);
  return world;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

World read_world(const Environment& environment) {
  World world;
  for (const auto& launcher : kLaunchers) {
    const bool by_slurm = std::string_view(launcher.name) == "slurm";
    const bool there = environment(launcher.size) || (!by_slurm && environment(launcher.rank));
    if (!there) continue;
    world = read_launcher(environment, launcher);
    break;
  }
  if (const auto address = environment("MASTER_ADDR"); address && !address->empty()) {
    world.master_address = *address;
  }
  world.master_port = read_number(environment, "MASTER_PORT", 1, 65535).value_or(world.master_port);
  return world;
}

std::vector<std::filesystem::path> recipe_folders(const Environment& environment,
                                                  const std::filesystem::path& executable) {
  std::vector<std::filesystem::path> folders;
  if (const auto list = environment("SPILLWAY_RECIPES"); list && !list->empty()) {
    std::string_view rest = *list;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(':'), rest.size());
      if (end > 0) folders.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return folders;
  }
  const auto home = executable.parent_path();
  std::error_code error;
  for (const auto* place : {"../share/spillway/recipes", "recipes", "../recipes", "../../recipes",
                            "../../../recipes"}) {
    const auto folder = (home / place).lexically_normal();
    // The file of other names tells a folder of recipes from any folder of that name.
    if (std::filesystem::is_regular_file(folder / "aliases.yaml", error)) return {folder};
  }
  return {};
}

std::filesystem::path this_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace spillway::config
